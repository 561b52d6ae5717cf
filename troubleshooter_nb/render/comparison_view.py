"""HTML reprs of a comparison and of one of its pairs: verdict first, single numbers last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import xarray as xr

from troubleshooter_nb.columns.entries import DUMP_COLUMNS
from troubleshooter_nb.columns.pairings import PAIRING_COLUMNS
from troubleshooter_nb.columns.pairs import RESULT_COLUMNS
from troubleshooter_nb.columns.statistics import STATISTICS
from troubleshooter_nb.messages import told
from troubleshooter_nb.metrics.locate import split_axis
from troubleshooter_nb.render.cells import cell_text, index_text, names_text
from troubleshooter_nb.render.charts import depth_chart, spark, strip, tile_map
from troubleshooter_nb.render.explanation import (
    answers_of,
    check_marks,
    findings_html,
    how_sentence,
    origin_sentence,
    place_sentence,
    said_html,
    why_sentences,
)
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
    scrolling_table,
    small,
    tone,
)
from troubleshooter_nb.render.lines import gap, spaced
from troubleshooter_nb.render.neighbours import neighbours_line, wired_line
from troubleshooter_nb.render.numbers import scientific
from troubleshooter_nb.render.rows import Pairs, blocks, thinned_ticks
from troubleshooter_nb.render.tables import (
    element_table,
    facts_table,
    figure_table,
    pair_table,
    passed_table,
    simple_table,
    verdict_mark,
)
from troubleshooter_nb.render.text import (
    axis_ranges,
    criterion,
    digest_line,
    first_words,
    headline,
    indices_of_axis,
    origin_counts,
    range_sentences,
    remarks_of,
    scalar_row,
    worst_elements,
)
from troubleshooter_nb.render.words import glyph, reason_text, sentence, tone_of
from troubleshooter_nb.shapes import Shape, are_known, shape_text
from troubleshooter_nb.table import table_of

_MOST_UNMATCHED = 100
Rows = Literal["all", "failing", "bad", "few", "first", "none"]
# Steps of shrinking: how many drill-downs, and which rows the blocks still list.
_LEVELS: tuple[tuple[int, Rows], ...] = (
    (3, "all"),
    (3, "failing"),
    (2, "bad"),
    (2, "few"),
    (1, "first"),
    (1, "none"),
)
# The shortest row is about this long: saves drawing what cannot fit.
_ROW_BYTES = 300
_FEW = 8
_MOST_BLOCKS = 60
# A comparison that passed is shown without a chart and without blocks up to this many pairs.
_SHORT = 16
_MOST_POINTS = 600
_BARS = 24
_SEVERITY = {"ok": 0, "warn": 1, "miss": 2, "bad": 3}


def comparison_html(
    pairs: Pairs, evidence: Mapping[int, xr.Dataset], facts: Mapping[str, Any]
) -> str:
    """HTML repr of a Comparison, at most ``facts["html_bytes"]`` long if at all possible."""
    budget = int(facts["html_bytes"])
    at_least = {"all": len(pairs), "failing": len(pairs.failed), "bad": len(pairs.failed)}
    text = ""
    for inside, rows in _LEVELS:
        if at_least.get(rows, 0) * _ROW_BYTES > budget:
            continue
        text = _comparison_html(pairs, evidence, facts, inside, rows)
        if len(text.encode()) <= budget:
            break
    return text


def _comparison_html(
    pairs: Pairs,
    evidence: Mapping[int, xr.Dataset],
    facts: Mapping[str, Any],
    inside: int,
    rows: Rows,
) -> str:
    language = facts["language"]
    if len(pairs) and pairs["passed"].all() and not evidence:
        return _passed_html(pairs, facts, rows)
    worst = pairs.worst(int(facts["worst_rows"]), answers_of(facts))
    candidates = ([] if pairs.first is None else [pairs.first]) + [*worst, *evidence]
    shown = [i for i in dict.fromkeys(candidates) if i in evidence]
    return fragment(
        _verdict(pairs, facts),
        _remarks(pairs, facts),
        _call_out(pairs, evidence, facts),
        *_along(pairs, facts),
        *_worst(pairs, worst, facts),
        heading(sentence("pages.inside", language)) if shown else None,
        *(
            _drill_down(pairs, i, evidence[i], facts, opened=number == 0)
            for number, i in enumerate(shown[:inside])
        ),
        *_all_pairs(pairs, facts, rows),
        findings_details(facts),
        _unmatched(facts),
        _provenance(facts),
    )


def beginning(
    pairs: Pairs, evidence: Mapping[int, xr.Dataset], facts: Mapping[str, Any]
) -> tuple[Markup | None, Markup | None]:
    """What the page of any comparison begins with: the verdict; the first difference and why."""
    return _verdict(pairs, facts), _call_out(pairs, evidence, facts)


def rows_html(pairs: Pairs, shown: Sequence[int], facts: Mapping[str, Any]) -> str:
    """Some pairs as a table."""
    return fragment(pair_table(pairs, shown, facts))


def _passed_html(pairs: Pairs, facts: Mapping[str, Any], rows: Rows) -> str:
    """The answer in a line, everything else folded away."""
    language = facts["language"]
    large = len(pairs) > _SHORT
    body = _all_pairs(pairs, facts, rows) if large else [passed_table(pairs, facts)]
    chart = _along(pairs, facts) if large else []
    return fragment(
        _verdict(pairs, facts),
        _remarks(pairs, facts),
        _call_out(pairs, {}, facts),
        details([sentence("pages.all_pairs", language)], *chart, *body),
        findings_details(facts),
        _unmatched(facts),
        _provenance(facts),
    )


def diff_html(row_: xr.Dataset, evidence: xr.Dataset | None, facts: Mapping[str, Any]) -> str:
    """HTML repr of one pair."""
    language = facts["language"]
    values = scalar_row(row_)
    sides = ("left", "right")
    found = facts.get("neighbours", {})
    neighbours = neighbours_line(found, str(values["role"]), language)
    origin = "" if wired_line(found, language) else origin_sentence(values, language)
    return fragment(
        paragraph(
            verdict_mark(str(values["verdict"]), language),
            " ",
            samp(names_text(*(str(values[f"{side}_display"]) for side in sides))),
            style="margin:2px 0;font-size:16px",
        ),
        paragraph(
            small(
                join(
                    [
                        join(
                            [
                                f"{facts[f'{side}_label']} {values[f'{side}_dtype']} ",
                                f"{shape_text(values[f'{side}_shape'], '×')} ",
                                samp(values[side]),
                            ]
                        )
                        for side in sides
                    ],
                    element("br"),
                )
            )
        ),
        paragraph(reason_text(values, language)),
        paragraph(origin) if origin else None,
        paragraph(neighbours) if neighbours else None,
        paragraph(small(digests)) if (digests := digest_line(values, language)) else None,
        figure_table(values, language) if not np.isnan(values["max_abs_error"]) else None,
        _inside(values, evidence, language) if evidence is not None else None,
    )


def _verdict(pairs: Pairs, facts: Mapping[str, Any]) -> Markup:
    language = facts["language"]
    parts = [tone(*headline(pairs, facts, ascii_only=False))]
    if origins := origin_counts(pairs, language):
        parts[0] = join([parts[0], sentence("pages.colon", language), origins])
    if pairs.first is not None:
        at = tone(_first_tone(pairs), f"➤ {first_words(pairs, language)}")
        number = small(f"(#{pairs.number(pairs.first)})")
        name = join([pairs.place(pairs.first), samp(pairs.short(pairs.first))])
        between = gap(first_words(pairs, language))
        parts.append(join([at, between, name, " ", number]))
    parts += [tone(name, text, bold=name == "bad") for name, text in remarks_of(pairs, facts)]
    return paragraph(join(parts, " · "), style="margin:2px 0;font-size:16px")


def _first_tone(pairs: Pairs) -> str:
    return "bad" if len(pairs.failed) else "warn"


def _remarks(pairs: Pairs, facts: Mapping[str, Any]) -> Markup:
    language = facts["language"]
    parts: list[object] = []
    for side in ("left", "right"):
        card = facts[f"{side}_card"]
        runner = [str(card[k]) for k in ("framework", "version", "device") if card.get(k)]
        # Of tensors: numbers, texts and None have no shape.
        of_tensors = pairs[f"{side}_dtype"][are_known(pairs[f"{side}_shape"])]
        dtypes = sorted({str(dtype) for dtype in of_tensors if dtype})
        # A dump without a label of its own is called by its side.
        label = element("b", facts[f"{side}_label"]) if facts[f"{side}_label"] != side else None
        parts.append(join([side, label, *runner, ", ".join(dtypes[:3])], " "))
    parts.append(criterion(facts))
    parts += [sentence(id, language) for id in pairs.order_remarks]
    parts += [told(note, language) for note in facts["notes"]]
    text = paragraph(small(join(parts, " · ")), style="margin:2px 0 2px 0;opacity:.75")
    checks = check_marks(facts["checks"], language)
    return join([text, paragraph(checks, style="margin:2px 0 8px 0") if checks else None])


def _call_out(
    pairs: Pairs, evidence: Mapping[int, xr.Dataset], facts: Mapping[str, Any]
) -> Markup | None:
    first, language = pairs.first, facts["language"]
    if first is None:
        return None
    values = pairs.row(first)
    left, right = pairs.sides(first)
    title = left if left == right else f"{left or '–'} → {right or '–'}"
    id = "pages.first_divergence" if len(pairs.failed) else "pages.within_title"
    if values["origin_basis"] == "missing":
        id = "pages.lone_title"
    elif values["origin_basis"] == "unknown":
        id = "pages.unordered_title"
    where = spaced(*range_sentences(evidence[first], language)) if first in evidence else ""
    # The same in other words, from values that need not have been kept.
    where = where or place_sentence(facts["observed"], pairs.number(first), language)
    lead = f"➤ {sentence(id, language)}{sentence('pages.colon', language)}"
    lines = [paragraph(element("b", lead, samp(title)))]
    if values["origin"] == "created":
        how = how_sentence(values, facts.get("neighbours", {}), language)
        # The sentence of the origin gives the figures of a plain difference, of others the reason.
        if values["verdict"] not in ("differs", "pass", "identical"):
            lines.append(_what(values, language))
        before = _before(pairs, min(pairs.turn, first), language)
        # Inputs say more than neighbours; without them those are what there is to compare with.
        known = values["origin_basis"] in ("inputs", "between")
        lines.append(paragraph(spaced(how, "" if known else before, where)))
        lines += [said_html(said) for said in why_sentences(facts, pairs.number(first))]
    else:
        lines.append(_what(values, language))
        lines.append(paragraph(_before(pairs, pairs.turn, language)))
        lines += [paragraph(where)] if where else []
    calls = [_subscript(pairs, first, facts["calls"]["pairs"]), facts["calls"]["explain"]]
    code = join([element("code", call) for call in calls], "\N{EN SPACE}")
    following = sentence("pages.next", language)
    lines.append(paragraph(small(following, gap(following), code)))
    return element(
        "div",
        *lines,
        style=f"border-left:4px solid {INKS[_first_tone(pairs)]};padding:2px 0 2px 12px;"
        "margin:0 0 10px 0",
    )


def _what(values: Mapping[str, Any], language: str) -> Markup:
    """Verdict and reason in a line."""
    mark = verdict_mark(str(values["verdict"]), language)
    reason = sentence("pages.sentence", language, text=values["reason"])
    return paragraph(mark, sentence("pages.colon", language), reason)


def _subscript(pairs: Pairs, i: int, of: str) -> str:
    """Python that gives one pair: by its name where that is one of its own."""
    name = pairs.short(i)
    count = int((pairs["left_display"] == name).sum())
    return f"{of}[{name!r}]" if count == 1 else f"{of}[{pairs.number(i)}]"


def _before(pairs: Pairs, first: int, language: str) -> str:
    error = pairs["rel_l2_error"]
    measured = np.flatnonzero(~np.isnan(error[:first]))
    skipped = sentence("pages.not_compared_before", language, count=first - len(measured))
    after = skipped if len(measured) < first else ""
    if not len(measured):
        return after or sentence("pages.is_first", language)
    i = int(measured[-1])
    name, relative = pairs.short(i), scientific(float(error[i]))
    return spaced(sentence("pages.before_agrees", language, name=name, rel=relative), after)


def _along(pairs: Pairs, facts: Mapping[str, Any]) -> list[Markup]:
    if len(pairs) < 2 or np.isnan(pairs["max_abs_error"]).all():
        return []
    language = facts["language"]
    first = pairs.first
    order = pairs.order_said(language)
    alt = {"largest": scientific(_largest(pairs["max_abs_error"]))}
    if first is not None:
        error = pairs["max_abs_error"]
        alt = {
            "before": scientific(_largest(error[: pairs.turn])),
            "first": scientific(float(error[first])),
            "after": scientific(_largest(error[first + 1 :])),
        }
    chosen = _thinned(pairs)
    nan = _first_nan(pairs, chosen)
    id = "pages.along_remark_origin" if pairs.has_origins else "pages.along_remark"
    alt_id = "pages.chart_alt_pass" if first is None else "pages.chart_alt"
    text = sentence(alt_id, language, order=order, **alt)
    return [
        heading(sentence("pages.along", language), sentence(id, language, order=order)),
        depth_chart(
            [float(pairs["max_abs_error"][i]) for i in chosen],
            [pairs.mark(i) for i in chosen],
            line=(float(facts["atol"]), f"atol {scientific(float(facts['atol']))}"),
            first=chosen.index(first) if first is not None else None,
            first_label=f"#{pairs.number(first)} {pairs.short(first)}"[:60]
            if first is not None
            else "",
            labels=thinned_ticks([pairs.short(i) for i in chosen]),
            alt=text + _alt_of_origins(pairs, nan, language),
            nan=None
            if nan is None or nan == first
            else (chosen.index(nan), f"△ NaN/Inf #{pairs.number(nan)} {pairs.short(nan)}"[:60]),
        ),
    ]


def _first_nan(pairs: Pairs, chosen: Sequence[int]) -> int | None:
    """The first shown row whose NaN or infinities differ."""
    return next((i for i in chosen if pairs["verdict"][i] == "nan"), None)


def _alt_of_origins(pairs: Pairs, nan: int | None, language: str) -> str:
    text = ""
    created = np.flatnonzero(pairs["origin"] == "created")
    if len(created):
        some = ", ".join(f"#{pairs.number(int(i))} {pairs.short(int(i))}" for i in created[:_FEW])
        some += "" if len(created) <= _FEW else ", …"
        carried = int((pairs.states == "carried").sum())
        text = sentence("pages.chart_alt_origin", language, created=some, carried=carried)
    if nan is not None:
        name = f"#{pairs.number(nan)} {pairs.short(nan)}"
        text += sentence("pages.chart_alt_nan", language, name=name)
    return text


def _thinned(pairs: Pairs) -> list[int]:
    """Pairs for the chart: all of them, or of each equal run the one with the largest error."""
    runs = np.array_split(np.arange(len(pairs)), min(len(pairs), _MOST_POINTS))
    # Failed pairs before passed ones; what was not measured only where nothing else is.
    weight = np.nan_to_num(pairs["max_abs_error"], nan=-1.0, posinf=1e300)
    weight = np.where(np.isin(np.arange(len(pairs)), pairs.failed), weight + 1e300, weight)
    chosen = {int(run[np.argmax(weight[run])]) for run in runs}
    if pairs.first is not None:
        chosen.add(pairs.first)
    return sorted(chosen)


def _worst(pairs: Pairs, worst: Sequence[int], facts: Mapping[str, Any]) -> list[Markup]:
    if not worst:
        return []
    language = facts["language"]
    title = sentence("pages.worst", language, count=len(worst))
    id = "pages.worst_remark_origin" if pairs.has_origins else "pages.worst_remark"
    return [heading(title, sentence(id, language)), pair_table(pairs, worst, facts)]


def _drill_down(
    pairs: Pairs, i: int, evidence: xr.Dataset, facts: Mapping[str, Any], *, opened: bool
) -> Markup:
    values = pairs.row(i)
    where = worst_elements(values["left_shape"], evidence, most=1)
    summary = [
        verdict_mark(str(pairs.states[i]), facts["language"]),
        f" #{pairs.number(i)} ",
        samp(pairs.short(i)),
        f" · {RESULT_COLUMNS['max_abs_error'].titled(facts['language'])} "
        f"{scientific(float(values['max_abs_error']))}",
        join([f" {sentence('pages.at_word', facts['language'])} ", samp(index_text(where[0][0]))])
        if where
        else None,
    ]
    return details(summary, _inside(values, evidence, facts["language"]), opened=opened)


def _inside(values: Mapping[str, Any], evidence: xr.Dataset, language: str) -> Markup:
    elements = worst_elements(values["left_shape"], evidence)
    mismatch = evidence["tile_mismatch"].values
    alts = (
        sentence(
            "pages.heat_map",
            language,
            name=values["left"],
            shape=shape_text(values["left_shape"]),
            largest=scientific(float(values["max_abs_error"])),
            index=index_text(elements[0][0]) if elements else "–",
        ),
        sentence("pages.colour_key", language),
    )
    picture, key, floor = tile_map(evidence["tile_max"].values, mismatch, alts=alts)
    largest = scientific(float(evidence["tile_max"].values.max(initial=0.0)))
    legend = small(
        f"{sentence('pages.tile_remark', language)} \N{EN SPACE}{scientific(floor)} ",
        key,
        f" {largest}",
        _axes_of_map(values["left_shape"], language),
    )
    count = int(mismatch.sum())
    violet = (
        join(
            [
                element("br"),
                small(tone("miss", sentence("pages.mismatch_violet", language, count=count))),
            ]
        )
        if count
        else None
    )
    return scrolling_table(
        element(
            "tbody",
            row(
                element(
                    "td", picture, element("br"), legend, violet, style=f"{TOP};white-space:normal"
                ),
                element(
                    "td",
                    small(
                        _side_line("left", values, evidence, language),
                        element("br"),
                        _side_line("right", values, evidence, language),
                    ),
                    *_axis_table(evidence, language),
                    element_table(elements, language) if elements else None,
                    style=TOP,
                ),
            ),
        ),
        class_="tsnb-n",
        style="border-collapse:collapse;margin:4px 0 12px 0",
    )


def _axes_of_map(shape: Shape, language: str) -> Markup | None:
    """Which axes run down the heat map and which across it."""
    cut, axes = split_axis(shape), [*map(str, range(len(shape)))]
    if not 0 < cut < len(axes):
        return None
    rows, columns = (", ".join(some) for some in (axes[:cut], axes[cut:]))
    said = sentence("pages.tile_axes", language, rows=rows, columns=columns)
    return join([element("br"), said])


def _side_line(side: str, values: Mapping[str, Any], evidence: xr.Dataset, language: str) -> Markup:
    low, high = float(evidence.attrs["low"]), float(evidence.attrs["high"])
    histogram = spark(evidence[f"{side}_histogram"].values)
    known = {name: values[f"{side}_{name}"] for name in STATISTICS}
    figures = [
        f"{column.titled(language)} {cell_text(column, known, language, 'html')}"
        for column in (STATISTICS["mean"], STATISTICS["l2"])
    ]
    text = " · ".join([f"{low:.3g} {histogram} {high:.3g}", *figures])
    return join([f"{side:<5}\N{EN SPACE}", samp(text)])


def _axis_table(evidence: xr.Dataset, language: str) -> list[Markup]:
    """The axes on which the error is concentrated, drawn; the others are only named."""
    lines, spread = [], []
    for axis, start, stop, length, concentrated in axis_ranges(evidence):
        if not evidence[f"profile_{axis}"].values.any():
            continue  # NaN or Inf only: there is no finite error to be anywhere
        if not concentrated:
            spread.append(str(axis))
            continue
        bins = spark(evidence[f"profile_{axis}"].values)
        note = sentence("pages.range", language, start=start, stop=stop, length=length)
        if where := indices_of_axis(evidence, axis, language):
            note = sentence("pages.concentrated_at", language, where=where)
        lines.append(
            row(
                left_cell(f"axis\N{NO-BREAK SPACE}{axis}"),
                left_cell(samp(bins)),
                left_cell(tone("bad", note)),
            )
        )
    parts = []
    if lines:
        style = "border-collapse:collapse;margin:6px 0"
        parts.append(scrolling_table(element("tbody", *lines), style=style))
    if spread:
        said = sentence("pages.spread", language, axes=", ".join(spread))
        parts.append(paragraph(small(said), style="margin:6px 0"))
    return parts


def _all_pairs(pairs: Pairs, facts: Mapping[str, Any], rows: Rows) -> list[Markup]:
    language = facts["language"]
    names = [pairs.short(i) for i in range(len(pairs))]
    groups = blocks(names, pairs["direction"].tolist())
    if rows in ("few", "first", "none"):
        groups = _merged_groups(pairs, groups)
    hidden = len(groups) - _MOST_BLOCKS if rows != "all" else 0
    if hidden > 0:
        at = next((k for k, (_, numbers) in enumerate(groups) if pairs.first in numbers), 0)
        start = max(0, min(at - _MOST_BLOCKS // 2, hidden))
        groups = groups[start : start + _MOST_BLOCKS]
    remark = sentence("pages.all_pairs_remark", language, order=pairs.order_said(language))
    sections = [heading(sentence("pages.all_pairs", language), remark)]
    sections += [_block(pairs, title, numbers, facts, rows) for title, numbers in groups]
    if rows != "all":
        sections.append(paragraph(small(sentence("pages.left_out", language, total=len(pairs)))))
    return sections


def _merged_groups(
    pairs: Pairs, groups: Sequence[tuple[str, list[int]]]
) -> list[tuple[str, list[int]]]:
    """Neighbouring blocks with the same state as one; the block of the first divergence alone."""
    failed = set(pairs.failed.tolist())
    merged: list[tuple[str, list[int]]] = []
    states: list[object] = []
    for title, numbers in groups:
        state: object = "first" if pairs.first in numbers else any(i in failed for i in numbers)
        if merged and states[-1] == state != "first":
            start = merged[-1][0].split(" … ")[0]
            merged[-1] = (f"{start} … {title}", merged[-1][1] + numbers)
        else:
            merged.append((title, list(numbers)))
            states.append(state)
    return merged


def _block(
    pairs: Pairs, title: str, numbers: list[int], facts: Mapping[str, Any], rows: Rows
) -> Markup:
    language = facts["language"]
    states = Counter(str(pairs.states[i]) for i in numbers)
    errors = pairs["max_abs_error"][numbers]
    parts = [
        verdict_mark(state, language, count=states[state])
        for state in sorted(states, key=lambda state: -_SEVERITY[tone_of(state)])
    ]
    if np.nanmax(errors, initial=0.0, where=np.isfinite(errors)) > 0:
        worst = numbers[int(np.nanargmax(errors))]
        largest = scientific(float(np.nanmax(errors)))
        said = sentence("pages.worst_of", language, largest=largest)
        parts.append(join([f"{said} ", samp(pairs.short(worst))]))
    here = pairs.first in numbers
    arrow = f" ➤ {sentence('pages.first_divergence', language).lower()}"
    summary = [
        samp(f"{title} {strip(list(errors[:_BARS]))}{'…' if len(errors) > _BARS else ''}"),
        "\N{EN SPACE}",
        join(parts, " · "),
        tone("bad", arrow) if here else None,
    ]
    listed = _listed(pairs, numbers, rows)
    if not listed:
        return paragraph(*summary, style="margin:2px 0 2px 14px")
    return details(summary, pair_table(pairs, listed, facts), opened=here)


def _listed(pairs: Pairs, numbers: list[int], rows: Rows) -> list[int]:
    """The pairs of a block whose rows are shown at this step of shrinking."""
    bad = [i for i in numbers if _SEVERITY[pairs.tone(i)]]
    if rows == "all" or (rows == "failing" and bad):
        return numbers
    if rows == "bad":
        return bad
    if not bad or rows in ("failing", "none") or (rows == "first" and pairs.first not in numbers):
        return []
    # From two before the first bad one: the reader wants to see the turn.
    start = pairs.first if pairs.first in numbers else bad[0]
    return [i for i in numbers if i >= start - 2][:_FEW]


def findings_details(facts: Mapping[str, Any]) -> Markup | None:
    """All that was found, with its evidence; the call-out tells the first of it."""
    found, language = facts["findings"], facts["language"]
    if not found:
        return None
    title = sentence("explanations.part_findings", language)
    return details([title, small(f" · {len(found)}")], *findings_html(found, language))


def _unmatched(facts: Mapping[str, Any]) -> Markup | None:
    table = facts["unmatched"]
    count = int(table.sizes["pair"])
    if not count:
        return None
    language = facts["language"]
    columns = table_of(table)
    unexpected = int((~columns["expected"]).sum())
    # Those nobody expected first.
    order = np.argsort(columns["expected"], kind="stable")
    rows = []
    for i in order[:_MOST_UNMATCHED]:
        side = "left" if columns["left_entry"][i] >= 0 else "right"
        note = told(columns["note"][i], language)
        word = sentence("pages.expected_word", language)
        closest = sentence("pages.closest", language)
        said = sentence("pages.colon", language).join(filter(None, [word, note]))
        expected = said if columns["expected"][i] else ""
        near = told(columns["candidates"][i], language)
        rows.append(
            (
                facts[f"{side}_label"],
                samp(columns[side][i]),
                shape_text(columns[f"{side}_shape"][i], "×"),
                expected or (join([closest, gap(closest), samp(near)]) if near else "–"),
            )
        )
    titled = (DUMP_COLUMNS["name"], DUMP_COLUMNS["shape"], PAIRING_COLUMNS["note"])
    titles = [column.titled(language) for column in titled]
    more = count - len(rows)
    parts: list[object] = []
    if unexpected:
        alone = sentence("pages.without_partner", language, count=unexpected)
        parts.append(tone("warn", f"{glyph('missing')} {alone}"))
    if expected_count := count - unexpected:
        alone = sentence("pages.structure_expected", language, count=expected_count)
        parts.append(small(alone) if parts else f"{glyph('alone')} {alone}")
    return details(
        [join(parts, " · ")],
        simple_table([sentence("explorer.side", language), *titles], rows),
        paragraph(small(sentence("pages.more", language, count=more))) if more > 0 else None,
    )


def _provenance(facts: Mapping[str, Any]) -> Markup:
    left, right = facts["left_card"], facts["right_card"]
    language = facts["language"]
    body = (
        facts_table(left, right, (facts["left_label"], facts["right_label"]), language)
        if left or right
        else paragraph(small(sentence("pages.no_facts", language)))
    )
    differing = [key for key in left if key in right and left[key] != right[key]]
    remark = (
        f" · {sentence('pages.cards_differ', language)} {', '.join(differing[:6])}"
        if differing
        else ""
    )
    return details([sentence("pages.provenance", language), small(remark)], body)


def _largest(values: np.ndarray) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.max(initial=0.0))
