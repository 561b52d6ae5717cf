"""Steps and ranks in the names of a run's files and folders."""

from __future__ import annotations

import pytest

from troubleshooter_nb.naming.run_files import (
    DumperName,
    parse_dumper_name,
    rank_of_file,
    step_of_name,
)


@pytest.mark.parametrize(
    ("name", "rest", "step", "said"),
    [
        ("step_0001", "", 1, True),
        ("checkpoint-100", "", 100, True),
        ("epoch_1", "", 1, True),
        ("epoch=3-step=40", "epoch=3", 40, True),
        ("global_step20", "", 20, True),
        ("grads_0001", "grads", 1, True),
        ("grads_step_7", "grads", 7, True),
        ("step_3_grads", "grads", 3, True),
        ("0003_grads", "grads", 3, True),
        ("step_3_rank_1", "rank_1", 3, True),
        ("net-12", "net", 12, False),
        ("0005", "", 5, False),
        ("net-3_20", "net", 20, True),
    ],
)
def test_the_step_of_a_name(name, rest, step, said):
    found = step_of_name(name)
    assert found is not None
    assert (found.rest, found.step, found.is_said) == (rest, step, said)


@pytest.mark.parametrize(
    "name",
    ["best", "layer_3", "model_v2", "rank_1", "model-00001-of-00002", "mp_rank_00", "blocks.3"],
)
def test_other_numbers_are_no_steps(name):
    assert step_of_name(name) is None


@pytest.mark.parametrize(
    ("stem", "rank"),
    [
        ("mp_rank_03_model_states", 3),
        ("zero_pp_rank_1_mp_rank_00_optim_states", 0),
        ("x_rank_2", 2),
        ("frank_2", None),
        ("model", None),
    ],
)
def test_the_rank_of_a_file(stem, rank):
    assert rank_of_file(stem) == rank


def test_the_fields_of_sglangs_dumper():
    stem = "forward_pass_id=5___rank=1___dump_index=7___name=grad__attn_out___layer_id=3"
    assert parse_dumper_name(stem) == DumperName("layer_id.3.attn_out", 5, 1, 7, True)
    assert parse_dumper_name("a=1___b=2") is None
    assert parse_dumper_name("step=x___rank=1___dump_index=7___name=h") is None
