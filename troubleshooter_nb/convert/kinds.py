"""What kind of layer the tensors of a checkpoint belong to, guessed from names and shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming.roles import is_embedding, is_norm

Framework = Literal["torch", "mindspore"]
Shape = tuple[int, ...]

# Names that only MindSpore's layers give, and only torch's.
_MINDSPORE = ("gamma", "beta", "moving_mean", "moving_variance", "embedding_table")
_TORCH = ("running_mean", "running_var", "num_batches_tracked", "in_proj_weight")
_CONVOLUTIONS = {3: "Conv1d", 4: "Conv2d", 5: "Conv3d"}
_GATES = {4: "LSTM", 3: "GRU", 1: "RNN"}


@dataclass(frozen=True)
class Guess:
    """A kind of layer, as `LayerFacts.kind` spells it, and whether nothing else would fit.

    `hint` says what another kind would change in ``mindspore.nn``.
    """

    kind: str
    sure: bool
    hint: str = ""


def framework_of(names: Mapping[str, Shape], format: str = "") -> Framework:
    """The framework whose layers gave these names; the file's format decides where none tell."""
    leaves = {name.rpartition(".")[2] for name in names}
    if leaves & set(_MINDSPORE):
        return "mindspore"
    if leaves & set(_TORCH):
        return "torch"
    return "mindspore" if format == "ckpt" else "torch"


def layers_of(names: Mapping[str, Shape]) -> dict[str, dict[str, Shape]]:
    """The tensors by what they lie in: ``{"bn1": {"weight": (4,), "bias": (4,)}}``."""
    layers: dict[str, dict[str, Shape]] = {}
    for name, shape in names.items():
        path, _, leaf = name.rpartition(".")
        layers.setdefault(path, {})[leaf] = shape
    return layers


def guess_kind(path: str, leaves: Mapping[str, Shape], framework: Framework) -> Guess | None:
    """The kind of layer with these tensors; None where names and shapes say nothing.

    Parameters
    ----------
    path : str
        Dotted name of the layer; ``wte`` and ``embed`` tell an embedding from a linear layer.
    leaves : mapping of str to shape
    framework : {"torch", "mindspore"}
        Whose spelling the leaves have.
    """
    guess = _torch_kind(path, leaves) if framework == "torch" else _mindspore_kind(leaves)
    if guess is None or framework == "torch":
        return guess
    return Guess(f"nn.{guess.kind}", guess.sure)


def batch_norm_of(path: str, layers: Mapping[str, Mapping[str, Shape]]) -> Guess:
    """Which of torch's batch norms a path is: as the layer before it, if that has its channels.

    Where no layer tells, all convolutions of the checkpoint do if they are of one kind.

    Parameters
    ----------
    path : str
        Of a layer with running statistics.
    layers : mapping of str to mapping of str to shape
        All layers, in the order of the file.
    """
    channels = next((shape for shape in layers[path].values() if len(shape) == 1), (-1,))[0]
    before: Shape = ()
    for other, leaves in layers.items():
        if other == path:
            break
        shape = leaves.get("weight", ())
        if len(shape) > 1 and other.rpartition(".")[0] == path.rpartition(".")[0]:
            before = shape
    kernels = {len(s["weight"]) for s in layers.values() if len(s.get("weight", ())) > 2}
    fits = bool(before) and channels in before[:2]
    if kernels == {5} or (fits and len(before) == 5 and path):
        return Guess("BatchNorm3d", sure=False, hint=Message("weight_maps.named_bn2d"))
    if fits and len(before) in (2, 3):
        return Guess("BatchNorm1d", sure=True)
    if kernels and 5 not in kernels:
        return Guess("BatchNorm2d", sure=True)
    return Guess("BatchNorm2d", sure=False, hint=Message("weight_maps.else_bn2d"))


def _torch_kind(path: str, leaves: Mapping[str, Shape]) -> Guess | None:
    if "running_mean" in leaves or "num_batches_tracked" in leaves:
        return Guess("BatchNorm2d", sure=True)
    if "in_proj_weight" in leaves or "q_proj_weight" in leaves:
        return Guess("MultiheadAttention", sure=True)
    hidden = leaves.get("weight_hh_l0")
    if hidden is not None and len(hidden) == 2 and hidden[1]:
        kind = _GATES.get(hidden[0] // hidden[1])
        return Guess(kind, sure=True) if kind else None
    shape = leaves.get("weight")
    if shape is None:
        return None
    if len(shape) in _CONVOLUTIONS:
        return Guess(_CONVOLUTIONS[len(shape)], sure=len(shape) > 3)
    if len(shape) == 2:
        embedding = "bias" not in leaves and is_embedding(path)
        return Guess("Embedding" if embedding else "Linear", sure=not embedding)
    if len(shape) == 1 and ("bias" in leaves or is_norm(path)):
        return Guess("LayerNorm", sure="bias" in leaves)
    return Guess("PReLU", sure=False) if shape == (1,) and len(leaves) == 1 else None


def transformer_layers(layers: Mapping[str, object], framework: Framework) -> list[str]:
    """Paths of Transformer layers, whose linear layers MindSpore calls ``dense``."""
    linear = "linear" if framework == "torch" else "dense"
    parts = ("self_attn", f"{linear}1", f"{linear}2", "norm1")
    parents = {path.rpartition(".")[0] for path in layers if path.endswith("self_attn")}
    return sorted(
        parent
        for parent in parents
        if all((f"{parent}.{part}" if parent else part) in layers for part in parts)
    )


def _mindspore_kind(leaves: Mapping[str, Shape]) -> Guess | None:
    if "moving_mean" in leaves:
        return Guess("BatchNorm2d", sure=True)
    if "gamma" in leaves:
        return Guess("LayerNorm", sure=True)
    if "embedding_table" in leaves:
        return Guess("Embedding", sure=True)
    if "w" in leaves and len(leaves["w"]) == 1:
        return Guess("PReLU", sure=False)
    shape = leaves.get("weight")
    if shape is None:
        return None
    if len(shape) == 4 and shape[2] == 1 and shape[3] > 1:
        return Guess("Conv1d", sure=False)  # or a Conv2d whose kernel is one high
    if len(shape) in (4, 5):
        return Guess(_CONVOLUTIONS[len(shape)], sure=True)
    return Guess("Dense", sure=True) if len(shape) == 2 else None
