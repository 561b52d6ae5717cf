"""What an opened row tells the page: texts ready to show, and buffers to draw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from troubleshooter_nb.comparison import TensorDiff
from troubleshooter_nb.dump import ArraySource, Dump
from troubleshooter_nb.metrics.floats import arithmetic_of
from troubleshooter_nb.metrics.locate import TILE_COLUMNS, TILE_ROWS
from troubleshooter_nb.render.charts import decades, scientific
from troubleshooter_nb.render.text import axis_ranges, parse_shape, worst_elements
from troubleshooter_nb.render.words import reason_text, sentence
from troubleshooter_nb.widgets.drill_down import Part, element_of, part, plane_of, precision
from troubleshooter_nb.widgets.explorer_words import explorer_word

Answer = tuple[dict[str, Any], list[bytes]]

_FIGURES = (
    *("max_abs_error", "rel_l2_error", "cosine", "allclose_ratio", "smallest_passing_tolerance"),
    *("mean_abs_error", "rmse", "correlation", "max_rel_error", "mean_rel_error", "mape"),
    *("growth", "unequal_count", "nan_mismatch_count", "inf_mismatch_count"),
    "zero_reference_count",
)
# dtype -> how the page takes a buffer of it
_BUFFERS = {"int64": "<i8", "uint64": "<u8", "complex128": "<c16", "float64": "<f8"}
_LARGEST = float(np.finfo(float).max)
_WHOLE = 2.0**53  # up to here float64 holds every integer
_STATISTICS = ("min", "max", "mean", "l2", "nan_count", "inf_count", "zero_count")


def opened_pair(diff: TensorDiff, evidence: xr.Dataset | str, language: str) -> Answer:
    """One pair for the page.

    Parameters
    ----------
    diff : TensorDiff
    evidence : Dataset or str
        What `drill_down.located` says of it.
    language : str
    """
    # Of the variables: a DataArray of every figure would take longer than reading a small tensor.
    values = {str(n): v.values[()] for n, v in diff.row.variables.items() if not v.ndim}
    said: dict[str, Any] = {
        "name": _arrow(str(values["left"]), str(values["right"])),
        "verdict": str(values["verdict"]),
        "reason": reason_text(values, language),
        "facts": " · ".join(
            f"{diff.labels.get(f'{side}_label', side)} {values[f'{side}_dtype']} "
            f"{values[f'{side}_shape']}"
            for side in ("left", "right")
            if values[side]
        ),
        "figures": [
            [name, _number(values[name])]
            for name in _FIGURES
            if name in values and _is_known(values[name])
        ],
        "statistics": [
            [explorer_word(side, language), *(_number(values[f"{side}_{n}"]) for n in _STATISTICS)]
            for side in ("left", "right")
        ],
    }
    buffers: list[bytes] = []
    left, right = diff.sources
    if not isinstance(evidence, str):
        shape = parse_shape(str(values["left_shape"]))
        said["histograms"] = [
            _value_histogram(evidence, ("left", "right"), language),
            _error_histogram(diff.row, language),
        ]
        buffers = _draw(said, shape, evidence, (left, right), language)
    else:
        said["sentence"] = _sentence(evidence, language)
    return said, buffers


def opened_entry(dump: Dump, row: int, evidence: xr.Dataset | str, language: str) -> Answer:
    """One entry of a dump for the page; takes what `drill_down.located_entry` says of it."""
    columns = dump.index.variables
    values = {str(n): v.values[row] for n, v in columns.items() if v.dims == ("entry",)}
    facts = (values["kind"], values["layer"], values["role"], values["dtype"], values["shape"])
    figures = [[n, _number(values[n])] for n in _STATISTICS if _is_known(values[n])]
    said: dict[str, Any] = {
        "name": str(values["name"]),
        "verdict": "",
        "reason": str(values["reason"] or values["value"]),
        "facts": " · ".join(str(fact) for fact in facts if fact),
        "figures": figures,
        "statistics": [],
    }
    if isinstance(evidence, str):
        return said | {"sentence": _sentence(evidence, language)}, []
    said["histograms"] = [_value_histogram(evidence, ("left",), language)]
    shape = parse_shape(str(values["shape"]))
    return said, _draw(said, shape, evidence, (dump.sources[row], None), language)


def said_part(found: Part) -> Answer:
    """A window of the heat map for the page; ``bits`` say how many digits tell its values apart.

    Buffers: tile maxima as float64, mismatches as int32, and the values of both sides, in the
    dtypes of ``kinds``, where every tile is one element.
    """
    values = [side for side in (found.left, found.right) if side is not None]
    kinds = [_BUFFERS[side.dtype.name] for side in values]
    buffers = [
        np.ascontiguousarray(found.tile_max, "<f8").tobytes(),
        np.minimum(found.tile_mismatch, 2**31 - 1).astype("<i4").tobytes(),
    ]
    sides = [
        np.ascontiguousarray(side, kind).tobytes() for side, kind in zip(values, kinds, strict=True)
    ]
    return {
        "kinds": kinds,
        "bits": list(found.bits),
        "lead": None if found.plane.lead is None else list(found.plane.lead),
        "plane": [found.plane.rows, found.plane.columns],
        "offset": found.plane.offset,
        "rows": list(found.rows),
        "columns": list(found.columns),
        "tiles": list(found.tile_max.shape),
    }, [*buffers, *sides]


def _draw(
    said: dict[str, Any],
    shape: tuple[int, ...],
    evidence: xr.Dataset,
    sources: tuple[ArraySource | None, ArraySource | None],
    language: str,
) -> list[bytes]:
    """Adds what `Location` knows to an answer; the buffers are those of the whole picture."""
    said["shape"] = list(shape)
    # Of one side alone the other is all zero: that column says nothing.
    single = sources[1] is None
    rows = worst_elements("x".join(map(str, shape)) or "scalar", evidence, 8)
    bits = [precision(source.dtype) for source in sources if source is not None]
    said["worst"] = [
        [text, *map(shortest, (left, right), bits), *([] if single else _apart(left, right, *rest))]
        for text, left, right, *rest in rows
    ]
    said["places"] = [int(flat) for flat in evidence["worst_index"].values[:8]]
    for line, flat in zip(said["worst"], said["places"], strict=True):
        _say_exactly(line, flat, sources)
    said["profiles"] = [
        {
            "axis": axis,
            "bars": _shares(evidence[f"profile_{axis}"].values),
            "text": sentence("range", language, start=start, stop=stop, length=length)
            if concentrated
            else sentence("spread", language),
            "concentrated": concentrated,
        }
        for axis, start, stop, length, concentrated in axis_ranges(evidence)
    ]
    plane = plane_of(shape)
    small = plane.rows <= TILE_ROWS and plane.columns <= TILE_COLUMNS
    if small and sources[0] is not None:
        try:
            said["map"], buffers = said_part(part(sources[0], sources[1], plane))
        except OSError:
            pass  # the evidence is stored, the files are not needed for the tiles
        else:
            return buffers
    maxima, mismatch = evidence["tile_max"].values, evidence["tile_mismatch"].values
    whole = Part(plane, (0, plane.rows), (0, plane.columns), maxima, mismatch, None, None)
    said["map"], buffers = said_part(whole)
    return buffers


def _say_exactly(
    line: list[str], flat: int, sources: tuple[ArraySource | None, ArraySource | None]
) -> None:
    """Puts integers and complex numbers in place of what the evidence keeps: floats and moduli."""
    given = [source for source in sources if source is not None]
    if all(arithmetic_of(source.dtype) == "float" for source in given):
        return
    try:
        values = [element_of(source, flat) for source in given]
    except OSError:
        return  # the files are gone: what the evidence keeps is still true
    bits = [precision(source.dtype) for source in given]
    line[1 : 1 + len(values)] = map(_exactly, values, bits)
    if len(values) == 2 and all(isinstance(value, int) for value in values):
        line[3] = str(abs(int(values[0].real) - int(values[1].real)))


def _apart(left: float, right: float, error: float, relative: float) -> list[str]:
    """Both distances of two values; what float64 cannot hold comes as its largest number."""
    if error == _LARGEST:
        error = math.inf
        relative = abs(left / right - 1) if right else math.inf
    return [scientific(error), scientific(relative)]


def _exactly(value: int | float | complex, bits: int) -> str:
    if isinstance(value, int):
        return str(value)
    if isinstance(value, complex):
        imaginary = shortest(value.imag, bits)
        sign = "" if imaginary.startswith("-") else "+"
        return f"{shortest(value.real, bits)}{sign}{imaginary}j"
    return shortest(value, bits)


def shortest(value: float, bits: int) -> str:
    """The fewest digits that tell a number from all others of its format; as explorer.js.

    Parameters
    ----------
    value : float
        Any number, nan and inf included.
    bits : int
        Precision of the format (`drill_down.precision`): 53, 24, 11 and 8 for float64, float32,
        float16 and bfloat16. 0 for integers, of which float64 keeps those up to 2**53: others
        come with six digits.
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if not bits:
        return f"{value:.0f}" if abs(value) <= _WHOLE else f"{value:.6g}"
    written = (f"{value:.{digits}e}" for digits in range(17))
    text = next(text for text in written if _rounded(float(text), bits) == value)
    mantissa, power = text.split("e")
    if -4 <= int(power) < 16:
        return repr(float(text)).removesuffix(".0")
    return f"{mantissa}e{int(power)}"


def _rounded(value: float, bits: int) -> float:
    if bits == 24:
        with np.errstate(over="ignore"):
            return float(np.float32(value))
    # The sum pushes the bits that are too many out of the number, and rounds to even as it does.
    pushed = value * (2.0 ** (53 - bits) + 1)
    return pushed - (pushed - value) if bits < 53 and math.isfinite(pushed) else value


def _arrow(left: str, right: str) -> str:
    return left if left == right else f"{left or '–'} → {right or '–'}"


def _sentence(reason: str, language: str) -> str:
    key, _, detail = reason.partition(":")
    return explorer_word(key, language, **({"reason": detail} if detail else {}))


def _value_histogram(evidence: xr.Dataset, sides: Sequence[str], language: str) -> dict[str, Any]:
    low, high = (float(evidence.attrs[end]) for end in ("low", "high"))
    ends = {"low": scientific(low), "high": scientific(high)}
    key = "no_values" if math.isnan(low) else "value_histogram"
    counts = [evidence[f"{side}_histogram"].values for side in sides]
    return {
        "title": explorer_word(key, language, **ends),
        "series": [
            {"name": explorer_word(side if len(sides) > 1 else "value", language), **_bars(count)}
            for side, count in zip(sides, counts, strict=True)
        ],
    }


def _error_histogram(row: xr.Dataset, language: str) -> dict[str, Any]:
    counts = decades(row["error_histogram"].values, row["exponent"].values)
    title = explorer_word("error_histogram", language)
    return {"title": title, "series": [{"name": "|Δ|", **_bars(counts)}]}


def _bars(counts: np.ndarray) -> dict[str, Any]:
    """Heights by square root, so that rare values stay visible, and the counts as text."""
    return {
        "bars": _shares(np.sqrt(np.asarray(counts, float))),
        "counts": [f"{int(count):,}" for count in counts],
    }


def _shares(values: np.ndarray) -> list[float]:
    most = float(np.finfo(float).max)
    values = np.nan_to_num(np.asarray(values, float), posinf=most)
    largest = float(values.max(initial=0.0))
    return [round(float(value / largest), 4) if largest else 0.0 for value in values]


def _is_known(value: Any) -> bool:
    # -1 stands for an unknown count; of a float it is a value.
    return value != -1 if isinstance(value, (int, np.integer)) else not math.isnan(float(value))


def _number(value: Any) -> str:
    if not _is_known(value):
        return "–"
    return f"{int(value):,}" if isinstance(value, (int, np.integer)) else f"{float(value):.6g}"
