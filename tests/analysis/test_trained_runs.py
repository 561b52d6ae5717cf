"""Folders of checkpoints with gradients beside them, as training loops of two nets write them."""

from __future__ import annotations

import numpy as np
import pytest

import troubleshooter_nb as tnb

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.torch


class Image(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.bn = nn.BatchNorm2d(8)
        self.fc = nn.Linear(8, 10)

    def forward(self, x):
        return self.fc(F.relu(self.bn(self.conv(x))).mean((2, 3)))

    @staticmethod
    def batches(steps, source):
        for _ in range(steps):
            yield torch.randn(8, 3, 8, 8, generator=source), torch.randint(0, 10, (8,))


class Text(nn.Module):
    """Its head is its embedding, and one layer is used by nobody."""

    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(30, 16)
        self.ln = nn.LayerNorm(16)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.spare = nn.Linear(16, 4)
        self.head = nn.Linear(16, 30, bias=False)
        self.head.weight = self.emb.weight

    def forward(self, x):
        x = self.emb(x)
        return self.head(x + self.mlp(self.ln(x))).transpose(1, 2)

    @staticmethod
    def batches(steps, source):
        for _ in range(steps):
            yield torch.randint(0, 30, (4, 9), generator=source), torch.randint(0, 30, (4, 9))


NETS = [Image, Text]


def trained(path, make, optimizer, *, saved="before", steps=4, change=None, after=None, only=""):
    """A folder of `step_<n>.pth` and `grads_<n>/`, which holds what the backward pass gave."""
    path.mkdir()
    torch.manual_seed(0)
    net, source = make(), torch.Generator().manual_seed(1)
    for name, one in net.named_parameters():
        one.requires_grad = name.startswith(only)
    rule = optimizer(net.parameters())

    def keep(step):
        torch.save(net.state_dict(), path / f"step_{step:04d}.pth")

    for step, (x, target) in enumerate(net.batches(steps, source)):
        if saved == "before":
            keep(step)
        rule.zero_grad()
        F.cross_entropy(net(x), target).backward()
        (path / f"grads_{step:04d}").mkdir()
        for name, one in net.named_parameters():
            if one.grad is not None:
                np.save(path / f"grads_{step:04d}" / f"{name}.npy", one.grad.numpy())
        if change is not None:
            change(net)
        rule.step()
        if after is not None:
            after(rule, step)
        if saved == "after":
            keep(step)
    if saved == "before":
        keep(steps)
    return path


def causes(tmp_path, make, left, right, ours=None, theirs=None, saved="before"):
    """Those above a half."""
    one = trained(tmp_path / "left", make, left, saved=saved, **ours or {})
    other = trained(tmp_path / "right", make, right, saved=saved, **theirs or {})
    comparison = tnb.compare(one, other, progress=False)
    return [f.cause for f in comparison.findings if f.confidence > 0.5], comparison


def sgd(**options):
    return lambda parameters: torch.optim.SGD(parameters, lr=0.05, **options)


def adam(**options):
    return lambda parameters: torch.optim.AdamW(parameters, **{"lr": 1e-2, **options})


def forgotten(rule, step):
    if step == 1:
        rule.state.clear()


PLANTED = {
    "clipping": (
        *(sgd(momentum=0.9), sgd(momentum=0.9)),
        {"change": lambda net: nn.utils.clip_grad_norm_(net.parameters(), 0.1)},
        "gradient_clipping",
    ),
    "clipping of values": (
        *(sgd(), sgd()),
        {"change": lambda net: nn.utils.clip_grad_value_(net.parameters(), 0.004)},
        "gradient_clipping",
    ),
    "state of momentum": (
        *(sgd(momentum=0.9), sgd(momentum=0.9), {"after": forgotten}),
        "optimizer_state_lost",
    ),
    "state of adam": (adam(), adam(), {"after": forgotten}, "optimizer_state_lost"),
    "dampening": (
        *(sgd(momentum=0.9, dampening=0.1), sgd(momentum=0.9), None),
        "momentum_convention",
    ),
    "decay": (adam(weight_decay=0.1), adam(weight_decay=0.0), None, "weight_decay_coupling"),
    "eps": (adam(eps=1e-4), adam(), None, "adam_epsilon_place"),
    "rate": (adam(lr=2e-2), adam(), None, "learning_rate"),
}


@pytest.mark.few(6)
@pytest.mark.parametrize("make", NETS)
@pytest.mark.parametrize("saved", [pytest.param("before", marks=pytest.mark.long), "after"])
@pytest.mark.parametrize("case", PLANTED)
def test_what_the_optimizer_did_otherwise_is_told(tmp_path, make, saved, case):
    left, right, ours, cause = PLANTED[case]
    found, _ = causes(tmp_path, make, left, right, ours, saved=saved)
    assert found == [cause]


def test_the_numbers_stand_in_the_sentence_and_no_others(tmp_path):
    left, right, ours, _ = PLANTED["dampening"]
    _, comparison = causes(tmp_path, Image, left, right, ours)
    first = comparison.first_divergence.row
    assert int(first["step"]) == 2
    assert "Left: momentum 0.9, dampening 0.1. Right: momentum 0.9, dampening 0." in str(
        comparison
    ).replace("\n", " ").replace("    ", "")
    (finding,) = comparison.findings
    assert not {"left_eps", "left_beta", "left_place"} & set(finding.evidence)


@pytest.mark.parametrize("make", NETS)
def test_all_but_one_layer_is_a_part_as_well(tmp_path, make):
    kept = "fc" if make is Image else "mlp"
    found, comparison = causes(tmp_path, make, sgd(), sgd(), {"only": kept})
    assert found == ["frozen_part"]
    assert comparison.findings[0].evidence["side"] == "left"


@pytest.mark.parametrize("make", NETS)
@pytest.mark.parametrize("rule", [sgd(momentum=0.9), adam()])
def test_a_rate_alone_freezes_nothing(tmp_path, make, rule):
    def slower(parameters):
        made = rule(parameters)
        for group in made.param_groups:
            group["lr"] *= 0.5
        return made

    found, _ = causes(tmp_path, make, slower, rule)
    assert found == ["learning_rate"]
