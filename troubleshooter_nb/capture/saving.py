"""Save tensors by name while a network runs, one file or print per tensor."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from troubleshooter_nb.capture.compiling import compiled_as
from troubleshooter_nb.capture.numbering import DEFAULT, Numbering
from troubleshooter_nb.errors import ArgumentError, ArgumentTypeError
from troubleshooter_nb.formats.npy_dir import safe_name
from troubleshooter_nb.formats.npy_file import write_npy
from troubleshooter_nb.formats.print_text import shown_text, shows_values, tensor_text
from troubleshooter_nb.frameworks import adapter_of, loaded, require
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.floats import arithmetic_of, computable
from troubleshooter_nb.naming import NpyName, format_npy_name
from troubleshooter_nb.options import get_options

OutputMode = Literal["npy", "print"]


def _compiled_save(  # type: ignore[no-untyped-def]
    file,
    data,
    suffix=None,
    *,
    output_mode="npy",
    rank=None,
    numbering=None,
    widen=False,
    as_shown=False,
):
    _Compiled(file, suffix, output_mode, rank, numbering, widen).save(data)


def _compiled_save_grad(  # type: ignore[no-untyped-def]
    file,
    x,
    suffix="backward",
    *,
    output_mode="npy",
    rank=None,
    numbering=None,
    widen=False,
    as_shown=False,
):
    return _Compiled(file, suffix, output_mode, rank, numbering, widen).save_grad(x)


@compiled_as(_compiled_save)
def save(
    file: str | PathLike[str],
    data: Any,
    suffix: object = None,
    *,
    output_mode: OutputMode = "npy",
    rank: int | None = None,
    numbering: Numbering | None = None,
    widen: bool = False,
    as_shown: bool = False,
) -> None:
    """Write a tensor, or each tensor of a nested value, under a name and a running number.

    Also inside a network, and inside code that MindSpore compiles (on CPU).

    Parameters
    ----------
    file : str or path-like
        Folder and name: ``"out/dense"`` gives ``out/dense_float32_0.npy``. One ``.npy`` at the end
        is left out. The folder is created.
    data : tensor, array, number, or list, tuple, dict of such
        Of torch or MindSpore, any dtype numpy or ml_dtypes has; nested to any depth, where each
        index or key joins the name (``dense.x1.0``). None is passed over. Sparse tensors are
        written dense.
    suffix : object, optional
        Joined to the name with ``_`` where it is true.
    output_mode : {"npy", "print"}
        ``print`` writes name and values to standard output instead, for
        ``open_dump(text_file)``. Compiled code of MindSpore shortens more than 1,000 values there.
    rank : int, optional
        Files go to the sub-folder ``rank<k>``; default the rank of this process where there are
        several, else no sub-folder.
    numbering : Numbering, optional
        Who counts; default in each folder from 0.
    widen : bool
        Store bfloat16 and float8 as float32, which ``numpy.load`` understands without this
        package. Otherwise their bits are stored, and the dtype in the name says what they are;
        names without dtype (option ``npy_names``) always widen.
    as_shown : bool
        Print what ``print(tensor)`` shows, behind the name on one line: not all digits, and
        of many values only the first and last. `open_dump` reads that too. A Parameter prints its
        values, and what is empty its shape. Compiled code prints its own form all the same.

    Raises
    ------
    TypeError
        For an item that is none of these, or has no values (a meta tensor); the message names its
        place. Nothing is written then.
    ValueError
        For a `file` or key that is no name of a file in the folder, or an unknown `output_mode`.
    NotImplementedError
        In compiled code of MindSpore on other devices than CPU, or for a shape that is not known
        before it runs; both can print. In ``jit(capture_mode="trace")``.
    OSError
        If a file cannot be written.

    Warns
    -----
    TroubleshooterWarning
        When the count starts in a folder that holds arrays.

    Notes
    -----
    Source: runs of TroubleShooter. Different from TroubleShooter: everything is checked before
    the first file is written, arrays and numbers are taken too, files appear whole and with normal
    modes, and the count is per folder.

    In ``grad(jit(forward))``, MindSpore 2.10 runs a forward function that loops or branches on
    values twice in each step, so its values are saved twice.
    """
    destination = _Destination(file, suffix, output_mode, rank, numbering, widen)
    for item in list(_items(destination, "", data)):
        if as_shown and destination.as_text:
            sys.stdout.write(shown_text(destination.stem(item.keys), _shown(item), item.array))
        else:
            number = destination.number(item.framework, item.keys)
            destination.keep(item.keys, number, item.array)


@compiled_as(_compiled_save_grad)
def save_grad(
    file: str | PathLike[str],
    x: Any,
    suffix: object = "backward",
    *,
    output_mode: OutputMode = "npy",
    rank: int | None = None,
    numbering: Numbering | None = None,
    widen: bool = False,
    as_shown: bool = False,
) -> Any:
    """Return a tensor as it is, and write its gradient when that arrives.

    ``y = save_grad("out/dense", y)``: use the result from there on. In compiled code of MindSpore
    only what flows through the result has a gradient; elsewhere the gradient is the whole one.

    Parameters
    ----------
    file, suffix, output_mode, rank, numbering, widen, as_shown
        As in `save`. The number is taken by this call, not when the gradient arrives. If a further
        backward pass brings another gradient of the same tensor, it gets a number of its own.
    x : tensor
        Of torch or MindSpore.

    Returns
    -------
    tensor
        `x` itself, in compiled code an identity of it. If no gradient arrives, there is no file.

    Raises
    ------
    TypeError
        For anything but one tensor.
    RuntimeError
        If no gradient can come: a torch tensor that does not require one (except where gradients
        are switched off), integers in MindSpore.
    ValueError, NotImplementedError, OSError
        As in `save`; if the gradient cannot be written, the backward pass raises.

    Notes
    -----
    Source: runs of TroubleShooter. Different from TroubleShooter: MindSpore's eager mode
    reports the whole gradient like torch, not only the part through the result.
    """
    destination = _Destination(file, suffix, output_mode, rank, numbering, widen)
    adapter = adapter_of(x)
    if adapter is None:
        name, kind = destination.stem(""), type(x).__name__
        raise ArgumentTypeError(Message("capture.no_tensor", name=name, type=kind))
    framework = adapter.NAME
    waiting: list[int] = []

    def receive(gradient: np.ndarray) -> None:
        if as_shown and destination.as_text:
            shown = adapter.shown(gradient)
            sys.stdout.write(shown_text(destination.stem(""), shown, gradient))
            return
        number = waiting.pop() if waiting else destination.number(framework)
        destination.keep("", number, gradient)

    adapter.watch_gradient(x, receive)
    waiting.append(destination.number(framework))
    return x


def _shown(item: _Item) -> str:
    """What ``print`` shows of an item; of a Parameter of MindSpore, what it does of its tensor."""
    shown = str(item.value)
    adapter = adapter_of(item.value)
    return shown if adapter is None or shows_values(shown) else adapter.shown(item.array)


class _Destination:
    """Where the tensors of one call go, and what they are called there."""

    def __init__(
        self,
        file: str | PathLike[str],
        suffix: object,
        output_mode: str,
        rank: int | None,
        numbering: Numbering | None,
        widen: bool,
    ) -> None:
        if output_mode not in ("npy", "print"):
            raise ArgumentError(Message("capture.output_mode", given=repr(output_mode)))
        folder, name = os.path.split(_text_of(file))
        rank = _rank() if rank is None else rank
        self.folder = Path(folder) if rank is None else Path(folder, f"rank{rank}")
        self.name = safe_name(name.removesuffix(".npy"))
        self.ending = f"_{suffix}" if suffix else ""
        self.as_text = output_mode == "print"
        naming = get_options()["npy_names"]
        self.has_dtype = naming == "current"
        self.per_call = naming == "1.0.15"
        self.joint = "_" if self.per_call else "."
        self._numbers: dict[str, tuple[int, set[str]]] = {}
        self.widen = widen or not self.has_dtype
        self.numbering = DEFAULT if numbering is None else numbering
        safe_name(self.stem(""))  # the suffix too

    def stem(self, keys: str) -> str:
        """Name of a tensor without its number; `keys` is its place, such as ``.x1.0``."""
        return f"{self.name}{keys}{self.ending}"

    def number(self, framework: str, keys: str = "") -> int:
        """The next number, or the one of this call; 0 for prints, which have none."""
        if self.as_text:
            return 0
        number, seen = self._numbers.get(framework, (0, {keys}))
        # A place that had its tensor already belongs to a call more, in a graph that runs again.
        if not self.per_call or keys in seen:
            number, seen = self.numbering.take(self.folder, framework), set()
        self._numbers[framework] = number, seen | {keys}
        return number

    def keep(self, keys: str, number: int, array: np.ndarray) -> None:
        """Write or print one array."""
        stem = self.stem(keys)
        if self.as_text:
            sys.stdout.write(tensor_text(stem, array))
            return
        token = array.dtype.name if self.has_dtype else None
        if self.widen and array.dtype.isbuiltin != 1:
            array = computable(array)
        file = self.folder / f"{format_npy_name(NpyName(stem, number, token))}.npy"
        file.parent.mkdir(parents=True, exist_ok=True)
        write_npy(file, array)


class _Compiled:
    """A call of `save` or `save_grad` met by MindSpore's compiler.

    Made by Python while the graph is built; what its methods do then becomes part of the graph.
    """

    __ms_class__ = True  # what `mindspore.jit_class` sets

    def __init__(self, *call: Any) -> None:
        # The compiler's own text of an object, which would name a folder nobody looks into.
        if "PythonObject(type:" in str(call[0]):
            raise ArgumentError(Message("capture.file_in_compiled", given=repr(call[0])))
        adapter = require("mindspore")
        sink = _Sink(_Destination(*call), adapter.NAME)
        as_text = sink.destination.as_text
        self.save = adapter.compiled_save(sink, as_text=as_text)
        self.save_grad = adapter.compiled_save_grad(sink, as_text=as_text)


class _Sink:
    """A destination as an adapter's compiled code sees it."""

    def __init__(self, destination: _Destination, framework: str) -> None:
        self.destination, self.framework = destination, framework
        self.joint = destination.joint

    def stem(self, keys: str) -> str:
        return safe_name(self.destination.stem(keys))

    def reserve(self, keys: str) -> int:
        return self.destination.number(self.framework, keys)

    def receive(self, number: int, keys: str, array: np.ndarray) -> None:
        self.destination.keep(keys, number, array)


def _text_of(file: str | PathLike[str]) -> str:
    text = os.fspath(file) if isinstance(file, (str, os.PathLike)) else None
    if not isinstance(text, str):
        raise ArgumentTypeError(Message("capture.file_type", given=repr(file)))
    if not text or text.endswith((os.sep, os.altsep or os.sep)):
        raise ArgumentError(Message("capture.file_without_name", given=text))
    return text


class _Item(NamedTuple):
    """One tensor of a nested value, and where in it it was."""

    keys: str
    framework: str
    array: np.ndarray
    value: Any


def _items(destination: _Destination, keys: str, value: Any) -> Iterator[_Item]:
    """Every tensor in a nested value."""
    if value is None:
        return
    # At each level: the name of what contains itself becomes too long.
    stem = safe_name(destination.stem(keys))
    if isinstance(value, Mapping):
        for key, child in value.items():
            yield from _items(destination, f"{keys}{destination.joint}{key}", child)
    elif isinstance(value, list | tuple):
        for index, child in enumerate(value):
            yield from _items(destination, f"{keys}{destination.joint}{index}", child)
    else:
        adapter = adapter_of(value)
        framework = "" if adapter is None else adapter.NAME
        yield _Item(keys, framework, _array(stem, value), value)


def _array(stem: str, value: Any) -> np.ndarray:
    adapter = adapter_of(value)
    if adapter is None:
        if not isinstance(value, np.ndarray | np.generic | int | float | complex):
            kind = type(value).__name__
            raise ArgumentTypeError(Message("capture.no_value", name=stem, type=kind))
        array = np.asarray(value)
    else:
        try:
            array = adapter.to_numpy(value)
        except NotImplementedError:
            raise
        except (ValueError, TypeError, RuntimeError) as error:
            problem = Message("dumps.of_value", name=stem, problem=error)
            raise ArgumentTypeError(problem) from error
    if arithmetic_of(array.dtype) == "unsupported":
        raise ArgumentTypeError(Message("dumps.dtype_not_saved", name=stem, dtype=array.dtype))
    return array


def _rank() -> int | None:
    """Rank of this process in a run of several, as the frameworks or the launcher say."""
    for adapter in loaded().values():
        rank, size = adapter.rank_and_size()
        if size > 1:
            return rank
    for rank_name, size_name in (("RANK", "WORLD_SIZE"), ("RANK_ID", "RANK_SIZE")):
        texts = os.environ.get(rank_name, ""), os.environ.get(size_name, "")
        if all(text.isdecimal() for text in texts) and int(texts[1]) > 1:
            return int(texts[0])
    return None
