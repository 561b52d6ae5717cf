"""A kind of transform is added by its entry alone: tried with two that take several sources."""

from __future__ import annotations

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.errors import WeightMapError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.transforms import KINDS, Spec, Transform, fitting
from troubleshooter_nb.transforms.kind import Argument, Kind, Sources
from troubleshooter_nb.weight_map import WeightMap, WeightRow
from troubleshooter_nb.widgets.editing import open_session

F4 = np.dtype("f4")


def scaled(arrays, scale, axis):
    weight, down, up = arrays
    made = weight + np.float32(scale) * (up @ down)
    return [made if axis is None else np.expand_dims(made, axis)]


LOW_RANK = Kind(
    name="low_rank",
    words=lambda scale, axis: Message("transforms.cast", dtype=str(scale)),
    examples={"low_rank(0.5)": [(4, 6), (2, 6), (4, 2)]},
    arguments=(Argument("scale", float), Argument("axis", optional=True)),
    sources=Sources(3, 3, ("weight", "A", "B")),
    specs=lambda sources, scale, axis: [
        Spec(sources[0].shape if axis is None else (1, *sources[0].shape), sources[0].dtype)
    ],
    forward=scaled,
    proposals=lambda sources, targets: [(1.0,)] * (sources[1].shape[0] == sources[2].shape[1]),
)


def folded(arrays, eps):
    weight, mean, variance = arrays
    factor = 1 / np.sqrt(variance + np.float32(eps))
    return [weight * factor[:, None], -mean * factor]


FOLD = Kind(
    name="fold",
    words=lambda eps: Message("transforms.cast", dtype=str(eps)),
    examples={"fold(1e-05)": [(4, 6), (4,), (4,)]},
    arguments=(Argument("eps", float),),
    sources=Sources(3, 3, ("weight", "mean", "variance")),
    targets=2,
    specs=lambda sources, eps: [sources[0], sources[1]],
    forward=folded,
    proposals=lambda sources, targets: [(1e-5,)],
)


@pytest.fixture(params=[LOW_RANK, FOLD], ids=lambda kind: kind.name)
def kind(request, monkeypatch):
    monkeypatch.setitem(KINDS, request.param.name, request.param)
    fitting.cache_clear()
    yield request.param
    fitting.cache_clear()


def test_a_new_kind_is_typed_stored_proposed_edited_and_converted(kind, tmp_path):
    ((text, shapes),) = kind.examples.items()
    random = np.random.default_rng(0)
    arrays = {f"s{k}": random.random(shape).astype(F4) for k, shape in enumerate(shapes)}
    transform = Transform.parse(text)
    assert str(Transform(kind.name, transform.arguments)) == text
    made = transform.apply([*arrays.values()])
    source = {name: Spec(array.shape, F4) for name, array in arrays.items()}
    target = {f"t{k}": Spec(array.shape, F4) for k, array in enumerate(made)}
    empty = WeightMap((), source, target)
    assert kind.name in {one.kind for one in empty.fitting([*source], [*target])}
    edited = empty.pair([*source], [*target], text)
    assert edited.problems() == []
    path = tnb.write_weight_map(edited, tmp_path / "m.yaml")
    assert tnb.read_weight_map(path).rows[0].transform == transform
    with pytest.raises(WeightMapError, match="json"):
        tnb.write_weight_map(edited, tmp_path / "m.json")
    session = open_session(empty)
    numbers = {"left": [0, 1, 2], "right": [*range(len(made))]}
    session.answer({"op": "ready"})
    offered = session.answer({"op": "together", **numbers})
    assert offered["ok"]
    session.answer({"op": "pair", **numbers, "transform": text})
    assert session.value.rows == edited.rows
    proof = tnb.convert_weights(arrays, tmp_path / "out.safetensors", edited)
    assert proof.passed
    written = tnb.open_dump(tmp_path / "out.safetensors")
    for k, array in enumerate(made):
        np.testing.assert_array_equal(written[f"t{k}"].load(), array)


def test_what_a_new_kind_does_not_take_is_said(kind):
    with pytest.raises(WeightMapError, match=rf"{kind.name} takes .*write it like {kind.name}\("):
        Transform.parse(f"{kind.name}(a)")
    transform = Transform.parse(next(iter(kind.examples)))
    row, names = WeightRow(("a",), ("b",), transform), " and ".join(kind.sources.names)
    said = f"{transform} takes the sources {names} in this order, got 1 source"
    assert row.miscounted() == said
