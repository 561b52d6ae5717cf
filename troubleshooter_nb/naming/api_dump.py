"""Entry names of TroubleShooter's api dump."""

from __future__ import annotations

import re
from dataclasses import dataclass

from troubleshooter_nb.naming.site import Direction, Role, Site

# [0-9], not \d, which takes the digits of every script; 18 digits fit an int64.
_NAME = re.compile(
    r"(?s)(?P<category>NN|Functional|Tensor|Torch)_(?P<op>.+)_(?P<call>[0-9]{1,18})"
    r"_(?P<direction>forward|backward)_(?P<io>input|output)(?P<slot>(?:\.[0-9A-Za-z_]{1,80})*)"
)
_LAYER = re.compile(r"(?s)LAYER_(?P<path>.+)_(?P<direction>forward|backward)_(?:input|output)")
# What the stack file of the torch side calls a category.
_PREFIX = {
    "NN": "torch.nn",
    "Functional": "torch.nn.functional",
    "Tensor": "torch.Tensor",
    "Torch": "torch",
}


@dataclass(frozen=True)
class ApiName:
    """The parts of a record's name; the category ``LAYER`` marks the entry into a module.

    `call` counts from 0 per category and op, over all steps; it is None for a marker.
    """

    category: str
    op: str
    direction: Direction
    role: Role = ""
    call: int | None = None
    slot: str = ""

    @property
    def is_marker(self) -> bool:
        """Whether it marks the entry into a module, and holds nothing of it."""
        return self.category == "LAYER"

    @property
    def stack_keys(self) -> tuple[str, ...]:
        """What the stack file calls this call: on the torch side, and on the MindSpore side."""
        if self.is_marker:
            return (f"LAYER: {self.op} {self.direction}",)
        return (
            f"{_PREFIX[self.category]}.{self.op}({self.call}) {self.direction}",
            f"{self.category}_{self.op}_{self.call}_{self.direction}_stack_info",
        )


def parse_api_name(name: str) -> ApiName | None:
    """Split ``NN_Conv2d_0_forward_input.0`` and ``LAYER_conv_forward_input``; None for others.

    Notes
    -----
    Source: files of TroubleShooter.
    """
    direction: Direction
    if match := _LAYER.fullmatch(name):
        direction = "backward" if match["direction"] == "backward" else "forward"
        return ApiName("LAYER", match["path"], direction)
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    direction = "backward" if match["direction"] == "backward" else "forward"
    role: Role = "input" if match["io"] == "input" else "output"
    parts = match["category"], match["op"], direction, role
    return ApiName(*parts, int(match["call"]), match["slot"].lstrip("."))


def site_of_api(parts: ApiName, call: int) -> Site:
    """Where in the run this record was seen.

    ``backward_input`` is the gradient that arrives, as in msprobe. A marker has no role: what it
    holds is no tensor of the net.
    """
    kind = "module" if parts.category in ("NN", "LAYER") else "api"
    path = parts.op if parts.is_marker else f"{parts.category}.{parts.op}"
    return Site(kind, path, call, parts.direction, parts.role, parts.slot)
