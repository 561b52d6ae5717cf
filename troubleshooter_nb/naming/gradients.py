"""Which parameter a gradient saved by hand belongs to, by the two names."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import takewhile

from troubleshooter_nb.naming.parameters import canonical_parameter, without_position

_WORD = r"(?:grads?|gradients?)"
# A word of its own, the end of one (pgrads, weightgrad, WGrad) or the front of one (gradWeight).
_SAYS_SO = re.compile(rf"(?:(?i:[a-z]*{_WORD})|(?<![A-Za-z])[Gg]rad(?=[A-Z]))(?![a-z])")
# Words that end alike and are of something else.
_NOT_GRADIENTS = (
    *("adagrad", "autograd", "nograd", "no_grad", "requires_grad", "retain_grad"),
    *("gradscaler", "grad_scaler"),
)
_NOT_SO = re.compile(rf"(?i)(?<![a-z])(?:{'|'.join(_NOT_GRADIENTS)})(?![a-z])")
_AT_THE_END = re.compile(rf"(?i)[._/]{_WORD}$")
_IN_A_PART = re.compile(rf"(?i)(?:^|[_-]){_WORD}(?=[_-]|$)")
_PARTS = re.compile(r"[./]")


def says_gradient(text: str) -> bool:
    """Whether a folder or file name has the word grad, grads or gradient(s) as a part.

    Also at the end of a longer word, ``pgrads`` and ``weightgrad``, but not in ``autograd``.
    """
    return _may_say_gradient(text) and bool(_SAYS_SO.search(_NOT_SO.sub("", text)))


def _may_say_gradient(text: str) -> bool:
    """Whether the letters of the word are there at all: most names need no pattern."""
    return "grad" in text.lower()


def without_gradient_word(stem: str) -> str:
    """The stem without the word at its end: ``fc.weight.grad`` and ``fc.weight_grad``."""
    return _AT_THE_END.sub("", stem) if _may_say_gradient(stem) else stem


def parameters_of_gradients(gradients: Iterable[str], parameters: Iterable[str]) -> dict[str, str]:
    """The parameter of each gradient whose name says which one, out of those of one dump.

    ``fc.weight.grad``, ``fc.weight_grad``, ``grads.fc.weight``, ``torch_grads.fc.weight`` and
    ``net.grads.fc.weight`` are spellings of ``fc.weight``, the last one of ``net.fc.weight`` as
    well. What the names of all parameters begin with may be left out: ``grads.fc.weight`` is the
    gradient of ``params.fc.weight``.

    Parameters
    ----------
    gradients, parameters : iterable of str
        Dotted places in the network, in the spelling of either framework.

    Returns
    -------
    dict of str to str
        Gradient to parameter. A gradient that could be of two parameters is not in it, nor are
        two that would be of the same one, unless one of them has its very name.
    """
    names = dict.fromkeys(parameters)
    whole, short = _by_spelling([*names])
    found: dict[str, str] = {}
    for gradient in dict.fromkeys(gradients):
        spellings = _spellings(gradient)
        meant = {gradient} if gradient in names else set[str]()
        for known in (whole, short):
            meant = meant or {name for text in spellings for name in known.get(text, ())}
        if len(meant) == 1:
            found[gradient] = meant.pop()
    claims = Counter(found.values())
    return {
        gradient: name for gradient, name in found.items() if claims[name] == 1 or gradient == name
    }


def _by_spelling(names: Sequence[str]) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """The parameters by their name in torch's spelling, and by it without what all begin with."""
    whole: dict[str, set[str]] = defaultdict(set)
    short: dict[str, set[str]] = defaultdict(set)
    # The last part of a name is none that may be left out.
    columns = zip(*(_PARTS.split(name)[:-1] for name in names), strict=False)
    shared = sum(1 for _ in takewhile(lambda parts: len(set(parts)) == 1, columns))
    for name in names:
        text = _canonical(name)
        whole[text].add(name)
        for start in range(1, shared + 1):
            short[".".join(_PARTS.split(text)[start:])].add(name)
    return whole, short


def _spellings(gradient: str) -> set[str]:
    """What the parameter of a gradient may be called, in torch's spelling with dots."""
    bare = without_gradient_word(gradient)
    found = {bare}
    parts = _PARTS.split(bare)
    marked = [place for place, part in enumerate(parts[:-1]) if says_gradient(part)]
    if marked:
        # Behind the part that says so, and with the word alone taken out of it.
        behind = parts[marked[-1] + 1 :]
        rest = _IN_A_PART.sub("", parts[marked[-1]]).strip("_-")
        kept = [*parts[: marked[-1]], *([rest] if rest else []), *behind]
        found |= {".".join(behind), ".".join(kept)}
    return {_canonical(without_position(name)) for name in found}


def _canonical(name: str) -> str:
    return (canonical_parameter(name) or name).replace("/", ".")
