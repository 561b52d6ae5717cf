"""What both the text and the HTML reprs select from a table: names, worst rows, blocks, counts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr

from troubleshooter_nb.columns.column import Column, View, shown_columns
from troubleshooter_nb.columns.entries import DUMP_COLUMNS, MADE_OF_ENTRIES
from troubleshooter_nb.columns.pairs import MADE_OF_PAIRS, RESULT_COLUMNS
from troubleshooter_nb.messages import told
from troubleshooter_nb.metrics.floats import arithmetic_of, dtype_from_token, largest_finite
from troubleshooter_nb.naming import CHECKPOINT_ROLES, place_text
from troubleshooter_nb.render.calls import call_text
from troubleshooter_nb.render.cells import names_text
from troubleshooter_nb.render.charts import decades, spark
from troubleshooter_nb.render.numbers import scientific
from troubleshooter_nb.render.words import DIFFERING, mismatches, sentence, tone_of
from troubleshooter_nb.table import Table, table_of
from troubleshooter_nb.thresholds import NEAR_OVERFLOW

# What naming.place_text puts behind a path.
_IN_CALL = re.compile(r" (?:#\d+|input|output|buffer|(?:[\w.]+ )?\(grad\))(?: .*)?$")
_BLOCK = re.compile(r"^(.*?\d+)(?=[./]|$)")


def display_names(columns: Table) -> list[str]:
    """What is shown of entries: their place where it tells them apart in a step and rank, or names.

    Parameters
    ----------
    columns : Table
        Of a `Dump.index`.
    """
    names = ("path", "layer", "kind", "call", "direction", "role", "slot")
    texts = [
        # The network itself has no path: it is called by its class.
        place_text(kind, path or (layer if kind == "module" else ""), *rest)
        for path, layer, kind, *rest in zip(*(columns[name] for name in names), strict=True)
    ]
    places = list(zip(columns["step"], columns["rank"], texts, strict=True))
    seen = Counter(places)
    return [
        text if text and seen[place] == 1 else str(name)
        for place, text, name in zip(places, texts, columns["name"], strict=True)
    ]


@dataclass(frozen=True, eq=False)
class Pairs(Table):
    """A comparison's table, with its histograms and what is asked of its rows."""

    histogram: np.ndarray
    exponents: np.ndarray
    first_order: int

    @classmethod
    def of(cls, result: xr.Dataset) -> Pairs:
        """The view of a `Comparison.result`."""
        return cls(
            table_of(result).columns,
            result["error_histogram"].values,
            result["exponent"].values,
            int(result.attrs["first_divergence"]),
        )

    def sides(self, i: int) -> tuple[str, str]:
        """Display names of both sides; empty where there is none."""
        return str(self["left_display"][i]), str(self["right_display"][i])

    def label(self, i: int) -> str:
        """``left → right``, or one name where both are the same."""
        return names_text(*self.sides(i))

    def shown(self, view: View) -> list[Column]:
        """The columns that a view shows, from left to right."""
        return shown_columns(view, [*RESULT_COLUMNS.values(), *MADE_OF_PAIRS.values()], self)

    def shown_row(self, i: int, *, ascii_only: bool = False) -> dict[str, Any]:
        """All values of one row, its state, and what `MADE_OF_PAIRS` has of it."""
        values = self.row(i)
        values["state"] = self.states[i]
        values["one_minus_cosine"] = np.maximum(1.0 - values["cosine"], 0.0)
        counts = decades(self.histogram[i], self.exponents)
        values["error_histogram"] = spark(counts, ascii_only=ascii_only)
        return values

    def short(self, i: int) -> str:
        """One name: the left one where there is one."""
        left, right = self.sides(i)
        return left or right

    def place(self, i: int, *, short: bool = False) -> str:
        """Step and rank of a row, where the comparison has several; in front of a name."""
        words = ("s{}", "r{}") if short else ("step {}", "rank {}")
        found = [
            text.format(int(self[name][i]))
            for name, text in zip(("step", "rank"), words, strict=True)
            if name in self._coordinates
        ]
        return f"{(' ' if short else ', ').join(found)}: " if found else ""

    @cached_property
    def _coordinates(self) -> list[str]:
        return [name for name in ("step", "rank") if len(set(self[name].tolist())) > 1]

    @cached_property
    def failed(self) -> np.ndarray:
        """Numbers of the pairs whose values were compared and differ."""
        return np.flatnonzero(np.isin(self["verdict"], DIFFERING))

    @cached_property
    def is_first_unknown(self) -> bool:
        """Whether nothing says which of several rows that differ came first."""
        if (self["origin"] == "created").any():
            return False
        if (self["origin_basis"] != "").any():
            return bool((self["origin_basis"] == "unknown").any())
        failed = self.failed
        is_root = np.isin(self["role"], ("parameter", "buffer"))
        is_root &= self["direction"] != "backward"
        return len(failed) > 1 and bool((~self["order_known"] & ~is_root)[failed].any())

    @cached_property
    def has_origins(self) -> bool:
        """Whether it is known where the differences come from."""
        return bool((self["origin"] != "").any())

    @cached_property
    def states(self) -> np.ndarray:
        """What each row is called: created, within (created, but passed), carried, or its verdict.

        A row that carries an error on and passes is called what its verdict says, and one that was
        expected to have no partner is alone.
        """
        origin, differs = self["origin"], np.isin(self["verdict"], DIFFERING)
        states = self["verdict"].astype(object)
        states[differs & (origin == "carried")] = "carried"
        states[(origin == "created") & (self["verdict"] != "missing")] = "within"
        states[differs & (origin == "created")] = "created"
        states[(self["verdict"] == "missing") & self["passed"]] = "alone"
        return states

    def tone(self, i: int) -> str:
        """The tone of a row: NaN and infinities keep theirs where they were not created."""
        state = str(self.states[i])
        return tone_of("nan" if self["verdict"][i] == "nan" and state == "carried" else state)

    def mark(self, i: int) -> str:
        """The tone of a row's mark in a chart: what created nothing is no cross among origins."""
        is_without_effect = self.has_origins and self.states[i] == "differs"
        return "warn" if is_without_effect else self.tone(i)

    def origins(self, language: str) -> str:
        """How many rows created the error, carried it, or have one without effect."""
        if not self.has_origins:
            return ""
        states = self.states
        counts = {state: int((states == state).sum()) for state in ("created", "within", "carried")}
        rest = len(self.failed) - counts["created"] - counts["carried"]
        is_known = counts["created"] or counts["within"]
        carried = "pages.carried_count" if is_known else "pages.carried_on_count"
        kinds = (
            ("pages.created_count", counts["created"]),
            ("pages.within_count", counts["within"]),
            (carried, counts["carried"]),
            ("pages.without_effect_count", rest),
        )
        parts = [sentence(id, language, count=count) for id, count in kinds if count]
        return sentence("pages.comma", language).join(parts)

    @property
    def turn(self) -> int:
        """Row up to which nothing differs: that of the first difference, or of its first copy."""
        return int(self.failed.min(initial=len(self)))

    @cached_property
    def first(self) -> int | None:
        """Row of the first differing pair of the whole comparison; None where it is not here."""
        found = np.flatnonzero((self["order"] == self.first_order) & (self.first_order >= 0))
        return int(found[0]) if len(found) else None

    def order_said(self, language: str) -> str:
        """In which order the rows are: what checkpoints hold was not executed."""
        is_stored = set(self["role"].tolist()) <= CHECKPOINT_ROLES
        return sentence(f"pages.{'stored' if is_stored else 'execution'}_order", language)

    def number(self, i: int) -> int:
        """Pair number of a row: its place in the order of all, also in a selection."""
        return int(self["order"][i])

    def worst_order(self) -> np.ndarray:
        """All rows: what created a difference, what differs, what has no answer, what passed.

        Among those that differ NaN come first. Within these by relative L2 error, or where only
        statistics are known by how far apart their extremes are, then in order.
        """
        verdict, error = self["verdict"], self["rel_l2_error"]
        size = np.where(np.isnan(error), self._apart(), error)
        measured = ~np.isnan(size)
        answer = np.where(np.isin(verdict, DIFFERING), 1, np.where(self["passed"], 3, 2))
        # One within the tolerance is nothing to look at first, unless it is the first difference.
        created = (self["origin"] == "created") & (answer < 3)
        created |= (self["order"] == self.first_order) & (self.first_order >= 0)
        answer = np.where(created, 0, answer)
        rank = np.where(verdict == "nan", 0, np.where(measured, 1, 2))
        size = np.where(measured, size, -1.0)
        return np.asarray(np.lexsort((np.arange(len(self)), -size, rank, answer)))

    def _apart(self) -> np.ndarray:
        """Distance of minima or maxima over the largest magnitude on the right; nan if unknown."""
        with np.errstate(all="ignore"):
            scale = np.maximum(np.abs(self["right_max"]), np.abs(self["right_min"]))
            distance = np.maximum(
                np.abs(self["left_max"] - self["right_max"]),
                np.abs(self["left_min"] - self["right_min"]),
            )
            return np.asarray(distance / np.where(scale > 0, scale, 1.0))

    def worst(self, most: int, answers: Sequence[int] = ()) -> list[int]:
        """Rows of the worst pairs that are not identical, of known values or statistics.

        The first difference, and rows of the pair numbers `answers`, are among them.
        """
        verdict, order = self["verdict"], self.worst_order()
        measured = ~np.isnan(self["rel_l2_error"])
        differing = np.isin(verdict, DIFFERING) & (verdict != "shape")
        shown = (measured & (verdict != "identical")) | differing | (self["origin"] == "created")
        named = [] if self.first is None else [self.first]
        named += np.flatnonzero(np.isin(self["order"], list(answers))).tolist()
        found = [int(i) for i in order[shown[order]]]
        cut, rest = found[: max(most, 0)], {*found[max(most, 0) :]}
        missing = [i for i in dict.fromkeys(named) if i in rest][: len(cut)]
        return [*cut[: len(cut) - len(missing)], *missing]

    @property
    def order_remarks(self) -> list[str]:
        """Ids of sentences about the order in which the pairs are listed."""
        found = []
        parameters = self["role"] == "parameter"
        if np.any(parameters & self["walked_backward"]):
            found.append("pages.backward_order")
        elif np.any(parameters):
            found.append("pages.parameters_forward")
        if len(self) > 1 and not self["order_known"].any():
            found.append("pages.by_name")
        return found

    def excused(self, language: str) -> list[str]:
        """A sentence each on rounding that grew and on what has no effect, if there is any."""
        found = []
        for verdict in ("grown_rounding", "no_effect"):
            rows = np.flatnonzero(self["verdict"] == verdict)
            if not len(rows):
                continue
            error, smallest = (
                self[name][rows] for name in ("rel_l2_error", "smallest_passing_tolerance")
            )
            worst = np.argmax(np.nan_to_num(error, nan=-1.0))
            shown = int(rows[0 if verdict == "no_effect" else worst])
            said = {
                "count": len(rows),
                "name": self.short(shown),
                "number": self.number(shown),
                "rel": scientific(float(np.nanmax(error, initial=0.0))),
                "smallest": scientific(float(np.nanmax(smallest, initial=0.0))),
            }
            found.append(sentence(f"explanations.excused_{verdict}", language, **said))
        return found

    def remarks(self, language: str) -> list[tuple[str, str]]:
        """What stands behind the verdict, as (tone, text)."""
        verdict, reason = self["verdict"], self["reason_id"]
        smallest = self["smallest_passing_tolerance"]
        is_rounding, is_grown = verdict == "rounding", verdict == "grown_rounding"
        counts = [
            int(np.clip(self[name], 0, None).sum())
            for name in ("nan_mismatch_count", "inf_mismatch_count")
        ]
        kinds = (
            ("warn", "pages.shape_count", verdict == "shape"),
            ("warn", "pages.without_partner", (verdict == "missing") & ~self["passed"]),
            (
                "warn",
                "pages.unreadable_count",
                (verdict == "unreadable") & (reason != "interrupted"),
            ),
            ("warn", "pages.undecidable_count", verdict == "undecidable"),
            ("miss", "pages.nonfinite_count", reason == "identical_nonfinite"),
            ("", "pages.rounding_from", is_rounding & (smallest > 0)),
            ("", "pages.rounding_count", is_rounding & ~(smallest > 0)),
            ("", "pages.grown_count", is_grown),
            ("", "pages.no_effect_count", verdict == "no_effect"),
            ("warn", "pages.blind_count", reason == "pass_blind"),
            ("warn", "pages.interrupted_count", reason == "interrupted"),
        )
        said = {
            id: {"smallest": scientific(float(np.nanmax(smallest, initial=0.0, where=rows)))}
            for id, rows in (("pages.rounding_from", is_rounding), ("pages.grown_count", is_grown))
        }
        found = [
            (tone, sentence(id, language, count=count, **said.get(id, {})))
            for tone, id, rows in kinds
            if (count := int(np.count_nonzero(rows)))
        ]
        if any(counts):
            text = sentence("verdicts.nan_mismatch", language, mismatches=mismatches(*counts))
            found.insert(0, ("miss", f"◇ {text}"))
        return found


def blocks(
    labels: Sequence[str], directions: Sequence[str] | None = None
) -> list[tuple[str, list[int]]]:
    """Consecutive rows of the same block of the network: title and row numbers.

    A block is the name up to its first number (``layers.7``), or its first part; ``(grad)`` follows
    where its direction is backward. Names without such structure are cut into runs of 25.
    """
    keys = [block_of(label) for label in labels]
    if directions is not None:
        ways = zip(keys, directions, strict=True)
        keys = [f"{key} (grad)" if way == "backward" else key for key, way in ways]
    runs: list[tuple[str, list[int]]] = []
    for i, key in enumerate(keys):
        if runs and runs[-1][0] == key:
            runs[-1][1].append(i)
        else:
            runs.append((key, [i]))
    if len(labels) > 8 and len(runs) > len(labels) / 2:
        return [
            (
                f"{start}–{min(start + 25, len(labels)) - 1}",
                list(range(start, min(start + 25, len(labels)))),
            )
            for start in range(0, len(labels), 25)
        ]
    return runs


def thinned_ticks(labels: Sequence[str]) -> list[tuple[int, str]]:
    """Ticks for a chart of these rows: block titles that do not overlap, as (row, text)."""
    ticks: list[tuple[int, str]] = []
    for title, numbers in blocks(labels):
        if not ticks or numbers[0] - ticks[-1][0] > 0.12 * len(labels):
            ticks.append((numbers[0], title[:14]))
    return [tick for tick in ticks if tick[0] < 0.95 * len(labels)]


# Kind of trouble -> (glyph, tone, sentence); the worst first.
_TROUBLES = {
    "unreadable": ("!", "warn", "pages.unreadable_count"),
    "nan": ("◇", "miss", "pages.with_nan"),
    "inf": ("◇", "miss", "pages.with_inf"),
    "saturated": ("▲", "warn", "pages.saturated"),
    "near": ("▲", "warn", "pages.near_limit"),
    "zero": ("▲", "warn", "pages.all_zero"),
    "constant": ("▲", "warn", "pages.constant"),
}


@dataclass(frozen=True, eq=False)
class Entries(Table):
    """A dump's table, with what is wrong with each entry.

    `is_merged` says that other ranks than 0 hold only what was not merged into it.
    """

    names: list[str]
    histogram: np.ndarray | None
    exponents: np.ndarray
    is_merged: bool = False

    @classmethod
    def of(cls, index: xr.Dataset) -> Entries:
        """The view of a `Dump.index`."""
        table = table_of(index)
        columns, names = table.columns, display_names(table)
        merged = "merged_ranks" in index.attrs
        histogram = index.get("magnitude_histogram")
        if histogram is None:
            return cls(columns, names, None, np.empty(0, int), merged)
        return cls(columns, names, histogram.values, index["exponent"].values, merged)

    def shown(self, view: View) -> list[Column]:
        """The columns that a view shows, from left to right."""
        return shown_columns(view, [*DUMP_COLUMNS.values(), *MADE_OF_ENTRIES.values()], self)

    def shown_row(self, i: int, language: str) -> dict[str, Any]:
        """All values of one entry, and what `MADE_OF_ENTRIES` has of it."""
        values = self.row(i)
        zero, size = values["zero_count"], values["size"]
        values |= {"number": i, "left_display": self.names[i], "right_display": self.names[i]}
        values |= {"verdict": self.remark(i, language), "largest": self.largest[i]}
        values["zero_share"] = zero / size if zero > 0 and size > 0 else np.nan
        if self.histogram is not None:
            counts = decades(self.histogram[i], self.exponents, lowest=-6)
            values["magnitude_histogram"] = spark(counts)
        return values

    @cached_property
    def largest(self) -> np.ndarray:
        """Largest finite magnitude of each entry; nan where unknown."""
        return np.asarray(np.fmax(np.abs(self["min"]), np.abs(self["max"])))

    @cached_property
    def limits(self) -> np.ndarray:
        """Largest finite value of each entry's dtype; inf for exact and unknown ones."""
        names = list(map(str, self["dtype"]))
        known = {name: _limit(name) for name in {*names}}
        return np.array([known[name] for name in names], float)

    @cached_property
    def kinds(self) -> np.ndarray:
        """The worst that is known to be wrong with each entry, "not_read", or "ok"."""
        size, zero = self["size"], self["zero_count"]
        all_zero = (zero == size) & (size > 0)
        finite = (self["nan_count"] == 0) & (self["inf_count"] == 0)
        wrong = {
            "unreadable": self["status"] != "ok",
            "nan": self["nan_count"] > 0,
            "inf": self["inf_count"] > 0,
            "saturated": self.largest == self.limits,
            "near": self.largest > NEAR_OVERFLOW * self.limits,
            "zero": all_zero,
            "constant": (self["min"] == self["max"]) & (size > 1) & finite & ~all_zero,
        }
        choices = [np.asarray(wrong[kind], bool) for kind in _TROUBLES]
        return np.select([*choices, self._not_read], [*_TROUBLES, "not_read"], "ok")

    @cached_property
    def _not_read(self) -> np.ndarray:
        """Whether an entry has values of which nothing is known."""
        unknown = (self["nan_count"] < 0) & (self["value"] == "") & (self["size"] != 0)
        for name in ("min", "max", "l2"):
            unknown = unknown & np.isnan(self[name])
        return np.asarray(unknown, bool)

    @cached_property
    def _any_read(self) -> bool:
        return bool(np.isfinite(self["l2"]).any())

    def tone(self, i: int) -> str:
        """The tone of an entry; none where its values were not read."""
        kind = str(self.kinds[i])
        if kind in _TROUBLES:
            return _TROUBLES[kind][1]
        return "ok" if kind == "ok" else ""

    def is_sick(self, i: int) -> bool:
        """Whether something is wrong with an entry."""
        return str(self.kinds[i]) in _TROUBLES

    def sick(self, most: int) -> list[int]:
        """Entries with something wrong, the worst kind first."""
        found = [i for kind in _TROUBLES for i in np.flatnonzero(self.kinds == kind)]
        return [int(i) for i in found[:most]]

    def remark(self, i: int, language: str) -> str:
        """What is wrong with one entry, or that it was not read while others were, or nothing."""
        kind = str(self.kinds[i])
        if kind == "ok":
            return ""
        if kind == "not_read":  # of a dump that was not read at all, it is said once
            return f"○ {sentence('pages.not_read_word', language)}" if self._any_read else ""
        if kind == "unreadable":
            return f"! {told(self['reason'][i], language)}"
        mark = _TROUBLES[kind][0]
        counts = {"nan": self["nan_count"][i], "inf": self["inf_count"][i]}
        if kind in counts:
            return f"{mark} {counts[kind]:,} {'NaN' if kind == 'nan' else 'Inf'}"
        return f"{mark} {sentence(f'pages.word_{kind}', language)}"

    def health(self, language: str) -> list[tuple[str, str]]:
        """What is wrong with the dump, as (tone, text), the worst first; else that all is well."""
        found = []
        for kind, (mark, tone, id) in _TROUBLES.items():
            rows = np.flatnonzero(self.kinds == kind)
            if len(rows):
                text = sentence(id, language, count=len(rows))
                first = sentence("pages.first_entry", language)
                between = sentence("pages.comma", language)
                found.append((tone, f"{mark} {text}{between}{first} {self.names[rows[0]]}"))
        found += [("warn", f"○ {text}") for text in self._gaps(language)]
        if len(self) and not self._any_read:
            text = sentence("pages.not_summarised", language, call=call_text("dump.summarise()"))
            found.append(("", text))
        elif unread := int(np.count_nonzero(self.kinds == "not_read")):
            counts = {"count": unread, "of": len(self)}
            call = call_text("dump.summarise()")
            text = sentence("pages.not_read", language, **counts, call=call)
            found.append(("", f"○ {text}"))
        elif not found and len(self):
            found.append(("ok", f"✓ {sentence('pages.all_finite', language)}"))
        return found

    def _gaps(self, language: str) -> list[str]:
        """Steps and ranks that lack entries the others have."""
        places: dict[tuple[int, int], set[str]] = {}
        columns = (self["step"], self["rank"], self["name"])
        for step, rank, name in zip(*columns, strict=True):
            if not (self.is_merged and rank):
                places.setdefault((int(step), int(rank)), set()).add(str(name))
        steps = sorted({step for step, _ in places})
        ranks = sorted({rank for _, rank in places})
        every = set().union(*places.values())
        gaps = []
        for step in steps:
            for rank in ranks:
                missing = len(every - places.get((step, rank), set()))
                if missing:
                    gaps.append(
                        sentence("pages.gap", language, step=step, rank=rank, count=missing)
                    )
        return (
            gaps
            if len(gaps) <= 3
            else [*gaps[:3], sentence("pages.more", language, count=len(gaps) - 3)]
        )


def _limit(dtype: str) -> float:
    try:
        known = dtype_from_token(dtype)
    except ValueError:
        return float("inf")
    return float("inf") if arithmetic_of(known) == "integer" else largest_finite(known)


def block_of(label: str) -> str:
    """The block of the network a name lies in: up to its first number, or its first part."""
    label = _IN_CALL.sub("", label)
    match = _BLOCK.match(label)
    if match and re.search(r"[./]", label):
        return match[1]
    return re.split(r"[./]", label, maxsplit=1)[0]


def scalar_row(row: xr.Dataset) -> dict[str, Any]:
    """The values of a row without the dimension ``pair``, by name."""
    return {str(name): row[name].values[()] for name in row.data_vars if not row[name].ndim}
