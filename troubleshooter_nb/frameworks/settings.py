"""Settings of layers in words and forms that mean the same in both frameworks: torch's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

Settings = dict[str, Any]

_CONV = {"group": "groups", "has_bias": "bias"}
_NORM = {"epsilon": "eps"}
_RECURRENT = {"has_bias": "bias"}
# By torch's name of a layer: the settings of MindSpore's that mean the same as torch's, as one text
# of their names in torch, and those that MindSpore calls otherwise. All others of MindSpore's
# layers are left out: of equal names, they could mean something else.
_COMMON: dict[str, tuple[str, dict[str, str]]] = {
    "Linear": (
        "in_features out_features bias",
        {"in_channels": "in_features", "out_channels": "out_features", "has_bias": "bias"},
    ),
    "BatchNorm": ("num_features eps momentum affine track_running_stats", {}),
    "InstanceNorm": ("num_features eps", {}),
    "LayerNorm": ("normalized_shape eps", _NORM),
    "RMSNorm": ("eps", _NORM),
    "GroupNorm": ("num_groups num_channels eps affine", {}),
    "Dropout": ("p", {}),
    "GELU": ("approximate", {}),
    "Softmax": ("dim", {"axis": "dim"}),
    "LogSoftmax": ("dim", {"axis": "dim"}),
    "LeakyReLU": ("negative_slope", {"alpha": "negative_slope"}),
    "ELU": ("alpha", {}),
    "CELU": ("alpha", {}),
    "Hardtanh": ("min_val max_val", {}),
    "Flatten": ("start_dim end_dim", {}),
    "PixelShuffle": ("upscale_factor", {}),
    "Embedding": (
        "num_embeddings embedding_dim padding_idx",
        {"vocab_size": "num_embeddings", "embedding_size": "embedding_dim"},
    ),
    "LSTM": ("hidden_size num_layers bias batch_first dropout bidirectional", _RECURRENT),
    "GRU": ("hidden_size num_layers bias batch_first dropout bidirectional", _RECURRENT),
    "RNN": ("hidden_size num_layers bias batch_first dropout bidirectional", _RECURRENT),
    "LSTMCell": ("input_size hidden_size bias", _RECURRENT),
    "GRUCell": ("input_size hidden_size bias", _RECURRENT),
    "RNNCell": ("input_size hidden_size bias", _RECURRENT),
    "MultiheadAttention": ("embed_dim kdim vdim num_heads dropout batch_first add_zero_attn", {}),
    "CrossEntropyLoss": ("reduction ignore_index label_smoothing", {}),
    "MSELoss": ("reduction", {}),
    "L1Loss": ("reduction", {}),
    "Conv": (
        "in_channels out_channels kernel_size stride padding dilation groups bias padding_mode",
        _CONV,
    ),
    "ConvTranspose": (
        "in_channels out_channels kernel_size stride padding dilation groups bias output_padding",
        _CONV,
    ),
    "MaxPool": ("kernel_size stride padding return_indices", {}),
    "AvgPool": ("kernel_size stride padding", {}),
}
# The layers of mindspore.nn that torch calls otherwise.
_RENAMED = {
    "Dense": "Linear",
    "Conv1dTranspose": "ConvTranspose1d",
    "Conv2dTranspose": "ConvTranspose2d",
    "Conv3dTranspose": "ConvTranspose3d",
    "SyncBatchNorm": "BatchNorm",
}
# What of a layer of mindspore.nn says a setting, where that is not one argument of another name.
_WRITTEN = {"padding": ("pad_mode", "padding"), "track_running_stats": ("use_batch_statistics",)}
_PER_AXIS = ("kernel_size", "stride", "padding", "dilation", "output_padding")
_AXES = ("dim", "start_dim", "end_dim")


def settings_of(kind: str, settings: Mapping[str, Any], framework: str) -> Settings:
    """Settings that are equal where the layers are, and differ where the layers do.

    Parameters
    ----------
    kind, settings
        As of `LayerFacts`: of a layer's own attributes.
    framework : str
        Whose layer it is.

    Returns
    -------
    dict
        Numbers, texts, None, and tuples of these, with torch's names. One number per axis where
        torch takes one number for all, and a pair where the two ends of an axis are padded apart.
        What cannot be said in torch's terms is left out, such as the padding ``same`` of a layer
        with a stride, which depends on the input. An axis counted from the front is called
        ``dim_from_front``: whether it is also the last one, only an input tells. A class of the
        user's own has its attributes as they are.
    """
    found = dict(settings)
    word = _word(kind, framework)
    if not word:
        return found
    family, rank = _family(word)
    if framework == "mindspore":
        found = _translated(family, rank, found, is_older=kind.startswith("nn."))
    return _in_one_form(family, rank, found)


def is_known(kind: str, framework: str) -> bool:
    """Whether `settings_of` says of such a layer what means the same in both frameworks."""
    return _family(_word(kind, framework))[0] in _COMMON


def written(kind: str, settings: Mapping[str, Any], name: str, framework: str) -> str:
    """A setting as the constructor of its layer takes it: ``pad_mode='same'``, ``bias=True``.

    `kind` and `settings` are those given to `settings_of`, `name` a key of what it gave; empty
    where the layer does not say it.
    """
    names: tuple[str, ...] = (name,)
    if framework == "mindspore" and kind.startswith("nn."):
        _, words = _COMMON.get(_family(_word(kind, framework))[0], ("", {}))
        theirs = {word: own for own, word in words.items()}
        names = _WRITTEN.get(name, (theirs.get(name, name),))
        if settings.get("pad_mode") in ("valid", "same"):  # then the number is not used
            names = tuple(one for one in names if one != "padding")
    said = (f"{one}={settings[one]!r}" for one in names if one in settings)
    return ", ".join(said)


def depends_on_input(kind: str, settings: Mapping[str, Any], framework: str) -> bool:
    """Whether only the size of an input tells by how much a layer pads it."""
    names, _ = _COMMON.get(_family(_word(kind, framework))[0], ("", {}))
    is_open = "padding" not in settings_of(kind, settings, framework)
    return is_open and "padding" in names.split() and settings.get("pad_mode") == "same"


def _word(kind: str, framework: str) -> str:
    """Torch's word for a layer of a framework; empty for a class of the user's."""
    prefix, _, name = kind.rpartition(".")
    if framework == "mindspore":
        return _RENAMED.get(name, name) if prefix in ("nn", "mint.nn") else ""
    return "" if prefix else name


def _family(word: str) -> tuple[str, int]:
    """The layer without its number of axes: ``Conv2d`` -> ``Conv``, 2."""
    if word[-1:] == "d" and word[-2:-1].isdigit():
        return word[:-2], int(word[-2])
    return word, 0


def _translated(family: str, rank: int, settings: Settings, *, is_older: bool) -> Settings:
    """What a layer of MindSpore is in torch's words; mint has these already."""
    names, words = _COMMON.get(family, ("", {}))
    if not is_older:
        return _chosen(names, settings)
    renamed = {word: settings[name] for name, word in words.items() if name in settings}
    found = {**settings, **renamed}
    change = _CHANGES.get(family)
    if change is not None:
        change(found, rank)
    return _chosen(names, found)


def _chosen(names: str, settings: Settings) -> Settings:
    return {name: settings[name] for name in names.split() if name in settings}


def _turn_statistics(found: Settings, rank: int) -> None:
    """MindSpore's momentum is the weight of the old statistics, torch's that of the new.

    `use_batch_statistics` is None where the mode decides; False, which no layer of torch can be
    set to, uses the running statistics in training too.
    """
    uses = found.get("use_batch_statistics", "")
    if uses in (None, True, False):
        found["track_running_stats"] = {None: True, True: False, False: "always used"}[uses]
    if found.get("momentum") is not None:
        found["momentum"] = round(1 - found["momentum"], 12)  # 0.1, not 0.09999999999999998


def _turn_keep(found: Settings, rank: int) -> None:
    if "keep_prob" in found:
        found["p"] = round(1 - found["keep_prob"], 12)


def _name_form(found: Settings, rank: int) -> None:
    found["approximate"] = "tanh" if found.get("approximate") else "none"


def _name_reduction(found: Settings, rank: int) -> None:
    if "reduce" in found:
        reduced = "mean" if found.get("average") else "sum"
        found["reduction"] = reduced if found["reduce"] else "none"


def _pad_conv(found: Settings, rank: int) -> None:
    """`padding` as numbers, where it can be given in numbers; of nothing but zeros."""
    found["padding_mode"] = "zeros"
    _pad(found, rank, _same_conv)


def _pad_transposed(found: Settings, rank: int) -> None:
    """As `_pad_conv`: MindSpore lets no output be smaller than the stride makes it."""
    reach = _reach(found, rank)
    steps = _of_all_axes(found.get("stride", 1), rank)
    found.setdefault("output_padding", 0)
    if found.get("pad_mode") == "valid" and any(map(int.__lt__, reach, steps)):
        found.pop("padding", None)
    else:
        _pad(found, rank, _same_transposed)


def _pad_max(found: Settings, rank: int) -> None:
    _pad(found, rank, _same_conv)


def _pad_mean(found: Settings, rank: int) -> None:
    """As `_pad_conv`; with ``same``, MindSpore leaves the padding out of the mean."""
    _pad(found, rank, lambda found, rank: None)


def _pad(found: Settings, rank: int, same: Callable[[Settings, int], Any]) -> None:
    mode = found.get("pad_mode")
    given = found.pop("padding", 0)
    padding: Any = None
    if mode == "valid":
        padding = 0
    elif mode == "same":
        padding = same(found, rank)
    elif mode == "pad" and isinstance(given, tuple) and len(given) == 2 * rank:
        padding = tuple(zip(given[::2], given[1::2], strict=True))
    elif mode == "pad" and isinstance(given, tuple):
        padding = given[len(given) - rank :]  # pools that compute with an axis in front
    elif mode == "pad":
        padding = given
    if padding is not None:
        found["padding"] = padding


def _same_conv(found: Settings, rank: int) -> Any:
    """The padding ``same`` as numbers, None where it depends on the size of the input."""
    reach = _reach(found, rank)
    if any(step != 1 for step in _of_all_axes(found.get("stride", 1), rank)):
        return 0 if all(length == 1 for length in reach) else None
    return tuple(((length - 1) // 2, length // 2) for length in reach)


def _same_transposed(found: Settings, rank: int) -> Any:
    both = _same_conv(found, rank)
    is_even = isinstance(both, tuple) and all(front == behind for front, behind in both)
    return both if is_even else None


def _reach(found: Settings, rank: int) -> list[int]:
    """How many positions of the input a kernel spans along each axis."""
    kernel = _of_all_axes(found.get("kernel_size", 1), rank)
    spread = _of_all_axes(found.get("dilation", 1), rank)
    return [step * (size - 1) + 1 for size, step in zip(kernel, spread, strict=True)]


_CHANGES: dict[str, Callable[[Settings, int], None]] = {
    "BatchNorm": _turn_statistics,
    "Dropout": _turn_keep,
    "GELU": _name_form,
    "MSELoss": _name_reduction,
    "L1Loss": _name_reduction,
    "Conv": _pad_conv,
    "ConvTranspose": _pad_transposed,
    "MaxPool": _pad_max,
    "AvgPool": _pad_mean,
}


def _in_one_form(family: str, rank: int, found: Settings) -> Settings:
    if family == "Conv" and isinstance(found.get("padding"), str):  # torch takes these words too
        found["padding"] = _same_conv(found, rank) if found["padding"] == "same" else 0
    if rank and family.endswith(("Conv", "ConvTranspose", "MaxPool", "AvgPool")):
        for name in _PER_AXIS:
            if name in found:
                found[name] = _per_axis(found[name], rank)
    for name in _AXES:
        if isinstance(found.get(name), int) and found[name] >= 0:
            found[f"{name}_from_front"] = found.pop(name)
    return found


def _per_axis(value: Any, rank: int) -> Any:
    """One value for each axis: a number, or a pair of unequal ones."""
    if value is None:
        return None
    return tuple(_single(one) for one in _of_all_axes(value, rank))


def _single(value: Any) -> Any:
    return value[0] if isinstance(value, tuple) and len(set(value)) == 1 else value


def _of_all_axes(value: Any, rank: int) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, Iterable) else (value,) * rank
