"""The values of a recording: each is measured, or kept, once, however often it is met."""

from __future__ import annotations

import itertools
import math
import weakref
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from troubleshooter_nb.capture.plan import Event, Sink
from troubleshooter_nb.capture.selection import Kept
from troubleshooter_nb.frameworks.recording import Recording
from troubleshooter_nb.messages import message_of
from troubleshooter_nb.naming import Role
from troubleshooter_nb.thresholds import RECORDED_SAMPLE

_FIGURES = ("statistics", "summary")
# Told of the number of a value that is met, and how to have it on the host.
See = Callable[[int, Callable[[], np.ndarray]], None]
_MOST_PENDING = 512  # values whose statistics are read from the device at once


class _Known(NamedTuple):
    """What is known of a tensor object; another one may get its `id` later."""

    tensor: Any  # a weak reference
    version: int | None
    number: int
    keep: Kept
    mark: Any


class _Measurement(NamedTuple):
    """The statistics of what lay in a memory at a version of it."""

    tensor: Any  # a weak reference
    version: int
    measured: Any


class Values:
    """Numbers values and hands what is kept of them to a sink.

    A value is a tensor object as it is now: one that was written in place is another value. What
    is output of one call, input of the next and result of an operator is one value.

    Parameters
    ----------
    adapter : Recording
    sink : Sink
    limit : float
        Bytes of values that are kept; beyond, statistics are.
    miss : callable
        ``miss(kind, where)``, told of what could not be kept.
    borrows : bool
        Hand over values where they lie, see `Plan`.
    see : callable, optional
        ``see(number, read)``, told of each value whenever it is met, before the sink is; `read`
        gives a host copy, whatever is kept.
    """

    def __init__(
        self,
        adapter: Recording,
        sink: Sink,
        limit: float,
        miss: Callable[[str, str], None],
        *,
        borrows: bool = False,
        see: See | None = None,
    ) -> None:
        self._adapter, self._sink, self._limit, self._miss = adapter, sink, limit, miss
        self._see = see
        self._values_of = adapter.shown if borrows else adapter.copied
        self.counts: Counter[str] = Counter()
        self.size_bytes = 0
        self._numbers = itertools.count()
        self._known: dict[int, _Known] = {}
        self._memory: dict[Any, tuple[Any, int]] = {}
        self._measurements: dict[Any, _Measurement] = {}
        self._pending: list[tuple[int, Any]] = []
        self._random: tuple[bytes, int] = (b"", -1)

    def number(
        self,
        tensor: Any,
        keep: Kept,
        where: str,
        role: Role,
        owned: Role = "",
        said: Mapping[str, Any] | None = None,
    ) -> int:
        """Number of the value that a tensor holds now, which is kept when it is met first.

        `role` is what it is met as, `owned` what it is to the layer that owns it. What is `said` of
        the value, such as whose gradient it is, is written with it.
        """
        thing, version = self._adapter.identity(tensor), self._adapter.version(tensor)
        if owned or self._adapter.is_parameter(thing):
            version = None  # batch norm, fused optimizers and `.data` write without raising it
        key = id(thing)
        known = self._known.get(key)
        if known is not None and known.tensor() is not thing:
            known = None
        held = mark = None
        if version is None:
            # Nothing tells whether it was written since: it is read at every meeting.
            held, mark = self._held(tensor, keep)
        if known is not None and known.version == version and known.mark == mark:
            if self._see is not None:
                self._see(known.number, partial(self._values_of, tensor))
            if known.keep != keep and known.keep != "tensor":
                self._store({"value": known.number}, tensor, keep, where, held)
                self._known[key] = known._replace(keep=keep)
            if said:
                self._sink.put({**said, "value": known.number})
            return known.number
        number = self._take_number()
        self.counts["gradients" if role == "gradient" else "values"] += 1
        event = self._event(tensor, number, "gradient" if role == "gradient" else owned)
        if said:
            event.update(said)
        self._known[key] = _Known(weakref.ref(thing), version, number, keep, mark)
        self._store(event, tensor, keep, where, held)
        return number

    def random_state(self) -> int:
        """Number of the value that is the state of the generator, written where it changed."""
        state = self._adapter.random_state()
        bits = state.tobytes()
        if bits != self._random[0]:
            self._random = bits, self._take_number()
            self.size_bytes += len(bits)
            self._sink.put({"value": self._random[1], "role": "random_state"}, state)
        return self._random[1]

    def drain(self) -> None:
        """Read the statistics that were begun."""
        pending, self._pending = self._pending, []
        read = self._adapter.read_measured([measured for _, measured in pending])
        for (number, _), figures in zip(pending, read, strict=True):
            self._sink.put({"value": number, **_as_event(figures)})

    def forget(self) -> None:
        """Know no tensor any more: whatever is met is read anew."""
        self._known.clear()
        self._memory.clear()
        self._measurements.clear()

    def forget_tensors(self, tensors: Iterable[Any]) -> None:
        """Read some tensors anew when they are met, whatever their version says."""
        for tensor in tensors:
            if self._adapter.is_tensor(tensor):
                self._known.pop(id(self._adapter.identity(tensor)), None)
                self._measurements.pop(self._adapter.view_of(tensor), None)

    def _take_number(self) -> int:
        return next(self._numbers)

    def follow(self, earlier: Values) -> None:
        """Number values along with another one."""
        self._numbers = earlier._numbers

    def _held(self, tensor: Any, keep: Kept) -> tuple[Any, Any]:
        """What is kept of a tensor, and what tells it from another."""
        try:
            if keep in _FIGURES:
                measured = self._adapter.measured(tensor, keep == "statistics")
                figures = self._adapter.read_measured([measured])[0]
                return measured, (*map(_comparable, figures.values()),)
            array = self._values_of(tensor)
        except ValueError:
            return None, None
        return array, (array.shape, str(array.dtype), crc32_of(array))

    def _event(self, tensor: Any, number: int, role: Role) -> Event:
        dtype, shape, strides, device = self._adapter.facts(tensor)
        event: Event = {"value": number, "dtype": dtype, "shape": shape}
        if strides:
            event["strides"] = strides
        if device != "cpu":
            event["device"] = device
        if role:
            event["role"] = role
        memory = self._adapter.view_of(tensor)
        if memory is not None:
            earlier = self._memory.get(memory)
            if earlier is not None and earlier[0]() is not None:
                event["view_of"] = earlier[1]
            self._memory[memory] = (weakref.ref(self._adapter.identity(tensor)), number)
        return event

    def _store(self, event: Event, tensor: Any, keep: Kept, where: str, held: Any) -> None:
        """Write a value with what is to be kept of it; why not, where it has none."""
        try:
            array = held
            if array is None and (keep not in _FIGURES or self._see is not None):
                array = self._values_of(tensor)
            if self._see is not None:
                copied = array if isinstance(array, np.ndarray) else self._values_of(tensor)
                self._see(event["value"], lambda: copied)
            if keep in _FIGURES:
                self._store_statistics(event, tensor, held, keep == "statistics")
                return
            if keep == "digest":
                self._sink.put({**event, "crc32": crc32_of(array)})
            elif keep == "sample":
                self._store_statistics(event, tensor, None)
                self._store_sample(event["value"], array, where)
            elif self.size_bytes + array.nbytes > self._limit:
                self._miss("over_limit", where)
                self._store_statistics(event, tensor, None)
            else:
                self._store_array(event, array)
        except ValueError as error:
            self._miss("no_values", where)
            self._sink.put({**event, "reason": message_of(error)})

    def _store_statistics(
        self, event: Event, tensor: Any, held: Any, fingerprint: bool = True
    ) -> None:
        # What a layer owns may have been written although its version stayed.
        may_repeat = "role" not in event
        measured = self._measured(tensor, fingerprint, may_repeat) if held is None else held
        if isinstance(measured, Mapping):  # nothing to wait for
            self._sink.put({**event, **_as_event(measured)})
            return
        self._sink.put(event)
        self._pending.append((event["value"], measured))
        if len(self._pending) >= _MOST_PENDING:
            self.drain()

    def _measured(self, tensor: Any, fingerprint: bool, may_repeat: bool) -> Any:
        """Statistics of a tensor; those of an equal view of the same memory serve again."""
        memory = self._adapter.view_of(tensor) if fingerprint and may_repeat else None
        earlier = None if memory is None else self._measurements.get(memory)
        version = self._adapter.version(tensor)
        if earlier is not None and version is not None and earlier.version == version:
            contents, other = self._adapter.contents(tensor), earlier.tensor()
            is_known = contents is not None and other is not None
            if is_known and contents == self._adapter.contents(other):
                return earlier.measured
        found = self._adapter.measured(tensor, fingerprint)
        if memory is not None and version is not None:
            thing = weakref.ref(self._adapter.identity(tensor))
            self._measurements[memory] = _Measurement(thing, version, found)
        return found

    def _store_sample(self, number: int, array: np.ndarray, where: str) -> None:
        stride = max(1, math.ceil(array.size / RECORDED_SAMPLE))
        sample = np.array(array.reshape(-1)[::stride])
        if self.size_bytes + sample.nbytes > self._limit:
            self._miss("over_limit", where)
            return
        self.size_bytes += sample.nbytes
        event = {"value": self._take_number(), "sample_of": number, "stride": stride}
        self._sink.put(event, sample)

    def _store_array(self, event: Event, array: np.ndarray) -> None:
        """Write the values; what repeats along an axis, once."""
        repeated = array.size > 0 and any(
            n > 1 and not step for n, step in zip(array.shape, array.strides, strict=True)
        )
        if repeated:
            self._sink.put(event)
            event, array = {"value": event["value"]}, _without_repeats(array)
        self.size_bytes += array.nbytes
        self._sink.put(event, array)


def _comparable(figure: Any) -> Any:
    """A figure that is equal to itself, NaN and lists too."""
    if isinstance(figure, float):
        return repr(figure)
    return tuple(figure) if isinstance(figure, list) else figure


def crc32_of(array: np.ndarray) -> int:
    """CRC-32 of the values in C order."""
    plain = np.ascontiguousarray(array).reshape(-1)
    return zlib.crc32(plain.view(np.uint8).data) if array.size else 0


def _without_repeats(array: np.ndarray) -> np.ndarray:
    """The values of an array with one element along the axes on which they repeat."""
    axes = zip(array.shape, array.strides, strict=True)
    return array[tuple(slice(None) if step or n < 2 else slice(1) for n, step in axes)]


def _as_event(figures: Mapping[str, Any]) -> Event:
    """Statistics as an event says them."""
    rest = {name: value for name, value in figures.items() if name != "fingerprint"}
    said: Event = {"statistics": rest}
    if "fingerprint" in figures:
        said["fingerprint"] = figures["fingerprint"]
    return said
