"""What a comparison found out, in sentences: where a difference began and what caused it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any, NamedTuple

import xarray as xr

from troubleshooter_nb import catalogue
from troubleshooter_nb.catalogue.words import NOT_LISTED
from troubleshooter_nb.messages import Message, told
from troubleshooter_nb.messages.sentences import SENTENCES
from troubleshooter_nb.naming.evidence import evidence_word, fact_name
from troubleshooter_nb.render.calls import call_text
from troubleshooter_nb.render.html import (
    Markup,
    element,
    fragment,
    heading,
    join,
    paragraph,
    samp,
    small,
    tone,
)
from troubleshooter_nb.render.lines import gap, spaced, wrapped
from troubleshooter_nb.render.neighbours import readers_line, wired_line
from troubleshooter_nb.render.numbers import growth_text, scientific
from troubleshooter_nb.render.places import place_said
from troubleshooter_nb.render.rows import scalar_row
from troubleshooter_nb.render.words import reason_text
from troubleshooter_nb.thresholds import FORMULA_FLOORS, LIKELY, POSSIBLE

# A growth that is smaller than this share of the error over its source's is over rounding.
_NOT_OF_SOURCE = 0.7
_MOST_BESIDES, _MOST_FACTS, _MOST_PLACES = 3, 5, 8
_UNKNOWN = "–"
# What is said of a check: its mark, and its tone.
_CHECKS = {"ok": ("✓", ""), "bad": ("✗", "bad"), "note": ("○", "warn"), "unknown": ("?", "warn")}
_ASCII_CHECKS = {"ok": "ok", "bad": "x", "note": "-", "unknown": "?"}
_STATUS_OF_GAPS = ("note", "bad", "unknown")  # by weight
# Relative errors in the evidence, shown as all errors are.
_ERRORS = ("before", "residual", "rival", "self_noise", "first", "later")
_PARTS = ("check", "origin", "cause", "repair")
_SIDES = ("left", "right")
# Why nothing is said of where a row's difference comes from, by `Origins.basis`.
_NOT_CREATED = {"unknown": "order_unknown", "guess": "only_a_guess"}
# Facts that hold names of tensors, layers or settings, which no language changes.
_NAMES = frozenset(("other", "equal", "duplicates", "norm", "part", "setting", "meant", "gates"))
_BETWEEN = re.compile("(?<=[\u4e00-\u9fff])(?<![侧轴]) (?=[\u4e00-\u9fff])")


class Said(NamedTuple):
    """A sentence of an explanation: the part it belongs to, its first words, and the rest."""

    part: str
    lead: str
    text: str = ""

    @property
    def whole(self) -> str:
        """The sentence as plain text."""
        return spaced(self.lead, self.text)


def _told(key: str, language: str, **values: Any) -> str:
    """A sentence of `messages.explanations`."""
    return Message(f"explanations.{key}", **values).told(language)


def _has(key: str) -> bool:
    return f"explanations.{key}" in SENTENCES


def origin_sentence(row: Mapping[str, Any], language: str) -> str:
    """How a difference came to be: created in a call, a root that differs, or carried.

    Parameters
    ----------
    row : mapping
        A row of `Comparison.result`.
    language : str
        "en" or "zh".

    Returns
    -------
    str
        Empty where nothing is known of it.
    """
    error, source = float(row["rel_l2_error"]), float(row["source_error"])
    growth = float(row["growth"])
    shown = {
        "rel": scientific(error),
        "source": scientific(source),
        "growth": growth_text(growth),
    }
    if source > 0 and growth * source < _NOT_OF_SOURCE * error:
        # What it was given differs by less than rounding leaves.
        shown["growth"] += _told("over_rounding", language)
    if row["origin"] == "carried":
        known = (
            math.isfinite(error) and math.isfinite(source) and source > 0 and growth_text(growth)
        )
        return _told("origin_carried", language, **shown) if known else ""
    if row["origin"] != "created":
        return ""
    basis = str(row["origin_basis"])
    if basis == "update" and row["role"] == "buffer":
        return _told("origin_buffer_update", language)
    # NaN and shapes are counted, not measured: the reason of the row says how many.
    measured = math.isfinite(error) and row["verdict"] not in ("nan", "shape")
    if measured and error < source < math.inf:
        return _told("origin_smaller", language, **shown)
    if basis in ("", "inputs"):
        basis = "backward" if row["direction"] == "backward" else "inputs"
    variant = "_unmeasured" if not measured else "_equal" if source == 0 else ""
    if not measured and source == 0 and _has(f"origin_{basis}_new"):
        variant = "_new"
    key = f"origin_{basis}{variant}"
    return _told(key if _has(key) else f"origin_{basis}", language, **shown)


def how_sentence(row: Mapping[str, Any], neighbours: Mapping[str, Any], language: str) -> str:
    """How a difference came to be, as `origin_sentence` says it or who feeds the call does.

    What work between the calls may have made is known then to be the result of another call.
    """
    return wired_line(neighbours, language) or origin_sentence(row, language)


def cause_title(cause: str, language: str) -> str:
    """A cause in a few words; its id where it has none."""
    return catalogue.of(cause).title[language == "zh"] or cause


def cause_proof(finding: Mapping[str, Any], language: str) -> str:
    """The numbers that prove a finding, in a sentence.

    Several computations may prove one cause; where the evidence is not of the kind that its own
    sentence wants, a general one is filled with what there is.
    """
    evidence = finding["evidence"]
    template = catalogue.of(str(finding["cause"])).proof[language == "zh"]
    if _proof_is_filled(finding, language):
        return _as_sentence(template, _filled(template, evidence, language))
    has_sides = all(_is_known(evidence.get(side)) for side in _SIDES)
    gaps = _Gaps(evidence, language)
    key = "proof_sides" if has_sides else "proof_undone"
    said = _told(key, language, **{name: gaps[name] for name in (*_SIDES, *_ERRORS)})
    if has_sides:
        return said
    known = {
        name: value
        for name, value in evidence.items()
        if name not in _ERRORS and name not in NOT_LISTED
        if isinstance(value, str | int | float) and value != ""
    }
    facts = _listed(dict([*known.items()][:_MOST_FACTS]), language, ", ")
    brackets = "\uff08{}\uff09" if language == "zh" else " ({})"
    return f"{said}{brackets.format(facts)}" if facts else said


def _proof_is_filled(finding: Mapping[str, Any], language: str) -> bool:
    """Whether the evidence is of the kind that the sentence of its cause wants."""
    template = catalogue.of(str(finding["cause"])).proof[language == "zh"]
    known = (finding["evidence"].get(name) for name in _names_in(template))
    return bool(template) and all(map(_is_known, known))


def _as_sentence(template: str, text: str) -> str:
    """With a capital where a word of ours begins it, and no name."""
    begins = template.startswith(("{text}", "{what}"))
    return text[:1].upper() + text[1:] if begins else text


def cause_repair(finding: Mapping[str, Any], language: str) -> str:
    """What to do about a finding, in a sentence."""
    template = catalogue.of(str(finding["cause"])).repair[language == "zh"]
    return _filled(template, finding["evidence"], language)


def cause_sentences(
    findings: Sequence[Mapping[str, Any]], language: str, number: int = -1
) -> list[Said]:
    """The likely cause with proof and repair, then what else is possible.

    Parameters
    ----------
    findings : sequence of mapping
        Fields of `Finding`, the surest first.
    language : str
        "en" or "zh".
    number : int
        Pair number of the first difference: where a cause acts elsewhere, it says where.
    """
    sure = [finding for finding in findings if finding["confidence"] >= POSSIBLE]
    if not sure:
        return [Said("cause", "", _told("no_cause", language))]
    here = [f for f in sure if number in f["evidence"].get("pairs", [f["pair"]])]
    # What acts later in the order cannot be why the first difference is there.
    earlier = [f for f in sure if f["pair"] < number]
    if number >= 0 and not here and not earlier:
        named = _named(sure, language)
        return [
            Said("cause", "", _told("no_cause", language)),
            Said("cause", "", _told("causes_elsewhere", language, causes=named)),
        ]
    best = (here or earlier or sure)[0]
    others = [finding for finding in sure if finding is not best]
    key = "cause_likely" if best["confidence"] >= LIKELY else "cause_possible"
    title = cause_title(str(best["cause"]), language)
    lead = _told(key, language, cause=title, confidence=f"{best['confidence']:.0%}")
    pairs = best["evidence"].get("pairs", [best["pair"]])
    if number not in pairs:
        lead = spaced(lead, _told("cause_at", language, number=best["pair"]))
    proof = cause_proof(best, language)
    if len(pairs) > 1:
        some = [f"#{one}" for one in pairs[:_MOST_PLACES]]
        said = ", ".join(some) + (", …" if len(pairs) > len(some) else "")
        proof = spaced(proof, _told("cause_places", language, count=len(pairs), pairs=said))
    found = [Said("cause", lead, proof)]
    if repair := cause_repair(best, language):
        found.append(Said("repair", _told("repair", language), repair))
    if others:
        named = _named(others, language)
        found.append(Said("cause", "", _told("causes_besides", language, causes=named)))
    return found


def answers_of(facts: Mapping[str, Any]) -> list[int]:
    """Numbers of the pairs that the likely cause is told of first."""
    return [f["pair"] for f in facts["findings"][:1] if f["confidence"] >= LIKELY]


def why_sentences(facts: Mapping[str, Any], number: int) -> list[Said]:
    """The likely cause of the first difference; where none is proved, what its values show."""
    language, observed = facts["language"], facts["observed"]
    said = cause_sentences(facts["findings"], language, number)
    if observed.get("pair") == number:
        said[1:1] = observed_sentences(observed, language)
    return said


def procedure_sentences(values: Mapping[str, Any], facts: Mapping[str, Any]) -> list[Said]:
    """Where no cause is likely: what was tried, what would decide it, and how to look further.

    Parameters
    ----------
    values : mapping
        The row of the first difference.
    facts : mapping
        As `explanation_sentences` takes them.
    """
    language, observed = facts["language"], facts["observed"]
    if observed.get("pair") != int(values["order"]):
        return []
    said = [
        Said("cause", "", _told("tried", language, layer=one["as"], **_missed(one, language)))
        for one in observed.get("tried", ())
        if any(math.isfinite(float(one[side])) for side in _SIDES)
    ]
    decides = {
        "order": ("to_decide_inputs", "tnb.record(net, to=...)"),
        "between": ("to_decide_between", 'tnb.record(net, level="both", to=...)'),
    }.get(str(values["origin_basis"]))
    steps = [_told(decides[0], language, call=call_text(decides[1]))] if decides else []
    if facts.get("neighbours", {}).get("fed"):
        steps = [Message("neighbours.see_code").told(language)]
    given = observed.get("given", -1)
    if given >= 0 and values["role"] not in ("parameter", "buffer"):
        call = call_text(f"{facts['calls']['pairs']}[{given}].right.values")
        steps.append(_told("to_replay", language, number=given, call=call))
    for side in observed.get("nets", ()):
        other = _SIDES[side == _SIDES[0]]
        steps.append(_told("to_replay_net", language, call=f"tnb.replay({side}_net, {other})"))
    lead = _told("repair", language)
    return [*said, *(Said("repair", lead, step) for step in steps)]


def _handed_on(values: Mapping[str, Any], facts: Mapping[str, Any]) -> list[Said]:
    """How to give away the call that made the difference, if that is one whose values are known."""
    language = facts["language"]
    is_call = (values["role"], values["direction"]) == ("output", "forward")
    is_made = (values["origin"], str(values["origin_basis"])) == ("created", "inputs")
    if not is_call or not is_made or not math.isfinite(float(values["max_abs_error"])):
        return []
    name = f"{facts['calls']['pairs']}, {int(values['order'])}, 'call_{int(values['order'])}'"
    call = call_text(f"tnb.export_reproduction({name})")
    return [Said("repair", _told("repair", language), _told("hand_on", language, call=call))]


def _missed(one: Mapping[str, Any], language: str) -> dict[str, str]:
    """How well one formula gives each side."""

    def said(over: float) -> str:
        if not math.isfinite(over):
            return _told("nothing_like", language)
        if over <= FORMULA_FLOORS:
            return _told("fits", language)
        return _told("missed_by", language, times=scientific(over))

    return {side: said(float(one[side])) for side in _SIDES}


def observed_sentences(observed: Mapping[str, Any], language: str) -> list[Said]:
    """What the values show that is no cause by itself.

    Parameters
    ----------
    observed : mapping
        As `Comparison.observed`.
    language : str
        "en" or "zh".
    """
    # What each side made it from says most; a factor, an order and a lag more than equal moments.
    kinds = ("made", "scale", "relation", "shift", "order", "moments")
    kind = next((k for k in kinds if k in observed), None)
    if kind is None:
        return []
    shown = dict(observed[kind])
    if kind == "scale":
        is_whole = shown["axis"] is None
        kind = "scale" if is_whole else "scale_per_index"
        offset = float(shown["offset"][0]) if is_whole else 0.0
        factor = f"{float(shown['scale'][0]):.6g}"
        shown["factor"] = "" if offset and factor == "1" else f" × {factor}"
        sign = "−" if offset < 0 else "+"
        shown["offset"] = f" {sign} {abs(offset):.6g}" if offset else ""
    if "residual" in shown:
        shown["residual"] = scientific(float(shown["residual"]))
    return [Said("cause", "", _told(f"observed_{kind}", language, **shown))]


def place_sentence(observed: Mapping[str, Any], number: int, language: str) -> str:
    """Where in the tensor of pair `number` the error lies; empty where that is not known.

    `observed` is as `Comparison.observed`, which knows it where no cause is proved.
    """
    place = observed.get("place")
    if not place or observed.get("pair") != number:
        return ""
    return told(place_said(place), language)


def _named(findings: Sequence[Mapping[str, Any]], language: str) -> list[str]:
    return [
        f"{cause_title(str(f['cause']), language)} ({f['confidence']:.0%}, #{f['pair']})"
        for f in findings[:_MOST_BESIDES]
    ]


def check_line(check: Mapping[str, Any], language: str) -> str:
    """One check of the preflight in a few words."""
    key = f"check_{check['what']}_{check['status']}"
    return _told(key, language, **check["values"]) if _has(key) else key


def checks_text(checks: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> str:
    """Each check in a line behind its mark."""
    language = facts["language"]
    lines: list[str] = []
    for check in checks:
        status = check["status"]
        mark = _ASCII_CHECKS[status] if facts["ascii"] else _CHECKS[status][0]
        lines += wrapped(spaced(mark, check_line(check, language)), facts)
    return "\n".join(lines) or _told("no_checks", language)


def checks_html(checks: Sequence[Mapping[str, Any]], language: str) -> str:
    """Each check in a line behind its mark, what does not hold in its tone."""
    lines = []
    for check in checks:
        mark, name = _CHECKS[check["status"]]
        text = f"{mark}\N{NO-BREAK SPACE}{check_line(check, language)}"
        lines.append(paragraph(tone(name, text, bold=check["status"] == "bad")))
    return fragment(*(lines or [paragraph(_told("no_checks", language))]))


def check_marks(checks: Sequence[Mapping[str, Any]], language: str) -> Markup | None:
    """All checks in one small line, what does not hold in its tone; None where none was made."""
    if not checks:
        return None
    parts = []
    for check in checks:
        mark, name = _CHECKS[check["status"]]
        text = f"{mark}\N{NO-BREAK SPACE}{check_line(check, language)}"
        parts.append(tone(name, text, bold=check["status"] == "bad"))
    title = _told("comparable", language)
    return small(title, gap(title), join(parts, " · "))


def explanation_sentences(row: xr.Dataset | None, facts: Mapping[str, Any]) -> list[Said]:
    """What a comparison found out: whether it can be, where, why, and what to do."""
    language, marks = facts["language"], _ASCII_CHECKS if facts["ascii"] else None
    said = [
        Said(
            "check",
            marks[c["status"]] if marks else _CHECKS[c["status"]][0],
            check_line(c, language),
        )
        for c in facts["checks"]
    ] or [Said("check", "", _told("no_checks", language))]
    for one in facts["gaps"]:
        status = _STATUS_OF_GAPS[one["weight"]]
        mark = marks[status] if marks else _CHECKS[status][0]
        said.append(Said("check", mark, told(one["said"], language)))
    if padded := facts["observed"].get("padded"):
        said.append(Said("origin", "", _told("padded_alone", language, **padded)))
    if row is None:
        # A difference that a gap proves begins where no row can say, and what is open may as well.
        if not any(one["weight"] for one in facts["gaps"]):
            said.append(Said("origin", "", _told("no_origin", language)))
        return [*said, *(Said("origin", "", text) for text in facts.get("excused", ()))]
    values = scalar_row(row)
    name = f"{values['left_display'] or values['right_display']} (#{int(values['order'])})"
    name = facts.get("where", "") + name
    passes = _told("within_tolerance", language, rel=scientific(float(values["rel_l2_error"])))
    said.append(Said("origin", name, reason_text(values, language) or passes))
    found = facts.get("neighbours", {})
    if origin := how_sentence(values, found, language):
        said.append(Said("origin", "", origin))
    role = str(values["role"])
    if values["origin"] == "created" and (read := readers_line(found, role, language)):
        said.append(Said("origin", "", read))
    if place := place_sentence(facts["observed"], int(values["order"]), language):
        said.append(Said("origin", "", place))
    if values["origin"] or facts["checks"]:
        if values["origin"] != "created":
            key = _NOT_CREATED.get(str(values["origin_basis"]), "none_created")
            said.append(Said("origin", "", _told(key, language)))
        why = why_sentences(facts, int(values["order"]))
        # A cause that is told has words of its own in front, and says what to do.
        said += why if any(one.lead for one in why) else [*why, *procedure_sentences(values, facts)]
        said += _handed_on(values, facts)
    else:
        call = call_text(facts["calls"]["diagnose"])
        said.append(Said("cause", "", _told("nothing_asked", language, call=call)))
    return said


def explanation_text(row: xr.Dataset | None, facts: Mapping[str, Any]) -> str:
    """Plain text of an explanation: each part under its heading."""
    language = facts["language"]
    lines: list[str] = []
    for part, sentences in sentences_by_part(row, facts):
        lines.append(part_title(part, language))
        for said in sentences:
            lines += wrapped(said.whole, facts, indent=2)
    if facts["findings"]:
        lines.append(_told("part_findings", language))
        lines += _finding_lines(facts["findings"], facts, indent=2)
    return "\n".join(lines)


def findings_text(findings: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> str:
    """Each finding with the figures of its proof."""
    lines = _finding_lines(findings, facts, indent=0)
    return "\n".join(lines) or _told("no_findings", facts["language"])


def _finding_lines(
    findings: Sequence[Mapping[str, Any]], facts: Mapping[str, Any], indent: int
) -> list[str]:
    lines, language = [], facts["language"]
    for finding in findings:
        title, figures, rest = finding_parts(finding, language)
        lines += wrapped(title, facts, indent=indent)
        both = Message("lists.semicolon", parts=[*filter(None, (figures, rest))])
        lines += wrapped(both.told(language), facts, indent=indent + 4)
    return lines


def explanation_html(row: xr.Dataset | None, facts: Mapping[str, Any]) -> str:
    """HTML of an explanation: each part under its heading."""
    language = facts["language"]
    sections: list[Markup] = []
    for part, sentences in sentences_by_part(row, facts):
        sections.append(heading(part_title(part, language)))
        sections += [said_html(said) for said in sentences]
    if facts["findings"]:
        sections.append(heading(_told("part_findings", language)))
        sections += findings_html(facts["findings"], language)
    return fragment(*sections)


def part_title(part: str, language: str) -> str:
    """The heading of a part of an explanation."""
    return _told(f"part_{part}", language)


def sentences_by_part(
    row: xr.Dataset | None, facts: Mapping[str, Any]
) -> list[tuple[str, list[Said]]]:
    """The sentences under the headings, which say what the first words of a repair say."""
    said = explanation_sentences(row, facts)
    said = [one._replace(lead="") if one.part == "repair" else one for one in said]
    parts = [(part, [one for one in said if one.part == part]) for part in _PARTS]
    return [(part, sentences) for part, sentences in parts if sentences]


def findings_html(findings: Sequence[Mapping[str, Any]], language: str) -> list[Markup]:
    """Each finding with the figures of its proof and its evidence."""
    found = []
    for finding in findings:
        title, figures, rest = finding_parts(finding, language)
        found.append(paragraph(title, element("br"), small(figures, element("br"), samp(rest))))
    return found


def findings_view(findings: Sequence[Mapping[str, Any]], language: str) -> str:
    """As `findings_html`, as a page of its own."""
    shown = findings_html(findings, language)
    return fragment(*(shown or [paragraph(_told("no_findings", language))]))


def said_html(said: Said) -> Markup:
    """A sentence with its first words in bold."""
    return paragraph(
        element("b", said.lead) if said.lead else None, said.whole.removeprefix(said.lead)
    )


def finding_parts(finding: Mapping[str, Any], language: str) -> tuple[str, str, str]:
    """A finding as title, figures of its proof, and everything else in its evidence."""
    evidence = finding["evidence"]
    gaps = _Gaps(evidence, language)
    title = (
        f"#{finding['pair']} {cause_title(str(finding['cause']), language)} "
        f"({finding['cause']}, {finding['confidence']:.0%})"
    )
    figures = _told(
        "finding_figures", language, **{n: gaps[n] for n in ("before", "residual", "rival")}
    )
    told = {"before", "residual", "rival", *NOT_LISTED}
    if _proof_is_filled(finding, language):
        told |= _names_in(catalogue.of(str(finding["cause"])).proof[language == "zh"])
    others = {
        name: value
        for name, value in evidence.items()
        if name not in told and _says_anything(value) and not isinstance(value, Mapping)
    }
    pairs = others.pop("pairs", [])
    if len(pairs) > 1:
        others["pairs"] = [f"#{number}" for number in pairs]
    return title, figures, _listed(others, language)


def _says_anything(value: Any) -> bool:
    return not (isinstance(value, str | list | tuple) and not value)


def _listed(facts: Mapping[str, Any], language: str, between: str = "; ") -> str:
    return ("\uff1b" if language == "zh" else between).join(
        f"{_fact_told(name, language)} {_shown_fact(name, value, language)}"
        for name, value in facts.items()
    )


def _fact_told(name: str, language: str) -> str:
    """What a fact is called; in English at least in plain words."""
    called = told(fact_name(name), language)
    return called.replace("_", " ") if language == "en" else called


def shown_value(value: Any, language: str = "en", *, is_name: bool = False) -> str:
    """A number of the evidence in a few digits, anything else as text; a name as it is."""
    comma = "、" if language == "zh" else ", "
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, bool):
        return (("no", "yes"), ("否", "是"))[language == "zh"][value]
    if isinstance(value, float):
        return _short(f"{value:.4g}") if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return comma.join(
            f"{key} {_shown_fact(key, item, language)}" for key, item in value.items()
        )
    if isinstance(value, list | tuple):
        shown = comma.join(shown_value(item, language, is_name=is_name) for item in value[:6])
        return shown + (" …" if len(value) > 6 else "")
    if not _is_known(value):
        return _UNKNOWN
    word = value if is_name or not isinstance(value, str) else evidence_word(value)
    return told(word, language)


def _shown_fact(name: str, value: Any, language: str) -> str:
    """A value of the evidence by its name; names of tensors are the same in all languages."""
    return shown_value(value, language, is_name=name in _NAMES)


def _is_known(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isnan(value)
    return value is not None


def _short(text: str) -> str:
    """A number whose power of ten has no sign or zeros that say nothing: 1e-05 as 1e-5."""
    digits, letter, power = text.partition("e")
    return f"{digits}e{int(power)}" if letter else text


def _names_in(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name}


def _filled(template: str, evidence: Mapping[str, Any], language: str) -> str:
    text = template.format_map(_Gaps(evidence, language))
    # Templates expect an English word between Chinese ones; "左侧 是" and "轴 头" need their space.
    return _BETWEEN.sub("", text) if language == "zh" else text


class _Gaps(dict[str, Any]):
    """Evidence as it is shown; what is missing is a dash."""

    def __init__(self, evidence: Mapping[str, Any], language: str) -> None:
        super().__init__(evidence)
        self._language = language

    def __getitem__(self, name: str) -> _Shown:
        value = dict.get(self, name)
        if name in _ERRORS and isinstance(value, float) and math.isfinite(value):
            return _Shown(scientific(value), value)
        return _Shown(_shown_fact(name, value, self._language), value)

    def __missing__(self, name: str) -> _Shown:
        return _Shown(_UNKNOWN, None)


class _Shown(str):
    """A value as it is shown, that also takes the format of a number if it is one."""

    value: Any

    def __new__(cls, text: str, value: Any) -> _Shown:
        shown = super().__new__(cls, text)
        shown.value = value
        return shown

    def __format__(self, form: str) -> str:
        if not form or not _is_known(self.value) or not isinstance(self.value, int | float):
            return str(self)
        return _short(format(self.value, form))
