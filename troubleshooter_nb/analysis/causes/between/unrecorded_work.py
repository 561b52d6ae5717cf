"""What caused a difference that no recorded call made, by explaining each side by itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from troubleshooter_nb.analysis.causes.between.attention_between import attention_fits
from troubleshooter_nb.analysis.causes.between.attention_gradient_factor import leaving_suspicions
from troubleshooter_nb.analysis.causes.between.attention_scores import LAST_TOKEN, score_fits
from troubleshooter_nb.analysis.causes.between.earlier_values import EarlierValues, earlier_values
from troubleshooter_nb.analysis.causes.between.frozen_values import frozen_mask, frozen_values
from troubleshooter_nb.analysis.causes.between.rotary_angles import angle_fits
from troubleshooter_nb.analysis.causes.between.rotary_between import rotary_fits
from troubleshooter_nb.analysis.causes.between.rounded_values import rounded_suspicions
from troubleshooter_nb.analysis.causes.between.sums_and_products import term_fits
from troubleshooter_nb.analysis.causes.case import Fit, Suspicion, TensorPair, evidence_of
from troubleshooter_nb.analysis.causes.fits import settings_apart
from troubleshooter_nb.analysis.causes.law import Cause, Rather, cause_in
from troubleshooter_nb.analysis.causes.laws.softmax import SCALE
from troubleshooter_nb.analysis.causes.layers import layer_of
from troubleshooter_nb.analysis.causes.operands import Operators
from troubleshooter_nb.analysis.causes.recomputed import rate_drawn_with
from troubleshooter_nb.analysis.causes.searches.attention import ATTENTION
from troubleshooter_nb.analysis.causes.searches.rotary import ROTARY
from troubleshooter_nb.analysis.causes.tensors.inputs import detect_positions
from troubleshooter_nb.analysis.causes.tensors.measure import sides_of
from troubleshooter_nb.analysis.flow import Flow
from troubleshooter_nb.messages import Message, ids_of, parts_of
from troubleshooter_nb.thresholds import ATTENTION_FLOORS, CLEARLY_WORSE, FORMULA_FLOORS, NORM_STEPS

Outcome = Literal["same", "different", "unknown"]
_NORMS = frozenset(
    ("layernorm", "rmsnorm", "batchnorm", "batchnorm2d", "groupnorm", "instancenorm")
)
# Norms of recorded operators: x * rsqrt(...) * weight + bias.
_SCALING = frozenset(("mul", "div", "add"))
_ROOTS = frozenset(("rsqrt", "sqrt"))
# Settings that say of which values something was made: said as the whole formula.
_OF_TERMS = ("sources", "orders")
# Words of layouts, see `views`.
_REPEATED = frozenset(("heads repeated each", "heads repeated in turn"))
_CHANNELS = frozenset(("channels first", "channels last"))
_PARTS = frozenset(("evidence.part_of", "evidence.every_from"))
_ACTIVATIONS = frozenset(("relu", "gelu", "silu", "tanh", "sigmoid", "leakyrelu"))


def _has_none(left: Fit, right: Fit) -> bool:
    return "nothing" in (left.settings["hidden"], right.settings["hidden"])


def _sees_last(left: Fit, right: Fit) -> bool:
    return {left.settings["mask"], right.settings["mask"]} == {"causal", LAST_TOKEN}


# What a setting means that differs, by the formula of both sides: decisive settings first.
_OF_FORMULA: dict[str, Mapping[str, Cause]] = {
    "attention": {
        "packing": "qkv_packing",
        "axis": "softmax_axis",
        "last_token": "kv_cache_path",
        "hidden": Rather("mask_missing", when=_has_none, usual="mask_shape"),
        **ATTENTION.causes,
    },
    "rotary": ROTARY.causes,
    "angles": ROTARY.causes,
    "scores": {
        "mask": Rather("kv_cache_path", when=_sees_last, usual="mask_missing"),
        "causal": "mask_missing",
        "window": "attention_window",
        "mask_value": "mask_value",
        "scale": SCALE,
        "softcap": "attention_scale",
    },
}
_FAMILIES: tuple[Callable[[EarlierValues], list[Fit]], ...] = (
    term_fits,
    angle_fits,
    rotary_fits,
    score_fits,
    attention_fits,
)


class Explained(NamedTuple):
    """What was found of work that was not recorded.

    `made` says what each side made the value from where that is proved and is no known cause: the
    facts ``left`` and ``right``, texts, and ``residual``. `is_close` is as `Recomputation` has it.
    """

    outcome: Outcome = "unknown"
    suspicions: Sequence[Suspicion] = ()
    made: Mapping[str, Any] = {}
    is_close: bool = True


def between_suspicions(operators: Operators, row: int) -> Explained:
    """Explain a row that unrecorded work between calls made.

    Parameters
    ----------
    operators : Operators
    row : int
        An input of a call, or an output of a call that contains others.

    Returns
    -------
    Explained
        Outcome "same": one formula with the same settings explains both sides, so that the
        difference was carried there. "different": each side is explained, with other settings;
        the cause that these have is among the suspicions, which may be empty.
    """
    if operators.flow.node_of[row].direction == "backward":
        return Explained("unknown", leaving_suspicions(operators, row))
    if known := _positions(operators, row) or frozen_values(operators, row):
        return Explained("different", known)
    found = earlier_values(operators, row)
    if found is None:
        return Explained()
    tensor, left, right = found
    if rounded := rounded_suspicions(tensor, left, right):
        return Explained("different", rounded)
    return _judged(operators, row, (left, right), _fitted((left, right)))


def _fitted(both: tuple[EarlierValues, EarlierValues]) -> list[list[Fit]]:
    """How each side may have come about, the best first."""
    fits: tuple[list[Fit], list[Fit]] = ([], [])
    # What a softmax is given are scores, even where they are a copy of earlier ones.
    families = (score_fits, term_fits) if both[0].word == "softmax" else _FAMILIES
    for family in families:
        for earlier, known in zip(both, fits, strict=True):
            if not any(_explains(fit, earlier) for fit in known):
                known += family(earlier)
    if any(map(_are_scores, fits)):
        # Scores that one side copies are scores on the other one, too.
        for earlier, known in zip(both, fits, strict=True):
            known += [] if _are_scores(known) else score_fits(earlier)
    return [
        sorted((f for f in known if not math.isnan(f.residual)), key=lambda f: f.residual)
        for known in fits
    ]


def _are_scores(fits: Sequence[Fit]) -> bool:
    return any(fit.settings["formula"] == "scores" for fit in fits)


def _positions(operators: Operators, row: int) -> list[Suspicion]:
    """Causes of an input that counts positions."""
    if row not in operators.flow.node_of[row].inputs:
        return []
    tensor = operators.tensor(row)
    sides = sides_of(tensor) if not tensor.is_large else None
    return detect_positions(sides) if sides is not None and sides.integers else []


def _explains(fit: Fit, earlier: EarlierValues) -> bool:
    wide = fit.settings["formula"] in ("attention", "scores")
    limit = ATTENTION_FLOORS if wide else FORMULA_FLOORS
    return fit.residual <= limit * earlier.floor


@dataclass(frozen=True)
class _FitPair:
    """A way of both sides and how they differ."""

    left: Fit
    right: Fit
    apart: list[str]

    @property
    def residual(self) -> float:
        return max(self.left.residual, self.right.residual)


def _judged(
    operators: Operators,
    row: int,
    both: tuple[EarlierValues, EarlierValues],
    fits: Sequence[list[Fit]],
) -> Explained:
    pairs = [_FitPair(a, b, _apart(a, b)) for a in fits[0][:16] for b in fits[1][:16]]
    good = [p for p in pairs if _explains(p.left, both[0]) and _explains(p.right, both[1])]
    if not good:
        return Explained()
    best = min(pair.residual for pair in good)
    floor = max(earlier.floor for earlier in both)
    limit = CLEARLY_WORSE * max(best, floor)
    alike = min((pair.residual for pair in pairs if not pair.apart), default=math.inf)
    if alike <= limit:
        same = min((pair for pair in pairs if not pair.apart), key=lambda p: p.residual)
        if rate := rate_drawn_with((same.left, same.right)):
            tensor, drawn = operators.tensor(row), ("rng_differs", rate)
            return Explained("different", [_suspicion(tensor, same, drawn, tensor.rel_l2, floor)])
        return Explained("same")
    likely = [pair for pair in good if pair.residual <= limit]
    # Two settings of one formula are nearer to each other than two formulas.
    pair = min(likely, key=lambda p: (p.apart == ["formula"], len(p.apart), p.residual))
    found = _cause(operators.flow, both, pair)
    if found is None and _is_own_constant(operators.flow, row, pair):
        found = "constant_differs", pair.apart[0]
    if found is None:
        return Explained("different", made=_made(pair))
    suspicion = _suspicion(operators.tensor(row), pair, found, min(alike, 1e3), floor)
    if both[0].sampled is not None:
        evidence = {**suspicion.evidence, "sampled": both[0].sampled}
        suspicion = replace(suspicion, evidence=evidence)
    if "hidden" in pair.apart and (proof := frozen_mask(operators, row, (pair.left, pair.right))):
        evidence = {**suspicion.evidence, **proof}
        suspicion = replace(suspicion, cause="constant_baked", evidence=evidence)
    return Explained("different", [suspicion])


def _is_own_constant(flow: Flow, row: int, pair: _FitPair) -> bool:
    """Whether a layer of the user's own adds the same values with other factors."""
    node = flow.node_of[row]
    is_leaf = row in node.outputs and not node.children and bool(node.inputs)
    return is_leaf and {*pair.apart} <= {"first_factor", "second_factor"}


def _made(pair: _FitPair) -> dict[str, Any]:
    """What each side made the value from, as messages; nothing of formulas with more to say."""
    said = [_said(fit.settings) for fit in (pair.left, pair.right)]
    if not all(said) or said[0] == said[1]:
        return {}
    return {"left": said[0], "right": said[1], "residual": pair.residual}


def _said(settings: Mapping[str, Any]) -> str:
    """A copy, a sum or a product in short; empty for other formulas."""
    formula, names = settings["formula"], settings.get("sources", ())
    if formula not in ("copy", "sum", "product"):
        return ""
    as_it_is = Message("evidence_words.as it is")
    terms = [
        name if order == as_it_is else Message("evidence.laid_out", name=name, order=order)
        for name, order in zip(names, settings["orders"], strict=True)
    ]
    if formula == "product":
        function = settings["function"]
        first, second = terms
        if function != "none":
            first = Message("evidence.function_of", function=function, name=first)
        return Message("evidence.product_of", first=first, second=second)
    factors = [settings["factor"]] if formula == "copy" else []
    factors += [settings[one] for one in ("first_factor", "second_factor") if one in settings]
    terms = [
        term if factor == 1.0 else Message("evidence.multiple_of", factor=factor, name=term)
        for factor, term in zip(factors, terms, strict=True)
    ]
    if formula == "copy":
        return Message("evidence.copy_of", name=terms[0])
    return Message("evidence.sum_of", first=terms[0], second=terms[1])


def _apart(left: Fit, right: Fit) -> list[str]:
    if left.settings["formula"] != right.settings["formula"]:
        return ["formula"]
    names = [name for name in settings_apart(left, right) if name != "mask_source"]
    sources = {fit.settings.get("mask_source", "") for fit in (left, right)}
    if len(sources) == 1 and "found" not in sources:
        # The mask that was recorded: where it differs, that came from elsewhere.
        names = [name for name in names if name != "hidden"]
    return names


def _cause(
    flow: Flow, both: tuple[EarlierValues, EarlierValues], pair: _FitPair
) -> tuple[str, str] | None:
    """The cause and the setting that decides it."""
    left, right = pair.left.settings, pair.right.settings
    formula = str(left["formula"])
    words = _words(both[0])
    if formula == "product" and pair.apart == ["function"]:
        return "activation_changed", "function"
    if formula == "product" and left["sources"] == right["sources"][::-1]:
        if left["function"] != "none" and len({*left["sources"]}) == 1:
            return "gate_up_order", "orders"  # parts of one tensor
        return "argument_order", "sources"
    if pair.apart == ["formula"] or pair.apart[0] == "sources":
        cause = _of_sources(flow, both[0], left, right)
        return (cause, pair.apart[0]) if cause else None
    if formula in _OF_FORMULA:
        causes = _OF_FORMULA[formula]
        # Decisive ones first, in whatever order the fit has them.
        return cause_in(causes, filter(pair.apart.__contains__, causes), (pair.left, pair.right))
    if "orders" in pair.apart:
        cause = _of_orders(left, right)
        return (cause, "orders") if cause else None
    for place, name in enumerate(("first_factor", "second_factor")):
        if name in pair.apart or "factor" in pair.apart:
            name = name if name in pair.apart else "factor"
            word = words.get(left["sources"][min(place, len(left["sources"]) - 1)], "")
            if word == "embedding":
                return "embedding_scale", name
            if word == "matmul":
                return "attention_scale", name
            if word in ("sin", "cos"):
                return "rope_kernel_fault", name
            if name == "factor":
                return None
    return None


def _words(earlier: EarlierValues) -> dict[str, str]:
    return {source.name: source.word for source in earlier.sources}


def _of_orders(left: Mapping[str, Any], right: Mapping[str, Any]) -> str | None:
    for one, other in zip(left["orders"], right["orders"], strict=True):
        if one == other:
            continue
        both = parts_of(one), parts_of(other)
        if all(_REPEATED & {*parts} for parts in both):
            return "grouped_heads"
        if all(_CHANNELS & {*parts} for parts in both):
            return "flatten_order"
        inside = [parts[1:2] for parts in both if parts[0] == "heads"]
        halves = any(_counts(parts, "evidence.part_of") for parts in inside)
        # What a rotation turns together lies side by side, or half a head apart.
        if halves and any(_counts(parts, "evidence.every_from") == [2] for parts in inside):
            return "rope_interleave"
        if all(_PARTS & {*ids_of(text)} for text in (one, other)):
            thirds = any(3 in _counts(parts, "evidence.part_of") for parts in both)
            packed = thirds or any("heads" in parts for parts in both)
            return "qkv_packing" if packed else "gate_up_order"
    return None


def _counts(parts: Sequence[str], id: str) -> list[int]:
    return [part.values["count"] for part in parts if isinstance(part, Message) and part.id == id]


def _of_sources(
    flow: Flow, earlier: EarlierValues, left: Mapping[str, Any], right: Mapping[str, Any]
) -> str | None:
    """A residual taken before or behind a norm or an activation."""
    formulas = {left["formula"], right["formula"]}
    if not formulas <= {"copy", "sum"}:
        return None
    rows = {source.name: source.row for source in earlier.sources}
    mine = [name for name in left["sources"] if name not in right["sources"]]
    theirs = [name for name in right["sources"] if name not in left["sources"]]
    # The skip of a block on its way into the sum.
    copied = formulas == {"copy"} and earlier.word in ("add", "mul")
    single = (formulas == {"sum"} or copied) and len(mine) == len(theirs) == 1
    words = _NORMS | _ACTIVATIONS | {""}
    if single and _across(flow, rows[mine[0]], rows[theirs[0]], words):
        return "residual_order"
    if formulas == {"copy", "sum"}:
        summed = left if left["formula"] == "sum" else right
        alone = right if summed is left else left
        if set(alone["sources"]) <= set(summed["sources"]):
            return "residual_order"
        return "residual_order" if _through_activation(flow, rows, alone, summed) else None
    return None


def _through_activation(
    flow: Flow, rows: Mapping[str, int], single: Mapping[str, Any], summed: Mapping[str, Any]
) -> bool:
    """Whether the single value went through an activation that a term of the sum did not."""
    return any(
        _across(flow, rows[one], rows[other], _ACTIVATIONS)
        for one in single["sources"]
        for other in summed["sources"]
    )


def _across(flow: Flow, one: int, other: int, words: frozenset[str]) -> bool:
    """Whether one row is an output of a call whose input is, or equals, the other."""
    for made, given in ((one, other), (other, one)):
        node = flow.node_of.get(made)
        if node is None or made not in node.outputs:
            continue
        # Of unknown class it may be one of them.
        if node.word not in words and layer_of(node.word, "forward") is not None:
            continue
        if given in node.inputs:
            return True
        if any(flow.producer.get(row) == given for row in node.inputs):
            return True
        if any(given in flow.same_input.get(row, ()) for row in node.inputs):
            return True
    return bool(words & _NORMS) and (_normed(flow, one, other) or _normed(flow, other, one))


def _normed(flow: Flow, made: int, given: int) -> bool:
    """Whether a value is another one divided by its own size, in recorded operators."""
    rows, is_scaled = {made}, False
    for _ in range(NORM_STEPS):
        nodes = [flow.node_of[row] for row in rows if row in flow.node_of]
        nodes = [node for node in nodes if node.word in _SCALING and rows & set(node.outputs)]
        rows = {flow.producer.get(row, row) for node in nodes for row in node.inputs}
        is_scaled |= any(flow.node_of[row].word in _ROOTS for row in rows if row in flow.node_of)
        if given in rows:
            return is_scaled
    return False


def _suspicion(
    tensor: TensorPair, pair: _FitPair, cause: tuple[str, str], rival: float, floor: float
) -> Suspicion:
    name, setting = cause
    evidence = evidence_of((pair.left, pair.right), setting, str(pair.left.settings["formula"]))
    if setting in _OF_TERMS:
        made = _made(pair)
        evidence |= {side: made[side] for side in ("left", "right") if side in made}
    return Suspicion(
        cause=name,
        before=tensor.rel_l2,
        residual=pair.residual,
        rival=min(rival, tensor.rel_l2) if math.isfinite(tensor.rel_l2) else rival,
        floor=max(floor, pair.residual / 4.0) if pair.residual <= 16 * floor else floor,
        evidence=evidence,
        pair=tensor.pair,
    )
