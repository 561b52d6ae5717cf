"""Names of entries are hostile until they are shown: they harm nothing, and nothing raises."""

from __future__ import annotations

import csv
import io
import json
import re

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb import report
from troubleshooter_nb.messages import ACTING, Message, visible

NAMES = [
    "\x1b[31mred",
    "\x1b]0;title\x07",
    "\x9b31mone byte",
    "a\rb",
    "nul\x00",
    "del\x7f",
    "half\udc80",
    "turned\u202earound",
    "new\nline",
    "=cmd|'/C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    "\t=1+1",
    "a|b",
    "<script>alert(1)</script>",
    "&lt;",
    "`code`",
    "[x](javascript:alert)",
    "*star*",
    "\ufeffmark",
    "weight.\x1b[2J.bias",
]
LEFT = {name: np.arange(12.0).reshape(3, 4) + at for at, name in enumerate(NAMES)}
RIGHT = {name: values * (1 + at % 2) for at, (name, values) in enumerate(LEFT.items())}
LEFT["only\x1b[31mleft"] = np.ones(5)
RIGHT["only\x1b[31mright"] = np.ones(7)
FORMULA = ("=", "+", "-", "@", "\t", "\r")
MAKE = {
    "Comparison": lambda: tnb.compare(LEFT, RIGHT),
    "Dump": lambda: tnb.Dump.from_arrays(LEFT, label="label\x1b[31m").summarise(),
    "Pairing": lambda: tnb.pair_dumps(LEFT, RIGHT),
    "Explanation": lambda: tnb.compare(LEFT, RIGHT).explain(),
    "WeightMap": lambda: tnb.draft_weight_map(LEFT, RIGHT),
    "CheckpointDiff": lambda: tnb.diff_checkpoints(LEFT, RIGHT),
    "TensorDiff": lambda: tnb.compare(LEFT, RIGHT)["a\rb"],
    "RunCard": lambda: tnb.RunCard({name: name for name in NAMES}),
}
SUFFIXES = [".html", ".txt", ".csv", ".json", ".md", ".xlsx", ".nc"]


@pytest.fixture(scope="module", params=MAKE)
def shown(request):
    return MAKE[request.param]()


@pytest.fixture(params=["en", "zh"])
def language(request):
    with tnb.option_context(language=request.param):
        yield


@pytest.mark.usefixtures("language")
def test_no_text_holds_what_a_terminal_acts_on(shown):
    assert not ACTING.search(repr(shown))
    assert not ACTING.search(str(shown))


@pytest.mark.usefixtures("language")
def test_no_page_holds_a_script_or_what_cannot_be_sent(shown):
    page = shown._repr_html_()
    assert "<script" not in page
    assert not ACTING.search(page)


@pytest.mark.usefixtures("language")
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_file_is_written_and_does_no_harm(shown, suffix, tmp_path):
    if suffix not in report._suffixes_of(type(shown)):
        with pytest.raises(ValueError, match=re.escape(repr(suffix))):
            tnb.export(shown, tmp_path / f"x{suffix}")
        return
    file = tnb.export(shown, tmp_path / f"x{suffix}")
    if suffix == ".xlsx":
        assert_no_formulas_in_cells(file)
    elif suffix != ".nc":
        text = file.read_bytes().decode()
        assert not ACTING.search(text)
        if suffix == ".html":
            assert "<script" not in text
        if suffix == ".md":
            # What is not indented, which is code, or escaped, would be HTML.
            assert not re.search(r"^(?!    ).*(?<!\\)<script", text, flags=re.MULTILINE)
        if suffix == ".csv":
            cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
            assert not [cell for cell in cells if cell.startswith(FORMULA) and not number(cell)]
        if suffix == ".json":
            json.loads(text)


def assert_no_formulas_in_cells(file):
    from openpyxl import load_workbook

    cells = [cell for sheet in load_workbook(file) for row in sheet.iter_rows() for cell in row]
    assert not [cell.value for cell in cells if cell.data_type == "f"]
    texts = [cell.value for cell in cells if isinstance(cell.value, str)]
    assert not [text for text in texts if text.startswith(FORMULA) and not number(text)]


def number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def test_a_name_of_markdown_is_shown_as_it_is(tmp_path):
    dump = tnb.Dump.from_arrays({"[x](y) *z* `c` <b> a|b": np.ones(1)})
    text = tnb.export(dump, tmp_path / "x.md").read_text()
    assert r"\[x\](y) \*z\* \`c\` \<b\> a\|b" in text


def test_json_says_the_same_names(tmp_path):
    dump = tnb.Dump.from_arrays(LEFT)
    rows = json.loads(tnb.export(dump, tmp_path / "x.json").read_text())
    assert [row["name"] for row in rows] == list(LEFT)


def test_columns_of_a_log_are_no_formulas(tmp_path):
    (tmp_path / "log.csv").write_text("step,=1+1,loss\n1,2,3\n2,3,4\n")
    file = tnb.export(tnb.open_series(tmp_path / "log.csv"), tmp_path / "x.csv")
    assert file.read_text().splitlines()[0].split(",")[1:] == ["'=1+1", "loss"]


@pytest.mark.usefixtures("language")
@pytest.mark.parametrize("name", ["no\x1b[31m", "x\udc80", "y\r", "z\x9b"])
def test_errors_say_a_name_so_that_it_can_be_printed(tmp_path, name):
    cmp, dump = tnb.compare(LEFT, RIGHT), tnb.Dump.from_arrays(LEFT)
    for call in (
        lambda: dump.array(name),
        lambda: cmp[name],
        lambda: tnb.open_dump(tmp_path / name),
        lambda: tnb.open_series(tmp_path / name),
        lambda: tnb.read_weight_map(tmp_path / name),
        lambda: tnb.save_dump({f"{name}/../x": np.ones(1)}, tmp_path / "d"),
        lambda: tnb.set_options(**{name: 1}),
        lambda: tnb.export(cmp, tmp_path / f"x.{name}"),
        lambda: tnb.pair_dumps(LEFT, RIGHT, mapping={name: "y"}),
    ):
        with pytest.raises(tnb.TroubleshooterError) as caught:
            call()
        assert not ACTING.search(str(caught.value))


def test_a_message_shows_what_others_say_and_keeps_it():
    message = Message("files.in_file", file="a\x1b[31m", what="tab\tand\nline\r")
    assert str(message) == "a\\x1b[31m: tab\tand\nline\\x0d"
    assert message.values["file"] == "a\x1b[31m"


def test_plain_text_is_shown_as_it_is():
    text = "dense_1.weight · 网络 é \U0001f600 \t\n"
    assert visible(text) is text or visible(text) == text
    assert re.fullmatch(r"\\x00\\ud800", visible("\x00\ud800"))
