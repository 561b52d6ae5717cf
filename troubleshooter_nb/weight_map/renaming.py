"""Other names of the targets of a weight map."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from troubleshooter_nb.errors import WeightMapError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.weight_map.rows import JOIN, WeightRow, filled_by_several

Renaming = Callable[[dict[str, str]], Mapping[str, str]]


def renamed(
    rows: Sequence[WeightRow],
    prefix: str | None,
    pattern: tuple[str, str] | None,
    func: Renaming | None,
) -> tuple[WeightRow, ...]:
    """The rows with other targets; raises as `WeightMap.rename` does."""
    if prefix is None and pattern is None and func is None:
        raise WeightMapError(Message("weight_maps.rename_by_nothing"))
    names = [JOIN.join(row.targets) for row in rows]
    if prefix is not None:
        front = prefix.rstrip(".")
        names = [_each(joined, lambda name: f"{front}.{name}") for joined in names]
    if pattern is not None:
        names = _by_pattern(names, pattern)
    if func is not None:
        names = _by_func(rows, func, names)
    made = tuple(_named(row, name) for row, name in zip(rows, names, strict=True))
    for target, at in () if made == tuple(rows) else filled_by_several(made).items():
        several = {"name": target, "sources": [JOIN.join(made[k].sources) for k in at]}
        raise WeightMapError(Message("weight_maps.renamed_to_several", **several))
    return made


def _each(joined: str, change: Callable[[str], str]) -> str:
    return JOIN.join(change(name) for name in joined.split(JOIN)) if joined else ""


def _by_pattern(names: Sequence[str], pattern: tuple[str, str]) -> list[str]:
    try:
        search = re.compile(pattern[0])
        return [_each(joined, lambda name: search.sub(pattern[1], name)) for joined in names]
    except (re.error, IndexError) as error:
        said = Message("weight_maps.no_pattern", pattern=pattern, error=error)
        raise WeightMapError(said) from error


def _by_func(rows: Sequence[WeightRow], func: Renaming, names: Sequence[str]) -> list[str]:
    """Names that a function gives; it is asked again for the further rows of one source."""
    changed, left = list(names), list(range(len(names)))
    while left:
        asked: dict[str, int] = {}
        for position in left:
            asked.setdefault(JOIN.join(rows[position].sources), position)
        left = [position for position in left if position not in asked.values()]
        wanted = func({source: names[position] for source, position in asked.items()})
        if not isinstance(wanted, Mapping):
            got = type(wanted).__name__
            raise WeightMapError(Message("weight_maps.func_gives_other", got=got))
        if strangers := sorted(map(str, wanted.keys() - asked.keys())):
            raise WeightMapError(Message("weight_maps.strange_rows", names=strangers[:4]))
        for source, name in wanted.items():
            if not isinstance(name, str):
                given = {"source": source, "name": repr(name)}
                raise WeightMapError(Message("weight_maps.func_gives_no_name", **given))
            changed[asked[source]] = name
    return changed


def _named(row: WeightRow, joined: str) -> WeightRow:
    targets = tuple(joined.split(JOIN)) if row.targets else ()
    if not all(name.strip() for name in targets):
        raise WeightMapError(Message("weight_maps.empty_name", names=list(row.sources)))
    return row if targets == row.targets else replace(row, targets=targets, how="edited")
