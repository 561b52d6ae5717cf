"""Files that are many times as long as people's, or stand for more than they hold.

Each function writes one of `count` parts; the readers are to be done with any of them in time that
grows as the file does.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile

import numpy as np

from troubleshooter_nb.formats.protobuf import bytes_head, number_field, varint
from troubleshooter_nb.formats.record_writer import RecordWriter


def weight_map_yaml(path, count):
    rows = "".join(
        f"- from: model.layers.{number}.weight\n  to: model.layers.{number}.gamma\n"
        for number in range(count)
    )
    path.write_text(f"source: torch\ntarget: mindspore\nweights:\n{rows}")


def weight_map_json(path, count):
    names = {f"model.layers.{number}.weight": f"layers.{number}.gamma" for number in range(count)}
    path.write_text(json.dumps([names, {}]))


def mapping_yaml(path, count):
    rows = (f"Module.fc{n}.Linear.forward.0: Cell.fc{n}.Dense.forward.0\n" for n in range(count))
    path.write_text("".join(rows))


def mapping_json(path, count):
    names = {f"Module.fc{n}.Linear.forward.0": f"Cell.fc{n}.Dense.forward.0" for n in range(count)}
    path.write_text(json.dumps(names))


def mapping_pairs(path, count):
    pairs = [[f"Module.fc{n}.forward.0", f"Cell.fc{n}.forward.0"] for n in range(count)]
    path.write_text(json.dumps(pairs))


def mapping_apis(path, count):
    rows = (f"- ms_api: mint.op{n}\n  pt_api: Functional.op{n}\n" for n in range(count))
    path.write_text("".join(rows))


def mapping_layers(path, count):
    path.write_text("TopLayer:\n" + "".join(f"  fc{n}: dense{n}\n" for n in range(count)))


def mapping_of_aliases(path, count):
    """Lists of ten of the list before: a line more is ten times as many nodes."""
    rows = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"]
    rows += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, count)]
    path.write_text("".join(rows))


def yaml_nested(path, count):
    path.write_text("a: " + "[" * count + "]" * count)


def pickle_nested(path, count):
    """Lists within lists, as torch's oldest files begin: no zip around them."""
    path.write_bytes(b"\x80\x02" + b"]" * count + b"a" * (count - 1) + b".")


def pickle_of_marks(path, count):
    path.write_bytes(b"\x80\x02" + b"(" * count + b".")


def pickle_shared(path, count):
    """A tuple of two of the tuple before: a few bytes more are twice as many values."""
    path.write_bytes(b"\x80\x02K\x01" + b"2\x86" * count + b".")


def npz_of_zeros(path, size):
    """One array of `size` bytes of zeros, deflated a thousand times."""
    head = io.BytesIO()
    facts = {"descr": "|u1", "fortran_order": False, "shape": (size,)}
    np.lib.format.write_array_header_1_0(head, facts)
    block = bytes(1 << 20)
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("zeros.npy", "w", force_zip64=True) as member,
    ):
        member.write(head.getvalue())
        for start in range(0, size, len(block)):
            member.write(block[: size - start])


def npz_of_arrays(path, count):
    head = io.BytesIO()
    np.save(head, np.float32(1))
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(count):
            archive.writestr(f"layer.{number}.weight.npy", head.getvalue())


def ckpt_of_records(path, count):
    described = number_field(1, 1) + bytes_head(2, 7) + b"Float32" + bytes_head(3, 4)
    described += struct.pack("<f", 1)
    parts = []
    for number in range(count):
        name = f"model.layers.{number}.weight".encode()
        record = bytes_head(1, len(name)) + name + bytes_head(2, len(described)) + described
        parts.append(b"\n" + varint(len(record)) + record)
    path.write_bytes(b"".join(parts))


def safetensors_of_entries(path, count):
    header = {
        f"model.layers.{n}.weight": {
            "dtype": "F32",
            "shape": [1],
            "data_offsets": [4 * n, 4 * n + 4],
        }
        for n in range(count)
    }
    raw = json.dumps(header).encode()
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + bytes(4 * count))


def log_of_steps(path, count):
    path.write_text("".join(f"step {n} loss {1 / (n + 1):.5f} lr 1e-4\n" for n in range(count)))


def csv_of_steps(path, count):
    rows = (f"{n},{1 / (n + 1):.5f},0.5\n" for n in range(count))
    path.write_text("step,loss,grad_norm\n" + "".join(rows))


def csv_of_columns(path, count):
    names = ",".join(f"p{n}" for n in range(count))
    path.write_text(f"step,{names}\n" + "".join(f"{n},{'1,' * (count - 1)}1\n" for n in range(50)))


def json_lines_of_steps(path, count):
    rows = (json.dumps({"step": n, "loss": 1 / (n + 1)}) + "\n" for n in range(count))
    path.write_text("".join(rows))


def json_lines_of_names(path, count):
    """A name of its own in every line: a table of them has `count` times `count` cells."""
    rows = (json.dumps({"step": n, f"loss{n}": 0.5}) + "\n" for n in range(count))
    path.write_text("".join(rows))


def log_of_gaps(path, count):
    """Lines of a name and thousands of blanks, and no number behind them."""
    path.write_text(("loss" + " " * 4000 + "x\n") * count)


def log_of_words(path, count):
    """Lines of one word, as of base64."""
    path.write_text(("loss" * 1000 + "\n") * count)


def log_of_blank_steps(path, count):
    """As many letters as the two before, in lines of steps."""
    path.write_text("".join(f"step {n} loss 0.5 lr 1e-4 of {n}\n" for n in range(130 * count)))


def record_of_calls(folder, count):
    writer = RecordWriter(folder, {"framework": "torch", "rank": 0})
    value = np.ones(4, np.float32)
    for n in range(count):
        call = {"call": n, "kind": "module", "path": f"fc{n}", "layer": "Linear", "step": 0}
        call |= {"run": 0, "parent": None, "args": [["0", {"value": n}]]}
        writer.put({"value": n}, value)
        writer.put(call, None)
        writer.put({"ended": n, "status": "ok", "out": [["0", {"value": n}]]}, None)
    writer.close(True)


def msprobe_of_calls(folder, count):
    folder.mkdir()
    leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 3]}
    leaf |= {"Max": 1.0, "Min": 0.0, "Mean": 0.5, "Norm": 2.0, "requires_grad": True}
    call = {"input_args": [leaf], "input_kwargs": {}, "output": [leaf]}
    data = {f"Module.fc{n}.Linear.forward.0": call for n in range(count)}
    head = {"task": "statistics", "level": "L0", "framework": "pytorch", "dump_data_dir": None}
    (folder / "dump.json").write_text(json.dumps({**head, "data": data}))
