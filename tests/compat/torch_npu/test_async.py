"""`wrap_async_datadump_hook`: one array per tensor, whose name says how to read it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.compat.torch_npu.hooks import (
    register_hook,
    schedule,
    step_schedule,
    wrap_async_datadump_hook,
)
from troubleshooter_nb.naming.hooks import parse_async_name

torch = pytest.importorskip("torch")

from tests.compat.torch_npu.nets import Known, Mixed, images  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:wrap_async_datadump_hook writes its files at once"),
]


def dumped(folder: Path, run, **keywords) -> dict[str, np.ndarray]:
    """The tensors of what a function does, by label and position, each read as its name says."""
    with register_hook(torch.nn.Module(), wrap_async_datadump_hook, path=folder, **keywords):
        run()
    return read(folder)


def read(folder: Path) -> dict[str, np.ndarray]:
    found = {}
    for file in folder.iterdir():
        parsed = parse_async_name(file.stem)
        assert parsed is not None
        assert (parsed.offset, parsed.format) == (0, 2)
        storage = np.load(file).reshape(-1)
        steps = [step * storage.itemsize for step in parsed.stride]
        label = file.name.partition("_shape")[0]
        found[label] = np.lib.stride_tricks.as_strided(storage, parsed.shape, steps)
    return found


def assert_holds(array: np.ndarray, tensor) -> None:
    assert array.dtype == tensor.numpy().dtype
    np.testing.assert_array_equal(array, tensor.numpy())


def test_a_mixed_net_has_the_values_of_its_layers(tmp_path):
    """The asynchronous script of the document, on this net: steps 1 and 2 of four."""
    net = Mixed()
    known = Known(net).values
    register_hook(net, wrap_async_datadump_hook, path=str(tmp_path / "a"), schedule=schedule(1, 2))
    for step in range(4):
        net(images(step)).square().sum().backward()
        if step == 1:
            values = dict(known)
            gradient = net.convolution.weight.grad.clone()
        net.zero_grad()
        step_schedule.step()
    found = read(tmp_path / "a")
    packets = {int(label.partition("_")[0]) for label in found}
    assert packets == set(range(len(packets)))  # of both steps, none left out
    assert_holds(found["0_Functional_conv2d_forward_input0"], images(1))
    assert_holds(found["1_Functional_conv2d_forward_output0"], values["convolution", "output"])
    backward = [label for label in found if "conv2d_backward" in label]
    first = min(int(label.partition("_")[0]) for label in backward)
    # The gradient of the images is None: the weight's is the first tensor.
    assert_holds(found[f"{first}_Functional_conv2d_backward_input0"], gradient)
    arriving = found[f"{first + 1}_Functional_conv2d_backward_output0"]
    assert_holds(arriving, values["convolution", "gradient"])
    assert len(backward) == 2 * 3


def test_every_dtype_and_tensors_without_axes_are_written(tmp_path):
    whole, flag, half = torch.tensor([1, 2]), torch.tensor(True), torch.tensor([1.5]).half()
    short, double = torch.tensor([0.1], dtype=torch.bfloat16), torch.tensor(1 / 3).double()
    complex_ = torch.tensor([1 + 2j])

    def run() -> None:
        for tensor in (whole, flag, half, double, complex_, short):
            torch.clone(tensor)

    found = dumped(tmp_path, run)
    for packet, tensor in enumerate((whole, flag, half, double, complex_)):
        assert_holds(found[f"{2 * packet}_Torch_clone_forward_input0"], tensor)
        assert_holds(found[f"{2 * packet + 1}_Torch_clone_forward_output0"], tensor)
    # numpy alone cannot read bfloat16.
    assert_holds(found["10_Torch_clone_forward_input0"], short.float())


def test_a_list_is_skipped_and_positions_count_tensors(tmp_path):
    x, index = torch.eye(3), torch.tensor([0])

    def run() -> None:
        torch.cat([x, x], 1)  # its input is no packet
        torch.index_select(x, 0, index)
        torch.max(x, 1)

    assert sorted(dumped(tmp_path, run)) == [
        "0_Torch_cat_forward_output0",
        "1_Torch_index_select_forward_input0",
        "1_Torch_index_select_forward_input1",
        "2_Torch_index_select_forward_output0",
        "3_Torch_max_forward_input0",
        "4_Torch_max_forward_output0",
        "4_Torch_max_forward_output1",
    ]


def test_views_are_read_as_their_names_say(tmp_path):
    x = torch.arange(24.0).reshape(4, 6)
    views = [x.t(), x[2:], x[:, ::2], x[0].expand(3, 6), x.unfold(1, 3, 1), x[1, 1], x[:0]]

    def run() -> None:
        for view in views:
            torch.neg(view)

    found = dumped(tmp_path, run)
    for number, view in enumerate(views):
        assert_holds(found[f"{2 * number}_Torch_neg_forward_input0"], view)
    names = {file.name.partition("_")[0]: file for file in tmp_path.iterdir()}
    assert "_shape[6,4]_stride[1,6]_" in names["0"].name
    assert "_shape[3,6]_stride[0,1]_" in names["6"].name
    assert np.load(names["6"]).size == 6


def test_more_than_a_hundred_tensors_are_numbered_on(tmp_path):
    x = torch.arange(130.0)
    found = dumped(tmp_path, lambda: torch.unbind(x))
    for position in (0, 17, 99, 117, 129):
        assert_holds(found[f"1_Torch_unbind_forward_output{position}"], x[position])


def test_our_own_reader_gives_the_tensors_again(tmp_path):
    net = Mixed()
    dumped(tmp_path, lambda: net(images()))
    dump = tnb.open_dump(tmp_path)
    (name,) = (name for name in dump.names if name.startswith("0_Functional_conv2d_forward_input1"))
    assert_holds(np.asarray(dump.array(name)), net.convolution.weight.detach())
    assert {*dump.to_dataframe()["status"]} == {"ok"}
