"""Draws runs and carries them out: two dumps and the truth about them."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from faulty import (  # noqa: F401 they register
    layers,
    limits,
    loading,
    mindspore_side,
    outside,
    sequences,
    styled,
    training,
)
from faulty.capture import Record, dump_of, is_kept, statistics_of
from faulty.families import FAMILIES, WIDE, draw_side
from faulty.noise import amplify, cast, harmless, pad_otherwise, reorder
from faulty.registry import FAULTS, Fault, Truth
from faulty.side import Side
from faulty.styles import STYLED
from faulty.ways import Way
from faulty.writing import Filed
from troubleshooter_nb import Dump
from troubleshooter_nb.metrics.floats import unit_roundoff

CONTROLS = (
    *("same", "reordered", "half reordered", "other precision", "amplified", "layout"),
    "padding",
)
OTHER_CONTROLS = ("same", "amplified", "layout")
HARD = ("half noise", "other precision", "small", "amplified", "harmless first", "statistics")
# What is planted for these needs to know the net.
FAMILY_OWN = ("amplified", "layout", "harmless first", "padding")
NOT_SAME = ("half noise", "other precision", "amplified", "harmless first", "layout")
HALVES = (torch.bfloat16, torch.float16)
# Parts of a dump in which a cause leaves the same numbers as another one: parameters that moved by
# a rate or by larger gradients, by Adam's start or by plain steps; gradients behind an attention.
UNDECIDABLE = (
    ("checkpoint", "learning_rate"),
    ("checkpoint", "optimizer_start_state"),
    ("checkpoint", "optimizer_state_lost"),
    ("checkpoint", "gradient_clipping"),
    ("gradients", "weight_decay_coupling"),
    ("gradients", "mask_shape"),
)
# Faults of less than this share of the noise are none.
BURIED = 0.05
# Sums over the same values in another order are this close.
_ROUNDED = 1e-5


@dataclass
class Run:
    """One run: what was drawn, the dumps and the truth."""

    number: int
    family: str
    fault: Fault | None
    hard: str
    level: str
    keep: str
    truth: Truth
    left: Dump
    right: Dump
    # (step, name) of every record -> module in whose forward it was computed.
    where: dict[tuple[int, str], str] = field(default_factory=dict)
    touches: bool = True
    strength: float = float("nan")
    first: str = ""
    # torch against MindSpore.
    is_other: bool = False
    # Unless in memory: how it was recorded, and both sides as files.
    way: Way | None = None
    files: tuple[Filed, Filed] | None = None

    @property
    def is_control(self) -> bool:
        """Whether nothing was planted."""
        return self.fault is None

    @property
    def is_outside(self) -> bool:
        """Whether no cause of the catalogue describes the fault."""
        return self.fault is not None and self.fault.cause.startswith("outside.")

    @property
    def is_hard(self) -> bool:
        """Whether the old rule cannot be expected to find it."""
        return self.hard not in ("", "easy", "same")

    @property
    def decides_cause(self) -> bool:
        """Whether the dump holds what a proof of the cause needs."""
        if self.way is not None:
            return self.fault is not None and self.way.holds_proof_of(self.fault)
        cause = self.fault.cause if self.fault else ""
        return self.keep not in ("outputs", "statistics") and (self.keep, cause) not in UNDECIDABLE


def draw_way(
    way: Way, number: int, seed: int, folder: Path, only: str = "", family: str = ""
) -> Run:
    """The run of this number that is recorded in this way, both sides written below the folder."""
    for attempt in range(60):
        rng = np.random.default_rng([seed, number, attempt, *way.name.encode()])
        below = folder / str(attempt)
        below.mkdir(parents=True)
        run = _attempt_way(way, number, rng, below, only, family)
        if run is not None:
            return run
        shutil.rmtree(below)
    msg = f"run {number} of {way.name} could not be drawn"
    raise RuntimeError(msg)


def _attempt_way(
    way: Way, number: int, rng: np.random.Generator, folder: Path, only: str, family: str
) -> Run | None:
    draw_of_kind, is_other = rng.random(), way.name == "mindspore"
    if only == "control" or (not only and draw_of_kind < 0.22):
        controls = OTHER_CONTROLS if is_other else CONTROLS[:2] if way.is_wide else CONTROLS
        hard, fault = controls[int(rng.integers(len(controls)))], None
        fit = way.families
    else:
        faults = [
            f
            for f in FAULTS
            if way.can(f)
            and (only in (f.cause, f.name, f.cause.partition(".")[0]) if only else True)
            and (bool(only) or f.cause.startswith("outside.") == (draw_of_kind > 0.85))
            and (not family or family in f.families)
            and (not is_other or goes_across(f))
        ]
        if not faults:
            return None  # none outside the catalogue that the way can show
        causes = sorted({f.cause for f in faults})
        cause = causes[int(rng.integers(len(causes)))]
        choices = [f for f in faults if f.cause == cause]
        fault = choices[int(rng.integers(len(choices)))]
        fit = tuple(f for f in fault.families if f in way.families)
        hard = _hardness_of_way(way, fault, rng)
    family = _family(rng, fit, family)
    if hard in FAMILY_OWN and family in STYLED:
        hard = "easy" if fault else "reordered"
    return _carry_out(number, fault, hard, family, rng, is_other, way, folder)


def _hardness_of_way(way: Way, fault: Fault, rng: np.random.Generator) -> str:
    """Half of the runs are easy, of wide ones none; of the others each way has some kinds only."""
    hard = _hardness(fault, rng)
    is_of_kind = fault.kind in ("backward", "running", "steps") or bool(fault.dtype)
    if is_of_kind or hard in way.hards or (hard == "easy" and not way.is_wide):
        return hard
    fit = [h for h in way.hards if h != "small" or fault.has_small]
    if fault.is_training:
        fit = [h for h in fit if h in ("amplified", "harmless first")]
    return fit[int(rng.integers(len(fit)))] if fit else "easy"


def draw(number: int, seed: int, only: str = "", family: str = "", mindspore: float = 0.0) -> Run:
    """The run of this number; the same for the same seed and choices."""
    for attempt in range(40):
        rng = np.random.default_rng([seed, number, attempt])
        is_other = np.random.default_rng([seed, number, 99]).random() < mindspore
        run = _attempt(number, rng, only, family, is_other)
        if run is not None:
            return run
    msg = f"run {number} could not be drawn"
    raise RuntimeError(msg)


def _attempt(
    number: int, rng: np.random.Generator, only: str, family: str, is_other: bool
) -> Run | None:
    families = mindspore_side.FAMILIES if is_other else FAMILIES
    draw_of_kind = rng.random()
    if only == "control" or (not only and draw_of_kind < 0.22):
        controls = OTHER_CONTROLS if is_other else CONTROLS
        hard = controls[int(rng.integers(len(controls)))]
        return _carry_out(number, None, hard, _family(rng, families, family), rng, is_other)
    choices = [
        f
        for f in FAULTS
        if {*f.families} & {*FAMILIES}
        and (only in (f.cause, f.name, f.cause.partition(".")[0]) if only else True)
        and f.cause.startswith("outside.")
        == (draw_of_kind > 0.85 if not only else "outside" in only)
        and (not family or family in f.families)
        and (not is_other or goes_across(f))
    ]
    if not choices and is_other:
        return None
    if not choices:
        msg = f"no fault {only!r} can be planted in {family or 'any family'}"
        raise SystemExit(msg)
    causes = sorted({f.cause for f in choices})
    cause = causes[int(rng.integers(len(causes)))]
    choices = [f for f in choices if f.cause == cause]
    fault = choices[int(rng.integers(len(choices)))]
    hard = _hardness(fault, rng)
    if is_other and hard not in ("easy", "amplified", "harmless first", "statistics", "backward"):
        return None
    fit = tuple(f for f in fault.families if f in families)
    return _carry_out(number, fault, hard, _family(rng, fit, family), rng, is_other)


def is_possible(fault: Fault, level: str, keep: str) -> bool:
    """Whether this dump can hold the fault at all."""
    return fault.name != "conv1d_extra_axis" or (level != "api" and keep in ("all", "checkpoint"))


def goes_across(fault: Fault) -> bool:
    """Whether the example nets in MindSpore have what the fault needs."""
    needs_more = fault.steps > 1 or fault.is_training or fault.dtype or fault.prepare
    within = not {"drop", "dropout", "pool", "flatten"} & {*fault.name.split("_")}
    return within and not needs_more and bool({*fault.families} & {*mindspore_side.FAMILIES})


def _family(rng: np.random.Generator, families: tuple[str, ...], wanted: str) -> str:
    return wanted or families[int(rng.integers(len(families)))]


def _hardness(fault: Fault, rng: np.random.Generator) -> str:
    if fault.kind in ("backward", "running", "steps"):
        return {"backward": "backward", "running": "running statistics", "steps": "later steps"}[
            fault.kind
        ]
    if fault.dtype:
        return "half noise"
    if rng.random() < 0.5:
        return "easy"
    fit = [h for h in HARD if h != "small" or fault.has_small]
    if fault.kind == "recorded" or fault.is_training:
        fit = ["amplified", "harmless first"]
    return fit[int(rng.integers(len(fit)))]


def _what_is_kept(fault: Fault | None, hard: str, rng: np.random.Generator) -> tuple[str, str]:
    """Level of the capture and the part of it that the user holds."""
    level = str(rng.choice(["module", "leaf", "api"], p=[0.5, 0.25, 0.25]))
    keep = "outputs" if rng.random() < 0.2 else "all"
    kind = fault.kind if fault else "forward"
    if kind in ("running", "steps", "recorded", "backward"):
        level = "module" if level == "api" else level
        keep = "all"
    if kind == "running" and rng.random() < 0.3:
        keep = "checkpoint"
    if kind == "steps":
        keep = "checkpoint" if rng.random() < 0.4 else "all"
    if kind == "backward" and rng.random() < 0.3:
        keep = "gradients"
    if kind == "loading" and rng.random() < 0.15:
        keep, level = "checkpoint", "leaf"
    return level, "statistics" if hard == "statistics" else keep


def _carry_out(
    number: int,
    fault: Fault | None,
    hard: str,
    family: str,
    rng: np.random.Generator,
    is_other: bool = False,
    way: Way | None = None,
    folder: Path | None = None,
) -> Run | None:
    level, keep = (way.level, way.keep) if way else _what_is_kept(fault, hard, rng)
    level = "leaf" if is_other and level == "api" else level
    if fault and not is_possible(fault, level, keep):
        return None
    steps, is_training = (fault.steps, fault.is_training) if fault else (1, False)
    wide = WIDE[family] if way and way.is_wide else None
    base = draw_side(family, rng, steps, is_training, is_other, wide)
    if is_other:
        mindspore_side.as_in_mindspore(base)
    if fault and fault.prepare:
        fault.prepare(base, rng)
    if hard == "padding" and (family not in sequences.TEXT or (way and way.keep != "calls")):
        hard = "reordered"  # no mask is given, or the loss counts padded tokens as well
    if hard == "padding":
        sequences.pad_some(base, rng)
    if hard == "amplified":
        amplify(base, rng)
    left, clean, right = base.copied(), base.copied(), base.copied()
    if fault and fault.prepare:
        # A preparation may replace forwards that refer to the module they were made for.
        for side in (left, clean, right):
            rebind(side, base, fault, int(number))
    for side in (left, clean, right):
        side.state["forward_only"] = is_other or hard == "padding"
    if hard == "padding":
        pad_otherwise(base, left, rng)
    truth = Truth(set())
    if fault:
        truth = fault.plant(left, np.random.default_rng([number, 7]), hard == "small")
        if not truth.origins and not truth.role:
            return None
    dtypes = _dtypes(fault, hard, family, rng)
    seed = int(rng.integers(1 << 30))
    touched: set[str] = set()
    for side in (left, clean):
        if hard in ("harmless first", "layout"):
            touched, also = harmless(side, np.random.default_rng(seed))
            truth.also |= also
        if hard in ("half noise", "amplified", "reordered", "half reordered", "other precision"):
            reorder(side, seed)
        if dtypes[0] != torch.float32:
            cast(side, dtypes[0])
    if touched & truth.origins:
        return None
    if dtypes[1] != torch.float32:
        cast(right, dtypes[1])
    truth.also |= _true_besides(hard)
    backward_order = bool(rng.random() < 0.5)
    has_gradients = bool(rng.random() < 0.7) or (fault is not None and fault.kind != "forward")
    run = Run(number, family, fault, hard, level, keep, truth, None, None)  # type: ignore[arg-type]
    sides = (left, clean if fault else None, right)
    if way and folder:
        run.way = way
        has_gradients = way.keep not in ("calls", "outputs")
        return _filed(run, sides, (backward_order, has_gradients), folder, rng)
    return _recorded(
        run, sides, (backward_order, has_gradients), bool(rng.random() < 0.3), is_other
    )


def rebind(side: Side, base: Side, fault: Fault, number: int) -> None:
    """Make replaced forwards of a copy those of the copy's own modules."""
    for path, module in side.net.named_modules():
        if "forward" in module.__dict__:
            del module.__dict__["forward"]
            side.state.setdefault("rebound", []).append(path)
    if side.state.get("rebound") and fault.cause == "int_narrowing":
        loading.by_remainder(side)


def _dtypes(
    fault: Fault | None, hard: str, family: str, rng: np.random.Generator
) -> tuple[torch.dtype, torch.dtype]:
    # rrelu has no float16 kernel on the CPU.
    half = HALVES[0] if family == "autoencoder" else HALVES[int(rng.integers(2))]
    if fault and fault.dtype:
        half = getattr(torch, fault.dtype)
        return half, half
    if hard in ("half noise", "half reordered"):
        return half, half
    if hard == "other precision":
        return half, torch.float32
    return torch.float32, torch.float32


def _true_besides(hard: str) -> set[str]:
    if hard == "other precision":
        return {"low_precision_cast", "reduction_order", "softmax_precision_path"}
    noisy = ("half noise", "amplified", "reordered", "half reordered")
    return {"reduction_order"} if hard in noisy else set()


def _recorded(
    run: Run,
    sides: tuple[Side, Side | None, Side],
    options: tuple[bool, bool],
    is_widened: bool,
    is_other: bool,
) -> Run | None:
    run.is_other = is_other
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        left = sides[0].run(run.level, *options)
        if is_other:
            right = mindspore_side.records_of(sides[2], run.level, options[1])
        else:
            right = sides[2].run(run.level, *options)
        clean = []
        if sides[1]:
            # Without noise, layout or another framework the faultless left side is the right one.
            is_same = run.hard not in NOT_SAME and not run.fault.dtype and not is_other  # type: ignore[union-attr]
            clean = right if is_same else sides[1].run(run.level, *options)
    run.where = {(r.step, r.name): r.where for r in [*right, *left]}
    run.left = dump_of(left, run.keep, "left", is_widened)
    run.right = dump_of(right, run.keep, "right", is_widened)
    if run.fault:
        measure(run, left, clean, right, options[0])
        if run.strength < BURIED or not run.touches:
            return None
    return run


def _filed(
    run: Run,
    sides: tuple[Side, Side | None, Side],
    options: tuple[bool, bool],
    folder: Path,
    rng: np.random.Generator,
) -> Run | None:
    """Both sides run, and written in the way of the run."""
    assert run.way is not None
    run.is_other = run.way.name == "mindspore"
    is_recording = run.way.name == "record"
    if is_recording and any(side and (side.on_records or side.on_gradients) for side in sides):
        return None
    paths = folder / "left", folder / "right"
    # Whatever the sides are written by draws alike.
    seed = int(rng.integers(1 << 30))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        left = sides[0].run(run.level, *options, to=paths[0] if is_recording else None)
        if run.is_other:
            right = mindspore_side.records_of(sides[2], run.level, options[1])
        else:
            right = sides[2].run(run.level, *options, to=paths[1] if is_recording else None)
        clean = []
        if sides[1] and run.fault:
            is_same = run.hard not in NOT_SAME and not run.fault.dtype and not run.is_other
            aside = folder / "clean" if is_recording else None
            clean = right if is_same else sides[1].run(run.level, *options, to=aside)
    if run.fault:
        measure(run, left, clean, right, options[0])
        if run.strength < BURIED or not run.touches:
            return None
        if run.way.keep == "training" and run.fault.kind == "loading":
            # Of what was fed wrongly a checkpoint has nothing.
            step, _, name = run.first.partition(":")
            kept = next(r for r in [*left, *clean] if (r.step, r.name) == (int(step), name))
            if kept.site.direction == "backward":
                return None
    run.where = {(r.step, r.name): r.where for r in [*right, *left]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run.files = (
            run.way.write(left, paths[0], np.random.default_rng(seed)),
            run.way.write(right, paths[1], np.random.default_rng(seed)),
        )
    return run


def measure(
    run: Run,
    left: Sequence[Record],
    clean: Iterable[Record],
    right: Iterable[Record],
    in_backward_order: bool,
) -> None:
    """Where the fault first changes a recorded value, and how much against the noise there."""
    without = {(r.step, r.name): r for r in clean if is_kept(r, run.keep)}
    other = {(r.step, r.name): r.array for r in right}
    kept = [r for r in left if is_kept(r, run.keep)]
    changed = [r for r in kept if not _same(without.get((r.step, r.name)), r, run.keep)]
    run.touches = bool(changed)
    if changed:
        first = changed[0]
        own = without.get((first.step, first.name))
        run.first = f"{first.step}:{first.name}"
        run.strength = _strength(first, own, other.get((first.step, first.name)))
        run.truth.origins |= first_readers(run, changed, in_backward_order)
        return
    have = {(r.step, r.name) for r in left}
    lost = [key for key in without if key not in have]
    if lost:
        run.touches = run.truth.is_absent = True
        run.first, run.strength = f"{lost[0][0]}:{lost[0][1]}", float("inf")


def first_readers(run: Run, changed: Sequence[Record], in_backward_order: bool) -> set[str]:
    """Who first shows a fault that lies in work of which the dump holds no result."""
    truth, first = run.truth, changed[0]
    if truth.origins and truth.direction == "backward" and first.site.role == "parameter":
        # Gradients of parameters alone, computed from the last layer back.
        step = [r for r in changed if r.step == first.step]
        return {step[0 if in_backward_order else -1].where}
    # A call that was given what no recorded one made.
    is_between = first.site.role == "input"
    # Of statistics the result of the fault may be the same: those of reordered values are.
    if truth.is_glue or is_between or run.keep == "statistics":
        return {first.where}
    return set()


def _same(own: Record | None, record: Record, keep: str) -> bool:
    """Whether the dump holds the same of a record with the fault and without it."""
    if own is None:
        return False
    a, b = own.array, record.array
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if keep == "statistics" and a.dtype.kind not in "b":
        first, second = statistics_of(a), statistics_of(b)
        if first.keys() != second.keys():
            return False
        # A mean of what cancels is rounding.
        figures = [np.array([one[n] for n in ("min", "max", "l2")]) for one in (first, second)]
        return bool(np.allclose(*figures, rtol=_ROUNDED, atol=0, equal_nan=True))
    return a.tobytes() == b.tobytes()


def _strength(record: Record, own: Record | None, other: np.ndarray | None) -> float:
    """Effect over what the sides differ by without it; 0 where it is less than rounding."""
    if own is None or other is None or not own.array.shape == other.shape == record.array.shape:
        return float("inf")
    roundoff = unit_roundoff(record.array.dtype) if record.array.dtype.kind != "b" else 0.0
    a, b, c = (x.astype(np.float64) for x in (record.array, own.array, other))
    finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    if not finite.all() and not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return float("inf")
    a, b, c = a[finite], b[finite], c[finite]
    effect, noise = np.linalg.norm(a - b), np.linalg.norm(b - c)
    if effect <= 2 * roundoff * np.linalg.norm(b):
        return 0.0
    return float(effect / noise) if noise else float("inf")
