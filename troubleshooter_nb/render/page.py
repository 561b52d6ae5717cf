"""The HTML reprs of whole objects: verdict first, single numbers last."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from troubleshooter_nb.render.charts import depth_chart, scientific, spark, strip, tile_map
from troubleshooter_nb.render.html import (
    INKS,
    TOP,
    Markup,
    details,
    element,
    fragment,
    heading,
    join,
    left_cell,
    paragraph,
    row,
    samp,
    small,
    tone,
)
from troubleshooter_nb.render.rows import (
    blocks,
    counts_by_kind,
    display_names,
    failed_rows,
    first_divergence,
    health,
    pair_label,
    side_labels,
    worst_rows,
)
from troubleshooter_nb.render.tables import (
    element_table,
    facts_table,
    figure_table,
    pair_table,
    simple_table,
    verdict_mark,
)
from troubleshooter_nb.render.text import (
    axis_ranges,
    criterion,
    dump_headline,
    pairing_headline,
    range_sentences,
    scalar_row,
    worst_elements,
)
from troubleshooter_nb.render.words import glyph, reason_text, sentence, tone_of

_MOST_ENTRIES = 400
_MOST_UNMATCHED = 100
# How many drill-downs and how much of the row tables each step of shrinking keeps.
_LEVELS = (
    {"inside": 3, "rows": "all"},
    {"inside": 3, "rows": "failing"},
    {"inside": 2, "rows": "few"},
    {"inside": 1, "rows": "first"},
    {"inside": 1, "rows": "none"},
)
_FEW = 8
_MOST_BLOCKS = 60


def comparison_html(
    result: xr.Dataset, evidence: Mapping[int, xr.Dataset], facts: Mapping[str, Any]
) -> str:
    """HTML repr of a Comparison, at most ``facts["html_bytes"]`` long if at all possible."""
    facts = {**facts, "first": first_divergence(result)}
    text = ""
    for shrink in _LEVELS:
        text = _comparison_html(result, evidence, facts, shrink)
        if len(text.encode()) <= int(facts["html_bytes"]):
            break
    return text


def _comparison_html(
    result: xr.Dataset,
    evidence: Mapping[int, xr.Dataset],
    facts: Mapping[str, Any],
    shrink: Mapping[str, Any],
) -> str:
    language = facts["language"]
    worst = worst_rows(result, int(facts["worst_rows"]))
    inside = [i for i in _inside_order(facts["first"], worst, evidence) if i in evidence]
    return fragment(
        _verdict(result, facts),
        _remarks(result, facts),
        _call_out(result, evidence, facts),
        _along(result, facts) if len(result["pair"]) > 1 else None,
        join(
            [
                heading(
                    sentence("worst", language, count=len(worst)),
                    sentence("worst_remark", language),
                ),
                pair_table(result, worst, facts),
            ]
        )
        if worst
        else None,
        heading(sentence("inside", language)) if inside else None,
        *(
            _drill_down(result, i, evidence[i], facts, opened=number == 0)
            for number, i in enumerate(inside[: shrink["inside"]])
        ),
        *_all_pairs(result, facts, str(shrink["rows"])),
        _unmatched(facts),
        _provenance(facts),
    )


def diff_html(row_: xr.Dataset, evidence: xr.Dataset | None, facts: Mapping[str, Any]) -> str:
    """HTML repr of one pair."""
    language = facts["language"]
    values = scalar_row(row_)
    names = [samp(values[side] or "–") for side in ("left", "right")]
    return fragment(
        paragraph(
            verdict_mark(str(values["verdict"]), language),
            " ",
            names[0],
            " → ",
            names[1],
            style="margin:2px 0;font-size:16px",
        ),
        paragraph(
            small(
                f"{facts['left_label']} {values['left_dtype']} {values['left_shape']} · "
                f"{facts['right_label']} {values['right_dtype']} {values['right_shape']}"
            )
        ),
        paragraph(reason_text(values, language)),
        figure_table(values) if not np.isnan(values["max_abs_error"]) else None,
        _inside(values, evidence, language) if evidence is not None else None,
    )


def dump_html(index: xr.Dataset, facts: Mapping[str, Any]) -> str:
    """HTML repr of a Dump."""
    names = display_names(list(index["name"].values), list(index["path"].values))
    problems = health(index)
    count = index.sizes["entry"]
    columns = {str(n): index[n].values for n in index.data_vars}
    sections = []
    shown = 0
    for title, rows in blocks(names):
        if shown >= _MOST_ENTRIES:
            break
        kept = rows[: _MOST_ENTRIES - shown]
        shown += len(kept)
        size = sum(max(int(columns["size"][i]), 0) for i in rows)
        bad = sum(columns["status"][i] != "ok" for i in rows)
        sections.append(
            details(
                [
                    samp(title),
                    f" · {len(rows)} tensors · {size:,} elements",
                    tone("warn", f" · ! {bad} not readable") if bad else None,
                ],
                simple_table(
                    ("name", "role", "shape", "dtype", "values"),
                    [_entry_cells(columns, i, names[i]) for i in kept],
                ),
                opened=count <= 12,
            )
        )
    return fragment(
        paragraph(
            element("b", samp(facts["label"])),
            f" · {dump_headline(index)}",
            style="margin:2px 0;font-size:16px",
        ),
        *(paragraph(tone("warn" if text[0] != "◇" else "miss", text)) for text in problems),
        *(paragraph(small("note: ", note)) for note in facts["notes"]),
        *sections,
        paragraph(small(f"{count - shown:,} more: dump.to_dataframe()")) if shown < count else None,
        _card_details(facts["card"], facts["language"]),
    )


def pairing_html(table: xr.Dataset, facts: Mapping[str, Any]) -> str:
    """HTML repr of a Pairing: unmatched and uncertain first, then everything, bounded."""
    alone = table["method"].values == "unmatched"
    confidence = table["confidence"].values
    order = [int(i) for i in np.argsort(np.where(alone, -1.0, confidence), kind="stable")]
    columns = {str(n): table[n].values for n in table.data_vars}
    uncertain = [i for i in order if alone[i] or confidence[i] < 0.9]
    rest = [i for i in range(len(alone)) if i not in set(uncertain)]
    titles = (facts["left_label"], facts["right_label"], "shape", "method", "confidence", "note")

    def section(rows: list[int]) -> Markup:
        return simple_table(titles, [_pairing_cells(columns, i) for i in rows[:_MOST_ENTRIES]])

    def more(rows: list[int]) -> Markup | None:
        left_out = len(rows) - _MOST_ENTRIES
        return (
            paragraph(small(f"{left_out:,} more: pairing.to_dataframe()")) if left_out > 0 else None
        )

    return fragment(
        paragraph(
            element("b", samp(facts["left_label"]), " ↔ ", samp(facts["right_label"])),
            f" · {pairing_headline(table)}",
            style="margin:2px 0;font-size:16px",
        ),
        section(uncertain) if uncertain else None,
        more(uncertain),
        details([f"{len(rest):,} certain pairs"], section(rest), more(rest)) if rest else None,
    )


def card_html(facts: Mapping[str, Any], language: str) -> str:
    """HTML repr of a RunCard."""
    if not facts:
        return fragment(paragraph(small(sentence("no_facts", language))))
    return fragment(simple_table(("fact", "value"), [(samp(k), str(v)) for k, v in facts.items()]))


def _verdict(result: xr.Dataset, facts: Mapping[str, Any]) -> Markup:
    language = facts["language"]
    total, failed = int(result.sizes["pair"]), len(failed_rows(result))
    passed = int(result["passed"].values.sum())
    if not total:
        head = tone("warn", "? ", sentence("nothing", language))
    elif failed:
        text = sentence("some_differ", language, failed=failed, total=total)
        head = tone("bad", f"{glyph('differs')} {text}")
    else:
        mark = glyph("pass") if passed == total else glyph("missing")
        text = sentence("all_agree", language, passed=passed, total=total)
        head = tone("ok" if passed == total else "warn", f"{mark} {text}")
    parts = [head]
    if facts["first"] is not None:
        name = pair_label(result, facts["first"], short=True)
        parts.append(
            join(
                [
                    tone("bad", f"➤ {sentence('first_at', language)}"),
                    " ",
                    samp(name),
                    " ",
                    small(f"(#{facts['first']})"),
                ]
            )
        )
    parts += [tone(name, text, bold=False) for name, text in counts_by_kind(result, language)]
    return paragraph(join(parts, " · "), style="margin:2px 0;font-size:16px")


def _remarks(result: xr.Dataset, facts: Mapping[str, Any]) -> Markup:
    language = facts["language"]
    sides = []
    for side in ("left", "right"):
        card = facts[f"{side}_card"]
        runner = " ".join(str(card[k]) for k in ("framework", "device") if card.get(k))
        dtypes = sorted({str(d) for d in result[f"{side}_dtype"].values if d})
        sides.append(
            join(
                [
                    f"{side} ",
                    element("b", facts[f"{side}_label"]),
                    f" {runner}" if runner else None,
                    f" {', '.join(dtypes[:3])}" if dtypes else None,
                ]
            )
        )
    parts = [*sides, criterion(facts)]
    if _is_backward(result):
        parts.append(sentence("backward_order", language))
    parts += list(facts["notes"])
    return paragraph(small(join(parts, " · ")), style="margin:2px 0 8px 0;opacity:.75")


def _call_out(
    result: xr.Dataset, evidence: Mapping[int, xr.Dataset], facts: Mapping[str, Any]
) -> Markup | None:
    first, language = facts["first"], facts["language"]
    if first is None:
        return None
    values = {str(n): result[n].values[first] for n in result.data_vars if result[n].ndim == 1}
    left, right = side_labels(result, first)
    title = left if left == right else f"{left} → {right}"
    lines = [
        paragraph(element("b", f"➤ {sentence('first_divergence', language)}: ", samp(title))),
        paragraph(reason_text(values, language) + ("." if language == "en" else "。")),
        paragraph(_before(result, first, language)),
    ]
    if first in evidence:
        ranges = range_sentences(evidence[first], language)
        if ranges:
            lines.append(paragraph(" ".join(ranges)))
    lines.append(paragraph(small("next: ", element("code", f"cmp[{values['left']!r}]"))))
    return element(
        "div",
        *lines,
        style=f"border-left:4px solid {INKS[tone_of(values['verdict'])]};"
        "padding:2px 0 2px 12px;margin:0 0 10px 0",
    )


def _before(result: xr.Dataset, first: int, language: str) -> str:
    error = result["rel_l2_error"].values
    measured = [i for i in range(first) if not np.isnan(error[i])]
    if not measured:
        return sentence("is_first", language)
    i = measured[-1]
    name = pair_label(result, i, short=True)
    return sentence("before_agrees", language, name=name, rel=scientific(float(error[i])))


def _along(result: xr.Dataset, facts: Mapping[str, Any]) -> Markup:
    language = facts["language"]
    errors = result["max_abs_error"].values
    tones = [tone_of(str(verdict)) for verdict in result["verdict"].values]
    labels = [pair_label(result, i, short=True) for i in range(len(errors))]
    first = facts["first"]
    if first is None:
        alt = sentence("chart_alt_pass", language, largest=scientific(_largest(errors)))
    else:
        alt = sentence(
            "chart_alt",
            language,
            before=scientific(_largest(errors[:first])),
            first=scientific(float(errors[first])),
            after=scientific(_largest(errors[first + 1 :])),
        )
    ticks: list[tuple[int, str]] = []
    for title, rows in blocks(labels):
        if not ticks or (rows[0] - ticks[-1][0]) / len(errors) > 0.12:
            ticks.append((rows[0], title[:14]))
    first_label = f"#{first} {labels[first]}" if first is not None else ""
    return join(
        [
            heading(sentence("along", language), sentence("along_remark", language)),
            depth_chart(
                list(errors),
                tones,
                atol=float(facts["atol"]),
                first=first,
                first_label=first_label[:60],
                labels=[tick for tick in ticks if tick[0] < 0.95 * len(errors)],
                alt=alt,
            ),
        ]
    )


def _drill_down(
    result: xr.Dataset,
    i: int,
    evidence: xr.Dataset,
    facts: Mapping[str, Any],
    *,
    opened: bool,
) -> Markup:
    values = {str(n): result[n].values[i] for n in result.data_vars if result[n].ndim == 1}
    verdict = str(values["verdict"])
    where = worst_elements(str(values["left_shape"]), evidence, most=1)
    at = join([" at ", samp(where[0][0])]) if where else None
    return details(
        [
            verdict_mark(verdict, facts["language"]),
            f" #{i} ",
            samp(pair_label(result, i, short=True)),
            f" · max |Δ| {scientific(float(values['max_abs_error']))}",
            at,
        ],
        _inside(values, evidence, facts["language"]),
        opened=opened,
    )


def _inside(values: Mapping[str, Any], evidence: xr.Dataset, language: str) -> Markup:
    elements = worst_elements(str(values["left_shape"]), evidence)
    mismatch = evidence["tile_mismatch"].values
    alt = sentence(
        "heat_map",
        language,
        name=values["left"],
        shape=values["left_shape"],
        largest=scientific(float(values["max_abs_error"])),
        index=elements[0][0] if elements else "–",
    )
    picture, key, floor = tile_map(evidence["tile_max"].values, mismatch, alt=alt)
    largest = scientific(float(evidence["tile_max"].values.max(initial=0.0)))
    legend = small(
        f"{sentence('tile_remark', language)} \N{EN SPACE}{scientific(floor)} ", key, f" {largest}"
    )
    count = int(mismatch.sum())
    violet = (
        join(
            [element("br"), small(tone("miss", sentence("mismatch_violet", language, count=count)))]
        )
        if count
        else None
    )
    return element(
        "table",
        element(
            "tbody",
            row(
                element("td", picture, element("br"), legend, violet, style=TOP),
                element(
                    "td",
                    small(
                        _side_line("left", values, evidence),
                        element("br"),
                        _side_line("right", values, evidence),
                    ),
                    _axis_table(evidence, language),
                    element_table(elements) if elements else None,
                    style=TOP,
                ),
            ),
        ),
        class_="tsnb-n",
        style="border-collapse:collapse;margin:4px 0 12px 0",
    )


def _side_line(side: str, values: Mapping[str, Any], evidence: xr.Dataset) -> Markup:
    low, high = float(evidence.attrs["low"]), float(evidence.attrs["high"])
    histogram = spark(evidence[f"{side}_histogram"].values)
    text = (
        f"{low:.3g} {histogram} {high:.3g} · mean {values[f'{side}_mean']:.4g} · "
        f"l2 {values[f'{side}_l2']:.4g}"
    )
    return join([f"{side:<5}\N{EN SPACE}", samp(text)])


def _axis_table(evidence: xr.Dataset, language: str) -> Markup | None:
    lines = []
    for axis, start, stop, length, concentrated in axis_ranges(evidence):
        bins = spark(evidence[f"profile_{axis}"].values)
        note = sentence("range", language, start=start, stop=stop, length=length)
        lines.append(
            row(
                left_cell(f"axis\N{NO-BREAK SPACE}{axis}"),
                left_cell(samp(bins)),
                left_cell(tone("bad", note) if concentrated else sentence("spread", language)),
            )
        )
    if not lines:
        return None
    return element("table", element("tbody", *lines), style="border-collapse:collapse;margin:6px 0")


def _all_pairs(result: xr.Dataset, facts: Mapping[str, Any], rows: str) -> list[Markup]:
    language = facts["language"]
    total = int(result.sizes["pair"])
    labels = [pair_label(result, i, short=True) for i in range(total)]
    sections = [heading(sentence("all_pairs", language), sentence("all_pairs_remark", language))]
    left_out = rows != "all"
    groups = blocks(labels)
    shown = groups
    if rows in ("few", "first", "none"):
        shown = _merged_groups(result, groups)
    for title, numbers in shown[:_MOST_BLOCKS] if rows != "all" else shown:
        sections.append(_block(result, title, numbers, facts, rows))
    if left_out:
        sections.append(paragraph(small(sentence("left_out", language, total=f"{total:,}"))))
    return sections


def _merged_groups(
    result: xr.Dataset, groups: Sequence[tuple[str, list[int]]]
) -> list[tuple[str, list[int]]]:
    """Neighbouring blocks with the same state as one; the block of the first divergence alone."""
    failed = set(failed_rows(result).tolist())
    first = first_divergence(result)
    merged: list[tuple[str, list[int]]] = []
    states: list[object] = []
    for title, numbers in groups:
        state: object = "first" if first in numbers else any(i in failed for i in numbers)
        if merged and states[-1] == state != "first":
            start = merged[-1][0].split(" … ")[0]
            merged[-1] = (f"{start} … {title}", merged[-1][1] + numbers)
        else:
            merged.append((title, list(numbers)))
            states.append(state)
    return merged


def _block(
    result: xr.Dataset, title: str, numbers: list[int], facts: Mapping[str, Any], rows: str
) -> Markup:
    language = facts["language"]
    verdicts = [str(result["verdict"].values[i]) for i in numbers]
    errors = result["max_abs_error"].values[numbers]
    parts: list[Markup] = []
    for verdict in dict.fromkeys(sorted(verdicts, key=lambda v: -_severity(v))):
        text = f"{verdicts.count(verdict)}\N{NO-BREAK SPACE}"
        parts.append(join([text, verdict_mark(verdict, language)]))
    if np.isfinite(errors).any():
        worst = numbers[int(np.nanargmax(errors))]
        name = pair_label(result, worst, short=True)
        parts.append(join([f"worst {scientific(float(np.nanmax(errors)))} ", samp(name)]))
    here = facts["first"] in numbers
    failing = any(_severity(verdict) > 1 for verdict in verdicts)
    keep: Callable[[list[int]], list[int]] = list
    if (
        (rows in ("failing", "few") and not failing)
        or (rows == "first" and not here)
        or rows == "none"
    ):
        keep = _none
    elif rows in ("few", "first"):
        bad = (i for i, v in zip(numbers, verdicts, strict=True) if _severity(v) > 1)
        keep = partial(_around, facts["first"] if here else next(bad))
    shown = keep(numbers)
    bars = strip(list(errors[:24]))
    summary = [
        samp(f"{title} {bars}{'…' if len(errors) > 24 else ''}"),
        "\N{EN SPACE}",
        join(parts, " · "),
        tone("bad", f" ➤ {sentence('first_divergence', language).lower()}") if here else None,
    ]
    if not shown:
        return paragraph(*summary, style="margin:2px 0 2px 14px")
    return details(summary, pair_table(result, shown, facts), opened=here)


def _around(first: int, numbers: list[int]) -> list[int]:
    return [i for i in numbers if i >= first - 2][:_FEW]


def _none(numbers: list[int]) -> list[int]:
    return []


def _severity(verdict: str) -> int:
    return {"ok": 0, "warn": 2, "miss": 3, "bad": 4}[tone_of(verdict)]


def _unmatched(facts: Mapping[str, Any]) -> Markup | None:
    table = facts["unmatched"]
    count = int(table.sizes["pair"])
    if not count:
        return None
    columns = {str(n): table[n].values for n in table.data_vars}
    rows = []
    for i in range(min(count, _MOST_UNMATCHED)):
        side = "left" if columns["left_entry"][i] >= 0 else "right"
        expected = "expected" if columns["expected"][i] else ""
        near = str(columns["candidates"][i])
        rows.append(
            (
                facts[f"{side}_label"],
                samp(columns[side][i]),
                str(columns[f"{side}_shape"][i]).replace("x", "×"),
                expected or (join(["closest: ", samp(near)]) if near else "–"),
            )
        )
    more = count - len(rows)
    return details(
        [
            tone(
                "warn",
                f"{glyph('missing')} {sentence('unmatched', facts['language'], count=count)}",
            )
        ],
        simple_table(("side", "name", "shape", "note"), rows),
        paragraph(small(sentence("more", facts["language"], count=more))) if more > 0 else None,
    )


def _provenance(facts: Mapping[str, Any]) -> Markup:
    left, right = facts["left_card"], facts["right_card"]
    language = facts["language"]
    body = (
        facts_table(left, right, (facts["left_label"], facts["right_label"]))
        if left or right
        else paragraph(small(sentence("no_facts", language)))
    )
    differing = [key for key in left if key in right and left[key] != right[key]]
    remark = (
        f" · {sentence('cards_differ', language)} {', '.join(differing[:6])}" if differing else ""
    )
    return details([sentence("provenance", language), small(remark)], body)


def _card_details(card: Mapping[str, Any], language: str) -> Markup | None:
    if not card:
        return None
    return details(
        [sentence("provenance", language)],
        simple_table(("fact", "value"), [(samp(k), str(v)) for k, v in card.items()]),
    )


def _entry_cells(columns: Mapping[str, Any], i: int, name: str) -> list[object]:
    role = " ".join(t for t in (str(columns["role"][i]), str(columns["direction"][i])) if t)
    if columns["status"][i] != "ok":
        values: object = tone("warn", f"! {columns['reason'][i]}", bold=False)
    elif np.isfinite(columns["l2"][i]):
        values = (
            f"[{columns['min'][i]:.4g}, {columns['max'][i]:.4g}] mean {columns['mean'][i]:.4g}"
            f" l2 {columns['l2'][i]:.4g}"
        )
    else:
        values = ""
    shape = str(columns["shape"][i]).replace("x", "×")
    return [samp(name), role, shape, str(columns["dtype"][i]), values]


def _pairing_cells(columns: Mapping[str, Any], i: int) -> list[object]:
    left, right = (str(columns[side][i]) for side in ("left", "right"))
    shapes = [str(columns[f"{side}_shape"][i]).replace("x", "×") for side in ("left", "right")]
    shape = shapes[0] if shapes[0] == shapes[1] else " / ".join(shape or "–" for shape in shapes)
    if columns["method"][i] == "unmatched":
        near = str(columns["candidates"][i])
        note: object = (
            "expected"
            if columns["expected"][i]
            else (join(["closest: ", samp(near)]) if near else "–")
        )
        method: object = tone("warn", f"{glyph('missing')} unmatched", bold=False)
        return [samp(left or "–"), samp(right or "–"), shape, method, "–", note]
    confidence = f"{columns['confidence'][i]:.2f}"
    return [
        samp(left),
        samp(right),
        shape,
        str(columns["method"][i]),
        confidence,
        str(columns["note"][i]),
    ]


def _inside_order(
    first: int | None, worst: Sequence[int], evidence: Mapping[int, xr.Dataset]
) -> list[int]:
    ordered = ([first] if first is not None else []) + [*worst, *evidence]
    return list(dict.fromkeys(ordered))


def _is_backward(result: xr.Dataset) -> bool:
    return bool(
        np.any((result["direction"].values == "backward") & (result["role"].values == "parameter"))
    )


def _largest(values: np.ndarray) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.max(initial=0.0))
