"""Who made a value and who reads it, as pairs, explanations and opened rows say it."""

from __future__ import annotations

import pytest

import troubleshooter_nb as tnb
from tests.analysis.runs import chain
from troubleshooter_nb.edges import Called, Neighbours
from troubleshooter_nb.render.neighbours import neighbours_line, readers_line


def calls(*names):
    return [Called(name, int(number or 0)) for name, _, number in (n.partition("#") for n in names)]


NORM = Called("layers.1.norm", 0)
BOTH = Neighbours(NORM, calls("layers.1.attn.q", "layers.1.attn.k", "layers.1.add"))
ONE = Neighbours(NORM, calls("fc"))


@pytest.mark.parametrize(
    ("found", "role", "english", "chinese"),
    [
        (
            BOTH,
            "output",
            "Made by layers.1.norm, read by layers.1.attn.q, k and layers.1.add.",
            "由 layers.1.norm 产生，被 layers.1.attn.q、k 和 layers.1.add 读取。",
        ),
        (
            BOTH._replace(maker=None),
            "input",
            "Also read by layers.1.attn.q, k and layers.1.add.",
            "还被 layers.1.attn.q、k 和 layers.1.add 读取。",
        ),
        (
            Neighbours(Called("rnn", 1, "1"), calls("fc#2")),
            "input",
            "Made by rnn #1 output 1, also read by fc #2.",
            "由 rnn #1 output 1 产生，还被 fc #2 读取。",
        ),
        (
            Neighbours(None, calls(*"abcdefg")),
            "output",
            "Read by a, b, c, d (+3).",
            "被 a、b、c、d（另有 3 个） 读取。",
        ),
        (Neighbours(NORM), "input", "Made by layers.1.norm.", "由 layers.1.norm 产生。"),
        (Neighbours(), "output", "", ""),
    ],
)
def test_a_line_names_calls_as_tables_do(found, role, english, chinese):
    for language, wanted in (("en", english), ("zh", chinese)):
        assert neighbours_line({"left": found, "right": found}, role, language) == wanted


def test_the_sides_are_told_apart_where_they_are_not_alike():
    found = {"left": ONE, "right": BOTH._replace(readers=[])}
    line = neighbours_line(found, "output", "en")
    assert line == "left: Made by layers.1.norm, read by fc. right: Made by layers.1.norm."
    # Of a format that knows nothing, nothing is said.
    assert neighbours_line(found | {"right": Neighbours()}, "output", "en") == (
        "left: Made by layers.1.norm, read by fc."
    )
    assert readers_line({"left": ONE}, "output", "en") == "Read by fc."


def test_what_is_wired_otherwise_is_said_instead():
    found = {"left": ONE, "right": ONE, "fed": (Called("a", 0), Called("split", 0, "1"))}
    assert neighbours_line(found, "input", "en") == (
        "Wired otherwise: on the left it is what a made, on the right what split output 1 made."
    )
    assert neighbours_line(found, "input", "zh") == (
        "连接方式不同：左侧为 a 的结果，右侧为 split output 1 的结果。"
    )


def test_records_without_edges_are_shown_as_ever():
    diff = tnb.compare(chain(), chain())[0]
    assert "Made by" not in repr(diff) + diff._repr_html_()


@pytest.fixture(scope="module")
def cmp():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    x, dumps = torch.randn(3, 4), []
    for offset in (0.5, 0.0):
        handle = net[0].register_forward_hook(lambda *said, by=offset: said[-1] + by)
        with tnb.record(net) as recording:
            net(x)
        handle.remove()
        dumps.append(recording.dump)
    return tnb.compare(*dumps)


@pytest.mark.torch
def test_a_pair_and_the_explanation_say_who_reads_the_difference(cmp):
    made = cmp["Module.0.Linear.forward.0.output.0"]
    assert "Read by 1." in repr(made)
    assert "Read by 1." in made._repr_html_()
    assert "Made by 0." in repr(cmp["Module.1.Tanh.forward.0.input.0"])
    explained = cmp.explain()
    assert "Read by 1." in str(explained)
    assert "Read by 1." in explained._repr_html_()
    with tnb.option_context(language="zh"):
        assert "被 1 读取。" in str(cmp.explain())


@pytest.mark.torch
def test_a_selection_knows_as_much(cmp):
    chosen = cmp.select(role="input")
    assert "Made by 0." in repr(chosen["Module.1.Tanh.forward.0.input.0"])


@pytest.mark.torch
def test_the_explorer_says_it_of_pairs_and_of_entries(cmp):
    from troubleshooter_nb.widgets.drill_down import located, located_entry
    from troubleshooter_nb.widgets.opened_row import opened_entry, opened_pair

    diff = cmp["Module.1.Tanh.forward.0.output.0"]
    said, _ = opened_pair(diff, located(diff), "en")
    assert said["neighbours"] == "Read by 2."
    dump = cmp.pairing.left
    row = dump.position("Module.1.Tanh.forward.0.input.0")
    said, _ = opened_entry(dump, row, located_entry(dump, row), "zh")
    assert said["neighbours"] == "由 0 产生。"
