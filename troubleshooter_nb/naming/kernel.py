"""File names of MindSpore's kernel dumps."""

from __future__ import annotations

import re
from dataclasses import dataclass

from troubleshooter_nb.naming.site import Direction, Role, Site

# [0-9], not \d, which takes the digits of every script; 18 digits fit an int64.
_NAME = re.compile(
    r"(?s)(?P<type>[^.]+)\.(?P<op>.+)\.(?P<task>[0-9]{1,18})\.(?P<stream>[0-9]{1,18})"
    r"\.(?P<time>[0-9]{1,18})\.(?P<io>input|output)\.(?P<slot>[0-9]{1,9})"
    r"\.(?P<format>[^.]+)(?:\.(?P<dtype>[^.]+))?"
)


@dataclass(frozen=True)
class KernelName:
    """The parts of a file name; `layout` is the format of the device, such as ``NCHW``.

    `time` is when the tensor was written, in µs.
    """

    type: str
    op: str
    io: str
    slot: int
    task: int = 0
    stream: int = 0
    time: int = 0
    layout: str = ""
    dtype: str = ""

    @property
    def stable(self) -> str:
        """The name without what differs from run to run: task, stream and time."""
        return f"{self.type}.{self.op}.{self.io}.{self.slot}"


def parse_kernel_name(name: str) -> KernelName | None:
    """Split a file name, with or without ``.npy``; None for any other name.

    ``MatMul.Default_MatMul-op0.0.0.1795815294059694.output.0.DefaultFormat.Float32.npy``

    Notes
    -----
    Source: files of msprobe. Takes the name of the file alone: folders above may have dots.
    """
    match = _NAME.fullmatch(name.removesuffix(".npy"))
    if match is None:
        return None
    slot, task, stream, time = (int(match[part]) for part in ("slot", "task", "stream", "time"))
    names = match["type"], match["op"], match["io"]
    return KernelName(*names, slot, task, stream, time, match["format"], match["dtype"] or "")


def site_of_kernel(parts: KernelName, call: int) -> Site:
    """Where in the run this tensor was seen.

    An operator whose scope is ``Gradients`` runs backward. What the dump calls a ``Parameter`` is
    a weight or an input of the graph; its role is ``parameter``.
    """
    if parts.type == "Parameter":
        return Site("kernel", parts.op, call, "", "parameter", str(parts.slot))
    backward = parts.op.startswith(("Gradients_", "Gradients/"))
    direction: Direction = "backward" if backward else "forward"
    role: Role = "input" if parts.io == "input" else "output"
    return Site("kernel", parts.op, call, direction, role, str(parts.slot))
