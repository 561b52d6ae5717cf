"""Facts that were measured or looked up once, as csv, and what reads them."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from importlib import resources


def rows_of(name: str) -> Iterator[dict[str, str]]:
    """The rows of a table by the names of its columns, such as of ``api_names.csv``."""
    text = resources.files(__name__).joinpath(name).read_text(encoding="utf-8")
    return iter(csv.DictReader(text.splitlines()))
