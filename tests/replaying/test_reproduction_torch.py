"""What torch makes of an exported call is what the layer made, whatever its settings are."""

from __future__ import annotations

import runpy
import sys

import pytest

import troubleshooter_nb as tnb

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

pytestmark = pytest.mark.torch
IMAGES, IDS = (2, 4, 9, 9), "ids"
CASES = {
    "padding counted": (lambda **o: nn.AvgPool2d(2, padding=1, **o), "count_include_pad", IMAGES),
    "in 1d": (lambda **o: nn.AvgPool1d(2, padding=1, **o), "count_include_pad", (4, 9, 9)),
    "divisor": (lambda **o: nn.AvgPool2d(2, **o), "divisor_override", IMAGES),
    "average ceil": (lambda **o: nn.AvgPool2d(2, **o), "ceil_mode", IMAGES),
    "dilation": (lambda **o: nn.MaxPool2d(3, **o), "dilation", IMAGES),
    "ceil": (lambda **o: nn.MaxPool2d(2, return_indices=True, **o), "ceil_mode", IMAGES),
    "norm of rows": (lambda **o: nn.Embedding(20, 4, **o), "max_norm", IDS),
    "root mean square": (lambda **o: nn.RMSNorm(9, **o), "eps", IMAGES),
    "softmax": (lambda **o: nn.Softmax(**o), "dim", IMAGES),
    "its logarithm": (lambda **o: nn.LogSoftmax(**o), "dim", (4, 9, 9)),
}
VALUES = {
    "count_include_pad": (False, True),
    "divisor_override": (3, None),
    "ceil_mode": (True, False),
    "dilation": (2, 1),
    "max_norm": (1.0, None),
    "eps": (None, 1e-2),
    "dim": (None, -1),
}


def printed(folder, capsys):
    """What the script of a folder prints without MindSpore."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "mindspore", None)
        runpy.run_path(str(folder / "reproduce.py"), run_name="__main__")
    return capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:Implicit dimension choice")
@pytest.mark.parametrize("case", CASES)
def test_a_setting_that_differs_is_computed_with(case, tmp_path, capsys):
    make, setting, shape = CASES[case]
    torch.manual_seed(0)
    x = torch.arange(6).reshape(2, 3) if shape == IDS else torch.randn(shape)
    nets = [nn.Sequential(make(**{setting: value})) for value in VALUES[setting]]
    nets[1].load_state_dict(nets[0].state_dict())
    dumps = []
    for net in nets:
        with tnb.record(net, gradients=False) as rec:
            net(x)
        dumps.append(rec.dump)
    cmp = tnb.compare(*dumps, diagnose=False)
    text = printed(tnb.export_reproduction(cmp, "0", tmp_path / "call"), capsys)
    again = [line for line in text.splitlines() if "computed again" in line]
    of_torch = [line for line in again if line.startswith("torch")]
    assert [line.rpartition(": ")[2] for line in of_torch] == ["equal", "equal"], text
    of_numpy = [line.rpartition(" ")[2] for line in again if line.startswith("numpy")]
    assert all(end == "equal" or float(end) < 1e-6 for end in of_numpy), text
    (apart,) = [
        line for line in text.splitlines() if line.startswith("torch: left against right, e")
    ]
    assert "differ" in apart
    assert "takes no notice" not in text


def test_a_setting_that_no_formula_asks_for_is_said(tmp_path, capsys):
    x, nets = torch.arange(6), [nn.Embedding(20, 4, sparse=s) for s in (True, False)]
    dumps = []
    for net in nets:
        whole = nn.Sequential(net)
        with tnb.record(whole, gradients=False) as rec:
            whole(x)
        dumps.append(rec.dump)
    cmp = tnb.compare(*dumps, diagnose=False)
    text = printed(tnb.export_reproduction(cmp, "0", tmp_path / "call"), capsys)
    assert "takes no notice of 'sparse'" in text
