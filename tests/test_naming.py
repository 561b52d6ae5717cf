"""Entry names: three generations of file names, natural order, parameters in two spellings."""

from __future__ import annotations

import csv
import re
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from troubleshooter_nb.metrics.floats import dtype_from_token
from troubleshooter_nb.naming import (
    BUFFER_LEAVES,
    DTYPE_TOKENS,
    NpyName,
    Site,
    canonical_parameter,
    format_npy_name,
    gradients,
    likely_parameter,
    natural_key,
    parameter_leaf,
    parameters,
    parse_npy_name,
    place_text,
    says_gradient,
    site_of_npy_stem,
    without_position,
)

pytestmark = pytest.mark.once

DATA = Path(__file__).parent / "data"
FIXTURES = DATA / "troubleshooter"


@pytest.mark.parametrize(
    ("name", "number", "stem", "dtype"),
    [
        # The three generations of TroubleShooter's names.
        ("0_input.npy", 0, "input", None),
        ("dense_backward_float32_2.npy", 2, "dense_backward", "float32"),
        ("12_pt_d.a.1.1.k_s.npy", 12, "pt_d.a.1.1.k_s", None),
        ("t.k2.1.deep_float32_12.npy", 12, "t.k2.1.deep", "float32"),
        ("msgr_backward_bfloat16_44.npy", 44, "msgr_backward", "bfloat16"),
        # The oldest generation: one id per call, joined to the key by "_".
        ("1_ms_grads_0.npy", 1, "ms_grads_0", None),
        # Without suffix, without number, and what only looks like one of ours.
        ("conv1_float16_3", 3, "conv1", "float16"),
        ("alpha.npy", None, "alpha", None),
        ("x_float32.npy", None, "x_float32", None),
        ("x_float33_3.npy", None, "x_float33_3", None),
        ("3.npy", None, "3", None),
        ("pt_a.npy_float32_3.npy", 3, "pt_a.npy", "float32"),
        ("x_uint8_3.npy", 3, "x", "uint8"),
        ("x_float8_e4m3fn_7.npy", 7, "x", "float8_e4m3fn"),
        # torch writes this for file=None.
        ("_float32_22.npy", 22, "", "float32"),
        # Digits of other scripts are letters of a name.
        ("٣_x.npy", None, "٣_x", None),
        ("x_float32_٣.npy", None, "x_float32_٣", None),
        # A number that fits no int64 is no number of ours.
        (f"{'9' * 19}_x.npy", None, f"{'9' * 19}_x", None),
        (f"x_float32_{'9' * 5000}.npy", None, f"x_float32_{'9' * 5000}", None),
        ("网络.权重_float32_19.npy", 19, "网络.权重", "float32"),
        ("a\nb_int8_1.npy", 1, "a\nb", "int8"),
    ],
)
def test_a_name_is_split_into_number_stem_and_dtype(name, number, stem, dtype):
    assert parse_npy_name(name) == NpyName(stem, number, dtype)


@pytest.mark.parametrize(("folder", "count"), [("nested_save", 18), ("save_edge", 89)])
def test_every_name_the_peer_wrote_parses(folder, count):
    files = sorted((FIXTURES / "master_1.0.19" / folder).rglob("*.npy"))
    assert len(files) == count
    for file in files:
        parsed = parse_npy_name(file.name)
        assert parsed.number is not None
        assert parsed.dtype in DTYPE_TOKENS
        assert format_npy_name(parsed) == file.name.removesuffix(".npy")


def test_the_dtype_token_is_the_dtype_of_the_array_but_for_bfloat16():
    said = []
    for folder in ("nested_save", "save_edge"):
        for file in (FIXTURES / "master_1.0.19" / folder).rglob("*.npy"):
            said.append((parse_npy_name(file.name).dtype, np.load(file).dtype.name))
    assert len(said) == 107
    assert sum(token == dtype for token, dtype in said) == 104
    assert [pair for pair in said if pair[0] != pair[1]] == [("bfloat16", "float32")] * 3


STEMS = st.text(max_size=20)
NUMBERS = st.integers(0, 10**18 - 1)


@given(stem=STEMS, number=NUMBERS, dtype=st.sampled_from(DTYPE_TOKENS))
def test_a_numbered_name_with_dtype_survives_the_round_trip(stem, number, dtype):
    name = NpyName(stem, number, dtype)
    assert parse_npy_name(format_npy_name(name)) == name


def looks_numbered(stem):
    return parse_npy_name(stem) != NpyName(stem)


@given(stem=STEMS.filter(lambda stem: stem and not looks_numbered(stem)), number=NUMBERS)
def test_a_numbered_name_without_dtype_survives_the_round_trip(stem, number):
    assert parse_npy_name(format_npy_name(NpyName(stem, number))) == NpyName(stem, number)


@given(stem=STEMS)
def test_a_bare_stem_survives_the_round_trip_unless_it_looks_numbered(stem):
    if not looks_numbered(stem):
        assert parse_npy_name(format_npy_name(NpyName(stem))) == NpyName(stem)
    # Parsing again changes nothing more: what was read is what would be written.
    parsed = parse_npy_name(stem)
    if parsed.dtype is not None:
        assert parse_npy_name(format_npy_name(parsed)) == parsed


def test_the_tokens_of_ours_are_dtypes_where_the_installed_libraries_have_them():
    assert len(set(DTYPE_TOKENS)) == len(DTYPE_TOKENS)
    for token in DTYPE_TOKENS[:15]:  # the peer's
        assert dtype_from_token(token).name == token


@pytest.mark.parametrize(
    "names",
    [
        ["x_2", "x_10"],
        ["a1b2", "a1b10", "a2b1"],
        ["x", "x.0", "x.1", "x.10"],
        ["2", "10", "a"],  # numbers come before letters
        [f"x_{'1' * 4999}", f"x_{'9' * 5000}"],  # more digits than int() takes
    ],
)
def test_natural_order(names):
    assert sorted(reversed(names), key=natural_key) == names


def test_leading_zeros_do_not_change_the_natural_order():
    assert natural_key("x_007") == natural_key("x_7")
    assert natural_key("x_0") == natural_key("x_000")


@given(st.lists(st.text(max_size=8), max_size=6))
def test_natural_keys_of_any_names_can_be_compared(names):
    assert sorted(names, key=natural_key) is not None


def layer_rows(*, verified="yes"):
    """(torch name, MindSpore name, transform) of the layers that were tried out."""
    with open(DATA / "layer_parameters.csv", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["verified"] == verified and row["torch_param"] and row["ms_param"]:
                yield row["torch_param"], row["ms_param"], row["transform"]


def test_mindspore_names_of_tried_layers_mean_the_torch_name():
    rows = [row for row in layer_rows() if row[2] not in ("container", "per_layer")]
    assert len(rows) > 150
    # Spellings that users give to cells of their own as well: only `likely_parameter` takes them.
    ambiguous = {
        (torch, mindspore)
        for torch, mindspore, _ in rows
        if canonical_parameter(f"net.{mindspore}") != f"net.{torch}"
    }
    assert {mindspore.split(".")[0] for _, mindspore in ambiguous} == {
        "w",  # PReLU
        "bn2d",  # BatchNorm3d
        "dense1",  # Transformer layers
        "dense2",
    }
    for torch, mindspore, _ in rows:
        assert likely_parameter(f"net.0.{mindspore}") == f"net.0.{torch}"
        assert canonical_parameter(f"net.0.{torch}") == f"net.0.{torch}"


def test_every_parameter_of_a_tried_torch_layer_is_recognised():
    for torch, mindspore, transform in layer_rows():
        if transform not in ("container", "per_layer"):
            assert parameter_leaf(f"net.{torch}") is not None
            assert likely_parameter(f"net.{mindspore}") is not None


@pytest.mark.parametrize(
    ("path", "canonical"),
    [
        ("bn.gamma", "bn.weight"),
        ("bn.beta", "bn.bias"),
        ("bn.moving_mean", "bn.running_mean"),
        ("bn.moving_variance", "bn.running_var"),
        ("tok.embedding_table", "tok.weight"),
        ("gamma", "weight"),  # a layer that is the whole network
        ("grads/gamma", "grads/weight"),
        ("lstm.weight_ih_l1_reverse", "lstm.weight_ih_l1_reverse"),
        ("attn.bias_k", "attn.bias_k"),
        ("fc.weight", "fc.weight"),
        ("fc.weights", None),
        ("gamma.x", None),
        ("act.w", None),  # PReLU's, or a user's own parameter: not certain
        ("", None),
    ],
)
def test_a_parameter_in_torch_spelling(path, canonical):
    assert canonical_parameter(path) == canonical


@pytest.mark.parametrize(
    ("path", "likely"),
    [
        ("act.w", "act.weight"),
        ("w", "weight"),
        ("net.bn.bn2d.gamma", "net.bn.weight"),
        ("bn2d.moving_mean", "running_mean"),
        ("layers.0.dense2.weight", "layers.0.linear2.weight"),
        ("dense12.weight", "dense12.weight"),
        ("glow.x", None),
        ("bn2d.inner.x", None),
    ],
)
def test_a_likely_parameter(path, likely):
    assert likely_parameter(path) == likely


@pytest.mark.parametrize(
    ("stem", "expected"),
    [
        ("fc.weight_0", "fc.weight"),
        ("bn.gamma_12", "bn.gamma"),
        ("act.w_3", "act.w"),
        ("lstm.weight_ih_l0", "lstm.weight_ih_l0"),
        ("lstm.weight_ih_l0_4", "lstm.weight_ih_l0"),
        ("h_3", "h_3"),
        ("ms_grads_0", "ms_grads_0"),
    ],
)
def test_the_position_of_a_parameter_is_taken_off(stem, expected):
    assert without_position(stem) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("torch_grads_dir", True),
        ("ms_grads.0", True),
        ("Gradients", True),
        ("grad", True),
        ("loss-gradient-3", True),
        ("pgrads", True),
        ("weightgrad", True),
        ("fc.wgrad", True),
        ("gradWeight", True),
        ("WGrad", True),
        ("grads_0001", True),
        ("grads/step0", True),
        ("autograd", False),
        ("no_grad", False),
        ("adagrad.state", False),
        ("gradScaler", False),
        ("Gradual", False),
        ("gradual", False),
        ("downgrades", False),
        ("graduate_net", False),
        ("", False),
    ],
)
def test_a_folder_says_gradient(text, says):
    assert says_gradient(text) is says


@pytest.mark.parametrize(
    ("stem", "folder", "site"),
    [
        ("dense", "ts_save", Site("file", "dense")),
        ("dense_backward", "ts_save", Site("file", "dense", 0, "backward", "gradient")),
        ("fc.weight", "ts_save", Site("file", "fc.weight", 0, "", "parameter")),
        ("fc.weight_0", "grads", Site("file", "fc.weight_0", 0, "backward", "parameter")),
        ("fc.weight_backward", "x", Site("file", "fc.weight", 0, "backward", "parameter")),
        ("bn.moving_mean", "ckpt", Site("file", "bn.moving_mean", 0, "", "buffer")),
        ("ms_grads.0", "x", Site("file", "ms_grads.0", 0, "backward", "gradient")),
        ("cls_token", "grads", Site("file", "cls_token", 0, "backward", "gradient")),
        ("grads/fc.bias", "x", Site("file", "grads/fc.bias", 0, "backward", "parameter")),
    ],
)
def test_the_site_of_a_stem(stem, folder, site):
    assert site_of_npy_stem(stem, folder=folder) == site


def test_buffers_are_no_parameters():
    for leaf in BUFFER_LEAVES:
        assert site_of_npy_stem(f"bn.{leaf}").role == "buffer"


@pytest.mark.parametrize(
    ("site", "expected"),
    [
        (Site("debug", "h", 0, "backward", "gradient"), "h (grad)"),
        (Site("debug", "h", 1, "backward", "gradient", "a.0"), "h #1 a.0 (grad)"),
        (Site("debug", "bag", slot="a"), "bag a"),
        (Site("debug", "bag", slot="nested.1.k"), "bag nested.1.k"),
        (Site("api", "Functional.relu", 1, "forward", "input", "0"), "Functional.relu #1 input 0"),
        (Site("module", "fc1", 0, "backward", "parameter", "weight"), "fc1.weight (grad)"),
        (Site("file", "fc.weight", 0, "backward", "gradient"), "fc.weight (grad)"),
    ],
)
def test_a_place_is_said_with_single_spaces_and_a_gradient_once(site, expected):
    assert place_text(*astuple(site)) == expected


PARTS = (
    *("weight", "bias", "gamma", "w", "bn2d", "dense1", "moving_mean", "weight_ih_l0", "fc"),
    *("grad", "Grads", "GRADIENT", "_backward", "_0", "_", ".", "/", "12", "\n", "١", "ſ"),
)
SPELLINGS = st.lists(st.sampled_from(PARTS), max_size=6).map("".join) | st.text(max_size=12)


@given(SPELLINGS)
def test_what_saves_a_pattern_says_what_the_pattern_says(name):
    assert says_gradient(name) == bool(gradients._SAYS_SO.search(name))
    assert gradients.without_gradient_word(name) == gradients._AT_THE_END.sub("", name)
    path = parameters._POSITION.sub("", name)
    assert without_position(name) == (path if likely_parameter(path) else name)
    assert parameters.leaf_of(name) == re.split(r"[./]", name)[-1]
    path = name
    for _, pattern, torch_spelling in parameters._LIKELY:
        path = pattern.sub(torch_spelling, path)
    assert likely_parameter(name) == canonical_parameter(path)
