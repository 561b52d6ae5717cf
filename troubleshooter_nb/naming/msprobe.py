"""Names of calls and of their tensors in msprobe's dumps, as sites."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, cast

from troubleshooter_nb.naming.site import Direction, Role, Site

Event = Literal["forward", "backward", "parameters_grad", "debug"]

_MODULES = ("Module", "Cell")
_PRIMITIVE = "Primitive"
_GRADIENT_OF_SAVED = "_grad"
# 18 digits fit an int64; without leading zeros, so that formatting gives the same name again.
_NUMBER = r"(?:0|[1-9][0-9]{0,17})"
# The number stands before the direction for operators and behind it for modules.
_FORMS = tuple(
    re.compile(rf"(?s){form}")
    for form in (
        rf"(?P<prefix>(?!{_PRIMITIVE}\.)[^.]+)\.(?:(?P<path>.+)\.)?(?P<layer>[^.]+)"
        rf"\.(?P<event>forward|backward)\.(?P<call>{_NUMBER})",
        rf"(?P<prefix>{_PRIMITIVE})\.(?P<path>.+)\.(?P<layer>[^.]+)"
        rf"\.(?P<call>{_NUMBER})\.(?P<event>forward|backward)",
        rf"(?P<prefix>[^.]+)\.(?P<path>.+)\.(?P<call>{_NUMBER})\.(?P<event>forward|backward)",
        rf"(?P<prefix>[^.]+)\.(?:(?P<path>.+)\.)?(?P<layer>[^.]+)"
        rf"\.(?P<event>parameters_grad)(?:\.(?P<call>{_NUMBER}))?",
        rf"(?P<path>.+)\.(?P<call>{_NUMBER})\.(?P<event>debug)",
    )
)
# What a file name says, up to the first part that can only be a section.
_ROWS = tuple(
    re.compile(rf"(?s){form}")
    for form in (
        rf"(?P<entry>.+?\.(?:forward|backward)\.{_NUMBER})"
        r"\.(?P<section>input|output|kwargs|parameters)\.(?P<slot>.+)",
        rf"(?P<entry>.+?\.{_NUMBER}\.(?:forward|backward))"
        r"\.(?P<section>input|output|kwargs)\.(?P<slot>.+)",
        rf"(?P<entry>.+?\.parameters_grad(?:\.{_NUMBER})?)\.(?P<section>)(?P<slot>.+)",
        rf"(?P<entry>.+?\.{_NUMBER}\.debug)(?P<section>)(?:\.(?P<slot>.+))?",
    )
)
_ROLES: dict[str, Role] = {
    **{"input": "input", "kwargs": "input", "output": "output", "parameters": "parameter"},
}
_BARE_NUMBER = re.compile(r"(?P<model>[0-9]{1,9})(?P<rest>\..+)?")


@dataclass(frozen=True)
class MsprobeCall:
    """The parts of an entry's name.

    Attributes
    ----------
    prefix : str
        ``Module``, ``Cell``, ``Functional``, ...; empty for a save point.
    path : str
        Path of the module, with the number of the model where several were dumped; name of the
        operator or save point.
    layer : str
        Class of the module or primitive; empty where the name has none.
    event : {"forward", "backward", "parameters_grad", "debug"}
    call : int or None
        Visits from 0; None for parameter gradients of the releases that do not count them.
    """

    prefix: str
    path: str
    layer: str
    event: Event
    call: int | None = 0

    @property
    def is_module(self) -> bool:
        """Whether it is a module or cell, not an operator or save point."""
        return self.prefix in _MODULES

    @property
    def layer_name(self) -> str:
        """Class of the module or primitive, or what the operator is called."""
        return self.layer or ("" if self.event == "debug" else self.path)


class RowName(NamedTuple):
    """The parts of the name of one tensor: its entry, the section of it and the slot therein."""

    entry: str
    section: str
    slot: str


def parse_msprobe_call(name: str) -> MsprobeCall | None:
    """The parts of an entry's name, or None where it has none of the known forms.

    ``Functional.linear.0.forward``, ``Primitive.matmul.MatMul.0.forward``,
    ``Module.layers.0.ln1.LayerNorm.forward.0``, ``Module.fc1.Linear.parameters_grad.0`` (and
    without the number), ``h_grad.1.debug``. The inverse of `format_msprobe_call`.

    Notes
    -----
    Source: files of msprobe.
    """
    for form in _FORMS:
        if match := form.fullmatch(name):
            parts = match.groupdict()
            number = parts["call"]
            return MsprobeCall(
                parts.get("prefix") or "",
                parts["path"] or "",
                parts.get("layer") or "",
                cast(Event, parts["event"]),
                None if number is None else int(number),
            )
    return None


def format_msprobe_call(call: MsprobeCall) -> str:
    """The name msprobe gives the entry; the inverse of `parse_msprobe_call`."""
    number = "" if call.call is None else str(call.call)
    parts: tuple[str, ...]
    if call.event == "debug":
        parts = (call.path, number, "debug")
    elif call.event == "parameters_grad":
        parts = (call.prefix, call.path, call.layer, call.event, number)
    elif call.prefix == _PRIMITIVE or not call.layer:
        parts = (call.prefix, call.path, call.layer, number, call.event)
    else:
        parts = (call.prefix, call.path, call.layer, call.event, number)
    return ".".join(part for part in parts if part)


def forward_of(call: MsprobeCall) -> MsprobeCall:
    """The forward call that a backward or a parameter gradient belongs to."""
    return replace(call, event="forward", call=call.call or 0)


def format_row_name(row: RowName) -> str:
    """The name of a tensor, which is that of its file without suffix."""
    return ".".join(part for part in row if part)


def parse_row_name(name: str) -> RowName | None:
    """The parts of a tensor's name, or of its file's without suffix; None for other names.

    The inverse of `format_row_name` for every row whose entry has a known form.
    """
    for form in _ROWS:
        if match := form.fullmatch(name):
            return RowName(match["entry"], match["section"], match["slot"] or "")
    return None


def site_of_msprobe(call: MsprobeCall, section: str, slot: str) -> Site:
    """Where in the run a tensor of this call was seen.

    In a backward entry ``input`` holds the gradients of the outputs and ``output`` those of the
    inputs: the role is the dump's word, the direction says what it means. A parameter gradient is
    role ``parameter``, direction ``backward``, call 0 in every release. ``h_grad`` is the
    gradient of the save point ``h``.
    """
    number = call.call or 0
    if call.event == "debug":
        path = call.path.removesuffix(_GRADIENT_OF_SAVED)
        if path and path != call.path:
            return Site("debug", path, number, "backward", "gradient", slot)
        return Site("debug", call.path, number, slot=slot)
    kind, path = "module", call.path
    if not call.is_module:
        kind, path = "api", ".".join(part for part in (call.prefix, call.path) if part)
    if call.event == "parameters_grad":
        return Site(kind, path, number, "backward", "parameter", slot)
    direction: Direction = call.event
    return Site(kind, path, number, direction, _ROLES.get(section, ""), slot)


def model_numbers(paths: Iterable[str]) -> list[int]:
    """Numbers of the models, where all paths of modules begin with one; else nothing.

    A network that is a ``Sequential`` also has numbers in front, but there a number alone is the
    path of a module. The models of a list are themselves not dumped, so that none of theirs is.
    """
    found = set()
    for path in paths:
        match = _BARE_NUMBER.fullmatch(path)
        if not match or not match["rest"]:
            return []
        found.add(int(match["model"]))
    return sorted(found)


def without_model(site: Site) -> Site:
    """The site without the number of the model that its path begins with."""
    return replace(site, path=site.path.partition(".")[2]) if site.kind == "module" else site


def is_process_group(type_name: str) -> bool:
    """Whether an argument that is no tensor is torch's group of processes.

    It is recorded as its ranks, where MindSpore has a group's name.
    """
    return type_name.rpartition(".")[2].rstrip("'>") == "ProcessGroup"
