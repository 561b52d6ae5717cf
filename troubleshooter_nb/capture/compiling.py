"""What compilers that read Python source are to do with a function of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled_as(twin: Callable[..., Any]) -> Callable[[Function], Function]:
    """Have MindSpore compile `twin` where compiled code calls the decorated function.

    Parameters
    ----------
    twin : function
        Same parameters, and a body that MindSpore's compiler takes: no ``try``, no ``with``, no
        objects but those of classes with ``__ms_class__``.

    Notes
    -----
    Three marks: the compiler follows ``__wrapped__`` to the source it reads; ``__jit_function__``
    has it read it even where ``MS_JIT_IGNORE_MODULES`` makes this package opaque, which would cut
    the gradient; and ``torch.compile`` is told to run the decorated function as it is.
    """

    def mark(function: Function) -> Function:
        marked: Any = function
        marked.__wrapped__ = twin
        marked.__jit_function__ = True
        marked._torchdynamo_disable = True
        return function

    return mark
