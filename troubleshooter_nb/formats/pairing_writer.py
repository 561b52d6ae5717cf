"""Pairings written as mapping files, to read, edit and use again."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import get_args

from troubleshooter_nb.errors import ArgumentError, MappingFileError, TroubleshooterWarning, path_of
from troubleshooter_nb.formats.aside import written_whole
from troubleshooter_nb.formats.layer_names import LayerNames
from troubleshooter_nb.formats.mapping_file import not_written_as
from troubleshooter_nb.formats.pairing_files import kind_of
from troubleshooter_nb.formats.pairing_operators import OperatorRule, operator_rules, some_of
from troubleshooter_nb.formats.pairing_rules import MISSING, ROOTS, MappingKind, NameRule
from troubleshooter_nb.formats.yaml_nodes import read_nodes, whole
from troubleshooter_nb.messages import Message, ids_of, told
from troubleshooter_nb.naming import canonical_parameter
from troubleshooter_nb.pairing import EXPECTED, Pairing, places_of
from troubleshooter_nb.shapes import Shape

_PLAIN = re.compile(r"[A-Za-z_][\w./-]*", re.ASCII)
# Words that yaml takes for something else than text where they stand without quotes.
_NOT_TEXT = {"true", "false", "yes", "no", "on", "off", "y", "n", "null", MISSING.lower()}
_LONGEST_KEY = 1000  # yaml's own limit is 1024
_MOST_COMMENTS = 1000
_MOST_NAMED = 3
# Of the notes of entries that a person, or a mapping, declared to have no partner.
_DECLARED = {EXPECTED, "pairings.expected_by"}


@dataclass(frozen=True)
class _Lines:
    """The lines of a mapping, those of what they do not say, and the rows that they pair."""

    body: list[str]
    unsaid: list[Message]
    said: frozenset[tuple[int, int]] = frozenset()


def write_mapping(
    pairing: Pairing, path: str | PathLike[str], *, kind: MappingKind = "data"
) -> Path:
    """Write the pairs as a ``.yaml`` that `read_mapping` and msprobe read.

    Parameters
    ----------
    pairing : Pairing
        Left names come left; msprobe wants the MindSpore dump there.
    path : str or path-like
    kind : {"data", "layer", "cell", "api"}
        ``data``: a line for each pair of entries, ``N/A`` where a missing partner was declared
        expected; other entries without a partner are comments. ``layer``: only the attributes
        that are called differently, below the class of what contains them (or its path, where
        the same class is not always renamed alike). ``cell``: ``path.Class`` of every pair of
        modules. ``api``: pairs of operators, with the positions of arguments and outputs where
        first for first would pair others.

    Returns
    -------
    Path

    Raises
    ------
    MappingFileError
        If steps or ranks are paired differently (``data``), or no modules are paired with
        modules (``layer``, ``cell``) or operators with operators (``api``). If a module has
        several partners, or a class that does not look like one (``cell``). If calls of operators
        are paired with those of another number, or arguments in one call otherwise than in another
        (``api``). If a name holds half of a character. Names what cannot be said.
    ValueError
        For another suffix or kind.

    Warns
    -----
    TroubleshooterWarning
        About entries without a partner that may be paired again where the file is read: a mapping
        has no word for those but ``N/A`` of ``data``, which declares them expected. And about those
        that are expected in some steps or ranks only, for which ``data`` has no word either.

    Notes
    -----
    The same pairing gives the same bytes. What else a layer, cell or api mapping does not say is
    listed in its comments and by `unsaid_in_mapping`: it pairs modules or operators, and a cell
    mapping whatever it does not name with what is called the same. So are pairs made by hand that
    such a file does not make, and entries declared expected, for which it has no word. What a layer
    mapping renames no part of is paired as without it, no surer than it was.
    """
    path = path_of(path)
    if path.suffix not in (".yaml", ".yml"):
        raise ArgumentError(not_written_as("mapping", path))
    made = _lines_of(kind)(pairing)
    again = _paired_again(pairing, kind, made.said)
    unsaid = _all_unsaid(pairing, kind, made)
    made_by = [
        f"Made by troubleshooter_nb from a pairing of {pairing.left.label or 'left'!r} and "
        f"{pairing.right.label or 'right'!r}",
        f"{kind} mapping, left: right; read it with mapping= of compare or pair_dumps",
    ]
    text = "\n".join([*_comments(made_by), *_comments([*again, *unsaid]), *made.body]) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as stream:
        stream.write(text.encode())
    if again:
        pairs = some_of([Message("mappings.pair", **line.values) for line in again])
        id = "cannot_keep_apart" if kind == "data" else "cannot_keep_apart_here"
        said = Message(f"mappings.{id}", file=path.name, pairs=pairs)
        warnings.warn(told(said), TroubleshooterWarning, stacklevel=2)
    if in_part := [line.values["name"] for line in unsaid if line.id == "mappings.in_part"]:
        said = Message("mappings.cannot_say_in_part", file=path.name, names=in_part)
        warnings.warn(told(said), TroubleshooterWarning, stacklevel=2)
    return path


def unsaid_in_mapping(pairing: Pairing, kind: MappingKind = "data") -> list[Message]:
    """What a mapping of this kind does not say of a pairing, or says otherwise: a line for each.

    Those of the id ``mappings.paired_again`` are of entries without a partner that reading the
    file may pair, by name or as they were paired before.

    Raises
    ------
    MappingFileError, ValueError
        As `write_mapping`.
    """
    made = _lines_of(kind)(pairing)
    return [*_paired_again(pairing, kind, made.said), *_all_unsaid(pairing, kind, made)]


def _lines_of(kind: MappingKind) -> Callable[[Pairing], _Lines]:
    """What makes the lines of a kind."""
    kinds: dict[str, Callable[[Pairing], _Lines]] = {
        "api": _api_lines,
        "cell": _cell_lines,
        "data": _data_lines,
        "layer": _layer_lines,
    }
    if kind not in kinds:
        choices = {"kind": repr(kind), "kinds": list(get_args(MappingKind))}
        raise ArgumentError(Message("mappings.no_kind_to_write", **choices))
    return kinds[kind]


def _is_declared(note: str) -> bool:
    return not _DECLARED.isdisjoint(ids_of(note))


def _all_unsaid(pairing: Pairing, kind: MappingKind, made: _Lines) -> list[Message]:
    """What the lines do not say; beside a data mapping also what was made by hand.

    What the matchers found by themselves they find again, whether a file says it or not.
    """
    if kind == "data":
        return made.unsaid
    columns = ("left", "right", "left_entry", "right_entry", "method", "note", "expected")
    paths = [dump.index["path"].values.tolist() for dump in (pairing.left, pairing.right)]
    listed = set(made.unsaid)
    more = []
    for left, right, a, b, method, note, expected in pairing.columns.rows(*columns):
        if expected and _is_declared(note) and (a < 0 or b < 0):
            name = Message(f"pairings.on_{'left' if b < 0 else 'right'}", name=left or right)
            more.append(Message("mappings.not_said_expected", name=name))
        if method != "user" or a < 0 or b < 0 or (a, b) in made.said:
            continue
        # Of modules that belong to others as a whole one line speaks already.
        if _not_said(paths[0][a], paths[1][b]) not in listed:
            more.append(_not_said(left, right))
    return list(dict.fromkeys([*made.unsaid, *more]))


def _not_said(left: str, right: str) -> Message:
    return Message("mappings.not_said", left=left, right=right)


def _paired_again(
    pairing: Pairing, kind: MappingKind, said: frozenset[tuple[int, int]]
) -> list[Message]:
    """Entries of one step and rank that are alone on both sides, as ``unpair`` leaves them.

    Those that are called alike, or as a pair of another step or rank; those that the file pairs
    with all of their module; and those of equal or transposed shapes without candidates, which the
    matchers would have named.
    """
    table = pairing.columns.lists()
    if kind != "data":  # no other kind has a word for them
        facts = zip(table["expected"], table["note"], strict=True)
        table["expected"] = [it and not _is_declared(note) for it, note in facts]
    place = list(zip(table["step"], table["rank"], strict=True))
    entries = list(zip(table["left_entry"], table["right_entry"], strict=True))
    both = [i for i, (left, right) in enumerate(entries) if left >= 0 and right >= 0]
    partners = {table["left"][i]: table["right"][i] for i in both}
    back = set(partners.values())
    alone: tuple[list[int], dict[tuple[object, str], int]] = [], {}
    for i, (left, right) in enumerate(entries):
        name = table["left" if right < 0 else "right"][i]
        if table["expected"][i] and name not in (partners if right < 0 else back):
            continue  # the file says so
        if right < 0:
            alone[0].append(i)
        elif left < 0:
            alone[1][place[i], name] = i
    rows_right = {table["right_entry"][i]: i for i in alone[1].values()}
    # What the rules of operators pair beyond the pairing is said of them as such.
    whole = {} if kind == "api" else {a: rows_right[b] for a, b in said if b in rows_right}
    parted: dict[object, list[int]] = {}
    for (where, _), i in alone[1].items():
        if not table["expected"][i] and not table["candidates"][i]:
            parted.setdefault((where, _sides(table["right_shape"][i])), []).append(i)
    found: dict[Message, None] = {}
    for i in alone[0]:
        name = table["left"][i]
        other = alone[1].get((place[i], partners.get(name, name)))
        if other is None:
            other = whole.get(table["left_entry"][i])
        near = parted.get((place[i], _sides(table["left_shape"][i])), [])
        is_open = not table["expected"][i] and not table["candidates"][i] and name not in partners
        if other is None and near and is_open:
            other = near.pop(0)
        if other is not None:
            again = Message("mappings.paired_again", left=name, right=table["right"][other])
            found[again] = None
    return list(found)


def _sides(shape: Shape | None) -> Shape | None:
    return None if shape is None else tuple(sorted(shape))


def _data_lines(pairing: Pairing) -> _Lines:
    names = ("left", "right", "left_entry", "right_entry", "expected")
    rows = [*pairing.columns.rows(*names)]
    partners: dict[str, str] = {}
    back: dict[str, str] = {}
    for left, right, left_entry, right_entry, _ in rows:
        if left_entry < 0 or right_entry < 0:
            continue
        if partners.setdefault(left, right) != right or back.setdefault(right, left) != left:
            said = Message("mappings.otherwise_in_place", left=left, right=right)
            raise MappingFileError(said)
    pairs: list[tuple[str | None, str | None]] = list(partners.items())
    alone: list[dict[str, set[bool]]] = [{}, {}]
    for left, right, left_entry, right_entry, expected in rows:
        if left_entry >= 0 and right_entry < 0 and left not in partners:
            alone[0].setdefault(left, set()).add(expected)
        if right_entry >= 0 and left_entry < 0 and right not in back:
            alone[1].setdefault(right, set()).add(expected)
    # What is expected in one step alone has to fail in the others: the file cannot say both.
    pairs += [(name, None) for name, expected in alone[0].items() if all(expected)]
    pairs += [(None, name) for name, expected in alone[1].items() if all(expected)]
    without = []
    for side, names_alone in zip(("left", "right"), alone, strict=True):
        for name, expected in names_alone.items():
            if len(expected) > 1:
                said = Message(f"pairings.on_{side}", name=name)
                without.append(Message("mappings.in_part", name=said))
            elif not any(expected):
                without.append(Message(f"mappings.alone_{side}", name=name))
    return _Lines(_table(pairs), without)


def _table(pairs: list[tuple[str | None, str | None]]) -> list[str]:
    """The pairs as a table, or as a list where that could be taken for another kind of mapping."""
    lines = [_line(left, right) for left, right in pairs if left is not None]
    right_only = [_scalar(right) for left, right in pairs if left is None and right is not None]
    if right_only:
        lines += [f"{MISSING}:", *(f"- {name}" for name in right_only)]
    if lines and kind_of(read_nodes("\n".join(lines).encode(errors="replace"), "")) == "data":
        return lines
    sides = [tuple(MISSING if name is None else _scalar(name) for name in pair) for pair in pairs]
    return [f"- [{left}, {right}]" for left, right in sides] or ["[]"]


def _layer_lines(pairing: Pairing) -> _Lines:
    pairs, classes = _module_pairs(pairing)
    if not pairs:
        raise MappingFileError(Message("mappings.no_module_paired", kind="layer"))
    rules = list(_renames(pairs, classes))
    # Only reading it back tells what the file says of every module.
    layers = LayerNames(rules, classes)
    right = set(pairs.values())
    said = {path: layers.renamed(path)[0] for path in classes}
    lost = [_not_said(a, b) for a, b in pairs.items() if said[a] != b]
    known = _right_modules(pairing)
    more = [
        Message("mappings.said_otherwise", left=a, right=said[a])
        for a in classes
        if a not in pairs and said[a] in known - right
    ]
    body: list[str] = []
    for parent in dict.fromkeys(rule.parent for rule in rules):
        body.append(f"{_scalar(parent)}:")
        body += ["  " + _line(r.left or "", r.right) for r in rules if r.parent == parent]
    kept = {a: b for a, b in pairs.items() if said[a] == b}
    return _Lines(
        body or [f"{ROOTS[0]}: {{}}"], [*lost, *more], frozenset(_same_parts(pairing, kept))
    )


def _cell_lines(pairing: Pairing) -> _Lines:
    pairs, classes = _module_pairs(pairing)
    if not pairs:
        raise MappingFileError(Message("mappings.no_module_paired", kind="cell"))
    modules = pairing.right.columns.rows("kind", "path", "layer")
    others = {path: layer for kind, path, layer in modules if kind == "module"}
    _check_cells(pairing, pairs, classes, others)
    names = {f"{a}.{classes[a]}": f"{b}.{others[b]}" for a, b in pairs.items()}
    cells = {f"{path}.{layer}" for path, layer in others.items()}
    more = []
    for path, layer in classes.items():
        if path in pairs:
            continue
        name = f"{path}.{layer}"
        rule = next((left for left in names if left in name), "")
        new = name.replace(rule, names[rule], 1) if rule else name
        if new in cells:
            more.append(Message("mappings.said_otherwise", left=name, right=new))
    return _Lines(
        [*map(_line, names, names.values())],
        [*more, *_of_other_calls(pairing, pairs)],
        frozenset(_same_parts(pairing, pairs)),
    )


def _check_cells(
    pairing: Pairing, pairs: dict[str, str], classes: dict[str, str], others: dict[str, str]
) -> None:
    """That a cell mapping can say these pairs of modules."""
    said = set(pairs.items())
    wrong = [f"{a}: {b}" for a, b, *_ in _module_rows(pairing) if (a, b) not in said]
    back: dict[str, str] = {}
    wrong += [f"{a}: {b}" for a, b in pairs.items() if back.setdefault(b, a) != a]
    if wrong:
        shown = list(dict.fromkeys(wrong))[:_MOST_NAMED]
        raise MappingFileError(Message("mappings.cell_cannot_say", pairs=shown))
    for path, layer in [*((a, classes[a]) for a in pairs), *((b, others[b]) for b in back)]:
        line = f"{_scalar(f'{path}.{layer}')}: A.B"
        if kind_of(read_nodes(line.encode(errors="replace"), "")) != "cell":
            raise MappingFileError(Message("mappings.small_class", name=f"{path}.{layer}"))


def _of_other_calls(pairing: Pairing, pairs: dict[str, str]) -> list[Message]:
    """Pairs of entries of different places in modules that belong together."""
    names = pairing.left.names, pairing.right.names
    places = []
    for dump in (pairing.left, pairing.right):
        rows = dump.columns.rows("call", "direction", "role", "slot")
        # Names of parameters are matched in either framework's spelling.
        places.append([(*row[:3], "" if row[2] == "parameter" else row[3]) for row in rows])
    found = []
    for a, b, left, right in _module_rows(pairing):
        if pairs[a] != b:
            continue
        if places[0][left] != places[1][right]:
            found.append(_not_said(names[0][left], names[1][right]))
    return found


def _api_lines(pairing: Pairing) -> _Lines:
    rules, not_said = operator_rules(pairing)
    body = []
    for rule in rules:
        body += [f"- ms_api: {_scalar(rule.left)}", f"  pt_api: {_scalar(rule.right)}"]
        for part, positions in rule.positions.items():
            word = "args" if part == "input" else part
            if positions is not None:
                body += [
                    f"  ms_{word}: [{', '.join(map(str, positions))}]",
                    f"  pt_{word}: [{', '.join(map(str, positions.values()))}]",
                ]
    return _Lines(body, not_said, frozenset(_of_operators(pairing, rules)))


def _of_operators(pairing: Pairing, rules: Iterable[OperatorRule]) -> Iterator[tuple[int, int]]:
    """The paired rows that follow from a rule; of gradients those of equal shapes."""
    columns = ("kind", "path", "call", "direction", "role", "slot", "shape")
    sides = [[*dump.columns.rows(*columns)] for dump in (pairing.left, pairing.right)]
    by_paths = {(rule.left, rule.right): rule for rule in rules}
    for a, b in pairing.columns.rows("left_entry", "right_entry"):
        if a < 0 or b < 0 or not sides[0][a][0] == sides[1][b][0] == "api":
            continue
        mine, theirs = sides[0][a], sides[1][b]
        rule = by_paths.get((mine[1], theirs[1]))
        if rule is None or mine[2:5] != theirs[2:5]:
            continue
        backward = mine[3] == "backward"
        # What leaves backward is of the inputs, what arrives of the outputs.
        positions = rule.positions["input" if (mine[4] == "input") != backward else "output"]
        (place, _, rest), (other, _, end) = (one[5].partition(".") for one in (mine, theirs))
        if not place.isdecimal() or not other.isdecimal():
            continue
        moved = int(place) if positions is None else positions.get(int(place), -1)
        if moved == int(other) and rest == end and not (backward and mine[6] != theirs[6]):
            yield a, b


def _same_parts(pairing: Pairing, modules: dict[str, str]) -> Iterator[tuple[int, int]]:
    """Rows that are the same of two modules, by left path: what a file pairs with them."""
    columns = ("kind", "path", "call", "direction", "role", "slot")
    places = places_of(pairing.left, pairing.right)
    keys: list[list[tuple[object, ...]]] = []
    for at, dump in enumerate((pairing.left, pairing.right)):
        where = (places[name][at].tolist() for name in ("step", "rank"))
        found = []
        for *place, kind, path, call, direction, role, slot in zip(
            *where, *dump.columns.lists(*columns).values(), strict=True
        ):
            new = modules.get(path) if at == 0 else path
            # Names of parameters are matched in either framework's spelling.
            own = canonical_parameter(slot) or slot if role == "parameter" else slot
            found.append((kind, new, *place, call, direction, role, own))
        keys.append(found)
    theirs = {key: row for row, key in enumerate(keys[1])}
    for row, key in enumerate(keys[0]):
        if key[0] == "module" and key[1] is not None and key in theirs:
            yield row, theirs[key]


def _module_rows(pairing: Pairing) -> Iterator[tuple[str, str, int, int]]:
    """Paths and rows of paired entries of modules."""
    sides = [dump.columns.lists("kind", "path") for dump in (pairing.left, pairing.right)]
    for a, b in pairing.columns.rows("left_entry", "right_entry"):
        if a >= 0 and b >= 0 and sides[0]["kind"][a] == sides[1]["kind"][b] == "module":
            yield sides[0]["path"][a], sides[1]["path"][b], a, b


def _module_pairs(pairing: Pairing) -> tuple[dict[str, str], dict[str, str]]:
    """Paths of modules that are paired, and the classes of all on the left."""
    names = ("kind", "path", "layer")
    left, right = ([*dump.columns.rows(*names)] for dump in (pairing.left, pairing.right))
    counts: dict[str, dict[str, int]] = {}
    for a, b in pairing.columns.rows("left_entry", "right_entry"):
        if a >= 0 and b >= 0 and left[a][0] == right[b][0] == "module":
            found = counts.setdefault(left[a][1], {})
            found[right[b][1]] = found.get(right[b][1], 0) + 1
    pairs = {path: max(found, key=lambda new: found[new]) for path, found in counts.items()}
    return pairs, {path: layer for kind, path, layer in left if kind == "module"}


def _right_modules(pairing: Pairing) -> set[str]:
    rows = pairing.right.columns.rows("kind", "path")
    return {path for kind, path in rows if kind == "module"}


def _renames(pairs: dict[str, str], classes: dict[str, str]) -> Iterator[NameRule]:
    """A rule for each attribute that is called differently, in the order of the modules."""
    wanted: dict[tuple[str, str], dict[str, list[str]]] = {}  # class, left -> right -> parents
    for path, new in sorted(pairs.items(), key=lambda pair: pair[0].count(".")):
        above, above_new = _above(path, pairs)
        if above and not new.startswith(above_new + "."):
            continue
        left, right = path[len(above) + bool(above) :], new[len(above_new) + bool(above) :]
        left, right = _without_common_end(left, right)
        name = classes[above] if above else ROOTS[0]
        parents = wanted.setdefault((name, left), {}).setdefault(right, [])
        if above not in parents:
            parents.append(above)
    for (name, left), choices in wanted.items():
        for right, parents in choices.items():
            if len(choices) > 1:
                # Not even the paths differ outside: the container itself is renamed unalike.
                for parent in parents:
                    yield NameRule(0, left, right, parent or ROOTS[0])
            elif left != right:
                yield NameRule(0, left, right, name)


def _above(path: str, pairs: dict[str, str]) -> tuple[str, str]:
    """The closest paired module that contains this one, and its partner."""
    above = path.rpartition(".")[0]
    while above and above not in pairs:
        above = above.rpartition(".")[0]
    return above, pairs.get(above, "")


def _without_common_end(left: str, right: str) -> tuple[str, str]:
    """``blocks.0`` and ``layers.0`` are ``blocks`` and ``layers``."""
    mine, theirs = left.split("."), right.split(".")
    while len(mine) > 1 and len(theirs) > 1 and mine[-1] == theirs[-1]:
        mine.pop()
        theirs.pop()
    return ".".join(mine), ".".join(theirs)


def _line(left: str, right: str | None) -> str:
    value = MISSING if right is None else _scalar(right)
    key = _scalar(left)
    return f"? {key}\n: {value}" if len(key) > _LONGEST_KEY else f"{key}: {value}"


def _scalar(text: str) -> str:
    """A name as yaml; in quotes where it could be taken for something else."""
    if whole(text) != text:
        raise MappingFileError(Message("mappings.half_character", name=ascii(text)))
    if _PLAIN.fullmatch(text) and text.lower() not in _NOT_TEXT:
        return text
    from troubleshooter_nb.formats.yaml_text import quoted  # brings yaml, which is slow

    return quoted(text)


def _comments(lines: Iterable[str]) -> list[str]:
    """Lines as comments, each on one line, and not too many."""
    listed = [f"# {''.join(c if c.isprintable() else '?' for c in line)}" for line in lines]
    more = len(listed) - _MOST_COMMENTS
    return [*listed[:_MOST_COMMENTS], *([f"# and {more:,} more"] if more > 0 else [])]
