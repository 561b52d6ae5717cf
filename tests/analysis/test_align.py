"""pair_dumps: the peer's cases, parameters in two spellings, networks with known partners, laws."""

from __future__ import annotations

import json
import random
import time
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from troubleshooter_nb import Dump, compare, open_dump, pair_dumps
from troubleshooter_nb.analysis import align
from troubleshooter_nb.analysis.search import Item, Search
from troubleshooter_nb.dump import ArrayInMemory, Entry
from troubleshooter_nb.errors import PairingError
from troubleshooter_nb.formats.pairing_files import read_mapping
from troubleshooter_nb.naming import Site, site_of_npy_stem
from troubleshooter_nb.pairing import places_of

FIXTURES = Path(__file__).parents[1] / "data" / "troubleshooter"
METHODS = ["auto", "name", "order", "shape"]
CASES = json.loads((FIXTURES / "master_1.0.19" / "name_map_cases.json").read_text())


class Hollow:
    """An array source with a shape and no values: big networks cost nothing."""

    def __init__(self, shape):
        self.shape, self.dtype = tuple(shape), np.dtype(np.float32)
        self.size_bytes = 4 * int(np.prod(shape))

    def read(self, start, stop, into=None):
        return np.zeros(stop - start, np.float32)


def saved(entries, *, label="d", folder="ts_save", step=0, rank=0):
    """A dump of (stem, shape) saved in this order, as npy_dir would open it."""
    return Dump.from_entries(
        [
            Entry(
                f"{stem}_float32_{k}",
                site_of_npy_stem(stem, folder=folder),
                Hollow(shape),
                step=step,
                rank=rank,
                order=k,
            )
            for k, (stem, shape) in enumerate(entries)
        ],
        label=label,
    )


def partners(pairing):
    """(left, right) of every row; None where there is no partner."""
    return [
        (str(a) or None, str(b) or None)
        for a, b in zip(pairing.table["left"].values, pairing.table["right"].values, strict=True)
    ]


def rows(pairing):
    """left path or None -> (right path or None, method, confidence)."""
    left, right = (dump.index["path"].values for dump in (pairing.left, pairing.right))
    return {
        left[m.left] if m.left >= 0 else None: (
            right[m.right] if m.right >= 0 else None,
            m.method,
            m.confidence,
        )
        for m in pairing.matches()
    }


def on_disk(folder, files):
    folder.mkdir()
    for name, shape in files:
        np.save(folder / name, np.zeros(shape, np.float32))
    return open_dump(folder)


def pairs_of_case(tmp_path, case, method):
    dumps = (on_disk(tmp_path / side, CASES[case][side]) for side in ("orig", "target"))
    found = partners(pair_dumps(*dumps, method=method))
    return {tuple(name and f"{name}.npy" for name in pair) for pair in found}


def zipped(left, right):
    return {(f"{a}.npy", f"{b}.npy") for a, b in zip(left.split(), right.split(), strict=True)}


DIGITS = zipped(
    "conv2_float32_0 relu_float32_1 conv1_float32_2 fc_float16_3",
    "a_float32_0 b_float32_1 c_float32_2 d_float16_3",
)
TWO_OF_THREE = {
    *zipped("g.0_float32_0 g.1_float32_1", "h.0_float32_0 h.1_float32_1"),
    (None, "h.2_float32_2.npy"),
}
SAME = zipped("alpha beta", "alpha beta")
# What differs from the peer's answer, and why: acceptance cases 6 to 8.
OURS = {
    ("scheme_C_digits_in_layer_names", "shape"): DIGITS,  # the peer sorts by the layers' digits
    ("no_numbers_same_names", "order"): SAME,  # files without number have no order
    ("no_numbers_same_names", "shape"): SAME,
    ("same_shape_two_vs_three", "shape"): TWO_OF_THREE,  # the mirror image of three against two
}
PEER = {"name": "by_name", "order": "by_end_number", "shape": "by_shape_edit_distance"}


@pytest.mark.parametrize("method", PEER)
@pytest.mark.parametrize("case", CASES)
def test_the_peers_cases_by_one_criterion(tmp_path, case, method):
    expected = {tuple(pair) for pair in CASES[case][PEER[method]]}
    assert pairs_of_case(tmp_path, case, method) == OURS.get((case, method), expected)


AUTO = {
    "scheme_B_vs_C": zipped(
        "0_input 1_dense 2_dense_backward",
        "input_float32_0 dense_float32_1 dense_backward_float32_2",
    ),
    "scheme_C_digits_in_layer_names": DIGITS,
    "scheme_C_one_extra_save": {
        *zipped("in_float32_0 out_float32_2", "in_float32_0 out_float32_1"),
        ("dbg_float32_1.npy", None),
    },
    "scheme_C_dtype_differs": zipped("x_float32_0", "x_float16_0"),
    "no_numbers_same_names": SAME,
    # data.1 is a position in a list; its shape says it is not the other's data.1.
    "list_save_of_three_vs_two": {
        *zipped("data.0_float32_0 data.2_float32_2", "data.0_float32_3 data.1_float32_4"),
        ("data.1_float32_1.npy", None),
    },
    "same_shape_two_vs_three": TWO_OF_THREE,
}


@pytest.mark.parametrize("case", CASES)
def test_the_peers_cases_by_everything(tmp_path, case):
    expected = {tuple(pair) for pair in CASES[case]["by_end_number"]}
    assert pairs_of_case(tmp_path, case, "auto") == AUTO.get(case, expected)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", CASES)
def test_the_peers_cases_mirrored(tmp_path, case, method):
    dumps = [on_disk(tmp_path / side, CASES[case][side]) for side in ("orig", "target")]
    there, back = pair_dumps(*dumps, method=method), pair_dumps(*dumps[::-1], method=method)
    assert {(b, a) for a, b in partners(back)} == set(partners(there))


def test_the_wheels_two_naming_schemes_pair_and_agree():
    folder = FIXTURES / "wheel_1.0.18" / "save_and_compare"
    result = compare(folder / "ms_ts_save", folder / "torch_ts_save").result
    assert result["right"].values.tolist() == ["0_input", "1_dense", "2_dense_backward"]
    assert result["allclose"].values.all()


@pytest.mark.parametrize("version", ["master_1.0.19", "wheel_1.0.18"])
def test_gradients_without_names_pair_by_shape_and_order(version):
    folder = FIXTURES / version / "grads"
    pairing = pair_dumps(open_dump(folder / "torch_grads_dir"), open_dump(folder / "ms_grads_dir"))
    found = rows(pairing)
    assert {path.split(".", 1)[1][:-2]: right for path, (right, *_) in found.items()} == {
        "fc.weight": "ms_grads.0",
        "fc.bias": "ms_grads.1",
        "bn.weight": None,
        "bn.bias": None,
    }
    result = compare(pairing.left, pairing.right, pairing=pairing).result
    cosine = dict(zip(result["left_display"].values, result["cosine"].values, strict=True))
    assert cosine["torch_grads.fc.weight_0"] == pytest.approx(0.58106, abs=1e-5)
    assert cosine["torch_grads.fc.bias_1"] == pytest.approx(0.05182, abs=1e-5)


def test_bfloat16_saved_on_both_sides_pairs_by_stem_whatever_the_token(tmp_path):
    left = on_disk(tmp_path / "l", [("x_bfloat16_0.npy", [2])])
    right = on_disk(tmp_path / "r", [("x_float32_0.npy", [2])])
    assert partners(pair_dumps(left, right)) == [("x_bfloat16_0", "x_float32_0")]


@pytest.mark.parametrize("method", METHODS)
def test_an_empty_side_leaves_everything_unmatched(method):
    empty, full = saved([]), saved([("a", (2,)), ("b", (3,))])
    assert partners(pair_dumps(empty, full, method=method)) == [
        *((None, "a_float32_0"), (None, "b_float32_1"))
    ]
    assert pair_dumps(full, empty, method=method).unmatched_left == full.names
    assert len(pair_dumps(empty, empty, method=method)) == 0


def test_an_unknown_method_names_the_known_ones():
    with pytest.raises(PairingError, match="unknown pairing 'magic'; choose one of auto, name"):
        pair_dumps(saved([]), saved([]), method="magic")


# --- parameters in the spelling of two frameworks

TORCH = [
    *[("conv.weight", (4, 3, 3, 3)), ("bn.weight", (4,)), ("bn.bias", (4,))],
    *[("bn.running_mean", (4,)), ("bn.running_var", (4,)), ("bn.num_batches_tracked", ())],
    *[("tok.weight", (9, 4)), ("layers.0.norm.weight", (4,)), ("layers.0.norm.bias", (4,))],
    *[("layers.1.norm.weight", (4,)), ("layers.1.norm.bias", (4,)), ("fc.weight", (4, 4))],
]
SPELLED = {
    "bn.weight": "bn.gamma",
    "bn.bias": "bn.beta",
    "bn.running_mean": "bn.moving_mean",
    "bn.running_var": "bn.moving_variance",
    "tok.weight": "tok.embedding_table",
    **{f"layers.{k}.norm.weight": f"layers.{k}.norm.gamma" for k in (0, 1)},
    **{f"layers.{k}.norm.bias": f"layers.{k}.norm.beta" for k in (0, 1)},
}
MINDSPORE = [(SPELLED.get(n, n), s) for n, s in TORCH if n != "bn.num_batches_tracked"]


def framed(entries, before="", *, position=False):
    return [
        (f"{before}{name}{f'_{k}' * position}", shape) for k, (name, shape) in enumerate(entries)
    ]


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("position", [False, True])
@pytest.mark.parametrize(
    ("left_prefix", "right_prefix"),
    [
        ("", ""),
        ("torch_grads.", ""),
        ("", "network.backbone."),
        ("torch_grads.", "ms_grads."),
        ("module.", "network.backbone."),
        ("torch_grads_", "ms_grads_"),  # the oldest generation joins with "_"
        ("run/", "net."),
    ],
)
def test_parameters_pair_by_name_in_either_spelling(left_prefix, right_prefix, position, shuffled):
    mindspore = random.Random(0).sample(MINDSPORE, len(MINDSPORE)) if shuffled else MINDSPORE
    left = saved(framed(TORCH, left_prefix, position=position), folder="torch_grads")
    right = saved(framed(mindspore, right_prefix))
    found = rows(pair_dumps(left, right))
    suffix = [f"_{k}" if position else "" for k in range(len(TORCH))]
    for k, (name, _) in enumerate(TORCH):
        partner, method, confidence = found[f"{left_prefix}{name}{suffix[k]}"]
        if name == "bn.num_batches_tracked":
            assert partner is None
            continue
        assert partner == right_prefix + SPELLED.get(name, name)
        assert method in ("parameter", "name")
        assert confidence >= 0.95


@pytest.mark.parametrize(
    "extra",
    [
        [("loss", ()), ("global_step", ())],
        [("fc2.weight", (4, 4)), ("fc2.bias", (4,))],
        [("layers.2.norm.weight", (4,)), ("layers.2.norm.bias", (4,))],
        [("aux.bn.weight", (4,)), ("aux.bn.bias", (4,))],
    ],
)
@pytest.mark.parametrize("side", ["left", "right"])
def test_extra_entries_of_one_side_do_not_disturb(extra, side):
    left = framed(TORCH, "net.") + (extra if side == "left" else [])
    right = (extra if side == "right" else []) + framed(MINDSPORE, "backbone.cell.")
    pairing = pair_dumps(saved(left), saved(right))
    found = rows(pairing)
    for name, _ in TORCH:
        partner, method, confidence = found[f"net.{name}"]
        if name != "bn.num_batches_tracked":
            assert partner == f"backbone.cell.{SPELLED.get(name, name)}"
            assert (method, confidence >= 0.95) == ("parameter", True)
    assert pairing.matched == len(MINDSPORE)


def test_a_parameter_of_another_shape_still_pairs_by_name():
    left = saved([("a.bn.weight", (4,)), ("a.fc.weight", (4, 2)), ("a.fc.bias", (4,))])
    right = saved([("a.bn.gamma", (8,)), ("a.fc.weight", (4, 2)), ("a.fc.bias", (4,))])
    pairing = pair_dumps(left, right)
    assert rows(pairing)["a.bn.weight"] == ("a.bn.gamma", "parameter", 0.8)
    assert pairing.table["note"].values[0] == "other shape"


def test_ambiguous_spellings_pair_with_less_confidence():
    left = [("act.weight", (4,)), ("bn.weight", (4,)), ("linear1.weight", (8, 4))]
    right = [("act.w", (4,)), ("bn.bn2d.gamma", (4,)), ("dense1.weight", (8, 4))]
    found = rows(pair_dumps(saved(left), saved(right)))
    for (a, _), (b, _) in zip(left, right, strict=True):
        assert found[a] == (b, "parameter", 0.9)


def test_weights_and_their_gradients_in_one_dump_do_not_mix():
    both = [("fc.weight", (4, 2)), ("grads/fc.weight", (4, 2)), ("fc.weight_backward", (4, 2))]
    left, right = saved(both), saved(both[::-1])
    for a, (b, *_) in rows(pair_dumps(left, right)).items():
        assert a == b
    directions = [dump.index["direction"].values for dump in (left, right)]
    for m in pair_dumps(left, right).matches():
        assert directions[0][m.left] == directions[1][m.right]


def test_an_output_is_no_gradient_even_if_the_shapes_fit():
    left = saved([("in", (2,)), ("act", (5,)), ("dense_backward", (5,))])
    right = saved([("in", (2,)), ("relu_backward", (5,)), ("out", (5,))])
    found = rows(pair_dumps(left, right))
    assert found["act"][0] == "out"
    assert found["dense"][0] == "relu"


# --- how sure a name is


def confidence_of(left, right, path):
    pairing = pair_dumps(saved(left), saved(right))
    return rows(pairing)[path][2]


def layers(*numbers):
    return [(f"layers.{k}.weight", (4,)) for k in numbers]


def test_equal_names_are_certain_where_both_sides_count_alike():
    assert confidence_of(layers(0, 1, 2), layers(0, 1, 2), "layers.1.weight") == 1.0
    # An additional layer need not be the last one.
    assert confidence_of(layers(0, 1), layers(0, 1, 2), "layers.1.weight") == 0.95
    # Either each side has a layer the other lacks, or 4 is not 4.
    assert confidence_of(layers(0, 2, 4), layers(0, 4, 6), "layers.4.weight") == 0.8
    # What else a side has does not matter.
    assert confidence_of(layers(0, 1), [*layers(0, 1), ("fc.bias", (4,))], "layers.1.weight") == 1.0


def test_repeated_saves_are_less_certain_where_one_side_has_more():
    left, right = [("x", (2,))] * 3, [("x", (2,))] * 2
    with_calls = []
    for entries in (left, right):
        dump = saved(entries)
        calls = np.arange(len(entries))
        with_calls.append(Dump(dump.index.assign(call=("entry", calls)), dump.sources))
    pairing = pair_dumps(*with_calls)
    assert pairing.table["confidence"].values[:2].tolist() == [0.95, 0.95]
    assert pairing.unmatched_left == ["x_float32_2"]


def test_order_alone_is_less_sure_where_the_counts_differ():
    three, two = [(n, (2,)) for n in "abc"], [(n, (2,)) for n in "xy"]
    assert rows(pair_dumps(saved(three), saved(two), method="order"))["a"][2] == 0.5
    assert rows(pair_dumps(saved(two), saved(two[::-1]), method="order"))["x"][2] == 0.9
    other = [("x", (3,)), ("y", (2,))]
    assert rows(pair_dumps(saved(two), saved(other), method="order"))["x"][2] == 0.2


def test_an_unreadable_entry_pairs_by_its_name():
    bad = Entry("x_float32_0", Site("file", "x"), reason="truncated", order=0)
    left = Dump.from_entries([bad], label="l")
    assert rows(pair_dumps(left, saved([("x", (2,))])))["x"] == ("x", "name", 1.0)


def test_an_unmatched_entry_lists_its_closest_candidates():
    left = saved([("fc1.weight", (4, 3)), ("fc.weight", (9, 9)), ("fc.bias", (9,))])
    right = saved([("fc1.weight", (4, 3)), ("fc2.weight", (8, 9))])
    pairing = pair_dumps(left, right)
    assert pairing.unmatched_left == ["fc.weight_float32_1", "fc.bias_float32_2"]
    candidates = dict(zip(partners(pairing), pairing.table["candidates"].values, strict=True))
    assert sorted(candidates["fc.weight_float32_1", None].split("; ")) == [
        "fc1.weight_float32_0 (shape 4x3, paired with fc1.weight_float32_0)",
        "fc2.weight_float32_1 (shape 8x9)",
    ]


def test_a_step_of_one_side_only_says_so():
    left = dump_of_steps(0, 1)
    pairing = pair_dumps(left, saved([("x", (2,))], step=4))
    assert pairing.matched == 0
    assert set(pairing.table["note"].values) == {"the other side has nothing of this step and rank"}


def recorded(*slots):
    """A dump of one call of a layer, with parameters and buffers of these names."""
    roles = ["parameter" if slot == "weight" else "buffer" for slot in slots]
    sites = [
        Site("module", "bn", 0, "forward", role, slot)
        for role, slot in zip(roles, slots, strict=True)
    ]
    return Dump.from_entries([Entry(f"bn.{site.slot}", site, Hollow((4,))) for site in sites])


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (["weight", "mask"], ["weight"], [False, True]),
        (["weight", "running_mean", "num_batches_tracked"], ["weight", "running_mean"], [0, 0, 1]),
        (["weight", "running_mean", "mask"], ["weight", "running_mean"], [False, False, False]),
        (["weight", "running_mean"], ["running_mean"], [False, False]),
    ],
)
def test_buffers_of_calls_are_expected_to_be_alone_where_the_other_side_has_none(
    left, right, expected
):
    for sides in ((left, right), (right, left)):
        pairing = pair_dumps(*(recorded(*slots) for slots in sides))
        assert sorted(match.expected for match in pairing.matches()) == sorted(map(bool, expected))


def dump_of_steps(*steps):
    values = ArrayInMemory(np.ones(2))
    return Dump.from_entries([Entry("x", Site("file", "x"), values, step=step) for step in steps])


@pytest.mark.parametrize("method", METHODS)
def test_one_step_against_one_other_step_is_compared(method):
    left, right = dump_of_steps(1), dump_of_steps(4)
    pairing = pair_dumps(left, right, method=method)
    assert pairing.matched == 1
    assert pairing.right is right
    assert pairing.table["step"].values.tolist() == [1]
    assert right.index["step"].values.tolist() == [4]
    said = "step 1 on the left is compared with step 4 on the right"
    assert said in compare(left, right, pairing=pairing).notes


# --- given pairs


def test_a_mapping_pairs_first_and_the_method_does_the_rest():
    left, right = saved([(n, (2,)) for n in "abc"]), saved([(n, (2,)) for n in "bcd"])
    mapping = {"a_float32_0": "d_float32_2.npy"}
    found = rows(pair_dumps(left, right, mapping=mapping))
    assert found == {"a": ("d", "user", 1.0), "b": ("b", "name", 1.0), "c": ("c", "name", 1.0)}
    # A list, and paths instead of names where they mean one entry.
    assert rows(pair_dumps(left, right, mapping=[("a", "d")]))["a"] == ("d", "user", 1.0)
    assert rows(pair_dumps(left, right, mapping=[["a", "d"]]))["a"] == ("d", "user", 1.0)
    assert rows(pair_dumps(left, right, mapping={}))["a"][1] != "user"


def test_of_several_mapping_files_the_earlier_wins(tmp_path):
    left, right = {"a": np.ones(2), "b": np.ones(2)}, {"x": np.ones(2), "y": np.ones(2)}
    texts = {"one.yaml": "a: y\n", "other.yaml": "b: x\n", "late.yaml": "b: y\n"}
    files = {}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        files[name] = read_mapping(tmp_path / name)
    pairing = pair_dumps(left, right, mapping=[files["one.yaml"], files["other.yaml"]])
    assert {*pairing.columns.rows("left", "right")} == {("a", "y"), ("b", "x")}
    pairing = pair_dumps(left, right, mapping=[files["one.yaml"], files["late.yaml"]])
    assert ("a", "y") in {*pairing.columns.rows("left", "right")}


@pytest.mark.parametrize("method", METHODS)
def test_none_in_a_mapping_expects_a_partner_to_be_missing(method):
    left, right = saved([("a", (2,)), ("b", (2,))]), saved([("a", (2,)), ("z", (2,))])
    pairing = pair_dumps(left, right, method=method, mapping=[("b", None), (None, "z")])
    table = pairing.table
    assert table["expected"].values.tolist() == [False, True, True]
    assert partners(pairing)[1:] == [("b_float32_1", None), (None, "z_float32_1")]
    assert compare(left, right, pairing=pairing).passed


def test_a_mapping_holds_in_every_step_and_rank():
    entries = [
        [
            Entry(name, Site("file", name), Hollow((2,)), step=step, rank=rank)
            for step in (0, 1)
            for rank in (0, 1)
        ]
        for name in ("a", "b")
    ]
    pairing = pair_dumps(*(Dump.from_entries(e) for e in entries), mapping={"a": "b"})
    assert pairing.table["method"].values.tolist() == ["user"] * 4
    for match in pairing.matches():
        assert match.left == match.right


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"aa": "b"}, "row 0 of the mapping: no 'aa' in left 'run'; closest: 'a'"),
        ({"a": "zz.npy"}, "row 0 of the mapping: no 'zz.npy' in right 'ref'"),
        ([("a", "b"), ("a", "c")], "row 1 of the mapping names 'a' a second time"),
        ([("a", "b"), ("c", "b_float32_1")], "row 1 of the mapping names 'b_float32_1' a second"),
        ([("a", None), ("a", "b")], "row 1 of the mapping names 'a' a second time"),
        ([(None, None)], r"row 0 of the mapping is \(None, None\); expected"),
        ([[None, None]], r"row 0 of the mapping is \[None, None\]; expected"),
        ([("a", "b", "c")], "row 0 of the mapping is .* expected"),
        (["ab"], "row 0 of the mapping is 'ab'; expected"),
        ([3], "row 0 of the mapping is 3; expected"),
        ({"a": 3}, r"row 0 of the mapping is \('a', 3\); expected"),
    ],
)
def test_a_mapping_that_does_not_fit_is_an_error(mapping, message):
    left = saved([(n, (2,)) for n in "abc"], label="run")
    right = saved([(n, (2,)) for n in "abc"], label="ref")
    with pytest.raises(PairingError, match=message):
        pair_dumps(left, right, mapping=mapping)


def test_a_mapping_across_steps_is_an_error():
    with pytest.raises(PairingError, match="'x' and 'x' share no step and rank"):
        pair_dumps(dump_of_steps(0, 2), dump_of_steps(1), mapping={"x": "x"})
    alone = pair_dumps(dump_of_steps(0), dump_of_steps(1), mapping={"x": "x"})
    assert alone.table["method"].values.tolist() == ["user"]


@pytest.mark.parametrize("fuzzy", ["yes", 1, None])
def test_fuzzy_is_true_or_false(fuzzy):
    left = saved([("a", (2,))])
    with pytest.raises(TypeError, match="fuzzy takes True or False"):
        pair_dumps(left, left, fuzzy=fuzzy)
    with pytest.raises(TypeError, match="fuzzy takes True or False"):
        compare(left, left, pairing=pair_dumps(left, left), fuzzy=fuzzy)


# --- laws

PATHS = st.sampled_from(
    [
        *("a", "b", "a.b", "net.fc.weight", "fc.weight", "fc.bias", "fc.weight_0", "bn.gamma"),
        *("bn.weight", "x.0", "x.1", "l.0.w", "l.1.w", "权.重", "", "a/b", "act.w"),
    ]
)
ENTRIES = st.tuples(
    PATHS,
    st.sampled_from([(), (2,), (3,), (2, 3), None]),
    st.integers(0, 1),  # step
    st.integers(0, 1),  # rank
    st.sampled_from(["", "backward"]),
    st.booleans(),  # numbered
)


@st.composite
def dumps(draw):
    entries = []
    calls = Counter()
    for k, (path, shape, step, rank, direction, numbered) in enumerate(
        draw(st.lists(ENTRIES, max_size=10))
    ):
        run_call = (path, step, rank, direction)
        name = f"{path}_float32_{k}" if numbered else f"{path}~{calls[run_call]}{direction}"
        site = Site("file", path, calls[run_call], direction)
        calls[run_call] += 1
        source = None if shape is None else Hollow(shape)
        entries.append(
            Entry(name, site, source, step=step, rank=rank, order=k, reason="" if source else "bad")
        )
    return Dump.from_entries(entries)


@given(left=dumps(), right=dumps(), method=st.sampled_from(METHODS))
def test_every_entry_occurs_once_and_steps_and_ranks_never_mix(left, right, method):
    pairing = pair_dumps(left, right, method=method)
    columns = places_of(left, right)
    places = [
        list(zip(*(columns[name][side] for name in ("step", "rank")), strict=True))
        for side in (0, 1)
    ]
    for side, dump in ((0, left), (1, right)):
        entries = [(m.left, m.right)[side] for m in pairing.matches()]
        assert sorted(row for row in entries if row >= 0) == list(range(len(dump)))
    for match in pairing.matches():
        if match.left >= 0 and match.right >= 0:
            assert places[0][match.left] == places[1][match.right]
            assert 0 <= match.confidence <= 1
        else:
            assert match.method == "unmatched"
            assert np.isnan(match.confidence)


@given(left=dumps(), right=dumps(), method=st.sampled_from(METHODS))
def test_swapping_the_sides_mirrors_the_pairs(left, right, method):
    there = pair_dumps(left, right, method=method).matches()
    back = pair_dumps(right, left, method=method).matches()

    def known(match, *, swapped):
        row = (match.right, match.left) if swapped else (match.left, match.right)
        confidence = None if np.isnan(match.confidence) else match.confidence
        return (*row, match.method, confidence, match.note, match.candidates)

    assert {known(m, swapped=True) for m in back} == {known(m, swapped=False) for m in there}


@given(dump=dumps())
def test_a_dump_is_its_own_partner_with_certainty(dump):
    for match in pair_dumps(dump, dump).matches():
        assert match.left == match.right
        assert match.confidence == 1.0
        assert match.method == "name"


@given(dump=dumps(), method=st.sampled_from(METHODS))
def test_every_method_pairs_a_dump_with_itself(dump, method):
    for match in pair_dumps(dump, dump, method=method).matches():
        # Shapes that are not known do not speak for a pair.
        assert match.left == match.right


@given(dump=dumps(), rng=st.randoms(use_true_random=False))
def test_the_sequence_of_rows_changes_no_pair(dump, rng):
    order = list(range(len(dump)))
    rng.shuffle(order)
    shuffled = Dump(dump.index.isel(entry=order), tuple(dump.sources[i] for i in order))
    for match in pair_dumps(dump, shuffled).matches():
        assert order[match.right] == match.left


# --- size


def many(count, prefix="net."):
    return [(f"{prefix}layers.{k // 10}.part{k % 10}.weight", (k % 7 + 1, 8)) for k in range(count)]


def test_twenty_thousand_equal_names_pair_in_seconds():
    left = saved(many(20_000))
    started = time.process_time()
    pairing = pair_dumps(left, left)
    # Measured 2.7 s.
    assert time.process_time() - started < 15
    assert pairing.matched == 20_000
    assert [m.left for m in pairing.matches()] == [m.right for m in pairing.matches()]


def test_fifteen_hundred_nameless_entries_of_few_shapes_cost_little():
    shapes = [(4,), (8, 4), (8,)]
    left = saved([(f"grads.{k}", shapes[k % 3]) for k in range(1500)])
    right = saved([(f"g.x{k}", shapes[k % 3]) for k in range(1500) if k != 500])
    tracemalloc.start()
    started = time.process_time()
    pairing = pair_dumps(left, right)
    seconds = time.process_time() - started
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert pairing.matched >= 1498
    # Measured 2.8 s while traced and 8 MB; a table of 2 million sums would be 18 MB more.
    assert seconds < 10
    assert peak < 15e6


def test_thousands_of_strangers_stay_unmatched_in_seconds():
    left, right = saved(many(3000)), saved([(f"q.{k}", (99, k % 5)) for k in range(3000)])
    started = time.process_time()
    pairing = pair_dumps(left, right)
    assert time.process_time() - started < 15
    assert pairing.matched == 0
    # Candidates are for people: nobody reads more than a few hundred.
    assert np.count_nonzero(pairing.table["candidates"].values != "") <= 400


@settings(max_examples=20)
@given(st.lists(st.text(max_size=30), min_size=1, max_size=6, unique=True))
def test_names_of_any_letters_pair_with_themselves(names):
    dump = Dump.from_entries(
        [
            Entry(name, Site("memory", name), ArrayInMemory(np.ones(k % 3)), order=k)
            for k, name in enumerate(names)
        ]
    )
    assert all(m.left == m.right for m in pair_dumps(dump, dump).matches())


NAMES = ["l0.weight", "l0.bias", "l1.weight", "grads.l0.weight", "exp_avg.l0.weight", "x", "x.0"]


@pytest.mark.parametrize("method", ["auto", "name"])
@given(names=st.lists(st.sampled_from(NAMES), unique=True, max_size=7), data=st.data())
@settings(max_examples=40)
def test_two_sides_that_say_the_same_are_paired_as_the_search_would(method, names, data):
    shapes = st.sampled_from([(), (2,), (2, 3)])
    arrays = {name: np.zeros(data.draw(shapes)) for name in names}
    dumps = [Dump.from_arrays(arrays, label=side) for side in ("l", "r")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(align._Entries, "say_the_same", lambda *_: False)
        searched = pair_dumps(*dumps, method=method)
    assert pair_dumps(*dumps, method=method).table.identical(searched.table)
    assert searched.matched == len(names)


def test_leftovers_are_those_without_a_pair_after_any_steps():
    items = [[Item(row, row, True, n, n, 0, "", ("", ""), ()) for row, n in enumerate("abcd")]] * 2
    search = Search(*items)
    search.add([(items[0][0], items[1][1])], "name", lambda *_: 1.0)
    assert ([i.name for i in search.left], [i.name for i in search.right]) == (
        ["b", "c", "d"],
        ["a", "c", "d"],
    )
    search.add([(items[0][2], items[1][2])], "name", lambda *_: 1.0)
    search.add([(items[0][3], items[1][0])], "name", lambda *_: 1.0)
    assert [i.name for i in search.left] == ["b"]
    search.drop({2})
    assert ([i.name for i in search.left], [i.name for i in search.right]) == (
        ["b", "c"],
        ["c", "d"],
    )


@pytest.mark.parametrize("word", ["{}.grad", "{}_grad", "grads.{}"])
@pytest.mark.parametrize(
    "names",
    [
        {"bn.gamma": "bn.weight", "bn.beta": "bn.bias"},
        {"emb.embedding_table": "emb.weight", "ln.gamma": "ln.weight", "ln.beta": "ln.bias"},
    ],
)
def test_gradients_of_two_frameworks_are_paired_as_their_parameters_are(names, word):
    rng = np.random.default_rng(0)
    values = {name: rng.standard_normal(8) for name in names}
    left = {word.format(name): value for name, value in values.items()}
    right = {word.format(names[name]): values[name] for name in reversed(names)}
    plain = pair_dumps(values, {names[name]: values[name] for name in reversed(names)})
    found = pair_dumps(left, right)
    for columns in (plain.columns, found.columns):
        assert columns["confidence"].tolist() == [0.98] * len(names)
    assert partners(found) == [(word.format(a), word.format(b)) for a, b in names.items()]
    assert compare(left, right).passed


def test_equal_values_in_order_come_before_names_that_are_alike():
    """``post_attention_layernorm`` looks like ``attention_norm``, which is the other one."""
    random = np.random.default_rng(0)
    first, second = (random.standard_normal(64).astype(np.float32) for _ in range(2))
    left = {
        "layers.0.input_layernorm.weight": first,
        "layers.0.post_attention_layernorm.weight": second,
    }
    right = {"g.0.attention_norm.weight": first, "g.0.ffn_norm.weight": second}
    assert compare(left, right).passed
    # In each other's place they are a fault of names that are alike, and not other names.
    swapped = {"g.0.input_norm.weight": second, "g.0.post_attention_norm.weight": first}
    found = compare(left, swapped)
    assert not found.passed
    assert found.to_dataframe()["right"].tolist() == [*swapped]
