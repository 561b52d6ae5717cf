import numpy as np
import pytest

from troubleshooter_nb.analysis.causes.case import Operands
from troubleshooter_nb.analysis.causes.laws.embedding import EMBEDDING, TABLE_GRADIENT

ROUNDOFF = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def side(inputs, output, parameters=None, dtype="float32"):
    return Operands(inputs, parameters or {}, output, ROUNDOFF[dtype])


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


IDS = np.random.default_rng(4).integers(4, 90, (4, 40))
IDS[:, :5] = 3
TABLE = normal(100, 64)
STANDARD = {"padding_row": "used", "index_shift": 0, "embedding_scale": 1.0, "scale_name": "1"}


@pytest.mark.parametrize(
    ("output", "changed"),
    [
        (TABLE[IDS], {}),
        (8 * TABLE[IDS], {"embedding_scale": 8.0, "scale_name": "sqrt(64)"}),
        (1.37 * TABLE[IDS], {"embedding_scale": 1.37, "scale_name": ""}),
        (TABLE[IDS + 2], {"index_shift": 2}),
        (TABLE[IDS] * (IDS != 3)[..., None], {"padding_row": "zero for id 3"}),
    ],
)
def test_an_embedding_says_what_it_did(output, changed):
    fits = EMBEDDING.fit(side([IDS], output.astype(np.float32), {"weight": TABLE}))
    assert fits[0].settings == {**STANDARD, **changed}
    assert fits[0].residual < 1e-6
    assert fits[1].residual > 1e-2


@pytest.mark.parametrize("shift", [1, -2])
def test_ids_that_wrap_at_the_end_of_the_table_are_shifted_ids(shift):
    ids = np.concatenate([IDS, [[0, 1, 98, 99] * 10]])
    output = TABLE[(ids + shift) % 100]
    best = EMBEDDING.fit(side([ids], output, {"weight": TABLE}))[0]
    assert best.settings == {**STANDARD, "index_shift": shift}


def test_a_root_rounded_to_bfloat16_is_told_from_the_root():
    table = normal(100, 768)
    output = table[IDS] * np.float32(27.75)
    best = EMBEDDING.fit(side([IDS], output, {"weight": table}))[0]
    assert best.settings["scale_name"] == "sqrt(768) in bfloat16"
    exact = table[IDS] * np.float32(768**0.5)
    best = EMBEDDING.fit(side([IDS], exact, {"weight": table}))[0]
    assert best.settings["scale_name"] == "sqrt(768)"


def test_a_row_of_zeros_in_the_table_is_no_padding():
    table = TABLE.copy()
    table[3] = 0
    best = EMBEDDING.fit(side([IDS], table[IDS], {"weight": table}))[0]
    assert best.settings == STANDARD


def test_unrelated_values_and_one_id_only_fit_nothing():
    assert EMBEDDING.fit(side([IDS], normal(4, 40, 64, seed=8), {"weight": TABLE})) == []
    one = np.full((4, 40), 7)
    assert EMBEDDING.fit(side([one], TABLE[one], {"weight": TABLE})) == []


@pytest.mark.torch
@pytest.mark.parametrize(("padding", "said"), [(None, "kept"), (3, "none for id 3")])
def test_the_padding_row_without_gradient_is_seen(padding, said):
    import torch

    layer = torch.nn.Embedding(100, 64, padding_idx=padding)
    output = layer(torch.tensor(IDS))
    gradient = torch.randn_like(output)
    output.backward(gradient)
    best = TABLE_GRADIENT.fit(side([gradient.numpy(), IDS], layer.weight.grad.numpy()))[0]
    assert best.settings == {"padding_gradient": said, "gradient_factor": 1.0}
