"""Small pictures: sparklines as text, tile maps as palette PNG, the error along the network."""

from __future__ import annotations

import base64
import html
import struct
import zlib
from collections.abc import Sequence

import numpy as np

from troubleshooter_nb.render.html import INKS, Markup, element

_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII_BLOCKS = "._-~=+*#"
# From almost transparent grey over gold to deep red: grows in salience on white and on black.
_STOPS = (
    (128, 128, 128, 26),
    (214, 165, 32, 120),
    (226, 110, 20, 215),
    (206, 38, 40, 255),
    (130, 10, 62, 255),
)
_SHADES = 14
_MISMATCH = (122, 111, 200, 255)
_DECADES = 4


def spark(counts: Sequence[float] | np.ndarray, *, ascii_only: bool = False) -> str:
    """One character per count, height by square root so that rare values stay visible."""
    values = np.asarray(counts, float)
    largest = values.max(initial=0.0)
    blocks = _ASCII_BLOCKS if ascii_only else _BLOCKS
    return "".join(
        (" " if ascii_only else "·")
        if not value > 0
        else blocks[min(7, int(np.sqrt(value / largest) * 7.999))]
        for value in values
    )


def level(value: float, low: float = 1e-9, high: float = 10.0) -> float:
    """Where a positive value lies between two bounds on a log scale, 0 to 1; 0 for zero."""
    if not value > 0:
        return 0.0
    if not np.isfinite(value):
        return 1.0
    return float(np.clip(np.log10(value / low) / np.log10(high / low), 0.0, 1.0))


def strip(values: Sequence[float]) -> str:
    """Errors of consecutive pairs on the common log scale, one character each."""
    return "".join(
        "·" if not value > 0 else _BLOCKS[min(7, int(level(value) * 7.999))] for value in values
    )


def decades(counts: np.ndarray, exponents: np.ndarray, *, lowest: int = -9) -> np.ndarray:
    """A histogram by powers of two, regrouped into ten decades from ``10**lowest`` up."""
    positions = np.floor(exponents * np.log10(2.0)).astype(int) - lowest
    return np.bincount(np.clip(positions, 0, 9), weights=counts, minlength=10)


def tile_map(
    maxima: np.ndarray, mismatch: np.ndarray, *, alts: tuple[str, str]
) -> tuple[Markup, Markup, float]:
    """Heat map of tile maxima on a log scale, its colour key, and the value of the palest shade.

    Parameters
    ----------
    maxima : ndarray, shape (rows, columns)
        Largest absolute error of each tile.
    mismatch : ndarray of int, same shape
        Tiles with NaN or Inf on one side only are drawn violet.
    alts : tuple of two str
        What stands for the map and for its key where no picture is shown.
    """
    largest = float(maxima.max(initial=0.0))
    floor = max(largest * 10.0**-_DECADES, 5e-324)
    with np.errstate(divide="ignore"):
        above = np.log10(np.maximum(maxima, floor)) - np.log10(floor)
    shades = np.clip(above / _DECADES * (_SHADES - 1), 0, _SHADES - 1).round().astype(np.uint8)
    if not largest:
        shades[:] = 0
    shades[mismatch > 0] = _SHADES
    ramp = _ramp()
    rows, columns = shades.shape
    scale = max(1, min(384 // columns, 192 // rows, 24))
    # A single row or a few columns are stretched to something the eye can find.
    stretch = (max(scale, 16) if rows == 1 else scale, max(scale, 8) if columns < 8 else scale)
    picture = image(shades, [*ramp, _MISMATCH], stretch, alt=alts[0])
    key = image(
        np.arange(_SHADES, dtype=np.uint8)[None, :],
        ramp,
        (9, 9),
        alt=alts[1],
    )
    return picture, key, floor if largest else 0.0


def image(
    indices: np.ndarray,
    palette: Sequence[tuple[int, int, int, int]],
    stretch: tuple[int, int],
    *,
    alt: str,
) -> Markup:
    """A palette PNG as a data URI; pixels are repeated, as a sanitiser drops image-rendering."""
    pixels = np.kron(indices, np.ones(stretch, np.uint8))
    height, width = pixels.shape
    raw = b"".join(b"\0" + line.tobytes() for line in pixels)

    def chunk(tag: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + tag + data + struct.pack(">I", zlib.crc32(tag + data))

    data = b"\x89PNG\r\n\x1a\n"
    data += chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0))
    data += chunk(b"PLTE", b"".join(bytes(colour[:3]) for colour in palette))
    data += chunk(b"tRNS", bytes(colour[3] for colour in palette))
    data += chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b"")
    return _data_image("image/png", data, width, height, alt)


def depth_chart(
    errors: Sequence[float],
    tones: Sequence[str],
    *,
    line: tuple[float, str] | None,
    first: int | None,
    first_label: str,
    labels: Sequence[tuple[int, str]],
    alt: str,
    nan: tuple[int, str] | None = None,
) -> Markup:
    """Largest error of every pair, or magnitude of every entry, in order, on a log scale.

    Parameters
    ----------
    errors : sequence of float
        One per pair; nan where nothing was measured.
    tones : sequence of str
        "ok", "bad", "warn" or "miss" per pair: drawn as dash, cross, bar and triangle.
    line : (value, text), optional
        A dashed line at this value: the tolerance, or the limit of the dtype.
    first : int, optional
        Number of the first divergence.
    labels : sequence of (pair number, text)
        Ticks of the horizontal axis.
    nan : (pair number, text), optional
        The first NaN or infinity, where it is not the first divergence.
    """
    width, height, left, right, top, bottom = 980, 170, 46, 14, 30, 22
    values = np.asarray(errors, float)
    finite = values[np.isfinite(values) & (values > 0)]
    at_line = line[0] if line is not None and 0 < line[0] < np.inf else None
    low, high = _decades_shown(finite, at_line)

    def x(i: int) -> float:
        return left + (width - left - right) * (i / max(len(values) - 1, 1))

    def y(value: float) -> float:
        share = 1.0 if np.isinf(value) else level(value, 10.0**low, 10.0**high)
        return top + (height - top - bottom) * (1 - share)

    def text(where: str, content: str) -> str:
        return f"<text {where}>{html.escape(content)}</text>"

    grey = INKS[""]
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' "
        f"width='{width}' height='{height}' font-family='sans-serif' font-size='10'>"
    ]
    for power in range(low, high + 1, max(1, (high - low) // 5)):
        at = y(10.0**power)
        parts.append(
            f"<path d='M{left} {at:.0f}H{width - right}' stroke='#888' stroke-opacity='.22'/>"
        )
        parts.append(
            text(f"x='{left - 6}' y='{at + 3:.0f}' fill='{grey}' text-anchor='end'", f"1e{power}")
        )
    for i, label in labels:
        parts.append(text(f"x='{x(i):.0f}' y='{height - 6}' fill='{grey}'", label))
    if at_line is not None and line is not None:
        at = y(at_line)
        parts.append(
            f"<path d='M{left} {at:.0f}H{width - right}' stroke='{grey}' stroke-dasharray='5 4'/>"
        )
        parts.append(text(f"x='{left + 4}' y='{at - 4:.0f}' fill='{grey}'", line[1]))
    pointers = [] if first is None else [(first, first_label, "bad", 20)]
    # A line higher, so that the two never meet.
    pointers += [] if nan is None else [(*nan, "miss", 20 if first is None else 10)]
    for i, label, name, height_of in pointers:
        at = x(i)
        anchor = "end" if at > width / 2 else "start"
        shift = -4 if anchor == "end" else 4
        parts.append(
            f"<path d='M{at:.0f} {top}V{height - bottom}' stroke='{INKS[name]}' "
            "stroke-width='1.5' stroke-dasharray='2 2'/>"
        )
        parts.append(
            text(
                f"x='{at + shift:.0f}' y='{height_of}' fill='{INKS[name]}' font-weight='700' "
                f"text-anchor='{anchor}'",
                label,
            )
        )
    known = [i for i in range(len(values)) if not np.isnan(values[i])]
    # Pairs that are equal have marks on the floor, but the line does not fall there and back.
    points = " ".join(f"{x(i):.0f},{y(values[i]):.0f}" for i in known if values[i] > 0)
    parts.append(f"<polyline points='{points}' fill='none' stroke='{grey}' stroke-opacity='.55'/>")
    marks = {
        "ok": ("M{x0:.0f} {y:.0f}h3", 3.0),
        "bad": ("M{x4:.0f} {y4:.0f}l8 8m0-8l-8 8", 2.2),
        "warn": ("M{x:.0f} {y3:.0f}v6", 1.6),
        "miss": ("M{x4:.0f} {y4:.0f}h8l-4-8z", 1.6),
    }
    for name, (mark, thickness) in marks.items():
        drawn = "".join(
            mark.format(
                x=x(i),
                x0=x(i) - 1.6,
                x4=x(i) - 4,
                y=y(values[i]),
                y3=y(values[i]) - 3,
                y4=y(values[i]) - 4,
            )
            for i in known
            if tones[i] == name
        )
        if drawn:
            parts.append(
                f"<path d='{drawn}' stroke='{INKS[name]}' stroke-width='{thickness}' fill='none'/>"
            )
    parts.append("</svg>")
    picture = "".join(parts).encode(errors="backslashreplace")  # names may hold half a character
    return _data_image("image/svg+xml", picture, width, height, alt)


def _decades_shown(values: np.ndarray, line: float | None) -> tuple[int, int]:
    """Lowest and highest power of ten of the axis: all values and the line, at most 12 decades."""
    shown = values if line is None else np.append(values, line)
    if not len(shown):
        return -8, 0
    low, high = int(np.floor(np.log10(shown.min()))), int(np.ceil(np.log10(shown.max())))
    high = max(high, low + 2)
    return max(low, high - 12), high


def _data_image(kind: str, data: bytes, width: int, height: int, alt: str) -> Markup:
    source = f"data:{kind};base64,{base64.b64encode(data).decode()}"
    return element("img", alt=alt, width=width, height=height, src=source)


def _ramp() -> list[tuple[int, int, int, int]]:
    at = np.linspace(0, len(_STOPS) - 1, _SHADES)
    channels = [
        np.interp(at, range(len(_STOPS)), [stop[channel] for stop in _STOPS]).round()
        for channel in range(4)
    ]
    return [tuple(int(c[i]) for c in channels) for i in range(_SHADES)]  # type: ignore[misc]
