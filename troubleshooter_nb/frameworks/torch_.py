"""What the package needs from torch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from os import PathLike
from typing import Any, NoReturn

import numpy as np
import torch
from torch.nn.utils.parametrize import ParametrizationList

from troubleshooter_nb.errors import ArgumentError, NoGradientError, NotOfferedError
from troubleshooter_nb.frameworks import (
    LayerEntry,
    LayerFacts,
    Named,
    is_plain,
    parts_of,
    torch_seeds,
)
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.floats import small_float
from troubleshooter_nb.naming import Role

NAME = "torch"

# torch hands numpy no bfloat16 or float8: their bits travel as integers.
_BITS: dict[torch.dtype, tuple[torch.dtype, np.dtype]] = {
    getattr(torch, name): (torch.int16 if name == "bfloat16" else torch.uint8, dtype)
    for name in (
        *("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"),
        "float8_e8m0fnu",  # torch 2.7 and ml_dtypes 0.5 have it
    )
    if hasattr(torch, name) and (dtype := small_float(name)) is not None
}


def is_tensor(value: Any) -> bool:
    """Whether the value is a torch tensor, parameters included."""
    return isinstance(value, torch.Tensor)


def to_numpy(value: torch.Tensor, *, copy: bool = True) -> np.ndarray:
    """Host copy with the same values; bfloat16 and float8 as ml_dtypes, bit for bit.

    Without `copy` it shares the memory of a tensor of the host that numpy can look at. Sparse
    tensors come dense, quantized ones dequantized, complex32 as complex64.

    Raises
    ------
    ValueError
        If the tensor has no values (meta, fake), is ragged, or numpy has nothing for its dtype.
    """
    if value.is_meta or value.is_nested:
        kind = "meta" if value.is_meta else "ragged"
        raise ArgumentError(Message(f"frameworks.{kind}_tensor"))
    tensor = value.detach().cpu().resolve_conj().resolve_neg()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    if tensor.dtype == torch.complex32:
        tensor = tensor.to(torch.complex64)
    carrier, dtype = _BITS.get(tensor.dtype, (None, None))
    try:
        if carrier is None:
            array = tensor.numpy()
        else:
            array = tensor.contiguous().view(carrier).numpy().view(dtype)
        return np.array(array) if copy else array
    except (TypeError, RuntimeError) as error:
        no_array = Message("frameworks.no_array", dtype=tensor.dtype, why=error)
        raise ArgumentError(no_array) from error


def is_network(value: Any) -> bool:
    """Whether the value is a torch module."""
    return isinstance(value, torch.nn.Module)


def layers(net: torch.nn.Module) -> list[LayerFacts]:
    """Every module of a network, containers and the network itself included, parents first.

    Buffers that ``state_dict()`` leaves out are left out here too.

    Raises
    ------
    ValueError
        If a parameter has no shape yet, because a lazy module has not run.
    """
    paths = defaultdict(list)
    for path, module in net.named_modules(remove_duplicate=False):
        paths[module].append(path)
    return [_facts(module, *found) for module, found in paths.items()]


def _facts(module: torch.nn.Module, path: str, *aliases: str) -> LayerFacts:
    entries = _entries(module, path, aliases)
    return LayerFacts(path, _kind(module), entries, _settings(module), aliases)


_KINDS = {
    kind: name
    for name, kind in vars(torch.nn).items()
    if isinstance(kind, type) and issubclass(kind, torch.nn.Module) and kind is not torch.nn.Module
}
# Not in torch.nn, and no ordinary ModuleList: it holds what a parametrization made of a weight.
_KINDS[ParametrizationList] = "ParametrizationList"


def _kind(module: torch.nn.Module) -> str:
    own = type(module)
    for base in own.__mro__:
        if base in _KINDS:
            return _KINDS[base]
    # A LayerNorm written by hand is not torch's, and its tensors may be others.
    is_taken = own.__name__ in _KINDS.values()
    return f"{own.__module__}.{own.__name__}" if is_taken else own.__name__


def _entries(
    module: torch.nn.Module, path: str, aliases: tuple[str, ...]
) -> tuple[LayerEntry, ...]:
    # No public way tells a persistent buffer; state_dict() itself asks this set.
    passing = module._non_persistent_buffers_set
    tensors: list[tuple[str, torch.Tensor, Role]] = [
        (leaf, tensor, "parameter")
        for leaf, tensor in module.named_parameters(recurse=False, remove_duplicate=False)
    ]
    tensors += [
        (leaf, tensor, "buffer")
        for leaf, tensor in module.named_buffers(recurse=False, remove_duplicate=False)
        if leaf not in passing
    ]
    return tuple(
        LayerEntry(
            leaf,
            _joined(path, leaf),
            _shape(tensor, _joined(path, leaf)),
            str(tensor.dtype).removeprefix("torch."),
            role,
            tuple(_joined(alias, leaf) for alias in aliases),
        )
        for leaf, tensor, role in tensors
    )


def _shape(tensor: torch.Tensor, name: str) -> tuple[int, ...]:
    if torch.nn.parameter.is_lazy(tensor):
        raise ArgumentError(Message("frameworks.lazy", name=name))
    return tuple(tensor.shape)


def _joined(path: str, leaf: str) -> str:
    return f"{path}.{leaf}" if path else leaf


def _settings(module: torch.nn.Module) -> dict[str, Any]:
    settings = {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and name != "training" and is_plain(value)
    }
    # Most layers remember their argument `bias` only as the parameter, which may be None.
    if "bias" in module._parameters:
        settings["bias"] = module._parameters["bias"] is not None
    return settings


def load_checkpoint(net: Any, file: str | PathLike[str]) -> tuple[list[str], list[str]]:
    """Names of the network without a value, and of the file without a place."""
    state = torch.load(file, map_location="cpu", weights_only=True)
    missing, left = net.load_state_dict(state, strict=False)
    return list(missing), list(left)


def save_checkpoint(net: Any, file: str | PathLike[str]) -> None:
    """Write ``net.state_dict()``."""
    torch.save(net.state_dict(), file)


def tensors(net: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The parameters and saved buffers themselves, by the names of ``state_dict()``."""
    state = net.state_dict(keep_vars=True)
    return {name: tensor for name, tensor in state.items() if is_tensor(tensor)}


def write(tensor: torch.Tensor, array: np.ndarray) -> None:
    """Put values into a tensor in its own dtype and on its own device."""
    with torch.no_grad():
        tensor.copy_(_tensor_of(array).reshape(tensor.shape))


def _tensor_of(array: np.ndarray) -> torch.Tensor:
    """A tensor of the host with these bits."""
    is_own = array.dtype.isbuiltin == 2  # those of ml_dtypes have one order only
    native = array.dtype if is_own else array.dtype.newbyteorder("=")
    plain = np.array(array, dtype=native, order="C")
    for dtype, (carrier, bits) in _BITS.items():
        if plain.dtype == bits:
            integers = plain.view(torch.empty(0, dtype=carrier).numpy().dtype)
            return torch.from_numpy(integers).view(dtype)
    return torch.from_numpy(plain)


def is_training(net: torch.nn.Module) -> bool:
    """Whether a network, at its root, is set to train."""
    return net.training


def outputs(net: torch.nn.Module, *args: np.ndarray, **kwargs: np.ndarray) -> list[Named]:
    """Names and values of what a network gives, evaluating and without gradients."""
    lead = next((t for t in tensors(net).values() if t.is_floating_point()), torch.empty(0))

    def given(array: np.ndarray) -> torch.Tensor:
        tensor = _tensor_of(array).to(lead.device)
        return tensor.to(lead.dtype) if tensor.is_floating_point() else tensor

    modes = {module: module.training for module in net.modules()}
    try:
        net.eval()
        with torch.no_grad():
            made = net(*map(given, args), **{name: given(array) for name, array in kwargs.items()})
        return [(name, to_numpy(tensor)) for name, tensor in parts_of(made, is_tensor)]
    finally:
        for module, training in modes.items():
            module.training = training


def describe() -> dict[str, Any]:
    """Version, device and the flags that change numbers."""
    return {
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "cudnn_allow_tf32": bool(torch.backends.cudnn.allow_tf32),
        "default_dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "threads": torch.get_num_threads(),
        **torch_seeds.facts(),
    }


def rank_and_size() -> tuple[int, int]:
    """Rank of this process and number of processes; (0, 1) in a run that is not distributed."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


def watch_gradient(tensor: torch.Tensor, receive: Callable[[np.ndarray], None]) -> None:
    """Have `receive` called with the gradient of a tensor each time one arrives.

    A leaf (an input, a parameter) reports only the next one: its hook would outlive the step.
    Where gradients are switched off, as in ``torch.no_grad()``, nothing is watched.

    Raises
    ------
    RuntimeError
        If the tensor needs no gradient.
    """
    if not torch.is_grad_enabled():
        return
    if not tensor.requires_grad:
        facts = {"shape": tuple(tensor.shape), "dtype": tensor.dtype}
        raise NoGradientError(Message("frameworks.no_gradient", **facts))

    def hook(gradient: torch.Tensor) -> None:
        if tensor_is_leaf:
            handle.remove()
        receive(to_numpy(gradient))

    tensor_is_leaf = tensor.is_leaf
    handle = tensor.register_hook(hook)  # type: ignore[no-untyped-call]


def shown(array: np.ndarray) -> str:
    """A tensor of these values as torch prints it."""
    for dtype, (carrier, bits) in _BITS.items():
        if array.dtype == bits:
            integers = array.view(torch.empty(0, dtype=carrier).numpy().dtype)
            return str(torch.from_numpy(integers).view(dtype))
    return str(torch.from_numpy(array))


def compiled_save(sink: Any, *, as_text: bool) -> NoReturn:
    """Not in torch: ``torch.compile`` leaves `save` to Python.

    Raises
    ------
    NotImplementedError
        Always.
    """
    raise NotOfferedError(Message("frameworks.nothing_to_compile"))


compiled_save_grad = compiled_save
