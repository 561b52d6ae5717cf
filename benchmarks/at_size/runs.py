"""Faults between calls, in gradients and in figures; and right runs, which blame nothing."""

# ruff: noqa: D103 a planting function is described by its name and the id of its cause
from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch.nn import functional as F

from at_size.dumps import Call, Computed, Layer, Pair, Sides, bystander, normal, trained
from at_size.layers import attention, convolution, convolved, gain, planted, uneven
from at_size.registry import case, matrix, rows


def dense(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.linear(x, weight, bias)


def normed(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    return F.layer_norm(x, weight.shape, weight, bias, eps)


def _of_norm(pair: Pair, columns: int) -> dict[str, np.ndarray]:
    return {"weight": gain(pair, columns), "bias": gain(pair, columns, 0.0)}


def _of_dense(pair: Pair, columns: int, out: int) -> dict[str, np.ndarray]:
    return {"weight": 2 * trained(pair.random, (out, columns)), "bias": gain(pair, out, 0.0)}


def _changed(pair: Pair, sides: Sides, wrong: Layer, right: Layer, *more: Sides) -> Sides:
    """Unrecorded work: values of both sides, each worked out in its own way."""
    made = []
    for side, (way, noise) in enumerate(zip((wrong, right), pair.noises, strict=True)):
        given = [torch.from_numpy(np.array(one[side])) for one in (sides, *more)]
        made.append(noise.on(way(*given).numpy()))
    return made[0], made[1]


def _between(pair: Pair, wrong: Layer, right: Layer, *, with_input: bool = False) -> str:
    """A dense layer, work that is not recorded, another dense layer; the row that it gives."""
    shape = rows(pair.elements, 1024)
    bystander(pair, 0)
    path, square = pair.path("layers.7.mlp.fc1", 3), _of_dense(pair, shape[1], shape[1])
    call, made = Computed(path, "Linear", dense, dense, [(shape, normal)], square).on(pair)
    more = [_files(pair, call.row("input"))] if with_input else []
    between = _changed(pair, made, wrong, right, *more)
    path, narrow = pair.path("layers.7.mlp.fc2", 4), _of_dense(pair, shape[1], 64)
    call, _ = Computed(path, "Linear", dense, dense, [between], narrow).on(pair)
    pair.write()
    return call.row("input")


def _files(pair: Pair, name: str) -> Sides:
    left, right = (
        np.load(path / "step0" / "rank0" / "dump_tensor_data" / f"{name}.npy", mmap_mode="r")
        for path in pair.paths
    )
    return left, right


@case("activation_changed")
def activation_missing(pair: Pair) -> str:
    return _between(pair, torch.clone, torch.relu)


@case("residual_order", hints=False)
def residual_left_out(pair: Pair) -> str:
    return _between(pair, lambda y, x: y, lambda y, x: x + y, with_input=True)


@case("residual_order")
def residual_before_the_norm(pair: Pair) -> str:
    """After a norm, its input or its output is what is added to the layer's output."""
    shape = rows(pair.elements, 1024)
    bystander(pair, 0)
    given, parameters = [(shape, normal)], _of_norm(pair, shape[1])
    norm = Computed("layers.7.norm", "LayerNorm", normed, normed, given, parameters)
    call, made = norm.on(pair)
    x, square = _files(pair, call.row("input")), _of_dense(pair, shape[1], shape[1])
    _, y = Computed("layers.7.fc", "Linear", dense, dense, [made], square).on(pair)
    summed = _changed(pair, y, lambda y, x, n: y + n, lambda y, x, n: y + x, x, made)
    narrow = _of_dense(pair, shape[1], 64)
    call, _ = Computed("layers.8.fc", "Linear", dense, dense, [summed], narrow).on(pair)
    pair.write()
    return call.row("input")


def _backward(
    pair: Pair, *, rows_kept: float = 1.0, features_kept: float = 1.0, factor: float = 1.0
) -> Call:
    """A dense layer forward and backward, whose gradients the left side sums in part or scales.

    The fault is in the gradient of the weight, or with `features_kept` in that of the input, which
    has the elements.
    """
    of_input = features_kept < 1.0
    size = matrix(pair.elements // 2 if of_input else pair.elements)[1]
    count = 2 * size if of_input else 256
    bystander(pair, 0)
    path = pair.path("layers.7.mlp.fc", 3)
    parameters = {"weight": trained(pair.random, (size, size)), "bias": gain(pair, size, 0.0)}
    layer = Computed(path, "Linear", dense, dense, [((count, size), normal)], parameters)
    call, _ = layer.on(pair)
    x = _files(pair, call.row("input"))
    back = pair.call(path, "Linear", direction="backward")
    arriving = back.value("input", "0", (count, size))
    leaving = back.value("output", "0", (count, size))
    of_weight = pair.gradient(path, "Linear", "weight", (size, size))
    of_bias = pair.gradient(path, "Linear", "bias", (size,))
    drawn = normal(pair.random, (count, size)) / np.float32(count)
    weight = torch.from_numpy(parameters["weight"])
    for side, noise in enumerate(pair.noises):
        arriving[side][...] = noise.on(drawn)
        g, own = (torch.from_numpy(np.array(one[side])) for one in (arriving, x))
        is_wrong = side == 0
        rows, features = (
            round(kept * of) if is_wrong else of
            for kept, of in ((rows_kept, count), (features_kept, size))
        )
        times = factor if is_wrong else 1.0
        leaving[side][...] = noise.on((g[:, :features] @ weight[:features]).numpy())
        of_weight[side][...] = noise.on((times * (g[:rows].T @ own[:rows])).numpy())
        of_bias[side][...] = noise.on((times * g[:rows].sum(0)).numpy())
    pair.write()
    return back


def _of_parameters(pair: Pair) -> str:
    return f"Module.{pair.path('layers.7.mlp.fc', 3)}.Linear.parameters_grad.0."


@case("loss_reduction", "world_size_scale", "loss_scale_left")
def weight_gradient_factor(pair: Pair) -> str:
    """All gradients of parameters times 8, as of a sum over processes in place of their mean."""
    _backward(pair, factor=8.0)
    return _of_parameters(pair)


@case("reduce_missing_or_double", hints=False)
def weight_gradient_of_half(pair: Pair) -> str:
    """Half of the batch is left out of the sum."""
    _backward(pair, rows_kept=0.5)
    return _of_parameters(pair)


@case("reduce_missing_or_double")
def input_gradient_of_half(pair: Pair) -> str:
    """One rank's features alone: the sum over ranks is missing."""
    return _backward(pair, features_kept=0.5).row()


def _figures(pair: Pair, layer: str, wrong: Layer, right: Layer) -> str:
    path = pair.path("layers.7.mlp.scores", 3)
    return planted(pair, Computed(path, layer, wrong, right, [(rows(pair.elements), uneven)]))


@case("fp16_overflow")
def half_overflow(pair: Pair) -> str:
    def scaled(x: torch.Tensor, *, is_half: bool) -> torch.Tensor:
        made = 3e5 * x
        return torch.where(made.abs() > 65504, torch.inf * made, made) if is_half else made

    ways = (partial(scaled, is_half=is_half) for is_half in (True, False))
    return _figures(pair, "Scores", *ways)


@case("nan_swallowed")
def nan_swallowed(pair: Pair) -> str:
    """NaN in an input that is equal to the bit: of any other, the input itself is blamed."""

    def sigmoid(x: torch.Tensor, *, swallows: bool) -> torch.Tensor:
        return torch.sigmoid(torch.nan_to_num(x) if swallows else x)

    def with_nan(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        values = normal(random, shape)
        values[len(values) // 3, :7] = np.nan
        return values

    ways = (partial(sigmoid, swallows=swallows) for swallows in (True, False))
    path = pair.path("layers.7.mlp.gate", 3)
    given = [(rows(pair.elements), with_nan)]
    return planted(pair, Computed(path, "Sigmoid", *ways, given, exact=True))


@case()
def right_norm(pair: Pair) -> str:
    shape = rows(pair.elements)
    given, parameters = [(shape, uneven)], _of_norm(pair, shape[1])
    planted(pair, Computed("layers.7.norm", "LayerNorm", normed, normed, given, parameters))
    return ""


@case(hints=False)
def right_dense(pair: Pair) -> str:
    shape = matrix(pair.elements, 3.5)
    given, parameters = [((48, shape[1]), normal)], _of_dense(pair, shape[1], shape[0])
    planted(pair, Computed("net.3", "Linear", dense, dense, given, parameters))
    return ""


@case()
def right_attention(pair: Pair) -> str:
    attention(pair, F.scaled_dot_product_attention, F.scaled_dot_product_attention)
    return ""


@case(hints=False)
def right_convolution(pair: Pair) -> str:
    convolution(pair, convolved, convolved)
    return ""


@case(hints=False, outside=True)
def carried_only(pair: Pair) -> str:
    """The input comes with an error of 1e-3, which the layer hands on."""
    shape = rows(pair.elements)
    given, parameters = [(shape, uneven)], _of_norm(pair, shape[1])
    layer = Computed("net.3", "LayerNorm", normed, normed, given, parameters, carried=1e-3)
    return planted(pair, layer).replace(".output.", ".input.")


@case("norm_eps")
def right_after_wrong(pair: Pair) -> str:
    """A norm with another eps, and a dense layer and a GELU that work on what it gave."""
    shape = rows(pair.elements, 1024)
    bystander(pair, 0)
    wrong, given = partial(normed, eps=1e-3), [(shape, uneven)]
    norm = Computed("layers.7.norm", "LayerNorm", wrong, normed, given, _of_norm(pair, shape[1]))
    call, made = norm.on(pair)
    parameters = _of_dense(pair, shape[1], shape[1] // 2)
    _, made = Computed("layers.7.fc", "Linear", dense, dense, [made], parameters).on(pair)
    Computed("layers.7.act", "GELU", F.gelu, F.gelu, [made]).on(pair)
    pair.write()
    return call.row()
