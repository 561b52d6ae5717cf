import functools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from example_nets import FAULTS, make_gradients
from example_nets.gradients import BUNDLE, BUNDLED_SETTING

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"

# Worst honest gradient difference measured: 1.5e-06. The weakest fault (ln_eps) reaches 2.5e-04.
AGREE = 1e-5
# The smallest that a backward-only fault makes in a gradient it spoils: 4.4e-02.
SPOILED = 1e-2
SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3))]


def relative_l2(actual, benchmark):
    difference = np.subtract(actual, benchmark, dtype=np.float64)
    return np.linalg.norm(difference) / np.linalg.norm(benchmark.astype(np.float64))


# The functions below give the same at every call, and a net's first step costs most.
@functools.cache
def torch_step(net, seed):
    from example_nets import step_torch

    return step_torch.run_step(step_torch.build(net, seed), net, seed)


@functools.cache
def run_both(net, fault, seed):
    """Losses, {torch name: rel L2 of the gradients} and MindSpore's gradients by torch name."""
    from example_nets import step_mindspore

    torch_loss, expected = torch_step(net, seed)
    model = step_mindspore.build(net, fault, seed)
    loss, gradients = step_mindspore.run_step(model, net, seed)
    got = {step_mindspore.torch_name(name): value for name, value in gradients.items()}
    assert list(got) == list(expected)
    errors = {name: relative_l2(got[name], expected[name]) for name in expected}
    return (loss, torch_loss), errors, got


@functools.cache
def module_outputs(net, fault, seed):
    """[((module name, call), MindSpore output, torch output)] in MindSpore's order of calls."""
    import torch
    from example_nets import step_mindspore, step_torch

    def keep(outputs, name, array):
        call = sum(name == seen for seen, _ in outputs)
        outputs[name, call] = array.copy()

    expected, got = {}, {}
    torch_net = step_torch.build(net, seed)
    for name, module in torch_net.named_modules():
        module.register_forward_hook(lambda _m, _i, y, n=name: keep(expected, n, y.numpy()))
    net_ = step_mindspore.build(net, fault, seed)
    for name, cell in net_.cells_and_names():
        cell.register_forward_hook(lambda _c, _i, y, n=name: keep(got, n, y.asnumpy()))
    inputs, _ = step_mindspore.draw_batch(net, seed)
    with torch.no_grad():
        torch_net(torch.from_numpy(inputs))
    net_(step_mindspore.ms.Tensor(inputs))
    assert set(got) == set(expected)
    return [(key, got[key], expected[key]) for key in got]


def relu_sign_flips(net, seed):
    """How many ReLU outputs are zero on one side only."""
    return sum(
        np.count_nonzero((got > 0) != (expected > 0))
        for (name, _), got, expected in module_outputs(net, "none", seed)
        if name.endswith("relu")
    )


def read_dump(folder):
    """Arrays of a dump in the order of their file numbers, by name."""
    numbered = [(*path.stem.rsplit("_", 2), path) for path in folder.glob("*.npy")]
    numbered.sort(key=lambda parts: int(parts[2]))
    return {name: np.load(path) for name, _, _, path in numbered}


def run_python(code):
    return subprocess.run(
        [sys.executable, "-c", code], cwd=NOTEBOOKS, capture_output=True, text=True, check=False
    )


@pytest.mark.torch
@pytest.mark.mindspore
@pytest.mark.parametrize("seed", SEEDS)
def test_the_faithful_gpts_agree(seed):
    (loss, torch_loss), errors, _ = run_both("gpt", "none", seed)
    assert abs(loss - torch_loss) < 1e-5
    assert max(errors.values()) < AGREE


@pytest.mark.torch
@pytest.mark.mindspore
@pytest.mark.parametrize("seed", SEEDS)
def test_the_faithful_resnets_agree(seed):
    (loss, torch_loss), errors, _ = run_both("resnet", "none", seed)
    assert abs(loss - torch_loss) < 1e-5
    # One activation that rounds to the other side of zero moves gradients by orders of magnitude;
    # here no seed has one, another CPU may meet one.
    assert max(errors.values()) < (AGREE if relu_sign_flips("resnet", seed) == 0 else 0.1)


@pytest.mark.torch
def test_the_networks_are_small():
    from example_nets import step_torch

    sizes = {net: sum(p.numel() for p in step_torch.build(net, 0).parameters()) for net in FAULTS}
    assert sizes == {"gpt": 54_464, "resnet": 78_042}


@pytest.mark.few(3)
@pytest.mark.torch
@pytest.mark.mindspore
@pytest.mark.parametrize(
    ("net", "fault", "first"),
    [
        ("gpt", "ln_eps", ("blocks.0.ln1", 0)),
        ("gpt", "gelu_tanh", ("blocks.0.act", 0)),
        ("gpt", "scale", ("blocks.2.attn.proj", 0)),
        ("gpt", "mask", ("blocks.1.attn.proj", 0)),
        ("gpt", "half_block", ("blocks.3.fc", 0)),
        ("resnet", "bn_eps", ("layer2.0.down.1", 0)),
        ("resnet", "pad_mode", ("layer2.0.conv1", 0)),
        ("resnet", "relu_order", ("layer3.0.relu", 1)),
    ],
)
def test_a_forward_fault_shows_first_where_it_is_planted(net, fault, first):
    outputs = module_outputs(net, fault, 0)
    different = [key for key, got, expected in outputs if relative_l2(got, expected) > AGREE]
    assert different[0] == first
    _, errors, _ = run_both(net, fault, 0)
    assert max(errors.values()) > 10 * AGREE


@pytest.mark.torch
@pytest.mark.mindspore
@pytest.mark.parametrize(
    ("net", "fault"),
    [("gpt", "detached_norm"), ("resnet", "detached_skip"), ("resnet", "bn_momentum")],
)
def test_a_hidden_fault_changes_neither_an_output_nor_the_loss(net, fault):
    assert all(relative_l2(got, ref) < AGREE for _, got, ref in module_outputs(net, fault, 0))
    (loss, torch_loss), _, _ = run_both(net, fault, 0)
    assert abs(loss - torch_loss) < 1e-5


@pytest.mark.torch
@pytest.mark.mindspore
@pytest.mark.parametrize("seed", SEEDS)
def test_detached_norm_spoils_every_gradient_upstream_of_the_norm_and_no_other(seed):
    _, errors, _ = run_both("gpt", "detached_norm", seed)
    upstream = ("tok.", "pos.", "blocks.0.", "blocks.1.", "blocks.2.ln1.", "blocks.2.attn.")
    spoiled = {name for name in errors if name.startswith(upstream)}
    assert len(spoiled) == 32
    assert min(errors[name] for name in spoiled) > SPOILED
    assert max(errors[name] for name in errors.keys() - spoiled) < AGREE


@pytest.mark.torch
@pytest.mark.mindspore
def test_detached_skip_zeroes_the_shortcut_and_spoils_everything_before_it():
    _, errors, gradients = run_both("resnet", "detached_skip", 0)
    shortcut = {name for name in errors if name.startswith("layer2.0.down.")}
    assert len(shortcut) == 3
    assert not any(gradients[name].any() for name in shortcut)
    before = {name for name in errors if name.startswith(("conv1.", "bn1.", "layer1."))}
    assert min(errors[name] for name in before) > SPOILED
    # Small as in the faithful pair, where no ReLU input changes sign.
    rest = max(errors[name] for name in errors.keys() - shortcut - before)
    assert rest < (AGREE if relu_sign_flips("resnet", 0) == 0 else 0.1)


@pytest.mark.torch
@pytest.mark.mindspore
def test_bn_momentum_shows_in_the_running_statistics_alone():
    from example_nets import step_mindspore, step_torch

    torch_net = step_torch.build("resnet", 0)
    _, expected = step_torch.run_step(torch_net, "resnet", 0)
    running_mean = torch_net.bn1.running_mean.numpy()
    means = {}
    for fault in ("none", "bn_momentum"):
        net = step_mindspore.build("resnet", fault, 0)
        _, gradients = step_mindspore.run_step(net, "resnet", 0)
        means[fault] = net.bn1.moving_mean.asnumpy()
        pairs = zip(gradients.values(), expected.values(), strict=True)
        flips = relu_sign_flips("resnet", 0)
        assert max(relative_l2(*pair) for pair in pairs) < (AGREE if flips == 0 else 0.1)
    assert relative_l2(means["none"], running_mean) < AGREE
    # 0.9 of the batch mean instead of 0.1: off by eight times the right value.
    assert relative_l2(means["bn_momentum"], running_mean) == pytest.approx(8.0, rel=1e-4)


@pytest.mark.torch
@pytest.mark.mindspore
@pytest.mark.parametrize(("net", "fault"), [("gpt", "detached_norm"), ("resnet", "none")])
def test_make_gradients_saves_what_the_steps_return(tmp_path, net, fault):
    from example_nets import step_mindspore, step_torch

    folders = make_gradients(tmp_path, net, fault, 1)
    assert folders == (tmp_path / "mindspore_gradients", tmp_path / "torch_gradients")
    steps = (
        step_mindspore.run_step(step_mindspore.build(net, fault, 1), net, 1),
        step_torch.run_step(step_torch.build(net, 1), net, 1),
    )
    for folder, (_, gradients) in zip(folders, steps, strict=True):
        saved = read_dump(folder)
        assert list(saved) == list(gradients)
        for name, gradient in gradients.items():
            np.testing.assert_allclose(saved[name], gradient, rtol=0, atol=1e-7)


@pytest.mark.torch
@pytest.mark.mindspore
def test_make_gradients_replaces_an_earlier_dump(tmp_path):
    make_gradients(tmp_path, net="resnet", fault="none")
    mindspore_folder, torch_folder = make_gradients(tmp_path)
    assert len(read_dump(mindspore_folder)) == len(read_dump(torch_folder)) == 53


@pytest.mark.mindspore
def test_the_bundle_equals_what_mindspore_computes_now():
    from example_nets import step_mindspore

    net, fault, seed = BUNDLED_SETTING
    _, fresh = step_mindspore.run_step(step_mindspore.build(net, fault, seed), net, seed)
    bundled = read_dump(BUNDLE)
    assert list(bundled) == list(fresh)
    # Bit-equal on the CPU that made it; another CPU may round differently.
    assert max(relative_l2(bundled[name], fresh[name]) for name in fresh) < 1e-6


def test_the_bundle_is_small():
    assert sum(path.stat().st_size for path in BUNDLE.iterdir()) < 300_000


@pytest.mark.torch
def test_without_mindspore_the_bundled_gradients_are_served_with_a_warning(tmp_path):
    run = run_python(
        "import sys; sys.modules['mindspore'] = None\n"
        "from example_nets import make_gradients\n"
        f"make_gradients({str(tmp_path)!r})\n"
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == ""
    version = json.loads((BUNDLE / "run_card.json").read_text())["version"]
    assert "<string>:3: UserWarning: MindSpore cannot be imported" in run.stderr
    assert f"made earlier by MindSpore {version} on CPU" in run.stderr
    served, bundled = read_dump(tmp_path / "mindspore_gradients"), read_dump(BUNDLE)
    assert list(served) == list(bundled)
    assert all(np.array_equal(served[name], bundled[name]) for name in bundled)
    assert len(read_dump(tmp_path / "torch_gradients")) == len(bundled)


@pytest.mark.torch
def test_without_mindspore_another_setting_is_refused(tmp_path):
    run = run_python(
        "import sys; sys.modules['mindspore'] = None\n"
        "from example_nets import make_gradients\n"
        "for other in ({'net': 'resnet', 'fault': 'none'}, {'fault': 'mask'}, {'seed': 1}):\n"
        "    try:\n"
        f"        make_gradients({str(tmp_path)!r}, **other)\n"
        "    except ImportError as error:\n"
        "        print(error)\n"
    )
    assert run.returncode == 0, run.stderr
    said = "only the bundled gradients of net='gpt', fault='detached_norm', seed=0"
    assert run.stdout.count(said) == 3


def test_without_torch_the_error_says_what_to_install(tmp_path):
    run = run_python(
        "import sys; sys.modules['torch'] = None\n"
        "from example_nets import make_gradients\n"
        f"make_gradients({str(tmp_path)!r})\n"
    )
    assert run.returncode == 1
    assert "install it with `pip install torch`" in run.stderr
    assert not list(tmp_path.iterdir())


def test_importing_the_package_loads_no_framework():
    run = run_python(
        "import sys, example_nets\nprint(sorted({'torch', 'mindspore'} & sys.modules.keys()))\n"
    )
    assert run.stdout == "[]\n", run.stderr


@pytest.mark.parametrize(
    ("net", "fault", "message"),
    [
        ("bert", "none", "net must be one of gpt, resnet; got 'bert'"),
        ("resnet", "mask", "fault of 'resnet' must be one of none, bn_eps"),
    ],
)
def test_an_unknown_setting_is_refused(tmp_path, net, fault, message):
    with pytest.raises(ValueError, match=message):
        make_gradients(tmp_path, net, fault)
