"""Seeds, deterministic operators and dropout of MindSpore."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable
from typing import Any

import mindspore
import mindspore.dataset as data
from mindspore import ops

from troubleshooter_nb.errors import NotOfferedError
from troubleshooter_nb.frameworks.seeding import Facet, card_facts
from troubleshooter_nb.messages import Message

# The name in `mindspore.common` is that of a function.
_seeds: Any = importlib.import_module("mindspore.common.seed")

# What MindSpore itself sets with its switch, and takes away again without asking.
ENVIRONMENT = {"HCCL_DETERMINISTIC": ("true", "strict"), "TE_PARALLEL_COMPILER": ("1",)}


def seed(seed: int) -> None:
    """Seed operators, initialisers, datasets and the generator of ``mint``."""
    mindspore.set_seed(seed)
    if hasattr(mindspore, "manual_seed"):  # MindSpore 2.3 has it
        mindspore.manual_seed(seed)


def generators() -> dict[str, Facet]:
    """The seed, how far each operator has counted from it, and the generator of ``mint``."""
    found = {"mindspore.seeds": Facet(_read_seeds, _write_seeds)}
    if hasattr(mindspore, "manual_seed"):
        states = Facet(mindspore.get_rng_state, mindspore.set_rng_state)
        found["mindspore.generator"] = states
    return found


# No public way tells the counts or forgets a seed.
def _read_seeds() -> tuple[int | None, dict[Any, int], int]:
    return _seeds._GLOBAL_SEED, dict(_seeds._KERNEL_SEED), data.config.get_seed()


def _write_seeds(state: tuple[int | None, dict[Any, int], int]) -> None:
    seed, counts, of_data = state
    _seeds._GLOBAL_SEED = seed
    _seeds._KERNEL_SEED.clear()
    _seeds._KERNEL_SEED.update(counts)
    data.config.set_seed(of_data)  # seeds random and numpy too; whoever kept those is next


def be_deterministic() -> None:
    """Deterministic operators; `mindspore.set_deterministic` may be called once only."""
    mindspore.set_context(deterministic="ON")


def flags() -> dict[str, Facet]:
    """The switch of `be_deterministic`."""
    read = functools.partial(mindspore.get_context, "deterministic")
    return {"mindspore.flags": Facet(read, _write_flag)}


def _write_flag(value: str) -> None:
    kept = {name: os.environ.pop(name) for name in ENVIRONMENT if name in os.environ}
    try:
        mindspore.set_context(deterministic=value)
    finally:
        for name in ENVIRONMENT:
            os.environ.pop(name, None)
        os.environ.update(kept)


def facts() -> dict[str, Any]:
    """What a card tells of this."""
    return card_facts(mindspore.get_seed(), _is_removed())


def dropout() -> Facet:
    """Whether dropout is removed."""
    return Facet(_is_removed, _remove)


# The primitives in which all dropout ends: the class, and its call without dropout, which gets
# the call as it is, the primitive and the inputs.
_SeedFunction = Callable[..., Any]


def _with_ones(call: _SeedFunction, primitive: Any, x: Any, *others: Any) -> tuple[Any, Any]:
    return x, ops.ones_like(x)


def _first(call: _SeedFunction, primitive: Any, x: Any, *others: Any) -> Any:
    return x


def _not_training(
    call: _SeedFunction, primitive: Any, x: Any, p: Any, training: Any, *others: Any
) -> Any:
    return call(primitive, x, p, False, *others)


def _keeping_all(call: _SeedFunction, primitive: Any, *inputs: Any, **named: Any) -> Any:
    keep, primitive.keep_prob = primitive.keep_prob, 1.0
    # The fifth input is the mask of what is dropped.
    inputs = (*inputs[:4], None, *inputs[5:]) if len(inputs) > 4 else inputs
    try:
        return call(
            primitive, *inputs, **(named | {"drop_mask": None} if "drop_mask" in named else named)
        )
    finally:
        primitive.keep_prob = keep


def _keeping_all_of_fused(call: _SeedFunction, primitive: Any, *inputs: Any) -> Any:
    return call(primitive, *inputs[:_KEPT_OF_FUSED], 1.0, *inputs[_KEPT_OF_FUSED + 1 :])


_KEPT_OF_FUSED = 11  # The place of keep_prob among the inputs of SpeedFusionAttention.

_WITHOUT: dict[str, _SeedFunction] = {
    **dict.fromkeys(("Dropout", "Dropout2D", "Dropout3D", "DropoutExt"), _with_ones),
    **dict.fromkeys(("DropoutDoMask", "DropoutDoMaskExt"), _first),
    **dict.fromkeys(("FuncDropoutExt", "Dropout2dExt"), _not_training),
    "FlashAttentionScore": _keeping_all,
    "SpeedFusionAttention": _keeping_all_of_fused,
}

# Where something was replaced: the class, its own call (None: it inherits) and what stands now.
_replaced: list[tuple[type, Any, Any]] = []


def _is_removed() -> bool:
    return bool(_replaced)


def _remove(removed: bool) -> None:
    if removed == _is_removed():
        return
    if removed:
        if mindspore.get_context("mode") == mindspore.GRAPH_MODE:
            raise NotOfferedError(Message("seeds.graph_mode"))
        _replace()
        return
    for kind, before, now in reversed(_replaced):
        if vars(kind).get("__call__") is now:
            if before is None:
                del kind.__call__
            else:
                kind.__call__ = before
    _replaced.clear()


def _replace() -> None:
    for name, without in _WITHOUT.items():
        kind = getattr(ops, name, None) or getattr(ops.auto_generate, name, None)
        if kind is not None:
            now = _ruled(kind.__call__, without)
            _replaced.append((kind, vars(kind).get("__call__"), now))
            kind.__call__ = now


def _ruled(call: _SeedFunction, without: _SeedFunction) -> _SeedFunction:
    @functools.wraps(call)
    def ruled(primitive: Any, *inputs: Any, **named: Any) -> Any:
        return without(call, primitive, *inputs, **named)

    return ruled
