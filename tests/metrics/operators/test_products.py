import numpy as np

from troubleshooter_nb.metrics.operators.products import (
    block_products,
    product,
)


def test_partial_products_add_up_to_the_product():
    rng = np.random.default_rng(1)
    left, right = rng.standard_normal((3, 12)), rng.standard_normal((12, 5))
    parts = block_products(left, right, 4)
    np.testing.assert_allclose(parts[1], left[:, 3:6] @ right[3:6], rtol=1e-12)
    np.testing.assert_allclose(parts.sum(axis=0), product(left, right), rtol=1e-12)
