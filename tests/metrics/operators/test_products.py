import ml_dtypes
import numpy as np
import pytest

from troubleshooter_nb.metrics.operators.products import (
    STORED_FORMATS,
    block_products,
    in_format,
    product,
    to_bits,
)


@pytest.mark.parametrize(
    ("value", "bits", "truncate", "expected"),
    [
        (1 + 2**-11, 11, False, 1.0),  # a tie: to the even neighbour
        (1 + 3 * 2**-11, 11, False, 1 + 2**-9),  # a tie, up
        (1 + 2**-10 + 2**-12, 11, False, 1 + 2**-10),
        (1 + 2**-11 + 2**-12, 11, True, 1.0),
        (-(1 + 2**-11 + 2**-12), 11, True, -1.0),
        (2 - 2**-12, 11, False, 2.0),  # carries into the exponent
        (0.0, 8, False, 0.0),
        (np.inf, 8, False, np.inf),
    ],
)
def test_significands_are_cut_by_hand(value, bits, truncate, expected):
    assert to_bits(np.array(value), bits, truncate=truncate) == expected


def test_nan_stays_nan():
    assert np.isnan(to_bits(np.array(np.nan), 8))


@pytest.mark.parametrize(
    ("name", "dtype"), [("bfloat16", ml_dtypes.bfloat16), ("float16", np.float16)]
)
def test_stored_formats_are_those_of_numpy(name, dtype):
    values = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    expected = values.astype(dtype).astype(np.float64)
    np.testing.assert_array_equal(in_format(values, name), expected)
    np.testing.assert_array_equal(to_bits(values, 8 if name == "bfloat16" else 11), expected)


def test_the_exact_format_changes_nothing():
    values = np.random.default_rng(0).standard_normal(9)
    np.testing.assert_array_equal(in_format(values, "exact"), values)
    assert set(STORED_FORMATS) == {"bfloat16", "float16"}


def test_partial_products_add_up_to_the_product():
    rng = np.random.default_rng(1)
    left, right = rng.standard_normal((3, 12)), rng.standard_normal((12, 5))
    parts = block_products(left, right, 4)
    np.testing.assert_allclose(parts[1], left[:, 3:6] @ right[3:6], rtol=1e-12)
    np.testing.assert_allclose(parts.sum(axis=0), product(left, right), rtol=1e-12)
