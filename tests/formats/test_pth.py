"""Torch checkpoints of every layout, read without torch: names, roles, exact bytes, refusals."""

from __future__ import annotations

import io
import os
import pickle
import shutil
import zipfile
from collections import OrderedDict
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.pth import open_pth, open_stored, refusal

DATA = Path(__file__).parents[1] / "data"
INPUTS = DATA / "troubleshooter" / "inputs" / "pth"
TORCH = DATA / "torch"
NINE = [
    *("fc.weight", "fc.bias", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"),
    *("bn.num_batches_tracked", "c.weight", "c.bias"),
]
NET = [
    *("conv1.weight", "conv1.bias", "bn1.weight", "bn1.bias", "bn1.running_mean"),
    *("bn1.running_var", "bn1.num_batches_tracked", "fc.weight", "fc.bias"),
]
WEIGHTS = ("parameter", "buffer")


def opened(path):
    assert refusal(path) is None
    return open_pth(path, label="x")


def bytes_of(dump, *roles):
    """Shape, dtype and bytes of the entries with these roles, by name."""
    table = dump.to_dataframe()
    found = {}
    for name, role, source in zip(table["name"], table["role"], dump.sources, strict=True):
        if role in (roles or WEIGHTS):
            values = source.read(0, int(np.prod(source.shape)))
            found[name] = (source.shape, source.dtype.name, values.tobytes())
    return found


def roles_of(dump):
    table = dump.to_dataframe()
    return dict(zip(table["name"], table["role"], strict=True))


# What PyTorch 2.13 wrote for the peer's acceptance cases 24 and 25.


@pytest.mark.parametrize(
    "name", ["plain_dict", "wrapped_state_dict", "wrapped_model_optimizer", "module_prefix"]
)
def test_one_net_has_the_same_weights_in_every_wrapping(name):
    expected = bytes_of(opened(INPUTS / "state_dict.pth"))
    assert list(expected) == NINE
    assert bytes_of(opened(INPUTS / f"{name}.pth")) == expected


def test_wrappers_are_reported():
    assert "taken out of the names: module." in opened(INPUTS / "module_prefix.pth").notes
    notes = opened(INPUTS / "wrapped_state_dict.pth").notes
    assert "weights are those of 'state_dict'" in notes


def test_bfloat16_keeps_its_bits():
    exact = bytes_of(opened(INPUTS / "state_dict.pth"))["fc.weight"]
    rounded = bytes_of(opened(INPUTS / "bfloat16.pth"))["fc.weight"]
    values = np.frombuffer(exact[2], np.float32).astype(ml_dtypes.bfloat16)
    assert rounded == (exact[0], "bfloat16", values.tobytes())


def test_kinds_of_values_survive():
    found = bytes_of(opened(INPUTS / "kinds.pth"))
    shapes = [shape for shape, _, _ in found.values()]
    assert () in shapes
    assert any(0 in shape for shape in shapes)
    assert {dtype for _, dtype, _ in found.values()} == {"float32", "int64", "bool", "complex64"}
    integers = [
        np.frombuffer(raw, np.int64) for _, dtype, raw in found.values() if dtype == "int64"
    ]
    assert any(2**53 + 1 in values for values in integers)


def test_a_whole_module_opens_without_its_class():
    dump = opened(INPUTS / "whole_module.pth")
    assert list(bytes_of(dump)) == NINE
    assert dump.notes[-1].startswith("code the file asks for, not run: __main__.Net, torch.nn.")


def test_tied_tensors_are_reported():
    notes = opened(INPUTS / "tied.pth").notes
    assert notes == ("one tensor under several names: e.weight, h.weight",)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("optimizer_only", "holds optimizer state but no weights; pass the file with"),
        ("empty", "holds an empty dict: nothing was saved"),
        ("garbage", "pickle damaged at byte 0.*copy or save it again"),
        ("truncated", "truncated.*copy or save it again"),
    ],
)
def test_a_file_without_weights_is_refused_with_its_name_and_advice(name, reason):
    path = INPUTS / f"{name}.pth"
    assert refusal(path) is None
    with pytest.raises(FormatError, match=f"^{name}.pth: .*{reason}"):
        open_pth(path, label="x")


def test_an_optimizer_alone_can_still_be_looked_into():
    stored, notes = open_stored(INPUTS / "optimizer_only.pth")
    first = next(one for one in stored if one.site.slot == "exp_avg")
    assert (first.name, first.site.path) == ("optimizer.state.0.exp_avg", "0")
    assert {one.site.role for one in stored} == {
        "optimizer_state",
        "step_counter",
        "learning_rate",
    }
    assert any(note.startswith("param group 0: lr=0.001, betas=(0.9, 0.999)") for note in notes)


def test_states_of_an_optimizer_get_the_names_of_its_parameters():
    dump = opened(INPUTS / "wrapped_model_optimizer.pth")
    table = dump.to_dataframe().set_index("name")
    row = table.loc["optimizer.exp_avg.fc.weight"]
    assert (row["path"], row["role"], row["slot"]) == ("fc.weight", "optimizer_state", "exp_avg")
    assert table.loc["optimizer.step.fc.weight", "role"] == "step_counter"
    assert table.loc["optimizer.param_groups.0.lr", "role"] == "learning_rate"
    assert dump["optimizer.param_groups.0.lr"].item() == 0.001


# Old and other containers.


@pytest.mark.parametrize("name", ["legacy.pth", "tar.pth", "distributed"])
def test_other_containers_hold_the_same_bytes(name):
    expected = bytes_of(opened(TORCH / "scripted.pth"))
    expected.pop("passing")  # TorchScript does not say which buffers are not kept
    found = bytes_of(opened(TORCH / name))
    assert list(found) == NET
    assert found == expected


def test_torchscript_is_read_as_a_state_dict():
    dump = opened(TORCH / "scripted.pth")
    assert dump.notes == ("TorchScript: its code is not run",)


def test_a_part_of_a_distributed_checkpoint_that_is_gone_is_a_reason(tmp_path):
    folder = tmp_path / "d"
    shutil.copytree(TORCH / "distributed", folder)
    os.remove(folder / "__0_0.distcp")
    table = open_pth(folder, label="x").to_dataframe().set_index("name")
    assert table.loc["conv1.weight", "reason"] == "__0_0.distcp: No such file or directory"


def test_other_folders_are_refused(tmp_path):
    assert refusal(tmp_path) == "a folder without .metadata"
    with pytest.raises(FormatError, match=r"a folder without \.metadata, which"):
        open_pth(tmp_path, label="x")


# Hand-made pickles: what torch's names mean, without torch.


class Storage:
    def __init__(self, kind, key, count):
        self.pid = ("storage", kind, key, "cpu", count)


class Named:
    """Pickles as a global, whether it exists or not."""

    def __init__(self, path):
        self.module, _, self.name = path.rpartition(".")


class Made:
    def __init__(self, path, *args, state=None):
        self.path, self.args, self.state = path, args, state


class Writer(pickle._Pickler):
    """Python's own pickler, taught to write names of modules that need not exist."""

    def persistent_id(self, value):
        return value.pid if isinstance(value, Storage) else None

    def save(self, value, save_persistent_id=True):
        if isinstance(value, Named):
            self.write(f"c{value.module}\n{value.name}\n".encode())
        elif isinstance(value, Made):
            self.save(Named(value.path))
            self.save(value.args)
            self.write(b"R")
            if value.state is not None:
                self.save(value.state)
                self.write(b"b")
        else:
            super().save(value, save_persistent_id)


def pickled(value):
    stream = io.BytesIO()
    Writer(stream, 2).dump(value)
    return stream.getvalue()


def zipped(path, value, storages=(), *, byteorder="little", compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("any name/data.pkl", pickled(value), zipfile.ZIP_STORED)
        archive.writestr("any name/byteorder", byteorder, zipfile.ZIP_STORED)
        for key, content in dict(storages).items():
            archive.writestr(f"any name/data/{key}", content)
    return path


def tensor(shape, strides, *, offset=0, kind="Float", key="0", count=6):
    storage = Storage(Named(f"torch.{kind}Storage"), key, count)
    rebuild = "torch._utils._rebuild_tensor_v2"
    return Made(rebuild, storage, offset, shape, strides, False, OrderedDict())


SIX = np.arange(6, dtype=np.float32)


def test_views_are_read_in_their_own_order(tmp_path):
    value = {"t": tensor((3, 2), (1, 3)), "tail": tensor((2,), (2,), offset=1)}
    dump = opened(zipped(tmp_path / "x.pth", value, {"0": SIX.tobytes()}))
    np.testing.assert_array_equal(dump["t"], SIX.reshape(2, 3).T)
    np.testing.assert_array_equal(dump["tail"], [1, 3])


def test_big_endian_files_are_read(tmp_path):
    value = {"t": tensor((6,), (1,)), "b": tensor((6,), (1,), kind="BFloat16")}
    raw = SIX.astype(">f4").tobytes()
    path = zipped(tmp_path / "x.pth", value, {"0": raw}, byteorder="big")
    dump = opened(path)
    np.testing.assert_array_equal(dump["t"], SIX)
    assert dump.to_dataframe()["reason"].tolist() == ["", "big-endian bfloat16, which is not read"]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (tensor((7,), (1,)), "needs 7 elements of storage, there are 6"),
        (tensor((2,), (1,), offset=5), "needs 7 elements"),
        (tensor((2,), (1,), offset=10**5000), "no whole numbers"),
        (tensor((1,) * 100, (1,) * 100), "no whole numbers"),
        (tensor((2,), (-1,)), "outside the storage"),
        (tensor((2,), (1,), offset=-1), "outside the storage"),
        (tensor((-2,), (1,)), "impossible shape"),
        (tensor((2**62, 2**62), (0, 0)), "impossible shape"),
        (tensor((2,), (1, 1)), "2 strides for 1 axes"),
        (tensor("no", (1,)), "no whole numbers"),
        (tensor((2,), (1,), key="9"), "its storage is not in the file"),
        (tensor((2,), (1,), kind="QUInt4x2"), "values of a QUInt4x2, which are not read"),
        (Made("torch._utils._rebuild_tensor_v2", 1), "1 arguments"),
        (Made("torch._utils._rebuild_tensor_v2", 1, 0, (), ()), "no storage"),
        (Made("torch._utils._rebuild_sparse_tensor", 1, ()), r"save its \.to_dense"),
        (Made("torch._utils._rebuild_meta_tensor_no_storage", 1), "meta device has no values"),
    ],
)
def test_a_tensor_that_cannot_be_read_has_a_reason(tmp_path, value, reason):
    path = zipped(tmp_path / "x.pth", {"ok": tensor((6,), (1,)), "w": value}, {"0": SIX.tobytes()})
    table = opened(path).to_dataframe().set_index("name")
    assert table.loc["ok", "status"] == "ok"
    assert reason.replace("\\", "") in table.loc["w", "reason"]


def test_a_compressed_storage_has_a_reason(tmp_path):
    path = zipped(
        tmp_path / "x.pth",
        {"w": tensor((6,), (1,))},
        {"0": SIX.tobytes()},
        compression=zipfile.ZIP_DEFLATED,
    )
    assert "is compressed, which torch never does" in opened(path).to_dataframe()["reason"][0]


def test_parameters_quantised_tensors_and_subclasses_are_unwrapped(tmp_path):
    plain = tensor((6,), (1,))
    quantised = tensor((4,), (1,), kind="QInt8")
    quantised.path = "torch._utils._rebuild_qtensor"
    inner = (Named("torch._utils._rebuild_tensor_v2"), Named("my.Sub"), plain.args, OrderedDict())
    wrapper = Named("torch._utils._rebuild_wrapper_subclass")
    value = {
        "p": Made("torch._utils._rebuild_parameter", plain, True, OrderedDict()),
        "q": quantised,
        "s": Made("torch._tensor._rebuild_from_type_v2", *inner),
        "d": Made(
            "torch._tensor._rebuild_from_type_v2",
            *(wrapper, Named("torch.distributed.tensor.DTensor"), (), {"_local_tensor": plain}),
        ),
        "two": Made(
            "torch._tensor._rebuild_from_type_v2",
            *(wrapper, Named("my.Two"), (), {"left": plain, "right": plain}),
        ),
    }
    dump = opened(zipped(tmp_path / "x.pth", value, {"0": SIX.tobytes()}))
    assert list(dump) == ["p", "q", "s", "d", "two.left", "two.right"]
    np.testing.assert_array_equal(dump["s"], SIX)
    assert "tensors as quantised integers, without scale: 1" in dump.notes
    assert "tensors saved as my.Sub: 1" in dump.notes


def test_numpy_arrays_of_any_protocol_and_numpy(tmp_path):
    arrays = {
        "c": np.arange(6.0).reshape(2, 3),
        "f": np.asfortranarray(np.arange(6.0, dtype=">f4").reshape(2, 3)),
        "i": np.int64(7),
        "e": np.zeros((0, 2), np.int8),
        "bool": np.array([True, False]),
    }
    for protocol in range(2, 6):
        path = tmp_path / f"{protocol}.pkl"
        path.write_bytes(pickle.dumps({**arrays, "text": np.array(["a"])}, protocol))
        dump = opened(path)
        for name, array in arrays.items():
            np.testing.assert_array_equal(dump[name], array)
        table = dump.to_dataframe().set_index("name")
        assert table.loc["text", "reason"].startswith("a numpy array of")


def test_a_moving_average_is_beside_the_model(tmp_path):
    one = {"conv.weight": tensor((6,), (1,))}
    ema = {"module.conv.weight": tensor((6,), (1,), key="1")}
    storages = {"0": SIX.tobytes(), "1": (SIX + 1).tobytes()}
    dump = opened(zipped(tmp_path / "a.pth", {"model_ema": ema, "model": one}, storages))
    assert roles_of(dump) == {"model_ema.conv.weight": "average", "conv.weight": "parameter"}
    assert dump.to_dataframe()["path"].tolist() == ["conv.weight"] * 2
    alone = opened(zipped(tmp_path / "b.pth", {"model_ema": ema}, storages))
    assert roles_of(alone) == {"conv.weight": "parameter"}
    assert "weights are those of 'model_ema' (a moving average)" in alone.notes


def test_only_the_outermost_wrapper_is_taken_off(tmp_path):
    value = {
        "model": {"language_model": {"encoder": {"layers.0.weight": tensor((6,), (1,))}}},
        "iteration": 5,
        "args": Made("argparse.Namespace", state={"lr": 0.1}),
        "rng_state": [{"torch_rng_state": tensor((6,), (4,), kind="Byte")}],
        "lr_scheduler": {"_last_lr": [0.5], "last_epoch": 4},
        "note": "hello",
    }
    dump = opened(zipped(tmp_path / "x.pth", value, {"0": SIX.tobytes()}))
    assert roles_of(dump) == {
        "language_model.encoder.layers.0.weight": "parameter",
        "iteration": "step_counter",
        "rng_state.0.torch_rng_state": "",
        "lr_scheduler._last_lr.0": "learning_rate",
    }
    assert "not tensors: args, lr_scheduler.last_epoch, note" in dump.notes
    assert "code the file asks for, not run: argparse.Namespace" in dump.notes


def test_parts_of_a_pickled_module_are_no_wrappers(tmp_path):
    leaf = {"_parameters": {"weight": tensor((6,), (1,))}, "_buffers": {}, "_modules": {}}
    inner = Made("my.Inner", state=leaf)
    root = {"_parameters": {}, "_buffers": {}, "_modules": {"net": inner}}
    path = zipped(tmp_path / "x.pth", Made("my.Net", state=root), {"0": SIX.tobytes()})
    assert list(opened(path)) == ["net.weight"]


def test_states_in_another_order_are_named_by_shapes_that_occur_once(tmp_path):
    shapes = {0: 6, 1: 2, 2: 3, 3: 3}
    state = {key: {"exp_avg": tensor((size,), (1,))} for key, size in shapes.items()}
    model = {"a": 2, "b": 6, "c": 3, "d": 3}
    value = {
        "model": {name: tensor((size,), (1,)) for name, size in model.items()},
        "optimizer": {"state": state, "param_groups": [{"params": [0, 1, 2, 3], "lr": 0.1}]},
    }
    dump = opened(zipped(tmp_path / "x.pth", value, {"0": SIX.tobytes()}))
    assert {"optimizer.exp_avg.a", "optimizer.exp_avg.b"} < set(dump)
    assert {"optimizer.state.2.exp_avg", "optimizer.state.3.exp_avg"} < set(dump)


def test_states_whose_shapes_fit_are_named_in_order(tmp_path):
    state = {0: {"exp_avg": tensor((6,), (1,))}, 1: {"exp_avg": tensor((2,), (1,))}}
    value = {
        "model": {"a.weight": tensor((2,), (1,)), "a.bias": tensor((6,), (1,))},
        "optimizer": {"state": state, "param_groups": [{"params": [0, 1], "lr": 0.1}]},
    }
    value["optimizer"]["param_groups"][0]["params"] = [1, 0]
    value["model"] = {f"module.{name}": one for name, one in value["model"].items()}
    fitting = opened(zipped(tmp_path / "y.pth", value, {"0": SIX.tobytes()}))
    assert "optimizer.exp_avg.a.bias" in roles_of(fitting)


def test_weights_called_like_what_is_beside_them_keep_their_container(tmp_path):
    value = {"model": {"step": tensor((6,), (1,))}, "step": 3}
    dump = opened(zipped(tmp_path / "x.pth", value, {"0": SIX.tobytes()}))
    assert list(dump) == ["model.step", "step"]


def test_code_is_named_and_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    value = {"w": tensor((6,), (1,)), "evil": Made("os.system", "touch ran")}
    dump = opened(zipped(tmp_path / "x.pth", value, {"0": SIX.tobytes()}))
    assert list(dump) == ["w"]
    assert "code the file asks for, not run: os.system" in dump.notes
    (tmp_path / "y.pth").write_bytes(b"cos\nsystem\n(S'touch ran'\ntR.")
    with pytest.raises(FormatError, match=r"y.pth: .*no weights .*os\.system"):
        open_pth(tmp_path / "y.pth", label="x")
    assert sorted(os.listdir(tmp_path)) == ["x.pth", "y.pth"]


def test_a_dict_that_holds_itself_ends(tmp_path):
    value = {"w": tensor((6,), (1,))}
    value["self"] = value
    dump = opened(zipped(tmp_path / "x.pth", value, {"0": SIX.tobytes()}))
    assert list(dump) == ["w"]


def test_long_lists_and_vocabularies_count_as_one_value(tmp_path):
    value = {
        "w": tensor((6,), (1,)),
        "losses": [0.5] * 1_200_000,
        "words": {str(number): number for number in range(1000)},
    }
    dump = opened(zipped(tmp_path / "x.pth", value, {"0": SIX.tobytes()}))
    assert list(dump) == ["w"]
    assert "not tensors: losses, words" in dump.notes


def test_doubling_references_are_bounded(tmp_path):
    value = []
    for _ in range(60):
        value = [value, value]
    path = tmp_path / "x.pkl"
    path.write_bytes(pickle.dumps(value, 2))
    with pytest.raises(
        FormatError, match=r"x.pkl: .*more than [0-9,]+ values, too many for its size"
    ):
        open_pth(path, label="x")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("x.txt", b"hello world", "neither a torch zip nor tar nor a pickle"),
        ("x.npz", b"PK\x03\x04 and more", "neither a torch zip nor tar nor a pickle"),
        ("x.txt", b"", "empty file"),
        ("x.pth", b"", None),
        ("x.bin", b"hello world", None),
        ("x", pickle.dumps({}), None),
    ],
)
def test_what_is_taken(tmp_path, name, content, reason):
    path = tmp_path / name
    path.write_bytes(content)
    found = refusal(path)
    assert found is None if reason is None else found.startswith(reason)
    if reason is None:
        with pytest.raises(FormatError, match=f"^{name}: "):
            open_pth(path, label="x")


def test_a_zip_of_arrays_is_not_torch(tmp_path):
    np.savez(tmp_path / "x.npz", a=SIX)
    assert refusal(tmp_path / "x.npz") == "neither a torch zip nor tar nor a pickle"


# With torch itself.


@pytest.fixture(scope="module")
def layouts(tmp_path_factory):
    import warnings

    from tests.formats import torch_layouts

    folder = tmp_path_factory.mktemp("layouts")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = torch_layouts.layouts(folder)
    return folder, net.state_dict()


LAYOUTS = [
    *("plain.pth", "ordered.pth", "state_dict.pth", "training.pth", "ema_only.pth", "ema.pth"),
    *("module.pth", "compiled.pth", "whole.pth", "whole_in_dict.pth", "parallel.pth"),
    *("scripted.pth", "legacy.pth", "legacy_whole.pth", "tar.pth"),
    *("iter_0000005/mp_rank_00/model_optim_rng.pt", "distributed", "nested.pth"),
]


@pytest.mark.torch
@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_of_torch_gives_the_names_and_bytes_of_state_dict(layouts, name):
    folder, state = layouts
    found = bytes_of(opened(folder / name))
    found.pop("passing", None)
    inner = "language_model.encoder." if name == "nested.pth" else ""
    assert found == {
        inner + key: (
            tuple(value.shape),
            str(value.dtype).removeprefix("torch."),
            value.numpy().tobytes(),
        )
        for key, value in state.items()
    }


@pytest.mark.torch
def test_torch_reads_our_tar(layouts):
    import torch

    folder, state = layouts
    loaded = torch.load(folder / "tar.pth", weights_only=False)
    assert all(torch.equal(loaded[name], value) for name, value in state.items())


@pytest.mark.torch
@pytest.mark.parametrize("old", [False, True])
def test_views_and_all_dtypes_of_torch(tmp_path, old):
    import torch

    base = torch.arange(24.0).reshape(2, 3, 4)
    names = "bfloat16 float16 float8_e4m3fn float8_e5m2 uint16 uint32 uint64 complex64 bool int8"
    value = {
        "t": base.transpose(0, 2),
        "s": base[:, 1:, ::2],
        "x": base[0, 0, 0].expand(3, 2),
        "zero": base[1, 2, 3],
        "empty": base[:, :0],
        "p": torch.nn.Parameter(base[1]),
        **{name: torch.arange(6).to(getattr(torch, name)) for name in names.split()},
    }
    torch.save(value, tmp_path / "x.pth", _use_new_zipfile_serialization=not old)
    found = bytes_of(opened(tmp_path / "x.pth"))
    for name, one in value.items():
        whole = one.detach().contiguous().reshape(-1).view(torch.uint8)
        assert found[name][0] == tuple(one.shape)
        assert found[name][2] == bytes(whole.tolist())


@pytest.mark.torch
def test_chunks_of_a_distributed_tensor_are_joined(tmp_path):
    # Two files, as two processes would have written the halves.
    import torch
    from torch.distributed.checkpoint import metadata as md
    from torch.distributed.checkpoint.filesystem import _StorageInfo

    whole = torch.arange(24.0).reshape(4, 6)
    chunks, placed = [], {}
    for rank, columns in enumerate(([0, 2], [2, 6])):
        part = whole[:, columns[0] : columns[1]].contiguous()
        file = tmp_path / f"__{rank}_0.distcp"
        torch.save(part, file)
        offsets = torch.Size([0, columns[0]])
        chunks.append(md.ChunkStorageMetadata(offsets, part.shape))
        index = md.MetadataIndex("w", offsets, rank)
        placed[index] = _StorageInfo(file.name, 0, file.stat().st_size)
    described = {"w": md.TensorStorageMetadata(md.TensorProperties(), whole.shape, chunks)}
    (tmp_path / ".metadata").write_bytes(
        pickle.dumps(md.Metadata(described, None, placed), protocol=4)
    )
    np.testing.assert_array_equal(opened(tmp_path)["w"], whole.numpy())
    os.remove(tmp_path / "__1_0.distcp")
    reason = open_pth(tmp_path, label="x").to_dataframe()["reason"][0]
    assert "__1_0.distcp: No such file" in reason
