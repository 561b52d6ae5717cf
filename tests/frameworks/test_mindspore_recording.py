"""What MindSpore's PyNative mode shows to a recorder, and the traps on the way."""

from __future__ import annotations

import os
import subprocess
import sys
import weakref

import numpy as np
import pytest

from troubleshooter_nb.analysis.api_names import bare_name, op_class, operator, rows_between

pytestmark = pytest.mark.mindspore

mindspore = pytest.importorskip("mindspore")
from mindspore import Tensor, nn, ops  # noqa: E402

from troubleshooter_nb.frameworks import mindspore_recording as recording  # noqa: E402


class Jitted(nn.Cell):
    def __init__(self):
        super().__init__()
        self.inner = nn.Dense(4, 4)

    @mindspore.jit
    def construct(self, x):
        return ops.relu(self.inner(x))


class Traced(nn.Cell):
    def __init__(self):
        super().__init__()
        self.inner = nn.Dense(4, 4)

    @mindspore.jit(capture_mode="bytecode")
    def construct(self, x):
        return self.inner(x)


class Doubled(nn.Cell):
    """With a backward function of its own."""

    def construct(self, x):
        return x * 2

    def bprop(self, x, out, gradient):
        return (gradient * 2,)


class Gives(nn.Cell):
    """Gives what it is told to, or raises it."""

    def __init__(self, what):
        super().__init__()
        self.what = what

    def construct(self, x):
        if isinstance(self.what, BaseException):
            raise self.what
        return self.what


class Pair(nn.Cell):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Dense(4, 4), nn.Dense(4, 4)

    def construct(self, x):
        return self.b(ops.tanh(self.a(x)))


@pytest.fixture
def x():
    return Tensor(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4))


@pytest.fixture
def handles():
    """What a test registers, taken away again."""
    found = []
    yield found
    for handle in found:
        handle.remove()
    recording.remove_waiting()


def seen_of(net, compiled="boundary"):
    return {layer.path: layer for layer in recording.layers(net, compiled)[0]}


def watched(handles, net, compiled="boundary"):
    """The calls of a network as (path, "in" or "out", whether it raised)."""
    calls = []
    for layer in recording.layers(net, compiled)[0]:

        def before(args, kwargs, frame, path=layer.path):
            calls.append((path, "in", None))

        def after(args, kwargs, output, raised, path=layer.path):
            calls.append((path, "out", raised))

        handles.extend(recording.watch_calls(layer, before, after))
    return calls


def operators(run):
    """The operators that a function runs, as begin and end got them."""
    found = []

    def begin(call, args, kwargs):
        found.append((call, args, kwargs))
        return len(found)

    with recording.watch_functions(begin, lambda token, output, raised: None):
        run()
    return found


def same(tensors, others):
    """Whether two rows of Python objects are the same tensors."""
    pairs = zip(tensors, others, strict=True)
    return all(recording.identity(one) is recording.identity(other) for one, other in pairs)


# ---- compiled parts -----------------------------------------------------------------------------


def test_graph_mode_is_refused_with_what_to_do():
    mindspore.set_context(mode=mindspore.GRAPH_MODE)
    try:
        with pytest.raises(NotImplementedError, match=r"PYNATIVE_MODE.*save_grad"):
            recording.check_mode()
    finally:
        mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    assert recording.check_mode() is None


def test_a_jitted_cell_is_watched_and_the_cells_in_it_are_named_as_unseen(x, handles):
    net = nn.SequentialCell(nn.Dense(4, 4), Jitted())
    layers, unseen = recording.layers(net, "boundary")
    assert [layer.path for layer in layers] == ["", "0", "1"]
    assert unseen == [("compiled", "1")]
    calls = watched(handles, net)
    net(x)
    assert [call[:2] for call in calls] == [
        *(("", "in"), ("0", "in"), ("0", "out"), ("1", "in"), ("1", "out"), ("", "out"))
    ]


def test_a_cell_shared_with_a_compiled_one_is_seen_under_its_other_path():
    net = nn.SequentialCell(Jitted())
    net.also = net[0].inner
    layers, _ = recording.layers(net, "boundary")
    assert [layer.path for layer in layers] == ["", "0", "also"]


def test_what_is_compiled_runs_as_written_while_eager_is_open_and_is_compiled_again_after(
    x, handles
):
    net = Jitted()
    calls = watched(handles, net, "eager")
    assert recording.layers(net, "eager")[1] == []
    with recording.eager():
        net(x)
    assert [call[0] for call in calls] == ["", "inner", "inner", ""]
    calls.clear()
    net(x)
    assert [call[0] for call in calls] == ["", ""]


def test_eager_reaches_a_jit_function_outside_of_any_cell(x, handles):
    net = nn.Dense(4, 4)
    calls = watched(handles, net)

    @mindspore.jit
    def step(x):
        return net(x)

    step(x)
    assert calls == []
    with recording.eager():
        step(x)
    assert len(calls) == 2


@pytest.mark.parametrize("before", [None, "1"])
def test_eager_leaves_the_environment_as_it_was_also_after_an_error(monkeypatch, before):
    if before is None:
        monkeypatch.delenv("MS_JIT", raising=False)
    else:
        monkeypatch.setenv("MS_JIT", before)
    with pytest.raises(KeyboardInterrupt), recording.eager():
        raise KeyboardInterrupt

    assert os.environ.get("MS_JIT") == before


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_eager_lasts_as_long_as_the_last_that_entered_it(monkeypatch, order):
    monkeypatch.setenv("MS_JIT", "1")
    opened = [recording.eager() for _ in range(2)]
    for context in opened:
        context.__enter__()
    first, last = (opened[i] for i in order)
    first.__exit__(None, None, None)
    assert os.environ["MS_JIT"] == "0"
    last.__exit__(None, None, None)
    assert os.environ["MS_JIT"] == "1"


def test_a_cell_that_eager_does_not_reach_stays_closed():
    layers, unseen = recording.layers(Traced(), "eager")
    assert [layer.path for layer in layers] == [""]
    assert unseen == [("compiled", "")]


@pytest.mark.parametrize("inner", [nn.ReLU, Doubled])
@pytest.mark.parametrize("with_gradients", [False, True])
def test_a_jit_function_that_calls_a_hooked_cell_still_compiles(x, handles, with_gradients, inner):
    net = nn.SequentialCell(nn.Dense(4, 4), inner())
    calls = watched(handles, net)

    def forward(x):
        return net(x).sum()

    run = mindspore.grad(forward) if with_gradients else forward
    plain = run(x).asnumpy()
    calls.clear()
    np.testing.assert_array_equal(mindspore.jit(run)(x).asnumpy(), plain)
    np.testing.assert_array_equal(mindspore.jit(net)(x).asnumpy(), net(x).asnumpy())
    assert len(calls) == 6  # of the last, which is not compiled


def test_a_hook_that_is_a_lambda_would_not_compile(x, handles, tmp_path, monkeypatch):
    """Why hooks have names here."""
    monkeypatch.chdir(tmp_path)  # a failed compile writes a file
    net = nn.Dense(4, 4)

    def forward(x):
        return net(x)

    handles.append(net.register_forward_pre_hook(lambda cell, args: None))
    with pytest.raises(TypeError, match="Parse Lambda Function Fail"):
        mindspore.jit(forward)(x)


# ---- calls --------------------------------------------------------------------------------------


def test_a_cell_with_its_own_bprop_is_seen_to_its_end_and_stays_what_it_was(x, handles):
    net = nn.SequentialCell(nn.Dense(4, 4), Doubled(), nn.ReLU())
    assert recording.layers(net, "boundary")[1] == []
    step = mindspore.value_and_grad(lambda x: net(x).sum(), None, net.trainable_params())
    plain, outputs, gradients = step(x), {}, {}

    def after(path, output):
        outputs[path] = recording.copied(output)
        receive = gradients.setdefault(path, []).append
        handles.append(recording.watch_gradient(output, receive))

    for layer in recording.layers(net, "boundary")[0]:

        def ended(args, kwargs, output, raised, path=layer.path):
            after(path, output)

        handles += recording.watch_calls(layer, lambda *a: None, ended)
    assert net[1].has_bprop
    watched_step = step(x)
    np.testing.assert_array_equal(outputs["1"], 2 * outputs["0"])
    np.testing.assert_array_equal(
        recording.copied(gradients["0"][0]), 2 * recording.copied(gradients["1"][0])
    )
    for gradient, expected in zip(watched_step[1], plain[1], strict=True):
        np.testing.assert_array_equal(gradient.asnumpy(), expected.asnumpy())


def test_mindspore_registers_no_hook_for_a_cell_with_its_own_bprop(x, handles):
    net, seen = Doubled(), []

    def after(cell, args, output):
        seen.append(output)

    handles.append(net.register_forward_hook(after))
    net(x)
    assert seen == []


def test_cells_that_mindspore_adds_for_recomputation_are_no_layers():
    net = Pair()
    net.a.recompute()
    assert [*seen_of(net)] == ["", "a", "b"]


def test_a_cell_that_returns_none_did_not_raise(x, handles):
    net = Gives(None)
    calls = watched(handles, net)
    net(x)
    assert calls[-1] == ("", "out", False)


def test_a_cell_called_while_an_exception_is_handled_did_not_raise(x, handles):
    net = Gives(None)
    calls = watched(handles, net)
    try:
        raise KeyError
    except KeyError:
        net(x)
    assert calls[-1] == ("", "out", False)


def test_an_exception_is_told_for_the_cell_and_its_parents_and_passes(x, handles):
    net = nn.SequentialCell(nn.ReLU(), Gives(LookupError("mine")))
    calls = watched(handles, net)
    with pytest.raises(LookupError, match="mine"):
        net(x)
    outs = [(path, raised) for path, what, raised in calls if what == "out"]
    assert outs == [("0", False), ("1", True), ("", True)]


def test_what_is_caught_inside_a_cell_was_not_raised_by_it(x, handles):
    class Catches(nn.Cell):
        def __init__(self):
            super().__init__()
            self.fails = Gives(LookupError())

        def construct(self, x):
            try:
                return self.fails(x)
            except LookupError:
                return x

    net = Catches()
    calls = watched(handles, net)
    net(x)
    assert [call[::2] for call in calls if call[1] == "out"] == [("fails", True), ("", False)]


def test_hooks_that_see_false_as_output_do_not_replace_it(x, handles):
    net = Gives(False)
    watched(handles, net)
    assert net(x) is False


def test_no_frame_is_given_that_ends_before_the_call_does(x, handles):
    frames = []

    class Looks(nn.Cell):
        def construct(self, x):
            frame = sys._getframe()
            while frame is not None and frame is not frames[0]:
                frame = frame.f_back
            frames.append(frame)
            return x

    layer = seen_of(Looks())[""]
    handles += recording.watch_calls(
        layer, lambda args, kwargs, frame: frames.append(frame), lambda *a: None
    )
    layer.module(x)
    assert frames[0] is frames[1]
    assert frames[0].f_code.co_name == "__call__"


def test_lists_of_cells_have_no_calls_to_watch():
    net = nn.Cell()
    net.blocks = nn.CellList([nn.ReLU()])
    layers = seen_of(net)
    assert {path: layer.has_forward for path, layer in layers.items()} == {
        "": False,
        "blocks": False,
        "blocks.0": True,
    }
    assert recording.watch_calls(layers["blocks"], None, None) == []


def test_the_wrapper_of_mixed_precision_does_not_lengthen_the_paths():
    from mindspore import amp

    net = amp.auto_mixed_precision(nn.SequentialCell(nn.Dense(4, 4)), "O2")
    assert next(iter(seen_of(net))) == ""
    assert not any("_backbone" in path and path.startswith("_") for path in seen_of(net))


def test_a_layer_has_the_class_of_the_user_and_settings_in_the_words_of_torch():
    class Own(nn.Dense):
        pass

    net = nn.SequentialCell(nn.BatchNorm2d(4), Own(4, 3))
    net.set_train()
    layers = seen_of(net)
    assert layers["1"].layer == "Own"
    assert layers["1"].settings == {
        "in_features": 4,
        "out_features": 3,
        "bias": True,
        "training": True,
    }
    assert layers["0"].settings["momentum"] == 0.1


def test_settings_are_those_of_the_primitive_that_computes():
    norm, batch = nn.LayerNorm((4,), epsilon=1e-5), nn.BatchNorm2d(4, eps=1e-5).set_train()
    norm.layer_norm = ops.LayerNorm(-1, -1, epsilon=1e-7)
    batch.bn_train = ops.BatchNorm(is_training=True, epsilon=1e-3)
    assert seen_of(norm)[""].settings["eps"] == 1e-7
    assert seen_of(batch)[""].settings["eps"] == 1e-3
    assert seen_of(batch.set_train(False))[""].settings["eps"] == 1e-5
    conv = nn.Conv2d(2, 4, 3, 2, pad_mode="pad", padding=1)
    assert seen_of(conv)[""].settings["padding"] == (1, 1)
    conv.conv2d = ops.Conv2D(4, (3, 3), stride=(2, 2), pad_mode="pad", pad=(0, 1, 0, 1))
    assert seen_of(conv)[""].settings["padding"] == ((0, 1), (0, 1))
    conv.conv2d = ops.Conv2D(4, (3, 3), stride=(2, 2), pad_mode="same")  # depends on the input
    assert "padding" not in seen_of(conv)[""].settings


# ---- operators ----------------------------------------------------------------------------------

# A call in MindSpore, the operators it consists of, and what torch calls the same operator.
NAMED = {
    "x + x": ("Mint.add", "Tensor.__add__"),
    "x - 1": ("Mint.sub", "Tensor.__sub__"),
    "x * 2": ("Mint.mul", "Tensor.__mul__"),
    "x / 2": ("Mint.div", "Tensor.__truediv__"),
    "-x": ("Primitive.neg.Neg", "Tensor.__neg__"),
    "x ** 2": ("Primitive.pow.Pow", "Tensor.__pow__"),
    "ops.matmul(x, y)": ("Mint.matmul", "Tensor.__matmul__"),
    "x.sum()": ("Mint.sum", "Tensor.sum"),
    "x.mean(axis=0)": ("Primitive.reduce_mean.ReduceMean", "Tensor.mean"),
    "x.reshape(4, 3)": ("Primitive.reshape.Reshape", "Tensor.reshape"),
    "x.transpose(1, 0)": ("Mint.transpose", "Tensor.transpose"),
    "x.astype(mindspore.float16)": ("Primitive.cast.Cast", "Tensor.to"),
    "ops.softmax(x, -1)": ("Primitive.softmax.Softmax", "Functional.softmax"),
    "ops.cat((x, x))": ("Primitive.concat.Concat", "Torch.cat"),
    "ops.stack((x, x))": ("Primitive.stack.Stack", "Torch.stack"),
    "ops.split(x, 2, 1)": ("Primitive.split.Split", "Torch.split"),
    "ops.where(mask, x, x)": ("Primitive.select.Select", "Torch.where"),
    "ops.expand_dims(x, 0)": ("Primitive.expand_dims.ExpandDims", "Torch.unsqueeze"),
    "ops.tanh(x)": ("Primitive.tanh.Tanh", "Torch.tanh"),
    "ops.gather_elements(x, 1, index)": ("Mint.gather", "Torch.gather"),
    "nn.ReLU()(x)": ("Primitive.relu.ReLU", "Functional.relu"),
    "nn.GELU()(x)": ("Primitive.gelu.GeLU", "Functional.gelu"),
    "nn.SiLU()(x)": ("Primitive.silu.SiLU", "Functional.silu"),
    "nn.LayerNorm((4,))(x)": ("Primitive.layer_norm.LayerNorm", "Functional.layer_norm"),
    "nn.Conv2d(1, 2, 3)(image)": ("Primitive.conv2d.Conv2D", "Functional.conv2d"),
    "nn.BatchNorm2d(1)(image)": ("Primitive.batch_norm.BatchNorm", "Functional.batch_norm"),
    "nn.MaxPool2d(2)(image)": ("Primitive.max_pool.MaxPool", "Functional.max_pool2d"),
    "nn.AvgPool2d(2)(image)": ("Primitive.avg_pool.AvgPool", "Functional.avg_pool2d"),
    "nn.Dropout(p=0.5).set_train()(x)": ("Primitive.dropout.Dropout", "Functional.dropout"),
    "nn.Dense(4, 2, has_bias=False)(x)": ("Primitive.matmul.MatMul", "Functional.linear"),
}


@pytest.mark.parametrize("text", NAMED)
def test_operators_are_named_so_that_they_pair_with_those_of_torch(text, x):
    ours, theirs = NAMED[text]
    scope = {
        "x": x,
        "y": Tensor(x.asnumpy().T),
        "image": Tensor(np.ones((1, 1, 4, 4), np.float32)),
        "mask": x > 0,
        "index": Tensor(np.zeros((3, 1), np.int64)),
        **{"nn": nn, "ops": ops, "mindspore": mindspore},
    }
    ((call, _, _),) = operators(lambda: eval(text, scope))
    assert f"{call.path}.{call.layer}".rstrip(".") == ours
    mine = operator(call.path, call.layer)
    assert op_class(bare_name(mine)) == op_class(bare_name(theirs))


def test_names_of_mint_have_the_arguments_of_mint(x):
    weight = Tensor(np.ones(4, np.float32))

    def norm():
        with pytest.raises(RuntimeError):  # not on CPU, but it was called
            ops.layer_norm(x, (4,), weight, weight).asnumpy()

    ((call, args, _),) = operators(norm)
    assert call.path == "MintFunctional.layer_norm"
    (row, is_torch_left), *_ = rows_between("Functional.layer_norm", call.path)
    assert is_torch_left
    assert same([args[int(slot)] for slot in row.mindspore_arguments], (x, weight, weight))


def test_the_arguments_of_an_older_primitive_are_those_it_was_called_with(x):
    dense = nn.Dense(4, 2)
    (_, matmul, _), (_, bias, _) = operators(lambda: dense(x))
    assert same(matmul, (x, dense.weight))
    assert len(bias) == 2
    assert same(bias[1:], (dense.bias,))


def test_numbers_that_mindspore_filled_in_are_no_arguments_but_a_factor_is(x):
    ((_, args, _),) = operators(lambda: ops.softmax(x, -1))
    assert len(args) == 1
    ((_, args, _),) = operators(lambda: x * 2.5)
    assert args[1:] == (2.5,)


def test_the_kernels_of_a_backward_pass_are_no_calls(x):
    net = Pair()
    names = [call.path for call, *_ in operators(lambda: net(x))]
    step = mindspore.value_and_grad(lambda x: net(x), 0, net.trainable_params())
    assert [call.path for call, *_ in operators(lambda: step(x))] == names


def test_what_gives_no_tensor_is_not_seen_once_that_is_known(x):
    def loss():
        nn.CrossEntropyLoss()(x, Tensor([1, 2, 3], mindspore.int32))

    operators(loss)
    assert not [call for call, *_ in operators(loss) if "typeof" in call.path]


def test_memory_that_a_primitive_keeps_for_its_backward_pass_is_no_output(x):
    """Whatever stood there before stands there, until a backward pass needs it."""
    told = []
    norm, lstm = nn.BatchNorm1d(4).set_train(), nn.LSTM(4, 2, batch_first=True)

    def end(token, output, raised):
        if token in ("Primitive.batch_norm", "Primitive.lstm"):
            told.append((token, len(output)))

    with recording.watch_functions(lambda call, args, kwargs: call.path, end):
        norm(x)
        h, states = lstm(ops.stack([x]))
    assert told == [("Primitive.batch_norm", 1), ("Primitive.lstm", 3)]
    assert (h.shape, len(states)) == ((1, 3, 2), 2)


def test_the_operations_of_the_recorder_are_not_seen(x):
    def run():
        with recording.quiet():
            x + x

    assert operators(run) == []


def test_an_operator_that_raises_is_told_and_the_next_one_is_fine(x):
    ends = []
    with recording.watch_functions(
        lambda call, args, kwargs: call.path, lambda *end: ends.append(end)
    ):
        with pytest.raises((ValueError, RuntimeError)):
            ops.MatMul()(x, x)
        x + x
    assert [end[0] for end in ends] == ["Primitive.matmul", "Mint.add"]
    assert [end[2] for end in ends] == [True, False]


def test_the_mode_is_gone_after_an_exception_that_is_none_of_exception(x):
    class Stop(BaseException):
        pass

    def begin(call, args, kwargs):
        raise Stop

    with pytest.raises(Stop), recording.watch_functions(begin, lambda *end: None):
        x + x
    np.testing.assert_array_equal((x + x).asnumpy(), 2 * x.asnumpy())


# ---- gradients ----------------------------------------------------------------------------------


def test_a_hook_of_a_leaf_stays_until_it_is_removed(x):
    net, got = nn.Dense(4, 2), []
    hooks = []

    def forward(x):
        if not hooks:
            hooks.append(recording.watch_gradient(x, got.append))
        return net(x).sum()

    step = mindspore.value_and_grad(forward, 0, None)
    step(x)
    step(x)
    assert len(got) == 2
    hooks[0].remove()
    hooks[0].remove()
    step(x)
    assert len(got) == 2


def test_a_hook_may_be_removed_inside_its_own_call():
    """Removing it there ends the process, so it is run in another one."""
    program = """
import numpy as np, mindspore
from mindspore import Tensor, nn
from troubleshooter_nb.frameworks import mindspore_recording as recording
net, got = nn.Dense(4, 2), []
def receive(gradient):
    got.append(gradient)
    handle.remove()
handle = recording.watch_gradient(net.weight, receive)
step = mindspore.value_and_grad(lambda x: net(x).sum(), None, net.trainable_params())
for _ in range(3):
    step(Tensor(np.ones((1, 4), np.float32)))
recording.remove_waiting()
step(Tensor(np.ones((1, 4), np.float32)))
print(len(got))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout.strip()) == (0, "1"), done.stderr


def test_no_gradient_is_promised_where_none_can_come(x):
    def receive(gradient):
        raise AssertionError

    assert recording.watch_gradient(x, receive) is None  # outside of value_and_grad
    assert recording.watch_gradient(Tensor([1, 2]), receive) is None
    frozen = mindspore.Parameter(x, requires_grad=False)
    assert recording.watch_gradient(frozen, receive) is None

    def forward(x):
        stopped = ops.stop_gradient(x * 2)
        assert recording.watch_gradient(stopped, receive) is None
        return (x * stopped).sum()

    mindspore.grad(forward)(x)


def test_recording_gradients_changes_no_bit_of_them(x):
    net = Pair()
    step = mindspore.value_and_grad(lambda x: net(x).sum(), None, net.trainable_params())
    plain, got, hooks = step(x), [], []
    layers = recording.layers(net, "boundary")[0]

    def after(args, kwargs, output, raised):
        hooks.append(recording.watch_gradient(output, got.append))

    for layer in layers:
        hooks += recording.watch_calls(layer, lambda *a: None, after)
    hooks += [recording.watch_gradient(p, got.append) for p in net.trainable_params()]
    watched_step = step(x)
    for handle in hooks:
        handle.remove()
    assert len(got) == 3 + 4  # calls, parameters
    for results in (watched_step, step(x)):
        np.testing.assert_array_equal(results[0].asnumpy(), plain[0].asnumpy())
        for gradient, expected in zip(results[1], plain[1], strict=True):
            np.testing.assert_array_equal(gradient.asnumpy(), expected.asnumpy())


def test_what_an_operator_gave_has_its_gradient_when_the_next_one_is_given_it(x, handles):
    """The newer primitives are told before MindSpore knows that their outputs need one."""
    got = {}

    def begin(call, args, kwargs):
        receive = got.setdefault(call.path, []).append
        handles.append(recording.watch_gradient(args[0], receive))
        return call.path

    def end(path, output, raised):
        if path == "Mint.mul":
            assert recording.watch_gradient(output, print) is None

    def forward(x):
        return ops.relu(x * 2.0).sum()

    with recording.watch_functions(begin, end):
        mindspore.grad(forward)(x)
    handles[:] = [handle for handle in handles if handle is not None]
    assert {path: len(gradients) for path, gradients in got.items()} == {
        "Mint.mul": 1,
        "Primitive.relu": 1,
        "Mint.sum": 1,
    }
    positive = (x.asnumpy() > 0).astype(np.float32)
    np.testing.assert_array_equal(got["Mint.sum"][0].asnumpy(), np.ones((3, 4)))
    np.testing.assert_array_equal(got["Primitive.relu"][0].asnumpy(), positive)
    np.testing.assert_array_equal(got["Mint.mul"][0].asnumpy(), 2 * positive)


def test_what_a_reshape_gave_is_not_watched_before_it_returned(x, handles):
    """It is in a graph by then already, which is replaced by another one: the hook never fires."""
    refused, got, weight = [], [], mindspore.Parameter(np.ones((4, 4), np.float32))

    def end(path, output, raised):
        if path == "Primitive.reshape":
            refused.append(recording.watch_gradient(output, got.append))

    def forward(x):
        y = ops.reshape(ops.matmul(x, weight), (2, 6))
        handles.append(recording.watch_gradient(y, got.append))
        return (y * 3.0).sum()

    with recording.watch_functions(lambda call, args, kwargs: call.path, end):
        mindspore.value_and_grad(forward, None, [weight])(x)
    assert refused == [None]
    (gradient,) = got
    np.testing.assert_array_equal(gradient.asnumpy(), np.full((2, 6), 3.0))


def test_what_a_jit_function_is_given_may_be_watched_and_so_may_what_it_gives(x):
    """The compiler reads the hooks of its inputs and of parameters."""
    net = nn.SequentialCell(nn.Dense(4, 4), Jitted())
    got, hooks = {}, []

    def watch(name, tensor):
        def receive(gradient):
            try:  # which no compiler of MindSpore reads
                got[name] = gradient.asnumpy()
            finally:
                pass

        hooks.append(recording.watch_gradient(tensor, receive))

    def forward(x):
        before = net[0](x)
        after = net[1](before)
        if watches:
            watch("before", before)
            watch("after", after)
        return (after * 3).sum()

    step = mindspore.value_and_grad(forward, None, net.trainable_params())
    runs = []
    for watches in (True, False):
        if watches:
            for parameter in net.trainable_params():
                watch(parameter.name, parameter)
        runs.append(step(x)[1])
        while hooks:
            hooks.pop().remove()
    positive = (net(x).asnumpy() > 0).astype(np.float32)
    np.testing.assert_array_equal(got["after"], np.full((3, 4), 3.0))
    np.testing.assert_allclose(
        got["before"], 3 * positive @ net[1].inner.weight.asnumpy(), rtol=1e-5, atol=1e-6
    )
    for parameter, *gradients in zip(net.trainable_params(), *runs, strict=True):
        for gradient in gradients:
            np.testing.assert_array_equal(got[parameter.name], gradient.asnumpy())


@pytest.mark.parametrize("how", [{}, {"use_reentrant": False}])
def test_what_a_backward_pass_recomputes_is_told_from_the_first_run(x, how):
    net = Pair()
    net.a.recompute(**how)
    runs = []
    step = mindspore.value_and_grad(lambda x: net(x).sum(), None, net.trainable_params())
    with recording.watch_functions(
        lambda call, args, kwargs: runs.append((call.path, recording.is_recomputing())),
        lambda *end: None,
    ):
        step(x)
    linear = [recomputing for path, recomputing in runs if path == "Primitive.matmul"]
    assert linear == [False, False, True]


# ---- identity -----------------------------------------------------------------------------------


def test_a_tensor_is_the_same_object_for_the_cell_that_gave_it_and_the_next(x, handles):
    net = nn.SequentialCell(nn.Dense(4, 4), nn.Identity(), nn.ReLU())
    met = []
    for layer in recording.layers(net, "boundary")[0][1:]:
        handles += recording.watch_calls(
            layer,
            lambda args, kwargs, frame: met.append(args[0]),
            lambda args, kwargs, output, raised: met.append(output),
        )
    for run in (net, mindspore.value_and_grad(net, 0, net.trainable_params())):
        met.clear()
        run(x)
        assert met[0] is x
        assert met[1] is met[2] is met[3] is met[4]


def test_a_weak_reference_tells_that_an_id_is_used_again(x, handles):
    net = nn.SequentialCell(*[nn.Dense(4, 4) for _ in range(20)])
    ids, references = set(), []

    def after(args, kwargs, output, raised):
        ids.add(id(output))
        references.append(weakref.ref(output))

    for layer in recording.layers(net, "boundary")[0][1:]:
        handles += recording.watch_calls(layer, lambda *a: None, after)
    kept = net(x)
    assert len(ids) < 20
    assert [reference() for reference in references[:-2]] == [None] * 18
    assert references[-1]() is kept


def test_a_tensor_that_operators_are_given_as_another_object_is_known_again(x):
    met = []
    dense = nn.Dense(4, 4)

    def run():
        return ops.relu(dense(x) * 2)

    with recording.watch_functions(
        lambda call, args, kwargs: met.append([recording.identity(a) for a in args[:1]]) or 1,
        lambda token, output, raised: met.append([recording.identity(output)]),
    ):
        result = run()
    inputs, outputs = met[::2], met[1::2]
    assert len(inputs) == 4
    assert inputs[1:] == outputs[:-1]
    assert outputs[-1] == [recording.identity(result)]
    assert recording.identity(x) is not recording.identity(Tensor(x.asnumpy()))


def test_the_mark_of_a_tensor_goes_with_it(x):
    tensor = Tensor(x.asnumpy())  # of an operation, it could still be under way
    mark = weakref.ref(recording.identity(tensor))
    assert mark() is recording.identity(tensor)
    del tensor
    assert mark() is None


def test_views_lie_in_the_memory_of_their_base(x):
    assert recording.view_of(x[1:]) == recording.view_of(x.reshape(12)) == recording.view_of(x)
    assert recording.view_of(x + 1) != recording.view_of(x)


# ---- the rest -----------------------------------------------------------------------------------


def test_a_tensor_of_unknown_length_has_no_values():
    tensor = Tensor(shape=[None, 3], dtype=mindspore.float32)
    with pytest.raises(ValueError, match="float32 tensor of MindSpore gives no values"):
        recording.copied(tensor)
    assert recording.facts(tensor).shape == (-1, 3)


def test_statistics_are_those_of_the_values_in_c_order(x, monkeypatch):
    import types

    asked = []
    stand_in = types.ModuleType("troubleshooter_nb.metrics.sketches")
    stand_in.statistics_of = lambda array, fingerprint: asked.append((array, fingerprint)) or {}
    monkeypatch.setitem(sys.modules, stand_in.__name__, stand_in)
    monkeypatch.setattr("troubleshooter_nb.metrics.sketches", stand_in, raising=False)
    begun = [recording.measured(x.T, True), recording.measured(Tensor(2.0), False)]
    assert recording.read_measured(begun) == [{}, {}]
    (first, wanted), (scalar, _) = asked
    assert first.flags.c_contiguous
    assert wanted
    np.testing.assert_array_equal(first, x.asnumpy().T)
    assert scalar.shape == ()


def test_a_compiled_cell_owns_all_that_is_inside_while_it_runs_compiled():
    layer = seen_of(Jitted())[""]
    assert [entry.leaf for entry in recording.owned(layer)] == ["inner.weight", "inner.bias"]
    with recording.eager():
        assert recording.owned(layer) == []


def test_buffers_that_no_checkpoint_holds_are_owned_under_their_path():
    net = nn.SequentialCell(nn.Cell(), nn.BatchNorm1d(4))
    net[0].register_buffer("mask", Tensor([1.0]))
    layers = seen_of(net)
    assert [entry[:2] + entry[3:] for entry in recording.owned(layers["0"])] == [
        ("mask", "0.mask", "buffer")
    ]
    assert {entry.leaf: entry.role for entry in recording.owned(layers["1"])} == {
        "gamma": "parameter",
        "beta": "parameter",
        "moving_mean": "buffer",
        "moving_variance": "buffer",
    }


def test_a_tensor_that_a_cell_of_the_user_keeps_is_a_buffer_and_one_of_nn_is_not():
    class Masks(nn.Cell):
        def __init__(self):
            super().__init__()
            self.mask, self.others = Tensor([1.0]), [Tensor([2.0])]
            self.scale = mindspore.Parameter(Tensor([3.0]))
            self.table = nn.Embedding(4, 2)

    layers = seen_of(Masks())
    assert [(entry.leaf, entry.role) for entry in recording.owned(layers[""])] == [
        ("scale", "parameter"),
        ("mask", "buffer"),
    ]
    assert isinstance(vars(layers["table"].module)["on_value"], Tensor)
    assert [entry.leaf for entry in recording.owned(layers["table"])] == ["embedding_table"]


def test_steps_of_optimizers_are_told_and_nothing_stays():
    net = nn.Dense(4, 2)
    optimizer = nn.SGD(net.trainable_params())
    gradients = tuple(Tensor(np.ones(p.shape, np.float32)) for p in net.trainable_params())
    heard = []
    handles = recording.watch_optimizers(lambda: heard.append(1), lambda: heard.append(2))
    optimizer(gradients)
    assert heard == [1, 2]
    for handle in handles * 2:
        handle.remove()
    optimizer(gradients)
    assert heard == [1, 2]
    assert "__call__" not in vars(nn.Optimizer)


def test_two_watches_of_optimizers_may_be_removed_in_any_order():
    net = nn.Dense(4, 2)
    optimizer = nn.SGD(net.trainable_params())
    gradients = tuple(Tensor(np.ones(p.shape, np.float32)) for p in net.trainable_params())
    heard = []
    first = recording.watch_optimizers(lambda: heard.append("first"), lambda: None)
    second = recording.watch_optimizers(lambda: heard.append("second"), lambda: None)
    for handle in first:
        handle.remove()
    optimizer(gradients)
    assert heard == ["second"]
    for handle in second:
        handle.remove()
    optimizer(gradients)
    assert heard == ["second"]
    assert "__call__" not in vars(nn.Optimizer)


def test_watches_of_optimizers_are_told_around_each_other_and_what_others_put_there_stays():
    net = nn.Dense(4, 2)
    optimizer = nn.SGD(net.trainable_params())
    gradients = tuple(Tensor(np.ones(p.shape, np.float32)) for p in net.trainable_params())
    heard = []

    def watch(name):
        told = [lambda word=word: heard.append(f"{name} {word}") for word in ("enters", "leaves")]
        return recording.watch_optimizers(*told)

    handles = watch("a") + watch("b")
    ours = nn.Optimizer.__call__

    def of_another(self, *args):
        return ours(self, *args)

    nn.Optimizer.__call__ = of_another
    try:
        handles += watch("c")
        optimizer(gradients)
        for handle in handles:
            handle.remove()
        optimizer(gradients)
        assert vars(nn.Optimizer)["__call__"] is of_another
    finally:
        del nn.Optimizer.__call__
    assert heard == [f"{name} enters" for name in "cab"] + [f"{name} leaves" for name in "bac"]


def test_state_tells_gradients_and_the_dtype_of_mixed_precision(x):
    from mindspore import amp

    states = [recording.state()]

    class Looks(nn.Cell):
        def construct(self, x):
            states.append(recording.state())
            return x.sum()

    mindspore.grad(Looks())(x)
    amp.auto_mixed_precision(nn.SequentialCell(Looks()), "auto", mindspore.float16)(x)
    assert states[0] == (False, "")
    assert states[1] == (True, "")
    assert states[2] == (False, "float16")
