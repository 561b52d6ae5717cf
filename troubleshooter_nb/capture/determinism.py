"""Runs that can be repeated: seeds, deterministic algorithms, no dropout."""

from __future__ import annotations

import os
import random
import weakref
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Any

import numpy as np

from troubleshooter_nb.errors import ArgumentError, ArgumentTypeError, check_kind
from troubleshooter_nb.frameworks import seeding
from troubleshooter_nb.frameworks.seeding import Facet, Seeding
from troubleshooter_nb.messages import Message, joined, told
from troubleshooter_nb.options import get_options
from troubleshooter_nb.render.html import fragment, paragraph

_LARGEST_SEED = 2**32 - 1  # of numpy's global generator


def seed_all(seed: int = 1234, mode: bool = False, rm_dropout: bool = False) -> Seeded:
    """Seed Python, numpy and the loaded frameworks, now; the result can undo it.

    Parameters
    ----------
    seed : int, 0 to 2**32 - 1
        For ``random``, numpy's global generator, torch on the host and on every device, and
        MindSpore (operators, initialisers, datasets). ``PYTHONHASHSEED`` gets it too, which
        counts for processes that are started from here.
    mode : bool
        True also asks for deterministic algorithms, cuDNN's included, and sets the variables
        that they need (``CUBLAS_WORKSPACE_CONFIG``, ``HCCL_DETERMINISTIC``,
        ``TE_PARALLEL_COMPILER``) unless they hold a value that will do. Slower, and in torch an
        operator that has no such algorithm raises. False leaves all that as it is.
    rm_dropout : bool
        True has dropout change nothing as long as this lasts, in training too and in nets that
        exist already: layers, functions, the dropout inside attention and recurrent layers. Their
        settings and ``training`` stay as they are.

    Returns
    -------
    Seeded
        A context manager. Leaving it, or ``.undo()``, puts back the states of the generators,
        the flags, the environment and dropout as they were before this call. Used without
        ``with`` all stays.

    Raises
    ------
    ValueError
        For a seed out of range.
    TypeError
        For a seed that is no integer, or a `mode` or `rm_dropout` that is no bool.
    NotImplementedError
        For `rm_dropout` in MindSpore's GRAPH_MODE; nothing is changed then.

    Notes
    -----
    Only frameworks that are imported already are seeded, and none is imported: call it after
    your imports, and before the first product on a GPU, which fixes cuBLAS's workspace.

    In MindSpore a new ``nn.Dropout`` and ``ops.dropout`` repeat their masks after the same seed;
    a ``nn.Dropout`` that has drawn already goes on, and only a new one starts over. No seed makes
    two frameworks, or two kinds of device, draw the same numbers.

    `rm_dropout` has ``torch.compile`` compile anew, when it begins and when it ends. It does not
    reach code compiled by ``torch.jit`` or ``mindspore.jit``, and what a net drops by itself
    (``x * (torch.rand(...) > p)``).

    A result that nobody kept cannot be undone any more: a later one goes back to where it was
    called. A cell of a notebook that is run again is such a case; ``with`` is not.

    The old tools of this name had no way back; TroubleShooter's and msprobe's dropout stayed an
    identity for the rest of the process.

    Examples
    --------
    >>> import random
    >>> import troubleshooter_nb as tnb
    >>> with tnb.seed_all(7):
    ...     first = random.random()
    >>> with tnb.seed_all(7):
    ...     assert random.random() == first
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        said = {"name": "seed", "wanted": "int", "kind": type(seed).__name__}
        raise ArgumentTypeError(Message("arguments.kind", **said))
    if not 0 <= seed <= _LARGEST_SEED:
        raise ArgumentError(Message("seeds.range", most=_LARGEST_SEED, given=int(seed)))
    check_kind("mode", mode, bool)
    check_kind("rm_dropout", rm_dropout, bool)
    return Seeded(int(seed), mode, rm_dropout)


class Seeded:
    """What `seed_all` has set, and the way back.

    Attributes
    ----------
    seed : int
    mode, rm_dropout : bool
        As `seed_all` was given them.
    frameworks : tuple of str
        The frameworks that were loaded, and so were seeded.
    """

    def __init__(self, seed: int, mode: bool, rm_dropout: bool) -> None:
        self.seed, self.mode, self.rm_dropout = seed, mode, rm_dropout
        self.frameworks: tuple[str, ...] = ()
        # What was found before, with the way to put it back; last first.
        self._before: dict[str, tuple[Callable[[Any], None], Any]] = {}
        self._apply()

    def _apply(self) -> None:
        loaded = seeding.loaded()
        self.frameworks = tuple(loaded)
        facets = _facets(self, loaded)
        self._before = {name: (facet.write, facet.read()) for name, facet in facets.items()}
        _live[:] = [one for one in _live if one() is not None]
        _live.append(weakref.ref(self))
        try:
            _set(self, loaded)
        except BaseException:
            self.undo()
            raise

    def undo(self) -> None:
        """Put back what was there before; a second time does nothing.

        What a later call that still lasts has set too stays, and that call then puts back what
        was there before this one: whatever the order, all is as before once all are undone.
        """
        living = [one for ref in _live if (one := ref()) is not None]
        if self not in living:
            return
        later = living[living.index(self) + 1 :]
        before, self._before = self._before, {}
        _live[:] = [ref for ref in _live if ref() is not self]
        with ExitStack() as stack:  # every step is taken, whatever one of them raises
            for name, (write, value) in before.items():
                heir = next((one for one in later if name in one._before), None)
                if heir is None:
                    stack.callback(write, value)
                else:
                    heir._before[name] = write, value

    def __enter__(self) -> Seeded:
        """Itself; what was undone is set again."""
        if not self._before:
            self._apply()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Undo it, also where an exception leaves the block."""
        self.undo()

    def __repr__(self) -> str:
        """One line: what was set and for whom."""
        return told(self._said())

    def _repr_html_(self) -> str:
        language = str(get_options()["language"])
        return fragment(paragraph(told(self._said(), language)))

    def _said(self) -> str:
        loaded = [*self.frameworks]
        names = ["random", "numpy", *loaded]
        parts: list[str] = [Message("seeds.set", seed=str(self.seed), names=names)]
        if self.mode and loaded:
            parts.append(Message("seeds.deterministic", names=loaded))
        if self.rm_dropout and loaded:
            parts.append(Message("seeds.no_dropout", names=loaded))
        if not self._before:
            parts.append(Message("seeds.undone"))
        return joined(parts)


# Those that can still be undone, in the order of the calls. A result that nobody kept never will
# be, and what it found goes with it.
_live: list[weakref.ref[Seeded]] = []


def _facets(seeded: Seeded, loaded: Mapping[str, Seeding]) -> dict[str, Facet]:
    """All that `_set` changes; MindSpore's seed changes those of Python and numpy, so they lead."""
    facets = {
        "seed": Facet(seeding.last_seed, seeding.set_last_seed),
        "random": Facet(random.getstate, random.setstate),
        # The global generator is what a user's script draws from.
        "numpy": Facet(np.random.get_state, np.random.set_state),
    }
    for name in ("PYTHONHASHSEED", *(_variables(loaded) if seeded.mode else ())):
        facets[f"environment.{name}"] = Facet(partial(os.environ.get, name), partial(_setenv, name))
    for name, framework in loaded.items():
        facets |= framework.generators()
        facets |= framework.flags() if seeded.mode else {}
        facets |= {f"{name}.dropout": framework.dropout()} if seeded.rm_dropout else {}
    return facets


def _set(seeded: Seeded, loaded: Mapping[str, Seeding]) -> None:
    os.environ["PYTHONHASHSEED"] = str(seeded.seed)
    for framework in loaded.values():
        if seeded.rm_dropout:
            framework.dropout().write(True)
        if seeded.mode:
            framework.be_deterministic()
        framework.seed(seeded.seed)
    for name, values in _variables(loaded).items() if seeded.mode else ():
        if os.environ.get(name) not in values:
            os.environ[name] = values[0]
    random.seed(seeded.seed)
    np.random.seed(seeded.seed)  # noqa: NPY002
    seeding.set_last_seed(seeded.seed)


def _variables(loaded: Mapping[str, Seeding]) -> dict[str, tuple[str, ...]]:
    return {
        name: values
        for framework in loaded.values()
        for name, values in framework.ENVIRONMENT.items()
    }


def _setenv(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
