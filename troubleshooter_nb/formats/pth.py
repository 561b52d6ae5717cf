"""PyTorch's checkpoints: ``torch.save`` files of every age, and distributed checkpoint folders.

Read without torch, and without running anything a file asks for.
"""

from __future__ import annotations

from pathlib import Path

from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.checkpoint import Stored, checkpoint_dump
from troubleshooter_nb.formats.distributed import METADATA, distributed_tree
from troubleshooter_nb.formats.file_source import advised, named, opened
from troubleshooter_nb.formats.limits import is_beyond
from troubleshooter_nb.formats.pth_containers import STORAGE_DTYPES, contents_of, is_torch
from troubleshooter_nb.formats.pth_names import named_values
from troubleshooter_nb.formats.pth_tensors import HARMLESS, TORCH_DTYPES, Tensors
from troubleshooter_nb.formats.pth_walk import Tree, walked
from troubleshooter_nb.messages import Message, ids_of, joined, message_of
from troubleshooter_nb.naming import site_of_parameter
from troubleshooter_nb.naming.characters import printable

NAME = "pth"

_SUFFIXES = (".pth", ".pt", ".bin", ".pkl")
_WEIGHT_ROLES = {"parameter", "buffer", "average", "adapter", "quantized"}
# Notes of what a file holds that is no tensor.
_OTHERS = ("pth.not_tensors", "pth.code_not_run")
_HARMLESS_MODULES = (
    "torch.distributed.checkpoint.",
    "torch.jit._pickle.",
    "__torch__.",
    "pathlib.",
)


def refusal(path: Path) -> str | None:
    """None when this reader takes the path, else why not."""
    if path.is_dir():
        is_distributed = (path / METADATA).is_file()
        return None if is_distributed else Message("pth.folder_without", file=METADATA)
    try:
        with opened(path) as (file, stamp):
            if is_torch(file, stamp[0]):
                return None
    except FormatError as error:
        # An empty file of this name is a save that was interrupted.
        return None if path.is_file() and path.suffix in _SUFFIXES else message_of(error)
    except OSError as error:
        return message_of(error)
    return None if path.suffix in _SUFFIXES else Message("pth.no_container")


def open_pth(path: Path, *, label: str) -> Dump:
    """Open a torch checkpoint; values are read when asked for, and no code of it is run.

    Parameters
    ----------
    path : Path
        A file of ``torch.save`` (zip, or older), a TorchScript file, a pickle of arrays, or the
        folder of a distributed checkpoint.
    label : str

    Returns
    -------
    Dump
        One entry per tensor. The weights have the names of ``state_dict()``, whatever dict they
        are in; states of optimizers, counted steps, learning rates and moving averages have roles
        of their own. What cannot be read (sparse, meta) is an entry with a reason, what is no
        tensor a note, as is code the file wanted to run.

    Raises
    ------
    FormatError
        If it is damaged, no such file, or holds no weights.
    OSError
        If it cannot be opened.
    """
    with named(path):
        stored, notes = open_stored(path)
        _check_weights(stored, notes)
        return checkpoint_dump(stored, label=label, format=NAME, notes=notes)


def _check_weights(stored: list[Stored], notes: list[str]) -> None:
    roles = {(one.site or site_of_parameter(one.name)).role for one in stored}
    if roles & _WEIGHT_ROLES:
        return
    others = joined(note for note in notes if {*_OTHERS} & {*ids_of(note)})
    if "optimizer_state" in roles or any("pth.param_group" in ids_of(note) for note in notes):
        held = Message("pth.only_optimizer")
    elif others:
        held = Message("pth.no_weights", others=others)
    elif stored:
        held = Message("pth.no_weights_but", names=[one.name for one in stored])
    else:
        held = Message("pth.empty_dict")
    what = Message("pth.no_model", held=held)
    raise FormatError(joined([what, Message("pth.pass_model_file")]))


def open_stored(path: Path) -> tuple[list[Stored], list[str]]:
    """The tensors of a checkpoint and what there is to say, also where none is a weight.

    Raises
    ------
    FormatError
        If it is damaged or no such file; the file's name is not in the message.
    OSError
        If it cannot be opened.
    """
    tree, globals_, notes = distributed_tree(path) if path.is_dir() else _file_tree(path)
    stored, said = named_values(tree)
    return stored, [*said, *_code(globals_), *notes]


def _file_tree(path: Path) -> tuple[Tree, list[str], list[str]]:
    with opened(path) as (file, stamp):
        try:
            contents = contents_of(file, 0, stamp[0])
            tree = walked(contents.root, Tensors(path, contents, stamp))
        except FormatError as error:
            if is_beyond(error):
                raise
            raise FormatError(advised(error, "pth.not_sound")) from None
    return tree, contents.globals, contents.notes


def _code(globals_: list[str]) -> list[str]:
    """A note of what the file asks for beyond tensors, own code before that of torch."""
    asked = [name for name in globals_ if not _is_harmless(name)]
    asked.sort(key=lambda name: name.startswith("torch."))
    shown = [printable(name)[:80] for name in asked]
    return [Message("pth.code_not_run", names=shown)] if shown else []


def _is_harmless(name: str) -> bool:
    module, _, leaf = name.rpartition(".")
    if module.split(".")[0] == "torch" and leaf.removesuffix("Storage") != leaf:
        return leaf.lstrip("_").removesuffix("Storage") in (*STORAGE_DTYPES, "Typed")
    if module == "torch" and leaf in TORCH_DTYPES:
        return True
    return name in HARMLESS or name.startswith(_HARMLESS_MODULES)
