"""``tnb notebook``: the list, copies, and runs of small notebooks in all the ways they end."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tests.cli.running import in_terminal
from tests.messages.rules import CHINESE, english_in
from troubleshooter_nb.cli import notebook as verb
from troubleshooter_nb.render.lines import width
from troubleshooter_nb.templates.parameters import parameters_of
from troubleshooter_nb.templates.shipped import templates

ENDS = """
import numpy as np
import troubleshooter_nb as tnb
same = {"x": np.ones(3)}
found = tnb.compare(same, {"x": np.full(3, value)})
print(found.verdict)
tnb.outcome(found)
"""
FORM = 'value = 1  # of the right side\nleft = ""\npage = ""'


def stored(path, *cells, form=FORM, **metadata):
    """A notebook of these cells with a form, in a file."""
    about = {"kernelspec": {"name": "python3", "display_name": "P", "language": "python"}}
    about["troubleshooter_nb"] = {"writes": ["page"]}
    first = [new_markdown_cell("# Small"), new_code_cell(form, metadata={"tags": ["parameters"]})]
    made = new_notebook(cells=[*first, *cells], metadata=about | metadata)
    nbformat.write(made, path)
    return path


def ended():
    return new_code_cell(ENDS, metadata={"tags": ["verdict"]})


def sources(path):
    return [cell.source for cell in nbformat.read(path, as_version=4).cells]


def outputs(path):
    cells = nbformat.read(path, as_version=4).cells
    return [one for cell in cells for one in cell.get("outputs", [])]


# The list


def test_the_list_has_every_template_and_fits(said):
    code, out, err = said("notebook", "list")
    assert (code, err) == (0, "")
    assert all(f"{name}: " in out for name in templates())
    assert max(map(width, out.splitlines())) <= 100
    assert "tnb notebook run NAME" in out


def test_the_list_is_chinese_in_chinese(said):
    _, out, _ = said("notebook", "list", "--language", "zh")
    assert "为何不同？" in out
    assert [english_in(line) for line in out.splitlines() if english_in(line)] == []


def test_the_list_of_one_shows_its_parameters(said):
    _, out, _ = said("notebook", "list", "weight_conversion")
    assert "Its example needs torch mindspore;" in out
    assert '  destination = ""\n      file to write: .ckpt, .pth or .safetensors;' in out
    assert "Needs no framework." in said("notebook", "list", "dump_comparison")[1]


def test_the_list_for_machines(said):
    found = json.loads(said("notebook", "list", "--json")[1])
    assert [one["name"] for one in found] == [*templates()]
    assert found[1]["parameters"][0]["name"] == "left"
    assert json.loads(said("notebook", "list", "overflow_hunt.ipynb", "--json")[1])[0]["about"]


# Copies


def test_a_copy_is_the_template_and_replaces_nothing(said):
    code, out, _ = said("notebook", "new", "dump_comparison")
    assert (code, out.splitlines()[0]) == (0, "written: dump_comparison.ipynb")
    stored = json.loads(templates()["dump_comparison"].path.read_text("utf-8"))
    for cell in stored["cells"]:
        cell["metadata"].pop("troubleshooter_nb", None)  # its Chinese
    original = (json.dumps(stored, indent=1, ensure_ascii=False) + "\n").encode()
    assert Path("dump_comparison.ipynb").read_bytes() == original
    Path("dump_comparison.ipynb").write_text("mine")
    code, _, err = said("notebook", "new", "dump_comparison")
    assert code == 2
    assert "dump_comparison.ipynb is there already; --force replaces it" in err
    assert Path("dump_comparison.ipynb").read_text() == "mine"
    assert said("notebook", "new", "dump_comparison", "--force")[0] == 0
    assert Path("dump_comparison.ipynb").read_bytes() == original


@pytest.mark.parametrize("name", templates())
def test_a_copy_is_chinese_in_chinese(said, monkeypatch, name):
    monkeypatch.setenv("TNB_LANGUAGE", "zh")
    assert said("notebook", "new", name)[0] == 0
    copy = nbformat.read(f"{name}.ipynb", as_version=4)
    assert [one.metadata for one in copy.cells if "troubleshooter_nb" in one.metadata] == []
    assert parameters_of(copy)["language"].default == '"zh"'
    prose = [one.source for one in copy.cells if one.cell_type == "markdown"]
    assert [text for text in prose if not CHINESE.search(text)] == []
    # What lists it says the same of its parameters.
    listed = json.loads(said("notebook", "list", name, "--json")[1])[0]["parameters"]
    assert listed == [vars(one) for one in parameters_of(copy).values()]
    assert said("notebook", "new", name, "--force", "--language", "en")[0] == 0
    assert parameters_of(nbformat.read(f"{name}.ipynb", as_version=4))["language"].default == '"en"'


def test_a_copy_goes_where_it_is_asked_to(said):
    assert said("notebook", "new", "overflow_hunt", "-o", "a/b.ipynb")[0] == 0
    assert said("notebook", "new", "overflow_hunt.ipynb", "-o", "a")[0] == 0
    assert sorted(path.name for path in Path("a").iterdir()) == ["b.ipynb", "overflow_hunt.ipynb"]


# Wrong words

WRONG = {
    ("notebook",): "notebook needs ACT",
    ("notebook", "lst"): "does not know 'lst'; it can list, new, run; closest: 'list'",
    ("notebook", "run"): "notebook run needs the name of a template: tnb notebook list",
    ("notebook", "new", "dump_comparisn"): "closest: 'dump_comparison'",
    ("notebook", "list", "-o", "x"): "notebook list takes no -o",
    ("notebook", "new", "overflow_hunt", "-p", "a", "1"): "notebook new takes no -p",
    ("notebook", "new", "overflow_hunt", "-o", "a.html"): "a.html must end in '.ipynb'",
    ("notebook", "new", "overflow_hunt", "-o", "a", "-o", "b"): "give -o once",
    ("notebook", "run", "x", "-p", "a"): "a value is missing: -p, --parameters NAME VALUE",
    ("notebook", "run", "x", "-p", "a", "--html"): "a value is missing: -p",
}


@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_wrong_words_are_refused(said, words):
    code, out, err = said(*words)
    assert (code, out) == (3, "")
    assert WRONG[words] in err
    assert "All words: tnb notebook --help" in err


RUN_WRONG = {
    ("-p", "valeu", "1"): "small.ipynb has no parameter 'valeu'; closest: 'value'",
    ("-p", "value", "[1"): "list or mapping as in yaml, got '[1'",
    ("-o", "x.txt"): "x.txt must end in '.ipynb', '.html'",
}


@pytest.mark.notebook
@pytest.mark.parametrize("words", RUN_WRONG, ids=" ".join)
def test_a_run_that_cannot_be_meant_does_not_start(said, words):
    stored("small.ipynb", ended())
    code, out, err = said("notebook", "run", "small.ipynb", *words)
    assert (code, out) == (3, "")
    assert RUN_WRONG[words] in err


@pytest.mark.notebook
def test_files_that_are_there_or_missing_or_no_notebooks_end_a_run_before_it_starts(said):
    stored("small.ipynb", ended())
    for word, value in (("-o", "record.ipynb"), ("-o", "page.html"), ("page", "found.html")):
        Path(value).write_text("mine")
        words = (word, value) if word == "-o" else ("-p", word, value)
        code, _, err = said("notebook", "run", "small.ipynb", *words)
        assert code == 2
        assert f"{value} is there already; --force replaces it" in err
        assert Path(value).read_text() == "mine"
    code, _, err = said("notebook", "run", "small.ipynb", "-o", "small.ipynb", "--force")
    assert (code, "small.ipynb is one of the files that are read" in err) == (2, True)
    code, _, err = said("notebook", "run", "nothing.ipynb")
    assert (code, "no such file or folder: nothing.ipynb" in err) == (2, True)
    Path("text.ipynb").write_text("{}")
    assert "text.ipynb is no notebook that can be read" in said("notebook", "run", "text.ipynb")[2]
    stored("r.ipynb", kernelspec={"name": "ir", "display_name": "R", "language": "R"})
    assert "r.ipynb is a notebook of R; only" in said("notebook", "run", "r.ipynb")[2]


def test_a_missing_extra_is_named(said, monkeypatch):
    monkeypatch.setattr("troubleshooter_nb.errors.find_spec", lambda name: None)
    code, _, err = said("notebook", "run", "dump_comparison")
    assert code == 2
    assert "needs nbformat: pip install 'troubleshooter_nb[notebook]'" in err


# Runs


@pytest.mark.notebook
def test_a_run_gives_record_page_verdict_and_exit_code(said, tmp_path):
    where = new_code_cell("import os\nprint(os.getcwd(), left, value, os.path.expanduser('~/x'))")
    Path("elsewhere").mkdir()
    stored("elsewhere/small.ipynb", where, ended())
    Path("small-record.html").write_text("mine")
    words = ["-p", "value", "2", "-r", "left", "1"]
    code, out, err = said("notebook", "run", "elsewhere/small.ipynb", *words, "--html")
    assert (code, err) == (1, "")
    assert out.startswith("✗ 1 of 1 pairs differ")
    record, page = "small-record-2.ipynb", "small-record-2.html"
    assert out.splitlines()[-2:] == [f"written: {record}", f"written: {page}"]
    assert Path("small-record.html").read_text() == "mine"
    filled_in = "# Parameters\nvalue = 2\nleft = '1'"
    assert sources(record)[:3] == ["# Small", FORM, filled_in]
    # Relative paths begin where the command runs, and nothing says where that is.
    assert outputs(record)[0]["text"] == ". 1 2 ~/x\n"
    for text in (Path(name).read_text("utf-8") for name in (record, page)):
        assert str(tmp_path) not in text
        assert str(Path.home()) not in text
    # A record is a form, too: what was filled in is replaced. The same run gives the same file.
    code, out, _ = said("notebook", "run", record, *words, "-o", "new/")
    assert (code, out.splitlines()[-1]) == (1, "written: new/small-record-2-record.ipynb")
    assert Path("new/small-record-2-record.ipynb").read_bytes() == Path(record).read_bytes()


PROBLEMS = {
    "print('x')\n1 / 0": "cell 2 (Small) raised ZeroDivisionError: division by zero",
    "import nothing_such": "install what the notebook imports into the Python that runs",
    "import os\nos._exit(3)": "the kernel ended in cell 2 (Small)",
    "1": "no cell tells an outcome",
}


@pytest.mark.notebook
@pytest.mark.parametrize("source", PROBLEMS)
def test_a_run_without_an_outcome_is_undecided_and_keeps_what_ran(said, source):
    stale = new_code_cell("never()", outputs=[], execution_count=7)
    stored("small.ipynb", new_code_cell(source), *([stale] if source != "1" else []))
    code, out, err = said("notebook", "run", "small.ipynb")
    assert (code, out) == (2, "written: small-record.ipynb\n")
    assert PROBLEMS[source] in err
    assert len(err.splitlines()) == 1
    cells = nbformat.read("small-record.ipynb", as_version=4).cells
    assert cells[1].execution_count == 1
    assert all(cell.execution_count is None for cell in cells[3:])
    if "print" in source:
        assert [one.output_type for one in cells[2].outputs] == ["stream", "error"]


@pytest.mark.notebook
def test_a_missing_framework_is_advised_by_the_template(said, monkeypatch):
    about = {"writes": [], "example_needs": ["torch"]}
    stored("small.ipynb", new_code_cell("import nothing_such"), troubleshooter_nb=about)
    monkeypatch.setattr("troubleshooter_nb.templates.execution.find_spec", lambda name: None)
    assert (
        "the example needs torch, which this Python does not have: pip install torch"
        in said("notebook", "run", "small.ipynb")[2]
    )


@pytest.mark.notebook
def test_progress_is_one_line_of_a_terminal_and_ctrl_c_keeps_what_ran(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    slow = "import time\nprint('begun', flush=True)\ntime.sleep(60)"
    stored("small.ipynb", new_code_cell(slow), ended())
    code, shown = in_terminal(
        "notebook", "run", "small.ipynb", interrupt_at="cell 2 of 3: Small", columns=60
    )
    assert code == 2
    left = shown.rpartition("\r\x1b[K")[2]
    assert left == "tnb: interrupted in cell 2 (Small)\nwritten: small-record.ipynb\n"
    assert [one.get("text") for one in outputs("small-record.ipynb")] == ["begun\n"]


def test_the_language_of_the_command_is_that_of_a_template(monkeypatch):
    asked = verb.grammar().parse(["run", "dump_comparison", "-p", "rtol", "1"])
    one = templates()["dump_comparison"]
    from troubleshooter_nb.options import option_context

    pytest.importorskip("nbformat")
    with option_context(language="zh"):
        assert verb._values(asked, one, is_shipped=True) == {"language": "zh", "rtol": 1}
        assert verb._values(asked, one, is_shipped=False) == {"rtol": 1}
        asked.parameters_raw = [("language", "en")]
        assert verb._values(asked, one, is_shipped=True)["language"] == "en"


@pytest.mark.notebook
def test_one_name_for_two_files_is_refused_before_the_run(said, tmp_path):
    stored("own.ipynb", ended())
    words = ("-p", "page", "own-record.html", "--html", "--force")
    code, out, err = said("notebook", "run", "own.ipynb", *words)
    assert (code, out) == (3, "")
    assert "own-record.html is what the notebook itself writes" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own.ipynb"]


@pytest.mark.notebook
def test_a_long_text_is_no_path_that_could_be_replaced(said):
    stored("own.ipynb", new_code_cell("1"))
    Path("there.ipynb").touch()
    words = ("-p", "left", "a" * 400, "-p", "nothing", "1", "-o", "there.ipynb", "--force")
    code, _, err = said("notebook", "run", "own.ipynb", *words)
    assert code == 3
    assert "nothing" in err
    assert "too long" not in err


@pytest.mark.notebook
def test_what_a_run_leaves_says_nothing_of_the_machine(said, monkeypatch, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    form = f'left = "{home}/run"\npage = ""\nvalue = 1'
    fails = new_code_cell(f'import warnings\nwarnings.warn("at")\nraise OSError("{home}/x")')
    made = stored("own.ipynb", fails, form=form, papermill={"input_path": f"{home}/a"}, widgets={})
    _, _, err = said("notebook", "run", made, "-o", "record.ipynb")
    assert "~/x" in err
    text = Path("record.ipynb").read_text(encoding="utf-8")
    parameters = sources("record.ipynb")[1]
    assert parameters.startswith('left = "~/run"')
    assert "papermill" not in text
    assert "ipykernel/cell.py" in text
    # But for the code of a cell of the user's own, which is what runs.
    assert text.replace(fails.source, "").count(str(home)) == text.count(str(home))
    assert text.count(str(home)) == 1
