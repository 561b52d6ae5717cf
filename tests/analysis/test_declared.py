"""declared_pairs: the acceptance cases of msprobe's mapping files, sides, what does not fit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests import twins
from tests.analysis import parallel_dumps
from troubleshooter_nb import Dump, compare, open_dump, pair_dumps
from troubleshooter_nb.analysis.declared.pairs import declared_pairs
from troubleshooter_nb.dump import ArrayInMemory, Entry
from troubleshooter_nb.errors import MappingFileError, TroubleshooterWarning
from troubleshooter_nb.formats.pairing_files import read_mapping
from troubleshooter_nb.naming import (
    RowName,
    format_row_name,
    parse_msprobe_call,
    parse_row_name,
    site_of_msprobe,
)
from troubleshooter_nb.pairing import Pairing

DATA = Path(__file__).parents[1] / "data"
MAPS = DATA / "maps"
S = DATA / "msprobe" / "v26_2_0" / "mindspore"
T = DATA / "msprobe" / "v26_2_0" / "torch"
TF = twins.MINDSPORE, twins.TORCH


def dump_of(names, label="d", *, step=0):
    """A dump of rows of msprobe with these names; the array of each has two elements."""
    entries = []
    for order, name in enumerate(names):
        row = parse_row_name(name)
        assert isinstance(row, RowName)
        call = parse_msprobe_call(row.entry)
        site = site_of_msprobe(call, row.section, row.slot)
        assert format_row_name(row) == name
        source = ArrayInMemory(np.zeros(2))
        entries.append(Entry(name, site, source, step=step, order=order, layer=call.layer_name))
    return Dump.from_entries(entries, label=label)


def pairs_of(left, right, matches):
    # Row -1, no partner, is the None at the end.
    sides = [[*left.names, None], [*right.names, None]]
    return [(sides[0][m.left], sides[1][m.right]) for m in matches]


def declared(left, right, text, folder, **options):
    path = folder / "m.yaml"
    path.write_text(text)
    return pairs_of(left, right, declared_pairs(left, right, path, **options))


def paired(matches):
    return [m for m in matches if m.left >= 0 and m.right >= 0]


@pytest.mark.parametrize(
    "file", ["maps_layer_tf.yaml", "maps_layer_tf_oldkey.yaml", "map_layer.yaml"]
)
@pytest.mark.parametrize("swapped", [False, True])
def test_case_52_all_leaves_of_the_twins_pair(file, swapped):
    dumps = [open_dump(TF[0]), open_dump(TF[1])]
    left, right = dumps[::-1] if swapped else dumps
    notes: list[str] = []
    matches = declared_pairs(left, right, MAPS / file, notes=notes)
    assert len(paired(matches)) == len(matches) == 125
    assert notes == []
    assert {(m.method, m.confidence) for m in matches} == {("user", 1.0)}
    assert all(m.note.startswith(file) for m in matches)
    assert all(m.note.endswith("the other way round in the file") == swapped for m in matches)
    values = left.index["value"].values[[m.left for m in matches]]
    assert sorted(set(values)) == ["", "null"]
    assert (values == "null").sum() == 2
    table = compare(left, right, pairing=Pairing.from_matches(left, right, matches)).to_dataframe()
    measured = table[table["cosine"].notna()]
    assert measured["cosine"].min() == pytest.approx(1.0, abs=1e-12)
    assert table["max_abs_error"].max() == pytest.approx(2.98023e-07, rel=1e-5)


def test_a_note_says_which_lines_renamed_a_leaf():
    left, right = open_dump(TF[0]), open_dump(TF[1])
    matches = declared_pairs(left, right, MAPS / "maps_layer_tf.yaml")
    notes = {left.names[m.left]: m.note for m in matches}
    assert notes["Cell.blocks.1.up.Dense.forward.0.input.0"] == "maps_layer_tf.yaml, lines 3, 11"


@pytest.mark.parametrize("file", ["maps_cell.yaml", "maps_cell_str.yaml", "map_cell.yaml"])
def test_case_44_nineteen_rows_and_a_gradient_that_neither_side_has(file):
    left, right = open_dump(S / "m_mlp_L0_tensor"), open_dump(T / "t_mlp_L0_tensor")
    matches = declared_pairs(left, right, MAPS / file)
    assert len(paired(matches)) == 19
    (alone,) = [m for m in matches if m.right < 0]
    assert left.names[alone.left] == "Cell.fc1.Dense.backward.0.output.0"
    assert (alone.method, alone.expected) == ("unmatched", True)
    assert alone.note.startswith("no gradient on either side")


def test_case_44_pairs_the_same_under_a_layer_mapping_without_rows():
    left, right = open_dump(S / "m_mlp_L0_tensor"), open_dump(T / "t_mlp_L0_tensor")
    found = pair_dumps(left, right, mapping=MAPS / "maps_layer_mlp.yaml").to_dataframe()
    bare = pair_dumps(left, right).to_dataframe()
    columns = ["left", "right", "method", "confidence"]
    pairs = [table[table["method"] != "unmatched"][columns] for table in (found, bare)]
    assert len(pairs[0]) == 19
    assert pairs[0].values.tolist() == pairs[1].values.tolist()
    (alone,) = found[found["expected"]].to_dict("records")
    assert alone["left"] == "Cell.fc1.Dense.backward.0.output.0"
    assert alone["note"].startswith("no gradient on either side")


def calls_of(path, count, label):
    names = [
        f"Module.{p}.Linear.forward.{call}.{part}"
        for p, calls in ((path, count), ("head", 1))
        for call in range(calls)
        for part in ("input.0", "output.0")
    ]
    return dump_of(names, label)


@pytest.mark.parametrize("text", ["TopLayer: {}\n", "TopLayer:\n  head: head\n"])
def test_a_layer_mapping_makes_only_what_its_rows_rename_surer(tmp_path, text):
    """One side calls a layer twice: which call belongs to the only one, the file does not say."""
    left, right = calls_of("qkv", 2, "l"), calls_of("qkv", 1, "r")
    (tmp_path / "m.yaml").write_text(text)
    bare = pair_dumps(left, right).to_dataframe()
    found = pair_dumps(left, right, mapping=tmp_path / "m.yaml").to_dataframe()
    by_row = "head" in text
    of_row = found["left"].str.contains("head") & by_row
    assert set(found[of_row]["method"]) == ({"user"} if by_row else set())
    same = ["left", "right", "method", "confidence"]
    rest = [t[~of_row][same].fillna(-1).values.tolist() for t in (found, bare)]
    assert rest[0] == rest[1]
    assert found[~of_row]["method"].isin(["user"]).sum() == 0


def test_a_gradient_that_only_one_side_left_out_is_not_said_to_lack_a_partner(tmp_path):
    """Rows of one name are left to the other matchers, null or not."""
    dump = open_dump(S / "m_mlp_L0_tensor")
    assert declared(dump, dump, "TopLayer: {}\n", tmp_path) == []


def test_case_48_rows_named_one_by_one():
    left, right = open_dump(S / "m_mlp_L1_tensor"), open_dump(T / "t_mlp_L1_tensor")
    matches = declared_pairs(left, right, MAPS / "maps_data.yaml")
    assert len(paired(matches)) == len(matches) == 5
    # A wrong pair on purpose: the bias is missing.
    wrong = "Primitive.matmul.MatMul.0.forward.output.0", "Functional.linear.0.forward.output.0"
    assert wrong in pairs_of(left, right, matches)


def test_the_documented_data_mapping_skips_modules_where_none_were_dumped():
    left, right = open_dump(S / "m_mlp_L1_tensor"), open_dump(T / "t_mlp_L1_tensor")
    notes: list[str] = []
    assert len(declared_pairs(left, right, MAPS / "map_data.yaml", notes=notes)) == 3
    (note,) = notes
    assert note.startswith("map_data.yaml, line 6: 'Cell.fc1.Dense.forward.0.input.0' not used")
    assert note.endswith("has no modules")


def test_case_49_operators_by_position_and_primitives_without_their_class():
    left, right = open_dump(S / "m_mlp_L1_tensor"), open_dump(T / "t_mlp_L1_tensor")
    matches = declared_pairs(left, right, MAPS / "maps_api_list_output.yaml")
    rows = [
        *("forward.input.0", "forward.output.0", "backward.input.0", "backward.output.0"),
    ]
    found = pairs_of(left, right, paired(matches))
    relu = [(f"Primitive.relu.ReLU.0.{row}", f"Functional.relu.0.{row}") for row in rows]
    loss = [(f"Functional.cross_entropy.0.{row}",) * 2 for row in [*rows, "forward.input.1"]]
    assert set(found) == {*relu, *loss}
    assert len(found) == 9
    gradients = [m for m in matches if "backward" in left.names[m.left] and m.right >= 0]
    assert all("need not be defined alike" in m.note for m in gradients)


@pytest.mark.parametrize("file", ["maps_api_dict.yaml", "maps_api_list.yaml", "map_api.yaml"])
def test_case_50_plural_keys_say_the_same_of_cross_entropy(file):
    left, right = open_dump(S / "m_mlp_L1_tensor"), open_dump(T / "t_mlp_L1_tensor")
    full = declared_pairs(left, right, MAPS / "maps_api_list_output.yaml")
    wanted = [p for p in pairs_of(left, right, full) if "cross_entropy" in p[0]]
    matches = declared_pairs(left, right, MAPS / file)
    assert pairs_of(left, right, matches) == wanted


@pytest.mark.parametrize(
    "name", ["Primitive.matmul", "Primitive.MatMul", "Primitive.matmul.MatMul"]
)
def test_a_primitive_has_three_names(tmp_path, name):
    left, right = open_dump(S / "m_mlp_L1_tensor"), open_dump(T / "t_mlp_L1_tensor")
    text = f"""
- ms_api: {name}
  pt_api: Functional.linear
  ms_args: [0, 1]
  pt_args: [0, 1]
  ms_output: []
  pt_output: []
- {{ms_api: Primitive.BiasAdd, pt_api: Functional.linear,
   ms_args: [1], pt_args: [2], ms_output: [0], pt_output: [0]}}
"""
    found = declared(left, right, text, tmp_path)
    for n in (0, 1):
        linear = f"Functional.linear.{n}.forward"
        matmul, add = (
            f"Primitive.matmul.MatMul.{n}.forward",
            f"Primitive.bias_add.BiasAdd.{n}.forward",
        )
        assert (f"{matmul}.input.1", f"{linear}.input.1") in found
        assert (f"{add}.input.1", f"{linear}.input.2") in found
        assert (f"{add}.output.0", f"{linear}.output.0") in found
    # The weight's gradient stands elsewhere in torch's dump, and transposed: left to others.
    gradients = [a for a, _ in found if "MatMul" in a and "backward.output" in a]
    assert gradients == ["Primitive.matmul.MatMul.1.backward.output.1"]


def test_operators_of_one_class_take_turns(tmp_path):
    left = dump_of(
        [f"Primitive.{name}.ReLU.0.forward.input.0" for name in ("act1", "act2", "act3")]
    )
    right = dump_of([f"Functional.relu.{n}.forward.input.0" for n in (0, 1)])
    found = declared(left, right, "{ms_api: Primitive.ReLU, pt_api: Functional.relu}", tmp_path)
    assert found == [
        ("Primitive.act1.ReLU.0.forward.input.0", "Functional.relu.0.forward.input.0"),
        ("Primitive.act2.ReLU.0.forward.input.0", "Functional.relu.1.forward.input.0"),
    ]


def test_nested_arguments_follow_their_position(tmp_path):
    left = dump_of([f"Mint.cat.0.forward.input.{k}" for k in ("0", "1.0", "1.1")])
    right = dump_of([f"Torch.cat.0.forward.input.{k}" for k in ("0.0", "0.1", "1")])
    text = "{ms_api: Mint.cat, pt_api: Torch.cat, ms_args: [0, 1], pt_args: [1, 0]}"
    assert [(a[-3:], b[-3:]) for a, b in declared(left, right, text, tmp_path)] == [
        ("t.0", "t.1"),
        ("1.0", "0.0"),
        ("1.1", "0.1"),
    ]


def test_parameters_are_matched_in_torchs_spelling(tmp_path):
    front, behind = "Cell.bn.BatchNorm2d.", "Module.norm.BatchNorm2d."
    mine = ["gamma", "beta", "moving_mean", "moving_variance"]
    theirs = ["weight", "bias", "running_mean", "running_var"]
    left, right = (
        dump_of(
            [f"{name}forward.0.parameters.{p}" for p in leaves]
            + [f"{name}parameters_grad.0.{p}" for p in leaves[:2]]
        )
        for name, leaves in ((front, mine), (behind, theirs))
    )
    found = declared(left, right, "TopLayer:\n  bn: norm\n", tmp_path)
    assert [(a.rpartition(".")[2], b.rpartition(".")[2]) for a, b in found] == [
        *zip(mine, theirs, strict=True),
        *zip(mine[:2], theirs[:2], strict=True),
    ]


def test_containers_renumber_their_parts(tmp_path):
    left = dump_of([f"Cell.layers.{n}.fc.Dense.forward.0.input.0" for n in (5, 6)])
    right = dump_of([f"Module.layers.{n}.fc.Linear.forward.0.input.0" for n in (0, 1)])
    found = declared(left, right, "layers:\n  '5': '0'\n  6: 1\n", tmp_path)
    assert found == list(zip(left.names, right.names, strict=True))


def test_a_dotted_key_is_renamed_as_a_whole(tmp_path):
    left = dump_of(["Cell.net.model.body.fc.Dense.forward.0.input.0"])
    right = dump_of(["Module.module.fc.Linear.forward.0.input.0"])
    found = declared(left, right, "TopLayer:\n  net.model.body: module\n", tmp_path)
    assert found == [(left.names[0], right.names[0])]


def test_every_step_and_rank_that_both_have_is_paired(tmp_path):
    left, right = open_dump(S / "m_mlp_L0_tensor"), open_dump(S / "m_mlp_L0_tensor")
    name = "Cell.fc1.Dense.forward.0.input.0"
    assert declared(left, right, f"{name}: {name}.npy\n", tmp_path) == [(name, name)] * 2


def test_rows_may_have_the_spelling_of_another_release_or_a_suffix(tmp_path):
    left = dump_of(
        ["Cell.fc.Dense.parameters_grad.0.weight", "Functional.add.0.forward.input.other"]
    )
    right = dump_of(["Module.fc.Linear.parameters_grad.weight", "Torch.add.0.forward.kwargs.other"])
    text = (
        "Cell.fc.Dense.parameters_grad.weight: Module.fc.Linear.parameters_grad.0.weight\n"
        "Functional.add.0.forward.kwargs.other.npy: Torch.add.0.forward.input.other.pt\n"
    )
    assert len(declared(left, right, text, tmp_path)) == 2


def test_the_peers_own_mapping_is_taken_at_its_word():
    left, right = open_dump(TF[0]), open_dump(TF[1])
    matches = declared_pairs(left, right, MAPS / "data_mapping_20261127211307.yaml")
    assert len(paired(matches)) == 86
    assert sum(m.expected for m in matches) == 39


def test_the_earlier_of_two_files_wins(tmp_path):
    left, right = open_dump(S / "m_mlp_L1_tensor"), open_dump(T / "t_mlp_L1_tensor")
    files = [MAPS / "maps_data.yaml", read_mapping(MAPS / "maps_api_list_output.yaml")]
    matches = declared_pairs(left, right, files)
    assert len(paired(matches)) == 5 + 5
    notes = {left.names[m.left]: m.note for m in matches}
    assert notes["Primitive.relu.ReLU.0.forward.input.0"] == "maps_data.yaml, line 1"


MLP = S / "m_mlp_L0_tensor", T / "t_mlp_L0_tensor"
OPS = S / "m_mlp_L1_tensor", T / "t_mlp_L1_tensor"
LOSS = "ms_api: Functional.cross_entropy\npt_api: Functional.cross_entropy\n"


@pytest.mark.parametrize(
    ("dumps", "text", "line", "key", "says"),
    [
        (OPS, "ms_api: Functional.reluu\npt_api: Functional.relu\n", 1, "ms_api", "no operator"),
        (OPS, "ms_api: Primitive.relu\npt_api: Functional.rel\n", 2, "pt_api", "'Functional.relu'"),
        (OPS, LOSS + "ms_args: [0, 2]\npt_args: [0, 1]\n", 3, "ms_args", "2 is out of range"),
        (OPS, LOSS + "ms_output: [0]\npt_output: [1]\n", 4, "pt_output", "outputs 0 to 0"),
        (MLP, LOSS, 1, "", "about operators"),
        (OPS, "fc1.Dense: fc1.Linear\n", 1, "", "about modules"),
        (MLP, "fc3.Dense: fc1.Linear\n", 1, "fc3.Dense", "closest: 'fc"),
        (MLP, "fc1.Dense: fc1.Linea\n", 1, "fc1.Dense", "closest: 'fc1.Linear'"),
        (MLP, "Dense: Conv\n", 1, "Dense", "is called 'fc1.Conv'"),
        (TF, "Cell:\n  blocks: layer\n", 2, "blocks", "closest: 'layers'"),
        (TF, "Cell:\n  block: layer\n", 2, "block", "below Cell; closest: 'blocks'"),
        (TF, "DecodrCell:\n  up: fc1\n", 1, "DecodrCell", "'DecoderCell'"),
        (MLP, "Cell.fc1.Dense.forward.0.input.1: x\n", 1, "Cell.fc1.Dense.f", "closest"),
        (MLP, "N/A: [Module.fc1.Linear.forward.0.input.7]\n", 1, "N/A", "no row"),
        (
            OPS,
            "- {ms_api: Primitive.relu, pt_api: Functional.relu, ms_output: [0], pt_output: [0]}\n"
            "- {ms_api: Primitive.ReLU, pt_api: Functional.relu, ms_output: [0], pt_output: [0]}\n",
            *(2, "ms_output", "has a partner already .m.yaml, line 1"),
        ),
    ],
)
def test_what_does_not_fit_the_dumps_is_named_with_file_line_and_key(
    tmp_path, dumps, text, line, key, says
):
    left, right = map(open_dump, dumps)
    with pytest.raises(MappingFileError, match=says) as error:
        declared(left, right, text, tmp_path)
    message = str(error.value)
    assert message.startswith(f"m.yaml, line {line}")
    assert key in message


def test_a_rename_that_meets_no_module_is_noted(tmp_path):
    left, right = map(open_dump, TF)
    notes: list[str] = []
    text = "TopLayer:\n  blocks: layers\nDecoderCell:\n  lm_head: up\n"
    declared(left, right, text, tmp_path, notes=notes)
    (note,) = notes
    assert note.startswith("m.yaml, line 4, 'lm_head': no module of left ")


def test_unknown_names_can_be_skipped_as_the_peer_does(tmp_path):
    left, right = map(open_dump, MLP)
    notes: list[str] = []
    text = "fc3.Dense: fc3.Linear\nDense: Linear\n"
    found = declared(left, right, text, tmp_path, unknown="skip", notes=notes)
    assert len(found) == 20
    assert notes[0].startswith("m.yaml, line 1, 'fc3.Dense': no cell of left")


def test_two_layers_that_become_one_are_refused(tmp_path):
    left = dump_of([f"Cell.a.{n}.Dense.forward.0.input.0" for n in ("up", "gate")])
    right = dump_of(["Module.a.fc.Linear.forward.0.input.0"])
    text = "TopLayer:\n  a.up: a.fc\na:\n  gate: fc\n"
    with pytest.raises(MappingFileError, match="keep one of the two"):
        declared(left, right, text, tmp_path)


def test_many_rows_take_linear_time(tmp_path):
    names = [f"Cell.l.{n}.fc.Dense.forward.0.input.{k}" for n in range(500) for k in range(10)]
    left = dump_of(names)
    right = dump_of([n.replace("Cell.l", "Module.m").replace("Dense", "Linear") for n in names])
    assert len(declared(left, right, "Cell:\n  l: m\n", tmp_path)) == 5000
    text = "".join(f"{a}: {b}\n" for a, b in zip(left.names, right.names, strict=True))
    assert len(declared(left, right, text, tmp_path)) == 5000


def test_a_row_that_meets_nothing_is_a_warning_of_pair_dumps(tmp_path):
    text = (MAPS / "maps_layer_tf.yaml").read_text()
    file = tmp_path / "typo.yaml"
    file.write_text(text.replace("input_norm: ln1", "input_norms: ln1"))
    said = r"line \d+, 'input_norms': .*closest: 'input_norm'.*not used"
    with pytest.warns(TroubleshooterWarning, match=said):
        pair_dumps(*TF, mapping=file)
    # An attribute that is there, but elsewhere.
    file.write_text("TopLayer:\n  blocks: layers\nDecoderCell:\n  lm_head: up\n")
    with pytest.warns(
        TroubleshooterWarning, match=r"typo.yaml, line 4, 'lm_head': no module.*not used"
    ):
        pair_dumps(*TF, mapping=file)


@pytest.mark.parametrize("swapped", [False, True])
def test_an_unknown_attribute_is_named_on_either_side(tmp_path, swapped):
    dumps = [open_dump(TF[0]), open_dump(TF[1])]
    for text in ("Cell:\n  nix: emb\n", "Cell:\n  word_emb: nix\n"):
        with pytest.raises(MappingFileError, match=r"m.yaml, line 2, .*is called"):
            declared(*(dumps[::-1] if swapped else dumps), text, tmp_path)


def test_a_data_mapping_of_which_nothing_applies_is_an_error():
    dumps = open_dump(TF[0]), open_dump(TF[1])
    said = r"line 1: 0 of 5 rows used \('Primitive.relu.ReLU.0.forward.input.0' not used"
    with pytest.raises(MappingFileError, match=said):
        declared_pairs(*dumps, MAPS / "maps_data.yaml")
    notes: list[str] = []
    assert declared_pairs(*dumps, MAPS / "maps_data.yaml", unknown="skip", notes=notes) == []
    assert "0 of 5 rows used" in notes[-1]


def test_a_cell_with_a_letter_missing_is_named_as_it_was_written(tmp_path):
    """As a part of ``fc1.Dense`` it would give ``fc1.Lineare``, which nobody wrote."""
    dumps = [open_dump(S / "m_mlp_L0_tensor"), open_dump(T / "t_mlp_L0_tensor")]
    said = r"line 1, 'fc1\.Dens': no cell of left .* has this name.*; closest: 'fc1\.Dense'"
    with pytest.raises(MappingFileError, match=said):
        declared(*dumps, "fc1.Dens: fc1.Linear\n", tmp_path)
    said = r"'fc1\.Dense': no module of right .* is called 'fc1\.Lin'; closest: 'fc1\.Linear'"
    with pytest.raises(MappingFileError, match=said):
        declared(*dumps, "fc1.Dense: fc1.Lin\n", tmp_path)


# A layer mapping names operators, too.


@pytest.fixture
def parallel(tmp_path):
    """A parallel transformer of 44 and 32 rows, and a mapping of six rules that meet something."""
    sides = [tmp_path / name / "step0" / "rank0" for name in ("mindspore", "torch")]
    for folder, framework in zip(sides, ("mindspore", "torch"), strict=True):
        parallel_dumps.write(folder, framework)
    file = tmp_path / "layers.yaml"
    file.write_text(parallel_dumps.MAPPING)
    dumps = [open_dump(folder) for folder in sides]
    assert [len(dump) for dump in dumps] == [44, 32]
    return *dumps, file


def same_values(left, right, pairing):
    """Whether the two sides of every pair hold the same values, which each role has its own of."""
    table = pairing.to_dataframe()
    pairs = table[table["method"] != "unmatched"]
    for one, other in zip(pairs["left"], pairs["right"], strict=True):
        sources = [
            dump.sources[dump.position(name)] for dump, name in ((left, one), (right, other))
        ]
        if None in sources:
            assert one.endswith("all_reduce.0.forward.input.1")  # the group
            assert other.endswith("all_reduce.0.forward.input.1")
        else:
            assert (left.array(one) == right.array(other)).all(), (one, other)
    return len(pairs)


@pytest.mark.filterwarnings("ignore::troubleshooter_nb.TroubleshooterWarning")
def test_a_layer_mapping_pairs_operators_by_their_rules(parallel):
    left, right, file = parallel
    found = pair_dumps(left, right, mapping=file)
    assert same_values(left, right, found) == 32
    table = found.to_dataframe()
    users = table[table["method"] == "user"]
    assert len(users) == 32
    notes = dict(zip(users["left"], users["note"], strict=True))
    line = 1 + parallel_dumps.MAPPING.splitlines().index(
        "  flash_attention_score: npu_fusion_attention"
    )
    assert f", {line}" in notes["Functional.flash_attention_score.0.forward.output.0"]
    # A value that is no tensor is paired with its call.
    assert "Functional.all_reduce.0.forward.input.1" in notes


def test_without_the_mapping_most_is_paired_and_nothing_wrongly(parallel):
    left, right, _ = parallel
    assert same_values(left, right, pair_dumps(left, right)) >= 24


@pytest.mark.filterwarnings("ignore::troubleshooter_nb.TroubleshooterWarning")
def test_a_mapping_may_be_read_the_other_way_round(parallel):
    left, right, file = parallel
    assert same_values(right, left, pair_dumps(right, left, mapping=file)) == 32


def test_a_rule_of_another_part_of_the_network_is_a_note(parallel):
    left, right, file = parallel
    notes: list[str] = []
    declared_pairs(left, right, file, notes=notes)
    assert len(notes) == 2
    assert notes[0].startswith("layers.yaml, line 3, 'PipelineCell': neither dump has a layer")
    assert all(note.endswith("(not used)") for note in notes)


def test_the_calls_of_an_operator_meet_in_their_order(tmp_path):
    """Also of several steps, backward by the numbers that forward has."""

    def calls(prefix, op, count):
        inside = f"{prefix}.net.Block.forward.0"
        data, parents = {}, {inside: None}
        for number in range(count):
            name = f"{op}.{number}"
            parents[f"{name}.forward"] = parents[f"{name}.backward"] = inside
            data[f"{name}.forward"] = {"input_args": [leaf(number)], "output": [leaf(number)]}
        for number in reversed(range(count)):
            data[f"{op}.{number}.backward"] = {"input": [leaf(number)], "output": [leaf(number)]}
        data[inside] = {"input_args": [leaf(9)], "output": [leaf(9)]}
        return data, parents

    def leaf(number):
        return {"type": "t", "dtype": "float32", "shape": [2], "Max": number, "Min": number}

    dumps = []
    for name, parts in (
        ("left", ("Cell", "Functional.mine", 3)),
        ("right", ("Module", "Torch.theirs", 2)),
    ):
        for step in (0, 1):
            folder = tmp_path / name / f"step{step}" / "rank0"
            folder.mkdir(parents=True)
            data, parents = calls(*parts)
            header = {"task": "statistics", "level": "mix", "framework": "pytorch"}
            (folder / "dump.json").write_text(json.dumps({**header, "data": data}))
            (folder / "construct.json").write_text(json.dumps(parents))
        dumps.append(open_dump(tmp_path / name))
    named = declared(*dumps, "Block:\n  mine: theirs\n", tmp_path)
    for number in (0, 1):
        for end in ("forward.input.0", "backward.output.0"):
            assert (f"Functional.mine.{number}.{end}", f"Torch.theirs.{number}.{end}") in named
    assert not any(name.startswith("Functional.mine.2") for name, _ in named)
    assert len(named) == 2 * 2 * 4


def test_the_group_of_processes_is_no_difference(parallel):
    left, right, file = parallel
    with pytest.warns(TroubleshooterWarning, match="not used"):
        found = compare(left, right, mapping=file)
    group = found.result["reason_id"].values == "groups_of_processes"
    assert found.result["verdict"].values[group].tolist() == ["undecidable"]
    # What only one side has is one, and nothing else.
    assert str(found.first_divergence.row["verdict"].values) == "missing"
    assert all(check.status != "bad" for check in found.preflight)


def test_rules_of_which_none_meets_anything_are_an_error(parallel, tmp_path):
    left, right, _ = parallel
    file = tmp_path / "none.yaml"
    # Without the rules of the modules around it no module has a partner.
    file.write_text("VocabParallelEmbedding:\n  logical_or: __or__\n")
    with pytest.raises(MappingFileError, match="'logical_or': no module of left"):
        compare(left, right, mapping=file)


def inside_of_one_module(folder, prefix, calls):
    """A dump of statistics of a module and of the operators that run in it."""
    around = f"{prefix}.net.Block.forward.0"
    leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2]}
    data, parents = {}, {around: None}
    for value, call in enumerate([*calls, around]):
        figures = dict.fromkeys(("Max", "Min", "Mean", "Norm"), float(value))
        data[call] = {"input_args": [], "input_kwargs": {}, "output": [leaf | figures]}
        parents.setdefault(call, around)
    place = folder / "step0" / "rank0"
    place.mkdir(parents=True)
    facts = {"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None}
    (place / "dump.json").write_text(json.dumps(facts | {"data": data}))
    (place / "construct.json").write_text(json.dumps(parents))
    return open_dump(place)


def test_several_operators_may_be_one_of_the_other_side(tmp_path):
    left = inside_of_one_module(
        tmp_path / "left",
        "Cell",
        ["Functional.mul.0.forward", "Functional.Mul.0.forward", "Functional.mul.1.forward"],
    )
    right = inside_of_one_module(
        tmp_path / "right", "Module", [f"Tensor.__mul__.{n}.forward" for n in range(3)]
    )
    found = declared(left, right, "Block:\n  mul: __mul__\n  Mul: __mul__\n", tmp_path)
    assert found[:3] == [
        ("Functional.mul.0.forward.output.0", "Tensor.__mul__.0.forward.output.0"),
        ("Functional.Mul.0.forward.output.0", "Tensor.__mul__.1.forward.output.0"),
        ("Functional.mul.1.forward.output.0", "Tensor.__mul__.2.forward.output.0"),
    ]


def test_operators_that_are_called_unequally_often_are_a_note(tmp_path):
    left = inside_of_one_module(
        tmp_path / "left", "Cell", [f"Functional.mine.{n}.forward" for n in range(2)]
    )
    right = inside_of_one_module(
        tmp_path / "right", "Module", [f"Torch.theirs.{n}.forward" for n in range(3)]
    )
    notes: list[str] = []
    declared(left, right, "Block:\n  mine: theirs\n", tmp_path, notes=notes)
    (note,) = notes
    assert note.startswith("m.yaml, line 2, 'mine': 2 calls in left 'rank0' against 3 in right")
