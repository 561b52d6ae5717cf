"""What `register_hook` takes and refuses, and what it changes."""

from __future__ import annotations

import random

import pytest

from troubleshooter_nb.compat.torch_npu.hooks import (
    register_hook,
    registration,
    set_dump_path,
    wrap_acc_cmp_hook,
    wrap_async_datadump_hook,
)
from troubleshooter_nb.errors import OptionError, TroubleshooterWarning

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("error", [AssertionError, TypeError])
def test_a_model_is_wanted(error):
    with pytest.raises(error, match=r"needs a torch.nn.Module, got function"):
        register_hook(lambda x: x, wrap_acc_cmp_hook)


@pytest.mark.parametrize("hook", [None, print, "wrap_acc_cmp_hook"])
def test_another_hook_is_refused_and_the_three_are_named(hook):
    with pytest.raises(TypeError, match="wrap_acc_cmp_hook, wrap_async_datadump_hook, wrap_check"):
        register_hook(nn.Module(), hook)


def test_an_unknown_keyword_is_refused_and_the_known_are_named():
    with pytest.raises(OptionError, match="no argument 'samples'; it has seed, sample, schedule"):
        register_hook(nn.Module(), wrap_acc_cmp_hook, samples=False)


def test_a_schedule_is_a_function():
    with pytest.raises(TypeError, match=r"such as schedule\(4, 10, 2\), not range"):
        register_hook(nn.Module(), wrap_acc_cmp_hook, schedule=range(3))


@pytest.mark.parametrize("capacity", [2, 2049, "3", True])
def test_a_capacity_of_old_is_refused(tmp_path, capacity):
    with pytest.raises(RuntimeError, match="from 3 to 2048"):
        register_hook(nn.Module(), wrap_async_datadump_hook, path=tmp_path, capacity=capacity)


@pytest.mark.parametrize("wrong", [{"schedule": 3}, {"unknown": 1}, {"seed": -1}, {"seed": "1234"}])
def test_what_is_refused_changes_nothing(tmp_path, wrong):
    set_dump_path(tmp_path / "op.pkl")
    first = register_hook(nn.Module(), wrap_acc_cmp_hook)
    random.seed(9)
    before = random.getstate()
    with pytest.raises((TypeError, ValueError)):
        register_hook(nn.Module(), wrap_acc_cmp_hook, **wrong)
    assert random.getstate() == before
    assert registration._hooks is first
    torch.neg(torch.eye(2))
    assert (tmp_path / "op.pkl").exists()


def test_everything_is_seeded_anew():
    drawn = []
    for _ in range(2):
        with register_hook(nn.Module(), wrap_acc_cmp_hook, schedule=lambda step: False):
            drawn.append((random.random(), torch.rand(2).tolist()))
    assert drawn[0] == drawn[1]
    with register_hook(nn.Module(), wrap_acc_cmp_hook, schedule=lambda step: False, seed=5):
        assert random.random() != drawn[0][0]


def test_the_asynchronous_dump_warns_once_that_it_is_none(tmp_path, monkeypatch, recwarn):
    monkeypatch.setattr(registration, "_has_warned", False)
    for _ in range(2):
        register_hook(nn.Module(), wrap_async_datadump_hook, path=tmp_path / "async")
    (warning,) = recwarn
    assert issubclass(warning.category, TroubleshooterWarning)
    assert "there is no queue of a device here" in str(warning.message)
    assert "\n" not in str(warning.message)
    assert warning.filename == __file__
    assert (tmp_path / "async").is_dir()
