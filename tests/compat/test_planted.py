"""What the files of the old recorders' calls can decide of five planted faults: docs/msprobe.md."""

import json

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.compat.msprobe.debugger import PrecisionDebugger as Debugger

pytestmark = pytest.mark.torch

CAUSES = {
    "eps": "norm_eps",
    "gelu": "gelu_variant",
    "mask": "mask_missing",
    "dropout": "eval_train_mode",
    "loaded": "wrong_layer_loaded",
}
# Parts of the name of the first call that differs, by operators, and by modules.
OPERATORS = {
    "eps": "layer_norm.2.forward",
    "gelu": "gelu.1.forward",
    "mask": "softmax.1.forward",
    "dropout": "dropout.1.forward",
    "loaded": "linear.7.forward",
}
MODULES = {
    "eps": "layers.1.n1.LayerNorm.forward.0",
    "gelu": "layers.1.act.GELU.forward.0",
    "mask": "layers.1.att.drop.Dropout.forward.0",
    "dropout": "layers.1.att.drop.Dropout.forward.0",
    "loaded": "layers.1.att.k.Linear.forward.0",
}
LINES = {
    "eps": "layer_norm_forward",
    "gelu": "gelu_forward",
    "mask": "softmax_forward",
    "dropout": "dropout_forward",
    "loaded": "linear_forward",
}


def by_msprobe(level, task, generation, **of_task):
    def dump(net, to):
        from troubleshooter_nb.compat.msprobe.pytorch import PrecisionDebugger

        to.parent.mkdir(parents=True, exist_ok=True)
        config = to.with_suffix(".json")
        said = {"task": task, "level": level, "dump_path": str(to), task: of_task}
        config.write_text(json.dumps(said))
        Debugger._instance = None
        debugger = PrecisionDebugger(config, generation=generation)
        debugger.start(net)
        net.learn()
        debugger.stop()
        debugger.step()
        return to

    return dump


def by_hooks(sample):
    def dump(net, to):
        from troubleshooter_nb.compat.torch_npu.hooks import (
            register_hook,
            set_dump_path,
            wrap_acc_cmp_hook,
        )

        to.parent.mkdir(parents=True, exist_ok=True)
        with register_hook(net, wrap_acc_cmp_hook, sample=sample):
            set_dump_path(str(to.with_suffix(".pkl")))
            net.learn()
        return to.with_suffix(".pkl")

    return dump


# How it is recorded, where faults stand in it, which are named, and which only not decided.
WAYS = {
    "mix tensor": (by_msprobe("mix", "tensor", "8.3"), OPERATORS, set(CAUSES), set()),
    "mix tensor 26": (by_msprobe("mix", "tensor", "26.2"), OPERATORS, set(CAUSES), set()),
    "L1 tensor": (by_msprobe("L1", "tensor", "8.3"), OPERATORS, set(CAUSES), set()),
    "L0 tensor": (by_msprobe("L0", "tensor", "8.3"), MODULES, set(CAUSES) - {"mask"}, set()),
    "mix statistics": (by_msprobe("mix", "statistics", "8.3"), OPERATORS, set(), set()),
    "L1 statistics": (by_msprobe("L1", "statistics", "8.3"), OPERATORS, set(), {"gelu"}),
    "L0 statistics": (by_msprobe("L0", "statistics", "8.3"), MODULES, set(), {"gelu"}),
    "mix md5": (
        by_msprobe("mix", "statistics", "8.3", summary_mode="md5"),
        OPERATORS,
        set(),
        set(),
    ),
    "hooks": (by_hooks(sample=False), LINES, set(CAUSES), set()),
    "hooks, first ten": (by_hooks(sample=True), LINES, set(), {"gelu"}),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The dump of the network without a fault, once for each way."""
    from tests.compat.planted_net import Net

    known = {}

    def sound(way):
        if way not in known:
            known[way] = WAYS[way][0](Net(), tmp_path_factory.mktemp("sound") / "run")
        return known[way]

    return sound


@pytest.mark.few(8)
@pytest.mark.parametrize("fault", CAUSES)
@pytest.mark.parametrize("way", WAYS)
def test_planted_faults(way, fault, sound, tmp_path):
    from tests.compat.planted_net import Net

    dump, places, named, undecided = WAYS[way]
    found = tnb.compare(dump(Net(fault), tmp_path / "run"), sound(way))
    causes = [finding.cause for finding in found.findings]
    assert causes == ([CAUSES[fault]] if fault in named else [])
    first = found.first_divergence
    if fault in undecided:
        assert first.verdict == "undecidable"
    else:
        assert places[fault] in str(first.row["left"].values)


@pytest.mark.few(2)
@pytest.mark.parametrize("way", ["mix tensor", "L0 statistics", "mix md5", "hooks"])
def test_equal_runs_have_no_finding(way, sound, tmp_path):
    from tests.compat.planted_net import Net

    found = tnb.compare(WAYS[way][0](Net(), tmp_path / "run"), sound(way))
    assert found.first_divergence is None
    assert not found.findings


def test_the_file_holds_the_values_of_the_recording(tmp_path):
    from tests.compat.planted_net import Net

    theirs = tnb.open_dump(WAYS["mix tensor"][0](Net(), tmp_path / "run"))
    with tnb.record(Net(), level="both") as rec:
        rec._networks[""].learn()
    ours = rec.dump
    stored = {name for name, source in zip(theirs.names, theirs.sources, strict=True) if source}
    # Gradients of an operator are those of the graph's node here, and whole ones there.
    of_operators = {name for name in stored if name[:7] != "Module." and ".backward." in name}
    both = sorted((stored - of_operators) & set(ours.names))
    forward = [name for name in both if ".forward." in name]
    backward = [name for name in both if ".backward." in name]
    gradients = [name for name in both if ".parameters_grad" in name]
    assert len(forward) > 120
    assert len(backward) > 40
    for name in (*forward, *backward, *gradients):
        left, right = theirs.array(name), ours.array(name)
        np.testing.assert_array_equal(left, right, err_msg=name)
