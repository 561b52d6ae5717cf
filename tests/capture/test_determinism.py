"""`seed_all`: the same numbers again, no dropout, and the way back."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading

import numpy as np
import pytest

import troubleshooter_nb as tnb
from tests.messages.rules import english_left
from troubleshooter_nb import frameworks
from troubleshooter_nb.frameworks import seeding
from troubleshooter_nb.options import option_context

SHAPE = (64, 64)  # of 4096 values none survives dropout as it was by luck


class Torch:
    """What the contract tests need of torch."""

    NAME, FUNCTION = "torch", "F.dropout"

    def __init__(self):
        import torch

        self.torch = torch

    def draw(self):
        return self.torch.rand(8).numpy()

    def state(self):
        return self.torch.get_rng_state().numpy().tobytes()

    def ones(self):
        return self.torch.ones(SHAPE)

    def flags(self):
        torch = self.torch
        cudnn = torch.backends.cudnn
        warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
        mode = torch.are_deterministic_algorithms_enabled()
        return mode, warn_only, cudnn.deterministic, cudnn.benchmark

    def deterministic(self):
        return self.flags() == (True, False, True, False)

    def run(self, function):
        return function(self.ones()).numpy()

    def gradient(self, function):
        leaf = self.ones().requires_grad_()
        out = function(leaf)
        out.sum().backward()
        return out.detach().numpy(), leaf.grad.numpy()

    def droppers(self):
        nn, F = self.torch.nn, self.torch.nn.functional
        wide = {
            "dropout2d": (1, 64, 64, 1),
            "dropout1d": (1, 64, 64),
            "dropout3d": (1, 64, 64, 1, 1),
        }
        found = {f"nn.{kind}": getattr(nn, kind)(0.5) for kind in ("Dropout", "AlphaDropout")}
        found["nn.Dropout in place"] = lambda x: nn.Dropout(0.5, inplace=True)(x * 1)
        for name in ("dropout", "alpha_dropout", "feature_alpha_dropout", *wide):
            shape = wide.get(name, SHAPE)
            function = getattr(F, name)
            found[f"F.{name}"] = lambda x, f=function, s=shape: f(
                x.reshape(s), 0.5, training=True
            ).reshape(SHAPE)
        found["torch.dropout"] = lambda x: self.torch.dropout(x, 0.5, True)
        found["torch.dropout by keyword"] = lambda x: self.torch.dropout(x, p=0.5, train=True)
        return found


class MindSpore:
    """What the contract tests need of MindSpore."""

    NAME, FUNCTION = "mindspore", "ops.dropout"

    def __init__(self):
        import mindspore

        self.mindspore = mindspore

    def draw(self):
        return self.mindspore.ops.rand(8).asnumpy()

    def state(self):
        from mindspore.dataset import config

        module = sys.modules["mindspore.common.seed"]
        state = self.mindspore.get_rng_state().asnumpy().tobytes()
        return self.mindspore.get_seed(), dict(module._KERNEL_SEED), config.get_seed(), state

    def ones(self):
        return self.mindspore.Tensor(np.ones(SHAPE, np.float32))

    def flags(self):
        return self.mindspore.get_context("deterministic")

    def deterministic(self):
        return self.flags() == "ON"

    def run(self, function):
        return function(self.ones()).asnumpy()

    def gradient(self, function):
        return self.run(function), self.mindspore.grad(function)(self.ones()).asnumpy()

    def droppers(self):
        nn, ops = self.mindspore.nn, self.mindspore.ops
        layer = nn.Dropout(p=0.5).set_train()
        return {
            "nn.Dropout": layer,
            "nn.Dropout1d": nn.Dropout1d(0.5).set_train(),
            "nn.Dropout2d": lambda x: (
                nn.Dropout2d(0.5).set_train()(x.reshape(1, 64, 64, 1)).reshape(SHAPE)
            ),
            "ops.dropout": lambda x: ops.dropout(x, 0.5),
            "ops.dropout1d": lambda x: ops.dropout1d(x, 0.5),
            "ops.dropout2d": lambda x: ops.dropout2d(x.reshape(1, 64, 64, 1), 0.5).reshape(SHAPE),
            "ops.dropout3d": lambda x: ops.dropout3d(x.reshape(1, 64, 64, 1, 1), 0.5).reshape(
                SHAPE
            ),
            "ops.Dropout": lambda x: ops.Dropout(0.5)(x)[0],
        }


@pytest.fixture(
    params=[
        pytest.param(Torch, marks=pytest.mark.torch),
        pytest.param(MindSpore, marks=pytest.mark.mindspore),
    ]
)
def framework(request):
    return request.param()


@pytest.fixture(autouse=True)
def as_before():
    """Nothing that a test does to the process outlasts it."""
    before = seeding.last_seed()
    with tnb.seed_all(99):
        yield
    assert seeding.last_seed() == before


def everything(framework):
    """All that a call may change, as it is now."""
    dropping = droppers_that_drop(framework)
    variables = ("PYTHONHASHSEED", "CUBLAS_WORKSPACE_CONFIG", "HCCL_DETERMINISTIC")
    _, words, *rest = np.random.get_state()  # noqa: NPY002
    return {
        "random": random.getstate(),
        "numpy": (words.tobytes(), *rest),
        "framework": framework.state(),
        "flags": framework.flags(),
        "environment": [os.environ.get(name) for name in (*variables, "TE_PARALLEL_COMPILER")],
        "dropout": dropping,
        "card": tnb.RunCard.current(framework.NAME).to_dict(),
    }


def droppers_that_drop(framework):
    with tnb.seed_all(5):  # looking at it is a draw
        return [
            name
            for name, dropper in framework.droppers().items()
            if not np.array_equal(framework.run(dropper), np.ones(SHAPE))
        ]


# Seeds


def test_the_same_seed_gives_the_same_numbers_again(framework):
    drawn = []
    for seed in (3, 3, 4):
        tnb.seed_all(seed)
        drawn.append([random.random(), np.random.rand(), *framework.draw()])  # noqa: NPY002
    assert drawn[0] == drawn[1]
    assert not set(drawn[0]) & set(drawn[2])


@pytest.mark.parametrize("seed", [0, 2**32 - 1, np.int64(7)])
def test_the_smallest_and_the_largest_seed_are_taken_by_all(framework, seed):
    drawn = []
    for _ in range(2):
        tnb.seed_all(seed)
        drawn.append([random.random(), np.random.rand(), *framework.draw()])  # noqa: NPY002
    assert drawn[0] == drawn[1]


@pytest.mark.mindspore
def test_in_mindspore_new_layers_repeat_and_one_that_has_drawn_goes_on():
    mindspore = MindSpore().mindspore
    x = MindSpore().ones()
    old = mindspore.nn.Dropout(p=0.5).set_train()
    masks = {"old": [], "new": [], "function": [], "weight": []}
    for _ in range(2):
        tnb.seed_all(3)
        masks["function"].append(mindspore.ops.dropout(x).asnumpy())
        masks["new"].append(mindspore.nn.Dropout(p=0.5).set_train()(x).asnumpy())
        masks["weight"].append(mindspore.nn.Dense(4, 4).weight.asnumpy())
        masks["old"].append(old(x).asnumpy())
    repeated = {name: np.array_equal(*both) for name, both in masks.items()}
    assert repeated == {"old": False, "new": True, "function": True, "weight": True}


def test_drawing_goes_on_after_undo_as_if_nothing_had_been(framework):
    drop = framework.droppers()[framework.FUNCTION]
    drawn = []
    for is_interrupted in (False, True):
        with tnb.seed_all(8):
            framework.draw()
            drop(framework.ones())
            if is_interrupted:
                with tnb.seed_all(3, mode=True, rm_dropout=True):
                    framework.draw()
                    drop(framework.ones())
            dropped = framework.run(drop)
            numbers = random.random(), np.random.rand()  # noqa: NPY002
            drawn.append([*numbers, *framework.draw(), *dropped.ravel()])
    assert drawn[0] == drawn[1]


# The way back


@pytest.mark.parametrize("options", [{}, {"mode": True}, {"rm_dropout": True, "mode": True}])
def test_leaving_puts_everything_back(framework, options):
    before = everything(framework)
    with tnb.seed_all(3, **options):
        assert framework.state() != before["framework"]
        framework.draw()
        assert os.environ["PYTHONHASHSEED"] == "3"
        assert framework.deterministic() == bool(options)
    assert everything(framework) == before


def test_an_exception_puts_everything_back_too(framework):
    before = everything(framework)
    with pytest.raises(ZeroDivisionError), tnb.seed_all(3, mode=True, rm_dropout=True):
        raise ZeroDivisionError
    assert everything(framework) == before


def test_a_plain_call_stays_until_undone_and_is_undone_once(framework):
    before = everything(framework)
    seeded = tnb.seed_all(3, mode=True, rm_dropout=True)
    assert framework.deterministic()
    assert droppers_that_drop(framework) == []
    seeded.undo()
    assert everything(framework) == before
    framework.draw()
    drawn = everything(framework)
    seeded.undo()
    assert everything(framework) == drawn


def test_what_was_undone_can_be_entered_again(framework):
    before = everything(framework)
    seeded = tnb.seed_all(3)
    first = framework.draw()
    seeded.undo()
    with seeded:
        np.testing.assert_array_equal(framework.draw(), first)
    assert everything(framework) == before


def test_nested_calls_go_back_one_by_one(framework):
    before = everything(framework)
    with tnb.seed_all(3, rm_dropout=True):
        framework.draw()
        between = everything(framework)
        with tnb.seed_all(4, mode=True, rm_dropout=True):
            framework.draw()
        assert everything(framework) == between
        with tnb.seed_all(5):
            assert droppers_that_drop(framework) == []
        assert everything(framework) == between
    assert everything(framework) == before


@pytest.mark.parametrize(
    "order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0), (2, 0, 1), (0, 2, 1)]
)
def test_in_any_order_all_is_as_before_once_all_are_undone(framework, order):
    before = everything(framework)
    calls = [
        tnb.seed_all(3, mode=True),
        tnb.seed_all(4, rm_dropout=True),
        tnb.seed_all(5, mode=True, rm_dropout=True),
    ]
    for index in order:
        framework.draw()
        calls[index].undo()
    assert everything(framework) == before


def test_what_a_later_call_needs_stays_when_an_earlier_one_is_undone(framework):
    first = tnb.seed_all(3, mode=True)
    second = tnb.seed_all(4, rm_dropout=True)
    state = framework.state()
    first.undo()
    assert framework.state() == state
    assert not framework.deterministic()  # only the first wanted it
    assert os.environ["PYTHONHASHSEED"] == "4"
    second.undo()


def test_a_result_that_nobody_kept_stays_for_good(framework):
    outer = tnb.seed_all(3)
    tnb.seed_all(4)
    state = framework.state()
    with tnb.seed_all(5):
        framework.draw()
    assert framework.state() == state
    outer.undo()
    assert tnb.RunCard.current(framework.NAME).facts["seed"] == 99


@pytest.mark.parametrize("value", [":16:8", ":0:0", None])
def test_a_variable_that_will_do_is_kept(framework, monkeypatch, value):
    monkeypatch.delenv("HCCL_DETERMINISTIC", raising=False)
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    if value:
        monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", value)
    monkeypatch.setenv("TE_PARALLEL_COMPILER", "0")
    with tnb.seed_all(mode=True):
        assert os.environ["HCCL_DETERMINISTIC"] == "true"
        if "torch" in frameworks.loaded():
            found = os.environ["CUBLAS_WORKSPACE_CONFIG"]
            assert found == (":16:8" if value == ":16:8" else ":4096:8")
    assert os.environ.get("CUBLAS_WORKSPACE_CONFIG") == value
    assert "HCCL_DETERMINISTIC" not in os.environ
    assert os.environ["TE_PARALLEL_COMPILER"] == "0"


@pytest.mark.torch
def test_an_operator_without_a_deterministic_algorithm_warns_where_it_did_so_before():
    torch = Torch().torch
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with tnb.seed_all(mode=True):
            assert torch.is_deterministic_algorithms_warn_only_enabled()
        assert torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch.use_deterministic_algorithms(False)


# Dropout


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(Torch, marks=pytest.mark.torch),
        pytest.param(MindSpore, marks=pytest.mark.mindspore),
    ],
)
def test_every_dropper_drops_and_does_not_while_removed(request, kind):
    pytest.importorskip(kind.NAME)
    framework = kind()
    for name, dropper in framework.droppers().items():
        ones = np.ones(SHAPE)
        out, gradient = framework.gradient(dropper)
        assert not np.array_equal(out, ones), name
        assert not np.array_equal(gradient, ones), name
        with tnb.seed_all(rm_dropout=True):
            out, gradient = framework.gradient(dropper)
            np.testing.assert_array_equal(out, ones, err_msg=name)
            np.testing.assert_array_equal(gradient, ones, err_msg=name)
        out, _ = framework.gradient(dropper)
        assert not np.array_equal(out, ones), name


def torch_nets(torch):
    """Nets that exist already with dropout at 0.5, each with a call and whether it is random."""
    nn, F = torch.nn, torch.nn.functional
    attention, with_weights = (
        nn.MultiheadAttention(16, 4, dropout=0.5, batch_first=True) for _ in range(2)
    )
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.5, batch_first=True)
    nets = {
        "attention": (attention, lambda net, x: net(x, x, x, need_weights=False)[0]),
        "attention with weights": (with_weights, lambda net, x: net(x, x, x)[0]),
        "encoder layer": (layer, lambda net, x: net(x)),
        "functional attention": (
            nn.Identity(),
            lambda net, x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.5),
        ),
        "functional attention by position": (
            nn.Identity(),
            lambda net, x: F.scaled_dot_product_attention(x, x, x, None, 0.5),
        ),
    }
    for kind in ("LSTM", "GRU", "RNN"):
        net, packed = (
            getattr(nn, kind)(16, 16, num_layers=2, dropout=0.5, batch_first=True) for _ in range(2)
        )
        nets[kind] = net, lambda net, x: net(x)[0]
        nets[f"{kind} packed"] = (
            packed,
            lambda net, x: (
                net(nn.utils.rnn.pack_padded_sequence(x, [5, 4], batch_first=True))[0].data
            ),
        )
    return nets


def run_of(torch, net, call):
    x = torch.linspace(-1, 1, 2 * 5 * 16).reshape(2, 5, 16).requires_grad_()
    net.zero_grad()
    out = call(net, x)
    out.square().sum().backward()
    return [out.detach(), x.grad, *(p.grad for p in net.parameters())]


@pytest.mark.torch
def test_a_torch_net_in_training_computes_what_it_does_with_p_of_zero():
    torch = Torch().torch
    for name, (net, call) in torch_nets(torch).items():
        net.train()
        assert not torch.equal(run_of(torch, net, call)[0], run_of(torch, net, call)[0]), name
        with tnb.seed_all(rm_dropout=True):
            got = run_of(torch, net, call)
            assert all(module.training for module in net.modules())
        if isinstance(net, torch.nn.Identity):

            def call(net, x):
                return torch.nn.functional.scaled_dot_product_attention(x, x, x)

        for module in net.modules():
            for setting in ("p", "dropout"):
                if isinstance(getattr(module, setting, None), float):
                    setattr(module, setting, 0.0)
        wanted = run_of(torch, net, call)
        assert all(map(torch.equal, got, wanted)), name


@pytest.mark.mindspore
def test_a_mindspore_net_in_training_computes_what_it_does_outside_of_it():
    mindspore = MindSpore().mindspore
    nn = mindspore.nn
    x = mindspore.Tensor(np.linspace(-1, 1, 2 * 5 * 16, dtype=np.float32).reshape(2, 5, 16))
    nets = {
        "attention": (nn.MultiheadAttention(16, 4, dropout=0.5), lambda net: net(x, x, x)[0]),
        "encoder layer": (nn.TransformerEncoderLayer(16, 4, 32, dropout=0.5), lambda net: net(x)),
        "LSTM": (nn.LSTM(16, 16, num_layers=2, dropout=0.5), lambda net: net(x)[0]),
    }
    for name, (net, call) in nets.items():
        net.set_train()
        assert not np.array_equal(call(net).asnumpy(), call(net).asnumpy()), name
        with tnb.seed_all(rm_dropout=True):
            got = call(net).asnumpy()
            assert net.training
        np.testing.assert_array_equal(got, call(net.set_train(False)).asnumpy(), err_msg=name)


@pytest.mark.torch
def test_names_imported_before_and_during_the_removal_are_reached_and_freed():
    torch = Torch().torch
    module = sys.modules[__name__]
    original = torch.nn.functional.scaled_dot_product_attention
    module.imported_before = original
    x = torch.linspace(-1, 1, 320).reshape(4, 5, 16)
    try:
        with tnb.seed_all(rm_dropout=True):
            replaced = torch.nn.functional.scaled_dot_product_attention
            assert torch.equal(module.imported_before(x, x, x, dropout_p=0.5), original(x, x, x))
            assert torch.equal(replaced(x, x, x, dropout_p=0.5), original(x, x, x))
        assert module.imported_before is original
        assert not torch.equal(replaced(x, x, x, dropout_p=0.5), original(x, x, x))
    finally:
        del module.imported_before


@pytest.mark.torch
def test_a_function_mode_sees_the_functions_that_it_knows():
    torch = Torch().torch
    x = torch.ones(1, 2, 4)
    net = torch.nn.LSTM(4, 4, 2, dropout=0.5)

    def names_of_calls():
        seen = []

        class Watching(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, function, types, args=(), kwargs=None):
                seen.append(torch.overrides.resolve_name(function))
                return function(*args, **(kwargs or {}))

        with Watching():
            torch.nn.functional.dropout(x)
            torch.dropout(x, 0.5, True)
            torch.nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.5)
            net(x)
        return seen

    with tnb.seed_all(rm_dropout=True):
        seen = names_of_calls()
    assert seen == names_of_calls()
    assert {"torch.nn.functional.scaled_dot_product_attention", "torch.lstm"} <= {*seen}


@pytest.mark.torch
def test_torch_functions_are_the_very_same_after_it():
    torch = Torch().torch
    spaces = (torch, torch.nn.functional, torch._C._nn)
    names = [dict(vars(space)) for space in spaces]
    own = dict(vars(torch._VF))
    with tnb.seed_all(rm_dropout=True):
        assert torch.dropout is not names[0]["dropout"]
        assert torch.nn.functional.dropout is names[1]["dropout"]
    for space, before in zip(spaces, names, strict=True):
        assert vars(space).keys() == before.keys()
        assert all(vars(space)[name] is value for name, value in before.items())
    assert vars(torch._VF) == own


@pytest.mark.torch
def test_what_somebody_else_put_there_meanwhile_is_left_alone(monkeypatch):
    torch = Torch().torch
    original = torch.dropout
    seeded = tnb.seed_all(rm_dropout=True)
    mine = torch.dropout = lambda *args: None
    try:
        seeded.undo()
        assert torch.dropout is mine
    finally:
        torch.dropout = original


@pytest.mark.mindspore
def test_mindspore_classes_are_the_very_same_after_it():
    ops = MindSpore().mindspore.ops
    kinds = [ops.Dropout, ops.Dropout2D, ops.auto_generate.FuncDropoutExt]
    before = [dict(vars(kind)) for kind in kinds]
    with tnb.seed_all(rm_dropout=True):
        assert all(dict(vars(kind)) != was for kind, was in zip(kinds, before, strict=True))
    assert [dict(vars(kind)) for kind in kinds] == before


@pytest.mark.mindspore
def test_graph_mode_is_refused_and_nothing_has_changed():
    framework = MindSpore()
    mindspore = framework.mindspore
    before = everything(framework)
    mindspore.set_context(mode=mindspore.GRAPH_MODE)
    try:
        with pytest.raises(NotImplementedError, match=r"GRAPH_MODE.*p=0\.0"):
            tnb.seed_all(3, mode=True, rm_dropout=True)
        with tnb.seed_all(3):
            assert mindspore.get_seed() == 3
    finally:
        mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    assert everything(framework) == before


@pytest.mark.torch
@pytest.mark.parametrize("is_used_before", [True, False])
def test_what_torch_compiled_drops_nothing_meanwhile_and_drops_again(is_used_before):
    torch = Torch().torch
    compiled = torch.compile(lambda x: torch.nn.functional.dropout(x, 0.5), backend="aot_eager")
    ones = torch.ones(SHAPE)
    if is_used_before:
        assert compiled(ones).min() == 0
    with tnb.seed_all(rm_dropout=True):
        assert compiled(ones).min() == 1
    assert compiled(ones).min() == 0


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
def test_what_is_scripted_meanwhile_keeps_its_dropout():
    torch = Torch().torch
    with tnb.seed_all(rm_dropout=True):
        scripted = torch.jit.script(torch.nn.Dropout())
        assert scripted(torch.ones(SHAPE)).min() == 0
    assert torch.jit.script(torch.nn.Dropout())(torch.ones(SHAPE)).min() == 0


@pytest.mark.mindspore
def test_what_mindspore_compiled_keeps_its_dropout():
    mindspore = MindSpore().mindspore

    @mindspore.jit
    def drop(x):
        return mindspore.ops.dropout(x, 0.5)

    with tnb.seed_all(rm_dropout=True):
        assert drop(MindSpore().ones()).min() == 0


@pytest.mark.torch
def test_other_threads_drop_nothing_either():
    torch = Torch().torch
    found = []
    with tnb.seed_all(rm_dropout=True):
        drop = threading.Thread(
            target=lambda: found.append(torch.nn.Dropout()(torch.ones(SHAPE)).min().item())
        )
        drop.start()
        drop.join()
    assert found == [1.0]


# Without frameworks, words, cards


def test_without_a_framework_only_python_and_numpy_are_seeded():
    program = """
import os, random, sys
import numpy as np
import troubleshooter_nb as tnb
state = random.getstate(), np.random.get_state()[1].tolist()
with tnb.seed_all(3, mode=True, rm_dropout=True) as seeded:
    first = random.random(), np.random.rand()
    assert first == (random.Random(3).random(), np.random.RandomState(3).rand())
    print(seeded)
    assert tnb.RunCard.current().facts["seed"] == 3
    assert "HCCL_DETERMINISTIC" not in os.environ
assert state == (random.getstate(), np.random.get_state()[1].tolist())
assert "seed" not in tnb.RunCard.current().facts
assert not {"torch", "mindspore"} & set(sys.modules)
"""
    environment = {k: v for k, v in os.environ.items() if k != "HCCL_DETERMINISTIC"}
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, env=environment
    )
    assert done.stdout == "seed 3 for random, numpy\n"


def test_one_line_says_what_was_set_and_for_whom_in_both_languages(framework):
    seeded = tnb.seed_all(123456, mode=True, rm_dropout=True)
    names = ", ".join(frameworks.loaded())
    assert repr(seeded) == (
        f"seed 123456 for random, numpy, {names}; deterministic algorithms: {names}; "
        f"dropout removed: {names}"
    )
    assert repr(seeded) in seeded._repr_html_()
    with option_context(language="zh"):
        assert "随机种子 123456" in repr(seeded)
        assert repr(seeded) in seeded._repr_html_()
        assert english_left(seeded._said()) == ""
    seeded.undo()
    assert repr(seeded).endswith("; undone")


def test_cards_tell_what_holds_and_no_longer_what_does_not(framework):
    def told():
        facts = tnb.RunCard.current(framework.NAME).facts
        return facts.get("seed"), facts.get("dropout_removed")

    assert told() == (99, None)
    with tnb.seed_all(3, mode=True, rm_dropout=True):
        assert told() == (3, True)
        assert tnb.RunCard.current().facts["seed"] == 3
        assert tnb.RunCard.current(framework.NAME, seed=8).facts["seed"] == 8
        assert tnb.RunCard.current().facts[f"{framework.NAME}.dropout_removed"] is True
        # Somebody seeds anew: what we had set is no longer true.
        if framework.NAME == "torch":
            framework.torch.manual_seed(4)
        else:
            framework.mindspore.set_seed(4)
        assert told() == (None, True)
    assert told() == (99, None)


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"seed": -1}, ValueError, "from 0 to 4294967295, got -1"),
        ({"seed": 2**32}, ValueError, "from 0 to 4294967295, got 4294967296"),
        ({"seed": 1.0}, TypeError, "seed takes a int, got float"),
        ({"seed": True}, TypeError, "seed takes a int, got bool"),
        ({"seed": None}, TypeError, "seed takes a int, got NoneType"),
        ({"mode": 1}, TypeError, "mode takes a bool, got int"),
        ({"rm_dropout": "yes"}, TypeError, "rm_dropout takes a bool, got str"),
    ],
)
def test_what_is_no_seed_or_no_switch_is_refused(arguments, error, said):
    state = random.getstate()
    with pytest.raises(error, match=said):
        tnb.seed_all(**arguments)
    assert random.getstate() == state
