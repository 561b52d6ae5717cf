"""The entries of one rank's msprobe data: a row for each tensor and other value of each call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from troubleshooter_nb.dump import ArraySource, Entry
from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.msprobe_json import DEEPEST, Stacks
from troubleshooter_nb.formats.msprobe_leaves import Beside, Release, fields_of
from troubleshooter_nb.formats.msprobe_tensors import FOLDER, open_tensor
from troubleshooter_nb.messages import Message, message_of
from troubleshooter_nb.naming import (
    MsprobeCall,
    RowName,
    Site,
    format_msprobe_call,
    format_row_name,
    forward_of,
    natural_key,
    parse_msprobe_call,
    parse_row_name,
    site_of_msprobe,
)
from troubleshooter_nb.naming.characters import printable

# Keys of an entry and the sections they are, in the order of a call: parameters are used in it.
_SECTIONS = {
    "input_args": "input",
    "input_kwargs": "kwargs",
    "input": "input",
    "parameters": "parameters",
    "output": "output",
}
_NO_SECTIONS = {"is_recompute"}


class _JsonRow(NamedTuple):
    name: str
    site: Site


@dataclass
class Names:
    """Calls and rows by name, made once for all steps and ranks; `modules` are paths of modules."""

    modules: set[str] = field(default_factory=set)
    _calls: dict[str, MsprobeCall | None] = field(default_factory=dict)
    _rows: dict[RowName, _JsonRow] = field(default_factory=dict)

    def call(self, entry: str) -> MsprobeCall | None:
        """The parts of an entry's name, None where it has no known form."""
        if entry not in self._calls:
            call = self._calls[entry] = parse_msprobe_call(entry)
            if call and call.is_module:
                self.modules.add(call.path)
        return self._calls[entry]

    def row(self, call: MsprobeCall | None, key: RowName) -> _JsonRow:
        """Name and site of one tensor of a call."""
        if key not in self._rows:
            unknown = Site("api", printable(key.entry), slot=printable(key.slot))
            site = site_of_msprobe(call, key.section, printable(key.slot)) if call else unknown
            self._rows[key] = _JsonRow(printable(format_row_name(key)), site)
        return self._rows[key]


def release_of(data: Mapping[str, Any], stacks: Stacks, framework: str, folder: str) -> Release:
    """The msprobe release whose layout this is, as far as the files tell.

    Notes
    -----
    Source: files of msprobe. With torch 1.2.2 and 8.3.3 write ``is_recompute``
    into every forward entry, with MindSpore none does. The two differ in ``stack.json`` alone.
    """
    gradients = [name for name in data if ".parameters_grad" in name]
    if folder.startswith("proc") or any(name[-1:].isdigit() for name in gradients):
        return "26.2.0"
    if stacks.is_shared is False:
        return "1.2.2"
    forward = [
        value for value in data.values() if isinstance(value, dict) and "input_args" in value
    ]
    older = bool(gradients) or any("is_recompute" in value for value in forward)
    if forward and not older and framework == "pytorch":
        return "26.2.0"
    return "8.3.3" if stacks.is_shared and older else ""


def entries_of(
    data: Mapping[str, Any], beside: Beside, names: Names, notes: list[str]
) -> list[Entry]:
    """One entry per leaf of the data, in the order of execution.

    Parameters
    ----------
    data : mapping
        Of a ``dump.json`` or ``debug.json``: whatever it holds.
    beside : Beside
    names : Names
    notes : list of str
        Gets what the user should know.

    Raises
    ------
    FormatError
        If something is nested deeper than 400.
    """
    entries: list[Entry] = []
    counts: Counter[str] = Counter()
    for entry in _in_execution_order(data, names):
        call = names.call(entry)
        counts["msprobe.unknown_names"] += call is None
        made_in = _made_in(entry, call, beside)
        found = 0
        for section, slot, leaf in leaves_of(data[entry], call):
            row = names.row(call, RowName(entry, section, slot))
            known = {**fields_of(leaf, beside, counts), **made_in}
            entries.append(
                Entry(
                    row.name,
                    row.site,
                    step=beside.step,
                    rank=beside.rank,
                    order=len(entries),
                    **known,
                )
            )
            found += 1
        if not found and not isinstance(data[entry], dict | list):
            reason = Message("msprobe.no_call", type=type(data[entry]).__name__)
            row = names.row(call, RowName(entry, "", ""))
            entries.append(
                Entry(
                    row.name,
                    row.site,
                    step=beside.step,
                    rank=beside.rank,
                    order=len(entries),
                    reason=reason,
                )
            )
    notes += (Message(what, count=count) for what, count in counts.items() if count)
    return entries


def recovered(beside: Beside, names: Names, notes: list[str]) -> list[Entry]:
    """Entries of the tensor files that no json names, from their own names.

    Each file is opened for its shape and dtype. The order of execution is unknown.
    """
    entries, others = [], 0
    for file in sorted((beside.files or set()) - beside.named, key=natural_key):
        key = parse_row_name(file.rpartition(".")[0])
        call = names.call(key.entry) if key else None
        if key is None or call is None:
            others += 1
            continue
        row = names.row(call, key)
        source: ArraySource | None = None
        reason = ""
        try:
            source = open_tensor(beside.folder / FOLDER / file)
        except (FormatError, OSError) as error:
            reason = message_of(error)
        parent = beside.parents.get(format_msprobe_call(forward_of(call)), "")
        stack = beside.stacks.texts.get(key.entry, "")
        layer = printable(call.layer_name)
        entries.append(
            Entry(
                row.name, row.site, source, reason=reason, layer=layer, parent=parent, stack=stack
            )
        )
    if entries:
        calls = len({(entry.site.path, entry.site.call, entry.site.direction) for entry in entries})
        notes.append(Message("msprobe.recovered", count=len(entries), calls=calls))
    if others:
        notes.append(Message("msprobe.other_files", count=others, folder=FOLDER))
    return entries


def _in_execution_order(data: Mapping[str, Any], names: Names) -> list[str]:
    """Names of the entries; releases up to 8.3.3 put parameter gradients behind the forward.

    They belong behind the last backward of their module, or to the end.
    """
    early = {}
    for entry in data:
        call = names.call(entry)
        if call and call.event == "parameters_grad" and call.call is None:
            early[call.path, call.layer] = entry
    if not early:
        return list(data)
    moved = set(early.values())
    ordered: list[str] = []
    for entry in reversed(list(data)):
        call = names.call(entry)
        if call and call.event == "backward" and call.is_module:
            ordered += filter(None, [early.pop((call.path, call.layer), None)])
        if entry not in moved:
            ordered.append(entry)
    return [*reversed(ordered), *early.values()]


def leaves_of(value: Any, call: MsprobeCall | None) -> Iterator[tuple[str, str, Any]]:
    """Section, slot and content of each leaf of an entry."""
    event = call.event if call else ""
    if event == "debug":
        for slot, leaf in _leaves(value):
            yield "", slot, leaf
    elif not isinstance(value, dict):
        return
    elif event == "parameters_grad":
        for parameter, leaves in value.items():
            # msprobe makes a list of one of each.
            only = leaves[0] if isinstance(leaves, list) and len(leaves) == 1 else leaves
            for slot, leaf in _leaves(only, parameter):
                yield "", slot, leaf
    else:
        sections = [key for key in _SECTIONS if key in value]
        others = [key for key in value if key not in _SECTIONS and key not in _NO_SECTIONS]
        for key in [*sections, *others]:
            for slot, leaf in _leaves(value[key]):
                yield _SECTIONS.get(key, key), slot, leaf


def _leaves(value: Any, slot: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted place and content of what is no list and no plain table."""
    waiting = [(slot, value, 0)]
    while waiting:
        slot, one, depth = waiting.pop()
        if isinstance(one, list):
            children = [(str(number), child) for number, child in enumerate(one)]
        elif isinstance(one, dict) and not isinstance(one.get("type"), str):
            children = list(one.items())
        else:
            yield slot, one
            continue
        if depth >= DEEPEST:
            raise FormatError(Message("msprobe.too_deep", levels=DEEPEST))
        front = f"{slot}." if slot else ""
        waiting += ((front + key, child, depth + 1) for key, child in reversed(children))


def _made_in(entry: str, call: MsprobeCall | None, beside: Beside) -> dict[str, str]:
    """What all tensors of a call share: layer, enclosing call and stack."""
    # The parents of backward calls are sometimes wrong; those of the forward ones are not.
    later = call if call and call.event != "forward" else None
    forward = format_msprobe_call(forward_of(later)) if later else entry
    return {
        "layer": printable(call.layer_name) if call else "",
        "parent": beside.parents.get(forward, ""),
        "stack": beside.stacks.texts.get(entry, ""),
    }


def distinct(entries: list[Entry], notes: list[str]) -> list[Entry]:
    """The entries; of those with one name, the later ones get a number behind it.

    A key with dots in it looks like nesting.
    """
    seen: Counter[str] = Counter()
    found, renamed = [], []
    for entry in entries:
        name = entry.name
        while name in seen:
            seen[entry.name] += 1
            name = f"{entry.name} ({seen[entry.name]})"
        seen[name] = 1
        if name != entry.name:
            renamed.append(name)
            entry = entry._replace(name=name)
        found.append(entry)
    if renamed:
        notes.append(Message("msprobe.renamed", names=renamed))
    return found
