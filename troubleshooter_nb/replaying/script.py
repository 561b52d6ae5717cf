"""The script of a reproduction: text that is the same for all calls of the same kinds."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from troubleshooter_nb.messages.sentences import SENTENCES
from troubleshooter_nb.replaying.formulas import FORMULAS, FRAMEWORKS, settings_of

# What it says, by the word under which it says it.
_SAID = {
    "about": "reproductions.about",
    "given": "reproductions.given",
    "equal": "reproductions.equal",
    "one_side": "reproductions.one_side",
    "shapes": "reproductions.shapes",
    "values": "reproductions.values",
    "difference": "reproductions.difference",
    "settings": "reproductions.settings",
    "unused": "reproductions.unused",
    "unknown_settings": "reproductions.unknown_settings",
    "stored": "reproductions.stored",
    "no_output": "reproductions.no_output",
    "not_installed": "reproductions.not_installed",
    "failed": "reproductions.failed",
    "no_formula": "reproductions.no_formula",
    "again": "reproductions.again",
    "both": "reproductions.both",
    "same_input": "reproductions.same_input",
}


def script_of(kinds: Collection[str], language: str) -> str:
    """The script for calls of these kinds; "" is a kind that has no formula.

    No name or value of a dump is part of it: they are in ``call.json``, which it reads.
    """
    known = sorted({kind for kind in kinds if kind})
    bodies = [(kind, one, _body(kind, one)) for kind in known for one in FRAMEWORKS]
    functions = [
        f"def {kind}_{one}(x, p, s):\n{_indented(body)}" for kind, one, body in bodies if body
    ]
    places = [_entry(kind) for kind in known]
    uses = [f"    {kind!r}: {settings_of(kind)}," for kind in known]
    tables = ["FORMULAS = {", *places, "}", "USES = {", *uses, "}"]
    formulas = "\n\n\n".join([*functions, "\n".join(tables)])
    words = "\n".join(
        f"    {word!r}: {SENTENCES[id][language == 'zh']!r}," for word, id in _SAID.items()
    )
    return (
        _SCRIPT.replace("@ABOUT@", SENTENCES["reproductions.script"][language == "zh"])
        .replace("@LAYER@", _LAYER if "" in kinds else "")
        .replace("@FILL_IN@", SENTENCES["reproductions.fill_in"][language == "zh"])
        .replace("@WORDS@", words)
        .replace("@FORMULAS@", formulas)
    )


def _entry(kind: str) -> str:
    made = [f"{one!r}: {kind}_{one}" for one in FRAMEWORKS if _body(kind, one)]
    return f"    {kind!r}: {{{', '.join(made)}}},"


def _body(kind: str, framework: str) -> str:
    bodies: Mapping[str, str] = FORMULAS[kind]._asdict()
    return bodies[framework]


def _indented(body: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in body.splitlines())


_LAYER = """# ======================================================================
# @FILL_IN@
def layer(inputs, p, s):
    return None
# ======================================================================


"""
_SCRIPT = '''"""@ABOUT@

    python reproduce.py
"""

import json
import math
from contextlib import nullcontext
from pathlib import Path

import numpy as np

try:
    import torch
    from torch.nn import functional as F
except ImportError:
    torch = None
try:
    import mindspore
    from mindspore import ops
except ImportError:
    mindspore = None

HERE = Path(__file__).resolve().parent
CALL = json.loads((HERE / "call.json").read_text(encoding="utf-8"))
SIDES = ("left", "right")
WORDS = {
@WORDS@
}


@LAYER@def per_axis(value, rank):
    return list(value) if isinstance(value, list) else [value] * rank


@FORMULAS@


def loaded(side):
    """What the call of a side was given, held and gave, as arrays by name."""
    with np.load(HERE / f"{side}.npz", allow_pickle=False) as stored:
        parts = ("inputs", "parameters", "outputs")
        return {part: {k: stored[v] for k, v in CALL[side][part].items()} for part in parts}


def told(array, name, side):
    """An array as numpy, torch or MindSpore has it; numpy computes in float64."""
    return array.astype(float) if array.dtype.kind == "f" else array


def to_torch(array, name, side):
    tensor = torch.from_numpy(np.array(array))
    dtype = CALL[side]["dtypes"].get(name)
    return tensor.to(getattr(torch, dtype)) if dtype in ("bfloat16",) else tensor


def to_mindspore(array, name, side):
    tensor = mindspore.Tensor(np.array(array))
    dtype = CALL[side]["dtypes"].get(name)
    return tensor.astype(getattr(mindspore, dtype)) if dtype in ("bfloat16",) else tensor


MAKE = {"numpy": told, "torch": to_torch, "mindspore": to_mindspore}
HERE_IS = {"numpy": np, "torch": torch, "mindspore": mindspore}


def autocast(framework, dtype):
    if framework != "torch" or dtype not in ("bfloat16", "float16"):
        return nullcontext()
    return torch.autocast("cpu", dtype=getattr(torch, dtype))


def computed(framework, side, inputs):
    """What the layer of a side gives for the inputs of a side, in a framework; None unknown."""
    make, given = MAKE[framework], CALL[side]
    p = {k: make(v, f"parameters {k}", side) for k, v in DATA[side]["parameters"].items()}
    x = {k: make(v, f"inputs {k}", inputs) for k, v in DATA[inputs]["inputs"].items()}
    formula = FORMULAS.get(given["kind"], {}).get(framework)
    if not x:
        return None
    if formula is not None:
        with autocast(framework, given.get("autocast")):
            y = formula(next(iter(x.values())), p, given["settings"])
    elif given["kind"]:
        return None
    else:
        y = layer(x, p, given["settings"])
    if framework == "torch" and y is not None:
        return y.detach().float().numpy() if y.is_floating_point() else y.numpy()
    if framework == "mindspore" and y is not None:
        return y.float().asnumpy()
    return y


def difference(left, right):
    """How far two arrays are apart, in words."""
    if left.shape != right.shape:
        return WORDS["shapes"].format(left=left.shape, right=right.shape)
    if left.dtype.kind not in "fiub" or right.dtype.kind not in "fiub":
        return WORDS["equal"] if np.array_equal(left, right) else WORDS["values"]
    a, b = left.astype(float), right.astype(float)
    if np.array_equal(a, b, equal_nan=True):
        return WORDS["equal"]
    size, error = np.linalg.norm(b), np.linalg.norm(a - b)
    relative = error / size if size else math.inf
    return WORDS["difference"].format(largest=np.abs(a - b).max(), relative=relative)


def say(word, **gaps):
    print(WORDS[word].format(**gaps))


def main():
    say("about", **{side: repr(CALL[side]["about"]) for side in SIDES})
    for part in ("inputs", "parameters"):
        left, right = (DATA[side][part] for side in SIDES)
        for name in dict.fromkeys([*left, *right]):
            if name in left and name in right:
                say("given", name=repr(name), what=difference(left[name], right[name]))
            else:
                say("one_side", name=repr(name), side="left" if name in left else "right")
    left, right = (CALL[side]["settings"] for side in SIDES)
    for name in dict.fromkeys([*left, *right]):
        if left.get(name) != right.get(name):
            say("settings", name=repr(name), left=left.get(name), right=right.get(name))
            kinds = [CALL[side]["kind"] for side in SIDES if CALL[side]["kind"]]
            if kinds and not any(name in USES[kind] for kind in kinds):
                say("unused", name=repr(name))
    for side in SIDES:
        if CALL[side]["kind"] and not CALL[side]["settings"]:
            say("unknown_settings", side=side)
    left, right = (DATA[side]["outputs"] for side in SIDES)
    for name in [name for name in left if name in right]:
        say("stored", name=repr(name), what=difference(left[name], right[name]))
    if not (left and right):
        say("no_output")
    for framework, module in HERE_IS.items():
        if module is None:
            say("not_installed", framework=framework)
            continue
        try:
            show(framework)
        except Exception as error:
            text = (str(error).splitlines() or [""])[0][:200]
            say("failed", framework=framework, what=f"{type(error).__name__}: {text}")


def show(framework):
    """What a framework makes of both calls."""
    made = {side: computed(framework, side, side) for side in SIDES}
    if all(y is None for y in made.values()):
        say("no_formula", framework=framework)
        return
    for side in SIDES:
        stored = [*DATA[side]["outputs"].values()]
        if made[side] is not None and stored:
            what = difference(made[side], stored[0])
            say("again", framework=framework, side=side, what=what)
    if all(y is not None for y in made.values()):
        say("both", framework=framework, what=difference(made["left"], made["right"]))
        has_same = DATA["left"]["inputs"].keys() == DATA["right"]["inputs"].keys()
        if has_same and CALL["left"]["dtypes"] == CALL["right"]["dtypes"]:
            swapped = computed(framework, "left", "right")
            say("same_input", framework=framework, what=difference(swapped, made["right"]))


if __name__ == "__main__":
    DATA = {side: loaded(side) for side in SIDES}
    main()
'''
