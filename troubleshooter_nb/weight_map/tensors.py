"""The tensors of both sides of a weight map, and how a row fits them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from troubleshooter_nb.errors import EntryNotFoundError, WeightMapError
from troubleshooter_nb.messages import Message, joined, message_of
from troubleshooter_nb.naming.closeness import closest
from troubleshooter_nb.shapes import Shape, shape_text
from troubleshooter_nb.transforms import Spec, Transform, fitting, shapes_said
from troubleshooter_nb.weight_map.reparametrized import is_part, reparametrized
from troubleshooter_nb.weight_map.rows import Side, WeightRow, used_names


@dataclass(frozen=True)
class Tensors:
    """What is known of both sides; see `WeightMap` for what an empty source and no target mean."""

    source: Mapping[str, Spec]
    target: Mapping[str, Spec] | None
    source_label: str
    target_label: str

    def label(self, side: Side) -> str:
        """What a side is called."""
        return self.source_label if side == "source" else self.target_label

    def check_sources(self, names: Sequence[str]) -> None:
        """Raise EntryNotFoundError unless the source has these names, where it is known."""
        check_names(names, self.source, self.source_label)

    def check(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        """Raise EntryNotFoundError unless both sides have these names, where they are known."""
        self.check_sources(sources)
        check_names(targets, self.target or {}, self.target_label)

    def names(
        self, side: Side, rows: Sequence[WeightRow], more: Sequence[str]
    ) -> Mapping[str, object]:
        """The names of a side; of one that is not known those in rows, and more."""
        known = self.target if side == "target" else self.source or None
        return dict.fromkeys((*more, *used_names(rows, side))) if known is None else known

    def fitting(
        self, sources: Sequence[str], targets: Sequence[str], *, everything: bool = False
    ) -> tuple[Transform, ...]:
        """Transforms that make these targets of these sources, see `WeightMap.fitting`."""
        self.check(sources, targets)
        ours = [self.source[name] if self.source else None for name in sources]
        theirs = [None if self.target is None else self.target[name].shape for name in targets]
        return fitting(tuple(ours), tuple(theirs), everything=everything)

    def misfit(self, sources: Sequence[str], targets: Sequence[str]) -> str:
        """Why no transform makes these targets of these sources, or nothing."""
        if self.fitting(sources, targets) or not self.source:
            return ""
        if len(sources) > 1 and len(targets) > 1:
            return Message("weight_maps.several_of_several")
        ours = [self.source[name] for name in sources]
        if self.target is None:
            shapes = shapes_said(ours)
            if len(ours) > 1:
                return Message("weight_maps.no_axis_joins", shapes=shapes)
            return Message("weight_maps.no_equal_parts", shape=shapes[0], count=len(targets))
        theirs = [self.target[name] for name in targets]
        said = {"ours": list(map(_sized, ours)), "theirs": list(map(_sized, theirs))}
        dtypes = list(dict.fromkeys(spec.dtype.name for spec in ours))
        only = Message("transforms.one_dtype", dtypes=dtypes) if dtypes[1:] else ""
        return joined([Message("weight_maps.other_sizes", **said), only])

    def problem(self, row: WeightRow) -> str:
        """Why a row cannot be converted, or nothing."""
        if not all(map(str.strip, row.targets)):
            return Message("weight_maps.target_empty")
        if wrong := row.miscounted():
            return wrong
        if not self.source:  # nothing is known yet, as of a map just read
            return ""
        if wrong := _missing(row.sources, self.source, self.source_label) or self.part(row):
            return wrong
        try:
            made = row.transform.specs([self.source[name] for name in row.sources])
        except WeightMapError as error:
            return message_of(error)
        for name, spec in zip(row.targets, made, strict=True) if self.target is not None else ():
            if wrong := _missing([name], self.target or {}, self.target_label):
                return wrong
            wanted = (self.target or {})[name].shape
            if wanted != spec.shape:
                shapes = {"made": spec.shape, "wanted": wanted}
                return Message("weight_maps.other_shape", **shapes, name=name)
        return ""

    def part(self, row: WeightRow) -> str:
        """Why a row takes a part of a weight for the weight, or nothing."""
        if row.transform.takes_parts or not any(map(is_part, row.sources)):
            return ""
        if all(map(is_part, row.targets)):
            return ""
        for parts in reparametrized(self.source).values():
            if given := [name for name in row.sources if name in parts.names]:
                return Message("weight_maps.is_part", name=given[0], cure=parts.cure)
        return ""

    def checked(self, row: WeightRow) -> WeightRow:
        """The row, if its names are known and its transform fits; raises as `WeightMap.pair`."""
        self.check(row.sources, row.targets)
        if problem := self.problem(row):
            names = {"sources": list(row.sources), "targets": list(row.targets)}
            raise WeightMapError(Message("weight_maps.row_refused", **names, problem=problem))
        return row

    def known_sources(self, row: WeightRow) -> list[Spec]:
        """Those sources of a row that are known."""
        return [self.source[name] for name in row.sources if name in self.source]

    def preview(self, row: WeightRow) -> str:
        """The shapes before and after: ``4x2 -> 2x4``; raises as `WeightMap.preview`."""
        if problem := self.problem(row):
            raise WeightMapError(problem)
        known = self.known_sources(row)
        if len(known) < len(row.sources):
            return Message("weight_maps.shapes_not_known")
        before, after = map(shapes_said, (known, row.transform.specs(known)))
        after = after or [Message("weight_maps.nothing")]
        return Message("weight_maps.becomes", before=before, after=after)

    def target_shapes(self, row: WeightRow) -> tuple[Shape, ...]:
        """The shapes of a row's targets; those that it makes where the target is not known."""
        if self.target is not None:
            return tuple(self.target[n].shape for n in row.targets if n in self.target)
        try:
            specs = row.transform.specs([self.source[name] for name in row.sources])
        except (WeightMapError, KeyError):
            return ()
        return tuple(spec.shape for spec in specs)


def check_names(names: Sequence[str], known: Mapping[str, object], label: str) -> None:
    """Raise EntryNotFoundError for the first name that is not known, where any is."""
    for name in names if known else ():
        if name not in known:
            where = {"name": name, "label": label, "closest": closest(name, known)}
            raise EntryNotFoundError(Message("weight_maps.no_name", **where))


def _missing(names: Sequence[str], known: Mapping[str, object], label: str) -> str:
    """That a name is not there, or nothing."""
    for name in names:
        if name not in known:
            where = {"name": name, "label": label, "closest": closest(name, known)}
            return Message("weight_maps.not_in", **where)
    return ""


def _sized(spec: Spec) -> Message:
    """How many values there are, and their shape where it says more."""
    if len(spec.shape) == 1:
        return Message("weight_maps.values", count=spec.size)
    shape = shape_text(spec.shape, "×") if spec.shape else Message("transforms.scalar")
    return Message("weight_maps.values_of_shape", count=spec.size, shape=shape)
