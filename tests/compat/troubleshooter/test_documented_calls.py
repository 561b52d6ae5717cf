"""Every documented call with every documented argument, against what the old tool gives.

`documented_calls.json` holds the expectation of each row: file names, cells, text or the error.
They were written by hand from what the tool's guide says and from runs of it, not from ours;
`stored` names a file that the tool itself wrote.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import troubleshooter_nb.compat.troubleshooter as ts
from troubleshooter_nb import save_dump
from troubleshooter_nb.compat.troubleshooter import passed_over, saving
from troubleshooter_nb.options import option_context

DATA = Path(__file__).parents[2] / "data/compat/troubleshooter"
EXPECTED: dict[str, dict[str, Any]] = json.loads((DATA / "documented_calls.json").read_text())
BUILD = DATA / "master_1.0.19"
WEIGHTS, CKPT = BUILD / "weights", BUILD / "ckpt"
PTH = [str(WEIGHTS / name) for name in ("pt_net_map.json", "pt_net.pth", "ms_net.ckpt")]
CKPTS = str(CKPT / "a.ckpt"), str(CKPT / "b.ckpt")
CONV1D = "troubleshooter.migrator.mapping_relation.weight_adapter.trans_conv1d_weight_value"
CALLS: dict[str, Callable[[], Any]] = {}


def row(name: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Add a call to the table."""

    def add(call: Callable[[], Any]) -> Callable[[], Any]:
        assert name not in CALLS
        CALLS[name] = call
        return call

    return add


def rows(**calls: Callable[[], Any]) -> None:
    """Add calls whose names have no blanks in them."""
    for name, call in calls.items():
        row(name.replace("__", " "))(call)


# What a script has at hand.


def torch_tensor(*values: float, **options: Any) -> Any:
    import torch

    return torch.tensor(values or [1.5, 2.0], **options)


def mindspore_tensor(dtype: str = "float32") -> Any:
    import mindspore

    return mindspore.Tensor([1.5, 2.0], getattr(mindspore, dtype))


def torch_net() -> Any:
    import torch

    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))


def mindspore_net() -> Any:
    from mindspore import nn

    return nn.SequentialCell(nn.Dense(2, 2), nn.BatchNorm1d(2))


def folder(name: str, **arrays: list[Any] | np.ndarray) -> str:
    """A folder of arrays in the working directory."""
    Path(name).mkdir()
    for file, array in arrays.items():
        np.save(Path(name) / f"{file}.npy", np.array(array, np.float32))
    return name


def two_folders() -> tuple[str, str]:
    square = [[1, 2], [3, 4]]
    return folder("l", x_0=[1, 2, 3], y_1=square), folder("r", x_0=[1, 2, 4], y_1=square)


def two_with_nan() -> tuple[str, str]:
    return tuple(folder(side, a_0=[1, math.nan, 3]) for side in "lr")


def two_lists() -> tuple[str, str]:
    left = folder("l", conv2_float32_0=[0, 0], conv1_float32_1=[1, 1])
    return left, folder("r", a_float32_0=[0, 0], b_float32_1=[1, 1])


def two_dictionaries() -> tuple[str, str]:
    arrays = {"d.a_float32_0": [1, 2], "d.b_float32_1": [3, 4, 5]}
    return folder("l", **arrays), folder("r", **arrays)


def two_sets_of_gradients() -> tuple[str, str]:
    left = folder("l", g_0=[1, 2], g_1=[1, 2, 3], g_2=[[1, 2], [3, 4]])
    return left, folder("r", h_0=[1, 2], h_1=[[1, 2], [3, 4]])


def checkpoints() -> dict[str, dict[str, np.ndarray]]:
    kernel = np.arange(6, dtype=np.float32).reshape(2, 1, 1, 3)
    left = {"bn.gamma": np.float32([1, 2, 3]), "c.weight": kernel}
    right = left | {"bn.gamma": np.float32([1, 2, 4])}
    return {"orig_ckpt_dict": left, "target_ckpt_dict": right}


MAP = {"bn.weight": "bn.gamma", "c.weight": "c.weight"}, {"c.weight": CONV1D}


def map_file(parts: Any = MAP, name: str = "map.json") -> str:
    Path(name).write_text(json.dumps(parts))
    return name


def torch_weights() -> dict[str, np.ndarray]:
    shapes = {"c.weight": (2, 1, 3), "n.weight": 2, "n.bias": 2, "f.bias": 2}
    return {name: np.ones(shape, np.float32) for name, shape in shapes.items()}


WEIGHT_MAP = (
    {"c.weight": "c.weight", "n.weight": "n.gamma", "n.bias": "n.bias", "f.bias": "g.bias"},
    {"c.weight": CONV1D},
)


def converted(**arguments: Any) -> None:
    given = {"pt_param_dict": torch_weights(), "weight_map": WEIGHT_MAP} | arguments
    ts.migrator.convert_weight(ms_file_save_path="net.ckpt", **given)


def gradient(**arguments: Any) -> None:
    x = torch_tensor(requires_grad=True)
    ts.save_grad("out/x", (x * 2), **arguments).sum().mul(3).backward()


def resnet_files() -> dict[str, str]:
    names = {"weight_map_path": "resnet_map.json", "pt_file_path": "resnet.pth"}
    return {key: str(WEIGHTS / name) for key, name in names.items()}


def garbage(name: str) -> str:
    Path(name).write_bytes(b"neither weights nor a map")
    return name


# save and save_grad.

rows(
    save__tensor=lambda: ts.save("out/x", torch_tensor()),
    save__two__calls=lambda: [ts.save("out/x", torch_tensor()) for _ in range(2)],
    save__list=lambda: ts.save("out/x", [torch_tensor(), torch_tensor()]),
    save__tuple__with__None=lambda: ts.save("out/x", (torch_tensor(), None, torch_tensor())),
    save__dict=lambda: ts.save("out/x", {"a": torch_tensor(), "b": torch_tensor()}),
    save__suffix__text=lambda: ts.save("out/x", torch_tensor(), "sfx"),
    save__suffix__number=lambda: ts.save("out/x", torch_tensor(), suffix=3),
    save__suffix__None=lambda: ts.save("out/x", torch_tensor(), suffix=None),
    save__suffix__empty=lambda: ts.save("out/x", torch_tensor(), suffix=""),
    save__output_mode__npy=lambda: ts.save("out/x", torch_tensor(), output_mode="npy"),
    save__output_mode__print=lambda: ts.save("out/x", torch_tensor(), None, "print"),
    save__file__with__npy=lambda: ts.save("out/x.npy", torch_tensor()),
    save__file__with__another__suffix=lambda: ts.save("out/a.bin", torch_tensor()),
    save__key__with__slash=lambda: ts.save("out/f", {"x/y": torch_tensor()}),
    save__bfloat16__of__mindspore=lambda: ts.save("out/x", mindspore_tensor("bfloat16")),
    save__file__that__ends__with__a__separator=lambda: ts.save("out/", torch_tensor()),
    save__unknown__output_mode=lambda: ts.save("out/x", torch_tensor(), output_mode="csv"),
    save__a__set=lambda: ts.save("out/x", {1, 2}),
    save_grad=gradient,
    save_grad__suffix=lambda: gradient(suffix="g"),
    save_grad__suffix__None=lambda: gradient(suffix=None),
    save_grad__output_mode__print=lambda: gradient(output_mode="print"),
    save_grad__of__a__list=lambda: ts.save_grad("out/x", [torch_tensor()]),
    save_grad__without__gradient=lambda: ts.save_grad("out/x", torch_tensor()),
)
row("migrator.save")(lambda: ts.migrator.save("out/x", torch_tensor(), suffix="s"))


@row("save nested with suffix")
def _():
    x = torch_tensor()
    ts.save("out/d", {"a": [x, (x, {"k": x})]}, suffix="s")


@row("save output_mode print of a dict")
def _():
    value = {"a": torch_tensor(1, 2), "b": torch_tensor(1, dtype=bool_of_torch())[0]}
    ts.save("out/x", value, suffix="s", output_mode="print")


def bool_of_torch() -> Any:
    import torch

    return torch.bool


@row("save output_mode print of mindspore")
def _():
    ts.save("out/x", mindspore_tensor(), output_mode="print")


@row("save every dtype")
def _():
    import torch

    names = ["float16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64", "bool"]
    for name in [*names, "complex64"]:
        ts.save("out/t", torch.ones(2, dtype=getattr(torch, name)))


@row("save bfloat16 of torch")
def _():
    import torch

    ts.save("out/x", torch.ones(2, dtype=torch.bfloat16))


@row("save both frameworks")
def _():
    ts.save("out/t", torch_tensor())
    ts.save("out/m", mindspore_tensor())


@row("save several folders")
def _():
    ts.save("a/x", torch_tensor())
    ts.save("b/x", torch_tensor())


@row("save id-first")
def _():
    with option_context(npy_names="id-first"):
        ts.save("out/x", torch_tensor())
        ts.save("out/l", [torch_tensor(), torch_tensor()])


@row("save 1.0.15")
def _():
    with option_context(npy_names="1.0.15"):
        ts.save("out/x", torch_tensor())
        ts.save("out/l", [torch_tensor(), torch_tensor()], suffix="s")
        ts.save("out/d", {"fc.weight_0": torch_tensor()})


@row("save_grad id-first")
def _():
    with option_context(npy_names="id-first"):
        gradient()


@row("save_grad mindspore")
def _():
    import mindspore

    step = mindspore.grad(lambda x: ts.save_grad("out/x", x * 2).sum())
    step(mindspore_tensor())


@row("migrator.save_grad")
def _():
    x = ts.migrator.save_grad("out/x", torch_tensor(requires_grad=True) * 2)
    x.sum().backward()


# Pairing files.

rows(
    by_name=lambda: ts.migrator.get_name_map_list_by_name(*two_folders()),
    by_name__alone=lambda: ts.migrator.get_name_map_list_by_name(*two_sets_of_gradients()),
    by_number=lambda: ts.migrator.get_name_map_list_by_number(*two_sets_of_gradients()),
    by_number__sort_key=lambda: ts.migrator.get_name_map_list_by_number(
        *two_sets_of_gradients(), sort_key=lambda name: -int(name[2])
    ),
    by_shape=lambda: ts.migrator.get_name_map_list_by_shape_edit_distance(*two_sets_of_gradients()),
    by_shape__costs=lambda: ts.migrator.get_name_map_list_by_shape_edit_distance(
        *two_sets_of_gradients(), del_cost=2, ins_cost=2
    ),
    by_shape__rep_cost=lambda: ts.migrator.get_name_map_list_by_shape_edit_distance(
        folder("l", p_0=[1, 2]), folder("r", q_0=[1, 2, 3]), rep_cost=1
    ),
    by_shape__default__costs=lambda: ts.migrator.get_name_map_list_by_shape_edit_distance(
        folder("l", p_0=[1, 2]), folder("r", q_0=[1, 2, 3])
    ),
    by_name__missing__folder=lambda: ts.migrator.get_name_map_list_by_name("no", "such"),
)


# Comparing folders.


def compared(**arguments: Any) -> Any:
    return ts.migrator.compare_npy_dir(*two_folders(), **arguments)


NAMES = [("x_0.npy", "x_0.npy"), ("y_1.npy", "gone.npy"), ("y_1", "y_1.npy"), (None, "x_0.npy")]
EVERYTHING = {"rtol": 1e-4, "atol": 1e-4, "equal_nan": True, "compare_shape": True}
EVERYTHING |= {"output_file": "out.csv"}
SAVED = BUILD / "save_and_compare/ms_ts_save", BUILD / "save_and_compare/torch_ts_save"
rows(
    compare_npy_dir=compared,
    compare_npy_dir__rtol=lambda: compared(rtol=0.25),
    compare_npy_dir__atol=lambda: compared(atol=1.0),
    compare_npy_dir__equal_nan=lambda: ts.migrator.compare_npy_dir(*two_with_nan(), equal_nan=True),
    compare_npy_dir__not__equal_nan=lambda: ts.migrator.compare_npy_dir(
        *two_with_nan(), 1e-4, 1e-4, False
    ),
    compare_npy_dir__name_map_list=lambda: compared(name_map_list=NAMES),
    compare_npy_dir__empty__name_map_list=lambda: compared(name_map_list=[]),
    compare_npy_dir__compare_shape=lambda: compared(compare_shape=True),
    compare_npy_dir__output_file=lambda: compared(output_file="./out.csv"),
    compare_npy_dir__num_processes=lambda: compared(num_processes=2),
    compare_npy_dir__title=lambda: compared(title="mine"),
    compare_npy_dir__field_names=lambda: compared(field_names=list("abcdef")),
    compare_npy_dir__field_names__and__shapes=lambda: compared(
        field_names=list("abcdef"), compare_shape=True
    ),
    compare_npy_dir__frame_names=lambda: compared(frame_names=("pytorch", "mindspore")),
    compare_npy_dir__frame_names__of__msadapter=lambda: compared(frame_names=("msadapter", "x")),
    compare_npy_dir__stored__by__name=lambda: ts.migrator.compare_npy_dir(
        *SAVED, rtol=1e-3, atol=1e-3, equal_nan=True, compare_shape=True, output_file="out.csv"
    ),
    compare_npy_dir__stored__by__number=lambda: ts.migrator.compare_npy_dir(
        *SAVED,
        name_map_list=ts.migrator.get_name_map_list_by_number(*SAVED),
        output_file="out.csv",
    ),
    compare_npy_dir__another__keyword=lambda: compared(tolerance=1),
    compare_npy_dir__missing__folder=lambda: ts.migrator.compare_npy_dir("no", "such"),
    compare_npy_dir__type__of__rtol=lambda: compared(rtol="1e-3"),
    compare_list_dir=lambda: ts.migrator.compare_list_dir(*two_lists()),
    compare_list_dir__every__argument=lambda: ts.migrator.compare_list_dir(
        *two_lists(), **EVERYTHING, num_processes=1
    ),
    compare_dict_dir=lambda: ts.migrator.compare_dict_dir(*two_dictionaries()),
    compare_dict_dir__every__argument=lambda: ts.migrator.compare_dict_dir(
        *two_dictionaries(), **EVERYTHING, num_processes=1
    ),
    compare_grads_dir=lambda: ts.migrator.compare_grads_dir(*two_sets_of_gradients()),
    compare_grads_dir__compare_shape=lambda: ts.migrator.compare_grads_dir(
        *two_sets_of_gradients(), compare_shape=False
    ),
    compare_grads_dir__every__argument=lambda: ts.migrator.compare_grads_dir(
        *two_sets_of_gradients(), **EVERYTHING, num_processes=1
    ),
    compare_grads_dir__name_map_list=lambda: ts.migrator.compare_grads_dir(
        *two_sets_of_gradients(), name_map_list=[("g_2.npy", "h_1.npy")]
    ),
    compare_grads_dir__stored=lambda: ts.migrator.compare_grads_dir(
        BUILD / "grads/torch_grads_dir", BUILD / "grads/ms_grads_dir", output_file="out.csv"
    ),
)


# Figures.

THREE, OTHER = np.float64([1, 2, 3]), np.float64([1, 2, 4])
rows(
    cal_algorithm=lambda: ts.migrator.cal_algorithm(THREE, OTHER, 1e-4, 1e-4, False),
    cal_algorithm__shapes=lambda: ts.migrator.cal_algorithm(THREE, THREE[:2], 1e-4, 1e-4, False),
    cal_algorithm__None=lambda: ts.migrator.cal_algorithm(None, THREE, 1e-4, 1e-4, False),
    cal_cosine_sim=lambda: ts.migrator.cal_cosine_sim(THREE.reshape(3, 1), OTHER),
    cal_cosine_sim__of__zeros=lambda: ts.migrator.cal_cosine_sim(THREE * 0, THREE * 0),
    cal_cosine_sim__of__one__zero=lambda: ts.migrator.cal_cosine_sim(THREE * 0, THREE),
)


# Weights.


def conv_net() -> Any:
    import torch

    return torch.nn.Sequential(torch.nn.Conv1d(1, 2, 3))


def renamed(names: dict[str, str]) -> dict[str, str]:
    return {k: f"one.{v[2:]}" if v.startswith("1.") else v for k, v in names.items()}


def mapped(**arguments: Any) -> Any:
    return ts.migrator.get_weight_map(pt_net=torch_net(), **arguments)


rows(
    get_weight_map=mapped,
    get_weight_map__of__Conv1d=lambda: ts.migrator.get_weight_map(conv_net()),
    get_weight_map__weight_map_save_path=lambda: mapped(weight_map_save_path="map.json"),
    get_weight_map__another__suffix=lambda: [
        mapped(weight_map_save_path=f"map{suffix}") for suffix in (".txt", ".yaml", "")
    ],
    get_weight_map__weight_name_prefix=lambda: mapped(weight_name_prefix="uvp"),
    get_weight_map__custom_name_func=lambda: mapped(custom_name_func=renamed),
    get_weight_map__print_map=lambda: mapped(print_map=True),
    get_weight_map__pt_model=lambda: ts.migrator.get_weight_map(pt_model=torch_net()),
    get_weight_map__unknown=lambda: mapped(full_name_map=True),
    get_weight_map__prefix__of__another__type=lambda: mapped(weight_name_prefix=3),
    get_weight_map__no__network=lambda: ts.migrator.get_weight_map({}),
    convert_weight=lambda: ts.migrator.convert_weight(
        **resnet_files(), ms_file_save_path="net.ckpt"
    ),
    convert_weight__print_conv_info=lambda: converted(print_conv_info=False),
    convert_weight__pt_param_dict__and__weight_map=converted,
    convert_weight__pth_para_dict=lambda: converted(
        pt_param_dict=None, pth_para_dict=torch_weights()
    ),
    convert_weight__print_save_path=lambda: converted(print_save_path=False),
    convert_weight__map__of__another__suffix=lambda: [
        converted(
            weight_map=None,
            weight_map_path=map_file(WEIGHT_MAP, f"map{suffix}"),
            print_conv_info=False,
        )
        for suffix in (".yaml", ".txt", "")
    ],
    convert_weight__unknown=lambda: converted(print_level=0, print_conv_info=False),
    convert_weight__no__map=lambda: converted(weight_map=None),
    convert_weight__missing__map=lambda: converted(weight_map=None, weight_map_path="no.json"),
    convert_weight__no__pth=lambda: converted(pt_param_dict=None),
    convert_weight__missing__pth=lambda: converted(pt_param_dict=None, pt_file_path="no.pth"),
    convert_weight__garbage__pth=lambda: converted(
        pt_param_dict=None, pt_file_path=garbage("x.pth")
    ),
    convert_weight__garbage__map=lambda: converted(
        weight_map=None, weight_map_path=garbage("x.json")
    ),
    convert_weight__map__of__another__net=lambda: converted(weight_map=({"a": "a"}, {})),
)


@row("convert_weight_and_load")
def _():
    import torch

    net, cell = torch_net(), mindspore_net()
    torch.save(net.state_dict(), "net.pth")
    ts.migrator.get_weight_map(net, "map.json")
    ts.migrator.convert_weight_and_load("map.json", "net.pth", cell)
    return bool(np.array_equal(cell[0].weight.asnumpy(), net[0].weight.detach().numpy()))


# Comparing checkpoints.


def ckpt(**arguments: Any) -> Any:
    return ts.migrator.compare_ms_ckpt(**checkpoints(), **arguments)


def against_itself(parts: Any, *names: str) -> Any:
    draw = np.random.default_rng(0)
    path = str(save_dump({n: draw.random((2, 1, 1, 3), np.float32) for n in names}, "one.ckpt"))
    return ts.migrator.compare_ms_ckpt(path, path, weight_map=parts)


rows(
    compare_ms_ckpt=lambda: ts.migrator.compare_ms_ckpt(*CKPTS),
    compare_ms_ckpt__equal_nan=lambda: ts.migrator.compare_ms_ckpt(*CKPTS, equal_nan=True),
    compare_ms_ckpt__print_level__2=lambda: ts.migrator.compare_ms_ckpt(*CKPTS, print_level=2),
    compare_ms_ckpt__print_level__1=lambda: ts.migrator.compare_ms_ckpt(*CKPTS, print_level=1),
    compare_ms_ckpt__print_level__0=lambda: ts.migrator.compare_ms_ckpt(*CKPTS, print_level=0),
    compare_ms_ckpt__compare_value=lambda: ckpt(compare_value=False),
    compare_ms_ckpt__dictionaries=ckpt,
    compare_ms_ckpt__rtol=lambda: ckpt(rtol=0.25),
    compare_ms_ckpt__atol=lambda: ckpt(atol=1.0),
    compare_ms_ckpt__title=lambda: ckpt(title="mine"),
    compare_ms_ckpt__field__names=lambda: ckpt(
        shape_field_names=list("abcde"), value_field_names=list("fghijk")
    ),
    compare_ms_ckpt__weight_map=lambda: ckpt(weight_map=MAP),
    compare_ms_ckpt__weight_map_path=lambda: ckpt(weight_map_path=map_file()),
    compare_ms_ckpt__map__of__Conv1d=lambda: against_itself(MAP, "bn.gamma", "c.weight"),
    compare_ms_ckpt__map__that__swaps=lambda: against_itself(
        ({"a.weight": "b.weight", "b.weight": "a.weight"}, {}), "a.weight", "b.weight"
    ),
    compare_ms_ckpt__unknown=lambda: ckpt(num_processes=4),
    compare_ms_ckpt__missing=lambda: ts.migrator.compare_ms_ckpt("no.ckpt", CKPTS[1]),
    compare_ms_ckpt__missing__map=lambda: ckpt(weight_map_path="no.json"),
    compare_ms_ckpt__garbage=lambda: ts.migrator.compare_ms_ckpt(garbage("x.ckpt"), CKPTS[1]),
    compare_pth_and_ckpt=lambda: ts.migrator.compare_pth_and_ckpt(*PTH),
    compare_pth_and_ckpt__print_level__2=lambda: ts.migrator.compare_pth_and_ckpt(
        *PTH, print_level=2
    ),
    compare_pth_and_ckpt__print_level__0=lambda: ts.migrator.compare_pth_and_ckpt(
        *PTH, print_level=0
    ),
    compare_pth_and_ckpt__compare_value=lambda: ts.migrator.compare_pth_and_ckpt(
        *PTH, compare_value=False
    ),
    compare_pth_and_ckpt__tolerances=lambda: ts.migrator.compare_pth_and_ckpt(
        *PTH, rtol=1.0, atol=10.0, equal_nan=True
    ),
    compare_pth_and_ckpt__print_conv_info=lambda: ts.migrator.compare_pth_and_ckpt(
        *PTH, print_conv_info=True
    ),
    compare_pth_and_ckpt__missing__ckpt=lambda: ts.migrator.compare_pth_and_ckpt(
        *PTH[:2], "no.ckpt"
    ),
    compare_pth_and_ckpt__map__of__another__net=lambda: ts.migrator.compare_pth_and_ckpt(
        map_file(), *PTH[1:]
    ),
    save_net_and_weight_params__torch=lambda: ts.migrator.save_net_and_weight_params(
        torch_net(), path="info"
    ),
    save_net_and_weight_params__here=lambda: ts.migrator.save_net_and_weight_params(
        torch_net(), weight_params_filename="w.pth"
    ),
    save_net_and_weight_params__mindspore=lambda: ts.migrator.save_net_and_weight_params(
        mindspore_net(), "info"
    ),
    save_net_and_weight_params__no__network=lambda: ts.migrator.save_net_and_weight_params([]),
)


# Widgets, and what stands at the top.


def drawn_twice(fix: Callable[[], None]) -> list[bool]:
    def draw() -> tuple[float, float]:
        fix()
        return random.random(), float(np.random.rand())  # noqa: NPY002 - what is seeded

    return [one == other for one, other in zip(draw(), draw(), strict=True)]


def gradients() -> list[str]:
    return list(ts.widget.get_pt_grads(torch_net()))


def dumped() -> None:
    ts.widget.object_dump({"a": [1, None]}, "o.json")


def loaded() -> Any:
    dumped()
    return ts.widget.object_load("o.json")


def losses(**arguments: Any) -> None:
    Path("npu.txt").write_text("start\n1 lm_loss: 4.0\nlm_loss: 2.5E+00 | lr 1\nlm_loss:0.5\n")
    Path("gpu.txt").write_text("lm_loss: 4\nlr: 1\nlm_loss: 2.0, 7\nlm_loss: 1.0e0 lm_loss: 9\n")
    sides = ({"path": f"{k}.txt", "loss_tag": "lm_loss:", "label": k} for k in ("npu", "gpu"))
    ts.widget.loss_compare(*sides, **arguments)


def printed_and_converted() -> None:
    Path("screen.txt").write_text(
        "_TS_SAVE_NAME:x\nTensor(shape=[2], dtype=Float32, value=[1.5 2.0])\n"
        "_TS_SAVE_NAME:y tensor([1, 2])\n"
    )
    ts.widget.save_convert(file="screen.txt", output_path="npy")


row("widget.get_pt_grads")(gradients)
row("widget.object_dump")(dumped)
row("widget.object_load")(loaded)
row("widget.loss_compare")(losses)
row("widget.loss_compare title")(lambda: losses(title="mine"))
row("widget.fix_random")(lambda: drawn_twice(ts.widget.fix_random))
row("fix_random")(lambda: drawn_twice(ts.fix_random))
row("fix_random seed")(lambda: drawn_twice(lambda: ts.fix_random(seed=3)))
row("widget.save_convert")(printed_and_converted)
row("widget.precision_tracker")(
    lambda: ts.widget.precision_tracker("x.pb", precision_flags=("raise",), output_path="o")
)
row("version")(lambda: ts.__version__)


@row("widget.load_ms_weight2net")
def _():
    import mindspore

    net, other = mindspore_net(), mindspore_net()
    mindspore.save_checkpoint(net, "net.ckpt")
    ts.widget.load_ms_weight2net(other, "net.ckpt")
    return bool(np.array_equal(net[0].weight.asnumpy(), other[0].weight.asnumpy()))


@row("widget.load_ms_weight2net missing")
def _():
    ts.widget.load_ms_weight2net(mindspore_net(), "no.ckpt")


@row("tracking decorator")
def _():
    @ts.tracking(level=2, check_keyword="nan", check_mode=1, path_wl=["conv.py"], color=False)
    def add(a, b):
        return a + b

    return add(1, b=2)


@row("tracking with")
def _():
    with ts.tracking():
        return 3


@row("proposal decorator")
def _():
    @ts.proposal(print_clear_stack=True)
    def add(a, b):
        return a + b

    return add(1, b=2)


@row("proposal with")
def _():
    with ts.proposal(write_file_path="."):
        return 3


THE_ERROR = "as the script means it"


@row("proposal of an error")
def _():
    @ts.proposal()
    def fails():
        raise ValueError(THE_ERROR)

    with ts.proposal():
        fails()
        raise RuntimeError(THE_ERROR)


# The harness.


@pytest.fixture(autouse=True)
def _new_process(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    monkeypatch.setattr(saving, "_PER_PROCESS", saving.Numbering(per="framework"))
    monkeypatch.setattr(passed_over, "_said", set())
    with contextlib.suppress(ImportError):
        import torch

        cudnn = torch.backends.cudnn
        for switch in ("deterministic", "benchmark", "enabled"):
            monkeypatch.setattr(cudnn, switch, getattr(cudnn, switch))


def plain(value: Any) -> Any:
    """As json has it; nan is a text."""
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float | np.floating):
        return "nan" if math.isnan(value) else pytest.approx(float(value), abs=1e-7)
    return value


def tables(text: str) -> list[list[list[str]]]:
    """Cells of every table: title, headings, rows."""
    found: list[list[list[str]]] = []
    for line in text.splitlines():
        if line.startswith("+--") and "+" not in line[1:-1]:
            found.append([])
        elif line.startswith("|"):
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def test_no_row_is_without_expectation():
    assert CALLS.keys() == EXPECTED.keys()
    assert len(CALLS) >= 150


GUIDE = (Path(__file__).parents[3] / "docs/troubleshooter.md").read_text()


@pytest.mark.parametrize("module", [ts, ts.migrator, ts.widget], ids=lambda module: module.__name__)
def test_the_guide_names_every_call_and_argument(module):
    part = "" if module is ts else module.__name__.rpartition(".")[2] + "."
    for name in {*module.__all__} - {"migrator", "widget"}:
        # `fix_random` stands once for both its places.
        assert f"`{part}{name}`" in GUIDE or f"`{name}`" in GUIDE
        for parameter in inspect.signature(getattr(module, name)).parameters:
            assert f"`{parameter}`" in GUIDE or parameter in ("args", "kwargs", "unknown")


@pytest.mark.few(80)
@pytest.mark.torch
@pytest.mark.mindspore
@pytest.mark.parametrize("name", CALLS)
def test_a_documented_call_gives_what_the_old_tool_gives(name, capsys, caplog):
    expected = dict(EXPECTED[name])
    if "raises" in expected:
        error = {"ValueError": ValueError, "TypeError": TypeError, "RuntimeError": RuntimeError}
        with pytest.raises(error[expected.pop("raises")], match=r"\w"):
            CALLS[name]()
        assert expected == {}
        return
    returned = plain(CALLS[name]())
    printed = capsys.readouterr().out
    found = tables(printed)
    created = sorted(p.as_posix() for p in Path().rglob("*") if p.is_file())
    inputs = ("l/", "r/", "map", "npu.txt", "gpu.txt", "screen.txt")
    for key, wanted in expected.items():
        if key == "files":
            assert [file for file in created if not file.startswith(inputs)] == wanted
        elif key == "text":
            assert {file: Path(file).read_text() for file in wanted} == wanted
        elif key == "stored":
            assert printed == (DATA / wanted).read_text()
        elif key == "stored_file":
            assert Path(wanted[0]).read_bytes() == (DATA / wanted[1]).read_bytes()
        elif key == "printed":
            assert printed == wanted
        elif key == "returned":
            assert returned == wanted
        elif key == "said":
            assert wanted in caplog.text
        elif key == "unsaid":
            assert wanted not in caplog.text
        else:
            last = found[-1]
            assert {
                "title": last[0][0],
                "heading": last[1],
                "rows": last[2:],
                "titles": [table[0][0] for table in found],
                "headings": [table[1] for table in found],
                "verdicts": [cells[2] for cells in last[2:]],
            }[key] == wanted
