"""Plants faults, exports the call of each as a reproduction, and runs that in a fresh process.

A reproduction holds where its script shows that the sides differ, and computes each side again as
it was stored (of layers with a formula). Run: python benchmarks/reproductions.py; ``-v`` shows what
each prints, ``--quick`` takes every fifth. Exits 1 when a bar is missed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from measuring.bars import Bar, Case, concluded
from torch import nn

import troubleshooter_nb as tnb


class Net(nn.Module):
    """A network of one layer in its place."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.body = nn.ModuleDict({"layer": layer})

    def forward(self, *data: torch.Tensor) -> Any:
        """What the layer gives."""
        made = self.body["layer"](*data)
        return made[0] if isinstance(made, tuple) else made


class Scaled(nn.Module):
    """A layer of nobody's table."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The input, scaled."""
        return x * self.scale


def change(layer: nn.Module, edit: Callable[[Any], object]) -> nn.Module:
    """A layer after its weights were changed."""
    with torch.no_grad():
        edit(layer)
    return layer


def transposed(layer: Any) -> None:
    """A square weight that was not transposed."""
    layer.weight.copy_(layer.weight.T.clone())


def flipped(layer: Any) -> None:
    """A kernel of the other orientation."""
    layer.weight.copy_(layer.weight.flip(-1))


def shifted(layer: Any) -> None:
    """Rows that are one too far."""
    layer.weight.copy_(layer.weight.roll(1, 0))


def no_first(layer: Any) -> None:
    """A row for padding."""
    layer.weight[0] = 0


def spread(layer: Any) -> None:
    """Statistics as after some training."""
    layer.running_mean.uniform_(-1, 1)
    layer.running_var.uniform_(0.5, 2)


Make = Callable[[], nn.Module]
ROWS = (4, 6)
IMAGES = (2, 4, 7, 7)
IDS = (3, 5)
FAULTS: dict[str, tuple[Make, Make, tuple[int, ...]]] = {
    "layer_norm eps": (lambda: nn.LayerNorm(6, eps=1e-1), lambda: nn.LayerNorm(6), ROWS),
    "rms_norm eps": (lambda: nn.RMSNorm(6, eps=1e-1), lambda: nn.RMSNorm(6, eps=1e-6), ROWS),
    "group_norm groups": (lambda: nn.GroupNorm(1, 4), lambda: nn.GroupNorm(2, 4), IMAGES),
    "batch_norm eps": (lambda: nn.BatchNorm2d(4, eps=0.1), lambda: nn.BatchNorm2d(4), IMAGES),
    "batch_norm momentum": (
        lambda: nn.BatchNorm2d(4, momentum=0.9),
        lambda: nn.BatchNorm2d(4),
        IMAGES,
    ),
    "batch_norm mode": (
        lambda: change(nn.BatchNorm2d(4), spread),
        lambda: change(nn.BatchNorm2d(4), spread).eval(),
        IMAGES,
    ),
    "conv padding": (
        lambda: nn.Conv2d(4, 4, 3, padding=1),
        lambda: nn.Conv2d(4, 4, 3),
        IMAGES,
    ),
    "conv padding mode": (
        lambda: nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"),
        lambda: nn.Conv2d(4, 4, 3, padding=1),
        IMAGES,
    ),
    "conv dilation": (
        lambda: nn.Conv2d(4, 4, 3, padding=2, dilation=2),
        lambda: nn.Conv2d(4, 4, 3, padding=1),
        IMAGES,
    ),
    "conv stride": (
        lambda: nn.Conv2d(4, 4, 3, stride=2),
        lambda: nn.Conv2d(4, 4, 3),
        IMAGES,
    ),
    "conv groups": (
        lambda: nn.Conv2d(4, 4, 3, groups=2),
        lambda: nn.Conv2d(4, 4, 3, groups=4),
        IMAGES,
    ),
    "conv kernel flipped": (
        lambda: change(nn.Conv2d(4, 4, 3), flipped),
        lambda: nn.Conv2d(4, 4, 3),
        IMAGES,
    ),
    "linear transposed": (
        lambda: change(nn.Linear(6, 6), transposed),
        lambda: nn.Linear(6, 6),
        ROWS,
    ),
    "linear bias missing": (lambda: nn.Linear(6, 5, bias=False), lambda: nn.Linear(6, 5), ROWS),
    "gelu tanh": (lambda: nn.GELU("tanh"), lambda: nn.GELU(), ROWS),
    "another activation": (lambda: nn.SiLU(), lambda: nn.GELU(), ROWS),
    "leaky slope": (lambda: nn.LeakyReLU(0.2), lambda: nn.LeakyReLU(), ROWS),
    "elu alpha": (lambda: nn.ELU(0.5), lambda: nn.ELU(), ROWS),
    "softmax axis": (lambda: nn.Softmax(0), lambda: nn.Softmax(-1), ROWS),
    "log_softmax axis": (lambda: nn.LogSoftmax(0), lambda: nn.LogSoftmax(-1), ROWS),
    "embedding padding": (
        lambda: change(nn.Embedding(9, 6), no_first),
        lambda: nn.Embedding(9, 6),
        IDS,
    ),
    "embedding shifted": (
        lambda: change(nn.Embedding(9, 6), shifted),
        lambda: nn.Embedding(9, 6),
        IDS,
    ),
    "bfloat16": (lambda: nn.Linear(6, 6).bfloat16(), lambda: nn.Linear(6, 6), ROWS),
    "max_pool padding": (
        lambda: nn.MaxPool2d(3, 1, padding=1),
        lambda: nn.MaxPool2d(3, 1),
        IMAGES,
    ),
    "unknown class": (lambda: Scaled(1.1), lambda: Scaled(1.0), ROWS),
}


def recorded(make: Make, data: torch.Tensor) -> tnb.Dump:
    """What one call of the layer gives."""
    torch.manual_seed(1)
    layer = make()
    lead = next(layer.parameters(), torch.empty(0))
    net = Net(layer)
    with tnb.record(net, gradients=False) as rec:
        net(data.to(lead.dtype) if data.is_floating_point() else data)
    return rec.dump


def reproduced(name: str, folder: Path) -> str:
    """What the script of a fault prints."""
    left, right, shape = FAULTS[name]
    torch.manual_seed(0)
    data = torch.randint(0, 9, shape) if shape is IDS else torch.randn(shape)
    cmp = tnb.compare(recorded(left, data), recorded(right, data))
    tnb.export_reproduction(cmp, "body.layer", folder)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "reproduce.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def judged(text: str) -> tuple[bool, int, int]:
    """Whether a difference is shown, and how many sides were computed again and rightly so."""
    shown = re.search(r"(stored output .*differ|setting |on the (left|right) only)", text)
    again = re.findall(r"computed again against what is stored: (.*)", text)
    right = 0
    for what in again:
        relative = re.search(r"relative (\S+)", what)
        right += what == "equal" or (relative is not None and float(relative[1]) < 1e-2)
    return bool(shown) and "Traceback" not in text, right, len(again)


def main() -> int:
    """One line per fault; 0 when all are shown and computed again as they are stored."""
    shown = agree = again = 0
    chosen = list(FAULTS)[:: 5 if "--quick" in sys.argv else 1]
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(chosen):
            text = reproduced(name, Path(folder) / str(number))
            is_shown, right, count = judged(text)
            shown, agree, again = shown + is_shown, agree + right, again + count
            print(f"{'shown' if is_shown else 'NOT  '} {right}/{count} again  {name}", flush=True)
            if not is_shown or right < count or "-v" in sys.argv:
                print("    " + text.replace("\n", "\n    "))
    bars = (
        Bar("show their difference in a process of their own", shown, least=len(chosen)),
        Bar("sides computed again as they are stored", agree, least=again),
    )
    return concluded([Case(f"{len(chosen)} planted faults", bars=bars)])


if __name__ == "__main__":
    sys.exit(main())
