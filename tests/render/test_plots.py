"""matplotlib pictures: right data on the returned axes, no window, no global state needed."""

from __future__ import annotations

import dataclasses

import matplotlib as mpl
import numpy as np
import pytest

import troubleshooter_nb as tnb

mpl.use("agg")


@pytest.fixture
def cmp():
    rng = np.random.default_rng(0)
    right = {f"layer{i}": rng.normal(size=(6, 40)) for i in range(5)}
    left = {name: array.copy() for name, array in right.items()}
    left["layer3"][:, 10:20] += 0.5
    return tnb.compare(tnb.Dump.from_arrays(left), tnb.Dump.from_arrays(right))


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def test_the_error_plot_marks_the_first_difference(cmp):
    ax = cmp.plot.errors()
    assert ax.get_title() == "First difference #3: layer3"
    assert ax.get_yscale() == "log"
    marked = [line for line in ax.lines if line.get_marker() == "x"]
    np.testing.assert_array_equal(marked[0].get_xdata(), [3])


def test_where_origins_are_known_only_they_are_crosses(cmp):
    origin = ["", "", "created", "", "carried"]
    verdict = ["identical", *["differs"] * 4]
    columns = {"origin": origin, "verdict": verdict, "max_abs_error": np.ones(5)}
    result = cmp.result.assign({k: ("pair", np.array(v)) for k, v in columns.items()})
    ax = dataclasses.replace(cmp, result=result).plot.errors()
    marked = [line for line in ax.lines if line.get_marker() == "x"]
    np.testing.assert_array_equal(marked[0].get_xdata(), [2])


def test_a_given_axes_is_drawn_into(cmp):
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()
    assert cmp.plot.errors("rel_l2_error", ax=ax) is ax
    assert ax.get_ylabel() == "rel_l2_error"


def test_the_profile_shows_the_planted_range(cmp):
    ax = cmp["layer3"].plot.profile(1)
    shaded = ax.patches[-1].get_path().get_extents(ax.patches[-1].get_patch_transform())
    assert (shaded.x0, shaded.x1) == (10, 20)
    with pytest.raises(ValueError, match="no axis 2: the tensor has 2"):
        cmp["layer3"].plot.profile(2)


@pytest.mark.parametrize("name", ["heat_map", "values", "errors"])
def test_every_picture_of_a_pair_can_be_saved(cmp, tmp_path, name):
    ax = getattr(cmp["layer3"].plot, name)()
    ax.figure.savefig(tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 1000


def test_the_waterfall_has_one_line_per_pair(cmp):
    image = cmp.plot.histograms().images[0]
    assert image.get_array().shape[0] == len(cmp)


def test_comparisons_without_any_difference_can_be_drawn():
    dump = tnb.Dump.from_arrays({"a": np.ones(3), "b": np.zeros(2)})
    cmp = tnb.compare(dump, dump)
    assert cmp.plot().get_title() == ""
    cmp.plot.histograms()


def test_a_pair_that_was_not_compared_says_so():
    cmp = tnb.compare(tnb.Dump.from_arrays({"a": np.ones(3)}), tnb.Dump.from_arrays({}))
    with pytest.raises(tnb.ReadError, match="nothing to locate"):
        cmp[0].plot.heat_map()
