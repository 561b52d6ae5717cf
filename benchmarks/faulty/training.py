"""Faults of the loss, the backward pass, running statistics and the update of parameters."""

# ruff: noqa: D103 a planting function is described by its name and the id of its cause
from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from faulty.registry import EVERY, Truth, fault, pick
from faulty.side import Rule, Side, norm_of_gradients, patched
from faulty.styles import LAST

BN = ("resnet", "autoencoder")
RUNNING = {"steps": 2, "is_training": True}


def last_module(side: Side) -> set[str]:
    """Where the backward pass begins."""
    return {{"resnet": "fc", "autoencoder": "out", **LAST}.get(side.family, "head")}


@fault("bn_momentum_convention", BN, "running", **RUNNING)
def bn_momentum_convention(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    paths = left.find(nn.BatchNorm2d)
    for path in paths:
        left.module(path).momentum = 0.9  # type: ignore[assignment]
    return Truth(set(paths), {"bn_momentum_convention"}, step=1)


@fault("bn_momentum_zero", BN, "running", **RUNNING)
def bn_momentum_zero(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    paths = left.find(nn.BatchNorm2d)
    for path in paths:
        left.module(path).momentum = 0.0  # type: ignore[assignment]
    return Truth(set(paths), {"bn_momentum_zero"}, step=1)


@fault("bn_variance_bias", BN, "running", **RUNNING)
def bn_variance_bias(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    paths = left.find(nn.BatchNorm2d)
    for path in paths:
        m: Any = left.module(path)
        patched(m, lambda x, m=m: biased(m, x))
    return Truth(set(paths), {"bn_variance_bias"}, step=1)


def biased(m: Any, x: torch.Tensor) -> torch.Tensor:
    """Batch normalisation that remembers the biased variance."""
    count = x.numel() // x.shape[1]
    mean, variance = m.running_mean.clone(), m.running_var.clone()
    y = F.batch_norm(x, mean, variance, m.weight, m.bias, True, m.momentum, m.eps)
    with torch.no_grad():
        old = (1 - m.momentum) * m.running_var
        m.running_var.copy_(old + (variance - old) * (count - 1) / count)
        m.running_mean.copy_(mean)
    return y


@fault("loss_reduction", EVERY, "backward")
def loss_reduction(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    left.loss_factor = float(left.batches[0][1].numel())
    return Truth(last_module(left), {"loss_reduction"}, direction="backward")


@fault("loss_scale_left", EVERY, "backward")
def loss_scale_left(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    left.loss_factor = float(2.0 ** rng.choice([10, 12, 16]))
    return Truth(last_module(left), {"loss_scale_left"}, direction="backward")


def scaled(left: Side, factor: float) -> None:
    """Multiply the gradients of all parameters."""

    def change(net: nn.Module, step: int) -> None:
        for parameter in net.parameters():
            if parameter.grad is not None:
                parameter.grad.mul_(factor)

    left.on_gradients.append(change)


@fault("world_size_scale", EVERY, "backward")
def world_size_scale(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    ranks = float(rng.choice([2, 4, 8]))
    scaled(left, ranks if rng.random() < 0.5 else 1 / ranks)
    causes = {"world_size_scale", "loss_reduction"}
    return Truth(set(), causes, direction="backward", role="parameter")


@fault("loss_weights", EVERY, "backward", steps=3)
def loss_weights(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    """Micro batches whose losses are weighted by their tokens."""
    counts = rng.integers(8, 64, 3).astype(float)
    weights = counts / counts.mean()

    def weigh(side: Side, step: int) -> None:
        side.loss_factor = float(weights[step])

    left.before_step.append(weigh)
    return Truth(last_module(left), {"loss_weights"}, direction="backward")


@fault("weight_decay_coupling", EVERY, "backward")
def decay_in_gradients(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    decay = float(rng.choice([0.01, 0.1]))
    vectors = rng.random() < 0.5

    @torch.no_grad()
    def add(net: nn.Module, step: int) -> None:
        for parameter in net.parameters():
            if parameter.grad is not None and (vectors or parameter.dim() > 1):
                parameter.grad.add_(parameter, alpha=decay)

    left.on_gradients.append(add)
    return Truth(set(), {"weight_decay_coupling"}, direction="backward", role="parameter")


@fault("gradient_clipping", EVERY, "backward")
def gradient_clipping(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    limit = float(rng.choice([0.01, 0.05]))

    def clip(net: nn.Module, step: int) -> None:
        norm = norm_of_gradients(net)
        for parameter in net.parameters():
            if parameter.grad is not None:
                parameter.grad.mul_(min(1.0, limit / norm))

    left.on_gradients.append(clip)
    return Truth(set(), {"gradient_clipping"}, direction="backward", role="parameter")


@fault("frozen_part", ("resnet",), "backward")
def cut_skip(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    paths = [p for p in left.find(nn.Sequential) if p.endswith("down")]
    block = pick(rng, paths).removesuffix(".down")
    left.module(block).cut = True  # type: ignore[assignment]
    origins = {block, f"{block}.down", f"{block}.down.0", f"{block}.down.1"}
    # What is before the block gets a part of its gradient only.
    return Truth(origins | parents(block), {"frozen_part"}, direction="backward", is_glue=True)


def parents(path: str) -> set[str]:
    """The modules around it."""
    parts = path.split(".")
    return {".".join(parts[:n]) for n in range(1, len(parts))}


@fault("frozen_part", EVERY, "backward")
def frozen_layer(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, left.find(nn.Linear, nn.Conv2d, nn.LayerNorm))
    is_zero = rng.random() < 0.5

    def freeze(net: nn.Module, step: int) -> None:
        for parameter in net.get_submodule(path).parameters():
            parameter.grad = torch.zeros_like(parameter) if is_zero else None

    left.on_gradients.append(freeze)
    # What was never computed is in no file.
    causes = {"frozen_part"} if is_zero else {"frozen_part", "gradient_missing"}
    return Truth({path}, causes, direction="backward")


@fault("mask_shape", ("gpt",), "backward")
def mask_shape(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    factor = float(rng.choice([1.5, 2.0]))
    paths = [p for p in left.find(nn.Module) if p.endswith("attn")]
    for path in paths:
        m: Any = left.module(path)
        own = type(m).forward

        def forward(x: torch.Tensor, padding: Any = None, m: Any = m, own: Any = own) -> Any:
            y = x.view_as(x)
            if y.requires_grad:
                y.register_hook(lambda grad: grad * factor)
            return own(m, y, padding)

        patched(m, forward)
    last = paths[-1]
    return Truth(
        {last, f"{last}.qkv", *parents(last)}, {"mask_shape"}, direction="backward", is_glue=True
    )


STEPS: dict[str, Any] = {"steps": 3, "is_training": False}


def trained(kind: str, **options: Any) -> Any:
    """A preparation: both sides are trained by this rule."""

    def prepare(side: Side, rng: np.random.Generator) -> None:
        side.rule = Rule(kind, **options)

    return prepare


def updated(causes: set[str], step: int = 1) -> Truth:
    """Parameters after an update are where it begins, whichever comes first."""
    return Truth(set(), causes, direction="forward", role="parameter", step=step)


SGD = trained("sgd", lr=0.05)
SGD_DECAY = trained("sgd", lr=0.05, decay=0.1)
ADAM = trained("adam", lr=1e-2)
ADAM_DECAY = trained("adam", lr=1e-2, decay=0.1, is_decoupled=True)


@fault("learning_rate", EVERY, "steps", prepare=SGD, has_small=True, **STEPS)
def learning_rate(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    left.rule.lr *= 1.001 if small else float(rng.choice([0.2, 2.0, 10.0]))
    return updated({"learning_rate"})


@fault("weight_decay_coupling", EVERY, "steps", prepare=ADAM_DECAY, **STEPS)
def weight_decay_coupling(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    left.rule.is_decoupled = False
    return updated({"weight_decay_coupling"})


@fault("weight_decay_selection", EVERY, "steps", prepare=SGD_DECAY, **STEPS)
def weight_decay_selection(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    left.rule.decays_vectors = False
    return updated({"weight_decay_selection"})


@fault("adam_epsilon_place", EVERY, "steps", prepare=ADAM, **STEPS)
def adam_epsilon_place(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    if rng.random() < 0.5:
        left.rule.eps_inside = True
    else:
        left.rule.corrects_bias = False
    return updated({"adam_epsilon_place", "optimizer_start_state"})


@fault("optimizer_start_state", EVERY, "steps", prepare=ADAM, **STEPS)
def optimizer_start_state(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    left.rule.square_start = 1.0
    return updated({"optimizer_start_state"})


@fault("momentum_convention", EVERY, "steps", prepare=SGD, **STEPS)
def momentum_convention(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    draw = rng.random()
    if draw < 0.4:
        left.rule.dampening = 0.9
    elif draw < 0.7:
        left.rule.momentum = 0.5
    else:
        left.rule.nesterov = True
        return updated({"momentum_convention"})
    return updated({"momentum_convention"}, 2)


@fault("gradient_clipping", EVERY, "steps", prepare=SGD, **STEPS)
def clipped_norm(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    """Behind what is recorded of the gradients."""
    left.rule.clip_norm = float(rng.choice([0.01, 0.05, 0.1]))
    return updated({"gradient_clipping"})


@fault("gradient_clipping", EVERY, "steps", prepare=SGD, **STEPS)
def clipped_values(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    left.rule.clip_value = float(rng.choice([1e-4, 1e-3]))
    return updated({"gradient_clipping"})


def with_memory(side: Side, rng: np.random.Generator) -> None:
    """Both sides are trained by momentum, or by Adam."""
    (SGD if rng.random() < 0.5 else ADAM)(side, rng)


@fault("optimizer_state_lost", EVERY, "steps", prepare=with_memory, **{**STEPS, "steps": 5})
def optimizer_state_lost(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    left.rule.restart = 2
    return updated({"optimizer_state_lost"}, 3)


def ramp(step: int) -> float:
    """A warm-up over four steps."""
    return (step + 1) / 4


@fault(
    "schedule_off_by_one",
    EVERY,
    "steps",
    prepare=trained("sgd", lr=0.05, schedule=ramp),
    **{**STEPS, "steps": 4},
)
def schedule_off_by_one(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    left.rule.schedule = lambda step: step / 4
    return updated({"schedule_off_by_one"})


def half_start(side: Side, rng: np.random.Generator) -> None:
    """Both sides start from weights that bfloat16 holds exactly."""
    for parameter in side.net.parameters():
        parameter.data = parameter.data.to(torch.bfloat16).float()
    side.rule = Rule("sgd", lr=1e-2)


@fault("low_precision_master", EVERY, "steps", prepare=half_start, **STEPS)
def low_precision_master(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    left.rule.master = torch.bfloat16
    return updated({"low_precision_master"})


@fault("ema_weights", EVERY, "steps", prepare=SGD, **STEPS)
def ema_weights(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    left.state["ema"] = 0.9
    left.on_records.append(lambda records: averaged(records, 0.9))
    return updated({"ema_weights"})


def averaged(records: list[Any], keep: float) -> None:
    """Replace recorded parameters by their moving average over the steps."""
    kept: dict[str, np.ndarray] = {}
    for record in records:
        if record.site.role == "parameter" and record.site.direction == "forward":
            value = record.array.astype(np.float32)
            old = kept.get(record.name, value)
            kept[record.name] = keep * old + (1 - keep) * value
            record.array = kept[record.name].astype(record.array.dtype)


@fault("frozen_part", EVERY, "steps", prepare=SGD, **STEPS)
def frozen_by_rule(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    names = [name for name, _ in left.net.named_parameters()]
    chosen = pick(rng, names).rpartition(".")[0]
    left.rule.frozen = (chosen,)
    return Truth({chosen}, {"frozen_part"}, direction="forward", role="parameter", step=1)


@fault("stale_weights", EVERY, "steps", prepare=SGD, **STEPS)
def stale_weights(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    """An engine of its own that computes with the weights of the step before."""

    def late(records: list[Any]) -> None:
        values: dict[tuple[str, int], np.ndarray] = {
            (r.name, r.step): r.array
            for r in records
            if r.site.role == "parameter" and r.site.direction == "forward"
        }
        for record in records:
            if (record.name, record.step - 1) in values and (record.name, record.step) in values:
                record.array = values[record.name, record.step - 1]

    left.on_records.append(late)
    return updated({"stale_weights"})


@fault("recorder_inplace", ("resnet", "autoencoder", "recurrent"), "recorded")
def recorder_inplace(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    """The recorder kept references: what stood before an in-place ReLU is recorded after it."""
    path = pick(rng, left.find(nn.BatchNorm2d, nn.Linear, nn.Conv1d))

    def overwrite(records: list[Any]) -> None:
        for record in records:
            is_output = record.site.role == "output" and record.site.direction == "forward"
            if record.where == path and is_output:
                record.array = np.maximum(record.array, 0).astype(record.array.dtype)

    left.on_records.append(overwrite)
    return Truth({path}, {"recorder_inplace"}, direction="forward")


@fault("memory_corruption", EVERY)
def memory_corruption(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, left.find(nn.Linear, nn.Conv2d))
    m: Any = left.module(path)
    start = 64 * int(rng.integers(0, 4))
    fill = float(rng.choice([0.0, 1e3]))

    def forward(x: torch.Tensor) -> torch.Tensor:
        y = type(m).forward(m, x)
        place = torch.zeros(y.numel(), dtype=torch.bool)
        first = min(start, max(0, y.numel() - 64))
        place[first : first + 64] = True
        noise = fill * torch.randn(y.numel()) if fill else torch.zeros(y.numel())
        return torch.where(place.view(y.shape), noise.view(y.shape).to(y.dtype), y)

    patched(m, forward)
    return Truth({path}, {"memory_corruption"})
