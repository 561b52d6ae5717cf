"""What our own comparison says of the dumps that msprobe's tables are of."""

import collections

import pytest

import troubleshooter_nb as tnb
from tests.compat.msprobe.compare.tables_of_peers import MAPS

T, S, P = "v26_2_0/torch/", "v26_2_0/mindspore/", "/step0/proc1000"
METRIC = "v26_2_0/metric_cases/"


@pytest.fixture
def compared(dumps):
    def run(left, right, mapping=None, **options):
        if mapping:
            options["mapping"] = MAPS / mapping
        return tnb.compare(dumps / left, dumps / right, **options)

    return run


def verdicts(found):
    return collections.Counter(found.result["verdict"].values.tolist())


def first(found):
    return found.first_divergence and str(found.first_divergence.row["left_display"].values)


@pytest.mark.parametrize(
    ("left", "right", "mapping", "counts", "place"),
    [
        # 34, 36: 32 rows differ, and the weight that was changed is named.
        (T + "t_mlp_mix_tensorB" + P, T + "t_mlp_mix_tensor" + P, None, (32, 13), "fc1.weight"),
        (T + "t_mlp_mix_md5B" + P, T + "t_mlp_mix_md5" + P, None, (32, 13), "fc1.weight"),
        # 37
        (S + "m_mlp_mix_tensorB" + P, S + "m_mlp_mix_tensor" + P, None, (46, 22), "fc1.weight"),
        # 40: the layers behind the injected inputs are equal.
        (T + "v_load" + P, T + "t_mlp_L0_tensor" + P, None, (4, 10), "fc1.weight"),
        # 42
        ("kernel_real/b", "kernel_real/a", None, (11, 14), "fc1_weight.0"),
        # 43: statistics that are 60 % off pass the old rule.
        ("kernel_synthetic/npu_stat", "kernel_synthetic/bench_stat", None, (6, 0), None),
        # 38: one more call in front shifts numbers, with and without being told.
        (T + "t_fuzzy_1" + P, T + "t_fuzzy_0" + P, None, (0, 35), None),
        # 44, 46, 51: two frameworks, with a mapping and without.
        (S + "m_mlp_L0_tensor" + P, T + "t_mlp_L0_tensor" + P, "maps_cell.yaml", (0, 19), None),
        (S + "m_mlp_L0_tensor" + P, T + "t_mlp_L0_tensor" + P, None, (0, 19), None),
        (S + "m_mlp_mix_tensor" + P, T + "t_mlp_mix_tensor" + P, None, (0, 40), None),
        # 50: the mapping as documented, and as a list.
        (S + "m_mlp_L1_tensor" + P, T + "t_mlp_L1_tensor" + P, "maps_api_dict.yaml", (0, 21), None),
        (S + "m_mlp_L1_tensor" + P, T + "t_mlp_L1_tensor" + P, "maps_api_list.yaml", (0, 21), None),
        # 53
        (S + "m_save_tensor" + P, T + "t_save_tensor" + P, None, (0, 5), None),
        # 54
        (
            "v26_2_0/msadapter_like/step0/rank",
            T + "t_mlp_mix_tensor" + P,
            None,
            (32, 13),
            "fc1.weight",
        ),
    ],
)
def test_rows_that_differ_and_where_it_begins(compared, left, right, mapping, counts, place):
    found = compared(left, right, mapping)
    seen = verdicts(found)
    assert (seen["differs"], seen["identical"] + seen["pass"]) == counts
    if place:
        assert first(found) == place


def test_a_pair_that_is_wrong_on_purpose_is_found_out(compared):
    """Case 48: a product without its bias is mapped to a linear layer."""
    found = compared(S + "m_mlp_L1_tensor" + P, T + "t_mlp_L1_tensor" + P, "maps_data.yaml")
    assert [finding.cause for finding in found.findings] == ["bias_missing"]


def test_a_gradient_of_another_definition_is_no_difference(compared):
    """Case 49."""
    found = compared(
        S + "m_mlp_L1_tensor" + P, T + "t_mlp_L1_tensor" + P, "maps_api_list_output.yaml"
    )
    row = found["Functional.cross_entropy.0.backward.output.0"].row
    assert str(row["verdict"].values) == "undecidable"
    assert "defined differently" in str(row["reason"].values)


def test_statistics_that_agree_prove_nothing(compared):
    """Case 57: order and signs may differ."""
    found = compared(METRIC + "target_stat", METRIC + "golden_stat")
    reasons = dict(zip(found.result["left"].values, found.result["reason"].values, strict=True))
    said = reasons["Functional.same.0.forward.output.0"]
    assert "order and signs may differ" in said


def test_means_of_two_frameworks_are_no_findings(compared):
    """Case 59: their last digits differ."""
    paths = S + "m_mlp_mix_statistics" + P, T + "t_mlp_mix_statistics" + P
    seen = verdicts(compared(*paths))
    assert not seen["differs"]
    assert seen["undecidable"] == 41


@pytest.mark.parametrize(
    ("name", "verdict", "error"),
    [
        ("inf_opposite_sign", "nan", 0),  # case 20
        ("nan_other_place", "nan", None),
        ("shape_differs", "shape", None),
        ("tiny_values", "pass", 1e-20),  # case 26: not hidden by rounding
    ],
)
def test_edges_of_figures(compared, name, verdict, error):
    found = compared(METRIC + "target", METRIC + "golden")
    row = found[f"Functional.{name}.0.forward.output.0"].row
    assert str(row["verdict"].values) == verdict
    if error is not None:
        assert float(row["max_abs_error"]) == pytest.approx(error, rel=1e-5)


def test_a_path_may_have_dots_blanks_and_other_scripts(dumps, tmp_path):
    """Case 61."""
    folder = tmp_path / "v1.2 的 dump.d"
    folder.mkdir()
    for name in ("t_mlp_mix_tensorB", "t_mlp_mix_tensor"):
        (folder / name).symlink_to(dumps / f"{T}{name}")
    found = tnb.compare(folder / "t_mlp_mix_tensorB", folder / "t_mlp_mix_tensor")
    assert first(found) == "fc1.weight"
