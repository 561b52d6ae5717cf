"""Make the file of the recorder: what `front` needs of the modules of this package."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from troubleshooter_nb.messages import Message
from troubleshooter_nb.recorder_file.lowering import lowered
from troubleshooter_nb.recorder_file.statements import MESSAGES, Needs, text_of
from troubleshooter_nb.version import VERSION

PACKAGE = Path(__file__).parents[1]
FRONT = "recorder_file.front"
# What shows, compares and reads has no place on a machine that only records.
LEFT_OUT = (
    *("dump", "analysis", "capture/against", "capture/partners", "comparison", "convert"),
    *("render/dump_view", "render/recording_view", "formats/record_dir", "widgets"),
)
# Imported by the name of the framework that is there.
ADAPTERS = tuple(
    f"frameworks.{name}"
    for name in ("torch_", "torch_recording", "mindspore_", "mindspore_recording")
)
# What the file may import beside the standard library; ml_dtypes only where it is installed.
MAY_IMPORT = ("numpy", "torch", "mindspore", "ml_dtypes")
_DOCSTRING = '''\
"""Records what a network of PyTorch or MindSpore does, into a folder.

Made by troubleshooter_nb {version} out of its own modules: `troubleshooter-nb recorder` prints it.
It needs Python 3.9, numpy and torch from 2.1 or MindSpore from 2.7 on, and nothing else::

    import tnb_record

    with tnb_record.record(net, to="run") as rec:
        net(x).sum().backward()
    print(rec)

`python tnb_record.py` says what it can do here, `help(tnb_record.record)` what `record` takes.
Copy the folder to where troubleshooter_nb is installed, and open it: `tnb.open_dump("run")`.

Apache License 2.0; what follows are the modules, each as a text that is run when it is imported.
"""
'''


def recorder_file() -> str:
    """The whole file, as text.

    Raises
    ------
    ImportError
        If what is kept needs what is left out, or another package: a mistake in this one.
    """
    sources = _sources()
    head = (Path(__file__).parent / "head.py").read_text(encoding="utf-8")
    head = head.split('"""\n', 1)[1]  # without its docstring
    parts = [_DOCSTRING.format(version=VERSION), head, "", "_SOURCES = {}"]
    for name in sorted(sources):
        parts.append(f"_SOURCES[{name!r}] = r'''{sources[name]}'''")
    parts += [
        "",
        "_front = _install(_SOURCES)",
        "record, Recording, Schedule = _front.record, _front.Recording, _front.Schedule",
        f"__version__ = {VERSION!r}",
        "__all__ = ['Recording', 'Schedule', 'record']",
        "if __name__ == '__main__':",
        "    sys.exit(_front.main())",
        "",
    ]
    text = "\n".join(parts)
    ast.parse(text, feature_version=(3, 9))
    return text


def _sources() -> dict[str, str]:
    """The text of each module by its name below the package, those of packages too."""
    needs = Needs(PACKAGE, LEFT_OUT, ADAPTERS)
    needs.follow([(FRONT, "record"), (FRONT, "main"), (FRONT, "Recording"), (FRONT, "Schedule")])
    others = needs.outside - {*sys.stdlib_module_names, *MAY_IMPORT}
    if others:
        raise ImportError(Message("single_file.other_package", names=sorted(others)))
    found = {name: text_of(kept, lowered) for name, kept in needs.kept.items() if name}
    found[FRONT] = found[FRONT].replace(_AS_THERE, _parameters())
    for name, text in found.items():
        package, _, subject = name.partition(".")
        if package == MESSAGES and subject:
            found[name] = _with_sentences(text, needs.sentences(subject))
    for name in [*found]:
        while "." in name:
            name = name.rpartition(".")[0]
            found.setdefault(name, "")
    for name, text in found.items():
        if "'''" in text or text.endswith("\\"):
            raise ImportError(Message("single_file.quotes", name=name))
        ast.parse(text, name, feature_version=(3, 9))
    return found


def _with_sentences(text: str, wanted: set[str] | None) -> str:
    """The module of a subject with the sentences that are wanted; None: all."""
    node = next((one for one in ast.parse(text).body if isinstance(one, ast.AnnAssign)), None)
    if node is None or node.value is None:  # no subject, but what reads them
        return text
    told = ast.literal_eval(node.value)
    kept = {key: both for key, both in told.items() if wanted is None or key in wanted}
    lines = [f"    {key!r}: {both!r},\n" for key, both in kept.items()]
    return f"MESSAGES = {{\n{''.join(lines)}}}\n"


# What `front` says of the parameters that are those of `record`, instead of which they stand.
_AS_THERE = """\
    level, inputs, outputs, gradients, parameters, names, steps, keep, compiled, replayable, ...
        As `troubleshooter_nb.record` takes them.
"""
_NOT_HERE = ("net", "to", "against", "mapping", "rtol", "limit", "stop_after")


def _parameters() -> str:
    """What `troubleshooter_nb.record` says of the parameters that it has in common with `front`."""
    text = (PACKAGE / "capture/recording.py").read_text(encoding="utf-8")
    functions = (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef))
    record = next(node for node in functions if node.name == "record")
    section = (ast.get_docstring(record) or "").partition("----------\n")[2].partition("\n\n")[0]
    lines: list[str] = []
    is_kept = False
    for line in section.splitlines():
        if not line.startswith(" "):
            is_kept = line.partition(" :")[0].partition(",")[0] not in _NOT_HERE
        if is_kept:
            lines.append(f"    {line}\n")
    return "".join(lines)
