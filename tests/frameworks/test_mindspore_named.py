"""Operators of MindSpore by the names of the user's code, and the gradients of single calls."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from troubleshooter_nb.frameworks.named_operators import NamedOperator
from troubleshooter_nb.frameworks.recording import ApiCall

pytestmark = pytest.mark.mindspore

mindspore = pytest.importorskip("mindspore")
from mindspore import Parameter, Tensor, nn, ops  # noqa: E402

from troubleshooter_nb.frameworks import mindspore_graph, mindspore_named  # noqa: E402
from troubleshooter_nb.frameworks import mindspore_recording as recording  # noqa: E402

needs_graph = pytest.mark.skipif(
    not hasattr(Tensor, "_grad_node"), reason="the graph can be read since MindSpore 2.10"
)


def named(*names):
    """Operators by the names that their calls have: ``Functional.relu``, ``Tensor.__add__``."""
    homes = {"Functional": "mindspore.ops", "Tensor": "mindspore.Tensor"}
    found = [name.split(".") for name in names]
    return [NamedOperator(homes[kind], name, ApiCall(f"{kind}.{name}")) for kind, name in found]


LISTED = named(
    *("Functional." + name for name in "relu exp cross_entropy softmax matmul chunk shape".split()),
    *("Tensor." + name for name in "__add__ __mul__ reshape transpose sum to view".split()),
)


def tensor(*shape, seed=0):
    return Tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def told(run, operators, nested=False):
    """What a function calls, as (call, args, kwargs, output)."""
    calls = []

    def begin(call, args, kwargs):
        calls.append([call, args, kwargs, None])
        return calls[-1]

    def end(token, output, raised):
        token[3] = "raised" if raised else output

    with recording.watch_named(operators, nested, begin, end):
        run()
    return calls


def names(calls):
    return [".".join(filter(None, call)) for call, *_ in calls]


def plain(gradients):
    """Slots with gradients as arrays."""
    return {slot: None if g is None else g.asnumpy().copy() for slot, g in gradients}


class Gradients:
    """What arrives at calls and what they give, by the name and number of the call."""

    def __init__(self):
        self.found, self.counts, self.handles = {}, {}, []

    def begin(self, call, args, kwargs):
        name = ".".join(filter(None, call))
        number = self.counts[name] = self.counts.get(name, -1) + 1
        return f"{name}.{number}", self.origins([*enumerate(args), *kwargs.items()])

    @staticmethod
    def origins(slotted):
        made = [(str(slot), recording.origin(t)) for slot, t in slotted if isinstance(t, Tensor)]
        return [(slot, origin) for slot, origin in made if origin is not None]

    def end(self, token, output, raised):
        name, origins = token
        outputs = output if isinstance(output, tuple | list) else [output]
        slotted = [(str(i), t) for i, t in enumerate(outputs) if isinstance(t, Tensor)]
        self.wait(name, origins, slotted)

    def wait(self, name, origins, outputs):
        def receive(given, arrived):
            assert name not in self.found, "told twice"
            self.found[name] = plain(given), plain(arrived)

        self.handles.append(recording.watch_node(origins, outputs, receive))

    def of(self, name, function):
        """A function whose calls are waited for."""

        def call(*args, **kwargs):
            token = self.begin(ApiCall(name), args, kwargs)
            output = function(*args, **kwargs)
            leaves = output
            if isinstance(output, dict):
                leaves = [*output.values()]
            self.end(token, leaves, raised=False)
            return output

        return call

    def run(self, run, operators=LISTED, network=None):
        cells = [] if network is None else recording.operators_of_cells([network])
        with recording.watch_named([*operators, *cells], False, self.begin, self.end):
            return run()


class MLP(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc1, self.act, self.fc2 = nn.Dense(8, 6), nn.ReLU(), nn.Dense(6, 3)

    def construct(self, x):
        return self.fc2(self.act(self.fc1(x)))


class Block(nn.Cell):
    """Attention with residual connections, in which most is used more than once."""

    def __init__(self, width=8):
        super().__init__()
        self.norm, self.qkv = nn.LayerNorm((width,)), nn.Dense(width, 3 * width)
        self.proj = nn.Dense(width, width)

    def construct(self, x, scale=1.0):
        q, k, v = ops.chunk(self.qkv(self.norm(x)), 3, axis=-1)
        weights = ops.softmax(ops.matmul(q, k.transpose(0, 2, 1)), axis=-1)
        y = x + self.proj(ops.matmul(weights, v)) * scale
        return y + y * x + x


class Blocks(nn.Cell):
    def __init__(self):
        super().__init__()
        self.layers = nn.CellList([Block(), Block()])
        self.head = nn.Dense(8, 3)

    def construct(self, x):
        for layer in self.layers:
            x = layer(x, scale=0.5)
        return self.head(x)


def training(net, x, labels):
    """A function that gives loss and gradients of a network."""

    def loss(x, labels):
        out = net(x)
        return ops.cross_entropy(out.reshape(-1, 3), labels.reshape(-1))

    step = mindspore.value_and_grad(loss, None, net.trainable_params())
    return lambda: step(x, labels)


@pytest.fixture
def mlp():
    return MLP()


@pytest.fixture
def labels():
    return Tensor(np.array([0, 2, 1, 1], np.int32))


# Names


def test_the_calls_of_a_network_are_called_as_msprobe_calls_them(mlp, labels):
    step = training(mlp, tensor(4, 8), labels)
    calls = told(step, [*LISTED, *recording.operators_of_cells([mlp])])
    # From the file of msprobe 26.2.0 for this network.
    layer = ["Primitive.shape_op.Shape", "Primitive.matmul.MatMul", "Primitive.bias_add.BiasAdd"]
    after = ["Tensor.reshape", "Tensor.reshape", "Functional.cross_entropy"]
    assert names(calls) == [*layer, "Primitive.relu.ReLU", *layer, *after]


def test_a_primitive_that_gives_no_tensor_is_told_of(mlp):
    [(call, args, _, output)] = told(
        lambda: mlp.fc1.shape_op(tensor(2, 8)), recording.operators_of_cells([mlp])
    )
    assert call == ApiCall("Primitive.shape_op", "Shape")
    assert (args[0].shape, output) == ((2, 8), (2, 8))


@pytest.mark.parametrize("nested", [False, True])
def test_what_another_one_calls_is_told_of_where_it_is_asked_for(nested):
    inner = NamedOperator("mindspore.ops", "log_softmax", ApiCall("Functional.log_softmax"))
    watched = NamedOperator("mindspore.ops", "outer_of_test", ApiCall("Functional.outer"))

    def outer(x):
        return ops.log_softmax(x)

    ops.outer_of_test = outer
    try:
        calls = told(lambda: ops.outer_of_test(tensor(2, 3)), [inner, watched], nested)
    finally:
        del ops.outer_of_test
    below = ["Functional.log_softmax"] if nested else []
    assert names(calls) == ["Functional.outer", *below]


def test_a_primitive_of_two_cells_has_the_name_of_the_first():
    net = MLP()
    shared = ops.ReLU()
    net.first, net.second = shared, shared
    found = recording.operators_of_cells([net])
    assert [one.name for one in found if one.holder is shared] == ["first"]
    assert names(told(lambda: net.second(tensor(2, 2)), found)) == ["Primitive.first.ReLU"]


def test_a_primitive_is_what_it_was_while_its_calls_are_told_of(mlp):
    def run():
        assert isinstance(mlp.fc1.matmul, ops.MatMul)
        assert type(mlp.fc1.matmul).__name__ == "MatMul"
        assert mlp.fc1.matmul.transpose_b

    told(run, recording.operators_of_cells([mlp]))


def test_nothing_is_left_behind(mlp):
    primitives = recording.operators_of_cells([mlp])
    executor = mindspore_named._JitExecutor
    before = [type(one.holder) for one in primitives], ops.relu, vars(Tensor).get("__add__")
    call = executor.__call__
    with pytest.raises(ZeroDivisionError):
        told(lambda: 1 / 0, [*LISTED, *primitives])
    after = [type(one.holder) for one in primitives], ops.relu, vars(Tensor).get("__add__")
    assert after == before
    assert executor.__call__ is call


def test_operations_of_the_recorder_itself_are_not_told_of():
    def run():
        with recording.quiet():
            ops.relu(tensor(2))
        ops.exp(tensor(2))

    assert names(told(run, LISTED)) == ["Functional.exp"]


# Jit functions


@mindspore.jit
def jitted(x, scale=2.0):
    return ops.relu(x) * scale


class Compiled(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(4, 4)

    @mindspore.jit
    def construct(self, x):
        return ops.relu(self.dense(x))


def test_a_jit_function_compiles_while_its_functions_are_watched_and_is_told_of():
    x = tensor(2, 4)
    [(call, args, _, output)] = told(lambda: jitted(x), LISTED)
    assert call == ApiCall("Jit.jitted")
    assert args[0] is x
    np.testing.assert_array_equal(output.asnumpy(), np.maximum(x.asnumpy(), 0) * 2)


def test_what_is_called_after_a_jit_function_is_told_of():
    x = tensor(2, 4)
    assert names(told(lambda: ops.exp(jitted(ops.exp(x))), LISTED)) == [
        "Functional.exp",
        "Jit.jitted",
        "Functional.exp",
    ]


def test_the_cell_of_a_jit_construct_is_no_jit_function():
    net = Compiled()
    operators = [*LISTED, *recording.operators_of_cells([net])]
    outer = []
    inner = told(lambda: outer.extend(told(lambda: net(tensor(2, 4)), operators)), operators)
    assert outer == inner == []


def test_a_network_that_was_given_to_jit_has_the_name_of_its_class(mlp):
    run, x = mindspore.jit(mlp), tensor(4, 8)
    [(call, args, _, _)] = told(lambda: run(x), LISTED)
    assert call == ApiCall("Jit.MLP")
    assert args == (x,)


@needs_graph
def test_gradients_of_a_jit_function_are_those_of_the_call():
    gradients, x = Gradients(), tensor(2, 4)
    weight = Parameter(tensor(2, 4, seed=1), name="w")

    def loss(x):
        return (jitted(x * weight) * 3).sum()

    gradients.run(lambda: mindspore.grad(loss, None, [weight])(x))
    given, arrived = gradients.found["Jit.jitted.0"]
    np.testing.assert_array_equal(arrived["0"], np.full((2, 4), 3, np.float32))
    positive = x.asnumpy() * weight.asnumpy() > 0
    np.testing.assert_array_equal(given["0"], np.where(positive, 6, 0).astype(np.float32))


# Gradients of calls


@needs_graph
def test_gradients_stand_where_msprobe_has_them(mlp, labels):
    gradients = Gradients()
    gradients.run(training(mlp, tensor(4, 8), labels), network=mlp)
    shapes = {
        name: [{s: None if g is None else g.shape for s, g in part.items()} for part in found]
        for name, found in gradients.found.items()
    }
    # Names, order and shapes of msprobe 26.2.0, which leaves None out at primitives and turns them
    # around, and says null for the labels.
    assert list(shapes.items()) == [
        ("Functional.cross_entropy.0", [{"0": (4, 3)}, {"0": ()}]),
        ("Tensor.reshape.0", [{"0": (4, 3)}, {"0": (4, 3)}]),
        ("Primitive.bias_add.BiasAdd.1", [{"0": (4, 3), "1": (3,)}, {"0": (4, 3)}]),
        ("Primitive.matmul.MatMul.1", [{"0": (4, 6), "1": (3, 6)}, {"0": (4, 3)}]),
        ("Primitive.relu.ReLU.0", [{"0": (4, 6)}, {"0": (4, 6)}]),
        ("Primitive.bias_add.BiasAdd.0", [{"0": (4, 6), "1": (6,)}, {"0": (4, 6)}]),
        ("Primitive.matmul.MatMul.0", [{"0": None, "1": (6, 8)}, {"0": (4, 6)}]),
    ]


@needs_graph
def test_gradients_of_a_linear_layer_are_those_of_numpy(labels):
    """By hand, in float64: the products that the chain rule names."""
    net = MLP()
    gradients, x = Gradients(), tensor(4, 8)
    _, (w1, b1, w2, _) = gradients.run(training(net, x, labels), network=net)
    h = np.maximum(x.asnumpy() @ net.fc1.weight.asnumpy().T + net.fc1.bias.asnumpy(), 0)
    out = h.astype(np.float64) @ net.fc2.weight.asnumpy().T + net.fc2.bias.asnumpy()
    share = np.exp(out) / np.exp(out).sum(1, keepdims=True)
    share[np.arange(4), labels.asnumpy()] -= 1
    of_logits = share / 4
    found = gradients.found
    close = dict(rtol=0, atol=1e-6)  # sums of a few float32 of size 1
    np.testing.assert_allclose(found["Functional.cross_entropy.0"][0]["0"], of_logits, **close)
    of_hidden = of_logits @ net.fc2.weight.asnumpy()
    given = found["Primitive.matmul.MatMul.1"][0]
    np.testing.assert_allclose(given["0"], of_hidden, **close)
    np.testing.assert_allclose(given["1"], of_logits.T @ h, **close)
    np.testing.assert_array_equal(given["1"], w2.asnumpy())
    np.testing.assert_array_equal(found["Primitive.bias_add.BiasAdd.0"][0]["1"], b1.asnumpy())
    np.testing.assert_array_equal(found["Primitive.matmul.MatMul.0"][0]["1"], w1.asnumpy())


@needs_graph
@pytest.mark.parametrize("steps", [1, 3])
def test_loss_and_gradients_keep_every_bit(steps):
    net, x = Blocks(), tensor(2, 5, 8)
    labels = Tensor(np.arange(10, dtype=np.int32).reshape(2, 5) % 3)
    step = training(net, x, labels)
    bare = step()
    for _ in range(steps):
        gradients = Gradients()
        watched = watch_layers(gradients, net)
        seen = gradients.run(step, network=net)
        for handle in (*watched, *filter(None, gradients.handles)):
            handle.remove()
        assert len(gradients.found) > 20
        assert {"layers.0", "layers.1", "layers.0.norm"} <= gradients.found.keys()
        np.testing.assert_array_equal(seen[0].asnumpy(), bare[0].asnumpy())
        for one, other in zip(seen[1], bare[1], strict=True):
            np.testing.assert_array_equal(one.asnumpy(), other.asnumpy())


def watch_layers(gradients, net):
    """Wait for the gradients of the calls of all cells of a network."""
    handles = []
    for layer in recording.layers(net, "boundary")[0]:
        stack = []

        def before(args, kwargs, frame, stack=stack):
            stack.append(gradients.origins([*enumerate(args), *kwargs.items()]))

        def after(args, kwargs, output, raised, stack=stack, path=layer.path):
            gradients.wait(path, stack.pop(), [("0", output)])

        handles += recording.watch_calls(layer, before, after)
    return handles


@needs_graph
def test_a_cell_gives_its_own_part_of_the_gradient_of_what_is_used_elsewhere_too():
    """Against the gradient of the cell by itself, with what arrives at its result."""
    net, x = Block(), tensor(2, 5, 8)
    gradients = Gradients()
    handles = watch_layers(gradients, net)

    def loss(x):
        h = x * 2
        return (net(h) * h + h).sum()

    mindspore.grad(loss)(x)
    for handle in handles:
        handle.remove()
    given, arrived = gradients.found[""]
    alone = mindspore.grad(lambda h, upper: (net(h) * upper).sum())(x * 2, Tensor(arrived["0"]))
    # Several parts are added in another order than there.
    np.testing.assert_allclose(given["0"], alone.asnumpy(), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(arrived["0"], (x * 2).asnumpy())


@needs_graph
def test_each_call_has_its_own_part_and_all_parts_make_the_whole():
    gradients, x = Gradients(), tensor(3)
    relu, exp = gradients.of("r", ops.relu), gradients.of("e", ops.exp)
    add = gradients.of("a", ops.add)

    def loss(x):
        y = x * 1
        return (add(relu(y), exp(y)) + y * 5).sum()

    whole = mindspore.grad(loss)(x).asnumpy()
    parts = gradients.found["r.0"][0]["0"], gradients.found["e.0"][0]["0"]
    values = x.asnumpy()
    np.testing.assert_array_equal(parts[0], (values > 0).astype(np.float32))
    np.testing.assert_allclose(parts[1], np.exp(values.astype(np.float64)), rtol=1e-5)  # exp of CPU
    np.testing.assert_allclose(parts[0] + parts[1] + 5, whole, rtol=1e-6)
    assert {slot: g.tolist() for slot, g in gradients.found["a.0"][0].items()} == {
        "0": [1, 1, 1],
        "1": [1, 1, 1],
    }


@needs_graph
def test_a_tensor_that_one_node_takes_twice_has_a_part_for_each():
    gradients = Gradients()
    pair = gradients.of("mul", lambda a, b: ops.mul(a, b))
    sums = gradients.of("both", lambda a, b: ops.relu(a) + b * 3)
    x = Tensor(np.array([2, 3], np.float32))

    def loss(x):
        y = x * 1
        return pair(y, y).sum() + sums(y, y).sum()

    mindspore.grad(loss)(x)
    given, _ = gradients.found["mul.0"]
    assert {slot: g.tolist() for slot, g in given.items()} == {"0": [2, 3], "1": [2, 3]}
    given, _ = gradients.found["both.0"]  # of two nodes: nothing tells which is whose
    assert {slot: g.tolist() for slot, g in given.items()} == {"0": [4, 4], "1": [4, 4]}


@needs_graph
def test_lists_dicts_and_keywords_are_waited_for():
    gradients = Gradients()
    listed = gradients.of("list", lambda a, *, b: [a * 2, b * 3])
    mapped = gradients.of("dict", lambda a: {"x": a * 4, "y": a * 5})

    def loss(x):
        y = x * 1
        one, two = listed(y, b=y * 1)
        return (one + two).sum() + mapped(y)["y"].sum()

    mindspore.grad(loss)(tensor(2))
    given, arrived = gradients.found["list.0"]
    assert {slot: g.tolist() for slot, g in given.items()} == {"0": [2, 2], "b": [3, 3]}
    assert {slot: g.tolist() for slot, g in arrived.items()} == {"0": [1, 1], "1": [1, 1]}
    given, arrived = gradients.found["dict.0"]  # of which one is not used
    assert given["0"].tolist() == [5, 5]
    assert arrived["0"] is None
    assert arrived["1"].tolist() == [1, 1]


@needs_graph
def test_what_has_no_gradient_is_told_as_none():
    gradients = Gradients()
    weight = Parameter(tensor(3), name="w")
    take = gradients.of("take", lambda table, ids, scale: ops.gather(table, ids, 0) * scale)
    ids, constant = Tensor(np.array([0, 0, 2], np.int32)), tensor(3, seed=1)

    def loss(x):
        return (take(weight, ids, constant) * x).sum()

    mindspore.grad(loss, None, [weight])(tensor(3, seed=2))
    given, _ = gradients.found["take.0"]
    assert given.keys() == {"0"}  # neither integers nor constants are in the graph
    assert given["0"].shape == (3,)
    assert recording.origin(ids) is None


@needs_graph
def test_what_is_given_back_has_the_whole_gradient():
    gradients = Gradients()
    same = gradients.of("same", lambda a: a)
    weight = Parameter(tensor(2), name="w")

    def loss(x):
        y = x * 2
        return (same(y) * 3).sum() + (same(weight) * y).sum()

    mindspore.grad(loss, 0, [weight])(Tensor(np.array([1, 2], np.float32)))
    given, arrived = gradients.found["same.0"]
    assert given["0"].tolist() == arrived["0"].tolist() == (weight.asnumpy() + 3).tolist()
    given, arrived = gradients.found["same.1"]
    assert given["0"].tolist() == arrived["0"].tolist() == [2, 4]


@needs_graph
def test_an_outer_call_is_told_of_after_the_inner_ones_as_soon_as_it_is_through():
    gradients = Gradients()
    order = []
    inner = gradients.of("inner", ops.relu)
    middle = gradients.of("middle", lambda a: inner(a) * 2)
    # Its first part has no place in the loss, so that not all of its nodes run.
    outer = gradients.of("outer", lambda a: (ops.exp(a), middle(a)))

    def loss(x):
        y = gradients.of("before", ops.relu)(x * 1)
        return outer(y)[1].sum()

    mindspore.grad(loss)(tensor(3))
    order = list(gradients.found)
    assert order == ["inner.0", "middle.0", "outer.0", "before.0"]
    assert gradients.found["outer.0"][1]["0"] is None


@needs_graph
def test_the_last_call_is_told_of_when_the_pass_ends():
    gradients = Gradients()
    weight = Parameter(tensor(3), name="w")
    # The node of the unused part is older than those that run.
    split = gradients.of("split", lambda a, b: (ops.exp(a), ops.relu(b)))
    mindspore.grad(lambda x: split(weight, weight * x)[1].sum(), None, [weight])(tensor(3))
    assert gradients.found["split.0"][0]["1"].shape == (3,)
    assert mindspore_graph._passes == {}


@needs_graph
def test_a_gradient_of_a_gradient_is_the_same_while_calls_are_waited_for():
    x = tensor(3)

    def of(cube):
        return mindspore.grad(mindspore.grad(lambda x: cube(x).sum()))(x).asnumpy()

    def cube(x):
        return x * x * x

    told_of = []

    def watched(a):
        origins = Gradients.origins(enumerate([a]))
        output = cube(a)
        recording.watch_node(origins, [("0", output)], lambda given, _: told_of.append(given))
        return output

    np.testing.assert_array_equal(of(watched), of(cube))
    assert told_of


@needs_graph
def test_a_handle_that_was_removed_receives_nothing():
    gradients = Gradients()

    def loss(x):
        y = gradients.of("relu", ops.relu)(x * 1)
        gradients.handles.pop().remove()
        return gradients.of("exp", ops.exp)(y).sum()

    mindspore.grad(loss)(tensor(3))
    assert list(gradients.found) == ["exp.0"]


@needs_graph
def test_a_pass_that_breaks_off_leaves_nothing_for_the_next():
    gradients = Gradients()

    def broken(gradient):
        raise ZeroDivisionError

    def loss(x, breaks):
        y = x * 1
        if breaks:
            y.register_hook(broken)
        return gradients.of("pair", lambda a: (ops.exp(y), ops.relu(a)))(y)[1].sum()

    with pytest.raises(ZeroDivisionError):
        mindspore.grad(loss)(tensor(3), True)
    mindspore.grad(loss)(tensor(3), False)
    assert mindspore_graph._passes == {}
    assert list(gradients.found)[-1] == "pair.1"


@needs_graph
def test_nothing_holds_a_graph_after_its_pass():
    class Held:
        pass

    held = Held()
    gone = weakref.ref(held)
    handles = []

    def loss(x, held):
        y = x * 1
        origins = Gradients.origins(enumerate([y]))
        z = ops.relu(y)
        receive = lambda given, arrived, held=held: None  # noqa: E731
        handles.append(recording.watch_node(origins, [("0", z)], receive))
        return z.sum()

    mindspore.grad(loss)(tensor(3), held)
    del held
    handles.clear()
    gc.collect()
    assert gone() is None


@needs_graph
def test_own_parts_are_told_of_by_slot():
    found = []

    def loss(x):
        y = x * 1
        ids = Tensor(np.array([1, 2], np.int32))
        origins = Gradients.origins(enumerate([y, ids, y * 2]))
        output = ops.relu(y) + ops.exp(y)
        received = recording.watch_own_parts(
            origins, [output], lambda slot, g: found.append((slot, g.asnumpy()))
        )
        assert len(received) == 1
        return (output * y).sum()

    x = Tensor(np.array([0.5, 2], np.float32))
    mindspore.grad(loss)(x)
    [(slot, part)] = found
    assert slot == "0"
    np.testing.assert_allclose(part, x.asnumpy() * (1 + np.exp([0.5, 2])), rtol=1e-5)


@needs_graph
def test_outside_of_a_gradient_nothing_is_waited_for():
    x = tensor(3)
    y = ops.relu(x)
    assert recording.origin(x) is None
    assert recording.watch_node([], [("0", y)], print) is None
    assert recording.watch_own_parts([], [y], print) == []


@needs_graph
def test_a_call_of_very_many_nodes_is_given_up(monkeypatch):
    monkeypatch.setattr(mindspore_graph, "_MOST_NODES", 5)
    found = []

    def loss(x):
        y = x * 1
        z = y
        for _ in range(10):
            z = z * 1.5
        origins = Gradients.origins(enumerate([y]))
        found.append(recording.watch_own_parts(origins, [z], print))
        found.append(recording.watch_node(origins, [("0", z)], print))
        return z.sum()

    mindspore.grad(loss)(tensor(3))
    assert found == [None, None]
