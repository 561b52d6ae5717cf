"""read_mapping and write_mapping: every documented kind, what is refused and why, round trips."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twins import MINDSPORE, TORCH
from troubleshooter_nb import Dump, compare, open_dump, pair_dumps
from troubleshooter_nb.analysis.declared.pairs import declared_pairs
from troubleshooter_nb.dump import ArrayInMemory, Entry
from troubleshooter_nb.errors import (
    MappingFileError,
    TroubleshooterError,
    TroubleshooterWarning,
)
from troubleshooter_nb.formats.layer_names import LayerNames
from troubleshooter_nb.formats.pairing_files import read_mapping
from troubleshooter_nb.formats.pairing_rules import MISSING, NameRule
from troubleshooter_nb.formats.pairing_writer import unsaid_in_mapping, write_mapping
from troubleshooter_nb.formats.yaml_nodes import read_nodes
from troubleshooter_nb.naming import Site
from troubleshooter_nb.pairing import Match, Pairing

DATA = Path(__file__).parents[1] / "data"
MAPS = DATA / "maps"
MSPROBE = DATA / "msprobe" / "v26_2_0"


def written(folder, text, name="m.yaml"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def names_of(mapping):
    return {(rule.parent, rule.left): rule.right for rule in mapping.names}


def positions(found):
    return None if found is None else [(p.left, p.right) for p in found]


@pytest.mark.parametrize(
    ("file", "kind", "rules"),
    [
        ("map_api.yaml", "api", 1),
        ("map_cell.yaml", "cell", 2),
        ("map_data.yaml", "data", 4),
        ("map_layer.yaml", "layer", 12),
        ("maps_api_dict.yaml", "api", 1),
        ("maps_api_list.yaml", "api", 1),
        ("maps_api_list_output.yaml", "api", 2),
        ("maps_cell.yaml", "cell", 2),
        ("maps_cell_str.yaml", "cell", 1),
        ("maps_data.yaml", "data", 5),
        ("maps_layer_mlp.yaml", "layer", 0),
        ("maps_layer_tf.yaml", "layer", 10),
        ("maps_layer_tf_oldkey.yaml", "layer", 10),
        ("data_mapping_20261127211307.yaml", "data", 125),
    ],
)
def test_every_documented_file_is_read_for_what_it_is(file, kind, rules):
    mapping = read_mapping(MAPS / file)
    assert (mapping.kind, len(mapping.names) + len(mapping.apis)) == (kind, rules)
    assert mapping == read_mapping(MAPS / file, kind=kind)
    hash(mapping)


def test_one_api_mapping_with_plural_keys_says_the_same_as_a_list_with_singular_ones():
    found = [read_mapping(MAPS / f"maps_api_{name}.yaml").apis for name in ("dict", "list")]
    found.append(read_mapping(MAPS / "maps_api_list_output.yaml").apis[1:])
    for (rule,) in found:
        assert (rule.left, rule.right) == ("Functional.cross_entropy",) * 2
        assert positions(rule.inputs) == [(0, 0), (1, 1)]
        assert positions(rule.outputs) == [(0, 0)]


def test_an_api_mapping_of_two_names_says_nothing_of_positions(tmp_path):
    (rule,) = read_mapping(written(tmp_path, "ms_api: Mint.add\npt_api: Torch.add\n")).apis
    assert (rule.inputs, rule.outputs, rule.lines) == (None, None, (1, 2))


def test_the_rules_of_a_layer_mapping_know_their_parents_and_lines():
    mapping = read_mapping(MAPS / "map_layer.yaml")
    assert names_of(mapping)["Cell", "word_emb"] == "emb"
    assert names_of(mapping)["DecoderCell", "up"] == "fc1"
    assert names_of(mapping)["layers", "1"] == "1"
    assert [rule.line for rule in mapping.names][:5] == [2, 3, 4, 5, 8]


def test_numbers_without_quotes_are_names_of_attributes(tmp_path):
    mapping = read_mapping(written(tmp_path, "layers:\n  5: 0\n  '6': '1'\n"))
    assert names_of(mapping) == {("layers", "5"): "0", ("layers", "6"): "1"}


def test_a_row_that_the_peer_could_not_match_has_no_partner():
    mapping = read_mapping(MAPS / "data_mapping_20261127211307.yaml")
    assert sum(rule.right is None for rule in mapping.names) == 39
    assert mapping.names[1].right is None


@pytest.mark.parametrize(
    "text",
    [
        "a: x\nb: N/A\nN/A: [c]\n",
        "- [a, x]\n- [b, null]\n- [~, c]\n",
        "- a: x\n- b:\n- N/A: c\n",
        '[["a", "x"],\n\t["b", null], [null, "c"]]',
        '{"a": "x",\n\t"b": "N/A", "N/A": ["c"]}',
    ],
)
def test_own_pairs_come_in_any_plain_form(tmp_path, text):
    # In json every text is quoted, in yaml only what would otherwise be something else.
    name = "m.json" if text[0] in "[{" else "m.yaml"
    mapping = read_mapping(written(tmp_path, text, name))
    pairs = [(rule.left, rule.right) for rule in mapping.names]
    assert mapping.kind == "data"
    assert pairs == [("a", "x"), ("b", None), (None, "c")]


LISTS = "ms_api: A.a\npt_api: B.a\nms_args: {}\npt_args: {}\n"


@pytest.mark.parametrize(
    ("text", "line", "key", "says"),
    [
        (LISTS.format("[0, 1]", "[0]"), 3, "ms_args", "2 numbers, but 1 in 'pt_args' .line 4"),
        (LISTS.format("[0, 0]", "[0, 1]"), 3, "ms_args", "twice"),
        (LISTS.format("[0, 1]", "[0, -1]"), 4, "pt_args", "out of range"),
        (LISTS.format("[0, 1]", "[0, 99999999]"), 4, "pt_args", "out of range"),
        (LISTS.format("[0, 1.5]", "[0, 1]"), 3, "ms_args", "no position"),
        (LISTS.format("[0, true]", "[0, 1]"), 3, "ms_args", "no position"),
        (LISTS.format("[0, [1]]", "[0, 1]"), 3, "ms_args", "no position"),
        (LISTS.format("0", "[0]"), 3, "ms_args", "a list of positions"),
        ("ms_api: A.a\npt_api: B.a\nms_args: [0]\n", 3, "ms_args", "'pt_args' is missing"),
        ("ms_api: A.a\n", 1, "pt_api", "missing"),
        ("ms_api: A.a\npt_api: B.a\nms_arg: [0]\n", 3, "ms_arg", "closest: 'ms_args'"),
        ("ms_api: A.a\npt_api: [B.a]\n", 2, "pt_api", "expected one name, got a list"),
        ("ms_api: A.a\npt_api: B.a\nms_api: A.b\n", 3, "ms_api", "in line 1 already"),
        ("- ms_api: A.a\n  pt_api: B.a\n- ms_api: A.a\n  pt_api: B.a\n", 3, "ms_api", "line 1"),
        (
            "ms_api: A\npt_api: B\nms_output: [0]\nms_outputs: [0]\npt_output: [0]\n",
            *(4, "ms_outputs", "says the same as 'ms_output' in line 3"),
        ),
        ("- ms_api: A.a\n  pt_api: B.a\n- wrong\n", 3, "wrong", "expected ms_api"),
        ("fc1.Dense: fc1.Linear\nfc1.Dense: fc2.Linear\n", 2, "fc1.Dense", "line 1 already"),
        (
            "fc1.Dense: x.Linear\nfc2.Dense: x.Linear\n",
            2,
            "fc2.Dense",
            "'x.Linear' stands in line 1",
        ),
        ("Cell:\n  a: b\n  a: c\n", 3, "a", "stands in line 2 already"),
        ("Cell:\n  a: b\nTopLayer:\n  c: d\n", 1, "Cell", "keep one"),
        ("Cell:\n  a: b\nBlock: x\n", 3, "Block", "indent the names"),
        ("Cell:\n  a: [b]\n", 2, "a", "expected one name, got a list"),
        ("Cell:\n  a..b: c\n", 2, "a..b", "a dot at an end"),
        ("Cell:\n  a:\n", 2, "a", "expected a name, got nothing"),
        ("a: x\nb: x\n", 2, "b", "'x' stands in line 1 already"),
        ("a: x\nb: [y, z]\n", 2, "b", "expected one name, got a list"),
        ("- [a, b, c]\n", 1, "[...]", "expected .left name, right name"),
        ("- [null, N/A]\n", 1, "", "neither side has a name"),
        ("word\n", 1, "word", "a table or a list"),
        ("a: x\n<<: y\n", 2, "<<", "write the merged rows out"),
        ("a: x\n---\nb: y\n", 2, "---", "a second document"),
        ("a: x\nb: *c\n", 2, "*c", "not defined"),
        ("a: x\nb: !!python/object:os.system y\n", 2, "tag:", "tags are not followed"),
        ("a: x\nb: 'y\n", 0, "", "not yaml"),
        ("a: &a [*a]\n", 1, "*a", "not defined"),
        ("? [a]\n: b\n", 1, "", "a key must be"),
        ("# nothing\n", 1, "", "nothing but comments"),
        (b"\xff\xfe\x00", 1, "", "UTF-8"),
        ("[" * 40 + "]" * 40, 1, "", "nested deeper"),
    ],
)
def test_what_is_wrong_is_named_with_file_line_and_key(tmp_path, text, line, key, says):
    with pytest.raises(MappingFileError, match=says) as error:
        read_mapping(written(tmp_path, text))
    message = str(error.value)
    assert message.startswith("m.yaml, line " + (str(line) if line else ""))
    assert key in message
    assert isinstance(error.value, TroubleshooterError | ValueError)


@pytest.mark.parametrize("name", ["empty", "folder", "huge", "deep"])
def test_what_is_no_small_text_file_is_refused(tmp_path, name):
    path = tmp_path / "m.yaml"
    if name == "folder":
        path.mkdir()
    else:
        path.write_bytes(
            {"empty": b"", "huge": b"#" * (16 * 1024**2 + 1), "deep": b"[" * 10**6}[name]
        )
    with pytest.raises(MappingFileError, match=r"m\.yaml"):
        read_mapping(path)


def test_aliases_repeat_a_list_but_do_not_explode(tmp_path):
    text = "ms_api: A.a\npt_api: B.a\nms_args: &id001 [0, 1]\npt_args: *id001\n"
    (rule,) = read_mapping(written(tmp_path, text)).apis
    assert positions(rule.inputs) == [(0, 0), (1, 1)]
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 10)}]\n" for k in range(1, 12))
    with pytest.raises(MappingFileError, match="aliases stand for more"):
        read_mapping(written(tmp_path, bomb))


def test_an_unknown_kind_is_refused():
    with pytest.raises(MappingFileError, match="choose one of api, cell, data, layer"):
        read_mapping(MAPS / "maps_cell.yaml", kind="row")


@given(st.binary(max_size=200) | st.text(max_size=120).map(lambda t: t.encode(errors="replace")))
def test_any_bytes_are_nodes_or_an_error_of_ours(content):
    said = "m.yaml, line "
    try:
        read_nodes(content, "m.yaml")
    except MappingFileError as error:
        said = str(error)
    assert said.startswith("m.yaml, line ")


@pytest.mark.parametrize(
    ("path", "new"),
    [
        ("blocks.0.up", "layers.0.fc1"),
        ("blocks.0", "layers.0"),
        ("head.deep.in", "other.in"),
        ("head.deep2.in", "head.deep2.in"),
        ("up", "up"),
    ],
)
def test_attributes_are_renamed_by_what_contains_them(path, new):
    rules = [
        NameRule(1, "blocks", "layers", "TopLayer"),
        NameRule(2, "up", "fc1", "Block"),
        NameRule(3, "head.deep", "other", "TopLayer"),
    ]
    assert LayerNames(rules, {"blocks.0": "Block"}).renamed(path)[0] == new


def twins():
    return open_dump(MINDSPORE), open_dump(TORCH)


def rows_of(matches):
    return [(match.left, match.right) for match in matches]


@pytest.mark.parametrize("kind", ["data", "layer"])
def test_a_written_mapping_of_the_twins_reads_back_to_the_same_pairs(tmp_path, kind):
    left, right = twins()
    matches = declared_pairs(left, right, MAPS / "maps_layer_tf.yaml")
    pairing = Pairing.from_matches(left, right, matches)
    path = write_mapping(pairing, tmp_path / "m.yaml", kind=kind)
    assert read_mapping(path).kind == kind
    assert rows_of(declared_pairs(left, right, path)) == rows_of(matches)
    again = write_mapping(pairing, tmp_path / "again.yaml", kind=kind)
    assert again.read_bytes() == path.read_bytes()
    assert path.read_text().startswith("# Made by troubleshooter_nb from a pairing of 'm_tfr_L0")


def test_a_written_layer_mapping_holds_only_what_is_called_differently(tmp_path):
    left, right = twins()
    matches = declared_pairs(left, right, MAPS / "maps_layer_tf.yaml")
    path = write_mapping(
        Pairing.from_matches(left, right, matches), tmp_path / "m.yaml", kind="layer"
    )
    assert names_of(read_mapping(path)) == names_of(read_mapping(MAPS / "maps_layer_tf.yaml"))


def test_blocks_that_are_renamed_unalike_are_named_by_their_paths(tmp_path):
    left, right = twins()
    matches = declared_pairs(left, right, MAPS / "maps_layer_tf.yaml")
    names = [str(name) for name in left.index["path"].values]
    # The two inner norms of the first block belong crosswise, those of the second do not.
    swap = {
        "blocks.0.input_norm": "blocks.0.post_norm",
        "blocks.0.post_norm": "blocks.0.input_norm",
    }
    slot = ("call", "direction", "role", "slot")
    by_key = {
        (names[m.left], *(left.index[c].values[m.left] for c in slot)): m.right for m in matches
    }
    crossed = []
    for m in matches:
        key = tuple(left.index[c].values[m.left] for c in slot)
        crossed.append(
            Match(m.left, by_key[(swap.get(names[m.left], names[m.left]), *key)], "user", 1.0)
        )
    pairing = Pairing.from_matches(left, right, crossed)
    path = write_mapping(pairing, tmp_path / "m.yaml", kind="layer")
    assert "blocks.0:\n  input_norm: ln2" in path.read_text()
    assert rows_of(declared_pairs(left, right, path)) == rows_of(crossed)


def test_pairs_that_a_layer_mapping_cannot_say_are_its_comments(tmp_path):
    left, right = twins()
    sides = [dump.index["path"].values.tolist() for dump in (left, right)]
    # A part of one block with a part of another one: no renaming of attributes says that.
    pairs = [("blocks.0", "layers.0"), ("blocks.0.up", "layers.1.fc1"), ("lm_head", "head")]
    rows = [Match(sides[0].index(a), sides[1].index(b), "user", 1.0) for a, b in pairs]
    path = write_mapping(Pairing.from_matches(left, right, rows), tmp_path / "m.yaml", kind="layer")
    assert "# not said here: blocks.0.up: layers.1.fc1" in path.read_text()
    assert names_of(read_mapping(path)) == {
        ("TopLayer", "blocks"): "layers",
        ("TopLayer", "lm_head"): "head",
    }


def test_expected_and_other_lone_entries_are_told_apart(tmp_path):
    left = Dump.from_arrays({"a": np.zeros(2), "b": np.zeros(3), "c": np.zeros(4)}, label="l")
    right = Dump.from_arrays({"A": np.zeros(2), "d": np.zeros(5), "e": np.zeros(6)}, label="r")
    pairs = [("a", "A"), ("b", None), (None, "d")]
    pairing = pair_dumps(left, right, mapping=pairs, method="name")
    path = write_mapping(pairing, tmp_path / "m.yaml")
    read = [(rule.left, rule.right) for rule in read_mapping(path).names]
    assert read == pairs
    assert "# without partner on the left: c" in path.read_text()
    assert "# without partner on the right: e" in path.read_text()


def test_names_that_were_unpaired_are_said_to_be_paired_again(tmp_path):
    left = Dump.from_arrays({"a": np.zeros(2), "b": np.zeros(3), "c": np.zeros(4)})
    right = Dump.from_arrays({"a": np.zeros(2), "b": np.zeros(3), "C": np.zeros(4)})
    drawn = pair_dumps(left, right)
    assert (drawn.matched, unsaid_in_mapping(drawn)) == (3, [])
    parted = drawn.unpair("a").unpair("c")
    assert [line for line in unsaid_in_mapping(parted) if line.startswith("paired")] == [
        "paired again: a: a",
        "paired again: c: C",
    ]
    path = tmp_path / "m.yaml"
    with pytest.warns(TroubleshooterWarning, match=r"m.yaml cannot keep apart .*: a: a; c: C; "):
        write_mapping(parted, path)
    assert "# paired again: a: a\n" in path.read_text()
    assert pair_dumps(left, right, mapping=path).matched == 3
    # What was declared has its word, and stays.
    kept = parted.expect_missing("a", "c")
    assert not [line for line in unsaid_in_mapping(kept) if line.startswith("paired")]
    assert pair_dumps(left, right, mapping=write_mapping(kept, path)).matched == 1


def test_a_pair_of_one_step_that_is_parted_in_another_is_paired_again():
    left = right = open_dump(MSPROBE / "mindspore/m_mlp_L0_tensor")
    first, other = 0, int(np.flatnonzero(left.index["step"].values == 1)[0])
    rows = [(first, first), (other, -1), (-1, other)]
    pairing = Pairing.from_matches(left, right, [Match(*row, "user", 1.0) for row in rows])
    name = left.names[first]
    assert left.names[other] == name
    assert unsaid_in_mapping(pairing) == [f"paired again: {name}: {name}"]


def test_what_a_layer_mapping_does_not_say_can_be_asked_for():
    dump = open_dump(MSPROBE / "mindspore/m_mlp_L0_tensor")
    pairing = pair_dumps(dump, dump)
    assert unsaid_in_mapping(pairing, "layer") == []
    with pytest.raises(ValueError, match="choose one of"):
        unsaid_in_mapping(pairing, "table")


QKV = "Cell.blocks.0.qkv_proj.Dense.forward.0.output.0"
FC1 = "Module.layers.1.fc1.Linear.forward.0.input.0"
BETA = "Cell.blocks.0.input_norm.LayerNorm.forward.0.parameters.beta"
BIAS = "Module.layers.0.ln1.LayerNorm.forward.0.parameters.bias"


@pytest.mark.parametrize("kind", ["layer", "cell"])
def test_pairs_that_were_found_and_not_made_by_hand_need_no_words(kind):
    assert unsaid_in_mapping(pair_dumps(*twins()), kind) == []


def test_a_pair_made_by_hand_that_a_layer_mapping_does_not_say_is_named(tmp_path):
    pairing = pair_dumps(*twins()).pair(QKV, FC1)
    assert f"not said here: {QKV}: {FC1}" in unsaid_in_mapping(pairing, "layer")
    path = write_mapping(pairing, tmp_path / "m.yaml", kind="layer")
    assert f"# not said here: {QKV}: {FC1}\n" in path.read_text()
    again = pair_dumps(*twins(), mapping=path).table
    assert again["right"].values[again["left"].values == QKV] != FC1
    # One that is said already need not be named, whoever made it.
    same = pair_dumps(*twins()).unpair(BETA).pair(BETA, BIAS)
    assert unsaid_in_mapping(same, "layer") == unsaid_in_mapping(same, "cell") == []


@pytest.mark.parametrize("kind", ["layer", "cell"])
def test_what_is_expected_is_named_where_a_mapping_has_no_word_for_it(tmp_path, kind):
    pairing = pair_dumps(*twins()).unpair(BETA)
    pairing = pairing.expect_missing(BETA, side="left").expect_missing(BIAS, side="right")
    assert unsaid_in_mapping(pairing) == []
    assert unsaid_in_mapping(pairing, kind) == [
        f"paired again: {BETA}: {BIAS}",
        f"not said here: expected to be missing: {BETA} on the left",
        f"not said here: expected to be missing: {BIAS} on the right",
    ]
    with pytest.warns(TroubleshooterWarning, match=r'in a mapping of kind="data"'):
        path = write_mapping(pairing, tmp_path / "m.yaml", kind=kind)
    again = pair_dumps(*twins(), mapping=path).table
    assert again["right"].values[again["left"].values == BETA] == BIAS


@pytest.mark.parametrize("kind", ["layer", "cell", "api"])
def test_a_module_paired_with_an_operator_by_hand_is_named(kind):
    pairing = pair_dumps(MSPROBE / "mindspore/m_mlp_mix_tensor", MSPROBE / "torch/t_mlp_mix_tensor")
    before = unsaid_in_mapping(pairing, kind)
    weight = "Cell.fc1.Dense.forward.0.parameters.weight"
    loss = "Functional.cross_entropy.0.forward.output.0"
    made = unsaid_in_mapping(pairing.pair(weight, loss), kind)
    assert f"not said here: {weight}: {loss}" in set(made) - set(before)


def test_gradients_of_operators_paired_by_hand_are_named():
    pairing = pair_dumps(MSPROBE / "mindspore/m_mlp_mix_tensor", MSPROBE / "torch/t_mlp_mix_tensor")
    left = "Primitive.matmul.MatMul.0.backward.output.0"
    right = "Functional.linear.1.backward.output.1"
    made = unsaid_in_mapping(pairing.pair(left, right), "layer")
    assert f"not said here: {left}: {right}" in made


def test_what_operators_say_of_gradients_follows_their_positions():
    found = [
        *operators_of("Mint.sub", "Torch.rsub", "forward", [(0, 1), (1, 0)]),
        *operators_of("Mint.sub", "Torch.rsub", "backward", [(0, 1), (1, 0)]),
    ]
    left, right = (Dump.from_entries([pair[k] for pair in found]) for k in (0, 1))
    rows = [Match(k, k, "user", 1.0) for k in range(4)]
    assert unsaid_in_mapping(Pairing.from_matches(left, right, rows), "api") == []


def test_a_result_paired_with_a_gradient_is_not_written_as_a_position(tmp_path):
    """Both are outputs, of another direction: as one of them the file could not be used."""
    dumps = MSPROBE / "mindspore/m_mlp_mix_tensor", MSPROBE / "torch/t_mlp_mix_tensor"
    result = "Primitive.shape_op.Shape.0.forward.output.0"
    gradient = "Functional.linear.0.backward.output.2"
    pairing = pair_dumps(*dumps).pair(result, gradient)
    assert f"not said here: {result}: {gradient}" in unsaid_in_mapping(pairing, "api")
    pair_dumps(*dumps, mapping=write_mapping(pairing, tmp_path / "m.yaml", kind="api"))


def test_half_a_character_comes_escaped_as_in_dumps_and_is_not_written(tmp_path):
    path = written(tmp_path, r'{"a\ud800": "\ud83d\ude00"}', "m.json")
    (rule,) = read_mapping(path).names
    assert (rule.left, rule.right) == ("a\\ud800", "\U0001f600")
    dump = Dump.from_arrays({"a\udcff": np.zeros(1)})
    pairing = Pairing.from_matches(dump, dump, [Match(0, 0, "user", 1.0)])
    with pytest.raises(MappingFileError, match=r"'a\\udcff' holds half of a character"):
        write_mapping(pairing, tmp_path / "m.yaml")


def test_steps_that_are_paired_differently_are_no_data_mapping(tmp_path):
    left, right = (open_dump(MSPROBE / side) for side in ("mindspore/m_mlp_L0_tensor",) * 2)
    rows = [(0, 0), (1, 1), (20, 21), (21, 20)]
    pairing = Pairing.from_matches(left, right, [Match(*row, "user", 1.0) for row in rows])
    with pytest.raises(MappingFileError, match="another step or rank"):
        write_mapping(pairing, tmp_path / "m.yaml")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("left", "right", "kind"),
    [
        (MINDSPORE, TORCH, "cell"),
        ("mindspore/m_mlp_mix_tensor", "torch/t_mlp_mix_tensor", "cell"),
        ("mindspore/m_mlp_mix_tensor", "torch/t_mlp_mix_tensor", "api"),
        ("mindspore/m_mlp_L1_tensor", "torch/t_mlp_L1_tensor", "api"),
    ],
)
def test_written_cells_and_operators_read_back_to_the_same_pairs(tmp_path, left, right, kind):
    dumps = open_dump(MSPROBE / left), open_dump(MSPROBE / right)
    pairing = pair_dumps(*dumps)
    path = write_mapping(pairing, tmp_path / "m.yaml", kind=kind)
    assert read_mapping(path).kind == kind
    said = {(m.left, m.right) for m in declared_pairs(*dumps, path) if min(m.left, m.right) >= 0}
    wanted = {(m.left, m.right) for m in pairing.matches() if min(m.left, m.right) >= 0}
    assert said
    assert said <= wanted
    again = pair_dumps(*dumps, mapping=path).matches()
    assert {(m.left, m.right) for m in again if min(m.left, m.right) >= 0} == wanted


def operators(*names):
    def entry(k, name):
        path, call, role, slot = name.rsplit(" ", 3)
        site = Site("api", path, int(call), "forward", role, slot)
        return Entry(name, site, ArrayInMemory(np.ones(2)), order=k, layer=path.split(".")[1])

    return Dump.from_entries([entry(k, name) for k, name in enumerate(names)])


def operators_of(mine, theirs, direction, slots):
    """Entries of one call of two operators, pair by pair."""
    role = "input" if direction == "forward" else "output"
    for k, pair in enumerate(slots):
        sites = [
            Site("api", path, 0, direction, role, str(slot))
            for path, slot in zip((mine, theirs), pair, strict=True)
        ]
        yield [
            Entry(f"{site.path}.{direction}.{site.slot}", site, ArrayInMemory(np.ones(2)), order=k)
            for site in sites
        ]


def test_positions_are_written_where_first_for_first_says_something_else(tmp_path):
    left = operators("Mint.sub 0 input 0", "Mint.sub 0 input 1", "Mint.sub 0 output 0")
    right = operators("Torch.rsub 0 input 0", "Torch.rsub 0 input 1", "Torch.rsub 0 output 0")
    crossed = [Match(0, 1, "user", 1.0), Match(1, 0, "user", 1.0), Match(2, 2, "user", 1.0)]
    pairing = Pairing.from_matches(left, right, crossed)
    (rule,) = read_mapping(write_mapping(pairing, tmp_path / "m.yaml", kind="api")).apis
    assert (rule.left, rule.right) == ("Mint.sub", "Torch.rsub")
    assert positions(rule.inputs) == [(0, 1), (1, 0)]
    assert rule.outputs is None
    found = declared_pairs(left, right, tmp_path / "m.yaml")
    assert [(m.left, m.right) for m in found] == [(0, 1), (1, 0), (2, 2)]


def test_calls_of_other_numbers_are_no_api_mapping(tmp_path):
    left, right = operators("Torch.relu 0 input 0"), operators("Torch.relu 3 input 0")
    pairing = Pairing.from_matches(left, right, [Match(0, 0, "user", 1.0)])
    said = r"cannot say Torch.relu 0 input 0: Torch.relu 3 input 0 \(calls 0 and 3\)"
    with pytest.raises(MappingFileError, match=said):
        write_mapping(pairing, tmp_path / "m.yaml", kind="api")


def modules(*names):
    def entry(k, name):
        path, layer, role, slot = name.split(" ")
        site = Site("module", path, 0, "forward", role, slot)
        return Entry(name, site, ArrayInMemory(np.ones(2)), order=k, layer=layer)

    return Dump.from_entries([entry(k, name) for k, name in enumerate(names)])


def test_a_module_with_two_partners_is_no_cell_mapping(tmp_path):
    left = modules("a Dense input 0", "a Dense output 0")
    right = modules("x Linear input 0", "y Linear output 0")
    pairing = Pairing.from_matches(
        left, right, [Match(0, 0, "user", 1.0), Match(1, 1, "user", 1.0)]
    )
    with pytest.raises(MappingFileError, match="one partner, and cannot say a: y"):
        write_mapping(pairing, tmp_path / "m.yaml", kind="cell")
    small = modules("a dense input 0")
    pairing = Pairing.from_matches(small, small, [Match(0, 0, "user", 1.0)])
    with pytest.raises(MappingFileError, match=r"'a\.dense' would not be read as a module"):
        write_mapping(pairing, tmp_path / "m.yaml", kind="cell")


@pytest.mark.parametrize("kind", ["cell", "api", "layer"])
def test_without_modules_or_operators_there_is_nothing_to_write(tmp_path, kind):
    dump = Dump.from_arrays({"x": np.ones(2)})
    with pytest.raises(MappingFileError, match="so there is nothing for a"):
        write_mapping(pair_dumps(dump, dump), tmp_path / "m.yaml", kind=kind)


def test_a_mapping_file_that_is_not_there_says_what_a_mapping_may_be(tmp_path):
    (tmp_path / "names.yaml").write_text("a: b")
    dump = Dump.from_arrays({"x": np.ones(2)})
    said = r"^mapping: no such file or folder: .*it has 'names.yaml'.*left name: right name"
    with pytest.raises(FileNotFoundError, match=said):
        pair_dumps(dump, dump, mapping=tmp_path / "name.yaml")


def test_what_cannot_be_written_is_refused(tmp_path):
    left = Dump.from_arrays({"a": np.zeros(2)})
    pairing = pair_dumps(left, left)
    with pytest.raises(MappingFileError, match="no module"):
        write_mapping(pairing, tmp_path / "m.yaml", kind="layer")
    with pytest.raises(ValueError, match=r"use \.yaml"):
        write_mapping(pairing, tmp_path / "m.json")
    with pytest.raises(ValueError, match="choose one of api, cell, data, layer"):
        write_mapping(pairing, tmp_path / "m.yaml", kind="table")


NAMES = st.text(
    st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=20
) | st.sampled_from(
    [
        "null",
        "N/A",
        "~",
        "true",
        "0",
        "1e3",
        "- a",
        "a: b",
        "# c",
        "ms_api",
        "Dense",
        "<<",
        "a" * 1500,
    ]
)


@given(st.lists(st.tuples(NAMES, NAMES), unique_by=(lambda p: p[0], lambda p: p[1]), max_size=5))
def test_any_names_survive_being_written(tmp_path_factory, pairs):
    left = Dump.from_arrays({a: np.zeros(1) for a, _ in pairs})
    right = Dump.from_arrays({b: np.zeros(1) for _, b in pairs})
    matches = [Match(k, k, "user", 1.0) for k in range(len(pairs))]
    path = tmp_path_factory.mktemp("m") / "m.yaml"
    write_mapping(Pairing.from_matches(left, right, matches), path)
    mapping = read_mapping(path)
    assert [(rule.left, rule.right) for rule in mapping.names] == pairs
    assert mapping.kind == "data"


def test_the_expected_parse_of_the_layer_snippet():
    tables: dict = {}
    for rule in read_mapping(MAPS / "map_layer.yaml").names:
        tables.setdefault(rule.parent, {})[rule.left] = rule.right
    assert json.loads(json.dumps(tables))["layers"] == {"0": "0", "1": "1"}
    assert MISSING == "N/A"


def test_what_is_no_path_is_a_type_error():
    with pytest.raises(TypeError, match="read_mapping takes the path of a yaml or json file, got"):
        read_mapping(3)


def test_expected_in_one_step_alone_is_not_written_as_expected_in_all(tmp_path):
    entries = {
        side: [
            Entry(name, Site("file", name), ArrayInMemory(np.ones(2)), order=k, step=step)
            for k, (step, name) in enumerate((s, n) for s in (0, 1) for n in names)
        ]
        for side, names in (("left", "xy"), ("right", "x"))
    }
    left, right = (Dump.from_entries(one) for one in entries.values())
    pairing = pair_dumps(left, right).expect_missing("y", step=0)
    with pytest.warns(TroubleshooterWarning, match="y on the left"):
        path = write_mapping(pairing, tmp_path / "w.yaml")
    again = pair_dumps(left, right, mapping=path)
    assert not again.table["expected"].values.any()
    assert not compare(left, right, pairing=again).passed
    # In all steps it is said, and nothing is warned about.
    path = write_mapping(pairing.expect_missing("y", step=1), path)
    assert compare(left, right, mapping=path).passed


def test_names_that_were_parted_are_said_where_reading_may_pair_them(tmp_path):
    left = Dump.from_arrays({name: np.ones(4) for name in ("fc1.out", "fc2.out")})
    right = Dump.from_arrays({name: np.ones(4) for name in "pq"})
    pairing = pair_dumps(left, right).pair("fc1.out", "q")
    assert (pairing.unmatched_left, pairing.unmatched_right) == (["fc2.out"], ["p"])
    with pytest.warns(TroubleshooterWarning, match="fc2.out: p"):
        write_mapping(pairing, tmp_path / "w.yaml")
