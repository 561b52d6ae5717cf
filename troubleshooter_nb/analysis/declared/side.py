"""The entries of one dump by whatever a mapping file may call them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

from troubleshooter_nb.dump import Dump, StepRank
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming import Site, parse_msprobe_call, parse_row_name, site_of_msprobe

_SUFFIXES = (".npy", ".pt")
_COLUMNS = (
    *("name", "kind", "path", "call", "direction", "role", "slot"),
    *("step", "rank", "layer", "value", "shape", "parent"),
)


class InnerCall(NamedTuple):
    """A call of an operator: where it ran, the path of the module around it, and its rows."""

    place: StepRank
    inside: str
    rows: list[int]


class DumpNames:
    """One dump, looked up by names of rows, modules and operators."""

    def __init__(self, dump: Dump, side: str) -> None:
        id = f"mappings.{side}_dump" if dump.label else f"values.{side}"
        self.where = Message(id, **({"label": dump.label} if dump.label else {}))
        self.columns = dump.columns.lists(*_COLUMNS)
        steps, ranks = self.columns["step"], self.columns["rank"]
        self.places: list[StepRank] = list(zip(steps, ranks, strict=True))
        self.kinds = set(self.columns["kind"])

    @cached_property
    def by_name(self) -> dict[str, dict[StepRank, int]]:
        """Row of each name in each place."""
        found: dict[str, dict[StepRank, int]] = defaultdict(dict)
        for row, name in enumerate(self.columns["name"]):
            found[name][self.places[row]] = row
        return dict(found)

    @cached_property
    def by_site(self) -> dict[Site, dict[StepRank, int]]:
        """Row of each site in each place, where there is one only."""
        names = ("kind", "path", "call", "direction", "role", "slot")
        return self._single(zip(*(self.columns[name] for name in names), strict=True), Site)

    @cached_property
    def by_path(self) -> dict[str, dict[StepRank, int]]:
        """Row of each path in each place, where there is one only."""
        return self._single(((path,) for path in self.columns["path"]), str)

    def _single(self, keys: Iterable[tuple], make: type) -> dict:
        found: dict = defaultdict(dict)
        repeated = set()
        for row, parts in enumerate(keys):
            key = make(*parts)
            if self.places[row] in found[key]:
                repeated.add(key)
            found[key][self.places[row]] = row
        return {key: rows for key, rows in found.items() if key not in repeated}

    def rows_of(self, name: str) -> dict[StepRank, int]:
        """The row in every place that a mapping may call so; nothing for unknown names.

        By its name, with or without the suffix of its file; as another release of msprobe calls
        it; by its path where that means one entry.
        """
        bare = name
        for suffix in _SUFFIXES:
            bare = bare.removesuffix(suffix)
        if found := self.by_name.get(name) or self.by_name.get(bare):
            return found
        site = site_of_row(bare)
        return (self.by_site.get(site) if site else None) or self.by_path.get(name) or {}

    @cached_property
    def classes(self) -> dict[str, str]:
        """Class of each module, by its path."""
        pairs = zip(*(self.columns[name] for name in ("kind", "path", "layer")), strict=True)
        return {path: layer for kind, path, layer in pairs if kind == "module"}

    @cached_property
    def modules(self) -> dict[str, list[int]]:
        """Rows of each module, by its path."""
        return self._rows("module")

    @cached_property
    def operators(self) -> dict[str, list[int]]:
        """Rows of each operator, by its path."""
        return self._rows("api")

    def _rows(self, wanted: str) -> dict[str, list[int]]:
        found: dict[str, list[int]] = defaultdict(list)
        for row, (kind, path) in enumerate(
            zip(self.columns["kind"], self.columns["path"], strict=True)
        ):
            if kind == wanted:
                found[path].append(row)
        return dict(found)

    @cached_property
    def cells(self) -> dict[str, str]:
        """Path of each module, by ``path.Class``."""
        return {f"{path}.{layer}": path for path, layer in self.classes.items()}

    @cached_property
    def prefixes(self) -> set[str]:
        """Paths of modules and of what contains them."""
        found: set[str] = set()
        for path in self.modules:
            parts = path.split(".")
            found.update(".".join(parts[: k + 1]) for k in range(len(parts)))
        return found

    @cached_property
    def attributes(self) -> set[str]:
        """Single parts of the paths of modules."""
        return {prefix.rpartition(".")[2] for prefix in self.prefixes}

    @cached_property
    def _operator_names(self) -> dict[str, list[str]]:
        """Paths of operators by their other names: a primitive has a class, too."""
        found: dict[str, list[str]] = defaultdict(list)
        for path, rows in self.operators.items():
            layer = self.columns["layer"][rows[0]]
            prefix = path.partition(".")[0]
            if layer and layer != path.rpartition(".")[2]:
                for name in {f"{path}.{layer}", f"{prefix}.{layer}"} - {path}:
                    found[name].append(path)
        return dict(found)

    @cached_property
    def calls_inside(self) -> dict[str, list[InnerCall]]:
        """Calls of operators by the paths they have inside modules, in the order they were made.

        ``layers.0.attention.flash_attention_score``: the path of the module that the call ran in,
        and the operator's name, its class where it has one, or its name with category.
        """
        found: dict[str, list[InnerCall]] = defaultdict(list)
        columns = self.columns
        calls: dict[tuple[StepRank, str, str, int], InnerCall] = {}
        for row in sorted(row for rows in self.operators.values() for row in rows):
            path, layer = columns["path"][row], columns["layer"][row]
            key = self.places[row], path, layer, columns["call"][row]
            if key not in calls:
                inside = self._module_of(columns["parent"][row])
                calls[key] = InnerCall(self.places[row], inside, [])
                for name in _names_inside(path, layer):
                    found[".".join(filter(None, (inside, name)))].append(calls[key])
            calls[key].rows.append(row)
        return dict(found)

    @cached_property
    def inner_names(self) -> set[str]:
        """The last parts of the paths of `calls_inside`."""
        return {path.rpartition(".")[2] for path in self.calls_inside}

    def _module_of(self, parent: str) -> str:
        """Path of the module that an enclosing call belongs to; empty for none."""
        call = parse_msprobe_call(parent)
        if call is None or not call.is_module:
            return ""
        if call.path in self.classes:
            return call.path
        # The number of the only model of a list is no part of paths.
        rest = call.path.partition(".")[2]
        return rest if rest in self.classes else call.path

    def operators_of(self, name: str) -> list[str]:
        """Paths of the operators a mapping may call so; several of one class of primitives."""
        return [name] if name in self.operators else self._operator_names.get(name, [])

    @property
    def operator_names(self) -> list[str]:
        """All names that `operators_of` knows."""
        return [*self.operators, *self._operator_names]


def _names_inside(path: str, layer: str) -> list[str]:
    """What a mapping may call an operator: without and with its category, and by its class."""
    bare = path.partition(".")[2] or path
    return list(dict.fromkeys(filter(None, (bare, layer, path))))


def site_of_row(name: str) -> Site | None:
    """The site that the name of a row of msprobe stands for; None for other names."""
    row = parse_row_name(name)
    call = parse_msprobe_call(row.entry) if row else None
    return site_of_msprobe(call, row.section, row.slot) if row and call else None
