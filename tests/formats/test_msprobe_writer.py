"""Dumps of calls in the layout of msprobe: what is read back is what was written."""

from __future__ import annotations

import json
import math
import shutil
import warnings
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from troubleshooter_nb import Dump, RunCard, compare, open_dump, save_dump
from troubleshooter_nb.dump import ArrayInMemory, Entry
from troubleshooter_nb.errors import (
    ArgumentError,
    ReadError,
    TroubleshooterWarning,
    UnknownFormatError,
)
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.floats import computable
from troubleshooter_nb.naming import (
    Site,
    format_msprobe_call,
    forward_of,
    parse_msprobe_call,
    parse_row_name,
    site_of_msprobe,
)

DATA = Path(__file__).parents[1] / "data" / "msprobe"
MLP = DATA / "v26_2_0/torch/t_mlp_mix_tensor"
DUMPS = sorted(
    {
        file.parents[2].relative_to(DATA).as_posix()
        for name in ("dump.json", "debug.json")
        for file in DATA.rglob(name)
    }
    - {"v26_2_0/torch/v_structure", "v26_2_0/torch/t_abort_exit"}  # no calls in their json
)
LOST = Message("dumps.not_a_file")
LINEAR = "Module.fc.Linear.forward.0"


def exported(dump, tmp_path, name="out"):
    return save_dump(dump, tmp_path / name, format="msprobe_dir")


def table(dump, *left_out):
    """The entries by step, rank and name, with all that is known of them."""
    frame = dump.to_dataframe().drop(columns=[*left_out])
    return frame.sort_values(["step", "rank", "name"]).reset_index(drop=True)


def same_values(left, right):
    return left.dtype == right.dtype and left.tobytes() == right.tobytes()


def call_dump(*entries, framework="pytorch", **more):
    """A dump of entries by name, each with an array, a source or fields of its own."""
    made = []
    for name, what in entries:
        key = parse_row_name(name)
        call = parse_msprobe_call(key.entry)
        fields = what if isinstance(what, dict) else {"source": ArrayInMemory(np.asarray(what))}
        if what is not None and hasattr(what, "files"):
            fields = {"source": what}
        known = {"layer": call.layer_name} | fields
        made.append(Entry(name, site_of_msprobe(call, key.section, key.slot), **known))
    card = RunCard.from_dict({"framework": framework})
    return Dump.from_entries(made, label="d", card=card, **more)


def document(folder, name="dump.json", place="step0/rank0"):
    return json.loads((folder / place / name).read_text())


def without_gradient_flags(one):
    """What msprobe wrote without `requires_grad`, which no Dump has."""
    if isinstance(one, list):
        return [without_gradient_flags(part) for part in one]
    if isinstance(one, dict):
        return {k: without_gradient_flags(v) for k, v in one.items() if k != "requires_grad"}
    return one


def leaf_of(folder, name=LINEAR):
    return document(folder)["data"][name]["input_args"][0]


# -- laws


@pytest.mark.parametrize("name", DUMPS)
def test_what_msprobe_wrote_is_read_back_the_same(tmp_path, name):
    dump = open_dump(DATA / name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = open_dump(exported(dump, tmp_path))
    assert again.names == dump.names
    table_of_dump = table(dump)
    assert table(again).equals(table_of_dump), table(again).compare(table_of_dump)
    rows = compare(dump, again).to_dataframe()
    with_values = {n for n, s in zip(dump.names, dump.sources, strict=True) if s is not None}
    assert set(rows["verdict"][rows["left"].isin(with_values)]) <= {"identical"}
    # Statistics alone decide little, also of a dump against itself.
    assert rows["verdict"].tolist() == compare(dump, dump).to_dataframe()["verdict"].tolist()


PARTS = st.sampled_from(["0", "1", "2", "07", "k", "type", "dtype", "a b", "é"])
SLOTS = st.lists(PARTS, min_size=1, max_size=3).map(".".join)
TORCH_CALLS = ("Module.fc.Linear", "Module.blocks.1.ln.LayerNorm", "Functional.linear")
MINDSPORE_CALLS = ("Cell.fc.Dense", "Primitive.matmul.MatMul", "Mint.add")
DTYPES = st.sampled_from(
    [np.float32, np.float16, np.float64, ml_dtypes.bfloat16, np.int64, np.bool_, np.complex64]
)
SHAPES = st.sampled_from([(), (1,), (3,), (2, 2), (0, 3)])
VALUES = st.sampled_from(
    [
        *[("NoneType", "null"), ("int", "4"), ("bool", "false"), ("str", '"x"')],
        *[("slice", "[0, 2, null]"), ("torch.memory_format", '"torch.contiguous_format"')],
        *[("ProcessGroup", '{"group_ranks": [0, 1], "group_id": "9"}'), ("float", "NaN")],
    ]
)
STATISTICS = st.sampled_from(
    [
        {"max": 2.0, "min": -1.0, "mean": 0.5, "l2": 2.25, "nan_count": 0, "inf_count": 0},
        {"max": math.nan, "min": math.nan, "mean": math.nan, "l2": math.nan, "nan_count": 1},
        {"max": math.inf, "min": 1.0, "mean": math.inf, "l2": math.inf, "inf_count": 1},
        {"max": 3.0, "min": 1.0},
    ]
)
STACKS = st.sampled_from(
    ["", "File a.py, line 3, in f, \n h = g(x)\nFile b.py, line 1, in g, \n x"]
)


@st.composite
def rows(draw):
    """What an entry holds: a tensor, a value that is none, or statistics."""
    kind = draw(st.sampled_from(["tensor", "tensor", "value", "statistics"]))
    if kind == "value":
        of_type, value = draw(VALUES)
        return {"dtype": of_type, "value": value}
    if kind == "statistics":
        return {"dtype": "float32", "shape": (2, 3), "statistics": draw(STATISTICS)}
    figures = st.lists(st.sampled_from([0, 1, 7, -3, math.inf, -math.inf, math.nan]), min_size=4)
    dtype, shape = np.dtype(draw(DTYPES)), draw(SHAPES)
    numbers = np.array(draw(figures)[:4])
    if dtype.kind in "ib":
        numbers = np.nan_to_num(numbers, nan=0, posinf=5, neginf=-5)
    with np.errstate(all="ignore"):
        array = np.resize(numbers, shape).astype(dtype)
    return {"source": ArrayInMemory(array)}


@st.composite
def dumps(draw):
    """Dumps of calls, of several steps and ranks, as the grammar of msprobe has them."""
    framework = draw(st.sampled_from(["pytorch", "mindspore"]))
    calls = TORCH_CALLS if framework == "pytorch" else MINDSPORE_CALLS
    entries, parents = [], {}
    for step, rank in draw(
        st.lists(
            st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=3, min_size=1, unique=True
        )
    ):
        for prefix in draw(st.lists(st.sampled_from([*calls, "h"]), min_size=1, unique=True)):
            number = draw(st.integers(0, 12))
            is_module = prefix.startswith(("Module", "Cell"))
            parameters = ("parameters",) * is_module
            events = ["forward", "backward", *["parameters_grad"] * is_module]
            for event in ["debug"] if prefix == "h" else events:
                entry = entry_of(prefix, event, number)
                call = parse_msprobe_call(entry)
                forward = format_msprobe_call(forward_of(call))
                parent = parents.setdefault(
                    (step, rank, forward), draw(st.sampled_from(["", "Module.top.Net.forward.0"]))
                )
                stack = draw(STACKS)
                sections = {
                    "forward": ("input", "kwargs", *parameters, "output"),
                    "backward": ("input", "output"),
                }.get(event, ("",))
                for section in sections:
                    for slot in draw(st.lists(SLOTS, max_size=3, unique=True)):
                        name = ".".join(part for part in (entry, section, slot) if part)
                        fields = {"layer": call.layer_name, "parent": parent, "stack": stack}
                        site = site_of_msprobe(call, section, slot)
                        fields |= draw(rows())
                        entries.append(Entry(name, site, step=step, rank=rank, **fields))
    card = RunCard.from_dict({"framework": framework})
    return Dump.from_entries(entries, card=card)


def entry_of(prefix, event, number):
    if event == "debug":
        return f"{prefix}.{number}.debug"
    is_module = prefix.startswith(("Module", "Cell"))
    if event == "parameters_grad" or is_module:
        return f"{prefix}.{event}.{number}"
    return f"{prefix}.{number}.{event}"


@settings(max_examples=40, deadline=None)
@given(dump=dumps().filter(len))
def test_any_dump_of_calls_is_read_back_the_same(tmp_path_factory, dump):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = open_dump(exported(dump, tmp_path_factory.mktemp("law")))
    columns = ["name", "step", "rank", "kind", "path", "call", "direction", "role", "slot"]
    columns += ["shape", "value", "layer", "parent", "stack", "status"]
    assert table(again)[columns].equals(table(dump)[columns])
    is_torch = dump.card.facts["framework"] == "pytorch"
    places = [*zip(*(again.columns[c].tolist() for c in ("step", "rank", "name")), strict=True)]
    for row, source in enumerate(dump.sources):
        at = places.index(tuple(dump.columns[c][row] for c in ("step", "rank", "name")))
        if source is None:
            assert again.sources[at] is None
            assert again.columns["dtype"][at] == dump.columns["dtype"][row]
            for figure in ("max", "min", "mean", "l2"):
                left, right = (d.columns[figure][r] for d, r in ((dump, row), (again, at)))
                # One NaN makes NaN of all four, as in msprobe.
                assert left == right or math.isnan(left)
            continue
        # .npy holds no bfloat16: msprobe widens it there; an empty tensor has no file.
        widened = not is_torch and source.array.size
        expected = computable(source.array) if widened else source.array
        read = again.sources[at].read(0, expected.size)
        assert same_values(read.reshape(expected.shape), expected)


# -- the files, as msprobe has them


def test_the_files_of_a_step_and_rank(tmp_path):
    folder = exported(open_dump(MLP), tmp_path)
    place = folder / "step0/rank0"
    assert sorted(path.name for path in place.iterdir()) == [
        *("construct.json", "dump.json", "dump_tensor_data", "stack.json")
    ]
    content, theirs = document(folder), document(MLP, place="step0/proc1000")
    assert [*content] == ["task", "level", "framework", "dump_data_dir", "data"] == [*theirs]
    assert {key: content[key] for key in ("task", "level", "framework")} == {
        **{"task": "tensor", "level": "mix", "framework": "pytorch"}
    }
    assert content["dump_data_dir"] == str(place / "dump_tensor_data")
    assert content["data"] == without_gradient_flags(theirs["data"])
    stacks, of_peer = (
        document(MLP, "stack.json", p) if p else document(folder, "stack.json")
        for p in ("", "step0/proc1000")
    )
    assert sorted(stacks.values()) == sorted(of_peer.values())
    assert [*stacks] == [*map(str, range(4))]
    parents = document(folder, "construct.json")
    # msprobe also lists calls that it filtered out, and is wrong about some backward parents.
    of_peer = document(MLP, "construct.json", "step0/proc1000")
    forward = [name for name in parents if "forward" in name]
    assert {name: parents[name] for name in forward} == {name: of_peer[name] for name in forward}
    assert parents["Functional.relu.0.backward"] == "Module.act.ReLU.backward.0"


def test_calls_are_in_the_order_in_which_they_ended(tmp_path):
    inner, outer = "Module.net.fc.Linear.forward.0", "Module.net.Net.forward.0"
    names = [f"{outer}.input.0", f"{inner}.input.0", f"{inner}.output.0", f"{outer}.output.0"]
    dump = call_dump(
        *(
            (name, {"dtype": "int", "value": "1", "parent": "" if outer in name else outer})
            for name in names
        )
    )
    folder = exported(dump, tmp_path)
    assert [*document(folder)["data"]] == [inner, outer]
    assert document(folder, "construct.json") == {inner: outer, outer: None}
    assert document(folder)["task"] == "statistics"
    assert document(folder)["dump_data_dir"] is None
    assert not (folder / "step0/rank0/dump_tensor_data").exists()


def test_parents_of_backward_calls_are_backward_calls(tmp_path):
    names = [
        f"{what}.{way}.0.input.0"
        for way in ("forward", "backward")
        for what in ("Module.net.fc.Linear", "Module.net.Net")
    ]
    dump = call_dump(
        *(
            (
                n,
                {
                    "dtype": "int",
                    "value": "1",
                    "parent": "Module.net.Net.forward.0" if ".fc." in n else "",
                },
            )
            for n in names
        )
    )
    assert document(exported(dump, tmp_path), "construct.json") == {
        "Module.net.fc.Linear.forward.0": "Module.net.Net.forward.0",
        "Module.net.Net.forward.0": None,
        "Module.net.fc.Linear.backward.0": "Module.net.Net.backward.0",
        "Module.net.Net.backward.0": None,
    }


@pytest.mark.parametrize(
    ("array", "figures"),
    [
        (np.array([3.0, -4.0], np.float32), (3.0, -4.0, -0.5, 5.0)),
        (np.array([1.0, math.nan, math.inf]), (math.nan,) * 4),
        (np.array([1.0, math.inf]), (math.inf, 1.0, math.inf, math.inf)),
        (np.array([-math.inf, math.inf, 2.0]), (math.inf, -math.inf, math.nan, math.inf)),
        (np.array([-math.inf, -math.inf]), (-math.inf, -math.inf, -math.inf, math.inf)),
        (np.array([3, 4], np.int64), (4, 3, 3.5, 5.0)),
        (np.array([True, False]), (True, False, 0.5, 1.0)),
        (np.array([3 + 4j, 0], np.complex64), (5.0, 0.0, 2.5, 5.0)),
    ],
)
def test_statistics_that_are_not_known_are_found_while_copying(tmp_path, array, figures):
    dump = call_dump((f"{LINEAR}.input.0", array))
    for name, one in {"plain": dump, "summarised": dump.summarise()}.items():
        leaf = leaf_of(exported(one, tmp_path, name))
        found = [leaf[key] for key in ("Max", "Min", "Mean", "Norm")]
        assert type(found[0]) is type(figures[0])
        np.testing.assert_allclose(found, figures, rtol=1e-12)


def test_an_empty_tensor_has_neither_file_nor_statistics(tmp_path):
    folder = exported(call_dump((f"{LINEAR}.input.0", np.empty((0, 3), np.float32))), tmp_path)
    assert leaf_of(folder) == {
        **{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [0, 3]},
        **dict.fromkeys(("Max", "Min", "Mean", "Norm")),
    }
    assert open_dump(folder).array(f"{LINEAR}.input.0").shape == (0, 3)


@pytest.mark.torch
def test_torch_loads_the_files_and_bfloat16_stays(tmp_path):
    torch = pytest.importorskip("torch")
    values = np.array([[1.5, -2.0], [3.0, 0.25]])
    dump = call_dump(
        (f"{LINEAR}.input.0", values.astype(ml_dtypes.bfloat16)), (f"{LINEAR}.output.0", values.T)
    )
    tensors = exported(dump, tmp_path) / "step0/rank0/dump_tensor_data"
    for name, expected in (("input", torch.bfloat16), ("output", torch.float64)):
        tensor = torch.load(tensors / f"{LINEAR}.{name}.0.pt", weights_only=True)
        assert tensor.dtype == expected
        np.testing.assert_array_equal(
            tensor.double().numpy(), values if name == "input" else values.T
        )


def test_mindspore_has_npy_files_in_which_bfloat16_and_float8_are_wider(tmp_path):
    values = np.array([1.5, -2.0])
    name = "Cell.fc.Dense.forward.0"
    dump = call_dump(
        (f"{name}.input.0", values.astype(ml_dtypes.bfloat16)),
        (f"{name}.output.0", values.astype(ml_dtypes.float8_e4m3fn)),
        framework="",
    )
    folder = exported(dump, tmp_path)
    content = document(folder)
    assert content["framework"] == "mindspore"
    record = content["data"][name]
    said = {key: record[key][0]["dtype"] for key in ("input_args", "output")}
    assert said == {"input_args": "BFloat16", "output": "Float32"}
    assert record["output"][0]["type"] == "mindspore.Tensor"
    for part in ("input", "output"):
        file = folder / f"step0/rank0/dump_tensor_data/{name}.{part}.0.npy"
        stored = np.load(file)
        assert stored.dtype == np.float32
        assert stored.tolist() == values.tolist()
    assert open_dump(folder).array(f"{name}.output.0").tolist() == values.tolist()


def test_positions_that_are_missing_leave_empty_arguments(tmp_path):
    name = "Functional.f.0.forward"
    dump = call_dump((f"{name}.input.2", 1.0), (f"{name}.input.0.k", 2.0))
    folder = exported(dump, tmp_path)
    (first, second, third) = document(folder)["data"][name]["input_args"]
    assert ([*first], second, third["shape"]) == (["k"], [], [])
    assert sorted(open_dump(folder).names) == sorted(dump.names)


def test_debug_entries_have_a_file_of_their_own(tmp_path):
    dump = call_dump(("h.0.debug", np.ones(2)), ("bag.0.debug.a.0", np.ones(3)))
    folder = exported(dump, tmp_path)
    files = sorted(path.name for path in (folder / "step0/rank0").iterdir())
    assert files == ["debug.json", "dump_tensor_data"]
    assert document(folder, "debug.json")["level"] == "debug"
    both = call_dump(("h.0.debug", np.ones(2)), (f"{LINEAR}.input.0", np.ones(3)))
    folder = exported(both, tmp_path, "both")
    assert [*document(folder)["data"]] == [LINEAR]
    assert [*document(folder, "debug.json")["data"]] == ["h.0.debug"]


def test_names_that_no_file_may_have_get_another(tmp_path):
    names = [f"Module.{path}.Net.forward.0.input.0" for path in ("a/b", "up", "UP", "x" * 300)]
    names.append("Functional.f.0.forward.kwargs.../../../out")
    dump = call_dump(*((name, np.full(2, float(at))) for at, name in enumerate(names)))
    folder = exported(dump, tmp_path)
    files = {path.name for path in (folder / "step0/rank0/dump_tensor_data").iterdir()}
    assert files == {"entry.0.pt", f"{names[1]}.pt", "entry.2.pt", "entry.3.pt", "entry.4.pt"}
    again = open_dump(folder)
    assert [again.array(name)[0] for name in names] == [0.0, 1.0, 2.0, 3.0, 4.0]


# -- what cannot be written


def test_dumps_of_no_calls_are_refused(tmp_path):
    checkpoint = Dump.from_arrays({"fc.weight": np.ones(2)}, label="m")
    with pytest.raises(ArgumentError, match="'m' is no dump of calls, which msprobe"):
        exported(checkpoint, tmp_path)
    with pytest.raises(ArgumentError, match="is no dump of calls"):
        exported({"fc.weight": np.ones(2)}, tmp_path)
    assert [*tmp_path.iterdir()] == []


def test_a_folder_that_is_taken_is_refused(tmp_path):
    dump = open_dump(MLP)
    (tmp_path / "out").mkdir()
    folder = exported(dump, tmp_path)
    with pytest.raises(ArgumentError, match="dump to 'out': it is there and not an empty folder"):
        exported(dump, tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(ArgumentError, match="dump to 'file'"):
        exported(dump, tmp_path, "file")
    assert len(open_dump(folder)) == len(dump)


def test_a_dump_that_breaks_off_leaves_nothing(tmp_path):
    broken = Path(shutil.copytree(MLP, tmp_path / "broken"))
    next(broken.rglob("*.output.0.pt")).write_bytes(b"no tensor")
    with pytest.raises(ReadError, match=r"output\.0\.pt"):
        exported(open_dump(broken), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["broken"]


def test_entries_msprobe_has_no_words_for_are_left_out_and_counted(tmp_path):
    dump = call_dump((f"{LINEAR}.input.0", np.ones(2)), (f"{LINEAR}.output.0", {"reason": LOST}))
    other = Entry(f"{LINEAR}.gradient", Site("module", "fc"), ArrayInMemory(np.ones(2)))
    entries = [
        *(Entry(n, Site("module", "fc"), s) for n, s in zip(dump.names, dump.sources, strict=True)),
        other,
        other._replace(name="fc.weight"),
    ]
    expected = (
        "'d' was not written whole: 1 entry without shape or value, such as "
        f"'{LINEAR}.output.0', left out; 2 entries that msprobe has no words for, such as "
        f"'{LINEAR}.gradient', left out"
    )
    with pytest.warns(TroubleshooterWarning, match=expected) as caught:
        folder = exported(Dump.from_entries(entries, label="d"), tmp_path)
    assert caught[0].filename == __file__
    assert open_dump(folder).names == [f"{LINEAR}.input.0"]


def test_tensors_without_values_keep_what_is_known_of_them(tmp_path):
    lost = {"dtype": "float32", "shape": (2,), "statistics": {"max": 2.0}, "reason": LOST}
    dump = call_dump((f"{LINEAR}.input.0", lost), (f"{LINEAR}.output.0", np.ones(2)))
    with pytest.warns(TroubleshooterWarning, match=f"1 tensor without values, .*{LINEAR}.input.0"):
        folder = exported(dump, tmp_path)
    assert leaf_of(folder)["Max"] == 2.0
    assert "data_name" not in leaf_of(folder)


class Watched(ArrayInMemory):
    """Refuses to be read whole."""

    def read(self, start, stop, into=None):
        if stop - start > 1 << 20:
            msg = f"{stop - start} values at once"
            raise MemoryError(msg)
        return super().read(start, stop, into)


@pytest.mark.parametrize("format", ["msprobe_dir", "npy_dir"])
@pytest.mark.parametrize("framework", ["pytorch", "mindspore"])
def test_large_tensors_are_copied_block_by_block(tmp_path, framework, format):
    values = np.arange((1 << 21) + 5, dtype=np.float32)
    dump = call_dump((f"{LINEAR}.input.0", Watched(values)), framework=framework)
    (name,) = (again := open_dump(save_dump(dump, tmp_path / "out", format=format))).names
    assert again.array(name).tobytes() == values.tobytes()


# -- the keyword


def test_the_format_can_be_named(tmp_path):
    arrays = {"w": np.ones(2)}
    assert open_dump(save_dump(arrays, tmp_path / "x.bin", format="pth")).names == ["w"]
    assert save_dump(arrays, tmp_path / "x.pth", format="npy_dir").is_dir()
    names = "npy_dir, ckpt, pth, safetensors, msprobe_dir"
    with pytest.raises(UnknownFormatError, match=f"no format 'npz'; known: .*{names}"):
        save_dump(arrays, tmp_path / "y", format="npz")
    with pytest.raises(ArgumentError, match="no run card, nor does a dump of msprobe"):
        save_dump(open_dump(MLP), tmp_path / "y", format="msprobe_dir", card=RunCard({}))
    assert not (tmp_path / "y").exists()
