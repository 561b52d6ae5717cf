"""Executors whose workers die, or in which `compare` itself runs, cost no result and no wait."""

from __future__ import annotations

import multiprocessing
import os
import signal
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.analysis import measuring
from troubleshooter_nb.dump import Dump, Entry
from troubleshooter_nb.naming import site_of_npy_stem


class Deadly:
    """Values whose reading ends every process but the one that made them."""

    def __init__(self, array):
        self.array, self.home = array, os.getpid()
        self.shape, self.dtype, self.size_bytes = array.shape, array.dtype, array.nbytes

    def files(self):
        return ()

    def read(self, start, stop, into=None):
        if os.getpid() != self.home:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.array.reshape(-1)[start:stop]


def sides(deadly):
    rng = np.random.default_rng(0)
    right = {f"fc{n}.weight": rng.standard_normal((8, 16)) for n in range(6)}
    left = right | {"fc2.weight": right["fc2.weight"] * 2, "fc4.weight": right["fc4.weight"] + 1}
    made = []
    for arrays in (left, right):
        entries = [
            Entry(name, site_of_npy_stem(name), (Deadly if name in deadly else Plain)(values))
            for name, values in arrays.items()
        ]
        made.append(Dump.from_entries([e._replace(order=n) for n, e in enumerate(entries)]))
    return made


class Plain(Deadly):
    def read(self, start, stop, into=None):
        return self.array.reshape(-1)[start:stop]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no process can be killed so")
@pytest.mark.parametrize("deadly", [["fc0.weight"], ["fc2.weight"], ["fc5.weight"]])
def test_a_worker_that_is_killed_costs_no_row(deadly, monkeypatch):
    monkeypatch.setattr(measuring, "BATCH_PAIRS", 1)
    whole = tnb.compare(*sides([]))
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = tnb.compare(*sides(deadly), executor=pool)
    assert found.result.identical(whole.result)
    (note,) = [one for one in found.notes if one.id == "comparisons.worker_died"]
    assert 1 <= note.values["count"] <= note.values["total"] == 6


@pytest.mark.parametrize("workers", [1, 3])
def test_a_comparison_inside_its_own_executor_does_not_wait_for_itself(workers):
    whole = tnb.compare(*sides([]))
    with ThreadPoolExecutor(workers) as pool:
        tasks = [pool.submit(tnb.compare, *sides([]), executor=pool) for _ in range(workers)]
        for task in tasks:
            assert task.result(timeout=60).result.identical(whole.result)
