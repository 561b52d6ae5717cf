"""What `docs/weight_maps.md` shows of weight maps as it is written there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np

import troubleshooter_nb as tnb
from troubleshooter_nb.cli.main import main
from troubleshooter_nb.shapes import shape_text
from troubleshooter_nb.transforms import KINDS, Spec, Transform

PAGE = (Path(__file__).parents[1] / "docs/weight_maps.md").read_text(encoding="utf-8")
HEAD = "| written | what it does | shapes |\n| --- | --- | --- |\n"


def blocks_of(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def table_of_kinds():
    """A row for each kind, of its first example; a bar in a cell would end it."""
    lines = []
    for kind in KINDS.values():
        written, shapes = next(iter(kind.examples.items()))
        transform = Transform.parse(written)
        sources = [Spec(tuple(shape), np.dtype("f4")) for shape in shapes]
        sides = (sources, transform.specs(sources))
        said = " → ".join(" + ".join(shape_text(s.shape) or "scalar" for s in one) for one in sides)
        said = said.replace("x", "×").removesuffix(" → ")
        lines.append(f"| `{written}` | {transform.words} | {said} |\n")
    return HEAD + "".join(lines)


def test_the_table_has_every_transform_with_its_words_and_shapes():
    assert table_of_kinds() in PAGE


def test_what_the_json_can_say_is_what_the_page_says():
    said = [Transform(kind.name, one) for kind in KINDS.values() for one in kind.troubleshooter]
    assert [str(one) for one in said] == ["copy", "expand_dims(2)"]
    assert "two transforms: the copy and the\naxis of a Conv1d (`expand_dims(2)`)" in PAGE


def test_every_block_of_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks_of("python"):
        exec(block, names)
    (tmp_path / "map.yaml").unlink()
    (commands,) = blocks_of("sh")
    for line in commands.splitlines():
        words, _, wanted = line.partition("#")
        ended = main(shlex.split(words)[1:])
        assert ended == int(wanted.split(":")[0]), (line, capsys.readouterr())
    (written,) = blocks_of("yaml")
    (tmp_path / "written.yaml").write_text(written, encoding="utf-8")
    read = tnb.read_weight_map(tmp_path / "written.yaml")
    assert [len(row.sources) for row in read] == [3, 1, 1, 1]
    assert [str(row.transform) for row in read][2:] == ["drop", "copy"]
    assert read.kept == ("head.weight",)
