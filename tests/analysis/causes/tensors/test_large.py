"""Tensors too large to be read whole: the same answers as of small ones."""

from __future__ import annotations

import math
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import troubleshooter_nb as tnb
from tests.analysis.causes.tensors.conftest import in_parts
from tests.analysis.causes.tensors.kit import causes, image
from tests.analysis.test_budget import CHANGES, COLUMNS, HIDDEN, ROWS
from troubleshooter_nb.analysis.budget import Budget, BudgetSpentError
from troubleshooter_nb.analysis.causes.case import TensorPair
from troubleshooter_nb.analysis.causes.tensors import detect_root, detect_values, observations
from troubleshooter_nb.analysis.causes.tensors.large import Places
from troubleshooter_nb.analysis.causes.tensors.streams import Reversed, streamed
from troubleshooter_nb.dump import ArrayInMemory


@pytest.fixture
def manner() -> str:
    """Each test here says how tensors are read."""
    return ""


def told(comparison: tnb.Comparison) -> tuple[list[tuple[str, list[int]]], set[str]]:
    """Causes with their pairs, and what else was seen."""
    found = [(one.cause, list(one.evidence["pairs"])) for one in comparison.findings]
    return found, set(comparison.observed)


def same(left, right, monkeypatch: pytest.MonkeyPatch, sample: int) -> tnb.Comparison:
    """What is told of a pair whole and in parts is the same."""
    whole = tnb.compare(left, right)
    with monkeypatch.context() as patch:
        in_parts(patch, sample)
        parts = tnb.compare(left, right)
    assert told(parts) == told(whole)
    for one, other in zip(parts.findings, whole.findings, strict=True):
        assert one.confidence == pytest.approx(other.confidence, abs=0.05)
    return parts


# Whose values that are not finite hide what a small tensor has in common with the other side.
HIDE = ("one NaN", "infinities")


@pytest.mark.few(24)
@pytest.mark.parametrize("sample", [1 << 18, 1 << 15])
@pytest.mark.parametrize("name", ["blocks.3.proj.weight", "input"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_cause_is_found_at_any_size(change, name, sample, monkeypatch):
    random = np.random.default_rng(11)
    right = {
        key: random.standard_normal((ROWS, COLUMNS), np.float32)
        for key in (name, "blocks.0.fc.weight", "blocks.1.fc.weight", "lm_head.weight")
    }
    left = {key: values.copy() for key, values in right.items()}
    left[name] = np.asarray(CHANGES[change](right[name], random), np.float32)
    if change == "copy of another":
        left[name] = right["blocks.1.fc.weight"].copy()
    if change in HIDE and name != "input":
        in_parts(monkeypatch, sample)
        assert tnb.compare(left, right).findings == ()
        return
    same(left, right, monkeypatch, sample)


@pytest.mark.parametrize("sample", [1 << 18, 1 << 12])
@pytest.mark.parametrize("case", HIDDEN)
def test_values_that_hide_their_order_are_seen_through_at_any_size(case, sample, monkeypatch):
    name, made, changed = HIDDEN[case]
    right = made(np.random.default_rng(8)).astype(np.float32)
    left = np.ascontiguousarray(changed(right))
    same({name: left}, {name: right}, monkeypatch, sample)


class Guarded(ArrayInMemory):
    """An array that counts what is read, and gives no more than 4 million elements at once."""

    def __init__(self, values: np.ndarray) -> None:
        super().__init__(np.ascontiguousarray(values))
        self.counts: list[int]
        object.__setattr__(self, "counts", [])

    def read(self, start: int, stop: int, into: np.ndarray | None = None) -> np.ndarray:
        """As `ArrayInMemory`."""
        assert stop - start <= 1 << 22
        self.counts.append(stop - start)
        return super().read(start, stop, into)


def pair_of(left, right, name="layers.3.fc.weight", role="parameter", number=0) -> TensorPair:
    """A pair as a comparison knows it, with its figures."""
    compared = tnb.compare({name: left}, {name: right}, diagnose=False).result
    figures = {key: compared[key].values[0] for key in compared.data_vars}
    error = float(figures["rel_l2_error"]) if left.shape == right.shape else math.nan
    sources = Guarded(left), Guarded(right)
    bits = tuple(int(figures[f"{side}_significand_bits"]) for side in ("left", "right"))
    slot = name.rpartition(".")[2]
    return TensorPair(number, name, role, "forward", slot, sources, error, 1e-7, bits, figures)


def reads(pair: TensorPair) -> float:
    """How often each element was read."""
    sources = [source for source in pair.sources if source is not None]
    return sum(sum(one.counts) for one in sources) / sum(one.array.size for one in sources)


@pytest.fixture(scope="module")
def weight() -> np.ndarray:
    """Five million values of no initialiser."""
    random = np.random.default_rng(3)
    values = 0.05 * random.standard_normal((2560, 2048), np.float32)
    return values + np.float32(0.002) * random.standard_t(3, (2560, 1)).astype(np.float32)


def changed(values: np.ndarray, place, new) -> np.ndarray:
    """The values with some of them replaced."""
    values = values.copy()
    values[place] = new
    return values


def flipped_bit(values: np.ndarray) -> np.ndarray:
    """One bit of one element is another one."""
    bits = values.copy()
    bits.view(np.uint32)[1500, 77] ^= np.uint32(1 << 28)
    return bits


def block(values: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Other values in a block of memory."""
    found = values.copy()
    found.reshape(-1)[start:stop] = np.random.default_rng(1).standard_normal(stop - start)
    return found


ALONE = {
    "linear_transposed": lambda v: np.ascontiguousarray(v.T),
    "low_precision_cast": lambda v: v.astype(ml_dtypes.bfloat16).astype(np.float32),
    "memory_corruption": lambda v: block(v, 4_000_000, 4_200_032),
    "memory_corruption ": flipped_bit,
    "nan_swallowed": lambda v: changed(v, np.s_[2000, 5:9], 0.0),
    "saturation": lambda v: np.clip(v, -448.0, 448.0),
    "fp16_overflow": lambda v: np.where(np.abs(v) > 65519, np.inf * np.sign(v), v),
    "underflow": lambda v: np.where(np.abs(v) < 2.0**-25, 0, v).astype(np.float32),
    "padding_idx_row": lambda v: changed(v, 2559, 0.0),
    "vocab_padding": lambda v: v[:-7],
    "qkv_packing": lambda v: np.concatenate([v[1280:], v[:1280]]),
    "tensor_not_loaded": lambda v: np.zeros_like(v),
}
NAMES = {
    "padding_idx_row": "embed_tokens.weight",
    "vocab_padding": "embed_tokens.weight",
    "qkv_packing": "attn.qkv.weight",
}


def of_cause(name: str, values: np.ndarray) -> np.ndarray:
    """What right has to hold for a cause to show."""
    if name == "nan_swallowed":
        return changed(values, np.s_[2000, 5:9], np.nan)
    if name in ("saturation", "fp16_overflow"):
        return values * np.float32(4000 if name == "saturation" else 4e5)
    if name == "underflow":
        return values * np.float32(2.0**-18)
    return values


@pytest.mark.parametrize("case", ALONE)
def test_a_cause_of_five_million_elements(case, weight):
    cause = case.strip()
    right = of_cause(cause, weight)
    left = weight if cause == "nan_swallowed" else ALONE[case](right)
    if cause == "nan_swallowed":
        left = ALONE[case](weight)
    pair = pair_of(np.asarray(left, np.float32), right, NAMES.get(cause, "layers.3.fc.weight"))
    found = detect_root(pair)
    assert causes(found) == [cause]
    assert reads(pair) < 9


def test_the_bounds_of_a_damaged_block_are_exact(weight):
    (found,) = detect_root(pair_of(block(weight, 4_000_000, 4_200_032), weight))
    assert (found.evidence["start"], found.evidence["stop"]) == (4_000_000, 4_200_032)
    assert found.residual == 0.0
    zeros = weight.copy()
    zeros.reshape(-1)[64:128] = 0
    (found,) = detect_root(pair_of(zeros, weight))
    assert found.evidence["content"] == "all 0"


def test_the_values_of_another_layer_are_proved_by_all_elements(weight):
    random = np.random.default_rng(9)
    own = 0.05 * random.standard_normal(weight.shape, np.float32)
    third = random.standard_normal(weight.shape, np.float32)
    other = pair_of(third, weight, "layers.1.fc.weight", number=1)
    pair = pair_of(weight, own)
    (found,) = detect_root(pair, [other, pair])
    assert (found.cause, found.evidence["other"]) == ("wrong_layer_loaded", "layers.1.fc.weight")
    assert found.residual == 0.0
    # A second half of its own is no other layer, whatever the rows that are looked at first.
    half = changed(weight, np.s_[1280:], own[1280:])
    assert "wrong_layer_loaded" not in causes(detect_root(pair_of(half, own), [other]))


def test_a_head_that_is_no_longer_its_embedding(weight):
    head = 0.05 * np.random.default_rng(4).standard_normal(weight.shape, np.float32)
    table = pair_of(weight, weight, "embed_tokens.weight")
    (found,) = detect_root(pair_of(weight, head, "lm_head.weight"), [table])
    assert (found.cause, found.evidence["tied"]) == ("tied_weights_broken", "left")


def test_another_draw_is_one_only_if_no_order_explains_it(weight):
    random = np.random.default_rng(2)
    drawn = random.uniform(-(2048**-0.5), 2048**-0.5, (2, *weight.shape)).astype(np.float32)
    (found,) = detect_root(pair_of(*drawn))
    assert found.cause == "rng_differs"
    assert str(found.evidence["sampled"]).endswith(" of 2,560 rows")
    # Rows, columns, both, and both with noise on them.
    rows = drawn[0][random.permutation(2560)]
    both = rows[:, random.permutation(2048)]
    noisy = both * (1 + np.float32(1e-6) * random.standard_normal(both.shape, np.float32))
    for left in (rows, drawn[0][:, ::-1], both, noisy):
        assert detect_root(pair_of(left, drawn[0])) == []
    (found,) = detect_root(pair_of(weight, drawn[0]))
    assert (found.cause, found.evidence["side"]) == ("tensor_not_loaded", "right")


@pytest.mark.parametrize("noise", [1e-4, 1e-2, 0.3])
def test_noise_and_unrelated_values_have_no_cause(noise, weight):
    random = np.random.default_rng(5)
    gap = np.float32(noise * 0.05) * random.standard_normal(weight.shape, np.float32)
    for name, role in (("layers.3.fc.weight", "parameter"), ("x", "input"), ("x", "output")):
        pair = pair_of(weight + gap, weight, name, role)
        assert detect_root(pair) == []
        assert detect_values(pair) == []
        assert observations(pair) == {}
    other = 0.03 * random.standard_t(4, weight.shape).astype(np.float32)
    assert detect_root(pair_of(other, weight)) == []


def test_a_hundredth_of_the_rows_is_wrong(weight):
    rows = np.random.default_rng(6).permutation(2560)[:25]
    left = changed(weight, rows, np.roll(weight[rows], 3, axis=1))
    pair = pair_of(left, weight)
    assert detect_root(pair) == []
    (part,) = observations(pair)["place"]["parts"]
    assert (part["axis"], part["count"]) == (0, 25)
    assert part["indices"] == sorted(rows.tolist())[:8]
    left = changed(weight, np.s_[700:725], 1.5 * weight[700:725])
    (part,) = observations(pair_of(left, weight))["place"]["parts"]
    assert (part["axis"], part["start"], part["stop"]) == (0, 700, 725)


def test_what_is_observed_of_five_million_elements(weight):
    scale = observations(pair_of(8 * weight, weight))["scale"]
    assert scale["scale"] == pytest.approx([1 / 8])
    gain = np.linspace(0.5, 2, 2560, dtype=np.float32)[:, None]
    rows = observations(pair_of(weight * gain, weight))["scale"]
    assert (rows["axis"], len(rows["scale"])) == (0, 8)
    np.testing.assert_allclose(rows["scale"], 1 / gain[:8, 0], rtol=1e-4)
    columns = observations(pair_of(weight * gain[:2048, 0], weight))["scale"]
    assert columns["axis"] == 1
    moved = observations(pair_of(np.roll(weight, 3, 1), weight))
    assert (moved["shift"]["axis"], moved["shift"]["lag"]) == (1, -3)
    assert "moments" not in moved
    mixed = np.random.default_rng(5).permutation(weight.ravel()).reshape(weight.shape)
    assert observations(pair_of(mixed, weight))["moments"]["largest"] == weight.max()
    down = observations(pair_of(np.roll(weight, -2, 0), weight))["shift"]
    assert (down["axis"], down["lag"]) == (0, 2)


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    """Smooth images, five million values from 0 to 1."""
    return image(np.random.default_rng(0), 12, 3, 384, 384)


MEAN = np.array([0.485, 0.456, 0.406], np.float32)[:, None, None]
DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)[:, None, None]


def mirrored(values: np.ndarray) -> np.ndarray:
    """The first and the third image turned left to right."""
    return changed(values, [0, 2], np.flip(values[[0, 2]], 3))


IMAGES = {
    "normalised": (lambda v: v, ["input_scale_or_normalisation"]),
    "reversed": (lambda v: ((v - MEAN) / DEVIATION)[:, ::-1], ["channel_order_bgr"]),
    "both": (
        lambda v: v[:, ::-1],
        ["channel_order_bgr", "input_scale_or_normalisation"],
    ),
    "mirrored": (lambda v: mirrored((v - MEAN) / DEVIATION), ["data_order"]),
    "exchanged": (lambda v: ((v - MEAN) / DEVIATION)[::-1], ["data_order"]),
}


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("case", IMAGES)
def test_images_of_five_million_values(case, last, images):
    made, expected = IMAGES[case]
    left, right = made(images), (images - MEAN) / DEVIATION
    if last:
        left, right = (np.moveaxis(one, 1, 3) for one in (left, right))
    pair = pair_of(np.ascontiguousarray(left), np.ascontiguousarray(right), "x", "input")
    found = detect_root(pair)
    assert causes(found) == expected
    if case == "normalised":
        assert found[0].evidence["recipes"] == ["0..1", "ImageNet"]
    if case == "mirrored":
        assert (found[0].evidence["moved"], found[0].evidence["rows"]) == (2, 12)


def test_tokens_and_positions_of_five_million():
    random = np.random.default_rng(7)
    tokens = random.integers(3, 30000, (2560, 2048)).astype(np.int32)
    order = random.permutation(2560)
    (found,) = detect_root(pair_of(tokens[order], tokens, "x", "input"))
    assert (found.cause, found.evidence["rows"]) == ("data_order", 2560)
    np.testing.assert_array_equal(tokens[order][found.evidence["order"]], tokens[:64])
    ends = random.integers(1000, 2048, 2560)[:, None]
    padded = [np.where(np.arange(2048) < ends, tokens, value) for value in (0, 50256)]
    (found,) = detect_root(pair_of(*padded, "x", "input"))
    assert (found.evidence["left_value"], found.evidence["right_value"]) == (0, 50256)
    positions = np.arange(2048)[None].repeat(2560, 0)
    (found,) = detect_root(pair_of(positions + 2, positions, "position_ids", "input"))
    assert (found.cause, found.evidence["offset"]) == ("position_offset", 2)
    each = positions - np.arange(2560)[:, None] % 7
    (found,) = detect_root(pair_of(each, positions, "position_ids", "input"))
    assert found.evidence["kind"] == "per sample"
    large = random.integers(0, 2**34, (2560, 2048))
    (found,) = detect_root(pair_of(large.astype(np.int32).astype(np.int64), large, "x", "input"))
    assert (found.cause, found.evidence["how"]) == ("int_narrowing", "wrapped to int32")


def test_a_large_buffer_that_was_never_filled():
    waves = np.cos(np.arange(70000.0)[:, None] / 10000 ** (np.arange(64) / 64)).astype(np.float32)
    memory = np.random.default_rng(0).uniform(0, 1e-38, waves.shape).astype(np.float32)
    for left in (np.zeros_like(waves), memory):
        (found,) = detect_root(pair_of(left, waves, "rotary.cos_cached", "buffer"))
        assert found.cause == "buffer_uninitialised"
    assert detect_root(pair_of(waves + 1, waves, "rotary.cos_cached", "buffer")) == []


@pytest.mark.parametrize("form", ["relu", "tanh"])
def test_a_large_value_that_an_activation_overwrote(form, weight):
    before = 20 * weight
    after = {"relu": lambda v: np.maximum(v, 0), "tanh": np.tanh}[form](before)
    (found,) = detect_values(pair_of(after, before, "fc", "output"))
    assert (found.cause, found.share) == ("recorder_inplace", 0.5)
    assert form in found.evidence["forms"]
    clipped = detect_values(pair_of(np.clip(before, -1.5, 1.2), before, "fc", "output"))
    assert str(clipped[0].evidence["form"]) == "clip to [-1.5, 1.2]"


def test_what_a_question_may_not_read_is_not_answered(weight):
    budget = Budget(compared=0, times=0.75)
    pair = replace(pair_of(np.ascontiguousarray(weight.T), weight), budget=budget)
    with budget.question(), pytest.raises(BudgetSpentError):
        detect_root(pair)
    assert budget.read <= budget.elements


@pytest.mark.parametrize(
    ("shape", "is_image"),
    [
        ((40, 30), False),
        ((3, 500), False),
        ((2000,), False),
        ((7, 9, 11), False),
        ((2, 3, 40, 50), True),
        ((5, 40, 50, 3), True),
        ((1, 1200), True),
    ],
)
def test_places_are_spread_and_hold_the_worst(shape, is_image, monkeypatch):
    in_parts(monkeypatch, 300)
    values = np.arange(math.prod(shape)).reshape(shape)
    for worst in (0, values.size // 3, values.size - 1):
        places = Places.of(shape, worst, images=is_image)
        found = places.read(ArrayInMemory(values), None)
        assert found.ndim == values.ndim
        assert worst in found
        assert places.size == found.size <= 900
        # The same indices along each axis, each once.
        along = [np.unique(one) for one in np.unravel_index(found.reshape(-1), shape)]
        np.testing.assert_array_equal(found, values[np.ix_(*along)])
        if is_image:
            channels = shape.index(3) if 3 in shape else 0
            assert found.shape[channels] == shape[channels]


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("most", [7, 1 << 18])
def test_a_reversed_axis_is_read_in_any_range(axis, most, monkeypatch):
    in_parts(monkeypatch)
    monkeypatch.setattr("troubleshooter_nb.thresholds.LARGE_BLOCK", most)
    values = np.arange(4 * 3 * 5).reshape(4, 3, 5)
    source = Reversed(ArrayInMemory(values), axis)
    expected = np.flip(values, axis).reshape(-1)
    for start, stop in [(0, 60), (3, 4), (7, 44), (15, 30), (59, 60)]:
        np.testing.assert_array_equal(source.read(start, stop), expected[start:stop])
    blocks = [part.copy() for _, (part,) in streamed([source], None)]
    np.testing.assert_array_equal(np.concatenate(blocks), expected)
