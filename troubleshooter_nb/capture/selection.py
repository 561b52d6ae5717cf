"""Which layers and operators are recorded, and what is kept of their values."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args

from troubleshooter_nb.errors import ArgumentError, ArgumentTypeError, EntryNotFoundError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming import Site
from troubleshooter_nb.naming.closeness import closest

Keep = Literal["tensor", "sample", "statistics", "digest"]
KEEPS: tuple[str, ...] = get_args(Keep)
Kept = Keep | Literal["summary"]  # statistics without a fingerprint
Names = None | str | Collection[str] | Callable[[Site], bool]


@dataclass(frozen=True)
class Choice:
    """Which sites are recorded."""

    fits: Callable[[Site], bool]
    texts: tuple[str, ...] = ()  # none of a function of the user's

    def __call__(self, site: Site) -> bool:
        """Whether a layer is recorded."""
        return self.fits(site)

    def operator(self, site: Site, around: Iterable[Site]) -> bool:
        """Whether an operator is: by its own name, or as all that runs inside a layer chosen.

        A function of the user's is asked for the operator itself.
        """
        return self.fits(site) or (bool(self.texts) and any(map(self.fits, around)))

    def unmatched(self, paths: Iterable[str]) -> list[str]:
        """Texts that none of the paths is meant by."""
        known = list(paths)
        return [text for text in self.texts if not any(map(_form_of(text).match, known))]


def choice_of(names: Names) -> Choice | None:
    """The question whether a site is recorded; None where all are.

    A text is a path, in which ``*`` and ``?`` stand for anything; a list means any of its texts.

    Raises
    ------
    TypeError
        For anything but a text, a list of texts, a function or None.
    """
    if names is None:
        return None
    if callable(names):
        chosen = names
        return Choice(lambda site: bool(chosen(site)))
    texts = [names] if isinstance(names, str) else list(names) if _is_listed(names) else []
    if not texts or not all(isinstance(text, str) for text in texts):
        raise ArgumentTypeError(Message("recorder.names_kind", given=repr(names)))
    forms = [_form_of(text) for text in texts]
    return Choice(lambda site: any(form.match(site.path) for form in forms), tuple(texts))


@cache
def _form_of(text: str) -> re.Pattern[str]:
    # fnmatch would take the brackets of "layers[0]" for a set of characters.
    return re.compile(fnmatch.translate(text.replace("[", "[[]")))


def _is_listed(names: Any) -> bool:
    return isinstance(names, Collection) and not isinstance(names, bytes)


def check_found(names: Names, found: int, known: Iterable[str]) -> None:
    """Refuse names that mean no layer.

    Raises
    ------
    EntryNotFoundError
        With the layers whose names come closest.
    """
    if found or names is None:
        return
    paths = [path for path in known if path]
    listed = [names] if isinstance(names, str) else [] if callable(names) else [*names]
    hint = closest(listed[0], paths) if listed else ""
    facts = {"names": repr(names) if not callable(names) else "names", "known": paths[:8]}
    raise EntryNotFoundError(Message("recorder.no_layer", closest=hint, **facts))


def keep_of(keep: Keep | Callable[[Site], Keep | None]) -> Keep | Callable[[Site], Keep | None]:
    """What is kept, checked; of a function, each of its answers is.

    Raises
    ------
    ValueError
        For an unknown word.
    """
    if callable(keep):
        return lambda site: _checked(keep(site))
    found = _checked(keep)
    if found is None:
        raise ArgumentError(Message("recorder.keep", given="None", known=KEEPS))
    return found


def _checked(keep: Any) -> Keep | None:
    if keep is not None and keep not in KEEPS:
        raise ArgumentError(Message("recorder.keep", given=repr(keep), known=KEEPS))
    found: Keep | None = keep
    return found
