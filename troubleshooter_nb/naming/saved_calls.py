"""Calls of modules that were saved by hand, told from the names of their tensors."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

_Role = Literal["input", "output", "parameter", "buffer"]


class SavedCall(NamedTuple):
    """Module, role, slot and number of the call of what was saved by hand."""

    path: str
    role: _Role
    slot: str
    call: int = 0


_INPUTS = ("inputs", "input", "in", "x")
_OUTPUTS = ("outputs", "output", "out", "y")
_EVERY_WORD = (*_INPUTS, *_OUTPUTS)
_WORDS = "|".join(_EVERY_WORD)
_SLOT = r"(?P<slot>[0-9]{0,9}(?:[._][0-9]{1,9})*)"
# act.input_0, act.input1, and the looser conv1_in.
_BEHIND = re.compile(rf"(?s)(?P<path>.*[^./])[./](?P<word>{_WORDS}){_SLOT}")
_JOINED = re.compile(rf"(?s)(?P<path>.*[^./_])_(?P<word>{_WORDS}){_SLOT}")
_COUNTED = re.compile(r"_([0-9]{1,9})$")
# inputs/conv1, and the looser x_conv1 in any folder, x_layer1.0.conv1 in none.
_FOLDERS = ("input", "output")
_FOLDER = re.compile(r"(?s)(?P<word>inputs?|outputs?)[./](?P<path>[^./].*)")
_NUMBERED = rf"(?P<word>{_WORDS})(?P<slot>[0-9]{{0,9}})_"
_IN_FRONT = re.compile(rf"(?s)(?P<folder>(?:.*[./])?){_NUMBERED}(?P<path>[^./_][^./]*)")
_AT_THE_START = re.compile(rf"(?s)(?P<folder>){_NUMBERED}(?P<path>[^./_].*)")
# What people call the parameters of a layer, in torch's words.
_LEAVES: dict[str, str] = {
    **dict.fromkeys("weight w kernel gamma gain g scale table".split(), "weight"),
    **dict.fromkeys("bias b beta shift offset".split(), "bias"),
    **dict.fromkeys("running_mean moving_mean mean mu rm".split(), "running_mean"),
    **dict.fromkeys(
        "running_var moving_variance moving_var variance var rv".split(), "running_var"
    ),
}
# Parameters of torch's recurrent layers and of its attention, which has a layer of its own inside.
_OF_TORCH = re.compile(
    r"(?:weight|bias)_(?:ih|hh)_l[0-9]+(?:_reverse)?|in_proj_(?:weight|bias)|[qkv]_proj_weight"
    r"|bias_[kv]|out_proj\.(?:weight|bias)"
)
_STATISTICS = ("running_mean", "running_var")
_FOLDERS_OF_PARAMETERS = ("params", "parameters", "param", "weights", "state")
# w_conv1.weight beside x_conv1 and y_conv1.
_BEFORE_PARAMETERS = re.compile(r"(?:w|p|param|params|weights?)_")
_ENDS = ("_", ".", "/")


def saved_calls(names: Iterable[str]) -> dict[str, SavedCall]:
    """Module, role and slot of what was saved of calls by hand, as far as names tell.

    ``act.input`` and ``act.output`` are of a call of ``act``, and so are ``act.in``,
    ``act.input_0``, ``act.output.0.1``, ``inputs/act`` and ``outputs/act``. ``act1_in`` and
    ``x_act1`` may be names of layers as well: they count where the rest of the name ends in a
    number, or has parameters, and where others were surely saved under both words. Of such a call
    ``act1.g``, ``act1_w``, ``params/act1.weight`` and ``w_act1.weight`` are parameters, by torch's
    names. Of ``relu_in``, ``relu_out``, ``relu_in_1`` and ``relu_out_1`` the last two are of a
    second call.

    Parameters
    ----------
    names : iterable of str
        Places of all that was saved in a step, parameters included.

    Returns
    -------
    dict of str to SavedCall
        A module is in it with its inputs and outputs, or not at all. A name that is also the
        beginning of others, as that of a module called ``out``, counts only where calls of that
        module were saved in the same way.
    """
    names = dict.fromkeys(names)
    found: dict[str, tuple[SavedCall, str]] = {}
    for name in names:
        if (one := _spelled(name)) is not None:
            found[name] = one
    if not found:
        return {}
    found |= _of_later_slots(found)
    paths = {call.path for call, _ in found.values()}
    modules = {above for name in names if name not in found for above in _above(name)} - paths
    found = _of_both_roles({name: one for name, one in found.items() if name not in modules})
    with_parameters = _with_parameters(names) if any(style for _, style in found.values()) else ()
    sure = {
        name
        for name, (call, style) in found.items()
        if not style or call.path[-1].isdigit() or call.path in with_parameters
    }
    styles = {found[name][1] for name in sure}
    calls = {name: call for name, (call, style) in found.items() if name in sure or style in styles}
    calls |= _of_later_calls(calls)
    rest = [name for name in names if name not in calls] if calls else []
    return {**calls, **_parameters(rest, {one.path for one in calls.values()})}


def layers_of_output(name: str) -> list[str]:
    """What the layer may be called whose output has a name: ``relu2`` of ``act/relu2``.

    The name itself first, then without a word that says that it is an output, without the folder,
    without its last part.
    """
    spelled = _spelled(name)
    bare = spelled[0][0] if spelled is not None and spelled[0][1] == "output" else name
    folder = re.split(r"[./]", bare, maxsplit=1)
    above = re.sub(r"[./][^./]*$", "", name)
    return list(dict.fromkeys([name, bare, folder[-1], above]))


def readings_of_parameter(name: str) -> Iterator[tuple[str, str]]:
    """Layer and torch's word of a parameter, in each way in which a name may be read."""
    return ((path, leaf) for path, word in _readings(name) if (leaf := _leaf(word)) is not None)


def _leaf(word: str) -> str | None:
    """A parameter's word in torch's spelling; None where it is none."""
    return word if _OF_TORCH.fullmatch(word) else _LEAVES.get(word)


def _of_later_slots(found: Mapping[str, tuple[SavedCall, str]]) -> dict[str, tuple[SavedCall, str]]:
    """Where ``inputs/add`` has an output, ``inputs/add.1`` that has none is its second input."""
    roles: dict[str, set[str]] = defaultdict(set)
    for call, _ in found.values():
        roles[call.path].add(call.role)
    later = {}
    for name, (call, style) in found.items():
        path, _, slot = call.path.rpartition(".")
        if slot.isdigit() and len(roles[call.path]) == 1 and len(roles.get(path, ())) > 1:
            later[name] = call._replace(path=path, slot=slot), style
    return later


def _of_both_roles(found: dict[str, tuple[SavedCall, str]]) -> dict[str, tuple[SavedCall, str]]:
    """Those whose call has inputs and outputs, with the words in front of or behind both."""
    words: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for call, style in found.values():
        words[call.path][call.role].add(style)
    styles = {
        path: " ".join(sorted({style for some in of.values() for style in some if style}))
        for path, of in words.items()
        if len(of) > 1
    }
    return {
        name: (call, styles[call.path] if style else "")
        for name, (call, style) in found.items()
        if call.path in styles
    }


def _of_later_calls(calls: Mapping[str, SavedCall]) -> dict[str, SavedCall]:
    """Those that are of a second call, or a later one: all of whose results are counted as well."""
    counted: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    found: dict[str, SavedCall] = {}
    for name, one in calls.items():
        if (match := _COUNTED.search(name)) is not None and one.slot == match[1]:
            counted[one.path][one.role].add(int(match[1]))
            found[name] = one._replace(slot="0", call=int(match[1]))
    visited = {path for path, of in counted.items() if of["input"] == of["output"]}
    return {name: one for name, one in found.items() if one.path in visited}


def _spelled(name: str) -> tuple[SavedCall, str] | None:
    """What a name says; and how, where it may as well be that of a layer."""
    if name.startswith(_FOLDERS) and (match := _FOLDER.fullmatch(name)):
        return SavedCall(match["path"], _role(match["word"]), "0"), ""
    # The expressions alone look at every letter of every name.
    if name.rstrip("._0123456789").endswith(_EVERY_WORD):
        for pattern in (_BEHIND, _JOINED):
            if match := pattern.fullmatch(name):
                slot = match["slot"].strip("._").replace("_", ".") or "0"
                style = f"_{match['word']}" if pattern is _JOINED else ""
                return SavedCall(match["path"], _role(match["word"]), slot), style
    if "_" in name and (match := _IN_FRONT.fullmatch(name) or _AT_THE_START.fullmatch(name)):
        path = match["folder"] + match["path"]
        return SavedCall(path, _role(match["word"]), match["slot"] or "0"), f"{match['word']}_"
    return None


def _role(word: str) -> _Role:
    return "input" if word in _INPUTS else "output"


def _with_parameters(names: Iterable[str]) -> set[str]:
    """Names of layers of which there are parameters."""
    return {path for name in names for path, _ in readings_of_parameter(name)}


def _parameters(names: Iterable[str], paths: Collection[str]) -> dict[str, SavedCall]:
    """Parameters of these calls, under names that say so."""
    found: dict[str, SavedCall] = {}
    leaves: dict[str, set[str]] = defaultdict(set)
    for name in names:
        for path, leaf in readings_of_parameter(name):
            if path in paths:
                role: _Role = "buffer" if leaf in _STATISTICS else "parameter"
                found[name] = SavedCall(path, role, leaf)
                leaves[path].add(leaf)
                break
    # A mean alone is what a layer computed.
    return {
        name: one
        for name, one in found.items()
        if one[2] not in _STATISTICS or leaves[one[0]] >= {*_STATISTICS}
    }


def _readings(name: str) -> Iterator[tuple[str, str]]:
    """Layer and word of a parameter, in each way in which a name may be read."""
    folder = re.split(r"[./]", name, maxsplit=1)
    bare = folder[1] if len(folder) > 1 and folder[0] in _FOLDERS_OF_PARAMETERS else name
    for at in range(len(bare) - 1, 0, -1):
        if bare[at] in _ENDS:
            yield bare[:at], bare[at + 1 :]
            if match := _BEFORE_PARAMETERS.match(bare, 0, at):
                yield bare[match.end() : at], bare[at + 1 :]
    for match in re.finditer("_", bare):
        yield bare[match.end() :], bare[: match.start()]


def _above(name: str) -> set[str]:
    return {name[: match.start()] for match in re.finditer(r"[./]", name)}
