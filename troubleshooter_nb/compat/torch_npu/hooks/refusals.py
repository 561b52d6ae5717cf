"""What the old tool raised of other classes than this package does elsewhere."""

from __future__ import annotations

from troubleshooter_nb.errors import ArgumentError, ArgumentTypeError, TroubleshooterError


class RefusedError(ArgumentError, RuntimeError):
    """A value that the old tool refused with RuntimeError."""


class NoNetworkError(ArgumentTypeError, AssertionError):
    """What is to be hooked is no network; the old tool asserted it."""


class NoDumpPathError(TroubleshooterError, AssertionError):
    """Lines are to be written before there is a file; the old tool asserted it."""


class OverflowStopError(TroubleshooterError, ValueError):
    """The first value that is not finite; the old tool raised ValueError."""
