"""What is done to the bytes of a file: accidents, and what someone does on purpose."""

from __future__ import annotations

import re

from tests.formats.accidents import ACCIDENTS

_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
_TEXTS = (
    *(b"0", b"-1", b"1", b"2147483648", b"4294967295", b"18446744073709551616", b"9" * 30),
    *(b"9" * 5000, b"1e308", b"1e999", b"-0.0", b"NaN", b"null", b'"8"', b"[]", b"{}", b"true"),
)
_WORDS = [0, 1, 3, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1]


def spliced(data, rng):
    """A piece of the file over another place of it."""
    length = rng.randint(1, max(len(data) // 4, 1))
    piece = _piece(data, rng, length)
    at = rng.randrange(len(data))
    data[at : at + rng.choice([0, length])] = piece


def swapped(data, rng):
    """Two pieces of one length in each other's place."""
    length = rng.randint(1, max(len(data) // 4, 1))
    one, other = (rng.randrange(max(len(data) - length, 1)) for _ in range(2))
    if abs(one - other) >= length:
        first = bytes(data[one : one + length])
        data[one : one + length] = data[other : other + length]
        data[other : other + length] = first


def renumbered(data, rng):
    """A number of a text is another one, or none."""
    found = list(_NUMBER.finditer(data))
    if found:
        match = rng.choice(found)
        data[match.start() : match.end()] = rng.choice(_TEXTS)


def reworded(data, rng):
    """A number of a header that is no text, of 2, 4 or 8 bytes."""
    size = min(rng.choice([2, 4, 8]), len(data))
    at = rng.randrange(len(data) - size + 1)
    at -= at % size if rng.random() < 0.5 else 0
    word = rng.choice(_WORDS) % (1 << 8 * size)
    data[at : at + size] = word.to_bytes(size, rng.choice(["little", "big"]))


def nested(data, rng):
    """Brackets, as deep as a file of that size can be, or a little."""
    sign = rng.choice([b"[", b"{", b'{"a":', b"- ", b"(", b"]"])
    at = rng.randrange(len(data) + 1)
    data[at:at] = sign * rng.choice([3, 30, 3000, 30_000])


def multiplied(data, rng):
    """A piece of it some hundreds of times."""
    at = rng.randrange(len(data) + 1)
    data[at:at] = _piece(data, rng, rng.randint(1, 60)) * rng.randint(2, 400)


def _piece(data, rng, length):
    at = rng.randrange(len(data))
    return bytes(data[at : at + length])


MUTATORS = (*ACCIDENTS, spliced, swapped, renumbered, reworded, nested, multiplied)


def mutated(content, rng):
    """The content after one or a few mutations, and what they are called."""
    data, names = bytearray(content), []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        mutator = rng.choice(MUTATORS)
        if data:
            mutator(data, rng)
            names.append(mutator.__name__)
    return bytes(data), names
