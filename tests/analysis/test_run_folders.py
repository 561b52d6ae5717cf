"""Folders of checkpoints with gradients beside them: the causes of a training are asked."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import troubleshooter_nb as tnb

torch = pytest.importorskip("torch")

STEPS = 5


def trained(folder, *, saved, rate=0.05, decay=0.0, momentum=0.0, scale=1.0, **names):
    """Train a small net, saving weights and gradients of steps 1 to 5 as people do.

    `saved` says when the weights are: "before" the step of the optimizer, "after" it, or after it
    and once before the first ("around").
    """
    folder.mkdir(parents=True)
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4)
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=rate, weight_decay=decay, momentum=momentum)

    def keep(step):
        file = folder / names.get("weights", "step_{:04d}.pth").format(step)
        file.parent.mkdir(exist_ok=True)
        torch.save(net.state_dict(), file)

    if saved == "around":
        keep(0)
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        loss = (net(torch.randn(32, 8)) - torch.randn(32, 4)).square().mean()
        (scale * loss).backward()
        gradients = folder / names.get("gradients", "grads_{:04d}").format(step)
        gradients.mkdir(parents=True)
        for name, parameter in net.named_parameters():
            np.save(gradients / f"{name}.npy", parameter.grad.numpy())
        if saved == "before":
            keep(step)
        optimizer.step()
        if saved != "before":
            keep(step)
    return folder


def compared(tmp_path, **fault):
    names = {name: fault.pop(name) for name in ("weights", "gradients") if name in fault}
    saved = fault.pop("saved")
    left = trained(tmp_path / "left", saved=saved, **names, **fault)
    return tnb.compare(left, trained(tmp_path / "right", saved=saved, **names))


@pytest.mark.parametrize("saved", ["before", "around", "after"])
@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        ({"rate": 0.1}, "learning_rate"),
        ({"decay": 0.1}, "weight_decay_coupling"),
        ({"scale": 4.0}, "loss_reduction"),
    ],
)
def test_a_fault_of_training_is_found_whenever_weights_are_saved(tmp_path, saved, fault, cause):
    cmp = compared(tmp_path, saved=saved, **fault)
    assert cmp.findings[0].cause == cause
    assert cmp.findings[0].confidence > 0.9


@pytest.mark.parametrize(
    ("weights", "gradients"),
    [
        ("checkpoint-{}/pytorch_model.bin", "grads/{}"),
        ("epoch_{}.ckpt", "epoch_{}_grads"),
        ("global_step{}/model.pt", "gradients/step_{}"),
    ],
)
def test_other_names_of_steps_are_as_good(tmp_path, weights, gradients):
    cmp = compared(tmp_path, saved="around", rate=0.1, weights=weights, gradients=gradients)
    assert cmp.findings[0].cause == "learning_rate"


@pytest.mark.parametrize("saved", ["before", "around", "after"])
def test_equal_trainings_have_no_cause(tmp_path, saved):
    cmp = compared(tmp_path, saved=saved)
    assert not cmp.findings
    assert cmp.verdict.startswith("✓")


def test_a_momentum_is_known_behind_its_first_step_by_the_gradients_of_that(tmp_path):
    left = trained(tmp_path / "left", saved="after", rate=0.1, momentum=0.9)
    right = trained(tmp_path / "right", saved="after", momentum=0.9)
    (finding,) = tnb.compare(left, right).findings
    assert finding.cause == "learning_rate"
    assert finding.evidence["ratio"] == pytest.approx(2, rel=1e-4)
    assert finding.evidence["left_momentum"] == pytest.approx(0.9, rel=1e-4)
    # Without them the state is unknown: silence is better than a rate that is not one.
    for side in (left, right):
        shutil.rmtree(side / "grads_0001")
    cmp = tnb.compare(left, right)
    assert [one.cause for one in cmp.findings if one.confidence > 0.5] == []
