"""Modules cut down to the statements that some names of theirs need."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from troubleshooter_nb.messages import Message

ALL = "*"  # every public name of a module
MESSAGES = "messages"  # the package of sentences
# Names of a package are looked for in its modules, too.
Need = tuple[str, str]  # a module, by its name below the package, and a name in it


@dataclass(frozen=True)
class Statement:
    """A statement of a module, with the comment in front of it.

    `defines` are the names that it binds or changes, `names` those that it reads, `attributes`
    pairs of a name and what is asked of it, and `inner` what functions import themselves.
    """

    node: ast.stmt
    text: str
    defines: frozenset[str]
    names: frozenset[str]
    attributes: frozenset[tuple[str, str]]
    inner: tuple[ast.ImportFrom, ...]
    strings: frozenset[str]

    @property
    def is_import(self) -> bool:
        """Whether it only binds names to what other modules have."""
        return isinstance(self.node, (ast.Import, ast.ImportFrom))


class Module:
    """A module as it is written.

    Parameters
    ----------
    name : str
        Dotted, below the package; "" for the package itself.
    file : Path
    """

    def __init__(self, name: str, file: Path) -> None:
        self.name, self.is_package = name, file.name == "__init__.py"
        self.text = file.read_text(encoding="utf-8")

    @cached_property
    def statements(self) -> list[Statement]:
        """Its statements in order, without its docstring and what only type checkers read."""
        lines = self.text.splitlines()
        found = []
        end = 0  # of the statement before
        for node in ast.parse(self.text).body:
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
            start = first - 1
            while start > end and lines[start - 1].startswith("#"):
                start -= 1
            end = node.end_lineno or first
            if not _is_left_out(node):
                found.append(_statement(node, "\n".join(lines[start:end])))
        return found

    @cached_property
    def by_name(self) -> dict[str, list[Statement]]:
        """The statements that bind or change a name, by the name."""
        found: dict[str, list[Statement]] = defaultdict(list)
        for statement in self.statements:
            for name in statement.defines:
                found[name].append(statement)
        return found

    def public(self) -> list[str]:
        """Names without an underscore in front that are its own, or that it says it offers."""
        own = [name for name, of in self.by_name.items() if not of[0].is_import]
        offered = self.by_name.get("__all__", [])
        own += [name for of in offered for name in of.strings if name not in own]
        return [name for name in own if not name.startswith("_")]


def _is_left_out(node: ast.stmt) -> bool:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    is_typing = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
    is_future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
    return is_text or is_typing or is_future


def _statement(node: ast.stmt, text: str) -> Statement:
    seen = _Seen()
    seen.visit(node)
    return Statement(
        node,
        text,
        frozenset(_defined(node)),
        frozenset(seen.names),
        frozenset(seen.attributes),
        tuple(seen.inner),
        frozenset(seen.strings),
    )


def _defined(node: ast.stmt) -> Iterator[str]:
    """Names that a statement of a module binds, or whose value it changes."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
        return
    for inner in ast.walk(node):
        if isinstance(inner, ast.alias):
            yield (inner.asname or inner.name).partition(".")[0]
        elif isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            yield inner.id
        elif isinstance(inner, (ast.Subscript, ast.Attribute)) and isinstance(inner.ctx, ast.Store):
            root: ast.expr = inner
            while isinstance(root, (ast.Subscript, ast.Attribute)):
                root = root.value
            if isinstance(root, ast.Name):
                yield root.id


class _Seen(ast.NodeVisitor):
    """Collects what a statement reads; annotations, which nothing evaluates, are no part of it."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()
        self.inner: list[ast.ImportFrom] = []
        self.strings: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        self.names.add(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.value, ast.Name):
            self.attributes.add((node.value.id, node.attr))
        else:
            self.attributes.add(("", node.attr))
            self.visit(node.value)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.strings.add(node.value)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.inner.append(node)

    def visit_arg(self, node: ast.arg) -> None:
        """Only an annotation."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.target)
        if node.value is not None:
            self.visit(node.value)

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for part in (*node.decorator_list, node.args, *node.body):
            self.visit(part)

    visit_FunctionDef = visit_AsyncFunctionDef = _visit_function


@dataclass
class Kept:
    """What is kept of a module."""

    module: Module
    needed: set[str] = field(default_factory=set)
    statements: list[Statement] = field(default_factory=list)


class Needs:
    """Follows names from module to module.

    Parameters
    ----------
    package : Path
        Its folder.
    left_out : collection of str
        Modules and packages, as paths below it, of which nothing may be kept; functions that import
        them raise.
    asked_by_name : collection of str
        Modules that are imported by a name that is made at run time: of these is kept whatever is
        called as something that anything kept asks for.
    """

    def __init__(
        self,
        package: Path,
        left_out: Iterable[str],
        asked_by_name: Iterable[str],
    ) -> None:
        self.package, self.left_out = package, tuple(one.replace("/", ".") for one in left_out)
        self.kept: dict[str, Kept] = {}
        self.outside: set[str] = set()
        self._by_name = tuple(asked_by_name)
        self._mentioned: set[str] = set()
        self._strings: set[str] = set()
        self._open: list[Need] = []
        self._done: set[Need] = set()
        self._seen: set[int] = set()

    def follow(self, needs: Iterable[Need]) -> None:
        """Keep what some names need, and what that needs."""
        self._open += needs
        while self._open:
            while self._open:
                self._take(self._open.pop())
            self._open += self._mentioned_of_others()

    def _mentioned_of_others(self) -> list[Need]:
        """Names of the modules asked by name, and sentences, as far as they are mentioned."""
        found = [
            (name, one)
            for name in self._by_name
            for one in self.module(name).public()
            if one in self._mentioned
        ]
        subjects = {text.partition(".")[0] for text in self._strings if "." in text}
        found += [
            (f"{MESSAGES}.{subject}", "MESSAGES")
            for subject in sorted(subjects)
            if subject.isidentifier() and self._file(f"{MESSAGES}.{subject}") is not None
        ]
        return [need for need in found if need not in self._done]

    def sentences(self, subject: str) -> set[str] | None:
        """Keys of the sentences of a subject that are mentioned; None where one is put together."""
        of = [text for text in self._strings if text.startswith(f"{subject}.")]
        return None if f"{subject}." in of else {text.partition(".")[2] for text in of}

    def module(self, name: str) -> Module:
        """A module that is kept, or begins to be."""
        if name not in self.kept:
            file = self._file(name)
            if file is None:
                raise ModuleNotFoundError(name)
            self.kept[name] = Kept(Module(name, file))
        return self.kept[name].module

    def _file(self, name: str) -> Path | None:
        path = self.package.joinpath(*name.split(".")) if name else self.package
        found = (path / "__init__.py", path.with_suffix(".py") if name else path / "__init__.py")
        return next((file for file in found if file.is_file()), None)

    def is_left_out(self, name: str) -> bool:
        """Whether nothing of a module may be kept."""
        return any(name == one or name.startswith(f"{one}.") for one in self.left_out)

    def _take(self, need: Need) -> None:
        if need in self._done:
            return
        self._done.add(need)
        name, wanted = need
        if self.is_left_out(name):
            raise ImportError(Message("single_file.left_out", name=name, wanted=wanted))
        module = self.module(name)
        if wanted == ALL:
            self._open += [(name, one) for one in module.public()]
            return
        if wanted not in module.by_name:
            inner = f"{name}.{wanted}" if name else wanted
            if self._file(inner) is None:
                raise ImportError(Message("single_file.no_name", name=name, wanted=wanted))
            self.module(inner)
            return
        kept = self.kept[name]
        kept.needed.add(wanted)
        self._keep_lasting(module)
        for statement in module.by_name[wanted]:
            if statement.is_import:
                self._follow_import(module, statement.node, wanted)
            self._keep(module, statement)

    def _keep_lasting(self, module: Module) -> None:
        """Statements that bind nothing are there for what they do."""
        for statement in module.statements:
            if not statement.defines:
                self._keep(module, statement)

    def _keep(self, module: Module, statement: Statement) -> None:
        if id(statement) in self._seen:
            return
        self._seen.add(id(statement))
        self.kept[module.name].statements.append(statement)
        if statement.is_import:
            return
        self._strings |= statement.strings
        self._mentioned |= {attribute for _, attribute in statement.attributes}
        own = module.by_name
        self._open += [(module.name, name) for name in statement.defines]
        for name in statement.names:
            if name in own:
                self._read(module, name, None)
        for name, attribute in statement.attributes:
            if name in own:
                self._read(module, name, attribute)
        for node in statement.inner:
            target = self.target(module, node)
            if target is None:
                self.outside.add((node.module or "").partition(".")[0])
            elif not self.is_left_out(target):
                self._open += [(target, alias.name) for alias in node.names]

    def _read(self, module: Module, name: str, attribute: str | None) -> None:
        """A name is read, or something asked of what it stands for."""
        self._open.append((module.name, name))
        for statement in module.by_name[name]:
            node = statement.node
            if not isinstance(node, ast.ImportFrom):
                continue
            target = self.target(module, node)
            if target is None:
                continue
            real = next(a.name for a in node.names if (a.asname or a.name) == name)
            inner = f"{target}.{real}" if target else real
            is_module = self._file(inner) is not None and real not in self.module(target).by_name
            of_all = attribute is not None and attribute.startswith("__")  # modules have it
            if is_module and not of_all:
                self._open.append((inner, attribute or ALL))

    def _follow_import(self, module: Module, node: ast.stmt, wanted: str) -> None:
        if isinstance(node, ast.Import):
            self.outside |= {a.name.partition(".")[0] for a in node.names}
            return
        assert isinstance(node, ast.ImportFrom)
        target = self.target(module, node)
        if target is None:
            self.outside.add((node.module or "").partition(".")[0])
            return
        for alias in node.names:
            if (alias.asname or alias.name) == wanted:
                self._open.append((target, alias.name))

    def target(self, module: Module, node: ast.ImportFrom) -> str | None:
        """The module below the package that an import is of; None for those of others."""
        first, _, rest = (node.module or "").partition(".")
        return rest if first == self.package.name and not node.level else None


_OURS = re.compile(r"\bfrom troubleshooter_nb((?:\.\w+)*) import\b")


def text_of(kept: Kept, lower: Callable[[str], str]) -> str:
    """The module with what is kept of it, its imports relative."""
    module = kept.module
    level = module.name.count(".") + 1 + module.is_package if module.name else 1
    parts = ["from __future__ import annotations"]
    wanted = {id(statement) for statement in kept.statements}
    for statement in module.statements:
        if id(statement) in wanted:
            text = _pruned(statement, kept.needed) if statement.is_import else lower(statement.text)
            gap = "\n" if isinstance(statement.node, (ast.FunctionDef, ast.ClassDef)) else ""
            parts.append(gap + text)

    def relative(match: re.Match[str]) -> str:
        return f"from {'.' * level}{match[1].lstrip('.')} import"

    return _OURS.sub(relative, "\n".join(parts)) + "\n"


def _pruned(statement: Statement, needed: set[str]) -> str:
    """An import of the names that are needed."""
    node = statement.node
    assert isinstance(node, (ast.Import, ast.ImportFrom))
    names = [a for a in node.names if (a.asname or a.name).partition(".")[0] in needed]
    if isinstance(node, ast.Import):
        return ast.unparse(ast.Import(names))
    return ast.unparse(ast.ImportFrom(node.module, names, node.level))
