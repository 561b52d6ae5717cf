"""Recording changes no bit of a MindSpore network, and leaves nothing registered."""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress

import numpy as np
import pytest

import troubleshooter_nb as tnb
from tests.capture import ids

mindspore = pytest.importorskip("mindspore")

from mindspore import Tensor, nn, ops  # noqa: E402
from mindspore._c_expression import _DispatchGuardStack as dispatched  # noqa: E402

from troubleshooter_nb.frameworks import mindspore_recording  # noqa: E402

pytestmark = pytest.mark.mindspore
LEVELS = ("module", "api", "both")


def bits(tensor):
    return tensor.asnumpy().tobytes()


class Everything(nn.Cell):
    """Dropout, batch norm, recomputation, half precision, item assignment, dicts, LSTM."""

    def __init__(self):
        super().__init__()
        self.first = nn.SequentialCell(nn.Dense(6, 8), nn.ReLU(), nn.Dropout(p=0.3))
        self.norm = nn.BatchNorm1d(8)
        self.again = nn.SequentialCell(nn.Dense(8, 8), nn.Tanh())
        self.again.recompute()
        self.half = nn.Dense(8, 8).to_float(mindspore.float16)
        self.table = nn.Embedding(3, 8)
        self.lstm = nn.LSTM(4, 4, batch_first=True)
        self.head = nn.Dense(8, 2)

    def construct(self, x, *, tokens):
        x = x * 1.0
        x[:, 0] = 1.0
        h = self.norm(self.first(x)) + self.table(tokens)
        h = self.again(h) + self.half(h)
        h, _ = self.lstm(h.reshape(-1, 2, 4))
        h = ops.dropout(h, 0.2, training=True)
        return {"logits": self.head(h.reshape(-1, 8)), "h": [h]}


def train(around=lambda net: None, after_step=lambda: None):
    """Everything that a short training computes, as bits."""
    mindspore.set_seed(5)
    net = Everything().set_train()
    optimizer = nn.AdamWeightDecay(net.trainable_params(), 0.01)
    x = Tensor(np.linspace(-1, 1, 30, dtype=np.float32).reshape(5, 6))
    tokens = Tensor(np.array([0, 1, 2, 0, 1], np.int32))

    def loss_of(x):
        out = net(x, tokens=tokens)
        return (out["logits"] ** 2).mean() + ops.sin(out["h"][0]).sum(), out["logits"]

    step = mindspore.value_and_grad(loss_of, 0, net.trainable_params(), has_aux=True)

    def run():
        (loss, logits), (to_x, gradients) = step(x)
        optimizer(gradients)
        found.extend(bits(value) for value in (loss, logits, to_x, *gradients))

    found = []
    with around(net) or ExitStack():
        for _ in range(2):
            run()
            after_step()
    run()
    found += [bits(value) for value in (*net.get_parameters(), mindspore.get_rng_state())]
    found.append(np.random.get_state()[1].tobytes())  # noqa: NPY002
    assert list(registered(net, x, tokens)) == []
    return found


def registered(net, *tensors):
    """Where anything is registered."""
    for name, cell in net.cells_and_names():
        for kind, hooks in vars(cell).items():
            if "hook" in kind and hooks:
                yield name, kind
    for tensor in (*net.get_parameters(), *tensors):
        if tensor.hooks():
            yield "hooks", tensor
    if "__call__" in vars(nn.Optimizer):
        yield "optimizer", None
    if "MS_JIT" in os.environ:
        yield "jit", None
    if dispatched.depth():
        yield "dispatch modes", dispatched.depth()
    if mindspore_recording._waiting:
        yield "waiting", None


@pytest.fixture(scope="module", name="alone")
def _alone():
    return train()


OPTIONS = [
    *({"level": level} for level in LEVELS),
    *({"level": "both", "keep": keep} for keep in ("sample", "statistics", "digest")),
    *ids.OPTIONS,
    {"names": lambda site: "matmul" in site.path, "level": "both"},
]


@pytest.mark.few(6)
@pytest.mark.parametrize("options", OPTIONS, ids=ids.named)
def test_no_bit_changes(options, alone):
    recs = []

    def around(net):
        recs.append(tnb.record(net, **options))
        return recs[0]

    assert train(around, lambda: recs[0].step()) == alone
    assert len(recs[0].dump)


def test_no_bit_changes_when_two_recordings_run_and_one_is_paused(alone):
    recs = []

    def around(net):
        stack = ExitStack()
        recs.extend(stack.enter_context(tnb.record(net, level=level)) for level in ("both", "api"))
        stack.enter_context(recs[1].pause())
        return stack

    assert train(around) == alone
    assert len(recs[0].dump) > 0
    assert len(recs[1].dump) == 0


def test_no_bit_changes_in_a_folder_between_start_and_stop(alone, tmp_path):
    recs = []

    def around(net):
        recs.append(tnb.record(net, to=tmp_path / "run", level="both"))
        recs[0].start()

    def after_step():
        if recs[0].state == "running":
            recs[0].step()
            if recs[0].steps == [0, 1]:
                recs[0].stop()

    assert train(around, after_step) == alone
    assert set(tnb.open_dump(tmp_path / "run").index["step"].values) == {0, 1}


class Fails(nn.Cell):
    def construct(self, x):
        msg = "of the user"
        raise ValueError(msg)


@pytest.fixture
def _recovers():
    """Without any recording, MindSpore fails in the first LayerNorm after such an exception."""
    yield
    norm, x = nn.LayerNorm((4,)), Tensor(np.ones((2, 4), np.float32))
    with suppress(RuntimeError):
        mindspore.grad(lambda x: norm(x).sum())(x)
    mindspore.grad(lambda x: norm(x).sum())(x)


@pytest.mark.usefixtures("_recovers")
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_nothing_stays_after_an_exception(level, kind):
    x = Tensor(np.ones((2, 3), np.float32))
    net = nn.SequentialCell(nn.Dense(3, 3), nn.Dense(3, 3))
    step = mindspore.value_and_grad(lambda x: net(x).sum(), None, net.trainable_params())
    plain = [bits(g) for g in step(x)[1]]
    rec = tnb.record(net, level=level)

    def run():
        with rec:
            step(x)
            msg = "of the user"
            raise kind(msg)

    with pytest.raises(kind, match="of the user"):
        run()
    assert rec.state == "broken"
    assert list(registered(net, x)) == []
    assert [bits(g) for g in step(x)[1]] == plain


@pytest.mark.usefixtures("_recovers")
def test_an_exception_inside_a_cell_is_told_and_the_next_step_is_fine():
    x = Tensor(np.ones((2, 3), np.float32))
    net = nn.SequentialCell(nn.Dense(3, 3), Fails())
    with tnb.record(net, level="both") as rec:
        with pytest.raises(ValueError, match="of the user"):
            mindspore.value_and_grad(lambda x: net(x).sum(), None, net.trainable_params())(x)
        mindspore.value_and_grad(lambda x: net[0](x).sum(), None, net.trainable_params())(x)
    assert {row.kind: row.where for row in rec.missing} == {
        "raised": ("1", ""),
        "gradient_not_arrived": ("0.0",),  # of the call that no backward pass followed
    }
    assert "Cell.0.Dense.parameters_grad.0.weight" in rec.dump.index["name"].values
    assert list(registered(net, x)) == []
