"""Networks that save from everywhere.  usage: compiled_program.py MODE OUT

A process per mode, because the mode of MindSpore is global and a failed graph spoils the next. MODE
is pynative, graph (GRAPH_MODE), step (jit around the gradient) or forward (gradient around a jit).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ.setdefault("GLOG_v", "4")

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

import troubleshooter_nb as tnb

MODE, OUT = sys.argv[1], Path(sys.argv[2])
ROOT = str(OUT)
USES = ("once", "linear", "both", "product", "chain", "two", "loop", "scalar")
X = Tensor(np.arange(9, dtype=np.float32).reshape(3, 3) / 7)


def path(name):
    return ROOT + "/" + name


class Everything(nn.Cell):
    """Nested values, every dtype, no axes, no elements, numbers, loops the compiler unrolls."""

    def __init__(self):
        super().__init__()
        self.weight = Parameter(Tensor(np.arange(9).reshape(3, 3) / 5 - 1, ms.float32), name="w")
        self.file, self.here = OUT / "everything" / "path.npy", path("everything/")
        self.dtypes = (
            *(ms.bfloat16, ms.float16, ms.float64, ms.int8, ms.int16, ms.int32, ms.int64),
            *(ms.uint8, ms.uint16, ms.uint32, ms.uint64, ms.bool_),
        )

    def construct(self, x):
        tnb.save(self.file, x)
        y = ops.matmul(x, self.weight)
        tnb.save(self.here + "y", y)
        tnb.save(self.here + "y", y)
        y = tnb.save_grad(self.here + "y", y)
        for _ in range(3):
            y = ops.tanh(y)
            tnb.save(self.here + "loop", y)
            y = tnb.save_grad(self.here + "loop", y)
        tnb.save(self.here + "nest", {"a": y, "b": [x, (y, None)], 3: 2.5, "n": 7, "t": True})
        for dtype in self.dtypes:
            tnb.save(self.here + "dtype", (x * 3).astype(dtype))
        tnb.save(self.here + "complex", ops.Complex()(x, y))
        tnb.save(self.here + "no_axes", y.sum(), "suffix")
        tnb.save(self.here + "empty", x[:0], suffix=3)
        tnb.save(self.here + "weight", self.weight)
        tnb.save(self.here + "wide", x.astype(ms.bfloat16), widen=True)
        tnb.save(self.here + "ranked", x, rank=2)
        total = tnb.save_grad(self.here + "no_axes", y.sum()) * 3
        half = tnb.save_grad(self.here + "half", y.astype(ms.float16)).astype(ms.float32)
        brain = tnb.save_grad(self.here + "brain", y.astype(ms.bfloat16)).astype(ms.float32)
        return total + (half * half).sum() + (brain * y).sum()


class Flow(nn.Cell):
    """Branches and loops that depend on values."""

    def __init__(self):
        super().__init__()
        self.here = path("flow/")

    def construct(self, x):
        if x.sum() > 3:
            y = tnb.save_grad(self.here + "big", x * 2)
        else:
            y = tnb.save_grad(self.here + "small", x * 3)
        count = Tensor(0, ms.int32)
        while count < 2:
            y = tnb.save_grad(self.here + "square", y * y)
            tnb.save(self.here + "square", y)
            count = count + 1
        return y.sum()


class Uses(nn.Cell):
    """Parameters, activations and the input, each used in several ways after `save_grad`."""

    def __init__(self):
        super().__init__()
        value = Tensor(np.arange(9).reshape(3, 3) / 5, ms.float32)
        names = [f"{kind}_{use}" for kind in ("parameter", "activation") for use in USES]
        self.weights = ms.ParameterTuple([Parameter(value, name=name) for name in names])

    def construct(self, x):
        total = x.sum()
        for i in range(len(USES)):
            weight = self.weights[i]
            watched = tnb.save_grad(path("uses/parameter_" + USES[i]), weight)
            total = total + used(USES[i], weight, watched)
            y = ops.matmul(x, self.weights[len(USES) + i])
            watched = tnb.save_grad(path("uses/activation_" + USES[i]), y)
            total = total + used(USES[i], y, watched)
            watched = tnb.save_grad(path("uses/input_" + USES[i]), x)
            total = total + used(USES[i], x, watched)
        return total


def used(use, plain, watched):
    if use == "once":
        return (watched * watched).sum()
    if use == "linear":
        return watched.sum()
    if use == "both":
        return (plain * plain * plain).sum() + (watched * watched).sum()
    if use == "product":
        return ops.matmul(plain, watched).sum()
    if use == "chain":
        watched = tnb.save_grad(path("uses/inner"), watched)
        return (tnb.save_grad(path("uses/inner"), watched) * watched).sum()
    if use == "two":
        other = tnb.save_grad(path("uses/other"), plain)
        return (watched * watched).sum() + other.sum()
    if use == "loop":
        for _ in range(3):
            watched = tnb.save_grad(path("uses/inner"), ops.tanh(watched))
        return watched.sum()
    return tnb.save_grad(path("uses/inner"), (watched * watched).sum()) * 2


class Printing(nn.Cell):
    def construct(self, x):
        tnb.save("x", x, output_mode="print")
        y = tnb.save_grad("y", x * x, output_mode="print")
        nest = {"a": x.sum(), "b": [x[:0], 3, 2.5, x.astype(ms.bfloat16), x > 0.5]}
        tnb.save("nest", nest, "s", output_mode="print")
        total = tnb.save_grad("total", y.sum(), output_mode="print")
        brain = tnb.save_grad("brain", y.astype(ms.bfloat16), output_mode="print")
        tnb.save("long", ops.tile(x, (20, 20)), output_mode="print")
        return total * total + brain.astype(ms.float32).sum()


class Trained(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(3, 1, weight_init="ones", has_bias=False)

    def construct(self, x):
        y = self.dense(x)
        tnb.save(path("trained/dense"), y)
        return (tnb.save_grad(path("trained/dense"), y) ** 2).sum()


def gradient_of(net, weights):
    position = 0
    if MODE in ("pynative", "graph"):
        return ms.value_and_grad(net, position, weights)
    if MODE == "step":
        gradient = ms.value_and_grad(net, position, weights)

        @ms.jit
        def step(x):
            return gradient(x)

        return step
    return ms.value_and_grad(ms.jit(net.construct), position, weights)


def run(name, net, inputs):
    """Two steps or one; what `value_and_grad` returns is kept beside what was saved."""
    weights = net.trainable_params() or None
    gradient = gradient_of(net, weights)
    for step, x in enumerate(inputs):
        flat = []
        waiting = [gradient(x)]
        while waiting:
            value = waiting.pop()
            if isinstance(value, (tuple, list)):
                waiting.extend(value)
            else:
                flat.append(value.asnumpy())
        (OUT / "returned").mkdir(parents=True, exist_ok=True)
        np.savez(OUT / "returned" / f"{name}_{step}.npz", *flat)


def train():
    net = Trained()
    optimizer = nn.SGD(net.trainable_params(), learning_rate=0.1)
    step = nn.TrainOneStepCell(net, optimizer)
    for _ in range(2):
        step(X).asnumpy()


def expected_uses():
    """d used / d watched with everything else held, by MindSpore without any saving."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    weight = Tensor(np.arange(9).reshape(3, 3) / 5, ms.float32)
    values = {"parameter": weight, "activation": ops.matmul(X, weight), "input": X}
    for kind, value in values.items():
        for use in USES:
            other = Tensor(value.asnumpy())  # the same object would be differentiated too

            def function(watched, use=use, other=other):
                return used(use, other, watched)

            np.save(OUT / "expected" / f"{kind}_{use}", ms.grad(function)(value).asnumpy())


def refusals():
    """Texts of the errors that come while a graph is built, by what was wrong."""

    class Wrong(nn.Cell):
        def __init__(self, case):
            super().__init__()
            self.case = case

        def construct(self, x):
            here = path("wrong/")
            if self.case == "text":
                tnb.save(here + "fine", x)
                tnb.save(here + "x", [x, {"k": "text"}])
            elif self.case == "key":
                tnb.save(here + "x", {"../../up": x})
            elif self.case == "shape":
                tnb.save(here + "x", x)
            elif self.case == "gradient shape":
                x = tnb.save_grad(here + "x", x)
            elif self.case == "list":
                x = tnb.save_grad(here + "x", [x])[0]
            elif self.case == "integer":
                x = tnb.save_grad(here + "x", x.astype(ms.int32)).astype(ms.float32)
            elif self.case == "mode":
                tnb.save(here + "x", x, output_mode="csv")
            elif self.case == "folder":
                tnb.save(here, x)
            return x.sum()

    texts = {}
    for case in ("text", "key", "shape", "gradient shape", "list", "integer", "mode", "folder"):
        net = Wrong(case)
        if "shape" in case:
            net.set_inputs(Tensor(shape=[None, 3], dtype=ms.float32))
        try:
            net(X)
            texts[case] = "no error"
        except Exception as error:
            texts[case] = f"{type(error).__name__}: {error}"
    (OUT / "refusals.json").write_text(json.dumps(texts))


if MODE == "graph":
    ms.set_context(mode=ms.GRAPH_MODE)
run("printing", Printing(), [X])
run("everything", Everything(), [X, X + 1])
run("flow", Flow(), [X, X * 0.1])
run("uses", Uses(), [X])
if MODE in ("pynative", "graph"):
    train()
if MODE == "graph":
    refusals()
if MODE == "pynative":
    (OUT / "expected").mkdir()
    tnb.save_grad = lambda file, x: x
    expected_uses()
