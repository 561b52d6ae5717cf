"""The calls of a script in every order that is documented, and what a configuration says."""

import json

import pytest

from tests.compat.msprobe.conftest import data_of, dumps_in, learn
from troubleshooter_nb.compat.msprobe.config import config_of
from troubleshooter_nb.errors import (
    ArgumentError,
    ArgumentTypeError,
    FormatError,
    NotOfferedError,
    PathNotFoundError,
)

pytestmark = pytest.mark.torch


def test_a_step_without_stop_is_written(debugger, net, torch, tmp_path):
    made = debugger()
    made.start(net)
    net(torch.ones(2, 3)).sum().backward()
    made.step()
    assert "Module.0.Linear.backward.0" in data_of(tmp_path)


def test_two_windows_of_one_step_are_one_dump(debugger, net, torch, tmp_path):
    made = debugger()
    for _ in range(2):
        made.start(net)
        net(torch.ones(2, 3)).sum().backward()
        made.forward_backward_dump_end()
    made.step()
    data = data_of(tmp_path)
    assert {"Functional.linear.3.forward", "Functional.linear.3.backward"} <= data.keys()
    assert "Module.2.Linear.backward.1" in data


def test_two_networks_in_one_step_are_one_dump(debugger, net, torch, tmp_path):
    made = debugger(task="tensor", level="L0")
    other = torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Linear(2, 1))
    made.start(net)
    between = net(torch.ones(2, 3))
    made.stop()
    made.start(other)
    other(between).sum().backward()
    made.step()
    learn(made, net, torch)
    data = data_of(tmp_path)
    assert [name for name in data if "forward" in name] == [
        "Module.0.Linear.forward.0",
        "Module.1.ReLU.forward.0",
        "Module.2.Linear.forward.0",
        "Module.0.Tanh.forward.0",
        "Module.1.Linear.forward.0",
    ]
    given = data["Module.0.Tanh.backward.0"]["output"][0]
    assert data["Module.2.Linear.backward.0"]["input"][0]["Norm"] == given["Norm"] > 0


def test_what_runs_outside_of_the_window_is_not_seen(debugger, net, torch, tmp_path):
    made = debugger()
    net(torch.ones(2, 3)).sum().backward()
    learn(made, net, torch)
    net(torch.ones(2, 3)).sum().backward()
    made.step()
    assert list(dumps_in(tmp_path / "dump")) == ["step0/rank"]
    assert "Functional.linear.2.forward" not in data_of(tmp_path)


def test_the_methods_of_the_class_are_those_of_the_one_debugger(debugger, net, torch, tmp_path):
    kind = type(debugger())
    kind.start(net)
    net(torch.ones(2, 3))
    kind.stop()
    kind.set_init_step(7)
    kind.step()
    kind.start(net)
    net(torch.ones(2, 3))
    kind.step()
    assert list(dumps_in(tmp_path / "dump")) == ["step0/rank", "step8/rank"]


def test_the_same_arguments_give_the_same_debugger(tmp_path):
    from troubleshooter_nb.compat.msprobe.pytorch import PrecisionDebugger

    first = PrecisionDebugger(dump_path=tmp_path)
    assert PrecisionDebugger(dump_path=tmp_path) is first
    with pytest.warns(UserWarning, match="takes the place"):
        assert PrecisionDebugger(dump_path=tmp_path, level="L0") is not first


def test_without_a_debugger_the_class_says_what_to_do():
    from troubleshooter_nb.compat.msprobe.pytorch import PrecisionDebugger

    with pytest.raises(ValueError, match="make one first"):
        PrecisionDebugger.step()


def test_nothing_stays_behind(debugger, net, torch, tmp_path):
    functional, tensor = torch.nn.functional, torch.Tensor
    before = functional.linear, torch.relu, tensor.__dict__.get("sum"), torch._tensor_str._str
    made = debugger(task="tensor")
    learn(made, net, torch, steps=2)
    after = functional.linear, torch.relu, tensor.__dict__.get("sum"), torch._tensor_str._str
    assert after == before
    for module in net.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
        assert not module._backward_hooks


def test_no_number_changes(debugger, torch, tmp_path):
    def train(made=None):
        torch.manual_seed(3)
        nn = torch.nn
        net = nn.Sequential(
            nn.Linear(3, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Dropout(), nn.Linear(8, 2)
        )
        optimizer = torch.optim.Adam(net.parameters())
        for _ in range(3):
            if made:
                made.start(net)
            loss = (net(torch.randn(6, 3)) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            if made:
                made.stop()
                made.step()
            optimizer.step()
        return [*net.state_dict().values(), torch.get_rng_state()]

    plain = train()
    recorded = train(debugger(task="tensor", level="mix"))
    assert all(torch.equal(a, b) for a, b in zip(plain, recorded, strict=True))


def test_a_step_that_raises_is_written_as_far_as_it_came(debugger, net, torch, tmp_path):
    made = debugger(task="tensor")
    made.start(net)
    with pytest.raises(RuntimeError):
        net(torch.ones(2, 5))
    net(torch.ones(2, 3))
    made.step()
    assert {"Functional.linear.1.forward", "Module.0.Linear.forward.1"} <= data_of(tmp_path).keys()


# Models


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_modules_need_a_model(level, debugger):
    with pytest.raises(ArgumentError, match=r"start\(model=net\)"):
        debugger(level=level).start()


@pytest.mark.parametrize("model", ["net", [], [object()], 3])
def test_what_is_no_model_is_refused(model, debugger):
    with pytest.raises(ArgumentError, match=r"torch\.nn\.Module"):
        debugger(level="L1").start(model)


@pytest.mark.parametrize("with_model", [True, False])
def test_operators_are_seen_with_and_without_a_model(with_model, debugger, net, torch, tmp_path):
    made = debugger(level="L1")
    made.start(net if with_model else None)
    net(torch.ones(2, 3)).sum().backward()
    made.step()
    data = data_of(tmp_path)
    assert not any(name.startswith("Module") for name in data)
    assert len(data) == 9  # linear, relu, linear, sum; ones_like has no backward


def test_a_tuple_of_models_and_a_wrapped_one(debugger, net, torch, tmp_path):
    made = debugger(level="L0")
    made.start((net, torch.nn.DataParallel(torch.nn.Linear(2, 2))))
    net(torch.ones(2, 3))
    made.step()
    assert "Module.0.0.Linear.forward.0" in data_of(tmp_path)


def test_frozen_parameters_say_so_and_have_no_gradient(debugger, net, torch, tmp_path):
    net[0].weight.requires_grad_(False)
    made = debugger(level="L0")
    learn(made, net, torch)
    data = data_of(tmp_path)
    parameters = data["Module.0.Linear.forward.0"]["parameters"]
    assert [parameters[leaf]["requires_grad"] for leaf in ("weight", "bias")] == [False, True]
    assert list(data["Module.0.Linear.parameters_grad"]) == ["bias"]


# Options


def test_scope_is_from_one_call_to_another(debugger, net, torch, tmp_path):
    made = debugger(scope=["Module.0.Linear.forward.0", "Functional.relu.0.forward"])
    learn(made, net, torch)
    assert list(data_of(tmp_path)) == [
        "Functional.linear.0.forward",
        "Module.0.Linear.forward.0",
        "Module.0.Linear.parameters_grad",
        "Functional.relu.0.forward",
        "Module.1.ReLU.forward.0",  # which began before the last one ended
        "Functional.relu.0.backward",
        "Module.1.ReLU.backward.0",
        "Module.0.Linear.backward.0",
        "Functional.linear.0.backward",
    ]


def test_a_list_means_parts_of_names_and_what_runs_inside_a_module(debugger, net, torch, tmp_path):
    learn(debugger(list=["Module.2.Linear.forward.0"]), net, torch)
    kept = set(data_of(tmp_path))
    assert {"Functional.linear.1.forward", "Module.2.Linear.forward.0"} <= kept
    assert not any("relu" in name or ".0.Linear" in name for name in kept)


def test_a_list_of_parts(debugger, net, torch, tmp_path):
    learn(debugger(list=["relu"]), net, torch)
    assert set(data_of(tmp_path)) == {"Functional.relu.0.forward", "Functional.relu.0.backward"}


@pytest.mark.parametrize(
    ("modes", "ways", "sections"),
    [
        (["forward"], {"forward"}, {"input_args", "input_kwargs", "output"}),
        (["backward"], {"backward"}, {"input", "output"}),
        (["forward", "input"], {"forward"}, {"input_args", "input_kwargs"}),
        (["output"], {"forward", "backward"}, {"output"}),
        (["all"], {"forward", "backward"}, {"input_args", "input_kwargs", "output", "input"}),
    ],
)
def test_data_mode(modes, ways, sections, debugger, net, torch, tmp_path):
    learn(debugger(level="L1", data_mode=modes), net, torch)
    data = data_of(tmp_path)
    assert {name.rpartition(".")[2] for name in data} == ways
    assert {key for entry in data.values() for key in entry} - {"is_recompute"} == sections


def test_slices_are_taken_before_all_else(debugger, net, torch, tmp_path):
    slices = [{"dim": 0, "size": 2, "begin": 0, "end": 1}, {"dim": 5}]
    learn(debugger(task="tensor", level="L1", slice=slices), net, torch)
    leaf = data_of(tmp_path)["Functional.linear.0.forward"]["input_args"][0]
    assert leaf["shape"] == [1, 3]
    assert leaf["Norm"] == pytest.approx(3**0.5)
    file = next((tmp_path / "dump").rglob(leaf["data_name"]))
    assert torch.load(file).shape == (1, 3)
    # No axis of the length that the slice is for.
    assert data_of(tmp_path)["Functional.linear.0.forward"]["input_args"][1]["shape"] == [4, 3]


@pytest.mark.parametrize(("steps", "kept"), [([1, "3-4"], ["1", "3", "4"]), ([], list("012345"))])
def test_steps(steps, kept, debugger, net, torch, tmp_path):
    learn(debugger(top={"step": steps}), net, torch, steps=6)
    assert [place[4:].split("/")[0] for place in dumps_in(tmp_path / "dump")] == kept


def test_another_rank_is_not_recorded(debugger, net, torch, tmp_path):
    with pytest.warns(UserWarning, match="one process"):
        learn(debugger(top={"rank": [1]}), net, torch)
    assert not (tmp_path / "dump").exists()


def test_extra_info(debugger, net, torch, tmp_path):
    learn(debugger(top={"extra_info": False}), net, torch)
    assert list(dumps_in(tmp_path / "dump")["step0/rank"]) == ["dump"]


def test_dump_enable_is_read_again_at_each_start(debugger, net, torch, tmp_path):
    made = debugger(top={"dump_enable": False})
    learn(made, net, torch)
    (config,) = tmp_path.glob("config*.json")
    said = json.loads(config.read_text())
    config.write_text(json.dumps({**said, "dump_enable": True}))
    learn(made, net, torch)
    assert list(dumps_in(tmp_path / "dump")) == ["step1/rank"]


def test_overflow_checks_end_after_the_number_asked_for(debugger, torch, tmp_path):
    made = debugger(task="overflow_check", level="L1", overflow_nums=2)
    made.start()
    for value in (1.0, float("inf"), float("nan"), float("inf")):
        torch.nn.functional.relu(torch.tensor([value]))
    made.step()
    names = ["Functional.relu.1.forward", "Functional.relu.2.forward"]
    assert list(data_of(tmp_path)) == names
    assert len(list(tmp_path.rglob("*.pt"))) == 4


def test_gradients_that_overflow_are_found(debugger, torch, tmp_path):
    made = debugger(task="overflow_check", level="L1", overflow_nums=-1)
    made.start()
    x = torch.zeros(2, requires_grad=True)
    torch.sqrt(x).sum().backward()
    made.step()
    assert list(data_of(tmp_path)) == ["Torch.sqrt.0.backward"]


def test_own_functions_and_a_list_of_operators(debugger, net, torch, tmp_path):
    import types

    mine = types.ModuleType("mine")
    mine.twice = lambda x: x * 2
    listed = tmp_path / "operators.yaml"
    listed.write_text("functional: [-relu]\ntorch: [ones, -relu]\n")
    made = debugger(level="L1", operators=listed)
    made.register_custom_api(mine, "twice")
    made.start()
    mine.twice(net(torch.ones(2, 3)))
    made.step()
    assert list(data_of(tmp_path)) == [
        "Torch.ones.0.forward",
        "Functional.linear.0.forward",
        "Functional.linear.1.forward",
        "mine.twice.0.forward",
    ]
    made.restore_custom_api(mine, "twice")
    made.start()
    mine.twice(torch.zeros(1))
    made.step()
    assert "step1/rank" in dumps_in(tmp_path / "dump")
    assert list(data_of(tmp_path, "step1/rank")) == ["Tensor.__mul__.0.forward"]
    with pytest.raises(ArgumentError, match="no function 'thrice'"):
        made.register_custom_api(mine, "thrice")


def test_save_takes_what_is_documented_and_nothing_else(debugger, torch, tmp_path):
    made = debugger(level="debug")
    x = torch.ones(2, requires_grad=True)
    made.save({"a": [x, 1], "b": (x * 2, "text")}, "bag")
    (x * 3).sum().backward()
    made.step()
    data = dumps_in(tmp_path / "dump")["step0/rank"]["debug"]["data"]
    assert data["bag.0.debug"]["a"][1] == {"type": "int", "value": 1}
    assert data["bag_grad.0.debug"]["a"][0]["Max"] == 3.0
    assert data["bag_grad.0.debug"]["b"] == [None, None]
    with pytest.raises(ArgumentTypeError, match="bag is object"):
        made.save([object()], "bag")
    with pytest.raises(ArgumentTypeError, match="as text"):
        made.save(x, 3)


# Configurations


def test_arguments_beat_the_file(tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"task": "tensor", "level": "L0", "dump_path": "/a", "step": [1]}))
    config = config_of(file, "statistics", "/b", "mix", [2, "5-6"])
    assert (config.task, config.level, str(config.dump_path)) == ("statistics", "mix", "/b")
    assert config.steps == {2, 5, 6}
    assert config_of(file).steps == {1}


def test_without_a_file_there_is_a_default():
    config = config_of(None)
    assert (config.task, config.level, config.dump_path.name) == ("statistics", "L1", "dump_path")


@pytest.mark.parametrize(
    ("said", "error", "match"),
    [
        ({"task": "free_benchmark"}, NotOfferedError, "troubleshooter_nb.compare"),
        ({"task": "grad_probe"}, NotOfferedError, "troubleshooter_nb.record"),
        ({"task": "nan_check"}, NotOfferedError, "watch_overflow"),
        ({"task": "else"}, ArgumentError, "task is one of"),
        ({"level": "L2"}, NotOfferedError, "'L1' or 'mix'"),
        ({"level": "L3"}, ArgumentError, "level is one of"),
        ({"async_dump": True}, NotOfferedError, "leave it out"),
        ({"precision": "high"}, NotOfferedError, "leave it out"),
        ({"load": {"path": "x"}}, NotOfferedError, "troubleshooter_nb.record"),
        ({"risk_level": "CORE"}, NotOfferedError, "use list"),
        ({"statistics": {"summary_mode": "xor"}}, NotOfferedError, "'md5'"),
        ({"statistics": {"summary_mode": "sha"}}, ArgumentError, "summary_mode is one of"),
        ({"statistics": {"bench_path": "x"}}, NotOfferedError, "troubleshooter_nb.compare"),
        ({"statistics": {"data_mode": ["sideways"]}}, ArgumentError, "data_mode is one of"),
        ({"statistics": {"scope": ["a", "b", "c"]}}, ArgumentError, "one or two names"),
        ({"statistics": {"list": "relu"}}, ArgumentError, "list of names"),
        ({"statistics": {"slice": [{"dim": -1}]}}, ArgumentError, "begin before end"),
        ({"statistics": []}, ArgumentError, "no object"),
        ({"step": ["a-b"]}, ArgumentError, "ranges such as"),
        ({"rank": 3}, ArgumentError, "ranges such as"),
        ({"step": [True]}, ArgumentError, "ranges such as"),
        ({"extra_info": "no"}, ArgumentError, "true or false"),
        ({"anything": 1}, ArgumentError, "no option of msprobe"),
        ({"step": ["2-1"]}, ArgumentError, "whole numbers"),
        ({"dump_enable": "false"}, ArgumentError, "true or false"),
        (
            {"task": "tensor", "tensor": {"slice": [{"begin": 2, "end": 1}]}},
            ArgumentError,
            "begin before end",
        ),
        ({"level": "debug", "task": "structure"}, ArgumentError, "goes with the tasks"),
        (
            {"task": "overflow_check", "overflow_check": {"overflow_nums": 0}},
            ArgumentError,
            "1 or more, or -1",
        ),
    ],
)
def test_what_is_not_built_or_cannot_be_is_refused_by_name(said, error, match, tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(said))
    with pytest.raises(error, match=match):
        config_of(file)


def test_what_asks_for_the_usual_is_taken(tmp_path):
    file = tmp_path / "config.json"
    usual = {"async_dump": False, "precision": "low", "risk_level": "FOCUS", "acc_check": {}}
    file.write_text(json.dumps({**usual, "tensor": {"file_format": "npy"}, "task": "tensor"}))
    assert config_of(file).keeps_harmless is False


@pytest.mark.parametrize("text", ["", "[]", "{", "\xff"])
def test_a_file_that_is_no_configuration(text, tmp_path):
    file = tmp_path / "config.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(FormatError, match=r"config\.json is no configuration"):
        config_of(file)
    with pytest.raises(PathNotFoundError, match="there is no configuration"):
        config_of(tmp_path / "none.json")


def test_an_unknown_generation_is_refused(monkeypatch, tmp_path):
    from troubleshooter_nb.compat.msprobe.pytorch import PrecisionDebugger

    with pytest.raises(ValueError, match=r"26\.2"):
        PrecisionDebugger(dump_path=tmp_path, generation="9")
    monkeypatch.setenv("TNB_MSPROBE_GENERATION", "A")
    with pytest.raises(ValueError, match="TNB_MSPROBE_GENERATION"):
        PrecisionDebugger(dump_path=tmp_path)


def test_seed_all_takes_dropout_away_unless_told_otherwise(torch):
    from troubleshooter_nb.compat.msprobe.pytorch import seed_all

    dropout, x = torch.nn.Dropout(0.5), torch.ones(100)
    with seed_all(seed=1234, mode=False):
        assert torch.equal(dropout(x), x)
    with seed_all(rm_dropout=False):
        assert not torch.equal(dropout(x), x)
    with pytest.raises(NotOfferedError, match="is_enhanced"):
        seed_all(is_enhanced=True)
