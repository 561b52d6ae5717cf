"""Names of parameters in checkpoints of both frameworks, and what else such files hold."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence

from troubleshooter_nb.naming.site import Role, Site

_POSITION = re.compile(r"_[0-9]+$")

# Leaf names of parameters and buffers, and the torch name MindSpore's name stands for.
# Source: own runs of torch 2.13 and MindSpore 2.10.
PARAMETER_LEAVES = {
    "weight": "weight",
    "bias": "bias",
    "gamma": "weight",
    "beta": "bias",
    "embedding_table": "weight",
    **{
        name: name
        for name in (
            *("in_proj_weight", "in_proj_bias", "bias_k", "bias_v"),
            *("q_proj_weight", "k_proj_weight", "v_proj_weight"),
        )
    },
}
BUFFER_LEAVES = {
    "running_mean": "running_mean",
    "running_var": "running_var",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
    "num_batches_tracked": "num_batches_tracked",
}
# Tables that modules compute when they are made, and that are never trained: of rotary embeddings,
# of relative positions. Source: transformers, and Swin's windows.
TABLE_LEAVES = (
    *("inv_freq", "original_inv_freq", "cos_cached", "sin_cached", "_cos_cached", "_sin_cached"),
    *("cos_cache", "sin_cache", "cos_sin_cache", "relative_position_index", "masked_bias"),
)
# The states optimizers keep of a parameter: MindSpore puts them in front of its name, torch below
# its number. Each under torch's name where torch has such a state.
# Source: get_parameters() of every optimizer of mindspore.nn and mindspore.mint 2.10, and
# state_dict() of torch 2.13.
OPTIMIZER_STATES = {
    **{
        name: name
        for name in (
            *("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "exp_inf", "momentum_buffer"),
            *("square_avg", "grad_avg", "acc_delta", "sum", "prev", "step_size", "stat", "linear"),
            *("accum", "accum_update", "mu_product", "ax", "eta", "mu", "row_var", "col_var"),
        )
    },
    "moment1": "exp_avg",
    "adam_m": "exp_avg",
    "lamb_m": "exp_avg",
    "moment2": "exp_avg_sq",
    "adam_v": "exp_avg_sq",
    "lamb_v": "exp_avg_sq",
    "vhat": "max_exp_avg_sq",
    "moments": "momentum_buffer",
    "moment": "momentum_buffer",
    "momentum_buf": "momentum_buffer",
    "mean_square": "square_avg",
    "mean_grad": "grad_avg",
    "ax_": "ax",
}
_OPTIMIZER_SCALARS = (
    *("beta1_power", "beta2_power", "momentum", "scale_sense", "loss_scale", "state_step"),
    *("step_t", "current_iterator_step", "last_overflow_iterator_step"),
)
_COUNTERS = (
    *("global_step", "step_num", "epoch_num", "epoch", "step", "steps", "global_steps"),
    *("iteration", "iterations", "iter", "num_updates", "last_epoch", "n_averaged"),
    *("step_counter", "ema_steps"),
)
_LEARNING_RATES = ("learning_rate", "lr", "base_lr", "initial_lr")
# What containers of a moving average are called, alone or in front of a parameter.
AVERAGES = ("model_ema", "ema_model", "state_dict_ema", "ema_state_dict", "ema", "params_ema")
# States whose names are those of layers as well: they are states beside the parameter they are of.
_STATES_LIKE_LAYERS = frozenset(("linear", "sum", "prev", "stat", "mu", "ax", "ax_", "eta"))
# What wraps a module gets a part of its own into the names: torch.compile, FSDP, activation
# checkpointing anywhere; DataParallel and DistributedDataParallel in front of all.
_WRAPPERS = ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")
_PARALLEL = "module."
# What peft puts into the names of a network, and of the layers that it adds factors to.
_ADAPTED = ("base_layer.", "base_model.model.")
_WEIGHT_NORM = re.compile(r"(?:^|[./])(weight_[gv])$")
# How our reader of torch's files names what an optimizer keeps: behind the optimizer's own name.
_STATE_IN_OPTIMIZER = re.compile(r"(?i:[^.]*opt[^.]*)\.(?P<slot>[^.]+)\.(?P<rest>.+)")
_NUMBERED_STATE = re.compile(r"(?:(?i:[^.]*opt[^.]*)\.)?state\.(?P<rest>[0-9]+)\.(?P<slot>[^.]+)$")
_LAST_RATE = re.compile(r"(^|[._])last_lr(\.[0-9]+)?$")
_NUMBERED = re.compile(r"(.+?)_?[0-9]+")
_RNN_LEAF = re.compile(r"(?:weight|bias)_(?:ih|hh)(?:_l[0-9]+)?(?:_reverse)?")
# MindSpore spellings that users also give to cells and parameters of their own, so that they say
# something only when the other side has no better partner: PReLU's weight is ``w``, BatchNorm3d
# wraps a ``bn2d``, and the Transformer layers call their ``linear1`` ``dense1``. In front of each
# pattern what a name must hold for it: most hold none of them.
_LIKELY = (
    ("w", re.compile(r"(^|[./])w$"), r"\1weight"),
    ("bn2d.", re.compile(r"(^|[./])bn2d\.(?=[^./]+$)"), r"\1"),
    ("dense", re.compile(r"(^|[./])dense([12])\.(?=[^./]+$)"), r"\1linear\2."),
)


def parameter_leaf(path: str) -> str | None:
    """Torch's name for the last part of a parameter or buffer path, or None for other names."""
    leaf = leaf_of(path)
    known = PARAMETER_LEAVES.get(leaf) or BUFFER_LEAVES.get(leaf)
    return known or (leaf if _RNN_LEAF.fullmatch(leaf) else None)


def without_position(stem: str) -> str:
    """The stem of a parameter without the position that ``get_pt_grads`` appends.

    ``fc.weight_0`` -> ``fc.weight``; a stem that is no parameter stays as it is.
    """
    # Most stems end in no number, and need no pattern; "$" stands before a last line end as well.
    if not stem.rstrip("\n")[-1:].isdigit():
        return stem
    path = _POSITION.sub("", stem)
    return path if path != stem and likely_parameter(path) else stem


@functools.lru_cache(maxsize=1 << 16)
def canonical_parameter(path: str) -> str | None:
    """The path with its leaf in torch's spelling (``bn.gamma`` -> ``bn.weight``), else None.

    The two parts of a weight norm are spelled as torch 2 does, whichever release wrote them:
    ``fc.weight_g`` -> ``fc.parametrizations.weight.original0``.
    """
    match = _WEIGHT_NORM.search(path) if path[-2:] in ("_g", "_v") else None
    if match:
        return f"{path[: match.start(1)]}parametrizations.weight.original{int(match[1][-1] == 'v')}"
    leaf = parameter_leaf(path)
    return None if leaf is None else path[: len(path) - len(leaf_of(path))] + leaf


def likely_parameter(path: str) -> str | None:
    """Like `canonical_parameter`, and with MindSpore's ambiguous spellings replaced as well.

    ``act.w`` -> ``act.weight``, ``bn.bn2d.gamma`` -> ``bn.weight``, ``dense1.weight`` ->
    ``linear1.weight``. Evidence for a pair, no proof: a layer of the user's may have these names.
    """
    for held, pattern, torch_spelling in _LIKELY:
        if held in path:
            path = pattern.sub(torch_spelling, path)
    return canonical_parameter(path)


def without_wrappers(names: Sequence[str]) -> tuple[Callable[[str], str], list[str]]:
    """How to take the parts out of names that wrappers of a module put in, and which those are.

    ``module.`` is one only where all names begin with it: a layer may be called so. Names that
    would then be equal are left alone.
    """
    is_adapted = any(f".{_ADAPTED[0]}" in name for name in names)
    known = (*_WRAPPERS, *_ADAPTED) if is_adapted and "lora" in " ".join(names) else _WRAPPERS
    found = [part for part in known if any(part in name for name in names)]

    def bare(name: str) -> str:
        for part in found:
            name = name.replace(part, "")
        return name

    # What is no part of the module, such as a counter of AveragedModel, has no dot.
    dotted = [bare(name) for name in names if "." in name]
    parallel = bool(dotted) and all(name.startswith(_PARALLEL) for name in dotted)

    def inner(name: str) -> str:
        name = bare(name)
        return name.removeprefix(_PARALLEL) if parallel else name

    if len({inner(name) for name in names}) < len(set(names)):
        return str, []
    return inner, found + [_PARALLEL] * parallel


@functools.lru_cache(maxsize=1 << 16)  # readers ask for each name more than once
def site_of_parameter(name: str) -> Site:
    """What the name of a checkpoint's entry says about it.

    ``moment1.fc.weight`` and ``exp_avg.fc.weight`` are the optimizer state ``exp_avg`` of
    ``fc.weight``: role ``optimizer_state``, slot ``exp_avg``. Whatever is neither training state
    nor a known buffer has the role ``parameter``.
    """
    head, _, rest = name.partition(".")
    leaf = name.rpartition(".")[2]
    if rest and head in AVERAGES:
        return Site("checkpoint", rest, role="average")
    if rest and head in OPTIMIZER_STATES:
        return Site("checkpoint", rest, role="optimizer_state", slot=OPTIMIZER_STATES[head])
    for pattern in (_STATE_IN_OPTIMIZER, _NUMBERED_STATE):
        match = pattern.match(name)
        if match and match["slot"] == "step":
            return Site("checkpoint", match["rest"], role="step_counter", slot="step")
        if match and match["slot"] in OPTIMIZER_STATES:
            slot = OPTIMIZER_STATES[match["slot"]]
            return Site("checkpoint", match["rest"], role="optimizer_state", slot=slot)
    # MindSpore writes learning_rate_0, ... for groups of parameters.
    plain = numbered[1] if (numbered := _NUMBERED.fullmatch(leaf)) else leaf
    if plain in _LEARNING_RATES:
        return Site("checkpoint", name, role="learning_rate")
    if _LAST_RATE.search(name):
        return Site("checkpoint", name, role="learning_rate")
    if name in _COUNTERS or leaf == "n_averaged":
        return Site("checkpoint", name, role="step_counter")
    if not rest and name in _OPTIMIZER_SCALARS:
        return Site("checkpoint", name, role="optimizer_state")
    return Site("checkpoint", name, role=_role_of(leaf))


def is_like_a_layer(name: str) -> bool:
    """Whether a name is one of an optimizer's state that a layer may have: ``linear.weight``."""
    return name.partition(".")[0] in _STATES_LIKE_LAYERS


def role_of_weight(name: str) -> Role:
    """Whether a name that is no state's is one of a buffer or of a parameter."""
    return _role_of(name.rpartition(".")[2])


def _role_of(leaf: str) -> Role:
    return "buffer" if leaf in BUFFER_LEAVES or leaf in TABLE_LEAVES else "parameter"


def leaf_of(path: str) -> str:
    """The last part of a path, behind its last dot or slash."""
    return path[max(path.rfind("."), path.rfind("/")) + 1 :]
