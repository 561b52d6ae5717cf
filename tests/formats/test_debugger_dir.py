"""Layer dumps of transformers' model debugger."""

from __future__ import annotations

import json

import numpy as np
import pytest

from troubleshooter_nb import compare, open_dump, save_dump
from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.debugger_dir import refusal


def tensor(folder, array, name, *, printed=False):
    """As ``_serialize_tensor_like_io`` of transformers 4.57 writes it."""
    if not printed:
        save_dump({"data": array}, folder / f"{name}.safetensors")
    return {
        "shape": f"torch.Size({list(array.shape)})",
        "dtype": f"torch.{array.dtype}",
        "value": ["tensor([...])"] if printed else f"./{name}.safetensors",
        "mean": f"tensor({array.mean():.4e})",
    }


def dumped(folder, factor=1.0, *, printed=False, twice=False):
    folder.mkdir()
    hidden = np.arange(6, dtype=np.float32).reshape(2, 3)

    def value(array, name):
        return tensor(folder, array, f"Net.{name}", printed=printed)

    def call(name, given, made):
        return {
            "module_path": f"Net.{name}",
            "inputs": {"args": [value(given, f"{name}_inputs_args_0")]},
            "outputs": value(made, f"{name}_outputs"),
        }

    norm = call("model.norm", hidden, factor * hidden)
    head = call("lm_head", factor * hidden, factor * hidden + 1)
    again = [call("lm_head", factor * hidden, factor * hidden + 1)] if twice else []
    inner = {"module_path": "Net.model", "inputs": {}, "outputs": None, "children": [norm]}
    tree = {
        "module_path": "Net",
        "inputs": {"kwargs": {"x": value(hidden, "inputs_kwargs_x")}},
        "outputs": {"logits": value(factor * hidden + 1, "outputs_logits")},
        "children": [inner, head, *again],
    }
    (folder / "Net_debug_tree_FULL_TENSORS.json").write_text(json.dumps(tree))
    (folder / "Net_debug_tree_SUMMARY.json").write_text("{}")
    return folder


def test_calls_have_their_inputs_and_outputs_in_the_order_of_execution(tmp_path):
    dump = open_dump(dumped(tmp_path / "d"))
    assert dump.format == "debugger_dir"
    assert list(dump.columns.rows("kind", "path", "role", "slot", "order")) == [
        ("module", "Net", "input", "x", 0),
        ("module", "model.norm", "input", "0", 1),
        ("module", "model.norm", "output", "0", 2),
        ("module", "lm_head", "input", "0", 3),
        ("module", "lm_head", "output", "0", 4),
        ("module", "Net", "output", "logits", 5),
    ]
    np.testing.assert_array_equal(dump.array(dump.names[1]), np.arange(6.0).reshape(2, 3))


def test_the_layer_that_differs_is_found(tmp_path):
    cmp = compare(dumped(tmp_path / "left", 2.0), dumped(tmp_path / "right"))
    assert str(cmp.first_divergence.row["right"].values) == "model.norm.forward.0.output.0"


def test_a_module_called_again_overwrote_its_first_call(tmp_path):
    dump = open_dump(dumped(tmp_path / "d", twice=True))
    lost = dump.select(status="unreadable")
    assert lost.names == ["lm_head.forward.0.input.0", "lm_head.forward.0.output.0"]
    assert set(lost.columns["reason"]) == {"overwritten by a later call of this module"}


def test_printed_values_are_no_tensors(tmp_path):
    left, right = (dumped(tmp_path / side, printed=True) for side in ("left", "right"))
    dump = open_dump(left)
    assert dump.notes == ("only printed values; run it again with use_repr=False",)
    assert not compare(left, right).verdict.startswith("✓")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"module_path": "Net", "inputs": 3}'])
def test_a_damaged_tree_is_refused(tmp_path, text):
    (tmp_path / "Net_debug_tree_FULL_TENSORS.json").write_text(text)
    with pytest.raises(FormatError, match=r"Net_debug_tree_FULL_TENSORS\.json"):
        open_dump(tmp_path)


def test_a_place_outside_the_folder_is_not_read(tmp_path):
    folder = dumped(tmp_path / "d")
    save_dump({"data": np.ones((2, 3), np.float32)}, tmp_path / "secret.safetensors")
    tree = folder / "Net_debug_tree_FULL_TENSORS.json"
    tree.write_text(tree.read_text().replace("./Net.lm_head_outputs", "./../secret"))
    found = open_dump(folder).select(path="lm_head", role="output")
    assert found.sources == (None,)


def test_of_two_models_the_tensors_alone_are_opened(tmp_path):
    folder = dumped(tmp_path / "d")
    (folder / "Other_debug_tree_FULL_TENSORS.json").write_text("{}")
    assert "several models" in refusal(folder)
    dump = open_dump(folder)
    assert dump.format == "run_dir"
    assert "Net.lm_head_outputs" in dump.names
