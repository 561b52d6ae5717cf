"""Operators that are seen by the names under which the user's code calls them.

The recorders of old replaced functions of a framework's modules, and their files are called after
what was replaced: ``Tensor.__add__`` is ``x + y``, ``Functional.relu`` is what ``nn.ReLU`` calls.
To give the same names, the same functions are replaced here, for as long as somebody watches.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple, Protocol

from troubleshooter_nb.frameworks.recording import ApiCall


class NamedOperator(NamedTuple):
    """A function of a framework that is seen when it is called.

    `home` is the dotted name of the module or class that it is looked up in, unless `holder` is
    what holds it, `name` its name there, perhaps dotted (``linalg.norm``), and `call` what its
    calls are called.
    """

    home: str
    name: str
    call: ApiCall
    holder: Any = None


Begin = Callable[[ApiCall, tuple[Any, ...], Mapping[str, Any]], Any]
End = Callable[[Any, Any, bool], Any]


class _Local(threading.local):
    silent = 0  # contexts in which nobody is told


_local = _Local()
# By thread, the calls that were told of and run; each thread writes its own.
_running: dict[int, int] = {}
# By the id of what stands in front, those who are in place, or were and lie below another one.
_fronts: dict[int, InFront] = {}


def running() -> int:
    """How many calls that were told of run now, in all threads."""
    return sum(list(_running.values()))


@contextmanager
def silent() -> Iterator[None]:
    """A context in which calls are not told of: those of the recorder itself."""
    enter_silence()
    try:
        yield
    finally:
        leave_silence()


def enter_silence() -> None:
    """Begin what `silent` is."""
    _local.silent += 1


def leave_silence() -> None:
    """End what `silent` is."""
    _local.silent -= 1


def recover() -> None:
    """Undo what an interrupt left."""
    _local.silent = 0
    _running.clear()


def watch_named(operators: Iterable[NamedOperator], nested: bool, begin: Begin, end: End) -> Watch:
    """A context in which the calls of some functions of this process are told of.

    Parameters
    ----------
    operators : iterable of NamedOperator
        What a framework of today does not have is passed over.
    nested : bool
        Whether calls that another one makes are told of, too.
    begin, end : callable
        As for `frameworks.recording.Recording.watch_functions`; what `end` returns does not count.

    Notes
    -----
    The context can be entered again once it was left. A process that was forked is silent. Code
    that got hold of a function before is not seen.
    """
    watch = Watch(nested, begin, end)
    for operator in operators:
        holder = _holder_of(operator)
        if holder is not None:
            watch.add(_Function(*holder, operator, watch))
    return watch


def is_found(operator: NamedOperator) -> bool:
    """Whether there is such a function in what is imported."""
    return _holder_of(operator) is not None


def _holder_of(operator: NamedOperator) -> tuple[Any, str] | None:
    """The object that has a function, and the name therein; None where there is none."""
    module, holder = operator.home, operator.holder
    while module and holder is None:
        holder = sys.modules.get(module)
        if holder is None:
            module = module.rpartition(".")[0]
    below = operator.home[len(module) :] if operator.holder is None else ""
    *above, name = filter(None, [*below.split("."), *operator.name.split(".")])
    for part in above:
        holder = getattr(holder, part, None)
    if holder is None or not callable(getattr(holder, name, None)):
        return None
    return holder, name


class Replaced(Protocol):
    """What takes the place of something, and tells of its calls."""

    def put(self) -> None:
        """Put it in its place."""

    def restore(self) -> None:
        """Have it as it was."""


class Watch:
    """Those who are told, and all that tells them; a context."""

    def __init__(self, nested: bool, begin: Begin, end: End) -> None:
        self.nested, self.begin, self.end = nested, begin, end
        self.is_active, self.process = False, os.getpid()
        self._replaced: list[Replaced] = []

    def __enter__(self) -> Watch:
        self.is_active, self.process = True, os.getpid()
        try:
            self._put()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.is_active = False
        self._restore()

    def is_asked(self) -> bool:
        """Whether a call that begins now is to be told of."""
        if not self.is_active or _local.silent:
            return False
        is_inside = threading.get_ident() in _running
        return (self.nested or not is_inside) and os.getpid() == self.process

    def add(self, one: Replaced) -> None:
        """Have something more put in its place, and taken away."""
        self._replaced.append(one)

    def _put(self) -> None:
        for one in self._replaced:
            one.put()

    def _restore(self) -> None:
        for one in reversed(self._replaced):
            one.restore()

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """A context as if nobody watched; calls that are open stay so."""
        self._restore()
        try:
            yield
        finally:
            if self.is_active:
                self._put()


class InFront:
    """What stands in front of a function of a module or class for a while."""

    def __init__(self, holder: Any, name: str) -> None:
        self._holder, self._name = holder, name
        self._own: Any = None
        self._front: Any = None
        self._told: Any = None  # what the front stands for
        self._is_put = False

    def made(self, function: Any) -> Any:
        """What stands in front of a function."""
        raise NotImplementedError

    def put(self) -> None:
        """Put it in front of the function that is there."""
        function = getattr(self._holder, self._name, None)
        if self._front is None or function is not self._told:
            # Made when it is first put, and anew where another function has come since.
            self._own = vars(self._holder).get(self._name)
            made = self.made(function)
            self._front = staticmethod(made) if isinstance(self._own, staticmethod) else made
            self._told = function
        self._is_put, _fronts[id(self._front)] = True, self
        setattr(self._holder, self._name, self._front)

    def restore(self) -> None:
        """Have what was there before, or what comes to be there once others have left."""
        self._is_put = False
        # Unless somebody else has put something in front since.
        if vars(self._holder).get(self._name) is not self._front:
            return
        del _fronts[id(self._front)]
        # What lies below may be that of somebody who has left in the meantime.
        while (below := _fronts.get(id(self._own))) is not None and not below._is_put:
            del _fronts[id(self._own)]
            self._own = below._own
            self._front = None  # it calls through the one that has left: the next is made anew
        if self._own is None:
            delattr(self._holder, self._name)
        else:
            setattr(self._holder, self._name, self._own)


class _Function(InFront):
    """A function that tells of its calls."""

    def __init__(self, holder: Any, name: str, operator: NamedOperator, watch: Watch) -> None:
        super().__init__(holder, name)
        self._operator, self._watch = operator, watch

    def made(self, function: Any) -> Any:
        return front(function, self._operator.call, self._watch)


class Within(InFront):
    """A function that runs in a context, a new one for each call."""

    def __init__(
        self, holder: Any, name: str, context: Callable[[], AbstractContextManager[Any]]
    ) -> None:
        super().__init__(holder, name)
        self._context = context

    def made(self, function: Any) -> Any:
        """The function, in the context."""

        @functools.wraps(function)
        def within(*args: Any, **kwargs: Any) -> Any:
            with self._context():
                return function(*args, **kwargs)

        return within


def front(function: Any, call: ApiCall, watch: Watch) -> Any:
    """A function that tells of its calls and is else the one given."""

    def told(*args: Any, **kwargs: Any) -> Any:
        if not watch.is_asked():
            return function(*args, **kwargs)
        with _counted():
            return _called(function, call, watch, args, kwargs)

    try:
        functools.update_wrapper(told, function)
    except (AttributeError, TypeError):  # of C, without a place for attributes
        told.__name__ = call.path.rpartition(".")[2]
    return told


def _called(
    function: Any, call: ApiCall, watch: Watch, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    token = watch.begin(call, args, kwargs)
    if token is None:
        return function(*args, **kwargs)
    output, raised = None, True
    try:
        output = function(*args, **kwargs)
        raised = False
    finally:
        if watch.is_active and output is not NotImplemented:
            watch.end(token, args if call.writes and output is None else output, raised)
    return output


class _counted:
    """A context in which one more call of this thread runs."""

    __slots__ = ("depth", "thread")

    def __enter__(self) -> None:
        self.thread = threading.get_ident()
        self.depth = _running.get(self.thread, 0)
        _running[self.thread] = self.depth + 1

    def __exit__(self, *error: object) -> None:
        if self.depth:
            _running[self.thread] = self.depth
        else:
            _running.pop(self.thread, None)
