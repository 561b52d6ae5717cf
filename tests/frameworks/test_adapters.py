"""One contract for both frameworks: whose tensor it is, and what it holds bit for bit."""

from __future__ import annotations

import json
import subprocess
import sys
import types

import ml_dtypes
import numpy as np
import pytest

from troubleshooter_nb import frameworks, open_dump, save_dump
from troubleshooter_nb.errors import FrameworkMissingError

BOTH = [
    pytest.param("torch", marks=pytest.mark.torch),
    pytest.param("mindspore", marks=pytest.mark.mindspore),
]
NARROW = {"bfloat16": np.uint16, "float8_e4m3fn": np.uint8, "float8_e5m2": np.uint8}
COMMON = [
    *("float16", "float32", "float64", "int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64", "bool", "complex64", "complex128"),
]


def tensor_of(framework, array):
    """A tensor with these bits, made by the framework itself."""
    if framework == "torch":
        import torch

        name = array.dtype.name
        if name not in NARROW:
            return torch.from_numpy(array.copy())
        carrier = np.int16 if NARROW[name] is np.uint16 else np.uint8
        return torch.from_numpy(array.view(carrier).copy()).view(getattr(torch, name))
    import mindspore

    if array.dtype.name in NARROW:
        # MindSpore takes no ml_dtypes: it rounds float32 itself, here without a rest.
        return mindspore.Tensor(array.astype(np.float32), getattr(mindspore, array.dtype.name))
    return mindspore.Tensor(array)


@pytest.mark.parametrize("framework", BOTH)
@pytest.mark.parametrize("shape", [(), (0, 3), (4,), (2, 3, 4)])
@pytest.mark.parametrize("dtype", COMMON)
def test_values_dtype_and_shape_come_across(framework, dtype, shape):
    adapter = frameworks.require(framework)
    array = np.array(np.arange(int(np.prod(shape))).reshape(shape), dtype)
    got = adapter.to_numpy(tensor_of(framework, array))
    assert type(got) is np.ndarray
    assert (got.dtype, got.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(got, array)


@pytest.mark.parametrize("framework", BOTH)
@pytest.mark.parametrize("dtype", ["float32", *NARROW])
def test_without_copying_the_values_are_the_same_and_those_of_the_tensor(framework, dtype):
    adapter = frameworks.require(framework)
    tensor = tensor_of(framework, np.arange(6).astype(dtype).reshape(2, 3))
    copied, looked_at = adapter.to_numpy(tensor), adapter.to_numpy(tensor, copy=False)
    assert looked_at.dtype == copied.dtype
    assert looked_at.tobytes() == copied.tobytes()
    again = adapter.to_numpy(tensor, copy=False)
    assert not np.shares_memory(copied.view(np.uint8), again.view(np.uint8))
    if framework == "torch":
        assert np.shares_memory(looked_at.view(np.uint8), again.view(np.uint8))


@pytest.mark.parametrize("framework", BOTH)
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
@pytest.mark.parametrize("dtype", NARROW)
def test_narrow_floats_come_as_ml_dtypes_bit_for_bit(framework, dtype, shape):
    adapter = frameworks.require(framework)
    array = (np.arange(int(np.prod(shape))).reshape(shape) - 2.5).astype(getattr(ml_dtypes, dtype))
    array = np.array(array).reshape(shape)
    got = adapter.to_numpy(tensor_of(framework, array))
    assert got.dtype == np.dtype(getattr(ml_dtypes, dtype))
    assert got.shape == shape
    assert got.tobytes() == array.tobytes()


@pytest.mark.parametrize("framework", BOTH)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_special_values_keep_their_bits(framework, dtype):
    adapter = frameworks.require(framework)
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-40, 3e38], np.float32)
    array = special.astype(getattr(ml_dtypes, dtype, dtype))
    got = adapter.to_numpy(tensor_of(framework, array))
    np.testing.assert_array_equal(got.astype(np.float32), array.astype(np.float32))
    np.testing.assert_array_equal(
        np.signbit(got.astype(np.float32))[1:], np.signbit(array.astype(np.float32))[1:]
    )


@pytest.mark.parametrize("framework", BOTH)
def test_the_array_is_a_copy(framework):
    adapter = frameworks.require(framework)
    tensor = tensor_of(framework, np.zeros(3, np.float32))
    got = adapter.to_numpy(tensor)
    got += 1
    assert adapter.to_numpy(tensor).sum() == 0


@pytest.mark.parametrize("framework", BOTH)
def test_the_adapter_of_a_tensor_is_found_and_nobody_elses(framework):
    adapter = frameworks.require(framework)
    tensor = tensor_of(framework, np.ones(2, np.float32))
    assert adapter.is_tensor(tensor)
    assert frameworks.adapter_of(tensor) is adapter
    assert frameworks.adapter_of(np.ones(2)) is None
    assert frameworks.adapter_of([tensor]) is None
    np.testing.assert_array_equal(frameworks.to_numpy(tensor), np.ones(2))


@pytest.mark.parametrize("framework", BOTH)
def test_a_parameter_is_a_tensor(framework):
    adapter = frameworks.require(framework)
    if framework == "torch":
        import torch

        parameter = torch.nn.Parameter(torch.ones(2))
    else:
        import mindspore

        parameter = mindspore.Parameter(mindspore.Tensor(np.ones(2, np.float32)), name="p")
    assert adapter.is_tensor(parameter)
    np.testing.assert_array_equal(adapter.to_numpy(parameter), np.ones(2))


@pytest.mark.parametrize("framework", BOTH)
def test_what_the_adapter_describes_is_plain_and_named(framework):
    facts = frameworks.require(framework).describe()
    assert facts["device"]
    assert "deterministic" in facts
    assert json.loads(json.dumps(facts)) == facts


@pytest.mark.torch
def test_torch_layouts_come_dense():
    import torch

    to_numpy = frameworks.require("torch").to_numpy
    eye = torch.eye(3)
    np.testing.assert_array_equal(to_numpy(eye.to_sparse()), np.eye(3))
    np.testing.assert_array_equal(to_numpy(eye.to_mkldnn()), np.eye(3))
    square = torch.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(to_numpy(square.T[1:]), square.numpy().T[1:])
    np.testing.assert_array_equal(to_numpy(torch.ones(1).expand(4, 3)), np.ones((4, 3)))
    turned = torch.tensor([1 + 2j]).conj()
    np.testing.assert_array_equal(to_numpy(turned), [1 - 2j])
    np.testing.assert_array_equal(to_numpy(turned.imag), [-2])
    with torch.no_grad():
        live = torch.ones(2, requires_grad=True)
    np.testing.assert_array_equal(to_numpy(live), np.ones(2))


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:ComplexHalf support:UserWarning")
@pytest.mark.filterwarnings("ignore:.*quantized tensor creation:UserWarning")
def test_torch_values_without_numpy_dtype_widen():
    import torch

    to_numpy = frameworks.require("torch").to_numpy
    half = to_numpy(torch.tensor([1 + 2j], dtype=torch.complex32))
    assert half.dtype == np.complex64
    np.testing.assert_array_equal(half, [1 + 2j])
    quantized = torch.quantize_per_tensor(torch.tensor([0.5, -1.0]), 0.5, 0, torch.qint8)
    np.testing.assert_array_equal(to_numpy(quantized), [0.5, -1.0])


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:.*nested tensors:UserWarning")
@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("meta", "a meta tensor has no values"),
        ("nested", "nested tensor is ragged"),
        ("packed", "torch makes no array of this torch.int4 tensor"),
        ("lazy", "uninitialized parameter"),
    ],
)
def test_torch_tensors_without_values_raise_with_the_reason(kind, reason):
    import torch

    tensor = {
        "meta": lambda: torch.empty(2, device="meta"),
        "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        "packed": lambda: torch.empty(2, 2, dtype=torch.int4),
        "lazy": lambda: torch.nn.LazyLinear(3).weight,
    }[kind]()
    with pytest.raises(ValueError, match=reason):
        frameworks.to_numpy(tensor)


@pytest.mark.mindspore
def test_mindspores_own_formats_raise_with_advice():
    import mindspore

    if not hasattr(mindspore, "hifloat8"):
        pytest.skip("this MindSpore has no hifloat8")
    tensor = mindspore.Tensor(np.ones(2), mindspore.hifloat8)
    with pytest.raises(ValueError, match="no dtype for MindSpore's HiFloat8; cast it to float32"):
        frameworks.to_numpy(tensor)


def test_plain_values_become_arrays():
    array = np.arange(3.0)
    assert frameworks.to_numpy(array) is array
    assert frameworks.to_numpy(3).shape == ()
    assert frameworks.to_numpy([[1, 2], [3, 4]]).shape == (2, 2)
    assert frameworks.to_numpy("text").dtype.kind == "U"
    with pytest.raises(ValueError, match="inhomogeneous"):
        frameworks.to_numpy([[1], [2, 3]])


def test_an_unknown_framework_is_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="unknown framework 'jax'; known: torch, mindspore"):
        frameworks.require("jax")


@pytest.mark.parametrize("framework", frameworks.NAMES)
@pytest.mark.parametrize(
    "error",
    [ImportError("no module"), OSError("libascend.so"), TypeError("Descriptors cannot be created")],
)
def test_a_framework_that_does_not_import_is_missing_with_advice(monkeypatch, framework, error):
    def failing(name):
        raise error

    monkeypatch.setattr(frameworks.importlib, "import_module", failing)
    advice = rf"{framework} is needed here.*{error}.*pip install .*\[{framework}\]"
    with pytest.raises(FrameworkMissingError, match=advice):
        frameworks.require(framework)
    with pytest.raises(ImportError):
        frameworks.require(framework)
    # What is only half there has no tensors, and must not disturb those that are no tensors.
    monkeypatch.setitem(sys.modules, framework, types.ModuleType(framework))
    assert framework not in frameworks.loaded()
    assert frameworks.adapter_of(np.ones(2)) is None


def test_asking_whose_tensor_imports_no_framework():
    code = (
        "import sys, numpy as np\n"
        "from troubleshooter_nb import frameworks, save_dump, open_dump\n"
        "assert frameworks.adapter_of(np.ones(2)) is None\n"
        "assert frameworks.loaded() == {}\n"
        "frameworks.to_numpy(3)\n"
        "print([name for name in ('torch', 'mindspore') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "framework",
    [
        pytest.param("torch", marks=pytest.mark.torch),
        pytest.param("mindspore", marks=pytest.mark.mindspore),
    ],
)
def test_a_checkpoint_is_loaded_and_what_does_not_fit_is_named(tmp_path, framework):
    adapter = frameworks.require(framework)
    if framework == "torch":
        import torch

        net = torch.nn.Linear(3, 2)
    else:
        import mindspore

        net = mindspore.nn.Dense(3, 2)
    weight = np.arange(6, dtype=np.float32).reshape(2, 3)
    suffix = {"torch": ".pth", "mindspore": ".ckpt"}[framework]
    file = save_dump({"weight": weight, "other": np.ones(1, np.float32)}, tmp_path / f"x{suffix}")
    assert adapter.load_checkpoint(net, file) == (["bias"], ["other"])
    np.testing.assert_array_equal(adapter.to_numpy(net.weight), weight)
    adapter.save_checkpoint(net, tmp_path / f"saved{suffix}")
    saved = open_dump(tmp_path / f"saved{suffix}")
    assert saved.names == ["weight", "bias"]
    np.testing.assert_array_equal(saved.array("weight"), weight)


@pytest.mark.parametrize(
    ("framework", "shown"),
    [
        pytest.param("torch", "tensor([[1., 2.]], dtype=torch.{})", marks=pytest.mark.torch),
        pytest.param("mindspore", "[[1. 2.]]", marks=pytest.mark.mindspore),
    ],
)
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_an_array_is_shown_as_the_framework_shows_a_tensor(framework, shown, dtype):
    adapter = frameworks.require(framework)
    array = np.array([[1, 2]], np.dtype(getattr(ml_dtypes, dtype, dtype)))
    expected = shown.format(dtype)
    if framework == "mindspore" and dtype == "bfloat16":  # which it shows to six digits
        expected = "[[1.000000 2.000000]]"
    assert adapter.shown(array) == expected


def dropped_and_multiplied(framework):
    """A network with a dropout before a product by two."""
    if framework == "torch":
        from torch import nn

        net = nn.Sequential(nn.Dropout(0.5), nn.Linear(2, 1, bias=False))
    else:
        from mindspore import nn

        net = nn.SequentialCell(nn.Dropout(p=0.5), nn.Dense(2, 1, has_bias=False))
    adapter = frameworks.require(framework)
    adapter.write(adapter.tensors(net)["1.weight"], np.array([[2.0, 2.0]]))
    return adapter, net


@pytest.mark.parametrize("framework", BOTH)
def test_tensors_are_those_of_the_network_and_take_what_is_written(framework):
    adapter, net = dropped_and_multiplied(framework)
    (tensor,) = adapter.tensors(net).values()
    assert tensor is net[1].weight
    got = adapter.to_numpy(net[1].weight)
    assert (got.dtype, got.tolist()) == (np.float32, [[2.0, 2.0]])
    assert tensor.requires_grad


@pytest.mark.parametrize("framework", BOTH)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_floats_are_written_bit_for_bit(framework, dtype):
    adapter = frameworks.require(framework)
    tensor = tensor_of(framework, np.zeros((2, 2), dtype))
    if framework == "mindspore":
        import mindspore

        tensor = mindspore.Parameter(tensor)
    array = np.array([[0.1, -3.5], [np.inf, 1e-3]]).astype(dtype)
    adapter.write(tensor, array)
    assert adapter.to_numpy(tensor).tobytes() == array.tobytes()


@pytest.mark.parametrize("framework", BOTH)
@pytest.mark.parametrize("training", [True, False])
def test_outputs_are_those_of_evaluating_and_the_modes_stay(framework, training):
    adapter, net = dropped_and_multiplied(framework)
    if framework == "torch":
        net.train(training)
        net[0].train(not training)
    else:
        net.set_train(training)
        net[0].set_train(not training)
    assert adapter.is_training(net) is training
    ((name, got),) = adapter.outputs(net, np.array([[1.0, 3.0]]))
    assert (name, got.dtype, got.tolist()) == ("output", np.float32, [[8.0]])
    assert adapter.is_training(net) is training
    assert adapter.is_training(net[0]) is not training


def test_parts_of_a_nested_value_have_places():
    nested = {"a": np.ones(1), "b": [np.ones(2), (np.ones(3), None)], "c": 3}

    def is_array(value):
        return isinstance(value, np.ndarray)

    found = {name: len(part) for name, part in frameworks.parts_of(nested, is_array)}
    assert found == {"output.a": 1, "output.b.0": 2, "output.b.1.0": 3}
    assert [name for name, _ in frameworks.parts_of(np.ones(1), is_array)] == ["output"]
