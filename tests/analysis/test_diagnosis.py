"""From two runs to the first difference and its cause, on small runs of known dataflow."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.analysis.runs import Recorder, chain, draws, linear, relu
from troubleshooter_nb import compare, measure_noise
from troubleshooter_nb.analysis.causes.case import Suspicion
from troubleshooter_nb.analysis.causes.confidence import confidence
from troubleshooter_nb.analysis.diagnosis import findings_of
from troubleshooter_nb.dump import Dump
from troubleshooter_nb.options import option_context


def layernorm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt(centred.var(-1, keepdims=True) + eps) * weight + bias


def normed(eps: float, *, rounding: int = 0, bfloat16: bool = False) -> Dump:
    """A dense layer, a normalisation with little variance, and another dense layer."""
    recorder = Recorder(rounding=rounding)
    values = draws(3, x=(64, 32), w0=(32, 32), b0=(32,), g=(32,), b=(32,), w1=(32, 32), b1=(32,))
    if bfloat16:
        values = {name: _bfloat16(array) for name, array in values.items()}
    x = recorder.call("fc", "Linear", linear, values["x"], weight=values["w0"], bias=values["b0"])
    x = recorder.call("act", "ReLU", lambda v: relu(v) * np.float32(0.01), x)
    x = recorder.call(
        "norm",
        "LayerNorm",
        lambda v, weight, bias: layernorm(v, weight, bias, eps),
        x,
        weight=values["g"],
        bias=values["b"],
    )
    recorder.call("out", "Linear", linear, x, weight=values["w1"], bias=values["b1"])
    return recorder.dump()


@pytest.mark.parametrize("lacking", ["left", "right"])
@pytest.mark.parametrize("names", [("weight", "bias"), ("bias",)])
def test_a_parameter_that_a_side_lacks_is_the_cause(lacking, names):
    """As of a LayerNorm that was made without its affine part on one side."""

    def run(absent: tuple[str, ...]) -> Dump:
        recorder = Recorder()
        x = draws(3, x=(64, 32))["x"]
        affine = draws(4, weight=(32,), bias=(32,))
        given = {name: values for name, values in affine.items() if name not in absent}
        recorder.call(
            "norm",
            "LayerNorm",
            lambda v, weight=1.0, bias=0.0: layernorm(v, weight, bias, 1e-5),
            x,
            **given,
        )
        return recorder.dump()

    sides = run(names), run(())
    comparison = compare(*(sides if lacking == "left" else sides[::-1]))
    assert comparison.first_divergence.row["left_display"].item() == "norm output 0"
    assert comparison.first_divergence.row["origin"].item() == "created"
    wanted = {"weight": "bn_gamma_ignored", "bias": "bias_missing"}
    found = {finding.cause: finding for finding in comparison.findings}
    assert found.keys() == {wanted[name] for name in names}
    for finding in found.values():
        assert finding.evidence[lacking] == "absent"
        assert finding.confidence > 0.9


def test_parameters_that_agree_to_rounding_are_no_reason_to_stop():
    def check(factor: float, dtype: type = np.float32) -> tuple[str, int]:
        weights = {"fc1": lambda w: (w * np.float32(factor)).astype(dtype)}
        found = {one.what: one for one in compare(chain(weights=weights), chain()).preflight}
        return found["parameters"].status, found["parameters"].values["equal"]

    assert check(1 + 2e-7) == ("note", 7)
    assert check(1.0, np.float16) == ("note", 7)
    assert check(1.001) == ("bad", 7)


def _bfloat16(values: np.ndarray) -> np.ndarray:
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x8000) & 0xFFFF0000).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize("rounding", [0, 7])
def test_the_eps_of_a_normalisation_is_fitted_on_both_sides(rounding):
    comparison = compare(normed(1e-3, rounding=rounding), normed(1e-5))
    finding = comparison.findings[0]
    assert finding.cause == "norm_eps"
    assert finding.confidence > 0.9
    assert finding.evidence["left"] == pytest.approx(1e-3, rel=0.02)
    assert finding.evidence["right"] == pytest.approx(1e-5, rel=0.1)
    assert comparison[finding.pair].row["left_display"].item() == "norm output 0"
    assert comparison.first_divergence.row["order"].item() == finding.pair
    assert comparison.result["origin"].values[finding.pair] == "created"
    json.dumps(finding.evidence)


def test_a_weight_that_is_transposed_is_the_first_difference_and_its_cause():
    left = chain(weights={"fc1": lambda w: np.ascontiguousarray(w.T)})
    comparison = compare(left, chain())
    assert comparison.first_divergence.row["left_display"].item() == "fc1.weight"
    assert comparison.findings[0].cause == "linear_transposed"
    later = comparison.result["origin"].values[comparison.result["rel_l2_error"].values > 1e-4]
    assert set(later) == {"created", "carried"}


def test_runs_that_round_differently_have_no_origin_and_no_finding():
    comparison = compare(chain(rounding=3), chain())
    assert comparison.findings == ()
    assert comparison.first_divergence is None
    assert not comparison.result["origin"].values.any()
    assert np.nanmax(comparison.result["growth"].values) < 10


def test_equal_runs_still_say_whether_they_could_be_compared():
    checks = {check.what: check for check in compare(chain(), chain()).preflight}
    assert checks["inputs"].status == checks["parameters"].status == "ok"
    assert checks["parameters"].values["count"] == 8


def test_a_difference_within_the_tolerance_is_found_and_fails_nothing():
    comparison = compare(normed(1.002e-5, rounding=7), normed(1e-5))
    assert comparison.passed
    # two thousandths of eps change these outputs by less than 1e-4
    assert comparison.first_divergence.row["left_display"].item() == "norm output 0"


def test_without_diagnosis_there_is_no_origin():
    comparison = compare(normed(1e-3), normed(1e-5), diagnose=False)
    assert comparison.findings == comparison.preflight == ()
    assert not comparison.result["origin"].values.any()
    assert comparison.first_divergence.row["left_display"].item() == "norm output 0"


def test_a_layer_that_does_something_else_has_an_origin_and_no_sure_cause():
    def odd(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
        y = linear(x, weight, bias)
        y[:, 3], y[:, 5] = y[:, 5].copy(), y[:, 3].copy()
        return y

    comparison = compare(chain(changed={"fc2": odd}), chain())
    assert comparison.first_divergence.row["left_display"].item() == "fc2 output 0"
    assert all(finding.confidence < 0.5 for finding in comparison.findings)


def test_one_factor_for_all_gradients_is_named():
    def run(factor: float) -> Dump:
        recorder = Recorder()
        for number in range(4):
            values = draws(number, weight=(16, 16), bias=(16,))
            for slot, array in values.items():
                name = f"Module.fc{number}.Linear.parameters_grad.{slot}"
                grad = (array * np.float32(factor)).astype(np.float32)
                recorder.add(name, f"fc{number}", "backward", "parameter", slot, grad, "Linear")
        return recorder.dump()

    comparison = compare(run(1024.0), run(1.0))
    assert comparison.findings[0].cause == "loss_scale_left"
    assert comparison.findings[0].evidence["factor"] == pytest.approx(1024.0)


def test_the_noise_of_a_repeated_run_hides_what_is_no_larger():
    noise = measure_noise(compare(normed(1.002e-5, rounding=5), normed(1e-5)))
    assert noise.self_noise
    comparison = compare(normed(1.002e-5, rounding=7), normed(1e-5), noise=noise)
    assert comparison.first_divergence is None


def test_what_only_a_repeated_run_explains_is_called_nondeterministic():
    def run(seed: int) -> Dump:
        noise = 1e-4 * draws(seed, x=(32, 16))["x"]
        return chain(changed={"act1": lambda x: relu(x) * (1 + noise)})

    noise = measure_noise(compare(run(5), run(6)))
    comparison = compare(run(7), chain(), noise=noise)
    assert [finding.cause for finding in comparison.findings] == ["nondeterministic"]
    (finding,) = comparison.findings
    assert comparison[finding.pair].row["right_display"].item() == "act1 output 0"
    assert finding.evidence["self_noise"] == pytest.approx(1.4e-4, rel=0.2)
    assert finding.confidence > 0.5
    # One that is larger stays an origin, and one without noise of its own says nothing of it.
    larger = compare(chain(changed={"act1": lambda x: relu(x) * 1.5}), chain(), noise=noise)
    assert larger.first_divergence is not None
    assert all(finding.cause != "nondeterministic" for finding in larger.findings)


def test_noise_is_not_measured_from_runs_that_differ():
    with pytest.raises(ValueError, match="differ by more than noise"):
        measure_noise(compare(chain(inputs=lambda x: x + 1), chain()))


def test_noise_is_measured_of_a_comparison():
    with pytest.raises(TypeError, match=r"takes what compare\(\) returns, got str"):
        measure_noise("a_folder")


def test_swapped_sides_swap_the_fitted_values():
    forth = compare(normed(1e-3), normed(1e-5)).findings[0]
    back = compare(normed(1e-5), normed(1e-3)).findings[0]
    assert (forth.evidence["left"], forth.evidence["right"]) == (
        back.evidence["right"],
        back.evidence["left"],
    )


def suspicion(cause: str, **changed: object) -> Suspicion:
    given = {"before": 1e-2, "residual": 1e-7, "rival": 1e-2, "floor": 1e-7, "pair": 3}
    return Suspicion(cause, **{**given, **changed})  # type: ignore[arg-type]


def test_confidence_falls_with_what_is_left_with_rivals_and_with_few_values():
    sure = confidence(suspicion("norm_eps"))
    assert sure > 0.95
    for worse in ({"residual": 5e-3}, {"rival": 2e-7}, {"independent": 3}, {"before": 1e-7}):
        assert confidence(suspicion("norm_eps", **worse)) < 0.6 * sure


def test_two_causes_that_explain_one_pair_alike_are_both_unsure():
    both = [suspicion("norm_eps"), suspicion("bn_eps")]
    assert all(finding.confidence < 0.5 for finding in findings_of(both, 3))


def test_one_cause_at_several_places_is_one_finding_with_all_of_them():
    places = [replace(suspicion("norm_eps"), pair=pair) for pair in (3, 9, 12)]
    (finding,) = findings_of(places, 3)
    assert finding.pair == 3
    assert finding.evidence["pairs"] == [3, 9, 12]


def test_one_cause_with_other_settings_is_a_finding_of_its_own():
    def at(pair: int, left: float) -> Suspicion:
        return suspicion(
            "norm_eps", pair=pair, evidence={"setting": "eps", "left": left, "right": 0}
        )

    # 3 % is what a fit may be off by.
    found = findings_of([at(3, 1e-3), at(9, 1e-5), at(12, 1.001e-3)], 3)
    assert [(one.pair, one.evidence["left"], one.evidence["pairs"]) for one in found] == [
        (3, 1e-3, [3, 12]),
        (9, 1e-5, [9]),
    ]
    # What is no setting of a layer says where the cause acts.
    zeros = [suspicion("tensor_not_loaded", pair=n, evidence={"left": n}) for n in (3, 9)]
    assert len(findings_of(zeros, 3)) == 1


def test_the_first_difference_can_be_looked_into_even_where_others_are_worse():
    def grows(x: np.ndarray) -> np.ndarray:
        return np.sign(x) * np.abs(x) ** np.float32(1.5)

    faults = {f"act{n}": grows for n in range(1, 12)}
    right = chain(layers=12, changed=faults)
    left = chain(layers=12, changed={**faults, "act0": lambda x: relu(x) * np.float32(1.001)})
    comparison = compare(left, right)
    first = comparison.first_divergence
    assert first.row["left_display"].item() == "act0 output 0"
    assert first.evidence is not None


def test_an_activation_that_was_replaced_is_paired_and_named():
    def run(layer: str, function: object) -> Dump:
        recorder = Recorder()
        values = draws(3, x=(64, 32), w=(32, 32), b=(32,), v=(32, 32), c=(32,))
        x = recorder.call("fc", "Linear", linear, values["x"], weight=values["w"], bias=values["b"])
        x = recorder.call("act", layer, function, x)  # type: ignore[arg-type]
        recorder.call("out", "Linear", linear, x, weight=values["v"], bias=values["c"])
        return recorder.dump()

    left = run("SiLU", lambda x: x / (1 + np.exp(-x)))
    comparison = compare(left, run("ReLU", relu))
    assert comparison.first_divergence.row["left_display"].item() == "act output 0"
    assert comparison.findings[0].cause == "activation_changed"
    assert "another class" in comparison.pairing.to_dataframe()["note"].str.cat()


def test_rows_before_the_first_difference_that_could_not_be_read_are_said(tmp_path):
    random = np.random.default_rng(0)
    arrays = {f"l{i}": random.standard_normal(64).astype(np.float32) for i in range(6)}
    other = {
        name: values * (1 + 1e-2 * (i >= 3)) for i, (name, values) in enumerate(arrays.items())
    }
    for folder, values in (("left", other), ("right", arrays)):
        (tmp_path / folder).mkdir()
        for i, (name, array) in enumerate(values.items()):
            np.save(tmp_path / folder / f"{name}_float32_{i}.npy", array)
    (tmp_path / "left" / "l3_float32_3.npy").write_bytes(b"damaged")
    comparison = compare(tmp_path / "left", tmp_path / "right")
    assert comparison.first_divergence.row["left_display"].item() == "l4"
    assert any("from l3 on: it may begin there" in note for note in comparison.notes)


def convolved(*, is_folded: bool) -> Dump:
    """A pointwise convolution and its batch norm in evaluation, folded into one or not."""
    recorder = Recorder()
    values = draws(5, x=(64, 16), weight=(16, 16), bias=(16,), gamma=(16,), beta=(16,), mean=(16,))
    x, mean, beta = values["x"], values["mean"], values["beta"]
    gamma, variance = np.abs(values["gamma"]) + 0.5, np.abs(values["mean"]) + np.float32(0.1)
    factor = gamma / np.sqrt(variance + 1e-5)
    weight, bias = values["weight"], values["bias"]
    if is_folded:
        weight, bias = weight * factor[:, None], beta + (bias - mean) * factor
    norm = {"weight": gamma, "bias": beta, "running_mean": mean, "running_var": variance}
    h = recorder.call("conv", "Linear", linear, x, weight=weight, bias=bias.astype(np.float32))

    def normalise(v: np.ndarray, **known: np.ndarray) -> np.ndarray:
        return v if is_folded else (v - mean) * factor + beta

    y = recorder.call("bn", "BatchNorm1d", normalise, h, **({} if is_folded else norm))
    recorder.call("act", "ReLU", relu, y)
    return recorder.dump()


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_norm_that_is_folded_into_the_layer_before_it_is_said_and_no_missing_bias(side):
    sides = convolved(is_folded=side == "left"), convolved(is_folded=side == "right")
    comparison = compare(*sides)
    assert comparison.findings[0].cause == "bn_folded"
    assert comparison.findings[0].confidence > 0.9
    assert comparison.findings[0].evidence["side"] == side
    assert comparison.findings[0].evidence["bias"] == "folded"
    assert "bias_missing" not in {finding.cause for finding in comparison.findings}


def test_a_second_output_is_not_acquitted_with_the_first_which_was_computed_again():
    def run(factor: float) -> Dump:
        recorder = Recorder()
        values = draws(3, x=(32, 16), weight=(16, 16), bias=(16,))
        x = values.pop("x")
        y = recorder.call("fc", "Linear", linear, x, **values)
        name = "Module.fc.Linear.forward.0.output.1"
        recorder.add(name, "fc", "forward", "output", "1", y * np.float32(factor), "Linear")
        return recorder.dump()

    comparison = compare(run(1.1), run(1.0))
    assert comparison.first_divergence.row["right"].item().endswith("output.1")
    assert comparison.first_divergence.row["origin"].item() == "created"


@pytest.mark.parametrize(
    ("change", "said", "chinese"),
    [
        (lambda w: w * np.float32(1.25), "right = left × 0.8, to", "右侧 = 左侧 × 0.8，"),
        (lambda w: w[::-1], "right is left reversed along axes (0,)", "但数值显示"),
        (lambda w: w * np.linspace(1, 2, 16, dtype="f4"), "each index of axis 1", "沿第 1 轴"),
    ],
)
def test_what_the_values_show_is_said_where_no_cause_is_proved(change, said, chinese):
    comparison = compare(chain(weights={"fc2": change}), chain())
    assert comparison.first_divergence.row["right_display"].item() == "fc2.weight"
    json.dumps(comparison.observed)
    for text in (str(comparison.explain()), repr(comparison), comparison._repr_html_()):
        assert said in " ".join(text.split())
    with option_context(language="zh"):
        assert chinese in str(comparison.explain())


def test_a_layer_that_one_side_replaced_by_nothing_is_the_origin():
    def run(layer: str) -> Dump:
        recorder = Recorder()
        values = draws(3, x=(64, 32), w=(32, 32), b=(32,))
        x = recorder.call("in", "Linear", linear, values["x"], weight=values["w"], bias=values["b"])
        function = {
            "LayerNorm": lambda v: layernorm(v, 1.0, 0.0, 1e-5),
            "Identity": lambda v: v,
        }[layer]
        x = recorder.call("norm", layer, function, x)
        recorder.call("out", "Linear", linear, x, weight=values["w"], bias=values["b"])
        return recorder.dump()

    comparison = compare(run("Identity"), run("LayerNorm"))
    first = comparison.first_divergence.row
    assert (first["left"].item(), first["right"].item()) == (
        "Module.norm.Identity.forward.0.output.0",
        "Module.norm.LayerNorm.forward.0.output.0",
    )
    assert first["origin"].item() == "created"


def embedded(padding: int | None) -> Dump:
    """An embedding and a dense layer, forward and backward, with the gradients of both weights."""
    recorder, random = Recorder(), np.random.default_rng(5)
    ids = random.integers(0, 12, (16, 8))
    given = draws(7, table=(12, 24), weight=(6, 24), out=(16, 8, 6))
    rows = recorder.call(
        "emb", "Embedding", lambda i, weight: weight[i], ids, weight=given["table"]
    )
    recorder.call("fc", "Linear", lambda x, weight: x @ weight.T, rows, weight=given["weight"])
    arriving = {"fc": given["out"], "emb": (given["out"] @ given["weight"]).astype(np.float32)}
    leaving = {"fc": arriving["emb"]}
    summed = np.zeros((12, 24), np.float32)
    np.add.at(summed, ids, arriving["emb"])
    if padding is not None:
        summed[padding] = 0
    flat = given["out"].reshape(-1, 6).T @ rows.reshape(-1, 24)
    for path, layer, gradient in (("fc", "Linear", flat), ("emb", "Embedding", summed)):
        base = f"Module.{path}.{layer}.backward.0"
        recorder.add(f"{base}.input.0", path, "backward", "input", "0", arriving[path], layer)
        if path in leaving:
            recorder.add(f"{base}.output.0", path, "backward", "output", "0", leaving[path], layer)
        name = f"{base}.parameters.weight"
        recorder.add(name, path, "backward", "parameter", "weight", gradient, layer)
    return recorder.dump()


def test_the_gradient_of_a_table_tells_which_row_is_padding():
    comparison = compare(embedded(3), embedded(None))
    (finding,) = comparison.findings
    assert finding.cause == "padding_idx_row"
    assert finding.confidence > 0.8
    assert (finding.evidence["left"], finding.evidence["right"]) == ("none for id 3", "kept")
    assert compare(embedded(3), embedded(3)).findings == ()
