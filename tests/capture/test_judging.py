"""A value beside an entry of a reference: the verdict is that of `compare`."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.capture.judging import Judge

rng = np.random.default_rng(0)
VALUES = rng.standard_normal((40, 30)).astype(np.float32)
FAULTS = {
    "same": lambda v: v.copy(),
    "rounded": lambda v: v * np.float32(1 + 1e-7),
    "near": lambda v: v + np.float32(5e-5),
    "far": lambda v: v * 1.1,
    "one": lambda v: np.where(np.arange(v.size).reshape(v.shape) == 7, v + 1, v),
    "rows": lambda v: v[::-1].copy(),
    "nan": lambda v: np.where(v > 2, v.dtype.type(np.nan), v),
    "inf": lambda v: np.where(v > 2, v.dtype.type(np.inf), v),
    "half": lambda v: v.astype(np.float16).astype(v.dtype),
    "shape": lambda v: v.reshape(30, 40),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_values_are_judged_as_compare_judges_them(fault, dtype):
    right = VALUES.astype(dtype)
    left = FAULTS[fault](right).astype(dtype)
    judged = Judge(tnb.Dump.from_arrays({"x": right}), tnb.Tolerance()).of(0, left, 0)
    wanted = tnb.compare({"x": left}, {"x": right}, diagnose=False).result
    verdict = wanted["verdict"].item()
    assert judged.verdict == (
        "undecidable" if "only because of atol" in wanted["reason"].item() else verdict
    )
    assert judged.differs == (verdict in ("reduced", "differs", "unrelated", "nan", "shape"))
    if judged.verdict not in ("identical", "shape", "pass"):
        error = float(wanted["rel_l2_error"].item())
        np.testing.assert_equal(judged.rel_l2_error, error if not math.isnan(error) else np.nan)


@pytest.mark.parametrize(
    ("dtype", "fault", "expected"),
    [
        (np.int64, "same", "identical"),
        (np.int64, "rows", "differs"),
        (np.bool_, "same", "identical"),
        (np.complex64, "rounded", "pass"),
    ],
)
def test_what_is_no_float_is_judged_too(dtype, fault, expected):
    right = (VALUES * 10).astype(dtype)
    left = FAULTS[fault](right).astype(dtype)
    judged = Judge(tnb.Dump.from_arrays({"x": right}), tnb.Tolerance()).of(0, left, 0)
    assert judged.verdict in (expected, "unrelated" if expected == "differs" else expected)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3,)])
def test_scalars_and_empty_tensors_have_a_verdict(shape):
    right = np.ones(shape, np.float32)
    judge = Judge(tnb.Dump.from_arrays({"x": right}), tnb.Tolerance())
    assert judge.of(0, right.copy(), 0).verdict == "identical"
    if right.size:
        assert judge.of(1, right + 1, 0).differs


def test_values_that_cannot_be_read_are_not_passed():
    judged = Judge(tnb.Dump.from_arrays({"x": VALUES}), tnb.Tolerance()).of(0, None, 0)
    assert judged.is_open
    assert not judged.differs
