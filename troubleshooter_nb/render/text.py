"""Text reprs: at most 25 lines of at most 100 columns, complete enough to decide from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from troubleshooter_nb.columns.column import Column, figures_span, in_view
from troubleshooter_nb.columns.elements import ELEMENT_COLUMNS
from troubleshooter_nb.columns.pairs import RESULT_COLUMNS
from troubleshooter_nb.columns.statistics import STATISTICS
from troubleshooter_nb.messages import told
from troubleshooter_nb.metrics.index_sets import described
from troubleshooter_nb.metrics.verdict import is_open
from troubleshooter_nb.render.calls import call_text
from troubleshooter_nb.render.cells import cell_text, heads, names_text
from troubleshooter_nb.render.explanation import (
    answers_of,
    check_line,
    how_sentence,
    origin_sentence,
    place_sentence,
    why_sentences,
)
from troubleshooter_nb.render.lines import (
    COLUMNS,
    aligned,
    fitted,
    fitted_line,
    is_whole,
    most_columns,
    most_lines,
    spaced,
    width,
    wrapped,
)
from troubleshooter_nb.render.neighbours import neighbours_line, wired_line
from troubleshooter_nb.render.numbers import bytes_text, is_known, scientific
from troubleshooter_nb.render.places import indices_said
from troubleshooter_nb.render.rows import Entries, Pairs
from troubleshooter_nb.render.rows import scalar_row as scalar_row
from troubleshooter_nb.render.words import glyph, reason_text, sentence, word
from troubleshooter_nb.shapes import Shape, shape_text


def dump_text(index: xr.Dataset, facts: Mapping[str, Any]) -> str:
    """Text repr of a Dump."""
    entries = Entries.of(index)
    title = sentence("pages.dump_title", facts["language"], label=repr(facts["label"]))
    lines = [f"{title} · {dump_headline(index, facts['language'])}"]
    lines += [f"  {text}" for _, text in entries.health(facts["language"])]
    lines += note_lines(facts)
    count = len(entries)
    room = most_lines() - 3 - len(lines)
    shown = range(count) if count <= room else range(room - 1)
    columns = entries.shown("text")
    language = facts["language"]
    rows = [[_entry_text(entries, i, column, language) for column in columns] for i in shown]
    lines += [f"  {line}" for line in aligned(rows, [column.is_left for column in columns], facts)]
    if count > len(shown):
        lines.append(f"  ... {more_text(count - len(shown), 'dump.to_dataframe()', facts)}")
    return fitted(lines, facts)


def note_lines(facts: Mapping[str, Any], most: int | None = None, where: str = "") -> list[str]:
    """The first notes, a line each, and how many more there are; `where` says of what."""
    language, notes = facts["language"], facts["notes"]
    shown = notes if most is None else notes[:most]
    lines = [f"  {sentence('pages.note', language, text=note)}" for note in shown]
    if rest := len(notes) - len(shown):
        lines.append(f"  {sentence('pages.more_notes', language, count=rest, where=where)}")
    return lines


def more_text(count: int, call: str, facts: Mapping[str, Any]) -> str:
    """How many rows are left out, and what gives them all."""
    language = facts["language"]
    text = sentence("pages.more", language, count=count)
    return text + sentence("pages.colon", language) + call_text(call)


def dump_headline(index: xr.Dataset, language: str = "en") -> str:
    """``200 tensors · 3 steps · 8 ranks · 1.2 GB · npy_dir``."""
    count = index.sizes["entry"]
    parts = [sentence("pages.dump_tensors", language, count=count)]
    for name in ("step", "rank"):
        different = len(np.unique(index[name].values)) if count else 0
        if different > 1:
            parts.append(sentence(f"pages.dump_{name}s", language, count=different))
    sizes = index["size_bytes"].values
    if (sizes > 0).any():  # else only statistics were recorded
        parts.append(bytes_text(float(sizes[sizes > 0].sum())))
    if index.attrs.get("format"):
        parts.append(str(index.attrs["format"]))
    return " · ".join(parts)


def pairing_headline(table: xr.Dataset, language: str = "en") -> str:
    """``51 matched (49 name, 2 order) · 4 unmatched on the left · 1 of other shape``."""
    methods = [str(m) for m in table["method"].values if m != "unmatched"]
    how = ", ".join(f"{methods.count(m)} {m}" for m in dict.fromkeys(methods))
    left, right = (table[f"{side}_entry"].values >= 0 for side in ("left", "right"))
    others = table["left_shape"].values != table["right_shape"].values
    counts = {
        "pages.unmatched_left": left & ~right,
        "pages.unmatched_right": right & ~left,
        "pages.structure_shape": left & right & others,
        "pages.unsure_pairs": table["confidence"].values < 0.5,
    }
    matched = "pages.matched_how" if how else "pages.matched"
    said = [sentence(matched, language, count=len(methods), how=how)]
    for id, rows in counts.items():
        if rows.any():
            said.append(sentence(id, language, count=np.count_nonzero(rows)))
    return " · ".join(said)


def comparison_text(pairs: Pairs, facts: Mapping[str, Any]) -> str:
    """Text repr of a Comparison."""
    language = facts["language"]
    lines = answer_lines(pairs, facts)
    sides = {"left": facts["left_label"], "right": facts["right_label"]}
    lines.append(f"  {sentence('pages.sides', language, **sides)}")
    lines.append(f"  {criterion(facts)}")
    lines += _check_lines(facts)
    if pairs.first is not None:
        lines += first_lines(pairs, pairs.first, facts)
    lines += note_lines(facts)
    room = max(_FEWEST_ROWS, most_lines() - 3 - len(lines))
    shown: Sequence[int] = range(len(pairs))
    if not is_whole():
        shown = pairs.worst(min(int(facts["worst_rows"]), room), answers_of(facts))
    lines += _pair_lines(pairs, shown, facts) if shown else []
    unmatched = int((~facts["unmatched"]["expected"].values).sum())
    if unmatched:
        lines.append(f"  {sentence('pages.without_partner', language, count=unmatched)}")
    explain = "cmp.explain() · " if pairs.first is not None else ""
    calls = f"{explain}cmp[name or #] · cmp.to_dataframe() · tnb.export(cmp, 'record.html')"
    lines.append(f"  {spaced(sentence('pages.next', language), calls)}")
    return fitted(lines, facts)


def answer_lines(pairs: Pairs, facts: Mapping[str, Any]) -> list[str]:
    """The answer in a line, or in several where it is too long for one."""
    separator = " | " if facts["ascii"] else " · "
    line = verdict_line(pairs, facts)
    if width(line) <= most_columns():
        return [line]
    first, *others = _verdict_parts(pairs, facts)
    remarks = [text for _, text in remarks_of(pairs, facts)]
    head = separator.join([first, *others])
    lines = [head] if width(head) <= most_columns() else [first, *(f"  {one}" for one in others)]
    return [*lines, f"  {separator.join(remarks)}"] if remarks else lines


def _check_lines(facts: Mapping[str, Any]) -> list[str]:
    """What keeps the runs from being comparable; nothing where all checks hold."""
    marks = {"bad": ("✗", "x"), "note": ("○", "-"), "unknown": ("?", "?")}
    wrong = [
        f"{marks[check['status']][facts['ascii']]} {check_line(check, facts['language'])}"
        for check in facts["checks"]
        if check["status"] in marks and check["what"] != "coverage"
    ]
    text = spaced(sentence("explanations.comparable", facts["language"]), " · ".join(wrong))
    return wrapped(text, facts, indent=2)[: most_lines(_MOST_LINES)] if wrong else []


def first_lines(pairs: Pairs, first: int, facts: Mapping[str, Any]) -> list[str]:
    """The first difference: where, how it came to be, and why."""
    language, row = facts["language"], pairs.row(first)
    lines = [f"  {pairs.place(first)}{pairs.label(first)}  (#{pairs.number(first)})"]
    if reason := reason_text(row, language):
        lines.append(f"    {reason}")
    if row["origin"] != "created":
        return lines
    lines += wrapped(how_sentence(row, facts.get("neighbours", {}), language), facts, indent=4)
    if place := place_sentence(facts["observed"], pairs.number(first), language):
        lines += wrapped(place, facts, indent=4)
    for said in why_sentences(facts, pairs.number(first))[:2]:
        lines += _at_most(wrapped(said.whole, facts, indent=4), most_lines(_MOST_LINES), facts)
    return lines


def _at_most(lines: list[str], most: int, facts: Mapping[str, Any]) -> list[str]:
    if len(lines) <= most:
        return lines
    end = "..." if facts["ascii"] else "…"
    return [*lines[: most - 1], f"{lines[most - 1][: COLUMNS - len(end) - 1]}{end}"]


def verdict_line(pairs: Pairs, facts: Mapping[str, Any]) -> str:
    """The answer in one line."""
    parts = _verdict_parts(pairs, facts)
    parts += [text for _, text in remarks_of(pairs, facts)]
    return (" | " if facts["ascii"] else " · ").join(parts)


def remarks_of(pairs: Pairs, facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What stands behind the verdict, as (tone, text): gaps before what the pairs show."""
    language = facts["language"]
    gaps = [
        ("bad" if g["weight"] == 1 else "warn", told(g["said"], language)) for g in facts["gaps"]
    ]
    return [*gaps, *pairs.remarks(language)]


def _verdict_parts(pairs: Pairs, facts: Mapping[str, Any]) -> list[str]:
    """How many pairs differ, and where the first does."""
    language, ascii_only = facts["language"], facts["ascii"]
    _, head = headline(pairs, facts, ascii_only=ascii_only)
    if origins := origin_counts(pairs, language):
        head += sentence("pages.colon", language) + origins
    parts = [head]
    if pairs.first is not None:
        arrow = ">" if ascii_only else "➤"
        where = f"{pairs.place(pairs.first)}{pairs.short(pairs.first)}"
        where += f" (#{pairs.number(pairs.first)})"
        parts.append(spaced(f"{arrow} {first_words(pairs, language)}", where))
    return parts


def first_words(pairs: Pairs, language: str) -> str:
    """What stands before the name of the first difference."""
    if pairs.first is not None and pairs["verdict"][pairs.first] == "missing":
        return sentence("pages.lone_at", language)
    if not len(pairs.failed):
        return sentence("pages.within_at", language)
    return sentence("pages.unordered_at" if pairs.is_first_unknown else "pages.first_at", language)


def origin_counts(pairs: Pairs, language: str) -> str:
    """How many pairs created the error and how many carried it; empty where nothing failed."""
    return pairs.origins(language) if len(pairs.failed) else ""


def headline(pairs: Pairs, facts: Mapping[str, Any], *, ascii_only: bool) -> tuple[str, str]:
    """How many pairs differ or agree, as (tone, text)."""
    language, selected_of = facts["language"], _compared_in_all(facts)
    verdict = pairs["verdict"]
    total, failed = int(np.count_nonzero(verdict != "missing")), len(pairs.failed)
    if not total:
        of = 0 if len(pairs) else selected_of
        text = sentence("pages.nothing_selected" if of else "pages.nothing", language, total=of)
        mark, tone = "undecidable", "warn"
    elif failed:
        mark, tone = "differs", "bad"
        text = sentence("pages.some_differ", language, failed=failed, total=total)
    else:
        passed = int((pairs["passed"] & (verdict != "missing")).sum())
        undecidable = verdict == "undecidable"
        mark, tone = "missing", "warn"
        if is_open(verdict):
            mark = "undecidable"
        elif (pairs["passed"] | undecidable).all():
            mark, tone = "pass", "ok"
        weights = [gap["weight"] for gap in facts["gaps"]]
        if 1 in weights:
            mark, tone = "differs", "bad"
        elif 2 in weights and mark == "pass":
            mark, tone = "undecidable", "warn"
        text = sentence("pages.all_agree", language, passed=passed, total=total)
    return tone, f"{glyph(mark, ascii_only=ascii_only)} {text}"


def _compared_in_all(facts: Mapping[str, Any]) -> int:
    """Pairs of the comparison that a selection is of; 0 where that was not counted."""
    counts = [c["values"]["count"] for c in facts["checks"] if c["what"] == "coverage"]
    return int(counts[0]) if counts else 0


def criterion(facts: Mapping[str, Any]) -> str:
    """What passing means, exactly."""
    said = {"atol": scientific(facts["atol"]), "rtol": scientific(facts["rtol"])}
    id, integers = "pages.criterion", facts["integer_tolerance"]
    if facts["has_integers"]:
        id = "pages.criterion_integers" if integers else "pages.criterion_exact"
        said |= {"integers": f"{integers:g}"} if integers else {}
    return sentence(id, facts["language"], **said)


def diff_text(row: xr.Dataset, evidence: xr.Dataset | None, facts: Mapping[str, Any]) -> str:
    """Text repr of one pair."""
    language = facts["language"]
    values = scalar_row(row)
    mark = glyph(values["verdict"], ascii_only=facts["ascii"])
    names = names_text(*(str(values[f"{side}_display"]) for side in ("left", "right")))
    lines = [f"{mark} {word(values['verdict'], language)} · {names}"]
    if reason := reason_text(values, language):
        lines.append(f"  {reason}")
    neighbours = facts.get("neighbours", {})
    if not wired_line(neighbours, language) and (origin := origin_sentence(values, language)):
        lines += wrapped(origin, facts, indent=2)
    if said := neighbours_line(neighbours, str(values["role"]), language):
        lines += wrapped(said, facts, indent=2)
    for side in ("left", "right"):
        what = f"{values[f'{side}_dtype']:<9} {shape_text(values[f'{side}_shape']):<14}"
        lines.append(f"  {side:<5} {what} {_side(values, side, language)}".rstrip())
    if digests := digest_line(values, language):
        lines.append(f"  {digests}")
    if np.isfinite(values["rel_l2_error"]) or np.isfinite(values["max_abs_error"]):
        figures = [
            f"{column.name} {cell_text(column, values, language, 'opened')}"
            for column in in_view("opened", RESULT_COLUMNS.values())
            if is_known(values[column.name])
        ]
        lines += wrapped(" · ".join(figures), facts, indent=2)
    if evidence is not None:
        lines += [f"  {text}" for text in range_sentences(evidence, language)]
        lines += _element_lines(values["left_shape"], evidence, facts)
    return fitted(lines, facts)


def digest_line(values: Mapping[str, Any], language: str) -> str:
    """The checksums that the dumps recorded; empty where there are none."""
    found = {side: str(values[f"{side}_digest"]) for side in ("left", "right")}
    if not any(found.values()):
        return ""
    return sentence(
        "pages.digests", language, **{side: text or "–" for side, text in found.items()}
    )


def range_sentences(evidence: xr.Dataset, language: str) -> list[str]:
    """Where on each axis the error sits, for axes where it is concentrated."""
    found = []
    for axis, start, stop, length, concentrated in axis_ranges(evidence):
        if where := indices_of_axis(evidence, axis, language):
            found.append(sentence("pages.concentrated_at", language, where=where))
        elif concentrated:
            found.append(
                sentence(
                    "pages.concentrated", language, start=start, stop=stop, length=length, axis=axis
                )
            )
    return found


def indices_of_axis(evidence: xr.Dataset, axis: int, language: str) -> str:
    """The indices of an axis that hold 99 % of the squared error; empty where a range does."""
    attrs = evidence[f"profile_{axis}"].attrs
    held = np.atleast_1d(attrs.get("indices", ()))
    if not len(held):
        return ""
    return told(indices_said(described(held, int(attrs["length"])), axis), language)


def axis_ranges(evidence: xr.Dataset) -> list[tuple[int, int, int, int, bool]]:
    """Per axis: number, start and stop of the shortest range with 99 %, length, concentrated.

    It is as well where `indices_of_axis` has more to say than the range.
    """
    ranges = []
    for axis in range(sum(str(name).startswith("profile_") for name in evidence.data_vars)):
        attrs = evidence[f"profile_{axis}"].attrs
        start, stop, length = int(attrs["start"]), int(attrs["stop"]), int(attrs["length"])
        concentrated = "indices" in attrs or stop - start < 0.6 * length
        ranges.append((axis, start, stop, length, concentrated))
    return ranges


def worst_elements(
    shape: Shape, evidence: xr.Dataset, most: int = 5
) -> list[tuple[Shape, float, float, float, float]]:
    """Index, left, right, absolute and relative error of the worst elements."""
    names = ("worst_index", "worst_left", "worst_right", "worst_error")
    rows = []
    for flat, left, right, error in zip(*(evidence[n].values[:most] for n in names), strict=True):
        index = np.unravel_index(int(flat), shape)
        with np.errstate(invalid="ignore"):
            relative = float(error / np.abs(right)) if right else float("inf")
        rows.append((tuple(map(int, index)), float(left), float(right), float(error), relative))
    return rows


# Of one sentence of the call-out, and of the table, where the rest leaves little room.
_MOST_LINES, _FEWEST_ROWS = 4, 3


def _entry_text(entries: Entries, i: int, column: Column, language: str) -> str:
    """A cell of a dump; of an entry that is unreadable only the name and the reason are known."""
    values = entries.shown_row(i, language)
    if values["status"] != "ok" and column.name not in ("name", "verdict"):
        return ""
    return cell_text(column, values, language, "text", "")


def rows_text(pairs: Pairs, shown: Sequence[int], facts: Mapping[str, Any]) -> str:
    """Some pairs as a table with its titles."""
    return "\n".join(fitted_line(line[2:], facts) for line in _pair_lines(pairs, shown, facts))


def _pair_lines(pairs: Pairs, shown: Sequence[int], facts: Mapping[str, Any]) -> list[str]:
    """The table of pairs with its titles; where nothing was measured the reason says why."""
    columns, language = pairs.shown("text"), facts["language"]
    is_left = [column.is_left for column in columns]
    first, after = figures_span(columns)
    rows, reasons = [[title for title, _ in heads(columns, language)]], [""]
    for i in shown:
        values = pairs.shown_row(i, ascii_only=facts["ascii"])
        cells = [cell_text(column, values, language, "text") for column in columns]
        is_measured = not np.isnan(values["max_abs_error"]) or values["verdict"] == "nan"
        rows.append(
            [
                pairs.place(i, short=True) + cell if column.format == "names" else cell
                for column, cell in zip(columns, cells, strict=True)
            ]
        )
        reasons.append("" if is_measured else reason_text(values, language))
    lines = aligned(rows, is_left, facts, spans=[(first, after, reason) for reason in reasons])
    return [f"  {line}" for line in lines]


def _element_lines(shape: Shape, evidence: xr.Dataset, facts: Mapping[str, Any]) -> list[str]:
    """The worst elements with their titles."""
    columns, language = in_view("text", ELEMENT_COLUMNS.values()), facts["language"]
    rows = [[title for title, _ in heads(columns, language)]]
    for one in worst_elements(shape, evidence):
        values = dict(zip(ELEMENT_COLUMNS, one, strict=True))
        rows.append([cell_text(column, values, language, "text") for column in columns])
    is_left = [column.is_left for column in columns]
    return [f"  {line}" for line in aligned(rows, is_left, facts)]


def _side(values: Mapping[str, Any], side: str, language: str) -> str:
    """What is known of the values of one side."""
    row = {name: values[f"{side}_{name}"] for name in STATISTICS}
    if not np.isfinite(row["mean"]):
        return ""
    texts = {name: cell_text(one, row, language, "html") for name, one in STATISTICS.items()}
    titles = {name: one.titled(language) for name, one in STATISTICS.items()}
    parts = [f"[{texts['min']}, {texts['max']}]"]
    parts += [f"{titles[name]} {texts[name]}" for name in ("mean", "l2")]
    counts = ("nan_count", "inf_count", "zero_count")
    parts += [f"{texts[name]} {titles[name]}" for name in counts if row[name] > 0]
    return " ".join(parts)
