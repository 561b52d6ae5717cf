"""`widget.save_convert`: print files and captured text become arrays again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import troubleshooter_nb.compat.troubleshooter as ts
from troubleshooter_nb.errors import FormatError

# As MindSpore 2.10 prints in graph mode on CPU.
TEXT = """\
some other line (with parentheses)
_TS_SAVE_NAME:input
Tensor(shape=[1, 3], dtype=Float32, value=
[[ 2.00000003e-01  3.33333343e-01 -1.00000000e-30]])
loss: 0.5 (step 1)
_TS_SAVE_NAME:ids
Tensor(shape=[2], dtype=Int64, value=[            1 1099511627776])
_TS_SAVE_NAME:scalar
0.5
_TS_SAVE_NAME:mask
Tensor(shape=[2], dtype=Bool, value=[ True False])
_TS_SAVE_NAME:wide
Tensor(shape=[30, 100], dtype=Float16, value=
[[ 0.0000e+00  1.0000e+00 ...  9.8000e+01  9.9000e+01]])
_TS_SAVE_NAME:odd
Tensor(shape=[1, 3], dtype=Float32, value=
[[            nan             inf            -inf]])
"""


def saved(folder: Path) -> dict[str, np.ndarray]:
    return {str(file.relative_to(folder)): np.load(file) for file in sorted(folder.rglob("*.npy"))}


def test_text_of_the_screen_becomes_arrays(tmp_path, caplog):
    (tmp_path / "screen.txt").write_text(TEXT)
    ts.widget.save_convert(str(tmp_path / "screen.txt"), str(tmp_path / "out"))
    arrays = saved(tmp_path / "out")
    assert arrays.keys() >= {
        *("ids_int64_1.npy", "input_float32_0.npy", "mask_bool_3.npy", "odd_float32_5.npy")
    }
    # Nine digits give a float32 back bit for bit.
    expected = np.float32([[0.2, 1 / 3, -1e-30]])
    assert arrays["input_float32_0.npy"].tobytes() == expected.tobytes()
    assert arrays["ids_int64_1.npy"].tolist() == [1, 2**40]
    assert arrays["mask_bool_3.npy"].tolist() == [True, False]
    np.testing.assert_array_equal(arrays["odd_float32_5.npy"], [[np.nan, np.inf, -np.inf]])
    assert not any("wide" in name for name in arrays)
    assert "4_wide of screen.txt was left out: only a part of the values was" in caplog.text


def message(number: int, content: bytes) -> bytes:
    """A length-delimited protobuf field of at most 127 bytes."""
    return bytes([number << 3 | 2, len(content)]) + content


def text_record(text: str) -> bytes:
    return message(1, message(1, text.encode()))


def tensor_record(array: np.ndarray, token: str, dims=None) -> bytes:
    lengths = b"".join(bytes([8, n]) for n in (array.shape if dims is None else dims))
    content = lengths + message(2, token.encode()) + message(3, array.tobytes())
    return message(1, message(2, content))


ARRAYS = {
    "x_float32_0.npy": (np.float32([[1, 2], [3, 4]]), "Float32", None),
    "n_float64_1.npy": (np.float64(2.5), "Float64", [0]),
    "b_bfloat16_2.npy": (np.array([1, 2], ml_dtypes.bfloat16), "BFloat16", None),
    "e_int32_3.npy": (np.zeros((0, 3), np.int32), "Int32", None),
}


def print_file(path: Path) -> Path:
    records = [text_record("a print of somebody else")]
    for name, (array, token, dims) in ARRAYS.items():
        records += [text_record(f"_TS_SAVE_NAME:{name[0]}"), tensor_record(array, token, dims)]
    path.write_bytes(b"".join(records))
    return path


def test_a_print_file_becomes_arrays(tmp_path):
    ts.widget.save_convert(print_file(tmp_path / "printed"), tmp_path / "out")
    arrays = saved(tmp_path / "out")
    assert arrays.keys() == ARRAYS.keys()
    for name, (array, _, _) in ARRAYS.items():
        assert arrays[name].shape == array.shape
        np.testing.assert_array_equal(arrays[name], array.astype(arrays[name].dtype))
    # numpy has no name for bfloat16: it is kept as float32, as save() keeps it.
    assert arrays["b_bfloat16_2.npy"].dtype == np.float32


@pytest.mark.mindspore
def test_the_print_file_is_what_mindspore_defines(tmp_path):
    from mindspore.train import print_pb2

    read = print_pb2.Print()
    read.ParseFromString(print_file(tmp_path / "printed").read_bytes())
    assert read.SerializeToString() == (tmp_path / "printed").read_bytes()
    assert [value.tensor.tensor_type for value in read.value if value.HasField("tensor")] == [
        *("Float32", "Float64", "BFloat16", "Int32")
    ]


def test_tensors_printed_as_text_into_a_print_file_are_found(tmp_path):
    text = "_TS_SAVE_NAME:x\nTensor(shape=[1 2], dtype=Float32, value=\n[[1.5 2]])"
    (tmp_path / "printed").write_bytes(text_record("other") + text_record(text))
    ts.widget.save_convert(tmp_path / "printed", tmp_path / "out")
    assert saved(tmp_path / "out")["x_float32_0.npy"].tolist() == [[1.5, 2]]


def test_what_came_before_a_cut_is_kept(tmp_path, caplog):
    file = print_file(tmp_path / "printed")
    file.write_bytes(file.read_bytes()[:-50])
    ts.widget.save_convert(file, tmp_path / "out")
    assert {*saved(tmp_path / "out")} >= {"x_float32_0.npy", "n_float64_1.npy"}
    assert "printed was cut off after" in caplog.text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            text_record("_TS_SAVE_NAME:t") + tensor_record(np.zeros(1), "str"),
            "0_t of printed was left out: unknown dtype 'str'",
        ),
        (
            text_record("_TS_SAVE_NAME:../t") + tensor_record(np.zeros(1), "Float64"),
            "../t_float64_0 of printed was left out: cannot save under the name '../t_float64_0'",
        ),
        (
            b"_TS_SAVE_NAME:t\nTensor(shape=[3], dtype=Float32, value=[1 2])",
            "0_t of printed was left out: 2 values for 3 in the shape",
        ),
        (b"_TS_SAVE_NAME:t", "0_t of printed was left out: no Tensor(shape=..."),
    ],
)
def test_what_cannot_be_converted_is_said(tmp_path, caplog, content, said):
    (tmp_path / "printed").write_bytes(content)
    ts.widget.save_convert(tmp_path / "printed", tmp_path / "in/out")
    assert list(tmp_path.rglob("*.npy")) == []
    assert said in caplog.text


@pytest.mark.parametrize("content", [b"", b"no name", b"\n\n\n", b"\x93NUMPY\x01\x00"])
def test_a_file_without_prints_is_refused(tmp_path, content):
    (tmp_path / "printed").write_bytes(content)
    with pytest.raises(FormatError, match=r"printed: a (text without a line|binary file)"):
        ts.widget.save_convert(tmp_path / "printed", tmp_path / "out")
    assert not (tmp_path / "out").exists()


GRAPH = """
import mindspore as ms
import numpy as np
from mindspore import nn, ops

class Net(nn.Cell):
    def construct(self, x):
        print("_TS_SAVE_NAME:x")
        ops.Print()(x)
        return x + 1

ms.set_context(mode=ms.GRAPH_MODE)
Net()(ms.Tensor(np.float32([[0.2, 1 / 3]])))
"""


@pytest.mark.mindspore
def test_the_output_of_a_graph_is_read_back(tmp_path):
    program = tmp_path / "net.py"  # MindSpore compiles from the source file
    program.write_text(GRAPH)
    done = subprocess.run(
        [sys.executable, program], capture_output=True, check=True, cwd=tmp_path, timeout=120
    )
    (tmp_path / "screen.txt").write_bytes(done.stdout)
    ts.widget.save_convert(tmp_path / "screen.txt", tmp_path / "out")
    array = saved(tmp_path / "out")["x_float32_0.npy"]
    assert array.tobytes() == np.float32([[0.2, 1 / 3]]).tobytes()
