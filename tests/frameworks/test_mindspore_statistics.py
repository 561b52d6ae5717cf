"""Statistics of MindSpore tensors are taken of what asnumpy() gives, without an adapter between."""

from __future__ import annotations

import numpy as np
import pytest

from troubleshooter_nb.frameworks import require
from troubleshooter_nb.metrics.sketches import statistics_of

pytestmark = pytest.mark.mindspore


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "int32", "bool_"])
def test_what_asnumpy_gives_has_the_statistics_of_its_copy(dtype):
    import mindspore

    values = (np.arange(3000).reshape(30, 100) % 61 - 30).astype(np.float32)
    tensor = mindspore.Tensor(values).astype(getattr(mindspore, dtype)).T
    found = statistics_of(tensor.asnumpy(), True)
    assert found == statistics_of(require("mindspore").to_numpy(tensor), True)
    # By numpy; whole numbers are summed exactly.
    expected = values.astype(bool) if dtype == "bool_" else values
    assert found["fingerprint"][0] == expected.sum()
    assert (found["min"], found["max"]) == (expected.min(), expected.max())
