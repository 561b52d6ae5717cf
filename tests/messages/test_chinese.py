"""In Chinese nothing that a person reads is left in English: every object, every page, the errors.

Names, code and what files hold stay as they are; so do the titles of columns, which are API.
"""

from __future__ import annotations

import html
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import troubleshooter_nb as tnb
from tests.analysis.runs import chain
from tests.analysis.test_engine import Interrupting
from tests.messages.rules import english_in
from tests.render.test_proofs import EVIDENCE, FIGURES, NUMBER, gaps
from troubleshooter_nb.catalogue import CAUSES
from troubleshooter_nb.dump import ArrayInMemory, Dump, Entry
from troubleshooter_nb.findings import Check, Finding
from troubleshooter_nb.messages import SENTENCES, Message, told
from troubleshooter_nb.metrics.verdict import of_both
from troubleshooter_nb.naming import Site
from troubleshooter_nb.options import option_context
from troubleshooter_nb.render.explanation import finding_parts
from troubleshooter_nb.render.words import reason_of
from troubleshooter_nb.weight_map import WeightRow

pytestmark = pytest.mark.once

DATA = Path(__file__).parents[1] / "data"
F4 = np.float32
# The words of numpy about one of the files.
FOREIGN = re.compile(
    r"EOF: reading magic string, expected \d+ bytes|the magic string is not correct"
)
# Titles of the columns of a text.
TITLES = re.compile(r" +#  verdict +max|  (block|worst at) +")
# Between these, words belong to one sentence; what stands in another element does not.
INLINE = r"</?(?:b|small|span)(?: [^>]*)?>"


@pytest.fixture(autouse=True)
def chinese():
    with option_context(language="zh"):
        yield


def visible(page):
    """The text of a page; names and code, which are their own language, are left out."""
    page = re.sub(r"<style>.*?</style>|<(samp|code)\b.*?</\1>", "\n", page, flags=re.S)
    alts = re.findall(r'(?:alt|title|placeholder|aria-label)="([^"]*)"', page)
    page = re.sub("<[^>]+>", "\n", re.sub(INLINE, "", page))
    return html.unescape("\n".join([page, *alts]))


def english(shown):
    """Every run of English words in what objects or texts say of themselves."""
    found = set()
    for one in shown:
        texts = [told(one)] if isinstance(one, str) else [repr(one)]
        if hasattr(one, "_repr_html_"):
            texts.append(visible(one._repr_html_()))
        lines = {line for text in texts for line in text.splitlines() if not TITLES.match(line)}
        found |= {english_in(FOREIGN.sub("", line)) for line in lines} - {""}
    return found


def ones(*names):
    return {name: np.ones((2, 3), F4) for name in names}


def dumps():
    """Dumps of several formats, some with entries that cannot be read and with notes."""
    yield Dump.from_arrays({"x": np.arange(6.0), "text": np.array(["a"])}, label="memory")
    values = {"nan": [1, np.nan], "inf": [np.inf, 1], "zero": [0, 0], "one": [1, 1]}
    sick = {name: np.array(value, F4) for name, value in values.items()}
    sick |= {"near": np.array([3e38, 1], F4), "far": np.array([np.finfo(F4).max, 1], F4)}
    yield Dump.from_arrays(sick, label="sick")
    yield Dump.from_arrays(sick, label="sick").summarise()
    yield Dump.from_entries([])
    places = [Entry("x", Site("file", "x"), step=step, rank=step) for step in range(3)]
    yield Dump.from_entries([*places, Entry("y", Site("file", "y"), ArrayInMemory(np.ones(2)))])


def opened():
    """What stands among the test data, or why it is no dump."""
    kinds = ("msprobe/v26_2_0", "torch_npu_hooks", "api_dump", "kernel", "troubleshooter", "torch")
    for path in sorted(path for kind in kinds for path in (DATA / kind).iterdir()):
        try:
            yield tnb.open_dump(path)
        except tnb.TroubleshooterError as error:
            yield str(error)


def test_dumps_in_memory():
    assert english(dumps()) == set()


def test_dumps_of_many_formats():
    assert english(opened()) == set()


def test_a_folder_with_damaged_files(tmp_path):
    tnb.save_dump(ones("a", "b"), tmp_path / "d")
    content = next((tmp_path / "d").glob("a*.npy")).read_bytes()
    (tmp_path / "d" / "cut_float32_10.npy").write_bytes(content[:-4])
    assert english([tnb.open_dump(tmp_path / "d")]) == set()
    np.savez(tmp_path / "d.npz", **ones("a", "b"))
    content = (tmp_path / "d.npz").read_bytes()
    (tmp_path / "e.npz").write_bytes(content.replace(b"\x93NUMPY", b"\x93NUMPX", 1))
    assert english([tnb.open_dump(tmp_path / "e.npz")]) == set()


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A comparison with many verdicts, entries that cannot be read, notes and run cards."""
    root = tmp_path_factory.mktemp("mixed")
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((64, 64)).astype(F4)
    left = {
        "same": wide,
        "pass": wide + F4(1e-6),
        "dtypes": wide.astype(np.float64) + 1e-9,
        "blind": wide * F4(1e-5),
        "off": wide + F4(0.01) * np.sign(wide),
        "short": wide.astype(np.float16).astype(F4) * F4(100),
        "other": rng.standard_normal((64, 64)).astype(F4),
        "nan": np.where(wide > 2, F4(np.nan), wide),
        "shape": np.ones(3),
        "alone": np.ones(2),
    }
    right = {name: wide for name in left} | {
        "short": wide * F4(100),
        "blind": wide * F4(2e-5),
        "extra": np.ones(9),
    }
    del right["alone"]
    paths = tnb.save_dump(left, root / "l"), tnb.save_dump(right, root / "r")
    content = next((root / "l").glob("same*.npy")).read_bytes()
    (root / "l" / "broken_float32_99.npy").write_bytes(content[:-4])
    sides = [tnb.open_dump(path) for path in paths]
    cards = {"framework": "mindspore", "seed": 1}, {"framework": "torch", "seed": 2}
    return tnb.compare(
        *(replace(d, card=tnb.RunCard(card)) for d, card in zip(sides, cards, strict=True))
    )


def comparisons():
    """Comparisons of other kinds: passed, nothing, causes found, statistics only."""
    yield tnb.compare(ones("a", "b"), ones("a", "b"))
    yield tnb.compare({}, {})
    yield tnb.compare(ones("a"), {"b": np.ones(7)})
    yield tnb.compare(chain(rounding=1), chain())
    yield tnb.compare(chain(changed={"act1": np.tanh}), chain())
    yield tnb.compare(chain(weights={"fc2": lambda weight: weight.T}), chain())
    yield tnb.compare(chain(inputs=lambda x: x + 1), chain(), diagnose=False)
    old = DATA / "msprobe" / "v26_2_0"
    yield tnb.compare(old / "mindspore" / "m_mlp_L1_tensor", old / "torch" / "t_mlp_L1_tensor")
    kinds = ("statistics", "statisticsB", "md5", "md5B", "xor", "tensor", "tensorB")
    for left, right in pairwise(kinds):
        yield tnb.compare(old / "torch" / f"t_mlp_mix_{left}", old / "torch" / f"t_mlp_mix_{right}")


def parts_of(cmp):
    return [cmp, cmp.pairing, cmp.explain(), cmp.worst(3), cmp.left_card, cmp.verdict, *cmp]


def test_comparisons_pairs_and_explanations(mixed):
    verdicts = {"identical", "pass", "differs", "unrelated", "nan", "shape", "missing"}
    assert verdicts | {"unreadable", "reduced"} <= set(mixed.result["verdict"].values)
    assert english(part for cmp in (mixed, *comparisons()) for part in parts_of(cmp)) == set()


def test_an_interrupted_comparison():
    with pytest.warns(tnb.IncompleteWarning) as caught:
        cmp = tnb.compare(ones("a", "b"), ones("a", "b"), executor=Interrupting(0))
    assert english([str(caught[0].message), cmp]) == set()


@pytest.mark.parametrize("id", [id for id in SENTENCES if id.startswith("verdicts.")])
def test_every_reason(mixed, id):
    row = {name: mixed.result[name].values[0] for name in mixed.result.data_vars}
    detail = of_both("crc32", "xor") if "_value" in SENTENCES[id][0] else "l2"
    key = id.removeprefix("verdicts.")
    if key != "of_both":
        assert english_in(told(reason_of({**row, "reason_id": key, "detail": detail}))) == ""


@pytest.mark.few(20)
@pytest.mark.parametrize("cause", sorted(CAUSES))
def test_every_cause(cause):
    one = CAUSES[cause]
    wanted = gaps(one.proof[0]) | gaps(one.repair[0])
    evidence = {name: EVIDENCE.get(name, NUMBER) for name in wanted} | FIGURES
    if "text" in wanted:
        evidence["text"] = Message("calls.turned")
    cmp = tnb.compare(chain(changed={"act1": np.tanh}), chain())
    number = int(cmp.result.attrs["first_divergence"])
    shown = []
    for given in (evidence, {**FIGURES, "left": "a", "right": "b"}, FIGURES):
        found = Finding(cause, number, 0.9, {**given, "pairs": [number]})
        told_of = replace(cmp, findings=(found,))
        shown += [told_of, told_of.explain()]
    assert english(shown) == set()


def test_every_check():
    values = {"count": 3, "equal": 2, "of": 5, "apart": 1, "alone": 1, "names": "a", "kinds": "c"}
    kinds = [
        id.removeprefix("explanations.check_").split("_")
        for id in SENTENCES
        if id.startswith("explanations.check_")
    ]
    cmp = tnb.compare(ones("a"), ones("a"))
    shown = [replace(cmp, preflight=(Check(*kind, values),)) for kind in kinds]
    assert english(shown) == set()


def test_pairings_by_hand_and_by_rule():
    left = {**ones("l.0.w", "l.1.w", "x"), "z": np.ones(5)}
    right = {**ones("l.0.w", "l.1.v"), "y": np.ones(7)}
    pairing = tnb.pair_dumps(left, right)
    expected = pairing.expect_missing("z")
    shown = [pairing, expected.pair("x", "l.1.v"), pairing.match_rest()]
    shown += [tnb.compare(pairing.left, pairing.right, pairing=expected)]
    shown += [candidate.why for name in ("x", "y") for candidate in pairing.candidates(name)]
    assert english(shown) == set()


def test_pairings_of_calls():
    old, hooks = DATA / "msprobe" / "v26_2_0", DATA / "torch_npu_hooks"
    pairs = [
        (old / "mindspore" / "m_mlp_L1_tensor", old / "torch" / "t_mlp_L1_tensor"),
        *((one / "npu.pkl", one / "bench.pkl") for one in sorted(hooks.iterdir())),
    ]
    known = [tnb.pair_dumps(*sides) for sides in pairs if all(side.exists() for side in sides)]
    assert len(known) > 1
    assert english(known) == set()


def maps(folder):
    """Weight maps that are drafted, edited, wrong, and converted."""
    source = {f"l.{i}.gamma": np.full((4, 4), i, F4) for i in range(3)}
    path = tnb.save_dump(source, folder / "a.ckpt")
    drafted = tnb.draft_weight_map(path, "torch")
    yield drafted
    target = {f"l.{i}.weight": np.full((4, 4), i, F4).T.copy() for i in range(3)}
    target["l.3.weight"] = np.ones(2, F4)
    like = tnb.save_dump(target, folder / "b.pth")
    against = tnb.draft_weight_map(path, like)
    yield against
    yield against.match_rest()
    yield against.transform("l.1.gamma", "transpose").drop("l.0.gamma")
    yield drafted.rename(pattern=(r"l\.\d\.gamma", "one.weight"))
    random = {f"f.{i}.w": np.random.default_rng(i).standard_normal((8, 8), F4) for i in range(3)}
    turned = {name: value.T.copy() for name, value in random.items()}
    one = tnb.save_dump(random, folder / "c.pth")
    other = tnb.save_dump(turned, folder / "d.ckpt")
    yield tnb.draft_weight_map(one, other)
    yield tnb.convert_weights(path, folder / "e.pth", drafted)


def test_weight_maps_and_conversions(tmp_path):
    drawn = list(maps(tmp_path))
    problems = [text for one in drawn[:-1] for text in one.problems()]
    assert english([*drawn, *problems, *(note for one in drawn for note in one.notes)]) == set()


@pytest.mark.torch
def test_maps_of_a_net_whose_layers_have_other_defaults():
    from torch import nn

    layers = [nn.Embedding(5, 4), nn.LayerNorm(4), nn.Conv1d(3, 4, 1), nn.BatchNorm1d(4)]
    layers += [nn.Dropout(), nn.LSTM(4, 4, proj_size=2), nn.MultiheadAttention(4, 2), nn.GELU()]
    for some in (layers, layers[:1], layers[4:]):
        drawn = tnb.draft_weight_map(nn.Sequential(*some), "mindspore")
        assert english([drawn, *drawn.notes]) == set()
        assert "的默认值" in tnb.messages.joined(drawn.notes).told("zh")


def test_tables_are_written_in_chinese_where_a_person_reads_them(tmp_path):
    pytest.importorskip("openpyxl")
    left, right = {"a": np.ones(3, F4), "b": np.ones(2, F4)}, {"a": np.full(3, np.nan, F4)}
    drawn = [tnb.compare(left, right), tnb.diff_checkpoints(left, right), *maps(tmp_path)]
    for one in drawn[:5]:
        text = tnb.export(one, tmp_path / "t.md").read_text("utf-8")
        sheet = pd.read_excel(tnb.export(one, tmp_path / "t.xlsx"))
        cells = [str(cell) for row in sheet.itertuples(index=False) for cell in row]
        assert [found for found in map(english_in, [*text.splitlines(), *cells]) if found] == []
    reasons = pd.read_csv(tnb.export(drawn[0], tmp_path / "t.csv"))["reason"]
    assert "nan" in reasons[0].lower()
    assert not re.search("[\u4e00-\u9fff]", "".join(map(str, reasons)))


def test_what_holds_a_sentence_shows_it_in_chinese():
    row = WeightRow(("a",), ("b",), note=Message("layers.no_bias"))
    assert "note='除非 has_bias=True，否则没有 bias 参数'" in repr(row)


def test_what_is_listed_is_set_apart_as_in_chinese():
    shown = {"form": "gelu", "forms": ["gelu, tanh form", "none"], "other": ["last", "x"]}
    finding = {"cause": "x", "pair": 1, "confidence": 1.0, "evidence": shown}
    assert (
        finding_parts(finding, "zh")[2] == "形式 gelu；候选形式 gelu，tanh 形式、无；另一项 last、x"
    )
    assert (
        finding_parts(finding, "en")[2] == "form gelu; forms gelu, tanh form, none; other last, x"
    )


def test_a_series_says_what_it_is(tmp_path):
    (tmp_path / "a.csv").write_text("step,loss\n1,2\n2,3\n2,4\n")
    series = tnb.open_series(tmp_path / "a.csv")
    assert repr(series).startswith("a.csv：2 步（1、2）· loss\n说明：1 行的步数重复")
    with option_context(language="en"):
        assert repr(series).startswith("a.csv: 2 steps (1, 2) · loss\nnote: 1 lines repeat")


def test_differences_of_checkpoints(tmp_path):
    left = {f"l.{i}.w": np.full((2, 2), i, F4) for i in range(4)}
    right = {**left, "l.1.w": left["l.1.w"] + 1, "x": np.ones(3, F4), "l.2.w": np.ones(5, F4)}
    del right["l.3.w"]
    paths = tnb.save_dump(left, tmp_path / "a.ckpt"), tnb.save_dump(right, tmp_path / "b.pth")
    shared = np.ones((2, 2), F4)
    shown = [
        tnb.diff_checkpoints(*paths),
        tnb.diff_checkpoints(*paths, values=False),
        tnb.diff_checkpoints(paths[0], paths[0]),
        tnb.diff_checkpoints(*paths, learning_rate=0.1),
        tnb.diff_checkpoints({}, {}),
        tnb.diff_checkpoints({"w": shared, "epoch": 1}, {"w": shared + 1, "epoch": 2}),
        tnb.diff_checkpoints({"a": shared, "b": shared}, {"a": shared, "b": shared + 1}),
    ]
    assert english(shown) == set()


def test_series(tmp_path):
    right = np.linspace(3.0, 1.0, 200)
    log = tmp_path / "a.log"
    log.write_text("\n".join(f"step {i} loss {x:.3f} norm 1" for i, x in enumerate(right)))
    grown = right + 1e-2 * np.exp(0.01 * np.arange(200))
    late = right.copy()
    late[150:155] += 1
    faded = right + np.exp(-0.01 * np.arange(200))
    near = right + 1 / np.arange(1, 201)
    sides = (right, grown, faded, near, right + np.arange(200), late, log, right[:50])
    shown = [tnb.compare_series(left, right) for left in sides if left is not log]
    shown += [tnb.compare_series(log, {"loss": right})]
    again = late + np.where(np.arange(200) < 10, 1.0, 0.0)
    again[190:] += 1.0
    shown += [tnb.compare_series(one, right, 0.1) for one in (late, again)]
    shown += [tnb.compare_series({"loss": right, "a": late}, {"loss": right, "a": right}, 0.1)]
    shown += [tnb.compare_series({"a": right, "b": grown}, {"a": right, "b": right})]
    assert english([*shown, *(note for one in shown for note in one.notes)]) == set()


def test_merged_ranks():
    whole = np.arange(24, dtype=F4).reshape(4, 6)
    entries = [
        Entry(name, Site("file", name), ArrayInMemory(values), rank=rank)
        for rank in range(2)
        for name, values in {
            "w": whole[2 * rank : 2 * rank + 2],
            "same": whole,
            "other": whole + rank,
            "dtype": whole.astype([F4, np.float64][rank]),
            f"own{rank}": whole,
        }.items()
    ]
    dump = Dump.from_entries(entries, label="ranks")
    shown = [
        tnb.merge_ranks(dump),
        tnb.merge_ranks(dump, {"w": 0, "same": 0, "never": 1}),
        tnb.merge_ranks(dump, like={"w": whole, "other": whole * 3}),
    ]
    notes = [note for one in shown for note in one.notes]
    notes += tnb.missing_places(dump, dump.select(rank=0))
    assert english([*shown, *notes]) == set()


def test_exported_pages(mixed, tmp_path):
    shown = []
    for part in (*parts_of(mixed)[:4], mixed.pairing.left, mixed["off"]):
        shown.append(visible(tnb.export(part, tmp_path / "page.html").read_text("utf-8")))
        shown.append(tnb.export(part, tmp_path / "page.txt").read_text("utf-8"))
    shown.append(tnb.export(mixed.explain(), tmp_path / "page.md").read_text("utf-8"))
    assert english(shown) == set()


def refusals(cmp, folder):
    """Calls that are refused, of every object."""
    dump, pairing = cmp.pairing.left, cmp.pairing
    yield lambda: dump["nothing"]
    yield lambda: dump["sam"]
    yield lambda: dump["broken_float32_99.npy"]
    yield lambda: dump.select(nothing=1)
    yield lambda: Dump.from_entries([Entry("x", Site("file", "x"))] * 2)
    yield lambda: cmp["nothing"]
    yield lambda: cmp[999]
    yield lambda: cmp.select(verdict="x")[0]
    yield lambda: cmp["alone"].right
    yield lambda: cmp["extra"].left
    yield lambda: cmp["shape"].located()
    yield lambda: cmp.select(nothing=1)
    yield lambda: cmp["off"].plot.profile(7)
    yield lambda: tnb.compare(dump, dump, walk="sideways")
    yield lambda: tnb.compare(dump, dump, executor=1)
    yield lambda: tnb.compare(dump, dump, progress=1)
    yield lambda: tnb.compare(dump, dump, rtol=-1)
    yield lambda: tnb.compare(dump, dump, atol="x")
    yield lambda: tnb.compare(dump, dump, pairing=pairing)
    yield lambda: tnb.compare(dump, dump, pairing=pairing, mapping={})
    yield lambda: tnb.compare(dump, dump, mapping={"nothing": "same"})
    yield lambda: tnb.pair_dumps(dump, dump, method="luck")
    yield lambda: tnb.pair_dumps(dump, dump, fuzzy=3)
    yield lambda: pairing.pair("nothing", "same")
    yield lambda: pairing.unpair("alone")
    yield lambda: tnb.diff_checkpoints(dump, dump, learning_rate=-1)
    yield lambda: tnb.compare_series([1.0], {5: 1.0})
    yield lambda: tnb.compare_series({"a": [1.0]}, {"b": [1.0]})
    yield lambda: tnb.compare_series([1.0], [1.0], measure="c")
    yield lambda: tnb.measure_noise(dump)
    yield lambda: tnb.measure_noise(cmp)
    yield lambda: tnb.export(dump, folder / "x")
    yield lambda: tnb.export(cmp.explain(), folder / "x.csv")
    yield lambda: tnb.export(3, folder / "x.csv")
    yield lambda: tnb.set_options(nothing=1)
    yield lambda: tnb.set_options(language="fr")
    yield lambda: tnb.set_options(worst_rows=0)
    yield lambda: tnb.open_dump(folder / "nothing")
    yield lambda: tnb.open_series(folder / "nothing")
    yield lambda: tnb.read_mapping(folder / "nothing")
    yield lambda: tnb.read_weight_map(folder / "nothing")
    yield lambda: tnb.draft_weight_map(folder / "nothing")
    yield lambda: tnb.convert_weights(dump, folder / "x.txt", 3)
    yield lambda: tnb.convert_weights(dump, folder / "x.pth", 3)


def test_errors(mixed, tmp_path):
    said = []
    for refused in refusals(mixed, tmp_path):
        with pytest.raises(tnb.TroubleshooterError) as caught:
            refused()
        said += [str(caught.value), *getattr(caught.value, "__notes__", [])]
    assert len(said) > 30
    assert english(said) == set()


@pytest.mark.notebook
def test_widgets_where_no_kernel_runs(mixed, tmp_path):
    *drawn, _ = maps(tmp_path)
    shown = [visible(tnb.explore(mixed).static_html())]
    for editor in map(tnb.edit, [*drawn, mixed.pairing]):
        for bundle in (editor._repr_mimebundle_()[0], editor._twin(editor.value)):
            shown += [visible(bundle["text/html"]), bundle["text/plain"]]
    assert english(shown) == set()
