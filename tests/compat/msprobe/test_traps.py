"""What a dump must not say: values of another call, run or name, or nothing at all in silence."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import troubleshooter_nb as tnb
from tests.compat.msprobe.conftest import data_of, dumps_in, learn
from tests.compat.msprobe.held import cells
from troubleshooter_nb.errors import NotOfferedError, TroubleshooterWarning


def held_files(folder, load):
    """Largest absolute value of each file that a record names, with what the record says."""
    found = {}
    for documents in dumps_in(folder).values():
        for path, name in cells(documents["dump"]["data"]):
            if path[-1] == "data_name":
                record = documents["dump"]["data"]
                for part in path[:-1]:
                    record = record[part]
                found[name] = (record["Max"], load(name))
    return found


@pytest.mark.torch
def test_a_folder_that_is_used_again_holds_the_last_run_alone(debugger, torch, tmp_path):
    nn = torch.nn
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2), nn.Identity())
    learn(debugger("tensor", generation="8.3"), net.eval(), torch)
    learn(debugger("tensor", generation="8.3", data_mode=[]), net[:2].train(), torch)
    place = tmp_path / "dump" / "step0" / "rank" / "dump_tensor_data"
    said = held_files(tmp_path / "dump", lambda name: float(torch.load(place / name).max()))
    assert {file.name for file in place.iterdir()} == said.keys()
    assert all(np.float32(most) == np.float32(value) for most, value in said.values())


@pytest.mark.torch
def test_save_points_and_calls_of_two_runs_lie_side_by_side(debugger, net, torch, tmp_path):
    def saved():
        made = debugger("tensor", level="debug")
        made.save(torch.ones(2), "t")
        made.step()

    learn(debugger("tensor"), net, torch)
    place = tmp_path / "dump" / "step0" / "rank"
    of_calls = {*place.iterdir(), *place.joinpath("dump_tensor_data").iterdir()}
    saved()
    of_saves = {place / "debug.json", place / "dump_tensor_data" / "t.0.debug.pt"}
    for again in (saved, lambda: learn(debugger("tensor", data_mode=[]), net, torch)):
        found = {*place.iterdir(), *place.joinpath("dump_tensor_data").iterdir()}
        assert found == of_calls | of_saves
        again()


@pytest.mark.torch
@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_infinities_of_any_shape_are_told_and_kept(task, debugger, torch, tmp_path):
    made = debugger(task, level="L1")
    made.start()
    for x in (torch.tensor(float("inf")), torch.tensor([[1.0, -float("inf")]])):
        torch.relu(x.abs() + 1)
        torch.exp(x)
    made.stop()
    made.step()
    data = data_of(tmp_path)
    first, second = (data[f"Torch.exp.{n}.forward"]["input_args"][0] for n in (0, 1))
    assert (first["Max"], first["Norm"]) == (float("inf"), float("inf"))
    assert (second["Max"], second["Min"]) == (1.0, -float("inf"))
    if task == "tensor":
        place = tmp_path / "dump" / "step0" / "rank" / "dump_tensor_data"
        assert torch.load(place / second["data_name"]).tolist() == [[1.0, -float("inf")]]


@pytest.mark.torch
def test_the_first_overflow_of_a_matrix_is_found(debugger, torch, tmp_path):
    made = debugger("overflow_check", level="L1", overflow_nums=1)
    made.start()
    big = torch.exp(torch.full((3, 2), 1e9))
    torch.relu(big)
    made.stop()
    made.step()
    assert [*data_of(tmp_path)] == ["Torch.exp.0.forward"]


@pytest.mark.torch
def test_an_overflow_check_of_a_healthy_net_writes_no_call(debugger, net, torch, tmp_path):
    learn(debugger("overflow_check", level="mix", overflow_nums=-1), net, torch)
    documents = dumps_in(tmp_path / "dump") if (tmp_path / "dump").exists() else {}
    assert all(not each["dump"]["data"] for each in documents.values())


@pytest.mark.torch
@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_parameters_that_are_written_inside_a_step_are_read_again(level, debugger, torch, tmp_path):
    net = torch.nn.Linear(2, 2, bias=False)
    made = debugger("statistics", level=level)
    made.start(torch.nn.Sequential(net))
    for value in (1.0, 2.0):
        net.weight.data.fill_(value)  # which raises no version
        if level == "L1":
            torch.nn.functional.linear(torch.ones(1, 2), net.weight)
        else:
            net(torch.ones(1, 2))
    made.stop()
    made.step()
    data = data_of(tmp_path)
    if level == "L0":
        read = [data[f"Module.0.Linear.forward.{n}"]["parameters"]["weight"] for n in (0, 1)]
    else:
        read = [data[f"Functional.linear.{n}.forward"]["input_args"][1] for n in (0, 1)]
    assert [each["Max"] for each in read] == [1.0, 2.0]


@pytest.mark.torch
def test_a_save_point_holds_what_is_there_now(debugger, torch, tmp_path):
    made = debugger("tensor", level="debug")
    batch = np.ones(3, np.float32)
    tensor = torch.from_numpy(batch)
    for value in (1, 2):
        batch[:] = value
        made.save(tensor, "t")
    made.step()
    saved = dumps_in(tmp_path / "dump")["step0/rank"]["debug"]["data"]
    assert [saved[f"t.{n}.debug"]["Max"] for n in (0, 1)] == [1.0, 2.0]


@pytest.mark.torch
def test_a_save_point_called_as_a_gradient_keeps_both(debugger, torch, tmp_path):
    made = debugger("tensor", level="debug")
    y = torch.ones(2, requires_grad=True) * 2
    made.save(y, "h")
    made.save(torch.full((2,), 7.0), "h_grad")
    (y * 3).sum().backward()
    made.step()
    saved = dumps_in(tmp_path / "dump")["step0/rank"]["debug"]["data"]
    place = tmp_path / "dump" / "step0" / "rank" / "dump_tensor_data"
    found = {}
    for name in ("h.0.debug", "h_grad.0.debug", "h_grad.1.debug"):
        values = torch.load(place / saved[name]["data_name"])
        assert float(values.max()) == saved[name]["Max"]
        found[name] = saved[name]["Max"]
    assert found == {"h.0.debug": 2.0, "h_grad.0.debug": 3.0, "h_grad.1.debug": 7.0}


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "entries"),
    [
        ("Functional.relu.0.backward", ["Functional.relu.0.backward"]),
        ("Module.0.Linear.backward.0", ["Module.0.Linear.backward.0"]),
    ],
)
def test_a_list_may_name_a_backward_call(name, entries, debugger, net, torch, tmp_path):
    learn(debugger("statistics", list=[name]), net, torch)
    assert [*data_of(tmp_path)] == entries


@pytest.mark.torch
def test_a_scope_may_lie_in_the_backward_pass(debugger, net, torch, tmp_path):
    scope = ["Module.2.Linear.backward.0", "Module.1.ReLU.backward.0"]
    learn(debugger("statistics", level="L0", scope=scope), net, torch)
    assert [name for name in data_of(tmp_path) if "parameters_grad" not in name] == scope


@pytest.mark.torch
def test_a_list_that_names_nothing_says_so(debugger, net, torch):
    made = debugger("statistics", list=["Functional.rellu"])
    with pytest.warns(TroubleshooterWarning, match=r"none that ran is named.*Functional\.linear"):
        learn(made, net, torch)


@pytest.mark.torch
def test_a_list_of_tensors_leaves_none_out_where_all_are_stored(debugger, net, torch, tmp_path):
    learn(debugger("tensor", tensor_list=["linear"]), net, torch)
    paths = [path for path, _ in cells(data_of(tmp_path))]
    measured = {path[:-1] for path in paths if path[-1] == "Max"}
    assert measured == {path[:-1] for path in paths if path[-1] == "data_name"}
    assert len(measured) > 20


@pytest.mark.torch
def test_a_result_with_keys_of_a_record_has_its_gradients(debugger, torch, tmp_path):
    class Inner(torch.nn.Module):
        def forward(self, x):
            return {"type": x * 2, "value": x * 3, "shape": 5}

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            made = self.inner(x)
            return made["type"].sum() + made["value"].sum()

    made = debugger("statistics", level="L0")
    net = Net()
    made.start(net)
    net(torch.ones(2, requires_grad=True)).backward()
    made.stop()
    made.step()
    ((arrived,),) = (data_of(tmp_path)["Module.inner.Inner.backward.0"]["input"],)
    assert (arrived["type"]["Max"], arrived["value"]["Max"], arrived["shape"]) == (1.0, 1.0, None)


@pytest.mark.torch
def test_gradients_of_results_are_a_plain_list(debugger, torch, tmp_path):
    class Inner(torch.nn.Module):
        def forward(self, x):
            return None, x * 2, (x * 3, 4, [x * 5])

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            _, one, (other, _, (last,)) = self.inner(x)
            return (one + 10 * other + 100 * last).sum()

    made = debugger("tensor", level="L0")
    made.start(net := Net())
    net(torch.ones(2, requires_grad=True)).backward()
    made.stop()
    made.step()
    arrived = data_of(tmp_path)["Module.inner.Inner.backward.0"]["input"]
    assert [one["Max"] for one in arrived] == [1.0, 10.0, 100.0]
    assert arrived[2]["data_name"] == "Module.inner.Inner.backward.0.input.2.pt"


TRANSFORMS = {
    "grad": lambda func: func.grad(lambda x: func.sin(x).sum()),
    "jacobian": lambda func: lambda x: func.jacrev(func.sin)(x).diagonal(),
    "pushed": lambda func: lambda x: func.jvp(func.sin, (x,), (func.ones,))[1],
    "mapped": lambda func: func.vmap(func.grad(func.sin)),
}


@pytest.mark.torch
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("level", ["L1", "mix"])
def test_transforms_of_functions_work_inside_the_window(level, transform, debugger, net, torch):
    func, linear = SimpleNamespace(**vars(torch.func)), net[0]
    func.sin = lambda x: torch.sin(x + 0 * linear.weight[0, 0])
    func.ones = torch.ones(3)
    made = debugger("statistics", level=level)
    made.start(net)
    given = TRANSFORMS[transform](func)(torch.zeros(3))
    made.stop()
    with pytest.warns(TroubleshooterWarning, match="no values"):
        made.step()
    assert given.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.torch
def test_windows_of_two_recorders_may_overlap_and_leave_nothing(debugger, net, torch, tmp_path):
    from troubleshooter_nb.compat.torch_npu.hooks import register_hook, wrap_acc_cmp_hook

    functional = torch.nn.functional
    before = functional.relu, torch.Tensor.__add__
    for _ in range(2):
        made = debugger("statistics", level="mix")
        made.start(net)
        hooks = register_hook(net, wrap_acc_cmp_hook)
        made.stop()
        assert functional.relu is not before[0]
        hooks.remove()
        made.step()
        assert (functional.relu, torch.Tensor.__add__) == before
    assert not any(p._backward_hooks for p in net.parameters())


@pytest.mark.torch
def test_without_arguments_the_one_that_exists_is_given(debugger):
    from troubleshooter_nb.compat.msprobe.pytorch import PrecisionDebugger

    made = debugger("tensor")
    assert PrecisionDebugger() is made


@pytest.mark.torch
def test_the_monitor_says_what_to_use(debugger, net):
    with pytest.raises(NotOfferedError, match=r"troubleshooter_nb\.record"):
        debugger().monitor(net)


@pytest.mark.mindspore
def test_gradients_of_cells_stand_at_their_own_arguments(tmp_path):
    ms = pytest.importorskip("mindspore")
    from troubleshooter_nb.compat.msprobe.mindspore import PrecisionDebugger

    class Inner(ms.nn.Cell):
        def construct(self, x, mode, y, z):
            return x + 2 * y + 5 * z

    class Net(ms.nn.Cell):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def construct(self, x):
            return self.inner(x, None, x * 1, x * 1).sum()

    net = Net()
    made = PrecisionDebugger(task="tensor", level="L0", dump_path=tmp_path / "dump")
    made.start(net)
    ms.grad(net)(ms.Tensor(np.ones(2, np.float32)))
    made.stop()
    made.step()
    place = tmp_path / "dump" / "step0" / "rank" / "dump_tensor_data"
    said = held_files(tmp_path / "dump", lambda name: float(np.load(place / name).max()))
    assert {file.name for file in place.iterdir()} == said.keys()
    assert all(most == value for most, value in said.values())
    given = [said[f"Cell.inner.Inner.backward.0.output.{n}.npy"][0] for n in range(3)]
    assert given == [1.0, 2.0, 5.0]


@pytest.mark.torch
def test_runs_that_agree_are_not_told_apart_by_a_folder_that_is_used_again(
    debugger, torch, tmp_path
):
    nn = torch.nn
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2), nn.Identity())
    for mode, dropout in (("used", True), ("used", False), ("fresh", False)):
        net.train(dropout)
        top = {"dump_path": str(tmp_path / mode)}
        learn(debugger("tensor", top=top), net, torch)
    compared = tnb.compare(tmp_path / "used", tmp_path / "fresh")
    assert compared.exit_code == 0, json.dumps(str(compared))
