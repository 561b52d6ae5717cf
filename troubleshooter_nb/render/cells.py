"""How the cells of a table are written: the named formats of columns, each once.

The formats of numbers that the explorer writes itself are also in ``widgets/page/numbers.js``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from troubleshooter_nb.columns.column import Column, View
from troubleshooter_nb.messages import told
from troubleshooter_nb.render.numbers import (
    cosine_text,
    figure,
    growth_text,
    is_known,
    near_one_text,
    percent,
    scientific,
)
from troubleshooter_nb.render.words import glyph, sentence, word
from troubleshooter_nb.shapes import Shape, shape_text, shapes_text

UNKNOWN = "–"
Row = Mapping[Any, Any]


@dataclass(frozen=True)
class Format:
    """How a column is written.

    Attributes
    ----------
    write : callable
        Takes the value, the row it stands in and a language, and gives the text.
    sheet : str
        The number format of a spreadsheet, where the figure itself stands in the cell.
    always : bool
        Something is written also where the value is unknown: the row says what, or that it is nan.
    """

    write: Callable[[Any, Row, str], str]
    sheet: str = "General"
    always: bool = False


def cell_text(column: Column, row: Row, language: str, view: View, unknown: str = UNKNOWN) -> str:
    """A cell as a view writes it.

    Parameters
    ----------
    column : Column
    row : mapping of str to value
        Of the table, with what is made of it.
    language : str
    view : str
    unknown : str
        What stands where a number is not known.
    """
    value = row.get(column.name)
    form = FORMATS[column.format_in(view)]
    if form.always or is_known(value):
        return form.write(value, row, language)
    return unknown if column.dtype in ("int64", "float64") else ""


def names_text(left: str, right: str) -> str:
    """``left → right``, or one name where both are the same."""
    return left if left == right else f"{left or UNKNOWN} → {right or UNKNOWN}"


def both_shapes_text(left: Shape | None, right: Shape | None) -> str:
    """The shape of a pair; both where they differ."""
    shapes = [shape_text(shape, "×") for shape in (left, right)]
    if shapes[0] == shapes[1] or not all(shapes):
        return shapes[0] or shapes[1]
    return " → ".join(shapes)


def index_text(index: Sequence[int]) -> str:
    """``[3, 0]``: the place of an element."""
    return f"[{', '.join(map(str, index))}]"


def _growth(value: Any, row: Row, language: str) -> str:
    """Growth of a row's error: ``×1.3``, ``new NaN``, or nothing."""
    if row["verdict"] == "nan":
        what = "NaN" if row["nan_mismatch_count"] else "Inf"
        return sentence("pages.new", language, what=what) if row["origin"] == "created" else ""
    return "" if row["verdict"] == "shape" else growth_text(float(value))


def _verdict(value: Any, row: Row, language: str) -> str:
    """What became known of a pair, or its verdict."""
    state = str(row.get("state", value))
    return f"{glyph(state)} {word(state, language)}" if state else ""


def _shapes_of_map(_value: Any, row: Row, _language: str) -> str:
    source, target = (shapes_text(row[f"{side}_shape"], "×") for side in ("source", "target"))
    return source if source == target or not target else f"{source} → {target}"


def _names(value: Any, row: Row, _language: str) -> str:
    left = row.get("left_display", row.get("left", value))
    return names_text(str(left), str(row.get("right_display", row.get("right", left))))


def _both_shapes(_value: Any, row: Row, _language: str) -> str:
    return both_shapes_text(row["left_shape"], row["right_shape"])


def _both_dtypes(_value: Any, row: Row, _language: str) -> str:
    return " → ".join(dict.fromkeys(filter(None, (row["left_dtype"], row["right_dtype"]))))


def _role(value: Any, row: Row, _language: str) -> str:
    return " ".join(filter(None, (str(value), str(row["direction"]))))


def _plain(value: Any, _row: Row, language: str) -> str:
    """What is not declared, as it is."""
    return f"{value:.6g}" if isinstance(value, float) else told(value, language)


def _structure(value: Any, _row: Row, language: str) -> str:
    return sentence(f"pages.kind_{value}", language)


_CHECKED = {
    "intact": "checksums.status_intact",
    "damaged": "checksums.status_damaged",
    "no_checksum": "checksums.status_none",
    "unread": "checksums.status_unread",
}


def _checked(value: Any, _row: Row, language: str) -> str:
    return sentence(_CHECKED[value], language)


def _number(form: str) -> Callable[[Any, Row, str], str]:
    return lambda value, _row, _language: format(value, form)


def _text_of(write: Callable[[Any], str]) -> Callable[[Any, Row, str], str]:
    return lambda value, _row, _language: write(value)


FORMATS: Mapping[str, Format] = {
    "text": Format(lambda value, _row, language: told(value, language)),
    "name": Format(_text_of(str)),
    "names": Format(_names, always=True),
    "number": Format(_number("d"), "0"),
    "any_number": Format(_number("d"), "0", always=True),  # -1 and below are numbers as well
    "count": Format(_number(",d"), "#,##0"),
    "scientific": Format(_text_of(scientific), "0.0E+00"),
    "figure": Format(_text_of(figure)),
    "any_scientific": Format(_text_of(scientific), "0.0E+00", always=True),  # nan says something
    "four_digits": Format(_number(".4g")),
    "six_digits": Format(_number(".6g")),
    "seven_digits": Format(_number(".7g"), always=True),
    "hundredths": Format(_number(".2f"), "0.00"),
    "share": Format(_text_of(percent), "0.00######%"),  # no 99.99999 % is a 100 %
    "percent": Format(lambda value, _row, _language: f"{value:.6g}%"),
    "growth": Format(_growth, '[<100]"×"0.0;"×"0.0E+00', always=True),
    "cosine": Format(_text_of(cosine_text)),
    "near_one": Format(_text_of(near_one_text)),
    "flag": Format(lambda value, _row, _language: "✓" if value else ""),
    "shape": Format(_text_of(lambda shape: shape_text(shape, "×"))),
    "both_shapes": Format(_both_shapes, always=True),
    "both_dtypes": Format(_both_dtypes, always=True),
    "shapes_of_map": Format(_shapes_of_map),
    "index": Format(_text_of(index_text)),
    "role": Format(_role, always=True),
    "verdict": Format(_verdict),
    "origin": Format(_text_of(str)),
    "structure": Format(_structure),
    "checked": Format(_checked),
    "failed": Format(lambda value, _row, _language: f"✗ {value:,}" if value else "0"),
    "remark": Format(_text_of(str)),
    "decades": Format(_text_of(str)),
    "plain": Format(_plain, always=True),
}


def heads(
    columns: Sequence[Column], language: str, labels: Sequence[str] = ()
) -> list[tuple[str, bool]]:
    """Titles of columns, and whether each is aligned left; names stand under what the sides are.

    Parameters
    ----------
    columns : sequence of Column
    language : str
    labels : sequence of str
        What the left and the right side are called; none where it need not be said.
    """
    sides = " → ".join(labels)
    return [
        (
            sides if sides and column.format == "names" else column.titled(language),
            column.is_left,
        )
        for column in columns
    ]
