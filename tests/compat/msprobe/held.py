"""Holds a dump against the one that the tool itself wrote."""

import math

_FIGURES = ("Max", "Min", "Mean", "Norm")
# The gradient of a bias before a normalisation is rounding alone: of float32 sums of values near 1,
# which every processor adds in an order of its own.
_ROUNDING_NEAR_ONE = 2.0**-23


def cells(content, path=()):
    """All leaves of a json by their path; empty lists and tables too."""
    if isinstance(content, dict) and content:
        for key, part in content.items():
            yield from cells(part, (*path, key))
    elif isinstance(content, list) and content:
        for number, part in enumerate(content):
            yield from cells(part, (*path, number))
    else:
        yield path, content


def differing(ours, theirs):
    """Paths of the cells of an entry that differ by more than rounding, with both values."""
    left, right = dict(cells(ours)), dict(cells(theirs))
    found = {}
    for path in left.keys() | right.keys():
        one, other = left.get(path, "none"), right.get(path, "none")
        if one == other or _is_rounding(one, other, path, right):
            continue
        if not _is_of_other_bits(path, left, right):
            found[path] = (one, other)
    return found


def _is_of_other_bits(path, left, right):
    """Whether a checksum is of what another processor rounds otherwise, by the figures beside it.

    Parameters are not computed: their bits are the same everywhere.
    """
    if path[-1] != "md5" or "parameters" in path:
        return False
    figures = [(*path[:-1], name) for name in _FIGURES]
    known = [one for one in figures if isinstance(left.get(one), float)]
    return bool(known) and all(
        left[one] == right.get(one) or _is_rounding(left[one], right.get(one), one, right)
        for one in known
    )


def _is_rounding(one, other, path, cells):
    if not (isinstance(one, float) and isinstance(other, float)) or path[-1] not in _FIGURES:
        return False
    if math.isnan(one) and math.isnan(other):
        return True
    around = [cells.get((*path[:-1], name)) for name in _FIGURES]
    largest = max((abs(n) for n in around if isinstance(n, float) and math.isfinite(n)), default=0)
    return math.isfinite(one) and abs(one - other) <= max(1e-6 * largest, _ROUNDING_NEAR_ONE)


def files_named(data):
    """The tensor files that the records of a dump name."""
    return {value for path, value in cells(data) if path and path[-1] == "data_name"}


# Deliberate, see docs/msprobe.md: calls of the old hooks themselves are none of the network's.
NOISE = "Tensor.view_as."
# Modules of which the old hooks lose the backward pass.
MORE = {
    "s_L0_tensor": {"Module.inner.Inner.backward.0", "Module.relu_.ReLU.backward.0"},
    **{
        name: {"Module.act.ReLU.backward.0", "Module.norm.BatchNorm1d.backward.0"}
        for name in (
            *("second_mix_statistics", "second_L0_tensor"),
            *("second_mix_tensor", "second_L0_statistics"),
        )
    },
}
# Cells that differ on purpose, as the beginnings of their paths: a device that was given as a text
# is one; a layer's running statistics are those that its call found; a dict has its gradients;
# keywords of cells are written for 1.2.2, too. And not on purpose: memory that MindSpore gives as a
# result without setting it, and a sum whose last bit depends on where its values lie.
_MOVING = [
    ("Cell.bn1.BatchNorm2d.forward.0", "parameters", name)
    for name in ("moving_mean", "moving_variance")
]
_SCRATCH = [("Primitive.bn_train.BatchNorm.0.forward", "output", n) for n in (1, 2, 3, 4)]
# What is written in place is as it was before; a tensor that is given twice has one gradient, and
# a result that is used inside too has its whole one; attention has the parameters of its output.
# A convolution's bias before a normalisation has a gradient of rounding alone.
_ATTEND = "Module.attend.MultiheadAttention"
_BIAS = ("Functional.conv1d.0.backward", "output", 2)
_SECOND = [
    (f"{_ATTEND}.forward.0", "parameters", "out_proj.weight"),
    (f"{_ATTEND}.forward.0", "parameters", "out_proj.bias"),
    *(
        (f"{_ATTEND}.parameters_grad{count}", f"out_proj.{leaf}")
        for count in ("", ".0")
        for leaf in ("weight", "bias")
    ),
    *((f"{_ATTEND}.backward.0", "output", place) for place in (0, 1)),
    ("Module.gate.Gate.backward.0", "input", 1),
    ("Module.conv.Conv1d.parameters_grad", "bias"),
    ("Module.conv.Conv1d.parameters_grad.0", "bias"),
    _BIAS,
    ("Functional.relu.0.backward", "output", 0),
]
_LATE = [*_SECOND, ("Module.act.ReLU.forward.0", "input_args", 0)]
_LOSS = [("Functional.cross_entropy.0.forward", "output", 0, "md5")]
CELLS = {
    "second_mix_statistics": _LATE,
    "second_L0_tensor": _LATE,
    "second_mix_tensor": _SECOND,
    "second_L0_statistics": _SECOND,
    "second_L1_md5": [_BIAS],
    "m_mlp_L1_md5": _LOSS,
    "m_mlp_mix_md5": _LOSS,
    "m_tfr_L0_jsononly": [
        (f"Cell.blocks.{n}.DecoderCell.forward.0", "input_kwargs") for n in (0, 1)
    ],
    "s_L1_tensor": [("Torch.full.0.forward", "input_kwargs", "device", "type")],
    "m_conv_L0_tensor": _MOVING,
    "m_conv_mix_statistics": [*_MOVING, *_SCRATCH],
    "ms_s_L0_tensor": [("Cell.inner.Inner.backward.0", "input", 0)],
}


def of_network(names):
    return [name for name in names if not name.startswith(NOISE)]


def hold(name, ours, theirs):
    """Hold all documents of all steps and ranks against the expected ones."""
    assert ours.keys() == theirs.keys()
    for place, documents in theirs.items():
        for document in documents.keys() & {"dump", "debug"}:
            left, right = ours[place][document], documents[document]
            facts = ("task", "level", "framework")
            assert [left[key] for key in facts] == [right[key] for key in facts]
            assert (left["dump_data_dir"] is None) == (right["dump_data_dir"] is None)
            hold_entries(name, left["data"], right["data"])
        assert ours[place].keys() >= documents.keys() - {"stack"}
        if "construct" in documents:
            hold_construct(name, ours[place]["construct"], documents["construct"])


def hold_entries(name, ours, theirs):
    more = MORE.get(name, set())
    assert [each for each in ours if each not in more] == of_network(theirs)
    assert ours.keys() >= more
    allowed = CELLS.get(name, [])
    found = {
        (entry, *path): values
        for entry in of_network(theirs)
        for path, values in differing(ours[entry], theirs[entry]).items()
    }
    unlike = [path for path in found if not any(path[: len(one)] == one for one in allowed)]
    assert {path: found[path] for path in unlike} == {}


def hold_construct(name, ours, theirs):
    more = MORE.get(name, set()) | {"Cell.inner.Inner.backward.0"}
    assert ours.keys() - more == set(of_network(theirs)) - more
    # The parents of backward calls are those of the forward ones, which the old tool loses.
    forward = [each for each in ours if "forward" in each]
    assert {e: ours[e] for e in forward} == {e: theirs[e] for e in forward}


def stored_in(folder):
    return {file.name for file in folder.glob("step*/*/dump_tensor_data/*")}


def hold_files(ours, folder):
    """The tensor files are those that the records name."""
    named = set()
    for documents in ours.values():
        for document in documents.keys() & {"dump", "debug"}:
            named |= files_named(documents[document]["data"])
    assert stored_in(folder) == named
