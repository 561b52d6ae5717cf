"""Every record of MindSpore networks equals what is computed by hand, bit for bit."""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import troubleshooter_nb as tnb

mindspore = pytest.importorskip("mindspore")

from mindspore import Parameter, Tensor, nn, ops  # noqa: E402

pytestmark = pytest.mark.mindspore
NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def bits(tensor):
    """Dtype, shape and bits."""
    array = np.array(tensor.asnumpy() if isinstance(tensor, Tensor) else tensor, order="C")
    return str(array.dtype), array.shape, array.tobytes()


def tensors_of(value, slot=""):
    """Slots and tensors of a nested value; a single tensor has slot 0."""
    if isinstance(value, Tensor):
        return [(slot or "0", value)]
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, list | tuple):
        parts = enumerate(value)
    else:
        return []
    return [
        found
        for name, part in parts
        for found in tensors_of(part, f"{slot}.{name}" if slot else str(name))
    ]


def with_added(value, added):
    """A nested value with one more tensor added to each of its real ones, in order."""
    if isinstance(value, Tensor):
        return value + next(added) if value.dtype.is_floating_point else value
    if isinstance(value, dict):
        return {name: with_added(part, added) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(with_added(part, added) for part in value)
    return value


def bases_of(net):
    """Each cell with how names of its calls begin; without the cells MindSpore adds itself."""
    return [
        (cell, ".".join(filter(None, ("Cell", path, type(cell).__name__))))
        for path, cell in net.cells_and_names()
        if "_recompute_cell" not in path
    ]


def values_by_hand(net, run):
    """What calls read, hold and give, copied in hooks; and how many calls each cell had."""
    found, owned, counts, opened = {}, {}, Counter(), defaultdict(list)
    handles = []
    for cell, base in bases_of(net):

        def before(cell, args, kwargs, base=base):
            number = counts[base]
            counts[base] += 1
            opened[base].append(number)
            name = f"{base}.forward.{number}"
            for slot, tensor in tensors_of(args):
                found[f"{name}.input.{slot}"] = bits(tensor)
            for slot, tensor in tensors_of(kwargs):
                found[f"{name}.kwargs.{slot}"] = bits(tensor)
            for leaf, parameter in cell.parameters_and_names(expand=False):
                # Once a step, and again where a call has changed it.
                if owned.get((base, leaf)) != bits(parameter):
                    owned[base, leaf] = bits(parameter)
                    found[f"{name}.parameters.{leaf}"] = bits(parameter)

        def after(cell, args, kwargs, output, base=base):
            number = opened[base].pop()
            for slot, tensor in tensors_of(output):
                found[f"{base}.forward.{number}.output.{slot}"] = bits(tensor)

        handles.append(cell.register_forward_pre_hook(before, with_kwargs=True))
        handles.append(cell.register_forward_hook(after, with_kwargs=True))
    run()
    for handle in handles:
        handle.remove()
    return found


def gradients_by_hand(net, loss_of, inputs):
    """Whole gradients of all outputs, by zeros that are added to them and asked for theirs."""
    names, zeros, counts = [], [], Counter()
    added = None

    def after(base):
        def hook(cell, args, output):
            number = counts[base]
            counts[base] += 1
            if added is not None:
                return with_added(output, added)
            for slot, tensor in tensors_of(output):
                if tensor.dtype.is_floating_point:
                    names.append(f"{base}.backward.{number}.input.{slot}")
                    zeros.append(ops.zeros_like(tensor))
            return None

        return hook

    def loss_with(*given):
        nonlocal added
        added = iter(given)
        counts.clear()
        return loss_of(*inputs)

    handles = [cell.register_forward_hook(after(base)) for cell, base in bases_of(net)]
    loss_of(*inputs)
    found = mindspore.grad(loss_with, tuple(range(len(zeros))))(*zeros)
    for handle in handles:
        handle.remove()
    # What nothing uses has zeros here, and no gradient at all in a backward pass.
    used = [(name, g) for name, g in zip(names, found, strict=True) if g.asnumpy().any()]
    return {name: bits(gradient) for name, gradient in used}


def totals_by_hand(net, loss_of, inputs):
    """Whole gradients of what no call made, by hooks on the tensors that calls are given."""
    found, counts, kept, handles = {}, Counter(), [], []

    def watch(tensor, name):
        def hook(gradient):
            found[name] = bits(gradient)

        with suppress(RuntimeError):  # it needs none
            handles.append(tensor.register_hook(hook))

    def before(base):
        def hook(cell, args, kwargs):
            number = counts[base]
            counts[base] += 1
            for slot, tensor in [*tensors_of(args), *tensors_of(kwargs)]:
                is_made = any(tensor is made for made in kept) or isinstance(tensor, Parameter)
                if tensor.dtype.is_floating_point and not is_made:
                    watch(tensor, f"{base}.backward.{number}.total.{slot}")

        return hook

    def after(cell, args, output):
        kept.extend(tensor for _, tensor in tensors_of(output))

    for cell, base in bases_of(net):
        handles.append(cell.register_forward_pre_hook(before(base), with_kwargs=True))
        handles.append(cell.register_forward_hook(after))
    trained(net, loss_of, inputs)
    for handle in handles:
        handle.remove()
    return found


def parameter_gradients(net, loss_of, inputs):
    weights = net.trainable_params()
    gradients = mindspore.value_and_grad(loss_of, None, weights)(*inputs)[1]
    by_name = dict(zip((p.name for p in weights), gradients, strict=True))
    return {
        f"{base}.parameters_grad.0.{leaf}": bits(by_name[parameter.name])
        for cell, base in bases_of(net)
        for leaf, parameter in cell.parameters_and_names(expand=False)
        if parameter.name in by_name
    }


def of_dump(dump):
    """All tensors of a dump by name."""
    index = dump.index
    pairs = zip(index["name"].values, index["value"].values, strict=True)
    return {name: bits(dump.array(name)) for name, value in pairs if value == ""}


def assert_equal(found, wanted):
    assert sorted(set(wanted) - set(found)) == [], "not recorded"
    assert sorted(set(found) - set(wanted)) == [], "recorded without a reference"
    assert [name for name in wanted if found[name] != wanted[name]] == [], "other values"


def missing(rec):
    return {(row.kind, name) for row in rec.missing for name in row.where}


def trained(net, loss_of, inputs):
    """One step with gradients of the weights."""
    return mindspore.value_and_grad(loss_of, None, net.trainable_params())(*inputs)


def recorded(net, loss_of, inputs, **options):
    with tnb.record(net, **options) as rec:
        trained(net, loss_of, inputs)
    return rec


def reset_of(net):
    """A function that puts parameters and buffers back, as a step of training leaves none as is."""
    kept = [(p, p.asnumpy().copy()) for p in net.get_parameters()]

    def reset():
        for parameter, values in kept:
            parameter.set_data(Tensor(values))

    return reset


def check(net, loss_of, inputs, attributes=(), **options):
    """A record of one step against the same made by hand; the recording."""
    reset = reset_of(net)
    wanted = values_by_hand(net, lambda: loss_of(*inputs))
    reset()
    wanted |= gradients_by_hand(net, loss_of, inputs)
    reset()
    wanted |= totals_by_hand(net, loss_of, inputs)
    reset()
    wanted |= parameter_gradients(net, loss_of, inputs)
    reset()
    rec = recorded(net, loss_of, inputs, **options)
    found = of_dump(rec.dump)
    for name in attributes:
        found.pop(name)
    assert_equal(found, wanted)
    return rec


# ---- networks -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def step():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(NOTEBOOKS)
        from example_nets import step_mindspore
    return step_mindspore


def example(step, name):
    from example_nets.draws import draw_batch

    net = step.build(name, "none", 0)
    inputs = [Tensor(array) for array in draw_batch(name, 0)]

    def loss_of(x, labels):
        logits = net(x)
        return ops.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))

    return net, loss_of, inputs


@pytest.mark.few(2)
@pytest.mark.parametrize("to", [None, "folder"])
@pytest.mark.parametrize("name", ["resnet", "gpt"])
def test_example_networks(step, monkeypatch, name, to, tmp_path):
    monkeypatch.syspath_prepend(NOTEBOOKS)
    masks = [f"Cell.blocks.{i}.attn.Attention.forward.0.parameters.mask" for i in range(4)]
    options = {} if to is None else {"to": tmp_path / to}
    rec = check(*example(step, name), attributes=masks if name == "gpt" else (), **options)
    assert not rec.missing


class Leaf(nn.Cell):
    """A leaf of the user's own, with nested arguments and results."""

    def __init__(self):
        super().__init__()
        self.gain = Parameter(np.linspace(0.5, 1.5, 4).astype(np.float32), name="gain")

    def construct(self, x, extras, pair=None, *, scale=1.0):
        y = x * self.gain * scale + extras["shift"]
        if pair is not None:
            y = y + pair[0] * pair[1]
        # What calls give, nothing in them uses: zeros added there reach all that does.
        return {"y": y * 0.5, "parts": [ops.sin(y), (y + 1.0, extras["mask"])]}


class Nested(nn.Cell):
    """Dicts, lists, keywords, one cell that is called twice, one that gives what it is given."""

    def __init__(self):
        super().__init__()
        self.first, self.leaf, self.same = nn.Dense(4, 4), Leaf(), nn.Identity()
        self.again = self.first
        self.norm = nn.LayerNorm((4,))

    def construct(self, x):
        h = self.same(self.norm(self.first(x)))
        mask = h > 0
        out = self.leaf(h, {"shift": h * 0.5, "mask": mask}, scale=2.0)
        out = self.leaf(out["y"], {"shift": x, "mask": mask}, pair=[out["parts"][0], h])
        return {"last": self.again(out["parts"][1][0]), "first": [h * 0.5, out["y"]]}


class Sequence(nn.Cell):
    """Tables, LSTM, batch norm, an unused result."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(7, 4)
        self.lstm = nn.LSTM(4, 3, batch_first=True)
        self.norm = nn.BatchNorm1d(3)
        self.head = nn.SequentialCell(nn.Dense(3, 2), nn.ReLU())

    def construct(self, tokens):
        h, (_, state) = self.lstm(self.table(tokens))
        return self.head(self.norm(h[:, -1])), state


def seeded(kind, seed=3):
    mindspore.set_seed(seed)
    return kind()


def nested():
    net = seeded(Nested)
    x = Tensor(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4))

    def loss_of(x):
        out = net(x)
        return ops.tanh(out["last"]).sum() + (out["first"][0] * out["first"][1]).sum()

    return net, loss_of, [x]


def sequence():
    net = seeded(Sequence).set_train()
    tokens = Tensor(np.array([[1, 2, 3], [4, 5, 6]], np.int32))

    def loss_of(tokens):
        logits, state = net(tokens)
        return (logits * logits).sum() + ops.sin(state).sum()

    return net, loss_of, [tokens]


def test_a_network_of_nested_values_and_shared_cells():
    check(*nested())


def test_a_network_with_lstm_tables_and_statistics():
    check(*sequence())


def operators_by_hand(run):
    """What primitives give that run forward, in order, copied in a mode of one's own."""
    found = []

    class Copies(mindspore.utils.MsDispatchMode):
        def __ms_dispatch__(self, func, args, kwargs=None):
            output = func(*args)
            # Further outputs of these are memory, in which anything may stand.
            values = {"BatchNorm": 1, "LSTM": 3}.get(func.name, len(tensors_of(output)))
            found.extend(bits(tensor) for _, tensor in tensors_of(output)[:values])
            return output

    with Copies():
        run()
    return found


@pytest.mark.parametrize("level", ["api", "both"])
@pytest.mark.parametrize("make", [nested, sequence])
def test_operators_give_what_a_mode_of_ones_own_sees(make, level):
    net, loss_of, inputs = make()
    reset = reset_of(net)
    wanted = operators_by_hand(lambda: loss_of(*inputs))
    reset()
    dump = recorded(net, loss_of, inputs, level=level).dump.select(kind="api")
    of_output = dump.select(direction="forward", role="output")
    found = [bits(of_output.array(name)) for name in of_output.index["name"].values]
    assert found == wanted
    assert len(found) > 20
