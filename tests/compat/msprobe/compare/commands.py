"""Runs msprobe's command and reads what it wrote."""

import re

import pytest

from tests.compat.msprobe.compare.tables_of_peers import DATA
from troubleshooter_nb.cli.main import main

openpyxl = pytest.importorskip("openpyxl")

SNIPPETS = DATA.parent / "snippets" / "s004"
OLD = "v1_2_2"
L0M, L0T, L1M, L1T = (
    f"{OLD}/{where}/step0/rank"
    for where in (
        *("mindspore/m_mlp_L0_tensor", "torch/t_mlp_L0_tensor"),
        *("mindspore/m_mlp_L1_tensor", "torch/t_mlp_L1_tensor"),
    )
)
STATISTICS = [f"{OLD}/mindspore/m_mlp_mix_statistics{one}/step0/rank" for one in ("B", "")]
TWINS = [
    f"v26_2_0/{one}/step0/proc1000" for one in ("mindspore/m_tfr_L0_tensor", "torch/t_tf_L0_tensor")
]
DDP = ["v26_2_0/torch/t_ddpB", "v26_2_0/torch/t_ddp"]
FIRST = "-f mindspore compare -i ./compare.json -o ./output"
LONG = (
    "--input_path ./compare.json --output_path ./output --stack_mode --compare_only --fuzzy_match"
)


def without_time(name):
    return re.sub(r"[0-9]{14}", "{timestamp}", name)


def outputs(folder):
    return {without_time(file.name): file for file in sorted((folder / "output").iterdir())}


def book_of(file):
    return openpyxl.load_workbook(file)


def rows_of(file):
    headings, *rows = book_of(file)["Sheet"].iter_rows(values_only=True)
    return list(headings), [dict(zip(headings, row, strict=True)) for row in rows]


def refused(words, capsys, code=2):
    assert main(words.split()) == code
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    return said.err
