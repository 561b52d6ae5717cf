"""Our own verdict beside an old table, and where the two disagree."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from troubleshooter_nb.analysis.engine import compare
from troubleshooter_nb.comparison import Comparison
from troubleshooter_nb.compat.msprobe.compare.tables import NAMES, REACHED, Table
from troubleshooter_nb.compat.msprobe.compare.values import NOTHING
from troubleshooter_nb.compat.msprobe.compare.verdicts import FLAGGED, PASSING
from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import MappingFileError, TroubleshooterError, TroubleshooterWarning
from troubleshooter_nb.formats.pairing_rules import MappingFile
from troubleshooter_nb.messages import Message, joined, message_of
from troubleshooter_nb.render.explanation import sentences_by_part
from troubleshooter_nb.render.words import DIFFERING

_MOST = 2  # sentences of a line
_OPEN = ("undecidable", "unreadable")


@dataclass(frozen=True)
class Beside:
    """What is said beside a table: three lines of ours, and why the two disagree."""

    lines: list[str]
    why: list[str]


def beside(
    left: Dump | Path,
    right: Dump | Path,
    mappings: Sequence[MappingFile],
    table: Table,
    *,
    fuzzy: bool = False,
) -> Beside:
    """Compare the two dumps ourselves, and say what that finds and how the table differs from it.

    Parameters
    ----------
    left, right : Dump or path
    mappings : sequence of MappingFile
    table : Table
        The old tool's.
    fuzzy : bool
    """
    unused: list[str] = []
    try:
        found = _compared(left, right, list(mappings), unused, fuzzy=fuzzy)
    except (TroubleshooterError, OSError) as error:
        return Beside([Message("msprobe_compare.not_ours", why=message_of(error))], [])
    return Beside([*unused, *_lines(found)], list(_reasons(found, table)))


def _compared(
    left: Dump | Path,
    right: Dump | Path,
    mappings: list[MappingFile],
    unused: list[str],
    *,
    fuzzy: bool,
) -> Comparison:
    """Our comparison; `unused` gets what of the mappings met nothing, as lines."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", TroubleshooterWarning)
            found = compare(left, right, mapping=mappings or None, fuzzy=fuzzy)
        texts = dict.fromkeys(str(one.message) for one in caught)
        unused += [Message("pages.note", text=text) for text in texts]
    except MappingFileError as error:
        # The old tool passes over names that the dumps do not have; without them is better than
        # no answer.
        unused.append(Message("msprobe_compare.mapping_not_used", why=message_of(error)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TroubleshooterWarning)
            return compare(left, right, fuzzy=fuzzy)
    return found


def _lines(found: Comparison) -> list[str]:
    explained = found.explain()
    parts = dict(sentences_by_part(explained.row, explained.facts))
    lines: list[str] = [Message("msprobe_compare.ours_verdict", text=found.verdict)]
    nothing = Message("msprobe_compare.nothing_differs" if found.passed else "msprobe_compare.none")
    if found.exit_code == 2:
        # Nothing differs in what was decided, which says nothing of the rest.
        unknown = Message("msprobe_compare.ours_unknown")
        return [*lines, Message("msprobe_compare.ours_origin", text=unknown)]
    # The first sentence of a beginning names the place, and ends without a stop.
    for part, between in (("origin", ";"), ("cause", " ")):
        said = [one.whole for one in parts.get(part, [])[:_MOST]]
        text = joined(said, between) if said else nothing
        lines.append(Message(f"msprobe_compare.ours_{part}", text=text))
    return lines


def _reasons(found: Comparison, table: Table) -> Iterator[str]:
    """Why the table says otherwise, as far as it does."""
    columns = found.columns
    ours: dict[str, int] = {}
    for side in ("left", "right"):
        ours |= {str(name): row for row, name in enumerate(columns[side]) if name}
    silent: list[str] = []
    flagged: list[str] = []
    open_: list[tuple[str, str]] = []
    passed: list[tuple[str, str]] = []
    unmatched = 0
    for cells, names in zip(table.rows, table.names, strict=True):
        if NOTHING in (cells[name] for name in NAMES):
            unmatched += 1
            continue
        rows = [ours[name] for name in names if name in ours]
        verdicts = {str(columns["verdict"][row]) for row in rows}
        name = str(cells[NAMES[0]])
        if cells[table.verdict] not in FLAGGED:
            silent += [name] if verdicts & set(DIFFERING) else []
            is_passed = cells[table.verdict] in PASSING
            unsure = [row for row in rows if str(columns["verdict"][row]) in _OPEN and is_passed]
            passed += [(name, str(columns["reason"][row])) for row in unsure[:1]]
        elif "undecidable" in verdicts:
            open_.append((name, str(columns["reason"][rows[0]])))
        elif verdicts and not verdicts & set(DIFFERING):
            flagged.append(name)
    if silent:
        why = _why_silent(table)
        said = {"count": len(silent), "name": silent[0]}
        yield Message("msprobe_compare.says_less", **said, why=Message(f"msprobe_compare.{why}"))
    if flagged:
        yield Message("msprobe_compare.says_more", count=len(flagged), name=flagged[0])
    if open_:
        said = {"count": len(open_), "name": open_[0][0], "why": open_[0][1]}
        yield Message("msprobe_compare.leaves_open", **said)
    if passed:
        said = {"count": len(passed), "name": passed[0][0], "why": passed[0][1]}
        yield Message("msprobe_compare.passes_open", **said)
    if unmatched or table.golden_only:
        counts = {"count": unmatched, "others": len(table.golden_only)}
        alone = int((columns["verdict"] == "missing").sum())
        yield Message("msprobe_compare.unmatched", **counts, ours=alone)


def _why_silent(table: Table) -> str:
    if table.rule == "current":
        return "silent_current"
    if "Cosine" in table.headings:
        return "silent_tensors"
    return "silent_kernels" if table.verdict == REACHED else "silent_statistics"
