"""What an editor of a weight map or a pairing does, without any widget."""

from __future__ import annotations

from troubleshooter_nb.dump import Dump
from troubleshooter_nb.pairing import Pairing
from troubleshooter_nb.weight_map import WeightMap
from troubleshooter_nb.widgets.editing.pairing_session import PairingSession
from troubleshooter_nb.widgets.editing.weight_map_session import WeightMapSession

__all__ = ["PairingSession", "WeightMapSession", "open_session"]


def open_session(
    value: WeightMap | Pairing,
    source: Dump | None = None,
    target: Dump | None = None,
    language: str = "en",
) -> WeightMapSession | PairingSession:
    """A session for a weight map or a pairing, in English or Chinese (``zh``)."""
    if isinstance(value, WeightMap):
        return WeightMapSession(value, source, target, language)
    return PairingSession(value, language)
