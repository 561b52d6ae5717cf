"""One contract for both frameworks: what a recorder sees, and that it changes nothing."""

from __future__ import annotations

import importlib
import inspect
import weakref

import ml_dtypes
import numpy as np
import pytest

from troubleshooter_nb.frameworks.recording import Recording

BOTH = [
    pytest.param("torch", marks=pytest.mark.torch),
    pytest.param("mindspore", marks=pytest.mark.mindspore),
]
FUNCTIONS = [name for name, value in vars(Recording).items() if inspect.isfunction(value)]
FUNCTIONS = [name for name in FUNCTIONS if not name.startswith("_")]


class Torch:
    """How the tests say things in torch."""

    def __init__(self):
        import torch
        from torch import nn

        self.base, self.nn, self.torch = nn.Module, nn, torch
        self.body, self.linear, self.norm = "forward", nn.Linear, nn.BatchNorm1d

    def tensor(self, array):
        return self.torch.from_numpy(np.array(array))

    def values(self, tensor):
        return tensor.detach().numpy()

    def gradients(self, net, run):
        """Result and gradients of the parameters of a net."""
        out = run()
        return out, self.torch.autograd.grad(out, list(net.parameters()))


class MindSpore:
    """How the tests say things in MindSpore."""

    def __init__(self):
        import mindspore
        from mindspore import nn

        self.base, self.nn, self.mindspore = nn.Cell, nn, mindspore
        self.body, self.linear, self.norm = "construct", nn.Dense, nn.BatchNorm1d

    def tensor(self, array):
        return self.mindspore.Tensor(np.array(array))

    def values(self, tensor):
        return tensor.asnumpy()

    def gradients(self, net, run):
        return self.mindspore.value_and_grad(run, None, net.trainable_params())()


@pytest.fixture(params=BOTH)
def framework(request):
    return request.param


@pytest.fixture
def recording(framework):
    return importlib.import_module(f"troubleshooter_nb.frameworks.{framework}_recording")


@pytest.fixture
def say(framework):
    return {"torch": Torch, "mindspore": MindSpore}[framework]()


@pytest.fixture
def x(say):
    return say.tensor(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4))


@pytest.fixture
def handles():
    found = []
    yield found
    for handle in found:
        if handle is not None:
            handle.remove()


def network(say, body, **children):
    """A module of the framework whose forward function is this one."""
    kind = type("Net", (say.base,), {say.body: body})
    net = kind()
    for name, child in children.items():
        setattr(net, name, child)
    return net


def two_layers(say):
    return network(say, lambda self, x: self.b(self.a(x)), a=say.linear(4, 4), b=say.linear(4, 2))


def watch(recording, handles, net, before=None, after=None):
    """Watch all layers; the functions get the path first."""
    for layer in recording.layers(net, "boundary")[0]:

        def begin(*call, path=layer.path):
            if before is not None:
                before(path, *call)

        def end(*call, path=layer.path):
            if after is not None:
                after(path, *call)

        handles += recording.watch_calls(layer, begin, end)


def test_everything_of_the_protocol_is_there(recording):
    assert [name for name in FUNCTIONS if not callable(getattr(recording, name, None))] == []
    assert recording.NAME in ("torch", "mindspore")
    assert recording.MODULE_WORD in ("Module", "Cell")
    assert recording.check_mode() is None


def test_layers_come_with_parents_first_and_shared_ones_once(say, recording):
    net = two_layers(say)
    net.again = net.a
    layers, unseen = recording.layers(net, "boundary")
    assert unseen == []
    assert [(layer.path, layer.aliases) for layer in layers] == [
        *(("", ()), ("a", ("again",)), ("b", ()))
    ]
    assert [layer.layer for layer in layers][::2] == ["Net", say.linear.__name__]


def test_settings_of_layers_are_in_the_words_of_torch(say, recording):
    layer = recording.layers(say.linear(4, 2), "boundary")[0][0]
    shown = {"in_features": 4, "out_features": 2, "bias": True, "training": layer.module.training}
    assert {name: layer.settings.get(name) for name in shown} == shown


def test_calls_are_told_in_order_with_arguments_and_outputs_as_they_are(say, recording, handles, x):
    def body(self, given, *, scale):
        return {"out": [given["x"] * scale]}

    net = network(say, body)
    told = []
    watch(
        recording,
        handles,
        net,
        lambda path, args, kwargs, frame: told.append((args, dict(kwargs))),
        lambda path, args, kwargs, output, raised: told.append(
            (args, dict(kwargs), output, raised)
        ),
    )
    given = {"x": x}
    result = net(given, scale=2.0)
    (args, kwargs), (_, _, output, raised) = told
    assert args[0] is given
    assert kwargs == {"scale": 2.0}
    assert output["out"][0] is result["out"][0]
    assert raised is False


def test_parents_close_after_their_children(say, recording, handles, x):
    told = []
    watch(
        recording,
        handles,
        net := two_layers(say),
        lambda path, *call: told.append(path),
        lambda path, *call: told.append(f"/{path}"),
    )
    net(x)
    assert told == ["", "a", "/a", "b", "/b", "/"]


def test_an_exception_is_told_of_the_layers_it_passes_and_reaches_the_user(
    say, recording, handles, x
):
    mine = LookupError("mine")

    def fails(self, x):
        raise mine

    net = network(say, lambda self, x: self.bad(self.a(x)), a=say.linear(4, 4))
    net.bad = network(say, fails)
    told = []
    watch(
        recording,
        handles,
        net,
        after=lambda path, args, kwargs, output, raised: told.append((path, raised)),
    )
    with pytest.raises(LookupError, match="mine"):
        net(x)
    assert told == [("a", False), ("bad", True), ("", True)]


def test_a_layer_that_returns_none_while_an_exception_is_handled_did_not_raise(
    say, recording, handles, x
):
    net = network(say, lambda self, x: None)
    told = []
    watch(
        recording,
        handles,
        net,
        after=lambda path, args, kwargs, output, raised: told.append((output, raised)),
    )
    try:
        raise KeyError
    except KeyError:
        net(x)
    net(x)
    assert told == [(None, False)] * 2


def test_the_frame_that_is_given_runs_as_long_as_the_call(say, recording, handles, x):
    frames = []

    def looks(self, x):
        frame = inspect.currentframe()
        while frame is not None and frame is not frames[0]:
            frame = frame.f_back
        frames.append(frame)
        return x

    net = network(say, looks)
    watch(recording, handles, net, lambda path, args, kwargs, frame: frames.append(frame))
    net(x)
    assert frames[0] is frames[1] is not None


def test_nothing_is_told_after_the_handles_are_removed_twice(say, recording, x):
    handles, told = [], []
    net = two_layers(say)
    watch(recording, handles, net, lambda path, *call: told.append(path))
    for handle in handles * 2:
        handle.remove()
    net(x)
    assert told == []


def test_operators_are_told_and_what_they_give_is_what_the_user_gets(say, recording, x):
    told = []

    def begin(call, args, kwargs):
        told.append((call.path, len(args)))
        return call.path

    def end(token, output, raised):
        told.append((token, raised))
        return True

    with recording.watch_functions(begin, end):
        result = x + x
    (path, count), (token, raised) = told
    assert path.split(".")[0] in ("Tensor", "Torch", "Mint")
    assert path.strip("_").endswith("add")
    assert (count, token, raised) == (2, path, False)
    np.testing.assert_array_equal(say.values(result), 2 * say.values(x))
    x + x
    assert len(told) == 2


def test_an_operator_that_is_not_wanted_is_not_told_at_its_end(recording, x):
    told = []
    with recording.watch_functions(lambda *call: None, lambda *call: told.append(call)):
        x + x
    assert told == []


def test_what_runs_in_a_quiet_context_is_not_told(recording, x):
    told = []
    with recording.watch_functions(lambda *call: told.append(call), lambda *call: True):
        with recording.quiet():
            x + x
        x * x
    assert len(told) == 1


def test_recording_changes_no_bit_of_results_and_gradients(say, recording, handles, x):
    net = two_layers(say)

    def run():
        return net(x).sum()

    plain = say.gradients(net, run)
    got, hooks = [], []

    def after(path, args, kwargs, output, raised):
        hooks.append(recording.watch_gradient(output, got.append))

    watch(recording, handles, net, lambda *call: None, after)
    with recording.watch_functions(lambda *call: 1, lambda *call: True):
        watched = say.gradients(net, run)
    for handle in hooks:
        handle.remove()
    assert len(got) == 3
    for found in (watched, say.gradients(net, run)):
        np.testing.assert_array_equal(say.values(found[0]), say.values(plain[0]))
        for gradient, expected in zip(found[1], plain[1], strict=True):
            np.testing.assert_array_equal(say.values(gradient), say.values(expected))


def test_the_gradient_of_a_value_that_is_used_twice_is_the_total(say, recording, handles, x):
    got = []

    def body(self, x):
        h = self.a(x)
        handles.append(recording.watch_gradient(h, got.append))
        return (h * 2).sum() + (h * 3).sum()

    net = network(say, body, a=say.linear(4, 4))
    say.gradients(net, lambda: net(x))
    np.testing.assert_array_equal(recording.copied(got[0]), np.full((3, 4), 5.0))
    assert len(got) == 1


def test_a_parameter_tells_its_gradient_in_each_pass_until_the_handle_is_removed(say, recording, x):
    net, got = say.linear(4, 2), []
    (layer,) = recording.layers(net, "boundary")[0]
    owned = {entry.leaf: entry for entry in recording.owned(layer)}
    handle = recording.watch_gradient(owned["weight"].tensor, got.append)
    passes = [say.gradients(net, lambda: net(x).sum()) for _ in range(2)]
    handle.remove()
    handle.remove()
    say.gradients(net, lambda: net(x).sum())
    assert len(got) == 2
    for told, (_, gradients) in zip(got, passes, strict=True):
        np.testing.assert_array_equal(recording.copied(told), say.values(gradients[0]))


def test_a_handle_of_a_gradient_may_be_removed_when_it_arrives(say, recording, x):
    net, got = say.linear(4, 2), []

    def body(self, x):
        h = self.a(x)

        def receive(gradient):
            got.append(gradient)
            handle.remove()

        handle = recording.watch_gradient(h, receive)
        kept.append(handle)
        return h.sum()

    kept = []
    net = network(say, body, a=say.linear(4, 2))
    for _ in range(3):
        say.gradients(net, lambda: net(x))
    assert len(got) == 3


def test_a_step_that_was_broken_off_leaves_nothing_to_the_next(say, recording, handles, x):
    class Broken(BaseException):
        pass

    def end(path, *call):
        if path == "b":
            raise Broken

    net = two_layers(say)

    def run():
        return net(x).sum()

    wanted = say.gradients(net, run)
    watch(recording, handles, net, lambda *call: None, end)
    with pytest.raises(Broken):
        say.gradients(net, run)
    recording.abandon()
    for handle in handles:
        handle.remove()
    found = say.gradients(net, run)
    for got, value in zip((found[0], *found[1]), (wanted[0], *wanted[1]), strict=True):
        np.testing.assert_array_equal(say.values(got), say.values(value))


def test_integers_have_no_gradient(say, recording):
    assert recording.watch_gradient(say.tensor([1, 2]), print) is None


def test_own_tensors_of_a_layer_have_their_names_in_a_checkpoint(say, recording):
    net = network(say, lambda self, x: x, norm=say.norm(4))
    layers = {layer.path: layer for layer in recording.layers(net, "boundary")[0]}
    assert recording.owned(layers[""]) == []
    owned = recording.owned(layers["norm"])
    roles = {entry.name: entry.role for entry in owned if "num_batches" not in entry.name}
    assert sorted(roles.values()) == ["buffer", "buffer", "parameter", "parameter"]
    assert all(name == f"norm.{entry.leaf}" for name, entry in zip(roles, owned, strict=False))
    assert all(recording.is_tensor(entry.tensor) for entry in owned)


@pytest.mark.parametrize("name", ["float32", "float64", "int32", "bool"])
def test_facts_and_values_of_a_tensor(say, recording, name):
    array = np.arange(6).reshape(2, 3).astype(name)
    tensor = say.tensor(array)
    facts = recording.facts(tensor)
    assert facts == (name, (2, 3), (), "cpu")  # in C order, strides say nothing
    np.testing.assert_array_equal(recording.copied(tensor), array)
    assert recording.copied(tensor).dtype == array.dtype


def test_bfloat16_is_that_of_ml_dtypes(say, recording, framework, x):
    dtype = importlib.import_module(framework).bfloat16
    narrow = x.to(dtype) if framework == "torch" else x.astype(dtype)
    assert recording.facts(narrow).dtype == "bfloat16"
    expected = say.values(x).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(recording.copied(narrow), expected)


def test_a_copy_is_in_c_order_and_stays_as_it_is(say, recording, x):
    copy = recording.copied(x.T)
    expected = say.values(x).T.copy()
    x[0] = 9.0
    assert copy.flags.c_contiguous
    np.testing.assert_array_equal(copy, expected)
    assert recording.copied(x.sum()).shape == ()


def test_a_transposed_tensor_tells_its_strides(recording, x):
    assert recording.facts(x.T).shape == (4, 3)
    assert recording.facts(x.T).strides == (1, 4)


def test_an_identity_is_the_same_for_one_tensor_and_takes_weak_references(say, recording, x):
    thing = recording.identity(x)
    assert recording.identity(x) is thing
    assert weakref.ref(thing)() is thing
    assert recording.identity(say.tensor([1.0])) is not thing


def test_views_share_the_key_of_their_memory(say, recording, x):
    assert recording.view_of(x[1:]) == recording.view_of(x)
    assert recording.view_of(x) != recording.view_of(say.tensor([1.0]))


def test_the_state_of_the_generator_is_bytes_and_reading_it_draws_nothing(recording, x):
    first = recording.random_state()
    assert (first.dtype, first.ndim) == (np.uint8, 1)
    assert first.size > 0
    np.testing.assert_array_equal(recording.random_state(), first)


def test_nothing_is_recomputed_outside_of_a_backward_pass(say, recording, handles, x):
    told = [recording.is_recomputing(False)]
    net = two_layers(say)
    watch(recording, handles, net, lambda *call: told.append(recording.is_recomputing(False)))
    say.gradients(net, lambda: net(x).sum())
    assert told == [False] * 4


def test_an_eager_context_changes_nothing_for_what_is_not_compiled(say, recording, x):
    net = two_layers(say)
    plain = say.values(net(x))
    with recording.eager():
        np.testing.assert_array_equal(say.values(net(x)), plain)


def test_reads_of_what_was_measured_come_in_the_order_asked(recording):
    assert list(recording.read_measured([])) == []
