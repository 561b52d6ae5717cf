"""Names and roles of what a torch file holds: model, moving average, optimizer, counters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from troubleshooter_nb.dump import ArrayInMemory
from troubleshooter_nb.formats.checkpoint import Stored
from troubleshooter_nb.formats.inert_pickle import PickledDict
from troubleshooter_nb.formats.pth_containers import key_text
from troubleshooter_nb.formats.pth_tensors import Ready
from troubleshooter_nb.formats.pth_walk import KeyPath, Leaf, Tree
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming import (
    AVERAGES,
    OPTIMIZER_STATES,
    Role,
    Site,
    site_of_parameter,
    without_wrappers,
)

# What the weights of a model are kept under, the likeliest first.
_WEIGHTS = (
    *("state_dict", "model", "model_state_dict", "module", "net", "network", "params", "weights"),
    *("model_state", "model_weights", "model_dict", "generator", "netG", "g_ema"),
)
_LIKE_PARAMETER = (
    *("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "exp_inf", "momentum_buffer", "square_avg"),
    *("grad_avg", "acc_delta", "sum", "prev"),
)
_MOST_GROUPS_SHOWN = 3
_MOST_SETTINGS_SHOWN = 12
_MOST_SAID = 5
_RANDOM = re.compile(r"(?:^|_)rng(?:_|$)")


def named_values(tree: Tree) -> tuple[list[Stored], list[str]]:
    """The tensors of a file under the names a user knows, and what there is to say.

    The weights lose the name of the dict they are in; the states of an optimizer get the names
    of the parameters where numbers and shapes fit.
    """
    naming = _Naming(tree)
    stored = list(naming.all_stored())
    return stored, naming.notes()


class _Naming:
    """Names for the leaves of one tree."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._main = _main_container(tree)
        if self._main and _clashing(tree, self._main):
            self._main = ""
        self._bare_average = {
            top: without_wrappers(names)[0] for top, names in _averages(tree, self._main).items()
        }
        self._unnamed: list[KeyPath] = []  # what is no tensor
        self._of_tensors: set[KeyPath] = set()  # every container a tensor lies in
        weights = self._weights()
        bare = without_wrappers(list(weights))[0]
        parameters = {
            bare(name): leaf
            for name, leaf in weights.items()
            if (leaf.role or site_of_parameter(name).role) == "parameter"
        }
        self._owners = {
            path: _owners(tree, path, table, parameters) for path, table in tree.optimizers.items()
        }

    def all_stored(self) -> Iterator[Stored]:
        for leaf in self._tree.leaves:
            stored = self._stored(leaf)
            if stored is None:
                self._unnamed.append(leaf.path)
                continue
            self._of_tensors.update(leaf.path[:count] for count in range(1, len(leaf.path) + 1))
            yield stored

    def notes(self) -> list[str]:
        notes: list[str] = []
        if self._main:
            average = "_average" if self._main in AVERAGES else ""
            notes.append(Message(f"pth.weights_of{average}", name=self._main))
        for path, owners in self._owners.items():
            if owners:
                where = ".".join(path) or Message("pth.the_optimizer")
                notes.append(Message("pth.states_named", where=where))
        for table in self._tree.optimizers.values():
            notes += _settings(table)
        if others := self._others():
            notes.append(Message("pth.not_tensors", names=others))
        said = Counter(one for leaf in self._tree.leaves if (one := _said(leaf)))
        notes += (
            Message("pth.tensors_said", said=one, count=count)
            for one, count in said.most_common(_MOST_SAID)
        )
        if self._tree.scripted:
            notes.append(Message("pth.torchscript"))
        return notes

    def _others(self) -> list[str]:
        """Outermost containers without any tensor, and values beside the tensors."""
        found: dict[str, None] = {}
        for path in self._unnamed:
            if _optimizer_above(self._tree, path) is not None:
                continue
            count = 1
            while count < len(path) and path[:count] in self._of_tensors:
                count += 1
            found[".".join(path[:count])[:80]] = None
        return list(found)

    def _weights(self) -> dict[str, Leaf]:
        """The model's tensors by their names without the container."""
        skip = 1 if self._main else 0
        weights = (leaf for leaf in self._tree.leaves if self._is_weight(leaf))
        return {".".join(leaf.path[skip:]): leaf for leaf in weights}

    def _is_weight(self, leaf: Leaf) -> bool:
        if not isinstance(leaf.value, Ready) or self._bare_average.get(leaf.path[0]):
            return False
        if self._main:
            return leaf.path[0] == self._main
        return _optimizer_above(self._tree, leaf.path) is None and not _is_random(leaf.path)

    def _stored(self, leaf: Leaf) -> Stored | None:
        above = _optimizer_above(self._tree, leaf.path)
        if above is not None:
            return _of_optimizer(leaf, above, self._owners[above])
        if not isinstance(leaf.value, Ready):
            return _counted(leaf)
        name = ".".join(leaf.path)
        if self._main and leaf.path[0] == self._main:
            name = ".".join(leaf.path[1:])
            return _tensor(name, leaf, _weight_site(name, leaf))
        if bare := self._bare_average.get(leaf.path[0]):
            path = bare(".".join(leaf.path[1:]))
            return _tensor(f"{leaf.path[0]}.{path}", leaf, Site("checkpoint", path, role="average"))
        if _is_random(leaf.path):
            return _tensor(name, leaf, Site("checkpoint", name))
        if len(leaf.path) > 1 and "optim" in leaf.path[0].lower():
            return _tensor(name, leaf, Site("checkpoint", name, role="optimizer_state"))
        return _tensor(name, leaf, _weight_site(name, leaf) if leaf.role else None)


def _tensor(name: str, leaf: Leaf, site: Site | None) -> Stored:
    if not isinstance(leaf.value, Ready):
        value = leaf.value if leaf.value is not None else np.nan
        dtype = np.int64 if isinstance(value, int) else np.float64
        return Stored(name, ArrayInMemory(np.array(value, dtype)), site=site)
    return Stored(name, leaf.value.source, leaf.value.reason, site)


def _weight_site(name: str, leaf: Leaf) -> Site:
    """Of what is surely a weight, even where its name begins like a state of an optimizer."""
    site = site_of_parameter(name)
    if leaf.role:
        return Site("checkpoint", name, role=leaf.role)
    if site.role in ("parameter", "buffer"):
        return site
    return Site("checkpoint", name, role="parameter")


def _said(leaf: Leaf) -> str:
    return leaf.value.said if isinstance(leaf.value, Ready) else ""


def _is_random(path: KeyPath) -> bool:
    return any(_RANDOM.search(part.lower()) for part in path)


def _optimizer_above(tree: Tree, path: KeyPath) -> KeyPath | None:
    """Place of the optimizer's state dict that a value is in."""
    if not tree.optimizers:
        return None
    places = (path[:count] for count in range(len(path)))
    return next((place for place in places if place in tree.optimizers), None)


def _containers(tree: Tree) -> list[str]:
    """Names at the top under which tensors lie that are no optimizer's nor a random generator's."""
    return list(
        dict.fromkeys(
            leaf.path[0]
            for leaf in tree.leaves
            if len(leaf.path) > 1
            and isinstance(leaf.value, Ready)
            and "optim" not in leaf.path[0].lower()
            and not _is_random(leaf.path)
            and _optimizer_above(tree, leaf.path) is None
        )
    )


def _main_container(tree: Tree) -> str:
    """The name at the top that the model's weights are under; empty where they are at the top."""
    containers = _containers(tree) if tree.is_dict else []
    for name in _WEIGHTS:
        if name in containers:
            return name
    direct = any(
        isinstance(leaf.value, Ready) and len(leaf.path) == 1 and not _is_random(leaf.path)
        for leaf in tree.leaves
    )
    averages = [name for name in AVERAGES if name in containers]
    return averages[0] if averages and len(averages) == len(containers) and not direct else ""


def _averages(tree: Tree, main: str) -> dict[str, list[str]]:
    """Names inside each container of a moving average beside the model."""
    return {
        top: [".".join(leaf.path[1:]) for leaf in tree.leaves if leaf.path[0] == top]
        for top in _containers(tree)
        if top in AVERAGES and top != main
    }


def _clashing(tree: Tree, main: str) -> bool:
    """Whether a weight without its container has the name of something beside it."""
    inside = {".".join(leaf.path[1:]) for leaf in tree.leaves if leaf.path[0] == main}
    return any(leaf.path[0] != main and ".".join(leaf.path) in inside for leaf in tree.leaves)


def _counted(leaf: Leaf) -> Stored | None:
    """A number that counts steps or is a learning rate; None for any other."""
    if leaf.value is None or (isinstance(leaf.value, int) and abs(leaf.value) >= 2**63):
        return None
    name = ".".join(leaf.path)
    if len(leaf.path) > 1 and leaf.path[-2] == "_last_lr":
        return _tensor(name, leaf, Site("checkpoint", name, role="learning_rate"))
    site = site_of_parameter(name)
    if len(leaf.path) == 1 and site.role in ("step_counter", "learning_rate"):
        return _tensor(name, leaf, site)
    return None


def _of_optimizer(leaf: Leaf, above: KeyPath, owners: dict[str, str]) -> Stored | None:
    inner = leaf.path[len(above) :]
    front = ".".join(above) or "optimizer"
    name = f"{front}.{'.'.join(inner)}"
    if isinstance(leaf.value, int) and abs(leaf.value) >= 2**63:
        return None
    if len(inner) >= 3 and inner[0] == "state" and leaf.value is not None:
        key, slot = inner[1], ".".join(inner[2:])
        path = owners.get(key, key)
        if path != key or not key.isdecimal():
            name = f"{front}.{slot}.{path}"
        slot = OPTIMIZER_STATES.get(slot, slot)
        role: Role = "step_counter" if slot == "step" else "optimizer_state"
        return _tensor(name, leaf, Site("checkpoint", path, role=role, slot=slot))
    if inner[0] == "param_groups" and inner[-1] == "lr" and leaf.value is not None:
        if not isinstance(leaf.value, Ready):
            leaf = replace(leaf, value=float(leaf.value))
        return _tensor(name, leaf, Site("checkpoint", name, role="learning_rate"))
    if not isinstance(leaf.value, Ready):
        return None
    return _tensor(name, leaf, Site("checkpoint", name, role="optimizer_state"))


def _values(value: Any) -> list[Any]:
    if isinstance(value, PickledDict):
        return [one for _, one in value.pairs]
    return list(value) if isinstance(value, list | tuple) else []


def _groups(table: PickledDict) -> list[PickledDict]:
    return [group for group in _values(table.get("param_groups")) if isinstance(group, PickledDict)]


def _owners(
    tree: Tree, path: KeyPath, table: PickledDict, parameters: dict[str, Leaf]
) -> dict[str, str]:
    """Which parameter each number in an optimizer means; empty where that is not sure.

    An optimizer numbers the parameters of its groups in their order. One group of all parameters
    has the order of the model, if the shapes of the states fit.
    """
    groups = _groups(table)
    keys = [key_text(key) for group in groups for key in _values(group.get("params"))]
    if not all(key.isdecimal() for key in keys):
        return {}
    shapes = _state_shapes(tree, path)
    if len(groups) > 1:
        return _owners_by_shape(parameters, shapes)
    for candidates in (_untied(parameters), parameters):
        owners = dict(zip(keys, candidates, strict=False))
        if len(candidates) == len(keys) == len(owners) and _fit(owners, parameters, shapes):
            return owners
    return _owners_by_shape(parameters, shapes)


def _owners_by_shape(
    parameters: dict[str, Leaf], shapes: dict[str, tuple[int, ...]]
) -> dict[str, str]:
    """Owners of the states whose shape one parameter and one state alone have.

    Several groups, or frozen parameters that were left out, have an order of their own.
    """
    names: dict[tuple[int, ...], list[str]] = {}
    for name, leaf in parameters.items():
        if isinstance(leaf.value, Ready) and leaf.value.source is not None:
            names.setdefault(leaf.value.source.shape, []).append(name)
    states = Counter(shapes.values())
    return {
        key: names[shape][0]
        for key, shape in shapes.items()
        if states[shape] == 1 and len(names.get(shape, ())) == 1
    }


def _state_shapes(tree: Tree, path: KeyPath) -> dict[str, tuple[int, ...]]:
    """Shapes of states that are as large as their parameter, by its number."""
    shapes = {}
    front = len(path)
    for leaf in tree.leaves:
        inner = leaf.path[front:]
        is_state = leaf.path[:front] == path and len(inner) == 3 and inner[0] == "state"
        if not is_state or OPTIMIZER_STATES.get(inner[2]) not in _LIKE_PARAMETER:
            continue
        if isinstance(leaf.value, Ready) and leaf.value.source is not None:
            shapes[inner[1]] = leaf.value.source.shape
    return shapes


def _untied(parameters: dict[str, Leaf]) -> list[str]:
    """Names without the second ones of tied tensors, which an optimizer gets once."""
    first: dict[Any, str] = {}
    for name, leaf in parameters.items():
        source = leaf.value.source if isinstance(leaf.value, Ready) else None
        first.setdefault(name if source is None else source, name)
    return list(first.values())


def _fit(
    owners: dict[str, str], parameters: dict[str, Leaf], shapes: dict[str, tuple[int, ...]]
) -> bool:
    if not shapes or not set(shapes) <= set(owners):
        return False
    held = {key: parameters[owners[key]].value for key in shapes}
    return all(
        isinstance(value, Ready) and value.source is not None and value.source.shape == shapes[key]
        for key, value in held.items()
    )


def _settings(table: PickledDict) -> list[str]:
    """A line for each group of an optimizer with its learning rate and other numbers."""
    groups = _groups(table)
    said: list[str] = []
    for number, group in enumerate(groups[:_MOST_GROUPS_SHOWN]):
        shown = [
            f"{key[:40]}={text}"
            for key, value in group.texts().items()
            if key != "params" and (text := _numbers_text(value))
        ]
        if shown:
            settings = shown[:_MOST_SETTINGS_SHOWN]
            said.append(Message("pth.param_group", number=number, settings=settings))
    if len(groups) > _MOST_GROUPS_SHOWN:
        said.append(Message("pth.more_groups", count=len(groups) - _MOST_GROUPS_SHOWN))
    return said


def _numbers_text(value: Any) -> str:
    """A number, or a few of them; empty for anything else."""
    if isinstance(value, tuple | list) and 0 < len(value) <= 4:
        texts = [_number_text(one) for one in value]
        return f"({', '.join(texts)})" if all(texts) else ""
    return _number_text(value)


def _number_text(value: Any) -> str:
    """A number, or what is switched on; empty for anything else."""
    if type(value) is int and abs(value) < 2**63:
        return str(value)
    if type(value) is float:
        return f"{value:g}"
    return "True" if value is True else ""
