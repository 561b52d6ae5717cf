"""`save` and `save_grad` in eager code: names, numbers, stored bits, refusals."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections import OrderedDict, namedtuple
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb import frameworks
from troubleshooter_nb.capture.numbering import DEFAULT, Numbering


class Torch:
    """What the contract tests need of torch."""

    def __init__(self):
        import torch

        self.torch = torch

    def tensor(self, array):
        array = np.asarray(array)
        if array.dtype == ml_dtypes.bfloat16:
            return self.torch.from_numpy(array.view(np.int16)).view(self.torch.bfloat16)
        return self.torch.from_numpy(array.copy())

    def parameter(self, array):
        return self.torch.nn.Parameter(self.tensor(array))

    def wide_sum(self, tensor):
        return tensor.double().sum()

    def step(self, loss, leaf):
        """One backward pass of a function without arguments, to a leaf it uses."""
        leaf.requires_grad_()
        loss().backward()


class MindSpore:
    """What the contract tests need of MindSpore."""

    def __init__(self):
        import mindspore

        self.mindspore = mindspore

    def tensor(self, array):
        return self.mindspore.Tensor(np.array(array))

    def parameter(self, array):
        return self.mindspore.Parameter(self.tensor(array), name="p")

    def wide_sum(self, tensor):
        return tensor.astype(self.mindspore.float32).sum()

    def step(self, loss, leaf):
        if isinstance(leaf, self.mindspore.Parameter):
            self.mindspore.grad(loss, None, [leaf])()
        else:
            self.mindspore.grad(lambda same: loss())(leaf)


@pytest.fixture(
    params=[
        pytest.param(Torch, marks=pytest.mark.torch),
        pytest.param(MindSpore, marks=pytest.mark.mindspore),
    ]
)
def framework(request):
    return request.param()


def names(folder):
    return sorted(file.relative_to(folder).as_posix() for file in Path(folder).rglob("*.npy"))


def stored(folder):
    """Values by name without number, of a folder where each name was saved once."""
    return {
        name.rpartition("_")[0]: np.load(folder / f"{name}.npy")
        for name in (name.removesuffix(".npy") for name in names(folder))
    }


FLOAT = np.float32([[0.25, -1.5], [3, np.nan]])


# Names and numbers


def test_names_are_those_of_the_seed(tmp_path, framework):
    one, two = framework.tensor(FLOAT[0]), framework.tensor(FLOAT[1])
    file = str(tmp_path / "out" / "net")
    tnb.save(file, one)
    tnb.save(file, two)
    tnb.save(file, {"x1": one, "x2": two})
    tnb.save(file, [one, two], suffix="torch")
    assert names(tmp_path / "out") == [
        *("net.0_torch_float32_4.npy", "net.1_torch_float32_5.npy"),
        *("net.x1_float32_2.npy", "net.x2_float32_3.npy"),
        *("net_float32_0.npy", "net_float32_1.npy"),
    ]


def scorer(framework, folder):
    """Seed 000: input and output of a dense layer of zeros, gradient of cross entropy there."""
    x, weight = (
        framework.tensor(np.float32([[0.2, 0.5, 0.2]])),
        framework.parameter(np.zeros((3, 2), np.float32)),
    )

    def loss():
        tnb.save(folder / "input", x)
        y = x @ weight
        tnb.save(folder / "dense", y)
        y = tnb.save_grad(folder / "dense", y)
        return (y.exp().sum().log() - y[0, 0]).sum()

    framework.step(loss, weight)


def test_the_flow_of_the_seed_with_current_names(tmp_path, framework):
    scorer(framework, tmp_path)
    found = {name: np.load(tmp_path / name).tolist() for name in names(tmp_path)}
    assert found == {
        "input_float32_0.npy": [[np.float32(0.2), 0.5, np.float32(0.2)]],
        "dense_float32_1.npy": [[0, 0]],
        "dense_backward_float32_2.npy": [[-0.5, 0.5]],
    }


def test_the_flow_of_the_seed_with_names_of_old(tmp_path, framework):
    with tnb.option_context(npy_names="id-first"):
        scorer(framework, tmp_path)
    assert names(tmp_path) == ["0_input.npy", "1_dense.npy", "2_dense_backward.npy"]
    assert np.load(tmp_path / "2_dense_backward.npy").tolist() == [[-0.5, 0.5]]


def test_names_of_release_1_0_15_number_the_calls(tmp_path, framework):
    tensor = framework.tensor(np.ones(2, np.float32))
    with tnb.option_context(npy_names="1.0.15"):
        tnb.save(tmp_path / "x", tensor)
        tnb.save(tmp_path / "l", [tensor, None, {"fc.weight": tensor}], "s")
        tnb.save(tmp_path / "l", [tensor])
    assert names(tmp_path) == [*("0_x.npy", "1_l_0_s.npy", "1_l_2_fc.weight_s.npy", "2_l_0.npy")]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("value", "expected", "error"),
    [
        ("id-first", "0_x.npy\n", ""),
        ("current", "x_float64_0.npy\n", ""),
        ("", "x_float64_0.npy\n", ""),
        ("1.0.15", "0_x.npy\n", ""),
        ("id_first", "x_float64_0.npy\n", 'TNB_SAVE_NAMES is "current", "id-first" or a release'),
    ],
)
def test_an_unchanged_script_gets_the_names_of_old(tmp_path, value, expected, error):
    program = (
        "import os, numpy, troubleshooter_nb as tnb\n"
        "tnb.save('out/x', numpy.zeros(2)); print(*os.listdir('out'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"TNB_SAVE_NAMES": value},
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert done.stdout == expected
    assert error in done.stderr
    assert bool(error) == bool(done.stderr)


def test_nested_values_join_their_keys_to_the_name(tmp_path, framework):
    x = framework.tensor(FLOAT)
    pair = namedtuple("pair", "left right")(x, None)
    tnb.save(tmp_path / "d", {"a": [x, (x, {"k": x})]}, suffix="s")
    tnb.save(tmp_path / "e", OrderedDict({3: pair, ("t", 1): x}), suffix=3)
    assert [name.removesuffix(".npy") for name in names(tmp_path)] == [
        *("d.a.0_s_float32_0", "d.a.1.0_s_float32_1", "d.a.1.1.k_s_float32_2"),
        *("e.('t', 1)_3_float32_4", "e.3.0_3_float32_3"),
    ]


def test_none_and_empty_containers_take_no_number(tmp_path):
    tnb.save(tmp_path / "x", None)
    tnb.save(tmp_path / "x", [None, [], {}, np.zeros(1), None])
    tnb.save(tmp_path / "x", 1, suffix=0)
    assert names(tmp_path) == ["x.3_float64_0.npy", "x_int64_1.npy"]


def test_one_npy_at_the_end_is_left_out(tmp_path):
    for name in ("x.npy", "x.npy.npy", "x.pt", ".hidden"):
        tnb.save(tmp_path / name, 1)
    assert names(tmp_path) == [
        *(".hidden_int64_3.npy", "x.npy_int64_1.npy", "x.pt_int64_2.npy", "x_int64_0.npy")
    ]


def test_a_slash_in_a_key_makes_a_folder(tmp_path):
    tnb.save(tmp_path / "x", {"block/conv": np.ones(2)})
    assert names(tmp_path) == ["x.block/conv_float64_0.npy"]


def test_a_name_without_folder_lies_in_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tnb.save("x", 1)
    monkeypatch.chdir(tmp_path.parent)
    tnb.save(tmp_path / "x", 2)
    assert names(tmp_path) == ["x_int64_0.npy", "x_int64_1.npy"]


@pytest.mark.parametrize("file", ["", "out/", f"out{os.sep}", "..", "out/..", "out/.npy", "a\0b"])
def test_a_file_that_is_no_name_is_an_error(tmp_path, monkeypatch, file):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="name"):
        tnb.save(file, 1)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("file", [None, 3, b"x"])
def test_a_file_that_is_no_path_is_an_error(tmp_path, monkeypatch, file):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TypeError, match=r"path|PathLike"):
        tnb.save(file, 1)


@pytest.mark.parametrize("key", ["/../up", "a/../../up", "a\\b", "a/.hidden/x", "a//b", "x" * 300])
def test_a_key_that_leaves_the_folder_is_an_error(tmp_path, key):
    with pytest.raises(ValueError, match="cannot save under the name"):
        tnb.save(tmp_path / "out" / "x", {"fine": 1, key: 2})
    assert os.listdir(tmp_path) == []


# Numbering


def test_each_folder_counts_from_0(tmp_path):
    for folder in ("one", "two", "one"):
        tnb.save(tmp_path / folder / "x", np.zeros(1))
    assert names(tmp_path) == [
        *("one/x_float64_0.npy", "one/x_float64_1.npy", "two/x_float64_0.npy")
    ]


def test_a_removed_folder_counts_from_0_again(tmp_path):
    for _ in range(2):
        tnb.save(tmp_path / "out" / "x", [1, 2])
        assert names(tmp_path / "out") == ["x.0_int64_0.npy", "x.1_int64_1.npy"]
        for file in (tmp_path / "out").iterdir():
            file.unlink()
        (tmp_path / "out").rmdir()


def test_arrays_of_an_earlier_run_are_replaced_with_a_warning(tmp_path):
    tnb.save(tmp_path / "x", 1)
    DEFAULT.reset()
    with pytest.warns(tnb.TroubleshooterWarning, match="arrays of an earlier run") as caught:
        tnb.save(tmp_path / "x", 2)
    assert [warning.filename for warning in caught] == [__file__]
    tnb.save(tmp_path / "x", 3)
    assert [np.load(tmp_path / name) for name in names(tmp_path)] == [2, 3]


@pytest.mark.torch
@pytest.mark.mindspore
def test_frameworks_can_be_counted_apart(tmp_path):
    numbering = Numbering(per="framework")
    for framework in (Torch(), MindSpore(), Torch()):
        folder = tmp_path / type(framework).__name__
        tnb.save(folder / "x", framework.tensor(FLOAT), numbering=numbering)
        tnb.save(folder / "other" / "x", framework.tensor(FLOAT), numbering=numbering)
    assert names(tmp_path / "Torch") == [
        *("other/x_float32_1.npy", "other/x_float32_3.npy"),
        *("x_float32_0.npy", "x_float32_2.npy"),
    ]
    assert names(tmp_path / "MindSpore") == ["other/x_float32_1.npy", "x_float32_0.npy"]
    numbering.reset()
    assert numbering.take(tmp_path, "torch") == 0


def test_threads_never_share_a_number(tmp_path):
    def work(index):
        for _ in range(25):
            tnb.save(tmp_path / f"x{index}", np.full(3, index))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers = sorted(int(name.removesuffix(".npy").rpartition("_")[2]) for name in names(tmp_path))
    assert numbers == list(range(200))
    assert set(tnb.open_dump(tmp_path).index["status"].values) == {"ok"}


# Ranks


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"RANK": "3", "WORLD_SIZE": "8"}, "rank3/"),
        ({"RANK_ID": "1", "RANK_SIZE": "2"}, "rank1/"),
        ({"RANK": "0", "WORLD_SIZE": "1"}, ""),
        ({"RANK": "3"}, ""),
        ({"RANK": "x", "WORLD_SIZE": "y"}, ""),
    ],
)
def test_the_launcher_gives_the_rank_folder(tmp_path, monkeypatch, environment, folder):
    for name in ("RANK", "WORLD_SIZE", "RANK_ID", "RANK_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    tnb.save(tmp_path / "x", 1)
    assert names(tmp_path) == [f"{folder}x_int64_0.npy"]


def test_an_explicit_rank_wins(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "8")
    tnb.save(tmp_path / "x", 1, rank=5)
    assert names(tmp_path) == ["rank5/x_int64_0.npy"]
    assert tnb.open_dump(tmp_path).index["rank"].values.tolist() == [5]


@pytest.mark.torch
def test_torch_distributed_gives_the_rank_folder(tmp_path):
    from torch import distributed
    from torch.testing._internal.distributed.fake_pg import FakeStore

    distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
    try:
        tnb.save(tmp_path / "x", 1)
    finally:
        distributed.destroy_process_group()
    tnb.save(tmp_path / "x", 1)
    assert names(tmp_path) == ["rank1/x_int64_0.npy", "x_int64_0.npy"]


@pytest.mark.mindspore
def test_mindspore_communication_gives_the_rank_folder(tmp_path, monkeypatch):
    adapter = frameworks.require("mindspore")
    assert adapter.rank_and_size() == (0, 1)
    monkeypatch.setattr(adapter.GlobalComm, "INITED", True)
    monkeypatch.setattr(adapter, "get_rank", lambda: 2)
    monkeypatch.setattr(adapter, "get_group_size", lambda: 4)
    tnb.save(tmp_path / "x", 1)
    assert names(tmp_path) == ["rank2/x_int64_0.npy"]


# Values

VALUES = {
    "bfloat16": np.float32([[1, -0.0], [3.14, np.inf]]).astype(ml_dtypes.bfloat16),
    "float16": FLOAT.astype(np.float16),
    "float32": FLOAT,
    "float64": FLOAT.astype(np.float64),
    "complex64": FLOAT[0] * np.complex64(1 + 2j),
    "int8": np.int8([-128, 127]),
    "uint8": np.uint8([0, 255]),
    "int16": np.int16([-5, 5]),
    "int32": np.int32([[7]]),
    "int64": np.int64([2**53 + 1]),
    "bool": np.array([True, False]),
}


@pytest.mark.parametrize("dtype", VALUES)
@pytest.mark.parametrize("shape", ["as it is", "no axes", "no elements", "not contiguous"])
def test_values_are_stored_bit_for_bit(tmp_path, framework, dtype, shape):
    array = VALUES[dtype]
    tensor = framework.tensor(array)
    if shape == "no axes":
        array = array.reshape(-1)[0:1].reshape(())
        tensor = framework.tensor(array)
    elif shape == "no elements":
        array = np.zeros((0, 3), array.dtype)
        tensor = framework.tensor(array)
    elif shape == "not contiguous":
        array = array.reshape(-1, 1).T
        tensor = tensor.reshape(-1, 1).T
    tnb.save(tmp_path / "x", tensor)
    dump = tnb.open_dump(tmp_path)
    assert dump.names == [f"x_{dtype}_0"]
    found = dump.array("x")
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert found.tobytes() == array.tobytes()


@pytest.mark.parametrize("options", [{"npy_names": "id-first"}, {}])
def test_bfloat16_can_be_stored_wide(tmp_path, framework, options):
    # A name without dtype could not say what two raw bytes mean.
    with tnb.option_context(**options):
        tnb.save(tmp_path / "x", framework.tensor(VALUES["bfloat16"]), widen=not options)
    [name] = names(tmp_path)
    assert name == ("0_x.npy" if options else "x_bfloat16_0.npy")
    array = np.load(tmp_path / name)
    assert array.dtype == np.float32
    assert array.tolist() == VALUES["bfloat16"].astype(np.float32).tolist()


@pytest.mark.torch
@pytest.mark.mindspore
def test_bfloat16_of_both_frameworks_pairs_by_name(tmp_path):
    for framework in (Torch(), MindSpore()):
        folder = tmp_path / type(framework).__name__
        tnb.save(folder / "number", 1)
        tnb.save(folder / "x", framework.tensor(VALUES["bfloat16"]))
        tnb.save(folder / "y", framework.tensor(VALUES["bfloat16"]), widen=folder.name == "Torch")
    comparison = tnb.compare(
        tnb.open_dump(tmp_path / "Torch"), tnb.open_dump(tmp_path / "MindSpore")
    )
    assert comparison.result.sizes["pair"] == 3
    assert comparison.passed


def test_parameters_and_tensors_that_need_gradients_are_saved(tmp_path, framework):
    tnb.save(tmp_path / "x", [framework.parameter(FLOAT)])
    np.testing.assert_array_equal(stored(tmp_path)["x.0_float32"], FLOAT)


def test_what_was_saved_does_not_change_afterwards(tmp_path, framework):
    tensor = framework.tensor(FLOAT)
    tnb.save(tmp_path / "x", tensor)
    tensor[0, 0] = 99
    np.testing.assert_array_equal(stored(tmp_path)["x_float32"], FLOAT)


def test_arrays_and_numbers_are_saved(tmp_path):
    values = {
        **{"array": FLOAT.T, "scalar": np.float32(2.5), "int": -3, "float": 0.1, "bool": True},
        **{"complex": 1j, "big_endian": np.array([1, 2], ">i4")},
    }
    tnb.save(tmp_path / "x", values)
    dump = tnb.open_dump(tmp_path)
    for name, value in values.items():
        np.testing.assert_array_equal(dump.array(f"x.{name}"), value)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_torch_tensors_of_every_kind_are_saved_dense(tmp_path):
    import torch

    dense = torch.tensor([[0, 2.0], [3, 0]])
    conjugate = torch.tensor([1 + 2j, 3 - 4j]).conj()
    tnb.save(
        tmp_path / "x",
        {
            **{"coo": dense.to_sparse(), "csr": dense.to_sparse_csr(), "conj": conjugate},
            **{"neg": conjugate.imag, "size": dense.shape},
        },
    )
    found = stored(tmp_path)
    for name in ("coo", "csr"):
        assert found[f"x.{name}_float32"].tolist() == dense.tolist()
    assert found["x.conj_complex64"].tolist() == [1 - 2j, 3 + 4j]
    assert found["x.neg_float32"].tolist() == [-2, 4]
    assert [found[f"x.size.{axis}_int64"] for axis in (0, 1)] == [2, 2]


@pytest.mark.torch
def test_torch_tensors_without_values_are_refused(tmp_path):
    import torch

    ragged = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    for tensor, match in [
        (torch.ones(2, device="meta"), "no values"),
        (ragged, "ragged"),
        (torch.nn.UninitializedParameter(), "uninitialized"),
    ]:
        with pytest.raises(TypeError, match=rf"(?s)'x\.a\.1'.*{match}"):
            tnb.save(tmp_path / "out" / "x", {"a": [1, tensor]})
    assert os.listdir(tmp_path) == []


@pytest.mark.mindspore
def test_sparse_tensors_of_mindspore_are_refused(tmp_path):
    import mindspore

    row, column = mindspore.Tensor([[0, 1]]), mindspore.Tensor([1.0])
    sparse = mindspore.COOTensor(row, column, (2, 2))
    with pytest.raises(TypeError, match=r"'x\.0': cannot save COOTensor"):
        tnb.save(tmp_path / "x", [sparse])


@pytest.mark.mindspore
def test_tracing_by_mindspore_is_refused(tmp_path, monkeypatch):
    # Python runs once there, so every later call would be missing without a word.
    adapter, framework = frameworks.require("mindspore"), MindSpore()
    monkeypatch.setattr(adapter, "jit_context", object)
    for call in (tnb.save, tnb.save_grad):
        with pytest.raises(NotImplementedError, match='use capture_mode="ast" or no jit'):
            call(tmp_path / "x", framework.tensor(FLOAT))


@pytest.mark.mindspore
def test_an_older_mindspore_is_named(monkeypatch):
    adapter = frameworks.require("mindspore")
    monkeypatch.setattr(adapter.ops, "Morph", lambda fn, infer_shape, infer_dtype: None)
    with pytest.raises(NotImplementedError, match=r"need MindSpore 2\.7\.1 or newer, this is 2\."):
        adapter._Watched(None)


@pytest.mark.parametrize(
    "wrong", ["text", {1, 2}, range(3), b"x", object(), np.array(["a"]), 10**30, np.array([None])]
)
def test_nothing_is_written_before_everything_is_checked(tmp_path, wrong):
    with pytest.raises(TypeError, match=r"'x\.b\.1_s': cannot save"):
        tnb.save(tmp_path / "out" / "x", {"a": np.ones(2), "b": [1, wrong, 2]}, suffix="s")
    assert os.listdir(tmp_path) == []


def test_a_value_that_contains_itself_is_refused(tmp_path):
    endless = [1]
    endless.append(endless)
    with pytest.raises(ValueError, match="longer than a file name may be"):
        tnb.save(tmp_path / "out" / "x", endless)
    endless.pop(0)
    with pytest.raises(ValueError, match="longer than a file name may be"):
        tnb.save(tmp_path / "out" / "x", endless)
    assert os.listdir(tmp_path) == []


def test_an_unknown_output_mode_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="output_mode is 'npy' or 'print', got 'csv'"):
        tnb.save(tmp_path / "x", 1, output_mode="csv")


# Files


def test_files_have_the_modes_of_their_user(tmp_path):
    before = os.umask(0o027)
    try:
        tnb.save(tmp_path / "new" / "x", 1)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new" / "x_int64_0.npy").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o750


def test_a_failed_write_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(stream, array, **options):
        stream.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full)
    with pytest.raises(OSError, match="No space left"):
        tnb.save(tmp_path / "x", 1)
    assert os.listdir(tmp_path) == []


def test_a_folder_that_is_a_file_is_an_error(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(OSError, match="out"):
        tnb.save(tmp_path / "out" / "x", 1)


# Gradients


def test_a_gradient_is_the_one_of_the_whole_loss(tmp_path, framework):
    x = framework.parameter(FLOAT[0])

    def loss():
        y = x * 3
        watched = tnb.save_grad(tmp_path / "y", y)
        assert watched is y
        tnb.save(tmp_path / "after", 1)
        return (watched * y).sum()

    framework.step(loss, x)
    assert names(tmp_path) == ["after_int64_1.npy", "y_backward_float32_0.npy"]
    np.testing.assert_array_equal(stored(tmp_path)["y_backward_float32"], 6 * FLOAT[0])


def test_a_gradient_arrives_although_the_result_is_not_used(tmp_path, framework):
    x = framework.parameter(FLOAT[0])

    def loss():
        y = x * 3
        tnb.save_grad(tmp_path / "y", y, suffix=None)
        return (y * y).sum()

    framework.step(loss, x)
    np.testing.assert_array_equal(stored(tmp_path)["y_float32"], 6 * FLOAT[0])


@pytest.mark.parametrize("leaf", ["parameter", "tensor"])
def test_a_leaf_gives_one_gradient_per_step(tmp_path, framework, leaf):
    x = getattr(framework, leaf)(np.float32([1, 2]))
    for factor in (1.0, 2.0, 3.0):

        def loss(factor=factor):
            return (tnb.save_grad(tmp_path / "x", x) * factor).sum()

        framework.step(loss, x)
    assert [np.load(tmp_path / name).tolist() for name in names(tmp_path)] == [
        *([1, 1], [2, 2], [3, 3])
    ]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_gradients_keep_their_dtype(tmp_path, framework, dtype):
    x = framework.parameter(VALUES[dtype][0])
    framework.step(lambda: framework.wide_sum(tnb.save_grad(tmp_path / "x", x) * 1), x)
    dump = tnb.open_dump(tmp_path)
    assert dump.names == [f"x_backward_{dtype}_0"]
    assert dump.array("x_backward").tolist() == [1, 1]


def test_a_gradient_that_never_arrives_leaves_no_file_but_takes_its_number(tmp_path, framework):
    x = framework.parameter(FLOAT)
    tnb.save_grad(tmp_path / "x", x * 2)
    tnb.save(tmp_path / "x", 1)
    assert names(tmp_path) == ["x_int64_1.npy"]


def test_a_gradient_that_cannot_be_written_stops_the_backward_pass(tmp_path, framework):
    x = framework.parameter(FLOAT)

    def loss():
        y = tnb.save_grad(tmp_path / "out" / "x", x * 2)
        (tmp_path / "out").rmdir()
        (tmp_path / "out").write_text("")
        return y.sum()

    with pytest.raises(OSError, match="out"):
        framework.step(loss, x)


def test_save_grad_takes_one_tensor(tmp_path, framework):
    for wrong in ([framework.tensor(FLOAT)], FLOAT, 3.0, None):
        with pytest.raises(TypeError, match="'x_backward': save_grad takes one tensor"):
            tnb.save_grad(tmp_path / "x", wrong)


def test_a_tensor_without_gradient_is_refused(tmp_path, framework):
    with pytest.raises(RuntimeError, match="no gradient will come"):
        tnb.save_grad(tmp_path / "out" / "x", framework.tensor(np.int32([1])))
    assert os.listdir(tmp_path) == []


@pytest.mark.torch
def test_a_torch_tensor_that_requires_no_gradient_is_refused(tmp_path):
    import torch

    with pytest.raises(RuntimeError, match=r"no gradient will come for this \(2,\) torch.float32"):
        tnb.save_grad(tmp_path / "x", torch.ones(2))
    with torch.no_grad():  # an evaluation pass of the same network
        x = torch.ones(2)
        assert tnb.save_grad(tmp_path / "x", x) is x


@pytest.mark.torch
def test_a_second_backward_pass_gets_a_number_of_its_own(tmp_path):
    import torch

    x = torch.ones(2, requires_grad=True)
    loss = (tnb.save_grad(tmp_path / "y", x * 2) * 3).sum()
    loss.backward(retain_graph=True)
    (loss * 2).backward()
    assert [np.load(tmp_path / name).tolist() for name in names(tmp_path)] == [[3, 3], [6, 6]]


@pytest.mark.torch
@pytest.mark.parametrize("use_reentrant", [True, False])
def test_a_recomputed_block_saves_its_gradient(tmp_path, use_reentrant):
    import torch
    from torch.utils.checkpoint import checkpoint

    def block(y):
        return tnb.save_grad(tmp_path / "y", y * 2) * 3

    x = torch.ones(2, requires_grad=True)
    checkpoint(block, x * 1, use_reentrant=use_reentrant).sum().backward()
    assert np.load(tmp_path / names(tmp_path)[0]).tolist() == [3, 3]


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace")
def test_torch_compile_leaves_saving_to_python(tmp_path):
    import torch

    def function(x, weight):
        tnb.save(tmp_path / "x", {"a": [x]})
        y = tnb.save_grad(tmp_path / "y", x @ weight)
        return (y * y).sum()

    x, weight = torch.eye(2), torch.ones(2, 2, requires_grad=True)
    torch.compile(function, backend="eager")(x, weight).backward()
    assert names(tmp_path) == ["x.a.0_float32_0.npy", "y_backward_float32_1.npy"]
    assert stored(tmp_path)["y_backward_float32"].tolist() == [[2, 2], [2, 2]]


@pytest.mark.torch
def test_only_mindspore_compiles_saving():
    adapter = frameworks.require("torch")
    for ability in (adapter.compiled_save, adapter.compiled_save_grad):
        with pytest.raises(NotImplementedError, match=r"torch\.compile runs save"):
            ability(None, as_text=False)


# Prints


def test_a_print_reads_back(tmp_path, framework, capsys):
    x = framework.parameter(FLOAT[0])

    def loss():
        tnb.save(tmp_path / "x", {"k": framework.tensor(FLOAT)}, output_mode="print")
        return tnb.save_grad(tmp_path / "y", (x * x).sum(), output_mode="print") * 2

    framework.step(loss, x)
    text = capsys.readouterr().out
    assert text == (
        "_TS_SAVE_NAME:x.k\nTensor(shape=[2, 2], dtype=Float32, value=\n"
        "[[2.50000000e-01 -1.50000000e+00]\n [3.00000000e+00 nan]])\n"
        "_TS_SAVE_NAME:y_backward\nTensor(shape=[], dtype=Float32, value=2.00000000e+00)\n"
    )
    assert os.listdir(tmp_path) == []
    (tmp_path / "screen.txt").write_text(f"epoch 1\n{text}done\n")
    dump = tnb.open_dump(tmp_path / "screen.txt")
    assert dump.names == ["x.k_float32_0", "y_backward_float32_1"]
    np.testing.assert_array_equal(dump.array("x.k"), FLOAT)
