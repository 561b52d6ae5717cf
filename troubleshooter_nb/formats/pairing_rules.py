"""What mapping files say, as plain records that know their lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

MappingKind = Literal["api", "cell", "data", "layer"]

# What msprobe writes where a row has no partner.
MISSING = "N/A"
# Both words for the outermost network: the newer and the older one.
ROOTS = ("TopLayer", "Cell")


@dataclass(frozen=True)
class NameRule:
    """One name for another.

    Attributes
    ----------
    line : int
        Of the file, from 1.
    left, right : str or None
        Names of rows, of ``path.Class`` or of attributes; None for a row without a partner.
    parent : str
        Class, attribute or path of what contains the attributes of a layer mapping.
    """

    line: int
    left: str | None
    right: str | None
    parent: str = ""


@dataclass(frozen=True)
class Position:
    """An argument or output on each side, from 0, with the lines and keys that say so."""

    left: int
    right: int
    lines: tuple[int, int]
    keys: tuple[str, str]


@dataclass(frozen=True)
class ApiRule:
    """One operator for another.

    Attributes
    ----------
    line : int
        Of the file, from 1.
    left, right : str
        ``{type}.{name}``, such as ``Functional.relu``.
    inputs, outputs : tuple of Position or None
        None where the file says nothing: first for first.
    lines : tuple of (int, int)
        Where the two names stand.
    """

    line: int
    left: str
    right: str
    inputs: tuple[Position, ...] | None = None
    outputs: tuple[Position, ...] | None = None
    lines: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class MappingFile:
    """The rules of a mapping file, in its order.

    Attributes
    ----------
    kind : {"api", "cell", "data", "layer"}
        ``api`` has rules in `apis`, the other kinds in `names`.
    file : str
        Base name, for messages.
    names : tuple of NameRule
    apis : tuple of ApiRule
    parents : tuple of (str, int)
        Of a layer mapping, with their lines; also those that rename nothing.
    """

    kind: MappingKind
    file: str
    names: tuple[NameRule, ...] = ()
    apis: tuple[ApiRule, ...] = ()
    parents: tuple[tuple[str, int], ...] = ()
