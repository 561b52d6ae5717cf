"""How long a dump of msprobe with a real fault takes to be compared and explained.

Six Linear(1024) over 4,096 rows, recorded by torch in msprobe's files, forward and backward: 0.9 GB
on both sides. The left run sums in another order; then it lacks a bias in the middle besides, so
that half of the network and all gradients carry an error whose place and cause are looked for.
Exits 1 when a bar is missed. ``--quick`` takes Linear(64) over 256 rows.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path

import torch
from measuring import alternating, fewest_cpu
from measuring.bars import BY_HAND, DEFAULT, FLOOR, OLD, PLAIN, Bar, Case, concluded
from measuring.byhand import Pairs, only_read, plain_numpy, troubleshooter
from measuring.recording import Recorder
from torch import nn

import troubleshooter_nb as tnb

LAYERS, FAULTY = 6, 3
WIDTH, ROWS = 1024, 4096
QUICK_WIDTH, QUICK_ROWS = 64, 256
ROUNDS, ROUNDS_BY_HAND = 3, 1
BAR = 2.0  # time by default over that without diagnosis, at most
CAUSE = "bias_missing"


class Linear(nn.Linear):
    """A linear layer whose kernel may sum the halves of a row apart, and may lack its bias."""

    def __init__(self, width: int, *, in_halves: bool, adds_bias: bool) -> None:
        super().__init__(width, width)
        self.in_halves, self.adds_bias = in_halves, adds_bias
        nn.init.normal_(self.bias, std=0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rows of `x` times the weight, and the bias."""
        if not self.in_halves:
            return super().forward(x)
        half = self.in_features // 2
        made = x[:, :half] @ self.weight[:, :half].T + x[:, half:] @ self.weight[:, half:].T
        return made + self.bias if self.adds_bias else made


class Net(nn.Module):
    """Linear layers one after the other."""

    def __init__(self, width: int, *, in_halves: bool, without_bias: int | None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            Linear(width, in_halves=in_halves, adds_bias=n != without_bias) for n in range(LAYERS)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """What the last layer gives."""
        for layer in self.layers:
            x = layer(x)
        return x


def recorded(
    folder: Path, width: int, rows: int, *, in_halves: bool, without_bias: int | None = None
) -> Path:
    """One step of a network with the weights and the input that all share."""
    torch.manual_seed(0)
    net = Net(width, in_halves=in_halves, without_bias=without_bias)
    recorder = Recorder(net, folder)
    with warnings.catch_warnings():
        # The network's input needs no gradient; msprobe's hooks are warned of it as well.
        warnings.simplefilter("ignore")
        net(torch.randn(rows, width)).square().mean().backward()
    recorder.write()
    return folder


def pairs(left: Path, right: Path) -> Pairs:
    """Tensors of the same name, loaded with torch."""
    for file in sorted(left.rglob("*.pt")):
        yield torch.load(file).numpy(), torch.load(right / file.relative_to(left)).numpy()


def compared(name: str, left: Path, right: Path, cause: str) -> Case:
    """All ways over one recording."""
    ways = {
        DEFAULT: lambda: tnb.compare(left, right, progress=False),
        PLAIN: lambda: tnb.compare(left, right, diagnose=False, progress=False),
        BY_HAND: lambda: plain_numpy(pairs(left, right)),
        OLD: lambda: troubleshooter(pairs(left, right)),
        FLOOR: lambda: only_read(left, right),
    }
    rounds = dict.fromkeys(ways, ROUNDS) | {BY_HAND: ROUNDS_BY_HAND, OLD: ROUNDS_BY_HAND}
    cpu = fewest_cpu(alternating(ways, rounds))
    size = sum(file.stat().st_size for side in (left, right) for file in side.rglob("*.pt"))
    causes = [finding.cause for finding in tnb.compare(left, right, progress=False).findings]
    bars = [Bar("default over diagnose=False", cpu[DEFAULT] / cpu[PLAIN], most=BAR)]
    if cause:
        bars.append(Bar("findings that name the fault", causes.count(cause), least=1))
    bars.append(Bar("other findings", len(causes) - causes.count(cause), most=0))
    return Case(f"compare msprobe dump of {size / 1e9:.2g} GB, {name}", cpu, bars)


def main() -> int:
    """Print the table; 0 when the bars are met."""
    quick = "--quick" in sys.argv[1:]
    size = (QUICK_WIDTH, QUICK_ROWS) if quick else (WIDTH, ROWS)
    with tempfile.TemporaryDirectory() as folder:
        right = recorded(Path(folder, "right"), *size, in_halves=False)
        noisy = recorded(Path(folder, "noisy"), *size, in_halves=True)
        faulty = recorded(Path(folder, "faulty"), *size, in_halves=True, without_bias=FAULTY)
        cases = [
            compared("noise", noisy, right, ""),
            compared("a bias dropped", faulty, right, CAUSE),
        ]
    return concluded(cases)


if __name__ == "__main__":
    sys.exit(main())
