"""Nets for the hooks, and what is known of their values without the hooks."""

from __future__ import annotations

import json
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn


def fixture_weights() -> dict[str, torch.Tensor]:
    """Input and weights of the net of ``module_full/bench.pkl``, as its maker draws them."""
    generator = torch.Generator().manual_seed(1234)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    drawn = {"w1": draw(7, 5) * 0.6, "b1": draw(7) * 0.3, "w2": draw(4, 7) * 0.6}
    drawn |= {"b2": draw(4) * 0.3, "x": draw(6, 5)}
    return {name: value.requires_grad_(name != "x") for name, value in drawn.items()}


class FixtureNet(nn.Module):
    """The net of ``module_full``: linear, relu, linear, softmax, max, cat, product and mean."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.relu = nn.Linear(5, 7), nn.Linear(7, 4), nn.ReLU()
        weights = fixture_weights()
        self.x = weights["x"]
        for layer, number in ((self.first, 1), (self.second, 2)):
            layer.weight.data = weights[f"w{number}"].detach()
            layer.bias.data = weights[f"b{number}"].detach()

    def forward(self) -> torch.Tensor:
        y = self.second(self.relu(self.first(self.x)))
        # As the maker calls it; nn.Softmax gives F.softmax its axis by name.
        s = F.softmax(y, -1)
        v, _ = y.max(1)
        loss = (torch.cat([y, s], 1) * 0.5).mean()
        return torch.add(loss, v.sum())


class Mixed(nn.Module):
    """Convolution, batch norm in training, an activation in place, attention and a loss."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.convolution = nn.Conv2d(2, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.activation = nn.ReLU(inplace=True)
        self.query, self.key, self.value = (nn.Linear(9, 6) for _ in range(3))
        self.head = nn.Linear(6, 3)
        self.to(dtype)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.activation(self.norm(self.convolution(images))).flatten(2)
        scores = torch.matmul(self.query(x), self.key(x).transpose(1, 2)) * 6**-0.5
        mask = torch.full((4, 4), float("-inf"), dtype=x.dtype).triu(1)
        mixed = torch.matmul(F.softmax(scores + mask, -1), self.value(x))
        return self.head(mixed.mean(1))


def images(step: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A batch for `Mixed`."""
    generator = torch.Generator().manual_seed(step)
    return torch.randn(2, 2, 3, 3, generator=generator).to(dtype)


class Known:
    """Values of a net's layers and their gradients, seen by torch's own hooks of modules."""

    def __init__(self, net: nn.Module) -> None:
        self.values: dict[tuple[str, str], torch.Tensor] = {}
        for name, layer in net.named_children():
            layer.register_forward_pre_hook(self._keeper(name, "input"))
            layer.register_forward_hook(self._keeper(name, "output"))

    def _keeper(self, name: str, what: str):
        def keep(layer: nn.Module, given: tuple, *output: torch.Tensor) -> None:
            tensor = output[0] if output else given[0]
            self.values[name, what] = tensor.detach().clone()
            if output and tensor.requires_grad:
                tensor.register_hook(self._gradient_keeper(name))

        return keep

    def _gradient_keeper(self, name: str):
        def keep(gradient: torch.Tensor) -> None:
            self.values[name, "gradient"] = gradient.detach().clone()

        return keep


def lines_of(file: Path) -> list[list]:
    """The lines as the documented script reads them."""
    with file.open() as dump:
        return [json.loads(line) for line in dump]


def named_lines(file: Path) -> dict[str, list[list]]:
    """The lines by name without number, each name's in the order of the file."""
    found: dict[str, list[list]] = {}
    for number, line in enumerate(lines_of(file)):
        before, _, name = line[0].partition("_")
        assert before == str(number)
        found.setdefault(name, []).append(line)
    return found
