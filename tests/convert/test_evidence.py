"""What values say about rows that names made: relations, suggestions, and silence on noise."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from troubleshooter_nb import convert_weights, draft_weight_map, open_dump
from troubleshooter_nb.convert.likeness import key_of, likeness
from troubleshooter_nb.dump import ArrayInMemory
from troubleshooter_nb.errors import EntryNotFoundError
from troubleshooter_nb.messages import Message

UNRELATED = Message("weight_maps.values_unrelated")


def weight(rng, *shape):
    return rng.normal(size=shape).astype("f4")


def network(seed):
    """Names as torch and MindSpore both give them, so that every row is made by names."""
    rng = np.random.default_rng(seed)
    net = {}
    for i in range(6):
        net[f"layers.{i}.fc.weight"] = weight(rng, 24, 24)
        net[f"layers.{i}.fc.bias"] = weight(rng, 24)
    net["lstm.weight_ih_l0"] = weight(rng, 32, 8)
    net["lstm.weight_hh_l0"] = weight(rng, 32, 8)
    net["lstm.bias_ih_l0"] = weight(rng, 32)
    net["lstm.bias_hh_l0"] = weight(rng, 32)
    net["attn.in_proj_weight"] = weight(rng, 48, 16)
    net["proj.weight"] = weight(rng, 16, 40)
    return net


def blocks(array, order):
    parts = np.split(array, len(order))
    return np.concatenate([parts[i] for i in order])


# What is done to one tensor, and what the note of its row must say.
PLANTED = {
    "transposed": ("layers.0.fc.weight", lambda a: a.T, "transposed", "transpose"),
    "flipped": ("proj.weight", lambda a: a[:, ::-1], r"reversed along axes \(1,\)", "flip(1)"),
    "scaled": ("proj.weight", lambda a: a * np.float32(0.25), r"times 0.25", "scale(0.25)"),
    "offset": ("proj.weight", lambda a: a + np.float32(0.5), r"plus 0.5", "offset(0.5)"),
    "halves": (
        "proj.weight",
        lambda a: blocks(a, (1, 0)),
        "two halves along axis 0 swapped",
        "blocks(0, 1, 0)",
    ),
    "gates": (
        "lstm.weight_hh_l0",
        lambda a: blocks(a, (0, 2, 1, 3)),
        "blocks i, f, g, o of the source in the order i, g, f, o",
        "blocks(0, 0, 2, 1, 3)",
    ),
    "packed": (
        "attn.in_proj_weight",
        lambda a: blocks(a, (1, 0, 2)),
        "blocks q, k, v of the source in the order k, q, v",
        "blocks(0, 1, 0, 2)",
    ),
    "interleaved": (
        "attn.in_proj_weight",
        lambda a: a.reshape(3, 4, 4, 16).swapaxes(0, 1).reshape(48, 16),
        r"every 48 rows along axis 0 taken as \(4, 3, 4\) instead of \(3, 4, 4\)",
        "reshape(-1, 3, 4, 4, 16) | permute(0, 2, 1, 3, 4) | reshape(48, 16)",
    ),
    "rotary": (
        "attn.in_proj_weight",
        lambda a: a.reshape(3, 2, 8, 16).swapaxes(1, 2).reshape(48, 16),
        r"every 16 rows along axis 0 taken as \(8, 2, 1\) instead of \(2, 8, 1\)",
        "reshape(-1, 2, 8, 16) | permute(0, 2, 1, 3) | reshape(48, 16)",
    ),
    "noisy": (
        "layers.1.fc.weight",
        lambda a: (a + 1e-3 * weight(np.random.default_rng(9), 24, 24)).T,
        "transposed, residual 1.",
        "transpose",
    ),
}


@pytest.mark.parametrize("plant", PLANTED)
def test_a_row_says_how_its_values_relate(plant):
    name, change, said, transform = PLANTED[plant]
    source = network(0)
    target = source | {name: np.ascontiguousarray(change(source[name]), "f4")}
    weight_map = draft_weight_map(source, target)
    note = weight_map[name].note
    assert re.search(said, note), note
    assert "residual" in note
    # Nothing is said of any other row.
    assert [row.sources[0] for row in weight_map if row.note] == [name]
    assert [str(row.transform) for row in weight_map.suggestions] == [transform]
    # Names made the row, so it is left as it is until the suggestion is accepted.
    assert str(weight_map[name].transform) == "copy"
    assert str(weight_map.accept()[name].transform) == transform


def test_an_accepted_suggestion_converts_to_the_values_of_the_target(tmp_path):
    source = network(0)
    target = source | {"layers.0.fc.weight": source["layers.0.fc.weight"].T.copy()}
    target["layers.1.fc.weight"] = source["layers.2.fc.weight"]
    target["layers.2.fc.weight"] = source["layers.1.fc.weight"]
    weight_map = draft_weight_map(source, target)
    assert "values are those of 'layers.2.fc.weight' (residual 0)" in (
        weight_map["layers.1.fc.weight"].note
    )
    table = weight_map.to_dataframe().set_index("source")["suggestion"]
    assert table["layers.0.fc.weight"] == "transpose"
    assert table["layers.1.fc.weight"] == "-> layers.2.fc.weight"
    assert table["layers.3.fc.weight"] == ""
    one = weight_map.accept("layers.0.fc.weight")
    assert one["layers.0.fc.weight"].how == "edited"
    assert str(one["layers.0.fc.weight"].transform) == "transpose"
    assert len(one.suggestions) == 2
    everything = weight_map.accept()
    assert everything.suggestions == ()
    assert len(everything) == len(weight_map)
    assert convert_weights(source, tmp_path / "x.ckpt", everything).passed
    written = open_dump(tmp_path / "x.ckpt")
    for name, values in target.items():
        assert written.array(name).tobytes() == np.ascontiguousarray(values).tobytes(), name
    with pytest.raises(EntryNotFoundError, match=r"no suggestion for 'layers.0.fc.weigth'; clos"):
        weight_map.accept("layers.0.fc.weigth")


def test_one_of_two_exchanged_rows_leaves_the_other_unpaired():
    source = network(0)
    target = source | {
        "layers.1.fc.weight": source["layers.2.fc.weight"],
        "layers.2.fc.weight": source["layers.1.fc.weight"],
    }
    one = draft_weight_map(source, target).accept("layers.1.fc.weight")
    assert one["layers.1.fc.weight"].targets == ("layers.2.fc.weight",)
    assert one.unmatched_sources == ["layers.2.fc.weight"]
    both = one.accept("layers.2.fc.weight")
    assert both.unmatched_sources == []
    assert both["layers.1.fc.weight"].targets == ("layers.2.fc.weight",)
    assert both["layers.2.fc.weight"].targets == ("layers.1.fc.weight",)


def test_values_that_an_agreeing_row_holds_are_said_but_not_suggested():
    source = network(0)
    target = source | {"layers.3.fc.weight": source["layers.4.fc.weight"]}
    weight_map = draft_weight_map(source, target)
    note = weight_map["layers.3.fc.weight"].note
    assert note.endswith("(residual 0), which 'layers.4.fc.weight' holds as well")
    assert weight_map.suggestions == ()
    assert any(
        note.startswith("target: equal values, but not tied: layers.3.fc.weight, layers.4")
        for note in weight_map.notes
    )


@pytest.mark.parametrize("seed", range(5))
def test_an_unrelated_target_is_said_once(seed):
    weight_map = draft_weight_map(network(seed), network(seed + 100))
    assert [row.note for row in weight_map if row.note] == []
    assert weight_map.suggestions == ()
    assert [note for note in weight_map.notes if "values" in note] == [UNRELATED]


@pytest.mark.torch
@pytest.mark.mindspore
def test_a_fresh_network_of_the_other_framework_makes_no_noise():
    import mindspore
    import torch

    torch.manual_seed(0)
    sizes = [16, 64, 64, 32]
    net = torch.nn.Sequential()
    cells = []
    for before, after in itertools.pairwise(sizes):
        net.append(torch.nn.Linear(before, after)).append(torch.nn.BatchNorm1d(after))
        cells += [mindspore.nn.Dense(before, after), mindspore.nn.BatchNorm1d(after)]
    cell = mindspore.nn.SequentialCell(*cells)
    weight_map = draft_weight_map(net, cell)
    assert [row.note for row in weight_map if row.note] == []
    assert Message("weight_maps.target_to_fill") in weight_map.notes
    assert "✓ 100%" in repr(weight_map)
    # Once loaded, the values agree; then one layer is spoilt, and found.
    state = {n: p.detach().numpy() for n, p in net.state_dict().items()}
    for row in weight_map:
        if row.targets:
            parameter = cell.parameters_dict()[row.targets[0]]
            parameter.set_data(mindspore.Tensor(state[row.sources[0]]))
    assert any("values agree" in note for note in draft_weight_map(net, cell).notes)
    spoilt = cell.parameters_dict()["2.weight"]
    spoilt.set_data(mindspore.Tensor(np.ascontiguousarray(spoilt.asnumpy().T)))
    (row,) = draft_weight_map(net, cell).suggestions
    assert (row.sources, str(row.transform)) == (("2.weight",), "transpose")


@pytest.mark.torch
def test_tied_tensors_of_a_network_are_no_duplicates():
    import torch

    net = torch.nn.Module()
    net.emb = torch.nn.Embedding(30, 8)
    net.head = torch.nn.Linear(8, 30, bias=False)
    state = {name: p.detach().numpy().copy() for name, p in net.state_dict().items()}
    state["head.weight"] = state["emb.weight"].copy()
    net.head.weight = net.emb.weight
    notes = draft_weight_map(net, {"emb.embedding_table": state["emb.weight"]}).notes
    assert not any(note.startswith("source: equal values") for note in notes)
    notes = draft_weight_map(state, {"emb.embedding_table": state["emb.weight"]}).notes
    assert "source: equal values, but not tied: emb.weight, head.weight" in notes


def test_a_layer_that_was_never_loaded_is_told_by_its_initialiser():
    source = network(0)
    rng = np.random.default_rng(1)
    fresh = rng.uniform(-1, 1, (16, 40)) / np.sqrt(40)
    weight_map = draft_weight_map(source, source | {"proj.weight": fresh.astype("f4")})
    note = weight_map["proj.weight"].note
    assert "no relation was found" in note
    assert "the target's look as initialised: uniform, bound 0.1581" in note
    assert weight_map.suggestions == ()
    filled = draft_weight_map(source, source | {"layers.2.fc.bias": np.ones(24, "f4")})
    assert "the target's look as initialised: ones" in filled["layers.2.fc.bias"].note


def test_training_is_one_note_and_no_rows():
    rng = np.random.default_rng(1)
    source = network(0)
    target = {n: a + 0.3 * weight(rng, *a.shape) for n, a in source.items()}
    weight_map = draft_weight_map(source, {n: a.astype("f4") for n, a in target.items()})
    assert [row.note for row in weight_map if row.note] == []
    assert any("are correlated but not equal, as after training" in n for n in weight_map.notes)
    assert UNRELATED not in weight_map.notes


def test_tables_that_are_equal_everywhere_do_not_make_the_rest_a_finding():
    table = np.sin(np.arange(64, dtype="f4"))
    source, target = network(0) | {"sines": table}, network(1) | {"sines": table}
    weight_map = draft_weight_map(source, target)
    assert [row.note for row in weight_map if row.note] == []
    assert any("rows are unrelated: names and shapes alone" in n for n in weight_map.notes)


def test_a_padded_vocabulary_explains_a_row_that_does_not_fit():
    source = network(0)
    padded = np.zeros((20, 40), "f4")
    padded[:16] = source["proj.weight"]
    weight_map = draft_weight_map(source, source | {"proj.weight": padded})
    row = weight_map["proj.weight"]
    assert "the source is the part of the target that starts at (0, 0)" in row.note
    assert weight_map.problem(row)
    html = weight_map._repr_html_()
    assert "that starts at (0, 0)" in html


def test_parts_that_take_turns_or_add_up_are_found_among_what_has_no_partner():
    rng = np.random.default_rng(3)
    q, k, v = (weight(rng, 16, 12) for _ in range(3))
    ih, hh = weight(rng, 40), weight(rng, 40)
    turns = np.concatenate([a.reshape(4, 4, 12) for a in (q, k, v)], axis=1).reshape(48, 12)
    stack = np.stack([q, k, v])
    source = {"a.q": q, "a.k": k, "a.v": v, "r.ih": ih, "r.hh": hh}
    weight_map = draft_weight_map(source, {"whole.packed": turns, "r.sum": ih + hh})
    assert str(weight_map["r.sum"].transform) == "add"
    assert set(weight_map["r.sum"].sources) == {"r.ih", "r.hh"}
    row = weight_map["whole.packed"]
    assert "4 turns of (4, 4, 4) rows of a.q, a.k, a.v along axis 0, residual 0.0e+00" in row.note
    assert str(row.transform) == "reshape(4, -1, 12) | concat(1) | reshape(-1, 12)"
    assert np.array_equal(row.transform.apply([q, k, v])[0], turns)
    experts = draft_weight_map({"experts.all": stack}, {"e.0": q, "e.1": k, "e.2": v})
    (row,) = experts
    assert "stack of e.0, e.1, e.2 along a new axis 0" in row.note
    assert (row.targets, str(row.transform)) == (("e.0", "e.1", "e.2"), "unstack(0, 3)")


def test_what_is_not_looked_for_in_the_values_is_said(monkeypatch):
    source = network(0)
    order = np.random.default_rng(1).permutation(16)
    target = {**source, "proj.weight": source["proj.weight"][order]}
    weight_map = draft_weight_map(source, target)
    assert "rows along axis 0 in another order" in weight_map["proj.weight"].note
    for module in ("explanations", "relations"):
        patched = f"troubleshooter_nb.metrics.{module}.MOST_MATCHED_ROWS"
        monkeypatch.setattr(patched, 12)
    monkeypatch.setattr("troubleshooter_nb.metrics.derivations.LARGEST_HELD", 12)
    weight_map = draft_weight_map(source, target)
    (note,) = [n for n in weight_map.notes if n.id == "values.no_order_of_many_rows"]
    assert str(note).startswith("an order of 40 rows is not looked for")
    monkeypatch.setattr("troubleshooter_nb.convert.evidence.SEARCHED_ELEMENTS", -1)
    weight_map = draft_weight_map(source, target)
    (note,) = [n for n in weight_map.notes if n.id == "weight_maps.not_searched"]
    assert str(note).endswith("proj.weight")
    assert "differ" not in weight_map["proj.weight"].note


def test_values_rounded_to_another_dtype_are_offered_as_a_cast():
    source = network(0)
    half = {name: values.astype("f2") for name, values in source.items()}
    weight_map = draft_weight_map(source, half)
    # All agree up to the rounding, which is what a network that loads them does by itself.
    assert weight_map.suggestions == ()
    assert any("up to the rounding of float16" in note for note in weight_map.notes)


def test_the_text_and_the_page_show_suggestions():
    source = network(0)
    target = source | {"layers.0.fc.weight": source["layers.0.fc.weight"].T.copy()}
    weight_map = draft_weight_map(source, target)
    text, html = repr(weight_map), weight_map._repr_html_()
    assert "suggestions, as values lie elsewhere or otherwise: 1;" in text
    assert "suggested: transpose" in text
    assert max(map(len, text.splitlines())) <= 100
    assert "suggested: transpose" in html
    assert "the target is the source transposed" in html


def test_likeness_by_hand():
    rng = np.random.default_rng(0)
    values = rng.normal(size=9000)

    def kind(other):
        return likeness(ArrayInMemory(values), ArrayInMemory(other)).kind

    assert kind(values.copy()) == "equal"
    assert kind(values + 1e-3 * rng.normal(size=9000)) == "near"
    assert kind(values + rng.normal(size=9000)) == "similar"
    assert kind(rng.normal(size=9000)) == "other"
    assert kind(np.zeros(9000)) == "constant"
    spoilt = values.copy()
    spoilt[5000] = 100.0  # between the pieces that the sample reads
    assert kind(spoilt) not in ("equal", "near")
    broken = values.copy()
    broken[3] = np.nan
    assert likeness(ArrayInMemory(broken), ArrayInMemory(broken.copy())).kind == "equal"
    assert key_of(ArrayInMemory(np.ones(100))) == b""
    assert key_of(ArrayInMemory(values)) == key_of(ArrayInMemory(values.reshape(90, 100)))
