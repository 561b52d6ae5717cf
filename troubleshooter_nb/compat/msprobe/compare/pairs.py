"""Which value of the target meets which of the golden dump, as msprobe's comparison pairs them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from troubleshooter_nb.analysis.api_names import rows_of_mindspore
from troubleshooter_nb.compat.msprobe.compare.releases import Release
from troubleshooter_nb.compat.msprobe.compare.values import Side, Value
from troubleshooter_nb.formats.layer_names import LayerNames
from troubleshooter_nb.formats.pairing_rules import ApiRule, MappingFile
from troubleshooter_nb.metrics.floats import arithmetic_of, dtype_from_token
from troubleshooter_nb.naming import (
    MsprobeCall,
    format_msprobe_call,
    forward_of,
    parse_msprobe_call,
)

_NEAR = ("float16", "float32", "bfloat16")
Key = tuple[str, str, str]  # entry, section, slot
_Wanted = Callable[[Value], Iterable[Key]]


@dataclass(frozen=True)
class Mappings:
    """The mapping files of a comparison; ``True`` for those that come with the tool."""

    cell: MappingFile | bool = False
    api: MappingFile | bool = False
    layer: MappingFile | bool = False
    data: MappingFile | None = None

    def __bool__(self) -> bool:
        return any(one is not None and one is not False for one in self.files)

    @property
    def files(self) -> tuple[MappingFile | bool | None, ...]:
        """All of them."""
        return self.cell, self.api, self.layer, self.data


@dataclass(frozen=True)
class Pair:
    """A row of the table: a value of the target and what it meets, one of them None for nothing."""

    target: Value | None
    golden: Value | None
    is_fuzzy: bool = False

    @property
    def value(self) -> Value:
        """The side that there is; the target's where both are."""
        found = self.target or self.golden
        assert found is not None
        return found


@dataclass(frozen=True)
class Paired:
    """The rows of the target in its order, what only the golden dump has, and the found names."""

    rows: list[Pair]
    golden_only: list[Pair]
    names: dict[str, str] = field(default_factory=dict)


def pair_values(
    target: Side, golden: Side, release: Release, mappings: Mappings, *, fuzzy: bool = False
) -> Paired:
    """Pair the values of two sides.

    Parameters
    ----------
    target, golden : Side
    release : Release
    mappings : Mappings
        Without any, equal names meet.
    fuzzy : bool
        Ignore the numbers of operators' calls, keep their order.

    Returns
    -------
    Paired
        One row per value of the target, unless a data mapping of a classic release chooses; `names`
        for a layer mapping.
    """
    is_current = release.verdicts == "current"
    sees_dtypes = not (mappings.layer or mappings.data) or is_current
    fits = _fitting(release, sees_dtypes=sees_dtypes, sees_shapes=release.needs_same_shape)
    if fuzzy and not mappings:
        rows = _by_calls(
            target, golden, _fitting(release, sees_dtypes=True, sees_shapes=True), fuzzy=True
        )
    elif release.whole_calls and target.has_torch_names and not mappings:
        rows = _by_calls(target, golden, fits, fuzzy=False)
    else:
        wanted = _wanted(target, golden, release, mappings)
        # Calls of operators meet by their turn where nothing is mapped, not by their numbers.
        renamed = is_current and not mappings
        turns = [_turns(side) if renamed else {} for side in (target, golden)]
        rows = _by_keys(target, golden, wanted, fits, turns)
    if mappings.data and release.verdicts == "classic":
        rows = _in_order_of(mappings.data, rows)
    met = {id(pair.golden) for pair in rows if pair.golden is not None}
    alone = [Pair(None, value) for value in golden.values if id(value) not in met]
    names = {}
    if mappings.layer:
        names = {p.value.name: p.golden.name if p.golden else "N/A" for p in rows}
    return Paired(rows, alone, names)


def _fitting(
    release: Release, *, sees_dtypes: bool, sees_shapes: bool
) -> Callable[[Value, Value], bool]:
    wide = release.verdicts == "current"

    def fits(target: Value, golden: Value) -> bool:
        if sees_shapes and target.shape != golden.shape:
            return False
        if target.is_process_group or golden.is_process_group:
            return True
        return not sees_dtypes or _kind(target.dtype, wide) == _kind(golden.dtype, wide)

    return fits


@cache
def _kind(dtype: str, wide: bool) -> str:
    """What dtypes that may meet have in common, of either framework's spelling."""
    if dtype.startswith("<class"):
        return dtype
    token = dtype.rpartition(".")[2].lower()
    try:
        known = dtype_from_token(token)
    except ValueError:
        return dtype
    if wide:
        return "bool" if known.kind == "b" else arithmetic_of(known)
    return "float" if str(known) in _NEAR else str(known)


def _turns(side: Side) -> dict[str, str]:
    """Names of operators' calls as if numbered in their order."""
    found: dict[str, str] = {}
    counts: Counter[object] = Counter()
    for value in side.values:
        call = value.call
        if call is None or call.is_module or call.event == "debug" or value.entry in found:
            continue
        family = _family(value, fuzzy=True)
        found[value.entry] = format_msprobe_call(replace(call, call=counts[family]))
        counts[family] += 1
    return found


def _by_keys(
    target: Side,
    golden: Side,
    wanted: _Wanted,
    fits: Callable[[Value, Value], bool],
    turns: Sequence[Mapping[str, str]],
) -> list[Pair]:
    here, there = turns
    places: dict[Key, Value] = {}
    for value in golden.values:
        entry = there.get(value.entry, value.entry)
        places.setdefault((entry, value.section, value.slot), value)
    rows, taken = [], set()
    for value in target.values:
        found = None
        for entry, section, slot in wanted(value):
            other = places.get((here.get(entry, entry), section, slot))
            if other is not None and id(other) not in taken and fits(value, other):
                found = other
                taken.add(id(other))
                break
        rows.append(Pair(value, found))
    return rows


def _by_calls(
    target: Side, golden: Side, fits: Callable[[Value, Value], bool], *, fuzzy: bool
) -> list[Pair]:
    """Whole calls: all values of one fit all of the other, or none meet."""
    families: dict[object, list[list[Value]]] = defaultdict(list)
    for call in _calls_of(golden):
        families[_family(call[0], fuzzy)].append(call)
    partner: dict[int, tuple[Value, bool]] = {}
    for call in _calls_of(target):
        waiting = families[_family(call[0], fuzzy)]
        found = next((k for k, other in enumerate(waiting) if _all_fit(call, other, fits)), None)
        if found is None:
            continue
        # The order is kept: what was passed over meets nothing behind it.
        other = waiting[found]
        del waiting[: found + 1]
        other_entry = call[0].entry != other[0].entry
        partner.update(
            (id(mine), (theirs, other_entry)) for mine, theirs in zip(call, other, strict=True)
        )
    return [
        Pair(value, *partner[id(value)]) if id(value) in partner else Pair(value, None)
        for value in target.values
    ]


def _calls_of(side: Side) -> Iterable[list[Value]]:
    calls: dict[str, list[Value]] = {}
    for value in side.values:
        calls.setdefault(value.entry, []).append(value)
    return calls.values()


def _family(value: Value, fuzzy: bool) -> object:
    call = value.call
    if not fuzzy or call is None or call.is_module:
        return value.entry
    return call.prefix, call.path, call.layer, call.event


def _all_fit(
    call: Sequence[Value], other: Sequence[Value], fits: Callable[[Value, Value], bool]
) -> bool:
    def places(values: Sequence[Value]) -> list[tuple[str, str]]:
        return [(value.section, value.slot) for value in values]

    return places(call) == places(other) and all(map(fits, call, other))


def _wanted(target: Side, golden: Side, release: Release, mappings: Mappings) -> _Wanted:
    """What is looked for, in this order."""
    steps: list[_Wanted] = []
    if isinstance(mappings.data, MappingFile):
        steps.append(_by_data(mappings.data, golden))
    if mappings.layer:
        steps.append(_by_layer(mappings.layer, target, golden, release))
    if mappings.cell:
        steps.append(_by_cell(mappings.cell, release))
    if mappings.api:
        steps.append(_by_api(mappings.api, golden))
    # Of a classic release a data mapping chooses the rows; in all others equal names meet.
    if not (mappings.data and release.verdicts == "classic"):
        steps.append(lambda value: [(value.entry, value.section, value.slot)])
    return lambda value: (key for step in steps for key in step(value))


def _by_data(mapping: MappingFile, golden: Side) -> _Wanted:
    names = {rule.left: rule.right for rule in mapping.names if rule.left and rule.right}

    def wanted(value: Value) -> Iterable[Key]:
        other = golden.by_name.get(names.get(value.name, ""))
        return [(other.entry, other.section, other.slot)] if other else []

    return wanted


def _in_order_of(mapping: MappingFile, rows: Sequence[Pair]) -> list[Pair]:
    """The rows that a data mapping names, in its order."""
    by_name = {pair.value.name: pair for pair in rows if pair.golden is not None}
    named = [rule.left for rule in mapping.names if rule.left]
    return [by_name[name] for name in named if name in by_name]


def _by_cell(mapping: MappingFile | bool, release: Release) -> _Wanted:
    """Cells as modules, with the names of a mapping; parts of names too, since 26.2."""
    rules = mapping.names if isinstance(mapping, MappingFile) else ()
    exact = {rule.left: rule.right for rule in rules}

    @cache
    def renamed(path: str) -> str:
        if path in exact:
            return exact[path] or path
        if release.verdicts == "current":
            for rule in rules:
                if rule.left and rule.left in path:
                    return path.replace(rule.left, rule.right or "", 1)
        return path

    def wanted(value: Value) -> Iterable[Key]:
        call = value.call
        if call is None or not call.is_module:
            return []
        path, _, layer = renamed(f"{call.path}.{call.layer}").rpartition(".")
        return [(_module(call, path, layer), value.section, value.slot)]

    return wanted


def _module(call: MsprobeCall, path: str, layer: str) -> str:
    return format_msprobe_call(replace(call, prefix="Module", path=path, layer=layer))


def _by_layer(mapping: MappingFile | bool, target: Side, golden: Side, release: Release) -> _Wanted:
    """Modules by renamed attributes, whatever their class, and operators that rules name."""
    rules = mapping.names if isinstance(mapping, MappingFile) else ()
    modules = [value.call for value in target.values if value.call and value.call.is_module]
    layers = LayerNames(rules, {call.path: call.layer for call in modules})
    entries: dict[tuple[str, str, int | None], str] = {}
    for value in golden.values:
        if value.call and value.call.is_module:
            call = value.call
            entries.setdefault((call.path, call.event, call.call), value.entry)
    operators = _operators_by_layer(layers, target, golden)

    @cache
    def renamed(path: str) -> str:
        return layers.renamed(path)[0]

    def wanted(value: Value) -> Iterable[Key]:
        call = value.call
        if call is None:
            return []
        if not call.is_module:
            entry = operators.get(value.entry)
            return [(entry, value.section, value.slot)] if entry else []
        path = renamed(call.path)
        # 26.2 forgets to rename the gradients of parameters.
        if release.verdicts == "current" and call.event == "parameters_grad":
            path = call.path
        entry = entries.get((path, call.event, call.call))
        return [(entry, value.section, value.slot)] if entry else []

    return wanted


def _operators_by_layer(layers: LayerNames, target: Side, golden: Side) -> dict[str, str]:
    """Calls of operators that rules rename inside of modules, and those of the golden dump."""
    there = _inner_calls(golden)
    order = {value.entry: place for place, value in enumerate(target.values)}
    # Several operators of one side may be one of the other: their calls take turns.
    wanted: dict[str, dict[str, dict[str, str]]] = defaultdict(dict)
    for path, calls in _inner_calls(target).items():
        named = layers.renamed_inside(path.rpartition(".")[0], path)
        if named is not None:
            wanted[named[0]] |= calls
    found: dict[str, str] = {}
    for new, calls in wanted.items():
        in_turn = sorted(calls.values(), key=lambda call: min(order[one] for one in call.values()))
        for mine, theirs in zip(in_turn, there.get(new, {}).values(), strict=False):
            found |= {mine[event]: theirs[event] for event in mine.keys() & theirs.keys()}
    return found


def _inner_calls(side: Side) -> dict[str, dict[str, dict[str, str]]]:
    """Calls by the path of the module they ran in and their own name: entries by direction.

    The calls of a path by the name of their forward one.
    """
    found: dict[str, dict[str, dict[str, str]]] = defaultdict(dict)
    for entry, call in {value.entry: value.call for value in side.values}.items():
        if call is None or call.is_module or call.event == "debug":
            continue
        forward = format_msprobe_call(forward_of(call))
        parent = parse_msprobe_call(side.parents.get(forward, ""))
        inside = parent.path if parent is not None and parent.is_module else ""
        for name in dict.fromkeys(filter(None, (call.path, call.layer))):
            path = ".".join(filter(None, (inside, name)))
            found[path].setdefault(forward, {})[call.event] = entry
    return found


def _by_api(mapping: MappingFile | bool, golden: Side) -> _Wanted:
    """Operators under torch's names: those of the mapping, then those of our own table.

    Primitives never meet this way, as their names have a class in them.
    """
    rules = mapping.apis if isinstance(mapping, MappingFile) else ()
    chosen = {rule.left: _Rule.of(rule) for rule in rules}
    entries = {value.entry for value in golden.values}

    @cache
    def rules_of(name: str) -> tuple[_Rule, ...]:
        if name in chosen:
            return (chosen[name],)
        rows = rows_of_mindspore(name)
        return tuple(
            _Rule(row.torch, dict(zip(row.mindspore_arguments, row.torch_arguments, strict=False)))
            for row in rows
        )

    def wanted(value: Value) -> Iterable[Key]:
        call = value.call
        if call is None or call.is_module or call.layer or call.event == "debug":
            return
        for rule in rules_of(f"{call.prefix}.{call.path}"):
            entry, slot = _operator(call, rule.name), rule.slot_of(value)
            if entry in entries and slot is not None:
                yield entry, value.section, slot
                return

    return wanted


@dataclass(frozen=True)
class _Rule:
    """Torch's name of an operator, and its positions of those of MindSpore; None: the same."""

    name: str
    inputs: Mapping[str, str] | None = None
    outputs: Mapping[str, str] | None = None

    @classmethod
    def of(cls, rule: ApiRule) -> _Rule:
        inputs, outputs = (
            None if part is None else {str(one.left): str(one.right) for one in part}
            for part in (rule.inputs, rule.outputs)
        )
        return cls(rule.right, inputs, outputs)

    def slot_of(self, value: Value) -> str | None:
        """The position on torch's side; None where the rule has none for it."""
        event = value.call.event if value.call else ""
        # What arrives backward are gradients of the outputs, what leaves those of the arguments.
        of_outputs = (value.section == "output") == (event == "forward")
        listed = self.outputs if of_outputs else self.inputs
        head, dot, rest = value.slot.partition(".")
        if listed is None:
            return value.slot
        return f"{listed[head]}{dot}{rest}" if head in listed else None


def _operator(call: MsprobeCall, name: str) -> str:
    prefix, _, path = name.partition(".")
    return format_msprobe_call(replace(call, prefix=prefix, path=path, layer=""))
