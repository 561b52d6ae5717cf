"""Every on-disk format, and the one door that asks each of them."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

from troubleshooter_nb.collector import uncollected
from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import (
    ArgumentError,
    ArgumentTypeError,
    FormatError,
    PathNotFoundError,
    UnknownFormatError,
    path_of,
)
from troubleshooter_nb.formats import checkpoint_save, npy_dir
from troubleshooter_nb.formats.aside import left_behind
from troubleshooter_nb.formats.companions import with_companions
from troubleshooter_nb.formats.dumps_below import Below, look_below, several
from troubleshooter_nb.formats.file_source import head_of
from troubleshooter_nb.formats.links import kept_inside
from troubleshooter_nb.formats.missing_path import not_there
from troubleshooter_nb.formats.used_places import Exist, check_exist, first_free, refuse_used
from troubleshooter_nb.messages import Message, joined, message_of
from troubleshooter_nb.run_card import RunCard


@dataclass(frozen=True)
class Format:
    """A reader: its name, what it says to a path it does not take, and how it opens one."""

    name: str
    refusal: Callable[[Path], str | None]
    open: Callable[..., Dump]


def _reader(name: str, module: str = "") -> Format:
    """The reader of a module of this package, by default one called like it, loaded when asked."""
    module = module or name

    def loaded() -> Any:
        return importlib.import_module(f"{__name__}.{module}")

    def refusal(path: Path) -> str | None:
        said: str | None = loaded().refusal(path)
        return said

    def opened(path: Path, **options: Any) -> Dump:
        dump: Dump = getattr(loaded(), f"open_{module.rstrip('_')}")(path, **options)
        return dump

    return Format(name, refusal, opened)


_MSPROBE, _HOOKS = "msprobe_dir", "hooks_file"
# In the order in which they are asked.
FORMATS: tuple[Format, ...] = (
    _reader("tnb_record", "record_dir"),
    _reader(_MSPROBE),
    _reader("api_dump"),
    _reader("kernel_dir"),
    _reader("async_npy"),
    _reader(_HOOKS),
    _reader("polygraphy_json"),
    _reader("debugger_dir"),
    _reader("run_dir"),
    _reader("npy_dir"),
    _reader("safetensors", "safetensors_"),
    _reader("npz"),
    _reader("ckpt"),
    _reader("pth"),
    _reader("sharded"),
    _reader("checkpoint_dir"),
    _reader("print_text"),
)
# What save_dump writes.
_CHECKPOINTS = {suffix: writer.format for suffix, writer in checkpoint_save.WRITERS.items()}
_WRITTEN = (npy_dir.NAME, *dict.fromkeys(_CHECKPOINTS.values()), _MSPROBE)
# Tools whose dumps are folders of their own, that no reader of another kind should look into.
_NAMES_OF_TOOLS = ("tnb_record", _MSPROBE, "api_dump", _HOOKS)
_TOOLS = tuple(reader for reader in FORMATS if reader.name in _NAMES_OF_TOOLS)
# Readers of folders that hold no pickles: one that lies there is said to be left out.
_WITHOUT_PICKLES = frozenset((*_NAMES_OF_TOOLS, "kernel_dir", "async_npy", npy_dir.NAME))
# Of these, those whose tensors are all called .npy: a checkpoint is none of their own files.
_OF_ARRAYS = frozenset((npy_dir.NAME, "async_npy"))


@uncollected()
def open_dump(
    path: str | PathLike[str],
    *,
    format: str | None = None,
    label: str | None = None,
) -> Dump:
    """Open stored tensors, whatever tool left them; the format is recognised.

    Only headers are read; values load when asked for, and nothing in a file is executed.

    Parameters
    ----------
    path : str or path-like
        The folder of a recording (see `record`), also of one that is still running or broke off.
        A folder of ``.npy`` files (with ``rank<k>`` or ``step<k>`` folders), or one such file. The
        folder of a run: a tensor per file (``.pt``, ``.safetensors``, ``.npz`` ...), numbered
        checkpoints as steps with gradients beside them, a whole folder of the Trainer. What
        transformers' model debugger wrote. A
        checkpoint: ``.ckpt`` of MindSpore; ``.pth``, ``.pt`` or ``.bin`` of torch in every layout,
        also a folder of torch's distributed checkpoint; ``.safetensors``; ``.npz``; the index
        json or the folder of a sharded one; a folder with one checkpoint per rank. A dump of
        msprobe: its root, a step, a rank, or its ``dump.json``. The text files called ``.pkl`` of
        ``torch_npu.hooks`` and the folders of ``ptdbg_ascend``; TroubleShooter's api dump;
        MindSpore's kernel dump; json of Polygraphy.
    format : str, optional
        Name of the reader to use without asking the others.
    label : str, optional
        Short name of the dump in tables; default the last part of the path.

    Returns
    -------
    Dump
        Damaged files are entries with a reason, not errors. A pickle in a folder is named in the
        notes and never loaded. What else a folder holds and was not opened is in `Dump.unopened`.
        A link that leads out of the folder is no readable entry, and a note: see `set_options` for
        ``links``. That `path` is a link itself is fine, and so is a download cache's.

    Raises
    ------
    FileNotFoundError
        If the path does not exist.
    UnknownFormatError
        If no reader takes it; the message lists what each one said. If it is a folder above dumps
        of msprobe, the hooks or the api dump, whose names the message lists; a reader asked for
        by `format` takes it nevertheless. Or for an unknown `format`.
    FormatError
        If the reader asked for by `format` finds nothing it can read. If the file is one that is
        often taken for a dump: a pointer of Git LFS, a web page, msprobe's configuration.
    """
    if path == "":
        raise PathNotFoundError(Message("files.path_empty"))
    path = path_of(path)
    if not path.exists():
        raise PathNotFoundError(not_there(path))
    with kept_inside(path) as notes:
        try:
            dump = _recognised(path, format, label)
        except UnknownFormatError as error:
            if not (left := left_behind(path)):
                raise
            raise UnknownFormatError(joined([message_of(error), *left])) from None
    notes += left_behind(path)
    return replace(dump, notes=(*dump.notes, *notes)) if notes else dump


def _recognised(path: Path, format: str | None, label: str | None) -> Dump:
    """What the reader that takes the path makes of it; raises as `open_dump`."""
    # abspath also takes "." and "..", whose own names say nothing.
    label = label or os.path.basename(os.path.abspath(path)) or "root"
    if format is not None:
        return _opened(path, _named(format), label)
    _refuse_stand_ins(path)
    refusal_of = cache(lambda reader: reader.refusal(path))  # a question looks into files
    taken = next((tool.name for tool in _TOOLS if refusal_of(tool) is None), "")
    below = _below(path, taken)
    if below.dumps:
        raise UnknownFormatError(several(path, below, taken))
    refusals = {}
    for reader in FORMATS:
        refusal = refusal_of(reader)
        if refusal is None:
            return _opened(path, reader, label, below)
        refusals[reader.name] = refusal
    if below.pickles:
        refusals[_HOOKS] = joined([refusals[_HOOKS], *below.note()])
    said = [
        Message("files.reader_said", name=name, refusal=refusal)
        for name, refusal in refusals.items()
    ]
    raise UnknownFormatError(Message("files.not_recognised", path=path, said=said))


def _below(path: Path, taken: str) -> Below:
    if not path.is_dir():
        return Below()
    from troubleshooter_nb.formats import hooks_file

    return look_below(
        path,
        is_dump=lambda child: any(tool.refusal(child) is None for tool in _TOOLS),
        is_pickle=hooks_file.is_real_pickle,
        taken=bool(taken),
    )


def _opened(path: Path, reader: Format, label: str, below: Below | None = None) -> Dump:
    """What a reader makes of a path; pickles and checkpoints that it leaves aside are a note."""
    dump = reader.open(path, label=label)
    if reader.name not in _WITHOUT_PICKLES:
        return dump
    below = below or _below(path, reader.name)
    beside = below.beside_arrays(path) if reader.name in _OF_ARRAYS else []
    return replace(dump, notes=(*dump.notes, *below.note(), *beside))


def _refuse_stand_ins(path: Path) -> None:
    """Refuse the small files that often lie, or are taken, where a large one was meant to be."""
    head = head_of(path, 256).lstrip().lower()
    if head.startswith(b"version https://git-lfs"):
        raise FormatError(Message("files.lfs_pointer", file=path.name))
    if head.startswith((b"<!doctype html", b"<html")):
        raise FormatError(Message("files.web_page", file=path.name))
    from troubleshooter_nb.formats.msprobe_config import refuse_configuration

    refuse_configuration(path)


DumpLike = Dump | str | PathLike[str] | Mapping[str, Any]


def as_dump(value: DumpLike, side: str, *, copy: bool = True) -> Dump:
    """A dump as it is, opened from a path, or made of arrays in memory.

    Without `copy` the arrays are read where they lie, see `Dump.from_arrays`.

    Raises
    ------
    TypeError
        For anything else; `side` says which argument it was.
    """
    if isinstance(value, Dump):
        return value
    if isinstance(value, Mapping):
        return with_companions(Dump.from_arrays(value, label=side, copy=copy))
    if isinstance(value, (str, PathLike)):
        return open_dump(value)
    kind = type(value).__name__
    raise ArgumentTypeError(Message("arguments.dump_like", side=side, kind=kind))


def as_dumps(left: DumpLike, right: DumpLike) -> tuple[Dump, Dump]:
    """Both sides of a comparison, see `as_dump`; labels of two paths that end alike say where.

    Arrays in memory are not copied: that would cost more than comparing them.
    """
    dumps = as_dump(left, "left", copy=False), as_dump(right, "right", copy=False)
    if dumps[0].label != dumps[1].label:
        return dumps
    if not (isinstance(left, (str, PathLike)) and isinstance(right, (str, PathLike))):
        return dumps
    labels = labels_of_paths(left, right)
    return dumps[0].relabel(labels[0]), dumps[1].relabel(labels[1])


def labels_of_paths(*paths: str | PathLike[str]) -> tuple[str, str]:
    """The last part of two paths, with the nearest folder above it that is not called the same.

    Alone, where there is none, or where it may be called like a user or a disk.
    """
    left, right = (Path(os.path.abspath(path)).parts for path in paths)
    up = next((k for k in range(2, min(len(left), len(right)) - 2) if left[-k] != right[-k]), 0)
    if not up:
        return left[-1], right[-1]
    between = "/" if up == 2 else "/…/"
    return f"{left[-up]}{between}{left[-1]}", f"{right[-up]}{between}{right[-1]}"


def save_dump(
    arrays: Mapping[str, Any] | Dump,
    path: str | PathLike[str],
    *,
    format: str | None = None,
    card: RunCard | None = None,
    exist: Exist | None = None,
) -> Path:
    """Write arrays, tensors or a Dump as a folder or a checkpoint that `open_dump` reads.

    Parameters
    ----------
    arrays : mapping of str to array, or Dump
        Tensors of torch or MindSpore, numpy arrays or numbers, in the order of saving; or a Dump,
        which is copied block by block. Neither framework is needed.
    path : str or path-like
        A name that ends in ``.ckpt`` (MindSpore loads it), ``.pth`` or ``.pt`` (torch does) or
        ``.safetensors`` is one file, which appears whole or not at all, of one step and rank. Any
        other is a folder, empty or new: one ``{name}_{dtype}_{number}.npy`` per array and
        ``run_card.json``; those of a Dump of several steps or ranks lie below
        ``step<n>/rank<k>``.
    format : {"npy_dir", "ckpt", "pth", "safetensors", "msprobe_dir"}, optional
        Default: what `path` says. ``"msprobe_dir"`` is the layout of msprobe 26.2.0, for dumps of
        calls: ``step<n>/rank<k>/dump.json`` with ``stack.json``, ``construct.json`` and a file
        per tensor, as torch stores it (``.pt``) or ``.npy`` with MindSpore, where bfloat16 is
        widened to float32. The folder is new or empty, and appears whole or not at all.
    card : RunCard, optional
        What the run was made with, stored in a folder of arrays; default what this process knows.
    exist : {"error", "new", "replace"}, optional
        If something is at `path`: refuse; write to ``run-2``, or the next number that is free; or
        replace it, of a folder all arrays, those in sub-folders too, and nothing else. Default: a
        file is replaced, arrays are added to a folder, with a warning of those that stay.

    Returns
    -------
    Path
        The folder or file, which with ``exist="new"`` may be another one.

    Raises
    ------
    ValueError
        For a name that leaves the folder, a value that holds no numbers, or a Dump with tensors
        that cannot be read; for one of several steps or ranks as a checkpoint; for one that is of
        no calls, or a folder that is not empty, as msprobe's; for a `path` that is there, with
        ``exist="error"``. Nothing is written.
    UnknownFormatError
        For a `format` that is not written.

    Warns
    -----
    TroubleshooterWarning
        If arrays of an earlier save stay in the folder; or with what the format cannot hold and
        was left out: tensors by name, or how many entries of a Dump.
    """
    path = path_of(path)
    format = _format_to_write(path) if format is None else format
    if format not in _WRITTEN:
        raise UnknownFormatError(Message("files.no_format", name=format, known=[*_WRITTEN]))
    if card is not None and format != npy_dir.NAME:
        raise ArgumentError(Message("files.no_run_card", file=path.name))
    check_exist(exist)
    if exist == "error":
        refuse_used(path)
    elif exist == "new":
        path = first_free(path, is_folder=format in (npy_dir.NAME, _MSPROBE))
    if format == _MSPROBE:
        from troubleshooter_nb.formats import msprobe_writer

        dump = arrays if isinstance(arrays, Dump) else Dump.from_arrays(arrays, copy=False)
        return msprobe_writer.save_msprobe_dir(dump, path)
    if isinstance(arrays, Dump):
        arrays = checkpoint_save.of_tensors(arrays)
    if format != npy_dir.NAME:
        return checkpoint_save.save_checkpoint(arrays, path, format)
    if isinstance(arrays, Dump):
        checkpoint_save.check_readable(arrays)
        return npy_dir.save_npy_dump(arrays, path, card=card, replacing=exist == "replace")
    return npy_dir.save_npy_dir(arrays, path, card=card, replacing=exist == "replace")


def _format_to_write(path: Path) -> str:
    return _CHECKPOINTS.get(path.suffix.lower(), npy_dir.NAME)


def _named(name: str) -> Format:
    for reader in FORMATS:
        if reader.name == name:
            return reader
    known = [reader.name for reader in FORMATS]
    raise UnknownFormatError(Message("files.no_format", name=name, known=known))
