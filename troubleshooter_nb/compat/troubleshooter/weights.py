"""``get_weight_map``, ``convert_weight`` and what saves and loads weights, of the old tool."""

from __future__ import annotations

import contextlib
import json
import os
import pprint
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from troubleshooter_nb.compat.troubleshooter.given import File, MapParts, map_rows, opened
from troubleshooter_nb.compat.troubleshooter.log import user_attention, user_warning
from troubleshooter_nb.compat.troubleshooter.table import text_table
from troubleshooter_nb.convert.apply import convert_weights
from troubleshooter_nb.convert.draft import draft_weight_map
from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import (
    ArgumentError,
    ArgumentTypeError,
    FormatError,
    MissingFileError,
    OptionError,
    TroubleshooterWarning,
    WeightMapError,
    check_kind,
)
from troubleshooter_nb.formats import as_dump
from troubleshooter_nb.formats.aside import folder_aside, written_whole
from troubleshooter_nb.formats.mapping_file import peer_parts
from troubleshooter_nb.formats.missing_path import not_there
from troubleshooter_nb.frameworks import Adapter, adapter_of_network, require
from troubleshooter_nb.messages import Message, joined, told
from troubleshooter_nb.naming import ASIDE_ROLES
from troubleshooter_nb.weight_map import Spec, Transform, WeightMap, WeightRow, reparametrized

TITLE = "The list of conversion result"
_FIELDS = (
    *("Parameter name of torch", "Parameter name of MindSpore", "Conversion status"),
    *("Parameter shape of torch", "Parameter shape of MindSpore"),
)


_SAVED_AS = {
    "torch": "torch_troubleshooter_create.pth",
    "mindspore": "mindspore_troubleshooter_create.ckpt",
}


def get_weight_map(
    pt_net: Any = None,
    weight_map_save_path: File | None = None,
    weight_name_prefix: str | None = None,
    custom_name_func: Callable[[dict[str, str]], Mapping[str, str]] | None = None,
    print_map: bool = False,
    *,
    pt_model: Any = None,
    **unknown: object,
) -> tuple[dict[str, str], dict[str, str]]:
    """The names a torch network's weights have in MindSpore, and what their values go through.

    Parameters
    ----------
    pt_net : torch.nn.Module
    weight_map_save_path : str or path-like, optional
        Where to write both as json, whatever the file is called.
    weight_name_prefix : str, optional
        Put in front of every MindSpore name, with one dot between.
    custom_name_func : callable, optional
        Takes ``{torch name: MindSpore name}`` and returns the same with other MindSpore names.
    print_map : bool
        Print both.
    pt_model : torch.nn.Module, optional
        What releases before 1.0.11 called `pt_net`.
    **unknown
        Ignored with a warning.

    Returns
    -------
    dict, dict
        ``{torch name: MindSpore name}``, and ``{torch name: function}`` for values that get
        another shape; the function is a name that `convert_weight` knows and never calls.

    Raises
    ------
    TypeError
        If `pt_net` is no network of torch, or the prefix no text.
    WeightMapError
        If two names would become one.
    ValueError
        If a parameter of a lazy layer has no shape yet.
    FormatError, OSError
        If the file cannot be written.

    Warns
    -----
    Through logging, about the parts of a weight norm and the like: the old map has one name on each
    side, so that they keep theirs. `troubleshooter_nb.draft_weight_map` makes one weight of them.

    Notes
    -----
    What MindSpore has no place for (``num_batches_tracked``) keeps its name, as in the old tool.
    Where that was wrong this is right: PReLU, ConvTranspose1d, SyncBatchNorm, InstanceNorm,
    Transformer layers, shared modules, layers without affine parameters.
    """
    _warn_of_unknown("get_weight_map", unknown)
    if pt_model is not None:
        user_warning(Message("compat.old_argument", argument="pt_model", now="pt_net"))
        pt_net = pt_model
    adapter = adapter_of_network(pt_net)
    if adapter is None or adapter is not require("torch"):
        raise ArgumentTypeError(Message("compat.torch_network", type=type(pt_net).__name__))
    if weight_map_save_path is not None:
        _refuse_folder(Path(weight_map_save_path))
    weight_map = _map_of(adapter, pt_net)
    if weight_name_prefix:
        check_kind("weight_name_prefix", weight_name_prefix, str)
        weight_map = weight_map.rename(prefix=weight_name_prefix)
    if custom_name_func is not None:
        weight_map = weight_map.rename(func=custom_name_func)
    names, functions = peer_parts(weight_map.rows)
    if weight_map_save_path is not None:
        path = Path(weight_map_save_path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(path) as stream:
            stream.write(json.dumps([names, functions]).encode())
    if print_map:
        pprint.pprint(names)
        pprint.pprint(functions)
    return names, functions


def _map_of(adapter: Adapter, net: Any) -> WeightMap:
    """A row of one name on each side for every name in the state dict."""
    if not any(layer.entries for layer in adapter.layers(net)):
        return WeightMap((), {})
    drafted = draft_weight_map(net, "mindspore")
    kept = {row.sources[0]: row for row in drafted if row.targets}
    parts: dict[tuple[str, str], list[str]] = {}  # form and remedy -> names
    for stored in reparametrized(drafted.source).values():
        parts.setdefault((stored.form, stored.cure.values["call"]), []).extend(stored.names)
        for name in stored.names:
            kept.pop(name, None)
    for (form, call), names_of_parts in parts.items():
        id = "norm_parts_keep_names" if form == "weight_norm" else "parts_keep_names"
        user_warning(Message(f"compat.{id}", names=names_of_parts, call=call))
    names = filter(drafted.source.__contains__, net.state_dict())
    rows = [kept.get(name) or WeightRow((name,), (name,)) for name in names]
    return WeightMap(tuple(rows), drafted.source)


def _refuse_folder(path: Path) -> None:
    """Raise where a file is to be written and a folder lies, before any work."""
    if path.is_dir():
        raise FormatError(Message("files.folder_of_this_name", file=str(path)))


def convert_weight(
    weight_map_path: File | None = None,
    pt_file_path: File | None = None,
    ms_file_save_path: File | None = None,
    print_conv_info: bool = True,
    pt_param_dict: Mapping[str, Any] | None = None,
    weight_map: MapParts | None = None,
    print_save_path: bool = True,
    *,
    pth_para_dict: Mapping[str, Any] | None = None,
    **unknown: object,
) -> None:
    """Write torch weights as a MindSpore checkpoint; print what became of every name.

    Parameters
    ----------
    weight_map_path : str or path-like
        What `get_weight_map` saved, or ``troubleshooter_nb.write_weight_map`` as yaml.
    pt_file_path : str or path-like
        A state dict, or a whole pickled module (which is never executed), in any layout. Neither
        framework is needed.
    ms_file_save_path : str or path-like
        ``.ckpt`` is added where it is missing.
    print_conv_info : bool
        Print the table. What the map drops is ``Dropped``, what MindSpore cannot store ``Not
        stored`` with the reason; rows of several names join them by ``+``.
    pt_param_dict, pth_para_dict : mapping of str to tensor or array, optional
        In place of the file; the old tool's code took the first name, its documents the second.
    weight_map : (dict of names, dict of functions), optional
        In place of the json.
    print_save_path : bool
        Say where the checkpoint is, through logging.
    **unknown
        Ignored with a warning.

    Raises
    ------
    WeightMapError
        If the map and the weights do not name the same, two weights would get one name, or a
        shape does not fit; nothing is written then.
    OptionError
        If the map, the weights or the path to save to is not given.
    MissingFileError
        If a file does not exist.
    FormatError, OSError
        If a file cannot be read or written.

    Warns
    -----
    Through logging, about tensors MindSpore cannot store (empty and complex ones): the old tool
    left them out silently, or wrote a file that could not be loaded.
    """
    _warn_of_unknown("convert_weight", unknown)
    if ms_file_save_path is None:
        raise OptionError(Message("compat.save_path"))
    given = pt_param_dict if pt_param_dict is not None else pth_para_dict
    dump = _weights(pt_file_path, given)
    rows = _rows(weight_map_path, weight_map)
    _convert(dump, rows, _with_suffix(ms_file_save_path), print_conv_info, print_save_path)


def convert_weight_and_load(
    weight_map_path: File, pt_file_path: File, net: Any
) -> tuple[list[str], list[str]]:
    """Convert torch weights and load them into a MindSpore network.

    Parameters
    ----------
    weight_map_path, pt_file_path : str or path-like
        As in `convert_weight`.
    net : mindspore.nn.Cell

    Returns
    -------
    list of str, list of str
        Parameters of the network that got no value, and converted ones it did not take. The old
        tool returned None, so that these were only in MindSpore's log.

    Raises
    ------
    WeightMapError, FormatError, OSError
        As `convert_weight`.
    RuntimeError
        From MindSpore, if a shape does not fit the network.
    """
    adapter = require("mindspore")
    dump, rows = _weights(pt_file_path, None), _rows(weight_map_path, None)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "converted.ckpt"
        _convert(dump, rows, file, print_table=True, print_path=False)
        return _load(adapter, net, file)


def load_ms_weight2net(model: Any, file: File) -> tuple[list[str], list[str]]:
    """Load a MindSpore checkpoint into a network.

    Parameters
    ----------
    model : mindspore.nn.Cell
    file : str or path-like

    Returns
    -------
    list of str, list of str
        Parameters of the network that got no value, and those of the file it does not have. The
        old tool returned None.

    Raises
    ------
    MissingFileError
        If the file does not exist.
    RuntimeError, ValueError
        From MindSpore, if it is no checkpoint or a shape does not fit the network.
    """
    if not os.path.exists(file):
        raise MissingFileError(not_there(Path(file)))
    return _load(require("mindspore"), model, file)


def save_net_and_weight_params(
    net: Any, path: File | None = None, weight_params_filename: str | None = None
) -> None:
    """Write a network's weights and what ``print(net)`` shows; of torch's also the weight map.

    Parameters
    ----------
    net : torch.nn.Module or mindspore.nn.Cell
    path : str or path-like, optional
        Folder, created where missing; default the working directory.
    weight_params_filename : str, optional
        Default ``torch_troubleshooter_create.pth`` or ``mindspore_troubleshooter_create.ckpt``.
        The others are ``torch_net_map.json``, ``torch_net_architecture.txt`` and
        ``mindspore_net_architecture.txt``.

    Raises
    ------
    ValueError
        If `net` is no network.
    FormatError, OSError
        If a file cannot be written. No file is there then, nor after any other error.
    """
    adapter = adapter_of_network(net)
    if adapter is None:
        raise ArgumentError(Message("compat.network", type=type(net).__name__))
    folder = Path() if path is None else Path(path)
    weights = folder / (weight_params_filename or _SAVED_AS[adapter.NAME])
    with _folder_of_all(folder) as aside:
        adapter.save_checkpoint(net, aside / weights.name)
        # MindSpore adds a suffix where there is none.
        files = {file: weights.with_name(file.name) for file in aside.iterdir()}
        if adapter.NAME == "torch":
            get_weight_map(net, aside / "torch_net_map.json")
        shown = aside / f"{adapter.NAME}_net_architecture.txt"
        shown.write_text(f"{net}\n", encoding="utf-8")
        files |= {file: folder / file.name for file in aside.iterdir() if file not in files}
        for target in files.values():
            _refuse_folder(target)
        for file, target in files.items():
            os.replace(file, target)


@contextlib.contextmanager
def _folder_of_all(folder: Path) -> Iterator[Path]:
    """A folder beside the final place of its files; after an error neither of them is left."""
    missing = [made for made in (folder, *folder.parents) if not made.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with folder_aside(folder, folder) as aside:
            yield aside
    except BaseException:
        with contextlib.suppress(OSError):
            for made in missing:
                made.rmdir()
        raise


def _load(adapter: Adapter, net: Any, file: File) -> tuple[list[str], list[str]]:
    missing, left = adapter.load_checkpoint(net, file)
    if missing:
        user_warning(Message("compat.not_loaded", names=list(missing)))
    if left:
        user_warning(Message("compat.no_parameter", names=list(left)))
    return missing, left


def _warn_of_unknown(call: str, unknown: Mapping[str, object]) -> None:
    if unknown:
        user_warning(Message("compat.not_known", call=call, names=[*unknown]))


def _weights(path: File | None, given: Mapping[str, Any] | None) -> Dump:
    if given is not None:
        return as_dump(dict(given), "pt_param_dict")
    if path is None:
        raise OptionError(Message("compat.no_weights"))
    dump = opened_checkpoint(path, "pt_file_path")
    kept = [role for role in set(dump.index["role"].values) if role not in ASIDE_ROLES]
    return dump.select(role=kept)


def opened_checkpoint(file: File, argument: str) -> Dump:
    """As `opened`; errors about the working directory have its name instead of none."""
    return opened(file if Path(file).name else Path(file).resolve(), argument)


def _rows(path: File | None, given: MapParts | None) -> list[WeightRow]:
    rows = map_rows(path, given)
    if rows is None:
        raise OptionError(Message("compat.no_weight_map"))
    return rows


def _with_suffix(path: File) -> Path:
    text = os.fspath(path)
    return Path(text if text.endswith(".ckpt") else f"{text}.ckpt")


def _convert(
    dump: Dump, rows: Sequence[WeightRow], path: Path, print_table: bool, print_path: bool
) -> None:
    rows = _over_names_of(dump, rows)
    specs = {
        name: Spec(source.shape, source.dtype)
        for name, source in zip(dump.names, dump.sources, strict=True)
        if source is not None
    }
    weight_map = WeightMap(tuple(rows), specs, source_label=dump.label, target_label=path.name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TroubleshooterWarning)  # the old tool says it in its log
        proof = convert_weights(dump, path, weight_map, progress=False)
    # What has no partner is dropped or cannot be stored, which is said by itself.
    compared = proof.result["verdict"].values != "missing"
    if not proof.result["passed"].values[compared].all():
        user_warning(Message("compat.written_differs", verdict=proof.verdict))
    not_stored: dict[str, str] = {}
    for note in proof.notes:
        if isinstance(note, Message) and note.id == "weight_maps.cannot_store":
            user_warning(note)
            not_stored[note.values["name"]] = note.values["reason"]
    if print_table:
        reasons = {
            name: Message("compat.not_stored", reason=why) for name, why in not_stored.items()
        }
        print(conversion_table(rows, specs, reasons))
    if print_path:
        user_attention(Message("compat.checkpoint_saved", path=path.absolute()))


def conversion_table(
    rows: Sequence[WeightRow], specs: Mapping[str, Spec], absent: Mapping[str, str]
) -> str:
    """What becomes of every weight, as the old tool prints it.

    `absent` has the MindSpore names that the checkpoint lacks, and what to say of them.
    """
    return text_table(TITLE, _FIELDS, [_row(row, specs, absent) for row in rows])


def _over_names_of(dump: Dump, rows: Sequence[WeightRow]) -> list[WeightRow]:
    """The rows in the order of the weights, if both name the same."""
    known = dict.fromkeys(name for row in rows for name in row.sources)
    unwanted = [name for name in dump.names if name not in known]
    missing = [name for name in known if name not in dump.names]
    if unwanted or missing:
        differing = {"unwanted": listed(unwanted), "missing": listed(missing)}
        raise WeightMapError(Message("compat.map_unfit", label=dump.label, **differing))
    return sorted(rows, key=lambda row: dump.position(row.sources[0]))


def listed(names: Sequence[str]) -> str:
    """The names as Python shows a list, or that there are none."""
    return str([*names]) if names else Message("compat.none")


def plus(parts: Sequence[object]) -> str | None:
    """Names or shapes of one side of a row; None where it has none."""
    return " + ".join(map(str, parts)) or None


def _row(row: WeightRow, specs: Mapping[str, Spec], absent: Mapping[str, str]) -> list[object]:
    sources = [specs[name] for name in row.sources]
    made = row.transform.specs(sources) if row.targets else []
    names = plus(row.sources), plus(row.targets)
    shapes = (plus([spec.shape for spec in side]) for side in (sources, made))
    return [*names, _status(row, absent), *shapes]


def _status(row: WeightRow, absent: Mapping[str, str]) -> str:
    """The old tool's words for what happened to a weight, and ours for what did not."""
    if not row.targets:
        return told(Message("compat.dropped"))
    if lacking := dict.fromkeys(absent[name] for name in row.targets if name in absent):
        return told(joined(lacking))
    said = []
    if len(row.sources) == len(row.targets) == 1:
        source, target = row.sources[0].rpartition("."), row.targets[0].rpartition(".")
        if source[0] != target[0]:
            said.append("Name converted")
        elif source[2] != target[2]:
            said.append(f"{source[2]}->{target[2]}")
    else:
        said.append("Name converted")
    if row.transform != Transform():
        said.append("Value converted")
    return "; ".join(said) or "Consistent"
