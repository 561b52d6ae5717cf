"""The documented scripts, with the names, files and counts that the tool itself gave."""

import csv
import os
import re

import pytest

from tests.compat.msprobe.conftest import SNIPPETS, dumps_in, expected_of
from tests.compat.msprobe.held import hold, hold_files

TORCH = pytest.param("torch", marks=pytest.mark.torch)
MINDSPORE = pytest.param("mindspore", marks=pytest.mark.mindspore)
GENERATIONS = {"A": "1.2", "B": "8.3", "C": "26.2"}


@pytest.fixture
def script(run):
    """Runs a documented script, whose import line is that of this package."""

    def script(name, *args, generation=None):
        return run(SNIPPETS / f"{name}.py", *args, generation=generation)

    return script


SECOND = [
    ("v8_3_3", "8.3", "mix", "statistics"),
    ("v8_3_3", "8.3", "L0", "tensor"),
    ("v26_2_0", "26.2", "mix", "tensor"),
    ("v26_2_0", "26.2", "L0", "statistics"),
    ("v1_2_2", "1.2", "L1", "md5"),
]


@pytest.mark.few(2)
@pytest.mark.torch
@pytest.mark.parametrize(("release", "generation", "level", "task"), SECOND)
def test_a_net_of_another_kind(release, generation, level, task, run, tmp_path):
    args = (tmp_path, "--level", level, "--task", task)
    beside = SNIPPETS.with_name("s003_second")
    run(SNIPPETS / "s003_debugger.py", *args, generation=generation, beside=beside)
    ours = dumps_in(tmp_path / "dump")
    expected = expected_of(release, f"second_{level}_{task}")
    assert len(ours) == 3
    hold(f"second_{level}_{task}", {step: ours[step] for step in expected}, expected)
    hold_files(ours, tmp_path / "dump")
    if level == "mix":  # the old tool has the gradient before the mask of the ReLU here
        data = ours[next(iter(expected))]["dump"]["data"]
        given = data["Functional.relu.0.backward"]["output"][0]
        assert given["Norm"] == data["Functional.batch_norm.0.backward"]["input"][0]["Norm"]


def listing(name):
    """An expected listing, without its comments."""
    lines = (SNIPPETS / name).read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def sections(name):
    """The lines below each comment of an expected listing."""
    found, current = {}, []
    for line in (SNIPPETS / name).read_text().splitlines():
        if line.startswith("# "):
            current = found.setdefault(f"{len(found)} {line[2:]}", [])
        elif line:
            current.append(line)
    return list(found.values())


def files_below(folder):
    found = sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())
    return [re.sub(r"proc\d+", "proc{pid}", name) for name in found]


TREES = [
    pytest.param("torch", None, "s003_tree_B.txt", marks=pytest.mark.torch),
    pytest.param("torch", "26.2", "s003_tree_C.txt", marks=pytest.mark.torch),
    pytest.param("mindspore", None, "s003_tree_A_mindspore.txt", marks=pytest.mark.mindspore),
    pytest.param("mindspore", "26.2", "s003_tree_C_mindspore.txt", marks=pytest.mark.mindspore),
]


@pytest.mark.parametrize(("framework", "generation", "expected"), TREES)
def test_the_loop_of_the_document(framework, generation, expected, script, tmp_path):
    args = ("--framework", framework, "--level", "mix", "--task", "tensor")
    script("s003_debugger", tmp_path, *args, generation=generation)
    files, entries = sections(expected)
    assert [name for name in files_below(tmp_path) if "/step0/" in name] == sorted(files)
    dump = dumps_in(tmp_path / "dump")
    first = next(iter(dump.values()))["dump"]["data"]
    assert list(first) == entries
    assert len(dump) == 3


def counted(documents):
    names = list(documents["dump"]["data"])
    kinds = ("forward", "backward", "parameters_grad")
    pattern = {kind: re.compile(rf"\.{kind}(\.\d+)?$") for kind in kinds}
    counts = [sum(bool(pattern[kind].search(name)) for name in names) for kind in kinds]
    return [*counts, len(documents["construct"])]


def rows():
    with (SNIPPETS / "s003_entry_counts.csv").open() as lines:
        return list(csv.DictReader(lines))


@pytest.mark.few(10)
@pytest.mark.parametrize(
    "row",
    [
        pytest.param(
            row, marks=getattr(pytest.mark, row["framework"]), id="-".join(list(row.values())[:4])
        )
        for row in rows()
    ],
)
def test_counts_of_all_levels_and_tasks(row, script, tmp_path):
    generation, framework = GENERATIONS[row["generation"]], row["framework"]
    args = ("--framework", framework, "--level", row["level"], "--task", row["task"])
    script("s003_debugger", tmp_path, *args, generation=generation)
    dumps = dumps_in(tmp_path / "dump")
    assert len(dumps) == 3
    kinds = ("forward", "backward", "parameters_grad", "construct.json")
    noise = _noise(row)
    wanted = [int(row[kind]) - noise.get(kind, 0) for kind in kinds]
    for documents in dumps.values():
        assert counted(documents) == wanted
    stored = len(list(tmp_path.rglob("dump_tensor_data/*"))) // 3
    assert stored == int(row["tensor files"]) - noise.get("tensor files", 0)


def _noise(row):
    """Calls that the hooks of 1.2.2 themselves make, which are none of the network's."""
    if (row["generation"], row["framework"], row["level"]) != ("A", "torch", "mix"):
        return {}
    return {"forward": 3, "construct.json": 3, "tensor files": 9 if row["task"] == "tensor" else 0}


@pytest.mark.torch
@pytest.mark.parametrize(("generation", "at"), [("8.3", 0), ("26.2", 2)])
def test_a_list_of_models_has_its_numbers_in_the_names(generation, at, script, tmp_path):
    script("s003_list_of_models", tmp_path, generation=generation)
    entries, files = sections("s003_list_of_models.txt")[at : at + 2]
    (documents,) = dumps_in(tmp_path / "dump").values()
    assert list(documents["dump"]["data"]) == entries
    assert sorted(os.listdir(next(tmp_path.rglob("dump_tensor_data")))) == sorted(files)


@pytest.mark.torch
@pytest.mark.parametrize("generation", ["8.3", "26.2"])
@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_single_points_of_every_kind(generation, task, script, tmp_path):
    script("s003_save_point", tmp_path, task, generation=generation)
    entries, files = sections("s003_save_point.txt")[:2]
    dumps = dumps_in(tmp_path / "dump")
    assert len(dumps) == 2
    for documents in dumps.values():
        assert documents["debug"]["level"] == "debug"
        assert list(documents["debug"]["data"]) == entries
        assert documents["debug"]["data"]["whole_grad.0.debug"] is None
    for folder in tmp_path.rglob("dump_tensor_data"):
        assert sorted(os.listdir(folder)) == sorted(files)
    assert len(list(tmp_path.rglob("dump_tensor_data"))) == (2 if task == "tensor" else 0)


@pytest.mark.torch
@pytest.mark.parametrize(("generation", "at"), [("8.3", 0), ("26.2", 2)])
def test_stop_before_backward(generation, at, script, tmp_path):
    script("s003_stop_before_backward", tmp_path, generation=generation)
    # The first section is the heading of the file.
    entries = [part for part in sections("s003_stop_before_backward.txt") if part][at]
    dumps = dumps_in(tmp_path / "dump")
    assert len(dumps) == 2
    for documents in dumps.values():
        data = documents["dump"]["data"]
        # What the document promises and the tool loses: modules, and values of gradients.
        more = {name for name in data if re.search(r"Module\..*\.(backward|parameters_grad)", name)}
        assert {name for name in more if name not in entries} >= {
            "Module.0.Linear.backward.0",
            "Module.1.ReLU.backward.0",
            "Module.2.Linear.backward.0",
        }
        ours = [name for name in data if name not in more]
        assert ours == [name for name in entries if name not in more]
        gradients = [data[name] for name in more if "parameters_grad" in name]
        leaves = [leaf for entry in gradients for (leaf,) in entry.values()]
        assert len(leaves) == 4
        assert all(leaf["Norm"] > 0 for leaf in leaves)


@pytest.mark.torch
@pytest.mark.mindspore
@pytest.mark.parametrize("generation", ["8.3", "26.2"])
def test_a_torch_net_in_the_gradient_of_mindspore_has_no_backward(
    generation, script, tmp_path, capsys
):
    with pytest.warns(UserWarning, match="mindspore.value_and_grad") as warned:
        script("s003_msadapter_like", tmp_path, generation=generation)
    of_ours = [str(w.message) for w in warned if "backward pass" in str(w.message)]
    assert len(of_ours) == 1
    assert "step 0" in of_ours[0]
    assert capsys.readouterr().out == "torch (10, 2) ()\n" * 3
    entries = [
        "Functional.linear.0.forward",
        "Module.enter.Linear.forward.0",
        "Functional.linear.1.forward",
        "Module.leave.Linear.forward.0",
        "Functional.relu.0.forward",
    ]
    for documents in dumps_in(tmp_path / "dump").values():
        ours = [name for name in documents["dump"]["data"] if "parameters_grad" not in name]
        assert ours == entries
