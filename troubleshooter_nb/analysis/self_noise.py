"""What runs that should agree leave on this machine: the noise of a side against itself."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from troubleshooter_nb.analysis.causes.case import Suspicion
from troubleshooter_nb.analysis.flow import Flow, inner
from troubleshooter_nb.analysis.origin import Origins, find_origins
from troubleshooter_nb.comparison import Comparison
from troubleshooter_nb.errors import ArgumentError, ArgumentTypeError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.noise import NoiseModel, roundoff_of
from troubleshooter_nb.thresholds import SELF_NOISE_MARGIN


def measure_noise(comparison: Comparison) -> NoiseModel:
    """The noise of two runs that should agree, for `compare(..., noise=...)`.

    Parameters
    ----------
    comparison : Comparison
        Of one side run twice, or of two sides known to be right.

    Returns
    -------
    NoiseModel
        `self_noise` holds the relative L2 error of every pair by the name of its right entry;
        `roundoffs` the largest error of each operator whose inputs agreed, twice over, where that
        is more than the fitted table says.

    Raises
    ------
    TypeError
        If it is no comparison.
    ValueError
        If pairs differ by more than rounding explains: their error is no noise.
    """
    if not isinstance(comparison, Comparison):
        kind = type(comparison).__name__
        raise ArgumentTypeError(Message("arguments.no_comparison", kind=kind))
    flow = Flow(comparison)
    origins = find_origins(flow)
    created = origins.created()
    if any(math.isinf(origins.error[row]) or origins.error[row] > 0.1 for row in created):
        name = flow.result["right_display"][created[0]]
        raise ArgumentError(Message("comparisons.no_noise", name=name))
    names = flow.result["right"]
    known = np.flatnonzero(np.isfinite(origins.error))
    default = NoiseModel()
    return NoiseModel(
        roundoffs={**default.roundoffs, **_by_word(flow, origins, default)},
        self_noise={str(names[row]): float(origins.error[row]) for row in known if names[row]},
    )


def detect_self_noise(
    flow: Flow, origins: Origins, model: NoiseModel
) -> Iterator[tuple[int, Suspicion]]:
    """nondeterministic: the first row that only the noise of a repeated run hides, and its cause.

    Parameters
    ----------
    flow : Flow
    origins : Origins
        Found with the noise of `model`.
    model : NoiseModel
        Without `self_noise` nothing is found.
    """
    if not model.self_noise:
        return
    created = set(origins.created())
    without = find_origins(flow, NoiseModel())
    for row in [row for row in without.created() if row not in created][:1]:
        noise = model.self_noise.get(str(flow.result["right"][row]), 0.0)
        error, floor = float(without.error[row]), float(without.typical[row])
        if noise > 0 and math.isfinite(error):
            # Two runs of one side are two draws of its noise, as are the two sides.
            left = math.sqrt(max(error**2 - 2.0 * noise**2, 0.0))
            figures = (error, left, error, floor, {"self_noise": noise})
            size = math.prod(flow.shape(row))
            yield row, Suspicion("nondeterministic", *figures, independent=size)


def _by_word(flow: Flow, origins: Origins, default: NoiseModel) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for node in inner(flow.nodes):
        for row in node.outputs if node.word else ():
            error, source = float(origins.error[row]), float(origins.source_error[row])
            roundoff = roundoff_of(
                str(flow.result["left_dtype"][row]), str(flow.result["right_dtype"][row])
            )
            if roundoff and error > 0 and not source > origins.typical[row]:
                found[node.word] = max(found[node.word], SELF_NOISE_MARGIN * error / roundoff)
    return {word: many for word, many in found.items() if many > default.roundoffs.get(word, 0.0)}
