"""What holds for every sentence of the package: read from its source, not from running it.

``python tests/messages/rules.py [part of a path ...]`` lists what breaks the rules.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from string import Formatter

import troubleshooter_nb
from troubleshooter_nb.messages import Foreign, Message
from troubleshooter_nb.messages.sentences import SENTENCES
from troubleshooter_nb.widgets.page_files import script

PACKAGE = Path(troubleshooter_nb.__file__).parent
# Commands are typed as they stand in every language.
COMMANDS = re.compile(
    r"git lfs pull|pip install [\w.\[\]']+|git lfs install|tnb notebook (list|new|run)"
)
ENGLISH = re.compile(r"(?<![\w.`/\"'=(-])[a-z]{2,}(?: [a-z]{2,}){2,}(?![\w`(=])")
SUBJECTS = {id.partition(".")[0] for id in SENTENCES}
CHINESE = re.compile(r"[\u4e00-\u9fff]")
# Functions of an id: what they put before it, and which argument it is. A dot before a method.
BY_ID = {
    "Message": ("", 0),
    "sentence": ("", 0),
    "_list": ("", 0),
    "advised": ("", 1),
    "_told": ("explanations.", 0),
    "_has": ("explanations.", 0),
    "editor_word": ("editor.", 0),
    "explorer_word": ("explorer.", 0),
    "front_end_note": ("widgets.", 0),
    ".word": ("editor.", 0),
    ".refuse": ("editor.", 0),
    ".fail": ("mappings.", 2),
}
# Of these the arguments by name, but the language, are the gaps.
WITH_GAPS = {"Message", "sentence", "_told", "editor_word", "explorer_word", ".word", ".refuse"}
# Subjects that are looked up by what stands in evidence or rows: words of any file of the package.
LOOKED_UP = {"evidence_words", "facts", "verdicts"}
# Subjects that a page gets whole, and the page.
PAGES = {"editor": "mapping_editor.js", "explorer": "explorer.js"}
# Files whose f-strings may be ids without their beginning, which it is; files whose words they use.
COMPLETED = {
    "analysis/causes/searches/rotary.py": ("evidence_words.", ()),
    "analysis/causes/tensors/limits.py": ("evidence_words.", ()),
    "analysis/declared/side.py": ("", ("analysis/declared/pairs.py",)),
    "analysis/pair_table.py": ("verdicts.", ()),
    "analysis/rows.py": ("verdicts.", ()),
    "analysis/recorded.py": ("verdicts.", ()),
    "analysis/shards/ranks.py": ("", ("analysis/shards/layouts.py",)),
    "formats/mapping_file.py": ("", ("formats/pairing_writer.py",)),
    "metrics/relations.py": ("", ("metrics/arrangements.py", "metrics/explanations.py")),
    "metrics/verdict.py": ("verdicts.", ()),
    "render/cells.py": ("", ("columns/checkpoints.py",)),
    "render/places.py": (
        "",
        (
            "analysis/axis_names.py",
            "metrics/index_sets.py",
            "analysis/token_axes.py",
        ),
    ),
    "widgets/editing/session.py": (
        "",
        ("widgets/editing/pairing_session.py", "widgets/editing/weight_map_session.py"),
    ),
    "render/explanation.py": (
        "explanations.",
        ("analysis/origin.py", "analysis/preflight.py"),
    ),
}
KNOWN = frozenset(SENTENCES)  # asked a thousand times
IDS = " ".join(SENTENCES)


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


def sentence_faults() -> list[str]:
    """What is wrong with the sentences themselves."""
    faults, said = [], dict[str, str]()
    for id, (english, chinese) in SENTENCES.items():
        # A widget gets the words of its own subject, whatever others say.
        if " " in english and id.partition(".")[0] not in ("editor", "explorer"):
            if english in said and chinese == SENTENCES[said[english]][1]:
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


def _raising(node: ast.AST) -> ast.Call | None:
    """The call with arguments that makes an error, a warning or a note of one."""
    call = node.exc if isinstance(node, ast.Raise) else node
    if not isinstance(call, ast.Call) or not call.args:
        return None
    says = getattr(call.func, "attr", "") in ("warn", "add_note")
    return call if says or isinstance(node, ast.Raise) else None


def raised_texts(path: Path) -> list[str]:
    """Errors and warnings of a file that are made of plain text."""
    faults, seen = [], set()
    # Most files raise nothing of the kind, and every function of a file is walked once more.
    calls = [call for node in _nodes(path) if (call := _raising(node))]
    if not any(_is_text(call.args[0]) or isinstance(call.args[0], ast.Name) for call in calls):
        return []
    for function in reversed(list(_functions(_nodes(path)[0]))):
        texts = {
            target.id
            for node in ast.walk(function)
            if isinstance(node, ast.Assign) and _is_text(node.value)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(function):
            call = _raising(node)
            if call is None or call.lineno in seen:
                continue
            first = call.args[0]
            if _is_text(first) or (isinstance(first, ast.Name) and first.id in texts):
                seen.add(call.lineno)
                faults.append(f"{path.relative_to(PACKAGE)}:{call.lineno}: raised with plain text")
    return faults


@cache
def _nodes(path: Path) -> list[ast.AST]:
    return [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]


@cache
def _literals(path: Path) -> set[str]:
    """The texts of a file that stand whole, none that an f-string goes on from."""
    pieces = {
        id(v) for node in _nodes(path) if isinstance(node, ast.JoinedStr) for v in node.values
    }
    return {
        node.value
        for node in _nodes(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in pieces
    }


def _patterns(node: ast.expr, words: str) -> list[str]:
    """What an expression may be; what is not said on the spot is one of the words of the file."""
    if isinstance(node, ast.Constant):
        return [re.escape(str(node.value))]
    if isinstance(node, ast.IfExp):
        return _patterns(node.body, words) + _patterns(node.orelse, words)
    if isinstance(node, ast.JoinedStr):
        return ["".join(one) for one in product(*(_patterns(v, words) for v in node.values))]
    return _patterns(node.value, words) if isinstance(node, ast.FormattedValue) else [words]


def _called(call: ast.Call) -> tuple[str, str, ast.expr | None]:
    """The function of an id that is called, what it puts before the id, and the id."""
    method = getattr(call.func, "attr", "")
    name = f".{method}" if f".{method}" in BY_ID else method or getattr(call.func, "id", "")
    before, position = BY_ID.get(name, ("", 99))
    return name, before, call.args[position] if len(call.args) > position else None


def ids_used(path: Path) -> tuple[list[str], set[str]]:
    """Faults of a file's calls by id, and the ids that it names or completes."""
    file = path.relative_to(PACKAGE).as_posix()
    literals = _literals(path)
    named = {*literals & KNOWN}
    faults = [f"{file}: no message {one!r}" for one in literals if is_wrong(one)]
    begin, others = COMPLETED.get(file, ("", ()))
    texts = literals.union(*(_literals(PACKAGE / other) for other in others))
    keys = {one.replace(" ", "_") for one in texts}
    words = "|".join(one for one in keys if re.fullmatch(r"[\w.]*", one) and one in IDS)
    words = f"(?:{words})"
    for node in _nodes(path):
        before, id = "", None
        if isinstance(node, ast.Call):
            name, before, id = _called(node)
            if path.parent.name == "messages":
                id = None
            if name in WITH_GAPS and isinstance(id, ast.Constant):
                faults += wrong_gaps(f"{file}:{node.lineno}", f"{before}{id.value}", node)
        elif isinstance(node, ast.JoinedStr):
            first = node.values[0]
            begun = first.value if isinstance(first, ast.Constant) else ""
            is_whole = begun.partition(".")[0] in SUBJECTS and "." in begun
            before, id = ("", node) if is_whole else (begin, node if begin else None)
        for pattern in _patterns(id, words) if id else ():
            found = set(filter(re.compile(re.escape(before) + pattern).fullmatch, KNOWN))
            named |= found
            is_any = pattern.endswith(words) and pattern.removesuffix(words)[-2:] in ("", r"\.")
            if not found and not is_any and (before != begin or not begin):
                faults.append(f"{file}:{node.lineno}: no message {before}{ast.unparse(id)}")
    return faults, named


def is_wrong(text: str) -> bool:
    """Whether a text is written as an id, but there is no such message."""
    subject, _, key = text.partition(".")
    shaped = subject in SUBJECTS and re.fullmatch(r"\w+", key) and key not in ("js", "css")
    return bool(shaped) and text not in KNOWN


def wrong_gaps(where: str, id: str, call: ast.Call) -> list[str]:
    """Whether a call gives other gaps than the message has."""
    given = {keyword.arg for keyword in call.keywords} - {"language"}
    if id not in SENTENCES or None in given or given == gaps_of(SENTENCES[id][0]):
        return []
    return [f"{where}: {id} is given {given}, wants {gaps_of(SENTENCES[id][0])}"]


def source_faults(only: tuple[str, ...] = ()) -> list[str]:
    """What is wrong in the package's files, those whose path holds one of the texts."""
    faults, named, literals = [], set[str](), set[str]()
    for path in PACKAGE.glob("tables/layer_*.csv"):
        named |= set(re.findall(r"layers\.\w+", path.read_text(encoding="utf-8")))
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.parent.name in ("messages", "catalogue") and path.name != "__init__.py":
            continue
        wrong, names = ids_used(path)
        named |= names
        literals |= _literals(path)
        if not only or any(part in str(path) for part in only):
            faults += wrong + raised_texts(path)
    for subject, page in PAGES.items():
        keys = re.findall(r"\w+", script(page))
        named |= {f"{subject}.{key}" for key in keys}
    named |= {f"{subject}.{text}" for subject in LOOKED_UP for text in literals}
    # What the tables of layers say is looked up by its English.
    tables = "".join(one.read_text(encoding="utf-8") for one in PACKAGE.glob("tables/*.csv"))
    tables = tables.replace('""', '"')
    named |= {id for id, both in SENTENCES.items() if id[:7] == "layers." and both[0] in tables}
    return faults + [f"{id}: never said" for id in SENTENCES if id not in named]


if __name__ == "__main__":
    print("\n".join([*sentence_faults(), *source_faults(tuple(sys.argv[1:]))]))  # noqa: T201
