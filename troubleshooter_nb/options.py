"""Language, display and what is read: defaults for a session or for a block of code.

Objects and everything above them read these; metrics never do, so a figure cannot depend on them.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from troubleshooter_nb.errors import OptionError, TroubleshooterWarning
from troubleshooter_nb.messages import Message, options_in_force, told

_LINKS = ("inside", "anywhere")
_NAMINGS = ("current", "id-first", "1.0.15")
# TroubleShooter's releases, by the names they gave.
_NAMING_OF_RELEASE = {
    **{f"1.0.{patch}": "1.0.15" for patch in range(16)},
    **{f"1.0.{patch}": "id-first" for patch in (16, 17, 18)},
    "1.0.19": "current",
}


def _naming_of_environment() -> str:
    """For scripts that may not be changed: TNB_SAVE_NAMES=id-first gives the names of old."""
    wanted = os.environ.get("TNB_SAVE_NAMES") or "current"
    naming = _NAMING_OF_RELEASE.get(wanted, wanted)
    if naming in _NAMINGS:
        return naming
    text = told(Message("arguments.save_names", value=repr(wanted)))
    # No line of code is to blame, least of all the one of this package that came here first.
    warnings.warn_explicit(text, TroubleshooterWarning, "<environment>", 1)
    return "current"


def _links_of_environment() -> str:
    """For commands and notebooks: TNB_LINKS=anywhere."""
    wanted = os.environ.get("TNB_LINKS") or "inside"
    if wanted in _LINKS:
        return wanted
    text = told(Message("arguments.links", value=repr(wanted)))
    warnings.warn_explicit(text, TroubleshooterWarning, "<environment>", 1)
    return "inside"


def _limits_of_environment() -> int:
    """For commands and notebooks: TNB_LIMITS=4."""
    wanted = os.environ.get("TNB_LIMITS") or "1"
    if wanted.isascii() and wanted.isdigit() and 0 < len(wanted) < 10 and int(wanted):
        return int(wanted)
    text = told(Message("arguments.limits", value=repr(wanted)))
    warnings.warn_explicit(text, TroubleshooterWarning, "<environment>", 1)
    return 1


_NPY_NAMES = _naming_of_environment()

# name -> (default, allowed values or None for "a positive integer", meaning)
_CHOICES: Mapping[str, tuple[object, tuple[object, ...] | None, str]] = MappingProxyType(
    {
        "language": ("en", ("en", "zh"), "language of verdicts and advice"),
        "ascii": (False, (False, True), "text reprs use ASCII glyphs only"),
        "worst_rows": (8, None, "rows in the table of the worst pairs"),
        "html_bytes": (150_000, None, "size budget of one HTML repr, in bytes"),
        "links": (_links_of_environment(), _LINKS, "which links of a dump are followed"),
        "limits": (_limits_of_environment(), None, "how far beyond the usual sizes a file is read"),
        "npy_names": (_NPY_NAMES, _NAMINGS, "file names that save() gives"),
    }
)


def get_options() -> dict[str, object]:
    """All options with the values in force here."""
    return {name: default for name, (default, _, _) in _CHOICES.items()} | dict(
        options_in_force.get() or {}
    )


def set_options(**changes: object) -> None:
    """Change defaults for this session (this thread or asyncio task).

    Parameters
    ----------
    **changes
        ``language`` ("en" or "zh"), ``ascii`` (bool), ``worst_rows`` (int, rows),
        ``html_bytes`` (int, bytes of one HTML repr), ``links`` ("inside": a link of a dump that
        leads out of its folder is not read; "anywhere": it is; default from the environment
        variable TNB_LINKS), ``limits`` (int, how many times the usual limits a file may be large
        or stand for before it is refused; default 1, or the environment variable TNB_LIMITS),
        ``npy_names`` ("current" for ``dense_float32_1.npy`` and ``net.key_float32_2.npy``,
        "id-first" for ``1_dense.npy`` and ``2_net.key.npy``, "1.0.15" for ``1_dense.npy`` and
        ``2_net_key.npy``, where all tensors of one call have one number; or a release of
        TroubleShooter up to 1.0.19 for the one of these it wrote; default from the environment
        variable TNB_SAVE_NAMES).

    Raises
    ------
    OptionError
        For an unknown name or a value outside the closed list; nothing is changed then.
    """
    options_in_force.set(dict(options_in_force.get() or {}) | _checked(changes))


@contextmanager
def option_context(**changes: object) -> Iterator[None]:
    """Change options inside a ``with`` block only; takes what `set_options` takes."""
    token = options_in_force.set(dict(options_in_force.get() or {}) | _checked(changes))
    try:
        yield
    finally:
        options_in_force.reset(token)


def _checked(changes: Mapping[str, object]) -> dict[str, object]:
    changes = dict(changes)
    release = changes.get("npy_names")
    if isinstance(release, str):
        changes["npy_names"] = _NAMING_OF_RELEASE.get(release, release)
    for name, value in changes.items():
        if name not in _CHOICES:
            raise OptionError(Message("arguments.no_option", name=name, known=sorted(_CHOICES)))
        allowed = _CHOICES[name][1]
        if allowed is None:
            if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
                raise OptionError(Message("arguments.option_integer", name=name, value=repr(value)))
        elif value not in allowed:
            of = {"name": name, "known": allowed, "value": repr(value)}
            raise OptionError(Message("arguments.option_choice", **of))
    return changes
