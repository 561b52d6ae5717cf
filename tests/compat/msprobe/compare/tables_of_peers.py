"""The tables that msprobe wrote, and what ours may have otherwise, each with its reason."""

import csv
import math
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parents[3] / "data" / "msprobe_compare"
MAPS = Path(__file__).parents[3] / "data" / "maps"
METRICS = ("Cosine", "EucDist", "MaxAbsErr", "MaxRelativeErr", "One Thousandth Err Ratio")
METRICS = (*METRICS, "Five Thousandths Err Ratio")
VERDICTS = ("Result", "Accuracy Reached or Not")
NOT_COMPARED = ("Err_message", "NPU_Stack_Info")  # sentences, and paths of a machine


@dataclass(frozen=True)
class Case:
    """A table of a release, and what it is of."""

    table: str
    release: str
    target: str
    golden: str
    options: dict
    advice: list[str]

    def rows(self):
        """Headings, and rows with the colour in front."""
        path = DATA / "tables" / f"{self.table}.csv"
        with path.open(newline="", encoding="utf-8") as file:
            headings, *rows = csv.reader(file)
        return headings[1:], rows


def _cases():
    with (DATA / "cases.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            pairs = [one.split("=") for one in row["options"].split("; ") if one]
            options = {name: MAPS / value if value else True for name, value in pairs}
            options = {k: v if v != MAPS / "True" else True for k, v in options.items()}
            paths = row["target"], row["golden"]
            advice = row["advice"].split("|") if row["advice"] else []
            yield Case(row["table"], row["release"], *paths, options, advice)


CASES = tuple(_cases())


def same(ours, theirs):
    """Equal as text, or numbers within 2e-6; an empty cell of a sheet is None or nothing."""
    ours, theirs = ("" if cell is None else str(cell).strip() for cell in (ours, theirs))
    if ours == theirs or {ours, theirs} <= {"", "None"}:
        return True
    if ours.endswith("%") != theirs.endswith("%"):
        return False
    try:
        numbers = [float(cell.rstrip("%")) for cell in (ours, theirs)]
    except ValueError:
        return False
    return math.isclose(*numbers, rel_tol=2e-6, abs_tol=2e-12)


def held(case, row, heading, theirs):
    """Why a cell may differ from the old tool's; nothing where it may not.

    Parameters
    ----------
    case : Case
    row : dict
        Ours, by heading.
    heading, theirs : str
    """
    name = row["NPU Name"]
    is_verdict = heading in VERDICTS
    if "inf_opposite_sign" in name and (is_verdict or heading in METRICS):
        return "infinities of opposite signs are no agreement"
    if case.release == "26.2" and is_verdict:
        if theirs == "pass" and row["Bench Name"] == "N/A":
            return "what met nothing does not pass"
        if "nan_other_place" in name:
            return "NaN at other places are no agreement"
        if "missing_file" in name:
            return "a tensor that cannot be read does not pass"
        spelled = row["NPU Dtype"].startswith(("Float", "Int")), row["Bench Dtype"][:6] == "torch."
        if theirs == "error" and all(spelled):
            return "two spellings of a dtype and an unknown requires_grad are no error"
        if case.table.endswith("stress") and "backward.output" in name:
            return "the mark is on an output that differs, not on the first"
    if case.table == "v1_2_2_tt_mix_md5" and "parameters_grad" in name:
        return "1.2.2 loses the gradients of parameters in tables of checksums"
    if case.table == "v1_2_2_x_tf_L0_lm" and (is_verdict or heading in METRICS):
        return "the fixture has no tensors"
    return ""
