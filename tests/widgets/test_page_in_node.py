"""The pages' functions without a browser, in node; those that Python has too, on the same data."""

from __future__ import annotations

import base64
import itertools
import json
import math
import re
import shutil
import string
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
from ml_dtypes import bfloat16

from troubleshooter_nb.columns.column import Column
from troubleshooter_nb.formats import as_dump
from troubleshooter_nb.render.cells import cell_text
from troubleshooter_nb.render.numbers import percent, scientific
from troubleshooter_nb.render.steps import brief
from troubleshooter_nb.widgets.drill_down import part, plane_of
from troubleshooter_nb.widgets.opened_row import shortest
from troubleshooter_nb.widgets.packed_table import PackedColumn, PackedTable, View
from troubleshooter_nb.widgets.packed_table import _bounds as bounds
from troubleshooter_nb.widgets.packed_table import _packed as column

pytestmark = pytest.mark.node
HERE = Path(__file__).parent / "page"
SEEDS = range(5)


def node(*arguments: object, said: str | None = None) -> str:
    """What node prints; a failure shows all of it."""
    command = [str(shutil.which("node")), *map(str, arguments)]
    done = subprocess.run(command, input=said, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def answered(asked: list[list[object]]) -> list[object]:
    """What the pages' rules answer, each asked as its name and its arguments."""
    return json.loads(node(HERE / "rules.mjs", said=json.dumps(asked)))


def packed(value: float) -> str:
    return base64.b64encode(struct.pack("<d", value)).decode()


def test_the_pages_pass_their_own_tests():
    said = node("--test", "--test-reporter=tap", *sorted(HERE.glob("*.test.mjs")))
    counts = dict(re.findall(r"^# (tests|pass) (\d+)$", said, re.MULTILINE))
    assert int(counts["tests"]) == int(counts["pass"]) > 50


def test_long_transforms_are_shortened_as_in_a_table():
    many = ", ".join(map(str, range(3, 400)))
    texts = [
        "copy",
        "permute(0, 2, 1)",
        f"take(0, {many})",
        f"transpose | take(0, {many}) | blocks(1, 1, 0)",
        f"-> fc.weight split(0, {many})",
    ]
    assert answered([["brief", text] for text in texts]) == [brief(text) for text in texts]


def names_of(random: np.random.Generator, count: int) -> np.ndarray:
    words = ["Attn", "mlp", "norm", "层", "É", *string.ascii_letters[:3]]
    parts = random.choice(words, (count, 3))
    return np.array([f"{a}.{i % 12}.{b} {c}" for i, (a, b, c) in enumerate(parts)], object)


def table_of(random: np.random.Generator) -> PackedTable:
    """A table with ties, gaps, infinities and both zeros in every kind of column."""
    count = int(random.integers(1, 60))
    figures = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-300, 0.5, 0.5, 7.0, 1e300])
    names = names_of(random, count)
    columns = {
        "number": PackedColumn(random.permutation(count).astype(float)),
        "left": column(names),
        "right": column(np.where(random.random(count) < 0.2, "", names_of(random, count))),
        "left_display": column(names),
        "verdict": column(
            random.choice(["equal", "differs", "nan"], count).astype(object), ("nan",)
        ),
        "step": PackedColumn(random.integers(0, 3, count).astype(float)),
        "growth": PackedColumn(random.choice(figures, count)),
    }
    return PackedTable(columns, {}, [])


def view_of(random: np.random.Generator, table: PackedTable) -> View:
    def some(values: list[object]) -> list[object]:
        return [one for one in values if random.random() < 0.6]

    words = ["attn", "MLP", " norm  é", "层", "a b", "", "no such name", "1", "b.1"]
    between = sorted(random.integers(-2, 60, 2).tolist())
    where = {"verdict": some(["equal", "differs", "nan", "gone"]), "step": some([0, 1, 2, 9])}
    where |= {"nothing": ["x"], "number": some(list(range(40)))}
    return View(
        text=str(random.choice(words)),
        where={name: values for name, values in where.items() if random.random() < 0.4},
        between=(between[0], between[1]) if random.random() < 0.4 else None,
        sort=str(random.choice([*table.columns, "nothing"])),
        descending=bool(random.random() < 0.5),
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_a_page_shows_the_rows_that_python_shows(seed):
    random = np.random.default_rng(seed)
    asked, expected = [], []
    for _ in range(20):
        table = table_of(random)
        described, buffers = table.message("en")
        asked.append(["table", described, [base64.b64encode(one).decode() for one in buffers]])
        expected.append(len(table))
        for _ in range(20):
            view = view_of(random, table)
            asked.append(["shown", view.message()])
            expected.append(table.rows(view).tolist())
    assert sum(len(rows) > 1 for rows in expected if isinstance(rows, list)) > 100
    assert answered(asked) == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_a_page_writes_numbers_as_python_does(seed):
    random = np.random.default_rng(seed)
    values = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e16, 9.99e15, 1e-4, 9.9e-5, 5e-324]
    values += (random.normal(size=400) * 10.0 ** random.integers(-40, 39, 400)).tolist()
    values += (2.0 ** random.integers(-20, 60, 100) * random.integers(1, 256, 100)).tolist()
    formats = [(np.float64, 53), (np.float32, 24), (np.float16, 11), (bfloat16, 8)]
    with np.errstate(over="ignore"):
        cases = [(float(kind(value)), bits) for kind, bits in formats for value in values]
    asked = [["shortest", packed(value), bits] for value, bits in cases]
    assert answered(asked) == [shortest(value, bits) for value, bits in cases]
    asked = [["scientific", packed(value)] for value in values]
    assert answered(asked) == [scientific(value) for value in values]


def test_a_page_writes_shares_as_python_does():
    random = np.random.default_rng(0)
    shares = [
        0.0,
        1.0,
        1.5,
        0.99999,
        0.9999,
        *random.random(300),
        *(np.arange(64) / 64),
        *(1 - random.random(50) * 1e-6),
    ]
    asked = [["figure", "share", packed(float(share))] for share in shares]
    assert answered(asked) == [percent(float(share)) for share in shares]


@pytest.mark.parametrize("format", ["growth", "cosine", "hundredths", "scientific", "share"])
def test_a_page_writes_the_formats_of_columns_as_python_does(format):
    random = np.random.default_rng(1)
    values = [0.0, 0.05, 0.25, 1.0, 12.25, 99.95, 100.0, 1 - 2.0**-30]
    values += (random.random(300) * 10.0 ** random.integers(-9, 3, 300)).tolist()
    column = Column("x", "float64", "", format=format)
    row = {"verdict": "differs", "origin": ""}
    expected = [cell_text(column, {**row, "x": value}, "en", "explorer") for value in values]
    asked = [["figure", format, packed(value)] for value in values]
    assert answered(asked) == expected


def test_a_page_takes_bounds_as_python_does():
    random = np.random.default_rng(0)
    ends = [*(random.normal(size=40) * 100), -1.0, 0.5, 2.0**31, -(2.0**40), 1e300, math.nan]
    cases = [(low, high) for low in ends for high in ends if not math.isnan(low + high)]
    cases += [(math.nan, 3.5), (3.5, math.nan)]
    asked = [["bounds", packed(low), packed(high)] for low, high in cases]
    assert answered(asked) == [list(bounds(case) or ()) for case in cases]


@pytest.mark.notebook
def test_a_page_puts_parts_into_a_view_as_the_kernel_does():
    from troubleshooter_nb.widgets.explorer import _apart, _with

    random = np.random.default_rng(0)
    views = [view_of(random, table_of(random)).message() for _ in range(80)]
    for view in views:
        view["where"] = {name: values for name, values in view["where"].items() if values}
    pairs = list(itertools.pairwise(views))
    asked = [["with_parts", before, _apart(before, after)] for before, after in pairs]
    assert answered(asked) == [_with(case[1], case[2]) for case in asked]
    assert answered(asked) == [after for _, after in pairs]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_page_finds_the_tile_that_the_kernel_measured(seed):
    random = np.random.default_rng(seed)
    asked, expected, places = [], [], []
    for _ in range(30):
        shape = tuple(
            random.integers(1, [400, 300, 9], endpoint=True)[: random.integers(1, 4)].tolist()
        )
        flat = int(random.integers(math.prod(shape)))
        values = np.zeros(shape, np.float32)
        values.flat[flat] = 1
        plane = plane_of(shape)
        found = part(as_dump({"x": values}, "x").sources[0], None, plane)
        window = {"rows": found.rows, "columns": found.columns, "tiles": found.tile_max.shape}
        window |= {"plane": [plane.rows, plane.columns], "offset": plane.offset}
        tile = np.argwhere(found.tile_max)[0].tolist()
        asked += [["tile_of", window, flat], ["unravel", flat, shape], ["tile_at", window, tile]]
        expected += [tile, [int(i) for i in np.unravel_index(flat, shape)]]
        places.append(divmod(flat, plane.columns))
    said = answered(asked)
    for place, ranges in zip(places, said[2::3], strict=True):
        assert all(start <= at < stop for at, (start, stop) in zip(place, ranges, strict=True))
    del said[2::3]
    assert said == expected
