"""A file that changes which operators are recorded, in place of the list inside the old tool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from troubleshooter_nb.errors import FormatError, PathNotFoundError
from troubleshooter_nb.formats.file_source import named, opened
from troubleshooter_nb.frameworks.named_operators import NamedOperator, is_found
from troubleshooter_nb.frameworks.recording import ApiCall
from troubleshooter_nb.messages import Foreign, Message

Change = Callable[[Sequence[NamedOperator], str], Sequence[NamedOperator]]
# What the lists of the old tool are called, and the modules that they are of.
_LISTS = {
    "pytorch": {
        "functional": ("torch.nn.functional", "Functional"),
        "tensor": ("torch.Tensor", "Tensor"),
        "torch": ("torch", "Torch"),
        "distributed": ("torch.distributed", "Distributed"),
    },
    "mindspore": {
        "ops": ("mindspore.ops", "Functional"),
        "tensor": ("mindspore.Tensor", "Tensor"),
        "mint.ops": ("mindspore.mint", "Mint"),
        "mint.nn.functional": ("mindspore.mint.nn.functional", "MintFunctional"),
    },
}


def changed_operators(file: Path | None) -> Change:
    """What a file makes of the operators that are recorded; nothing without one.

    Parameters
    ----------
    file : Path, optional
        A yaml of names by list (``functional``) or module (``torch.nn.functional``); one with
        ``-`` in front is not recorded, any other is, too.

    Raises
    ------
    PathNotFoundError, FormatError
        If there is none, or it is none.
    """
    if file is None:
        return lambda listed, framework: listed
    content = _read(file)

    def change(listed: Sequence[NamedOperator], framework: str) -> Sequence[NamedOperator]:
        kept = [*listed]
        for home, names in content.items():
            module, prefix = _LISTS[framework].get(home) or (home, _prefix(home, framework))
            left_out = {name[1:] for name in names if name.startswith("-")}
            kept = [one for one in kept if one.home != module or one.name not in left_out]
            known = {one.name for one in kept if one.home == module}
            added = [
                NamedOperator(module, name, ApiCall(f"{prefix}.{name.rpartition('.')[2]}"))
                for name in names
                if not name.startswith("-") and name not in known
            ]
            for one in added:
                if not is_found(one):
                    why = Message("debugger.ops_unknown", name=one.name, module=module)
                    raise FormatError(Message("debugger.ops_file", file=file.name, why=why))
            kept += added
        return kept

    return change


def _prefix(module: str, framework: str) -> str:
    known = {home: prefix for home, prefix in _LISTS[framework].values()}
    return known.get(module) or module.replace(".", "_")


def _read(file: Path) -> dict[str, list[str]]:
    import yaml

    try:
        with named(file), opened(file) as (stream, _):
            content: Any = yaml.safe_load(stream.read())
    except FileNotFoundError:
        raise PathNotFoundError(Message("debugger.no_config", file=str(file))) from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        why: Any = Foreign(" ".join(str(error).split())[:200])
        raise FormatError(Message("debugger.ops_file", file=file.name, why=why)) from None
    fits = isinstance(content, dict) and all(
        isinstance(names, list) and all(isinstance(name, str) for name in names)
        for names in content.values()
    )
    if not fits:
        why = Message("debugger.no_object")
        raise FormatError(Message("debugger.ops_file", file=file.name, why=why))
    return {str(home): names for home, names in content.items()}
