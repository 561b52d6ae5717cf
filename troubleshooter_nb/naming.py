"""Entry names: what a file name of each dump grammar says about the tensor inside.

Inside the package an entry has a `Site`; only this module knows how a dump format spells one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

Direction = Literal["", "forward", "backward"]
# What only training needs: the state an optimizer keeps of each parameter, counted steps, learning
# rates, and the moving average of the parameters (EMA).
TrainingRole = Literal["optimizer_state", "step_counter", "learning_rate", "average"]
_RunRole = Literal["input", "output", "parameter", "buffer", "gradient"]
Role = Literal["", _RunRole, TrainingRole]

# The dtype tokens TroubleShooter 1.0.19 and MindSpore's TensorDump write before the number ...
_PEER_TOKENS = (
    *("float16", "float32", "float64", "bfloat16", "bool", "complex64", "complex128"),
    *("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
)
# ... and the other dtypes that save_dump can write: long doubles, and what ml_dtypes adds.
_OUR_TOKENS = (
    *("float96", "float128", "complex192", "complex256"),
    *("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz"),
    *("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    *("float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"),
    *("int1", "uint1", "int2", "uint2", "int4", "uint4"),
)
DTYPE_TOKENS = (*_PEER_TOKENS, *_OUR_TOKENS)

# [0-9], not \d, which takes the digits of every script; 18 digits fit an int64.
_DTYPE_LAST = re.compile(
    rf"(?s)(?P<stem>.*)_(?P<dtype>{'|'.join(DTYPE_TOKENS)})_(?P<id>[0-9]{{1,18}})"
)
_ID_FIRST = re.compile(r"(?s)(?P<id>[0-9]{1,18})_(?P<stem>.+)")
_NUMBER = re.compile(r"([0-9]+)")
_POSITION = re.compile(r"_[0-9]+$")
_GRADIENT_WORD = re.compile(r"(?i)(?:^|[^a-z])(?:grads?|gradients?)(?:[^a-z]|$)")

# Leaf names of parameters and buffers, and the torch name MindSpore's name stands for.
# Source: facts/layer_parameters.csv (verified rows).
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
    "moment2": "exp_avg_sq",
    "adam_v": "exp_avg_sq",
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
)
_LEARNING_RATES = ("learning_rate", "lr", "base_lr", "initial_lr")
# What containers of a moving average are called, alone or in front of a parameter.
AVERAGES = ("model_ema", "ema_model", "state_dict_ema", "ema_state_dict", "ema", "params_ema")
# What wraps a module gets a part of its own into the names: torch.compile, FSDP, activation
# checkpointing anywhere; DataParallel and DistributedDataParallel in front of all.
_WRAPPERS = ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")
_PARALLEL = "module."
_WEIGHT_NORM = re.compile(r"(?:^|[./])(weight_[gv])$")
# How our reader of torch's files names what an optimizer keeps: behind the optimizer's own name.
_STATE_IN_OPTIMIZER = re.compile(r"(?i:[^.]*opt[^.]*)\.(?P<slot>[^.]+)\.(?P<rest>.+)")
_NUMBERED_STATE = re.compile(r"(?i:[^.]*opt[^.]*)\.state\.(?P<rest>[0-9]+)\.(?P<slot>[^.]+)$")
_LAST_RATE = re.compile(r"(^|[._])last_lr(\.[0-9]+)?$")
_NUMBERED = re.compile(r"(.+?)_?[0-9]+")
_RNN_LEAF = re.compile(r"(?:weight|bias)_(?:ih|hh)(?:_l[0-9]+)?(?:_reverse)?")
# MindSpore spellings that users also give to cells and parameters of their own, so that they say
# something only when the other side has no better partner: PReLU's weight is ``w``, BatchNorm3d
# wraps a ``bn2d``, and the Transformer layers call their ``linear1`` ``dense1``.
_LIKELY = (
    (re.compile(r"(^|[./])w$"), r"\1weight"),
    (re.compile(r"(^|[./])bn2d\.(?=[^./]+$)"), r"\1"),
    (re.compile(r"(^|[./])dense([12])\.(?=[^./]+$)"), r"\1linear\2."),
)


TRAINING_ROLES: tuple[str, ...] = get_args(TrainingRole)
ROLES: tuple[str, ...] = (*get_args(_RunRole), *TRAINING_ROLES)


@dataclass(frozen=True)
class Site:
    """Where in a run a tensor was seen.

    `kind` is the level of the record ("file", later "module", "api", "kernel"), `path` the dotted
    place in the network, `call` counts repeated visits of the same place from 0, `slot` is the
    argument position or key.
    """

    kind: str
    path: str
    call: int = 0
    direction: Direction = ""
    role: Role = ""
    slot: str = ""


@dataclass(frozen=True)
class NpyName:
    """The parts of a saved array's file name; `number` and `dtype` are None where absent."""

    stem: str
    number: int | None = None
    dtype: str | None = None


def parse_npy_name(name: str) -> NpyName:
    """Split a file name of TroubleShooter's three naming generations.

    Parameters
    ----------
    name : str
        File name with or without ``.npy``. ``{stem}_{dtype}_{id}`` (1.0.19 and MindSpore's
        TensorDump), ``{id}_{stem}`` (up to 1.0.18) or anything else, which is all stem.

    Returns
    -------
    NpyName
        The inverse of `format_npy_name`: ``parse_npy_name(format_npy_name(x)) == x`` for every
        x with a dtype and a number, and for any other x without dtype whose stem does not itself
        look numbered or end in ``.npy``. A number of more than 18 digits is part of the stem.

    Notes
    -----
    Source: spec/troubleshooter.md 3.1, acceptance case 3. The two older generations differ only
    in the character before the key, which cannot be told from the file name alone.
    """
    name = name.removesuffix(".npy")
    if match := _DTYPE_LAST.fullmatch(name):
        return NpyName(match["stem"], int(match["id"]), match["dtype"])
    if match := _ID_FIRST.fullmatch(name):
        return NpyName(match["stem"], int(match["id"]))
    return NpyName(name)


def format_npy_name(parts: NpyName) -> str:
    """File name without suffix, in the newest generation that can express the parts.

    A dtype without a number cannot be expressed and is left out.
    """
    if parts.number is None:
        return parts.stem
    if parts.dtype is None:
        return f"{parts.number}_{parts.stem}"
    return f"{parts.stem}_{parts.dtype}_{parts.number}"


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key under which ``x_2`` comes before ``x_10``."""

    def key(part: str) -> tuple[int, int, str]:
        if not _NUMBER.fullmatch(part):
            return 1, 0, part
        # By length, then digit by digit: int() refuses numbers of more than 4,300 digits.
        digits = part.lstrip("0")
        return 0, len(digits), digits

    return tuple(key(part) for part in _NUMBER.split(name) if part)


def parameter_leaf(path: str) -> str | None:
    """Torch's name for the last part of a parameter or buffer path, or None for other names."""
    leaf = _leaf(path)
    if _RNN_LEAF.fullmatch(leaf):
        return leaf
    return PARAMETER_LEAVES.get(leaf) or BUFFER_LEAVES.get(leaf)


def without_position(stem: str) -> str:
    """The stem of a parameter without the position that ``get_pt_grads`` appends.

    ``fc.weight_0`` -> ``fc.weight``; a stem that is no parameter stays as it is.
    """
    path = _POSITION.sub("", stem)
    return path if likely_parameter(path) else stem


def canonical_parameter(path: str) -> str | None:
    """The path with its leaf in torch's spelling (``bn.gamma`` -> ``bn.weight``), else None.

    The two parts of a weight norm are spelled as torch 2 does, whichever release wrote them:
    ``fc.weight_g`` -> ``fc.parametrizations.weight.original0``.
    """
    if match := _WEIGHT_NORM.search(path):
        return f"{path[: match.start(1)]}parametrizations.weight.original{int(match[1][-1] == 'v')}"
    leaf = parameter_leaf(path)
    return None if leaf is None else path[: len(path) - len(_leaf(path))] + leaf


def likely_parameter(path: str) -> str | None:
    """Like `canonical_parameter`, and with MindSpore's ambiguous spellings replaced as well.

    ``act.w`` -> ``act.weight``, ``bn.bn2d.gamma`` -> ``bn.weight``, ``dense1.weight`` ->
    ``linear1.weight``. Evidence for a pair, no proof: a layer of the user's may have these names.
    """
    for pattern, torch_spelling in _LIKELY:
        path = pattern.sub(torch_spelling, path)
    return canonical_parameter(path)


def without_wrappers(names: Sequence[str]) -> tuple[Callable[[str], str], list[str]]:
    """How to take the parts out of names that wrappers of a module put in, and which those are.

    ``module.`` is one only where all names begin with it: a layer may be called so. Names that
    would then be equal are left alone.
    """
    found = [part for part in _WRAPPERS if any(part in name for name in names)]

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


def says_gradient(text: str) -> bool:
    """Whether a folder or file name has the word grad, grads or gradient(s) as a part."""
    return bool(_GRADIENT_WORD.search(text))


def site_of_npy_stem(stem: str, *, folder: str = "") -> Site:
    """What the stem of a saved array, and the folder it lies in, say about the tensor.

    A parameter name in a folder or stem that says ``grad``, or with the suffix ``_backward`` of
    ``save_grad``, is the gradient of that parameter: role ``parameter``, direction ``backward``.
    Any other name so marked is the gradient of an activation: role ``gradient``.
    """
    path = stem.removesuffix("_backward")
    is_gradient = path != stem or says_gradient(folder) or says_gradient(stem)
    direction: Direction = "backward" if is_gradient else ""
    leaf = _leaf(without_position(path))
    if parameter_leaf(leaf):
        role: Role = "buffer" if leaf in BUFFER_LEAVES else "parameter"
    else:
        role = "gradient" if is_gradient else ""
    return Site("file", path, direction=direction, role=role)


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
    return Site("checkpoint", name, role="buffer" if leaf in BUFFER_LEAVES else "parameter")


def _leaf(path: str) -> str:
    return re.split(r"[./]", path)[-1]
