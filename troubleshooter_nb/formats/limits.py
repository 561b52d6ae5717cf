"""How large a file may be, and for how much it may stand, before a reader refuses it.

A limit keeps what a person makes by hand, or a run leaves, and stops before a reader takes minutes
or all memory for one file. Each was chosen by hand: some seconds, or some hundred megabytes, for
several times the largest that was seen. The option ``limits`` multiplies all of them. What no sound
file of a format can have, such as 65 axes, stands with its reader and has no option.
"""

from __future__ import annotations

from troubleshooter_nb.messages import Message, ids_of, joined, message_of
from troubleshooter_nb.options import get_options

_MIB = 1 << 20
_RAISE = "files.raise_limit"
MOST: dict[str, int] = {
    # Tensors of one checkpoint: the largest mixtures of experts have some 100,000, 0.1 ms each.
    "tensors": 200_000,
    # Bytes that a compressed archive may stand for, where it does so by more than `BOMB_RATIO`.
    "unpacked": 1 << 30,
    "zip_directory": 256 * _MIB,  # bytes
    "pickle": 512 * _MIB,  # bytes
    # Operations of a pickle: 40 for a tensor, under 1 us each.
    "pickle_operations": 10_000_000,
    # Values of a pickle whose list, table or tuple has not ended: what nests has that many.
    "pickle_open": 500_000,
    "pickle_values": 1_000_000,  # numbers, texts and tensors
    "safetensors_header": 100_000_000,  # bytes, as the safetensors package has it
    "shard_index": 100_000_000,  # bytes
    "weight_map": 64 * _MIB,  # bytes
    "mapping": 16 * _MIB,  # bytes
    "yaml_values": 4_000_000,  # that the aliases of a yaml stand for
    "log": 64 * _MIB,  # bytes
    "log_cells": 5_000_000,  # steps times measures
    "msprobe_json": 2048 * _MIB,  # bytes
    "polygraphy_json": 1024 * _MIB,  # bytes
    "debugger_tree": 1024 * _MIB,  # bytes
    "comparison": 1024 * _MIB,  # bytes
    "printed": 256 * _MIB,  # bytes; the values of all prints are held in memory
}
# Values that compress better than this are few beside zeros. A file of ordinary size then stands
# for any size, and is held to it.
BOMB_RATIO = 100


def most(name: str) -> int:
    """A limit as it is in force here."""
    times = get_options()["limits"]
    return MOST[name] * (times if isinstance(times, int) else 1)


def beyond(name: str, what: str, count: int = 0) -> str:
    """What to say of a file that is beyond a limit: what it has, the limit, and how to raise it.

    Parameters
    ----------
    name : str
        Of the limit.
    what : str
        A message; what else to do may be a part of it.
    count : int
        What the file has, in the unit of the limit; 0 where only that it has more is known.
    """
    times = -(-count // MOST[name]) if count else 2 * most(name) // MOST[name]
    limit = Message("files.limit", most=most(name))
    return joined([what, limit, Message(_RAISE, times=times)])


def is_beyond(error: Exception) -> bool:
    """Whether an error is one of a limit: the file is as it should be, as far as was seen."""
    return _RAISE in ids_of(message_of(error))
