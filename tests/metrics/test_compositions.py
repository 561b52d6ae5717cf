import ml_dtypes
import numpy as np
import pytest

from troubleshooter_nb.metrics.compositions import (
    composition_of,
    find_composition,
    not_composed,
)
from troubleshooter_nb.metrics.streamed import KeptSignatures, Streamed


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


QKV = {name: normal(64, 24, seed=seed) for seed, name in enumerate("vqk")}
OTHERS = {f"layer{i}": normal(64, 24, seed=10 + i) for i in range(3)}
GROUPED = {"q": normal(64, 24, seed=20), "k": normal(16, 24, seed=21), "v": normal(16, 24, seed=22)}
EXPERTS = {f"expert{i}": normal(12, 8, seed=30 + i) for i in range(6)}


class Counting:
    """A source that counts what is read, and never gives more than so many elements at once."""

    def __init__(self, array, most=256):
        self.shape, self.dtype, self.most = array.shape, array.dtype, most
        self.flat = np.ascontiguousarray(array).reshape(-1)
        self.count = 0

    def read(self, start, stop, into=None):
        assert 0 <= start <= stop <= len(self.flat)
        assert stop - start <= self.most
        self.count += stop - start
        return self.flat[start:stop].copy()


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks and boxes so small that every tensor of the cases takes several."""
    metrics = "troubleshooter_nb.metrics"
    blocks = {"READ_BLOCK": 100, "READ_BOX": 200, "READ_RUN": 8, "READ_THROUGH_BYTES": 20}
    for name, value in blocks.items():
        monkeypatch.setattr(f"{metrics}.ranges.{name}", value)
    for name in ("READ_BLOCK", "READ_THROUGH_BYTES"):
        monkeypatch.setattr(f"troubleshooter_nb.ranges.{name}", blocks[name])
    for name in ("READ_BLOCK", "READ_BOX"):
        monkeypatch.setattr(f"{metrics}.streamed.{name}", blocks[name])
    monkeypatch.setattr(f"{metrics}.streamed.SIGNATURES_BLOCK", 128)


def in_parts(parts, whole):
    kept = KeptSignatures()
    given = {name: Streamed(Counting(part), kept=kept) for name, part in parts.items()}
    return composition_of(given, Streamed(Counting(whole), kept=kept))


def in_turns(parts, groups):
    pieces = [part.reshape(groups, -1, *part.shape[1:]) for part in parts]
    joined = np.concatenate(pieces, axis=1)
    return joined.reshape(-1, *joined.shape[2:])


@pytest.mark.parametrize(("groups", "kind"), [(1, "concat"), (8, "interleave"), (64, "interleave")])
def test_the_three_packings_of_qkv_are_told_apart(groups, kind):
    whole = in_turns([QKV[name] for name in "qkv"], groups)
    found = find_composition(QKV | OTHERS, whole)
    assert (found.kind, found.parts) == (kind, ("q", "k", "v"))
    assert found.arguments == {
        "axis": 0,
        "sizes": (64, 64, 64),
        "groups": groups,
        "transposed": False,
    }
    assert found.residual == 0.0
    assert np.array_equal(found.apply(QKV | OTHERS), whole)


@pytest.mark.parametrize("groups", [1, 4])
def test_fewer_heads_of_keys_are_packed_with_more_of_queries(groups):
    whole = in_turns(list(GROUPED.values()), groups)
    found = find_composition(OTHERS | GROUPED, whole)
    assert found.parts == ("q", "k", "v")
    assert (found.arguments["groups"], found.arguments["sizes"]) == (groups, (64, 16, 16))


@pytest.mark.parametrize("order", [["gate", "up"], ["up", "gate"]])
def test_gate_and_up_are_named_in_their_order(order):
    parts = {"gate": normal(40, 16, seed=1), "up": normal(40, 16, seed=2)}
    whole = np.concatenate([parts[name] for name in order])
    assert find_composition(parts, whole).parts == tuple(order)


@pytest.mark.parametrize("groups", [1, 8, 64])
def test_biases_are_packed_as_weights_are(groups):
    parts = {name: normal(64, seed=seed) for seed, name in enumerate("qkv")}
    whole = in_turns(list(parts.values()), groups)
    whole = whole + np.float32(1e-3) * normal(192, seed=9)
    found = find_composition(parts, whole)
    assert (found.parts, found.arguments["groups"]) == (("q", "k", "v"), groups)
    assert 1e-4 < found.residual < 2e-3


def test_experts_are_stacked_in_any_order():
    names = ["expert3", "expert0", "expert5", "expert1", "expert2", "expert4"]
    whole = np.stack([EXPERTS[name] for name in names]).astype(ml_dtypes.bfloat16)
    found = find_composition(EXPERTS, whole)
    assert (found.kind, found.parts, found.arguments["axis"]) == ("stack", tuple(names), 0)
    assert found.residual < 2.0**-8  # one rounding to bfloat16
    assert found.apply(EXPERTS).shape == whole.shape


def test_transposed_parts_along_the_last_axis():
    whole = np.concatenate([QKV[name].T for name in "qkv"], axis=1)
    found = find_composition(QKV, whole)
    assert (found.parts, found.arguments["axis"]) == (("q", "k", "v"), 1)
    assert found.arguments["transposed"]
    assert np.array_equal(found.apply(QKV), whole)
    assert "each transposed" in found.text


def test_parts_of_very_unequal_size_are_placed():
    parts = {"large": normal(32, 16, seed=1), "small": 0.02 * normal(32, 16, seed=2)}
    whole = np.concatenate([parts["small"], parts["large"]])
    whole += np.float32(1e-3) * normal(64, 16, seed=3)
    assert find_composition(parts, whole).parts == ("small", "large")
    parts["small"] = 0.002 * normal(32, 16, seed=4)
    assert find_composition(parts, whole) is None


def test_nothing_is_claimed_without_all_parts():
    whole = np.concatenate([QKV["q"], QKV["k"], QKV["v"]])
    assert find_composition({"q": QKV["q"], "k": QKV["k"]} | OTHERS, whole) is None
    assert find_composition(OTHERS, normal(192, 24, seed=77)) is None
    assert find_composition({}, whole) is None
    assert find_composition({"whole": whole}, whole) is None
    assert find_composition({"a": np.ones((2, 3)), "b": np.ones((2, 3))}, np.ones((4, 3))) is None
    assert find_composition({"a": np.ones((0, 3)), "b": np.ones(())}, np.ones((0, 3))) is None


def test_nan_must_be_at_its_place():
    parts = {"a": normal(8, 9, seed=1), "b": normal(8, 9, seed=2)}
    parts["a"][2, 2] = np.nan
    whole = np.concatenate(list(parts.values()))
    assert find_composition(parts, whole).parts == ("a", "b")
    whole[2, 2] = 0.0
    assert find_composition(parts, whole) is None


def test_text_is_no_part():
    with pytest.raises(ValueError, match="find_composition needs numbers"):
        find_composition({"a": np.array(["x"])}, np.ones(8))


def test_the_two_biases_of_a_recurrent_layer_add_up_to_one():
    parts = {name: normal(32, seed=seed) for seed, name in enumerate(["b_ih", "other", "b_hh"])}
    whole = parts["b_ih"] + parts["b_hh"]
    found = find_composition(parts, whole)
    assert (found.kind, found.parts) == ("sum", ("b_ih", "b_hh"))
    assert np.array_equal(found.apply(parts), whole)
    assert find_composition(parts, whole + np.float32(0.1) * parts["other"]) is None
    # A part too small to be told from the noise explains nothing.
    tiny = {"b_ih": parts["b_ih"], "tiny": 1e-4 * parts["other"]}
    assert find_composition(tiny, parts["b_ih"] + np.float32(1e-3) * normal(32, seed=9)) is None
    zero = {"b_ih": parts["b_ih"], "zero": np.zeros(32, np.float32)}
    assert find_composition(zero, parts["b_ih"].copy()) is None
    assert find_composition({"half": parts["b_ih"]}, 2 * parts["b_ih"]) is None


TURNED = {name: QKV[name].T for name in "qkv"}
BIASES = {"b_ih": normal(320, seed=1), "b_hh": normal(320, seed=2), "other": normal(320, seed=3)}
WHOLES = {
    "concat": (QKV | OTHERS, in_turns([QKV[name] for name in "qkv"], 1)),
    "turns": (QKV | OTHERS, in_turns([QKV[name] for name in "qkv"], 8)),
    "grouped": (OTHERS | GROUPED, in_turns(list(GROUPED.values()), 4)),
    "last axis": (QKV, np.concatenate([QKV[name] for name in "qkv"], axis=1)),
    "transposed": (QKV, np.concatenate([TURNED[name] for name in "qkv"], axis=1)),
    "transposed rows": (QKV, np.concatenate([TURNED[name] for name in "qkv"])),
    "stack": (EXPERTS, np.stack(list(EXPERTS.values()))),
    "stack in the middle": (EXPERTS, np.stack(list(EXPERTS.values()), axis=1)),
    "transposed stack": (EXPERTS, np.stack([e.T for e in EXPERTS.values()], axis=2)),
    "biases": (BIASES, np.concatenate([BIASES["b_hh"], BIASES["b_ih"]])),
    "sum": (BIASES, BIASES["b_ih"] + BIASES["b_hh"]),
    "nothing": (OTHERS, normal(192, 24, seed=77)),
}


@pytest.mark.parametrize("name", WHOLES)
def test_what_is_composed_in_parts_is_what_is_composed_of_whole_arrays(name, small_blocks):
    parts, whole = WHOLES[name]
    found, expected = in_parts(parts, whole), find_composition(parts, whole)
    assert (found is None) == (name == "nothing")
    if found is not None:
        assert found == expected
        assert np.array_equal(found.apply(parts), whole)
        wrong = whole.copy()
        wrong.flat[-1] += 10
        assert in_parts(parts, wrong) is None


def test_parts_of_a_large_whole_are_read_a_few_times_by_blocks_of_them():
    parts = {name: Counting(normal(1024, 1024, seed=i), 1 << 20) for i, name in enumerate("abcde")}
    held = [parts[name].flat.reshape(1024, 1024).T for name in "cab"]
    whole = Counting(np.concatenate(held, axis=1), 1 << 20)
    found = composition_of({n: Streamed(p) for n, p in parts.items()}, Streamed(whole))
    assert (found.parts, found.arguments["transposed"]) == (("c", "a", "b"), True)
    for source in (whole, *parts.values()):
        assert source.count <= 9 * len(source.flat)


def test_parts_of_too_many_rows_are_said_not_to_be_looked_for(monkeypatch):
    parts = {name: Streamed(Counting(QKV[name], 10_000)) for name in "qkv"}
    whole = Streamed(Counting(np.concatenate(list(QKV.values())), 10_000))
    assert composition_of(parts, whole) is not None
    assert not_composed(parts, whole) is None
    monkeypatch.setattr("troubleshooter_nb.metrics.compositions.MOST_MATCHED_ROWS", 100)
    assert composition_of(parts, whole) is None
    assert not_composed(parts, whole).id == "values.no_parts_of_many_rows"
