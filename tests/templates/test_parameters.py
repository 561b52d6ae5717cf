"""Parameters of a notebook: how they are read, and what words of a command line stand for."""

from __future__ import annotations

import math

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.templates.parameters import (
    Parameter,
    check_names,
    parameters_of,
    source_of,
    value_of,
)


def notebook(source, *tags):
    return new_notebook(cells=[new_code_cell(source, metadata={"tags": [*tags]})])


def test_parameters_have_their_default_and_what_is_said_of_them():
    form = 'left = ""  # a folder\n\n# one of\n# these\nfault: str = "none"\n'
    form += "steps = [0,\n 2]  # of two"
    assert [*parameters_of(notebook(form, "parameters")).values()] == [
        Parameter("left", '""', "a folder"),
        Parameter("fault", '"none"', "one of these"),
        Parameter("steps", "[0,\n 2]", "of two"),
    ]


def test_a_cell_with_a_magic_still_has_names():
    found = parameters_of(notebook("%matplotlib inline\na = 1\nb: int = 2\nc == 3", "parameters"))
    assert [*found] == ["a", "b"]


def test_a_notebook_may_have_no_parameters():
    assert parameters_of(notebook("a = 1", "other")) is None
    with pytest.raises(ArgumentError, match=r"x\.ipynb has no cell tagged 'parameters'"):
        check_names(notebook("a = 1"), ["a"], file="x.ipynb")


def test_an_unknown_name_is_refused_with_the_closest():
    form = notebook("rtol = 1\natol = 2", "parameters")
    check_names(form, ["rtol", "atol"], file="x.ipynb")
    with pytest.raises(ArgumentError, match=r"no parameter 'rtoll'; closest: 'rtol'.*rtol, atol"):
        check_names(form, ["rtoll"], file="x.ipynb")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-1e-3", -1e-3),
        ("True", True),
        ("false", False),
        ("None", None),
        ("null", None),
        ("none", "none"),
        ("ms_run", "ms_run"),
        ("step 3", "step 3"),
        ("yes", "yes"),  # papermill reads no more words
        ("2024-01-01", "2024-01-01"),
        ("", ""),
        ("[0, 1e-3, a b]", [0, 1e-3, "a b"]),
        ("['1', \"two\", ]", ["1", "two"]),
        ("{a: 1, b: [true]}", {"a": 1, "b": [True]}),
        ("[]", []),
    ],
)
def test_words_stand_for_what_they_look_like(text, value):
    found = value_of(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", ["[0, 1", "{a: 1", "{[a]: 1}", "[a]: b"])
def test_a_list_that_is_none_is_refused(text):
    with pytest.raises(ArgumentError, match="list or mapping as in yaml"):
        value_of(text)


def test_the_cell_of_values_gives_the_values():
    values = {"a": [1, math.inf, {"x": "it's"}], "b": None, "c": "C:\\x\n", "d": True, "e": -0.5}
    names = {}
    exec(source_of(values), names)
    assert {name: names[name] for name in values} == values
    exec(source_of({"f": math.nan}), names)
    assert math.isnan(names["f"])
