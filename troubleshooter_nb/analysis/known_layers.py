"""Classes and settings of layers that the dumps do not hold: said by the user, or of a network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from troubleshooter_nb.analysis.causes.layers import FITTERS
from troubleshooter_nb.analysis.layer_kinds import known_classes, layer_kind
from troubleshooter_nb.errors import ArgumentError, ArgumentTypeError, check_kind
from troubleshooter_nb.frameworks import adapter_of_network
from troubleshooter_nb.frameworks.settings import settings_of
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming.closeness import closest

_Settings = Mapping[str, Any]


@dataclass(frozen=True)
class KnownLayers:
    """What is known of layers besides their dumps.

    Attributes
    ----------
    said : mapping of str to str
        By place in the network or the end of it, the class on both sides, in either framework's
        word.
    of_net : tuple of mapping
        Of left and right, by place: class and settings, in torch's words.
    """

    said: Mapping[str, str] = field(default_factory=dict)
    of_net: tuple[Mapping[str, tuple[str, _Settings]], Mapping[str, tuple[str, _Settings]]] = (
        {},
        {},
    )

    def __bool__(self) -> bool:
        return bool(self.said or any(self.of_net))

    def class_said(self, path: str) -> str:
        """The class that the user gave; empty where none was."""
        found = _entry(path, self.said)
        return self.said[found] if found is not None else ""

    def classes_of_net(self, path: str) -> tuple[str, str]:
        """The classes in the networks of left and right; empty where they have no such layer."""
        left, right = (self._of(path, side)[0] for side in (0, 1))
        return left, right

    def settings(self, path: str, side: int) -> _Settings:
        """Settings that the network of a side holds."""
        return self._of(path, side)[1]

    def unused(self, paths: Iterable[str]) -> list[str]:
        """Places that the user named and that none of these are."""
        used = {_entry(path, self.said) for path in paths}
        return [name for name in self.said if name not in used]

    def _of(self, path: str, side: int) -> tuple[str, _Settings]:
        found = _entry(path, self.of_net[side])
        return self.of_net[side][found] if found is not None else ("", {})


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


def _of_net(name: str, net: Any) -> dict[str, tuple[str, _Settings]]:
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


def _entry(path: str, known: Mapping[str, Any]) -> str | None:
    """The name of a place: itself, else the only one that ends as it does."""
    path = path.replace("/", ".")
    if path in known:
        return path
    ends = [one for one in known if one and (_ends(path, one) or _ends(one, path))]
    return ends[0] if len(ends) == 1 else None


def _ends(path: str, end: str) -> bool:
    return path.endswith("." + end)
