"""Large calls that are computed again in some of their rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

import troubleshooter_nb as tnb
from tests.analysis.runs import Counted, Recorder
from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.budget import Budget
from troubleshooter_nb.analysis.causes.case import Call, TensorPair
from troubleshooter_nb.analysis.causes.layers import layer_of
from troubleshooter_nb.analysis.causes.parts import PartOf
from troubleshooter_nb.analysis.causes.thinned import parts
from troubleshooter_nb.dump import Dump

ROWS, COLUMNS = 4096, 160  # more elements than a call is asked about whole
Layer = Callable[..., np.ndarray]


def tensor(*shape: int, role: str = "input", worst: int = 0) -> TensorPair:
    """A pair of counted arrays."""
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    figures = {"max_abs_index": worst}
    return TensorPair(0, "x", role, sources=(Counted(values), Counted(values + 1)), figures=figures)


def linear(
    *inputs: TensorPair, output: TensorPair, weight: TensorPair | None = None, word: str = "linear"
) -> Call:
    """A forward call."""
    parameters = {"weight": weight} if weight is not None else {}
    return Call(word, "fc", "forward", inputs, (output,), parameters)


def thinned(call: Call) -> Call | None:
    """The likeliest part of a call."""
    layer = layer_of(call.word, call.direction)
    assert layer is not None
    found = next(parts(call, layer), None)
    return found.call if found is not None else None


def test_rows_are_spread_and_hold_the_largest_error() -> None:
    worst = 4001
    output = tensor(ROWS, COLUMNS, role="output", worst=worst * COLUMNS + 3)
    weight = tensor(COLUMNS, 64, role="parameter")
    few = thinned(linear(tensor(ROWS, 64), output=output, weight=weight))
    assert few is not None
    (x,), (y,) = few.inputs, few.outputs
    whole, part = output.right, y.right
    assert whole is not None
    assert part is not None
    rows = [int(row[0]) // COLUMNS for row in part - 1]
    assert worst in rows
    assert len(rows) * COLUMNS == pytest.approx(thresholds.LAYER_SAMPLE, rel=0.02)
    assert np.diff(rows).max() <= 2 * ROWS // (len(rows) // thresholds.ROWS_IN_A_RUN)
    assert np.array_equal(part, whole[rows])
    assert x.left is not None
    assert [int(row[0]) // 64 for row in x.left] == rows
    assert few.parameters["weight"] is weight


def test_leading_axes_are_rows() -> None:
    output = tensor(4, 1024, COLUMNS, role="output")
    few = thinned(linear(tensor(4, 1024, 32), output=output))
    assert few is not None
    assert few.inputs[0].shapes[0] == (few.outputs[0].shapes[0][0], 32)  # type: ignore[index]


@pytest.mark.parametrize(
    "call",
    [
        linear(tensor(64, 64), output=tensor(64, COLUMNS)),  # small
        linear(tensor(ROWS, 64), output=tensor(ROWS, COLUMNS), word="softmax"),  # any axis
        linear(tensor(ROWS, 64), output=tensor(ROWS, COLUMNS), word="conv2d"),
        linear(tensor(ROWS, 64), tensor(64, 64), output=tensor(ROWS, COLUMNS)),  # of other rows
        linear(tensor(ROWS, 64), output=tensor(ROWS * COLUMNS)),
        Call("linear", "fc", "forward", (), ()),
    ],
)
def test_what_cannot_be_thinned_is_asked_whole(call: Call) -> None:
    assert thinned(call) is None


def test_near_rows_are_read_at_once() -> None:
    values = np.arange(60, dtype=np.float32).reshape(12, 5)
    source = Counted(values)
    rows = PartOf.of(source, [np.array([2, 3, 4, 8]), None])
    assert (rows.shape, rows.size_bytes, rows.files()) == ((4, 5), 80, ())
    assert np.array_equal(rows.read(0, 20).reshape(4, 5), values[[2, 3, 4, 8]])
    assert np.array_equal(rows.read(7, 9), values[3, 2:4])
    assert rows.cost == 35


def _norm(x: np.ndarray, eps: float = 1e-5, **parameters: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    centred = wide - wide.mean(-1, keepdims=True)
    scaled = centred / np.sqrt(np.square(centred).mean(-1, keepdims=True) + eps)
    return scaled * parameters["weight"] + parameters["bias"]


def _dense(x: np.ndarray, *, adds: bool = True, **parameters: np.ndarray) -> np.ndarray:
    y = x.astype(np.float64) @ parameters["weight"].T.astype(np.float64)
    return y + parameters["bias"] if adds else y


def _gelu(x: np.ndarray, *, tanh: bool = False) -> np.ndarray:
    wide = x.astype(np.float64)
    if tanh:
        return 0.5 * wide * (1 + np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)))
    # Abramowitz and Stegun 7.1.26 would be too coarse here.
    from math import erf

    return 0.5 * wide * (1 + np.vectorize(erf, otypes=[float])(wide / np.sqrt(2)))


FAULTS: dict[str, tuple[str, str, Layer, Layer]] = {
    "norm_eps": ("norm", "LayerNorm", lambda x, **p: _norm(x, 1e-3, **p), _norm),
    "bias_missing": ("fc", "Linear", lambda x, **p: _dense(x, adds=False, **p), _dense),
    "gelu_variant": ("act", "GELU", lambda x: _gelu(x, tanh=True), _gelu),
}


def run(path: str, layer: str, function: Layer, shapes: Sequence[tuple[str, int]]) -> Dump:
    """One call over many rows."""
    random = np.random.default_rng(2)
    recorder = Recorder()
    x = 0.1 * random.standard_normal((ROWS, COLUMNS), np.float32)
    parameters = {
        name: random.standard_normal((COLUMNS,) * ndim, np.float32) for name, ndim in shapes
    }
    recorder.call(path, layer, function, x, **parameters)
    return Dump.from_entries(recorder.entries)


@pytest.mark.parametrize("cause", FAULTS)
def test_some_rows_prove_what_all_of_them_do(cause: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path, layer, wrong, right = FAULTS[cause]
    shapes = {"norm": [("weight", 1), ("bias", 1)], "fc": [("weight", 2), ("bias", 1)]}
    runs = [run(path, layer, one, shapes.get(path, [])) for one in (wrong, right)]
    few = tnb.compare(*runs).findings
    monkeypatch.setattr(thresholds, "THINNED_FROM", 1 << 40)
    whole = tnb.compare(*runs).findings
    assert [finding.cause for finding in few] == [finding.cause for finding in whole] == [cause]
    assert few[0].confidence == pytest.approx(whole[0].confidence, abs=0.01)
    assert few[0].evidence["sampled"].endswith(f" of {ROWS:,} rows")
    for side in ("left", "right"):
        told = few[0].evidence[side], whole[0].evidence[side]
        assert told[0] == (
            told[1] if isinstance(told[1], str) else pytest.approx(told[1], rel=1e-3)
        )


def test_what_became_of_nan_is_asked_of_all_rows() -> None:
    def sigmoid(x: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-x.astype(np.float64)))

    def run_of(function: Layer) -> Dump:
        x = np.random.default_rng(4).standard_normal((ROWS, COLUMNS), np.float32)
        x[[1001, 3003], [5, 7]] = np.nan
        recorder = Recorder()
        recorder.call("act", "Sigmoid", function, x)
        return Dump.from_entries(recorder.entries)

    found = tnb.compare(
        run_of(lambda x: sigmoid(np.nan_to_num(x))), run_of(sigmoid), equal_nan=True
    )
    assert [finding.cause for finding in found.findings] == ["nan_swallowed"]
    assert found.findings[0].confidence > 0.9
    assert "sampled" not in found.findings[0].evidence


# More elements than are read whole: a dense layer and a table as language models have them.
WIDE, FEATURES, VOCABULARY = 4097, 1024, 50257


def one_call(layer: str, function: Layer, x: np.ndarray, **parameters: np.ndarray) -> Dump:
    """A run of one call."""
    recorder = Recorder()
    recorder.call("layer", layer, function, x, **parameters)
    return Dump.from_entries(recorder.entries)


@pytest.mark.parametrize("tokens", [4, 300])
def test_a_dense_layer_of_any_size_is_explained_by_some_columns(tokens: int) -> None:
    random = np.random.default_rng(5)
    x = random.standard_normal((tokens, FEATURES), np.float32)
    weight = 0.02 * random.standard_normal((WIDE, FEATURES), np.float32)
    parameters = {"weight": weight, "bias": random.standard_normal(WIDE, np.float32)}
    assert weight.size > thresholds.LARGEST_READ
    runs = [
        one_call("Linear", lambda x, a=adds, **p: _dense(x, adds=a, **p), x, **parameters)
        for adds in (False, True)
    ]
    (found,) = tnb.compare(*runs).findings
    assert (found.cause, found.confidence > 0.9) == ("bias_missing", True)
    assert str(found.evidence["sampled"]).endswith(f" of {WIDE:,} columns")
    assert tnb.compare(runs[1], runs[1]).findings == ()


def test_of_a_dense_layer_the_column_of_the_largest_error_is_among_them() -> None:
    worst = 2049
    output = tensor(2, WIDE, role="output", worst=WIDE + worst)
    weight = tensor(WIDE, FEATURES, role="parameter")
    few = thinned(linear(tensor(2, FEATURES), output=output, weight=weight))
    assert few is not None
    part, rows = few.outputs[0].right, few.parameters["weight"].right
    assert part is not None
    assert rows is not None
    columns = [int(value) % WIDE for value in part[0] - 1]
    assert worst in columns
    assert [int(row[0] - 1) // FEATURES for row in rows] == columns
    assert len(columns) * FEATURES <= thresholds.LARGEST_READ


def _looked_up(ids: np.ndarray, *, how: str = "", **parameters: np.ndarray) -> np.ndarray:
    table = parameters["weight"]
    rows = table[ids + (how == "position_offset")]
    rows = rows * np.float32(12) if how == "embedding_scale" else rows
    return np.where((ids == 7)[..., None], 0, rows) if how == "padding_idx_row" else rows


@pytest.mark.parametrize("cause", ["position_offset", "embedding_scale", "padding_idx_row"])
def test_an_embedding_of_any_size_is_explained_by_some_ids(cause: str) -> None:
    random = np.random.default_rng(6)
    table = random.standard_normal((VOCABULARY, 96), np.float32)
    assert table.size > thresholds.LARGEST_READ
    ids = random.integers(8, VOCABULARY - 8, (4, 700))
    ids[:, ::9] = 7
    runs = [
        one_call("Embedding", lambda x, h=how, **p: _looked_up(x, how=h, **p), ids, weight=table)
        for how in (cause, "")
    ]
    (found,) = tnb.compare(*runs).findings
    assert (found.cause, found.confidence > 0.9) == (cause, True)
    assert " of 2,800 rows" in str(found.evidence["sampled"])
    if cause == "padding_idx_row":
        # The id as it is, not its place among those that were read.
        assert str(found.evidence["left"]) == "zero for id 7"
    assert tnb.compare(runs[1], runs[1]).findings == ()


def test_ids_that_are_no_rows_of_the_table_are_not_looked_up() -> None:
    table = tensor(VOCABULARY, 96, role="parameter")
    output = tensor(5, 96, role="output")
    ids = np.full(5, VOCABULARY)
    beyond = TensorPair(0, "ids", sources=(Counted(ids), Counted(ids)))
    call = Call("embedding", "emb", "forward", (beyond,), (output,), {"weight": table})
    assert thinned(call) is None


@pytest.mark.parametrize("side", ["left", "right"])
def test_an_embedding_that_gave_nan_is_judged_by_its_id_too(side: str) -> None:
    ids = np.arange(5000)
    table = tensor(VOCABULARY, 96, role="parameter")
    output, odd = tensor(5000, 96, role="output"), np.zeros((5000, 96), np.float32)
    odd[3333, 5] = np.nan
    kept = output.sources
    sides = (Counted(odd), kept[1]) if side == "left" else (kept[0], Counted(odd))
    output = replace(output, sources=sides, figures={f"{side}_nan_count": 1})
    given = TensorPair(0, "ids", sources=(Counted(ids), Counted(ids)))
    few = thinned(Call("embedding", "emb", "forward", (given,), (output,), {"weight": table}))
    assert few is not None
    read = few.outputs[0].left if side == "left" else few.outputs[0].right
    assert read is not None
    assert np.isnan(read).sum() == 1
    assert len(read) < 600


def test_an_endless_budget_asks_in_part_what_cannot_be_read_whole() -> None:
    endless = Budget(1, math.inf, 0.0)
    for features, is_in_part in ((FEATURES, True), (64, False)):
        output = replace(tensor(300, WIDE, role="output"), budget=endless)
        weight = tensor(WIDE, features, role="parameter")
        call = linear(tensor(300, features), output=output, weight=weight)
        assert (thinned(call) is not None) == is_in_part
