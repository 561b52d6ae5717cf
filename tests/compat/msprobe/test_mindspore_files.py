"""Networks of MindSpore give the names, the order and the figures of the tool itself."""

import numpy as np
import pytest

from tests.compat.msprobe.conftest import SCRIPTS, dumps_in, expected_of
from tests.compat.msprobe.held import hold, hold_files

pytestmark = pytest.mark.mindspore

RELEASES = {"v26_2_0": "26.2", "v1_2_2": "1.2"}
MD5 = '{"summary_mode": "md5"}'


def dump(net, level, task, *more):
    return ("--net", net, "--level", level, "--task", task, *more)


CASES = [
    ("v26_2_0", "m_mlp_L0_tensor", *dump("mlp", "L0", "tensor", "--steps", "2")),
    ("v26_2_0", "m_mlp_L1_tensor", *dump("mlp", "L1", "tensor")),
    ("v26_2_0", "m_mlp_mix_tensor", *dump("mlp", "mix", "tensor")),
    ("v26_2_0", "m_mlp_L0_stat", *dump("mlp", "L0", "statistics")),
    ("v26_2_0", "m_mlp_L1_stat", *dump("mlp", "L1", "statistics")),
    ("v26_2_0", "m_mlp_mix_statistics", *dump("mlp", "mix", "statistics")),
    ("v26_2_0", "m_mlp_L0_md5", *dump("mlp", "L0", "statistics", "--sub", MD5)),
    ("v26_2_0", "m_mlp_L1_md5", *dump("mlp", "L1", "statistics", "--sub", MD5)),
    ("v26_2_0", "m_mlp_mix_md5", *dump("mlp", "mix", "statistics", "--sub", MD5)),
    ("v26_2_0", "m_conv_L0_tensor", *dump("conv", "L0", "tensor")),
    ("v26_2_0", "m_conv_mix_statistics", *dump("conv", "mix", "statistics")),
    ("v26_2_0", "m_tfr_L0_tensor", *dump("tf_renamed", "L0", "tensor")),
    ("v26_2_0", "mv_listmodel", *dump("mlp", "L0", "statistics", "--listmodel")),
    ("v26_2_0", "mv_structure", *dump("mlp", "mix", "structure")),
    ("v1_2_2", "m_mlp_L0_tensor", *dump("mlp", "L0", "tensor")),
    ("v1_2_2", "m_mlp_L1_tensor", *dump("mlp", "L1", "tensor")),
    ("v1_2_2", "m_mlp_mix_tensor", *dump("mlp", "mix", "tensor")),
    ("v1_2_2", "m_mlp_mix_statistics", *dump("mlp", "mix", "statistics")),
    ("v1_2_2", "m_tfr_L0_jsononly", *dump("tf_renamed", "L0", "tensor")),
]


@pytest.mark.few(7)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def test_what_the_tool_wrote(case, run, tmp_path):
    release, name, *args = case
    run(SCRIPTS / "ms_dump.py", *args, "--out", tmp_path / "out", generation=RELEASES[release])
    ours = dumps_in(tmp_path / "out")
    hold(name, ours, expected_of(release, name))
    hold_files(ours, tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "script", "args"),
    [
        ("m_save_tensor", "ms_save_point.py", ("tensor",)),
        ("m_save_statistics", "ms_save_point.py", ("statistics",)),
        ("ms_s_L0_tensor", "ms_stress.py", ("L0", "tensor")),
    ],
)
def test_what_the_tool_wrote_of_other_scripts(name, script, args, run, tmp_path):
    run(SCRIPTS / script, tmp_path / "out", *args, generation="26.2")
    ours = dumps_in(tmp_path / "out")
    hold(name, ours, expected_of("v26_2_0", name))
    hold_files(ours, tmp_path / "out")


def test_a_jitted_function_has_an_entry_of_its_own(tmp_path):
    import mindspore as ms

    from troubleshooter_nb.compat.msprobe.mindspore import PrecisionDebugger

    @ms.jit
    def doubled(x):
        return x * 2 + 1

    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    debugger = PrecisionDebugger(task="tensor", level="L1", dump_path=tmp_path / "dump")
    gradient = ms.value_and_grad(lambda given: doubled(given).sum(), 0)
    debugger.start()
    gradient(ms.Tensor(x))
    debugger.stop()
    debugger.step()
    folder = tmp_path / "dump" / "step0" / "rank" / "dump_tensor_data"
    np.testing.assert_array_equal(np.load(folder / "Jit.doubled.0.forward.output.0.npy"), 2 * x + 1)
    back = np.load(folder / "Jit.doubled.0.backward.output.0.npy")
    np.testing.assert_array_equal(back, np.full((2, 3), 2, np.float32))
