"""Paths of modules under the renames of a layer mapping."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from troubleshooter_nb.formats.pairing_rules import ROOTS, NameRule

_MOST_PARTS = 400


class LayerNames:
    """Renames paths attribute by attribute, each by the rules of what contains it.

    What contains an attribute is named by its path, its class, or its own attribute (a container
    has no class in a dump) on either side. An attribute without a rule keeps its name.
    """

    def __init__(self, rules: Sequence[NameRule], classes: Mapping[str, str]) -> None:
        """Index the rules.

        Parameters
        ----------
        rules : sequence of NameRule
            Of one direction: `left` is renamed to `right`.
        classes : mapping of str to str
            Class of every path that has one.
        """
        self.classes = classes
        self.rules: dict[str, dict[str, NameRule]] = defaultdict(dict)
        for rule in rules:
            self.rules[rule.parent][rule.left or ""] = rule
        self._longest = max((len((rule.left or "").split(".")) for rule in rules), default=0)

    def renamed_inside(self, inside: str, path: str) -> tuple[str, tuple[NameRule, ...]] | None:
        """The same of an operator that ran inside a module; None unless a rule names itself."""
        new, rules = self.renamed(path)
        if not rules or rules == (self.renamed(inside)[1] if inside else ()):
            return None
        return new, rules

    def renamed(self, path: str) -> tuple[str, tuple[NameRule, ...]]:
        """The path on the other side, and the rules that made it, outermost first."""
        parts = path.split(".")
        if not self.rules or len(parts) > _MOST_PARTS:
            return path, ()
        new: list[str] = []
        used: list[NameRule] = []
        at = 0
        while at < len(parts):
            rule, length = self._rule(parts, at, new[-1] if new else "")
            if rule is None:
                new.append(parts[at])
            else:
                used.append(rule)
                new += (rule.right or "").split(".")
            at += length
        return ".".join(new), tuple(used)

    def parents_of(self, prefix: str, renamed: str = "") -> Iterator[str]:
        """What a mapping may call the module of this path; the last part of its new name."""
        if not prefix:
            yield from ROOTS
            return
        yield prefix
        yield self.classes.get(prefix, "")
        yield prefix.rpartition(".")[2]
        yield renamed

    def _rule(self, parts: list[str], at: int, renamed: str) -> tuple[NameRule | None, int]:
        known = [
            self.rules[parent]
            for parent in self.parents_of(".".join(parts[:at]), renamed)
            if parent and parent in self.rules
        ]
        if known:
            for length in range(min(self._longest, len(parts) - at), 0, -1):
                key = ".".join(parts[at : at + length])
                for rules in known:
                    if key in rules:
                        return rules[key], length
        return None, 1
