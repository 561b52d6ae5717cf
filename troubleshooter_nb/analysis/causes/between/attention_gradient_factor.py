"""A factor on the gradient that leaves every attention, while the forward pass agrees."""

from __future__ import annotations

from collections.abc import Iterator

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.between.earlier_values import EarlierValues, earlier_values
from troubleshooter_nb.analysis.causes.between.sums_and_products import term_fits
from troubleshooter_nb.analysis.causes.case import Fit, Suspicion
from troubleshooter_nb.analysis.causes.operands import Operators
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming.roles import is_attention, without_layer_numbers


def leaving_suspicions(operators: Operators, row: int) -> list[Suspicion]:
    """Gradients which grow by one factor per attention on one side.

    Parameters
    ----------
    operators : Operators
    row : int
        A gradient behind an attention in the backward pass, made by no recorded call.

    Returns
    -------
    list of Suspicion
        Of mask_shape; empty unless both sides pass on the gradient of the attention's first
        projection at all its places, one with a factor.
    """
    found = [_passed_on(operators, peer) for peer in _peers(operators, row)]
    proofs = [proof for proof in found if proof is not None]
    if len(proofs) < max(len(found), thresholds.FEWEST_ATTENTIONS):
        return []
    factors = [(float(a.settings["factor"]), float(b.settings["factor"])) for a, b, _ in proofs]
    left, right = factors[0]
    alike = all(
        abs(a - left) <= thresholds.SAME_NUMBER * abs(left)
        and abs(b - right) <= thresholds.SAME_NUMBER * abs(right)
        for a, b in factors
    )
    if not alike or (left == 1.0) == (right == 1.0):
        return []
    tensor = operators.tensor(row)
    evidence = {
        "setting": "gradient_factor",
        "layer": Message("evidence.attentions_backward", count=len(proofs)),
        "left": _said(left),
        "right": _said(right),
        "gradient_factor": left / right,
    }
    return [
        Suspicion(
            "mask_shape",
            before=tensor.rel_l2,
            residual=max(fit.residual for proof in proofs for fit in proof[:2]),
            rival=tensor.rel_l2,
            floor=max(floor for _, _, floor in proofs),
            evidence=evidence,
            pair=tensor.pair,
            share=thresholds.GRADIENT_FACTOR_SHARE,
        )
    ]


def _said(factor: float) -> str:
    if factor == 1.0:
        return "one that passes the gradient on"
    return Message("evidence.multiplies_gradient", factor=factor)


def _peers(operators: Operators, row: int) -> Iterator[int]:
    """The same place in every layer, the given one first."""
    flow = operators.flow

    def name(other: int) -> tuple[str, ...]:
        path = without_layer_numbers(str(flow.site["path"][other]))
        return path, *(str(flow.site[c][other]) for c in ("role", "slot", "direction"))

    yield row
    node = flow.node_of[row]
    own = name(row)
    others = [n for n in flow.nodes if n.place == node.place and n is not node]
    rows = [r for n in others for r in (*n.inputs, *n.outputs) if name(r) == own]
    yield from rows[: thresholds.ATTENTION_PEERS]


def _passed_on(operators: Operators, row: int) -> tuple[Fit, Fit, float] | None:
    """How both sides copy the gradient of a projection inside attention; with the floor."""
    found = earlier_values(operators, row)
    if found is None:
        return None
    _, left, right = found
    fits = _copy(operators, left), _copy(operators, right)
    if fits[0] is None or fits[1] is None:
        return None
    if fits[0].settings["sources"] != fits[1].settings["sources"]:
        return None
    return fits[0], fits[1], max(left.floor, right.floor)


def _copy(operators: Operators, earlier: EarlierValues) -> Fit | None:
    """The copy of what leaves a projection of an attention."""
    rows = {
        source.name: source.row
        for source in earlier.sources
        if source.word == "linear" and is_attention(str(operators.flow.site["path"][source.row]))
    }
    for fit in term_fits(earlier):
        if fit.settings["formula"] == "copy" and fit.settings["sources"][0] in rows:
            return fit
    return None
