"""``tnb notebook list | new NAME | run NAME``: templates, a copy of one, a record of a run."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from troubleshooter_nb.cli import exit_codes
from troubleshooter_nb.cli.grammar import NAME, Grammar, WrongWords
from troubleshooter_nb.cli.terminal import complain, paragraph, rewrapped, say, with_name
from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.messages import Message, joined, language_in_force, message_of

if TYPE_CHECKING:
    from troubleshooter_nb.cli.outputs import Outputs
    from troubleshooter_nb.templates.execution import Record
    from troubleshooter_nb.templates.shipped import Template

# What may be done, and the options that it takes besides those of all.
_TAKES = {
    "list": {"json"},
    "new": {"output", "force"},
    "run": {"output", "force", "parameters", "parameters_raw", "html"},
}
_COMMAND = f"{NAME} notebook "
_FLAGS = {"output": "-o", "parameters": "-p", "parameters_raw": "-r"}


def grammar() -> Grammar:
    """The words of the verb."""
    examples = (
        "tnb notebook run why_do_they_differ -p left ms_run -p right torch_run --html",
        "tnb notebook list",
        "tnb notebook new dump_comparison -o mine.ipynb",
    )
    words = Grammar("notebook", Message("command.notebook_does"), examples)
    words.operand("ACT", Message("command.act"))
    words.operand("NAME", Message("command.template"), may_lack=True)
    words.pairs("-p", "--parameters", value="NAME VALUE", meaning=Message("command.parameter"))
    words.pairs("-r", "--parameters_raw", value="NAME TEXT", meaning=Message("command.raw"))
    meaning = Message("command.notebook_output")
    words.option("-o", "--output", value="FILE", meaning=meaning, several=True)
    words.switch("--html", meaning=Message("command.with_page"))
    words.switch("--force", meaning=Message("command.force"))
    words.switch("--json", meaning=Message("command.list_json"))
    return words


def run(asked: argparse.Namespace) -> int:
    """Do what was asked; of a run the exit code is that of the comparison in it."""
    acts = {"list": _list, "new": _new, "run": _run}
    if asked.act not in acts:
        from troubleshooter_nb.naming.closeness import closest

        near = closest(asked.act, acts)
        raise WrongWords(Message("command.no_act", word=asked.act, acts=[*acts], closest=near))
    for option in set().union(*_TAKES.values()) - _TAKES[asked.act]:
        if getattr(asked, option):
            flag = _FLAGS.get(option, f"--{option}")
            raise WrongWords(Message("command.not_of_act", act=asked.act, flag=flag))
    if asked.name is None and asked.act != "list":
        raise WrongWords(
            Message("command.act_needs_name", act=asked.act, command=_COMMAND + "list")
        )
    return acts[asked.act](asked)


def _list(asked: argparse.Namespace) -> int:
    """Print all templates, or all about one."""
    from troubleshooter_nb.templates.shipped import templates

    known = templates()
    shown = [*known.values()] if asked.name is None else [_template(asked.name)]
    if asked.json:
        say(json.dumps([_as_data(one) for one in shown], indent=1, ensure_ascii=False))
    elif asked.name is not None:
        say(_all_about(shown[0]))
    else:
        for one in shown:
            say(_in_short(one))
        words = {"run": "run NAME", "new": "new NAME", "parameters": "list NAME"}
        told_of = {what: _COMMAND + rest for what, rest in words.items()}
        say(["", *paragraph(Message("notebooks.how_to_start", **told_of))])
    return exit_codes.PASSED


def _in_short(one: Template) -> list[str]:
    heading = Message("command.entry", name=one.name, why=_in_language(one.titles))
    return [*paragraph(heading), *paragraph(_in_language(one.about), indent=4)]


def _in_language(said: Mapping[str, str]) -> str:
    return said.get(language_in_force()) or said.get("en", "")


def _all_about(one: Template) -> list[str]:
    from troubleshooter_nb.templates.parameters import parameters_of

    needs = Message("notebooks.no_framework")
    if one.needs:
        needs = Message("notebooks.needs", names=[*one.needs])
    lines = [*_in_short(one), *paragraph(needs), *paragraph(Message("notebooks.its_parameters"))]
    for found in (parameters_of(_translated(one.path)) or {}).values():
        text = Message("notebooks.parameter", name=found.name, default=found.default)
        lines += paragraph(text, indent=2)
        lines += paragraph(found.comment, indent=6) if found.comment else []
    return lines


def _as_data(one: Template) -> dict[str, Any]:
    from troubleshooter_nb.templates.parameters import parameters_of

    found = (parameters_of(_translated(one.path)) or {}).values()
    return {
        "name": one.name,
        "title": _in_language(one.titles),
        "about": _in_language(one.about),
        "example_needs": [*one.needs],
        "parameters": [
            {"name": each.name, "default": each.default, "comment": each.comment} for each in found
        ],
    }


def _translated(path: Path) -> Any:
    """The notebook of a file as its user gets it: in the language in force."""
    from troubleshooter_nb.templates.translated import in_language

    return in_language(json.loads(path.read_text(encoding="utf-8")), language_in_force())


def _template(name: str) -> Template:
    """The template of a name, with or without its suffix."""
    from troubleshooter_nb.naming.closeness import closest
    from troubleshooter_nb.templates.shipped import templates

    known = templates()
    if (bare := name.removesuffix(".ipynb")) in known:
        return known[bare]
    said = {"name": name, "closest": closest(bare, known), "known": [*known]}
    raise WrongWords(Message("notebooks.no_template", **said))


def _new(asked: argparse.Namespace) -> int:
    """Write a copy of a template."""
    from troubleshooter_nb.cli.outputs import planned
    from troubleshooter_nb.dump import Dump

    one = _template(asked.name)
    if len(asked.output) > 1:
        raise WrongWords(Message("command.one_copy"))
    (path,) = [_within(name, f"{one.name}.ipynb") for name in asked.output] or [
        Path(f"{one.name}.ipynb")
    ]
    _check_suffixes([path], (".ipynb",))
    writers = {".ipynb": _write_copy}
    read = [os.fspath(one.path)]
    outputs = planned([os.fspath(path)], Dump, force=asked.force, inputs=read, writers=writers)
    say(outputs.write(one.path))
    say(
        paragraph(
            Message("notebooks.how_to_run", command=f"{_COMMAND}run {shlex.quote(str(path))}")
        )
    )
    return exit_codes.PASSED


def _write_copy(template: Path, path: Path) -> None:
    from troubleshooter_nb.cli.outputs import write_whole

    text = json.dumps(_translated(template), indent=1, ensure_ascii=False)
    write_whole(path, f"{text}\n".encode())


def _within(name: str, file: str) -> Path:
    """A file of this name or, where the name is that of a folder, the file in it."""
    is_folder = name.endswith(("/", os.sep)) or Path(name).is_dir()
    return Path(name) / file if is_folder else Path(name)


def _check_suffixes(paths: Sequence[Path], known: Sequence[str]) -> None:
    for path in paths:
        if path.suffix.lower() not in known:
            said = {"file": os.fspath(path), "suffixes": [*known]}
            raise WrongWords(Message("command.notebook_suffix", **said))


def _run(asked: argparse.Namespace) -> int:
    """Run a notebook, print its verdict and write the record; whatever happens, what there is."""
    from troubleshooter_nb.analysis.progress import watched
    from troubleshooter_nb.templates.execution import check_runner, execute

    check_runner()
    one, is_shipped = _to_run(asked.name)
    values = _values(asked, one, is_shipped=is_shipped)
    outputs = _outputs(asked, one, values)
    with watched(None) as watch:
        record = execute(one.path, values, on_cell=watch.begin)
    written = outputs.write(record.notebook)  # whatever becomes of what is said
    if record.verdict:
        say(rewrapped(record.verdict))
    if record.problem is not None:
        complain(with_name(NAME, joined([record.problem, *_advice(record, one)])))
    elif record.exit_code is None:
        complain(with_name(NAME, Message("notebooks.untold")))
    say(written)
    return exit_codes.UNDECIDED if record.exit_code is None else record.exit_code


def _to_run(name: str) -> tuple[Template, bool]:
    """A template, or a notebook of the user's own."""
    from troubleshooter_nb.errors import PathNotFoundError
    from troubleshooter_nb.formats.missing_path import not_there
    from troubleshooter_nb.templates.execution import read_notebook
    from troubleshooter_nb.templates.shipped import describe, templates

    path, known = Path(name), templates()
    if name not in known and path.is_file():
        return describe(path, read_notebook(path)), False
    if path.suffix == ".ipynb" and name.removesuffix(".ipynb") not in known:
        raise PathNotFoundError(not_there(path))
    return _template(name), True


def _values(asked: argparse.Namespace, one: Template, *, is_shipped: bool) -> dict[str, Any]:
    """The parameters that are set, those of the language among them."""
    from troubleshooter_nb.templates.execution import read_notebook
    from troubleshooter_nb.templates.parameters import check_names, parameters_of, value_of

    notebook = read_notebook(one.path)
    try:
        values = {name: value_of(text) for name, text in asked.parameters}
        values |= dict(asked.parameters_raw)
        check_names(notebook, values, file=one.path.name)
    except ArgumentError as error:
        raise WrongWords(message_of(error)) from None
    # A notebook of one's own says its language itself.
    if is_shipped and language_in_force() != "en" and "language" in (parameters_of(notebook) or ()):
        values = {"language": language_in_force(), **values}
    return values


def _outputs(asked: argparse.Namespace, one: Template, values: Mapping[str, Any]) -> Outputs:
    """The record and its page, if they can be written as it looks now."""
    from troubleshooter_nb.cli.outputs import planned
    from troubleshooter_nb.dump import Dump

    usual = f"{one.name}-record.ipynb"
    paths = [_within(name, usual) for name in asked.output]
    _check_suffixes(paths, (".ipynb", ".html"))
    named = [path for path, name in zip(paths, asked.output, strict=True) if path == Path(name)]
    if not paths:
        paths = [Path(usual)]
    if not asked.force:
        paths = [path if path in named else _free(path, asked.html) for path in paths]
    if asked.html and not any(path.suffix.lower() == ".html" for path in paths):
        paths.append(paths[0].with_suffix(".html"))
    if any(path.suffix.lower() == ".html" for path in paths):
        from troubleshooter_nb.templates.page import check_pages

        check_pages()
    given = {"force": asked.force, "inputs": [os.fspath(one.path), *_read(one, values)]}
    both = {path.resolve() for path in paths}
    for path in map(Path, _written(one, values)):  # by the notebook itself, as it was asked
        if path.resolve() in both:
            raise WrongWords(Message("command.written_twice", file=os.fspath(path)))
        planned([os.fspath(path)], Dump, **given, writers={path.suffix.lower(): _leave})
    writers = {".ipynb": _write_record, ".html": _write_page}
    return planned(map(os.fspath, paths), Dump, **given, writers=writers)


def _free(path: Path, with_page: bool) -> Path:
    """A name that no file has: that of the path, or with a number."""
    for number in itertools.count(1):
        tried = path if number == 1 else path.with_stem(f"{path.stem}-{number}")
        taken = [tried, tried.with_suffix(".html")] if with_page else [tried]
        if not any(map(os.path.lexists, taken)):
            return tried
    raise AssertionError  # for the type checker: there is always another number


def _written(one: Template, values: Mapping[str, Any]) -> list[str]:
    """The files that the notebook is asked to write."""
    given = [values.get(name) for name in one.writes]
    return [path for path in given if isinstance(path, str) and path]


def _read(one: Template, values: Mapping[str, Any]) -> Iterator[str]:
    """The paths that the notebook is given to read."""
    for name, value in values.items():
        if isinstance(value, str) and value and name not in one.writes:
            yield value


def _leave(*_: object) -> None:
    """Who writes the file is another."""


def _write_record(notebook: Any, path: Path) -> None:
    import nbformat

    from troubleshooter_nb.cli.outputs import write_whole

    text: str = nbformat.writes(notebook)  # type: ignore[no-untyped-call]
    write_whole(path, f"{text.rstrip()}\n".encode())


def _write_page(notebook: Any, path: Path) -> None:
    from troubleshooter_nb.cli.outputs import write_whole
    from troubleshooter_nb.templates.page import page_of

    write_whole(path, page_of(notebook, name=path.stem).encode())


def _advice(record: Record, one: Template) -> list[Message]:
    """What to do about what a cell could not import."""
    from troubleshooter_nb.templates.execution import missing_needs

    kind = getattr(record.problem, "values", {}).get("kind")
    if kind != ModuleNotFoundError.__name__:
        return []
    if missing := missing_needs(one):
        return [Message("notebooks.missing_framework", names=missing)]
    return [Message("notebooks.missing_module")]
