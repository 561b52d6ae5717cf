"""What a recording counted, without what cells that ran again had counted before."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from troubleshooter_nb.capture.recorder import Recorder

Counts = tuple[Counter[Any], ...]


class Tally:
    """Counts of a recorder, by the runs of cells they came from."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._run, self._at_begin = 0, self._counted()
        self._of_runs: dict[int, Counts] = defaultdict(_nothing)
        self._void = _nothing()
        self._told: dict[tuple[str, str], int] = {}

    def begin(self, run: int, replaced: int | None) -> None:
        """What comes is counted for another run; what the replaced one counted is void."""
        now = self._counted()
        for of_run, one, before in zip(self._of_runs[self._run], now, self._at_begin, strict=True):
            of_run.update(one - before)
        self._run, self._at_begin = run, now
        if replaced is not None:
            for void, one in zip(self._void, self._of_runs.pop(replaced), strict=True):
                void.update(one)

    def calls_of_steps(self) -> Counter[int]:
        """Number of calls, by step."""
        return self._recorder.calls_of_steps - self._void[0]

    def counts(self) -> Counter[str]:
        """Numbers of values and of gradients."""
        return self._recorder.values.counts - self._void[1]

    def layers(self) -> list[tuple[str, str, int]]:
        """Path, class and number of calls of the layers that were called."""
        void = self._void[2]
        rows = self._recorder.called_layers()
        return [(path, kind, n - void[path]) for path, kind, n in rows if n > void[path]]

    def missing(self) -> dict[tuple[str, str], int]:
        """What is missing, how often by kind and place."""
        return {key: n for key, n in self._left().items() if n}

    def news(self) -> dict[tuple[str, str], int]:
        """What is missing otherwise than it was told last, with what no longer is as 0."""
        left = self._left()
        found = {key: n for key, n in left.items() if n != self._told.get(key, 0)}
        self._told = left
        return found

    def _left(self) -> dict[tuple[str, str], int]:
        return {key: n - self._void[3][key] for key, n in self._recorder.missing.items()}

    def _counted(self) -> Counts:
        recorder = self._recorder
        layers = {path: count for path, _, count in recorder.called_layers()}
        found = recorder.calls_of_steps, recorder.values.counts, layers, recorder.missing
        return tuple(Counter(one) for one in found)


def _nothing() -> Counts:
    return Counter(), Counter(), Counter(), Counter()
