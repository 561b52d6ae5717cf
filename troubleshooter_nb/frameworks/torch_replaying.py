"""torch as a replay sees it; see `frameworks.replaying.Replaying`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch

from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.frameworks import torch_, torch_seeds
from troubleshooter_nb.frameworks.replaying import Called, Conditions
from troubleshooter_nb.messages import Message

_KINDS = {"dtype": torch.dtype, "memory_format": torch.memory_format, "layout": torch.layout}
_HELD = ("_buffers", "_parameters", "_modules")


def inside(layer: torch.nn.Module) -> Sequence[Any]:
    """A module and all modules in it, each once."""
    return list(layer.modules())


def _own_values(layer: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers of a module itself that have values."""
    held = {**layer._parameters, **layer._buffers}
    is_lazy = torch.nn.parameter.is_lazy
    return {name: one for name, one in held.items() if one is not None and not is_lazy(one)}


def lead_dtype(layer: torch.nn.Module) -> str:
    """Dtype of the first floating-point tensor; "" without any."""
    lead = _lead(layer)
    return "" if lead is None else str(lead.dtype).removeprefix("torch.")


def _lead(layer: torch.nn.Module) -> torch.Tensor | None:
    held = (*layer.parameters(), *layer.buffers())
    return next((tensor for tensor in held if tensor.is_floating_point()), None)


def tensor_like(
    layer: torch.nn.Module, array: np.ndarray, strides: Sequence[int] = (), dtype: str = ""
) -> Any:
    """A tensor on the device of the module's own."""
    tensor = torch_._tensor_of(array).reshape(array.shape)
    if dtype and tensor.is_floating_point():
        tensor = tensor.to(getattr(torch, dtype))
    lead = next((one for one in (*layer.parameters(), *layer.buffers())), None)
    if lead is not None:
        tensor = tensor.to(lead.device)
    return _laid_out(tensor, strides) if strides else tensor


def _laid_out(tensor: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    """The same values in other strides; what repeats lies there once."""
    if len(strides) != tensor.dim() or any(step < 0 for step in strides):
        return tensor
    once = tensor[tuple(slice(None) if step else slice(0, 1) for step in strides)]
    places = zip(once.shape, strides, strict=True)
    if sum((length - 1) * step for length, step in places) > 4 * max(once.numel(), 1):
        return tensor  # a small part of a large memory, which nobody needs
    made = torch.empty_strided(once.shape, tuple(strides), dtype=once.dtype, device=once.device)
    return made.copy_(once).expand(tensor.shape)


def plain_value(kind: str, text: str) -> Any:
    """A dtype, device, slice, ellipsis, memory format or layout.

    Raises
    ------
    ValueError
        For any other.
    """
    if kind == "ellipsis":
        return ...
    if kind == "slice":
        found = re.fullmatch(r"slice\((None|-?\d+), (None|-?\d+), (None|-?\d+)\)", text)
        if found:
            return slice(*(None if part == "None" else int(part) for part in found.groups()))
    name = text.rpartition(".")[2].lower()
    if kind in _KINDS and isinstance(getattr(torch, name, None), _KINDS[kind]):
        return getattr(torch, name)
    if kind == "device" and re.fullmatch(r"[a-z]+(:\d+)?", text):
        return torch.device(text)
    raise ArgumentError(Message("replays.no_such_value", kind=kind, text=text))


def call(
    layer: torch.nn.Module,
    given: Callable[[], tuple[Sequence[Any], Mapping[str, Any]]],
    conditions: Conditions,
) -> Called:
    """Call a module; its tensors are other memory meanwhile, so that none of its own is written.

    Parameters stay the objects they are, whoever else holds them; buffers are replaced.
    """
    generators = torch_seeds.generators()
    asked = conditions.gradients
    with_gradients = torch.is_grad_enabled() if asked is None else asked
    with ExitStack() as undo, torch.set_grad_enabled(with_gradients):
        for facet in generators.values():
            undo.callback(facet.write, facet.read())
        for module in layer.modules():
            undo.enter_context(_restored(module))
        undo.enter_context(_lent(layer, conditions))
        undo.enter_context(_autocast(layer, conditions))
        if conditions.dtype:
            undo.callback(torch.set_default_dtype, torch.get_default_dtype())
            torch.set_default_dtype(getattr(torch, conditions.dtype))
        args, keywords = given()
        if conditions.random is not None:
            torch.set_rng_state(torch.from_numpy(np.array(conditions.random)))
        before = {name: facet.read() for name, facet in generators.items()}
        output = layer(*args, **keywords)
        drew = any(not _same(before[name], facet.read()) for name, facet in generators.items())
        return Called(output, drew)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return all(map(_same, one, other))
    return one is other or (one is not None and other is not None and torch.equal(one, other))


@contextmanager
def _restored(module: torch.nn.Module) -> Iterator[None]:
    """Have the attributes of a module as they were, whatever it or we set meanwhile."""
    attributes = dict(vars(module))
    held = {name: dict(attributes[name]) for name in _HELD}
    try:
        yield
    finally:
        now = vars(module)
        for name in now.keys() - attributes.keys():
            del now[name]
        now.update(
            {name: value for name, value in attributes.items() if now.get(name) is not value}
        )
        for name, items in held.items():
            place = attributes[name]
            if [*map(id, place.values())] != [*map(id, items.values())]:
                place.clear()
                place.update(items)


@contextmanager
def _lent(layer: torch.nn.Module, conditions: Conditions) -> Iterator[None]:
    """Have copies of parameters and buffers in their places, or the values of the conditions."""
    values, wide = conditions.values, conditions.dtype
    with ExitStack() as undo:
        done: dict[int, torch.Tensor] = {}
        for module in layer.modules():
            vars(module)["training"] = conditions.training.get(id(module), module.training)
            for name, tensor in _own_values(module).items():
                is_first = id(tensor) not in done
                if is_first:
                    own, array = tensor.detach(), values.get(id(tensor))
                    copy = torch.empty_like(own, dtype=_wide(own, wide))
                    done[id(tensor)] = copy.copy_(
                        own if array is None else torch_._tensor_of(array)
                    )
                if name in module._buffers:
                    module._buffers[name] = done[id(tensor)]
                elif is_first:
                    undo.callback(_put, tensor, tensor.data)
                    _put(tensor, done[id(tensor)])
        yield


def _wide(tensor: torch.Tensor, dtype: str) -> torch.dtype:
    return getattr(torch, dtype) if dtype and tensor.is_floating_point() else tensor.dtype


def _put(tensor: torch.Tensor, data: torch.Tensor) -> None:
    tensor.data = data


@contextmanager
def _autocast(layer: torch.nn.Module, conditions: Conditions) -> Iterator[None]:
    """Autocast as it was; off in the wide dtype."""
    wanted = "" if conditions.dtype else conditions.autocast
    if wanted is None:
        yield
        return
    lead = next((one for one in (*layer.parameters(), *layer.buffers())), None)
    device = "cpu" if lead is None else lead.device.type
    dtype = getattr(torch, wanted) if wanted else None
    with torch.autocast(device, dtype=dtype, enabled=bool(wanted)):
        yield
