"""`ts.save` and `ts.save_grad`: the old tool's numbers, names and stored dtypes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import troubleshooter_nb.compat.troubleshooter as ts
from troubleshooter_nb import open_dump
from troubleshooter_nb.compat.troubleshooter import saving
from troubleshooter_nb.options import option_context


@pytest.fixture(autouse=True)
def _new_process(monkeypatch):
    """Numbers as in a fresh process; only numpy arrays of a test stay uncounted."""
    monkeypatch.setattr(saving, "_PER_PROCESS", saving.Numbering(per="framework"))


def names(folder: Path) -> list[str]:
    return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*.npy"))


@pytest.mark.torch
def test_numbers_count_over_folders(tmp_path):
    import torch

    for folder in ("one", "two"):
        ts.save(str(tmp_path / folder / "x"), [torch.zeros(2), None, {"k": torch.ones(())}])
    assert names(tmp_path) == [
        *("one/x.0_float32_0.npy", "one/x.2.k_float32_1.npy"),
        *("two/x.0_float32_2.npy", "two/x.2.k_float32_3.npy"),
    ]


@pytest.mark.torch
@pytest.mark.mindspore
def test_each_framework_counts_by_itself(tmp_path):
    import mindspore
    import torch

    for tensor in (torch.zeros(2), mindspore.Tensor([0.0, 0.0]), torch.zeros(2)):
        ts.save(tmp_path / type(tensor).__module__.split(".")[0] / "x", tensor, 3)
    assert names(tmp_path) == [
        *("mindspore/x_3_float32_0.npy", "torch/x_3_float32_0.npy", "torch/x_3_float32_1.npy")
    ]


@pytest.mark.torch
def test_bfloat16_is_stored_as_float32(tmp_path):
    import torch

    ts.save(tmp_path / "x", torch.tensor([1.0, 3.14], dtype=torch.bfloat16))
    array = np.load(tmp_path / "x_bfloat16_0.npy")
    assert array.dtype == np.float32
    assert array.tolist() == [1.0, 3.140625]


@pytest.mark.torch
def test_a_gradient_takes_its_number_at_the_call(tmp_path):
    import torch

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = ts.save_grad(str(tmp_path / "dense"), data=x * 3)
    ts.save(str(tmp_path / "later"), y)
    y.square().sum().backward()
    assert names(tmp_path) == ["dense_backward_float32_0.npy", "later_float32_1.npy"]
    assert np.load(tmp_path / "dense_backward_float32_0.npy").tolist() == [6.0, 12.0]


@pytest.mark.torch
def test_what_was_printed_is_read_back(tmp_path, capsys):
    import torch

    value = torch.tensor([[0.5, -1e-30], [float("nan"), float("inf")]])
    ts.save(str(tmp_path / "folder" / "x"), (value,), "s", output_mode="print")
    text = capsys.readouterr().out
    assert text == f"_TS_SAVE_NAME:x.0_s {value}\n"
    (tmp_path / "screen.txt").write_text(text)
    ts.widget.save_convert(tmp_path / "screen.txt", tmp_path / "out")
    np.testing.assert_array_equal(np.load(tmp_path / "out/x.0_s_float32_0.npy"), value.numpy())
    assert not (tmp_path / "folder").exists()


@pytest.mark.torch
@pytest.mark.mindspore
def test_a_printed_gradient_stands_on_the_line_of_its_name(tmp_path, capsys):
    import mindspore
    import torch

    for dtype in (torch.float32, torch.bfloat16):
        x = torch.tensor([1.0, 2.0], dtype=dtype, requires_grad=True)
        ts.save_grad("x", x * 3, output_mode="print").square().sum().backward()
    of_mindspore = mindspore.grad(
        lambda x: ts.save_grad("y", x * 3, None, output_mode="print").square().sum()
    )
    of_mindspore(mindspore.Tensor([1.0, 2.0]))
    assert capsys.readouterr().out == (
        "_TS_SAVE_NAME:x_backward tensor([ 6., 12.])\n"
        "_TS_SAVE_NAME:x_backward tensor([ 6., 12.], dtype=torch.bfloat16)\n"
        "_TS_SAVE_NAME:y [ 6. 12.]\n"
    )


@pytest.mark.mindspore
def test_parameters_and_empty_tensors_of_mindspore_print_what_they_are(tmp_path, capsys):
    import mindspore

    ts.save("p", mindspore.Parameter(mindspore.Tensor([1.0, 2.0]), name="q"), output_mode="print")
    ts.save("b", mindspore.Tensor(True), output_mode="print")
    ts.save("e", mindspore.Tensor(np.empty((0, 3), np.float32)), output_mode="print")
    ts.save("name tensor(x", mindspore.Tensor([1.0]), output_mode="print")
    text = capsys.readouterr().out
    assert text.startswith("_TS_SAVE_NAME:p [1. 2.]\n_TS_SAVE_NAME:b True\n_TS_SAVE_NAME:e\n")
    (tmp_path / "screen.txt").write_text(text)
    dump = open_dump(tmp_path / "screen.txt")
    arrays = [dump.array(name) for name in dump.names]
    assert [array.shape for array in arrays] == [(2,), (), (0, 3), (1,)]
    assert arrays[0].tolist() == [1.0, 2.0]
    assert arrays[1].item() is True
    assert arrays[2].dtype == np.float32
    assert dump.names[3] == "name tensor(x_float64_3"


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        (("folder/", np.zeros(1)), ValueError, "file must end with a name"),
        (("x", {1, 2}), TypeError, "cannot save set"),
        (("x", np.zeros(1), None, "text"), ValueError, "output_mode is 'npy' or 'print'"),
    ],
)
def test_wrong_arguments_are_named(tmp_path, monkeypatch, arguments, error, match):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=match):
        ts.save(*arguments)
    assert names(tmp_path) == []


GRAPH = """
import sys
import mindspore as ms
import numpy as np
from mindspore import nn
import troubleshooter_nb.compat.troubleshooter as ts

class Scorer(nn.Cell):
    def __init__(self, folder):
        super().__init__()
        self.folder = folder
        self.proj = nn.Dense(3, 2, weight_init="ones", bias_init="zeros")

    def construct(self, x):
        ts.save(self.folder + "/input", x)
        y = self.proj(x)
        ts.save(self.folder + "/dense", [y, y], "s")
        return ts.save_grad(self.folder + "/dense", y)

def total(x):
    return scorer(x).sum()

ms.set_context(mode=ms.GRAPH_MODE)
scorer = Scorer(sys.argv[1])
for _ in range(2):
    print(ms.grad(total, 0)(ms.Tensor(np.float32([[1, 2, 3]]))))
"""


@pytest.mark.long
@pytest.mark.mindspore
@pytest.mark.parametrize("naming", ["current", pytest.param("1.0.15", marks=pytest.mark.long)])
def test_a_compiled_network_saves_too(tmp_path, naming):
    # The old tool: "Unsupported op [TensorDump] on CPU".
    program = tmp_path / "net.py"  # MindSpore compiles from the source file
    program.write_text(GRAPH)
    done = subprocess.run(
        [sys.executable, program, tmp_path / "out"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=os.environ | {"TNB_SAVE_NAMES": naming},
        timeout=120,
    )
    assert done.stdout == "[[2. 2. 2.]]\n[[2. 2. 2.]]\n"
    if naming == "1.0.15":
        number = {"0": "3", "1": "4", "2": "5"}  # of the same call in the second run
        of_one = ["0_input.npy", "1_dense_0_s.npy", "1_dense_1_s.npy", "2_dense_backward.npy"]
        assert names(tmp_path / "out") == of_one + [number[n[0]] + n[1:] for n in of_one]
        return
    stems = [name.rpartition("_")[0] for name in names(tmp_path / "out")]
    assert sorted(stems) == sorted(
        2 * ["dense.0_s_float32", "dense.1_s_float32", "dense_backward_float32", "input_float32"]
    )
    numbers = {name.removesuffix(".npy").rpartition("_")[2] for name in names(tmp_path / "out")}
    assert numbers == {*map(str, range(8))}


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("release", "names"),
    [
        ("1.0.19", ["l.0_float64_1.npy", "l.1_float64_2.npy", "x_float64_0.npy"]),
        *((f"1.0.{patch}", ["0_x.npy", "1_l.0.npy", "2_l.1.npy"]) for patch in (16, 18)),
        *((f"1.0.{patch}", ["0_x.npy", "1_l_0.npy", "1_l_1.npy"]) for patch in (9, 15)),
        ("1.0.20", None),
    ],
)
def test_a_release_stands_for_the_names_it_gave(tmp_path, release, names):
    program = (
        "import os, numpy, troubleshooter_nb.compat.troubleshooter as ts; a = numpy.zeros(2)\n"
        "ts.save('out/x', a); ts.save('out/l', [a, a]); print(*sorted(os.listdir('out')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"TNB_SAVE_NAMES": release},
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    current = ["l.0_float64_1.npy", "l.1_float64_2.npy", "x_float64_0.npy"]
    assert done.stdout.split() == (names or current)
    if names:
        assert done.stderr == ""
        with option_context(npy_names=release):
            ts.save(tmp_path / "again" / "x", np.zeros(2))
        [file] = (tmp_path / "again").iterdir()
        assert ("float64" in file.name) == (release == "1.0.19")
    else:
        assert done.stderr.startswith("<environment>:1: TroubleshooterWarning: TNB_SAVE_NAMES is")
        assert ".py" not in done.stderr
        with pytest.raises(ValueError, match="npy_names"), option_context(npy_names=release):
            pass
