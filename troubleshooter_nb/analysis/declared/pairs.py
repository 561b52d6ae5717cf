"""The pairs of two dumps that mapping files declare."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike

from troubleshooter_nb.analysis.declared.apis import api_pairs
from troubleshooter_nb.analysis.declared.claims import Claims, Unknown
from troubleshooter_nb.analysis.declared.modules import cell_pairs, layer_pairs
from troubleshooter_nb.analysis.declared.side import DumpNames, site_of_row
from troubleshooter_nb.dump import Dump
from troubleshooter_nb.formats.pairing_files import read_mapping
from troubleshooter_nb.formats.pairing_rules import MISSING, MappingFile, MappingKind, NameRule
from troubleshooter_nb.formats.yaml_nodes import shown
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming.hooks import sampled_name
from troubleshooter_nb.pairing import Match
from troubleshooter_nb.thresholds import DECLARED_TRIES

MappingSource = str | PathLike[str] | MappingFile


def declared_pairs(
    left: Dump,
    right: Dump,
    mapping: MappingSource | Sequence[MappingSource],
    *,
    unknown: Unknown = "error",
    notes: list[str] | None = None,
) -> list[Match]:
    """The pairs that mapping files declare, for the other matchers to begin with.

    Parameters
    ----------
    left, right : Dump
        In either order: the side that a name of the file belongs to is found out, for the file
        as a whole. As it stands is preferred.
    mapping : path, MappingFile, or sequence of them
        Of several the earlier ones win.
    unknown : {"error", "skip"}
        What to do about a name that the dumps do not have; ``skip`` is what msprobe does.
    notes : list of str, optional
        Gets what was not used, and why.

    Returns
    -------
    list of Match
        In the order of the left dump; method ``user``, confidence 1, with file and line as note.
        Rows without a partner are in it only where the file says that none is expected, or where
        both sides say that there is no gradient. Entries that no rule speaks of are left out.

    Raises
    ------
    MappingFileError
        If a file cannot be read, names what a dump lacks, says nothing about these dumps, counts
        beyond the arguments that the dumps have, or gives one row two partners; with file, line
        and key.

    Notes
    -----
    A row of data that only a dump of another level could have (modules, where only operators
    were dumped) is skipped with a note, as in msprobe's documented example.

    Source: msprobe's documentation. Unlike msprobe, parameters are matched in torch's spelling,
    their gradients under renamed layers, and primitives without their class.
    """
    one = isinstance(mapping, str | PathLike | MappingFile)
    sources = [mapping] if one else list(mapping)  # type: ignore[arg-type]
    sides = DumpNames(left, "left"), DumpNames(right, "right")
    said = [] if notes is None else notes
    used: tuple[dict[int, str], dict[int, str]] = {}, {}
    matches: list[Match] = []
    for source in sources:
        file = source if isinstance(source, MappingFile) else read_mapping(source)  # type: ignore[arg-type]
        swapped = _fit(file, sides[1], sides[0]) > _fit(file, sides[0], sides[1])
        claims = Claims(file, *(sides[::-1] if swapped else sides), unknown, said, swapped)
        claims.used = used[::-1] if swapped else used
        _APPLY[file.kind](claims)
        matches += claims.matches()
    return sorted(matches, key=lambda m: (m.left < 0, m.left if m.left >= 0 else m.right))


def _fit(file: MappingFile, source: DumpNames, target: DumpNames) -> int:
    """How many names of the file are known where its sides would be these."""
    if file.kind == "api":
        return sum(
            bool(source.operators_of(rule.left)) + bool(target.operators_of(rule.right))
            for rule in file.apis
        )
    if file.kind == "cell":
        return sum(
            any((rule.left or "") in name for name in source.cells)
            + any((rule.right or "") in name for name in target.cells)
            for rule in file.names
        )
    if file.kind == "layer":
        fits = 0
        here, there = (side.attributes | side.inner_names for side in (source, target))
        for rule in file.names:
            left, right = ((rule.left or "").split("."), (rule.right or "").split("."))
            fits += here.issuperset(left) + there.issuperset(right)
        classes = set(source.classes.values())
        return fits + sum(parent in classes for parent, _ in file.parents)
    return sum(
        bool(rule.left and source.rows_of(rule.left))
        + bool(rule.right and target.rows_of(rule.right))
        for rule in file.names[:DECLARED_TRIES]
    )


def _data_pairs(claims: Claims) -> None:
    """Rows named one by one."""
    rules = claims.file.names
    before = len(claims.notes)
    unused = sum(not _is_applied(claims, rule) for rule in rules)
    if rules and unused == len(rules):
        why: str = ""
        if len(claims.notes) > before and isinstance(note := claims.notes[before], Message):
            why = Message("mappings.because", why=note.values["text"])
        said = Message("mappings.no_row_used", count=len(rules), why=why)
        claims.lacks(rules[0].line, "", said)


def _is_applied(claims: Claims, rule: NameRule) -> bool:
    """Declare what a row says; whether it met anything in the dumps."""
    sides = ((claims.source, rule.left), (claims.target, rule.right))
    rows = [side.rows_of(name) if name else {} for side, name in sides]
    lacking = [
        (side, name) for (side, name), found in zip(sides, rows, strict=True) if name and not found
    ]
    if lacking and all(side.rows_of(sampled_name(name)) for side, name in lacking):
        return True  # the first values of a whole tensor: they follow it, wherever it goes
    if lacking:
        _lack(claims, rule, lacking)
        return False
    note = claims.where([rule])
    if rule.left is None or rule.right is None:
        for in_source, found in zip((True, False), rows, strict=True):
            for row in found.values():
                said = Message("pairings.expected_by", where=note)
                claims.alone(row, said, in_source=in_source)
        return True
    places = sorted(rows[0].keys() & rows[1].keys())
    if not places:
        text = Message("mappings.other_places", name=shown(rule.right))
        claims.lacks(rule.line, rule.left, text)
    for place in places:
        claims.pair(rows[0][place], rows[1][place], note, rule=rule, key=rule.left)
    return bool(places)


def _lack(claims: Claims, rule: NameRule, lacking: list[tuple[DumpNames, str]]) -> None:
    for side, name in lacking:
        site = site_of_row(name)
        if site and site.kind not in side.kinds:
            kind = site.kind if site.kind in ("module", "api", "debug") else ""
            id = f"mappings.none_of_{kind or 'kind'}"
            said = {"name": shown(name), "where": side.where, "kind": site.kind}
            claims.note(rule.line, "", Message(id, **said))
            return
    side, name = lacking[0]
    key = rule.left or MISSING
    text = Message("mappings.no_such_row", name=shown(name), where=side.where)
    claims.lacks(rule.line, key, text, name=name, known=side.by_name)


_APPLY: Mapping[MappingKind, Callable[[Claims], None]] = {
    "api": api_pairs,
    "cell": cell_pairs,
    "data": _data_pairs,
    "layer": layer_pairs,
}
