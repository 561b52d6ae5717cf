"""One side of a pair: a network, its batches and how it is trained; running it gives records."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from faulty.capture import FolderRecorder, Record, Recorder


@dataclass
class Rule:
    """How parameters are updated, with the choices that differ between optimizers."""

    kind: str = "none"
    lr: float = 1e-2
    decay: float = 0.0
    is_decoupled: bool = False
    decays_vectors: bool = True
    momentum: float = 0.9
    dampening: float = 0.0
    nesterov: bool = False
    betas: tuple[float, float] = (0.9, 0.99)
    eps: float = 1e-8
    eps_inside: bool = False
    corrects_bias: bool = True
    square_start: float = 0.0
    # Factor of the rate at each step.
    schedule: Callable[[int], float] = lambda step: 1.0
    # Parameters are kept in this dtype between steps.
    master: torch.dtype | None = None
    ema: float = 0.0
    frozen: tuple[str, ...] = ()
    # Limits of the norm of all gradients, and of each of their values; 0 for none.
    clip_norm: float = 0.0
    clip_value: float = 0.0
    # Step before which the optimizer loses what it remembers; 0 for none.
    restart: int = 0


@dataclass
class Side:
    """A network and everything that a fault may change about its run."""

    net: nn.Module
    family: str
    batches: list[tuple[tuple[Any, ...], torch.Tensor]]
    is_training: bool = False
    rule: Rule = field(default_factory=Rule)
    loss_factor: float = 1.0
    # Called with the net and the step after the backward pass, before the update.
    on_gradients: list[Callable[[nn.Module, int], None]] = field(default_factory=list)
    before_step: list[Callable[[Side, int], None]] = field(default_factory=list)
    on_records: list[Callable[[list[Record]], None]] = field(default_factory=list)
    # What the rule remembers, and switches of a run.
    state: dict[str, Any] = field(default_factory=dict)

    def copied(self) -> Side:
        """The same side with a network of its own."""
        return Side(
            copy.deepcopy(self.net),
            self.family,
            [(tuple(inputs), target) for inputs, target in self.batches],
            self.is_training,
            copy.copy(self.rule),
        )

    def module(self, path: str) -> nn.Module:
        """A module by its path."""
        return self.net.get_submodule(path)

    def find(self, *kinds: type) -> list[str]:
        """Paths of the modules of these classes."""
        return [path for path, module in self.net.named_modules() if isinstance(module, kinds)]

    def run(
        self,
        level: str,
        backward_order: bool,
        has_gradients: bool = True,
        to: Path | None = None,
    ) -> list[Record]:
        """Records of all steps; values of parameters are those before each step.

        With `to` they are what `tnb.record` writes into this folder.
        """
        if to is not None:
            recorder: Recorder = FolderRecorder(self.net, level, to)
        else:
            recorder = Recorder(self.net, level, not self.state.get("forward_only"))
        self.net.train(self.is_training)
        for step, (inputs, target) in enumerate(self.batches):
            for change in self.before_step:
                change(self, step)
            self.net.zero_grad(set_to_none=True)
            torch.manual_seed(1000 + step + self.state.get("seed", 0))
            with recorder.during(step):
                output = self.net(*inputs)
                if has_gradients:
                    (self.loss(output, target) * self.loss_factor).backward()
            if not has_gradients:
                continue
            for change in self.on_gradients:
                change(self.net, step)
            recorder.keep_gradients(backward_order)
            if self.rule.kind != "none":
                update(self, step)
        recorder.finish()
        for change in self.on_records:
            change(recorder.records)
        return recorder.records

    def loss(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Cross entropy or, for images, the mean square; in float32."""
        output = output.float()
        if self.family == "autoencoder":
            return F.mse_loss(output, target[..., : output.shape[-2], : output.shape[-1]])
        return F.cross_entropy(
            output.reshape(-1, output.shape[-1])[: target.numel()], target.reshape(-1)
        )


@torch.no_grad()
def update(side: Side, step: int) -> None:
    """One step of the rule."""
    rule = side.rule
    rate = rule.lr * rule.schedule(step)
    if rule.restart and step == rule.restart:
        side.state = {key: kept for key, kept in side.state.items() if key[:2] not in ("m.", "v.")}
    since = step - rule.restart if step >= rule.restart else step
    factor = min(1.0, rule.clip_norm / norm_of_gradients(side.net)) if rule.clip_norm else 1.0
    for name, parameter in side.net.named_parameters():
        if parameter.grad is None or name.startswith(rule.frozen or ("\0",)):
            continue
        decay = rule.decay if rule.decays_vectors or parameter.dim() > 1 else 0.0
        gradient = factor * parameter.grad.float()
        if rule.clip_value:
            gradient = gradient.clamp(-rule.clip_value, rule.clip_value)
        value = parameter.float()
        if decay and rule.is_decoupled:
            value = value * (1 - rate * decay)
        elif decay:
            gradient = gradient + decay * value
        value = value - rate * direction(rule, side.state, name, gradient, since)
        if rule.master is not None:
            value = value.to(rule.master).float()
        parameter.copy_(value)


def direction(
    rule: Rule, state: dict[str, Any], name: str, gradient: torch.Tensor, step: int
) -> torch.Tensor:
    """What is subtracted, over the rate."""
    if rule.kind == "sgd":
        kept = state.get(f"m.{name}")
        kept = gradient if kept is None else rule.momentum * kept + (1 - rule.dampening) * gradient
        state[f"m.{name}"] = kept
        return gradient + rule.momentum * kept if rule.nesterov else kept
    first, second = rule.betas
    mean = state.get(f"m.{name}", torch.zeros_like(gradient))
    square = state.get(f"v.{name}", torch.full_like(gradient, rule.square_start))
    mean = first * mean + (1 - first) * gradient
    square = second * square + (1 - second) * gradient**2
    state[f"m.{name}"], state[f"v.{name}"] = mean, square
    if rule.corrects_bias:
        mean = mean / (1 - first ** (step + 1))
        square = square / (1 - second ** (step + 1))
    if rule.eps_inside:
        return mean / torch.sqrt(square + rule.eps)
    return mean / (torch.sqrt(square) + rule.eps)


def patched(module: nn.Module, forward: Callable[..., Any]) -> None:
    """Give one module another forward; its class, its name and its parameters stay."""
    module.forward = forward  # type: ignore[method-assign]


def norm_of_gradients(net: nn.Module) -> float:
    """Global norm."""
    squares = [float(p.grad.float().square().sum()) for p in net.parameters() if p.grad is not None]
    return math.sqrt(sum(squares))
