"""Networks of torch give the names, the order and the figures of the tool itself, per release."""

import pytest

from tests.compat.msprobe.conftest import SCRIPTS, dumps_in, expected_of
from tests.compat.msprobe.held import hold, hold_files

pytestmark = pytest.mark.torch

RELEASES = {"v26_2_0": "26.2", "v8_3_3": "8.3", "v1_2_2": "1.2"}
MD5 = '{"summary_mode": "md5"}'


def dump(net, level, task, *more):
    return ("torch_dump.py", "--net", net, "--level", level, "--task", task, *more)


# Release, expected dump, script and its arguments but for the folder.
CASES = [
    ("v26_2_0", "t_mlp_L0_tensor", *dump("mlp", "L0", "tensor")),
    ("v26_2_0", "t_mlp_L1_tensor", *dump("mlp", "L1", "tensor")),
    ("v26_2_0", "t_mlp_mix_tensor", *dump("mlp", "mix", "tensor")),
    ("v26_2_0", "t_mlp_L0_stat", *dump("mlp", "L0", "statistics")),
    ("v26_2_0", "t_mlp_L1_stat", *dump("mlp", "L1", "statistics")),
    ("v26_2_0", "t_mlp_mix_statistics", *dump("mlp", "mix", "statistics")),
    ("v26_2_0", "t_mlp_L0_md5", *dump("mlp", "L0", "statistics", "--sub", MD5)),
    ("v26_2_0", "t_mlp_L1_md5", *dump("mlp", "L1", "statistics", "--sub", MD5)),
    ("v26_2_0", "t_mlp_mix_md5", *dump("mlp", "mix", "statistics", "--sub", MD5)),
    ("v26_2_0", "t_mlp_2step", *dump("mlp", "mix", "statistics", "--steps", "2")),
    ("v26_2_0", "t_conv_L0_tensor", *dump("conv", "L0", "tensor")),
    ("v26_2_0", "t_conv_mix_statistics", *dump("conv", "mix", "statistics")),
    ("v26_2_0", "t_tf_L0_tensor", *dump("tf", "L0", "tensor")),
    ("v26_2_0", "t_tf_L1_jsononly", *dump("tf", "L1", "tensor")),
    ("v26_2_0", "v_structure", *dump("mlp", "mix", "structure")),
    ("v26_2_0", "v_listmodel", *dump("mlp", "L0", "statistics", "--listmodel")),
    ("v26_2_0", "v_tlist", *dump("mlp", "L1", "statistics", "--sub", '{"tensor_list": ["relu"]}')),
    ("v8_3_3", "t_mlp_L0_tensor", *dump("mlp", "L0", "tensor")),
    ("v8_3_3", "t_mlp_mix_tensor", *dump("mlp", "mix", "tensor")),
    ("v8_3_3", "t_mlp_mix_statistics", *dump("mlp", "mix", "statistics")),
    ("v8_3_3", "t_mlp_mix_md5", *dump("mlp", "mix", "statistics", "--sub", MD5)),
    ("v8_3_3", "v_overflow_check", *dump("mlp", "L1", "overflow_check")),
    ("v1_2_2", "t_mlp_L0_tensor", *dump("mlp", "L0", "tensor")),
    ("v1_2_2", "t_mlp_L1_tensor", *dump("mlp", "L1", "tensor")),
    ("v1_2_2", "t_mlp_mix_tensor", *dump("mlp", "mix", "tensor")),
    ("v1_2_2", "t_mlp_mix_statistics", *dump("mlp", "mix", "statistics")),
    ("v1_2_2", "t_mlp_mix_md5", *dump("mlp", "mix", "statistics", "--sub", MD5)),
    ("v1_2_2", "t_tf_L0_jsononly", *dump("tf", "L0", "tensor")),
]
POSITIONAL = [
    ("v26_2_0", "s_L1_tensor", "torch_stress.py", "L1", "tensor"),
    ("v26_2_0", "s_L0_tensor", "torch_stress.py", "L0", "tensor"),
    ("v26_2_0", "t_kwargs", "torch_kwargs.py"),
    ("v26_2_0", "t_fuzzy_0", "torch_fuzzy.py", "0"),
    ("v26_2_0", "t_fuzzy_1", "torch_fuzzy.py", "1"),
    ("v26_2_0", "t_save_tensor", "torch_save_point.py", "tensor"),
    ("v26_2_0", "t_save_statistics", "torch_save_point.py", "statistics"),
    ("v8_3_3", "s_ovf", "torch_stress.py", "L1", "overflow_check", '{"overflow_nums": -1}'),
]


@pytest.mark.few(10)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def test_what_the_tool_wrote(case, run, tmp_path):
    release, name, script, *args = case
    run(SCRIPTS / script, *args, "--out", tmp_path / "out", generation=RELEASES[release])
    ours = dumps_in(tmp_path / "out")
    hold(name, ours, expected_of(release, name))
    hold_files(ours, tmp_path / "out")


@pytest.mark.parametrize("case", POSITIONAL, ids=lambda case: f"{case[0]}-{case[1]}")
def test_what_the_tool_wrote_of_other_scripts(case, run, tmp_path):
    release, name, script, *args = case
    run(SCRIPTS / script, tmp_path / "out", *args, generation=RELEASES[release])
    ours = dumps_in(tmp_path / "out")
    hold(name, ours, expected_of(release, name))
    hold_files(ours, tmp_path / "out")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "script", "args"),
    [
        ("t_ddp", "torch_dump_ddp.py", ("mix", "statistics")),
        ("t_nan", "torch_nan_ddp.py", ()),
    ],
)
def test_two_processes(name, script, args, run_alone, tmp_path):
    run_alone(SCRIPTS / script, tmp_path / "out", *args, generation="26.2")
    ours = dumps_in(tmp_path / "out")
    hold(name, ours, expected_of("v26_2_0", name))
