"""What is called by name in MindSpore: functions, the primitives of cells, jit functions."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any

from mindspore import nn
from mindspore.ops import Primitive

from troubleshooter_nb.frameworks import named_operators
from troubleshooter_nb.frameworks.named_operators import (
    Begin,
    End,
    InFront,
    NamedOperator,
    Watch,
    front,
)
from troubleshooter_nb.frameworks.recording import ApiCall

try:
    from mindspore.graph.api import _JitExecutor
except ImportError:  # before MindSpore 2.10
    try:
        from mindspore.common.api import _JitExecutor
    except ImportError:  # before MindSpore 2.6
        from mindspore.common.api import _MindsporeFunctionExecutor as _JitExecutor

# Where cells call their own `construct`, and what lies between that and the call of a jit function.
_CELLS = nn.Cell.__call__.__code__.co_filename
_ON_THE_WAY = {__file__, named_operators.__file__, _JitExecutor.__init__.__code__.co_filename}


def operators_of_cells(networks: Iterable[Any]) -> list[NamedOperator]:
    """The primitives among the attributes of all cells of some networks.

    ``self.matmul = ops.MatMul()`` is called ``Primitive.matmul``, of layer ``MatMul``. One that
    stands in several places has the name of the first.
    """
    found: dict[int, NamedOperator] = {}
    for network in networks:
        for _, cell in network.cells_and_names():
            for name, value in vars(cell).items():
                if isinstance(value, Primitive):
                    call = ApiCall(f"Primitive.{name}", type(value).__name__)
                    found.setdefault(id(value), NamedOperator("", name, call, value))
    return [*found.values()]


def watch_named(operators: Iterable[NamedOperator], nested: bool, begin: Begin, end: End) -> Watch:
    """A context in which the calls of functions, of primitives and of jit functions are told of.

    As `named_operators.watch_named`. A `holder` that is a primitive is watched itself. A jit
    function is told of whatever the operators are, as ``Jit.<name>``; the cell of a jit `construct`
    is seen as one.
    """
    listed = [*operators]
    primitives = [one for one in listed if isinstance(one.holder, Primitive)]
    others = [one for one in listed if not isinstance(one.holder, Primitive)]
    watch = named_operators.watch_named(others, nested, begin, end)
    for one in primitives:
        watch.add(_Swapped(one.holder, one.call, watch))
    watch.add(_Jit(watch))
    return watch


class _Swapped:
    """A primitive whose class is replaced by one that tells of its calls.

    It stays a primitive in the attributes of its cell, and keeps what was set on it.
    """

    def __init__(self, primitive: Any, call: ApiCall, watch: Watch) -> None:
        self.primitive, self.own = primitive, type(primitive)
        told = front(functools.partial(self.own.__call__, primitive), call, watch)

        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
            return told(*args, **kwargs)

        members = {name: getattr(self.own, name) for name in ("__doc__", "__module__")}
        self.front = type(self.own.__name__, (self.own,), {**members, "__call__": __call__})

    def put(self) -> None:
        """Put the class that tells in place."""
        if type(self.primitive) is self.own:
            self.primitive.__class__ = self.front

    def restore(self) -> None:
        """Have its own class again, unless somebody else has replaced it since."""
        if type(self.primitive) is self.front:
            self.primitive.__class__ = self.own


class _Jit(InFront):
    """Has jit functions told of, and run as if nobody watched.

    The compiler reads the source of the functions that a jit function names, and cannot read what
    stands in front of them.
    """

    def __init__(self, watch: Watch) -> None:
        super().__init__(_JitExecutor, "__call__")
        self._watch = watch

    def made(self, function: Any) -> Any:
        """What is called in place of an executor's own call."""

        def __call__(executor: Any, *args: Any, **kwargs: Any) -> Any:
            # A method is handed what it is called on.
            of_method = 0 if executor.obj is None else 1

            def run(*rest: Any, **kwargs: Any) -> Any:
                with self._watch.suspended():
                    return function(executor, *args[:of_method], *rest, **kwargs)

            call = _jit_call(executor)
            told = run if call is None else front(run, call, self._watch)
            return told(*args[of_method:], **kwargs)

        return __call__


def _jit_call(executor: Any) -> ApiCall | None:
    """What the call of a jit function is called; None for a jit `construct` that its cell calls."""
    name = executor.fn.__name__
    if name != "construct" or executor.obj is None:
        return ApiCall(f"Jit.{name}")
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename in _ON_THE_WAY:
        frame = frame.f_back
    is_of_cell = frame is not None and frame.f_code.co_filename == _CELLS
    return None if is_of_cell else ApiCall(f"Jit.{type(executor.obj).__name__}")
