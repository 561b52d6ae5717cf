"""The verdicts of msprobe's comparisons: whether two tensors agree, and what a call made worse."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from troubleshooter_nb.compat.msprobe.compare.differences import percentage
from troubleshooter_nb.compat.msprobe.compare.metrics import UNKNOWN, UNMATCHED, ZERO
from troubleshooter_nb.compat.msprobe.compare.releases import Release
from troubleshooter_nb.compat.msprobe.compare.rows import Mode, Row
from troubleshooter_nb.compat.msprobe.compare.values import NOTHING, Value, is_number
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.floats import dtype_from_token

YES, NO, NONE, WARNING, DIFFERENT = "Yes", "No", "None", "Warning", "Different"
PASS, WARN, ERROR = "pass", "warning", "error"
# Those that say that all is well, and that something is wrong, of all releases.
PASSING = (YES, PASS, "")
FLAGGED = (NO, WARNING, DIFFERENT, "Unmatched", WARN, ERROR)

# Where the numbers come from: msprobe 1.2.2, 8.3.3 and 26.2.0, spec of their tables.
COSINE, _LOW_COSINE, SMALL, _LARGE = 0.99, 0.9, 0.001, 1.0
_RELATIVE = 0.5
_GOOD_RATIO, _BAD_RATIO = 0.9, 0.1
_GOOD_COSINE, _COSINE_DROP = 0.9, 0.1
_SMALL_NORM, _LARGE_NORM, _GROWTH, _FROM_NOTHING = 0.1, 0.5, 10.0, 0.1
_UNCHECKED = frozenset(
    "empty numpy to __setitem__ empty_with_format new_empty new_empty_strided empty_strided".split()
)
_OUTPUTS_ONLY = frozenset(
    "_reduce_scatter_base _all_gather_base all_to_all_single batch_isend_irecv".split()
)
_RENAMED = ("qkv", "gate_up")
_LEVELS = (NOTHING, PASS, WARN, ERROR)


def judge(rows: Sequence[Row], release: Release, mode: Mode, *, is_torch: bool) -> None:
    """Enter the verdict of every row, by the rules of a release.

    Parameters
    ----------
    rows : sequence of Row
        Of whole calls, in the order of the table.
    release : Release
    mode : {"tensor", "statistics", "md5"}
    is_torch : bool
        Whether the target has torch's names: the rule of statistics is another for MindSpore.
    """
    if release.verdicts == "current":
        _judge_current(rows, mode)
        return
    for row in rows:
        if mode == "tensor":
            row.verdict = classic_verdict(row)
        elif mode == "md5":
            row.verdict = _classic_digest(row)
        else:
            row.verdict = _classic_statistics(row, needs_all=not is_torch)


def classic_verdict(row: Row) -> str:
    """Yes or No of two tensors; ``None`` where there is nothing to tell."""
    if row.trouble == "places":
        return NO
    return tensor_verdict(row.metric("Cosine"), row.metric("MaxAbsErr"))


def tensor_verdict(cosine: float | str, largest: float | str) -> str:
    """The classic verdict of two figures.

    Parameters
    ----------
    cosine, largest : float or str
        Of the columns ``Cosine`` and ``MaxAbsErr`` (in the tensor's unit).

    Notes
    -----
    Source: msprobe 1.2.2 and 8.3.3. Text is not looked at in a cosine that says nothing.
    """
    if cosine == UNMATCHED:
        return "Unmatched"
    if UNKNOWN in (cosine, largest):
        return NO
    if cosine == ZERO:
        return NO if not isinstance(largest, str) and largest > _LARGE else YES
    if isinstance(cosine, str) or isinstance(largest, str):
        return NONE
    if (cosine < COSINE and largest > SMALL) or cosine < _LOW_COSINE or largest > _LARGE:
        return NO
    return YES


def _classic_digest(row: Row) -> str:
    target, golden = row.sides
    if target is None or golden is None:
        return NOTHING
    if (target.is_tensor or golden.is_tensor) and not (target.checksum and golden.checksum):
        return NOTHING
    return PASS if target.checksum == golden.checksum else DIFFERENT


def _classic_statistics(row: Row, *, needs_all: bool) -> str:
    target, golden = row.sides
    if target is None or golden is None:
        return NOTHING
    pairs = list(zip(target.figures, golden.figures, strict=True))
    if not all(is_number(one) for pair in pairs for one in pair):
        return ""
    # The old rule makes no number of two infinities, whichever their signs.
    if any(math.isinf(a) and a == -b for a, b in pairs):
        return WARNING
    far = [abs(a - b) / (max(abs(a), abs(b)) + 1e-10) > _RELATIVE for a, b in pairs]
    return WARNING if (all(far) if needs_all else any(far)) else ""


def calls_of(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """The rows of one call each, as they follow one another."""
    call: list[Row] = []
    for row in rows:
        if call and row.pair.value.entry != call[0].pair.value.entry:
            yield call
            call = []
        call.append(row)
    if call:
        yield call


def _judge_current(rows: Sequence[Row], mode: Mode) -> None:
    for row in rows:
        row.verdict = PASS if row.is_matched or _is_null(row) else NOTHING
    for call in calls_of(rows):
        parts = call[0].pair.value.call
        name = parts.path if parts is not None else ""
        matched = [row for row in call if row.is_matched]
        outputs = [row for row in matched if row.pair.value.is_output]
        inputs = [row for row in matched if not row.pair.value.is_output]
        for row in call:
            _judge_alone(row, mode)
        if name in _UNCHECKED:
            continue
        if name in _OUTPUTS_ONLY:
            inputs = []
        _judge_call(inputs, outputs, mode)


def _judge_alone(row: Row, mode: Mode) -> None:
    """What is said of a row whatever it meets: that it could not be read, or has no partner."""
    if row.problem:
        row.verdict = ERROR
    elif not row.is_matched and mode == "md5":
        _judge_digest(row)
    elif not row.is_matched and _is_new_nonfinite(row):
        _raise(row, ERROR, "msprobe_compare.nonfinite")


def _judge_call(inputs: Sequence[Row], outputs: Sequence[Row], mode: Mode) -> None:
    both = [*inputs, *outputs]
    if mode == "md5":
        for row in both:
            _judge_digest(row)
        return
    for row in both:
        if _is_new_nonfinite(row):
            _raise(row, ERROR, "msprobe_compare.nonfinite")
    if mode == "tensor":
        for row in both:
            if row.trouble == "places":
                _raise(row, ERROR, "msprobe_compare.other_places")
        _judge_ratios(inputs, outputs)
    for row in both:
        _judge_facts(row)
    if mode == "tensor":
        _judge_cosines(inputs, outputs)
    else:
        _judge_norms(inputs, outputs)


def _raise(row: Row, level: str, id: str) -> None:
    """The row's verdict is at least this; the message says why."""
    row.notes.append(Message(id))
    row.verdict = max(row.verdict, level, key=_LEVELS.index)


def _judge_digest(row: Row) -> None:
    digests = [one.checksum if one else "" for one in row.sides]
    if all(digests) and digests[0] != digests[1]:
        _raise(row, ERROR, "msprobe_compare.other_digest")
    elif not all(digests) and not _is_null(row):
        _raise(row, WARN, "msprobe_compare.one_digest")


def _is_null(row: Row) -> bool:
    """Whether no side has anything, such as a gradient that is not needed."""
    return all(one is None or one.dtype == "None" for one in row.sides)


def _is_new_nonfinite(row: Row) -> bool:
    target, golden = row.pair.target, row.pair.golden
    return _is_nonfinite(target) and not _is_nonfinite(golden)


def _is_nonfinite(value: Value | None) -> bool:
    return value is not None and any(
        is_number(one) and not math.isfinite(one) for one in value.figures[:2]
    )


def _judge_ratios(inputs: Sequence[Row], outputs: Sequence[Row]) -> None:
    name = "One Thousandth Err Ratio"
    before, after = _numbers(inputs, name), _numbers(outputs, name)
    if after and min(before, default=1.0) > _GOOD_RATIO and min(after) < _BAD_RATIO:
        _raise(_marked(outputs, name), ERROR, "msprobe_compare.ratio_fell")


def _judge_cosines(inputs: Sequence[Row], outputs: Sequence[Row]) -> None:
    before, after = _numbers(inputs, "Cosine"), _numbers(outputs, "Cosine")
    first = min(before, default=1.0)
    if after and first > _GOOD_COSINE and first - min(after) > _COSINE_DROP:
        _raise(_marked(outputs, "Cosine"), WARN, "msprobe_compare.cosine_fell")


def _marked(outputs: Sequence[Row], name: str) -> Row:
    """The row that says it: the first output, as in the old tool, unless nothing differs there."""
    if outputs[0].number("MaxAbsErr") != 0:
        return outputs[0]
    known = [row for row in outputs if row.number(name) is not None]
    return min(known, key=lambda row: row.number(name) or 0.0)


def _judge_norms(inputs: Sequence[Row], outputs: Sequence[Row]) -> None:
    before = max((_norm_error(row) for row in inputs), default=math.nan)
    errors = [_norm_error(row) for row in outputs]
    known = [error for error in errors if not math.isnan(error)]
    if not known or math.isnan(before):
        return
    if before < _SMALL_NORM:
        for row, error in zip(outputs, errors, strict=True):
            if error > _LARGE_NORM:
                _raise(row, ERROR, "msprobe_compare.norm_far")
    grown = max(known) > (_GROWTH * before if before else _FROM_NOTHING)
    if grown:
        worst = max(range(len(outputs)), key=lambda k: -1.0 if math.isnan(errors[k]) else errors[k])
        is_same = not any(outputs[0].differences)
        _raise(outputs[worst if is_same else 0], WARN, "msprobe_compare.norm_grew")


def _norm_error(row: Row) -> float:
    return percentage(row.differences[-1]) if row.differences else math.nan


def _judge_facts(row: Row) -> None:
    target, golden = row.pair.target, row.pair.golden
    assert target is not None
    assert golden is not None
    if target.is_process_group != golden.is_process_group:
        return
    flags = target.requires_grad, golden.requires_grad
    # MindSpore says nothing of it: unknown is not otherwise.
    if flags[0] != flags[1] and NOTHING not in flags:
        _raise(row, ERROR, "msprobe_compare.other_flag")
    if not target.is_tensor and not row.pair.value.is_output and target.figures != golden.figures:
        _raise(row, ERROR, "msprobe_compare.other_scalar")
    renamed = any(word in golden.name for word in _RENAMED)
    if not renamed and not _same_dtype(target.dtype, golden.dtype):
        _raise(row, ERROR, "msprobe_compare.other_dtype")
    if target.shape != golden.shape:
        _raise(row, ERROR, "msprobe_compare.other_shape")


def _same_dtype(target: str, golden: str) -> bool:
    """Whether two spellings mean one dtype: ``Float32`` and ``torch.float32``."""
    if target == golden:
        return True
    tokens = [text.rpartition(".")[2].lower() for text in (target, golden)]
    try:
        return dtype_from_token(tokens[0]) == dtype_from_token(tokens[1])
    except ValueError:
        return tokens[0] == tokens[1]


def _numbers(rows: Iterable[Row], name: str) -> list[float]:
    return [number for row in rows if (number := row.number(name)) is not None]
