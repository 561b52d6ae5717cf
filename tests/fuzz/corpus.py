"""A small sound input for each reader: what is made, which reader opens it, what it then says."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import troubleshooter_nb as tnb
from tests.formats.test_debugger_dir import dumped
from tests.formats.test_polygraphy_json import arrays as outputs
from tests.formats.test_polygraphy_json import results
from tests.formats.test_polygraphy_json import written as written_json
from tests.formats.test_print_text import GRAPH
from tests.formats.test_record_folder import every_kind
from tests.formats.test_safetensors_mutations import arrays
from tests.fuzz import large
from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import ReadError
from troubleshooter_nb.formats.mapping_file import read_weight_map
from troubleshooter_nb.formats.pairing_files import read_mapping

DATA = Path(__file__).parents[1] / "data"
NETCDF = "comparison.nc"
_LARGEST = 1 << 20  # bytes of values that are looked at

Values = dict[str, Any]  # what a reader says, by names; None where it says that it is not sound


@dataclass(frozen=True)
class Input:
    """A sound input, made anew in a folder.

    Attributes
    ----------
    make : callable
        Takes an empty folder and gives the path to open in it.
    read : callable
        Takes the path and gives what the reader says.
    reader : str
        Name of the format in `FORMATS`; else what the reader is called.
    """

    make: Callable[[Path], Path]
    read: Callable[[Path], Values]
    reader: str


def values_of(dump: Dump) -> Values:
    """The bytes of each entry; a number where nothing but figures were stored."""
    repr(dump)
    dump.notes, dump.summarise()
    found: Values = {}
    places = zip(*(dump.index[one].values for one in ("step", "rank")), strict=True)
    for name, source, place in zip(dump.names, dump.sources, places, strict=True):
        key = f"{name} of {place}"
        if source is None or source.size_bytes > _LARGEST:
            found[key] = None
            continue
        try:
            values = source.read(0, math.prod(source.shape))
        except ReadError:
            found[key] = None
            continue
        found[key] = (source.shape, str(source.dtype), values.tobytes())
    assert all(0 < len(str(note)) < 2000 for note in dump.notes)
    return found


def _dump(reader: str) -> Callable[[Path], Values]:
    return lambda path: values_of(tnb.open_dump(path, format=reader))


def _series(path: Path) -> Values:
    series = tnb.open_series(path)
    repr(series)
    if isinstance(series, Dump):
        return values_of(series)
    return {name: series.table[name].values.tobytes() for name in series.measures}


def _weight_map(path: Path) -> Values:
    found = read_weight_map(path)
    repr(found)
    return {" ".join(row.sources): (row.targets, str(row.transform)) for row in found.rows}


def _mapping(path: Path) -> Values:
    found = read_mapping(path)
    return {str(rule.line): rule for rule in (*found.names, *found.apis)}


def _comparison(path: Path) -> Values:
    found = tnb.open_comparison(path)
    repr(found)
    found._repr_html_()
    return {name: column.values.tolist() for name, column in found.result.data_vars.items()}


def _file(name: str, write: Callable[[Path], object]) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        write(folder / name)
        return folder / name

    return make


def _copied(*parts: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        source = DATA.joinpath(*parts)
        if source.is_dir():
            shutil.copytree(source, folder / source.name)
        else:
            shutil.copy(source, folder)
        return folder / source.name

    return make


def _saved(name: str) -> Callable[[Path], Path]:
    return _file(name, lambda path: tnb.save_dump(arrays(), path))


def _packed(path: Path) -> None:
    given = {name: one for name, one in arrays().items() if name != "half"}
    np.savez_compressed(path, **given, ordered=np.asfortranarray(np.arange(12.0).reshape(3, 4)))


def _stored(path: Path) -> None:
    np.savez(path, **{name: one for name, one in arrays().items() if name != "half"})


def _shards(folder: Path) -> Path:
    places = {}
    for number, (name, array) in enumerate(arrays().items()):
        file = f"model-{number}.safetensors"
        tnb.save_dump({name: array}, folder / file)
        places[name] = file
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 8}, "weight_map": places}))
    return index


def _ranks(folder: Path) -> Path:
    for rank in range(2):
        (folder / f"rank_{rank}").mkdir()
        tnb.save_dump(arrays(), folder / f"rank_{rank}" / "x.ckpt")
    return folder


def _run(folder: Path) -> Path:
    (folder / "grads").mkdir()
    for step in (10, 20):
        tnb.save_dump(arrays(), folder / f"step_{step}.pth")
        tnb.save_dump(arrays(), folder / "grads" / f"step_{step}.pth")
    return folder


def _tensors(folder: Path) -> Path:
    for number in range(3):
        tnb.save_dump({"h": np.full((2, 3), number, np.float32)}, folder / f"h{number}.safetensors")
    return folder


def _steps(folder: Path) -> Path:
    for step in (10, 20):
        tnb.save_dump(arrays(), folder / f"step_{step}.safetensors")
    return folder


def _trainer(path: Path) -> None:
    rows = [{"step": n, "loss": 1 / (n + 1), "epoch": n / 7} for n in range(9)]
    path.write_text(json.dumps({"log_history": rows}, indent=1))


def _compared(path: Path) -> None:
    one = arrays()
    tnb.export(tnb.compare(one, one | {"fc.weight": one["fc.weight"].T}), path)


def _drafted(path: Path) -> None:
    path.write_text(
        "source: torch\ntarget: mindspore\nkeep: [head.bias]\nweights:\n"
        "- from: fc.weight\n  to: fc.weight\n  note: 'equal: values'\n"
        "- {from: [q, k], to: qk, transform: concat(0)}\n- from: pos_ids\n  to: null\n"
    )


def _pth(one: str) -> Input:
    return Input(_copied("troubleshooter", "inputs", "pth", one), _dump("pth"), "pth")


def _api(one: str) -> Input:
    return Input(_copied("maps", one), _mapping, "mapping")


INPUTS = {
    "record": Input(lambda folder: every_kind(folder / "r"), _dump("tnb_record"), "tnb_record"),
    "msprobe": Input(
        _copied("msprobe", "v26_2_0", "torch", "t_mlp_mix_md5"), _dump("msprobe_dir"), "msprobe_dir"
    ),
    "api_dump": Input(_copied("api_dump", "ms_dump"), _dump("api_dump"), "api_dump"),
    "kernel": Input(
        _copied("kernel", "kernel_synthetic", "npu_stat"), _dump("kernel_dir"), "kernel_dir"
    ),
    "kernel_npy": Input(
        _copied("kernel", "kernel_synthetic", "npu_npy"), _dump("kernel_dir"), "kernel_dir"
    ),
    "async_npy": Input(_copied("torch_npu_hooks", "async_npy"), _dump("async_npy"), "async_npy"),
    "hooks": Input(
        _copied("torch_npu_hooks", "multistep", "steps_1_2.pkl"), _dump("hooks_file"), "hooks_file"
    ),
    "polygraphy": Input(
        _file("x.json", lambda path: written_json(path, results(r=[outputs()]))),
        _dump("polygraphy_json"),
        "polygraphy_json",
    ),
    "debugger": Input(lambda folder: dumped(folder / "d"), _dump("debugger_dir"), "debugger_dir"),
    "run": Input(_run, _dump("run_dir"), "run_dir"),
    "run of tensors": Input(_tensors, _dump("run_dir"), "run_dir"),
    "npy folder": Input(_file("d", lambda path: tnb.save_dump(outputs(), path)),
                        _dump("npy_dir"), "npy_dir"),
    "safetensors": Input(_saved("x.safetensors"), _dump("safetensors"), "safetensors"),
    "npz stored": Input(_file("x.npz", _stored), _dump("npz"), "npz"),
    "npz deflated": Input(_file("x.npz", _packed), _dump("npz"), "npz"),
    "ckpt": Input(_saved("x.ckpt"), _dump("ckpt"), "ckpt"),
    "pth": Input(_saved("x.pth"), _dump("pth"), "pth"),
    "pth optimizer": _pth("wrapped_model_optimizer.pth"),
    "pth bfloat16": _pth("bfloat16.pth"),
    "pth module": _pth("whole_module.pth"),
    "pth legacy": Input(_copied("torch", "legacy.pth"), _dump("pth"), "pth"),
    "pth tar": Input(_copied("torch", "tar.pth"), _dump("pth"), "pth"),
    "pth scripted": Input(_copied("torch", "scripted.pth"), _dump("pth"), "pth"),
    "pth distributed": Input(_copied("torch", "distributed"), _dump("pth"), "pth"),
    "sharded": Input(_shards, _dump("sharded"), "sharded"),
    "ranks": Input(_ranks, _dump("checkpoint_dir"), "checkpoint_dir"),
    "printed": Input(_file("x.txt", lambda path: path.write_text(GRAPH)), _dump("print_text"),
                     "print_text"),
    "log": Input(_file("x.log", lambda path: large.log_of_steps(path, 20)), _series, "series"),
    "csv": Input(_file("x.csv", lambda path: large.csv_of_steps(path, 20)), _series, "series"),
    "json lines": Input(
        _file("x.jsonl", lambda path: large.json_lines_of_steps(path, 20)), _series, "series"
    ),
    "trainer": Input(_file("x.json", _trainer), _series, "series"),
    "checkpoints": Input(_steps, _series, "series"),
    "weight map": Input(_file("x.yaml", _drafted), _weight_map, "weight map"),
    "weight map json": Input(
        _file("x.json", lambda path: large.weight_map_json(path, 6)), _weight_map, "weight map"
    ),
    "map api": _api("maps_api_list_output.yaml"),
    "map cell": _api("map_cell.yaml"),
    "map data": _api("maps_data.yaml"),
    "map layer": _api("maps_layer_tf.yaml"),
    "map json": Input(
        _file("x.json", lambda path: large.mapping_json(path, 6)), _mapping, "mapping"
    ),
    "comparison.json": Input(_file("x.json", _compared), _comparison, "comparison"),
    NETCDF: Input(_file("x.nc", _compared), _comparison, "comparison"),
}  # fmt: skip
