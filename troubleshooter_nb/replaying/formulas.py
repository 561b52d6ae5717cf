"""Layers as a script computes them, in numpy, torch and MindSpore.

Each is the body of a function of ``x``, the first input; ``p``, the parameters and buffers under
torch's names and in its layouts; and ``s``, the settings in torch's words. Numpy computes in
float64.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

FRAMEWORKS = ("numpy", "torch", "mindspore")


class Formula(NamedTuple):
    """The bodies of a kind of layer; empty where there is none."""

    numpy: str
    torch: str
    mindspore: str = ""


def kind_of(layer: str) -> str:
    """The key of `FORMULAS` for a class of either framework; empty for any other.

    Examples
    --------
    >>> kind_of("Conv2d"), kind_of("Dense"), kind_of("Block")
    ('conv', 'linear', '')
    """
    word = re.sub(r"(ext|[123]d)$", "", layer.rpartition(".")[2].lower())
    found = _CALLED.get(word, word)
    return found if found in FORMULAS else ""


_CALLED = {
    "dense": "linear",
    "layernorm": "layer_norm",
    "rmsnorm": "rms_norm",
    "batchnorm": "batch_norm",
    "groupnorm": "group_norm",
    "logsoftmax": "log_softmax",
    "leakyrelu": "leaky_relu",
    "hswish": "hardswish",
    "swish": "silu",
    "maxpool": "max_pool",
    "avgpool": "avg_pool",
    "convtranspose": "conv_transpose",
}


def _pointwise(numpy: str, torch: str, mindspore: str = "") -> Formula:
    return Formula(f"return {numpy}", f"return {torch}", f"return {mindspore or torch}")


_AXES = 'axes = tuple(range(-len(s.get("normalized_shape") or [0]), 0))'
_NORMED = """{axes}
mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
y = (x - mean) / np.sqrt(variance + s.get("eps", 1e-5))
return y * p.get("weight", 1.0) + p.get("bias", 0.0)"""
_PADS = """rank = p["weight"].ndim - 2
pads = [one if isinstance(one, list) else [one, one] for one in per_axis(s.get("padding", 0), rank)]
mode = s.get("padding_mode", "zeros")
flat = [number for pair in reversed(pads) for number in pair]"""
# Without one torch takes the first axis, or the second where that is of samples.
_DIM = """dim = s.get("dim", s.get("dim_from_front", -1))
if dim is None:
    dim = 0 if x.ndim in (0, 1, 3) else 1"""

FORMULAS: Mapping[str, Formula] = {
    "linear": Formula(
        'return x @ p["weight"].T + p.get("bias", 0.0)',
        'return F.linear(x, p["weight"], p.get("bias"))',
        'y = ops.matmul(x, p["weight"].T)\nreturn y + p["bias"] if "bias" in p else y',
    ),
    "conv": Formula(
        _PADS
        + """
modes = {"zeros": "constant", "circular": "wrap", "replicate": "edge"}
x = np.pad(x, [[0, 0], [0, 0], *pads], mode=modes.get(mode, mode))
spread, steps = per_axis(s.get("dilation", 1), rank), per_axis(s.get("stride", 1), rank)
reach = [d * (k - 1) + 1 for d, k in zip(spread, p["weight"].shape[2:])]
seen = np.lib.stride_tricks.sliding_window_view(x, reach, axis=tuple(range(2, 2 + rank)))
seen = seen[(..., *(slice(None, None, d) for d in spread))]
seen = seen[(slice(None), slice(None), *(slice(None, None, n) for n in steps))]
axes = [1, *range(2 + rank, 2 + 2 * rank)], [1, *range(2, 2 + rank)]
groups = s.get("groups", 1)
parts = zip(np.split(seen, groups, 1), np.split(p["weight"], groups))
y = np.concatenate([np.moveaxis(np.tensordot(a, w, axes), -1, 1) for a, w in parts], 1)
return y + p["bias"].reshape(-1, *[1] * rank) if "bias" in p else y""",
        _PADS
        + """
x = F.pad(x, flat, mode="constant" if mode == "zeros" else mode)
conv = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
stride, spread = per_axis(s.get("stride", 1), rank), per_axis(s.get("dilation", 1), rank)
return conv(x, p["weight"], p.get("bias"), stride, 0, spread, s.get("groups", 1))""",
        _PADS
        + """
x = ops.pad(x, flat, mode="constant" if mode == "zeros" else mode)
conv = (ops.conv1d, ops.conv2d, ops.conv3d)[rank - 1]
steps = tuple(per_axis(s.get("stride", 1), rank))
spread = tuple(per_axis(s.get("dilation", 1), rank))
if rank == 1:
    steps, spread = steps[0], spread[0]
y = conv(x, p["weight"], None, steps, "valid", 0, spread, s.get("groups", 1))
return y + p["bias"].reshape((-1, *[1] * rank)) if "bias" in p else y""",
    ),
    "conv_transpose": Formula(
        "",
        """rank = p["weight"].ndim - 2
conv = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]
words = ("stride", 1), ("padding", 0), ("output_padding", 0)
sizes = [per_axis(s.get(word, otherwise), rank) for word, otherwise in words]
spread = per_axis(s.get("dilation", 1), rank)
return conv(x, p["weight"], p.get("bias"), *sizes, s.get("groups", 1), spread)""",
    ),
    "layer_norm": Formula(
        _NORMED.format(axes=_AXES),
        """shape = x.shape[-len(s.get("normalized_shape") or [0]):]
return F.layer_norm(x, shape, p.get("weight"), p.get("bias"), s.get("eps", 1e-5))""",
        """first = x.ndim - len(s.get("normalized_shape") or [0])
ones = ops.ones(x.shape[first:], x.dtype)
weight, bias = p.get("weight", ones), p.get("bias", 0 * ones)
return ops.LayerNorm(first, first, s.get("eps", 1e-5))(x, weight, bias)[0]""",
    ),
    "rms_norm": Formula(
        """eps = s.get("eps") or s.get("variance_epsilon") or 1e-6
if s.get("eps", eps) is None:  # of torch: that of its dtype
    eps = np.finfo(np.float32).eps
return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * p.get("weight", 1.0)""",
        """eps = s.get("eps") or s.get("variance_epsilon") or 1e-6
if s.get("eps", eps) is None:
    eps = torch.finfo(x.dtype).eps
return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * p.get("weight", 1.0)""",
        """eps = s.get("eps") or s.get("variance_epsilon") or 1e-6
if s.get("eps", eps) is None:
    eps = float(np.finfo(np.float32).eps)
return x / ops.sqrt((x * x).mean(-1, True) + eps) * p.get("weight", 1.0)""",
    ),
    "batch_norm": Formula(
        """axes, shape = (0, *range(2, x.ndim)), [1, -1] + [1] * (x.ndim - 2)
mean, variance = x.mean(axes), x.var(axes)
if not s.get("training") and "running_mean" in p:
    mean, variance = p["running_mean"], p["running_var"]
scale = p.get("weight", 1.0) / np.sqrt(variance + s.get("eps", 1e-5))
y = (x - mean.reshape(shape)) * scale.reshape(shape)
return y + np.reshape(p.get("bias", 0.0), shape)""",
        """mean, variance = p.get("running_mean"), p.get("running_var")
by_batch = bool(s.get("training")) or mean is None
known = p.get("weight"), p.get("bias"), by_batch, s.get("momentum") or 0.0, s.get("eps", 1e-5)
return F.batch_norm(x, mean, variance, *known)""",
        """axes, shape = (0, *range(2, x.ndim)), [1, -1] + [1] * (x.ndim - 2)
mean, variance = x.mean(axes), ((x - x.mean(axes, True)) ** 2).mean(axes)
if not s.get("training") and "running_mean" in p:
    mean, variance = p["running_mean"], p["running_var"]
y = (x - mean.reshape(shape)) / ops.sqrt(variance.reshape(shape) + s.get("eps", 1e-5))
y = y * p["weight"].reshape(shape) if "weight" in p else y
return y + p["bias"].reshape(shape) if "bias" in p else y""",
    ),
    "group_norm": Formula(
        """groups, shape = s.get("num_groups", 1), [1, -1] + [1] * (x.ndim - 2)
y = x.reshape(len(x), groups, -1)
y = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + s.get("eps", 1e-5))
y = y.reshape(x.shape) * np.reshape(p.get("weight", [1.0]), shape)
return y + np.reshape(p.get("bias", [0.0]), shape)""",
        """known = p.get("weight"), p.get("bias"), s.get("eps", 1e-5)
return F.group_norm(x, s.get("num_groups", 1), *known)""",
    ),
    "embedding": Formula(
        """y = p["weight"][x.astype(int)]
if s.get("max_norm") is None:
    return y
size = np.linalg.norm(y, s.get("norm_type", 2.0), -1, keepdims=True)
return y * np.where(size > s["max_norm"], s["max_norm"] / (size + 1e-7), 1.0)""",
        """known = {"max_norm": s.get("max_norm"), "norm_type": s.get("norm_type", 2.0)}
return F.embedding(x.long(), p["weight"].clone(), **known)""",
        'return ops.gather(p["weight"], x, 0) if s.get("max_norm") is None else None',
    ),
    "gelu": Formula(
        """if s.get("approximate") == "tanh":
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
return x / 2 * (1 + np.vectorize(math.erf, otypes=[float])(x / np.sqrt(2)))""",
        'return F.gelu(x, approximate=s.get("approximate", "none"))',
        'return ops.gelu(x, approximate=s.get("approximate", "none"))',
    ),
    "softmax": Formula(
        _DIM
        + """
y = np.exp(x - x.max(dim, keepdims=True))
return y / y.sum(dim, keepdims=True)""",
        _DIM + "\nreturn F.softmax(x, dim)",
        _DIM + "\nreturn ops.softmax(x, dim)",
    ),
    "log_softmax": Formula(
        _DIM
        + """
y = x - x.max(dim, keepdims=True)
return y - np.log(np.exp(y).sum(dim, keepdims=True))""",
        _DIM + "\nreturn F.log_softmax(x, dim)",
        _DIM + "\nreturn ops.log_softmax(x, dim)",
    ),
    "relu": _pointwise("np.maximum(x, 0)", "F.relu(x)", "ops.relu(x)"),
    "relu6": _pointwise("np.clip(x, 0, 6)", "F.relu6(x)", "ops.relu6(x)"),
    "silu": _pointwise("x / (1 + np.exp(-x))", "F.silu(x)", "ops.silu(x)"),
    "sigmoid": _pointwise("1 / (1 + np.exp(-x))", "torch.sigmoid(x)", "ops.sigmoid(x)"),
    "tanh": _pointwise("np.tanh(x)", "torch.tanh(x)", "ops.tanh(x)"),
    "hardswish": _pointwise("x * np.clip(x + 3, 0, 6) / 6", "F.hardswish(x)", "ops.hardswish(x)"),
    "leaky_relu": _pointwise(
        'np.where(x > 0, x, x * s.get("negative_slope", 0.01))',
        'F.leaky_relu(x, s.get("negative_slope", 0.01))',
        'ops.leaky_relu(x, s.get("negative_slope", 0.01))',
    ),
    "elu": _pointwise(
        'np.where(x > 0, x, s.get("alpha", 1.0) * np.expm1(np.minimum(x, 0)))',
        'F.elu(x, s.get("alpha", 1.0))',
        'ops.elu(x, s.get("alpha", 1.0))',
    ),
    "dropout": _pointwise(
        'None if s.get("training") and s.get("p", 0.5) else x',
        'None if s.get("training") and s.get("p", 0.5) else x',
    ),
    "max_pool": Formula(
        "",
        """rank = len(s["kernel_size"]) if isinstance(s["kernel_size"], list) else x.ndim - 2
pool = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[rank - 1]
sizes = s["kernel_size"], s.get("stride"), s.get("padding", 0), s.get("dilation", 1)
y = pool(x, *sizes, s.get("ceil_mode", False), bool(s.get("return_indices")))
return y[0] if s.get("return_indices") else y""",
    ),
    "avg_pool": Formula(
        "",
        """rank = len(s["kernel_size"]) if isinstance(s["kernel_size"], list) else x.ndim - 2
pool = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[rank - 1]
known = s.get("ceil_mode", False), s.get("count_include_pad", True)
more = {"divisor_override": s.get("divisor_override")} if rank > 1 else {}
return pool(x, s["kernel_size"], s.get("stride"), s.get("padding", 0), *known, **more)""",
    ),
}


def settings_of(kind: str) -> list[str]:
    """The settings that the formulas of a kind ask for, among other words in quotes."""
    formula = FORMULAS[kind]
    texts = (formula.numpy, formula.torch, formula.mindspore)
    return sorted({word for text in texts for word in re.findall(r'"(\w+)"', text)})
