"""What disks, networks and people do to files: each changes a bytearray in place."""

from __future__ import annotations


def flipped(data, rng):
    for _ in range(rng.randint(1, 4)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def truncated(data, rng):
    del data[rng.randrange(len(data)) :]


def inserted(data, rng):
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.randbytes(rng.randint(1, 40))


def deleted(data, rng):
    at = rng.randrange(len(data))
    del data[at : at + rng.randint(1, 40)]


def repeated(data, rng):
    at = rng.randrange(len(data))
    data[at:at] = bytes(data[at : at + rng.randint(1, 200)]) * rng.randint(1, 3)


def blanked(data, rng):
    at = rng.randrange(len(data))
    length = len(data[at : at + rng.randint(1, 16)])
    data[at : at + length] = bytes([rng.choice([0, 255])]) * length


def filled(data, rng):
    """0xFF over a few bytes, mostly near the ends, where lengths and places are."""
    near = min(len(data), 400)
    at = rng.choice([rng.randrange(near), len(data) - rng.randint(1, near)])
    count = min(rng.randint(1, 9), len(data) - at)
    data[at : at + count] = b"\xff" * count


ACCIDENTS = (flipped, truncated, inserted, deleted, repeated, blanked, filled)
