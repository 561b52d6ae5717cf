"""No fitter and no detector may end a comparison, whatever arrays a dump holds."""

from __future__ import annotations

import itertools
import os
import warnings

import numpy as np
import pytest

from tests.analysis.runs import Recorder
from troubleshooter_nb import compare
from troubleshooter_nb.analysis.causes.case import Operands, TensorPair
from troubleshooter_nb.analysis.causes.layers import BACKWARD_FITTERS, FITTERS
from troubleshooter_nb.analysis.causes.tensors.detect import detect_root, detect_values
from troubleshooter_nb.dump import ArrayInMemory, Dump

_SHAPES = (
    (),
    (0,),
    (1,),
    (7,),
    (3, 0),
    (4, 5),
    (2, 3, 4),
    (1, 1, 1, 1),
    (2, 3, 4, 5),
    (2, 1, 3, 2, 2),
)


def arrays() -> dict[str, np.ndarray]:
    """Arrays of every shape and dtype that a dump may hold, and of values that break sums."""
    random = np.random.default_rng(0)
    found = {}
    for shape in _SHAPES:
        name = "x".join(map(str, shape)) or "scalar"
        found[name] = np.asarray(random.standard_normal(shape), np.float32)
    base = random.standard_normal((4, 6)).astype(np.float32)
    found |= {
        "float64": base.astype(np.float64),
        "float16": base.astype(np.float16),
        "int": (base * 10).astype(np.int64),
        "bool": base > 0,
        "complex": base.astype(np.complex64),
        "zeros": np.zeros((4, 6), np.float32),
        "constant": np.full((4, 6), 3.0, np.float32),
        "nan": np.where(base > 1, np.nan, base),
        "all nan": np.full((4, 6), np.nan, np.float32),
        "inf": np.where(base > 1, np.inf, base),
        "huge": base * np.float32(1e38),
        "tiny": base * np.float32(1e-40),
    }
    return found


_SOME = ("scalar", "0", "7", "4x5", "2x3x4x5", "int", "complex", "zeros", "nan", "huge")
# The other environment goes through them all: here only numpy is another one.
_FEW = ("0", "7", "4x5", "complex", "nan")
ARRAYS = arrays()
if os.environ.get("TNB_LONG") != "1":
    chosen = _FEW if os.environ.get("TNB_CORE") == "1" else _SOME
    ARRAYS = {name: ARRAYS[name] for name in chosen}


@pytest.mark.parametrize("word", sorted(FITTERS))
@pytest.mark.parametrize("kind", ["forward", "backward"])
def test_a_fitter_takes_any_arrays(word, kind):
    fitter = (FITTERS if kind == "forward" else BACKWARD_FITTERS).get(word)
    if fitter is None:
        return
    weights = ({}, {"weight": ARRAYS["7"]}, {"weight": ARRAYS["4x5"], "bias": ARRAYS["7"]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for (x_name, x), parameters in itertools.product(ARRAYS.items(), weights):
            for output in (x, ARRAYS["4x5"]):
                if not output.size:
                    continue
                inputs = [x, x] if kind == "forward" else [output, x]
                found = fitter(Operands(inputs, parameters, output, 2.0**-24))
                assert isinstance(found, list), (word, x_name)
                assert all(isinstance(fit.residual, float) for fit in found), (word, x_name)


@pytest.mark.parametrize("role", ["input", "parameter", "buffer"])
def test_detectors_of_tensors_take_any_pair(role):
    pairs = itertools.product(ARRAYS.items(), ARRAYS.items())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for (left_name, left), (right_name, right) in pairs:
            tensor = TensorPair(
                0,
                f"{left_name}/{right_name}",
                role,
                sources=(ArrayInMemory(left), ArrayInMemory(right)),
                rel_l2=1.0,
            )
            assert isinstance(detect_root(tensor, [tensor]), list)
            assert isinstance(detect_values(tensor), list)


_LAYERS = ("Linear", "Conv2d", "LayerNorm", "BatchNorm2d", "GELU", "Softmax", "Embedding", "LSTM")


@pytest.mark.parametrize("layer", [*_LAYERS, "Attention", "Rotary", "Dropout", "MaxPool2d"])
def test_a_diagnosis_takes_any_arrays(layer):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, values in ARRAYS.items():
            other = ~values if values.dtype == bool else (values * 2 + values.dtype.type(1))
            comparison = compare(_run(layer, values, other), _run(layer, values, values))
            assert isinstance(repr(comparison), str), name
            assert comparison._repr_html_(), name
            assert str(comparison.explain()), name


def _run(layer: str, given: np.ndarray, made: np.ndarray) -> Dump:
    """A container with two calls, of which the second is given something made between them."""
    recorder = Recorder()
    for number, (x, y) in enumerate(((given, given), (made, made))):
        path = f"block.{number}"
        base = f"Module.{path}.{layer}.forward.0"
        recorder.add(f"{base}.input.0", path, "forward", "input", "0", x, layer)
        recorder.add(f"{base}.parameters.weight", path, "forward", "parameter", "weight", x, layer)
        recorder.add(f"{base}.output.0", path, "forward", "output", "0", y, layer)
    base = "Module.block.Block.forward.0"
    recorder.add(f"{base}.input.0", "block", "forward", "input", "0", given, "Block")
    recorder.add(f"{base}.output.0", "block", "forward", "output", "0", made, "Block")
    for number in (1, 0):
        path = f"block.{number}"
        base = f"Module.{path}.{layer}.backward.0"
        recorder.add(f"{base}.input.0", path, "backward", "input", "0", made, layer)
        recorder.add(f"{base}.output.0", path, "backward", "output", "0", given, layer)
        name = f"Module.{path}.{layer}.parameters_grad.weight"
        recorder.add(name, path, "backward", "parameter", "weight", made, layer)
    return recorder.dump()
