import numpy as np

from troubleshooter_nb.metrics.operators.embedding import gathered_gradient, look_up

TABLE = np.arange(6.0).reshape(3, 2)


def test_behind_the_last_row_of_the_table_comes_the_first():
    rows = look_up(TABLE, np.array([[0, 2]]), shift=1)
    np.testing.assert_array_equal(rows, [[[2, 3], [0, 1]]])
    np.testing.assert_array_equal(look_up(TABLE, np.array([0]), shift=-1), [[4, 5]])


def test_gradients_of_one_row_add_up():
    got = gathered_gradient(np.array([[1.0, 2], [3, 4], [5, 6]]), np.array([1, 0, 1]), 3)
    np.testing.assert_array_equal(got, [[3, 4], [6, 8], [0, 0]])
