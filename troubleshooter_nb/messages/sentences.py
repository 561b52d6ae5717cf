"""All sentences by id: the subject, a dot and the key in the subject's file, read at its first use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType


class _Sentences(Mapping[str, tuple[str, str]]):
    """English and Chinese by id."""

    def __getitem__(self, id: str) -> tuple[str, str]:
        subject, _, key = id.partition(".")
        try:
            return of_subject(subject)[key]
        except (KeyError, ModuleNotFoundError, AttributeError):
            raise KeyError(id) from None

    def __iter__(self) -> Iterator[str]:
        for file in sorted(Path(__file__).parent.glob("*.py")):
            if (subject := file.stem) not in ("__init__", "sentences"):
                yield from (f"{subject}.{key}" for key in of_subject(subject))

    def __len__(self) -> int:
        return sum(1 for _ in self)


@cache
def of_subject(name: str) -> Mapping[str, tuple[str, str]]:
    """English and Chinese of a subject by key; KeyError or ImportError where there is none."""
    if not name.isidentifier():
        raise KeyError(name)
    return MappingProxyType(import_module(f"{__package__}.{name}").MESSAGES)


SENTENCES = _Sentences()
