"""Which row created a difference: by inputs, by order, at roots; what only carries it."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from tests.analysis.runs import Recorder, chain, draws, linear, relu
from troubleshooter_nb import compare
from troubleshooter_nb.analysis.flow import Flow
from troubleshooter_nb.analysis.origin import Origins, find_origins
from troubleshooter_nb.dump import ArrayInMemory, Dump, Entry
from troubleshooter_nb.metrics.noise import NoiseModel
from troubleshooter_nb.naming import Site


def origins_of(left: Dump, right: Dump, model: NoiseModel | None = None) -> Origins:
    return find_origins(Flow(compare(left, right, diagnose=False)), model)


def names(origins: Origins, rows: list[int]) -> list[str]:
    return [str(origins.flow.result["right_display"][row]) for row in rows]


def created(left: Dump, right: Dump) -> list[str]:
    origins = origins_of(left, right)
    return names(origins, origins.created())


def test_equal_runs_and_runs_that_round_differently_create_nothing():
    assert created(chain(rounding=3), chain()) == []
    origins = origins_of(chain(), chain())
    assert not origins.state.any()


@pytest.mark.parametrize("number", [0, 2, 3])
def test_the_layer_that_computes_something_else_is_the_only_origin(number):
    left = chain(changed={f"act{number}": lambda x: np.where(x > 0, x, 0.1 * x)}, rounding=5)
    origins = origins_of(left, chain())
    assert names(origins, origins.created()) == [f"act{number} output 0"]
    after = [n for n in origins.flow.nodes if n.position > origins.created()[0]]
    states = {str(origins.state[row]) for node in after for row in node.outputs}
    assert states <= {"carried"}


def test_a_fault_far_below_the_tolerance_is_worth_a_look():
    left = chain(changed={"act1": lambda x: relu(x) * np.float32(1 + 3e-6)}, rounding=5)
    origins = origins_of(left, chain())
    assert compare(left, chain()).passed
    assert [node.path for node in origins.doubtful] == ["act1"]


def test_a_parameter_that_differs_is_named_before_the_output_it_changes():
    left = chain(weights={"fc2": lambda w: (w * 1.001).astype(np.float32)})
    assert created(left, chain()) == ["fc2.weight"]


def test_a_parameter_stored_in_another_layout_is_no_origin_where_its_layer_agrees():
    left = chain(weights={"fc2": lambda w: w[:, :, None]}, changed={"fc2": _squeezed})
    origins = origins_of(left, chain())
    assert origins.created() == []
    assert names(origins, list(np.flatnonzero(origins.vanishing))) == ["fc2.weight"]


def test_the_gradient_of_a_parameter_in_another_layout_is_no_origin_either():
    def run(*, is_turned: bool) -> Dump:
        recorder = Recorder()
        values = draws(3, x=(8, 16), weight=(16, 16), bias=(16,))
        weight = values["weight"].T if is_turned else values["weight"]
        recorder.call(
            "fc",
            "Linear",
            lambda x, weight, bias: linear(x, weight.T if is_turned else weight, bias),
            values["x"],
            weight=weight,
            bias=values["bias"],
        )
        name = "Module.fc.Linear.parameters_grad.weight"
        recorder.add(name, "fc", "backward", "parameter", "weight", weight * np.float32(2))
        return recorder.dump()

    assert created(run(is_turned=True), run(is_turned=False)) == []


def _squeezed(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    return linear(x, weight[:, :, 0], bias)


def test_an_input_of_the_network_that_differs_is_the_origin():
    left = chain(inputs=lambda x: (x + 0.01).astype(np.float32))
    assert created(left, chain()) == ["fc0 input 0"]


def test_a_recorded_value_whose_user_agrees_vanishes():
    # An operator in place after the record: the saved output of fc1 is that of act1.
    def run(*, in_place: bool) -> Dump:
        recorder = Recorder()
        values = draws(3, x=(8, 16), weight=(16, 16), bias=(16,))
        x = recorder.call("fc", "Linear", linear, values.pop("x"), **values)
        before = x.copy()
        y = recorder.call("act", "ReLU", relu, x)
        recorder.call("out", "ReLU", relu, y)
        if in_place:
            at = next(
                i for i, e in enumerate(recorder.entries) if e.name.endswith("forward.0.output.0")
            )
            entry = recorder.entries[at]
            recorder.entries[at] = type(entry)(
                entry.name, entry.site, type(entry.source)(relu(before)), order=at, layer="Linear"
            )
        return recorder.dump()

    origins = origins_of(run(in_place=True), run(in_place=False))
    assert origins.created() == []
    assert names(origins, list(np.flatnonzero(origins.vanishing))) == ["fc output 0"]


def test_without_inputs_the_rows_before_stand_in_and_that_is_said():
    def outputs(dump: Dump) -> Dump:
        return dump.select(role="output")

    left = chain(changed={"act2": lambda x: np.abs(x)}, rounding=5)
    origins = origins_of(outputs(left), outputs(chain()))
    (first,) = origins.created()[:1]
    assert names(origins, [first]) == ["act2 output 0"]
    assert origins.basis[first] == "order"


def test_saved_arrays_without_calls_have_their_order():
    random = np.random.default_rng(0)
    arrays = {f"layer{i}": random.standard_normal(64).astype(np.float32) for i in range(6)}
    other = {
        name: values * (1 + 1e-2 * (i >= 3)) for i, (name, values) in enumerate(arrays.items())
    }
    comparison = compare(other, arrays)
    origins = find_origins(Flow(comparison))
    assert names(origins, origins.created()) == ["layer3"]


def test_nan_is_created_where_inputs_have_none():
    left = chain(changed={"act1": lambda x: np.where(x > 2, np.nan, relu(x))})
    assert created(left, chain())[:1] == ["act1 output 0"]


def test_the_gradient_of_a_bias_that_cancels_is_held_against_its_weight():
    def gradients(seed: int) -> Dump:
        recorder = Recorder()
        weight = draws(1, w=(16, 16))["w"]
        tiny = draws(seed, b=(16,))["b"] * np.float32(1e-9)
        for slot, values in (("weight", weight), ("bias", tiny)):
            name = f"Module.k.Linear.parameters_grad.{slot}"
            recorder.add(name, "k", "backward", "parameter", slot, values, "Linear")
        return recorder.dump()

    assert created(gradients(2), gradients(3)) == []


def test_work_between_calls_is_found_inside_the_module_that_holds_it():
    def run(scale: float) -> Dump:
        recorder = Recorder()
        values = draws(3, x=(8, 16), weight=(16, 16), bias=(16,))
        x = values.pop("x")
        h = recorder.call("block.fc", "Linear", linear, x, **values)
        y = recorder.call("block.act", "ReLU", relu, h * np.float32(scale))
        recorder.add(
            "Module.block.Block.forward.0.input.0", "block", "forward", "input", "0", x, "Block"
        )
        recorder.add(
            "Module.block.Block.forward.0.output.0", "block", "forward", "output", "0", y, "Block"
        )
        return recorder.dump()

    origins = origins_of(run(0.5), run(1.0))
    rows = origins.created()
    assert names(origins, rows) == ["block.act input 0"]
    assert origins.basis[rows[0]] == "between"


def test_the_noise_of_a_repeated_run_is_a_floor():
    left = chain(changed={"act1": lambda x: relu(x) * np.float32(1 + 3e-6)}, rounding=5)
    model = NoiseModel(self_noise=dict.fromkeys(chain().names, 1e-5))
    assert not origins_of(left, chain(), model).doubtful


def test_a_difference_is_followed_through_a_network_of_any_depth():
    # Every layer carries it on, so that the last one decides whether the first is harmless.
    def run(factor: float) -> Dump:
        recorder = Recorder()
        x = recorder.call(
            "first", "Block", lambda v: v * np.float32(factor), draws(3, x=(8, 4))["x"]
        )
        for number in range(1500):
            x = recorder.call(f"layers.{number}", "Block", lambda v: v[::-1] * np.float32(1.01), x)
            x = x / np.float32(1.01)
        return recorder.dump()

    origins = origins_of(run(1.5), run(1.0))
    assert names(origins, origins.created()) == ["first output 0"]


def test_calls_that_a_damaged_dump_puts_inside_each_other_end_the_search():
    def run(factor: float) -> Dump:
        recorder = Recorder()
        x = draws(3, x=(8, 4))["x"]
        recorder.call("a", "Block", lambda v: v * np.float32(factor), x)
        recorder.call("b", "Block", lambda v: v * np.float32(2), x)
        around = {"a": "Module.b.Block.forward.0", "b": "Module.a.Block.forward.0"}
        entries = [e._replace(parent=around[e.site.path]) for e in recorder.entries]
        return Dump.from_entries(entries)

    origins = origins_of(run(1.5), run(1.0))
    assert names(origins, origins.created()) == ["a output 0"]


def test_a_layout_is_harmless_where_its_first_user_agrees_and_another_origin_comes_later():
    def run(*, is_reversed: bool, factor: float) -> Dump:
        recorder = Recorder()
        values = draws(3, x=(8, 16), weight=(16, 16), bias=(16,))
        x = values.pop("x")
        stored = {name: array[::-1] if is_reversed else array for name, array in values.items()}
        h = recorder.call("attn.qkv", "Linear", linear, x, **stored)
        mixed = np.tanh(h[:, ::-1] if is_reversed else h)
        y = recorder.call("attn.proj", "Linear", linear, mixed, **values)
        z = recorder.call("act", "ReLU", lambda v: relu(v) * np.float32(factor), y)
        recorder.call("fc", "Linear", linear, z * np.float32(0.5) + x, **values)
        return recorder.dump()

    origins = origins_of(run(is_reversed=True, factor=1.1), run(is_reversed=False, factor=1.0))
    assert names(origins, origins.created()) == ["act output 0"]
    harmless = names(origins, sorted(origins.harmless))
    assert harmless == ["attn.qkv.weight", "attn.qkv.bias", "attn.qkv output 0"]


def _block_and_layer(inner: float, block: float, layer: float) -> Dump:
    """Outputs alone of a layer in a block, of the block and of a layer behind it."""
    values = draws(3, x=(8, 16), inner=(8, 16))
    recorder = Recorder()
    outputs = {"block.q": values["inner"], "block": values["x"], "fc": values["x"]}
    for (path, array), factor in zip(outputs.items(), (inner, block, layer), strict=True):
        name = f"Module.{path}.Linear.forward.0.output.0"
        scaled = array * np.float32(factor)
        recorder.add(name, path, "forward", "output", "0", scaled, "Linear")
    return recorder.dump()


def test_of_outputs_alone_what_is_gone_outside_a_module_hides_no_later_origin():
    right = _block_and_layer(1, 1, 1)
    assert created(_block_and_layer(-1, 1, 1.1), right) == ["fc output 0"]
    # A residual dilutes what is small: that is not gone.
    assert created(_block_and_layer(1 + 1e-4, 1 + 5e-6, 1 + 5e-6), right) == ["block.q output 0"]


def test_in_a_checkpoint_that_was_cast_what_differs_by_more_is_the_origin():
    def cast(values: np.ndarray) -> np.ndarray:
        return (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)

    names_of = [f"layer{i}.weight" for i in range(6)]
    right = draws(4, **{name: (16, 16) for name in names_of})
    left = {name: cast(array) for name, array in right.items()}
    other = left | {"layer3.weight": np.ascontiguousarray(left["layer3.weight"].T)}

    def checkpoint(arrays: dict[str, np.ndarray]) -> Dump:
        recorder = Recorder()
        for name, array in arrays.items():
            recorder.add(name, name[:6], "forward", "parameter", "weight", array, "Linear")
        return recorder.dump()

    assert len(created(checkpoint(left), checkpoint(right))) == 6
    assert created(checkpoint(other), checkpoint(right)) == ["layer3.weight"]


def test_growth_is_unknown_where_the_inputs_differ_without_bound():
    def run(value: float) -> Dump:
        recorder = Recorder()
        x = draws(3, x=(8, 16))["x"]
        x[0, 0] = value
        recorder.call("act", "ReLU", lambda v: np.abs(v), x)
        return recorder.dump()

    origins = origins_of(run(np.nan), run(1.0))
    row = next(row for row in range(2) if origins.flow.site["role"][row] == "output")
    assert np.isinf(origins.source_error[row])
    assert np.isnan(origins.growth[row])


def test_a_difference_that_fades_below_the_bound_of_rounding_is_not_harmless():
    # Each layer halves it: at the end it is within the bound, and still there.
    def run(error: float) -> Dump:
        recorder = Recorder()
        x, spoilt = draws(3, x=(64, 16), e=(64, 16)).values()
        x = recorder.call("stem", "Linear", lambda v, weight: v, x, weight=np.eye(16))
        y = (x + np.float32(error) * spoilt).astype(np.float32)
        recorder.entries[-1] = recorder.entries[-1]._replace(source=ArrayInMemory(y))
        for number in range(4):
            error = 0.5 * error
            given = y
            y = (x + np.float32(error) * spoilt).astype(np.float32)
            recorder.call(f"act{number}", "Custom", lambda v, y=y: y, given)
        return recorder.dump()

    assert created(run(6e-5), run(0.0)) == ["stem output 0"]


def test_the_gradient_of_a_parameter_is_used_by_no_call_that_could_acquit_it():
    def run(factor: float) -> Dump:
        recorder = Recorder()
        values = draws(3, x=(8, 16), w=(16, 16))
        for number in (1, 0):
            name = f"Module.fc{number}.Linear.backward.0"
            path = f"fc{number}"
            for role in ("input", "output"):
                full = f"{name}.{role}.0"
                recorder.add(full, path, "backward", role, "0", values["x"], "Linear")
            recorder.add(
                f"Module.fc{number}.Linear.parameters_grad.weight",
                path,
                "backward",
                "parameter",
                "weight",
                values["w"] * np.float32(factor),
                "Linear",
            )
        return recorder.dump()

    assert created(run(0.5), run(1.0)) == ["fc1.weight (grad)", "fc0.weight (grad)"]


@pytest.mark.parametrize("place", ["output", "weight"])
def test_a_branch_that_was_given_what_was_there_before_acquits_nothing_in_the_main_one(place):
    def run(factor: float) -> Dump:
        recorder = Recorder()
        values = draws(3, x=(8, 16), weight=(16, 16), bias=(16,))
        x, weight = values["x"], values["weight"] * np.float32(factor)
        given = {"weight": weight if place == "weight" else values["weight"]}
        given["bias"] = values["bias"]
        recorder.add(
            "Module.block.Block.forward.0.input.0", "block", "forward", "input", "0", x, "Block"
        )
        h = recorder.call("block.main", "Linear", linear, x, **given)
        if place == "output":
            h = h * np.float32(factor)
            recorder.entries[-1] = recorder.entries[-1]._replace(source=ArrayInMemory(h))
        short = {"weight": values["weight"], "bias": values["bias"]}
        s = recorder.call("block.short", "Linear", linear, x, **short)
        y = np.tanh(h) + s
        name = "Module.block.Block.forward.0.output.0"
        recorder.add(name, "block", "forward", "output", "0", y, "Block")
        recorder.call("head", "Linear", linear, y, **short)
        return recorder.dump()

    expected = "block.main output 0" if place == "output" else "block.main.weight"
    assert created(run(1.5), run(1.0))[:1] == [expected]


@pytest.mark.parametrize("has_more", ["left", "right"])
def test_a_call_that_one_side_alone_made_shifts_no_others(has_more):
    """A relu more in front, so that the same relu is the second one there and the first here."""
    values = draws(0, x=(32, 16), w=(16, 16), b=(16,), v=(16, 16), c=(16,))

    def run(*, more: bool, fault: bool) -> Dump:
        entries, counts = [], {"linear": 0, "relu": 0}

        def call(name: str, *inputs: np.ndarray) -> np.ndarray:
            result = {"linear": linear, "relu": relu}[name](*inputs).astype(np.float32)
            if fault and name == "linear" and not counts[name]:
                result = result * np.float32(1.05)
            number, counts[name] = counts[name], counts[name] + 1
            for role, arrays in (("input", inputs), ("output", (result,))):
                for slot, array in enumerate(arrays):
                    place = f"Functional.{name}.{number}.forward.{role}.{slot}"
                    site = Site("api", f"Functional.{name}", number, "forward", role, str(slot))
                    entries.append(
                        Entry(place, site, ArrayInMemory(array), order=len(entries), layer=name)
                    )
            return result

        x = values["x"]
        if more:
            call("relu", x)
        x = call("linear", x, values["w"], values["b"])
        x = call("relu", x)
        call("linear", x, values["v"], values["c"])
        return Dump.from_entries(entries)

    left = run(more=has_more == "left", fault=True)
    right = run(more=has_more == "right", fault=False)
    assert created(left, right) == ["Functional.linear output 0"]
    comparison = compare(left, right)
    assert comparison.first_divergence.row["right"].item() == "Functional.linear.0.forward.output.0"
    assert {check.what: check.status for check in comparison.preflight}["inputs"] == "ok"


def test_an_argument_that_is_a_parameter_is_no_input_of_the_network():
    def run(factor: float) -> Dump:
        values = draws(0, x=(32, 16), w=(16, 16), b=(16,))
        arrays = [values["x"], values["w"] * np.float32(factor), values["b"]]
        entries = []
        for role, tensors in (("input", arrays), ("output", [linear(*arrays)])):
            for slot, array in enumerate(tensors):
                site = Site("api", "Functional.linear", 0, "forward", role, str(slot))
                name = f"Functional.linear.0.forward.{role}.{slot}"
                source = ArrayInMemory(array.astype(np.float32))
                entries.append(Entry(name, site, source, order=len(entries), layer="linear"))
        return Dump.from_entries(entries)

    comparison = compare(run(1.1), run(1.0))
    assert comparison.first_divergence.row["right_display"].item() == "Functional.linear input 1"
    assert comparison.first_divergence.row["origin_basis"].item() == "root"


def test_where_a_side_turns_coarse_is_the_origin_and_behind_it_is_its_precision():
    def run(first_coarse: int) -> Dump:
        dump = chain()
        entries = []
        first = dump.names.index(f"Module.fc{first_coarse}.Linear.forward.0.output.0")
        for row, (name, source) in enumerate(zip(dump.names, dump.sources, strict=True)):
            index = dump.index.isel(entry=row)
            values = source.read(0, math.prod(source.shape)).reshape(source.shape)
            place, role = str(index["path"].item()), str(index["role"].item())
            if row >= first and role in ("input", "output"):
                values = values.astype(ml_dtypes.bfloat16).astype(np.float32)
            site = Site("module", place, 0, "forward", role, str(index["slot"].item()))
            layer = str(index["layer"].item())
            entries.append(Entry(name, site, ArrayInMemory(values), order=row, layer=layer))
        return Dump.from_entries(entries)

    for number in (0, 1):
        comparison = compare(run(number), chain())
        assert created(run(number), chain()) == [f"fc{number} output 0"]
        assert [f.cause for f in comparison.findings] == ["low_precision_cast"]
        assert comparison.findings[0].evidence["side"] == "left"
        # What fails behind it carries its difference, however little the precision leaves of it.
        assert "carried it" in comparison.verdict
        assert "without effect" not in comparison.verdict


def _with_operators(scale: float, entries: list[Entry], *calls: tuple[str, np.ndarray, np.ndarray]):
    """A product, whose result operators go on with: ``(operator, input, output)``."""
    recorder = Recorder()
    values = draws(5, x=(8, 16), weight=(16, 16), bias=(16,))
    weight = (values["weight"] * np.float32(scale)).astype(np.float32)
    recorder.call("fc", "Linear", linear, values["x"], weight=weight, bias=values["bias"])
    for operator, given, made in calls:
        for role, array in (("input", given), ("output", made)):
            site = Site("api", operator, 0, "forward", role, "0")
            name = f"{operator}.0.forward.{role}.0"
            order = len(recorder.entries)
            recorder.entries.append(Entry(name, site, ArrayInMemory(array), order=order))
    entries += recorder.entries
    return recorder.dump()


def _product(scale: float) -> np.ndarray:
    values = draws(5, x=(8, 16), weight=(16, 16), bias=(16,))
    weight = (values["weight"] * np.float32(scale)).astype(np.float32)
    return linear(values["x"], weight, values["bias"]).astype(np.float32)


@pytest.mark.parametrize("operator", ["Torch.ones_like", "Tensor.new_zeros", "Mint.zeros_like"])
def test_what_looks_at_a_shape_alone_acquits_nothing(operator):
    sides = []
    for scale in (1.0, 1.1):
        y = _product(scale)
        sides.append(_with_operators(scale, [], (operator, y, np.ones_like(y))))
    assert created(*sides)[0] == "fc.weight"


def test_scores_that_were_filled_for_a_mask_acquit_nothing():
    sides = []
    for scale in (1.0, 1.1):
        y = _product(scale)
        filled = np.where(np.tri(*y.shape, dtype=bool), y, np.float32(-1e9))
        calls = (("Tensor.masked_fill", y, filled), ("Functional.softmax", filled, filled))
        sides.append(_with_operators(scale, [], *calls))
    found = compare(*sides)
    of_filled = found.to_dataframe().set_index("right")["rel_l2_error"]
    assert of_filled["Tensor.masked_fill.0.forward.output.0"] < 1e-7
    assert created(*sides)[0] == "fc.weight"


def test_equal_statistics_and_equal_samples_acquit_nothing():
    def run(scale: float) -> Dump:
        entries: list[Entry] = []
        _with_operators(scale, entries)
        softmax = np.zeros((8, 16), np.float32)
        softmax[:, 0] = 1.0
        softmax[1:] += np.float32(scale - 1.0)
        statistics = {"min": 0.0, "max": 1.0, "mean": 0.0625, "l2": 2.83}
        base = "Functional.softmax.0.forward"
        site = Site("api", "Functional.softmax", 0, "forward", "input", "0")
        place = len(entries)
        entries.append(Entry(f"{base}.input.0", site, ArrayInMemory(_product(scale)), order=place))
        site = Site("api", "Functional.softmax", 0, "forward", "output", "0")
        known = {"dtype": "float32", "shape": (8, 16), "statistics": statistics}
        entries.append(Entry(f"{base}.output.0", site, None, order=place + 1, **known))
        site = Site("api", "Functional.softmax", 0, "forward", "output", "0.sample")
        first = ArrayInMemory(softmax.reshape(-1)[:10])
        entries.append(Entry(f"{base}.output.0.sample", site, first, order=place + 2))
        return Dump.from_entries(entries)

    assert created(run(1.0), run(1.1))[0] == "fc.weight"


def test_a_pair_that_is_only_a_guess_is_no_fault():
    """Names that say nothing, equal shapes, values that have nothing in common."""
    draw = np.random.default_rng(5).standard_normal
    left = {"alpha.gamma_a": draw(8), "zeta.kappa": draw(8)}
    right = {"one.p": draw(8), "two.q": draw(8)}
    found = compare(left, right)
    assert (found.pairing.columns["confidence"] <= 0.5).all()
    assert not (found.columns["origin"] == "created").any()
    assert found.findings == ()
    assert "only a guess" in str(found.explain())
