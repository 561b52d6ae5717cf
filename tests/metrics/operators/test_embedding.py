import numpy as np

from troubleshooter_nb.metrics.operators.embedding import gathered_gradient, look_up

TABLE = np.arange(6.0).reshape(3, 2)


def test_shifted_ids_outside_the_table_are_nan():
    rows = look_up(TABLE, np.array([[0, 2]]), shift=1)
    np.testing.assert_array_equal(rows, [[[2, 3], [np.nan, np.nan]]])


def test_gradients_of_one_row_add_up():
    got = gathered_gradient(np.array([[1.0, 2], [3, 4], [5, 6]]), np.array([1, 0, 1]), 3)
    np.testing.assert_array_equal(got, [[3, 4], [6, 8], [0, 0]])
