"""Causes that act between one step and the next: optimizer, schedule, running statistics."""

from __future__ import annotations

from troubleshooter_nb import catalogue
from troubleshooter_nb.analysis.causes.case import Suspicion
from troubleshooter_nb.analysis.causes.training.fitting import material_of
from troubleshooter_nb.analysis.causes.training.history import History, sample
from troubleshooter_nb.analysis.causes.training.optimizers import detect_rules
from troubleshooter_nb.analysis.causes.training.resumed import detect_resumed
from troubleshooter_nb.analysis.causes.training.statistics import detect_statistics
from troubleshooter_nb.analysis.causes.training.trajectory import (
    detect_trajectory,
    detect_without_gradients,
)


def detect_updates(history: History) -> list[Suspicion]:
    """Causes seen in the values, and where recorded the gradients, of consecutive steps.

    Parameters
    ----------
    history : History
        At least two values of each tensor; what lacks one on either side is left out. At most
        `TRAINED_ELEMENTS` of a tensor and `TRAINED_TENSORS` tensors are read.

    Returns
    -------
    list of Suspicion
        Their evidence has the fitted constants of both sides. ``evidence["gradients"]`` says
        whether gradients were "recorded": without, what acts on the gradients explains the same.
    """
    samples = sample(history)
    buffers = [one for one in samples if one.track.role != "parameter"]
    parameters = [one for one in samples if one.track.role == "parameter"]
    found = detect_statistics(buffers)
    if not parameters:
        return found
    copied = detect_trajectory(parameters)
    found += copied
    # What was made of the other side's values was made by no optimizer.
    excluding = [one for one in copied if catalogue.of(one.cause).excludes]
    if any(one.rival > one.residual for one in excluding):
        return found
    sides = tuple(material_of(parameters, side, history) for side in (0, 1))
    if sides[0] is not None and sides[1] is not None:
        if history.fresh:
            return found + detect_rules((sides[0], sides[1]))
        if history.steps[:1] > (1,) and (
            lost := detect_resumed((sides[0], sides[1]), history.steps[0])
        ):
            return found + lost
    # What says as much as a copy does is no better an explanation.
    return found if excluding else found + detect_without_gradients(parameters)
