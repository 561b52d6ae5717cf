"""Fill a network in memory by a weight map, whole or not at all, and prove it by its outputs."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.engine import compare_pairing
from troubleshooter_nb.analysis.mapped import of_this_source
from troubleshooter_nb.comparison import Comparison
from troubleshooter_nb.convert.apply import (
    counts_of,
    dump_of,
    proof_of,
    report_of,
    source_of,
    warned_of,
)
from troubleshooter_nb.convert.networks import dump_of_network, specs_of
from troubleshooter_nb.dump import ArrayInMemory, ArraySource, Dump, Entry
from troubleshooter_nb.errors import ArgumentError, WeightMapError
from troubleshooter_nb.formats.transformed_source import in_dtype, transformed
from troubleshooter_nb.frameworks import Adapter, LayerFacts, adapter_of_network, to_numpy
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.floats import are_exact
from troubleshooter_nb.metrics.verdict import Tolerance
from troubleshooter_nb.naming import Site
from troubleshooter_nb.pairing import Match, Pairing
from troubleshooter_nb.ranges import whole
from troubleshooter_nb.weight_map import WeightMap

_Outputs = Sequence[tuple[Entry | None, Entry | None]]
# What the tolerance decides of a pair.
_JUDGED = ("verdict", "passed", "reason", "reason_id", "detail", "allclose", "allclose_ratio")


def load_weights(
    source: Any,
    net: Any,
    weight_map: WeightMap,
    *,
    inputs: Any = None,
    load: bool = True,
    strict: bool = True,
    executor: Executor | None = None,
    progress: bool | Callable[[int, int], None] | None = None,
) -> Comparison:
    """What `convert_weights` does with a network as destination."""
    adapter, theirs = adapter_of_network(net), adapter_of_network(source)
    if adapter is None or (inputs is not None and theirs is None):
        raise ArgumentError(Message("weight_maps.inputs_need_networks"))
    label = type(net).__name__
    layers = adapter.layers(net)
    dump, held = dump_of(source), dump_of_network(adapter, net, layers)
    if held is None:
        raise WeightMapError(Message("weight_maps.network_without_values", label=label))
    weight_map = of_this_source(weight_map, dump)
    weight_map = replace(weight_map, target=specs_of(layers), target_label=label)
    weight_map.check()
    if theirs is not None:
        _refuse_own_tensors(theirs.tensors(source), adapter.tensors(net), label)
    results = _results(weight_map, dump, held)
    kept = _kept(weight_map, adapter.tensors(net))
    if strict:
        _refuse_unfilled(kept, layers, label)
    # What is a parameter was refused, unless its user said that it may keep its values.
    target = {n: spec for n, spec in specs_of(layers).items() if n in kept or n in results}
    weight_map = replace(weight_map, target=target, kept=(*weight_map.kept, *kept))
    doubts = warned_of(weight_map)
    outputs: _Outputs = []
    with _filled(adapter, adapter.tensors(net), results if load else {}):
        if inputs is not None and theirs is not None:
            outputs = _outputs(((adapter, net), (theirs, source)), inputs)
    options: dict[str, Any] = {"executor": executor, "progress": progress}
    proof = proof_of(dump, held, weight_map, outputs=outputs, in_own_dtypes=True, **options)
    notes = [
        counts_of(weight_map, f"weight_maps.rows_{'loaded' if load else 'compared'}"),
        *report_of(weight_map),
    ]
    if cast := [name for name, (_, is_cast) in results.items() if is_cast]:
        notes.append(Message("weight_maps.rows_cast", names=cast))
    proof = replace(proof, notes=(*doubts, *proof.notes, *notes))
    return _with_outputs(proof, outputs, options) if outputs else proof


def _refuse_own_tensors(ours: Mapping[str, Any], tensors: Mapping[str, Any], label: str) -> None:
    """Raise where writing would replace what is still to be read."""
    read = {id(tensor) for tensor in ours.values()}
    if any(id(tensor) in read for tensor in tensors.values()):
        raise WeightMapError(Message("weight_maps.own_network", name=label))


def _results(weight_map: WeightMap, dump: Dump, held: Dump) -> dict[str, tuple[ArraySource, bool]]:
    """By target, what it gets in its own dtype, and whether that is another one."""
    made: dict[str, tuple[ArraySource, bool]] = {}
    for row in weight_map:
        sources = [source_of(dump, name) for name in row.sources]
        given = transformed(sources, row.transform) if row.targets else []
        for name, result in zip(row.targets, given, strict=True):
            wanted = source_of(held, name).dtype
            if not _takes(wanted, result.dtype):
                said = {"name": name, "wanted": wanted, "given": result.dtype}
                raise WeightMapError(Message("weight_maps.cannot_cast", **said))
            made[name] = in_dtype(result, wanted), wanted != result.dtype
    return made


def _takes(wanted: np.dtype, given: np.dtype) -> bool:
    """Whether values of a dtype, rounded at most, are of another: whole numbers stay whole."""
    if wanted == given:
        return True
    exact = are_exact(wanted, wanted), are_exact(given, given)
    return exact == (False, False) and (wanted.kind == "c" or given.kind != "c")


def _kept(weight_map: WeightMap, tensors: Mapping[str, Any]) -> list[str]:
    """Names of what no row fills, also not under another name of the same tensor."""
    filled = {id(tensors[name]) for row in weight_map for name in row.targets}
    return [name for name in weight_map.unmatched_targets if id(tensors[name]) not in filled]


def _refuse_unfilled(kept: Sequence[str], layers: Sequence[LayerFacts], label: str) -> None:
    parameters = {
        name
        for layer in layers
        for entry in layer.entries
        if entry.role == "parameter"
        for name in (entry.name, *entry.other_names)
    }
    if names := [name for name in kept if name in parameters]:
        said = {"label": label, "count": len(names), "names": names}
        raise WeightMapError(Message("weight_maps.not_filled", **said))


@contextlib.contextmanager
def _filled(
    adapter: Adapter,
    tensors: Mapping[str, Any],
    results: Mapping[str, tuple[ArraySource, bool]],
) -> Iterator[None]:
    """A context with all values put in; an error, there or on the way, brings the old ones back."""
    before: list[tuple[Any, np.ndarray]] = []
    try:
        for name, (result, _) in results.items():
            tensor = tensors[name]
            values = whole(result)
            before.append((tensor, adapter.to_numpy(tensor)))
            adapter.write(tensor, values)
        yield
    except BaseException:
        for tensor, values in reversed(before):
            adapter.write(tensor, values)
        raise


def _outputs(nets: Sequence[tuple[Adapter, Any]], inputs: Any) -> _Outputs:
    """What both networks give for the inputs, in pairs."""
    args, kwargs = _arguments(inputs)
    sides = [
        [_entry(*named) for named in adapter.outputs(net, *args, **kwargs)] for adapter, net in nets
    ]
    return list(itertools.zip_longest(sides[0], sides[1]))


def _arguments(inputs: Any) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    if isinstance(inputs, Mapping):
        return [], {str(name): to_numpy(value) for name, value in inputs.items()}
    if isinstance(inputs, (list, tuple)):
        return [to_numpy(value) for value in inputs], {}
    return [to_numpy(inputs)], {}


def _entry(name: str, array: np.ndarray) -> Entry:
    slot = name.partition(".")[2] or "0"
    return Entry(name, Site("module", "", 0, "forward", "output", slot), ArrayInMemory(array))


def _with_outputs(proof: Comparison, outputs: _Outputs, options: Mapping[str, Any]) -> Comparison:
    """The proof where outputs are judged as `compare` judges them, which allows for rounding."""
    both = [(one, other) for one, other in outputs if one is not None and other is not None]
    left, right = (
        Dump.from_entries([pair[side]._replace(order=row) for row, pair in enumerate(both)])
        for side in (0, 1)
    )
    matches = [Match(row, row, "user", 1.0) for row in range(len(both))]
    pairing = Pairing.from_matches(left, right, matches)
    judged = compare_pairing(pairing, Tolerance(), drill_downs=1, **options)
    result = proof.result.copy(deep=True)
    rows = {name: row for row, name in enumerate(result["left"].values.tolist()) if name}
    for row, name in enumerate(judged.result["left"].values.tolist()):
        for column in _JUDGED:
            result[column].values[rows[name]] = judged.result[column].values[row]
    agree = int(judged.result["passed"].values.sum())
    said = {"rtol": judged.tolerance.rtol, "atol": judged.tolerance.atol}
    note = Message("weight_maps.outputs_judged", **said, agree=agree, total=len(outputs))
    return replace(proof, result=result, notes=(*proof.notes, note))
