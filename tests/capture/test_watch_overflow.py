"""A watch over a network that runs: where NaN, Inf and overflow begin, forward and backward."""

from __future__ import annotations

import gc
import json
import tracemalloc

import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.capture import cells, overflow_watch

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
INF = float("inf")


class Made(torch.nn.Module):
    """Gives 1 and more, in one step or in all with one element that is far too much."""

    def __init__(self, factor=1e30, when=None):
        super().__init__()
        self.factor = torch.tensor([[factor, 1.0, 1.0, 1.0], [1.0] * 4, [1.0] * 4])
        self.when, self.turn = when, -1

    def forward(self, x):
        self.turn += 1
        x = x.abs() + 1
        if self.when not in (None, self.turn):
            return x
        return x * self.factor * self.factor


class Between(torch.nn.Module):
    """Divides by zero between its layers."""

    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x):
        h = self.up(x)
        h = h / (h * 0)
        return self.down(h)


class SteepRoot(torch.nn.Module):
    """A root whose slope at zero is infinite; a layer of its own or not."""

    def forward(self, x):
        return (x * 0).abs().sqrt()


def chain(*inner):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 4), *inner, torch.nn.Linear(4, 4))


def batch():
    return torch.linspace(-1, 1, 12).reshape(3, 4)


def step(net, x=None):
    net(batch() if x is None else x).sum().backward()


def train(net, watch, count):
    for _ in range(count):
        step(net)
        watch.step()


def watched(net, count=1, **more):
    with tnb.watch_overflow(net, **more) as watch:
        train(net, watch, count)
    return watch.overflow


def kinds(found, way="forward"):
    return [(row["path"], row["kind"]) for row in found if row["direction"] == way]


def hooks(net):
    counted = sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in net.modules())
    counted += sum(len(p._backward_hooks or ()) for p in net.parameters())
    return counted, torch._C._len_torch_function_stack()


# Where it starts


def test_the_layer_that_makes_inf_is_told_with_its_line_and_its_step():
    found = watched(chain(Made(when=2)), count=4)
    first = found.first
    assert (first["kind"], first["path"], first["layer"]) == ("starts", "1", "Made")
    assert (first["step"], first["slot"], first["inf_count"], first["size"]) == (2, "0", 1, 12)
    assert first["dtype"] == "float32"
    assert "in step" in first["stack"].splitlines()[0]
    assert kinds(found)[1] == ("2", "passed_on")
    assert found.nonfinite_steps == (2,)
    assert found.steps == (0, 1, 2, 3)


def test_nan_made_between_layers_is_told_of_the_container_and_of_the_operator():
    assert kinds(watched(Between())) == [("", "starts"), ("down", "passed_on")]
    inner = watched(torch.nn.Sequential(Between()), level="both").first
    assert (inner["path"], inner["inside"]) == ("Tensor.div", "0")
    assert "h = h / (h * 0)" in inner["stack"]


def test_a_gradient_that_overflows_is_told_of_the_layer_whose_backward_made_it():
    found = watched(chain(SteepRoot()))
    first = found.first
    assert (first["path"], first["direction"], first["kind"]) == ("1", "backward", "starts")
    assert kinds(found) == []
    assert kinds(found, "backward") == [("1", "starts"), ("0", "passed_on")]


def test_a_gradient_made_between_layers_is_told_of_the_container():
    class Net(Between):
        def forward(self, x):
            return self.down((self.up(x) * 0).abs().sqrt())

    first = watched(Net()).first
    assert (first["path"], first["direction"], first["kind"]) == ("", "backward", "starts")
    assert first["slot"].startswith("parameters_grad.up.")


def test_what_was_infinite_in_forward_is_no_start_in_backward():
    found = watched(chain(Made()))
    assert {kind for _, kind in kinds(found, "backward")} <= {"passed_on", "recovered"}


def test_a_weight_that_is_nan_is_where_it_comes_from():
    net = torch.nn.Sequential(chain())
    with torch.no_grad():
        net[0][0].weight[0, 0] = float("nan")
    found = watched(net)
    assert (found.first["path"], found.first["source"]) == ("0.0", "parameters.weight")
    assert "starts" not in {row["kind"] for row in found}
    assert "is in the parameter weight of 0.0 (Linear)" in repr(found)


def test_a_shared_layer_is_innocent_of_what_its_other_use_did_to_its_gradient():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.shared, self.steep = torch.nn.Linear(4, 4), SteepRoot()

        def forward(self, x):
            return self.steep(self.shared(x)) + self.shared(x + 1)

    found = watched(Net())
    assert kinds(found, "backward")[0] == ("steep", "starts")
    assert ("shared", "starts") not in kinds(found, "backward")


def test_tied_weights_do_not_blame_the_layer_that_only_holds_them():
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 4))
    net[2].weight = net[0].weight
    with tnb.watch_overflow(net) as watch:
        (net(batch()) * 1e38).sum().mul(1e3).backward()
    assert ("2", "starts") not in kinds(watch.overflow, "backward")


def test_recomputation_is_told_once():
    from torch.utils.checkpoint import checkpoint

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.part = chain(Made())

        def forward(self, x):
            return checkpoint(self.part, x, use_reentrant=False)

    found = watched(Net())
    assert [row["times"] for row in found if row["kind"] == "starts"] == [1]


# What is no alarm


@pytest.mark.parametrize("level", ["module", "both"])
@pytest.mark.parametrize("action", ["collect", "raise"])
def test_masks_of_minus_infinity_are_no_alarm(level, action):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
            self.register_buffer("mask", torch.full((4, 4), -INF).triu(1))

        def forward(self, x):
            scores = x @ x.transpose(-1, -2) + self.mask
            return self.layer(scores.softmax(-1) @ x, src_mask=self.mask)

    net = Net()
    with tnb.watch_overflow(net, level=level, action=action) as watch:
        net(torch.randn(2, 4, 8)).sum().backward()
    assert not watch.overflow
    assert watch.overflow.calls > 0


def test_a_row_that_is_masked_whole_starts_in_its_softmax():
    class Net(torch.nn.Module):
        def forward(self, x):
            mask = torch.zeros(3, 4, dtype=torch.bool)
            mask[1] = True
            return x.masked_fill(mask, -INF).softmax(-1)

    net = Net()
    with tnb.watch_overflow(net, level="both") as watch:
        net(batch())
    assert kinds(watch.overflow) == [("Tensor.softmax", "starts")]
    assert watch.overflow.first["meant"] == 1
    said = " ".join(repr(watch).split())
    assert "finite, but for infinities that are meant, such as a mask" in said


def test_watching_changes_no_number():
    def run(watch):
        torch.manual_seed(1)
        net = torch.nn.Sequential(chain(torch.nn.Dropout(0.5), torch.nn.ReLU(inplace=True)))
        with watch(net):
            loss = net(batch()).square().mean()
            loss.backward()
        return [loss.detach(), *(p.grad for p in net.parameters()), torch.get_rng_state()]

    plain = run(lambda net: torch.enable_grad())
    for level in ("module", "both"):
        for one, other in zip(
            plain, run(lambda net, level=level: tnb.watch_overflow(net, level=level)), strict=True
        ):
            assert torch.equal(one, other)


# Loops


class Half(torch.nn.Linear):
    """Computes in float16, as autocast does."""

    def forward(self, x):
        return torch.nn.functional.linear(x.half(), self.weight.half(), self.bias.half())


def test_gradients_that_a_loss_scaler_lets_overflow_are_told_as_over():
    torch.manual_seed(0)
    net = torch.nn.Sequential(Half(16, 16), torch.nn.GELU(), Half(16, 4))
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**22, growth_interval=100)
    skipped = []
    with tnb.watch_overflow(net) as watch:
        for number in range(9):
            optimizer.zero_grad()
            loss = net(torch.randn(8, 16)).square().float().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            before = scaler.get_scale()
            scaler.update()
            skipped += [number] if scaler.get_scale() < before else []
            watch.step()
    found = watch.overflow
    assert skipped
    assert found.nonfinite_steps == tuple(skipped)
    assert kinds(found) == []
    text = repr(found)
    assert f"not finite in {len(skipped)} of 9 steps" in text
    assert f"all finite again after step {skipped[-1]}" in text
    assert "only gradients: a loss scaler skips such a step" in " ".join(text.split())


def test_the_same_in_many_steps_is_one_row_that_counts():
    net = chain(Made())
    short, long = watched(net, count=3), watched(net, count=9)
    assert len(short) == len(long)
    assert {row["times"] for row in long} == {9}
    assert {(row["step"], row["last_step"]) for row in long} == {(0, 8)}
    assert "×9" in repr(long)


@pytest.mark.long
def test_memory_is_flat_over_the_steps():
    net = chain(Made(1e19))
    with tnb.watch_overflow(net) as watch:
        tracemalloc.start()
        held = []
        for number in range(601):
            step(net)
            watch.step()
            if number in (200, 600):
                gc.collect()
                held.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    # A call alone takes some 2 kB.
    assert held[1] - held[0] < 60_000
    assert len(watch.overflow) > 0


def test_without_a_word_of_steps_memory_is_bounded_too(monkeypatch):
    monkeypatch.setattr(overflow_watch, "CALLS_OF_A_STEP", 40)
    net = chain(Made(when=60))
    most = 0
    with tnb.watch_overflow(net) as watch:
        for _ in range(100):
            step(net)
            most = max(most, len(watch._found._step))
    assert most <= 44
    assert watch.overflow.first["path"] == "1"
    assert watch.overflow.calls == 400


def test_only_the_steps_asked_for_are_watched():
    net = chain(Made())
    with tnb.watch_overflow(net, steps=[1]) as watch:
        step(net)
        assert hooks(net) == (0, 0)
        watch.step()
        step(net)
        watch.step()
        step(net)
    assert watch.overflow.steps == (1,)


def test_a_pause_is_not_watched():
    net = chain(Made())
    with tnb.watch_overflow(net) as watch, watch.pause():
        step(net)
        assert watch.state == "paused"
    assert not watch.overflow


def test_several_networks_have_their_names_in_front():
    nets = {"actor": chain(), "critic": chain(Made())}
    with tnb.watch_overflow(nets) as watch:
        for net in nets.values():
            step(net)
    assert watch.overflow.first["path"] == "critic.1"


# Limits


def test_values_near_the_limit_and_at_it_are_told():
    found = watched(chain(Made(1e19)), gradients=False)
    assert kinds(found)[0] == ("1", "near_limit")
    assert watched(chain(Made(1e19)), gradients=False, near=0.9).rows == ()

    class Clipped(torch.nn.Module):
        def forward(self, x):
            return (x.abs() * 1e6).clamp(max=65504).half()

    net = Clipped()
    with tnb.watch_overflow(net) as watch:
        net(batch())
    assert kinds(watch.overflow) == [("", "saturated")]


def test_near_the_limit_is_raised_where_near_is_said():
    net = chain(Made(1e19))
    with tnb.watch_overflow(net, action="raise") as watch:
        net(batch())
    assert kinds(watch.overflow)[0] == ("1", "near_limit")
    with pytest.raises(tnb.OverflowFoundError, match=r"1 \(Made\), step 0 comes nearest"):
        watched(chain(Made(1e19)), action="raise", near=0.1)


# Raising


@pytest.mark.parametrize("level", ["module", "both"])
def test_forward_raises_at_the_call_that_starts_it_and_leaves_nothing(level):
    net, called = chain(Made(when=1)), []
    net[2].register_forward_pre_hook(lambda *_: called.append(1))
    before = hooks(net)
    with (
        pytest.raises(ArithmeticError, match=r"Inf starts in .*, step 1 \(output\.0, 1 Inf of 12"),
        tnb.watch_overflow(net, action="raise", level=level) as watch,
    ):
        train(net, watch, 3)
    assert called == [1]  # of the step before
    assert hooks(net) == before
    assert watch.state == "broken"
    assert watch.overflow.first["kind"] == "starts"
    step(net)


def test_the_error_says_layer_slot_counts_dtype_line_and_step():
    with pytest.raises(tnb.OverflowFoundError) as caught:
        watched(chain(Made()), action="raise", level="both")
    text = str(caught.value)
    for part in ("in 1", "step 0", "output.0", "1 Inf of 12 elements", "float32", "test_watch_"):
        assert part in text
    assert isinstance(caught.value, tnb.TroubleshooterError)
    with tnb.option_context(language="zh"):
        assert "起源于" in str(caught.value)


@pytest.mark.parametrize("level", ["module", "both"])
def test_backward_raises_before_the_gradients_of_earlier_layers_are_there(level):
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), chain(SteepRoot()))
    with (
        pytest.raises(tnb.OverflowFoundError, match=r"NaN starts in the backward of 1\.1"),
        tnb.watch_overflow(net, action="raise", level=level),
    ):
        step(net)
    assert net[0].weight.grad is None
    assert net[1][2].weight.grad is not None
    assert hooks(net) == (0, 0)


def test_what_comes_in_with_the_data_is_raised_too():
    net, x = chain(), batch()
    x[0, 0] = float("nan")
    with (
        pytest.raises(tnb.OverflowFoundError, match=r"NaN comes in with input 0 of 0 \(Linear\)"),
        tnb.watch_overflow(net, action="raise"),
    ):
        step(net, x)


def test_what_is_made_between_layers_is_raised_at_the_next_layer_and_told_of_the_container():
    net = torch.nn.Sequential(Between())
    said = r"Inf starts between the layers of 0: it comes in with input 0 of 0\.down \(Linear\)"
    with (
        pytest.raises(tnb.OverflowFoundError, match=said),
        tnb.watch_overflow(net, action="raise"),
    ):
        step(net)


def test_a_watch_that_raised_takes_its_hooks_away_without_a_stop():
    net = chain(Made())
    watch = tnb.watch_overflow(net, action="raise").start()
    with pytest.raises(tnb.OverflowFoundError):
        step(net)
    assert hooks(net) == (0, 0)
    with pytest.raises(tnb.ArgumentError, match="the recording is broken"):
        watch.step()


def step_of_broken(watch):
    with pytest.raises(tnb.ArgumentError, match="the recording is broken"):
        watch.step()


LATER_CALLS = {
    "stop": lambda watch: watch.stop(),
    "overflow": lambda watch: watch.overflow,
    "step": step_of_broken,
    "start": lambda watch: watch.start().stop(),
}


@pytest.mark.parametrize("later", LATER_CALLS)
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_watch_of_operators_that_raised_is_broken_and_gone_with_the_next_call(direction, later):
    net = chain(Made()) if direction == "forward" else chain(SteepRoot())
    watch = tnb.watch_overflow(net, action="raise", level="both").start()
    with pytest.raises(tnb.OverflowFoundError):
        step(net)
    assert watch.state == "broken"
    assert hooks(net)[0] == 0
    torch.nn.functional.relu(batch() / 0)  # its mode may be there yet, and does nothing
    LATER_CALLS[later](watch)
    assert hooks(net) == (0, 0)
    assert "Functional.relu" not in {row["path"] for row in watch.overflow}


def test_a_watch_of_operators_that_raised_leaves_the_modes_of_others_as_they_were():
    net = chain(Made())
    first = tnb.record(net, level="api").start()
    watch = tnb.watch_overflow(net, action="raise", level="both").start()
    last = tnb.record(net, level="api").start()
    with pytest.raises(tnb.OverflowFoundError):
        step(net)
    assert watch.overflow.first["kind"] == "starts"
    assert hooks(net)[1] == 2
    torch.nn.functional.relu(batch())
    for rec in (first, last):
        assert "Functional.relu" in rec.stop().index["path"].values
    assert hooks(net) == (0, 0)


# In a notebook


@pytest.fixture
def shell(monkeypatch):
    interactive = pytest.importorskip("IPython.core.interactiveshell")
    made = interactive.InteractiveShell()
    made.kernel = object()  # a notebook's, whose cells are known by their text
    monkeypatch.setattr(cells, "_shell", lambda: made)
    return made


def test_a_cell_that_raised_leaves_no_operator_watched(shell, capsys):
    net = chain(Made())
    watch = tnb.watch_overflow(net, action="raise", level="both")
    shell.push({"watch": watch, "step": step, "net": net})
    result = shell.run_cell("watch.start(); step(net)")
    assert isinstance(result.error_in_exec, tnb.OverflowFoundError)
    assert hooks(net) == (0, 0)
    assert watch.state == "broken"
    assert "OverflowFoundError" in capsys.readouterr().out


def test_a_cell_run_again_replaces_what_it_found(shell):
    net = chain(Made())
    watch = tnb.watch_overflow(net)
    shell.push({"watch": watch, "step": step, "net": net})
    for cell in ("watch.start();", "step(net); watch.step()", "step(net); watch.step()"):
        shell.run_cell(cell, store_history=True).raise_error()
    assert {row["times"] for row in watch.overflow} == {1}
    assert watch.stop().steps == (0,)
    assert watch.overflow.calls == 4


# How it is shown


def test_reprs_say_what_was_watched_and_that_nothing_was_found():
    net = chain()
    watch = tnb.watch_overflow(net)
    assert "nothing was watched yet: run the network" in repr(watch)
    with watch:
        pass
    assert "nothing was watched: no call was recorded" in repr(watch)
    with watch:
        step(net)
    found = watch.overflow
    assert repr(watch) == repr(found)
    assert "no NaN, no Inf, nothing near the limit of its dtype" in repr(found)
    assert "watched: 3 calls," in repr(found)
    assert "watched: 3 calls," in found._repr_html_()
    assert not found
    assert len(found) == 0
    assert found.first is None
    with tnb.option_context(language="zh"):
        assert "没有 NaN" in repr(found)


def test_the_table_has_a_row_of_each(tmp_path):
    found = watched(chain(Made()), count=2)
    table = found.to_dataframe()
    assert list(table["kind"])[:2] == ["starts", "passed_on"]
    assert list(table["times"])[:2] == [2, 2]
    page = tnb.export(found, tmp_path / "found.html")
    assert "Inf starts in 1 (Made), step 0" in page.read_text("utf-8")
    assert len(json.loads(tnb.export(found, tmp_path / "found.json").read_text())) == len(found)


def test_what_could_not_be_watched_is_said():
    inner = torch.jit.trace(chain(), batch())
    net = torch.nn.Sequential(inner, torch.nn.Linear(4, 4))
    found = watched(net)
    assert "not watched: 1 place, see watch.missing" in repr(found)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"action": "stop"}, r"action is one of \('collect', 'raise'\), got 'stop'"),
        ({"level": "layer"}, "level is one of"),
        ({"near": 2}, "near is a share of the largest finite number"),
        ({"near": True}, "near is a share of the largest finite number"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(given, said):
    with pytest.raises(tnb.ArgumentError, match=said):
        tnb.watch_overflow(chain(), **given)


def test_names_that_fit_no_layer_are_refused():
    with (
        pytest.raises(tnb.EntryNotFoundError, match="no layer is called 'x'"),
        tnb.watch_overflow(chain(), names="x"),
    ):
        pass
