"""What a recording holds and lacks, as text and as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from troubleshooter_nb.columns.column import in_view
from troubleshooter_nb.columns.recordings import LAYER_COLUMNS
from troubleshooter_nb.render.cells import heads
from troubleshooter_nb.render.html import (
    Markup,
    details,
    element,
    fragment,
    join,
    paragraph,
    row,
    samp,
    shortest,
    small,
    table,
    tone,
)
from troubleshooter_nb.render.lines import (
    fitted,
    most_columns,
    most_lines,
    padded,
    spaced,
    width,
    wrapped,
)
from troubleshooter_nb.render.missing_words import (
    MissingRow,
    cure_of,
    in_order,
    tone_of_kind,
    what_of,
)
from troubleshooter_nb.render.numbers import bytes_text
from troubleshooter_nb.render.tables import card_table, plain_cell
from troubleshooter_nb.render.text import more_text, note_lines
from troubleshooter_nb.render.words import sentence

# state -> (glyph, tone, sentence)
_STATES = {
    "running": ("➤", "ok", "recording.running"),
    "paused": ("○", "warn", "recording.paused"),
    "stopped": ("✓", "ok", "recording.stopped"),
    "not started": ("–", "", "recording.not_started"),
    "broken": ("✗", "bad", "recording.broken"),
}
_MARKS = {"bad": "✗", "warn": "▲", "": "○"}
_COUNTED = {
    "calls": "recording.calls",
    "values": "recording.values",
    "gradients": "recording.gradients",
}
_MOST_RANGES = 4
_MOST_LAYERS = 200
_MOST_NAMES, _MOST_NAMES_OF_LINE = 60, 3
_FEW = 3  # kinds of what is missing that stand open
_MOST_KINDS = 5  # of the text of a recording


def recording_html(facts: Mapping[str, Any]) -> str:
    """HTML repr of a Recording, at most ``facts["html_bytes"]`` long if at all possible.

    Parameters
    ----------
    facts : mapping
        ``language, ascii, html_bytes`` of the options, and of the recording ``label``,
        ``framework``, ``state`` (running, paused, stopped, not started, broken), ``where`` (name
        of the folder, empty in memory), ``level, keep``, ``steps`` and ``ranks`` (lists of int),
        ``calls, values, gradients, size_bytes``, ``missing`` (rows as `MissingRow`), ``layers``
        (path, layer, calls), ``card, notes`` and ``next`` (a line of code). What is not there is
        left out.
    """
    return shortest(lambda most: _recording_html(facts, most), facts, _MOST_LAYERS)


def _recording_html(facts: Mapping[str, Any], most: int) -> str:
    language = facts["language"]
    mark, name, id = _STATES.get(facts.get("state", "stopped"), _STATES["stopped"])
    missing = in_order(facts.get("missing", ()))
    return fragment(
        paragraph(
            tone(name, f"{mark} {sentence(id, language)}"),
            " · ",
            join([element("b", samp(facts["label"])), " · "]) if facts.get("label") else None,
            " · ".join(_extent(facts)),
            style="margin:2px 0;font-size:16px",
        ),
        paragraph(small(" · ".join(_settings(facts)))),
        *(paragraph(small(sentence("pages.note", language, text=n))) for n in _notes(facts)),
        *_missing_section(missing, facts),
        _next_paragraph(facts),
        *_layers(facts, most),
        _card(facts),
    )


def _extent(facts: Mapping[str, Any]) -> list[str]:
    """Steps, calls and values."""
    language, parts = facts["language"], []
    if steps := facts.get("steps"):
        which = ranges_text(steps, language)
        parts.append(sentence("recording.steps", language, count=len(set(steps)), which=which))
    for name, id in _COUNTED.items():
        if facts.get(name):
            parts.append(sentence(id, language, count=facts[name]))
    return parts or [sentence("recording.nothing_yet", language)]


def _settings(facts: Mapping[str, Any]) -> list[str]:
    """How it is recorded, where to, and the room that it takes."""
    language, parts = facts["language"], []
    if facts.get("framework"):
        parts.append(str(facts["framework"]))
    if facts.get("level"):
        parts.append(sentence("recording.level", language, name=facts["level"]))
    if facts.get("keep"):
        parts.append(sentence("recording.keep", language, name=facts["keep"]))
    if folder := facts.get("where"):
        parts.append(sentence("recording.in_folder", language, name=folder))
    else:
        parts.append(sentence("recording.in_memory", language))
    if facts.get("size_bytes"):
        parts.append(bytes_text(float(facts["size_bytes"])))
    ranks = facts.get("ranks") or ()
    if len(ranks) > 1 or any(ranks):
        which = ranges_text(ranks, language)
        parts.append(sentence("recording.ranks", language, count=len(set(ranks)), which=which))
    return parts


def _notes(facts: Mapping[str, Any]) -> Sequence[str]:
    return facts.get("notes") or ()


def _next_paragraph(facts: Mapping[str, Any]) -> Markup | None:
    if not facts.get("next"):
        return None
    said = sentence("pages.next", facts["language"])
    return paragraph(said, " ", element("code", facts["next"]), style="margin:4px 0")


def _missing_section(rows: Sequence[MissingRow], facts: Mapping[str, Any]) -> list[Markup]:
    """What is missing, open where it is little; nothing where nothing is and calls were seen."""
    if not rows:
        if not facts.get("calls"):
            return []
        return [paragraph(f"✓ {sentence('recording.missing_none', facts['language'])}")]
    head = paragraph(tone(_worst(rows), _missing_head(rows, facts)), style="margin:8px 0 0 0")
    return [head, *_missing_items(rows, facts)]


def _layers(facts: Mapping[str, Any], most: int) -> list[Markup]:
    layers = list(facts.get("layers") or ())
    if not layers:
        return []
    language, shown = facts["language"], layers[:most]
    id = "recording.layers" if len(shown) == len(layers) else "recording.layers_first"
    columns = in_view("html", LAYER_COLUMNS.values())
    rows = (
        {"calls": count, "path": _path(path, language), "layer": layer}
        for path, layer, count in shown
    )
    lines = [row(*(plain_cell(column, one, language) for column in columns)) for one in rows]
    body = [table(heads(columns, language), lines, class_="tsnb-t")]
    if rest := len(layers) - len(shown):
        text = more_text(rest, "rec.dump.to_dataframe()", facts)
        body.append(paragraph(small(text)))
    title = sentence(id, language, count=len(shown))
    return [details([title], *body, opened=len(shown) <= 12)]


def _path(path: str, language: str) -> str:
    return path or sentence("recording.whole_net", language)


def _card(facts: Mapping[str, Any]) -> Markup | None:
    card = facts.get("card")
    if not card:
        return None
    title = sentence("pages.provenance", facts["language"])
    return details([title], card_table(card, facts["language"]))


def recording_text(facts: Mapping[str, Any]) -> str:
    """Text repr of a Recording; takes what `recording_html` takes."""
    language = facts["language"]
    mark, _, id = _STATES.get(facts.get("state", "stopped"), _STATES["stopped"])
    title = sentence("recording.title_alone", language)
    if facts.get("label"):
        title = sentence("recording.title", language, label=repr(facts["label"]))
    lines = wrapped(" · ".join([title, f"{mark} {sentence(id, language)}", *_extent(facts)]), facts)
    lines += wrapped(" · ".join(_settings(facts)), facts, indent=2)
    lines += note_lines({**facts, "notes": _notes(facts)}, 4)
    missing = in_order(facts.get("missing", ()))
    if missing:
        lines.append(f"  {_missing_head(missing, facts)}")
        lines += [_one_line(one, facts, indent=4) for one in missing[:_MOST_KINDS]]
        if len(missing) > _MOST_KINDS:
            rest = more_text(len(missing) - _MOST_KINDS, "rec.missing", facts)
            lines.append(f"    ... {rest}")
    elif facts.get("calls"):
        lines.append(f"  ✓ {sentence('recording.missing_none', language)}")
    tail = []
    if facts.get("next"):
        tail = [f"  {spaced(sentence('pages.next', language), str(facts['next']))}"]
    lines += _layer_lines(facts, most_lines() - len(lines) - len(tail))
    return fitted([*lines, *tail], facts)


def _layer_lines(facts: Mapping[str, Any], room: int) -> list[str]:
    layers = list(facts.get("layers") or ())
    shown = layers if len(layers) <= room else layers[: max(room - 1, 0)]
    paths = [_path(path, facts["language"]) for path, *_ in shown]
    widest = min(max(map(width, paths), default=0), 48)
    lines = [
        f"  {padded(path, widest)}  {layer} ×{count:,}"
        for path, (_, layer, count) in zip(paths, shown, strict=True)
    ]
    if rest := len(layers) - len(shown):
        lines.append(f"  ... {more_text(rest, 'rec.dump.to_dataframe()', facts)}")
    return lines


def missing_html(rows: Iterable[MissingRow], facts: Mapping[str, Any]) -> str:
    """HTML repr of what a recording lacks; `facts` are the options."""
    found = in_order(rows)
    if not found:
        text = f"✓ {sentence('recording.missing_none', facts['language'])}"
        return fragment(paragraph(tone("ok", text)))
    head = paragraph(
        tone(_worst(found), _missing_head(found, facts)), style="margin:2px 0;font-size:16px"
    )
    return shortest(lambda most: fragment(head, *_missing_items(found, facts, most)), facts, 60)


def _worst(rows: Sequence[MissingRow]) -> str:
    return next((name for name in ("bad", "warn") if name in map(tone_of_kind, rows)), "")


def _missing_head(rows: Sequence[MissingRow], facts: Mapping[str, Any]) -> str:
    """How much is missing; what is meant, as a frozen parameter, counts only where it is all."""
    counted = [one for one in rows if tone_of_kind(one)] or rows
    count, kinds = sum(one.count for one in counted), len({one.kind for one in counted})
    said = sentence("recording.missing_head", facts["language"], count=count, kinds=kinds)
    return f"{_MARKS[_worst(rows)]} {said}"


def _missing_items(
    rows: Sequence[MissingRow], facts: Mapping[str, Any], most: int = _MOST_NAMES
) -> list[Markup]:
    opened = len(rows) <= _FEW
    items = [_missing_item(one, facts, most, opened) for one in rows[: max(most, 1)]]
    if rest := len(rows) - len(items):
        text = more_text(rest, "rec.missing.to_dataframe()", facts)
        items.append(paragraph(small(text)))
    return items


def _missing_item(one: MissingRow, facts: Mapping[str, Any], most: int, opened: bool) -> Markup:
    """What happened, how often and to whom; below it what to do, and all names."""
    language, name = facts["language"], tone_of_kind(one)
    what = f"{_MARKS[name]} {what_of(one, language)}"
    summary: list[object] = [tone(name, what, bold=name == "bad")]
    summary += [small(f" ×{one.count:,}")] if one.count > 1 else []
    if one.where:
        summary += [" · ", _names(one.where, language, _MOST_NAMES_OF_LINE)]
    cure, code = cure_of(one, language)
    below = [join(["→ ", cure, " " if code else None, element("code", code) if code else None])]
    if len(one.where) > _MOST_NAMES_OF_LINE and most > _MOST_NAMES_OF_LINE:
        below.append(small(_names(one.where, language, most)))
    return details(
        summary, *(paragraph(line, style="margin:2px 0 4px 24px") for line in below), opened=opened
    )


def _names(names: Sequence[str], language: str, most: int) -> Markup:
    net = sentence("recording.whole_net", language)
    shown = [samp(name or net) for name in names[:most]]
    if rest := len(names) - len(shown):
        shown.append(Markup(sentence("pages.more", language, count=rest)))
    return join(shown, sentence("pages.comma", language))


def missing_text(rows: Iterable[MissingRow], facts: Mapping[str, Any]) -> str:
    """Text repr of what a recording lacks; `facts` are the options."""
    found = in_order(rows)
    if not found:
        return fitted([f"✓ {sentence('recording.missing_none', facts['language'])}"], facts)
    parts = [
        [
            _one_line(one, facts, indent=2),
            *wrapped(f"→ {spaced(*cure_of(one, facts['language']))}", facts, indent=4),
        ]
        for one in found
    ]
    lines, shown = [_missing_head(found, facts)], 0
    while shown < len(parts) and len(lines) + len(parts[shown]) < most_lines():
        lines += parts[shown]
        shown += 1
    if rest := len(parts) - shown:
        lines.append(f"  ... {more_text(rest, 'rec.missing.to_dataframe()', facts)}")
    return fitted(lines, facts)


def _one_line(one: MissingRow, facts: Mapping[str, Any], indent: int) -> str:
    """What happened and how often, and as many names as a line holds, one at least."""
    language = facts["language"]
    what = what_of(one, language)
    count = f" ×{one.count:,}" if one.count > 1 else ""
    line = f"{' ' * indent}{_MARKS[tone_of_kind(one)]} {what}{count}"
    for most in range(min(len(one.where), _MOST_NAMES_OF_LINE), 0, -1):
        names = [name or sentence("recording.whole_net", language) for name in one.where[:most]]
        if rest := len(one.where) - most:
            names.append(sentence("pages.more", language, count=rest))
        shown = sentence("pages.comma", language).join(names)
        full = line + sentence("pages.colon", language) + shown
        if width(full) <= most_columns():
            return full
    return full if one.where else line


def ranges_text(numbers: Iterable[int], language: str = "en") -> str:
    """``0–9, 12, 20–100 by 10``: whole numbers as runs of one stride, the first few of them."""
    runs = _runs(sorted(set(map(int, numbers))))
    shown = [_run_text(*run, language) for run in runs[:_MOST_RANGES]]
    if rest := sum(count for _, count, _ in runs[_MOST_RANGES:]):
        shown.append(sentence("pages.more", language, count=rest))
    return sentence("pages.comma", language).join(shown)


def _runs(numbers: Sequence[int]) -> list[tuple[int, int, int]]:
    """First number, how many and stride of runs; of two numbers only neighbours are one."""
    runs: list[tuple[int, int, int]] = []
    i = 0
    while i < len(numbers):
        count, stride = 1, 1
        if i + 1 < len(numbers):
            stride = numbers[i + 1] - numbers[i]
            while i + count < len(numbers) and numbers[i + count] - numbers[i] == count * stride:
                count += 1
            if count == 2 and stride != 1:
                count = 1
        runs.append((numbers[i], count, stride))
        i += count
    return runs


def _run_text(first: int, count: int, stride: int, language: str) -> str:
    last = first + (count - 1) * stride
    if count == 1:
        return str(first)
    if stride == 1:
        return f"{first}–{last}"
    return sentence("recording.by_stride", language, first=first, last=last, stride=stride)
