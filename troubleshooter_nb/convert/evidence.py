"""What the values of both sides say about rows that names already made."""

from __future__ import annotations

import contextlib
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from troubleshooter_nb.convert.by_values import (
    NOT_SAME,
    by_values,
    related,
    said_of_row,
    transform_of,
)
from troubleshooter_nb.convert.draft import GUESSED
from troubleshooter_nb.convert.likeness import (
    Likeness,
    equal_values,
    has_numbers,
    key_of,
    likeness,
)
from troubleshooter_nb.convert.merged import computed_said, merged_row
from troubleshooter_nb.dump import ArraySource, Dump
from troubleshooter_nb.errors import WeightMapError
from troubleshooter_nb.formats.transformed_source import transformed
from troubleshooter_nb.messages import Message, ids_of, joined, messages_in
from troubleshooter_nb.metrics.derivations import Derivation
from troubleshooter_nb.metrics.fingerprints import Fingerprint, candidates, fingerprint_of
from troubleshooter_nb.metrics.floats import arithmetic_of
from troubleshooter_nb.metrics.initialisers import initialiser_of_stored
from troubleshooter_nb.metrics.relations import Relation, relation_said
from troubleshooter_nb.thresholds import (
    FEWEST_RELATED,
    MOST_DUPLICATES,
    MOST_PROBED,
    PROBED_PER_SHAPE,
    RELATED_ROWS,
    SAME_DIRECTION,
    SEARCHED_ELEMENTS,
)
from troubleshooter_nb.weight_map import Spec, WeightMap, WeightRow


def with_evidence(drafted: WeightMap, source: Dump, target: Dump) -> WeightMap:
    """The map with notes on rows whose values disagree, and suggestions where they lie elsewhere.

    Rows that agree are read once. Of the others the exact values are looked for on the whole other
    side, then a relation to the row's own source and to those of the same fingerprint.

    Parameters
    ----------
    drafted : WeightMap
        With a known target; rows that values made are left as they are.
    source, target : Dump
        The values.

    Raises
    ------
    ReadError
        If a tensor cannot be read.
    """
    sides = _readable(source, drafted.source), _readable(target, drafted.target or {})
    rows = list(_named_pairs(drafted, *sides))
    if not rows and not any(row.targets and _residual(row) is None for row in drafted.rows):
        return drafted
    roles = source.index["role"].values.tolist()
    adapters = {n for n, role in zip(source.names, roles, strict=True) if role == "adapter"}
    factors = _readable(source, dict.fromkeys(adapters))
    search = _Search(drafted, *sides, {pair.name: pair for pair in rows}, factors)
    search.run()
    suggestions = tuple(search.suggestions())
    against = search.made_otherwise({name for row in suggestions for name in row.targets})
    # Adapters that the target has merged are to go somewhere after all.
    used = {n: factors[n] for row in suggestions for n in row.sources if n in factors}
    specs = {name: Spec(one.shape, one.dtype) for name, one in used.items()}
    notes = [*search.summary(), *_duplicates(drafted, source, target, *sides)]
    changed = [
        replace(row, note=joined([row.note, _said_of(row, search, against)]))
        if row.targets
        else row
        for row in drafted.rows
    ]
    return replace(
        drafted,
        rows=tuple(changed),
        source={**drafted.source, **specs},
        notes=(*drafted.notes, *notes),
        suggestions=suggestions,
    )


def _said_of(row: WeightRow, search: _Search, against: Mapping[str, str]) -> str:
    """What values say of a row."""
    if row.targets[0] in against:
        return against[row.targets[0]]
    return search.notes.get(row.sources[0], "")


def _residual(row: WeightRow) -> float | None:
    """What the values that made a row left; None of one that names or rules made."""
    said = [one for one in messages_in(row.note) if one.id == "weight_maps.by_values"]
    return float(said[0].values["residual"]) if said else None


@dataclass(frozen=True)
class _Pair:
    """One row of one tensor on each side that names or rules made."""

    row: WeightRow
    ours: ArraySource
    theirs: ArraySource
    fits: bool
    like: Likeness | None  # None where too few values say nothing

    @property
    def name(self) -> str:
        return self.row.sources[0]

    @property
    def target(self) -> str:
        return self.row.targets[0]

    @property
    def differs(self) -> bool:
        return self.like is not None and self.like.kind in ("other", "constant")

    @property
    def size(self) -> int:
        return math.prod(self.theirs.shape)


@dataclass(frozen=True)
class _Finding:
    """Where the values of a target come from, and in which order or scale."""

    source: str
    relation: Derivation


def _readable(dump: Dump, wanted: Mapping[str, object]) -> dict[str, ArraySource]:
    return {
        name: source
        for name, source in zip(dump.names, dump.sources, strict=True)
        if source is not None and name in wanted and has_numbers(source)
    }


def _named_pairs(
    drafted: WeightMap, ours: Mapping[str, ArraySource], theirs: Mapping[str, ArraySource]
) -> Iterator[_Pair]:
    for row in drafted.rows:
        if len(row.sources) != 1 or len(row.targets) != 1 or not row.transform.keeps_order:
            continue
        left, right = ours.get(row.sources[0]), theirs.get(row.targets[0])
        if left is None or right is None or _residual(row) is not None:
            continue
        fits = not drafted.problem(row)
        enough = math.prod(right.shape) >= FEWEST_RELATED
        same_size = math.prod(left.shape) == math.prod(right.shape)
        like = likeness(left, right) if enough and same_size else None
        yield _Pair(row, left, right, fits, like)


@dataclass
class _Search:
    """The search for the values of rows that disagree."""

    drafted: WeightMap
    ours: Mapping[str, ArraySource]
    theirs: Mapping[str, ArraySource]
    pairs: Mapping[str, _Pair]
    factors: Mapping[str, ArraySource]  # of adapters, which are set aside
    found: dict[str, _Finding] = field(default_factory=dict)  # by target
    merged: dict[str, tuple[WeightRow, float]] = field(default_factory=dict)  # by target
    notes: dict[str, str] = field(default_factory=dict)  # by source
    _prints: dict[tuple[str, str], Fingerprint] = field(default_factory=dict)
    _searched: int = 0
    _tried: set[str] = field(default_factory=set)
    _left_out: list[str] = field(default_factory=list)
    _limits: dict[str, str] = field(default_factory=dict)  # what was not looked for
    _unrelated: bool = False

    def run(self) -> None:
        """Find what there is and write the notes of the rows."""
        by_size = sorted(self.pairs.values(), key=lambda pair: pair.size)
        differing = [pair for pair in by_size if pair.differs]
        self._exact(differing)
        if not self._related:
            self._relations(self._few(differing))
        self._unrelated = not self._related
        if self._unrelated:
            return
        self._relations(differing)
        self._correlated([p for p in by_size if p.like is not None and p.like.kind == "similar"])
        self._misfits()
        self._computed()
        for pair in self.pairs.values():
            if note := self._note(pair) or self._of_few(pair):
                self.notes[pair.name] = note

    @cached_property
    def _by_target(self) -> dict[str, _Pair]:
        return {pair.target: pair for pair in self.pairs.values()}

    @cached_property
    def _open(self) -> dict[int, list[str]]:
        """Sources that do not agree with their own row, by size."""
        agreeing = {p.name for p in self.pairs.values() if p.like is not None and not p.differs}
        open_: dict[int, list[str]] = defaultdict(list)
        for name, source in self.ours.items():
            if name not in agreeing:
                open_[math.prod(source.shape)].append(name)
        return open_

    @cached_property
    def _compared(self) -> list[_Pair]:
        """Rows whose values could speak: constants agree by chance."""
        return [
            pair
            for pair in self.pairs.values()
            if pair.like is not None and not (pair.like.kind == "equal" and not key_of(pair.ours))
        ]

    @cached_property
    def _proved(self) -> list[float]:
        """What is left of the rows that values made: they agree as much as any."""
        return [left for row in self.drafted.rows if (left := _residual(row)) is not None]

    @property
    def _related(self) -> bool:
        alike = any(not pair.differs for pair in self._compared)
        return alike or bool(self.found or self._proved)

    def _exact(self, differing: Sequence[_Pair]) -> None:
        """Values that are those of another tensor of the source, bit for bit."""
        wanted = {pair.size for pair in differing}
        keys: dict[bytes, list[str]] = defaultdict(list)
        for name, source in self.ours.items():
            if math.prod(source.shape) in wanted and (key := key_of(source)):
                keys[key].append(name)
        for pair in differing:
            for name in keys.get(key_of(pair.theirs), ()):
                if equal_values(self.ours[name], pair.theirs):
                    same = Relation("identical", {}, 0.0, math.inf, relation_said("identical", {}))
                    self.found[pair.target] = _Finding(name, Derivation((same,)))
                    break

    def _correlated(self, similar: Sequence[_Pair]) -> None:
        """A scale, an offset, or some blocks moved; where a few have none, training moved all."""
        alike = [p for p in similar if p.like is not None and abs(p.like.cosine) >= SAME_DIRECTION]
        before = len(self.found)
        self._relations([*alike, *self._few(similar)])
        if len(self.found) > before + len(alike):
            self._relations(similar)

    def _few(self, differing: Sequence[_Pair]) -> list[_Pair]:
        counts: Counter[tuple[int, ...]] = Counter()
        few = []
        for pair in differing:
            counts[pair.theirs.shape] += 1
            if counts[pair.theirs.shape] <= PROBED_PER_SHAPE:
                few.append(pair)
        return few[:MOST_PROBED]

    def _relations(self, pairs: Iterable[_Pair]) -> None:
        """Other relations, to the row's own source and to those whose fingerprint is alike."""
        for pair in pairs:
            done = pair.target in self.found or pair.target in self._tried
            if done or pair.like is None or pair.like.kind == "constant":
                continue
            self._tried.add(pair.target)
            if self._searched > SEARCHED_ELEMENTS:
                self._left_out.append(pair.name)
                continue
            best: _Finding | None = None
            for name in self._alike(pair):
                relation = self._relation(name, pair)
                if relation is None or relation.kind in NOT_SAME:
                    continue
                if best is None or relation.residual < best.relation.residual:
                    best = _Finding(name, relation)
                if relation.residual == 0.0:
                    break
            if best is not None:
                self.found[pair.target] = best

    def _alike(self, pair: _Pair) -> Iterator[str]:
        """Names of sources worth a search, the row's own first."""
        yield pair.name
        if pair.like is not None and pair.like.kind == "similar":
            return
        pool = {
            name: self._fingerprint("source", name, self.ours[name])
            for name in self._open[pair.size]
        }
        print_ = self._fingerprint("target", pair.target, pair.theirs)
        near = candidates(pool, {pair.target: print_})
        yield from (name for name, _, _ in near if name != pair.name)

    def _fingerprint(self, side: str, name: str, source: ArraySource) -> Fingerprint:
        key = side, name
        if key not in self._prints:
            self._searched += math.prod(source.shape)
            self._prints[key] = fingerprint_of(source)
        return self._prints[key]

    def _relation(self, name: str, pair: _Pair) -> Derivation | None:
        self._searched += pair.size
        source = self.ours[name]
        # Where it does not fit, the tensor of another layer is taken as it is stored.
        with contextlib.suppress(WeightMapError):
            source = transformed([source], pair.row.transform)[0]
        return related(source, pair.theirs, self._limits)

    def _misfits(self) -> None:
        """Parts and repetitions that explain why shapes do not fit, such as a padded vocabulary."""
        for pair in self.pairs.values():
            if pair.fits or pair.like is not None or pair.size < FEWEST_RELATED:
                continue
            if self._searched > SEARCHED_ELEMENTS:
                self._left_out.append(pair.name)
                continue
            self._searched += pair.size
            relation = related(pair.ours, pair.theirs, self._limits)
            if relation is not None:
                self.found[pair.target] = _Finding(pair.name, relation)

    def _computed(self) -> None:
        """Weights that the target holds together with what has no partner of its own."""
        free = [name for name in self.drafted.unmatched_sources if name in self.ours]
        free += [name for name in self.factors if name not in free]
        # A guess is no reason to hold a tensor for explained.
        guessed = [row for row in self.drafted.rows if row.targets and GUESSED in ids_of(row.note)]
        free += [n for row in guessed for n in row.sources if n in self.ours and n not in free]
        ours = {**self.factors, **self.ours}
        for pair in self.pairs.values() if free else ():
            open_ = pair.like is not None and pair.like.kind in ("other", "similar", "near")
            if not open_ or not pair.fits or pair.target in self.found:
                continue
            found = merged_row(pair.name, pair.target, ours, self.theirs, free)
            if found is not None:
                self.merged[pair.target] = found
                free = [name for name in free if name not in found[0].sources]

    def _note(self, pair: _Pair) -> str:
        if pair.target in self.merged:
            row, residual = self.merged[pair.target]
            said = computed_said(row.transform)
            return Message("weight_maps.values_related", relation=said, residual=residual)
        finding = self.found.get(pair.target)
        if finding is None:
            return self._of_unexplained(pair) if pair.differs else ""
        residual = finding.relation.residual
        if finding.source == pair.name:
            said = said_of_row(finding.relation, pair.row)
            return Message("weight_maps.values_related", relation=said, residual=residual)
        how = Message("weight_maps.exactly")
        if finding.relation.kind != "identical":
            said = said_of_row(finding.relation, pair.row, "values.it")
            how = Message("weight_maps.by_relation", relation=said, residual=residual)
        owner, also = self.pairs.get(finding.source), ""
        if owner is not None and not owner.differs:
            also = Message("weight_maps.also_in", name=owner.target)
        return Message("weight_maps.values_of_other", name=finding.source, how=how, also=also)

    def _of_unexplained(self, pair: _Pair) -> str:
        if self._share < RELATED_ROWS or pair.like is None or pair.name in self._left_out:
            return ""
        found = ""
        if pair.like.kind == "other":
            found = Message("weight_maps.no_relation", cosine=pair.like.cosine)
        text = [Message("weight_maps.values_differ", found=found)]
        for side, source in (("target", pair.theirs), ("source", pair.ours)):
            if drawn := initialiser_of_stored(source):
                text.append(Message(f"weight_maps.drawn_in_{side}", drawn=drawn))
        return joined(text)

    def _of_few(self, pair: _Pair) -> str:
        """What so few values say that they are alike by chance: unlike by none if all others agree.

        A number that is counted up is no weight, and may stand elsewhere.
        """
        is_few = pair.like is None and pair.fits and 0 < pair.size < FEWEST_RELATED
        if not is_few or arithmetic_of(pair.theirs.dtype) != "float" or not self._are_equal:
            return ""
        made = transformed([pair.ours], pair.row.transform)[0]
        return Message("weight_maps.values_differ", found="") if _is_unlike(made, pair) else ""

    @property
    def _are_equal(self) -> bool:
        """Whether most rows that can be compared are equal, so that no training moved them."""
        kinds = [pair.like.kind for pair in self._compared if pair.like is not None]
        equal = sum(kind in ("equal", "rounded") for kind in kinds) + self._proved.count(0.0)
        return self._share >= RELATED_ROWS and 2 * equal > len(kinds) + len(self._proved)

    def made_otherwise(self, suggested: set[str]) -> dict[str, str]:
        """By first target, that values contradict a row that joins, splits or reorders.

        Where most of the other rows agree, a row whose targets are not what it makes is wrong.
        """
        if self._unrelated or self._share < RELATED_ROWS:
            return {}
        found: dict[str, str] = {}
        # Where the others are equal no training moved the values a little.
        against = ("other", "constant", *(("similar",) if self._are_equal else ()))
        for row in self.drafted.rows:
            is_pair = len(row.sources) == len(row.targets) == 1 and row.transform.keeps_order
            known = {*row.sources} <= self.ours.keys() and {*row.targets} <= self.theirs.keys()
            if is_pair or not row.targets or not known or _residual(row) is not None:
                continue
            if suggested & {*row.targets} or self.drafted.problem(row):
                continue
            made = transformed([self.ours[name] for name in row.sources], row.transform)
            wanted = [self.theirs[name] for name in row.targets]
            for one, other in zip(made, wanted, strict=True):
                like = likeness(one, other)
                if math.prod(other.shape) >= FEWEST_RELATED and like.kind in against:
                    said = Message("weight_maps.no_relation", cosine=like.cosine)
                    found[row.targets[0]] = Message("weight_maps.values_differ", found=said)
        return found

    @property
    def _explained(self) -> set[str]:
        """Targets of which it is known what they are made of."""
        return {*self.found, *self.merged}

    @property
    def _share(self) -> float:
        compared = self._compared
        explained = self._explained
        related = sum(not pair.differs or pair.target in explained for pair in compared)
        total = len(compared) + len(self._proved)
        return (related + len(self._proved)) / total if total else 0.0

    def suggestions(self) -> Iterator[WeightRow]:
        """Rows that a transform of the closed list makes right, the surest first."""
        taken: set[str] = set()
        for made, _ in self.merged.values():
            taken |= {f"<{name}" for name in made.sources} | {f">{name}" for name in made.targets}
            yield made
        sure = sorted(self.found.items(), key=lambda item: item[1].relation.residual)
        for target, finding in sure:
            row = self._suggested(target, finding)
            owner = self.pairs.get(finding.source)
            kept = owner is not None and owner.target != target and not owner.differs
            if row is None or kept or taken & {f"<{finding.source}", f">{target}"}:
                continue
            taken |= {f"<{finding.source}", f">{target}"}
            yield row

    def _suggested(self, target: str, finding: _Finding) -> WeightRow | None:
        owner = self.pairs.get(finding.source)
        pair = self._by_target[target]
        spec = self.drafted.source[finding.source]
        layer = owner.row.layer if owner is not None else pair.row.layer
        for transform in transform_of(finding.relation, spec, pair.row.transform):
            note = by_values(finding.relation, pair.row)
            row = WeightRow((finding.source,), (target,), transform, layer, note=note)
            same = (row.sources, row.transform) == (pair.row.sources, pair.row.transform)
            if not same and not self.drafted.problem(row):
                return row
        return None

    def summary(self) -> list[str]:
        """What the values say about the map as a whole."""
        compared, total = self._compared, len(self._compared) + len(self._proved)
        if not total:
            return []
        if self._unrelated:
            return [Message("weight_maps.values_unrelated")]
        kinds = Counter(pair.like.kind for pair in compared if pair.like is not None)
        agreeing = kinds["equal"] + kinds["rounded"] + len(self._proved)
        counts = {"agreeing": agreeing, "total": total}
        notes: list[str] = [Message("weight_maps.values_agree", **counts)]
        rounded = Counter(p.like.dtype for p in compared if p.like and p.like.kind == "rounded")
        notes += [
            Message("weight_maps.agree_rounded", dtype=dtype, count=count)
            for dtype, count in rounded.items()
        ]
        near = [p.like.residual for p in compared if p.like is not None and p.like.kind == "near"]
        if near:
            said = {"count": len(near), "residual": max(near)}
            notes.append(Message("weight_maps.rows_near", **said))
        explained = self._explained
        similar = [
            p.like.cosine
            for p in compared
            if p.like is not None and p.like.kind == "similar" and p.target not in explained
        ]
        if similar:
            said = {"count": len(similar), "least": min(similar), "most": max(similar)}
            notes.append(Message("weight_maps.rows_similar", **said))
        rest = [p.name for p in compared if p.differs and p.target not in explained]
        if rest and self._share < RELATED_ROWS:
            notes.append(Message("weight_maps.rows_unrelated", count=len(rest)))
        if self._left_out:
            names, most = self._left_out, SEARCHED_ELEMENTS
            notes.append(Message("weight_maps.not_searched", names=names, most=most))
        notes += self._limits.values()
        return [*notes, *self._untouched()]

    def _untouched(self) -> list[str]:
        """Tensors on which both sides agree, but that look as they were drawn."""
        judged, drawn = 0, []
        for pair in self._compared:
            if pair.differs or pair.size < FEWEST_RELATED:
                continue
            judged += 1
            if initialiser_of_stored(pair.ours):
                drawn.append(pair.name)
        if not drawn:
            return []
        if len(drawn) == judged:
            return [Message("weight_maps.never_trained")]
        return [Message("weight_maps.some_never_trained", names=drawn)]


def _is_unlike(made: ArraySource, pair: _Pair) -> bool:
    """Whether values are neither those of the target, nor these but for noise."""
    return likeness(made, pair.theirs).kind not in ("equal", "rounded", "near")


def _duplicates(
    drafted: WeightMap,
    source: Dump,
    target: Dump,
    ours: Mapping[str, ArraySource],
    theirs: Mapping[str, ArraySource],
) -> list[str]:
    """Tensors of equal values that are not tied; where the source has them, the target may."""
    names = drafted.names
    groups = list(_untied(source, ours))
    known = {frozenset(names.get(name, "") for name in group) for group in groups}
    said: list[str] = [Message("weight_maps.equal_in_source", names=group) for group in groups]
    said += [
        Message("weight_maps.equal_in_target", names=group)
        for group in _untied(target, theirs)
        if frozenset(group) not in known
    ]
    if (more := len(said) - MOST_DUPLICATES) > 0:
        said[MOST_DUPLICATES:] = [Message("weight_maps.more_equal", count=more)]
    return said


def _untied(dump: Dump, sources: Mapping[str, ArraySource]) -> Iterator[list[str]]:
    tied = {name: group[0] for group in dump.tied for name in group}
    alike: dict[bytes, list[str]] = defaultdict(list)
    for name, source in sources.items():
        if math.prod(source.shape) >= FEWEST_RELATED and tied.get(name, name) == name:
            alike[key_of(source) + str(source.shape).encode()].append(name)
    for key, names in alike.items():
        if len(names) < 2 or key == str(sources[names[0]].shape).encode():
            continue
        while len(names) > 1:
            first = names[0]
            same = [n for n in names[1:] if equal_values(sources[first], sources[n])]
            if same:
                yield [first, *same]
            names = [n for n in names[1:] if n not in same]
