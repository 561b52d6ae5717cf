"""Every deliberate exception and warning of the package, one tree under `TroubleshooterError`."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from troubleshooter_nb.messages import Message, told


class TroubleshooterError(Exception):
    """Base of every error this package raises on purpose.

    Raised with a `Message`, and shown in the language in force where it is shown; another thread
    has its own, see `options.set_options`.
    """

    def __str__(self) -> str:
        """What went wrong, in the language in force."""
        return told(self.args[0]) if len(self.args) == 1 else super().__str__()


class ArgumentError(TroubleshooterError, ValueError):
    """A call was given a value it cannot work with."""


class ArgumentTypeError(TroubleshooterError, TypeError):
    """A call was given something of another type than it takes."""


class FormatError(TroubleshooterError, ValueError):
    """A file or folder is not what its name, header or neighbours promise."""


class UnknownFormatError(FormatError):
    """No reader recognised the path; the message lists what each reader said."""


class ReadError(TroubleshooterError, OSError):
    """Stored values could not be read although the entry looked sound when it was opened."""


class WriteError(TroubleshooterError, OSError):
    """A recording cannot be written further; what was written before stays readable."""


class EntryNotFoundError(TroubleshooterError, KeyError):
    """No entry or pair has the asked name; the message lists the closest names."""


class AmbiguousEntryError(EntryNotFoundError):
    """A name fits several entries (steps, ranks); the message shows how to select one."""


class PairingError(TroubleshooterError, ValueError):
    """A pairing asked for by the user cannot be applied to these two dumps."""


class MappingFileError(TroubleshooterError, ValueError):
    """A mapping file is wrong or does not fit these two dumps; the message names line and key."""


class WeightMapError(TroubleshooterError, ValueError):
    """A weight map cannot be applied; the message names the parameters."""


class OptionError(TroubleshooterError, ValueError):
    """An option has a name or a value outside its closed list."""


class FrameworkMissingError(TroubleshooterError, ImportError):
    """torch or MindSpore is needed for this call and is not installed."""


def check_extra(package: str, said: Message) -> None:
    """Raise ExtraMissingError with a sentence where an optional package is not installed."""
    if find_spec(package) is None:
        raise ExtraMissingError(said)


class ExtraMissingError(TroubleshooterError, ImportError):
    """An optional dependency is needed for this call and is not installed."""


class NotOfferedError(TroubleshooterError, NotImplementedError):
    """What this package or a framework does not have; the message names what to use."""


class NoGradientError(TroubleshooterError, RuntimeError):
    """No gradient will come for a tensor that was to be watched."""


class OverflowFoundError(TroubleshooterError, ArithmeticError):
    """A network that is watched made a value that is not finite, or at the limit of its dtype."""


class NotSameError(TroubleshooterError, AssertionError):
    """Two runs that were asserted to be the same are not, or could not be compared."""


class PathNotFoundError(TroubleshooterError, FileNotFoundError):
    """A path does not exist; the message says how far it does."""


class MissingFileError(PathNotFoundError, ValueError):
    """A file that a call of an old tool was given does not exist: there it was a ValueError."""


class TroubleshooterWarning(UserWarning):
    """Something the user can act on."""


class IncompleteWarning(TroubleshooterWarning):
    """Work was interrupted; what was finished is kept and the rest is marked."""


def check_kind(name: str, value: object, wanted: type) -> None:
    """Refuse an argument that is no `wanted`."""
    if not isinstance(value, wanted):
        said = {"name": name, "wanted": wanted.__name__, "kind": type(value).__name__}
        raise ArgumentTypeError(Message("arguments.kind", **said))


def path_of(path: str | os.PathLike[str]) -> Path:
    """The path that an argument means; what can be none is refused.

    ``~/`` is the home folder, as in a record, which does not say whose that is.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise ArgumentTypeError(Message("arguments.no_path", kind=type(path).__name__))
    found = Path(path)
    if found.parts[:1] == ("~",) and not os.path.lexists("~"):
        return found.expanduser()
    return found
