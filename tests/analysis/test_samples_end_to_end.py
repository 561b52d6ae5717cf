"""Samples and given calls through `compare` and `pair_dumps`, with nothing but the two dumps."""

from __future__ import annotations

from pathlib import Path

import pytest

from troubleshooter_nb import compare, open_dump, pair_dumps

DATA = Path(__file__).parents[1] / "data" / "torch_npu_hooks"


def test_compare_of_a_sampled_and_a_full_dump_needs_no_more_than_the_two():
    left, right = DATA / "module_sampled" / "npu.pkl", DATA / "module_full" / "bench.pkl"
    comparison = compare(left, right)
    assert comparison.pairing.matched == len(comparison.pairing) == 90
    expected = compare(left, DATA / "module_sampled" / "bench.pkl").to_dataframe()
    assert comparison.to_dataframe()["verdict"].tolist() == expected["verdict"].tolist()


def test_a_pairing_with_first_values_fits_the_dumps_it_was_made_from():
    left, right = (
        open_dump(DATA / "module_sampled" / "npu.pkl"),
        open_dump(DATA / "module_full" / "npu.pkl"),
    )
    pairing = pair_dumps(left, right)
    for dumps in ((left, right), (pairing.left, pairing.right)):
        assert len(compare(*dumps, pairing=pairing).to_dataframe()) == 90


@pytest.mark.parametrize("swapped", [False, True])
def test_the_rest_of_a_call_follows_a_pair_of_a_mapping(swapped):
    sides = [open_dump(DATA / "fused_op" / f"{side}.pkl") for side in ("npu", "bench")]
    given = "8_Torch_matmul_forward_input.0", "8_Functional_linear_forward_input.0"
    if swapped:
        sides, given = sides[::-1], given[::-1]
    without, pairing = pair_dumps(*sides), pair_dumps(*sides, mapping=[given])
    assert pairing.matched == without.matched == 89
    rows = {row["left"]: row for row in pairing.to_dataframe().to_dict("records")}
    assert (rows[given[0]]["right"], rows[given[0]]["method"]) == (given[1], "user")
    output = ["13_Torch_add_forward_output", "11_Functional_linear_forward_output"]
    output = output[::-1] if swapped else output
    assert rows[output[0]]["right"] == output[1]
    assert "follows the given pair" in rows[output[0]]["note"]


@pytest.mark.parametrize("method", ["name", "order", "shape"])
def test_a_given_pair_stays_whatever_the_method(method):
    dumps = [open_dump(DATA / "module_sampled" / f"{side}.pkl") for side in ("npu", "bench")]
    given = "4_Torch_relu_forward_input.0", "5_Torch_relu_forward_output"
    rows = pair_dumps(*dumps, method=method, mapping=[given]).to_dataframe().set_index("left")
    assert (rows.loc[given[0], "right"], rows.loc[given[0], "method"]) == (given[1], "user")


def test_a_sample_without_a_partner_says_what_it_is():
    sides = (DATA / "same_name_extra" / f"{side}.pkl" for side in ("npu", "bench"))
    table = compare(*sides, diagnose=False).to_dataframe()
    alone = table[(table["verdict"] == "missing") & table["passed"]]
    assert len(alone) == 8
    assert set(alone["detail"]) == {"sample of a tensor that has no partner"}
