"""Entry names of ``torch_npu.hooks`` and of its successor ``ptdbg_ascend``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from troubleshooter_nb.naming.site import Direction, Role, Site

CATEGORIES = (*("Tensor", "Torch", "Functional", "Module", "VF", "NPU", "Aten", "Distributed"),)
# [0-9], not \d, which takes the digits of every script; 18 digits fit an int64.
_TAIL = (
    r"(?:_(?P<call>[0-9]{1,18}))?_(?P<direction>forward|backward|pre_forward)"
    r"_(?P<io>input|output|stack_info)(?P<position>(?:\.[0-9]{1,9})*)"
)
_NAME = re.compile(
    rf"(?s)(?:(?P<number>[0-9]{{1,18}})_)?(?P<category>{'|'.join(CATEGORIES)})_(?P<op>.+?){_TAIL}"
)
# module_dump() of the successor takes any prefix.
_FREE_NAME = re.compile(rf"(?s)(?:(?P<number>[0-9]{{1,18}})_)?(?P<op>.+?){_TAIL}")
_ASYNC_NAME = re.compile(
    r"(?s)(?P<label>[0-9]{1,18}_.+_(?:forward|backward)_(?:input|output))(?P<position>[0-9]{0,9})"
    r"_shape\[(?P<shape>[0-9,]*)\]_stride\[(?P<stride>[0-9,]*)\]"
    r"_offset\[(?P<offset>[0-9]{1,18})\]_format\[(?P<format>-?[0-9]{1,9})\]"
)
_IN_PLACE_METHODS = {
    f"__i{name}__"
    for name in (
        *("add", "sub", "mul", "div", "truediv", "floordiv", "mod", "pow"),
        *("and", "or", "xor", "lshift", "rshift", "matmul"),
    )
}


# How many values of a tensor an entry is about: its first ones, or rows drawn at random.
_SAMPLE = re.compile(r"(?s)(?P<slot>.*)#(?P<word>first|rows)")

RECORDED_SAMPLE = ".sample"  # ends the slot and the name of a sample that `record` has kept
_SAMPLE_NAME = re.compile(r"(?s)(?P<name>.+)#[0-9]+_of_[0-9]+")


@dataclass(frozen=True)
class HookName:
    """The parts of an entry's name, as the tool spells them.

    `number` counts the lines of the file (old tool), `call` the calls of the op (successor); both
    are None where absent. `category` is empty for a name with a prefix of the user's own.
    `direction` is ``forward``, ``backward`` or ``pre_forward``; `io` is ``input``, ``output`` or
    ``stack_info``.
    """

    op: str
    direction: str
    io: str
    category: str = ""
    number: int | None = None
    call: int | None = None
    position: tuple[int, ...] = ()

    @property
    def api(self) -> str:
        """Category and op with a dot between, such as ``Functional.relu``."""
        return f"{self.category}.{self.op}" if self.category else self.op


@dataclass(frozen=True)
class AsyncName:
    """What the file name of an asynchronous dump says: the name, and the view of the storage."""

    name: HookName
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    format: int


def parse_hook_name(name: str) -> HookName | None:
    """Split ``16_Functional_relu_backward_input.0`` and its like; None for any other name.

    Notes
    -----
    Source: files of torch_npu.hooks. Names of the known categories come first; any other prefix
    is taken as it is.
    """
    match = _NAME.fullmatch(name) or _FREE_NAME.fullmatch(name)
    if match is None:
        return None
    parts = match.groupdict()
    return HookName(
        parts["op"],
        parts["direction"],
        parts["io"],
        category=parts.get("category") or "",
        number=None if parts["number"] is None else int(parts["number"]),
        call=None if parts["call"] is None else int(parts["call"]),
        position=tuple(int(place) for place in parts["position"].split(".")[1:]),
    )


def format_hook_name(parts: HookName) -> str:
    """The name these parts are spelled as; the inverse of `parse_hook_name`."""
    number = "" if parts.number is None else f"{parts.number}_"
    category = f"{parts.category}_" if parts.category else ""
    call = "" if parts.call is None else f"_{parts.call}"
    position = "".join(f".{place}" for place in parts.position)
    return f"{number}{category}{parts.op}{call}_{parts.direction}_{parts.io}{position}"


def parse_async_name(name: str) -> AsyncName | None:
    """Split the file name, without ``.npy``, of an asynchronous dump; None for any other name.

    ``16_Functional_relu_backward_input0_shape[2,1]_stride[1,1]_offset[0]_format[2]``: there is no
    dot in front of the position.
    """
    match = _ASYNC_NAME.fullmatch(name)
    if match is None:
        return None
    label = match["label"] + (f".{int(match['position'])}" if match["position"] else "")
    hook = parse_hook_name(label)
    lists = [match[part].split(",") if match[part] else [] for part in ("shape", "stride")]
    if hook is None or any(not 0 < len(item) < 19 for items in lists for item in items):
        return None
    shape, stride = (tuple(map(int, items)) for items in lists)
    return AsyncName(hook, shape, stride, int(match["offset"]), int(match["format"]))


def is_in_place(op: str) -> bool:
    """Whether an op of this name changes its first argument: ``relu_``, ``__iadd__``."""
    return op in _IN_PLACE_METHODS or (op.endswith("_") and not op.endswith("__"))


def site_of_hook(parts: HookName, call: int, *, arriving_is_output: bool) -> Site:
    """Where in the run this entry was seen.

    Parameters
    ----------
    parts : HookName
    call : int
        Visit of the op, from 0.
    arriving_is_output : bool
        What ``backward_output`` means. True for the old tool and the prototype of its successor:
        the gradient that arrives at the op. The releases of the successor, and msprobe, call that
        one ``backward_input``; so does the role of a `Site`, for both tools.

    Returns
    -------
    Site
        In the direction backward the role ``input`` is the gradient of the op's output, which
        arrives, and ``output`` the gradient that leaves.
    """
    backward = parts.direction == "backward"
    direction: Direction = "backward" if backward else "forward"
    io = parts.io
    if backward and arriving_is_output:
        io = {"input": "output", "output": "input"}.get(io, io)
    roles: dict[str, Role] = {"input": "input", "output": "output"}
    return Site(
        "api" if parts.category not in ("Module", "") else "module",
        parts.api,
        call,
        direction,
        roles.get(io, ""),
        ".".join(map(str, parts.position)),
    )


def sample_slot(slot: str, word: str) -> str:
    """The slot of what is kept of the tensor in this slot; `word` is ``first`` or ``rows``."""
    return f"{slot}#{word}"


def sampled_slot(slot: str) -> tuple[str, str]:
    """Slot of the tensor that the entry in this slot is a sample of, and which kind of sample.

    The slot itself and an empty word for an entry that is no sample.
    """
    match = _SAMPLE.fullmatch(slot)
    return (match["slot"], match["word"]) if match else (slot, "")


def is_sample(slot: str) -> bool:
    """Whether the entry in a slot holds some values of a tensor alone, of hooks or of `record`."""
    return slot.endswith(RECORDED_SAMPLE) or bool(sampled_slot(slot)[1])


def sample_name(name: str, kept: int, size: int) -> str:
    """What the entry with `kept` of the `size` values of a tensor is called."""
    return f"{name}#{kept}_of_{size}"


def sampled_name(name: str) -> str:
    """Name of the tensor that an entry of this name is a sample of; empty for other names."""
    match = _SAMPLE_NAME.fullmatch(name)
    return match["name"] if match else ""


def calls_of(sequence: Sequence[HookName]) -> tuple[list[int], list[str]]:
    """The visit each name of one step belongs to, and the ops whose backward visits are unsure.

    Parameters
    ----------
    sequence : sequence of HookName
        In the order of writing. Names with a call number keep it.

    Returns
    -------
    calls : list of int
        Visits of each op, from 0, in the order of its forward calls. The lines of one call
        follow one another, inputs before outputs, in rising positions.
    unsure : list of str
        Ops with another number of backward than of forward calls. Where they are equal the first
        backward call belongs to the last forward call, because backward runs in reverse.
    """
    visits: Counter[tuple[str, str]] = Counter()
    calls: list[int] = []
    before: tuple[str, str] | None = None
    last: tuple[int, tuple[int, ...]] = (0, ())
    for name in sequence:
        key = name.api, "backward" if name.direction == "backward" else "forward"
        place = int(name.io != "input"), name.position
        visits[key] += key != before or place <= last
        before, last = key, place
        calls.append(visits[key] - 1)
    unsure: dict[str, None] = {}
    for index, name in enumerate(sequence):
        if name.call is not None:
            calls[index] = name.call
        elif name.direction == "backward":
            forward, backward = visits[name.api, "forward"], visits[name.api, "backward"]
            if forward == backward:
                calls[index] = backward - 1 - calls[index]
            elif forward:
                unsure[name.api] = None
    return calls, list(unsure)


def steps_of(sequence: Sequence[HookName]) -> tuple[list[int], int | None]:
    """The step each name of a file belongs to, from 0, and the lines per step.

    Nothing in a file marks a step. Several steps are seen where the names without numbers repeat
    from the first to the last line, and each repeat goes from backward back to forward; the last
    may be cut short.

    Returns
    -------
    steps : list of int
        All 0 where no steps are seen.
    period : int or None
        Lines per step; None where no steps are seen.

    Notes
    -----
    The shortest period comes from the longest proper border of the sequence (Knuth, Morris,
    Pratt), in linear time.
    """
    names = [(n.api, n.direction, n.io, n.position) for n in sequence]
    border = [0] * len(names)
    length = 0
    for index in range(1, len(names)):
        while length and names[index] != names[length]:
            length = border[length - 1]
        length += names[index] == names[length]
        border[index] = length
    # The border of a border is one too: periods from the shortest on.
    while length:
        period = len(names) - length
        if sequence[period - 1].direction == "backward" and sequence[0].direction != "backward":
            return [index // period for index in range(len(names))], period
        length = border[length - 1]
    return [0] * len(names), None
