"""CRC-32 of the variables of a netCDF file, each in an attribute, and of the file behind its end.

HDF5, which reads the file, may never come back from a damaged one, and looks at nothing behind its
end. So there the last line has the checksum of all before it, which is compared before HDF5 begins.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from troubleshooter_nb.errors import FormatError, check_extra
from troubleshooter_nb.formats.checksums import Part, crc_of, judged_part, unsummed
from troubleshooter_nb.formats.file_source import opened
from troubleshooter_nb.messages import Message

_SUM = "troubleshooter_nb_crc32"
_SEAL = b"\ntroubleshooter_nb_crc32 "
_SEAL_SIZE = len(_SEAL) + 9  # bytes: eight digits and the end of the line


def add_sums(path: Path) -> None:
    """Give each variable of a file, its attributes as a whole, and the file a checksum.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    import netCDF4

    with netCDF4.Dataset(path, "a") as dataset:
        named: dict[str, Any] = {"": dataset, **dataset.variables}
        for name, one in named.items():
            one.setncattr(_SUM, f"{_crc_of(name, one):08x}")
    with path.open("r+b") as file:
        end = file.seek(0, os.SEEK_END)
        seal = _seal_of(file, end)
        file.seek(end)
        file.write(seal)


def is_broken(file: BinaryIO, size: int) -> bool:
    """Whether a file is not what `add_sums` left; one without a last line of ours is not known."""
    end = max(size - _SEAL_SIZE, 0)
    file.seek(end)
    seal = file.read(_SEAL_SIZE)
    return seal.startswith(_SEAL) and seal != _seal_of(file, end)


def _seal_of(file: BinaryIO, end: int) -> bytes:
    """The last line of a file that had ended here."""
    return _SEAL + b"%08x\n" % crc_of(file, 0, end)


def checked_parts(path: Path) -> Iterator[Part]:
    """The variables of a file, each against its checksum, and the attributes of the whole.

    Raises
    ------
    FormatError
        If it is no netCDF file, or damaged where its structure is.
    ExtraMissingError
        If netCDF4 is not installed.
    """
    check_extra("netCDF4", Message("comparisons.no_netcdf"))
    import netCDF4

    with opened(path) as (file, (size, _)):
        if is_broken(file, size):
            yield judged_part(Part("", 0, size, "damaged"), is_sound=False)
            return
    try:
        with netCDF4.Dataset(path) as dataset:
            named: dict[str, Any] = {"": dataset, **dataset.variables}
            for name, one in named.items():
                size = _values_of(one).nbytes if name else 0
                part = unsummed(name or "attributes", 0, size)
                said = _attributes_of(one).get(_SUM)
                yield (
                    part if said is None else judged_part(part, said == f"{_crc_of(name, one):08x}")
                )
    except (RuntimeError, AttributeError, ValueError, IndexError) as error:
        raise FormatError(Message("checksums.netcdf", file=path.name, detail=error)) from None


def _crc_of(name: str, one: Any) -> int:
    """Of a variable its values and attributes; of the file, which has no name, its attributes."""
    attributes = {name: value for name, value in _attributes_of(one).items() if name != _SUM}
    crc = zlib.crc32(json.dumps(attributes, sort_keys=True, default=_plain).encode())
    if not name:
        return crc
    values = _values_of(one)
    if values.dtype.kind == "O":
        return zlib.crc32(json.dumps(values.tolist(), default=_plain).encode(), crc)
    return zlib.crc32(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data, crc)


def _attributes_of(one: Any) -> dict[str, Any]:
    return {name: one.getncattr(name) for name in one.ncattrs()}


def _values_of(variable: Any) -> np.ndarray:
    variable.set_auto_maskandscale(False)
    variable.set_auto_chartostring(False)
    return np.asarray(variable[...])


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)
