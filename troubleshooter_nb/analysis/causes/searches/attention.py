"""What attention did: scale, masks, windows, soft cap, dropout, heads, precision."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.axes import Axes
from troubleshooter_nb.analysis.causes.case import Call, Fit, Operands
from troubleshooter_nb.analysis.causes.factors import named_size
from troubleshooter_nb.analysis.causes.fits import (
    coefficient,
    half_width,
    misfit,
    noise,
    ranked,
    tells_apart,
)
from troubleshooter_nb.analysis.causes.law import Cause, Search
from troubleshooter_nb.analysis.causes.laws.softmax import SCALE
from troubleshooter_nb.analysis.causes.sampling import energies, places
from troubleshooter_nb.analysis.causes.sums import formats_for
from troubleshooter_nb.analysis.causes.tensors.measure import norm_of
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.float_formats import UNIT_FORMATS, in_format
from troubleshooter_nb.metrics.line_search import least_along
from troubleshooter_nb.metrics.operators.attention import (
    capped,
    causal,
    probabilities,
    scores,
)

# What is known of both sides where some queries are left: their places, and how many there were.
QUERY_PLACES = "query_places"
_CAPS = (math.inf, 50.0, 30.0, 20.0)
_SHARED = "neighbours share one"


@dataclass(frozen=True)
class _Case:
    """Sampled heads: products of q and k (heads, rows, keys), values (heads, keys, size).

    `rows` are the places of the queries among `queries`; `mask` is as given, of the products'
    shape.
    """

    query: np.ndarray
    key: np.ndarray
    values: np.ndarray
    target: np.ndarray
    rows: np.ndarray
    queries: int
    masks: Mapping[str, np.ndarray]
    roundoff: float
    raw: np.ndarray


def fit_attention(operands: Operands) -> list[Fit]:
    """How attention over q, k, v and perhaps a mask computed its output.

    Parameters
    ----------
    operands : Operands
        Inputs: q (items, heads, rows, size), k and v with as many heads or a part of them, mask
        that broadcasts to (items, heads, rows, keys); or q, k, v as (items, rows, heads, size),
        or without heads.

    Returns
    -------
    list of Fit
        Settings: ``scale`` with ``scale_name``, ``causal``, ``causal_corner`` (for other numbers
        of keys than of queries), ``window`` (keys that a query sees up to its own, on either side
        where later ones are seen; or "all"), ``mask`` ("used", "ignored"), ``mask_meaning``
        ("added", "true is kept", "true is dropped"), ``mask_form`` ("as given", "transposed"),
        ``softcap``,
        ``fully_masked`` (what rows without any key hold), ``kv_heads``, ``layout``,
        ``product_format``, ``operand_dtype``, ``probability_dtype``, ``drops`` ("dropout" where
        shares are zero) with ``drop_share`` and ``kept_times``, the factor of the others.
    """
    arrays = list(operands.inputs[:4]) + [None] * (4 - len(operands.inputs[:4]))
    query, key, value, mask = arrays
    if query is None or key is None or value is None:
        return []
    fits: list[Fit] = []
    for layout, turned in _layouts(query, key, value, operands):
        for heads, case in _cases(turned, mask, operands):
            fits += _case_fits(case, {**heads, "layout": layout}, operands)
    return ranked(fits)


def _layouts(
    query: np.ndarray, key: np.ndarray, value: np.ndarray, operands: Operands
) -> Iterator[tuple[str, list[np.ndarray]]]:
    """The three arrays, the output and, if known, `distance4`: items, heads, places, size."""
    arrays = [query, key, value, operands.output]
    arrays += [] if operands.distance4 is None else [operands.distance4]
    if any(values.ndim != query.ndim for values in arrays) or query.ndim not in (3, 4):
        return
    if query.ndim == 3:
        yield "without heads", [values[:, None] for values in arrays]
        return
    yield "heads first", arrays
    yield "rows first", [values.swapaxes(1, 2) for values in arrays]


def _cases(
    arrays: list[np.ndarray], mask: np.ndarray | None, operands: Operands
) -> Iterator[tuple[dict[str, Any], _Case]]:
    query, key, value, output, *distance4 = arrays
    items, heads, queries, size = query.shape
    shared, keys = key.shape[1:3]
    fits = (
        key.shape == (items, shared, keys, size)
        and value.shape[:3] == key.shape[:3]
        and output.shape == (items, heads, queries, value.shape[-1])
    )
    if not fits or heads % shared or keys > thresholds.ATTENTION_KEYS or keys < 2:
        return
    energy = distance4[0].reshape(items * heads, queries, -1).sum(-1) if distance4 else None
    kept, total = operands.known.get(QUERY_PLACES, (np.arange(queries), queries))
    for word, group in _head_groups(heads, shared):
        chosen = places(
            items * heads, thresholds.ATTENTION_HEADS, energies(energy, (items * heads, queries))
        )
        item, head = np.divmod(chosen, heads)
        rows = _some_rows(output, item, head, None if energy is None else energy[chosen])
        target = output[item[:, None], head[:, None], rows].astype(np.float64)
        if target.size < thresholds.FEWEST_OUTPUTS:
            return
        q = query[item[:, None], head[:, None], rows].astype(np.float64)
        k = key[item, group[head]].astype(np.float64)
        v = value[item, group[head]].astype(np.float64)
        masks = _masks(mask, (items, heads, queries, keys), item, head, rows)
        yield (
            {"kv_heads": word},
            _Case(q, k, v, target, kept[rows], total, masks, operands.roundoff, scores(q, k)),
        )


def _head_groups(heads: int, shared: int) -> list[tuple[str, np.ndarray]]:
    places = np.arange(heads)
    if heads == shared or shared == 1:
        return [(_SHARED, places * shared // heads)]
    return [
        (_SHARED, places * shared // heads),
        ("taken in turn", places % shared),
    ]


def _some_rows(
    output: np.ndarray, item: np.ndarray, head: np.ndarray, energy: np.ndarray | None
) -> np.ndarray:
    """Places of queries, and those of the first that are not finite or zero."""
    count = output.shape[2]
    rows = places(count, thresholds.ATTENTION_ROWS, energies(energy, (-1, count), 1))
    first = output[item[0], head[0]]
    odd = np.flatnonzero(~np.isfinite(first).all(axis=-1) | ~np.any(first != 0, axis=-1))
    return np.asarray(np.unique(np.concatenate([rows, odd[:4]])))


def _masks(
    mask: np.ndarray | None,
    shape: tuple[int, int, int, int],
    item: np.ndarray,
    head: np.ndarray,
    rows: np.ndarray,
) -> dict[str, np.ndarray]:
    """The mask at the sampled places, as given and turned; empty without one that fits."""
    if mask is None or mask.ndim < 2 or mask.ndim > 4:
        return {}
    forms = {"as given": mask}
    if shape[2] == shape[3] and mask.shape[-1] == mask.shape[-2]:
        forms["transposed"] = mask.swapaxes(-1, -2)
    taken = {}
    for word, form in forms.items():
        try:
            wide = np.broadcast_to(form, shape)
        except ValueError:
            continue
        taken[word] = wide[item[:, None], head[:, None], rows]
    return taken


def _case_fits(case: _Case, known: dict[str, Any], operands: Operands) -> list[Fit]:
    """Masks at the usual scale first; scale, cap and precision for the best of them."""
    size = case.query.shape[-1]
    usual = 1 / math.sqrt(size)
    ways = list(_mask_ways(case))
    scales = [usual, 1.0, 1 / size, *_known_scale(operands)]
    trials = [(way, scale, _residual(case, way, scale)) for way in ways for scale in scales]
    trials.sort(key=lambda trial: trial[2])
    way, scale, best = trials[0]
    enough = noise(operands.roundoff, size) * 4
    if best > enough and operands.thorough:
        windows = [(one, s) for s in scales for one in _windows(case, s)]
        trials += [(one, s, _residual(case, one, s)) for one, s in windows]
        trials.sort(key=lambda trial: trial[2])
        way, scale, best = trials[0]
    if best > enough and operands.thorough:
        fitted = _fitted_scale(case, way, scale)
        trials.append((way, fitted, _residual(case, way, fitted)))
        trials.sort(key=lambda trial: trial[2])
    fits = [
        Fit(_said(case, way, scale, size, residual, known), residual, _width(case, scale, residual))
        for way, scale, residual in trials
    ]
    if not operands.thorough:
        return fits
    way, scale, best = trials[0]
    said = fits[0].settings
    if best > enough:
        for factor in {scale, usual}:
            for cap in {*_CAPS[1:], _fitted_cap(case, way, factor)}:
                left = _residual(case, way, factor, cap=cap)
                capped_said = _said(case, way, factor, size, left, known)
                fits.append(Fit({**capped_said, "softcap": cap}, left))
    if best < thresholds.UNLIKE:
        fits += _precision_fits(case, way, scale, said)
    elif min(fit.residual for fit in fits) >= thresholds.UNLIKE:
        for one in _mask_ways(case):
            fits += _dropped_fits(case, one, usual, known)
    # A fitted scale takes up some of the rounding on the way.
    plain = next((n for n, trial in enumerate(trials) if trial[1] in scales), 0)
    if plain and best > enough and trials[plain][2] <= thresholds.FITTED_BY_CHANCE * best:
        way, scale, _ = trials[plain]
        fits += _precision_fits(case, way, scale, fits[plain].settings)
    return fits


@dataclass(frozen=True)
class _Way:
    """What is added to the scores, and what is seen of them; None for nothing and for all."""

    settings: Mapping[str, Any]
    added: np.ndarray | None = None
    seen: np.ndarray | None = None


def _mask_ways(case: _Case) -> Iterator[_Way]:
    """Every use of the mask with every causal one, those of no effect left out."""
    keys = case.raw.shape[-1]
    corners = _corners(case)
    for given in _given_masks(case):
        yield _Way({**given.settings, "causal": False, "window": "all"}, given.added, given.seen)
        for corner in corners:
            allowed = causal(case.rows, case.queries, keys, corner)
            seen = np.broadcast_to(allowed, case.raw.shape)
            if given.seen is not None:
                seen = seen & given.seen
            if allowed.all() or (given.seen is not None and np.array_equal(seen, given.seen)):
                continue
            if given.added is not None and not (given.added[~seen] > -100).any():
                continue
            corner_said = {"causal_corner": corner} if len(corners) > 1 else {}
            said = {**given.settings, "causal": True, **corner_said, "window": "all"}
            yield _Way(said, given.added, seen)


def _windows(case: _Case, scale: float) -> Iterator[_Way]:
    """Of every use of the mask, with later keys and without, the window that fits best, if any."""
    keys = case.raw.shape[-1]
    for given in _given_masks(case):
        for corner, is_causal in itertools.product(_corners(case), (True, False)):
            places = case.rows + (keys - case.queries if corner == "bottom right" else 0)
            width = _window(case, given, scale, places, is_causal=is_causal)
            if not width:
                continue
            apart = places[:, None] - np.arange(keys)
            near = (apart < width) & (apart >= 0 if is_causal else apart > -width)
            seen = np.broadcast_to(near, case.raw.shape)
            seen = seen if given.seen is None else seen & given.seen
            has_corner = is_causal and len(_corners(case)) > 1
            yield _Way(
                {
                    **given.settings,
                    "causal": is_causal,
                    **({"causal_corner": corner} if has_corner else {}),
                    "window": width,
                },
                given.added,
                seen,
            )


def _window(case: _Case, given: _Way, scale: float, places: np.ndarray, *, is_causal: bool) -> int:
    """The window by the sampled queries with the most keys; 0 where one of them sees all of them.

    `places`: of the queries among the keys.
    """
    keys = case.raw.shape[-1]
    reach = places + 1 if is_causal else np.maximum(places + 1, keys - places)
    reach = np.where((places >= 0) & (places < keys), reach, 0)
    found = 0
    # What a mask hides behind a window says nothing of it: of several queries the longest.
    for row in np.argsort(-reach, kind="stable")[: thresholds.WINDOW_QUERIES].tolist():
        width = _window_of(case, given, scale, row, (int(places[row]), int(reach[row])), is_causal)
        if not width:
            return 0
        found = max(found, width)
    return found


def _window_of(
    case: _Case, given: _Way, scale: float, row: int, at: tuple[int, int], is_causal: bool
) -> int:
    """The smallest window that gives a query; 0 where none does but that of all its keys.

    `at`: its place among the keys, and how many a window may have.
    """
    (place, most), keys = at, case.raw.shape[-1]
    few = slice(0, thresholds.WINDOW_HEADS)
    added = 0.0 if given.added is None else given.added[few, row]
    scores_ = scale * case.raw[few, row] + added
    scores_ = scores_ if given.seen is None else np.where(given.seen[few, row], scores_, -np.inf)
    top = scores_.max(-1, keepdims=True)
    if most < 2 or not np.isfinite(top).all():
        return 0
    # Sums up to every key: those of a window are the difference of two of them.
    powers = np.exp(scores_ - top)
    sums = np.cumsum(np.pad(powers, ((0, 0), (1, 0))), 1)
    mixed = np.cumsum(np.pad(powers[..., None] * case.values[few], ((0, 0), (1, 0), (0, 0))), 1)
    widths = np.arange(1, most + 1)
    first = np.maximum(place + 1 - widths, 0)
    last = np.full(most, place + 1) if is_causal else np.minimum(place + widths, keys)
    target = case.target[few, row, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        formula = (mixed[:, last] - mixed[:, first]) / (sums[:, last] - sums[:, first])[..., None]
        apart = np.sqrt(np.square(formula - target).sum((0, 2)) / np.square(target).sum())
    apart = np.where(np.isfinite(apart), apart, np.inf)
    best = float(apart.min())
    near = apart <= best + case.roundoff
    return 0 if best > thresholds.UNLIKE or near[-1] else int(widths[np.argmax(near)])


def _corners(case: _Case) -> list[str]:
    return ["top left"] if case.raw.shape[-1] == case.queries else ["top left", "bottom right"]


def _given_masks(case: _Case) -> Iterator[_Way]:
    ways = []
    for form, mask in case.masks.items():
        if form != "as given" and np.array_equal(mask, case.masks["as given"]):
            continue
        said = {"mask": "used", "mask_form": form}
        if np.isin(mask, (0, 1)).all():
            kept = mask.astype(bool)
            ways.append(_Way({**said, "mask_meaning": "true is kept"}, seen=kept))
            ways.append(_Way({**said, "mask_meaning": "true is dropped"}, seen=~kept))
        if mask.dtype.kind != "b" and np.any(mask != 0):
            added = mask.astype(np.float64)
            ways.append(_Way({**said, "mask_meaning": "added"}, added=added))
    ways = [way for way in ways if way.seen is None or not way.seen.all()]
    yield from ways
    # Also where there is none, and where it hides nothing.
    yield _Way({"mask": "ignored"})


def _output(case: _Case, way: _Way, scale: float, cap: float = math.inf) -> np.ndarray:
    with np.errstate(invalid="ignore", over="ignore"):
        bent = capped(scale * case.raw, cap)
        bent = bent if way.added is None else bent + way.added
        return np.asarray(probabilities(bent, way.seen) @ case.values)


def _residual(case: _Case, way: _Way, scale: float, cap: float = math.inf) -> float:
    """Over rows that see something; other rows say what is written there, not how."""
    return _held(case, way, _output(case, way, scale, cap))


def _held(case: _Case, way: _Way, formula: np.ndarray) -> float:
    blind = np.isnan(formula).all(axis=-1)
    hidden = _blind(way)
    blind = blind if hidden is None else blind | hidden
    if blind.all():
        return math.inf
    return misfit(case.target[~blind], formula[~blind], case.roundoff)


def _blind(way: _Way) -> np.ndarray | None:
    """Rows all of whose keys are masked; None where nothing is masked."""
    seen = way.seen
    if seen is None and way.added is not None:
        seen = way.added > -1e3
    return None if seen is None else np.asarray(~seen.any(axis=-1))


def _fitted_scale(case: _Case, way: _Way, start: float) -> float:
    """The scale of the smallest residual, within a factor of 20 of the start."""

    def left(scale: float) -> float:
        return _residual(case, way, scale)

    return least_along(left, start / 20.0, start * 20.0, steps=25, rounds=40)


def _fitted_cap(case: _Case, way: _Way, scale: float) -> float:
    """The cap of the smallest residual, rounded where that is as good."""

    def left(cap: float) -> float:
        return _residual(case, way, scale, cap=cap)

    ends = thresholds.LEAST_CAP, thresholds.LARGEST_CAP
    cap = least_along(left, *ends, steps=16, rounds=25)
    rounder = float(f"{cap:.2g}")
    return rounder if abs(rounder - cap) < 0.01 * cap else float(f"{cap:.4g}")


def _said(
    case: _Case, way: _Way, scale: float, size: int, residual: float, known: dict[str, Any]
) -> dict[str, Any]:
    width = _width(case, scale, residual)["scale"]
    value, name = named_size(scale, size, max(2 * width / scale, 1e-4))
    said = {"scale": value, "scale_name": name, **way.settings, **known}
    blind = _blind_rows(case, way)
    if blind is not None:
        said["fully_masked"] = blind
    return {**said, "softcap": "none", **_STANDARD}


_STANDARD = {
    "product_format": "exact",
    "operand_dtype": "as stored",
    "score_dtype": "as stored",
    "probability_dtype": "as stored",
    "drops": "no dropout",
    "drop_share": 0.0,
    "kept_times": 1.0,
}


def _width(case: _Case, scale: float, residual: float) -> dict[str, float]:
    # The output moves with the scale less than in proportion: the width is at least this.
    return {"scale": half_width(scale, residual, case.roundoff)}


def _blind_rows(case: _Case, way: _Way) -> str | None:
    """What rows without any key hold; None where there are none, or something else."""
    blind = _blind(way)
    if blind is None or not blind.any():
        return None
    target = case.target[blind]
    if np.isnan(target).all():
        return "nan"
    if not np.isfinite(target).all():
        return None
    if not np.any(target):
        return "zero"
    head = np.nonzero(blind)[0]
    uniform = case.values.mean(axis=1)[head]
    # A large finite number added to all scores alike changes none of the probabilities.
    plain = _output(case, _Way({}), 1 / math.sqrt(case.query.shape[-1]))[blind]
    for word, guess in (("uniform", uniform), ("as if unmasked", plain)):
        if misfit(target, guess, case.roundoff) < thresholds.UNLIKE:
            return word
    return None


def _precision_fits(case: _Case, way: _Way, scale: float, said: Mapping[str, Any]) -> Iterator[Fit]:
    """Operands, or probabilities, rounded before a product."""
    tried = [np.nan_to_num(_output(case, way, scale))]
    for name in formats_for(case.roundoff):
        rounded = replace(
            case,
            raw=scores(case.query, case.key, operands=name),
            values=in_format(case.values, name),
        )
        formula = _output(rounded, way, scale)
        unit = name in UNIT_FORMATS
        form = {"product_format": name.partition(" ")[0]} if unit else {"operand_dtype": name}
        filled = np.nan_to_num(formula)
        if all(tells_apart(filled, other, case.roundoff) for other in tried):
            tried.append(filled)
            yield Fit({**said, **form}, _held(rounded, way, formula))
        if not unit:
            yield from _path_fits(case, way, scale, name, said)


def _path_fits(
    case: _Case, way: _Way, scale: float, name: str, said: Mapping[str, Any]
) -> Iterator[Fit]:
    """Scores and probabilities, or one of them, rounded to a format on the way."""
    stored, before, unscaled = name, Message("evidence.before_division", format=name), "unscaled"
    whole = math.log2(scale).is_integer()
    for raw_name, shares_name in (
        (name, "as stored"),
        (name, stored),
        *([] if whole else [(unscaled, "as stored"), (unscaled, stored)]),
        ("as stored", stored),
        ("as stored", before),
    ):
        if raw_name == unscaled:
            raw = scale * in_format(case.raw, name)
        else:
            raw = in_format(scale * case.raw, raw_name)
        with np.errstate(invalid="ignore", over="ignore"):
            bent = raw if way.added is None else raw + way.added
            shares = probabilities(bent, way.seen)
            if shares_name == before:
                # Fused kernels round exp(score - largest) and divide by the sum at the end.
                top = shares.max(axis=-1, keepdims=True)
                shares = top * in_format(shares / top, name)
            elif shares_name == stored:
                shares = in_format(shares, name)
            formula = shares @ case.values
        said_of = name if raw_name == unscaled else raw_name
        path = {"score_dtype": said_of, "probability_dtype": shares_name}
        yield Fit({**said, **path}, _held(case, way, formula))


def _dropped_fits(case: _Case, way: _Way, scale: float, known: dict[str, Any]) -> Iterator[Fit]:
    """Shares some of which were zeroed, and the others multiplied by one number.

    A query that sees fewer keys than a value has numbers says what share each key had.
    """
    size = case.values.shape[-1]
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = scale * case.raw if way.added is None else scale * case.raw + way.added
        shares = np.nan_to_num(probabilities(scaled, way.seen))
    likely = shares > thresholds.LEAST_DROPPED_SHARE / shares.shape[-1]
    counts = (shares > 0).sum(-1)
    told, kept, wanted = [], [], []
    for head, row in np.argwhere((counts > 1) & (counts <= thresholds.SOLVED_KEYS * size)):
        at = shares[head, row] > 0
        mixed = shares[head, row, at, None] * case.values[head, at]
        # The shares of two keys that hold one value are not told apart.
        values = case.values[head, at]
        if np.linalg.matrix_rank(values, tol=thresholds.SAME_VALUE * norm_of(values)) < len(values):
            continue
        times = np.linalg.lstsq(mixed.T, case.target[head, row], rcond=None)[0]
        told.append(times[likely[head, row, at]])
        kept.append((mixed, times))
        wanted.append(case.target[head, row])
    found = np.concatenate(told) if told else np.zeros(0)
    large = found[found > thresholds.NO_FACTOR]
    if len(found) < thresholds.FEWEST_UNITS or not len(large):
        return
    times = float(np.median(large))
    plain = np.array([(solved > times / 2) @ mixed for mixed, solved in kept])
    target = np.array(wanted)
    times = coefficient(target, plain)
    residual = misfit(target, times * plain, case.roundoff)
    share = float(np.mean(found <= times / 2))
    if residual > thresholds.UNLIKE or not 0.0 < share < 1.0:
        return
    chance = thresholds.CHANCE_SIGMAS * math.sqrt(share * (1.0 - share) / len(found))
    implied = round(1.0 - 1.0 / times, 4) if times > 1.0 else math.nan
    doubt = half_width(times, residual, case.roundoff)
    if abs(times - 1.0) <= max(doubt, thresholds.SAME_FACTOR):
        times = 1.0
    said = {**_said(case, way, scale, case.query.shape[-1], residual, known), "drops": "dropout"}
    is_usual = abs(implied - share) <= chance
    dropped = {"drop_share": implied if is_usual else share, "kept_times": times}
    uncertainty = {"drop_share": doubt if is_usual else chance, "kept_times": doubt}
    yield Fit({**said, **dropped}, residual, uncertainty)


def _known_scale(operands: Operands) -> list[float]:
    known = operands.known.get("scale")
    return [float(known)] if isinstance(known, (int, float)) and known else []


def fit_attention_module(operands: Operands) -> list[Fit]:
    """How a whole module of attention heads computed its output.

    Parameters
    ----------
    operands : Operands
        Inputs: query, key, value; parameters ``in_proj_weight``, ``in_proj_bias``,
        ``out_proj.weight``, ``out_proj.bias``. Without them nothing is said.

    Returns
    -------
    list of Fit
        As `fit_attention`, with ``heads``.
    """
    known, x = operands.parameters, operands.inputs[:1]
    packed, last = known.get("in_proj_weight"), known.get("out_proj.weight")
    if packed is None or last is None or not x or x[0] is None or operands.output.ndim != 3:
        return []
    width = packed.shape[1]
    sources = [operands.inputs[min(n, len(operands.inputs) - 1)] for n in range(3)]
    if any(source is None or source.shape[-1] != width for source in sources):
        return []
    bias = known.get("in_proj_bias", np.zeros(3 * width))
    after = known.get("out_proj.bias", np.zeros(width))
    projected = [
        np.asarray(source, np.float64) @ packed[n * width : (n + 1) * width].T.astype(np.float64)
        + bias[n * width : (n + 1) * width]
        for n, source in enumerate(sources)
        if source is not None and source.size <= 1 << 21
    ]
    # Undoing the last projection leaves what the heads gave, where it can be undone well.
    last = np.asarray(last, np.float64)
    is_square = last.shape == (width, width) and bool(np.isfinite(last).all())
    if len(projected) < 3 or not is_square or np.linalg.cond(last) > 1e4:
        return []
    output = operands.output.astype(np.float64) - after
    inner = _undone(last, output)
    noise = np.random.default_rng(0).standard_normal(output.shape) * np.abs(operands.output)
    sizes = norm_of(inner) * norm_of(noise)
    grown = norm_of(_undone(last, noise)) * norm_of(output) / sizes if sizes else 1.0
    grown = max(grown, 1.0) if math.isfinite(grown) else 1.0
    distance4 = operands.distance4
    if distance4 is not None:
        # The last projection spreads what a head did over all features.
        distance4 = np.broadcast_to(distance4.sum(-1, keepdims=True), inner.shape)
    inside = replace(
        operands, output=inner, distance4=distance4, roundoff=grown * operands.roundoff
    )
    # As rounding of the output leaves it.
    fits = _module_fits(inside, projected)
    return [replace(fit, residual=fit.residual / grown) for fit in fits]


def _undone(last: np.ndarray, output: np.ndarray) -> np.ndarray:
    """What a projection made an output of, same shape."""
    rows = output.reshape(-1, output.shape[-1])
    return np.asarray(np.linalg.solve(last, rows.T).T.reshape(output.shape))


def _module_fits(operands: Operands, projected: list[np.ndarray]) -> list[Fit]:
    inner = operands.output
    width = inner.shape[-1]
    asked = operands.known.get("num_heads")
    counts = [asked] if isinstance(asked, int) else [n for n in range(1, 33) if width % n == 0]
    fits: list[Fit] = []
    for axes in ("items first", "rows first"):
        arrays = [*projected, inner, *([] if operands.distance4 is None else [operands.distance4])]
        if axes == "rows first":
            arrays = [values.swapaxes(0, 1) for values in arrays]
        for count in counts:
            split = [a.reshape(*a.shape[:2], count, -1).swapaxes(1, 2) for a in arrays]
            heads = replace(
                operands,
                inputs=split[:3],
                parameters={},
                output=split[3],
                distance4=split[4] if len(split) > 4 else None,
            )
            for fit in fit_attention(heads):
                if fit.settings["layout"] == "heads first":
                    # The usual scale follows from how many there are.
                    said = {"heads": count, **fit.settings, "layout": axes}
                    fits.append(replace(fit, settings=said))
    return ranked(fits)


_CAUSES: dict[str, Cause] = {
    "scale": SCALE,
    "softcap": "attention_scale",
    "causal": "mask_missing",
    "mask": "mask_missing",
    "causal_corner": "mask_shape",
    "window": "attention_window",
    "mask_form": "mask_shape",
    "mask_meaning": "mask_value",
    "fully_masked": "mask_value",
    "kv_heads": "grouped_heads",
    "heads": "argument_order",
    "layout": "argument_order",
    "product_format": "tf32",
    "operand_dtype": "low_precision_cast",
    "score_dtype": "softmax_precision_path",
    "probability_dtype": "softmax_precision_path",
    "drops": "eval_train_mode",
    "drop_share": "dropout_keep_prob",
    "kept_times": "dropout_keep_prob",
}


def _parts(call: Call) -> Iterator[Axes]:
    """Items, heads where all have keys of their own, and queries; heads or rows may come first."""
    shapes = [one.shapes[1] or () for one in (*call.inputs[:4], call.outputs[0])]
    if len(shapes) < 4 or not 3 <= len(shapes[0]) <= 4:
        return
    heads_first = ["items", "heads", "{}", "{}"]
    orders = {3: [["items", "{}", "{}"]], 4: [heads_first, ["items", "{}", "heads", "{}"]]}
    for order in orders[len(shapes[0])]:
        own = order.index("heads") if "heads" in order else None
        is_shared = own is not None and len(shapes[1]) == 4 and shapes[0][own] != shapes[1][own]
        spaced = " ".join(order)
        shared = spaced.replace("heads", "shared") if is_shared else spaced
        operands = [
            spaced.format("queries", "size"),
            shared.format("keys", "size"),
            shared.format("keys", "width"),
        ]
        if len(call.inputs) > 3:
            operands.append(_mask_axes(shapes[3], shapes[0], own))
        made = spaced.format("queries", "width")
        cut = {"items": 0, **({} if own is None or is_shared else {"heads": 0}), "queries": 0}
        axes = Axes.of(f"{', '.join(operands)} -> {made}", **cut)
        yield replace(axes, tells={"queries": QUERY_PLACES})


def _mask_axes(mask: tuple[int, ...], query: tuple[int, ...], heads: int | None) -> str:
    """The axes of a mask that is spread to items, heads, queries and keys."""
    names = ["items", *(["heads"] if len(mask) == 4 else []), "queries", "keys"][-len(mask) :]
    sizes = {"items": query[0], "heads": query[heads] if heads is not None else 1}
    return " ".join(
        "1" if size == 1 and sizes.get(name, 0) != 1 else name
        for name, size in zip(names, mask, strict=False)
    )


_EXAMPLES = tuple(
    Axes.of(", ".join([order] * 3) + f" -> {order}", items=0)
    for order in ("items places features", "places items features")
)
ATTENTION = Search(
    words=("scaleddotproductattention", "flashattentionscore", "npufusionattention"),
    fit=fit_attention,
    causes=_CAUSES,
    plain_first=True,
    axes=(_parts,),
)
ATTENTION_MODULE = Search(
    words=("multiheadattention",),
    fit=fit_attention_module,
    causes=_CAUSES,
    plain_first=True,
    axes=_EXAMPLES,
)
SEARCHES = (ATTENTION, ATTENTION_MODULE)
