"""Reads a pickle into inert records: nothing the file names is ever imported or called.

The opcodes are cut out by the standard library's `pickletools`, which runs nothing either. What
they would have done to classes and functions of the file is kept as data.
"""

from __future__ import annotations

import io
import pickletools
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NoReturn

from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.limits import beyond, is_beyond, most
from troubleshooter_nb.formats.parse_errors import in_brief
from troubleshooter_nb.messages import Message

_LONGEST_LINE = 1 << 20  # bytes
_SMALL = 1 << 16  # bytes; reading so few may ask for more than there is
_MOST_PROTOCOL = 5
_BLANK = object()


# Records compare by identity and have no text of their own: a hostile file may nest them deeper
# than Python can compare or print.
@dataclass(eq=False, repr=False, slots=True)
class Global:
    """A class or function that the file names."""

    module: str
    name: str

    @property
    def path(self) -> str:
        """Dotted, as it would be imported."""
        return f"{self.module}.{self.name}"


@dataclass(eq=False, repr=False, slots=True)
class Persistent:
    """Something kept outside the pickle, such as the storage of a tensor."""

    pid: Any


@dataclass(eq=False, repr=False, slots=True)
class PickledDict:
    """A dict: its pairs in the order of the file, whatever the keys are."""

    pairs: list[tuple[Any, Any]] = field(default_factory=list)

    def get(self, name: str) -> Any:
        """The last value under this text; None where there is none."""
        for key, value in reversed(self.pairs):
            if type(key) is str and key == name:
                return value
        return None

    def texts(self) -> dict[str, Any]:
        """The pairs whose key is a text; of equal keys the last one."""
        return {key: value for key, value in self.pairs if type(key) is str}


@dataclass(eq=False, repr=False, slots=True)
class MadeBy:
    """An object the file wants made: by which callable, from what, with which state."""

    callable: Any
    args: tuple[Any, ...]
    state: Any = None
    pairs: list[tuple[Any, Any]] = field(default_factory=list)
    appended: list[Any] = field(default_factory=list)

    @property
    def path(self) -> str:
        """Dotted name of the callable; empty where it is none of the file's globals."""
        made_by = self.callable
        if isinstance(made_by, Persistent) and isinstance(made_by.pid, tuple):
            # Old torch kept a class with its source: ("module", class, file, text).
            made_by = next((part for part in made_by.pid if isinstance(part, Global)), None)
        return made_by.path if isinstance(made_by, Global) else ""


@dataclass(eq=False, repr=False, slots=True)
class Unpickled:
    """What one pickle holds."""

    root: Any
    globals: list[str]  # distinct, in the order of the file
    persistents: list[Persistent]
    stop: int  # position behind it in the stream


class _Window:
    """A part of a file for `pickletools`, which asks for as many bytes as the file claims."""

    def __init__(self, file: BinaryIO, stop: int) -> None:
        self._file, self._stop = file, stop
        self.tell = file.tell

    def read(self, count: int) -> bytes:
        """At most `count` bytes; a BufferedReader would allocate them all beforehand."""
        if count > _SMALL:
            count = min(count, max(self._stop - self.tell(), 0))
        return self._file.read(count)

    def readline(self) -> bytes:
        """A line, cut where it is longer than any in a sound pickle."""
        return self._file.readline(_LONGEST_LINE)


def unpickled(content: bytes) -> Unpickled:
    """What a pickle in memory holds; raises as `unpickled_at` does."""
    _check_size(len(content))
    return _Machine().run(io.BytesIO(content))


def unpickled_at(file: BinaryIO, stop: int) -> Unpickled:
    """What the pickle holds that begins at the position of a file.

    Parameters
    ----------
    file : binary stream
        Afterwards it stands behind the pickle.
    stop : int
        The pickle ends before this position.

    Raises
    ------
    FormatError
        If it is damaged, too large, or of a kind that cannot be read without running it; the
        message names the byte.
    """
    window: Any = _Window(file, min(stop, file.tell() + most("pickle")))
    found = _Machine().run(window)
    if found.stop > stop:
        raise FormatError(Message("pth.pickle_truncated", stop=stop))
    return found


def _check_size(size: int) -> None:
    if size > most("pickle"):
        said = Message("pth.pickle_size", size=size)
        raise FormatError(beyond("pickle", said, size))


class _Machine:
    """The stack, the marks on it and the memo, and what each opcode does to them."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []  # the stacks under each mark
        self.memo: dict[int, Any] = {}
        self.globals: dict[str, None] = {}
        self.persistents: list[Persistent] = []
        self.most_open = most("pickle_open")

    def run(self, stream: Any) -> Unpickled:
        # Damaged texts of protocol 0 may have escapes that Python warns about.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self._run(stream)

    def _run(self, stream: Any) -> Unpickled:
        start = position = stream.tell()
        read, tell, steps = stream.read, stream.tell, _STEPS
        try:
            for _ in range(most("pickle_operations")):
                position = tell()
                code = read(1)
                step, reader = steps.get(code) or _unknown(code)
                if step is None:
                    break
                step(self, reader(stream) if reader else None)
            else:
                said = Message("pth.operations", most=most("pickle_operations"))
                raise FormatError(beyond("pickle_operations", said))
            root = self.stack.pop()
        except (IndexError, ValueError) as error:
            if is_beyond(error):
                raise
            # Bytes that are no text and digits that are no number are quoted at full length.
            what = in_brief(error, 120)
            if isinstance(error, IndexError):
                what = Message("pth.takes_more")
            elif stream.tell() == start:
                what = Message("pth.pickle_empty")
            raise FormatError(Message("pth.pickle_damaged", place=position, what=what)) from None
        return Unpickled(root, list(self.globals), self.persistents, stream.tell())

    def push(self, arg: Any) -> None:
        self.stack.append(arg)

    def proto(self, arg: int) -> None:
        if arg > _MOST_PROTOCOL:
            raise FormatError(Message("pth.pickle_protocol", number=arg, most=_MOST_PROTOCOL))

    def nothing(self, arg: Any) -> None:
        pass

    def refuse(self, arg: Any) -> None:
        raise FormatError(Message("pth.outside_file"))

    def mark(self, arg: Any) -> None:
        if len(self.below) > self.most_open:
            self.refuse_open()
        self.below.append(self.stack)
        self.stack = []

    def refuse_open(self) -> None:
        """What nests puts down one value for each level before it takes any up."""
        said = Message("pth.many_open", most=self.most_open)
        raise FormatError(beyond("pickle_open", said))

    def taken(self) -> list[Any]:
        """The values above the last mark, which goes away with them."""
        values, self.stack = self.stack, self.below.pop()
        return values

    def pop(self, arg: Any) -> None:
        if self.stack:
            self.stack.pop()
        else:
            self.taken()

    def pop_mark(self, arg: Any) -> None:
        self.taken()

    def dup(self, arg: Any) -> None:
        self.stack.append(self.stack[-1])

    def get(self, arg: int) -> None:
        value = self.memo.get(arg, _BLANK)
        if value is _BLANK:
            raise FormatError(Message("pth.never_kept", number=arg))
        self.stack.append(value)

    def put(self, arg: int) -> None:
        self.memo[arg] = self.stack[-1]

    def memoize(self, arg: Any) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def global_(self, arg: str) -> None:
        module, _, name = arg.partition(" ")
        self.named(module, name)

    def stack_global(self, arg: Any) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        if type(name) is not str or type(module) is not str:
            raise FormatError(Message("pth.global_no_text"))
        self.named(module, name)

    def named(self, module: str, name: str) -> None:
        made = Global(module, name)
        self.globals[made.path] = None
        self.stack.append(made)

    def reduce(self, arg: Any) -> None:
        args = self.stack.pop()
        self.stack[-1] = _made(self.stack[-1], args)

    def newobj_ex(self, arg: Any) -> None:
        kwargs = self.stack.pop()
        self.reduce(arg)
        if isinstance(kwargs, PickledDict) and isinstance(self.stack[-1], MadeBy):
            self.stack[-1].pairs.extend(kwargs.pairs)

    def inst(self, arg: str) -> None:
        args = tuple(self.taken())
        self.global_(arg)
        self.stack[-1] = _made(self.stack[-1], args)

    def obj(self, arg: Any) -> None:
        made_by, *args = self.taken() or [None]
        self.stack.append(_made(made_by, tuple(args)))

    def build(self, arg: Any) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        if isinstance(target, MadeBy):
            target.state = state
        elif not isinstance(target, PickledDict):  # an OrderedDict's own attributes say nothing
            raise FormatError(Message("pth.no_state"))

    def set_items(self, values: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, MadeBy | PickledDict) or len(values) % 2:
            raise FormatError(Message("pth.no_dict"))
        target.pairs.extend(zip(values[::2], values[1::2], strict=True))

    def setitem(self, arg: Any) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self.set_items([key, value])

    def setitems(self, arg: Any) -> None:
        self.set_items(self.taken())

    def dict_(self, arg: Any) -> None:
        values = self.taken()
        self.stack.append(PickledDict())
        self.set_items(values)

    def extend(self, values: list[Any]) -> None:
        target = self.stack[-1]
        if isinstance(target, MadeBy):
            target = target.appended
        if not isinstance(target, list):
            raise FormatError(Message("pth.no_list"))
        target.extend(values)

    def append(self, arg: Any) -> None:
        self.extend([self.stack.pop()])

    def appends(self, arg: Any) -> None:
        self.extend(self.taken())

    def new_list(self, arg: Any) -> None:
        if len(self.stack) > self.most_open:
            self.refuse_open()
        self.stack.append([])

    def list_(self, arg: Any) -> None:
        values = self.taken()  # which replaces the stack
        self.stack.append(values)

    def tuple_(self, arg: Any) -> None:
        values = self.taken()
        self.stack.append(tuple(values))

    def tuple1(self, arg: Any) -> None:
        self.stack[-1] = (self.stack[-1],)

    def tuple2(self, arg: Any) -> None:
        last = self.stack.pop()
        self.stack[-1] = (self.stack[-1], last)

    def tuple3(self, arg: Any) -> None:
        last, middle = self.stack.pop(), self.stack.pop()
        self.stack[-1] = (self.stack[-1], middle, last)

    def persid(self, arg: str) -> None:
        self.persistents.append(Persistent(arg))
        self.stack.append(self.persistents[-1])

    def binpersid(self, arg: Any) -> None:
        self.persid(self.stack.pop())


def _made(made_by: Any, args: Any) -> Any:
    """The record of a call; containers and bytes that need no code of the file come as such."""
    if not isinstance(made_by, Global | MadeBy | Persistent) or type(args) is not tuple:
        raise FormatError(Message("pth.no_callable"))
    build = _PLAIN.get((made_by.module, made_by.name)) if isinstance(made_by, Global) else None
    made = build(args) if build else None
    return MadeBy(made_by, args) if made is None else made


def _table(args: tuple[Any, ...]) -> Any:
    """OrderedDict() and OrderedDict([[key, value], ...]), as Python 2 wrote it."""
    if not args:
        return PickledDict()
    items = args[0]
    if isinstance(items, PickledDict):
        return items
    if not isinstance(items, list):
        return None
    if any(not isinstance(pair, list | tuple) or len(pair) != 2 for pair in items):
        return None
    return PickledDict([(key, value) for key, value in items])


def _default_table(args: tuple[Any, ...]) -> Any:
    return _table(args[1:])


def _list(args: tuple[Any, ...]) -> Any:
    values = args[0] if args else []
    return list(values) if isinstance(values, list | tuple) else None


def _bytes(args: tuple[Any, ...]) -> Any:
    return b"" if not args else None


def _encoded(args: tuple[Any, ...]) -> Any:
    """Bytes as protocol 2 writes them: a text with one letter for each."""
    text = args[0] if len(args) == 2 and args[1] in ("latin1", "latin-1") else None
    try:
        return text.encode("latin-1") if type(text) is str else None
    except UnicodeEncodeError:
        return None


def _object(args: tuple[Any, ...]) -> Any:
    """copyreg._reconstructor(class, object, None), the objects of protocols 0 and 1."""
    return MadeBy(args[0], ()) if args and isinstance(args[0], Global | Persistent) else None


_PLAIN: dict[tuple[str, str], Callable[[tuple[Any, ...]], Any]] = {
    ("collections", "OrderedDict"): _table,
    ("collections", "defaultdict"): _default_table,
    ("_codecs", "encode"): _encoded,
    ("copyreg", "_reconstructor"): _object,
    ("copy_reg", "_reconstructor"): _object,
    **{
        (module, name): build
        for module in ("builtins", "__builtin__")
        for name, build in (
            *(("dict", _table), ("list", _list), ("set", _list), ("frozenset", _list)),
            *(("bytes", _bytes), ("bytearray", _bytes)),
        )
    },
}


def _constant(value: Any) -> Callable[[_Machine, Any], None]:
    def push(machine: _Machine, arg: Any) -> None:
        machine.stack.append(value)

    return push


def _new_table(machine: _Machine, arg: Any) -> None:
    if len(machine.stack) > machine.most_open:
        machine.refuse_open()
    machine.stack.append(PickledDict())


def _unknown(code: bytes) -> NoReturn:
    raise ValueError(Message("pth.unknown_operation", code=code) if code else _NO_STOP)


def _steps() -> dict[str, Callable[[_Machine, Any], None]]:
    """What each opcode of `pickletools` does, by its name; a set is kept as a list."""
    machine = _Machine
    values = (
        "INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT UNICODE SHORT_BINUNICODE "
        "BINUNICODE BINUNICODE8 STRING BINSTRING SHORT_BINSTRING BINBYTES SHORT_BINBYTES "
        "BINBYTES8 BYTEARRAY8"
    )
    return {
        **dict.fromkeys(values.split(), machine.push),
        **dict.fromkeys(["EXT1", "EXT2", "EXT4", "NEXT_BUFFER", "READONLY_BUFFER"], machine.refuse),
        **dict.fromkeys(["GET", "BINGET", "LONG_BINGET"], machine.get),
        **dict.fromkeys(["PUT", "BINPUT", "LONG_BINPUT"], machine.put),
        **dict.fromkeys(["EMPTY_LIST", "EMPTY_SET"], machine.new_list),
        **dict.fromkeys(["LIST", "FROZENSET"], machine.list_),
        **dict.fromkeys(["APPENDS", "ADDITEMS"], machine.appends),
        **dict.fromkeys(["REDUCE", "NEWOBJ"], machine.reduce),
        "FRAME": machine.nothing,
        "PROTO": machine.proto,
        "NONE": _constant(None),
        "NEWTRUE": _constant(True),
        "NEWFALSE": _constant(False),
        "EMPTY_TUPLE": _constant(()),
        "EMPTY_DICT": _new_table,
        "MARK": machine.mark,
        "POP": machine.pop,
        "POP_MARK": machine.pop_mark,
        "DUP": machine.dup,
        "MEMOIZE": machine.memoize,
        "GLOBAL": machine.global_,
        "STACK_GLOBAL": machine.stack_global,
        "NEWOBJ_EX": machine.newobj_ex,
        "INST": machine.inst,
        "OBJ": machine.obj,
        "BUILD": machine.build,
        "SETITEM": machine.setitem,
        "SETITEMS": machine.setitems,
        "DICT": machine.dict_,
        "APPEND": machine.append,
        "TUPLE": machine.tuple_,
        "TUPLE1": machine.tuple1,
        "TUPLE2": machine.tuple2,
        "TUPLE3": machine.tuple3,
        "PERSID": machine.persid,
        "BINPERSID": machine.binpersid,
    }


_NO_STOP = Message("pth.no_stop")
# By the byte of an opcode: what it does, and what reads its argument. Nothing at the end.
_STEPS: dict[bytes, tuple[Callable[[_Machine, Any], None] | None, Any]] = {
    opcode.code.encode("latin-1"): (steps.get(opcode.name), opcode.arg and opcode.arg.reader)
    for steps in [_steps()]
    for opcode in pickletools.opcodes
}
