"""msprobe's documented commands, ``compare`` and ``merge_result``, in both of their grammars."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from troubleshooter_nb.errors import ArgumentError, OptionError
from troubleshooter_nb.messages import Foreign, Message, told

if TYPE_CHECKING:
    from troubleshooter_nb.compat.msprobe.compare.pairs import Mappings

_FRAMEWORKS = ("mindspore", "pytorch")
_VERBS = ("compare", "merge_result")
# Verbs of the old command that are no part of comparing, and what is done instead.
_OTHERS = (
    *("parse", "run_ut", "multi_run_ut", "api_precision_compare", "run_overflow_check"),
    *("code_mapping", "graph", "op_generate", "config_check", "nan_analyze", "acc_check"),
    *("multi_acc_check", "overflow_check", "graph_visualize", "data2db", "offline_dump"),
    "install_deps",
)
_MARKS = ("-i", "--input_path", "-tp", "--target_path", "-gp", "--golden_path")
_REFUSED = (
    *("-m", "--mode", "-da", "--diff_analyze", "--consistent_check", "--backend", "--config"),
    *("-fr", "--fusion_rule_file", "-qfr", "--quant_fusion_rule_file", "-cfr"),
    *("--close_fusion_rule_file", "-ofs", "--onnx_fusion_switch", "--input_data"),
    *("--input_shape", "--output_size", "--dym_shape_range"),
)


def is_documented(arguments: Sequence[str]) -> bool:
    """Whether words are those of msprobe's command, not of our own."""
    if not arguments:
        return False
    if arguments[0] in ("-f", "--framework") or arguments[0].startswith("--framework="):
        return True
    if arguments[0] in ("merge_result", *_OTHERS):
        return True
    words = {word.partition("=")[0] for word in arguments[1:]}
    return arguments[0] == "compare" and not words.isdisjoint(_MARKS)


def run(arguments: Sequence[str], say: Callable[[str], None]) -> None:
    """Run one of msprobe's commands.

    Parameters
    ----------
    arguments : sequence of str
        Behind the name of the program, such as ``-f mindspore compare -i compare.json -o out -s``.
    say : callable
        Takes what the screen shows, a line at a time.

    Raises
    ------
    WrongUse
        For wrong words; its message says the right ones.
    TroubleshooterError, OSError
        If something could not be compared or written.
    """
    words = _without_framework(list(arguments))
    if words[0] == "merge_result":
        _merge(words[1:], say)
    elif words[0] == "compare":
        _compare(words[1:], say)
    elif words[0] in _OTHERS:
        raise WrongUse(Message("msprobe_compare.other_verb", verb=words[0]))
    else:
        known = list(_VERBS)
        raise WrongUse(Message("msprobe_compare.no_such_verb", verb=repr(words[0]), known=known))


class WrongUse(ArgumentError):
    """Wrong words on the command line."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        said = {"problem": Foreign(message), "usage": self.usage}
        raise WrongUse(Message("msprobe_compare.wrong_words", **said))


def _without_framework(words: list[str]) -> list[str]:
    """The verb and what follows; the framework is read from the dumps."""
    if words[0].startswith("--framework="):
        words = ["--framework", words[0].partition("=")[2], *words[1:]]
    if words[0] in ("-f", "--framework"):
        if len(words) < 2 or words[1] not in _FRAMEWORKS:
            said = {"given": repr(words[1]) if len(words) > 1 else "-", "known": list(_FRAMEWORKS)}
            raise WrongUse(Message("msprobe_compare.framework", **said))
        if len(words) < 3:
            raise WrongUse(Message("msprobe_compare.no_verb", known=list(_VERBS)))
        words = words[2:]
    return words


def _compare(words: Sequence[str], say: Callable[[str], None]) -> None:
    for word in words:
        if word.partition("=")[0] in _REFUSED:
            raise WrongUse(Message("msprobe_compare.refused_flag", flag=word.partition("=")[0]))
    given = _parser().parse_args(list(words))
    # What compares is imported only here: the words alone need none of it.
    from troubleshooter_nb.compat.msprobe.compare import run
    from troubleshooter_nb.compat.msprobe.compare.config import Config, read_config
    from troubleshooter_nb.compat.msprobe.compare.releases import release_of

    ranks, steps = (_numbers(name, getattr(given, name)) for name in ("rank", "step"))
    if given.input_path is not None:
        if given.target_path or given.golden_path:
            raise WrongUse(Message("msprobe_compare.two_grammars"))
        config = read_config(Path(given.input_path))
    elif given.target_path and given.golden_path:
        prints = given.is_print_compare_log
        target, golden = Path(given.target_path), Path(given.golden_path)
        config = Config(target, golden, prints_rows=prints)
    else:
        raise WrongUse(Message("msprobe_compare.no_paths"))
    # The grammar of 26.2 is answered with its tables.
    release = release_of(given.release or ("1.2" if given.input_path else "26.2"))
    is_wide = release.has_wide_stack
    is_told = is_wide or config.stack or config.target.is_dir()
    if given.input_path and given.stack_mode and not is_told:
        raise OptionError(Message("msprobe_compare.no_stack_path"))
    if config.unknown:
        say(told(Message("msprobe_compare.unknown_keys", names=list(config.unknown))))
    if ranks or steps:
        config = replace(config, ranks=ranks, steps=steps, is_of_kernels=True)
    request = run.Request(
        config,
        Path(given.output_path),
        release,
        wants_stack=given.stack_mode and not is_wide,
        gives_advice=not given.compare_only,
        fuzzy=given.fuzzy_match,
        mappings=_mappings(given),
        colors=release.names_both_ranks or given.highlight,
        suffix=".xlsx" if given.xlsx else release.suffix,
    )
    run.run(request, say)


def _numbers(name: str, text: str | None) -> tuple[int, ...]:
    """``0,1`` as numbers."""
    words = [word for word in (text or "").split(",") if word]
    if not all(word.isascii() and word.isdigit() for word in words):
        raise WrongUse(Message("msprobe_compare.no_numbers", name=f"--{name}", given=repr(text)))
    return tuple(map(int, words))


def _mappings(given: argparse.Namespace) -> Mappings:
    from troubleshooter_nb.compat.msprobe.compare.pairs import Mappings
    from troubleshooter_nb.formats.pairing_files import read_mapping

    files: dict[str, Any] = {}
    for kind in ("cell", "api", "layer", "data"):
        asked = getattr(given, f"{kind}_mapping")
        if isinstance(asked, str):
            files[kind] = read_mapping(asked, kind=kind)
        elif asked:
            files[kind] = True
    return Mappings(**files)


def _parser() -> argparse.ArgumentParser:
    usage = (
        "troubleshooter-nb [-f {mindspore,pytorch}] compare "
        "(-i compare.json | -tp TARGET -gp GOLDEN) [-o FOLDER] [-s] [-c] [-f] "
        "[-am [YAML]] [-cm [YAML]] [-lm [YAML]] [-dm YAML] [--release {1.2,8.3,26.2}]"
    )
    ask = _Parser(prog="troubleshooter-nb compare", usage=usage, allow_abbrev=False)
    ask.add_argument("-i", "--input_path", metavar="JSON")
    ask.add_argument("-tp", "--target_path", metavar="PATH")
    ask.add_argument("-gp", "--golden_path", metavar="PATH")
    ask.add_argument("-o", "--output_path", metavar="FOLDER", default="./output")
    ask.add_argument("-s", "--stack_mode", action="store_true")
    ask.add_argument("-c", "--compare_only", action="store_true")
    ask.add_argument("-f", "-fm", "--fuzzy_match", action="store_true")
    for short, name in (("am", "api"), ("cm", "cell"), ("lm", "layer")):
        ask.add_argument(f"-{short}", f"--{name}_mapping", nargs="?", const=True, metavar="YAML")
    ask.add_argument("-dm", "--data_mapping", metavar="YAML")
    ask.add_argument("-hl", "--highlight", action="store_true")
    ask.add_argument("-tensor_log", "--is_print_compare_log", action="store_true")
    ask.add_argument("--xlsx", action="store_true")
    ask.add_argument("--rank", metavar="NUMBERS")
    ask.add_argument("--step", metavar="NUMBERS")
    ask.add_argument("--release", choices=("1.2", "8.3", "26.2"))
    return ask


def _merge(words: Sequence[str], say: Callable[[str], None]) -> None:
    usage = "troubleshooter-nb merge_result -i FOLDER -o FOLDER -config YAML"
    ask = _Parser(prog="troubleshooter-nb merge_result", usage=usage, allow_abbrev=False)
    ask.add_argument("-i", "--input_dir", metavar="FOLDER", required=True)
    ask.add_argument("-o", "--output_dir", metavar="FOLDER", required=True)
    ask.add_argument("-config", "--config-path", metavar="YAML", required=True)
    given = ask.parse_args(list(words))
    from troubleshooter_nb.compat.msprobe.compare.merging import merge_ranks

    paths = (Path(given.input_dir), Path(given.output_dir), Path(given.config_path))
    file = merge_ranks(*paths)
    say(told(Message("msprobe_compare.written", file=str(file))))
