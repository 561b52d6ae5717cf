"""Text reprs: at most 25 lines of at most 100 columns, complete enough to decide from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from troubleshooter_nb.metrics.verdict import is_open
from troubleshooter_nb.render.calls import call_text
from troubleshooter_nb.render.charts import decades, scientific, spark
from troubleshooter_nb.render.explanation import (
    check_line,
    origin_sentence,
    place_sentence,
    why_sentences,
)
from troubleshooter_nb.render.lines import (
    COLUMNS,
    LINES,
    fitted,
    padded,
    spaced,
    width,
    wrapped,
)
from troubleshooter_nb.render.rows import Entries, Pairs
from troubleshooter_nb.render.rows import scalar_row as scalar_row
from troubleshooter_nb.render.words import glyph, growth_of, percent, reason_text, sentence, word
from troubleshooter_nb.shapes import Shape, shape_text


def bytes_text(size: float) -> str:
    """A size with a binary-free unit: 1.2 GB, 16.8 MB, 512 B."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{int(size)} B"


def dump_text(index: xr.Dataset, facts: Mapping[str, Any]) -> str:
    """Text repr of a Dump."""
    entries = Entries.of(index, facts["limits"])
    title = sentence("pages.dump_title", facts["language"], label=repr(facts["label"]))
    lines = [f"{title} · {dump_headline(index, facts['language'])}"]
    lines += [f"  {text}" for _, text in entries.health(facts["language"])]
    lines += note_lines(facts)
    count = len(entries)
    room = LINES - 3 - len(lines)
    shown = range(count) if count <= room else range(room - 1)
    widest = min(max((width(entries.names[i]) for i in shown), default=0), 48)
    for i in shown:
        row = entries.row(i)
        what = f"{shape_text(row['shape']):>12}  {row['dtype']:<9}"
        text = f"  {padded(entries.names[i], widest)}  {what}"
        if row["status"] != "ok":
            text = f"  {padded(entries.names[i], widest)}"
        lines.append(f"{text} {entries.remark(i, facts['language'])}".rstrip())
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
    separator = " | " if facts["ascii"] else " · "
    lines = [verdict_line(pairs, facts)]
    if width(lines[0]) > COLUMNS:
        first, *others = _verdict_parts(pairs, facts)
        remarks = [text for _, text in pairs.remarks(language)]
        head = separator.join([first, *others])
        lines = [head] if width(head) <= COLUMNS else [first, *(f"  {one}" for one in others)]
        lines += [f"  {separator.join(remarks)}"] if remarks else []
    sides = {"left": facts["left_label"], "right": facts["right_label"]}
    lines.append(f"  {sentence('pages.sides', language, **sides)}")
    lines.append(f"  {criterion(facts)}")
    lines += _check_lines(facts)
    if pairs.first is not None:
        lines += _first_lines(pairs, pairs.first, facts)
    lines += note_lines(facts)
    room = max(_FEWEST_ROWS, LINES - 3 - len(lines))
    shown = pairs.worst(min(int(facts["worst_rows"]), room))
    if shown:
        figure = "growth" if pairs.has_origins else "cosine"
        lines.append(
            f"  {'#':>4}  {'verdict':<11} {'max |d|':>8} {'rel L2':>8} {figure:>9} "
            f"{'in tol.':>7}  1e-9..1e1   pair"
        )
    lines += [_pair_line(pairs, i, facts) for i in shown]
    unmatched = int((~facts["unmatched"]["expected"].values).sum())
    if unmatched:
        lines.append(f"  {sentence('pages.without_partner', language, count=unmatched)}")
    explain = "cmp.explain() · " if pairs.first is not None else ""
    calls = f"{explain}cmp[name or #] · cmp.to_dataframe() · tnb.export(cmp, 'record.html')"
    lines.append(f"  {spaced(sentence('pages.next', language), calls)}")
    return fitted(lines, facts)


def _check_lines(facts: Mapping[str, Any]) -> list[str]:
    """What keeps the runs from being comparable; nothing where all checks hold."""
    marks = {"bad": ("✗", "x"), "note": ("○", "-"), "unknown": ("?", "?")}
    wrong = [
        f"{marks[check['status']][facts['ascii']]} {check_line(check, facts['language'])}"
        for check in facts["checks"]
        if check["status"] in marks and check["what"] != "coverage"
    ]
    text = spaced(sentence("explanations.comparable", facts["language"]), " · ".join(wrong))
    return wrapped(text, facts, indent=2)[:_MOST_LINES] if wrong else []


def _first_lines(pairs: Pairs, first: int, facts: Mapping[str, Any]) -> list[str]:
    """The first difference: where, how it came to be, and why."""
    language, row = facts["language"], pairs.row(first)
    lines = [f"  {pairs.place(first)}{pairs.label(first)}  (#{pairs.number(first)})"]
    if reason := reason_text(row, language):
        lines.append(f"    {reason}")
    if row["origin"] != "created":
        return lines
    lines += wrapped(origin_sentence(row, language), facts, indent=4)
    if place := place_sentence(facts["observed"], pairs.number(first), language):
        lines += wrapped(place, facts, indent=4)
    for said in why_sentences(facts, pairs.number(first))[:2]:
        lines += _at_most(wrapped(said.whole, facts, indent=4), _MOST_LINES, facts)
    return lines


def _at_most(lines: list[str], most: int, facts: Mapping[str, Any]) -> list[str]:
    if len(lines) <= most:
        return lines
    end = "..." if facts["ascii"] else "…"
    return [*lines[: most - 1], f"{lines[most - 1][: COLUMNS - len(end) - 1]}{end}"]


def verdict_line(pairs: Pairs, facts: Mapping[str, Any]) -> str:
    """The answer in one line."""
    parts = _verdict_parts(pairs, facts)
    parts += [text for _, text in pairs.remarks(facts["language"])]
    return (" | " if facts["ascii"] else " · ").join(parts)


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
    return sentence("pages.first_at" if len(pairs.failed) else "pages.within_at", language)


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
        text = sentence("pages.all_agree", language, passed=passed, total=total)
    return tone, f"{glyph(mark, ascii_only=ascii_only)} {text}"


def _compared_in_all(facts: Mapping[str, Any]) -> int:
    """Pairs of the comparison that a selection is of; 0 where that was not counted."""
    counts = [c["values"]["count"] for c in facts["checks"] if c["what"] == "coverage"]
    return int(counts[0]) if counts else 0


def criterion(facts: Mapping[str, Any]) -> str:
    """What passing means, exactly."""
    return sentence(
        "pages.criterion",
        facts["language"],
        atol=scientific(facts["atol"]),
        rtol=scientific(facts["rtol"]),
    )


def diff_text(row: xr.Dataset, evidence: xr.Dataset | None, facts: Mapping[str, Any]) -> str:
    """Text repr of one pair."""
    language = facts["language"]
    values = scalar_row(row)
    mark = glyph(values["verdict"], ascii_only=facts["ascii"])
    names = f"{values['left'] or '-'} -> {values['right'] or '-'}"
    lines = [f"{mark} {word(values['verdict'], language)} · {names}"]
    if reason := reason_text(values, language):
        lines.append(f"  {reason}")
    if origin := origin_sentence(values, language):
        lines += wrapped(origin, facts, indent=2)
    for side in ("left", "right"):
        what = f"{values[f'{side}_dtype']:<9} {shape_text(values[f'{side}_shape']):<14}"
        lines.append(f"  {side:<5} {what} {_side(values, side)}".rstrip())
    if digests := digest_line(values, language):
        lines.append(f"  {digests}")
    if np.isfinite(values["rel_l2_error"]) or np.isfinite(values["max_abs_error"]):
        figures = (
            ("max_abs_error", "mean_abs_error", "rmse", "rel_l2_error"),
            ("max_rel_error", "mean_rel_error", "mape", "cosine"),
        )
        for group in figures:
            lines.append("  " + " · ".join(f"{n} {_precise(n, values[n])}" for n in group))
        least = scientific(float(values["smallest_passing_tolerance"]))
        share = f"allclose_ratio {_share(values)} of {shape_text(values['left_shape'])}"
        lines.append(f"  {share} · smallest_passing_tolerance {least}")
    if evidence is not None:
        lines += [f"  {text}" for text in range_sentences(evidence, language)]
        lines.append(f"  {'worst at':<20} {'left':>14} {'right':>14} {'|d|':>9}")
        for index, left, right, error, _ in worst_elements(values["left_shape"], evidence):
            lines.append(f"  {index:<20} {left:>14.7g} {right:>14.7g} {scientific(error):>9}")
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
        if concentrated:
            found.append(
                sentence(
                    "pages.concentrated", language, start=start, stop=stop, length=length, axis=axis
                )
            )
    return found


def axis_ranges(evidence: xr.Dataset) -> list[tuple[int, int, int, int, bool]]:
    """Per axis: number, start and stop of the shortest range with 99 %, length, concentrated."""
    ranges = []
    for axis in range(sum(str(name).startswith("profile_") for name in evidence.data_vars)):
        attrs = evidence[f"profile_{axis}"].attrs
        start, stop, length = int(attrs["start"]), int(attrs["stop"]), int(attrs["length"])
        ranges.append((axis, start, stop, length, stop - start < 0.6 * length))
    return ranges


def worst_elements(
    shape: Shape, evidence: xr.Dataset, most: int = 5
) -> list[tuple[str, float, float, float, float]]:
    """Index text, left, right, absolute and relative error of the worst elements."""
    names = ("worst_index", "worst_left", "worst_right", "worst_error")
    rows = []
    for flat, left, right, error in zip(*(evidence[n].values[:most] for n in names), strict=True):
        index = np.unravel_index(int(flat), shape)
        with np.errstate(invalid="ignore"):
            relative = float(error / np.abs(right)) if right else float("inf")
        text = f"[{', '.join(str(int(i)) for i in index)}]"
        rows.append((text, float(left), float(right), float(error), relative))
    return rows


# Of one sentence of the call-out, and of the table, where the rest leaves little room.
_MOST_LINES, _FEWEST_ROWS = 4, 3
_FIGURES = 47  # columns that the figures of a pair take


def _pair_line(pairs: Pairs, i: int, facts: Mapping[str, Any]) -> str:
    row, ascii_only = pairs.row(i), facts["ascii"]
    state = str(pairs.states[i])
    verdict = f"{glyph(state, ascii_only=ascii_only)} {word(state, facts['language'])}"
    counts = spark(decades(pairs.histogram[i], pairs.exponents), ascii_only=ascii_only)
    language = facts["language"]
    figure = growth_of(row, language) if pairs.has_origins else _cosine(row["cosine"])
    figures = (
        f"{_number(row['max_abs_error']):>8} {_number(row['rel_l2_error']):>8} "
        f"{' ' * (9 - width(figure))}{figure} {_share(row):>7}  {padded(counts, 10)}"
    )
    if np.isnan(row["max_abs_error"]) and row["verdict"] != "nan":
        # Nothing was measured: the reason says what is known instead.
        reason = reason_text(row, facts["language"])
        figures = padded(
            reason if width(reason) <= _FIGURES else f"{reason[: _FIGURES - 1]}…", _FIGURES
        )
    name = f"{pairs.place(i, short=True)}{pairs.label(i)}"
    return f"  {pairs.number(i):>4}  {padded(verdict, 11)} {figures}  {name}"


def _side(values: Mapping[str, Any], side: str) -> str:
    if not np.isfinite(values[f"{side}_mean"]):
        return ""
    parts = [f"[{_short(values[f'{side}_min'])}, {_short(values[f'{side}_max'])}]"]
    parts.append(f"mean {_short(values[f'{side}_mean'])}")
    parts.append(f"l2 {_short(values[f'{side}_l2'])}")
    for name in ("nan", "inf", "zero"):
        count = values[f"{side}_{name}_count"]
        if count > 0:
            parts.append(f"{count:,} {name}")
    return " ".join(parts)


def _short(value: float) -> str:
    return f"{value:.4g}"


def _precise(name: str, value: float) -> str:
    return f"{value:.9f}".rstrip("0").rstrip(".") if name == "cosine" else scientific(float(value))


def _number(value: float) -> str:
    return "-" if np.isnan(value) else scientific(float(value))


def _cosine(value: float) -> str:
    # Truncated, so that 1 is only shown when it is 1.
    return "-" if np.isnan(value) else f"{np.trunc(value * 1e6) / 1e6:.6f}"


def _share(row: Mapping[str, Any]) -> str:
    ratio = float(row["allclose_ratio"])
    return "-" if np.isnan(ratio) else percent(ratio)
