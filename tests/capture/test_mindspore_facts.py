"""What recording in MindSpore on CPU rests on; a test that fails says what has changed there."""

from __future__ import annotations

import importlib.metadata

import ml_dtypes
import numpy as np
import pytest

pytestmark = pytest.mark.mindspore

mindspore = pytest.importorskip("mindspore")
from mindspore import Tensor, mint, nn, ops  # noqa: E402

from troubleshooter_nb.frameworks import mindspore_recording as recording  # noqa: E402


@pytest.fixture
def x():
    return Tensor(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4))


class Gives(nn.Cell):
    """Gives its input twice, as a dict."""

    def construct(self, x):
        return {"left": x * 2, "right": [x * 3]}


def test_bfloat16_comes_across_because_numpy_is_the_one_mindspore_was_compiled_with(x):
    assert int(importlib.metadata.version("numpy").partition(".")[0]) < 2
    array = recording.copied(x.astype(mindspore.bfloat16))
    assert array.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(array, x.asnumpy().astype(ml_dtypes.bfloat16))


def test_no_function_tells_whether_kernels_are_waited_for():
    """`launch_blocking` must be called before the first operation, and nothing can check that."""
    assert [name for name in dir(mindspore.runtime) if "blocking" in name] == ["launch_blocking"]


def test_what_asnumpy_gives_changes_with_the_tensor_and_a_copy_does_not(x):
    view, copy = x.asnumpy(), recording.copied(x)
    x[0] = 9.0
    assert view[0, 0] == 9.0
    assert copy[0, 0] == -1.0


def test_backward_hooks_of_cells_are_wrong_for_a_dict_and_those_of_tensors_are_right(x):
    net, of_cell, of_tensors, handles = Gives(), [], {}, []

    def backward(cell, of_inputs, of_outputs):
        of_cell.append(of_outputs)

    def after(args, kwargs, output, raised):
        for name, leaf in (("left", output["left"]), ("right", output["right"][0])):
            receive = of_tensors.setdefault(name, []).append
            handles.append(recording.watch_gradient(leaf, receive))

    def forward(x):
        out = net(x)
        return (out["left"] * 5 + out["right"][0] * 7).sum()

    (layer,) = recording.layers(net, "boundary")[0]
    handles += recording.watch_calls(layer, lambda *a: None, after)
    mindspore.grad(forward)(x)
    assert {name: float(g[0].asnumpy()[0, 0]) for name, g in of_tensors.items()} == {
        "left": 5.0,
        "right": 7.0,
    }
    for handle in handles:
        handle.remove()
    handle = net.register_backward_hook(backward)
    mindspore.grad(forward)(x)
    handle.remove()
    assert float(of_cell[0][0].asnumpy()[0, 0]) == 2 * 5 + 3 * 7  # that of the input


def test_compiled_code_calls_no_hook_and_says_nothing(x):
    net, seen = nn.Dense(4, 4), []
    (layer,) = recording.layers(net, "boundary")[0]
    handles = recording.watch_calls(
        layer, lambda *a: seen.append("in"), lambda *a: seen.append("out")
    )
    mindspore.jit(net)(x)
    assert seen == []
    net(x)
    assert seen == ["in", "out"]
    for handle in handles:
        handle.remove()


def test_tensordump_has_no_kernel_in_compiled_code(x, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dump = ops.TensorDump()

    @mindspore.jit
    def forward(x):
        dump("x", x)
        return x + 1

    with pytest.raises(RuntimeError, match=r"(?i)kernel"):
        forward(x).asnumpy()


def test_functions_of_mint_have_no_kernel_on_cpu_where_those_of_nn_have(x):
    with pytest.raises(RuntimeError, match="LayerNormExt"):
        mint.nn.functional.layer_norm(x, (4,)).asnumpy()
    assert nn.LayerNorm((4,))(x).shape == (3, 4)


@pytest.mark.parametrize("name", ["mul_", "add_", "sub_", "div_"])
def test_methods_in_place_leave_the_tensor_as_it_is(x, name):
    """So a value that was read stays true; item assignment is what changes it."""
    before = recording.copied(x)
    getattr(x, name)(2)
    np.testing.assert_array_equal(x.asnumpy(), before)


def test_no_counter_tells_of_a_write(x):
    versions = [x._version]
    x[0] = 1.0
    versions.append(x._version)
    assert versions[0] == versions[1]
    assert recording.version(x) is None


def test_tanh_in_single_precision_is_an_approximation():
    values = np.linspace(-6, 6, 4001, dtype=np.float32)
    error = np.abs(ops.tanh(Tensor(values)).asnumpy() - np.tanh(values.astype(np.float64)))
    assert 1e-5 < error.max() < 1e-3


def test_a_cell_starts_in_evaluation(x):
    layer = recording.layers(nn.BatchNorm2d(4), "boundary")[0][0]
    assert layer.settings["training"] is False
    layer.module.set_train()
    assert recording.layers(layer.module, "boundary")[0][0].settings["training"] is True


def test_a_shared_cell_is_listed_once_with_its_other_paths():
    net = nn.Cell()
    net.first = nn.Dense(4, 4)
    net.second = net.first
    layers = recording.layers(net, "boundary")[0]
    assert [(layer.path, layer.aliases) for layer in layers] == [("", ()), ("first", ("second",))]


def test_the_gradient_past_a_view_whose_base_is_written_is_wrong_without_any_hook(x):
    """So a recorder cannot repair it: the first row of the view is a constant when it is used."""

    def forward(x):
        base = x * 1
        view = base.view(12)
        base[0] = 0.0
        return (view * 2).sum()

    np.testing.assert_array_equal(mindspore.grad(forward)(x).asnumpy(), np.full((3, 4), 2.0))
