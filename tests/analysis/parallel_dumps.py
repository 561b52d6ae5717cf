"""Dumps of one parallel transformer in two frameworks, whose operators have other names.

MindSpore's has a network around it, other attributes, a cell around its all-reduce and calls that
torch does not make; torch's fused operators are those of the NPU. Values are the same on both
sides, those of one role in one place, so that a wrong pair would be told by them.
"""

import json

import numpy as np

TOKENS, WIDTH, WORDS = 5, 8, 12
_RNG = np.random.default_rng(11)
_MADE: dict[str, np.ndarray] = {}


def _value(name, *shape, dtype=np.float32):
    """The values of a role in the network, the same for both sides."""
    if name not in _MADE:
        _MADE[name] = (_RNG.standard_normal(shape) * 3).astype(dtype)
    return _MADE[name]


IDS = ("ids", TOKENS)
BELOW, ABOVE, OUTSIDE = ("below", TOKENS), ("above", TOKENS), ("outside", TOKENS)
WORD = ("embedding weight", WORDS, WIDTH)
PART, SUMMED = ("part", TOKENS, WIDTH), ("summed", TOKENS, WIDTH)
Q, K, V, CORE = (
    ("q", TOKENS, WIDTH),
    ("k", TOKENS, WIDTH),
    ("v", TOKENS, WIDTH),
    ("core", TOKENS, WIDTH),
)
GAIN, NORMED = ("gain", WIDTH), ("normed", TOKENS, WIDTH)
RSTD, LAST_GAIN, LAST = ("rstd", TOKENS, 1), ("last gain", WIDTH), ("last", TOKENS, WIDTH)
GROUP = {
    "mindspore": {"type": "str", "value": "tp-0"},
    "torch": {"type": "torch.ProcessGroup", "group_ranks": [0, 1]},
}


def write(folder, framework):
    """One rank of the dump of a side; the folder."""
    is_torch = framework == "torch"
    top = "Module.module.module" if is_torch else "Cell.network_with_loss.module"
    words = f"{top}.language_model.embedding.word_embeddings.VocabParallelEmbedding"
    layer = f"{top}.language_model.encoder.layers.0"
    attention = f"{layer}.{'self_attention' if is_torch else 'attention'}"
    core = f"{attention}.core_attention.FlashAttention"
    norm = f"{layer}.input_norm.FusedRMSNorm"
    last = f"{top}.language_model.encoder.final_norm.FusedRMSNorm"
    calls: list[tuple[str, str | None, list, dict, list]] = []

    def call(name, parent, inputs, outputs, parameters=None):
        calls.append((name, parent, inputs, parameters or {}, outputs))

    embed = f"{words}.forward.0"
    either = "Tensor.__or__.0.forward" if is_torch else "Functional.logical_or.0.forward"
    reduce = "Distributed.all_reduce.0.forward" if is_torch else "Functional.all_reduce.0.forward"
    call(either, embed, [BELOW, ABOVE], [OUTSIDE])
    if not is_torch:
        call("Functional.gather.0.forward", embed, [WORD, IDS], [PART])
        region = f"{words.rpartition('.')[0]}.reduce_from_mp_region.ReduceFromModelParallelRegion"
        call(reduce, f"{region}.forward.0", [PART, GROUP["mindspore"]], [SUMMED])
        call(f"{region}.forward.0", embed, [PART], [SUMMED])
    else:
        call(reduce, embed, [PART, GROUP["torch"]], [SUMMED])
    call(embed, None, [IDS], [SUMMED], {"weight": WORD})
    for at, gain, made, number in ((norm, GAIN, [NORMED, RSTD], 0), (last, LAST_GAIN, [LAST], 1)):
        source = SUMMED if number == 0 else CORE
        fused = (
            f"NPU.npu_rms_norm.{number}.forward"
            if is_torch
            else f"Primitive.rms_norm.RmsNorm.{number}.forward"
        )
        call(fused, f"{at}.forward.0", [source, gain], made)
        call(
            f"{at}.forward.0",
            f"{layer}.TransformerLayer.forward.0" if number == 0 else None,
            [source],
            made[:1],
            {"weight": gain},
        )
        if number == 0:
            scores = "NPU.npu_fusion_attention" if is_torch else "Functional.flash_attention_score"
            call(f"{scores}.0.forward", f"{core}.forward.0", [Q, K, V], [CORE])
            inside = f"{layer}.TransformerLayer.forward.0"
            call(f"{core}.forward.0", inside, [Q, K, V], [CORE])
            if not is_torch:
                call("Functional.mul.0.forward", inside, [CORE, RSTD], [("scaled", TOKENS, WIDTH)])
                parts = [("scaled", TOKENS, WIDTH), *({"type": "int", "value": n} for n in (5, 8))]
                call("Tensor.reshape.0.forward", inside, parts, [("turned", TOKENS, WIDTH)])
            call(inside, None, [SUMMED], [CORE])
    _save(folder, framework, calls)
    return folder


def _save(folder, framework, calls):
    is_torch = framework == "torch"
    (folder / "dump_tensor_data").mkdir(parents=True)

    def leaf(value, name):
        if isinstance(value, dict):
            return value
        array = _value(*value)
        np.save(folder / "dump_tensor_data" / f"{name}.npy", array)
        figures = dict(
            zip(
                ("Max", "Min", "Mean", "Norm"),
                map(float, (array.max(), array.min(), array.mean(), np.linalg.norm(array))),
                strict=True,
            )
        )
        kind = (
            {"type": "torch.Tensor", "dtype": "torch.float32"}
            if is_torch
            else {"type": "mindspore.Tensor", "dtype": "Float32"}
        )
        return kind | {"shape": [*array.shape], **figures, "data_name": f"{name}.npy"}

    data, construct = {}, {}
    for name, parent, inputs, parameters, outputs in calls:
        construct[name] = parent
        data[name] = {
            "input_args": [leaf(one, f"{name}.input.{k}") for k, one in enumerate(inputs)],
            "input_kwargs": {},
            "output": [leaf(one, f"{name}.output.{k}") for k, one in enumerate(outputs)],
        }
        if name.startswith(("Module", "Cell")):
            data[name]["parameters"] = {
                key: leaf(one, f"{name}.parameters.{key}") for key, one in parameters.items()
            }
    header = {
        "task": "tensor",
        "level": "mix",
        "framework": "pytorch" if is_torch else "mindspore",
        "dump_data_dir": None,
    }
    (folder / "dump.json").write_text(json.dumps({**header, "data": data}))
    (folder / "construct.json").write_text(json.dumps(construct))


MAPPING = """\
TopLayer:
  network_with_loss: module
PipelineCell:                          # a layer of another part of the network
  model: module
TransformerLayer:
  attention: self_attention
VocabParallelEmbedding:
  logical_or: __or__
  reduce_from_mp_region.all_reduce: all_reduce
FlashAttention:
  flash_attention_score: npu_fusion_attention
FusedRMSNorm:
  RmsNorm: npu_rms_norm
"""
