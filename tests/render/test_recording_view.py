"""What notebooks show of a recording, of what it lacks, and of where overflow starts."""

from __future__ import annotations

import html
import os
import re
from pathlib import Path

import pytest

from tests.render.test_reprs import HOSTILE, KEPT_PROPERTIES, KEPT_TAGS, parsed
from troubleshooter_nb.capture.overflow import classify
from troubleshooter_nb.options import get_options
from troubleshooter_nb.render.missing_words import KINDS, MissingRow
from troubleshooter_nb.render.overflow_view import overflow_html, overflow_text
from troubleshooter_nb.render.recording_view import (
    missing_html,
    missing_text,
    ranges_text,
    recording_html,
    recording_text,
)

SNAPSHOTS = Path(__file__).parents[1] / "snapshots"
NAN = float("nan")
MISSING = [
    MissingRow("compiled", ("net.body", "net.head"), 2),
    MissingRow("raised", ("net.mlp",), 1, "ValueError"),
    MissingRow("not_called", tuple(f"blocks.{i}.drop" for i in range(9)), 9),
]


def recording(**more):
    return {
        **get_options(),
        **{"label": "torch_run", "framework": "torch", "state": "stopped", "where": "torch_run"},
        **{"level": "module", "keep": "tensor", "steps": [0, 5, 10], "ranks": [0], "calls": 1234},
        **{"values": 300, "gradients": 120, "size_bytes": 1.6e9, "missing": MISSING[:1]},
        **{"layers": [("", "Net", 3), ("fc", "Linear", 3)], "card": {"framework": "torch"}},
        **{"notes": ["a remark"], "next": "tnb.compare(rec.dump, other)"},
        **more,
    }


def row(kind="starts", **more):
    return {
        **{"step": 3, "call": 17, "path": "blocks.2.attn", "layer": "Attention"},
        **{"direction": "forward", "kind": kind, "slot": "0", "dtype": "float16"},
        **{"nan_count": 0, "inf_count": 12, "size": 512, "max_abs": 6e4, "share_of_limit": 0.916},
        **{"stack": "", "inside": "", "source": "", "unmeasured": 0},
        **more,
    }


def watched(**more):
    return {**get_options(), "calls": 1234, "values": 300, "steps": range(10), **more}


def many_rows(count):
    kinds = ("passed_on", "recovered", "near_limit")
    rows = [row(kinds[i % 3], call=i, path=f"layers.{i}.part") for i in range(count)]
    rows[-1] = row("starts", call=count, path="the.last")
    return rows


def pages(language="en", ascii=False):
    o = {"language": language, "ascii": ascii}
    names = tuple(f"encoder.layers.{i}.self_attn.bias" for i in range(3000))
    every = [MissingRow(kind, names, 3000, "detail") for kind in KINDS]
    layers = [(f"layers.{i}", "Linear", i) for i in range(9000)]
    states = ("running", "paused", "stopped", "not started", "broken")
    for state in states:
        facts = recording(state=state, missing=every, layers=layers, steps=range(0, 9000, 7), **o)
        yield f"recording {state}", recording_html(facts), recording_text(facts)
    bare = {**get_options(), **o}
    yield "bare", recording_html(bare), recording_text(bare)
    yield "missing", missing_html(every, bare), missing_text(every, bare)
    yield "nothing missing", missing_html([], bare), missing_text([], bare)
    for count in (1, 12, 3000):
        rows, facts = many_rows(count), watched(**o)
        yield f"overflow {count}", overflow_html(rows, facts), overflow_text(rows, facts)
    for kind in ("starts", "passed_on", "recovered", "saturated", "near_limit"):
        facts = watched(**o)
        yield kind, overflow_html([row(kind)], facts), overflow_text([row(kind)], facts)
        facts |= {"nonfinite_steps": range(0, 10, 3), "missing": every, "state": "running"}
        rows = [row(kind, times=4000, last_step=9, direction="backward")]
        yield f"{kind} of steps", overflow_html(rows, facts), overflow_text(rows, facts)
    for facts in (watched(**o), bare, bare | {"state": "not started"}):
        yield "no rows", overflow_html([], facts), overflow_text([], facts)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_page_is_bounded_and_keeps_what_untrusted_notebooks_keep(language):
    for name, page, text in pages(language):
        assert len(page.encode()) <= 150_000, name
        tags = parsed(page)
        assert tags.tags <= KEPT_TAGS, name
        assert tags.attributes <= {"style", "class", "scope", "open"}, name
        for style in tags.styles:
            properties = {part.split(":")[0].strip() for part in style.split(";") if part}
            assert properties <= KEPT_PROPERTIES, (name, style)
        lines = text.splitlines()
        assert len(lines) <= 25, name
        assert max(map(len, lines)) <= 100, name


def test_the_same_facts_give_the_same_bytes():
    assert [*pages()] == [*pages()]


def test_ascii_text_has_ascii_only():
    for name, _, text in pages(ascii=True):
        assert text.isascii(), (name, [c for c in text if not c.isascii()])


def test_names_are_escaped_and_control_characters_made_visible():
    facts = recording(
        label=HOSTILE,
        where=HOSTILE,
        missing=[MissingRow(HOSTILE, (HOSTILE,), 1, HOSTILE)],
        layers=[(HOSTILE, HOSTILE, 1)],
        notes=[HOSTILE],
        next=HOSTILE,
        card={HOSTILE: HOSTILE},
    )
    rows = [row(path=HOSTILE, layer=HOSTILE, stack=HOSTILE, inside=HOSTILE, dtype=HOSTILE)]
    drawn = [
        (recording_html(facts), recording_text(facts)),
        (missing_html(facts["missing"], facts), missing_text(facts["missing"], facts)),
        (overflow_html(rows, watched()), overflow_text(rows, watched())),
    ]
    for page, text in drawn:
        assert "<img src=x" not in page
        assert "onerror=alert(1)>" not in page.replace(html.escape(HOSTILE), "")
        assert "\x1b" not in text
        assert "\\x1b" in text


def test_what_comes_first_is_told_of_the_step_it_was_in():
    rows = [row("passed_on", step=1, source="0"), row("starts", step=4, path="later")]
    facts = watched(nonfinite_steps=[1, 4])
    text = overflow_text(rows, facts)
    assert text.startswith("◇ Inf comes in with input 0 of blocks.2.attn")
    assert "not finite in 2 of 10 steps (1, 4) · all finite again after step 4" in text
    assert "only gradients" not in text
    assert overflow_text(rows[::-1], facts).startswith("◇ Inf comes in")


def test_the_innermost_frames_are_those_that_are_shown():
    frames = [f"File a.py, line {n}, in f{n}, \n call({n})" for n in range(30)]
    page = overflow_html([row(stack="\n".join(frames))], watched())
    assert "in f0," in page
    assert "in f29," not in page


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ([], ""),
        ([3], "3"),
        ([4, 3], "3–4"),
        (range(4000), "0–3999"),
        (range(0, 51, 10), "0–50 by 10"),
        ([0, 1, 2, 7, 20, 30, 40], "0–2, 7, 20–40 by 10"),
        ([1, 10, 100, 1000, 10_000, 100_000], "1, 10, 100, 1000, 2 more"),
        ([2, 2, 2], "2"),
    ],
)
def test_whole_numbers_are_told_as_runs(numbers, said):
    assert ranges_text(numbers) == said


def test_a_recording_says_what_it_holds_lacks_and_what_to_do_next():
    lines = recording_text(recording()).splitlines()
    assert lines[0] == (
        "Recording 'torch_run' · ✓ recorded · 3 steps (0–10 by 5) · 1,234 calls · 300 values · "
        "120 gradients"
    )
    assert lines[1] == "  torch · level module · keeps tensor · in the folder torch_run · 1.6 GB"
    assert lines[2] == "  note: a remark"
    assert lines[3] == "  ▲ not recorded: 2 places, 1 cause"
    assert lines[4].startswith("    ▲ ran compiled: what is inside was not seen ×2: net.body")
    assert lines[5:7] == ["  (whole net)  Net ×3", "  fc           Linear ×3"]
    assert lines[-1] == "  next: tnb.compare(rec.dump, other)"


def test_a_recording_of_nothing_does_not_claim_that_nothing_is_missing():
    for draw in (recording_text, recording_html):
        assert "nothing is missing" in draw(recording(missing=[]))
        assert "nothing is missing" not in draw(recording(missing=[], calls=0))
    assert "nothing recorded yet" in recording_text(get_options())


def test_ranks_are_told_where_there_are_several():
    assert "rank" not in recording_text(recording())
    assert "8 ranks (0–7)" in recording_text(recording(ranks=range(8)))
    assert "1 rank (3)" in recording_text(recording(ranks=[3]))


def test_the_worst_that_is_missing_stands_open_and_with_its_cure():
    page = missing_html(MISSING, get_options())
    assert page.count("<details open>") == 3
    assert "<code>tnb.record(net, compiled=&quot;eager&quot;)</code>" in page
    assert "blocks.8.drop" in page  # below the line that counts them
    assert "6 more" in page
    many = [MissingRow(kind, ("a",)) for kind in KINDS]
    assert "<details open>" not in missing_html(many, get_options())


def test_frozen_parameters_count_only_where_nothing_else_is_missing():
    frozen = MissingRow("parameter_without_gradient", ("a", "b"), 80)
    assert missing_text([frozen], get_options()).startswith("○ not recorded: 80 places, 1 cause")
    text = missing_text([frozen, *MISSING], get_options())
    assert text.startswith("✗ not recorded: 12 places, 3 causes")
    assert "is a parameter without a gradient ×80: a, b" in text


def test_text_that_leaves_kinds_out_says_where_they_are():
    every = [MissingRow(kind, ("a",)) for kind in KINDS]
    last = missing_text(every, get_options()).splitlines()[-1]
    assert re.fullmatch(r"  \.\.\. \d+ more: rec\.missing\.to_dataframe\(\)", last)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "✗ Inf starts in blocks.2.attn (Attention), step 3"),
        ({"nan_count": 2}, "✗ NaN/Inf starts in blocks.2.attn (Attention), step 3"),
        ({"direction": "backward"}, "✗ Inf starts in the backward of blocks.2.attn (Attention)"),
        (
            {"path": "Functional.softmax", "layer": "softmax", "inside": "attn"},
            "✗ Inf starts in Functional.softmax in attn, step 3",
        ),
        (
            {"kind": "passed_on", "source": "1"},
            "◇ Inf comes in with input 1 of blocks.2.attn (Attention), step 3: no recorded call",
        ),
        (
            {"kind": "passed_on", "source": "parameters.weight"},
            "◇ Inf is in the parameter weight of blocks.2.attn (Attention), step 3 already",
        ),
        (
            {"kind": "saturated"},
            "▲ no NaN or Inf; blocks.2.attn (Attention), step 3 is at the largest finite float16",
        ),
        (
            {"kind": "near_limit", "share_of_limit": 0.5},
            "▲ no NaN or Inf; blocks.2.attn (Attention), step 3 comes nearest to the limit of "
            "float16: 50.00% of 65,504",
        ),
    ],
)
def test_the_headline_says_where_it_starts(given, said):
    text = overflow_text([row(**given)], watched())
    assert " ".join(text.split()).startswith(said)
    assert html.escape(said) in overflow_html([row(**given)], watched())


def test_the_start_is_in_the_headline_whatever_comes_before_it():
    rows = many_rows(3000)
    assert overflow_text(rows, watched()).startswith("✗ Inf starts in the.last (Attention)")
    assert "the.last" in overflow_text(rows, watched()).splitlines()[-2]
    assert "2,800 more" in overflow_html(rows, watched())


def test_no_rows_say_what_was_watched_and_nothing_watched_is_no_relief():
    text = overflow_text([], watched())
    assert text == (
        "✓ no NaN, no Inf, nothing near the limit of its dtype\n"
        "  watched: 1,234 calls, 300 values, 10 steps (0–9)"
    )
    for draw in (overflow_text, overflow_html):
        unseen = draw([], get_options())
        assert "nothing was watched" in unseen
        assert "no NaN" not in unseen


def test_inputs_that_were_not_measured_are_not_called_finite():
    assert "its inputs were finite" in overflow_text([row()], watched())
    text = overflow_text([row(unmeasured=2)], watched())
    assert "2 of its inputs were not measured" in text
    assert "finite" not in text.splitlines()[1]


def test_columns_that_hold_nothing_are_left_out():
    near = row("near_limit", inf_count=0)
    assert "not finite" not in overflow_html([near], watched())
    assert "of limit" in overflow_html([near], watched())
    unknown = row(max_abs=NAN, share_of_limit=NAN)
    assert "of limit" not in overflow_html([unknown], watched())


def test_rows_of_a_classified_stream_are_drawn():
    figures = {"slot": "0", "dtype": "float16", "min": -1.0, "max": 1.0, "size": 4}
    figures |= {"nan_count": 0, "inf_count": 0}
    call = {"step": 0, "call": 0, "path": "fc", "layer": "Linear", "direction": "forward"}
    call |= {"parent": None, "inputs": [figures], "outputs": [figures | {"nan_count": 1}]}
    rows = classify([call])
    assert overflow_text(rows, watched()).startswith("✗ NaN starts in fc (Linear), step 0")
    assert "1 NaN / 4" in overflow_html(rows, watched())


@pytest.mark.parametrize("name", ["recording", "missing", "overflow"])
def test_the_html_is_the_one_in_the_snapshot(name):
    rows = [row(stack="File a.py, line 3\n    h = x @ y"), row("passed_on", call=18, nan_count=3)]
    drawn = {
        "recording": lambda: recording_html(recording()),
        "missing": lambda: missing_html(MISSING, get_options()),
        "overflow": lambda: overflow_html(rows, watched()),
    }
    text = re.sub(r"<style>.*?</style>", "<style>...</style>\n", drawn[name]())
    text = re.sub(r"(</(?:p|tr|summary|details|table|div|thead)>)", r"\1\n", text)
    path = SNAPSHOTS / f"{name}.html"
    if os.environ.get("UPDATE_SNAPSHOTS") == "1":
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")
