"""Convert weights by a map, tensor by tensor, and prove the copy from what was written."""

from __future__ import annotations

import math
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from troubleshooter_nb.analysis.engine import compare_pairing
from troubleshooter_nb.analysis.mapped import of_this_source
from troubleshooter_nb.comparison import Comparison
from troubleshooter_nb.convert.networks import dump_of_network
from troubleshooter_nb.dump import ArraySource, Dump, Entry, files_of
from troubleshooter_nb.errors import (
    ArgumentError,
    ArgumentTypeError,
    ReadError,
    TroubleshooterWarning,
    WeightMapError,
)
from troubleshooter_nb.formats import as_dump, open_dump
from troubleshooter_nb.formats.checkpoint import Item, item_of
from troubleshooter_nb.formats.checkpoint_save import (
    WRITERS,
    refuse_where_none_is_held,
)
from troubleshooter_nb.formats.mapping_file import read_weight_map
from troubleshooter_nb.formats.transformed_source import forget_pieces, in_dtype, transformed
from troubleshooter_nb.frameworks import adapter_of_network
from troubleshooter_nb.messages import Message, told
from troubleshooter_nb.metrics.verdict import Tolerance
from troubleshooter_nb.naming import Role, Site
from troubleshooter_nb.pairing import Match, Pairing
from troubleshooter_nb.weight_map import Spec, WeightMap, WeightRow

# Characters of the longest name that MindSpore 2.10 loads (own run: 1,024 load, 1,025 do not).
_LONGEST_NAME = 1024
_MOST_SHOWN = 60


def convert_weights(
    source: Any,
    destination: Any,
    weight_map: WeightMap | str | PathLike[str],
    *,
    inputs: Any = None,
    load: bool = True,
    strict: bool = True,
    executor: Executor | None = None,
    progress: bool | Callable[[int, int], None] | None = None,
) -> Comparison:
    """Write the weights of a source as a map says, read them back and compare.

    Parameters
    ----------
    source : network of torch or MindSpore, Dump, path, or mapping of str to array
        Of files and arrays, neither framework is needed.
    destination : path, or network of torch or MindSpore
        ``.ckpt``, ``.pth``, ``.pt`` or ``.safetensors``; the file appears whole or not at all. A
        network is filled in place, in its own dtypes; it as well changes whole or not at all.
    weight_map : WeightMap, or path
        From `draft_weight_map`, corrected as needed; or a file that `read_weight_map` reads.
    inputs : array, sequence of arrays, or mapping of str to array, optional
        What both networks are called with, once their weights are proved: by position, or by
        keyword. Arrays or tensors of either framework; numbers with a point are given in the dtype
        of each network. Both evaluate, without gradients, and are left in the modes they were in.
    load : bool
        False leaves a network as destination as it is, and compares what it holds.
    strict : bool
        Whether each parameter of a network as destination must get values. Where not, a note names
        those that keep their own, as it does for buffers.
    executor, progress
        As in `compare`, for the proof.

    Returns
    -------
    Comparison
        The proof: left is what stands in the written file, after the inverse transform, right is
        the source, tensor by tensor; it passes only if all values are equal. What a transform
        cannot be undone for (``add``, ``cast``) is compared with the transformed source. Notes
        list what was renamed, transformed, dropped, and kept by the target. A network holds what
        its dtypes leave of the source, and is compared with that. Outputs are rows as well, judged
        by the tolerance that `compare` has by default; the source's are right.

    Raises
    ------
    WeightMapError
        If two rows have one target, a name is missing, empty or too long for MindSpore, shapes do
        not fit, a network would keep parameters or cannot take values of that kind, or the
        destination is a file or network of the source: all before anything is written. Or if the
        format cannot hold a tensor of the map.
    ValueError
        For another suffix, for one whose format can hold none of the tensors, and for inputs where
        one side is no network.
    TypeError
        If the destination is neither.
    FormatError, OSError
        If the source cannot be opened or the destination not be written.
    """
    if isinstance(weight_map, (str, PathLike)):
        weight_map = read_weight_map(weight_map)
    if not isinstance(weight_map, WeightMap):
        raise WeightMapError(Message("weight_maps.no_map", got=type(weight_map).__name__))
    if adapter_of_network(destination) is not None:
        # Here, for it is made of what follows below.
        from troubleshooter_nb.convert.load import load_weights

        asked: dict[str, Any] = {"inputs": inputs, "load": load, "strict": strict}
        asked |= {"executor": executor, "progress": progress}
        return load_weights(source, destination, weight_map, **asked)
    if not isinstance(destination, (str, PathLike)):
        got = type(destination).__name__
        raise ArgumentTypeError(Message("weight_maps.no_destination", got=got))
    if inputs is not None:
        raise ArgumentError(Message("weight_maps.inputs_need_networks"))
    path = Path(destination)
    writer = WRITERS.get(path.suffix.lower())
    if writer is None:
        known = {"name": path.name, "suffixes": list(WRITERS)}
        raise ArgumentError(Message("weight_maps.cannot_write", **known))
    dump = dump_of(source)
    weight_map = of_this_source(weight_map, dump)
    weight_map.check()
    _refuse_long_names(weight_map, path)
    _refuse_own_file(source, dump, path)
    doubts = warned_of(weight_map)
    items = [item for row in weight_map for item in _items(row, dump)]
    if not items:
        raise WeightMapError(Message("weight_maps.nothing_to_write", label=dump.label))
    refuse_where_none_is_held(items, path, writer)
    path.parent.mkdir(parents=True, exist_ok=True)
    left_out = writer.write(path, items)
    forget_pieces()
    written = open_dump(path, format=writer.format)
    written = replace(written, label=path.name)
    counted = counts_of(weight_map, "weight_maps.rows_written")
    proof = proof_of(dump, written, weight_map, left_out, executor=executor, progress=progress)
    notes = [*doubts, *proof.notes, counted, *report_of(weight_map, left_out)]
    return replace(proof, notes=tuple(notes))


def dump_of(source: Any) -> Dump:
    """The tensors of a source: of a network as they are when they are read.

    Raises
    ------
    WeightMapError
        If a network has none, or none with values.
    """
    adapter = adapter_of_network(source)
    if adapter is None:
        return as_dump(source, "source")
    dump = dump_of_network(adapter, source, adapter.layers(source))
    if dump is None:
        label = type(source).__name__
        raise WeightMapError(Message("weight_maps.network_without_values", label=label))
    return dump


def _refuse_long_names(weight_map: WeightMap, path: Path) -> None:
    """Raise for names that a checkpoint can hold, but MindSpore not load."""
    if path.suffix.lower() != ".ckpt":
        return
    for row in weight_map:
        for name in row.targets:
            if len(name) > _LONGEST_NAME:
                said = {"name": name[:_MOST_SHOWN], "length": len(name), "most": _LONGEST_NAME}
                raise WeightMapError(Message("weight_maps.long_name", **said))


def _refuse_own_file(source: object, dump: Dump, path: Path) -> None:
    """Raise where writing would replace what is still to be read."""
    if not path.exists():
        return
    files = {*files_of(stored for stored in dump.sources if stored is not None)}
    files |= {os.fspath(source)} if isinstance(source, (str, PathLike)) else set()
    for file in files:
        if os.path.exists(file) and os.path.samefile(file, path):
            raise WeightMapError(Message("weight_maps.own_file", name=path.name))


def _items(row: WeightRow, dump: Dump) -> Iterable[Item]:
    if not row.targets:
        return
    results = transformed([source_of(dump, name) for name in row.sources], row.transform)
    for name, result in zip(row.targets, results, strict=True):
        yield item_of(name, result)


def source_of(dump: Dump, name: str) -> ArraySource:
    """The handle of an entry that is read.

    Raises
    ------
    ReadError
        If it cannot be.
    """
    source = dump.sources[dump.position(name)]
    if source is None:
        raise ReadError(Message("weight_maps.unreadable", name=name, label=dump.label))
    return source


def proof_of(
    dump: Dump,
    written: Dump,
    weight_map: WeightMap,
    left_out: Sequence[tuple[str, str]] = (),
    *,
    outputs: Sequence[tuple[Entry | None, Entry | None]] = (),
    in_own_dtypes: bool = False,
    executor: Executor | None = None,
    progress: bool | Callable[[int, int], None] | None = None,
) -> Comparison:
    """What was written beside what it came from, tensor by tensor, and equal or not.

    `outputs` are pairs behind the weights, of what was computed with them. Of a target that has
    dtypes of its own, the source is compared in these.
    """
    missing = dict(left_out)
    left: list[Entry] = []
    right: list[Entry] = []
    matches: list[Match] = []
    seen: tuple[Counter[str], Counter[str]] = (Counter(), Counter())

    def add(ours: Entry | None, theirs: Entry | None, note: str, *, expected: bool) -> None:
        is_pair = ours is not None and theirs is not None
        places = (
            len(left) if ours is not None else -1,
            len(right) if theirs is not None else -1,
        )
        how = ("user", 1.0) if is_pair else ("unmatched", math.nan)
        matches.append(Match(*places, *how, note, expected=expected))
        left.extend([_once(ours, seen[0], len(left))] if ours is not None else [])
        right.extend([_once(theirs, seen[1], len(right))] if theirs is not None else [])

    for row in weight_map:
        note = str(row.transform) if row.transform.kind != "copy" else ""
        for ours, theirs in _undone(row, dump, written, missing, in_own_dtypes):
            add(ours, theirs, note, expected=not row.targets)
    named = {name for row in weight_map for name in row.sources}
    for name in (*weight_map.unmatched_sources, *weight_map.unread):
        if name not in named:
            add(None, _unwritten(dump, name), "", expected=False)
    for name in weight_map.unmatched_targets:
        reason = Message("weight_maps.nothing_written")
        add(Entry(name, _site(name, "parameter"), reason=reason), None, "", expected=False)
    for ours, theirs in outputs:
        add(ours, theirs, "", expected=False)
    sides = (
        Dump.from_entries(left, label=written.label, format=written.format, notes=written.notes),
        Dump.from_entries(right, label=dump.label, format=dump.format, card=dump.card),
    )
    pairing = Pairing.from_matches(*sides, matches)
    exact = Tolerance(0.0, 0.0, equal_nan=True)
    return compare_pairing(pairing, exact, executor=executor, progress=progress, drill_downs=1)


def _once(entry: Entry, seen: Counter[str], order: int) -> Entry:
    """The entry in its place; a tensor that several rows take has a number from the second on."""
    seen[entry.name] += 1
    count = seen[entry.name]
    name = entry.name if count == 1 else f"{entry.name} ({count})"
    return entry._replace(name=name, order=order)


def _undone(
    row: WeightRow, dump: Dump, written: Dump, missing: Mapping[str, str], in_own_dtypes: bool
) -> list[tuple[Entry | None, Entry | None]]:
    """What was written, turned back, beside what it came from."""
    if not row.targets:
        held = [_unwritten(dump, name) for name in row.sources]
        return [(None, entry) for entry in held if entry.source is not None]
    sources = [source_of(dump, name) for name in row.sources]
    roles = [dump.index["role"].values[dump.position(name)] for name in row.sources]
    theirs = [
        Entry(name, _site(name, role), source)
        for name, role, source in zip(row.sources, roles, sources, strict=True)
    ]
    lost = [name for name in row.targets if name in missing]
    if lost:
        return [(None, entry) for entry in theirs]
    stored = [source_of(written, name) for name in row.targets]
    back = row.transform.inverse([Spec(s.shape, s.dtype) for s in sources])
    results = transformed(sources, row.transform)
    if in_own_dtypes:
        results, whole = (
            [in_dtype(result, one.dtype) for result, one in zip(results, stored, strict=True)],
            results,
        )
        back = back if results == whole else None
    if back is None:
        name = " + ".join(row.sources)
        return [
            (
                Entry(target, _site(target, roles[0]), source),
                Entry(name, _site(row.sources[0], roles[0]), result),
            )
            for target, source, result in zip(row.targets, stored, results, strict=True)
        ]
    ours = transformed(stored, back)
    name = " + ".join(row.targets)
    several = len(ours) > 1
    return [
        (
            Entry(f"{name}[{number}]" if several else name, _site(name, roles[0]), source),
            entry,
        )
        for number, (source, entry) in enumerate(zip(ours, theirs, strict=True))
    ]


def _unwritten(dump: Dump, name: str) -> Entry:
    """What stands in the source and was not written."""
    position = dump.position(name)
    role, reason = (dump.index[column].values[position] for column in ("role", "reason"))
    return Entry(name, _site(name, role), dump.sources[position], reason=reason)


def _site(name: str, role: Role) -> Site:
    """The site of a tensor that is what its source is, whatever its own name says."""
    return Site("checkpoint", name, role=role)


def counts_of(weight_map: WeightMap, id: str) -> Message:
    """How many rows have targets, and what happens to their tensors."""
    rows = [row for row in weight_map if row.targets]
    renamed = [row for row in rows if row.sources != row.targets]
    changed = [row for row in rows if row.transform.kind != "copy"]
    counts = {"rows": len(rows), "renamed": len(renamed), "changed": len(changed)}
    return Message(id, **counts)


def warned_of(weight_map: WeightMap) -> list[Message]:
    """The doubts of a map, of which its user is warned before anything is written."""
    doubts = weight_map.doubts()
    for said in doubts:
        # The line that called `convert_weights`.
        warnings.warn(told(said), TroubleshooterWarning, stacklevel=3)
    return doubts


def report_of(weight_map: WeightMap, left_out: Sequence[tuple[str, str]] = ()) -> list[str]:
    """What was left behind on either side, in sentences."""
    absent = {name for name, _ in left_out}
    rows = [row for row in weight_map if row.targets and absent.isdisjoint(row.targets)]
    written = {name for row in rows for name in row.sources}
    total = sum(spec.size for spec in weight_map.source.values())
    names = len({*weight_map.source, *weight_map.unread})
    share = sum(weight_map.source[name].size for name in written) / total if total else 1.0
    said: list[str] = [Message("weight_maps.covered", share=share, count=len(written), total=names)]
    dropped = [name for row in weight_map if not row.targets for name in row.sources]
    lists = {"rows_dropped": dropped, "rows_kept": list(weight_map.kept)}
    said += [Message(f"weight_maps.{key}", names=names) for key, names in lists.items() if names]
    said += [
        Message("weight_maps.cannot_store", name=name, reason=reason) for name, reason in left_out
    ]
    return said
