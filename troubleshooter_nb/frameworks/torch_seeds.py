"""Seeds, deterministic algorithms and dropout of torch."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import _VF
from torch.jit import _builtins

from troubleshooter_nb.frameworks.seeding import Facet, card_facts

# cuBLAS sums in one order only with a workspace of fixed size; HCCL serves torch_npu.
ENVIRONMENT = {
    "CUBLAS_WORKSPACE_CONFIG": (":4096:8", ":16:8"),
    "HCCL_DETERMINISTIC": ("true", "strict"),
}


def seed(seed: int) -> None:
    """Seed the generators of the host and of all devices."""
    torch.manual_seed(seed)


def generators() -> dict[str, Facet]:
    """The states of the host and of the devices that are present."""
    devices = {
        f"torch.{name}": _device_states(device)
        for name in ("cuda", "npu")
        if (device := getattr(torch, name, None)) is not None and device.is_available()
    }
    return {**devices, "torch.cpu": Facet(torch.get_rng_state, torch.set_rng_state)}


def _device_states(device: Any) -> Facet:
    """The states of all devices of a kind; None as long as the kind is not in use."""

    def read() -> list[torch.Tensor] | None:
        return device.get_rng_state_all() if device.is_initialized() else None

    def write(states: list[torch.Tensor] | None) -> None:
        if states is None:
            # Nothing was drawn yet: as `manual_seed` left it, together with the host's.
            device.manual_seed_all(torch.initial_seed())
        else:
            device.set_rng_state_all(states)

    return Facet(read, write)


def be_deterministic() -> None:
    """Deterministic algorithms everywhere; an operator that has none raises, or warns as before."""
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=warn_only)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False


def flags() -> dict[str, Facet]:
    """The switches of `be_deterministic`."""
    return {"torch.flags": Facet(_read_flags, _write_flags)}


def _read_flags() -> tuple[bool, bool, bool, bool]:
    cudnn = torch.backends.cudnn
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        cudnn.deterministic,
        cudnn.benchmark,
    )


def _write_flags(flags: tuple[bool, bool, bool, bool]) -> None:
    mode, warn_only, deterministic, benchmark = flags
    torch.use_deterministic_algorithms(mode, warn_only=warn_only)
    torch.backends.cudnn.deterministic = deterministic
    torch.backends.cudnn.benchmark = benchmark


def facts() -> dict[str, Any]:
    """What a card tells of this."""
    return card_facts(torch.initial_seed(), _is_removed())


def dropout() -> Facet:
    """Whether dropout is removed."""
    return Facet(_is_removed, _remove)


# The functions in which all dropout of eager torch ends, with the place of the argument that
# rules it and what it is told. They are called through `_VF`, which asks them anew each time, or
# by the name under which a module has imported them.
_RULED: dict[str, tuple[str, int, Any]] = {
    **{
        f"{kind}{in_place}": ("train", 2, False)
        for kind in ("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout")
        for in_place in ("", "_")
    },
    "native_dropout": ("train", 2, False),
    **dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), ("dropout", 5, 0.0)),
}
_ATTENTION = ("dropout_p", 4, 0.0)

# Where something was replaced: the names of a module, the name, what stood there (None: nothing,
# the module asks elsewhere) and what stands there now.
_replaced: list[tuple[dict[str, Any], str, Any, Any]] = []


def _is_removed() -> bool:
    return bool(_replaced)


def _remove(removed: bool) -> None:
    if removed == _is_removed():
        return
    if removed:
        # The names of operators are looked up once and kept: before others stand there.
        torch.overrides.resolve_name(torch.dropout)
        _replace()
    else:
        _put_back()
    if "torch._dynamo" in sys.modules:
        # What was compiled keeps, or lacks, its dropout for good: it is compiled anew.
        torch.compiler.reset()


def _put_back() -> None:
    for names, name, before, now in reversed(_replaced):
        if names.get(name) is now:  # else somebody has put something else there
            if before is None:
                del names[name]
            else:
                names[name] = before
        _operators_of_script().pop(id(now), None)
    _replaced.clear()


def _replace() -> None:
    functions = {name: (getattr(_VF, name), *rule) for name, rule in _RULED.items()}
    functions["attention"] = (torch.nn.functional.scaled_dot_product_attention, *_ATTENTION)
    ruled = {id(function): _ruled(function, *rule) for function, *rule in functions.values()}
    # torch.jit.script knows operators by the function. What it compiles keeps its dropout.
    known = _operators_of_script()
    known |= {id(now): known[place] for place, now in ruled.items() if place in known}
    found = [
        (names, name, value, ruled[id(value)])
        for module in list(sys.modules.values())
        # There torch looks up what it tells a `TorchFunctionMode` was called.
        if isinstance(module, ModuleType) and module is not torch._C._nn
        for names in [vars(module)]
        for name, value in list(names.items())
        if id(value) in ruled
    ]
    found += [(vars(_VF), name, None, ruled[id(functions[name][0])]) for name in _RULED]
    for names, name, _, now in found:
        names[name] = now
    _replaced.extend(found)


def _operators_of_script() -> dict[int, str]:
    """The names of operators by the id of their function, made at the first call."""
    known: dict[int, str] = _builtins._get_builtin_table()  # type: ignore[no-untyped-call]
    return known


def _ruled(function: Callable[..., Any], keyword: str, place: int, told: Any) -> Callable[..., Any]:
    """The function with one argument set, as long as dropout is removed."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        # A module imported meanwhile may keep this function for good.
        if _is_removed():
            at = place + 1 if _is_packed(keyword, args) else place
            if len(args) > at:
                args = (*args[:at], told, *args[at + 1 :])
            elif keyword in kwargs:
                kwargs = {**kwargs, keyword: told}
        return function(*args, **kwargs)

    return call


def _is_packed(keyword: str, args: tuple[Any, ...]) -> bool:
    """Whether a recurrent function is given batch sizes, which move the rest by one."""
    return keyword == "dropout" and len(args) > 3 and not isinstance(args[3], bool)
