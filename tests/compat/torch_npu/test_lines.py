"""`wrap_acc_cmp_hook`: the lines of a run, beside values that were got without the hooks."""

from __future__ import annotations

import gc
import json
import math
import multiprocessing
import sys
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.compat.torch_npu.hooks import (
    register_hook,
    schedule,
    set_dump_path,
    step_schedule,
    wrap_acc_cmp_hook,
    wrap_checkoverflow_hook,
)
from troubleshooter_nb.compat.torch_npu.hooks.tools import compare

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from tests.compat.torch_npu.nets import (  # noqa: E402
    FixtureNet,
    Known,
    Mixed,
    images,
    lines_of,
    named_lines,
)

pytestmark = pytest.mark.torch
DATA = Path(__file__).parents[2] / "data/torch_npu_hooks"
# Made here, because torch.ones is an operator that has lines too.
TWO = torch.ones(2)
TWO_BY_THREE = torch.ones(2, 3)


@pytest.fixture
def file(tmp_path):
    """A file that lines go to."""
    set_dump_path(tmp_path / "op.pkl")
    return tmp_path / "op.pkl"


def dumped(file: Path, run, **keywords) -> list[list]:
    """The lines of what a function does."""
    with register_hook(nn.Module(), wrap_acc_cmp_hook, **{"sample": False, **keywords}):
        run()
    return lines_of(file) if file.exists() else []


def names(lines: list[list]) -> list[str]:
    return [line[0].partition("_")[2] for line in lines]


def values(line: list) -> np.ndarray:
    return np.array(line[1], np.float32).reshape(line[3])


def is_exact(line: list, tensor) -> bool:
    """Whether a line holds exactly this tensor."""
    return line[2] == str(tensor.dtype) and np.array_equal(values(line), tensor.float().numpy())


# The net of the fixtures


@pytest.mark.parametrize("sample", [False, True])
def test_the_net_of_the_fixture_gives_the_lines_of_the_old_tool(file, sample):
    net = FixtureNet()
    lines = dumped(file, lambda: net().backward(), sample=sample)
    folder = "module_sampled" if sample else "module_full"
    want = lines_of(DATA / folder / "bench.pkl")
    assert [(line[0], *line[2:]) for line in lines] == [(line[0], *line[2:]) for line in want]
    for ours, theirs in zip(lines, want, strict=True):
        # Another torch, or another processor, may sum in another order; a gradient that is only
        # what rounding left of sums of values near 1 has other noise then.
        got, expected = (np.array(line[1], np.float32) for line in (ours, theirs))
        distance = np.abs(got - expected) / np.spacing(np.float32(max(np.abs(expected).max(), 1)))
        assert distance.max() <= 4, ours[0]


def test_a_file_of_ours_reads_and_compares_as_one_of_the_old_tool(file, tmp_path):
    """Cases 1, 2 and 8 on our own files."""
    net = FixtureNet()
    dumped(file, lambda: net().backward())
    dump = tnb.open_dump(file)
    assert len(dump) == 49
    assert dump["0_Functional_linear_forward_input.0"].shape == (6, 5)
    assert dump.names[-1] == "48_Functional_linear_backward_output.0"
    assert any("every value" in note for note in dump.notes)
    compare(file, DATA / "module_full/bench.pkl", tmp_path / "out.csv")
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 50


def test_a_sampled_file_of_ours_is_recognised(file):
    net = FixtureNet()
    dumped(file, lambda: net().backward(), sample=True)
    dump = tnb.open_dump(file)
    assert any("first 10 values, max, min, mean" in note for note in dump.notes)


# A net of another kind


def test_a_mixed_net_has_the_values_of_its_layers(file):
    net, batch = Mixed(), images()
    known = Known(net).values
    register_hook(net, wrap_acc_cmp_hook, sample=False)
    net(batch).square().sum().backward()
    lines = named_lines(file)
    assert is_exact(lines["Functional_conv2d_forward_input.0"][0], batch)
    assert is_exact(lines["Functional_conv2d_forward_input.1"][0], net.convolution.weight.detach())
    assert is_exact(lines["Functional_conv2d_forward_output"][0], known["convolution", "output"])
    for name in ("Torch_batch_norm", "Functional_batch_norm"):
        assert is_exact(lines[f"{name}_forward_input.0"][0], known["norm", "input"])
        assert is_exact(lines[f"{name}_forward_output"][0], known["norm", "output"])
    for call, layer in enumerate(("query", "key", "value", "head")):
        assert is_exact(lines["Functional_linear_forward_input.0"][call], known[layer, "input"])
        assert is_exact(lines["Functional_linear_forward_output"][call], known[layer, "output"])


def test_a_mixed_net_has_the_gradients_of_its_layers(file):
    """Backward, the first visits of a file are the last ones of the net."""
    net = Mixed()
    known = Known(net).values
    register_hook(net, wrap_acc_cmp_hook, sample=False)
    net(images()).square().sum().backward()
    lines = named_lines(file)
    assert is_exact(
        lines["Functional_conv2d_backward_output.0"][0], known["convolution", "gradient"]
    )
    assert is_exact(lines["Functional_conv2d_backward_input.1"][0], net.convolution.weight.grad)
    assert is_exact(lines["Functional_conv2d_backward_input.2"][0], net.convolution.bias.grad)
    assert "Functional_conv2d_backward_input.0" not in lines  # of images, which need none
    assert is_exact(lines["Functional_linear_backward_output.0"][0], known["head", "gradient"])
    # bias, x, weight transposed: the order of the graph, not that of the arguments.
    assert is_exact(lines["Functional_linear_backward_input.0"][0], net.head.bias.grad)
    assert is_exact(lines["Functional_linear_backward_input.2"][0], net.head.weight.grad.t())
    soft = lines["Tensor_softmax_backward_output.0"], lines["Functional_softmax_backward_output.0"]
    assert soft[0][0][1:] == soft[1][0][1:]


def test_batch_norm_is_given_its_running_mean_as_it_was(file):
    """The old tool read it after the call, which changes it (case 34)."""
    net = Mixed()
    register_hook(net, wrap_acc_cmp_hook, sample=False)
    net(images())
    before = named_lines(file)["Functional_batch_norm_forward_input.1"][0]
    assert not values(before).any()
    assert net.norm.running_mean.abs().min() > 0


def test_two_copies_of_a_mixed_net_compare_as_equal(tmp_path):
    """The residual script of the document, on this net."""
    first, second = Mixed().eval(), Mixed().eval()
    register_hook(first, wrap_acc_cmp_hook)
    register_hook(second, wrap_acc_cmp_hook)
    for name, net in (("bench", first), ("tested", second)):
        set_dump_path(str(tmp_path / f"{name}.pkl"))
        nn.CrossEntropyLoss()(net(images()), torch.tensor([0, 2])).backward()
    compare(tmp_path / "tested.pkl", tmp_path / "bench.pkl", tmp_path / "out.csv")
    rows = [line.split(",") for line in (tmp_path / "out.csv").read_text().splitlines()[1:]]
    assert len(rows) == len(lines_of(tmp_path / "bench.pkl")) > 40
    assert all(row[0] == row[1] and row[-2] in ("0.0", "") for row in rows)
    assert (tmp_path / "tested.pkl").read_bytes() == (tmp_path / "bench.pkl").read_bytes()


def test_a_perturbed_mixed_net_differs_from_its_last_layer_on(tmp_path):
    """The accuracy script of the document, on this net."""
    net = Mixed()
    register_hook(net, wrap_acc_cmp_hook, sample=False)
    for name in ("bench", "tested"):
        set_dump_path(str(tmp_path / f"{name}.pkl"))
        net(images()).sum()
        net.head.weight.data = torch.from_numpy(net.head.weight.data.numpy() * np.float32(1.01))
    compare(tmp_path / "tested.pkl", tmp_path / "bench.pkl", tmp_path / "out.csv", True)
    rows = [line.rsplit(",", 3) for line in (tmp_path / "out.csv").read_text().splitlines()[1:]]
    differs = [row[0].split(",")[0] for row in rows if row[2] not in ("0.0", "")]
    # The running mean was moved by the first run, and the norm does not look at it.
    moved = [name for name in differs if "batch_norm" in name]
    assert all(name.endswith(("input.1", "input.2", "input.3", "input.4")) for name in moved)
    rest = [name.partition("_")[2] for name in differs if name not in moved]
    # What the sum was given comes behind the last output, and is dropped.
    assert rest == ["Functional_linear_forward_input.1", "Functional_linear_forward_output"]


# What a line is


def test_only_positional_floating_tensors_with_axes_have_lines(file):
    x = torch.tensor([[-1.0, 2.0]])
    index = torch.tensor([0])

    def run() -> None:
        F.relu(input=x)  # Torch_relu alone is given it by its place
        torch.add(x, torch.tensor(3.0))
        torch.index_select(x, 0, index)
        torch.max(x, 1)
        torch.argmax(x)
        torch.clamp(x, 0.0, 1.0)
        torch.abs(torch.view_as_complex(x))

    assert names(dumped(file, run)) == [
        "Torch_relu_forward_input.0",
        "Torch_relu_forward_output",
        "Functional_relu_forward_output",
        "Torch_add_forward_input.0",
        "Torch_add_forward_output",
        "Torch_index_select_forward_input.0",
        "Torch_index_select_forward_output",
        "Torch_max_forward_input.0",
        "Torch_max_forward_output.0",
        "Torch_argmax_forward_input.0",
        "Torch_clamp_forward_input.0",
        "Torch_clamp_forward_output",
        "Torch_abs_forward_output",
    ]


def test_positions_follow_lists_and_tuples(file):
    x = torch.ones(2, 3)

    def run() -> None:
        torch.cat([x, x], 1)
        torch.chunk(x, 1)  # a tuple of one
        torch.unbind(x)

    assert names(dumped(file, run)) == [
        "Torch_cat_forward_input.0.0",
        "Torch_cat_forward_input.0.1",
        "Torch_cat_forward_output",
        "Torch_chunk_forward_input.0",
        "Torch_chunk_forward_output.0",
        "Torch_unbind_forward_input.0",
        "Torch_unbind_forward_output.0",
        "Torch_unbind_forward_output.1",
    ]


def test_gradients_that_are_none_leave_a_gap(file):
    weight = torch.ones(2, 3, requires_grad=True)
    lines = dumped(file, lambda: F.linear(torch.ones(1, 3), weight, torch.ones(2)).sum().backward())
    backward = [name for name in names(lines) if name.startswith("Functional_linear_backward")]
    assert backward == ["Functional_linear_backward_input.2", "Functional_linear_backward_output.0"]


@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        (torch.float16, "torch.float16"),
        (torch.bfloat16, "torch.bfloat16"),
        (torch.float64, "torch.float64"),
    ],
)
def test_other_floats_are_cast_and_keep_their_name(file, dtype, text):
    x = torch.tensor([1 / 3, -2.0, 1e30 if dtype != torch.float16 else 6e4], dtype=dtype)
    line = dumped(file, lambda: torch.abs(x))[0]
    assert line[2] == text
    assert line[1] == x.float().tolist()


def test_what_is_not_finite_is_a_bare_word(file):
    x = torch.tensor([math.nan, math.inf, -math.inf, 1e300], dtype=torch.float64)
    dumped(file, lambda: torch.neg(x))
    text = file.read_text().splitlines()[0]
    assert text == (
        '["0_Torch_neg_forward_input.0", [NaN, Infinity, -Infinity, Infinity], '
        '"torch.float64", [4]]'
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("view", ["plain", "transposed", "expanded", "sliced", "short"])
def test_a_sample_is_ten_values_and_what_torch_says_of_all(file, dtype, view):
    generator = torch.Generator().manual_seed(3)
    plain = torch.randn(37, 6, generator=generator).to(dtype)
    x = {
        "plain": plain,
        "transposed": plain.t(),
        "expanded": plain[:1].expand(5, 6),
        "sliced": plain[:, ::2],
        "short": plain[0, :2],
    }[view]
    line = dumped(file, lambda: torch.neg(x), sample=True)[0]
    statistics = [float(one.float()) for one in (x.max(), x.min(), x.mean())]
    assert line[1][:-3] == x.reshape(-1)[:10].float().tolist()
    assert line[1][-3:] == pytest.approx(statistics, rel=1e-6 if view == "sliced" else 0)
    assert line[3] == list(x.shape)


def test_an_empty_tensor_is_written(file):
    """The old tool stopped with the error of max()."""
    empty = torch.ones(0, 3)
    lines = dumped(file, lambda: torch.neg(empty), sample=True)
    assert [line[1:] for line in lines] == [
        [pytest.approx([math.nan] * 3, nan_ok=True), "torch.float32", [0, 3]]
    ] * 2
    shapes = tnb.open_dump(file).to_dataframe()["shape"]
    assert {*map(str, shapes)} == {"0x3"}


def test_what_works_in_place_shows_what_it_was_given(file):
    """Case 34; the old tool wrote [0, 2] twice."""
    x = torch.tensor([-1.0, 2.0])
    lines = dumped(file, lambda: torch.relu_(x))
    assert [line[:2] for line in lines] == [
        ["0_Torch_relu__forward_input.0", [-1.0, 2.0]],
        ["1_Torch_relu__forward_output", [0.0, 2.0]],
    ]


def test_a_call_that_raises_has_no_line(file):
    def run() -> None:
        with pytest.raises(RuntimeError, match="shapes"):
            torch.matmul(TWO_BY_THREE, TWO_BY_THREE)

    assert dumped(file, run) == []


def test_lines_are_in_the_file_as_soon_as_the_call_is_over(file):
    x = torch.ones(2, requires_grad=True)
    register_hook(nn.Module(), wrap_acc_cmp_hook)
    for count in (2, 4):
        x = torch.neg(x)
        assert len(lines_of(file)) == count
    x.sum().backward()
    assert names(lines_of(file))[-1] == "Torch_neg_backward_output.0"


def test_the_file_is_for_its_owner_alone(file):
    dumped(file, lambda: torch.neg(TWO))
    assert file.stat().st_mode & 0o777 == 0o600


def test_numbers_start_again_with_a_new_file_and_only_then(file, tmp_path):
    net = nn.Linear(2, 1)
    dumped(file, lambda: net(TWO))
    dumped(file, lambda: net(TWO))
    assert [line[0].partition("_")[0] for line in lines_of(file)] == [*"01234567"]
    set_dump_path(tmp_path / "other.pkl")
    assert names(dumped(tmp_path / "other.pkl", lambda: net(TWO)))[0] == names(lines_of(file))[0]
    assert lines_of(tmp_path / "other.pkl")[0][0].startswith("0_")
    assert len(lines_of(file)) == 8


def test_weights_that_were_written_past_the_graph_are_read_anew(file):
    net = nn.Linear(2, 1)
    register_hook(net, wrap_acc_cmp_hook, sample=False)
    for value in (1.0, 2.0, 3.0):
        net.weight.data.fill_(value)
        net(TWO)
    found = named_lines(file)["Functional_linear_forward_input.1"]
    assert [line[1] for line in found] == [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]


def test_numbers_of_the_net_do_not_change(file):
    plain, watched = Mixed(), Mixed()
    plain(images()).sum().backward()
    dumped(file, lambda: watched(images()).sum().backward())
    for one, other in zip(plain.parameters(), watched.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)


# Without a file, with two registrations, with a way back


def test_without_a_file_the_first_call_stops(tmp_path):
    register_hook(nn.Module(), wrap_acc_cmp_hook)
    with pytest.raises(AssertionError, match="call set_dump_path"):
        torch.neg(TWO)
    set_dump_path(tmp_path / "op.pkl")
    torch.neg(TWO)
    assert len(lines_of(tmp_path / "op.pkl")) == 2


def test_a_file_in_a_folder_that_is_not_there_stops_the_first_call(tmp_path):
    set_dump_path(tmp_path / "gone/op.pkl")
    register_hook(nn.Module(), wrap_acc_cmp_hook)
    with pytest.raises(FileNotFoundError, match=r"'.*gone' of the dump does not exist"):
        torch.neg(TWO)


def test_a_second_registration_replaces_the_first(file):
    first = register_hook(nn.Module(), wrap_acc_cmp_hook, sample=False)
    register_hook(nn.Module(), wrap_acc_cmp_hook, sample=False)
    torch.neg(TWO)
    assert len(lines_of(file)) == 2
    first.remove()  # which is gone, and takes nothing of the second
    torch.neg(TWO)
    assert len(lines_of(file)) == 4


def test_after_the_block_torch_is_as_it_was(file):
    """Case 35: every function that was replaced, and graphs that are still alive."""
    homes = (torch, torch.Tensor, F)
    before = [dict(vars(home)) for home in homes]
    relu, x = torch.relu, torch.ones(2, requires_grad=True)
    with register_hook(nn.Module(), wrap_acc_cmp_hook) as hooks:
        assert torch.relu is not relu
        assert repr(hooks) == "<wrap_acc_cmp_hook, in place>"
        y = torch.relu(x)
    assert torch.relu is relu
    assert repr(hooks) == "<wrap_acc_cmp_hook, removed>"
    for home, names_before in zip(homes, before, strict=True):
        now = dict(vars(home))
        assert {k for k in names_before if now.get(k) is not names_before[k]} == set()
        assert now.keys() == names_before.keys()
    count = len(lines_of(file))
    y.sum().backward()
    torch.relu(x)
    assert len(lines_of(file)) == count == 2


def test_the_import_alone_replaces_nothing():
    assert torch.relu.__module__ != "troubleshooter_nb"
    assert type(torch.relu) is type(torch.neg)


# Steps


def test_lines_of_scheduled_steps_alone(file):
    """The schedule script of the document, on the other net."""
    net = Mixed()
    register_hook(net, wrap_acc_cmp_hook, schedule=schedule(1, 5, 2))
    for _ in range(2):
        step_schedule.reset_step()
        counts = []
        for step in range(7):
            before = len(lines_of(file)) if file.exists() else 0
            net(images(step)).sum().backward()
            counts.append(len(lines_of(file)) - before if file.exists() else 0)
            step_schedule.step()
        assert len({*counts} - {0}) == 1
        assert [step for step, count in enumerate(counts) if count] == [1, 3, 5]


def test_two_steps_in_a_file_are_found_again(file):
    """Cases 20 and 21 on our own file."""
    net = FixtureNet()
    register_hook(net, wrap_acc_cmp_hook, schedule=schedule(1, 2))
    for _ in range(4):
        net().backward()
        step_schedule.step()
    lines = lines_of(file)
    assert len(lines) == 98
    assert lines[49][0].startswith("49_")
    dump = tnb.open_dump(file)
    assert any(note.startswith("2 steps of 49 lines") for note in dump.notes)


def test_any_function_of_the_step_will_do(file):
    register_hook(nn.Module(), wrap_acc_cmp_hook, schedule=lambda step: step == 1)
    for _ in range(3):
        torch.neg(TWO)
        step_schedule.step()
    assert len(lines_of(file)) == 2


def test_a_graph_that_is_run_in_a_step_that_is_left_out_has_no_lines(file):
    register_hook(nn.Module(), wrap_acc_cmp_hook, schedule=schedule(0, 0))
    loss = torch.neg(torch.ones(2, requires_grad=True)).sum()
    step_schedule.step()
    loss.backward()
    assert not any("backward" in line[0] for line in lines_of(file))


# Compiled and recomputed parts, optimizers


def test_a_compiled_net_runs_as_it_is_written(file):
    net, batch = nn.Sequential(nn.Linear(3, 2), nn.ReLU()), torch.ones(1, 3)
    compiled = torch.compile(net, backend="eager")
    plain = dumped(file, lambda: net(batch).sum().backward())
    set_dump_path(file)
    assert dumped(file, lambda: compiled(batch).sum().backward()) == plain


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_what_is_computed_again_for_the_gradients_has_no_second_lines(file, use_reentrant):
    """The old tool dumped it twice."""
    net, batch = nn.Linear(3, 2), torch.ones(1, 3, requires_grad=True)

    def run() -> None:
        checkpoint(net, batch, use_reentrant=use_reentrant).sum().backward()

    forward = [name for name in names(dumped(file, run)) if "linear_forward" in name]
    assert len(forward) == 4


def test_an_optimizer_has_no_lines(file):
    net = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, foreach=False)
    net(torch.ones(1, 3)).sum().backward()
    assert dumped(file, optimizer.step) == []


# Processes, threads and memory


def _neg_in_child() -> None:
    torch.neg(torch.ones(3))


def test_a_forked_worker_is_silent(file):
    register_hook(nn.Module(), wrap_acc_cmp_hook)
    torch.neg(TWO)
    worker = multiprocessing.get_context("fork").Process(target=_neg_in_child)
    worker.start()
    worker.join(60)
    assert worker.exitcode == 0
    assert len(lines_of(file)) == 2


class Negated(torch.utils.data.Dataset):
    """Batches that a worker computes."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.neg(torch.full((2,), float(index)))


def test_workers_of_a_loader_are_silent(file):
    register_hook(nn.Module(), wrap_acc_cmp_hook)
    loader = torch.utils.data.DataLoader(Negated(), num_workers=1, multiprocessing_context="fork")
    seen = [torch.abs(batch) for batch in loader]
    assert len(seen) == 4
    assert {name.split("_")[1] for name in names(lines_of(file))} == {"abs"}


def test_threads_have_whole_calls_in_the_file(file):
    register_hook(nn.Module(), wrap_acc_cmp_hook, sample=False)

    def work(tensor: torch.Tensor) -> None:
        for _ in range(50):
            F.relu(tensor.clone())

    tensors = [torch.tensor([value]) for value in (1.0, 2.0, 3.0)]
    threads = [threading.Thread(target=work, args=(tensor,)) for tensor in tensors]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # so that they meet inside of each other's calls
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    found = named_lines(file)
    for name in ("Torch_relu", "Functional_relu"):
        for place in ("input.0", "output"):
            lines = found[f"{name}_forward_{place}"]
            assert sorted(line[1][0] for line in lines) == [1.0] * 50 + [2.0] * 50 + [3.0] * 50


@pytest.mark.long
@pytest.mark.parametrize(
    "hook", [wrap_acc_cmp_hook, pytest.param(wrap_checkoverflow_hook, marks=pytest.mark.long)]
)
def test_nothing_grows_over_the_steps_although_nobody_ends_one(tmp_path, hook):
    """What is remembered after 140 steps is what was after 20: each has 60 KB of arrays."""
    set_dump_path(tmp_path / "op.pkl")
    net = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32), nn.Softmax(-1))
    hooks = register_hook(net, hook)

    def train(steps: int) -> int:
        for _ in range(steps):
            net(torch.ones(8, 32)).square().sum().backward()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = train(20)
        after = train(120)
    finally:
        tracemalloc.stop()
        hooks.remove()
    assert after - before < 60_000


# The documented way to read


def test_lines_are_read_by_json_alone(file):
    net, batch = Mixed(), images()
    register_hook(net, wrap_acc_cmp_hook)
    net(batch)
    with file.open() as dump:
        name, numbers, dtype, shape = json.loads(dump.readline())
    assert (name, dtype, shape) == (
        "0_Functional_conv2d_forward_input.0",
        "torch.float32",
        [2, 2, 3, 3],
    )
    statistics = [float(batch.max()), float(batch.min()), float(batch.mean())]
    assert numbers == [*batch.reshape(-1)[:10].tolist(), *statistics]
