"""Padded tokens that differ are no error where a mask was recorded; one valid token is one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb import thresholds

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
from torch import nn  # noqa: E402 as importorskip says

BATCH, LENGTH, WIDTH = 4, 10, 24
LENGTHS = torch.tensor([10, 7, 4, 9])
MASKS = (0, 1, -1e9, -np.inf)
PADDED = torch.arange(LENGTH) >= LENGTHS[:, None]


class Touched(nn.Module):
    """Gives what it is given; a test may change some of it."""

    def __init__(self) -> None:
        super().__init__()
        self.places: list[tuple] = []

    def forward(self, x):
        """Keep the shape."""
        x = x.clone()
        for place in self.places:
            x[place] += 0.3
        return x


class Encoder(nn.Module):
    """Torch's own encoder, which is given which tokens are padding."""

    def __init__(self) -> None:
        super().__init__()
        self.tok, self.touched = nn.Embedding(50, WIDTH), Touched()
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 48, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 5)

    def forward(self, ids, padding_mask=None):
        """Logits of each token."""
        x = self.touched(self.tok(ids))
        return self.head(self.layers(x, src_key_padding_mask=padding_mask))


class Attention(nn.Module):
    """An attention of somebody's own, to whose scores a mask is added."""

    def __init__(self, heads: int = 3) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x, mask):
        """Keep the shape."""
        split = [m(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for m in (self.q, self.k)]
        value = self.v(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        scores = split[0] @ split[1].mT / math.sqrt(WIDTH / self.heads) + mask
        return self.o((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))


class Decoder(nn.Module):
    """Two of these, with a mask of ones for valid tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.tok, self.touched = nn.Embedding(50, WIDTH), Touched()
        self.layers = nn.ModuleList([Attention() for _ in range(2)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 5)

    def forward(self, ids, attention_mask):
        """Logits of each token."""
        x = self.touched(self.tok(ids))
        added = torch.zeros(attention_mask.shape).masked_fill(attention_mask == 0, -1e9)
        for layer in self.layers:
            x = self.norm(x + layer(x, added[:, None, None]))
        return self.head(x)


@dataclass
class Run:
    """A net with the mask that it takes, and tokens whose padding is to be chosen."""

    net: nn.Module
    mask: dict

    def saved(self, path, padding: int):
        """The run with a number as padding, recorded."""
        ids = (torch.arange(BATCH * LENGTH).reshape(BATCH, LENGTH) * 7 % 47 + 2).masked_fill(
            PADDED, padding
        )
        with tnb.record(self.net, to=path):
            self.net(ids, **self.mask)
        return path


@pytest.fixture(params=["encoder", "decoder"])
def run(request) -> Run:
    """Nets of two families."""
    torch.manual_seed(0)
    if request.param == "encoder":
        return Run(Encoder(), {"padding_mask": PADDED})
    return Run(Decoder(), {"attention_mask": (~PADDED).long()})


def test_padded_tokens_that_differ_are_no_error(run, tmp_path):
    found = tnb.compare(run.saved(tmp_path / "a", 0), run.saved(tmp_path / "b", 1), progress=False)
    assert found.passed
    assert found.first_divergence is None
    assert found.findings == ()
    assert {"padded", "identical"} == {*found.columns["verdict"]}
    text = " ".join(str(found.explain()).split())
    assert "10 of 40 tokens" in text
    assert "No difference begins anywhere" in text
    with tnb.option_context(language="zh"):
        assert "40 个 token 中有 10 个为填充" in "".join(str(found.explain()).split("\n  "))


def test_one_valid_token_is_an_error_and_is_named(run, tmp_path):
    right = run.saved(tmp_path / "b", 1)
    run.net.touched.places = [(2, 1)]
    found = tnb.compare(run.saved(tmp_path / "a", 0), right, progress=False)
    assert not found.passed
    assert "touched output" in str(found.first_divergence.row["right_display"])
    text = " ".join(str(found.explain()).split())
    assert "at sample 2 of 4, token 1 of 10" in text
    assert not any(one.confidence > 0.5 for one in found.findings)


def test_without_a_mask_nothing_is_excused(run, tmp_path):
    sides = [without_masks(run.saved(tmp_path / str(n), n)) for n in (0, 1)]
    found = tnb.compare(*sides, progress=False)
    assert not found.passed
    assert "padded" not in {*found.columns["verdict"]}


def without_masks(path) -> dict[str, np.ndarray]:
    """What a run recorded, but what holds nothing a mask does not hold."""
    dump = tnb.open_dump(path)
    names = dump.columns["name"].tolist()
    arrays = {
        name: source.read(0, math.prod(source.shape)).reshape(source.shape)
        for name, source in zip(names, dump.sources, strict=True)
        if source is not None
    }
    return {name: one for name, one in arrays.items() if not np.isin(one, MASKS).all()}


VALID = ~PADDED.numpy()
SEEN = np.tril(np.ones((LENGTH, LENGTH), bool))
HIDDEN = np.where(VALID, 0.0, -np.inf).astype(np.float32)
GIVEN = [
    ("attention_mask", VALID.astype(np.int64)),
    ("attention_mask", VALID),
    ("src_key_padding_mask", ~VALID),
    ("mask", VALID.astype(np.float32)),
    ("inputs_2", HIDDEN[:, None, None]),
    ("inputs_2", np.where(SEEN & VALID[:, None, None], 0.0, -1e9).astype(np.float32)),
    ("seq_lens", LENGTHS.numpy()),
]
NOT_GIVEN = [
    ("attention_mask", (SEEN & np.ones((BATCH, 1, LENGTH, 1), bool))),  # causal, true is seen
    ("attn_mask", ~SEEN),
    ("inputs_2", np.where(SEEN, 0.0, -1e9).astype(np.float32)),
    ("loss_mask", VALID.astype(np.int64)),
    ("mask", np.random.default_rng(0).random((BATCH, LENGTH)) < 0.5),  # what is to be predicted
    ("flags", VALID),
    ("mask", (VALID & (np.arange(LENGTH) < 9)).astype(np.int64)),  # either may be padding
    ("padding_mask", np.ones((BATCH, LENGTH), bool)),
]


def by_hand(name, mask, change=None):
    """Values of a run, whose padded tokens a test may change."""
    random = np.random.default_rng(1)
    hidden = random.standard_normal((BATCH, LENGTH, 16)).astype(np.float32)
    heads = random.standard_normal((BATCH, 2, LENGTH, 8)).astype(np.float32)
    if change is not None:
        hidden[change] += 1
        heads.swapaxes(1, 2)[change] += 1
    ids = random.integers(3, 50, (BATCH, LENGTH))
    return {"input_ids": ids, name: mask, "layer_1": hidden, "layer_2": heads}


@pytest.mark.parametrize(("name", "mask"), GIVEN)
def test_masks_as_they_are_given(name, mask):
    found = tnb.compare(by_hand(name, mask, ~VALID), by_hand(name, mask), progress=False)
    assert found.passed
    some = ~VALID
    some[0, 3] = True
    found = tnb.compare(by_hand(name, mask, some), by_hand(name, mask), progress=False)
    assert not found.passed


def test_values_too_large_to_be_read_whole_are_excused_as_well(monkeypatch):
    monkeypatch.setattr(thresholds, "LARGEST_READ", 64)
    monkeypatch.setattr(thresholds, "LARGE_BLOCK", 96)
    name, mask = GIVEN[0]
    found = tnb.compare(by_hand(name, mask, ~VALID), by_hand(name, mask), progress=False)
    assert found.passed
    some = ~VALID
    some[0, 3] = True
    assert not tnb.compare(by_hand(name, mask, some), by_hand(name, mask), progress=False).passed


def test_where_the_budget_ends_nothing_is_excused_unread():
    name, mask = GIVEN[0]
    left, right = by_hand(name, mask, ~VALID), by_hand(name, mask)
    found = tnb.compare(left, right, budget=0.0, progress=False)
    assert not found.passed


def test_nan_at_padded_tokens_is_an_error():
    name, mask = GIVEN[0]
    left = by_hand(name, mask, ~VALID)
    left["layer_2"][1, :, -1] = np.nan
    found = tnb.compare(left, by_hand(name, mask), progress=False)
    assert not found.passed
    assert {"padded", "nan"} <= {*found.columns["verdict"]}


@pytest.mark.parametrize(("name", "mask"), NOT_GIVEN)
def test_what_is_no_mask_of_padding_excuses_nothing(name, mask):
    found = tnb.compare(by_hand(name, mask, ~VALID), by_hand(name, mask), progress=False)
    assert not found.passed


def test_masks_of_the_two_sides_that_differ_excuse_nothing(run, tmp_path):
    left = run.saved(tmp_path / "a", 0)
    name, mask = next(iter(run.mask.items()))
    other = mask.clone()
    other[1, 6] = ~other[1, 6] if mask.dtype == torch.bool else 0
    run.mask = {name: other}
    found = tnb.compare(left, run.saved(tmp_path / "b", 1), progress=False)
    assert not found.passed
    assert "padded" not in {*found.columns["verdict"]}


class TwoTexts(Encoder):
    """Reads another text of the same length as well, which has no padding."""

    def __init__(self) -> None:
        super().__init__()
        self.target, self.changed = nn.Embedding(50, WIDTH), Touched()

    def forward(self, ids, target, padding_mask=None):
        """Logits of each token of the other text."""
        source = self.layers(self.tok(ids), src_key_padding_mask=padding_mask).mean(1, keepdim=True)
        return self.head(self.changed(self.target(target)) + source)


class Scores(Encoder):
    """Gives a sample as many scores as it has tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.changed = nn.Linear(WIDTH, LENGTH), Touched()

    def forward(self, ids, padding_mask=None):
        """Scores of samples."""
        x = self.layers(self.tok(ids), src_key_padding_mask=padding_mask)
        return self.changed(self.head((x * ~padding_mask[..., None]).sum(1)))


@pytest.mark.parametrize("net", [TwoTexts, Scores])
def test_what_may_be_of_something_else_is_not_excused(net):
    ids = torch.randint(0, 50, (BATCH, LENGTH), generator=torch.Generator().manual_seed(1))
    given = (ids, (7 * ids + 3) % 50) if net is TwoTexts else (ids,)
    sides = []
    for places in ([(PADDED,)], []):
        torch.manual_seed(0)
        made = net()
        made.changed.places = places
        with torch.no_grad(), tnb.record(made) as recording:
            made(*given, padding_mask=PADDED)
        sides.append(recording.dump)
    found = tnb.compare(*sides)
    assert found.exit_code == 1
    assert "padded" not in found.columns["verdict"].tolist()
