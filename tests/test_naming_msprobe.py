"""Names of msprobe's dumps: what each part means, and that nothing is lost on the way back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twins import MINDSPORE, TORCH
from troubleshooter_nb.naming import (
    MsprobeCall,
    RowName,
    Site,
    format_msprobe_call,
    format_row_name,
    forward_of,
    model_numbers,
    parse_msprobe_call,
    parse_row_name,
    site_of_msprobe,
    without_model,
)

DATA = Path(__file__).parent / "data" / "msprobe"
FOLDERS = DATA, MINDSPORE, TORCH
JSONS = [json.loads(file.read_bytes()) for folder in FOLDERS for file in folder.rglob("d*.json")]
NAMES = sorted({name for document in JSONS for name in document["data"]})
FILES = sorted({file.stem for folder in FOLDERS for file in folder.rglob("dump_tensor_data/*")})


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("Functional.linear.0.forward", MsprobeCall("Functional", "linear", "", "forward", 0)),
        ("Tensor.__add__.3.backward", MsprobeCall("Tensor", "__add__", "", "backward", 3)),
        (
            "Primitive.matmul.MatMul.0.forward",
            MsprobeCall("Primitive", "matmul", "MatMul", "forward", 0),
        ),
        (
            "Module.layers.0.ln1.LayerNorm.forward.12",
            MsprobeCall("Module", "layers.0.ln1", "LayerNorm", "forward", 12),
        ),
        ("Module.0.Linear.forward.0", MsprobeCall("Module", "0", "Linear", "forward", 0)),
        ("Module.MLP.forward.0", MsprobeCall("Module", "", "MLP", "forward", 0)),
        (
            "Module.fc1.Linear.parameters_grad",
            MsprobeCall("Module", "fc1", "Linear", "parameters_grad", None),
        ),
        (
            "Cell.fc1.Dense.parameters_grad.0",
            MsprobeCall("Cell", "fc1", "Dense", "parameters_grad", 0),
        ),
        ("h_grad.1.debug", MsprobeCall("", "h_grad", "", "debug", 1)),
        ("a.b.1.debug", MsprobeCall("", "a.b", "", "debug", 1)),
    ],
)
def test_an_entry_name_is_split_into_its_parts_and_back(name, call):
    assert parse_msprobe_call(name) == call
    assert format_msprobe_call(call) == name


@pytest.mark.parametrize(
    "name", ["", "x", "Functional.linear.forward", "Module.forward.0", "a.01.debug"]
)
def test_a_name_of_no_known_form_is_none(name):
    assert parse_msprobe_call(name) is None


def test_all_names_of_the_fixtures_come_back_as_they_were():
    assert len(NAMES) > 100
    for name in NAMES:
        assert format_msprobe_call(parse_msprobe_call(name)) == name


def test_all_file_names_of_the_fixtures_split_at_an_entry_of_a_known_form():
    assert len(FILES) > 200
    for name in FILES:
        row = parse_row_name(name)
        assert parse_msprobe_call(row.entry) is not None
        assert format_row_name(row) == name


parts = st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True)
paths = st.lists(parts | st.integers(0, 20).map(str), min_size=1, max_size=4).map(".".join)
numbers = st.integers(0, 10**18 - 1)
calls = st.one_of(
    st.builds(
        MsprobeCall,
        st.sampled_from(["Module", "Cell"]),
        paths,
        parts.map(str.title),
        st.sampled_from(["forward", "backward"]),
        numbers,
    ),
    st.builds(
        MsprobeCall,
        st.sampled_from(["Functional", "Torch", "Mint", "Aten"]),
        parts,
        st.just(""),
        st.sampled_from(["forward", "backward"]),
        numbers,
    ),
    st.builds(
        MsprobeCall,
        st.just("Module"),
        paths,
        parts.map(str.title),
        st.just("parameters_grad"),
        st.none() | numbers,
    ),
    st.builds(MsprobeCall, st.just(""), paths, st.just(""), st.just("debug"), numbers),
)


@given(call=calls)
def test_parsing_undoes_formatting(call):
    assert parse_msprobe_call(format_msprobe_call(call)) == call


@given(call=calls, slot=paths, section=st.sampled_from(["input", "output", "kwargs"]))
def test_the_row_of_a_tensor_is_split_where_it_was_joined(call, slot, section):
    section = "" if call.event in ("debug", "parameters_grad") else section
    # A release that does not count writes no number, and then a slot must not look like one.
    slot = f"k{slot}" if call.call is None else slot
    row = RowName(format_msprobe_call(call), section, slot)
    assert parse_row_name(format_row_name(row)) == row


@pytest.mark.parametrize(
    ("name", "site"),
    [
        (
            "Module.fc1.Linear.forward.0.input.0",
            Site("module", "fc1", 0, "forward", "input", "0"),
        ),
        (
            "Module.inner.Inner.forward.2.input.1.1.k",
            Site("module", "inner", 2, "forward", "input", "1.1.k"),
        ),
        (
            "Cell.fc1.Dense.forward.0.parameters.weight",
            Site("module", "fc1", 0, "forward", "parameter", "weight"),
        ),
        (
            "Module.fc1.Linear.backward.0.output.0",
            Site("module", "fc1", 0, "backward", "output", "0"),
        ),
        (
            "Module.fc1.Linear.parameters_grad.weight",
            Site("module", "fc1", 0, "backward", "parameter", "weight"),
        ),
        (
            "Module.fc1.Linear.parameters_grad.0.weight",
            Site("module", "fc1", 0, "backward", "parameter", "weight"),
        ),
        (
            "Torch.matmul.1.forward.kwargs.other",
            Site("api", "Torch.matmul", 1, "forward", "input", "other"),
        ),
        (
            "Primitive.matmul.MatMul.0.forward.output.0",
            Site("api", "Primitive.matmul", 0, "forward", "output", "0"),
        ),
        ("bag.0.debug.nested.1.k", Site("debug", "bag", 0, slot="nested.1.k")),
        ("h.1.debug", Site("debug", "h", 1)),
        ("h_grad.1.debug", Site("debug", "h", 1, "backward", "gradient")),
    ],
)
def test_a_row_name_says_where_the_tensor_was_seen(name, site):
    row = parse_row_name(name)
    assert site_of_msprobe(parse_msprobe_call(row.entry), row.section, row.slot) == site


def test_the_forward_of_a_parameter_gradient_is_the_first_call():
    for name in ("Module.a.Linear.parameters_grad", "Module.a.Linear.parameters_grad.0"):
        forward = forward_of(parse_msprobe_call(name))
        assert format_msprobe_call(forward) == "Module.a.Linear.forward.0"


@pytest.mark.parametrize(
    ("paths", "models"),
    [
        (["0.fc1", "0.act"], [0]),
        (["0.fc1", "1.fc1"], [0, 1]),
        (["0", "1"], []),  # a Sequential of layers
        (["0.fc", "0"], []),  # a Sequential of blocks
        (["0.0", "0.1"], [0]),  # a list of one Sequential
        (["fc1", "0.act"], []),
        ([], []),
    ],
)
def test_a_number_in_front_of_all_paths_is_a_model_unless_it_stands_alone(paths, models):
    assert model_numbers(paths) == models


def test_the_number_of_a_model_is_taken_out_of_paths_of_modules_only():
    assert without_model(Site("module", "0.layers.1")).path == "layers.1"
    assert without_model(Site("api", "Torch.add")).path == "Torch.add"
