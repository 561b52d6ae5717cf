"""What a pickled tensor or numpy array is: a handle to its values, or why there is none."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from troubleshooter_nb.dump import ArrayInMemory, ArraySource
from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.file_source import check_shape, checked_source
from troubleshooter_nb.formats.inert_pickle import Global, MadeBy, Persistent, PickledDict
from troubleshooter_nb.formats.pth_containers import (
    STORAGE_DTYPES,
    Contents,
    key_text,
    storage_name,
)
from troubleshooter_nb.messages import Message, message_of
from troubleshooter_nb.metrics.floats import arithmetic_of, dtype_from_token
from troubleshooter_nb.naming import DTYPE_TOKENS

_MOST_WRAPPERS = 32
_MOST_AXES = 64
_CODE = re.compile(r"[biufc][0-9]{1,2}")
_ALIASES = {
    **{"float": "float32", "double": "float64", "half": "float16", "long": "int64"},
    **{"int": "int32", "short": "int16", "cfloat": "complex64", "cdouble": "complex128"},
    **{"qint8": "int8", "quint8": "uint8", "qint32": "int32"},
}
TORCH_DTYPES = (
    *("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8"),
    *("uint16", "uint32", "uint64", "bool", "complex64", "complex128", "float8_e4m3fn"),
    *("float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"),
)
# Each takes the tensor inside as its first argument.
_WRAPPERS = (
    *("torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state"),
    *("torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer"),
    *("torch.autograd.variable.Variable", "torch._utils._rebuild_xla_tensor"),
    *("torch._utils._rebuild_device_tensor_from_numpy",),
    *("torch._utils._rebuild_device_tensor_from_cpu_tensor",),
)
_SUBCLASSES = ("torch._tensor._rebuild_from_type_v2", "torch._tensor._rebuild_from_type")
_WITHOUT_DATA = "torch._utils._rebuild_wrapper_subclass"
_NOT_READ = {
    "torch._utils._rebuild_sparse_tensor": Message("pth.sparse"),
    "torch._utils._rebuild_sparse_csr_tensor": Message("pth.sparse"),
    "torch._utils._rebuild_nested_tensor": Message("pth.nested"),
    "torch._utils._rebuild_meta_tensor_no_storage": Message("pth.meta"),
    _WITHOUT_DATA: Message("pth.own_class"),
}
_RECONSTRUCT = ("numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct")
_SCALAR = ("numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar")
_FROM_BUFFER = ("numpy.core.numeric._frombuffer", "numpy._core.numeric._frombuffer")
# What a sound checkpoint asks for; anything else is named to the user.
HARMLESS = (
    *_WRAPPERS,
    *_SUBCLASSES,
    *_NOT_READ,
    *_RECONSTRUCT,
    *_SCALAR,
    *_FROM_BUFFER,
    *("collections.OrderedDict", "collections.defaultdict", "_codecs.encode", "torch.Size"),
    *("torch.device", "torch.Tensor", "numpy.ndarray", "numpy.dtype", "torch.BFloat16Tensor"),
    *("torch.serialization._get_layout", "copyreg._reconstructor", "copy_reg._reconstructor"),
    *("torch._utils._rebuild_tensor", "torch._utils._rebuild_tensor_v2"),
    *("torch._utils._rebuild_tensor_v3", "torch._utils._rebuild_qtensor"),
    *("builtins.dict", "builtins.list", "builtins.set", "builtins.object", "builtins.bytes"),
    *("__builtin__.dict", "__builtin__.set", "__builtin__.object", "builtins.bytearray"),
    *("torch.per_tensor_affine", "torch.per_channel_affine", "torch.strided"),
)


@dataclass(frozen=True)
class Ready:
    """A tensor found: `source` is None where it cannot be read, and `reason` says why.

    `said` is what a user should know about the values.
    """

    source: ArraySource | None
    reason: str = ""
    said: str = ""


class Tensors:
    """Finds the tensors among the records of one file.

    Parameters
    ----------
    path : Path
    contents : Contents
    stamp : (int, int)
        Of the file, as in `FileSource`.
    """

    def __init__(self, path: Path, contents: Contents, stamp: tuple[int, int]) -> None:
        self._path, self._contents, self._stamp = path, contents, stamp

    @property
    def size_bytes(self) -> int:
        """Bytes of the file."""
        return self._stamp[0]

    def found(self, value: Any) -> Ready | PickledDict | None:
        """A tensor; what a tensor of a class of its own is made of; None for anything else."""
        if isinstance(value, Ready):
            return value
        said = ""
        for _ in range(_MOST_WRAPPERS):
            value = self._known(value)
            if not isinstance(value, MadeBy):
                return None
            path, args = value.path, value.args
            if path in _SUBCLASSES and len(args) > 2 and isinstance(args[2], tuple):
                made_by, kind = args[0], args[1]
                state = args[3] if len(args) > 3 else None
                if isinstance(made_by, Global) and made_by.path == _WITHOUT_DATA:
                    inner = state if isinstance(state, PickledDict) else PickledDict()
                    return inner if inner.pairs else Ready(None, _NOT_READ[_WITHOUT_DATA])
                value = MadeBy(made_by, args[2])
                own = isinstance(kind, Global) and kind.path not in HARMLESS
                said = Message("pth.saved_as", name=kind.path[:80]) if own else ""
            elif path in _WRAPPERS and args:
                value = args[0]
            else:
                return self._rebuilt(path, value, said)
        return Ready(None, Message("pth.wrapped"))

    def _known(self, value: Any) -> Any:
        """The tensor that the oldest container keeps outside the object."""
        if isinstance(value, Persistent) and (key := key_text(value.pid)):
            return self._contents.tensors.get(key, value)
        return value

    def _rebuilt(self, path: str, call: MadeBy, said: str) -> Ready | None:
        if path in _NOT_READ:
            return Ready(None, _NOT_READ[path])
        rebuild = _REBUILDS.get(path)
        if rebuild is None:
            return None
        try:
            ready = rebuild(self, call)
        except FormatError as error:
            return Ready(None, message_of(error))
        return Ready(ready.source, ready.reason, ready.said or said)

    def plain(self, call: MadeBy) -> Ready:
        """_rebuild_tensor(storage, offset, size, stride), and _v2 with three more of no matter."""
        _check_count(call, 4)
        kind = _storage_kind(call.args[0])
        token = STORAGE_DTYPES.get(kind)
        if token is None:
            what = kind[:40] or Message("pth.unknown_kind")
            raise FormatError(Message("pth.kind_not_read", kind=what))
        quantised = Message("pth.quantised") if kind.startswith("Q") else ""
        return self._viewed(call.args, token, _metadata(call.args, 6), quantised)

    def typed(self, call: MadeBy) -> Ready:
        """_rebuild_tensor_v3(storage, offset, size, stride, _, _, dtype)."""
        _check_count(call, 7)
        dtype = call.args[6]
        name = dtype.name if isinstance(dtype, Global) and dtype.module == "torch" else ""
        token = _ALIASES.get(name, name)
        if token not in TORCH_DTYPES:
            named = name[:40] or Message("pth.dtype_unnamed")
            raise FormatError(Message("pth.dtype_not_read", dtype=named))
        return self._viewed(call.args, token, _metadata(call.args, 7), "")

    def _viewed(self, args: tuple[Any, ...], token: str, bits: dict[str, Any], said: str) -> Ready:
        if lazy := [bit for bit in ("conj", "neg") if bits.get(bit)]:
            raise FormatError(Message("pth.lazy_view", bit=lazy[0]))
        storage, offset = args[0], args[1]
        shape, strides = whole_numbers(args[2]), whole_numbers(args[3])
        if not is_whole(offset) or shape is None or strides is None:
            raise FormatError(Message("pth.no_whole_numbers"))
        key = storage.pid[2]
        begin, length = self._contents.storage(key_text(key))
        dtype = dtype_from_token(token)
        if self._contents.big_endian and dtype.itemsize > 1:
            if dtype.isbuiltin != 1:
                raise FormatError(Message("pth.big_endian", token=token))
            dtype = dtype.newbyteorder(">")
        # Old torch named a storage that is a part of another one: (key, offset, size).
        view = storage.pid[5] if len(storage.pid) > 5 else None
        if isinstance(view, tuple) and len(view) == 3 and is_whole(view[1]):
            offset += view[1]
        spans = ((begin, length),)
        source = checked_source(
            self._path, shape, dtype, spans, stamp=self._stamp, offset=offset, strides=strides
        )
        return Ready(source, said=said)

    def array(self, call: MadeBy) -> Ready:
        """What numpy's _reconstruct() makes: (version, shape, dtype, fortran, bytes)."""
        state = call.state
        if not isinstance(state, tuple) or len(state) != 5:
            raise FormatError(Message("pth.array_without_values"))
        return _in_memory(state[4], state[2], state[1], "F" if state[3] is True else "C")

    def scalar(self, call: MadeBy) -> Ready:
        """What numpy's scalar(dtype, bytes) makes."""
        _check_count(call, 2)
        return _in_memory(call.args[1], call.args[0], (), "C")

    def buffer(self, call: MadeBy) -> Ready:
        """What numpy's _frombuffer(bytes, dtype, shape, order) makes."""
        _check_count(call, 4)
        content, dtype, shape, order = call.args[:4]
        return _in_memory(content, dtype, shape, "F" if order == "F" else "C")


_REBUILDS: dict[str, Callable[[Tensors, MadeBy], Ready]] = {
    "torch._utils._rebuild_tensor": Tensors.plain,
    "torch._utils._rebuild_tensor_v2": Tensors.plain,
    "torch._utils._rebuild_tensor_v3": Tensors.typed,
    "torch._utils._rebuild_qtensor": Tensors.plain,
    **dict.fromkeys(_RECONSTRUCT, Tensors.array),
    **dict.fromkeys(_SCALAR, Tensors.scalar),
    **dict.fromkeys(_FROM_BUFFER, Tensors.buffer),
}


def _check_count(call: MadeBy, count: int) -> None:
    if len(call.args) < count:
        given = len(call.args)
        raise FormatError(Message("pth.arguments", given=given, path=call.path, count=count))


def _storage_kind(storage: Any) -> str:
    if isinstance(storage, MadeBy) and storage.path == "torch.storage._load_from_bytes":
        raise FormatError(Message("pth.pickle_dump"))
    pid = storage.pid if isinstance(storage, Persistent) else None
    if not isinstance(pid, tuple) or len(pid) < 5 or pid[0] != "storage":
        raise FormatError(Message("pth.no_storage"))
    return storage_name(pid[1])


def _metadata(args: tuple[Any, ...], at: int) -> dict[str, Any]:
    table = args[at] if len(args) > at else None
    return table.texts() if isinstance(table, PickledDict) else {}


def whole_numbers(value: Any) -> tuple[int, ...] | None:
    """A shape or strides: a tuple, a list, or a torch.Size of one."""
    if isinstance(value, MadeBy) and value.path == "torch.Size":
        value = value.args[0] if value.args else ()
    if not isinstance(value, tuple | list) or len(value) > _MOST_AXES:
        return None
    return tuple(value) if all(map(is_whole, value)) else None


def is_whole(value: Any) -> bool:
    """Whether this is a whole number that torch could have written."""
    return type(value) is int and abs(value) < 2**63


def _in_memory(content: Any, dtype: Any, shape: Any, order: Any) -> Ready:
    meant, lengths = _numpy_dtype(dtype), whole_numbers(shape)
    if type(content) is str:  # Python 2 kept bytes and texts alike
        content = content.encode("latin-1", "replace")
    if not isinstance(content, bytes | bytearray) or lengths is None:
        raise FormatError(Message("pth.array_of_else"))
    check_shape(lengths, meant)
    size = math.prod(lengths) * meant.itemsize
    if len(content) != size:
        raise FormatError(Message("pth.array_bytes", size=size, held=len(content)))
    values = np.frombuffer(content, meant) if size else np.empty(0, meant)
    return Ready(ArrayInMemory(values.reshape(lengths, order=order)))


def _numpy_dtype(value: Any) -> np.dtype:
    """What numpy's dtype("f4", ...) is; its state begins (version, byte order)."""
    text: Any = ""
    if isinstance(value, MadeBy) and value.path == "numpy.dtype" and value.args:
        text = value.args[0]
    elif isinstance(value, MadeBy) and value.path.startswith("numpy.dtypes."):
        text = value.path.removeprefix("numpy.dtypes.").removesuffix("DType").lower()
    if isinstance(text, Global) and text.module in ("ml_dtypes", "numpy"):
        text = text.name
    # numpy itself would take far more, such as records and its old names.
    if type(text) is not str or (text not in DTYPE_TOKENS and not _CODE.fullmatch(text)):
        text = ""
    try:
        dtype = dtype_from_token(text)
    except ValueError:
        kind = text or Message("pth.unknown_dtype")
        raise FormatError(Message("pth.array_dtype", dtype=kind)) from None
    state = value.state
    big = isinstance(state, tuple) and len(state) > 1 and state[1] == ">"
    return dtype.newbyteorder(">") if big and arithmetic_of(dtype) != "unsupported" else dtype
