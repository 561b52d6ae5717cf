"""compare(): every entry in one row, one table whoever computes it, nothing lost on the way."""

from __future__ import annotations

import os
import threading
import warnings
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.analysis import measuring
from troubleshooter_nb.dump import ArrayInMemory, Dump, Entry
from troubleshooter_nb.errors import IncompleteWarning
from troubleshooter_nb.naming import Site
from troubleshooter_nb.thresholds import FIGURES_BLOCK


def dumps(tmp_path, left, right):
    return (
        tnb.save_dump(left, tmp_path / "left", card=tnb.RunCard()),
        tnb.save_dump(right, tmp_path / "right", card=tnb.RunCard()),
    )


def noisy(rng, shape, size):
    clean = rng.normal(size=shape).astype(np.float32)
    return clean, (clean + size * rng.normal(size=shape)).astype(np.float32)


@pytest.fixture
def mixed(tmp_path):
    """Pairs of every verdict the engine can reach on stored arrays."""
    rng = np.random.default_rng(0)
    same, _ = noisy(rng, (40, 50), 0)
    close = noisy(rng, (30, 40), 1e-7)
    off = noisy(rng, (64, 32), 1e-1)
    holed = np.where(np.arange(12) == 3, np.nan, 1.0).astype(np.float32)
    left = {"a": same, "b": close[0], "c": off[0], "d": np.ones(12, np.float32), "e": same}
    right = {"a": same, "b": close[1], "c": off[1], "d": holed, "e": same[:-1]}
    left |= {"f": rng.normal(size=4000), "only_left": np.ones(3)}
    right |= {"f": rng.normal(size=4000), "only_right": np.ones((2, 2))}
    return dumps(tmp_path, left, right)


def test_every_entry_of_both_dumps_is_in_exactly_one_row(mixed):
    cmp = tnb.compare(*mixed)
    for side, dump in (("left", cmp.pairing.left), ("right", cmp.pairing.right)):
        entries = cmp.result[f"{side}_entry"].values
        assert sorted(entries[entries >= 0]) == list(range(len(dump)))


def test_the_verdicts_of_stored_arrays(mixed):
    cmp = tnb.compare(*mixed)
    found = {
        str(n): str(v)
        for n, v in zip(
            cmp.result["left_display"].values, cmp.result["verdict"].values, strict=True
        )
    }
    assert found.pop("") == "missing"
    assert found == {
        "a": "identical",
        "b": "pass",
        "c": "differs",
        "d": "nan",
        "e": "shape",
        "f": "unrelated",
        "only_left": "missing",
    }


def test_figures_agree_with_numpy_in_float64(mixed):
    cmp = tnb.compare(*mixed)
    left, right = (cmp["c"].left.values.astype(float), cmp["c"].right.values.astype(float))
    row = cmp["c"].row
    error = np.abs(left - right)
    assert float(row["max_abs_error"]) == error.max()
    # Sums of 2,048 float64 terms: 1e-12 leaves a factor of a thousand over their rounding.
    assert float(row["rmse"]) == pytest.approx(np.sqrt((error**2).mean()), rel=1e-12)
    assert float(row["rel_l2_error"]) == pytest.approx(
        np.linalg.norm(left - right) / np.linalg.norm(right), rel=1e-12
    )
    assert float(row["left_mean"]) == pytest.approx(left.mean(), rel=1e-12)
    assert int(row["max_abs_index"]) == int(error.argmax())


def test_a_large_pair_gives_the_same_table_from_threads_and_processes(tmp_path):
    rng = np.random.default_rng(1)
    # Three slices, the last one ragged, beside small pairs that share a batch.
    big = noisy(rng, 2 * measuring.SLICE + 3 * FIGURES_BLOCK + 17, 1e-3)
    small = {f"s{i}": noisy(rng, 100 + i, 1e-3) for i in range(5)}
    paths = dumps(
        tmp_path,
        {"big": big[0]} | {k: v[0] for k, v in small.items()},
        {"big": big[1]} | {k: v[1] for k, v in small.items()},
    )
    reference = tnb.compare(*paths)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        again = tnb.compare(*paths, executor=processes)
    with ThreadPoolExecutor(1) as one:
        serial = tnb.compare(*paths, executor=one)
    for other in (again, serial):
        assert other.result.identical(reference.result)
        assert other._repr_html_() == reference._repr_html_()


def test_tasks_carry_handles_and_never_arrays(mixed):
    sent = []

    class Spy(ThreadPoolExecutor):
        def submit(self, function, /, *arguments):
            sent.append(arguments)
            return super().submit(function, *arguments)

    with Spy(1) as spy:
        tnb.compare(*mixed, executor=spy)
    pieces = [
        piece for arguments in sent if isinstance(arguments[0], list) for piece in arguments[0]
    ]
    assert pieces
    for piece in pieces:
        assert not any(isinstance(value, np.ndarray) for value in vars(piece.left).values())


class Interrupting(Executor):
    """Runs the first tasks, then behaves as if the user pressed stop."""

    def __init__(self, tasks: int) -> None:
        self.left = tasks

    def submit(self, function, /, *arguments):
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        future = Future()
        future.set_result(function(*arguments))
        return future


def test_an_interrupt_keeps_what_was_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(measuring, "BATCH_PAIRS", 1)
    arrays = {f"x{i}": np.arange(10.0) + i for i in range(6)}
    paths = dumps(tmp_path, arrays, arrays)
    with pytest.warns(IncompleteWarning, match="6 pairs were not measured"):
        nothing = tnb.compare(*paths, executor=Interrupting(0))
    assert nothing.exit_code == 2
    assert set(nothing.result["reason_id"].values) == {"interrupted"}
    assert "interrupted: 6 not measured" in nothing.verdict


def test_an_interrupt_in_the_middle_keeps_the_finished_pairs(tmp_path, monkeypatch):
    monkeypatch.setattr(measuring, "BATCH_PAIRS", 1)
    arrays = {f"x{i}": np.arange(10.0) + i for i in range(6)}
    paths = dumps(tmp_path, arrays, arrays)

    def stop_after_four(done, total):
        if done >= total * 4 / 6:
            raise KeyboardInterrupt

    with pytest.warns(IncompleteWarning, match="2 of 6 pairs"):
        cmp = tnb.compare(*paths, progress=stop_after_four)
    verdicts = list(cmp.result["verdict"].values)
    assert verdicts.count("identical") == 4
    assert verdicts.count("unreadable") == 2
    assert not cmp.passed


def test_progress_counts_up_to_the_bytes_of_both_sides(mixed):
    seen = []
    cmp = tnb.compare(*mixed, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1]
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    measured = ~np.isnan(cmp.result["rel_l2_error"].values)
    sizes = cmp.pairing.left.index["size_bytes"].values[cmp.result["left_entry"].values[measured]]
    assert seen[-1][1] == 2 * sizes.sum()


def test_a_file_that_vanishes_is_a_row_with_its_name(mixed):
    left, right = tnb.open_dump(mixed[0]), tnb.open_dump(mixed[1])
    next(mixed[0].glob("c_*.npy")).unlink()
    cmp = tnb.compare(left, right)
    assert cmp["c"].verdict == "unreadable"
    assert "c_float32_2.npy" in str(cmp["c"].row["reason"].values)
    assert cmp["b"].verdict == "pass"


def test_a_damaged_file_is_a_row_and_not_the_end(mixed):
    path = next(mixed[1].glob("b_*.npy"))
    path.write_bytes(path.read_bytes()[:-100])
    cmp = tnb.compare(*mixed)
    assert cmp["b"].verdict == "unreadable"
    assert "truncated" in str(cmp["b"].row["reason"].values)
    assert cmp["c"].verdict == "differs"


def test_parameter_gradients_are_walked_from_the_loss_backwards(tmp_path):
    rng = np.random.default_rng(2)
    names = ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"]
    good = {name: rng.normal(size=8) for name in names}
    bad = good | {name: good[name] + 1 for name in names[:2]}
    left = tnb.save_dump(bad, tmp_path / "ms_grads")
    right = tnb.save_dump(good, tmp_path / "pt_grads")
    cmp = tnb.compare(left, right)
    assert list(cmp.result["left_display"].values) == names[::-1]
    assert str(cmp.first_divergence.row["left_display"].values) == "fc1.bias"


@pytest.mark.parametrize("leads", ["as computed", "as registered"])
def test_gradients_of_calls_are_walked_back_whichever_way_the_sides_save_them(leads):
    def side(paths):
        entries = [
            Entry(
                f"Module.{path}.Linear.parameters_grad.weight",
                Site("module", path, 0, "backward", "parameter", "weight"),
                ArrayInMemory(np.ones(4)),
                order=order,
            )
            for order, path in enumerate(paths)
        ]
        return Dump.from_entries(entries)

    paths = [f"layers.{number}" for number in range(4)]
    sides = side(paths[::-1]), side(paths)
    cmp = tnb.compare(*(sides if leads == "as computed" else sides[::-1]))
    assert [str(name).split(".")[2] for name in cmp.result["left"].values] == ["3", "2", "1", "0"]


def test_forward_values_are_walked_in_the_order_of_saving(tmp_path):
    good = {"z_in": np.ones(4), "a_mid": np.ones(4), "b_out": np.ones(4)}
    bad = good | {"a_mid": np.zeros(4), "b_out": np.zeros(4)}
    cmp = tnb.compare(*dumps(tmp_path, bad, good))
    assert str(cmp.first_divergence.row["left"].values).startswith("a_mid")


def test_a_missing_partner_fails_unless_it_is_expected(tmp_path):
    paths = dumps(tmp_path, {"a": np.ones(2), "b": np.ones(2)}, {"a": np.ones(2)})
    assert tnb.compare(*paths).exit_code == 2
    expected = tnb.compare(*paths, mapping=[("b_float64_1", None)])
    assert expected.passed
    assert expected.exit_code == 0


def test_comparing_nothing_is_not_a_pass(tmp_path):
    paths = dumps(tmp_path, {"a": np.ones(2)}, {"a": np.ones(2)})
    left, right = (tnb.open_dump(path).select(name="nothing") for path in paths)
    cmp = tnb.compare(left, right)
    assert len(cmp) == 0
    assert cmp.exit_code == 2
    assert "nothing was compared" in cmp.verdict
    assert "nothing was compared" in cmp._repr_html_()


def test_declaring_everything_missing_is_not_a_pass(tmp_path):
    paths = dumps(tmp_path, {"a": np.ones(2)}, {"b": np.ones(2)})
    cmp = tnb.compare(*paths, mapping=[("a_float64_0", None), (None, "b_float64_0")])
    assert not cmp.passed
    assert cmp.exit_code == 2


def test_a_pairing_of_other_dumps_is_refused(mixed, tmp_path):
    left, right = tnb.open_dump(mixed[0]), tnb.open_dump(mixed[1])
    pairing = tnb.pair_dumps(left, right)
    assert len(tnb.compare(*mixed, pairing=pairing)) == len(pairing)
    other = tnb.save_dump({"a": np.ones(2)}, tmp_path / "other")
    with pytest.raises(tnb.PairingError, match="made for another right dump"):
        tnb.compare(left, other, pairing=pairing)


def test_mappings_of_arrays_are_compared_as_they_are():
    assert tnb.compare({"a": np.ones(2)}, {"a": np.ones(2)}).passed
    with pytest.raises(TypeError, match="right takes a Dump, a path or a mapping"):
        tnb.compare({"a": np.ones(2)}, np.ones(2))


@pytest.mark.parametrize("option", [{"executor": "threads"}, {"progress": 3}])
def test_options_of_a_wrong_kind_are_named(mixed, option):
    with pytest.raises(TypeError, match=f"{next(iter(option))} takes"):
        tnb.compare(*mixed, **option)


def test_the_walk_can_be_set_where_no_name_says_gradient(tmp_path):
    good = {f"fc{i}.weight": np.full(3, float(i)) for i in range(3)}
    bad = good | {"fc0.weight": np.ones(3), "fc1.weight": np.zeros(3)}
    paths = dumps(tmp_path, bad, good)
    first = {
        walk: str(tnb.compare(*paths, walk=walk).first_divergence.row["left_display"].values)
        for walk in ("auto", "forward", "backward")
    }
    assert first == {"auto": "fc0.weight", "forward": "fc0.weight", "backward": "fc1.weight"}
    assert "walk='backward'" in tnb.compare(*paths)._repr_html_().replace("&#x27;", "'")


def test_the_side_with_numbers_decides_the_order_and_without_any_it_is_said(tmp_path):
    names = ["stem", "blocks.0", "alpha"]
    good = {name: np.ones(3) for name in names}
    bad = good | {"blocks.0": np.zeros(3), "alpha": np.zeros(3)}
    numbered = tnb.save_dump(good, tmp_path / "numbered")
    plain = tmp_path / "plain"
    plain.mkdir()
    for name, array in bad.items():
        np.save(plain / f"{name}.npy", array)
    cmp = tnb.compare(plain, numbered)
    assert str(cmp.first_divergence.row["left_display"].values) == "blocks.0"
    unnumbered = tmp_path / "unnumbered"
    unnumbered.mkdir()
    for name, array in good.items():
        np.save(unnumbered / f"{name}.npy", array)
    assert "names carry no number" in tnb.compare(plain, unnumbered)._repr_html_()
    assert "names carry no number" not in cmp._repr_html_()


def test_a_finished_pairing_and_a_mapping_exclude_each_other(mixed):
    pairing = tnb.pair_dumps(tnb.open_dump(mixed[0]), tnb.open_dump(mixed[1]))
    with pytest.raises(tnb.PairingError, match="not both"):
        tnb.compare(*mixed, pairing=pairing, mapping={"a_float32_0": "a_float32_0"})


@pytest.mark.parametrize("tolerance", [{"rtol": -1}, {"atol": float("nan")}, {"rtol": "1"}])
def test_an_impossible_tolerance_is_refused_before_anything_is_read(tolerance):
    with pytest.raises(ValueError, match="must be"):
        tnb.compare("does-not-exist", "neither", **tolerance)


def test_a_program_error_in_a_task_is_not_swallowed(mixed, monkeypatch):
    def broken(*_, **__):
        msg = "a defect"
        raise ZeroDivisionError(msg)

    monkeypatch.setattr(measuring, "measure_many", broken)
    with pytest.raises(ZeroDivisionError, match="a defect"):
        tnb.compare(*mixed)


def test_no_thread_is_left_behind(mixed):
    before = threading.active_count()
    tnb.compare(*mixed)
    assert threading.active_count() == before


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="reads /proc")
def test_anonymous_memory_stays_at_a_few_blocks(tmp_path):
    rng = np.random.default_rng(3)
    pair = noisy(rng, 16_000_000, 1e-3)
    paths = dumps(tmp_path, {"x": pair[0]}, {"x": pair[1]})
    del pair
    tnb.compare(*dumps(tmp_path / "warm", {"x": np.ones(3)}, {"x": np.ones(3)}))

    def anonymous():
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))

    start, peak = anonymous(), 0
    stop = threading.Event()

    def watch():
        nonlocal peak
        while not stop.wait(0.002):
            peak = max(peak, anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    tnb.compare(*paths)
    stop.set()
    watcher.join()
    # One side alone is 64 MB; blocks of two threads with their float64 copies are some 15 MB.
    assert (peak - start) / 1024 < 60


def test_step_and_rank_of_a_pair_are_those_of_its_entries(tmp_path):
    for side in ("left", "right"):
        for rank in (0, 1):
            for step in (0, 2):
                tnb.save_dump(
                    {"x": np.full(3, rank + step)}, tmp_path / side / f"rank{rank}" / f"step{step}"
                )
    cmp = tnb.compare(tmp_path / "left", tmp_path / "right")
    places = set(zip(cmp.result["step"].values, cmp.result["rank"].values, strict=True))
    assert places == {(0, 0), (0, 1), (2, 0), (2, 1)}
    with pytest.raises(tnb.AmbiguousEntryError, match="pair number"):
        cmp["x"]


@pytest.mark.extra
def test_distributed_workers_give_the_same_table(mixed):
    import distributed

    reference = tnb.compare(*mixed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            again = tnb.compare(*mixed, executor=client.get_executor())
    assert again.result.identical(reference.result)


def of_calls(*calls):
    """A dump of calls, in this order; one that ends in ``b`` is backward."""
    entries = []
    for order, name in enumerate(calls):
        direction = "backward" if name.endswith("b") else "forward"
        site = Site("module", name, 0, direction, "output", "0")
        source = ArrayInMemory(np.full(3, order, np.float32))
        entries.append(Entry(name, site, source, order=order))
    return Dump.from_entries(entries)


@pytest.mark.parametrize("swapped", [False, True])
def test_what_is_on_the_right_only_stands_beside_its_neighbours(swapped):
    left = of_calls("a", "b0", "c", "cb", "ab")
    right = of_calls("new", "a", "x", "y", "c", "cb", "xb", "ab", "zb")
    # The side that has more calls has other numbers, whichever side it is on.
    dumps = (right, left) if swapped else (left, right)
    result = tnb.compare(*dumps, pairing="name").result
    names = [str(n) for pair in zip(result["left"].values, result["right"].values, strict=True)
             for n in [pair[0] or pair[1]]]  # fmt: skip
    if swapped:
        assert names == ["new", "a", "b0", "x", "y", "c", "cb", "xb", "ab", "zb"]
    else:
        assert names == ["new", "a", "x", "y", "b0", "c", "cb", "xb", "ab", "zb"]


def test_a_backward_row_of_the_right_is_never_among_forward_ones():
    result = tnb.compare(of_calls("a", "b0", "c", "d"), of_calls("a", "ab"), pairing="name").result
    assert result["right"].values.tolist() == ["a", "", "", "", "ab"]


@pytest.mark.parametrize("mapping", [3, 1.5])
def test_a_mapping_that_is_none_says_what_one_is(mapping):
    with pytest.raises(TypeError, match=r"mapping takes \{left name: right name\}, a list of"):
        tnb.compare({"x": np.ones(2)}, {"x": np.ones(2)}, mapping=mapping)
