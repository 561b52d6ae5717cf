"""What a recording of MindSpore holds and lacks: options, steps, compiled parts, odd cells."""

from __future__ import annotations

import itertools
import os

import numpy as np
import pytest

import troubleshooter_nb as tnb

mindspore = pytest.importorskip("mindspore")

from mindspore import Parameter, Tensor, nn, ops  # noqa: E402
from mindspore._c_expression import _DispatchGuardStack as dispatched  # noqa: E402

pytestmark = pytest.mark.mindspore


@pytest.fixture
def x():
    return Tensor(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4))


def missing(rec):
    return {(row.kind, name) for row in rec.missing for name in row.where}


def names(rec):
    return list(rec.dump.index["name"].values)


def trained(net, x, forward=None):
    """Gradients of the weights, by name."""
    weights = net.trainable_params()
    found = mindspore.value_and_grad(forward or (lambda x: net(x).sum()), None, weights)(x)[1]
    return {p.name: g.asnumpy().copy() for p, g in zip(weights, found, strict=True)}


def chain(*layers):
    return nn.SequentialCell(*layers)


# ---- which values lack a gradient ---------------------------------------------------------------


def test_inputs_and_what_is_made_of_them_lack_nothing_where_weights_alone_are_asked_for(x):
    net = chain(nn.ReLU(), nn.Dense(4, 3), nn.Tanh())
    for level in ("module", "api", "both"):
        with tnb.record(net, level=level) as rec:
            trained(net, x)
        assert missing(rec) == set()


def test_what_frozen_layers_made_lacks_nothing(x):
    net = chain(nn.Dense(4, 4), nn.Dense(4, 3))
    for parameter in net[0].get_parameters():
        parameter.requires_grad = False
    with tnb.record(net) as rec:
        trained(net, x)
    assert missing(rec) == set()


def test_a_trained_layer_that_is_detached_or_not_used_is_told(x):
    net = chain(nn.Dense(4, 4), nn.Dense(4, 3))
    with tnb.record([net[0], net[1]]) as rec:
        trained(net, x, lambda x: net[1](ops.stop_gradient(net[0](x))).sum())
    assert missing(rec) == {("gradient_not_arrived", "0.0")}


def test_in_inference_nothing_is_missing(x):
    net = chain(nn.Dense(4, 4), nn.BatchNorm1d(4))
    for level in ("module", "api", "both"):
        with tnb.record(net.set_train(False), level=level) as rec:
            net(x)
        assert missing(rec) == set()
        assert not any("backward" in name for name in names(rec))


def test_a_network_that_gives_its_input_has_one_value_in_two_slots(x):
    class Same(nn.Cell):
        def __init__(self):
            super().__init__()
            self.unused = nn.Dense(4, 4)

        def construct(self, x):
            return x

    net, last = Same(), nn.Dense(4, 2)
    with tnb.record({"same": net, "last": last}) as rec:
        trained(last, x, lambda x: last(net(x)).sum())
    assert missing(rec) == {("not_called", "same.unused")}
    values = [rec.dump.array(f"Cell.same.Same.forward.0.{slot}.0") for slot in ("input", "output")]
    np.testing.assert_array_equal(*values)
    assert rec._recorder.values.counts["values"] == 4  # with the weights and the result


def test_views_that_operators_give_have_their_gradients_at_every_level(x):
    net = chain(nn.Dense(4, 6), nn.Dense(6, 2))
    found = {}
    for level in ("module", "both"):
        with tnb.record(net, level=level) as rec:
            trained(net, ops.stack([x, x]), lambda x: ops.sin(net(x)).sum())
        assert missing(rec) == set()
        found[level] = {
            name: rec.dump.array(name).tobytes()
            for name in names(rec)
            if name.startswith("Cell.") and ".backward.0.input." in name
        }
    assert len(found["module"]) == 3
    assert found["module"] == found["both"]


# ---- options ------------------------------------------------------------------------------------


def test_two_networks_are_recorded_by_name_or_number(x):
    first, second = nn.Dense(4, 4), nn.Dense(4, 2)
    for given, paths in (([first, second], "01"), ({"a": first, "b": second}, "ab")):
        with tnb.record(given) as rec:
            second(first(x))
        assert list(dict.fromkeys(rec.dump.index["path"].values)) == list(paths)


def test_names_choose_layers_and_operators(x):
    net = chain(nn.Dense(4, 4), nn.ReLU(), nn.Dense(4, 2))
    for wanted, paths in (
        ("?", {"0", "1", "2"}),
        (["0", "2"], {"0", "2"}),
        (lambda site: site.path == "1", {"1"}),
    ):
        with tnb.record(net, names=wanted) as rec:
            trained(net, x)
        assert set(rec.dump.index["path"].values) == paths
    with pytest.raises(KeyError, match="nowhere"), tnb.record(net, names="nowhere"):
        pass
    with tnb.record(net, level="api", names="*relu*") as rec:
        net(x)
    assert set(rec.dump.index["path"].values) == {"Primitive.relu"}


@pytest.mark.parametrize("keep", ["tensor", "sample", "statistics", "digest"])
def test_what_is_kept_describes_the_values(x, keep):
    net = nn.Dense(4, 2)
    with tnb.record(net, keep=keep) as rec:
        trained(net, x)
    entry = rec.dump.index.isel(entry=names(rec).index("Cell.Dense.forward.0.input.0"))
    if keep == "tensor":
        np.testing.assert_array_equal(rec.dump.array(str(entry["name"].values)), x.asnumpy())
    elif keep == "digest":
        assert np.isnan(entry["min"].item())
    else:
        assert (entry["min"].item(), entry["max"].item()) == (-1.0, 1.0)
    assert any(name.endswith(".sample") for name in names(rec)) == (keep == "sample")


def test_steps_count_and_passes_of_one_step_are_numbered(x):
    net = nn.Dense(4, 2)
    with tnb.record(net, steps=[0, 2]) as rec:
        for _ in range(3):
            parts = [trained(net, x * factor) for factor in (1.0, 2.0)]
            rec.step()
    assert set(rec.dump.index["step"].values) == {0, 2}
    for step in (0, 2):
        dump = rec.dump.select(step=step)
        for number, part in enumerate(parts):
            name = f"Cell.Dense.parameters_grad.{number}.weight"
            np.testing.assert_array_equal(dump.array(name), part["weight"])
            assert f"Cell.Dense.backward.{number}.input.0" in dump.index["name"].values


def test_an_optimizer_inside_is_no_call_and_the_next_step_reads_the_new_weights(x):
    net = chain(nn.Dense(4, 2))
    optimizer = nn.SGD(net.trainable_params(), 0.5)
    seen = []
    with tnb.record(net, level="both") as rec:
        for _ in range(2):
            seen.append(net[0].weight.asnumpy().copy())
            weights = net.trainable_params()
            gradients = mindspore.value_and_grad(lambda x: net(x).sum(), None, weights)(x)[1]
            optimizer(gradients)
            rec.step()
    for step, weight in enumerate(seen):
        dump = rec.dump.select(step=step)
        np.testing.assert_array_equal(
            dump.array("Cell.0.Dense.forward.0.parameters.weight"), weight
        )
    assert not np.array_equal(*seen)
    assert not any("sgd" in path.lower() for path in rec.dump.index["path"].values)


# ---- cells --------------------------------------------------------------------------------------


def test_statistics_of_a_batch_norm_are_those_before_the_call(x):
    net = nn.BatchNorm1d(4).set_train()
    with tnb.record(net) as rec:
        net(x)
        net(x)
    first, second = (
        rec.dump.array(f"Cell.BatchNorm1d.forward.{number}.parameters.moving_mean")
        for number in (0, 1)
    )
    np.testing.assert_array_equal(first, np.zeros(4))
    assert second.any()
    assert not np.array_equal(second, net.moving_mean.asnumpy())


def test_values_written_in_place_are_as_they_were_when_they_were_met(x):
    class Writes(nn.Cell):
        def construct(self, x, state):
            x[0] = 5.0
            state.copy_(x)
            return x

    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.writes, self.reads = Writes(), nn.ReLU()

        def construct(self, x, state):
            return self.reads(self.writes(x, state)) + self.reads(state)

    before, state = x.asnumpy().copy(), ops.zeros_like(x)
    net = Net()
    with tnb.record(net) as rec:
        net(x, state)
    after = before.copy()
    after[0] = 5.0
    for name, wanted in {
        "Cell.Net.forward.0.input.0": before,
        "Cell.writes.Writes.forward.0.input.0": before,
        "Cell.writes.Writes.forward.0.input.1": np.zeros((3, 4)),
        "Cell.writes.Writes.forward.0.output.0": after,
        "Cell.reads.ReLU.forward.0.input.0": after,
        "Cell.reads.ReLU.forward.1.input.0": after,
    }.items():
        np.testing.assert_array_equal(rec.dump.array(name), wanted, err_msg=name)


def test_what_is_recomputed_is_no_second_call_and_has_its_gradients(x):
    net, plain = (chain(chain(nn.Dense(4, 4), nn.Tanh()), nn.Dense(4, 2)) for _ in range(2))
    mindspore.load_param_into_net(plain, {p.name: p for p in net.get_parameters()})
    net[0].recompute()
    found = {}
    for kind, each in (("recomputed", net), ("plain", plain)):
        with tnb.record(each, level="both") as rec:
            trained(each, x)
        assert missing(rec) == set()
        found[kind] = {
            name: rec.dump.array(name)
            for name in names(rec)
            if name.startswith("Cell.") and ".total." not in name
        }
    assert found["recomputed"].keys() == found["plain"].keys()
    for name, value in found["plain"].items():
        np.testing.assert_array_equal(found["recomputed"][name], value, err_msg=name)


def test_a_cell_with_its_own_bprop_is_recorded_with_the_gradient_of_its_output(x):
    class Doubled(nn.Cell):
        def construct(self, x):
            return x * 2

        def bprop(self, x, out, gradient):
            return (gradient * 2,)

    net = chain(nn.Dense(4, 4), Doubled(), nn.Dense(4, 2))
    with tnb.record(net) as rec:
        gradients = trained(net, x)
    assert missing(rec) == set()
    np.testing.assert_array_equal(
        rec.dump.array("Cell.1.Doubled.forward.0.output.0"),
        2 * rec.dump.array("Cell.1.Doubled.forward.0.input.0"),
    )
    np.testing.assert_array_equal(
        rec.dump.array("Cell.0.Dense.backward.0.input.0"),
        2 * rec.dump.array("Cell.1.Doubled.backward.0.input.0"),
    )
    np.testing.assert_array_equal(
        rec.dump.array("Cell.0.Dense.parameters_grad.0.weight"), gradients["0.weight"]
    )


def test_a_cell_in_half_precision_has_the_dtypes_of_its_values(x):
    net = chain(nn.Dense(4, 4).to_float(mindspore.float16), nn.ReLU())
    with tnb.record(net) as rec:
        trained(net, x)
    assert missing(rec) == set()
    dtypes = dict(zip(names(rec), rec.dump.index["dtype"].values, strict=True))
    assert dtypes["Cell.0.Dense.forward.0.output.0"] == "float16"
    assert dtypes["Cell.0.Dense.backward.0.input.0"] == "float16"
    assert dtypes["Cell.0.Dense.parameters_grad.0.weight"] == "float32"


class Jitted(nn.Cell):
    def __init__(self):
        super().__init__()
        self.inner = nn.Dense(4, 4)

    @mindspore.jit
    def construct(self, x):
        return ops.relu(self.inner(x))


def test_a_compiled_cell_is_recorded_from_outside_or_as_it_is_written(x):
    net = chain(nn.Dense(4, 4), Jitted())
    plain = trained(net, x)
    with tnb.record(net) as rec:
        gradients = trained(net, x)
    assert missing(rec) == {("compiled", "1")}
    assert "Cell.1.Jitted.forward.0.output.0" in names(rec)
    assert not any("inner.Dense" in name for name in names(rec))
    with tnb.record(net, compiled="eager") as rec:
        trained(net, x)
    assert missing(rec) == set()
    assert "Cell.1.inner.Dense.forward.0.output.0" in names(rec)
    again = trained(net, x)
    for name, value in plain.items():
        np.testing.assert_array_equal(gradients[name], value)
        np.testing.assert_array_equal(again[name], value)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_what_is_compiled_is_so_again_after_two_recordings_ended_in_any_order(x, order):
    net = chain(Jitted())
    recs = [tnb.record(net, compiled="eager").start() for _ in range(2)]
    first, last = (recs[i] for i in order)
    first.stop()
    net(x)
    last.stop()
    assert "Cell.0.inner.Dense.forward.0.output.0" in names(last)
    assert "MS_JIT" not in os.environ


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_recordings_of_operators_may_end_in_any_order(x, order):
    net = nn.Dense(4, 4)
    recs = [tnb.record(net, level="api").start() for _ in range(3)]
    for count, number in enumerate(order, 1):
        ops.sin(x)
        given = [f"Primitive.sin.Sin.{call}.forward.input.0" for call in range(count)]
        assert [name for name in names(recs[number]) if "input" in name] == given
        recs[number].stop()
    assert dispatched.depth() == 0


def test_operators_of_a_compiled_cell_need_it_to_run_as_it_is_written(x):
    net = chain(Jitted())
    with pytest.raises(NotImplementedError, match="eager"), tnb.record(net, level="api"):
        pass
    with tnb.record(net, level="api", compiled="eager") as rec:
        net(x)
    assert "Primitive.relu" in rec.dump.index["path"].values


def test_graph_mode_is_refused_before_anything_is_hooked(x):
    net = nn.Dense(4, 2)
    mindspore.set_context(mode=mindspore.GRAPH_MODE)
    try:
        with pytest.raises(NotImplementedError, match="PYNATIVE_MODE"), tnb.record(net):
            pass
    finally:
        mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    assert not [kind for kind, hooks in vars(net).items() if "hook" in kind and hooks]
    assert not any(parameter.hooks() for parameter in net.get_parameters())


def test_a_parameter_of_two_cells_has_one_gradient(x):
    net = chain(nn.Dense(4, 4), nn.Dense(4, 4))
    net[1].weight = net[0].weight
    with tnb.record(net) as rec:
        gradients = trained(net, x)
    found = [name for name in names(rec) if name.endswith("parameters_grad.0.weight")]
    assert found == ["Cell.0.Dense.parameters_grad.0.weight"]
    np.testing.assert_array_equal(rec.dump.array(found[0]), gradients[net[0].weight.name])


def test_a_parameter_of_the_network_itself_is_recorded(x):
    class Own(nn.Cell):
        def __init__(self):
            super().__init__()
            self.gain = Parameter(np.ones(4, np.float32), name="gain")

        def construct(self, x):
            return x * self.gain

    net = Own()
    with tnb.record(net) as rec:
        gradients = trained(net, x)
    np.testing.assert_array_equal(
        rec.dump.array("Cell.Own.parameters_grad.0.gain"), gradients["gain"]
    )
    np.testing.assert_array_equal(rec.dump.array("Cell.Own.forward.0.parameters.gain"), np.ones(4))
