"""What an opened row tells the page: texts ready to show, and buffers to draw."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from troubleshooter_nb.columns.column import Column, in_view
from troubleshooter_nb.columns.pairs import RESULT_COLUMNS
from troubleshooter_nb.columns.statistics import STATISTICS
from troubleshooter_nb.comparison import TensorDiff
from troubleshooter_nb.dump import ArraySource, Dump
from troubleshooter_nb.messages import Message, ids_of, told
from troubleshooter_nb.metrics.floats import arithmetic_of
from troubleshooter_nb.metrics.places import TILE_COLUMNS, TILE_ROWS
from troubleshooter_nb.render.cells import cell_text, index_text
from troubleshooter_nb.render.neighbours import neighbours_line
from troubleshooter_nb.render.numbers import is_known, scientific
from troubleshooter_nb.render.text import axis_ranges, indices_of_axis, worst_elements
from troubleshooter_nb.render.words import reason_text, sentence
from troubleshooter_nb.shapes import shape_text
from troubleshooter_nb.widgets.drill_down import Part, element_of, part, plane_of, precision
from troubleshooter_nb.widgets.words import explorer_word

Answer = tuple[dict[str, Any], list[bytes]]

# dtype -> how the page takes a buffer of it
_BUFFERS = {"int64": "<i8", "uint64": "<u8", "complex128": "<c16", "float64": "<f8"}
_LARGEST = float(np.finfo(float).max)
_WHOLE = 2.0**53  # up to here float64 holds every integer
_STATISTICS_ONLY = "explorer.statistics_only"
_SIDES = ("left", "right")
_ERROR_BARS = 20  # at most
# Reasons of pairs that are no tensors: None, a bool, a number.
_OF_VALUES = ("value_same", "values_close", "values_differ", "no_tensor")


def opened_pair(
    diff: TensorDiff,
    evidence: xr.Dataset | str,
    language: str,
    alone: Mapping[str, xr.Dataset | str] | None = None,
    side: str | None = None,
) -> Answer:
    """One pair for the page.

    Parameters
    ----------
    diff : TensorDiff
    evidence : Dataset or str
        What `drill_down.located` says of it.
    language : str
    alone : mapping of str to (Dataset or str), optional
        What `drill_down.located_alone` says of it.
    side : str, optional
        Which of these to draw; default the first that can be.
    """
    # Of the variables: a DataArray of every figure would take longer than reading a small tensor.
    values: dict[str, Any] = {
        str(n): v.values[()] for n, v in diff.row.variables.items() if not v.ndim
    }
    for name, found in (alone or {}).items():
        if not isinstance(found, str):
            values |= {f"{name}_{n}": figure for n, figure in found.attrs["figures"].items()}
    said: dict[str, Any] = {
        "name": _arrow(str(values["left"]), str(values["right"])),
        "verdict": str(values["verdict"]),
        "reason": reason_text(values, language),
        "facts": " · ".join(
            f"{_label(diff, one, language)} {values[f'{one}_dtype']} "
            f"{shape_text(values[f'{one}_shape'])}"
            for one in _SIDES
            if values[one]
        ),
        "neighbours": neighbours_line(diff.neighbours, str(values["role"]), language),
        "figures": _figures(values, RESULT_COLUMNS, language),
        **_statistics(values, language),
    }
    buffers: list[bytes] = []
    left, right = diff.sources
    if not isinstance(evidence, str):
        said["histograms"] = [
            _value_histogram(evidence, _SIDES, language),
            _error_histogram(diff.row, language),
        ]
        buffers = _draw(said, values["left_shape"], evidence, (left, right), language)
    else:
        known = any(is_known(values[f"{one}_{n}"]) for one in _SIDES for n in STATISTICS)
        if _STATISTICS_ONLY in ids_of(evidence) and not known:
            is_value = str(values["reason_id"]) in _OF_VALUES
            evidence = Message(f"explorer.{'value_only' if is_value else 'nothing_recorded'}")
        said["sentence"] = told(evidence, language)
        buffers = _draw_alone(said, diff, alone or {}, side, language)
    return said, buffers


def opened_entry(dump: Dump, row: int, evidence: xr.Dataset | str, language: str) -> Answer:
    """One entry of a dump for the page; takes what `drill_down.located_entry` says of it."""
    columns = dump.index.variables
    values = {str(n): v.values[row] for n, v in columns.items() if v.dims == ("entry",)}
    facts = (values["kind"], values["layer"], values["role"], values["dtype"])
    if not isinstance(evidence, str):
        values |= evidence.attrs["figures"]
    said: dict[str, Any] = {
        "name": str(values["name"]),
        "verdict": "",
        "reason": told(values["reason"] or values["value"], language),
        "facts": " · ".join(filter(None, (*map(str, facts), shape_text(values["shape"])))),
        "neighbours": neighbours_line(
            {"left": dump.edges.neighbours(row)}, str(values["role"]), language
        ),
        "figures": _figures(values, STATISTICS, language),
        "statistics": [],
    }
    if isinstance(evidence, str):
        if _STATISTICS_ONLY in ids_of(evidence) and not said["figures"]:
            key = "value_only" if values["value"] else "nothing_recorded"
            evidence = Message(f"explorer.{key}")
        return said | {"sentence": told(evidence, language)}, []
    said["histograms"] = [_value_histogram(evidence, ("left",), language)]
    return said, _draw(said, values["shape"], evidence, (dump.sources[row], None), language)


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
    rows = worst_elements(shape, evidence, 8)
    bits = [precision(source.dtype) for source in sources if source is not None]
    said["worst"] = [
        [
            index_text(index),
            *map(shortest, (left, right), bits),
            *([] if single else _apart(left, right, *rest)),
        ]
        for index, left, right, *rest in rows
    ]
    said["places"] = [int(flat) for flat in evidence["worst_index"].values[:8]]
    for line, flat in zip(said["worst"], said["places"], strict=True):
        _say_exactly(line, flat, sources)
    said["profiles"] = [
        {
            "axis": axis,
            "bars": _shares(evidence[f"profile_{axis}"].values),
            "text": _range(evidence, axis, (start, stop, length), single, language),
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


def _draw_alone(
    said: dict[str, Any],
    diff: TensorDiff,
    alone: Mapping[str, xr.Dataset | str],
    side: str | None,
    language: str,
) -> list[bytes]:
    """Adds the picture of one side of a pair that cannot be compared, and which others there are.

    Nothing where neither can be drawn.
    """
    drawn = {name: found for name, found in alone.items() if not isinstance(found, str)}
    for found in alone.values():
        if isinstance(found, str) and "explorer.empty" not in ids_of(found):
            said["sentence"] += " " + told(found, language)
    if not drawn:
        return []
    side = side if side in drawn else next(iter(drawn))
    said["side"] = side
    said["sides"] = [[name, explorer_word(f"{name}_alone", language)] for name in drawn]
    said["histograms"] = [_value_histogram(drawn[side], ("left",), language)]
    source = diff.sources[_SIDES.index(side)]
    shape = () if source is None else source.shape
    return _draw(said, shape, drawn[side], (source, None), language)


def _range(
    evidence: xr.Dataset, axis: int, span: tuple[int, int, int], single: bool, language: str
) -> str:
    """Which indices of an axis hold nearly all of the squares, or that there are none."""
    if not evidence[f"profile_{axis}"].values.any():
        if evidence["tile_max"].values.any():
            return explorer_word("tiny_squares", language)
        return explorer_word("no_value" if single else "no_error", language)
    ends = dict(zip(("start", "stop", "length"), span, strict=True))
    if single:
        return explorer_word("value_range", language, **ends)
    if where := indices_of_axis(evidence, axis, language):
        return sentence("pages.concentrated_at", language, where=where)
    return sentence("pages.range", language, **ends)


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
    if math.isnan(left) or math.isnan(right):
        return ["nan", "nan"]
    if math.isinf(error):
        return ["inf", "inf"]
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
    """The fewest digits that tell a number from all others of its format; as page/numbers.js.

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


def _value_histogram(evidence: xr.Dataset, sides: Sequence[str], language: str) -> dict[str, Any]:
    low, high = (float(evidence.attrs[end]) for end in ("low", "high"))
    ends = {"low": scientific(low), "high": scientific(high)}
    key = "no_values" if math.isnan(low) else "value_histogram"
    counts = [evidence[f"{side}_histogram"].values for side in sides]
    steps = [k / len(counts[0]) for k in range(len(counts[0]) + 1)]
    return {
        "title": explorer_word(key, language, **ends),
        "ranges": _ranges([low * (1 - step) + high * step for step in steps], language),
        "series": [
            {"name": explorer_word(side if len(sides) > 1 else "value", language), **_bars(count)}
            for side, count in zip(sides, counts, strict=True)
        ],
    }


def _error_histogram(row: xr.Dataset, language: str) -> dict[str, Any]:
    """Bars of whole powers of two, from the smallest |Δ| that is not 0 to the largest."""
    counts, exponents = row["error_histogram"].values, row["exponent"].values
    found = np.flatnonzero(counts)
    if not len(found):
        return {"title": explorer_word("no_errors", language), "ranges": [], "series": []}
    first, last = int(found[0]), int(found[-1])
    starts = np.arange(first, last + 1, -(-(last + 1 - first) // _ERROR_BARS))
    edges = [2.0 ** float(exponents[at]) for at in starts] + [2.0 ** (float(exponents[last]) + 1)]
    if not first:
        edges[0] = 0.0  # what is too small for the others counts in the first
    if last == len(counts) - 1:
        edges[-1] = max(edges[-1], float(row["max_abs_error"]))
    bars = np.add.reduceat(counts[first : last + 1], starts - first)
    ends = {"low": scientific(edges[0]), "high": scientific(edges[-1])}
    size, unequal = math.prod(row["left_shape"].values[()]), row["unequal_count"]
    title = explorer_word("error_histogram", language, **ends)
    if equal := size - int(unequal):
        title += explorer_word("equal_elements", language, count=f"{equal:,}")
    return {
        "title": title,
        "ranges": _ranges(edges, language),
        "series": [{"name": "|Δ|", **_bars(bars)}],
    }


def _ranges(edges: Sequence[float], language: str) -> list[str]:
    """What lies between each edge and the next."""
    return [
        explorer_word("span", language, low=scientific(low), high=scientific(high))
        for low, high in itertools.pairwise(edges)
    ]


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


def _label(diff: TensorDiff, side: str, language: str) -> str:
    """What a side is called; one without a name of its own is the left or the right."""
    label = str(diff.labels.get(f"{side}_label") or side)
    return explorer_word(side, language) if label == side else label


def _figures(
    values: Mapping[str, Any], declared: Mapping[str, Column], language: str
) -> list[tuple[str, str, str]]:
    """What is known of some figures: title, number, and the name that the result has for it."""
    return [
        (column.titled(language), cell_text(column, values, language, "opened"), column.name)
        for column in in_view("opened", declared.values())
        if is_known(values[column.name])
    ]


def _statistics(values: Mapping[str, Any], language: str) -> dict[str, Any]:
    """The statistics of both sides, and the titles they stand under."""
    columns = in_view("opened", STATISTICS.values())
    lines = []
    for side in _SIDES:
        row = {name: values[f"{side}_{name}"] for name in STATISTICS}
        texts = (cell_text(column, row, language, "opened") for column in columns)
        lines.append([explorer_word(side, language), *texts])
    titles = [explorer_word("side", language), *(one.titled(language) for one in columns)]
    return {"heads": titles, "statistics": lines}
