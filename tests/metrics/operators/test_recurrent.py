import numpy as np
import pytest

from troubleshooter_nb.metrics.operators.recurrent import Gates, gru, lstm


def test_a_gate_that_keeps_the_old_state_keeps_it():
    size = 2
    gates = Gates(
        np.zeros((6, 3)), np.zeros((6, size)), np.repeat([0.0, 50.0, 0.0], size), np.zeros(6)
    )
    start = np.array([[0.3, -0.7]])
    x = np.ones((4, 1, 3))
    np.testing.assert_allclose(gru(x, start, gates)[-1], start)
    np.testing.assert_allclose(gru(x, start, gates, keeps=False)[-1], [[0, 0]], atol=1e-12)


@pytest.mark.torch
@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
def test_steps_are_torchs(kind):
    import torch

    layer = getattr(torch.nn, kind)(5, 4).double()
    x = torch.randn(7, 3, 5, dtype=torch.float64)
    expected = layer(x)[0].detach().numpy()
    gates = Gates(*(values.detach().numpy() for values in layer.parameters()))
    zero = np.zeros((3, 4))
    got = gru(x.numpy(), zero, gates) if kind == "GRU" else lstm(x.numpy(), zero, zero, gates)
    np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)
