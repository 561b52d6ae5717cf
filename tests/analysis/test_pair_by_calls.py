"""pair_dumps on entries that know their call: the peer's dumps, renamed networks, shifted calls."""

from __future__ import annotations

import time
import zlib
from pathlib import Path

import pytest

from tests import twins
from troubleshooter_nb import Dump, compare, open_dump, pair_dumps
from troubleshooter_nb.analysis.api_names import (
    argument_position,
    backward_note,
    bare_name,
    op_class,
    rows_between,
)
from troubleshooter_nb.analysis.layer_kinds import kinds_differ, layer_kind
from troubleshooter_nb.dump import Entry
from troubleshooter_nb.naming import Site

MSPROBE = Path(__file__).parents[1] / "data" / "msprobe" / "v26_2_0"
# What the twin of case 52 calls its layers; written by hand, the pairing is not told.
RENAMED = {
    "word_emb": "emb",
    "blocks": "layers",
    "final_norm": "norm",
    "lm_head": "head",
    "input_norm": "ln1",
    "qkv_proj": "qkv",
    "out_proj": "proj",
    "post_norm": "ln2",
    "up": "fc1",
    "down": "fc2",
}
CLASSES = {"Cell": "Module", "Dense": "Linear", "DecoderCell": "Block"}
LEAVES = {"gamma": "weight", "beta": "bias", "embedding_table": "weight"}


def both(left, right):
    return open_dump(MSPROBE / left), open_dump(MSPROBE / right)


def rows(pairing):
    return pairing.to_dataframe().to_dict("records")


def in_torch_words(name):
    words = RENAMED | CLASSES | LEAVES
    return ".".join(words.get(part, part) for part in name.split("."))


def test_all_leaves_of_the_transformer_twins_pair_without_a_mapping():
    left, right = open_dump(twins.MINDSPORE), open_dump(twins.TORCH)
    pairing = pair_dumps(left, right)
    assert (pairing.matched, len(pairing)) == (125, 125)
    for row in rows(pairing):
        assert row["right"] == in_torch_words(row["left"])
        assert row["confidence"] >= 0.9
    cosines = compare(left, right, pairing=pairing).to_dataframe()["cosine"].dropna()
    assert len(cosines) == 123
    assert cosines.min() == pytest.approx(1.0, abs=1e-9)


def test_a_dense_layer_meets_a_linear_one_and_null_meets_only_null():
    left, right = both("mindspore/m_mlp_L0_tensor", "torch/t_mlp_L0_tensor")
    pairing = pair_dumps(left.select(step=0), right)
    assert (pairing.matched, len(pairing)) == (19, 20)
    [alone] = [row for row in rows(pairing) if row["method"] == "unmatched"]
    assert alone["left"] == "Cell.fc1.Dense.backward.0.output.0"
    assert alone["note"] == "null, and fc1 has nothing in this place"


def test_dumps_under_msadapter_pair_by_name():
    pairing = pair_dumps(*both("msadapter_like", "torch/t_mlp_mix_tensor"))
    assert (pairing.matched, len(pairing)) == (45, 45)
    assert set(pairing.table["method"].values) == {"name"}


@pytest.fixture(scope="module")
def operators():
    pairing = pair_dumps(*both("mindspore/m_mlp_L1_tensor", "torch/t_mlp_L1_tensor"))
    return {row["left"]: row for row in rows(pairing) if row["left"]}


def test_a_linear_function_meets_the_ends_of_matmul_and_bias_add(operators):
    inside = "Primitive.matmul.MatMul.0.forward."
    last = "Primitive.bias_add.BiasAdd.0.forward."
    ends = {
        f"{inside}input.0": "input.0",
        f"{inside}input.1": "input.1",
        f"{last}input.1": "input.2",
        f"{last}output.0": "output.0",
    }
    for mine, theirs in ends.items():
        assert operators[mine]["right"] == f"Functional.linear.0.forward.{theirs}"
    for mine in (f"{inside}output.0", f"{last}input.0"):
        assert operators[mine]["method"] == "unmatched"
        assert operators[mine]["note"] == "inside the fused Functional.linear.0"


def test_a_primitive_meets_the_function_of_the_table(operators):
    for event, role in (("forward", "input"), ("forward", "output"), ("backward", "output")):
        row = operators[f"Primitive.relu.ReLU.0.{event}.{role}.0"]
        assert row["right"] == f"Functional.relu.0.{event}.{role}.0"
        assert row["method"] == "api"


def test_gradients_that_are_defined_differently_say_so(operators):
    loss = operators["Functional.cross_entropy.0.backward.output.0"]
    assert loss["right"] == "Functional.cross_entropy.0.backward.output.0"
    assert "defined differently: torch records the gradient of the log-softmax" in loss["note"]
    weight = operators["Primitive.matmul.MatMul.0.backward.output.0"]
    assert weight["right"] == "Functional.linear.0.backward.output.2"
    assert "weight, transposed" in weight["note"]
    bias = operators["Primitive.bias_add.BiasAdd.0.backward.output.0"]
    assert bias["right"] == "Functional.linear.0.backward.output.0"
    assert max(row["confidence"] for row in (loss, weight, bias)) <= 0.5


# Runs made by hand: a call is (category and op, shape in, shape out).


def calls(*ops, shift=0):
    entries, numbers = [], {}
    for op, given, made in ops:
        number = numbers[op] = numbers.get(op, shift - 1) + 1
        for role, shape in (("input", given), ("output", made)):
            name = f"{op}.{number}.forward.{role}.0"
            site = Site("api", op, number, "forward", role, "0")
            layer = op.rpartition(".")[2]
            entries.append(Entry(name, site, order=len(entries), shape=shape, layer=layer))
    return Dump.from_entries(entries)


RELU, LINEAR, ADD = "Functional.relu", "Functional.linear", "Tensor.__add__"
PLAIN = [
    (LINEAR, (4, 8), (4, 6)),
    (RELU, (4, 6), (4, 6)),
    (ADD, (4, 6), (4, 6)),
    (RELU, (4, 6), (4, 6)),
    (LINEAR, (4, 6), (4, 3)),
]


@pytest.mark.parametrize("fuzzy", [False, True])
def test_one_more_call_shifts_the_numbers_and_not_the_pairs(fuzzy):
    # One more relu in front.
    longer = calls((RELU, (4, 8), (4, 8)), *PLAIN)
    pairing = pair_dumps(longer, calls(*PLAIN), fuzzy=fuzzy)
    assert (pairing.matched, len(pairing)) == (10, 12)
    found = {row["left"]: row["right"] for row in rows(pairing)}
    assert found[f"{RELU}.1.forward.input.0"] == f"{RELU}.0.forward.input.0"
    assert found[f"{RELU}.2.forward.output.0"] == f"{RELU}.1.forward.output.0"
    assert pairing.unmatched_left == [f"{RELU}.0.forward.{role}.0" for role in ("input", "output")]


def test_fuzzy_ignores_numbers_that_are_the_same_by_chance():
    # One relu more in front and one less behind: the numbers of both sides are 0 and 1.
    early = calls((RELU, (4, 8), (4, 8)), *PLAIN[:3], PLAIN[4])
    late = calls(*PLAIN[:3], PLAIN[4], (RELU, (4, 3), (4, 3)))
    found = {row["left"]: row["right"] for row in rows(pair_dumps(early, late, fuzzy=True))}
    assert found[f"{RELU}.1.forward.input.0"] == f"{RELU}.0.forward.input.0"
    assert found[f"{RELU}.0.forward.input.0"] == ""


def test_numbers_count_where_the_calls_are_the_same():
    pairing = pair_dumps(calls(*PLAIN), calls(*PLAIN))
    assert set(pairing.table["confidence"].values) == {1.0}


def test_another_batch_size_changes_no_pair():
    bigger = [(op, (8, *given[1:]), (8, *made[1:])) for op, given, made in PLAIN]
    pairing = pair_dumps(calls(*PLAIN), calls(*bigger))
    assert [row["left"] == row["right"] for row in rows(pairing)] == [True] * 10
    assert set(pairing.table["note"].values) == {"other shape"}


@pytest.mark.parametrize("extra", range(3))
def test_which_of_equal_calls_is_additional_is_never_certain(extra):
    same = [(RELU, (4, 6), (4, 6))] * 3
    pairing = pair_dumps(calls(*same, (ADD, (4, 6), (4, 6))), calls(*same[1:]))
    known = pairing.table["confidence"].values[pairing.table["method"].values != "unmatched"]
    assert len(known) == 4
    assert known.max() <= 0.9


# Networks made by hand: (key, path, class, width in, width out).


def network(prefix, layers, *, has_values=False):
    """The dump, and of each entry the key of its layer."""
    entries, keys = [], []
    for key, path, given, made in layers:
        is_linear = path.rpartition(".")[2] not in ("ln1", "ln2", "a", "c")
        kind = {"Module": "Linear", "Cell": "Dense"}[prefix] if is_linear else "LayerNorm"
        # The values of a layer depend on its key alone, so that both sides hold the same.
        norm = zlib.crc32(repr(key).encode()) % 99991 / 7
        figures = {"l2": norm, "min": -1.0, "max": 2.0} if has_values else {}
        weight = (made, given) if is_linear else (made,)
        leaf = "weight" if is_linear or prefix == "Module" else "gamma"
        for role, section, slot, shape in (
            ("input", "input", "0", (2, given)),
            ("parameter", "parameters", leaf, weight),
            ("output", "output", "0", (2, made)),
        ):
            name = f"{prefix}.{path}.{kind}.forward.0.{section}.{slot}"
            site = Site("module", path, 0, "forward", role, slot)
            facts = figures if role == "parameter" else {}
            entry = Entry(name, site, order=len(entries), shape=shape, layer=kind)
            entries.append(entry._replace(statistics=facts))
            keys.append(key)
    return Dump.from_entries(entries), keys


def blocks(names, numbers, order="qkv"):
    layers = []
    for number, true in numbers:
        base = f"{names['blocks']}.{number}"
        layers.append(((true, "ln1"), f"{base}.{names['ln1']}", 16, 16))
        layers += [((true, c), f"{base}.{names[c]}", 16, 16) for c in order]
        layers.append(((true, "ln2"), f"{base}.{names['ln2']}", 16, 16))
        layers.append(((true, "up"), f"{base}.{names['up']}", 16, 64))
        layers.append(((true, "down"), f"{base}.{names['down']}", 64, 16))
    return layers


TORCH = {
    **{"blocks": "layers", "ln1": "ln1", "ln2": "ln2", "up": "mlp.up", "down": "mlp.down"},
    **{c: f"attn.{c}_proj" for c in "qkv"},
}
DUMB = {
    **{"blocks": "h", "ln1": "a", "ln2": "c", "up": "d.y", "down": "d.z"},
    **dict(zip("qkv", ("b.x1", "b.x2", "b.x3"), strict=True)),
}
SPOKEN = {**DUMB, "q": "b.query", "k": "b.key", "v": "b.value"}
EVERY = [(i, i) for i in range(4)]


def judged(left, right):
    """Right pairs, and the confidences of the wrong ones."""
    pairing = pair_dumps(left[0], right[0])
    good, wrong = 0, []
    for match in pairing.matches():
        if match.left >= 0 and match.right >= 0:
            same = left[1][match.left] == right[1][match.right]
            good += same
            wrong += [] if same else [match.confidence]
    return good, wrong


@pytest.mark.parametrize(
    ("names", "mine", "theirs", "order", "wanted"),
    [
        (DUMB, EVERY, EVERY, "qkv", 1.0),
        (SPOKEN, EVERY, EVERY, "kqv", 1.0),  # run in another order, but called what they are
        (TORCH, [(i + 5, i) for i in range(4)], EVERY, "qkv", 1.0),  # layers.5 is layers.0 there
        (DUMB, [(i + 5, i) for i in range(4)], EVERY, "qkv", 1.0),
        (DUMB, EVERY, EVERY, "kqv", 0.0),  # undecidable
        (DUMB, [(0, 0), (1, 1), (2, 3)], EVERY, "qkv", 0.0),  # one block less: undecidable
        (TORCH, [(0, 1), (1, 2), (2, 3)], EVERY, "qkv", 0.0),  # and the names mislead
        ({**TORCH, "ln1": "ln2", "ln2": "ln1"}, EVERY, EVERY, "qkv", 0.0),
        ({**TORCH, "q": "attn.k_proj", "k": "attn.q_proj"}, EVERY, EVERY, "qkv", 0.0),
    ],
)
def test_no_wrong_pair_of_layers_is_certain(names, mine, theirs, order, wanted):
    left = network("Cell", blocks(names, mine, order))
    right = network("Module", blocks(TORCH, theirs))
    good, wrong = judged(left, right)
    assert good >= wanted * len(left[1])
    assert max(wrong, default=0.0) <= 0.9


def test_equal_values_decide_between_neighbours():
    left = network("Cell", blocks(DUMB, EVERY, "vqk"), has_values=True)
    right = network("Module", blocks(TORCH, EVERY), has_values=True)
    assert judged(left, right) == (len(left[1]), [])


def test_swapping_the_sides_mirrors_the_pairs():
    left = network("Cell", blocks(SPOKEN, EVERY[:3], "kqv"))[0]
    right = network("Module", blocks(TORCH, EVERY))[0]
    forth, back = pair_dumps(left, right), pair_dumps(right, left)
    assert {
        (r["left"], r["right"], r["confidence"]) for r in rows(forth) if r["left"] and r["right"]
    } == {(r["right"], r["left"], r["confidence"]) for r in rows(back) if r["left"] and r["right"]}


def test_three_layers_side_by_side_stand_for_a_fused_one():
    fused = [((0, "qkv"), "h.0.b.qkv", 16, 48), ((0, "o"), "h.0.b.o", 16, 16)]
    split = [((0, c), f"layers.0.attn.{c}", 16, 16) for c in "qkvo"]
    found = rows(pair_dumps(network("Cell", fused)[0], network("Module", split)[0]))
    by_left = {row["left"]: row for row in found if row["left"]}
    given = by_left["Cell.h.0.b.qkv.Dense.forward.0.input.0"]
    assert given["right"] == "Module.layers.0.attn.q.Linear.forward.0.input.0"
    assert given["note"].startswith("h.0.b.qkv does the work of layers.0.attn.q and")
    weight = "Cell.h.0.b.o.Dense.forward.0.parameters.weight"
    assert by_left[weight]["right"] == "Module.layers.0.attn.o.Linear.forward.0.parameters.weight"
    alone = [row["note"] for row in found if row["right"] and not row["left"]]
    assert set(alone) == {"beside others that are the fused h.0.b.qkv"}
    assert len(alone) == 8  # weights and outputs of three, inputs of two


def test_given_pairs_take_precedence():
    left = network("Cell", blocks(DUMB, EVERY))[0]
    right = network("Module", blocks(TORCH, EVERY))[0]
    given = (
        "Cell.h.0.b.x1.Dense.forward.0.output.0",
        "Module.layers.0.attn.v_proj.Linear.forward.0.output.0",
    )
    found = {row["left"]: row for row in rows(pair_dumps(left, right, mapping=[given]))}
    assert (found[given[0]]["right"], found[given[0]]["method"]) == (given[1], "user")


def test_what_stays_alone_lists_candidates_and_why_not():
    left = network("Cell", [((0,), "a.fc", 16, 16)])[0]
    right = network("Module", [((0,), "b.fc", 16, 32)])[0]
    found = rows(pair_dumps(left, right))
    [weight] = [row for row in found if row["left"].endswith("parameters.weight")]
    assert weight["method"] == "unmatched"
    assert "Module.b.fc.Linear.forward.0.parameters.weight (shape 32x16)" in weight["candidates"]


def test_time_per_entry_does_not_grow():
    def seconds(count):
        sides = [
            network(prefix, blocks(names, [(i, i) for i in range(count)]))[0]
            for prefix, names in (("Cell", DUMB), ("Module", TORCH))
        ]
        times = []
        for _ in range(3):
            start = time.process_time()
            assert pair_dumps(*sides).matched == len(sides[0])
            times.append(time.process_time() - start)
        return min(times)

    # Bar of the benchmark is 1.5; a quadratic search would take 8 times as long per entry.
    assert seconds(160) / 160 <= 3 * seconds(20) / 20


def test_names_of_operators_meet_in_one_word():
    assert bare_name("Tensor.__add__") == bare_name("Primitive.Add") == "add"
    assert op_class("dense") == op_class("linear")
    assert op_class("relu") != op_class("gelu")


def test_arguments_of_the_table_are_swapped_where_it_says_so():
    found = rows_between("Primitive.Gather", "Functional.embedding")
    assert [(row.mindspore_arguments, row.torch_arguments) for row, is_torch in found] == [
        (("1", "0"), ("0", "1"))
    ]
    assert not found[0][1]
    assert argument_position("Functional.layer_norm", "weight") == "2"
    assert argument_position("Functional.layer_norm", "1") == "1"


def test_operators_without_a_difference_have_no_note():
    assert backward_note("Functional.relu", "Primitive.ReLU") == ""
    assert backward_note("Functional.cross_entropy", "Functional.cross_entropy")


def test_classes_of_layers_meet_in_torchs_word():
    assert layer_kind("Dense") == ("linear", True)
    assert layer_kind("DecoderCell") == ("decodercell", False)
    assert kinds_differ("Dense", "LayerNorm")
    assert not kinds_differ("Dense", "Linear")
    assert not kinds_differ("DecoderCell", "Linear")


HOOKS = MSPROBE.parents[1] / "torch_npu_hooks"


def test_fuzzy_pairs_at_least_what_equal_names_pair():
    """The older release leaves out outputs without axes, so that the calls look different."""
    dumps = [open_dump(HOOKS / "ptdbg" / side) for side in ("v1/npu", "v4/npu")]
    exact, fuzzy = (pair_dumps(*dumps, fuzzy=choice) for choice in (False, True))
    assert {row["left"]: row["right"] for row in rows(fuzzy)} == {
        row["left"]: row["right"] for row in rows(exact)
    }
    assert "Tensor_sum_0_forward_input.0" not in fuzzy.unmatched_left


@pytest.mark.parametrize("swapped", [False, True])
def test_broken_lines_leave_the_others_to_their_equal_names(tmp_path, swapped):
    whole = HOOKS / "module_full" / "npu.pkl"
    lines = whole.read_text().splitlines()
    broken = (3, 5, 6)
    lines[3], lines[5], lines[6] = "garbage", '["x"]', '["a",[1,2],"torch.float32",[3]]'
    (tmp_path / "npu.pkl").write_text("\n".join(lines) + "\n")
    dumps = open_dump(tmp_path / "npu.pkl"), open_dump(whole)
    pairing = pair_dumps(*(dumps[::-1] if swapped else dumps))
    sides = ("right", "left") if swapped else ("left", "right")
    for row in rows(pairing):
        if row["method"] != "unmatched":
            assert row["left"] == row["right"]
    alone = {row[sides[1]] for row in rows(pairing) if row["method"] == "unmatched"} - {""}
    assert alone == {dumps[1].names[k] for k in broken}
