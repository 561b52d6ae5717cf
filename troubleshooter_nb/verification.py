"""Whether stored values are those that were saved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd
import xarray as xr

from troubleshooter_nb.options import get_options
from troubleshooter_nb.render.verification_view import (
    verification_html,
    verification_text,
    verification_verdict,
)


@dataclass(frozen=True, repr=False)
class Verification:
    """What `verify` found.

    Attributes
    ----------
    table : xarray.Dataset, dimension ``entry``
        ``name``; ``status``: "intact" (its checksum is right), "damaged", "no_checksum" (nothing
        says what it was) or "unread"; ``reason``; ``file``, within the path; ``size_bytes``.
        Besides tensors also what a file holds around them, where that has a checksum.
    label : str
        Last part of the path.
    notes : tuple of str
        Notes of the dump, as that a save was cut off.
    is_whole : bool
        Whether no note says that something is missing.
    """

    table: xr.Dataset
    label: str
    notes: tuple[str, ...] = ()
    is_whole: bool = True

    @property
    def exit_code(self) -> int:
        """0 all is intact, 1 something is damaged, 2 it cannot be told of something, or of all."""
        found = set(self.table["status"].values.tolist())
        if "damaged" in found:
            return 1
        return 0 if found == {"intact"} and self.is_whole else 2

    @property
    def passed(self) -> bool:
        """Whether everything is intact: what has no checksum, or was not read, does not pass."""
        return self.exit_code == 0

    @property
    def verdict(self) -> str:
        """The answer in one line."""
        return verification_verdict(self.table, self._facts())

    def __len__(self) -> int:
        """Number of rows."""
        return int(self.table.sizes["entry"])

    def to_dataset(self) -> xr.Dataset:
        """The table, a copy."""
        return self.table.copy(deep=True)

    def to_dataframe(self) -> pd.DataFrame:
        """The table with one row per entry."""
        return self.to_dataset().to_dataframe().reset_index(drop=True)

    def __repr__(self) -> str:
        """The answer, then what is damaged or cannot be told; at most 25 lines."""
        return verification_text(self.table, self._facts())

    def _repr_html_(self) -> str:
        return verification_html(self.table, self._facts())

    def _facts(self) -> dict[str, Any]:
        return {
            "label": self.label,
            "notes": self.notes,
            "exit_code": self.exit_code,
            **get_options(),
        }
