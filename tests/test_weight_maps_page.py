"""The table of transforms in `docs/weight_maps.md` is that of the package."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from troubleshooter_nb.shapes import shape_text
from troubleshooter_nb.transforms import KINDS, Spec, Transform

PAGE = (Path(__file__).parents[1] / "docs/weight_maps.md").read_text(encoding="utf-8")
HEAD = "| written | what it does | shapes |\n| --- | --- | --- |\n"


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
