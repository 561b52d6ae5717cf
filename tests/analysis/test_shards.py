"""Ranks of one run become one dump again: shards cut from a whole model tell what is right."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from troubleshooter_nb import compare, open_dump
from troubleshooter_nb.analysis.shards.ranks import merge_ranks, missing_places
from troubleshooter_nb.dump import ArrayInMemory, Dump, Entry, fingerprints_of
from troubleshooter_nb.errors import PairingError, ReadError
from troubleshooter_nb.naming import Site

DDP = Path(__file__).parents[1] / "data" / "msprobe" / "v26_2_0" / "torch" / "t_ddp"
WIDTH, VOCABULARY, TOKENS = 48, 96, 10
AXES = {
    "*.qkv.*": ("qkv", 0),
    "*.up.*": 0,
    "*.down.weight": -1,
    "embedding.weight": 0,
    "*.norm.*": None,
    "*.down.output": "sum",
}


def random(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


def full_model():
    """Weights and activations of one layer on one rank."""
    weights = {
        "embedding.weight": random(VOCABULARY, WIDTH),
        "layer.qkv.weight": random(3 * WIDTH, WIDTH),
        "layer.qkv.bias": random(3 * WIDTH),
        "layer.up.weight": random(4 * WIDTH, WIDTH),
        "layer.up.bias": random(4 * WIDTH),
        "layer.down.weight": random(WIDTH, 4 * WIDTH),
        "layer.norm.weight": random(WIDTH, seed=1),
    }
    hidden = random(TOKENS, 4 * WIDTH)
    return weights | {"layer.down.output": hidden @ weights["layer.down.weight"].T}, hidden


def sharded_model(count):
    """What each of `count` ranks holds, as Megatron cuts it."""
    full, hidden = full_model()
    ranks = []
    for rank in range(count):
        own = {}
        for name, array in full.items():
            if "qkv" in name:
                pieces = (np.split(part, count)[rank] for part in np.split(array, 3))
                own[name] = np.concatenate(list(pieces))
            elif "norm" in name:
                own[name] = array
            elif name == "layer.down.weight":
                own[name] = np.split(array, count, 1)[rank]
            elif name == "layer.down.output":
                mine = np.split(hidden, count, 1)[rank]
                own[name] = mine @ np.split(full["layer.down.weight"], count, 1)[rank].T
            else:
                own[name] = np.split(array, count)[rank]
        ranks.append(own)
    return ranks


def entry(name, array, rank=0, order=-1, **fields):
    site = fields.pop("site", Site("file", name))
    source = ArrayInMemory(array) if isinstance(array, np.ndarray) else array
    return Entry(name, site, source, rank=rank, order=order, **fields)


def dump_of(ranks, label="run"):
    """A dump of mappings of names to arrays, one for each rank."""
    return Dump.from_entries(
        [
            entry(name, np.asarray(array, order="C"), rank, order)
            for rank, arrays in enumerate(ranks)
            for order, (name, array) in enumerate(arrays.items())
        ],
        label=label,
    )


def assert_is_full(merged):
    full, _ = full_model()
    assert merged.names == list(full)
    assert set(merged.index["rank"].values) == {0}
    for name, array in full.items():
        if name == "layer.down.output":
            # Sums of 192 float32 products in another order.
            np.testing.assert_allclose(merged.array(name), array, rtol=0, atol=1e-4)
        else:
            np.testing.assert_array_equal(merged.array(name), array, err_msg=name)


@pytest.mark.parametrize("count", [2, 4, 8])
def test_declared_axes_put_the_model_together(count):
    merged = merge_ranks(dump_of(sharded_model(count)), AXES)
    assert_is_full(merged)
    assert merged.notes == (
        f"{count} ranks merged: 1 along axis -1, 3 along axis 0, "
        "2 along axis 0 interleaved 1:1:1, 1 replicated, 1 summed",
    )


@pytest.mark.parametrize("count", [2, 4, 8])
def test_a_run_on_one_rank_shows_the_layout(count):
    full, _ = full_model()
    merged = merge_ranks(dump_of(sharded_model(count)), like=full)
    assert_is_full(merged)
    assert merged.notes == (
        f"{count} ranks merged: 3 along axis 0, 2 along axis 0 interleaved 1:1:1, "
        "1 along axis 1, 1 replicated, 1 summed",
        "1 summed over ranks that differ, only because that makes the reference; declare it in "
        "axes if it is meant: layer.down.output",
    )


def test_a_run_on_another_number_of_ranks_shows_the_layout():
    merged = merge_ranks(dump_of(sharded_model(2)), like=dump_of(sharded_model(4)))
    assert_is_full(merged)


def test_without_declaration_and_reference_only_replicas_are_merged():
    merged = merge_ranks(dump_of(sharded_model(2)))
    assert len(merged) == 7 * 2 + 1
    assert len(merged.select(rank=0)) == 8
    counts, left = merged.notes
    assert counts == "2 ranks merged: 1 replicated, 7 left under their ranks"
    assert left.startswith("left under their ranks: the ranks differ, and nothing says how")
    assert "declare an axis, 'sum', 'mean' or 'same'" in left
    assert left.endswith(
        "embedding.weight, layer.qkv.weight, layer.qkv.bias, layer.up.weight and 3 more"
    )


def test_noise_does_not_hide_the_layout():
    ranks = [
        {name: array + 0.02 * random(*array.shape, seed=7) for name, array in own.items()}
        for own in sharded_model(2)
    ]
    merged = merge_ranks(dump_of(ranks), {"*.norm.*": "mean"}, like=full_model()[0])
    assert merged.notes[0] == (
        "2 ranks merged: 3 along axis 0, 2 along axis 0 interleaved 1:1:1, 1 along axis 1, "
        "1 averaged, 1 summed"
    )


def test_grouped_queries_are_found_by_their_values():
    whole = random(96, 8)
    parts = np.split(whole, [64, 80])  # 4 queries for each key and value
    ranks = [
        {"qkv": np.concatenate([np.split(part, 4)[rank] for part in parts])} for rank in range(4)
    ]
    merged = merge_ranks(dump_of(ranks), like={"qkv": whole})
    np.testing.assert_array_equal(merged.array("qkv"), whole)
    assert "along axis 0 interleaved 4:1:1" in merged.notes[0]
    merged = merge_ranks(dump_of(ranks), {"qkv": ("interleaved", 0, (4, 1, 1))})
    np.testing.assert_array_equal(merged.array("qkv"), whole)


def test_other_values_are_merged_as_the_shapes_say_with_a_note():
    merged = merge_ranks(
        dump_of([{"w": random(4, 8)}, {"w": random(4, 8, seed=1)}]), like={"w": random(8, 8)}
    )
    assert merged.array("w").shape == (8, 8)
    assert "merged as their shapes say: values differ from the reference by" in merged.notes[1]


def test_a_bias_of_zeros_is_replicated_unless_a_reference_says_otherwise():
    ranks = [{"bias": np.zeros(4)}] * 2
    assert merge_ranks(dump_of(ranks)).array("bias").shape == (4,)
    assert merge_ranks(dump_of(ranks), like={"bias": np.zeros(8)}).array("bias").shape == (8,)
    four = dump_of([{"bias": np.zeros(2)}] * 4)
    assert merge_ranks(dump_of(ranks), like=four).array("bias").shape == (8,)


@pytest.mark.parametrize(
    ("parts", "reference", "expected"),
    [
        ([[1.0, 5.0], [2.0, 7.0]], [3.0, 12.0], "1 summed"),
        ([[1.0, 5.0], [2.0, -7.0]], [1.5, -1.0], "1 averaged"),
        ([[1.0, 5.0], [1.01, 5.01]], [1.0, 5.0], "each is like the reference on its own"),
        ([[1.0, 5.0], [9.0, 2.0]], [1.0, 5.0], "1 of 2 is like the reference on its own"),
        ([[1.0, 5.0], [2.0, 7.0]], [-8.0, 1.0], "neither one rank nor sum nor mean"),
        ([[1.0, -1.0], [-1.0, 1.0]], [0.0, 0.0], "several ways to merge are equally like"),
        ([[1.0, 5.0], [2.0, 7.0]], [1.0, 2.0, 3.0], r"no axis makes \(3,\) of the reference"),
    ],
)
def test_partial_sums_are_told_by_values_or_left(parts, reference, expected):
    dump = dump_of([{"x": np.array(part)} for part in parts])
    merged = merge_ranks(dump, like={"x": np.array(reference)})
    assert any(expected.replace("\\", "") in note for note in merged.notes), merged.notes
    assert len(merged) == (1 if expected.startswith("1 ") and "like" not in expected else 2)


def test_equal_shards_on_equally_many_ranks_tell_nothing():
    ranks = [{"w": random(4, 4)}, {"w": random(4, 4, seed=1)}]
    merged = merge_ranks(dump_of(ranks), like=dump_of(ranks))
    assert len(merged) == 2
    assert "several ways to merge are equally like the reference" in merged.notes[1]


def test_the_first_pattern_that_fits_name_or_path_counts():
    site = Site("module", "block.fc", role="output")
    dump = Dump.from_entries(
        [entry("Module.block.fc.0.output", random(2, 3, seed=r), r, site=site) for r in (0, 1)]
    )
    assert merge_ranks(dump, {"block.*": 1, "*": 0}).array("block.fc").shape == (2, 6)
    assert merge_ranks(dump, {"Module.*": 0, "*": 1}).array("block.fc").shape == (4, 3)
    merged = merge_ranks(dump, {"*": 0, "never.*": 1, "layers[0].*": 1})
    assert merged.notes[-1] == ("no entry of several ranks fits 'never.*', 'layers[0].*' of axes")


def test_names_sites_and_layers_are_kept():
    site = Site("module", "fc", 3, "forward", "output", "0")
    dump = Dump.from_entries(
        [
            entry("fc.out", random(2, 3, seed=r), r, 5, site=site, layer="Linear", stack="a.py:1")
            for r in (0, 1)
        ],
        label="run",
        format="npz",
        notes=["from before"],
    )
    merged = merge_ranks(dump, {"*": 0})
    kept = ("kind", "path", "call", "direction", "role", "slot", "order", "layer", "stack", "step")
    for column in kept:
        assert merged.index[column].values[0] == dump.index[column].values[0], column
    assert (merged.label, merged.format, merged.notes[0]) == ("run", "npz", "from before")
    assert merged.index["shape"].values[0] == (4, 3)


def test_a_shorter_last_shard_is_fine():
    ranks = [{"w": random(5, 3)}, {"w": random(2, 3)}]
    expected = np.concatenate([one["w"] for one in ranks])
    merged = merge_ranks(dump_of(ranks), {"w": 0})
    np.testing.assert_array_equal(merged.array("w"), expected)
    merged = merge_ranks(dump_of(ranks), like={"w": expected})
    np.testing.assert_array_equal(merged.array("w"), expected)


def test_what_a_rank_lacks_is_left_with_its_name():
    ranks = [{"a": random(2), "w": random(2, seed=rank)} for rank in range(4)]
    del ranks[2]["w"]
    merged = merge_ranks(dump_of(ranks), {"w": 0})
    assert merged.select(name="w").index["rank"].values.tolist() == [0, 1, 3]
    assert merged.notes[1] == "left under their ranks: rank 2 lacks them: w"


def test_other_dtypes_kinds_and_unreadable_entries_are_left():
    entries = [
        entry("dtypes", random(2), 0),
        entry("dtypes", random(2).astype(np.float16), 1),
        entry("kinds", random(2), 0),
        entry("kinds", None, 1, value="3", dtype="int"),
        entry("broken", random(2), 0),
        entry("broken", None, 1, reason="truncated"),
        entry("values", None, 0, value="3", dtype="int"),
        entry("values", None, 1, value="4", dtype="int"),
        entry("null", None, 0, value="null", dtype="NoneType"),
        entry("null", None, 1, value="null", dtype="NoneType"),
    ]
    merged = merge_ranks(Dump.from_entries(entries), {"*": 0})
    assert merged.notes == (
        "2 ranks merged: 1 replicated, 4 left under their ranks",
        "left under their ranks: dtypes differ: float32 on rank 0, float16 on rank 1: dtypes",
        "left under their ranks: a tensor on rank 0, but another value on rank 1: kinds",
        "left under their ranks: unreadable on rank 1: truncated: broken",
        "left under their ranks: values that are no tensors differ: values",
    )


def test_stages_of_a_pipeline_are_united_and_their_shards_merged():
    def stage(names, rank):
        return {name: random(2, 3, seed=rank) for name in names}

    first, second = ("layers.0.w", "layers.1.w"), ("layers.2.w", "layers.3.w")
    union = merge_ranks(dump_of([stage(first, 0), stage(second, 1)]))
    assert union.names == [*first, *second]
    assert set(union.index["rank"].values) == {0}
    assert union.index["order"].values.tolist() == [0, 1, 2, 3]
    assert union.notes == ("2 ranks merged: 4 held by one rank only (2 of rank 0, 2 of rank 1)",)
    ranks = [stage(first, 0), stage(first, 1), stage(second, 2), stage(second, 3)]
    merged = merge_ranks(dump_of(ranks), {"*": 0})
    assert merged.names == [*first, *second]
    assert set(merged.index["shape"].values) == {(4, 3)}


def test_backward_entries_of_stages_come_in_the_opposite_sequence():
    entries = [
        entry(f"{direction}.{rank}", random(2), rank, order, site=Site("api", "x", rank, direction))
        for rank in (0, 1)
        for order, direction in enumerate(("forward", "backward"))
    ]
    merged = merge_ranks(Dump.from_entries(entries)).to_dataframe().sort_values("order")
    assert merged["name"].tolist() == ["forward.0", "forward.1", "backward.1", "backward.0"]


def test_a_declared_replica_that_differs_is_left():
    merged = merge_ranks(
        dump_of([{"a": random(2), "b": random(2)}, {"a": random(2), "b": random(2, seed=1)}]),
        {"*": "same"},
    )
    assert merged.names == ["a", "b", "b"]
    assert merged.notes[1] == (
        "left under their ranks: declared to be the same, but they differ: b"
    )


def test_replicas_are_equal_bit_by_bit():
    values = np.array([np.nan, 0.0, 1.0])
    other = np.array([np.nan, -0.0, 1.0])
    assert len(merge_ranks(dump_of([{"x": values}, {"x": values.copy()}]))) == 1
    assert len(merge_ranks(dump_of([{"x": values}, {"x": other}]))) == 2


@dataclass(frozen=True)
class Counting:
    """Values that depend on the place only, and how many were read."""

    shape: tuple
    seed: int
    sizes: list = field(default_factory=list, compare=False)
    dtype = np.dtype(np.float32)

    @property
    def size_bytes(self):
        return int(np.prod(self.shape)) * 4

    def read(self, start, stop, into=None):
        self.sizes.append(stop - start)
        return (np.arange(start, stop) % 1013 + self.seed).astype(np.float32)


def test_a_large_tensor_is_read_in_the_blocks_asked_for():
    parts = [Counting((2048, 1024), rank) for rank in range(8)]  # 64 MiB
    dump = Dump.from_entries([entry("w", part, rank) for rank, part in enumerate(parts)])
    merged = merge_ranks(dump, {"w": 1})
    # A look at whether they are replicas after all.
    assert all(max(part.sizes, default=0) <= 256 for part in parts)
    for part in parts:
        part.sizes.clear()
    (source,) = merged.sources
    assert source.size_bytes == 64 * 2**20
    block = 1 << 18
    for start in range(0, 2**24, block):
        assert len(source.read(start, start + block)) == block
    for part in parts:
        assert max(part.sizes) == block // 8
        assert sum(part.sizes) == 2**21


def test_undeclared_shards_are_read_up_to_the_first_difference():
    parts = [Counting((2048, 1024), rank) for rank in range(8)]
    dump = Dump.from_entries([entry("w", part, rank) for rank, part in enumerate(parts)])
    assert len(merge_ranks(dump)) == 8
    assert sum(sum(part.sizes) for part in parts) <= 2 * 2**19
    for part in parts:
        part.sizes.clear()
    whole = Counting((2048, 8192), 0)
    merge_ranks(dump, like=Dump.from_entries([entry("w", whole)]))
    assert sum(whole.sizes) < 2**24 / 10


def test_known_checksums_are_trusted_without_reading():
    parts = [Counting((4, 4), 0), Counting((4, 4), 0)]
    entries = [entry("w", p, rank, statistics={"crc32": 5}) for rank, p in enumerate(parts)]
    assert len(merge_ranks(Dump.from_entries(entries))) == 1
    other = [entries[0], entries[1]._replace(statistics={"crc32": 6})]
    assert len(merge_ranks(Dump.from_entries(other))) == 2
    assert not any(part.sizes for part in parts)


def test_values_that_vanished_leave_the_entry_with_the_reason():
    class Gone(Counting):
        def read(self, start, stop, into=None):
            msg = "w.npy: gone"
            raise ReadError(msg)

    dump = Dump.from_entries([entry("w", Gone((2,), 0), 0), entry("w", Gone((2,), 1), 1)])
    merged = merge_ranks(dump)
    assert len(merged) == 2
    assert merged.notes[1] == "left under their ranks: they cannot be read: w.npy: gone: w"


def test_sources_of_a_merged_dump_can_be_pickled():
    merged = merge_ranks(dump_of(sharded_model(2)), AXES)
    for name, source in zip(merged.names, merged.sources, strict=True):
        again = pickle.loads(pickle.dumps(source))
        np.testing.assert_array_equal(again.read(3, 40), merged.array(name).reshape(-1)[3:40])


def test_files_are_merged_lazily(tmp_path):
    whole = random(6, 4)
    for rank, part in enumerate(np.split(whole, 2)):
        folder = tmp_path / f"rank_{rank}"
        folder.mkdir()
        np.savez(folder / "model.npz", w=part)
    ranks = [open_dump(tmp_path / f"rank_{rank}" / "model.npz") for rank in (0, 1)]
    dump = Dump.from_entries([entry("w", one.sources[0], rank) for rank, one in enumerate(ranks)])
    merged = merge_ranks(dump, {"w": 0})
    np.testing.assert_array_equal(merged.array("w"), whole)


@pytest.mark.parametrize(
    ("axes", "match"),
    [
        (
            {"*": 2},
            r"axes: '\*' wants 'w' merged along axis 2, but axis 2 does not exist in shape "
            r"\(4, 3\), which has axes 0 to 1 \(4x3 on rank 0, 5x3 on ranks 1-2\); "
            r"axis 0 would fit",
        ),
        ({"w": 1}, r"shapes \(4, 3\) and \(5, 3\) differ in more than the length of axis 1"),
        ({"w": "sum"}, r"merged sum, but shapes \(4, 3\) and \(5, 3\) differ"),
        ({"w": ("qkv", 1)}, r"interleaved 1:1:1, but shapes .* differ"),
        ({"w": ("qkv", 0)}, "a length of 4 along axis 0 cannot be divided as 1:1:1"),
    ],
)
def test_a_wrong_axis_is_an_error_that_says_what_to_do(axes, match):
    ranks = [{"w": random(4, 3)}, {"w": random(5, 3)}, {"w": random(5, 3, seed=1)}]
    with pytest.raises(PairingError, match=match):
        merge_ranks(dump_of(ranks), axes)


def test_a_scalar_has_no_axis():
    ranks = [{"x": np.array(1.0)}, {"x": np.array(2.0)}]
    with pytest.raises(PairingError, match=r"no axis \(scalar on ranks 0-1\); no axis fits"):
        merge_ranks(dump_of(ranks), {"x": 0})
    assert merge_ranks(dump_of(ranks), {"x": "mean"}).array("x") == 1.5


@pytest.mark.parametrize(
    "declared",
    ["rows", 1.5, True, ("qkv",), ("interleaved", 0, 1), ("interleaved", 0, (1, 0)), (0, 1)],
)
def test_what_is_no_layout_is_an_error_with_its_pattern(declared):
    with pytest.raises(PairingError, match=r"axes: 'w': .* is no way to merge; expected an axis"):
        merge_ranks(dump_of([{"w": random(2)}] * 2), {"w": declared})


def test_one_rank_stays_as_it_is():
    dump = dump_of([{"w": random(2)}])
    assert merge_ranks(dump) is dump
    seventh = Dump.from_entries([entry("w", random(2), 7)])
    assert merge_ranks(seventh).index["rank"].values.tolist() == [0]
    assert len(merge_ranks(Dump.from_entries([]))) == 0


def shards_of_statistics(whole, count, axis, **fields):
    parts = np.split(whole, count, axis)
    arrays = Dump.from_entries(
        [entry("w", np.ascontiguousarray(p), r) for r, p in enumerate(parts)]
    )
    known = arrays.summarise().index
    names = ("min", "max", "mean", "l2", "nan_count", "inf_count", "zero_count", "crc32")
    return Dump.from_entries(
        [
            entry(
                "w",
                None,
                rank,
                shape=part.shape,
                dtype="float32",
                statistics={name: known[name].values[rank] for name in names},
                **fields,
            )
            for rank, part in enumerate(parts)
        ]
    )


def test_statistics_of_shards_are_those_of_the_whole():
    whole = random(6, 8)
    whole[0, 0], whole[1, 5], whole[2, 2] = np.nan, np.inf, 0.0
    whole[:, 6:] = np.nan  # a shard without a finite value
    expected = Dump.from_arrays({"w": whole}).summarise().index
    shards = shards_of_statistics(whole, 4, 1, digest="md5:00")
    for merged in (
        merge_ranks(shards, {"w": 1}),
        merge_ranks(shards, like={"w": whole}),
    ):
        found = merged.index
        assert found["shape"].values[0] == (6, 8)
        for name in ("min", "max", "nan_count", "inf_count", "zero_count"):
            assert found[name].values[0] == expected[name].values[0], name
        for name in ("mean", "l2"):
            # Sums of 48 float64 values in another order.
            assert found[name].values[0] == pytest.approx(expected[name].values[0], rel=1e-13)
        assert (found["crc32"].values[0], found["digest"].values[0]) == (-1, "")


def test_statistics_cannot_be_summed():
    merged = merge_ranks(shards_of_statistics(random(4, 4), 2, 0), {"w": "sum"})
    assert len(merged) == 2
    assert "no statistics tell those of a sum" in merged.notes[1]


def test_equal_statistics_are_replicas_and_nothing_known_is_not():
    def pair(**fields):
        return Dump.from_entries(
            [entry("w", None, rank, shape=(2, 2), dtype="float32", **fields) for rank in (0, 1)]
        )

    assert len(merge_ranks(pair(statistics={"min": 0.0, "l2": 3.0}))) == 1
    assert len(merge_ranks(pair(digest="xor:12"))) == 1
    assert len(merge_ranks(pair())) == 2


def test_case_6_ranks_of_msprobe_merge_where_they_are_equal():
    dump = open_dump(DDP)
    merged = merge_ranks(dump)
    assert merged.notes[0] == "2 ranks merged: 27 replicated, 73 left under their ranks"
    assert "the ranks differ" in merged.notes[1]
    one = merged.select(step=0, rank=1)
    replicated = set(merged.select(step=0).names) - set(one.names)
    assert "Module.module.fc1.Linear.forward.0.parameters.weight" in replicated
    assert "Distributed.all_reduce.0.forward.output.0" in replicated
    assert "Functional.linear.0.backward.output.1" in replicated  # null
    assert "Functional.linear.0.forward.input.0" in one.names  # each rank has its own batch
    batches = merge_ranks(dump, {"Module.module.MLP.forward.0.*": 0}).select(step=0)
    at = batches.position("Module.module.MLP.forward.0.input.0")
    assert (batches.index["shape"].values[at], batches.index["rank"].values[at]) == ((8, 8), 0)
    assert batches.index["max"].values[at] == dump.select(step=0, rank=0).index["max"].values[4]


def test_a_name_in_a_note_is_printable():
    merged = merge_ranks(dump_of([{"a\nb": random(2)}, {"a\nb": random(2, seed=1)}]))
    assert json.dumps("a\nb")[1:-1] in merged.notes[1]


def places(*pairs):
    return Dump.from_entries([entry("w", random(1), rank, step=step) for step, rank in pairs])


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ([(0, 0)], [(0, 0)], []),
        ([(s, 0) for s in range(6)], [(0, 0), (1, 0), (2, 0)], ["steps 3-5 only on the left"]),
        ([(0, 0)], [(0, 0), (1, 0), (3, 0)], ["steps 1, 3 only on the right"]),
        (
            [(s, r) for s in (1, 2) for r in range(8)],
            [(s, r) for s in (1, 2) for r in range(8) if (s, r) != (2, 7)],
            ["rank 7 is missing in step 2 on the right"],
        ),
        ([(0, r) for r in range(8)], [(0, 0)], ["ranks 1-7 only on the left"]),
        ([(0, 0)], [(0, 0), (0, 1)], ["rank 1 only on the right"]),
        (
            [(0, 0), (0, 1), (1, 0)],
            [(0, 0), (0, 1), (1, 0)],
            ["rank 1 is missing in step 1 on both sides"],
        ),
        ([], [(0, 0)], ["step 0 only on the right"]),
        ([], [], []),
    ],
)
def test_missing_steps_and_ranks_are_listed(left, right, expected):
    assert missing_places(places(*left), places(*right)) == expected


def test_what_is_left_under_a_rank_does_not_make_the_rest_missing():
    entries = [
        Entry(name, Site("file", name), ArrayInMemory(np.full(2, rank * differs)), 0, rank)
        for rank in (0, 1)
        for name, differs in (("same", 0.0), ("other", 1.0))
    ]
    dump = merge_ranks(Dump.from_entries(entries))
    assert sorted(set(dump.index["rank"].values)) == [0, 1]
    for one in (dump, dump.select(step=0), dump.summarise()):
        assert "missing" not in repr(one)
        assert "missing" not in one._repr_html_()
    lacking = Dump.from_entries([entries[0], entries[1], entries[2]])
    assert "step 0, rank 1: 1 entries missing" in repr(lacking)


def test_replicas_that_are_declared_to_be_shards_are_noted():
    same, zeros = random(4, 3), np.zeros((4, 3), np.float32)
    ranks = [{"a.weight": same, "b.weight": random(4, 3, seed=k), "bias": zeros} for k in (1, 2)]
    merged = merge_ranks(dump_of(ranks), {"*": 0})
    said = "merged along axis 0 as declared: the same on all ranks; declare 'same' if they are "
    assert [note for note in merged.notes if "as declared" in note] == [f"{said}replicas: a.weight"]
    assert merged.index["shape"].values.tolist() == [(8, 3)] * 3
    recorded = merge_ranks(open_dump(DDP), {"*weight*": 0})
    assert any("as declared: the same on all ranks" in note for note in recorded.notes)


def test_one_rank_against_one_other_is_compared_and_said():
    dump = open_dump(DDP)
    comparison = compare(dump.select(rank=1), dump.select(rank=0), diagnose=False)
    assert comparison.pairing.matched == len(comparison) == 100
    assert comparison.notes[-1] == "rank 1 on the left is compared with rank 0 on the right"
    assert missing_places(dump.select(rank=1), dump) == ["rank 0 only on the right"]


def test_only_what_stays_the_same_tensor_keeps_its_fingerprint():
    same, part = np.arange(6.0), np.arange(12.0).reshape(2, 6)
    numbers = tuple(map(float, range(17)))
    entries = [
        entry(name, values, rank, fingerprint=numbers)
        for rank in (0, 1)
        for name, values in (("same", same), ("part", part[rank]))
    ]
    entries.append(entry("alone", same, 1, fingerprint=numbers))
    merged = merge_ranks(Dump.from_entries(entries), axes={"part": 0})
    found = dict(zip(merged.names, fingerprints_of(merged.index), strict=True))
    assert found == {"same": numbers, "part": (), "alone": numbers}


def test_equal_statistics_with_other_fingerprints_are_no_replicas():
    numbers = [tuple(float(k + rank) for k in range(17)) for rank in (0, 1)]

    def merged(first, second):
        known = {"shape": (2, 2), "dtype": "float32", "statistics": {"min": 0.0, "l2": 3.0}}
        sides = enumerate((first, second))
        return merge_ranks(
            Dump.from_entries([entry("w", None, r, fingerprint=f, **known) for r, f in sides])
        )

    assert len(merged(numbers[0], numbers[0])) == 1
    assert len(merged(*numbers)) == 2
