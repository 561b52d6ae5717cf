"""Moving averages that lie beside the weights they are of, under names made of theirs."""

from __future__ import annotations

import re
from collections.abc import Mapping

from troubleshooter_nb.naming.parameters import AVERAGES

_WORDS = ("ema", "swa", "averaged", "avg_model", "moving_average", "shadow")
_WORD = "|".join(_WORDS)
# In front of a name whose dots became underscores (mmengine), or part of the container's name.
_FLAT = re.compile(rf"(?s)(?:{'|'.join(sorted({*AVERAGES, *_WORDS}, key=len, reverse=True))})_(.+)")
_CONTAINER = re.compile(rf"(?P<front>.*?)_?(?<![a-z])(?:{_WORD})(?![a-z])_?(?P<rest>.*)")


def averages_of(names: Mapping[str, object]) -> dict[str, str]:
    """The weight that each moving average is of, by the names of one checkpoint.

    ``ema_backbone_conv1_weight`` is the average of ``backbone.conv1.weight``, and
    ``generator_ema.fc.weight`` and ``ema_generator.fc.weight`` are those of
    ``generator.fc.weight``.

    Parameters
    ----------
    names : mapping of str to object
        All names, each with what an average and its weight have in common, such as the shape;
        None where that is unknown, which fits nothing.

    Returns
    -------
    dict of str to str
        Names of averages to those of weights. A name without a weight is not in it, nor is one
        that could be of two.
    """
    if not any(word in name for name in names for word in _WORDS):
        return {}
    flat: dict[str, list[str]] = {}
    for name in names:
        flat.setdefault(name.replace(".", "_"), []).append(name)
    found: dict[str, str] = {}
    for name, fact in names.items():
        for others in _candidates(name, flat):
            meant = [other for other in others if other != name and names.get(other) == fact]
            if len(meant) == 1 and fact is not None:
                found[name] = meant[0]
                break
    return {name: weight for name, weight in found.items() if weight not in found}


def _candidates(name: str, flat: Mapping[str, list[str]]) -> list[list[str]]:
    """What a name may be the average of, the likeliest first."""
    found: list[list[str]] = []
    if "." not in name and (match := _FLAT.fullmatch(name)):
        found.append(flat.get(match[1], []))
    head, dot, rest = name.partition(".")
    if dot and (match := _CONTAINER.fullmatch(head)):
        container = "_".join(filter(None, (match["front"], match["rest"])))
        # The dict of the weights themselves may be taken off their names.
        found += [[f"{container}.{rest}"], [rest]] if container else [[rest]]
    return found
