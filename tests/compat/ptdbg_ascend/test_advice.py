"""What the advisor says of the first row whose accuracy is not reached."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compat.ptdbg_ascend.dumps import line, param, run, v4, written
from troubleshooter_nb.compat.ptdbg_ascend import compare

ONES = np.ones((2, 3), np.float32)


def test_a_near_tie_of_indices_comes_first(tmp_path):
    """As in a run of the tool: the indices of a maximum moved, which is no error."""
    compare(v4(), tmp_path)
    (file,) = tmp_path.glob("advisor_*.txt")
    said = file.read_text(encoding="utf-8")
    assert said.startswith(
        "Line: 15\nSuspect Nodes: Tensor_max_0_forward_output.1\nExpert Advice: "
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Torch_relu_0_forward_input.1", "What goes into this call differs"),
        ("Torch_relu_0_forward_output", "look at how the call computes"),
        ("Torch_relu_0_backward_input.0", "The gradient that arrives at this call differs"),
        ("Torch_relu_0_backward_output.0", "how the backward of this call computes"),
        ("Functional_batch_norm_0_forward_input.1", "Normalisation over batches"),
        ("Functional_batch_norm_0_forward_input.0", "What goes into this call differs"),
        ("Functional_conv2d_0_backward_output.1", "other results from run to run"),
        ("Functional_conv2d_0_forward_input.0", "What goes into this call differs"),
        ("VF_lstm_0_forward_output.0", "other results from run to run"),
        ("MyModule_output_0_forward_output", "look at how the call computes"),
        ("something_output", "look at how the call computes"),
    ],
)
def test_the_advice_is_on_the_kind_of_the_first_row_that_is_no(tmp_path, name, said):
    left, right = (
        # What is no output needs one behind it.
        written(tmp_path / side, [line(name), line("Torch_z_0_forward_output")], {name: one})
        for side, one in (("left", ONES), ("right", -ONES))
    )
    compare(param(left, right), tmp_path / "out")
    (file,) = (tmp_path / "out").glob("advisor_*.txt")
    first, second, third = file.read_text(encoding="utf-8").splitlines()
    assert (first, second) == ("Line: 2", f"Suspect Nodes: {name}")
    assert third.startswith("Expert Advice: ")
    assert said in third


def test_the_line_is_that_of_the_csv(tmp_path, capsys):
    tensors = {f"Torch_{op}_0_forward_output": ONES for op in "abc"}
    left = run(tmp_path / "left", tensors)
    right = run(tmp_path / "right", tensors | {"Torch_c_0_forward_output": -ONES})
    path = compare(param(left, right), tmp_path / "out")
    assert capsys.readouterr().out.startswith("Line: 4\nSuspect Nodes: Torch_c_0_forward_output\n")
    assert path.read_text().splitlines()[4 - 1].startswith("Torch_c_0_forward_output")


def test_without_a_no_nothing_is_suspected(tmp_path, capsys):
    rank = run(tmp_path / "rank", {"Torch_a_0_forward_output": ONES})
    compare(param(rank, rank), tmp_path / "out")
    said = "Line: NA\nSuspect Nodes: NA\nExpert Advice: no row is flagged"
    assert capsys.readouterr().out.startswith(said)


def test_no_advice_is_written_when_it_is_not_wanted(tmp_path, capsys):
    rank = run(tmp_path / "rank", {"Torch_a_0_forward_output": ONES})
    path = compare(param(rank, rank), tmp_path / "out", auto_analyze=False)
    assert [*(tmp_path / "out").iterdir()] == [path]
    assert capsys.readouterr().out == ""
