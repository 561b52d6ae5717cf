"""One call of a comparison as a folder that shows its difference without this package."""

from __future__ import annotations

import json
import os
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from troubleshooter_nb.comparison import Comparison
from troubleshooter_nb.convert.rules import Rule, rules_for
from troubleshooter_nb.dump import ArraySource, Dump
from troubleshooter_nb.errors import ArgumentError, EntryNotFoundError, check_kind, path_of
from troubleshooter_nb.formats.aside import folder_whole
from troubleshooter_nb.messages import Message, language_in_force
from troubleshooter_nb.metrics.floats import computable
from troubleshooter_nb.naming import numbered
from troubleshooter_nb.naming.characters import printable
from troubleshooter_nb.naming.closeness import closest
from troubleshooter_nb.ranges import whole
from troubleshooter_nb.render.words import DIFFERING
from troubleshooter_nb.replaying.formulas import kind_of
from troubleshooter_nb.replaying.recorded_calls import RecordedCall, RecordedCalls, calls_of
from troubleshooter_nb.replaying.script import script_of

FORMAT = "tnb-reproduction/1"
_SIDES = ("left", "right")


def export_reproduction(cmp: Comparison, call: str | int, folder: str | PathLike[str]) -> Path:
    """Write one call of both sides, and a script that runs it alone and prints the difference.

    For whoever is to repair it: the folder holds what the call was given, held and gave on both
    sides, and ``reproduce.py``, which needs numpy alone and uses the frameworks that are
    installed::

        tnb.export_reproduction(cmp, "layers.3.attn", "attn_bug")  # then: python reproduce.py

    Parameters
    ----------
    cmp : Comparison
        Of recordings with values.
    call : str or int
        The path of a layer, of which the first call that differs is taken, or with the call's own
        number (``"act #1"``); the name of an entry; or the number of a pair.
    folder : path
        New or empty; it appears whole or not at all.

    Returns
    -------
    Path
        The folder: ``reproduce.py``, ``call.json`` (classes, settings, dtypes), ``left.npz`` and
        ``right.npz``. bfloat16 and float8 are float32 there, the same values, with their dtype in
        ``call.json``.

    Raises
    ------
    EntryNotFoundError
        If there is no such call; the message has the closest.
    AmbiguousEntryError
        If a name means several pairs.
    ValueError
        If the folder is taken, or neither side has values.
    ReadError
        If values cannot be read.

    Notes
    -----
    Layers that both frameworks have (dense, convolution, norms, activations, softmax, embedding)
    are computed from their settings in numpy, torch and MindSpore. Any other has a function to
    fill in, and the stored outputs of both sides. Names of dumps are data in ``call.json`` and
    never part of the script.
    """
    check_kind("cmp", cmp, Comparison)
    target = path_of(folder)
    _refuse_taken(target)
    row = _row_of(cmp, call)
    sides = {}
    for side, dump in zip(_SIDES, (cmp.pairing.left, cmp.pairing.right), strict=True):
        label = getattr(cmp, f"{side}_label")
        sides[side] = _Side(dump, int(cmp.columns[f"{side}_entry"][row]), label)
    if not any(side.arrays for side in sides.values()):
        raise ArgumentError(Message("reproductions.nothing", key=call))
    facts = {"format": FORMAT, **{side: one.facts for side, one in sides.items()}}
    script = script_of([one.facts["kind"] for one in sides.values()], language_in_force())
    with folder_whole(target) as made:
        for side, one in sides.items():
            np.savez(made / f"{side}.npz", **one.arrays)
        text = json.dumps(facts, indent=1, ensure_ascii=True, default=str)
        (made / "call.json").write_text(text + "\n", encoding="utf-8")
        (made / "reproduce.py").write_text(script, encoding="utf-8")
    return target


def _refuse_taken(folder: Path) -> None:
    is_free = not os.path.lexists(folder) or (folder.is_dir() and not any(folder.iterdir()))
    if not is_free:
        raise ArgumentError(Message("reproductions.taken", folder=folder.name))


def _row_of(cmp: Comparison, key: str | int) -> int:
    """The row of the pair that is meant; of a path, of its first output that differs."""
    columns = cmp.columns
    if isinstance(key, str):
        rows = [row for row in range(len(cmp)) if key in _paths(cmp, row)]
        if rows:
            outputs = [row for row in rows if columns["role"][row] == "output"]
            outputs = [row for row in outputs if columns["direction"][row] != "backward"]
            differing = [row for row in outputs if columns["verdict"][row] in DIFFERING]
            return (differing or outputs or rows)[0]
    try:
        number = int(cmp[key].row["order"].values)
    except EntryNotFoundError as error:
        known = {path for row in range(len(cmp)) for path in _paths(cmp, row) if path}
        hint = closest(str(key), sorted(known)) if type(error) is EntryNotFoundError else ""
        if not hint or not isinstance(key, str):
            raise
        said = Message("reproductions.no_row", key=key, closest=hint)
        raise EntryNotFoundError(said) from error
    return int(np.flatnonzero(columns["order"] == number)[0])


def _paths(cmp: Comparison, row: int) -> set[str]:
    """Paths of both entries of a row that belong to calls, alone and with the call's number."""
    found = set()
    for side, dump in zip(_SIDES, (cmp.pairing.left, cmp.pairing.right), strict=True):
        entry = int(cmp.columns[f"{side}_entry"][row])
        if entry >= 0 and dump.columns["kind"][entry] in ("module", "api"):
            path = str(dump.columns["path"][entry])
            found |= {path, numbered(path, dump.columns["call"][entry])}
    return found


class _Side:
    """One side of a call: what is written of it.

    Attributes
    ----------
    arrays : dict of str to ndarray
        Of the npz file.
    facts : dict
        Of the json file; under ``inputs``, ``parameters`` and ``outputs`` where each is.
    """

    def __init__(self, dump: Dump, entry: int, label: str) -> None:
        self._dump = dump
        self.arrays: dict[str, np.ndarray] = {}
        parts: dict[str, dict[str, str]] = {"inputs": {}, "parameters": {}, "outputs": {}}
        self.facts: dict[str, Any] = {
            "about": "",
            "kind": "",
            "settings": {},
            "dtypes": {},
            **parts,
        }
        if entry < 0:
            return
        calls = calls_of(dump)
        call = _call_of(calls, dump, entry)
        place = dump.columns["name"][entry] if call is None else call.name
        layer = str(dump.columns["layer"][entry]) or "?"
        said = Message("reproductions.about_call", place=place, layer=layer, label=label)
        self.facts["about"] = printable(said.told(language_in_force()))
        if call is None:
            self._add("outputs", str(dump.columns["slot"][entry]) or "0", entry)
            return
        self.facts |= {"call": call.name, "layer": call.layer, "kind": kind_of(call.layer)}
        self.facts["settings"] = _settings(dump, call)
        self.facts["autocast"] = call.state.autocast
        for slot, row in call.arguments.items():
            if dump.sources[row] is not None:
                self._add("inputs", slot, row)
            elif dump.columns["value"][row]:
                self.facts.setdefault("plain", {})[slot] = json.loads(dump.columns["value"][row])
        rules = _rules(call)
        for leaf, row in calls.held(call).items():
            rule = rules.get(leaf)
            known = rule is not None and rule.target_leaf is not None
            self._add("parameters", leaf, row, rule if known else None)
        for slot, row in call.outputs.items():
            self._add("outputs", slot, row)

    def _add(self, part: str, name: str, row: int, rule: Rule | None = None) -> None:
        source: ArraySource | None = self._dump.sources[row]
        if source is None:
            return
        array = whole(source)
        if rule is not None and rule.target_leaf is not None:
            name, array = rule.target_leaf, rule.apply(array)
        if array.dtype.isbuiltin == 2:  # of ml_dtypes, which numpy alone cannot load
            self.facts["dtypes"][f"{part} {name}"] = array.dtype.name
            array = computable(array)
        key = f"{part}_{len(self.arrays)}"
        self.arrays[key] = np.ascontiguousarray(array).reshape(array.shape)
        self.facts[part][name] = key


def _call_of(calls: RecordedCalls, dump: Dump, entry: int) -> RecordedCall | None:
    """The call of a layer that an entry belongs to."""
    columns = dump.columns
    if columns["kind"][entry] != "module":
        return None
    place = int(columns["step"][entry]), int(columns["rank"][entry])
    wanted = place, str(columns["path"][entry]), int(columns["call"][entry])
    fits = (one for one in calls.calls if (one.place, one.path, one.number) == wanted)
    return next(fits, None)


def _settings(dump: Dump, call: RecordedCall) -> dict[str, Any]:
    """What is known of the settings, as JSON takes it, with the mode of the call."""
    found = dict(dump.settings.get(call.path, {}))
    if call.state.training is not None:
        found["training"] = call.state.training
    plain: dict[str, Any] = json.loads(json.dumps(found, default=str))
    return plain


def _rules(call: RecordedCall) -> dict[str, Rule]:
    """How a layer's tensors get torch's names and layouts; nothing for one of torch."""
    if not call.name.startswith("Cell."):
        return {}
    for kind in (f"nn.{call.layer}", f"mint.nn.{call.layer}"):
        rules = rules_for(kind, "torch")
        if rules:
            return dict(rules)
    return {}
