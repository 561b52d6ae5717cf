"""Printed tensors come back: ours exactly, a graph's and the old tool's as far as they tell."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import troubleshooter_nb as tnb
from troubleshooter_nb.formats import limits, print_text
from troubleshooter_nb.formats.print_text import shown_text, tensor_text

DTYPES = [
    *("float16", "float32", "float64", "longdouble", "complex64", "complex128", "bool"),
    *("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
]


def opened(path, text):
    file = path / "screen.txt"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return tnb.open_dump(file)


def reason(path, text):
    """Why the only print of a text cannot be read."""
    [found] = opened(path, text).index["reason"].values
    return found


@given(
    array=st.sampled_from(DTYPES).flatmap(
        lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0, max_side=4))
    )
)
def test_every_value_comes_back(tmp_path_factory, array):
    # The payload and sign of a nan are lost: numpy prints all as nan.
    dump = opened(tmp_path_factory.mktemp("print"), f"noise\n{tensor_text('a b', array)}noise\n")
    found = dump.array("a b")
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(found, array)
    zeros = array == 0
    for part in ("real", "imag") if array.dtype.kind == "c" else ():
        np.testing.assert_array_equal(getattr(found, part), getattr(array, part))
    if array.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(array[zeros]))


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4"])
def test_every_value_of_the_small_dtypes_comes_back(tmp_path, dtype):
    dtype = np.dtype(getattr(ml_dtypes, dtype))
    bits = np.arange(256, dtype=np.uint8) if dtype.itemsize == 1 else np.arange(2**16, dtype="u2")
    array = bits[:16].astype(dtype) if dtype == ml_dtypes.int4 else bits.view(dtype)
    found = opened(tmp_path, tensor_text("x", array.reshape(4, -1))).array("x")
    assert found.dtype == dtype
    with np.errstate(invalid="ignore"):  # signalling nans
        left, right = found.astype(float), array.reshape(4, -1).astype(float)
    np.testing.assert_array_equal(left, right)


def test_the_text_is_that_of_a_graph():
    assert tensor_text("x", np.float32([[1, 2]])) == (
        "_TS_SAVE_NAME:x\nTensor(shape=[1, 2], dtype=Float32, value=\n"
        "[[1.00000000e+00 2.00000000e+00]])\n"
    )
    names = {"bool": "Bool", "uint8": "UInt8", "bfloat16": "BFloat16", "complex64": "Complex64"}
    for dtype, name in names.items():
        array = np.zeros((), getattr(ml_dtypes, dtype, dtype))
        assert f"dtype={name}, " in tensor_text("x", array)


# As MindSpore 2.10 prints a graph (CPU), and TroubleShooter 1.0.19 through it.
GRAPH = """[INFO] start
_TS_SAVE_NAME:input
Tensor(shape=[2, 3], dtype=Float32, value=
[[ 0.00000000e+00  3.33333343e-01             nan]
 [ 1.00000000e+00             inf  1.66666663e+00]])
step 1, loss: 0.5
_TS_SAVE_NAME:dense
Tensor(shape=[3], dtype=Float16, value=[ 0.0000e+00  3.3325e-01  6.6650e-01])
_TS_SAVE_NAME:mask
Tensor(shape=[2, 2], dtype=Bool, value=
[[False  True]
 [ True  True]])
_TS_SAVE_NAME:ids
Tensor(shape=[2, 2], dtype=Int64, value=
[[1, 2],
 [3, 9007199254740993]])
_TS_SAVE_NAME:z
Tensor(shape=[2], dtype=Complex64, value=[0+0j 0.333333-0.333333j])
_TS_SAVE_NAME:total_s
Tensor(shape=[1], dtype=Float32, value=[ 6.00000024e-01])
(0-d)
_TS_SAVE_NAME:one
Tensor(shape=[1], dtype=Float32, value=[ 6.00000024e-01])
noise
_TS_SAVE_NAME:empty
Tensor(shape=[0, 3], dtype=Float32, value=[])
_TS_SAVE_NAME:count
3
_TS_SAVE_NAME:loss
2.5
_TS_SAVE_NAME:dense_backward
Tensor(shape=[1, 2], dtype=Float32, value=
[[ -5.0e-01  5.0e-01]])
_TS_SAVE_NAME:dense
Tensor(shape=[1], dtype=Float16, value=[1])
"""


def test_a_graphs_text_is_read(tmp_path):
    dump = opened(tmp_path, GRAPH)
    assert dump.names == [
        *("input_float32_0", "dense_float16_1", "mask_bool_2", "ids_int64_3", "z_complex64_4"),
        *("total_s_float32_5", "one_float32_6", "empty_float32_7", "count_int64_8"),
        *("loss_float64_9", "dense_backward_float32_10", "dense_float16_11"),
    ]
    np.testing.assert_array_equal(
        dump.array("input"), np.float32([[0, 1 / 3, np.nan], [1, np.inf, 5 / 3]])
    )
    assert dump.array("mask").tolist() == [[False, True], [True, True]]
    assert dump.array("ids").tolist() == [[1, 2], [3, 2**53 + 1]]
    assert dump.array("z")[1] == np.complex64(0.333333 - 0.333333j)
    assert dump.array("total_s").shape == ()
    assert dump.array("one").shape == (1,)
    assert dump.array("empty").shape == (0, 3)
    assert (dump.array("count"), dump.array("loss")) == (3, 2.5)
    index = dump.index
    assert index["order"].values.tolist() == list(range(12))
    assert index["call"].values.tolist() == [0] * 11 + [1]
    assert index["direction"].values[10] == "backward"
    assert index["path"].values[10] == "dense"


def test_windows_line_ends_and_prefixes_are_read(tmp_path):
    text = "[rank0] " + GRAPH.replace("\n", "\r\n")
    assert opened(tmp_path, text).array("dense_backward").tolist() == [[-0.5, 0.5]]


# What torch and MindSpore show of a tensor, with what may follow it, and what it is.
SHOWN = {
    "tensor([1.5000, 2.0000])": np.float32([1.5, 2]),
    "tensor([[ 1.0000e-01, -1.0000e-30],\n        [        nan,         inf]])": np.float32(
        [[0.1, -1e-30], [np.nan, np.inf]]
    ),
    "tensor([1, 2])": np.int64([1, 2]),
    "tensor(7)": np.int64(7),
    "tensor(0.5000, grad_fn=<MeanBackward0>)": np.float32(0.5),
    "tensor([ True, False])": np.array([True, False]),
    "tensor([1.5000], device='cuda:0', dtype=torch.float64)": np.float64([1.5]),
    "tensor([[1., 1.]], device='npu:0',\n       grad_fn=<MulBackward0>)": np.float32([[1, 1]]),
    "Parameter containing:\ntensor([[1.],\n        [2.]], requires_grad=True)": np.float32(
        [[1], [2]]
    ),
    "tensor([], size=(0, 3))": np.zeros((0, 3), np.float32),
    "tensor([])": np.zeros(0, np.float32),
    "tensor([1.+2.j])": np.complex64([1 + 2j]),
    "tensor([1., 2.], dtype=torch.bfloat16)": np.array([1, 2], ml_dtypes.bfloat16),
    "[1.5 2. ]": np.float64([1.5, 2]),
    "[[[1. 2.]\n  [3. 4.]]\n\n [[5. 6.]\n  [7. 8.]]]": np.arange(1, 9.0).reshape(2, 2, 2),
    "[1 2 3]": np.int64([1, 2, 3]),
    "[ True False]": np.array([True, False]),
    "[nan inf]": np.float64([np.nan, np.inf]),
    "[1.+2.j 0.+0.j]": np.complex128([1 + 2j, 0]),
    "True": np.array(True),
    "(1-2j)": np.complex128(1 - 2j),
    "(nan-infj)": np.complex128(complex(np.nan, -np.inf)),
    "2j": np.complex128(2j),
    "0.5": np.float64(0.5),
    "-3": np.int64(-3),
}


@pytest.mark.parametrize("text", SHOWN)
@pytest.mark.parametrize(
    "name",
    [
        *("x", "a [b] c.0_s", "a tensor(x", "a tensor(1 b", "a [1]", "a tensor([2])"),
        *("a Parameter containing: b", "a tensor("),
    ],
)
def test_a_tensor_on_the_line_of_its_name_is_read(tmp_path, text, name):
    other = "epoch [1/2] loss: 0.25 (step 3)\n0.25\n[1, 2]\n"
    dump = opened(tmp_path, f"{other}_TS_SAVE_NAME:{name} {text}\n{other}_TS_SAVE_NAME:y 1\n")
    found = dump.array(dump.names[0])
    expected = SHOWN[text]
    assert dump.names[0] == f"{name}_{expected.dtype.name}_0"
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(found.astype(complex), expected.astype(complex))


def test_a_line_of_many_brackets_is_not_searched_from_each(tmp_path):
    text = "_TS_SAVE_NAME:x" + " [1]" * 100_000
    assert "no Tensor" in reason(tmp_path, text + " x")


def test_what_a_framework_shows_is_kept_unless_it_does_not_tell_the_shape():
    assert shown_text("x", "tensor([])", np.zeros(0)) == "_TS_SAVE_NAME:x tensor([])\n"
    empty = np.zeros((0, 3), np.float32)
    assert shown_text("x", "[]", empty) == tensor_text("x", empty)


def test_a_name_that_ends_with_a_number_keeps_it(tmp_path):
    dump = opened(tmp_path, tensor_text("block 2", np.float32([1, 2])) + "_TS_SAVE_NAME:x 3\n0.5\n")
    assert dump.names == ["block 2_float32_0", "x 3_float64_1"]


HEAD = "_TS_SAVE_NAME:x\nTensor(shape=[2], dtype=Float32, value="


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (HEAD + "[1.0 ... 2.0])\n", "only a part of the values was printed"),
        (HEAD + "[1.0\n", "cut off before its end"),
        (HEAD + "[1.0 2.0\n_TS_SAVE_NAME:", "cut off before its end"),
        (HEAD + "[1.0])", "1 values for 2 in the shape"),
        (HEAD + "[1.0 2.0 3.0])", "more than 2 values for 2"),
        (HEAD + "[1.0 INFO])", "other output was mixed in"),
        (HEAD + "[1.0\n[WARNING] slow\n 2.0])", "more than 2 values for 2"),
        (HEAD + f"[1.0 {'9' * 200}])", "too long for a number"),
        (HEAD.replace("Float32", "Float31") + "[1 2])", "unknown dtype 'float31'"),
        (HEAD.replace("Float32", "object") + "[1 2])", "unknown dtype"),
        (HEAD.replace("Float32", "Int8") + "[1 300])", "is no int8"),
        (HEAD.replace("Float32", "UInt64") + "[1 -1])", "is no uint64"),
        (HEAD.replace("Float32", "Int64") + f"[1 {2**63}])", "is no int64"),
        (HEAD.replace("Float32", "Bool") + "[True 2])", "is no bool"),
        (HEAD.replace("[2]", "[999999999999999999, 9]") + "[1 2])", "2 values for 8999999999999"),
        (HEAD.replace("[2]", "[-2]") + "[1 2])", "no Tensor"),
        ("_TS_SAVE_NAME:x\n", "no Tensor"),
        ("_TS_SAVE_NAME:x", "no Tensor"),
        ("_TS_SAVE_NAME:x\n(( 1.0e+00,  2.0e+00),\n ( 3.0,  4.0))\n", "no Tensor"),
        ("_TS_SAVE_NAME:x tensor([1., 2., \n", "cut off before its end"),
        ("_TS_SAVE_NAME:x tensor([1.,  ..., 2.])\n", "only a part of the values was printed"),
        ("_TS_SAVE_NAME:x tensor([1., oops])\n", "other output was mixed in"),
        ("_TS_SAVE_NAME:x tensor([[1., 2.], [3.]])\n", "more than 2 values for 2"),
        ("_TS_SAVE_NAME:x tensor([1.], dtype=torch.qint8)\n", "unknown dtype 'qint8'"),
        ("_TS_SAVE_NAME:x tensor(indices=tensor([[0]]), values=tensor([1.]))\n", "more than 1"),
        ("_TS_SAVE_NAME:x Parameter containing:\n", "cut off before its end"),
        ("_TS_SAVE_NAME:x [1. 2.\n", "cut off before its end"),
        ("_TS_SAVE_NAME:x tensor([1.]) [INFO]\n", "cut off before its end"),
        ("_TS_SAVE_NAME:x []\n", "an empty tensor, whose shape [] does not tell"),
        ("_TS_SAVE_NAME:x Parameter (name=q, shape=(2,), dtype=Float32)\n1\n", "only name, shape"),
        ("_TS_SAVE_NAME:x\n__import__('os').system('true')\n", "no Tensor"),
    ],
)
def test_a_damaged_print_is_an_entry_with_a_reason(tmp_path, text, match):
    dump = opened(tmp_path, "_TS_SAVE_NAME:fine\n1\n" + text)
    assert dump.array("fine") == 1
    reasons = dump.index["reason"].values
    assert dump.index["status"].values[1] == "unreadable"
    assert match in reasons[1]


@pytest.mark.parametrize("shape", ["1, " * 70, "0, " * 70])
def test_more_axes_than_numpy_has_are_a_reason(tmp_path, shape):
    text = HEAD.replace("[2]", f"[{shape}]") + ("[1])" if "1" in shape else "[])")
    assert "dimension" in reason(tmp_path, text)


def test_names_are_bounded_and_escaped(tmp_path):
    [name] = opened(tmp_path, b"_TS_SAVE_NAME:\xff<b>" + b"x" * 5000 + b"\n1\n").names
    assert name.startswith("\\xff<b>xxx")
    assert len(name) < 250


def test_the_number_of_prints_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(print_text, "_MOST_PRINTS", 3)
    dump = opened(tmp_path, "_TS_SAVE_NAME:x\n1\n" * 4)
    assert len(dump) == 3
    assert dump.notes == ("only the first 3 prints were read",)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"no print here\n", "a text without a line _TS_SAVE_NAME:<name>"),
        (b"", "a text without a line"),
        (b"\0_TS_SAVE_NAME:x\n1\n", "a binary file"),
    ],
)
def test_other_files_are_refused(tmp_path, content, said):
    with pytest.raises(tnb.UnknownFormatError, match=f"print_text: {said}"):
        opened(tmp_path, content)


def test_a_mark_between_two_blocks_is_found(tmp_path):
    assert opened(tmp_path, "x" * (1024**2 - 5) + "_TS_SAVE_NAME:x\n1\n").array("x") == 1


def test_a_large_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(limits.MOST, "printed", 10)
    with pytest.raises(tnb.UnknownFormatError, match=r"print_text: .*too many for printed"):
        opened(tmp_path, GRAPH)
    with pytest.raises(tnb.FormatError, match=r"screen\.txt: .*too many for printed"):
        tnb.open_dump(tmp_path / "screen.txt", format="print_text")
    with pytest.raises(tnb.FormatError, match="not a file"):
        tnb.open_dump(tmp_path, format="print_text")


def test_a_complex_nan_without_sign_is_told_from_the_number_before_it(tmp_path):
    array = np.array([complex(0, np.nan), complex(np.nan, -1), complex(1, -np.inf)], np.complex64)
    path = tmp_path / "screen.txt"
    path.write_text(tensor_text("x", array))
    np.testing.assert_array_equal(tnb.open_dump(path).array("x"), array)
