"""Inputs and outputs of modules that were saved by hand, told from their names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Literal

_Role = Literal["input", "output"]
_WORDS = ("inputs", "input", "outputs", "output", "in", "out")
_ENDING = re.compile(
    rf"(?s)(?P<path>.*[^./])[./](?P<word>{'|'.join(_WORDS)})(?P<slot>(?:[._][0-9]{{1,9}})*)"
)


def saved_calls(names: Iterable[str]) -> dict[str, tuple[str, _Role, str]]:
    """Module, role and slot of what forward hooks of one's own saved, as far as names tell.

    ``act.input`` and ``act.output`` are of a call of ``act``, and so are ``act.in``,
    ``act.input_0`` and ``act.output.0.1``.

    Parameters
    ----------
    names : iterable of str
        Places of all that was saved in a step, parameters included.

    Returns
    -------
    dict of str to (str, {"input", "output"}, str)
        A module is in it with its inputs and outputs, or not at all. A name that is also the
        beginning of others, as that of a module called ``out``, counts only where calls of that
        module were saved in the same way.
    """
    names = set(names)
    found: dict[str, tuple[str, _Role, str]] = {}
    for name in names:
        # The expression alone looks at every letter of every name.
        if not name.rstrip("._0123456789").endswith(_WORDS):
            continue
        if match := _ENDING.fullmatch(name):
            role: _Role = "input" if match["word"].startswith("in") else "output"
            found[name] = match["path"], role, match["slot"].strip("._").replace("_", ".") or "0"
    if not found:
        return {}
    paths = {path for path, _, _ in found.values()}
    modules = {above for name in names - found.keys() for above in _above(name)}
    roles: dict[str, set[str]] = defaultdict(set)
    for name, (path, role, _) in list(found.items()):
        if name in modules - paths:
            del found[name]
        else:
            roles[path].add(role)
    return {name: one for name, one in found.items() if len(roles[one[0]]) == len(("in", "out"))}


def _above(name: str) -> set[str]:
    return {name[: match.start()] for match in re.finditer(r"[./]", name)}
