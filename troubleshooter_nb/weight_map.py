"""Which parameters of one network become which of another, and what their values go through."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from troubleshooter_nb.errors import AmbiguousEntryError, EntryNotFoundError, WeightMapError
from troubleshooter_nb.history import History
from troubleshooter_nb.messages import Message, joined, message_of, of_one_class
from troubleshooter_nb.metrics.float_formats import stored_as
from troubleshooter_nb.metrics.floats import dtype_from_token
from troubleshooter_nb.naming.closeness import (
    BY_SHAPE_ALONE,
    Candidate,
    closest,
    name_index,
    rest_pairs,
)
from troubleshooter_nb.options import get_options
from troubleshooter_nb.render.weight_map_view import weight_map_html, weight_map_text
from troubleshooter_nb.shapes import Shape, shape_text, with_shape_texts

SCHEMA = "troubleshooter_nb.weight_map/1"

# What values may go through: a closed list, so that no file can name a function to call.
KINDS = (
    *("copy", "transpose", "permute", "reshape", "expand_dims", "squeeze"),
    *("split", "concat", "add", "weight_norm", "cast", "drop"),
)
JOINING = ("concat", "add", "weight_norm")  # these take several sources
# name -> (dtype, meaning)
WEIGHT_MAP_COLUMNS = {
    "source": ("str", "names in the source, joined by +"),
    "target": ("str", "names in the target, joined by +; empty for what is dropped"),
    "layer": ("str", "layer type of the source, where known"),
    "transform": ("str", "what the values go through, such as expand_dims(2)"),
    "how": ("str", "drafted, edited or imported"),
    "note": ("str", "what to know about this row"),
    "source_shape": ("tuple", "shapes in the source, a tuple each"),
    "target_shape": ("tuple", "shapes in the target, a tuple each; of a known target its own"),
    "size": ("int64", "elements of the sources"),
    "problem": ("str", "why this row cannot be converted"),
    "suggestion": ("str", "what the values prove instead, with its transform; empty for none"),
}
_CALL = re.compile(r"\s*([a-z_]+)\s*(?:\(([^()]*)\))?\s*")
_MOST_PROBLEMS = 8
_MOST_AXES = 32  # of an array in the oldest numpy
# The note that counts rows whose values agree, as it is drafted and after suggestions are taken.
_AGREEING = ("weight_maps.values_agree", "weight_maps.values_agreed")
Side = Literal["source", "target"]


class Spec(NamedTuple):
    """Shape and dtype of a tensor that need not be there."""

    shape: Shape
    dtype: np.dtype

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Transform:
    """What the values of a row go through.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    arguments : tuple of int, or of one dtype name
        ``permute`` axes, as `numpy.transpose` takes them; ``reshape`` the new shape;
        ``expand_dims`` and ``squeeze`` the axis; ``split`` the axis and the sizes along it;
        ``concat`` the axis; ``cast`` the dtype. ``weight_norm`` makes a weight of its two parts g
        and v, g * v / norm of v over all axes but the one given (-1: over all), and puts an axis
        of size 1 in at the second number where there is one. The others have none: ``transpose``
        reverses the axes, ``add`` sums its sources.
    """

    kind: str = "copy"
    arguments: tuple[int | str, ...] = ()

    def __post_init__(self) -> None:
        counts = {"permute": None, "reshape": None, "split": None, "expand_dims": 1}
        counts["weight_norm"] = None
        counts |= {"squeeze": 1, "concat": 1, "cast": 1}
        if self.kind not in KINDS:
            near = closest(self.kind, KINDS)
            kinds = {"kind": self.kind, "kinds": list(KINDS)}
            raise WeightMapError(Message("weight_maps.no_transform", **kinds, closest=near))
        wanted = counts.get(self.kind, 0)
        numbers = self.kind != "cast"
        fits = wanted is None or len(self.arguments) == wanted
        given = {"kind": self.kind, "arguments": self.arguments}
        if not fits or any(isinstance(value, int) != numbers for value in self.arguments):
            what = {None: "whole_numbers", 0: "no_arguments", 1: "one_argument"}[wanted]
            raise WeightMapError(Message(f"weight_maps.takes_{what}", **given))
        if self.kind == "weight_norm" and not 1 <= len(self.arguments) <= 2:
            raise WeightMapError(Message("weight_maps.takes_norm_axis", **given))
        if self.kind == "cast":
            try:
                dtype_from_token(str(self.arguments[0]))
            except ValueError:
                dtype = self.arguments[0]
                raise WeightMapError(Message("weight_maps.no_dtype", dtype=dtype)) from None

    @classmethod
    def parse(cls, text: str) -> Transform:
        """The transform a text means: ``copy``, ``expand_dims(2)``, ``split(0, 64, 64, 64)``.

        Raises
        ------
        WeightMapError
            For anything that is not in the closed list; nothing is ever imported or called.
        """
        match = _CALL.fullmatch(text)
        if match is None:
            raise WeightMapError(Message("weight_maps.not_one", text=text[:80], kinds=KINDS))
        words = [word.strip() for word in (match[2] or "").split(",") if word.strip()]
        is_number = re.compile(r"-?[0-9]{1,18}").fullmatch
        return cls(match[1], tuple(int(word) if is_number(word) else word for word in words))

    def __str__(self) -> str:
        """The text that `parse` reads."""
        inside = ", ".join(map(str, self.arguments))
        return f"{self.kind}({inside})" if self.arguments else self.kind

    @property
    def keeps_order(self) -> bool:
        """Whether the values stay in their flat order, so that only the shape changes."""
        return self.kind in ("copy", "reshape", "expand_dims", "squeeze")

    def specs(self, sources: Sequence[Spec]) -> list[Spec]:
        """Shapes and dtypes of the targets.

        Raises
        ------
        WeightMapError
            If the sources do not fit the transform.
        """
        return list(_made(self, tuple(sources)))

    def apply(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The target arrays; views of the sources where possible.

        Raises
        ------
        WeightMapError
            If the arrays do not fit the transform.
        """
        made = _made(self, tuple(Spec(array.shape, array.dtype) for array in arrays))
        first, numbers = arrays[0], [int(n) for n in self.arguments if isinstance(n, int)]
        match self.kind:
            case "transpose":
                return [first.T]
            case "permute":
                return [first.transpose(numbers)]
            case "reshape":
                return [first.reshape(numbers)]
            case "expand_dims":
                return [np.expand_dims(first, numbers[0])]
            case "squeeze":
                return [np.squeeze(first, numbers[0])]
            case "split":
                axis, *sizes = numbers
                return np.split(first, np.cumsum(sizes)[:-1], axis)
            case "concat":
                return [np.concatenate(arrays, numbers[0])]
            case "add":
                total = first
                for array in arrays[1:]:
                    total = total + array
                return [total]
            case "weight_norm":
                return [_weight_of(first, arrays[1], numbers[0]).reshape(made[0].shape)]
            case "cast":
                return [stored_as(first, dtype_from_token(str(self.arguments[0])))]
            case "drop":
                return []
            case _:
                return [first]

    def inverse(self, sources: Sequence[Spec]) -> Transform | None:
        """What turns the targets back into these sources, bit for bit; None where nothing does."""
        match self.kind:
            case "permute":
                back = np.argsort([int(axis) for axis in self.arguments])
                return Transform("permute", tuple(int(axis) for axis in back))
            case "reshape":
                return Transform("reshape", sources[0].shape)
            case "expand_dims":
                return Transform("squeeze", self.arguments)
            case "squeeze":
                return Transform("expand_dims", self.arguments)
            case "split":
                return Transform("concat", self.arguments[:1])
            case "concat":
                axis = self._axis(sources[0])
                return Transform("split", (axis, *(source.shape[axis] for source in sources)))
            case "copy" | "transpose":
                return self
            case _:
                return None

    def _folded(self, sources: Sequence[Spec]) -> Spec:
        """What a weight norm makes of its parts."""
        dim, *axis = (int(number) for number in self.arguments)
        if dim not in norm_axes(sources[0].shape, sources[1].shape):
            shapes = [source.shape for source in sources]
            raise WeightMapError(Message("weight_maps.no_parts", transform=self, shapes=shapes))
        spec = sources[1]
        if axis and not 0 <= axis[0] <= len(spec.shape):
            where = {"transform": self, "shape": spec.shape, "axis": axis[0]}
            raise WeightMapError(Message("weight_maps.no_place", **where))
        return Spec(
            (*spec.shape[: axis[0]], 1, *spec.shape[axis[0] :]) if axis else spec.shape, spec.dtype
        )

    def _axis(self, source: Spec) -> int:
        axis = int(self.arguments[0])
        if not -len(source.shape) <= axis < len(source.shape):
            where = {"transform": self, "shape": source.shape, "axis": axis}
            raise WeightMapError(Message("weight_maps.no_axis", **where))
        return axis % len(source.shape)


def norm_axes(g: Shape, v: Shape) -> list[int]:
    """The axes of v that keep their norm where g has it, as torch counts them: -1 for none."""
    if not g:
        return [-1]
    if len(g) != len(v):
        return []
    return [d for d in range(len(v)) if g == tuple(n if i == d else 1 for i, n in enumerate(v))]


def _weight_of(g: np.ndarray, v: np.ndarray, dim: int) -> np.ndarray:
    """A weight of the parts of its norm, computed in float64 and rounded once."""
    wide = v.astype(np.float64)
    axes = tuple(axis for axis in range(v.ndim) if axis != dim)
    with np.errstate(all="ignore"):
        norm = np.sqrt(np.square(wide).sum(axis=axes, keepdims=True))
        weight = g.astype(np.float64) * wide / norm
        return stored_as(weight, v.dtype)


_NEW_PART = re.compile(r"(?:(.*)\.)?parametrizations\.([^.]+)\.(original[0-9]*|[0-9]+\..+)")
_OLD_PART = re.compile(r"(.+)_(g|v|orig|u|mask)")
# What torch is asked before such a weight is saved.
_CURE = {
    "weight_norm": "torch.nn.utils.remove_weight_norm(layer)",
    "spectral_norm": "torch.nn.utils.remove_spectral_norm(layer)",
    "pruned": "torch.nn.utils.prune.remove(layer, 'weight')",
}
_NEW_CURE = "torch.nn.utils.parametrize.remove_parametrizations(layer, 'weight')"


@dataclass(frozen=True)
class Parts:
    """What a reparametrized weight is stored as.

    `names` has the tensors, for a weight norm g and v; `axis` is that of the norm.
    """

    form: Literal["weight_norm", "spectral_norm", "pruned", "parametrized"]
    names: tuple[str, ...]
    axis: int = -1

    @property
    def cure(self) -> Message:
        """What such a tensor is, and what to do in torch before its weight is saved."""
        new = self.form != "pruned" and is_part(self.names[0]) == "new"
        call = _NEW_CURE if new else _CURE.get(self.form, _NEW_CURE)
        return Message(f"weight_maps.part_{self.form}", call=call)


@lru_cache(maxsize=1 << 16)
def is_part(name: str) -> Literal["new", "old", ""]:
    """Whether a name may be that of a part: only its siblings tell."""
    if _NEW_PART.fullmatch(name):
        return "new"
    return "old" if _OLD_PART.fullmatch(name) else ""


def reparametrized(specs: Mapping[str, Spec]) -> dict[str, Parts]:
    """Weights of torch that are stored as parts, such as those of a weight norm, by their name."""
    found: dict[str, Parts] = {}
    lists: dict[str, list[str]] = {}
    for name in specs:
        if match := _NEW_PART.fullmatch(name):
            lists.setdefault(f"{match[1]}.{match[2]}" if match[1] else match[2], []).append(name)
        elif (match := _OLD_PART.fullmatch(name)) and match[1] not in specs:
            whole, mark = match[1], match[2]
            others = [part for end in ("u", "v", "mask") if (part := f"{whole}_{end}") in specs]
            if mark == "orig" and f"{whole}_mask" in specs:
                found[whole] = Parts("pruned", (name, *others))
            elif mark == "orig" and f"{whole}_u" in specs:
                found[whole] = Parts("spectral_norm", (name, *others))
            elif mark == "g" and f"{whole}_v" in specs:
                axes = norm_axes(specs[name].shape, specs[f"{whole}_v"].shape)
                if axes:
                    found[whole] = Parts("weight_norm", (name, f"{whole}_v"), axes[0])
    for whole, names in lists.items():
        ends = {
            name.rpartition(f"parametrizations.{whole.rpartition('.')[2]}.")[2]: name
            for name in names
        }
        axes = []
        if set(ends) == {"original0", "original1"}:
            axes = norm_axes(specs[ends["original0"]].shape, specs[ends["original1"]].shape)
        first = sorted(names, key=lambda name: "original" not in name.rpartition(".")[2])
        if axes:
            found[whole] = Parts("weight_norm", (ends["original0"], ends["original1"]), axes[0])
        elif "original" in ends and "0._u" in ends:
            found[whole] = Parts("spectral_norm", tuple(first))
        else:
            found[whole] = Parts("parametrized", tuple(first))
    return found


def _listed_shapes(specs: Sequence[Spec]) -> list[str]:
    return [shape_text(s.shape) if s.shape else Message("weight_maps.scalar") for s in specs]


def _sources_miscounted(transform: Transform, count: int) -> str:
    several = transform.kind in JOINING
    if not count or several != (count > 1):
        id = f"weight_maps.takes_{'several_sources' if several else 'one_source'}"
        return Message(id, transform=transform, count=count)
    if transform.kind == "weight_norm" and count != 2:
        return Message("weight_maps.takes_parts", transform=transform, count=count)
    return ""


def miscounted(transform: Transform, sources: int, targets: Sequence[str]) -> str:
    """Why a transform does not take and give as many tensors as there are names, or nothing."""
    if wrong := _sources_miscounted(transform, sources):
        return wrong
    if (transform.kind == "drop") == bool(targets):
        id = f"weight_maps.needs_{'no' if targets else 'a'}_target"
        return Message(id, transform=transform)
    made = len(transform.arguments) - 1 if transform.kind == "split" else len(targets) and 1
    if made != len(targets):
        counts = {"transform": transform, "made": made, "count": len(targets)}
        return Message("weight_maps.gives_others", **counts)
    if len(set(targets)) < len(targets):
        return Message("weight_maps.target_twice", names=list(targets))
    return ""


def _joined(axis: int, sources: Sequence[Spec]) -> Spec:
    rest = {(*s.shape[:axis], *s.shape[axis + 1 :]) for s in sources}
    if len(rest) > 1 or len({s.dtype for s in sources}) > 1:
        given = _listed_shapes(sources)
        if len(rest) == 1:
            given = [source.dtype.name for source in sources]
        raise WeightMapError(Message("weight_maps.concat_unlike", axis=axis, given=given))
    shape = list(sources[0].shape)
    shape[axis] = sum(source.shape[axis] for source in sources)
    return Spec(tuple(shape), sources[0].dtype)


@dataclass(frozen=True)
class WeightRow:
    """One row: what becomes what.

    Attributes
    ----------
    sources, targets : tuple of str
        One name each, but several sources for ``concat``, ``add`` and ``weight_norm``, several
        targets for ``split`` and none for ``drop``.
    transform : Transform
    layer : str
        Layer type of the source, where known.
    how : {"drafted", "edited", "imported"}
    note : str
        What to know about this row.
    """

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    transform: Transform = field(default_factory=Transform)
    layer: str = ""
    how: str = "drafted"
    note: str = ""


@dataclass(frozen=True, repr=False)
class WeightMap:
    """Rows that say which parameters become which; a change returns a new map.

    Attributes
    ----------
    rows : tuple of WeightRow
        In the order of the source.
    source : mapping of str to Spec
        Every tensor of the source that has to go somewhere; empty where nothing is known of it, as
        of a map just read from a file.
    target : mapping of str to Spec, optional
        Every tensor the target wants; None where the target is known by its framework only.
    source_label, target_label : str
    notes : tuple of str
        What the maker of the map wants the user to know, such as differing defaults of layers.
    suggestions : tuple of WeightRow
        Rows that values prove instead of those that names made; `accept` takes them over. No two
        have a name in common.
    """

    rows: tuple[WeightRow, ...]
    source: Mapping[str, Spec]
    target: Mapping[str, Spec] | None = None
    source_label: str = "source"
    target_label: str = "target"
    notes: tuple[str, ...] = ()
    suggestions: tuple[WeightRow, ...] = ()

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.rows)

    def __iter__(self) -> Iterator[WeightRow]:
        """The rows."""
        return iter(self.rows)

    def __getitem__(self, name: str | int | tuple[str, str]) -> WeightRow:
        """The row of a source name, else of a target name; of ``source, target``, or at a position.

        Raises
        ------
        EntryNotFoundError
            If no row has it; the message lists the closest.
        AmbiguousEntryError
            If several have it, as of a weight that goes to two places; the message lists them.
        """
        return self.rows[self._position(*(name if isinstance(name, tuple) else [name]))]

    @property
    def unmatched_sources(self) -> list[str]:
        """Names of the source that no row mentions."""
        used = {name for row in self.rows for name in row.sources}
        return [name for name in self.source if name not in used]

    @property
    def unmatched_targets(self) -> list[str]:
        """Names of a known target that no row fills: the target keeps what it has there."""
        used = {name for row in self.rows for name in row.targets}
        return [name for name in self.target or () if name not in used]

    @property
    def coverage(self) -> float:
        """Share of the source's elements that some row takes to the target, 0 to 1.

        What is dropped on purpose, such as counters of batches, does not count.
        """
        dropped = {name for row in self.rows if not row.targets for name in row.sources}
        total = sum(spec.size for name, spec in self.source.items() if name not in dropped)
        taken = {name for row in self.rows if row.targets for name in row.sources}
        covered = sum(self.source[name].size for name in taken if name in self.source)
        return covered / total if total else 1.0

    @property
    def names(self) -> dict[str, str]:
        """``{source name: target name}`` of the rows with one of each; the last of a source."""
        return {
            row.sources[0]: row.targets[0]
            for row in self.rows
            if len(row.sources) == len(row.targets) == 1
        }

    def pair(
        self,
        source: str | Sequence[str],
        target: str | Sequence[str],
        transform: str = "copy",
        *,
        tied: bool = False,
    ) -> WeightMap:
        """A map in which these belong together; rows that had one of the names are taken out.

        A source that goes to this target already keeps the rows of its other targets.

        Parameters
        ----------
        source, target : str or list of str
            Names; several sources for ``concat`` and ``add``, several targets for ``split``.
        transform : str
            As `Transform.parse` reads it.
        tied : bool
            Whether a source goes to its other targets as well, as tied weights do.

        Raises
        ------
        EntryNotFoundError
            If a name is not in the source, or not in a known target.
        AmbiguousEntryError
            If a source goes to several other targets, of which none is said to be given up.
        WeightMapError
            If the transform is unknown or does not fit the shapes.
        """
        sources, targets = _names(source), _names(target)
        if twice := [name for name, count in Counter(targets).items() if count > 1]:
            names = {"name": twice[0], "names": list(targets)}
            raise WeightMapError(Message("weight_maps.target_twice_in_row", **names))
        row = self._checked(
            WeightRow(sources, targets, Transform.parse(transform), how="edited"),
        )
        kept = self._rows_beside([row], tied=tied)
        for name in sources if targets and not tied else ():
            others = [one for one in kept if name in one.sources]
            if len(others) > 1 and len(others) == len(self._rows_of(name)):
                listed = [_joined_names(one.targets) for one in others]
                names = {"name": name, "others": listed, "target": _joined_names(targets)}
                raise AmbiguousEntryError(Message("weight_maps.goes_elsewhere", **names))
        return self.with_rows([*kept, row])

    def unpair(self, name: str | int, *, target: str | None = None) -> WeightMap:
        """A map without the row of this source, else target, name.

        Parameters
        ----------
        name : str or int
            Of rows that say the same twice the first is meant; the row's position, from 0, says
            which.
        target : str, optional
            One of the row's targets, where the source `name` goes to several; empty for the row
            that drops it.

        Raises
        ------
        EntryNotFoundError, AmbiguousEntryError
            As ``map[name]``, or ``map[name, target]``.
        """
        position = self._position(name, target)
        return replace(self, rows=self.rows[:position] + self.rows[position + 1 :])

    def drop(self, source: str) -> WeightMap:
        """A map in which this tensor of the source goes nowhere, on purpose."""
        self._known((source,), self.source, self.source_label)
        kept = [row for row in self.rows if source not in row.sources]
        return self.with_rows([*kept, WeightRow((source,), (), Transform("drop"), how="edited")])

    def transform(self, name: str | int, transform: str, *, target: str | None = None) -> WeightMap:
        """A map in which this row, named as for `unpair`, has another transform.

        The same map where the row has this one already.

        Raises
        ------
        EntryNotFoundError, AmbiguousEntryError
            As ``map[name]``, or if one of the row's names is not known.
        WeightMapError
            As `pair`.
        """
        position = self._position(name, target)
        before, wanted = self.rows[position], Transform.parse(transform)
        row = before
        if wanted != before.transform:
            row = replace(before, transform=wanted, how="edited", note="")
        elif not self.problem(before):
            return self
        rows = (*self.rows[:position], self._checked(row), *self.rows[position + 1 :])
        return self.with_rows(rows)

    def accept(self, name: str | None = None, *, together: bool = False) -> WeightMap:
        """A map with a suggested row in place of the rows that had its names.

        Parameters
        ----------
        name : str, optional
            A source, else a target, of the suggestion; default takes all suggestions at once.
        together : bool
            Whether what is suggested for names that lose their row by it is taken as well, as of
            tensors that lie in each other's place. One of those alone leaves the other unpaired.

        Raises
        ------
        EntryNotFoundError
            If no suggestion has this name; the message lists the closest.
        """
        accepted = self.suggestions if name is None else (self._suggested(name),)
        accepted = self._with_displaced(accepted[0]) if together and accepted else accepted
        edited = [replace(row, how="edited") for row in accepted]
        notes = tuple(_counted(note, len(edited)) for note in self.notes)
        accepted_map = self.with_rows([*self._rows_beside(edited), *edited])
        return replace(accepted_map, notes=notes)

    def fitting(self, source: str | Sequence[str], target: str | Sequence[str]) -> list[Transform]:
        """Transforms that give the target's shape from this source, the likeliest first.

        Parameters
        ----------
        source, target : str or list of str
            As for `pair`: several targets are parts of one source, in this order, and several
            sources are joined in theirs, or added where their shapes are equal.

        Raises
        ------
        EntryNotFoundError
            If one of the names is not known.

        Notes
        -----
        By shapes alone: what the values say is for `convert.row_evidence`. Empty where the numbers
        of elements differ. Where nothing is known of the target, ``copy`` of one source, what joins
        several, and parts of equal size.
        """
        sources, targets = _names(source), _names(target)
        self._known(sources, self.source, self.source_label)
        if self.target is not None:
            self._known(targets, self.target, self.target_label)
        ours = tuple(self.source[name] for name in sources) if self.source else None
        theirs = None
        if self.target is not None:
            theirs = tuple(self.target[name].shape for name in targets)
        if len(sources) == len(targets) == 1:
            if ours is None or theirs is None:
                return [Transform()]
            return list(_transforms(ours[0].shape, theirs[0]))
        if len(sources) > 1 and len(targets) > 1:
            return []
        if ours is None:
            return [Transform("concat", (0,))] if len(sources) > 1 else []
        if len(sources) > 1:
            return list(_joining(ours, None if theirs is None else theirs[0]))
        return list(_splitting(ours[0].shape, len(targets), theirs))

    def misfit(self, source: str | Sequence[str], target: str | Sequence[str]) -> str:
        """Why no transform makes this target of this source, or nothing; raises as `fitting`."""
        if self.fitting(source, target) or not self.source:
            return ""
        sources, targets = _names(source), _names(target)
        if len(sources) > 1 and len(targets) > 1:
            return Message("weight_maps.several_of_several")
        ours = [self.source[name] for name in sources]
        if self.target is None:
            shapes = _listed_shapes(ours)
            if len(ours) > 1:
                return Message("weight_maps.no_axis_joins", shapes=shapes)
            return Message("weight_maps.no_equal_parts", shape=shapes[0], count=len(targets))
        dtypes = list(dict.fromkeys(spec.dtype.name for spec in ours))
        theirs = [self.target[name] for name in targets]
        said = {"ours": list(map(_sized, ours)), "theirs": list(map(_sized, theirs))}
        only = Message("weight_maps.one_dtype", dtypes=dtypes) if dtypes[1:] else ""
        return joined([Message("weight_maps.other_sizes", **said), only])

    def candidates(
        self,
        name: str,
        *,
        side: Side | None = None,
        sources: Sequence[str] = (),
        targets: Sequence[str] = (),
        most: int = 3,
    ) -> list[Candidate]:
        """The closest names of the other side, and what speaks for or against each.

        What values suggest for a name that is in no row comes first.

        Parameters
        ----------
        name : str
            A source, else a target.
        side : {"source", "target"}, optional
            Where the name is, if both sides have it.
        sources, targets : sequence of str
            Names there are beside those in rows, of a side of which the map knows none. There names
            alone say what is close.
        most : int

        Raises
        ------
        EntryNotFoundError
            If neither side has it; the message lists the closest.
        """
        known = self._all_names("sources", sources), self._all_names("targets", targets)
        is_source = name in known[0] if side is None else side == "source"
        if is_source:
            self._known((name,), known[0], self.source_label)
        else:
            self._known((name,), known[1] or known[0], self.target_label)
        others = tuple(known[is_source])
        owners = {
            other: row for row in self.rows for other in (row.targets if is_source else row.sources)
        }
        mine = (row.sources if is_source else row.targets for row in self.rows)
        suggested = None
        if self.suggestions and not any(name in names for names in mine):
            suggested = self.suggested_for(name, side="source" if is_source else "target")
        near = name_index(others).closest(name, 8 * most)
        if len(near) < most:  # none is called alike: whatever is left over
            listed = {k for k, _ in near}
            free = (k for k, n in enumerate(others) if n not in owners and k not in listed)
            near += [(k, 0.0) for k in itertools.islice(free, 8 * most)]
        proven: tuple[str, ...] = ()
        if suggested is not None:
            proven = suggested.targets if is_source else suggested.sources
            listed = {k for k, _ in near}
            at = [others.index(one) for one in proven if one in known[is_source]]
            near += [(k, 0.0) for k in at if k not in listed]
        found = []
        for position, score in near:
            other = others[position]
            pair = (name, other) if is_source else (other, name)
            owner = owners.get(other)
            how = suggested.transform if suggested is not None and other in proven else None
            fits, candidate = self._candidate(pair, other, owner, how)
            rank = -1 if how is not None else (owner is not None) + 2 * (not fits)
            found.append((rank, -score, position, candidate))
        return [candidate for *_, candidate in sorted(found, key=lambda one: one[:3])[:most]]

    def _candidate(
        self,
        pair: tuple[str, str],
        other: str,
        owner: WeightRow | None,
        proven: Transform | None,
    ) -> tuple[bool, Candidate]:
        """Whether shapes or values (by `proven`) let the pair be, and the candidate."""
        fitting = [proven] if proven is not None else []
        why: str = Message("weight_maps.suggested_by", transform=proven)
        if not fitting and (self.target is None or not self.source):
            fitting, why = [Transform()], Message("pairings.unknown_shape")
        if not fitting:
            fitting = self.fitting(*pair)
            why = self.misfit(*pair)
            if fitting:
                first = fitting[0]
                why = Message("weight_maps.fits_by", transform=first)
                if first.kind == "copy":
                    why = Message("pairings.same_shape")
        goes = ""
        if owner is not None:
            partner = owner.sources if other in owner.targets else owner.targets
            names = list(partner)
            goes = Message(f"weight_maps.{'paired_with' if names else 'dropped'}", names=names)
        return bool(fitting), Candidate(other, joined([why, goes]), bool(fitting) and not goes)

    def match_rest(
        self,
        *,
        sources: Sequence[str] = (),
        targets: Sequence[str] = (),
        former: Sequence[WeightRow] = (),
    ) -> WeightMap:
        """A map in which what is left on both sides is paired where names and shapes say how.

        Equal names first, then names that are each other's closest and have the same numbers, then
        the only ones of their shape; the note of each row says which. The rest stays as it is.

        Parameters
        ----------
        sources, targets : sequence of str
            Names there are beside those in rows, of a side of which the map knows none. Names alone
            pair them then; that two are left over says nothing.
        former : sequence of WeightRow
            Rows the map had. What shapes do not tell goes through what it went through there.
        """
        free = [
            [name for name in self._all_names(side, more) if name not in used]
            for side, more, used in (
                ("sources", sources, {name for row in self.rows for name in row.sources}),
                ("targets", targets, {name for row in self.rows for name in row.targets}),
            )
        ]
        left, right = free
        if not left or not right:
            return self
        known = self.source if self.target is not None else {}
        if known:
            specs = [known[name] for name in left], [(self.target or {})[name] for name in right]
        else:
            specs = [_ANYTHING] * len(left), [_ANYTHING] * len(right)
        sizes = [spec.size for spec in specs[0]], [spec.size for spec in specs[1]]
        as_before = {(row.sources, row.targets): row.transform for row in former}

        def fitting(i: int, j: int) -> tuple[Transform, ...]:
            return _transforms(specs[0][i].shape, specs[1][j].shape)

        made: list[WeightRow] = []
        for i, j, why in rest_pairs(left, right, sizes, lambda i, j: bool(fitting(i, j))):
            if not known and why.id == BY_SHAPE_ALONE:
                continue
            names, how = ((left[i],), (right[j],)), fitting(i, j)[0]
            if not known:
                how = as_before.get(names, how)
            note = Message("pairings.auto_matched", why=why)
            row = WeightRow(*names, how, how="edited", note=note)
            # Both names are known and the transform fits: nothing else can be wrong with the row.
            if right[j].strip() and not self._part(row):
                made.append(row)
        return self.with_rows([*self.rows, *made]) if made else self

    def preview(self, name: str | int, transform: str, *, target: str | None = None) -> str:
        """What a row, named as for `unpair`, would give with another transform: ``4x2 -> 2x4``.

        Raises
        ------
        EntryNotFoundError, AmbiguousEntryError
            If no row has the name, or several.
        WeightMapError
            If the transform is unknown, or does not fit the source or the target.
        """
        row = self.rows[self._position(name, target)]
        return self._shown(replace(row, transform=Transform.parse(transform)))

    def preview_pair(
        self, source: str | Sequence[str], target: str | Sequence[str], transform: str
    ) -> str:
        """What `pair` would make of these names: ``48 -> 16 + 16 + 16``.

        Raises
        ------
        EntryNotFoundError
            If a name is not in the source, or not in a known target.
        WeightMapError
            If the transform is unknown, or does not fit the source or the target.
        """
        row = WeightRow(_names(source), _names(target), Transform.parse(transform))
        self._known(row.sources, self.source, self.source_label)
        if self.target is not None:
            self._known(row.targets, self.target, self.target_label)
        return self._shown(row)

    def _shown(self, row: WeightRow) -> str:
        if problem := self.problem(row):
            raise WeightMapError(problem)
        known = [self.source[source] for source in row.sources if source in self.source]
        if len(known) < len(row.sources):
            return Message("weight_maps.shapes_not_known")
        before, after = map(_listed_shapes, (known, row.transform.specs(known)))
        after = after or [Message("weight_maps.nothing")]
        return Message("weight_maps.becomes", before=before, after=after)

    def _rows_beside(self, rows: Sequence[WeightRow], *, tied: bool = False) -> list[WeightRow]:
        """The rows that these leave standing; a name may be on both sides.

        A target is filled by one row. A source that goes to one place goes to the new one instead;
        of one that goes to several only the row of the same target is given up.
        """
        places = self._positions("sources"), self._positions("targets")
        gone = {at for row in rows for at in self._given_up(row, *places, tied=tied)}
        return [row for at, row in enumerate(self.rows) if at not in gone]

    def _given_up(
        self,
        row: WeightRow,
        of_source: Mapping[str, list[int]],
        of_target: Mapping[str, list[int]],
        *,
        tied: bool = False,
    ) -> set[int]:
        """Where the rows stand that do not stay beside this one."""
        gone = {at for name in row.targets for at in of_target.get(name, ())}
        for name in row.sources:
            mine = of_source.get(name, [])
            dropped = {at for at in mine if not self.rows[at].targets}
            one = len(mine) - len(dropped) == 1 and not tied
            gone |= set(mine) if one or not row.targets else dropped
        return gone

    def _all_names(self, side: str, more: Sequence[str]) -> Mapping[str, object]:
        """The names of a side; of one that is not known those in rows, and more."""
        known = self.target if side == "targets" else self.source or None
        if known is not None:
            return known
        return dict.fromkeys((*more, *(name for row in self.rows for name in getattr(row, side))))

    def _positions(self, side: str) -> dict[str, list[int]]:
        """Where each name of a side stands."""
        found: dict[str, list[int]] = {}
        for position, row in enumerate(self.rows):
            for name in getattr(row, side):
                found.setdefault(name, []).append(position)
        return found

    def _rows_of(self, source: str) -> list[WeightRow]:
        """The rows that take a source to a target."""
        return [row for row in self.rows if row.targets and source in row.sources]

    def _checked(self, row: WeightRow) -> WeightRow:
        """The row, if its names are known and its transform fits; raises as `pair`."""
        self._known(row.sources, self.source, self.source_label)
        if self.target is not None:
            self._known(row.targets, self.target, self.target_label)
        if problem := self.problem(row):
            names = {"sources": list(row.sources), "targets": list(row.targets)}
            raise WeightMapError(Message("weight_maps.row_refused", **names, problem=problem))
        return row

    def suggested_instead(self) -> dict[int, WeightRow]:
        """By the position of a row what values suggest instead of it.

        Of a source that goes to several targets, one of them the suggested one, it is that row.
        """
        if not self.suggestions:
            return {}
        of_source, found = self._positions("sources"), {}
        for row in self.suggestions:
            mine = of_source.get(row.sources[0], [])
            same = [at for at in mine if self.rows[at].targets == row.targets]
            found.update(dict.fromkeys(same or mine, row))
        return found

    def suggested_for(self, name: str, *, side: Side = "source") -> WeightRow | None:
        """What values suggest of a name of one side; None where they suggest nothing."""
        at = f"{side}s"
        return next((row for row in self.suggestions if name in getattr(row, at)), None)

    def _with_displaced(self, first: WeightRow) -> tuple[WeightRow, ...]:
        """A suggestion, and those for names that lose their row by it or by another of them."""
        places = self._positions("sources"), self._positions("targets")
        of_source = {name: k for k, row in enumerate(self.suggestions) for name in row.sources}
        of_target = {name: k for k, row in enumerate(self.suggestions) for name in row.targets}
        left = [self.suggestions.index(first)]
        taken: set[int] = set()
        while left:
            number = left.pop()
            taken.add(number)
            for at in self._given_up(self.suggestions[number], *places):
                gone = self.rows[at]
                others = {of_source.get(name) for name in gone.sources}
                others |= {of_target.get(name) for name in gone.targets}
                left += [k for k in others if k is not None and k not in taken]
        return tuple(self.suggestions[k] for k in sorted(taken))

    def _suggested(self, name: str) -> WeightRow:
        for side in ("sources", "targets"):
            for row in self.suggestions:
                if name in getattr(row, side):
                    return row
        names = {n: None for row in self.suggestions for n in (*row.sources, *row.targets)}
        near = closest(name, names)
        raise EntryNotFoundError(Message("weight_maps.no_suggestion", name=name, closest=near))

    def rename(
        self,
        *,
        prefix: str | None = None,
        pattern: tuple[str, str] | None = None,
        func: Callable[[dict[str, str]], Mapping[str, str]] | None = None,
    ) -> WeightMap:
        """A map with other target names.

        Parameters
        ----------
        prefix : str, optional
            Put in front of every target name, with a dot between.
        pattern : (str, str), optional
            Regular expression and what replaces it.
        func : callable, optional
            Takes ``{source: target}`` and returns the same with other targets; for rows with
            several names, the joined ones.

        Raises
        ------
        WeightMapError
            If two targets would get the same name or one an empty name, the pattern is no regular
            expression, `func` returns something else, or nothing is given.

        Notes
        -----
        Where no name changes, a note of the map says so.
        """
        if prefix is None and pattern is None and func is None:
            raise WeightMapError(Message("weight_maps.rename_by_nothing"))
        names = [_joined_names(row.targets) for row in self.rows]
        if prefix is not None:
            front = prefix.rstrip(".")
            names = [_each(joined, lambda name: f"{front}.{name}") for joined in names]
        if pattern is not None:
            try:
                search = re.compile(pattern[0])
                names = [
                    _each(joined, lambda name: search.sub(pattern[1], name)) for joined in names
                ]
            except (re.error, IndexError) as error:
                said = Message("weight_maps.no_pattern", pattern=pattern, error=error)
                raise WeightMapError(said) from error
        if func is not None:
            names = self._by_func(func, names)
        return self._renamed(names)

    def _by_func(
        self, func: Callable[[dict[str, str]], Mapping[str, str]], names: Sequence[str]
    ) -> list[str]:
        """Names that a function gives; it is asked again for the further rows of one source."""
        changed, left = list(names), list(range(len(names)))
        while left:
            asked: dict[str, int] = {}
            for position in left:
                asked.setdefault(_joined_names(self.rows[position].sources), position)
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

    def _renamed(self, names: Sequence[str]) -> WeightMap:
        rows = []
        for row, named in zip(self.rows, names, strict=True):
            targets = tuple(named.split(_JOIN)) if row.targets else ()
            if not all(name.strip() for name in targets):
                raise WeightMapError(Message("weight_maps.empty_name", names=list(row.sources)))
            changed = targets != row.targets
            rows.append(replace(row, targets=targets, how="edited") if changed else row)
        renamed = replace(self, rows=tuple(rows))
        if renamed.rows == self.rows:
            note = Message("weight_maps.renamed_nothing")
            return replace(self, notes=(*(n for n in self.notes if n != note), note))
        for target, positions in renamed._filled_by_several().items():
            sources = [_joined_names(renamed.rows[at].sources) for at in positions]
            several = {"name": target, "sources": sources}
            raise WeightMapError(Message("weight_maps.renamed_to_several", **several))
        return renamed

    def filled_twice(self) -> dict[int, str]:
        """By the position of a row that others fill a target of it as well, a sentence each."""
        found: dict[int, str] = {}
        for target, positions in self._filled_by_several().items():
            said = self._filled(target, positions)
            found |= {at: joined([found.get(at, ""), said]) for at in positions}
        return found

    def problems(self) -> list[str]:
        """Why the map cannot be converted: a sentence each, with the names; empty when it can."""
        found = [self._filled(*one) for one in self._filled_by_several().items()]
        for row in self.rows:
            if problem := self.problem(row):
                names = {"sources": list(row.sources), "targets": list(row.targets)}
                found.append(Message("weight_maps.row_problem", **names, problem=problem))
        return found

    def check(self) -> None:
        """Raise unless every row can be converted.

        Raises
        ------
        WeightMapError
            With the first problems, each naming its parameter.
        """
        found = self.problems()
        if found:
            said = Message("weight_maps.not_convertible")
            for line in found[:_MOST_PROBLEMS]:
                said = Message("weight_maps.next_line", above=said, line=line)
            if (more := len(found) - _MOST_PROBLEMS) > 0:
                line = Message("weight_maps.and_more", count=more)
                said = Message("weight_maps.next_line", above=said, line=line)
            raise WeightMapError(said)

    @property
    def table(self) -> xr.Dataset:
        """The rows as a Dataset along ``row`` with the variables of `WEIGHT_MAP_COLUMNS`."""
        columns: dict[str, list[Any]] = {name: [] for name in WEIGHT_MAP_COLUMNS}
        suggested, twice = self.suggested_instead(), self.filled_twice()
        for position, row in enumerate(self.rows):
            sources = [self.source[n] for n in row.sources if n in self.source]
            cells = {
                "source": _joined_names(row.sources),
                "target": _joined_names(row.targets),
                "layer": row.layer,
                "transform": str(row.transform),
                "how": row.how,
                "note": joined([row.note, self._loss(row)]),
                "source_shape": tuple(spec.shape for spec in sources),
                "target_shape": self._target_shapes(row),
                "size": sum(spec.size for spec in sources),
                "problem": joined([self.problem(row), twice.get(position, "")]),
                "suggestion": _instead(row, suggested.get(position)),
            }
            for name, value in cells.items():
                columns[name].append(value)
        variables = {}
        for name, (dtype, meaning) in WEIGHT_MAP_COLUMNS.items():
            values = np.empty(len(self.rows), np.int64 if dtype == "int64" else object)
            column = of_one_class(columns[name]) if dtype == "str" else columns[name]
            for position, cell in enumerate(column):
                values[position] = cell
            variables[name] = ("row", values, {"description": meaning})
        return xr.Dataset(variables, attrs={"schema": SCHEMA})

    def to_dataset(self) -> xr.Dataset:
        """The table, in which shapes are text, such as 16x4 + 16x4."""
        return with_shape_texts(self.table)

    def to_dataframe(self) -> pd.DataFrame:
        """The table with one row per row of the map."""
        return self.to_dataset().to_dataframe().reset_index(drop=True)

    def __repr__(self) -> str:
        """Coverage, what needs attention, and the rows that change something, in 25 lines."""
        return weight_map_text(self.table, self._facts())

    def _repr_html_(self) -> str:
        return weight_map_html(self.table, self._facts())

    def _facts(self) -> dict[str, Any]:
        return {
            "source_label": self.source_label,
            "target_label": self.target_label,
            "coverage": self.coverage,
            "unmatched_sources": self.unmatched_sources,
            "unmatched_targets": self.unmatched_targets,
            "notes": self.notes,
            "suggestions": len(self.suggestions),
            "known": bool(self.source) or not self.rows,
            **get_options(),
        }

    def _loss(self, row: WeightRow) -> str:
        """What a cast takes away."""
        if row.transform.kind != "cast" or row.sources[0] not in self.source:
            return ""
        given = self.source[row.sources[0]].dtype
        made = dtype_from_token(str(row.transform.arguments[0]))
        if np.can_cast(given, made, "safe"):
            return ""
        return Message("weight_maps.lossy_cast", given=given.name, made=made.name)

    def _target_shapes(self, row: WeightRow) -> tuple[Shape, ...]:
        if self.target is not None:
            return tuple(self.target[n].shape for n in row.targets if n in self.target)
        try:
            specs = row.transform.specs([self.source[name] for name in row.sources])
        except (WeightMapError, KeyError):
            return ()
        return tuple(spec.shape for spec in specs)

    def problem(self, row: WeightRow) -> str:
        """Why a row cannot be converted, or nothing; for other rows see `filled_twice`."""
        if not all(map(str.strip, row.targets)):
            return Message("weight_maps.target_empty")
        if wrong := miscounted(row.transform, len(row.sources), row.targets):
            return wrong
        if not self.source:  # nothing is known yet, as of a map just read
            return ""
        missing = [name for name in row.sources if name not in self.source]
        if missing:
            near = closest(missing[0], self.source)
            where = {"name": missing[0], "label": self.source_label, "closest": near}
            return Message("weight_maps.not_in", **where)
        if part := self._part(row):
            return part
        try:
            made = _made(row.transform, tuple([self.source[name] for name in row.sources]))
        except WeightMapError as error:
            return message_of(error)
        if self.target is None:
            return ""
        for name, spec in zip(row.targets, made, strict=True):
            if name not in self.target:
                near = closest(name, self.target)
                where = {"name": name, "label": self.target_label, "closest": near}
                return Message("weight_maps.not_in", **where)
            if self.target[name].shape != spec.shape:
                shapes = {"made": spec.shape, "wanted": self.target[name].shape}
                return Message("weight_maps.other_shape", **shapes, name=name)
        return ""

    def _part(self, row: WeightRow) -> str:
        """Why a row takes a part of a weight for the weight, or nothing."""
        if row.transform.kind in ("weight_norm", "drop") or not any(map(is_part, row.sources)):
            return ""
        if all(map(is_part, row.targets)):
            return ""
        for parts in reparametrized(self.source).values():
            if given := [name for name in row.sources if name in parts.names]:
                return Message("weight_maps.is_part", name=given[0], cure=parts.cure)
        return ""

    def _filled_by_several(self) -> dict[str, list[int]]:
        """Targets of several rows, and where these stand."""
        filled = [name for row in self.rows for name in row.targets]
        if len(set(filled)) == len(filled):  # as it is but for maps from files, after every edit
            return {}
        several = ((name, at) for name, at in self._positions("targets").items() if len(at) > 1)
        return {name: once for name, at in several if len(once := list(dict.fromkeys(at))) > 1}

    def _filled(self, target: str, positions: Sequence[int]) -> str:
        sources = [_joined_names(self.rows[at].sources) for at in positions]
        return Message("weight_maps.filled_by_several", name=target, sources=sources)

    def _position(self, name: str | int, target: str | None = None) -> int:
        """Of rows that say the same twice the first one."""
        if isinstance(name, int):
            if 0 <= name < len(self.rows):
                return name
            counts = {"number": name, "count": len(self.rows)}
            raise EntryNotFoundError(Message("weight_maps.no_row_number", **counts))
        for side, other in (("sources", "targets"), ("targets", "sources")):
            found = [at for at, row in enumerate(self.rows) if name in getattr(row, side)]
            if target is not None:
                found = [at for at in found if target in (self.rows[at].targets or ("",))]
            partners = list(dict.fromkeys(getattr(self.rows[at], other) for at in found))
            if len(partners) == 1:
                return found[0]
            if partners:
                raise AmbiguousEntryError(_several(name, partners, side))
            if target is not None:
                break
        names = {n: None for row in self.rows for n in (*row.sources, *row.targets)}
        if target is not None:
            name = f"{name} -> {target}"
            names = {
                f"{s} -> {t}": None for row in self.rows for s in row.sources for t in row.targets
            }
        near = closest(name, names)
        raise EntryNotFoundError(Message("weight_maps.no_row", name=name, closest=near))

    def _known(self, names: Sequence[str], known: Mapping[str, object], label: str) -> None:
        for name in names if known else ():
            if name not in known:
                where = {"name": name, "label": label, "closest": closest(name, known)}
                raise EntryNotFoundError(Message("weight_maps.no_name", **where))

    def with_rows(self, rows: Sequence[WeightRow]) -> WeightMap:
        """The map with these rows in the order of the source; what they do is not suggested."""
        names = list(self.source) or [name for row in self.rows for name in row.sources]
        order = {name: position for position, name in enumerate(dict.fromkeys(names))}
        ordered = tuple(sorted(rows, key=lambda row: order.get(row.sources[0], len(order))))
        done = {(row.sources, row.targets, row.transform) for row in rows}
        left = [r for r in self.suggestions if (r.sources, r.targets, r.transform) not in done]
        return replace(self, rows=ordered, suggestions=tuple(left))


_JOIN = " + "


def _sized(spec: Spec) -> Message:
    """How many values there are, and their shape where it says more."""
    if len(spec.shape) == 1:
        return Message("weight_maps.values", count=spec.size)
    shape = "×".join(map(str, spec.shape)) or Message("weight_maps.scalar")
    return Message("weight_maps.values_of_shape", count=spec.size, shape=shape)


_ANYTHING = Spec((), np.dtype("f4"))  # where no shape is known, none is wrong
_MOST_PERMUTED = 5  # axes; all their orders are tried


@lru_cache(maxsize=1 << 12)
def _made(transform: Transform, sources: tuple[Spec, ...]) -> tuple[Spec, ...]:
    """What `Transform.specs` gives; the layers of a net ask for the same again and again."""
    if wrong := _sources_miscounted(transform, len(sources)):
        raise WeightMapError(wrong)
    if transform.kind == "concat":
        return (_joined(transform._axis(sources[0]), sources),)
    if transform.kind == "add":
        if len({source.shape for source in sources}) != 1:
            shapes = _listed_shapes(sources)
            raise WeightMapError(Message("weight_maps.add_unlike", shapes=shapes))
        return (sources[0],)
    if transform.kind == "weight_norm":
        return (transform._folded(sources),)
    (shape, dtype), numbers = sources[0], [n for n in transform.arguments if isinstance(n, int)]
    if transform.kind == "cast":
        return (Spec(shape, dtype_from_token(str(transform.arguments[0]))),)
    if why := _misfit(transform.kind, shape, numbers):
        where = {"transform": transform, "shape": shape, "why": why}
        raise WeightMapError(Message("weight_maps.does_not_fit", **where))
    return tuple(Spec(one, dtype) for one in _shapes(transform.kind, shape, numbers))


def _misfit(kind: str, shape: Shape, numbers: Sequence[int]) -> str:
    """Why a transform of one tensor does not take this shape, or nothing."""
    rank = len(shape) + (kind == "expand_dims")
    axes = {"permute": numbers, "split": numbers[:1]}.get(kind, numbers)
    if kind == "permute" and len(axes) != rank:
        return Message("weight_maps.axes_miscounted")
    if kind == "split" and not axes:
        return Message("weight_maps.no_sizes")
    if kind in ("permute", "split", "expand_dims", "squeeze"):
        for axis in axes:
            if not -rank <= axis < rank:
                return Message("weight_maps.axis_beyond", axis=axis, rank=rank)
    if kind == "permute" and len({axis % rank for axis in axes}) < rank:
        return Message("weight_maps.axis_twice")
    if kind == "squeeze" and shape[axes[0]] != 1:
        return Message("weight_maps.axis_is_longer")
    if kind == "split":
        sizes = list(numbers[1:])
        if sum(sizes) != shape[axes[0]] or min(sizes, default=0) < 1:
            return Message("weight_maps.sizes_differ", sizes=str(sizes), axis=axes[0])
    if kind == "reshape":
        size, known = math.prod(shape), math.prod(n for n in numbers if n >= 0)
        unknown = sum(n < 0 for n in numbers)
        if unknown > 1:
            return Message("weight_maps.two_unknown")
        if (size % known if known else 1) if unknown else size != known:
            return Message("weight_maps.not_reshaped", size=size, shape=tuple(numbers))
    if max(rank, len(numbers) * (kind == "reshape")) > _MOST_AXES:
        return Message("weight_maps.too_many_axes", most=_MOST_AXES)
    return ""


def _shapes(kind: str, shape: Shape, numbers: Sequence[int]) -> list[Shape]:
    """The shapes that a transform of one tensor gives, where it takes this one."""
    match kind:
        case "transpose":
            return [shape[::-1]]
        case "permute":
            return [tuple(shape[axis] for axis in numbers)]
        case "reshape":
            known = math.prod(n for n in numbers if n >= 0)
            return [tuple(math.prod(shape) // known if n < 0 else n for n in numbers)]
        case "expand_dims":
            at = numbers[0] % (len(shape) + 1)
            return [(*shape[:at], 1, *shape[at:])]
        case "squeeze":
            at = numbers[0] % len(shape)
            return [shape[:at] + shape[at + 1 :]]
        case "split":
            at = numbers[0] % len(shape)
            return [(*shape[:at], size, *shape[at + 1 :]) for size in numbers[1:]]
        case "drop":
            return []
        case _:
            return [shape]


@lru_cache(maxsize=1 << 12)
def _transforms(source: Shape, target: Shape) -> tuple[Transform, ...]:
    """What turns one shape into another, the likeliest first."""
    if math.prod(source) != math.prod(target):
        return ()
    square = len(source) == 2 and source[0] == source[1]
    if source == target:
        return (Transform(), Transform("transpose")) if square else (Transform(),)
    found: list[Transform] = []
    if len(source) == len(target) <= _MOST_PERMUTED:
        for axes in itertools.permutations(range(len(source))):
            if tuple(source[axis] for axis in axes) == target:
                is_reverse = axes == tuple(reversed(range(len(source))))
                found.append(Transform("transpose") if is_reverse else Transform("permute", axes))
        found.sort(key=lambda transform: transform.kind != "transpose")
    for axis in range(len(target)):
        if target[axis] == 1 and target[:axis] + target[axis + 1 :] == source:
            found.append(Transform("expand_dims", (axis,)))
    for axis in range(len(source)):
        if source[axis] == 1 and source[:axis] + source[axis + 1 :] == target:
            found.append(Transform("squeeze", (axis,)))
    return (*found, Transform("reshape", target))


@lru_cache(maxsize=1 << 12)
def _joining(sources: tuple[Spec, ...], target: Shape | None) -> tuple[Transform, ...]:
    """What makes one tensor of several, of this shape where it is known, the likeliest first."""
    first = sources[0].shape
    tried = [Transform("concat", (axis,)) for axis in range(len(first))]
    if len({source.dtype for source in sources}) == 1:
        tried.append(Transform("add"))
    if len(sources) == 2 and len(sources[1].shape) > 1:
        ones = [axis for axis, length in enumerate(target or ()) if length == 1]
        for axis in norm_axes(first, sources[1].shape):
            tried.append(Transform("weight_norm", (axis,)))
            tried += [Transform("weight_norm", (axis, put_in)) for put_in in ones]
    found = []
    for transform in tried:
        try:
            made = _made(transform, sources)[0].shape
        except WeightMapError:
            continue
        if target in (None, made):
            found.append(transform)
    return tuple(found)


@lru_cache(maxsize=1 << 12)
def _splitting(
    source: Shape, count: int, targets: tuple[Shape, ...] | None
) -> tuple[Transform, ...]:
    """What makes several tensors of one: of these shapes, else as many equal ones."""
    found = []
    for axis, length in enumerate(source):
        around = source[:axis], source[axis + 1 :]
        sizes = [length // count] * count
        if targets is not None:
            of_rank = [one for one in targets if len(one) == len(source)]
            sizes = [one[axis] for one in of_rank if (one[:axis], one[axis + 1 :]) == around]
        if len(sizes) == count and sum(sizes) == length and min(sizes) > 0:
            found.append(Transform("split", (axis, *sizes)))
    return tuple(found)


def _instead(row: WeightRow, suggestion: WeightRow | None) -> str:
    """What a suggestion changes in a row: ``-> fc2.weight``, ``transpose``, or both."""
    if suggestion is None:
        return ""
    targets = f"-> {_joined_names(suggestion.targets)}" if suggestion.targets != row.targets else ""
    changed = suggestion.transform != row.transform or not targets
    return " ".join(filter(None, [targets, str(suggestion.transform) if changed else ""]))


def _counted(note: str, accepted: int) -> str:
    """The note that counts rows whose values agree, as it holds after suggestions are taken."""
    if not isinstance(note, Message) or note.id not in _AGREEING or not accepted:
        return note
    counts = {name: note.values[name] for name in ("agreeing", "total")}
    return Message(_AGREEING[1], **counts, count=note.values.get("count", 0) + accepted)


def _several(name: str, partners: Sequence[tuple[str, ...]], side: str) -> Message:
    """That a name is in several rows, and how to say which is meant."""
    nothing = Message("weight_maps.nothing_dropped")
    listed = [repr(_joined_names(one)) if one else nothing for one in partners]
    if side == "targets":
        return Message("weight_maps.name_the_source", name=name, partners=listed)
    first = (*partners[0], "")[0]
    return Message("weight_maps.name_the_target", name=name, partners=listed, first=first)


def _joined_names(names: Sequence[str]) -> str:
    return _JOIN.join(names)


def _each(joined: str, change: Callable[[str], str]) -> str:
    return _JOIN.join(change(name) for name in joined.split(_JOIN)) if joined else ""


def _names(name: str | Sequence[str]) -> tuple[str, ...]:
    return (name,) if isinstance(name, str) else tuple(name)


class WeightMapHistory(History[WeightMap]):
    """The versions of a map that is being edited, with undo and redo.

    Attributes
    ----------
    value : WeightMap
        The current version.
    """
