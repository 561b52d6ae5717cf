"""What a recorder needs from a framework: to see calls and values, and to change none of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming import Role

Compiled = Literal["boundary", "eager"]


class Handle(Protocol):
    """What was registered and can be taken away again; twice does no harm."""

    def remove(self) -> None:
        """Take it away."""


class SeenLayer(NamedTuple):
    """A layer whose calls can be watched.

    `path` is dotted, "" for the root; `layer` the name of its class as dumps give it (``Linear``);
    `settings` what it was made with, in torch's words, and ``training``. `has_forward` is False for
    containers that are never called themselves, such as lists.
    """

    path: str
    module: Any
    layer: str
    settings: Mapping[str, Any]
    aliases: tuple[str, ...] = ()
    has_forward: bool = True


class Unseen(NamedTuple):
    """A part of a network whose inside cannot be watched: the kind of reason, and where."""

    kind: str
    path: str


class Owned(NamedTuple):
    """A parameter or buffer that a layer owns itself; `name` is that of a checkpoint."""

    leaf: str
    name: str
    tensor: Any
    role: Role


class ValueFacts(NamedTuple):
    """What a tensor is without its values: dtype as numpy or ml_dtypes spells it."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements; () in C order or where unknown
    device: str


class ApiCall(NamedTuple):
    """What an operator is called: ``Functional.linear``; `layer` is the class of a primitive.

    One that `writes`, as collectives do, may give nothing but into its arguments, which are then
    its result; no version tells that they changed.
    """

    path: str
    layer: str = ""
    writes: bool = False


Slotted = Sequence[tuple[str, Any]]
# before(args, kwargs, frame): `frame` runs as long as the call does.
Before = Callable[[tuple[Any, ...], Mapping[str, Any], FrameType | None], None]
# after(args, kwargs, output, raised)
After = Callable[[tuple[Any, ...], Mapping[str, Any], Any, bool], None]


class Recording(Protocol):
    """One framework as a recorder sees it.

    Nothing here changes a number, the random state or a graph, and nothing stays but what a
    `Handle` takes away.
    """

    NAME: str
    MODULE_WORD: str  # how dumps begin the names of its modules: Module, Cell
    # Whether `watch_gradient` gives a handle only where a backward pass would bring a gradient.
    KNOWS_WHAT_NEEDS_GRADIENTS: bool
    # Whether `watch_own_parts` is used where nothing else was asked for.
    GIVES_OWN_PARTS: bool

    def check_mode(self, operators: bool = False, compiled: Compiled = "boundary") -> None:
        """Refuse what no hook can see, and what this version cannot do of what is asked.

        Raises
        ------
        NotImplementedError
            In MindSpore's GRAPH_MODE, for operators before MindSpore 2.9 and for
            ``compiled="eager"`` before torch 2.6; the message says what to do.
        """

    def layers(self, net: Any, compiled: Compiled) -> tuple[list[SeenLayer], list[Unseen]]:
        """The layers of a network, parents first, and the parts that cannot be watched.

        With ``compiled="boundary"`` what lies inside compiled parts is not among the layers.
        Wrappers (``module.``, ``_orig_mod.``) are left out of the paths.
        """

    def eager(self) -> AbstractContextManager[Any]:
        """A context in which compiled parts run as they are written, see ``compiled="eager"``."""

    def watch_calls(self, layer: SeenLayer, before: Before, after: After) -> list[Handle]:
        """Have the two called around each call of a layer; nothing if it cannot be registered."""

    def undisturbed(
        self, layers: Sequence[SeenLayer], operators: bool, miss: Callable[[str, str], None]
    ) -> AbstractContextManager[None]:
        """A context in which the framework chooses its kernels as if nothing were watched.

        Entered after everything is registered. ``miss("fast_path", path)`` is told of what cannot
        be seen for it.
        """

    def watch_functions(
        self,
        begin: Callable[[ApiCall, tuple[Any, ...], Mapping[str, Any]], Any],
        end: Callable[[Any, Any, bool], bool],
    ) -> AbstractContextManager[Any]:
        """A context in which operators are seen.

        ``begin(call, args, kwargs)`` gives a token, which ``end(token, output, raised)`` gets, or
        None, and then nobody is told of the end. `end` says whether the function is worth seeing
        again: one that gives no tensor is not. Reads of attributes are not seen.
        """

    def lacks(self) -> list[Message]:
        """What an older version of the framework cannot tell or do; nothing of those it is for."""

    def watch_named(
        self,
        operators: Iterable[Any],
        nested: bool,
        begin: Callable[[ApiCall, tuple[Any, ...], Mapping[str, Any]], Any],
        end: Callable[[Any, Any, bool], Any],
    ) -> AbstractContextManager[None]:
        """A context in which operators are seen by names; see `frameworks.named_operators`."""

    def remove_waiting(self) -> None:
        """Take away what was removed inside a call of its own, unless that still runs.

        Until then it does nothing.
        """

    def watch_optimizers(
        self, enter: Callable[[], None], leave: Callable[[], None]
    ) -> list[Handle]:
        """Have the two called around each step of an optimizer, where the framework can tell."""

    def is_tensor(self, value: Any) -> bool:
        """Whether a value is a tensor of this framework."""

    def is_parameter(self, tensor: Any) -> bool:
        """Whether a tensor is one that training writes, perhaps without raising its version."""

    def identity(self, tensor: Any) -> Any:
        """An object that stands for a tensor as long as it lives, for weak references too.

        The tensor itself where one tensor has one Python object. Its `id` is a key while a weak
        reference to it gives it; ids of tensors that are gone are used again.
        """

    def facts(self, tensor: Any) -> ValueFacts:
        """What a tensor is; works for tensors without values too."""

    def version(self, tensor: Any) -> int | None:
        """A number that grows whenever the values change in place; None if nothing tells."""

    def view_of(self, tensor: Any) -> Any:
        """A tensor object or key shared by all views of one memory; None if nothing tells."""

    def contents(self, tensor: Any) -> Any:
        """A key that is the same for tensors of one memory whose values in C order are the same.

        As long as one of them lives. None where nothing tells, or for any other order.
        """

    def quiet(self) -> AbstractContextManager[None]:
        """A context for the recorder's own operations: not seen, no gradients, no autocast."""

    def copied(self, tensor: Any) -> np.ndarray:
        """Values in memory of their own, in C order; bfloat16 and float8 of ml_dtypes.

        Raises
        ------
        ValueError
            If the tensor has no values (meta, vmap) or numpy has nothing for its dtype.
        """

    def shown(self, tensor: Any) -> np.ndarray:
        """Values on the host, where they lie if they do there; to be read at once.

        Raises
        ------
        ValueError
            As `copied`.
        """

    def measured(self, tensor: Any, fingerprint: bool) -> Any:
        """Statistics of a tensor, begun but not waited for; for `read_measured`.

        A mapping is finished, and what `read_measured` would give.

        Raises
        ------
        ValueError
            As `copied`.
        """

    def read_measured(self, measured: Sequence[Any]) -> list[Mapping[str, Any]]:
        """The statistics, read from the device at once.

        Each has ``min, max, mean, l2`` over the finite values, ``nan_count, inf_count`` and, where
        asked for, ``fingerprint``: see `metrics.sketches`.
        """

    def watch_gradient(self, tensor: Any, receive: Callable[[Any], None]) -> Handle | None:
        """Have `receive` called with each gradient of the value that a tensor holds now.

        The gradient is the total of the value. None if no gradient can come.
        """

    def watch_accumulated(self, parameter: Any, receive: Callable[[Any], None]) -> Handle | None:
        """As `watch_gradient`, with the sum of a parameter's gradients since it was cleared.

        Where the framework keeps none, the gradient alone.
        """

    def watch_node(
        self,
        origins: Slotted,
        outputs: Slotted,
        receive: Callable[[Slotted, Slotted], None],
    ) -> Handle | None:
        """Have ``receive(given, arrived)`` called when a backward pass ran an operator's call.

        `arrived` are the gradients of its results, `given` those of what it was given, each with a
        slot, None where there is none. In torch they are those of the node that made the first
        result, in its order, which need not be that of the arguments; in MindSpore those of the
        whole call, by the slots of `origins` and `outputs`. None where no gradient can come.

        Parameters
        ----------
        origins : sequence of (str, object)
            Slots of arguments with their `origin` before the call.
        outputs : sequence of (str, tensor)
        """

    def origin(self, tensor: Any) -> Any:
        """What made a tensor, before a call that may change it; for `watch_own_parts`."""

    def watch_own_parts(
        self,
        origins: Sequence[tuple[str, Any]],
        outputs: Iterable[Any],
        receive: Callable[[str, Any], None],
    ) -> list[Handle] | None:
        """Have ``receive(slot, gradient)`` called with what one call adds to its inputs' gradients.

        Nothing where the framework, or this call, cannot tell; None where there is too much of it.
        """

    def is_view(self, tensor: Any) -> bool:
        """Whether a tensor shows the memory of another one."""

    def is_recomputing(self, again: bool) -> bool:
        """Whether what runs now was called by a backward pass.

        `again` says that gradients have arrived since the network was called and that what runs
        was called before: where the framework tells nothing, that is what recomputation looks like.
        """

    def segment(self, frame: FrameType | None, until: FrameType | None) -> tuple[int, int] | None:
        """What tells the checkpointed segment in which a call runs, and which run of it.

        Looked for in the frames from `frame` to before `until`. The first number is the same when
        the segment is computed again; the second is that of the backward pass. None outside of
        segments, or where the framework does not tell.
        """

    def owned(self, layer: SeenLayer) -> list[Owned]:
        """Parameters and buffers of a layer itself, its children's left out."""

    def state(self) -> tuple[bool, str]:
        """Whether gradients are on, and the dtype of autocast or ""."""

    def recover(self, grad: bool) -> None:
        """Put this thread's states as they are outside `quiet`, with gradients on or off.

        For an interrupt that came while `quiet` began or ended, and left it half done.
        """

    def abandon(self) -> None:
        """Drop what a step that was broken off has left, so that the next one is as any other."""

    def random_state(self) -> np.ndarray:
        """The state of the framework's generator on the host, as bytes."""
