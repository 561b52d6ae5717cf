"""Runs of twin networks of torch and MindSpore, with the truth from the module objects.

Every layer is registered under a key when it is built; what belongs together is decided by these
keys, never by the names under which the layers are seen. Own nets.
Importing this file loads both frameworks.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from dataclasses import dataclass, field

import mindspore as ms
import numpy as np
import torch
from mindspore import nn as mnn
from mindspore import ops
from torch import nn as tnn
from torch.overrides import TorchFunctionMode

from troubleshooter_nb import Dump, pair_dumps
from troubleshooter_nb.dump import Entry
from troubleshooter_nb.naming import Site

GPT_NAMES = {
    **{k: k for k in ("tok", "pos", "blocks", "ln1", "attn", "qkv", "q", "k", "v", "proj")},
    **{k: k for k in ("ln2", "fc", "act", "out", "norm", "head", "extra")},
}
OTHER_GPT_NAMES = {
    "tok": "word_embedding",
    "pos": "position_embedding",
    "blocks": "layers",
    "ln1": "input_norm",
    "attn": "self_attention",
    "qkv": "query_key_value",
    "q": "query",
    "k": "key",
    "v": "value",
    "proj": "dense",
    "ln2": "post_norm",
    "fc": "mapping",
    "act": "activation",
    "out": "projection",
    "norm": "final_norm",
    "head": "lm_head",
    "extra": "added",
}
RESNET_NAMES = {
    **{k: k for k in ("conv1", "bn1", "relu", "stage0", "stage1", "stage2", "conv2", "bn2")},
    **{k: k for k in ("down", "fc", "extra")},
}
OTHER_RESNET_NAMES = {
    "conv1": "stem",
    "bn1": "stem_norm",
    "relu": "activate",
    "stage0": "body_a",
    "stage1": "body_b",
    "stage2": "body_c",
    "conv2": "second",
    "bn2": "second_norm",
    "down": "shortcut",
    "fc": "classifier",
    "extra": "added",
}


@dataclass
class Plan:
    """What one side of a pair is called and how it deviates from the plain network."""

    names: dict
    fused: bool = True
    extra: int = -1  # the block with one more call
    odd_block: int = -1  # the block whose attention or second convolution has a name of its own
    keys: dict = field(default_factory=dict)
    is_adding: bool = False  # the additional call is running

    def keep(self, key, module):
        self.keys[id(module)] = key
        return module

    def name(self, part, block=-1):
        odd = block == self.odd_block >= 0 and part in ("attn", "conv2")
        return "renamed_part" if odd else self.names[part]


class Torch:
    """The words of torch for what both networks are made of."""

    Base, List, Sequential = tnn.Module, tnn.ModuleList, tnn.Sequential

    def linear(self, a, b, bias=True):
        return tnn.Linear(a, b, bias=bias)

    def norm(self, d):
        return tnn.LayerNorm(d)

    def embedding(self, n, d):
        return tnn.Embedding(n, d)

    def conv(self, a, b, k, stride):
        return tnn.Conv2d(a, b, k, stride, k // 2, bias=False)

    def batch_norm(self, c):
        return tnn.BatchNorm2d(c)

    gelu, relu = staticmethod(tnn.GELU), staticmethod(tnn.ReLU)

    def heads(self, x, heads):
        b, t, d = x.shape
        return x.view(b, t, heads, d // heads).transpose(1, 2)

    def parts(self, x, n):
        return torch.chunk(x, n, -1)

    def attend(self, q, k, v):
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
        return torch.matmul(torch.softmax(scores, -1), v)

    def joined(self, y):
        b, h, t, d = y.shape
        return y.transpose(1, 2).reshape(b, t, h * d)

    def add(self, x, y):
        return x + y

    def pooled(self, x):
        return x.mean((2, 3))

    def positions(self, x):
        return torch.arange(x.shape[1])


class Recorded:
    """ops.*, each call of which is recorded."""

    def __init__(self):
        self.record = None

    def __getattr__(self, name):
        function = getattr(ops, name)

        def call(*args, **kwargs):
            if self.record is None:
                return function(*args, **kwargs)
            return self.record(f"Functional.{name}", "", function, args, kwargs)

        return call


F = Recorded()


class MindSpore:
    """The words of MindSpore for the same."""

    Base, List, Sequential = mnn.Cell, mnn.CellList, mnn.SequentialCell

    def linear(self, a, b, bias=True):
        return mnn.Dense(a, b, has_bias=bias)

    def norm(self, d):
        return mnn.LayerNorm((d,), epsilon=1e-5)

    def embedding(self, n, d):
        return mnn.Embedding(n, d)

    def conv(self, a, b, k, stride):
        return mnn.Conv2d(a, b, k, stride, pad_mode="pad", padding=k // 2, has_bias=False)

    def batch_norm(self, c):
        return mnn.BatchNorm2d(c, eps=1e-5, momentum=0.9)

    def gelu(self):
        return mnn.GELU(approximate=False)

    relu = staticmethod(mnn.ReLU)

    def heads(self, x, heads):
        b, t, d = x.shape
        return F.transpose(F.reshape(x, (b, t, heads, d // heads)), (0, 2, 1, 3))

    def parts(self, x, n):
        return F.chunk(x, n, -1)

    def attend(self, q, k, v):
        scores = F.div(F.matmul(q, F.transpose(k, (0, 1, 3, 2))), math.sqrt(q.shape[-1]))
        return F.matmul(F.softmax(scores, -1), v)

    def joined(self, y):
        b, h, t, d = y.shape
        return F.reshape(F.transpose(y, (0, 2, 1, 3)), (b, t, h * d))

    def add(self, x, y):
        return F.add(x, y)

    def pooled(self, x):
        return F.mean(x, (2, 3))

    def positions(self, x):
        return ops.arange(x.shape[1])


def _module(words, forward):
    """A module of this framework that runs `forward`; parts are put in with setattr."""
    method = "forward" if words.Base is tnn.Module else "construct"
    return type("Part", (words.Base,), {method: forward})()


def gpt(words, plan, *, layers=3, dim=16, heads=2, vocab=23, context=9):
    def put(parent, part, key, module, block=-1):
        setattr(parent, plan.name(part, block), plan.keep(key, module))
        return module

    def attention(i):
        def forward(self, x):
            if plan.fused:
                q, k, v = words.parts(qkv(x), 3)
            else:
                q, k, v = (layer(x) for layer in split)
            y = words.attend(*(words.heads(part, heads) for part in (q, k, v)))
            return proj(words.joined(y))

        part = _module(words, forward)
        if plan.fused:
            qkv = put(part, "qkv", f"{i}.qkv", words.linear(dim, 3 * dim))
        else:
            split = [put(part, c, f"{i}.{c}", words.linear(dim, dim)) for c in "qkv"]
        proj = put(part, "proj", f"{i}.proj", words.linear(dim, dim))
        return part

    def block(i):
        def forward(self, x):
            h = ln1(x)
            if i == plan.extra:
                h = extra(h)
            x = words.add(x, attn(h))
            return words.add(x, out(act(fc(ln2(x)))))

        part = _module(words, forward)
        ln1 = put(part, "ln1", f"{i}.ln1", words.norm(dim))
        if i == plan.extra:
            extra = put(part, "extra", f"{i}.extra", words.norm(dim))
        attn = put(part, "attn", f"{i}.attn", attention(i), i)
        ln2 = put(part, "ln2", f"{i}.ln2", words.norm(dim))
        fc = put(part, "fc", f"{i}.fc", words.linear(dim, 4 * dim))
        act = put(part, "act", f"{i}.act", words.gelu())
        out = put(part, "out", f"{i}.out", words.linear(4 * dim, dim))
        return part

    def forward(self, x):
        x = words.add(tok(x), pos(words.positions(x)))
        for one in blocks:
            x = one(x)
        return head(norm(x))

    net = _module(words, forward)
    tok = put(net, "tok", "tok", words.embedding(vocab, dim))
    pos = put(net, "pos", "pos", words.embedding(context, dim))
    blocks = words.List([plan.keep(f"{i}", block(i)) for i in range(layers)])
    setattr(net, plan.name("blocks"), blocks)
    norm = put(net, "norm", "norm", words.norm(dim))
    head = put(net, "head", "head", words.linear(dim, vocab, bias=False))
    data = np.random.default_rng(0).integers(0, vocab, (2, 7)).astype(np.int32)
    return net, data


def resnet(words, plan, *, depth=3, width=8, classes=5):
    def put(parent, part, key, module, block=-1):
        setattr(parent, plan.name(part, block), plan.keep(key, module))
        return module

    def block(key, number, cin, cout, stride):
        def forward(self, x):
            skip = down(x) if down is not None else x
            y = relu(bn1(conv1(x)))
            if number == plan.extra:
                plan.is_adding = True
                y = relu(y)
                plan.is_adding = False
            return relu(words.add(bn2(conv2(y)), skip))

        part = _module(words, forward)
        conv1 = put(part, "conv1", f"{key}.conv1", words.conv(cin, cout, 3, stride))
        bn1 = put(part, "bn1", f"{key}.bn1", words.batch_norm(cout))
        conv2 = put(part, "conv2", f"{key}.conv2", words.conv(cout, cout, 3, 1), number)
        bn2 = put(part, "bn2", f"{key}.bn2", words.batch_norm(cout))
        relu = put(part, "relu", f"{key}.relu", words.relu())
        down = None
        if stride != 1:
            pieces = words.conv(cin, cout, 1, stride), words.batch_norm(cout)
            inner = [plan.keep(f"{key}.d{k}", piece) for k, piece in enumerate(pieces)]
            down = put(part, "down", f"{key}.down", words.Sequential(*inner))
        return part

    def forward(self, x):
        x = relu(bn1(conv1(x)))
        for one in stages:
            x = one(x)
        return fc(words.pooled(x))

    net = _module(words, forward)
    conv1 = put(net, "conv1", "conv1", words.conv(3, width, 3, 1))
    bn1 = put(net, "bn1", "bn1", words.batch_norm(width))
    relu = put(net, "relu", "relu", words.relu())
    stages, number = [], 0
    for s in range(3):
        blocks = []
        for i in range(depth):
            cin = width << s if i or not s else width << (s - 1)
            one = block(f"{s}.{i}", number, cin, width << s, 2 if s and not i else 1)
            blocks.append(plan.keep(f"{s}.{i}", one))
            number += 1
        stages.append(put(net, f"stage{s}", f"{s}", words.Sequential(*blocks)))
    fc = put(net, "fc", "fc", words.linear(width << 2, classes))
    data = np.random.default_rng(0).standard_normal((2, 3, 16, 16)).astype(np.float32)
    return net, data


@dataclass
class Run:
    """Entries of a run, and of each the key of the layer it was in and its values."""

    entries: list = field(default_factory=list)
    keys: list = field(default_factory=list)
    values: list = field(default_factory=list)
    calls: Counter = field(default_factory=Counter)
    run_calls: Counter = field(default_factory=Counter)
    plan: Plan | None = None

    def call(self, kind, path, layer, key, name, parts):
        """`parts` are (direction, role, section, slot, value); `name` has places for both."""
        number = self.calls[name]
        self.calls[name] += 1
        # The visit of the layer, additional ones apart.
        run_call = "added" if self.plan.is_adding else self.run_calls[name]
        self.run_calls[name] += not self.plan.is_adding
        for direction, role, section, slot, value in parts:
            if value is None:
                continue
            text = name.format(event=direction, n=number)
            array = np.asarray(value)
            self.entries.append(
                Entry(
                    f"{text}.{section}.{slot}",
                    Site(kind, path, number, direction, role, str(slot)),
                    order=len(self.entries),
                    dtype=str(array.dtype),
                    shape=array.shape,
                    layer=layer,
                )
            )
            self.keys.append((key, run_call if kind == "module" else -1, direction, role, slot))
            self.values.append(array)

    def dump(self, label):
        return Dump.from_entries(self.entries, label=label, format="captured")


def _tensors(values, kind, convert):
    flat = []
    for value in values:
        flat += list(value) if isinstance(value, tuple | list) else [value]
    return [convert(value) if isinstance(value, kind) else None for value in flat]


def _io(inputs, outputs):
    yield from (("forward", "input", "input", k, v) for k, v in enumerate(inputs))
    yield from (("forward", "output", "output", k, v) for k, v in enumerate(outputs))


LEAVES = {"gamma": "weight", "beta": "bias", "embedding_table": "weight"}
LEAVES |= {"moving_mean": "running_mean", "moving_variance": "running_var"}


def run_torch(net, plan, data, level):
    """The run of a torch module: every call of a module, or every call of a function."""
    run, inside = Run(plan=plan), []
    host = lambda value: value.detach().numpy()  # noqa: E731
    net.train()

    def before(module, args):
        inside.append(plan.keys.get(id(module), ""))

    def after(path, module, args, output):
        key = inside.pop()
        if level != "module":
            return
        io = list(_io(*(_tensors(v, torch.Tensor, host) for v in (args, (output,)))))
        own = [
            ("forward", "parameter", "parameters", name, host(value))
            for name, value in module.named_parameters(recurse=False)
        ]
        layer = type(module).__name__
        run.call("module", path, layer, key, f"Module.{path}.{layer}.{{event}}.{{n}}", [*io, *own])

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            name = getattr(func, "__name__", "")
            ins = _tensors(
                [a.clone() if isinstance(a, torch.Tensor) else a for a in args], torch.Tensor, host
            )
            named = [
                ("forward", "input", "kwargs", k, host(v.clone()))
                for k, v in (kwargs or {}).items()
                if isinstance(v, torch.Tensor)
            ]
            out = func(*args, **(kwargs or {}))
            quiet = name.startswith("__get") or name in ("__set__", "size", "dim", "detach")
            if not quiet and name and inside and isinstance(out, torch.Tensor | tuple):
                home = str(getattr(func, "__module__", "") or "")
                category = "Functional" if "functional" in home or "_nn" in home else "Torch"
                if getattr(torch.Tensor, name, None) is func:
                    category = "Tensor"
                path = f"{category}.{name}"
                outs = _tensors((out,), torch.Tensor, host)
                run.call(
                    "api", path, name, inside[-1], path + ".{n}.{event}", [*_io(ins, outs), *named]
                )
            return out

    for path, module in net.named_modules():
        module.register_forward_pre_hook(before)
        if path:
            module.register_forward_hook(lambda m, a, o, path=path: after(path, m, a, o))
        else:
            module.register_forward_hook(lambda m, a, o: [inside.pop(), None][1])
    with Mode() if level == "api" else contextlib.nullcontext():
        output = net(
            torch.from_numpy(data).long() if data.dtype == np.int32 else torch.from_numpy(data)
        )
    if level == "module":
        output.sum().backward()
        for path, module in net.named_modules():
            _gradients(
                run,
                plan,
                path,
                module,
                "Module",
                [
                    (name, host(value.grad))
                    for name, value in module.named_parameters(recurse=False)
                    if value.grad is not None
                ],
            )
    return run


def _gradients(run, plan, path, module, prefix, own):
    layer = type(module).__name__
    parts = [("backward", "parameter", "", name, value) for name, value in own]
    for direction, role, _, slot, value in parts:
        run.entries.append(
            Entry(
                f"{prefix}.{path}.{layer}.parameters_grad.0.{slot}",
                Site("module", path, 0, direction, role, slot),
                order=len(run.entries),
                dtype="float32",
                shape=value.shape,
                layer=layer,
            )
        )
        run.keys.append((plan.keys.get(id(module), ""), 0, direction, role, slot))
        run.values.append(value)


def run_mindspore(net, plan, data, level):
    """The run of a cell: every call of a cell, or of ``ops.*`` and of the primitives in cells."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    run, inside, depth = Run(plan=plan), [], [0]
    host = lambda value: value.asnumpy()  # noqa: E731
    net.set_train()

    def recorded(path, layer, function, args, kwargs):
        if depth[0] or level != "api" or not inside:
            return function(*args, **kwargs)
        ins = _tensors(args, ms.Tensor, lambda value: value.asnumpy().copy())
        depth[0] += 1
        try:
            output = function(*args, **kwargs)
        finally:
            depth[0] -= 1
        outs = _tensors((output,), ms.Tensor, host)
        key = plan.keys.get(id(inside[-1]), "")
        run.call(
            "api",
            path,
            layer or path.rpartition(".")[2],
            key,
            f"{path}.{layer + '.' if layer else ''}{{n}}.{{event}}",
            _io(ins, outs),
        )
        return output

    def before(cell, args):
        inside.append(cell)

    def after(path, cell, args, output):
        inside.pop()
        if level != "module" or not path:
            return
        key = plan.keys.get(id(cell), "")
        io = list(_io(*(_tensors(v, ms.Tensor, host) for v in (args, (output,)))))
        own = [
            ("forward", "parameter", "parameters", p.name.rpartition(".")[2], p.asnumpy())
            for p in cell.get_parameters(expand=False)
            if p.requires_grad
        ]
        layer = type(cell).__name__
        run.call("module", path, layer, key, f"Cell.{path}.{layer}.{{event}}.{{n}}", [*io, *own])

    for path, cell in net.cells_and_names():
        cell.register_forward_pre_hook(before)
        cell.register_forward_hook(lambda c, a, o, path=path: after(path, c, a, o))
    F.record = recorded
    used = {
        (type(value), name)
        for _, cell in net.cells_and_names()
        for name, value in (*vars(cell).items(), *getattr(cell, "_primitives", {}).items())
        if isinstance(value, ops.Primitive)
    }
    classes = {kind: kind.__call__ for kind, _ in used}

    def hooked(original):
        def call(primitive, *args):
            cell = inside[-1] if inside else None
            own = {**vars(cell), **getattr(cell, "_primitives", {})} if cell is not None else {}
            attribute = next((name for name, value in own.items() if value is primitive), "")
            if not attribute:
                return original(primitive, *args)
            function = lambda *a: original(primitive, *a)  # noqa: E731
            return recorded(f"Primitive.{attribute}", type(primitive).__name__, function, args, {})

        return call

    own = {kind: "__call__" in vars(kind) for kind in classes}
    for kind, original in classes.items():
        kind.__call__ = hooked(original)
    try:
        if level == "module":
            weights = ms.ParameterTuple(net.trainable_params())
            grads = ms.ops.grad(lambda x: net(x).sum(), None, weights)(ms.Tensor(data))
        else:
            net(ms.Tensor(data))
    finally:
        for kind, original in classes.items():
            if own[kind]:
                kind.__call__ = original
            else:
                del kind.__call__
        F.record = None
    if level == "module":
        of = {p.name: g.asnumpy() for p, g in zip(weights, grads, strict=True)}
        for path, cell in net.cells_and_names():
            _gradients(
                run,
                plan,
                path,
                cell,
                "Cell",
                [
                    (p.name.rpartition(".")[2], of[p.name])
                    for p in cell.get_parameters(expand=False)
                    if p.name in of
                ],
            )
    return run


def same_weights(source, target, plans):
    """Copy the weights of a torch net into a cell, by the keys of the layers."""
    ours = {plans[0].keys[id(m)]: m for m in source.modules() if id(m) in plans[0].keys}
    own = {key: dict(m.named_parameters(recurse=False)) for key, m in ours.items()}
    # A fused layer holds what those side by side hold on the other side.
    for key in list(own):
        stem, _, name = key.rpartition(".")
        if name == "qkv":
            for k, part in enumerate("qkv"):
                own[f"{stem}.{part}"] = {n: v.chunk(3)[k] for n, v in own[key].items()}
        elif name == "q":
            names = own[key]
            own[f"{stem}.qkv"] = {
                n: torch.cat([dict(ours[f"{stem}.{c}"].named_parameters())[n] for c in "qkv"])
                for n in names
            }
    for _, cell in target.cells_and_names():
        values = own.get(plans[1].keys.get(id(cell)), {})
        for p in cell.get_parameters(expand=False):
            name = p.name.rpartition(".")[2]
            value = values.get(LEAVES.get(name, name))
            if value is not None:
                p.set_data(ms.Tensor(np.ascontiguousarray(value.detach().numpy())))


@dataclass
class Result:
    """How a pairing fares against the truth."""

    wanted: int
    found: int
    wrong: list  # (confidence, left, right, method)
    missing: list  # names on the left

    @property
    def recall(self):
        return self.found / self.wanted


def spell(key):
    return (*key[:-1], LEAVES.get(key[-1], key[-1]))


def judge(pairing, left, right, level, *, extra_calls=False):
    """Count true pairs that were found, and pairs that are none."""
    rows = [m for m in pairing.matches() if m.left >= 0 and m.right >= 0]
    partner = {m.left: m.right for m in rows}
    if level == "module":
        where = {spell(key): j for j, key in enumerate(right.keys)}
        truth = {i: {where[spell(key)]} for i, key in enumerate(left.keys) if spell(key) in where}
        required = set(truth)
    else:
        truth, required = _by_layer_and_values(left, right)
    wrong = []
    for m in rows:
        if m.right in truth.get(m.left, ()):
            continue
        if _in_fused(left.keys[m.left], right.keys[m.right]):
            continue
        names = left.entries[m.left].name, right.entries[m.right].name
        wrong.append((m.confidence, *names, m.method))
    found = sum(partner.get(i) in truth[i] for i in required)
    missing = [left.entries[i].name for i in required if partner.get(i) not in truth[i]]
    return Result(len(required), found, sorted(wrong, reverse=True), missing)


def _in_fused(mine, theirs):
    """What goes into q, k, v goes into qkv as well."""
    keys = {mine[0].rpartition(".")[2], theirs[0].rpartition(".")[2]}
    same = mine[0].rpartition(".")[0] == theirs[0].rpartition(".")[0]
    return same and "qkv" in keys and bool(keys & {"q", "k", "v"}) and mine[2:] == theirs[2:]


def _by_layer_and_values(left, right):
    """Operators have no object of their own: the layer they ran in and equal values decide."""
    by_key = {}
    for j, key in enumerate(right.keys):
        by_key.setdefault((key[0], key[3], right.values[j].shape), []).append(j)
    truth = {}
    for i, key in enumerate(left.keys):
        mine = left.values[i]
        near = {
            j
            for j in by_key.get((key[0], key[3], mine.shape), ())
            if np.allclose(mine, right.values[j], rtol=1e-3, atol=1e-4)
        }
        if near:
            truth[i] = near
    # Where several calls hold the same values, such as a change of form that changes nothing, only
    # one of them has this partner, and either answer is true.
    shared = Counter(frozenset(js) for i, js in truth.items() if left.keys[i][3] == "output")
    required = {
        i
        for i, js in truth.items()
        if left.keys[i][3] == "output" and shared[frozenset(js)] <= len(js)
    }
    return truth, required


def variations():
    """Title, and what the torch side and the MindSpore side are built with."""
    yield "same names", {}, {}
    yield "all renamed", {}, {"renamed": True}
    yield "one block renamed", {}, {"odd_block": 1}
    yield "one call more, same names", {}, {"extra": 1}
    yield "one call more, renamed", {"extra": 1}, {"renamed": True}
    yield "fused qkv, same names", {}, {"fused": False}
    yield "fused qkv, renamed", {"fused": False}, {"renamed": True}
    yield "all of it", {"extra": 2}, {"renamed": True, "odd_block": 0, "fused": False}


def measure(net, level, left, right):
    """Capture one pair of runs and judge how it is paired, the MindSpore side on the left."""
    build = {"gpt": gpt, "resnet": resnet}[net]
    names = {
        "gpt": (GPT_NAMES, OTHER_GPT_NAMES),
        "resnet": (RESNET_NAMES, OTHER_RESNET_NAMES),
    }[net]
    plans = [
        Plan(names[bool(side.get("renamed"))], **{k: v for k, v in side.items() if k != "renamed"})
        for side in (left, right)
    ]
    torch.manual_seed(0)
    source, data = build(Torch(), plans[0])
    target, _ = build(MindSpore(), plans[1])
    same_weights(source, target, plans)
    runs = (
        run_mindspore(target, plans[1], data, level),
        run_torch(source, plans[0], data, level),
    )
    pairing = pair_dumps(runs[0].dump("mindspore"), runs[1].dump("torch"))
    return judge(pairing, *runs, level)
