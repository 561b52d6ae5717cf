"""The version of this package, for whoever has to tell it without loading the rest."""

from __future__ import annotations

VERSION = "0.1.0"
