"""What holds for every sentence of the package: read from its source, not from running it.

``python tests/messages/rules.py [part of a path ...]`` lists what breaks the rules.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import troubleshooter_nb
from troubleshooter_nb.messages import Foreign, Message
from troubleshooter_nb.messages.catalogue import CATALOGUE

PACKAGE = Path(troubleshooter_nb.__file__).parent
# Commands are typed as they stand in every language.
COMMANDS = re.compile(r"git lfs pull|pip install [\w.\[\]']+|git lfs install")
ENGLISH = re.compile(r"(?<![\w.`/\"'=(-])[a-z]{2,}(?: [a-z]{2,}){2,}(?![\w`(=])")
CHINESE = re.compile(r"[\u4e00-\u9fff]")
# Functions of a sentence's id, beside Message itself.
BY_ID = {"Message", "sentence", "editor_word", "explorer_word", "word", "self.word"}


def english_in(text: str) -> str:
    """The first run of three English words in a text that should be Chinese, or nothing."""
    found = ENGLISH.search(COMMANDS.sub("", text))
    return found[0] if found else ""


def english_left(message: Message) -> str:
    """What is English in the Chinese of a message, its words of others aside; or nothing."""
    text = message.told("zh")
    for words in foreign_in(message):
        text = text.replace(words, "")
    return english_in(text)


def foreign_in(value: object) -> Iterator[str]:
    """The words of others in the gaps of a message."""
    if isinstance(value, Foreign):
        yield value
    elif isinstance(value, (list, tuple, Message)):
        for one in value.values.values() if isinstance(value, Message) else value:
            yield from foreign_in(one)


def gaps_of(template: str) -> set[str]:
    """The names of the gaps of a template."""
    return {re.split(r"[.\[]", name)[0] for _, name, _, _ in Formatter().parse(template) if name}


def catalogue_faults() -> list[str]:
    """What is wrong with the catalogue itself."""
    faults, said = [], dict[str, str]()
    for id, (english, chinese) in CATALOGUE.items():
        # A widget gets the words of its own subject, whatever others say.
        if " " in english and id.partition(".")[0] not in ("editor", "explorer"):
            if english in said and chinese == CATALOGUE[said[english]][1]:
                faults.append(f"{id}: the same sentence as {said[english]}")
            said.setdefault(english, id)
        if gaps_of(english) != gaps_of(chinese):
            faults.append(f"{id}: gaps {gaps_of(english)} and {gaps_of(chinese)}")
        if CHINESE.search(english):
            faults.append(f"{id}: Chinese in the English text")
        letters = re.sub(r"\{[^}]*\}|\brank\b", "", chinese)  # which Chinese has no word for
        if (
            re.search(r"[A-Za-z]{2}", letters)
            and not CHINESE.search(letters)
            and english != chinese
        ):
            faults.append(f"{id}: no Chinese in {chinese!r}")
        if words := english_in(re.sub(r"\{[^}]*\}", "{}", chinese)):
            faults.append(f"{id}: English in the Chinese text: {words!r}")
    return faults


def _is_text(node: ast.expr) -> bool:
    """Whether an expression is words of ours that are no message."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and " " in node.value
    if isinstance(node, ast.JoinedStr):
        return any(
            isinstance(v, ast.Constant) and re.search("[a-z]{2}", v.value) for v in node.values
        )
    if isinstance(node, ast.BinOp):
        return _is_text(node.left) or _is_text(node.right)
    if isinstance(node, ast.IfExp):
        return _is_text(node.body) or _is_text(node.orelse)
    return False


def _functions(tree: ast.AST) -> Iterator[ast.AST]:
    yield tree
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def raised_texts(path: Path) -> list[str]:
    """Errors and warnings of a file that are made of plain text."""
    tree, faults = ast.parse(path.read_text(encoding="utf-8")), []
    seen = set()
    for function in reversed(list(_functions(tree))):
        texts = {
            target.id
            for node in ast.walk(function)
            if isinstance(node, ast.Assign) and _is_text(node.value)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(function):
            call = None
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                call = node.exc
            elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in (
                "warn",
                "add_note",
            ):
                call = node
            if call is None or not call.args or call.lineno in seen:
                continue
            first = call.args[0]
            if _is_text(first) or (isinstance(first, ast.Name) and first.id in texts):
                seen.add(call.lineno)
                faults.append(f"{path.relative_to(PACKAGE)}:{call.lineno}: raised with plain text")
    return faults


def ids_used(path: Path) -> tuple[list[str], set[str], set[str]]:
    """Faults of a file's calls by id, the ids it names, and the beginnings of ids it completes."""
    faults, named, begun = [], set(), set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            named.add(node.value)
        elif isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
            begun.add(node.values[0].value)
        if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Message"):
            continue
        if not node.args or not isinstance(node.args[0], ast.Constant):
            continue
        id = node.args[0].value
        where = f"{path.relative_to(PACKAGE)}:{node.lineno}"
        if id not in CATALOGUE:
            faults.append(f"{where}: no message {id!r}")
        elif all(keyword.arg for keyword in node.keywords):
            given = {keyword.arg for keyword in node.keywords}
            if given != gaps_of(CATALOGUE[id][0]):
                faults.append(f"{where}: {id} is given {given}, wants {gaps_of(CATALOGUE[id][0])}")
    return faults, named, begun


def source_faults(only: tuple[str, ...] = ()) -> list[str]:
    """What is wrong in the package's files, those whose path holds one of the texts."""
    faults, named, begun = [], set(), set()
    for path in PACKAGE.glob("tables/layer_*.csv"):
        named |= set(re.findall(r"layers\.\w+", path.read_text(encoding="utf-8")))
    for path in sorted(PACKAGE.rglob("*.py")):
        wrong, names, starts = ids_used(path)
        if path.parent.name != "messages" or path.name == "__init__.py":
            named |= names
            begun |= {start for start in starts if "." in start}
        if not only or any(part in str(path) for part in only):
            faults += wrong + raised_texts(path)
    begun = {start for start in begun if re.fullmatch(r"[a-z_]+\.\w*", start)}
    for id in CATALOGUE:
        if id not in named and not any(id.startswith(start) for start in begun):
            faults.append(f"{id}: never said")
    return faults


if __name__ == "__main__":
    print("\n".join([*catalogue_faults(), *source_faults(tuple(sys.argv[1:]))]))  # noqa: T201
