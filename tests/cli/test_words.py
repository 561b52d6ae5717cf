"""The words of a command line: which are understood, what is said of the others, the help."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.cli.running import piped
from tests.messages.rules import english_in
from troubleshooter_nb.cli.main import VERBS
from troubleshooter_nb.render.lines import width
from troubleshooter_nb.version import VERSION

ROOT = Path(__file__).parents[2]
WRONG = {
    ("cmpare", "a", "b"): r"no verb 'cmpare'; there are compare, open.*closest: 'compare'",
    ("--rtol", "1", "compare"): r"the verb comes first, not '--rtol'",
    ("compare",): r"compare needs LEFT RIGHT, for example: tnb compare ms_run torch_run",
    ("compare", "a"): "compare needs LEFT RIGHT",
    ("compare", "a", "b", "c"): r"too many words for compare: 'c'; it takes LEFT RIGHT",
    ("compare", "a", "b", "--rtoll", "1"): r"no option '--rtoll'; closest: '--rtol'",
    ("compare", "--rtoll", "1"): r"no option '--rtoll'",
    ("compare", "a", "b", "-x"): "no option '-x'",
    ("compare", "a", "b", "--rtol"): "a value is missing: --rtol NUMBER",
    ("compare", "a", "b", "-o", "--json"): "a value is missing: -o, --output FILE",
    ("compare", "a", "b", "--json=yes"): "--json takes no value",
    ("compare", "a", "b", "--rtol", "small"): "--rtol must be a number, got 'small'",
    ("compare", "a", "b", "--rtol=-1"): "--rtol must be finite and 0 or larger, got '-1'",
    ("compare", "a", "b", "--atol", "-1e-3"): "--atol must be finite and 0 or larger, got '-1e-3'",
    ("compare", "a", "b", "--atol", "nan"): "--atol must be finite and 0 or larger",
    ("compare", "a", "b", "--budget", "-1"): "budget must be a number of 0 or larger",
    ("compare", "a", "b", "--step", "3-1"): "--step takes numbers and ranges such as 0,2-4",
    ("compare", "a", "b", "--rank", "all"): "--rank takes numbers and ranges",
    ("compare", "a", "b", "--pairing", "best"): "--pairing takes one of auto, name, order, shape",
    ("compare", "a", "b", "-o", "x.docx"): r"cannot export to '\.docx'; use \.html",
    ("open",): "open needs PATH",
    ("pair", "a", "b", "--kind", "x"): "--kind takes one of data, layer, cell, api",
    ("convert", "a", "b.txt"): r"\.ckpt",
    ("convert", "a", "b.ckpt", "--map", "m", "--to", "torch"): "--to excludes --map",
    ("convert", "a", "b.yaml", "-o", "x.html"): "b.yaml gets the map alone",
    ("causes", "bias_mising"): "no cause 'bias_mising'; closest: 'bias_missing'",
    ("--language", "fr", "compare"): "--language takes one of en, zh, got 'fr'",
    ("compare", "a", "b", "--language"): "--language takes one of en, zh, got ''",
}


@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_wrong_words_end_with_3_and_say_what_is_meant(said, words):
    code, out, err = said(*words)
    assert (code, out) == (3, "")
    assert re.search(WRONG[words], err)
    assert re.search(r"All words: tnb( \w+)? --help", err)


def test_without_words_the_help_is_shown_as_an_error(said):
    code, out, err = said()
    assert (code, out) == (3, "")
    assert "tnb VERB" in err


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["help"]])
def test_the_help_names_every_verb_and_exit_code(said, words):
    code, out, err = said(*words)
    assert (code, err) == (0, "")
    assert all(f"  {verb} " in out for verb in VERBS)
    assert "0 passed, 1 differs, 2 could not be compared or decided, 3 wrong words" in out


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_help_of_a_verb_has_its_words_and_an_example(said, verb, language):
    code, out, err = said(verb, "--help", "--language", language)
    assert (code, err) == (0, "")
    assert f"  tnb {verb} " in out or f"  tnb {verb}\n" in out
    assert "--language LANG" in out
    assert said("help", verb, f"--language={language}") == (0, out, "")
    if language == "zh":
        texts = [line for line in out.splitlines() if not line.startswith("  tnb")]
        assert [found for found in map(english_in, texts) if found] == []


@pytest.mark.parametrize("columns", [20, 40, 73])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_help_fits_narrow_terminals(said, monkeypatch, columns, language):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", str(columns))
    _, out, _ = said("compare", "--help", "--language", language)
    *text, _, _, _ = out.splitlines()  # examples are typed as they stand
    longest = max(width(word) for word in re.findall(r"[\x21-\x7e、；：，。]+", out)) + 8
    assert max(map(width, text)) <= max(columns, longest)


def test_the_version_is_that_of_the_package(said):
    assert said("--version") == (0, f"tnb {VERSION}\n", "")


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LC_ALL": "en_US.UTF-8", "LANG": "zh_CN.UTF-8"}, "en"),
        ({"LC_MESSAGES": "zh_TW", "LANG": "C"}, "zh"),
        ({"TNB_LANGUAGE": "en", "LC_ALL": "zh_CN"}, "en"),
        ({"TNB_LANGUAGE": "zh", "LC_ALL": "C"}, "zh"),
    ],
)
def test_the_environment_chooses_the_language(said, monkeypatch, environment, language):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert ("用法" in said("--help")[1]) == (language == "zh")
    assert "用法" in said("--language", "zh", "--help")[1]
    assert "usage" in said("--help", "--language=en")[1]


def test_paths_that_look_like_options_come_behind_a_double_dash(said, runs, monkeypatch):
    monkeypatch.chdir(runs)
    assert said("compare", "--no-diagnose", "--", "left", "right")[0] == 1
    code, _, err = said("compare", "--", "--language", "-o")
    assert code == 2
    assert "no such file or folder: --language" in err


def written():
    """Command lines that the help and the documents show."""
    files = (ROOT / name for name in ("README.md", "README.zh-CN.md", "docs/command_line.md"))
    lines = [line for file in files for line in file.read_text("utf-8").splitlines()]
    for verb in VERBS:
        lines += import_module(f"troubleshooter_nb.cli.{verb}").grammar().examples
    # Without a comment, and without where a shell sends what is printed.
    found = (re.split("[#>]", line)[0].split() for line in lines if line.startswith("tnb "))
    return [words[1:] for words in found]


@pytest.mark.parametrize("words", written(), ids=" ".join)
def test_what_is_written_somewhere_is_understood(words):
    import_module(f"troubleshooter_nb.cli.{words[0]}").grammar().parse(words[1:])


def test_options_of_the_document_are_those_of_the_verbs():
    text = (ROOT / "docs" / "command_line.md").read_text("utf-8")
    helps = "".join(
        "\n".join(import_module(f"troubleshooter_nb.cli.{verb}").grammar().help_lines())
        for verb in VERBS
    )
    known = set(re.findall(r"--[a-z][a-z-]+", helps)) | {"--help"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) <= known
    assert {"--map", "--like", "--to", "--save-map", "--step", "--fuzzy", "--budget"} <= known


def test_the_old_command_is_answered_by_its_own_grammar(said):
    code, out, err = said("-f", "pytorch", "compare", "-i", "nothing.json")
    assert (code, out) == (2, "")
    assert "nothing.json" in err
    assert said("compare", "-tp", "nothing", "-gp", "nothing")[0] in (2, 3)


def test_help_loads_neither_pandas_nor_xarray_nor_numpy():
    program = (
        "import sys; from troubleshooter_nb.cli.main import VERBS, main\n"
        "codes = [main(['--help']), *(main([verb, '--help']) for verb in VERBS)]\n"
        "print(codes, sorted({'numpy', 'pandas', 'xarray'} & set(sys.modules)), file=sys.stderr)"
    )
    _, _, err = piped(command=[sys.executable, "-c", program])
    assert err == f"{[0] * (len(VERBS) + 1)} []\n"
