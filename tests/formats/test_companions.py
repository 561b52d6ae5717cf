"""What lies beside a tensor, and its values, tell its role, however it is called."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from troubleshooter_nb import compare, diff_checkpoints, draft_weight_map, open_dump, save_dump

SHAPES = {
    "backbone.conv1.weight": (4, 3, 3, 3),
    "backbone.bn1.weight": (4,),
    "backbone.bn1.bias": (4,),
    "backbone.bn1.running_var": (4,),
    "blocks.0.attn.qkv.weight": (24, 8),
    "head.fc.weight": (5, 8),
}


def weights(seed=5):
    rng = np.random.default_rng(seed)
    made = {name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
    made["backbone.bn1.running_var"] = np.abs(made["backbone.bn1.running_var"])
    return made


def near(arrays):
    rng = np.random.default_rng(6)
    return {
        n: (a * 0.999 + 0.01 * rng.normal(size=a.shape)).astype("f4") for n, a in arrays.items()
    }


def moments(arrays):
    rng = np.random.default_rng(7)
    first, second = {}, {}
    for name, array in arrays.items():
        gradients = rng.normal(size=(20, *array.shape)) * 1e-3
        m = v = np.zeros(array.shape)
        for gradient in gradients:
            m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        first[name], second[name] = m.astype("f4"), v.astype("f4")
    return first, second


def roles(tmp_path, arrays, suffix="safetensors"):
    save_dump(arrays, tmp_path / f"both.{suffix}")
    dump = open_dump(tmp_path / f"both.{suffix}")
    return dict(zip(dump.names, dump.index["role"].values.tolist(), strict=True)), dump


def flat(front):
    return lambda name: front + name.replace(".", "_")


def agrees_with(dump, tmp_path, raw):
    """Raw is compared with raw, nothing is missing, and the draft has raw only."""
    save_dump(raw, tmp_path / "raw.safetensors")
    cmp = compare(dump, tmp_path / "raw.safetensors")
    assert cmp.exit_code == 0
    assert f"{len(raw)} of {len(raw)} pairs agree" in cmp.verdict
    assert diff_checkpoints(dump, tmp_path / "raw.safetensors").exit_code == 0
    drafted = draft_weight_map(dump, tmp_path / "raw.safetensors")
    assert sorted(row.sources[0] for row in drafted) == sorted(raw)
    assert drafted.unmatched_sources == []
    assert any(note.id == "weight_maps.left_aside" for note in drafted.notes)


@pytest.mark.parametrize(
    "named",
    [
        flat("ema_"),
        flat("swa_model_"),
        lambda name: f"ema_model.module.{name}",
        lambda name: f"module.shadow.{name}",
        lambda name: f"averaged/{name}",
        lambda name: f"{name}_ema",
        lambda name: f"{name}.shadow",
        lambda name: name.replace("backbone", "backbone_ema").replace("head.", "head_ema.")
        .replace("blocks", "blocks_ema"),
        lambda name: f"EMA.{name}",
        lambda name: f"teacher.{name}",
        lambda name: f"target_network.{name}",
        lambda name: f"{name}.avg",
        lambda name: f"second.{name}",  # no word says it: values do
        lambda name: f"{name}_2",
    ],
)  # fmt: skip
def test_averages_are_found_by_their_neighbours(tmp_path, named):
    raw = weights()
    averages = {named(name): array for name, array in near(raw).items()}
    found, dump = roles(tmp_path, raw | averages)
    assert {name for name, role in found.items() if role == "average"} == {*averages}
    assert {name for name in dump.select(role="average").index["path"].values} == {*raw}
    agrees_with(dump, tmp_path, raw)


@pytest.mark.parametrize(
    ("mine", "theirs"), [("student", "teacher"), ("q.net", "k"), ("module", "ema")]
)
def test_an_average_may_stand_beside_a_part_of_another_name(tmp_path, mine, theirs):
    raw = {f"{mine}.{name}": array for name, array in weights().items()}
    raw["optimizer_free.scale"] = np.ones(3, np.float32)
    averages = {f"{theirs}.{name}": array for name, array in near(weights()).items()}
    found, _ = roles(tmp_path, raw | averages)
    assert {name for name, role in found.items() if role == "average"} == {*averages}


@pytest.mark.parametrize(
    "beside",
    [
        {f"ema_block.{name}": array for name, array in weights(8).items()},
        {f"teacher.{name}": array for name, array in weights(8).items()},
        {f"second.{name}": array for name, array in weights(8).items()},
        {f"copy.{name}": array for name, array in weights().items()},  # equal, so no average
        {
            "ema_block.conv.weight": np.ones((4, 3), "f4"),
            "teacher.fc.weight": np.ones((2, 2), "f4"),
        },
        {"linear.weight": np.ones((2, 3), "f4"), "linear.bias": np.ones(2, "f4")},
        {f"{one}.weight": np.eye(8, dtype="f4") for one in ("linear", "proj", "stat", "sum", "k")},
        {f"momentum.{name}": array for name, array in weights(8).items() if "head" in name},
        {f"critic{number}.fc.weight": weights(number)["head.fc.weight"] for number in (1, 2)},
        {"ema.weight": np.ones((2, 3), "f4"), "ema.alpha": np.ones(2, "f4")},
        {"fc_ema.weight": np.ones((2, 3), "f4"), "fc.weight": np.ones((3, 3), "f4")},
    ],
)
@pytest.mark.parametrize("suffix", ["safetensors", "ckpt", "pth"])
def test_a_layer_that_is_only_called_so_stays_a_layer(tmp_path, beside, suffix):
    found, dump = roles(tmp_path, weights() | beside, suffix)
    assert {found[name] for name in beside} <= {"parameter", "buffer"}
    assert len(draft_weight_map(dump)) == len(found)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("moment1.{}", "moment2.{}"),
        ("adam_m.{}", "adam_v.{}"),
        ("lamb_m.{}", "lamb_v.{}"),
        ("exp_avg.{}", "exp_avg_sq.{}"),
        ("optimizer.exp_avg.{}", "optimizer.exp_avg_sq.{}"),
        ("{}.exp_avg", "{}.exp_avg_sq"),
        ("{}_exp_avg", "{}_exp_avg_sq"),
        ("state.{}.exp_avg", "state.{}.exp_avg_sq"),
        ("opt_state.first_moment.{}", "opt_state.second_moment.{}"),
        ("opt/mu/{}", "opt/nu/{}"),
        ("m.{}", "v.{}"),
        ("{}/Adam", "{}/Adam_1"),
        ("one.{}", "two.{}"),  # no word says it: values do
    ],
)
def test_states_of_optimizers_are_found_by_their_neighbours(tmp_path, first, second):
    raw = weights()
    states = {
        pattern.format(name): array
        for pattern, arrays in zip((first, second), moments(raw), strict=True)
        for name, array in arrays.items()
    }
    found, dump = roles(tmp_path, raw | states)
    assert {name for name, role in found.items() if role == "optimizer_state"} == {*states}
    slots = dict(zip(dump.names, dump.index["slot"].values.tolist(), strict=True))
    name = next(iter(raw))
    assert slots[first.format(name)] == "exp_avg"
    assert slots[second.format(name)] == "exp_avg_sq"
    agrees_with(dump, tmp_path, raw)


def test_numbered_states_without_their_optimizer(tmp_path):
    arrays = weights() | {
        "state.0.exp_avg": np.zeros((4, 3, 3, 3), "f4"),
        "state.0.step": np.float32(3),
        "state.1.momentum_buffer": np.zeros(4, "f4"),
    }
    found, _ = roles(tmp_path, arrays)
    assert found["state.0.exp_avg"] == found["state.1.momentum_buffer"] == "optimizer_state"
    assert found["state.0.step"] == "step_counter"


LOW = {"down": (2, 8), "up": (24, 2)}


@pytest.mark.parametrize(
    ("base", "down", "up", "others"),
    [
        ("weight", "lora_A.weight", "lora_B.weight", {}),
        ("base_layer.weight", "lora_A.default.weight", "lora_B.default.weight", {}),
        ("weight", "lora_down.weight", "lora_up.weight", {"alpha": ()}),
        ("weight", "mindpet_delta_lora_a", "mindpet_delta_lora_b", {}),
        ("weight", "lora_embedding_A.default", "lora_embedding_B.default", {}),
        ("weight", "lora_A.weight", "lora_B.weight", {"lora_magnitude_vector.weight": (24,)}),
        ("weight", "adapter_in.weight", "adapter_out.weight", {"scaling": ()}),
        ("weight", "A", "B", {}),  # no word says it: shapes do
    ],
)
def test_factors_of_adapters_are_set_aside(tmp_path, base, down, up, others):
    raw = weights()
    stem = "blocks.0.attn.qkv"
    both = dict(raw)
    both[f"{stem}.{base}"] = both.pop(f"{stem}.weight")
    rng = np.random.default_rng(9)
    parts = {down: LOW["down"], up: LOW["up"], **others}
    factors = {f"{stem}.{k}": rng.normal(size=v).astype("f4") for k, v in parts.items()}
    found, dump = roles(tmp_path, both | factors)
    assert {name for name, role in found.items() if role == "adapter"} == {*factors}
    assert {*dump.select(role="adapter").index["path"].values} == {f"{stem}.weight"}
    save_dump(raw, tmp_path / "raw.safetensors")
    cmp = compare(dump, tmp_path / "raw.safetensors")
    assert cmp.exit_code == 0
    assert "6 of 6 pairs agree" in cmp.verdict
    drafted = draft_weight_map(dump, tmp_path / "raw.safetensors")
    assert len(drafted) == len(raw)
    assert drafted.unmatched_targets == []


def test_names_of_peft_are_those_of_the_network(tmp_path):
    raw, front = weights(), "base_model.model."
    both = {front + name: array for name, array in raw.items()}
    stem = f"{front}blocks.0.attn.qkv"
    both[f"{stem}.base_layer.weight"] = both.pop(f"{stem}.weight")
    both[f"{stem}.lora_A.default.weight"] = np.ones(LOW["down"], "f4")
    both[f"{stem}.lora_B.default.weight"] = np.zeros(LOW["up"], "f4")
    _, dump = roles(tmp_path, both)
    assert {*dump.select(role="parameter").names, *dump.select(role="buffer").names} == {*raw}


def test_a_file_of_factors_alone_is_converted(tmp_path):
    factors = {"q.lora_A.weight": np.ones((2, 8), "f4"), "q.lora_B.weight": np.ones((8, 2), "f4")}
    _, dump = roles(tmp_path, factors)
    assert len(draft_weight_map(dump)) == 2
    assert compare(dump, dump).exit_code == 0


@pytest.mark.parametrize(
    "names",
    [
        ["q_a_proj.weight", "q_b_proj.weight", "o_proj.weight"],  # low rank by design
        ["lora_encoder.weight", "lorax.fc.weight"],
    ],
)
def test_low_rank_layers_of_a_network_stay_layers(tmp_path, names):
    shapes = [(2, 8), (24, 2), (24, 8)]
    arrays = {f"attn.{n}": np.ones(s, "f4") for n, s in zip(names, shapes, strict=False)}
    found, _ = roles(tmp_path, arrays)
    assert {*found.values()} == {"parameter"}


BYTES = np.arange(-96, 96, dtype=np.int8).reshape(24, 8)
SCALE = np.linspace(0.01, 0.02, 24, dtype=np.float32)


@pytest.mark.parametrize(
    "parts",
    [
        {"weight": BYTES, "weight_scale": SCALE},
        {"weight": BYTES, "scale": SCALE[:1], "zero_point": np.zeros(1, "i4")},
        {"weight": BYTES, "SCB": SCALE, "weight_format": np.uint8(0)},
        {
            "weight": BYTES.reshape(-1, 1).view(np.uint8),
            "weight.absmax": SCALE,
            "weight.quant_map": np.linspace(-1, 1, 16, dtype=np.float32),
            "weight.quant_state.bitsandbytes__nf4": np.zeros(90, np.uint8),
        },
        {
            "qweight": np.zeros((1, 24), np.int32),
            "qzeros": np.zeros((1, 3), np.int32),
            "scales": SCALE.reshape(1, 24).astype(np.float16),
            "g_idx": np.zeros(8, np.int32),
        },
        {"weight": BYTES.astype(ml_dtypes.float8_e4m3fn), "weight_scale_inv": SCALE[:1]},
        {"weight": BYTES, "weight_quantizer.scale": SCALE},
        {"weight": BYTES, "s": SCALE},  # no word says it: values do
    ],
)
def test_parts_of_quantized_weights_are_set_aside(tmp_path, parts):
    raw = weights()
    stem = "blocks.0.attn.qkv"
    both = {name: array for name, array in raw.items() if name != f"{stem}.weight"}
    quantized = {f"{stem}.{name}": np.asarray(array) for name, array in parts.items()}
    bias = {f"{stem}.bias": np.linspace(-1, 1, 24, dtype=np.float32)}
    found, dump = roles(tmp_path, both | quantized | bias)
    assert {name for name, role in found.items() if role == "quantized"} == {*quantized}
    assert found[f"{stem}.bias"] == "parameter"
    save_dump(raw | bias, tmp_path / "raw.safetensors")
    cmp = compare(dump, tmp_path / "raw.safetensors")
    assert cmp.exit_code == 0
    assert "6 of 6 pairs agree" in cmp.verdict
    assert compare(dump, dump).exit_code == 0
    drafted = draft_weight_map(dump)
    assert len(drafted) == 6
    assert any("of quantized weights" in note for note in drafted.notes)


def test_integers_and_scales_of_a_network_stay_what_they_are(tmp_path):
    arrays = weights() | {
        "norm.scale": np.ones(8, "f4"),
        "norm.weight": np.ones(8, "f4"),
        "table.weight": np.arange(8, dtype=np.int64).reshape(2, 4),
        "lookup.weight": np.arange(8, dtype=np.uint8).reshape(2, 4),
        "lookup.bias": np.ones(2, "f4"),
    }
    found, _ = roles(tmp_path, arrays)
    assert found["norm.scale"] == found["norm.weight"] == found["lookup.bias"] == "parameter"
    assert found["table.weight"] == found["lookup.weight"] == "buffer"


@pytest.mark.parametrize("named", ["ema.{}", "{}.ema", "ema_{}", "{}_2"])
def test_a_mapping_in_memory_has_the_roles_of_its_file(named):
    raw = weights()
    averages = {named.format(name): array for name, array in near(raw).items()}
    if named == "ema_{}":
        averages = {name.replace(".", "_"): array for name, array in averages.items()}
    both = raw | averages
    cmp = compare(both, raw)
    assert cmp.exit_code == 0
    assert "6 of 6 pairs agree" in cmp.verdict


def test_saved_arrays_of_a_run_are_no_companions():
    x = np.random.default_rng(0).normal(size=(4, 8))
    run = {"layer1": x, "layer2": x + 1, "ema_layer1": x * 0.999, "ema_layer2": x * 0.9}
    assert "4 of 4 pairs agree" in compare(run, run).verdict
