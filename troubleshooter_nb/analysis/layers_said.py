"""What a user says of layers, held against the formulas that there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from troubleshooter_nb.analysis.causes.layers import FITTERS
from troubleshooter_nb.analysis.known_layers import KnownLayers
from troubleshooter_nb.analysis.layer_kinds import known_classes, layer_kind
from troubleshooter_nb.errors import ArgumentError, ArgumentTypeError, check_kind
from troubleshooter_nb.frameworks import adapter_of_network
from troubleshooter_nb.frameworks.settings import settings_of
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming.closeness import closest


def known_layers(
    layers: Mapping[str, str] | None = None, left_net: Any = None, right_net: Any = None
) -> KnownLayers:
    """What a user says of layers.

    Parameters
    ----------
    layers : mapping of str to str, optional
        ``{"bn1": "BatchNorm2d"}``: place, or the end of it, to a class of torch or MindSpore.
    left_net, right_net : network, optional
        Of either framework; what made the left and the right dump.

    Raises
    ------
    ValueError
        If a class is none that any formula explains.
    TypeError
        If `layers` is no mapping of texts, or a network is none of torch or MindSpore.
    """
    if layers is not None:
        check_kind("layers", layers, Mapping)
    for place, word in (layers or {}).items():
        check_kind("layers", place, str)
        check_kind("layers", word, str)
        known, is_known = layer_kind(word)
        if not is_known and known not in FITTERS:
            hint = closest(word, known_classes())
            raise ArgumentError(
                Message("arguments.layer_class", name=place, value=word, closest=hint)
            )
    nets = ("left_net", left_net), ("right_net", right_net)
    left, right = (_of_net(name, net) for name, net in nets)
    return KnownLayers(dict(layers or {}), (left, right))


def _of_net(name: str, net: Any) -> dict[str, tuple[str, Mapping[str, Any]]]:
    if net is None:
        return {}
    adapter = adapter_of_network(net)
    if adapter is None:
        raise ArgumentTypeError(Message("arguments.network", name=name, kind=type(net).__name__))
    return {
        path: (
            layer.kind.rpartition(".")[2],
            settings_of(layer.kind, layer.settings, adapter.NAME),
        )
        for layer in adapter.layers(net)
        for path in (layer.path, *layer.aliases)
    }
