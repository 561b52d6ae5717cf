"""At which calls values stop being finite, or come near to it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from troubleshooter_nb.metrics.float_formats import FORMATS
from troubleshooter_nb.thresholds import NEAR_OVERFLOW

Row = dict[str, Any]

# Formats in which a network computes. Values are scaled to fill eight bits: they are at the limit.
_WATCHED = ("float16", "bfloat16", "float32", "float64")
# Functions whose output is memory as it was found: what it holds says nothing.
_UNFILLED = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}
NONFINITE = ("starts", "passed_on", "recovered")
# How slots begin of forward values that count among the inputs of a backward call, its gradients
# first.
SEEN_FORWARD = "forward."
# kind of a container's row -> kinds of rows of the calls in it that say it better
_EXPLAINED_BY = {
    "starts": ("starts",),
    "passed_on": NONFINITE,
    "recovered": NONFINITE,
    "saturated": ("starts", "saturated", "near_limit"),
    "near_limit": ("starts", "saturated", "near_limit"),
}


def classify(calls: Iterable[Mapping[str, Any]], near: float = NEAR_OVERFLOW) -> list[Row]:
    """The calls at which values stop being finite, or come near to it, in the order given.

    Parameters
    ----------
    calls : iterable of mapping
        In order of execution, as they began: ``step, call`` (number), ``path, layer``,
        ``direction`` ("forward", "backward"), ``parent`` (number of the call around it, or None),
        ``inputs, outputs`` (lists of figures). Where known also ``kind`` ("module", "api"),
        ``rank, pass, stack``, ``parameters`` (figures of those the call uses) and ``plain`` (the
        arguments that are no tensors). Figures are ``slot, dtype, min, max, nan_count,
        inf_count, size`` and, where known, ``value``: one number for one value wherever it is
        met. min and max may be of the finite values or of all: infinite ones then tell the sign.
    near : float
        Share of the largest finite number of its dtype from which a value is near the limit.

    Returns
    -------
    list of dict
        ``step, rank, call, path, layer, direction, kind, slot, dtype, nan_count, inf_count, size,
        max_abs`` (largest finite magnitude, nan where there is none), ``share_of_limit`` (of the
        largest finite number of the dtype; nan for dtypes that are not watched), ``stack, inside``
        (path of the module around it), ``source`` (slot of the first input that was not finite)
        ``unmeasured`` (inputs of which nothing is known) and ``meant`` (inputs with infinities that
        are there on purpose). `kind` is

        starts
            All inputs are finite and an output is not.
        passed_on
            An input was not finite, nor is an output.
        recovered
            An input was not finite, all outputs are.
        saturated
            An output holds the largest finite number of its dtype, no input holds that of its own.
        near_limit
            An output comes near to it, and no input did.

    Notes
    -----
    Infinities that are meant are no alarm: those that a call was given as a plain argument (a
    fill), and minus infinity that no recorded call made, beside finite values far from the limit
    (a mask). What comes of them is silent while it is infinite in part or finite again; a NaN
    made of them, as by the softmax of a row that is masked whole, starts there, and so does an
    output that is infinite as a whole, as the loss of a masked class. Large plain arguments and
    inputs excuse large outputs alike. Without numbers of values and without signs all this is
    judged by what the values look like. No gradient is infinite on purpose. Of a call and the
    calls in it the innermost is told.
    """
    given = list(calls)
    judge, found = Judge(near), dict[int, Row]()
    tree = _Tree.of(given)
    constants: list[list[float]] = [[] for _ in given]
    for i in tree.inner_first():
        constants[i] = constants_of(given[i], [constants[child] for child in tree.children[i]])
        row = judge.row_of(given[i], constants[i])
        if row is not None:
            found[i] = row | {"inside": tree.module_around(i)}
    explained = tree.explained(found)
    return [found[i] for i in sorted(found) if i not in explained]


@dataclass(frozen=True, slots=True)
class _ValueFigures:
    """What is known of one value."""

    slot: str
    dtype: str
    value: int | None
    low: float
    high: float
    nan: int
    inf: int
    size: int

    @classmethod
    def of(cls, given: Mapping[str, Any], before: str = "") -> _ValueFigures:
        slot = before + str(given.get("slot", "")).removeprefix(before)
        dtype, value = str(given.get("dtype", "")), given.get("value")
        low, high = (_number(given.get(name)) for name in ("min", "max"))
        # What cannot hold NaN needs no counting.
        nan, inf = (
            0 if _is_exact(dtype) else _count(given.get(f"{name}_count")) for name in ("nan", "inf")
        )
        size = _count(given.get("size"))
        return cls(slot, dtype, value, low, high, nan, inf, size)

    @property
    def is_measured(self) -> bool:
        return self.nan >= 0 and self.inf >= 0

    @property
    def is_nonfinite(self) -> bool:
        return self.nan > 0 or self.inf > 0

    @property
    def is_infinite(self) -> bool:
        """Whether no element is anything but infinite."""
        return 0 < self.size == self.inf

    @property
    def has_plus(self) -> bool | None:
        """Whether plus infinity is in it; None where the signs are not known."""
        if not self.inf > 0:
            return False
        return self.high == math.inf if math.isinf(self.low) or math.isinf(self.high) else None

    @property
    def largest(self) -> float:
        """Largest finite magnitude; nan where none is known."""
        finite = [abs(x) for x in (self.low, self.high) if math.isfinite(x)]
        return max(finite, default=math.nan)

    @property
    def share(self) -> float:
        """`largest` over the largest finite number of the dtype; nan where that is not watched."""
        return self.largest / FORMATS[self.dtype].largest if self.dtype in _WATCHED else math.nan

    def looks_like_a_mask(self, near: float, filled: bool) -> bool:
        """Minus infinity beside values far from the limit.

        Where signs are not known the finite values must be one, as the zeros of a mask are,
        or it is one infinity, unless something was `filled` in before.
        """
        if self.nan or not self.inf > 0 or self.has_plus or self.share >= near:
            return False
        one_value = self.low == self.high or (self.is_infinite and self.size == 1)
        return filled or self.has_plus is False or one_value


@dataclass
class Judge:
    """What was seen until now: values whose infinities are meant, values that calls made."""

    near: float = NEAR_OVERFLOW
    meant: set[int] = field(default_factory=set)
    made: set[int] = field(default_factory=set)
    # Steps and ranks in which something was not finite by itself, or infinities were filled in.
    started: set[tuple[Any, Any]] = field(default_factory=set)
    filled: set[tuple[Any, Any]] = field(default_factory=set)

    def row_of(self, call: Mapping[str, Any], constants: Sequence[float]) -> Row | None:
        """The row of a call whose inner calls were seen, or None; remembers what it made."""
        outputs = _figures(call, "outputs")
        if str(call.get("path", "")).rpartition(".")[2] in _UNFILLED:
            self._remember(outputs, outputs)
            return None
        inputs = [*_figures(call, "inputs"), *_figures(call, "parameters")]
        place = call.get("step"), call.get("rank", 0)
        way = str(call.get("direction", ""))
        meant = [one for one in inputs if one.is_nonfinite and self._is_meant(one, place, way)]
        wrong = [one for one in inputs if one.is_nonfinite and one not in meant]
        can_fill = not wrong and way != "backward"
        fills = [one for one in outputs if can_fill and self._is_fill(one, meant, constants)]
        alarms = [one for one in outputs if one.is_nonfinite and one not in fills]
        self._remember(outputs, fills)
        self._remember(meant, meant)
        if fills or any(map(math.isinf, constants)):
            # Into a value that this call may not give back, as ``x[mask] = -inf`` does not.
            self.filled.add(place)
        if alarms:
            self.started.add(place)
            row = _row(call, "passed_on" if wrong else "starts", alarms[0], inputs, wrong)
            return row | {"meant": len(meant)}
        if wrong:
            # Only what can hold NaN has recovered from it, and no gradient from forward values.
            can = any(one.is_measured and not _is_exact(one.dtype) for one in outputs)
            can = can and not wrong[0].slot.startswith(SEEN_FORWARD)
            return _row(call, "recovered", wrong[0], inputs, wrong) if can and not fills else None
        return _row_of_limit(call, inputs, outputs, constants, self.near)

    def _remember(self, seen: Iterable[_ValueFigures], meant: Collection[_ValueFigures]) -> None:
        self.made |= {one.value for one in seen if one.value is not None and one not in meant}
        self.meant |= {one.value for one in meant if one.value is not None}

    def _is_meant(self, one: _ValueFigures, place: tuple[Any, Any], way: str) -> bool:
        """Whether infinities that are given to a call are there on purpose."""
        if one.value is not None and one.value in self.meant:
            return True  # NaN as well, of memory as it was found
        if one.nan or (one.value is not None and one.value in self.made):
            return False
        if way == "backward" or place in self.started:
            return False
        return one.looks_like_a_mask(self.near, place in self.filled)

    def _is_fill(
        self, one: _ValueFigures, meant: Sequence[_ValueFigures], constants: Sequence[float]
    ) -> bool:
        """Whether the infinities of an output are those that the call was given to fill in."""
        if one.nan or not one.inf > 0:
            return False
        if one.value is not None and one.value in self.meant:
            return True
        filled = [c for c in constants if math.isinf(c)]
        if one.has_plus and not (math.inf in filled or any(m.has_plus for m in meant)):
            return False
        if one.is_infinite and not filled:
            return any(m.is_infinite for m in meant)
        return bool(filled or meant)


@dataclass(frozen=True)
class _Tree:
    """Which call lies in which."""

    calls: Sequence[Mapping[str, Any]]
    parents: list[int | None]
    children: list[list[int]]

    @classmethod
    def of(cls, calls: Sequence[Mapping[str, Any]]) -> _Tree:
        """The tree of these calls; a parent that is not among them counts as none."""
        found: dict[tuple[Any, ...], int] = {}
        parents: list[int | None] = []
        children: list[list[int]] = [[] for _ in calls]
        for i, call in enumerate(calls):
            key = call.get("rank", 0), call.get("direction"), call.get("pass", 0)
            # Of what comes before: a call cannot lie in a later one.
            parent = found.get((*key, call.get("parent")))
            parents.append(parent)
            if parent is not None:
                children[parent].append(i)
            found[(*key, call.get("call"))] = i
        return cls(calls, parents, children)

    def inner_first(self) -> Iterator[int]:
        """All calls, each after those in it; else in order."""
        for root, parent in enumerate(self.parents):
            if parent is not None:
                continue
            waiting = [(root, iter(self.children[root]))]
            while waiting:
                i, inner = waiting[-1]
                child = next(inner, None)
                if child is None:
                    waiting.pop()
                    yield i
                else:
                    waiting.append((child, iter(self.children[child])))

    def around(self, i: int) -> Iterator[int]:
        """The calls around one, the nearest first."""
        parent = self.parents[i]
        while parent is not None:
            yield parent
            parent = self.parents[parent]

    def module_around(self, i: int) -> str:
        """Path of the nearest call around an operator that is a module; empty for modules."""
        if self.calls[i].get("kind", "module") == "module":
            return ""
        around = (self.calls[p] for p in self.around(i))
        paths = (str(p["path"]) for p in around if p.get("kind", "module") == "module")
        return next(paths, "")

    def explained(self, rows: Mapping[int, Row]) -> set[int]:
        """Rows of containers for which rows of inner calls stand."""
        return {
            outer
            for inner, row in rows.items()
            for outer in self.around(inner)
            if outer in rows and row["kind"] in _EXPLAINED_BY[rows[outer]["kind"]]
        }


def _row_of_limit(
    call: Mapping[str, Any],
    inputs: Sequence[_ValueFigures],
    outputs: Sequence[_ValueFigures],
    constants: Sequence[float],
    near: float,
) -> Row | None:
    """The row of a call all of whose values are finite, or meant, if one comes near the limit."""
    shares = [one.share for one in outputs if not math.isnan(one.share)]
    if not shares or max(shares) < near:
        return None
    worst = max((one for one in outputs if one.share == max(shares)), key=lambda one: one.size)
    given = [one.share for one in inputs]
    given += [abs(c) / FORMATS[worst.dtype].largest for c in constants if math.isfinite(c)]
    # A short format holds a constant only up to rounding.
    largest = max((share for share in given if not math.isnan(share)), default=0.0)
    if worst.share >= 1.0 and largest < 1.0 - FORMATS[worst.dtype].unit_roundoff:
        return _row(call, "saturated", worst, inputs, ())
    return _row(call, "near_limit", worst, inputs, ()) if largest < near else None


def _row(
    call: Mapping[str, Any],
    kind: str,
    one: _ValueFigures,
    inputs: Sequence[_ValueFigures],
    wrong: Sequence[_ValueFigures],
) -> Row:
    names = ("step", "call", "path", "layer", "direction")
    return {
        **{name: call.get(name, "") for name in names},
        "rank": call.get("rank", 0),
        "kind": kind,
        "slot": one.slot,
        "dtype": one.dtype,
        "nan_count": one.nan,
        "inf_count": one.inf,
        "size": one.size,
        "max_abs": one.largest,
        "share_of_limit": one.share,
        "stack": call.get("stack") or "",
        "source": wrong[0].slot if wrong else "",
        "unmeasured": sum(not i.is_measured for i in inputs),
        "meant": 0,
    }


def _figures(call: Mapping[str, Any], name: str) -> list[_ValueFigures]:
    before = "parameters." if name == "parameters" else ""
    return [_ValueFigures.of(one, before) for one in call.get(name) or ()]


def constants_of(call: Mapping[str, Any], inner: Iterable[Sequence[float]]) -> list[float]:
    """The numbers that excuse large values of a call: of its own and of the calls in it."""
    return _extremes([*_constants(call), *(one for those in inner for one in those)])


def _constants(call: Mapping[str, Any]) -> list[float]:
    """The numbers that a call was given as plain arguments."""
    plain = (x for x in call.get("plain") or () if isinstance(x, (int, float)))
    numbers = (x for x in plain if not isinstance(x, bool))
    # An int may be larger than any float.
    return [float(x) if isinstance(x, float) else float(min(abs(x), 2**1000)) for x in numbers]


def _extremes(constants: Iterable[float]) -> list[float]:
    """The infinities among numbers, and the largest finite one."""
    found = {*constants}
    finite = [abs(c) for c in found if math.isfinite(c)]
    return [*(c for c in (-math.inf, math.inf) if c in found), *([max(finite)] if finite else [])]


def _is_exact(dtype: str) -> bool:
    return not dtype.startswith(("float", "bfloat", "complex"))


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _count(value: Any) -> int:
    return -1 if value is None else int(value)
