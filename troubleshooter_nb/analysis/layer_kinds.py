"""What layers and cells are called in the other framework, as one word for both."""

from __future__ import annotations

import functools

from troubleshooter_nb.tables import rows_of

# Layers without parameters, which no table of parameters lists. Both frameworks call them so.
_ACTIVATIONS = frozenset(
    "relu relu6 gelu silu sigmoid tanh elu selu leakyrelu hardswish hardsigmoid hardtanh softplus "
    "mish identity rrelu prelu".split()
)
_PLAIN = (
    *sorted(_ACTIVATIONS - {"rrelu", "prelu"}),
    *("softmax", "logsoftmax"),
    *("dropout", "dropout2d", "flatten", "unfold", "upsample", "pixelshuffle"),
    *("maxpool1d", "maxpool2d", "maxpool3d", "avgpool1d", "avgpool2d", "avgpool3d"),
    *("adaptiveavgpool1d", "adaptiveavgpool2d", "adaptivemaxpool2d", "zeropad2d"),
    *("crossentropyloss", "mseloss", "l1loss", "nllloss", "bcewithlogitsloss", "bceloss"),
)
# Layers whose derivative has steps: what lies at one is let through on one side and not the other.
_WITH_STEPS = frozenset(
    "relu relu6 leakyrelu prelu hardtanh clamp maxpool1d maxpool2d maxpool3d".split()
)
# As torch spells what nobody named, see `class_name`.
_SPELLED = (
    *("AvgPool2d", "BatchNorm2d", "Conv1d", "Conv2d", "ConvTranspose1d", "ConvTranspose2d"),
    *("Dropout", "Embedding", "GELU", "GRU", "GroupNorm", "LSTM", "LayerNorm", "LeakyReLU"),
    *("Linear", "LogSoftmax", "MaxPool2d", "PReLU", "RMSNorm", "ReLU", "SiLU", "Sigmoid"),
    *("Softmax", "Tanh"),
)
# Names that differ although the layers are one, beside those of the table.
_OTHER_NAMES = {"fastgelu": "gelu", "hswish": "hardswish", "hsigmoid": "hardsigmoid"}


def layer_kind(layer: str) -> tuple[str, bool]:
    """Torch's word for a class of layers in lower case, and whether it is a known class.

    ``Dense`` -> ``linear``, ``SequentialCell`` -> ``sequential``. A class of the user's own says
    only that it is none of the known ones.

    Notes
    -----
    Source: tables/layer_parameters.csv.
    """
    word = layer.lower()
    known = _kinds().get(word)
    return (known, True) if known else (word, False)


def known_classes() -> list[str]:
    """Torch's spelling of the classes that have one, in alphabetical order."""
    listed = (record["torch_layer"].partition("(")[0] for record in rows_of("layer_parameters.csv"))
    return sorted({*_SPELLED, *(name.rpartition(".")[2] for name in listed if name)})


def has_steps(word: str) -> bool:
    """Whether rounding of a layer's input, however small, may change its gradient by much."""
    return word in _WITH_STEPS


def class_name(word: str) -> str:
    """Torch's spelling of a word in lower case; operators, which are no classes, as they are."""
    return {name.lower(): name for name in _SPELLED}.get(word, word)


def kinds_differ(left: str, right: str) -> bool:
    """Whether the two classes are known and not counterparts."""
    (mine, sure), (theirs, certain) = layer_kind(left), layer_kind(right)
    return sure and certain and mine != theirs


def one_may_replace(left: str, right: str) -> bool:
    """Whether two known classes do the same kind of work: activations, or normalisations.

    Nothing at all, ``Identity``, is put in the place of any layer.
    """
    kinds = layer_kind(left)[0], layer_kind(right)[0]
    return "identity" in kinds or any(
        all(family(kind) for kind in kinds) for family in (_is_activation, _is_norm)
    )


def _is_activation(kind: str) -> bool:
    return kind in _ACTIVATIONS


def _is_norm(kind: str) -> bool:
    return kind.rstrip("123d").endswith("norm")


@functools.cache
def _kinds() -> dict[str, str]:
    kinds = {name: name for name in _PLAIN} | _OTHER_NAMES
    for record in rows_of("layer_parameters.csv"):
        torch_kind = _bare(record["torch_layer"])
        kinds.setdefault(torch_kind, torch_kind)
        if record["ms_layer"]:
            kinds.setdefault(_bare(record["ms_layer"]), torch_kind)
    return kinds


def _bare(layer: str) -> str:
    return layer.partition("(")[0].rpartition(".")[2].lower()
