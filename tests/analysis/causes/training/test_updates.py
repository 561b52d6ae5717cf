"""Rules of optimizers, schedules and running statistics, told apart on real training runs."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from tests.analysis.causes.training.kit import (
    SHAPES,
    STEPS,
    Run,
    adam,
    causes,
    history,
    sgd,
    sources,
)
from troubleshooter_nb.analysis.causes.confidence import confidence
from troubleshooter_nb.analysis.causes.training.history import (
    History,
    Track,
    sample,
)
from troubleshooter_nb.analysis.causes.training.updates import detect_updates
from troubleshooter_nb.catalogue import CAUSES
from troubleshooter_nb.dump import ArrayInMemory
from troubleshooter_nb.messages import told
from troubleshooter_nb.thresholds import TRAINED_TENSORS

SAME_RULES = {
    "sgd": sgd(),
    "momentum": sgd(momentum=0.9),
    "decay": sgd(momentum=0.9, decay=0.01),
    "adam": adam(),
    "adam eps": adam(eps=1e-3),
    "small rate": sgd(1e-4, momentum=0.9),
}


@pytest.mark.parametrize("rule", SAME_RULES)
@pytest.mark.parametrize("gradients", [True, False])
def test_the_same_rule_on_both_sides_is_no_cause(rule, gradients):
    one, other = Run(0), Run(0)
    # Rounding of another framework: the start differs in the last bit here and there.
    other.start["a.weight"] = np.nextafter(other.start["a.weight"], np.float32(9), dtype=np.float32)
    runs = one.run(SAME_RULES[rule]), other.run(SAME_RULES[rule])
    assert causes(*runs, gradients=gradients) == []


@pytest.mark.parametrize("rule", ["sgd", "adam"])
def test_the_same_rule_on_other_data_is_no_cause(rule):
    runs = Run(0).run(SAME_RULES[rule]), Run(1).run(SAME_RULES[rule])
    assert causes(*runs) == []
    assert causes(*runs, gradients=False) == []


DIFFERENT = {
    "rate": (sgd(0.1), sgd(0.01), "learning_rate"),
    "adam rate": (adam(1e-3), adam(3e-4), "learning_rate"),
    "momentum": (sgd(momentum=0.9), sgd(momentum=0.8), "momentum_convention"),
    "none": (sgd(momentum=0.9), sgd(), "momentum_convention"),
    "betas": (adam(betas=(0.9, 0.95)), adam(), "momentum_convention"),
    "decay": (sgd(decay=0.05), sgd(), "weight_decay_coupling"),
    "coupling": (
        sgd(momentum=0.9, decay=0.05),
        sgd(momentum=0.9, decay=0.05, decoupled=True),
        "weight_decay_coupling",
    ),
    "selection": (sgd(decay=0.05, only_matrices=True), sgd(decay=0.05), "weight_decay_selection"),
    "zero first": (sgd(rates=[0, 0.1, 0.1, 0.1, 0.1]), sgd(0.1), "schedule_off_by_one"),
    "late": (
        sgd(rates=[0.01, 0.02, 0.03, 0.04, 0.05]),
        sgd(rates=[0.02, 0.03, 0.04, 0.05, 0.06]),
        "schedule_off_by_one",
    ),
    "eps": (adam(eps=1e-4), adam(eps=1e-8), "adam_epsilon_place"),
    "inside": (adam(eps=1e-6, inside=True), adam(eps=1e-6), "adam_epsilon_place"),
    "no correction": (adam(correct=False), adam(), "adam_epsilon_place"),
    # RMSProp; with betas near 1 and small gradients a start at 1 is plain SGD, and no rule to tell.
    "start": (
        adam(1e-2, (0.0, 0.9), start=1.0, correct=False),
        adam(1e-2, (0.0, 0.9), correct=False),
        "optimizer_start_state",
    ),
}


@pytest.mark.few(12)
@pytest.mark.parametrize("case", DIFFERENT)
@pytest.mark.parametrize("swapped", [False, True])
def test_the_setting_that_differs_is_named_alone(case, swapped):
    left, right, cause = DIFFERENT[case]
    if swapped:
        left, right = right, left
    data = Run(int(swapped))
    found = detect_updates(history(data.run(left), data.run(right)))
    assert [one.cause for one in found] == [cause]
    one = found[0]
    assert one.residual < 20 * one.floor
    assert one.rival > 3 * one.residual
    assert one.independent > 100
    for text in (*CAUSES[cause].proof, *CAUSES[cause].repair):
        assert "{" not in text.format(
            before=one.before, residual=one.residual, rival=one.rival, **one.evidence
        )


def test_fitted_constants_of_both_sides_are_in_the_evidence():
    data = Run(3)
    rules = sgd(0.1, 0.9, 0.05), sgd(0.1, 0.8, 0.05)
    evidence = detect_updates(history(*(data.run(rule) for rule in rules)))[0].evidence
    assert evidence["left_momentum"] == pytest.approx(0.9, abs=1e-4)
    assert evidence["right_momentum"] == pytest.approx(0.8, abs=1e-4)
    assert evidence["left_decay"] == pytest.approx([0.05, 0.05], rel=1e-2)
    assert evidence["right_rates"] == pytest.approx([0.1] * STEPS, rel=1e-4)


def test_a_difference_far_below_the_rounding_of_the_values_is_seen():
    # Decay moves a value by 1e-9 of itself, rounding by up to 6e-8.
    data = Run(0, steps=4)
    rules = sgd(1e-3, decay=1e-4), sgd(1e-3)
    found = detect_updates(history(*(data.run(rule) for rule in rules)))
    assert all(one.cause == "weight_decay_coupling" for one in found)


@pytest.mark.parametrize(
    "case", ["rate", "decay", "selection", "zero first", "momentum", "none", "adam rate"]
)
def test_what_values_alone_prove_is_found_without_gradients(case):
    left, right, cause = DIFFERENT[case]
    data = Run(0)
    found = detect_updates(history(data.run(left), data.run(right), gradients=False))
    assert [one.cause for one in found] == [cause]
    assert found[0].evidence["gradients"] == "not recorded"
    if cause == "learning_rate":
        # A factor on the gradients explains it as well: the rival leaves no more.
        assert found[0].rival == found[0].residual


def test_copies_of_an_earlier_step_are_stale_and_averages_are_averages():
    values, gradients = Run(0).run(sgd(0.5, momentum=0.9))
    late = {name: [one[max(t - 2, 0)] for t in range(STEPS + 1)] for name, one in values.items()}
    found = detect_updates(history((late, gradients), (values, gradients), gradients=False))
    assert [one.cause for one in found] == ["stale_weights"]
    assert found[0].evidence["most"] == 2
    assert found[0].evidence["side"] == "left"

    mean = {name: [one[0]] for name, one in values.items()}
    for step in range(STEPS):
        for name, one in values.items():
            mean[name].append(np.float32(0.99) * mean[name][-1] + np.float32(0.01) * one[step + 1])
    found = detect_updates(history((values, gradients), (mean, gradients), gradients=False))
    assert [one.cause for one in found if one.cause != "learning_rate"] == ["ema_weights"]
    assert found[0].evidence["decay"] == pytest.approx(0.99, abs=1e-4)
    assert found[0].evidence["side"] == "right"


def test_a_part_that_does_not_move_is_frozen():
    values, gradients = Run(0).run(sgd(0.5, momentum=0.9))
    still = {n: [one[0]] * (STEPS + 1) if n.startswith("a.") else one for n, one in values.items()}
    found = detect_updates(history((still, gradients), (values, gradients), gradients=False))
    assert "frozen_part" in [one.cause for one in found]
    assert next(one for one in found if one.cause == "frozen_part").evidence["part"] == "a.*"


def test_what_decay_or_rounding_alone_moves_was_not_frozen():
    values, gradients = Run(0).run(sgd(0.5, momentum=0.9))
    still = {**values, "a.bias": [values["a.bias"][0]] * (STEPS + 1)}
    start = values["a.bias"][0]
    for moved in (
        [start * np.float32(0.999) ** step for step in range(STEPS + 1)],
        [np.nextafter(start, np.float32(step % 2)) for step in range(STEPS + 1)],
    ):
        other = {**values, "a.bias": moved}
        found = detect_updates(history((still, gradients), (other, gradients), gradients=False))
        assert "frozen_part" not in [one.cause for one in found]


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_updates_lost_in_low_precision_values_are_found(name):
    import ml_dtypes

    dtype = np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else np.float16)
    data = Run(0)
    data.start = {n: one.astype(dtype).astype(np.float32) for n, one in data.start.items()}
    low, full = data.run(sgd(1e-3), dtype), data.run(sgd(1e-3))
    found = detect_updates(history(low, full))
    assert [one.cause for one in found] == ["low_precision_master"]
    assert found[0].evidence["format"] == name
    assert found[0].evidence["side"] == "left"
    assert found[0].evidence["left_unchanged"] > found[0].evidence["right_unchanged"] + 0.1
    assert causes(low, low) == []


def buffers(left, right, slots=("running_mean", "running_var"), role="buffer"):
    return History(
        tuple(
            Track(f"bn.{slot}", pair, role, slot, (sources(left[slot]), sources(right[slot])))
            for pair, slot in enumerate(slots)
        )
    )


def statistics(share, count=None, steps=3, seed=0, channels=16):
    """Running statistics that take `share` of each batch; variance by n - 1 where given."""
    rng = np.random.default_rng(seed)
    mean, variance = [np.zeros(channels, np.float32)], [np.ones(channels, np.float32)]
    for _ in range(steps):
        batch = rng.normal(1, 2, (count or 64, channels)) * rng.uniform(0.5, 2, channels)
        v = batch.var(0) * (1 if count is None else count / (count - 1))
        mean.append(((1 - share) * mean[-1] + share * batch.mean(0)).astype(np.float32))
        variance.append(((1 - share) * variance[-1] + share * v).astype(np.float32))
    return {"running_mean": mean, "running_var": variance}


@pytest.mark.parametrize("shares", [(0.9, 0.1), (0.1, 0.9), (0.3, 0.7), (0.1, 0.01)])
@pytest.mark.parametrize("seed", range(3))
def test_running_statistics_that_take_other_shares_give_both_momenta(shares, seed):
    runs = [statistics(share, seed=seed) for share in shares]
    found = detect_updates(buffers(*runs))
    assert [one.cause for one in found] == ["bn_momentum_convention"]
    evidence = found[0].evidence
    momenta = evidence["left_momentum"], evidence["right_momentum"]
    assert momenta == pytest.approx(shares, rel=1e-3)
    assert evidence["convention"] == (abs(sum(shares) - 1) < 1e-9)


def test_one_step_proves_the_convention_only_at_the_ratio_of_the_defaults():
    found = detect_updates(buffers(statistics(0.9, steps=1), statistics(0.1, steps=1)))
    assert found[0].evidence["convention"]
    found = detect_updates(buffers(statistics(0.6, steps=1), statistics(0.4, steps=1)))
    assert not found[0].evidence["convention"]
    assert math.isnan(found[0].evidence["left_momentum"])


def test_statistics_that_never_move_have_momentum_zero():
    found = detect_updates(buffers(statistics(0.0), statistics(0.1)))
    assert [(one.cause, one.evidence["side"]) for one in found] == [("bn_momentum_zero", "left")]
    assert found[0].evidence["initial"]


@pytest.mark.parametrize("count", [8, 64, 1024])
@pytest.mark.parametrize("swapped", [False, True])
def test_the_unbiased_variance_gives_the_number_of_values(count, swapped):
    unbiased = statistics(0.1, count)
    biased = {"running_mean": unbiased["running_mean"], "running_var": [np.ones(16, np.float32)]}
    for step in range(3):
        before = unbiased["running_var"][step].astype(float)
        batch = (unbiased["running_var"][step + 1] - 0.9 * before) / 0.1 * (count - 1) / count
        new = 0.9 * biased["running_var"][-1] + 0.1 * batch
        biased["running_var"].append(new.astype(np.float32))
    runs = (biased, unbiased) if swapped else (unbiased, biased)
    found = detect_updates(buffers(*runs))
    assert [one.cause for one in found] == ["bn_variance_bias"]
    assert found[0].evidence["n"] == pytest.approx(count, rel=2e-2)
    assert found[0].evidence["unbiased"] == ("right" if swapped else "left")
    assert found[0].evidence["momentum"] == pytest.approx(0.1, rel=2e-2)


def test_statistics_of_other_data_or_alike_have_no_cause():
    assert detect_updates(buffers(statistics(0.1), statistics(0.1))) == []
    assert detect_updates(buffers(statistics(0.1, seed=0), statistics(0.1, seed=1))) == []
    assert detect_updates(buffers(statistics(0.1, seed=0), statistics(0.9, seed=1))) == []


def test_an_output_that_repeats_the_first_call_is_a_baked_constant():
    rng = np.random.default_rng(0)
    right = [rng.normal(size=(4, 8)).astype(np.float32) for _ in range(4)]
    left = [right[0]] * 4
    tracks = {"out": left}, {"out": right}
    found = detect_updates(buffers(*tracks, slots=("out",), role="output"))
    assert [(one.cause, one.evidence["side"]) for one in found] == [("constant_baked", "left")]
    other = [rng.normal(size=(4, 8)).astype(np.float32)] * 4
    for unlike in (right, other):
        tracks = {"out": unlike}, {"out": right}
        assert detect_updates(buffers(*tracks, slots=("out",), role="output")) == []


def test_big_tensors_are_read_in_part_and_broken_ones_are_left_out():
    read = []

    class Counting(ArrayInMemory):
        def read(self, start, stop, into=None):
            read.append(stop - start)
            return super().read(start, stop)

    values = tuple(Counting(np.arange(300_000, dtype=np.float32) * (1 + t)) for t in range(3))
    whole = Track("big", values=(values, values))
    short = Track("short", values=(values[:1], values))
    gone = Track("gone", values=((*values[:2], None), values))
    samples = sample(History((whole, short, gone)))
    assert [one.track.name for one in samples] == ["big"]
    assert sum(read) <= 6 * 100_000
    assert detect_updates(History()) == []


def test_of_many_tensors_every_kind_is_there():
    def track(name, shape, role="parameter", slot=""):
        values = sources([np.full(shape, t, np.float32) for t in range(2)])
        return Track(name, 0, role, slot, (values, values))

    tracks = []
    for number in range(200):
        tracks += [track(f"{number}.weight", (3, 3)), track(f"{number}.bias", (3,))]
        slots = "running_mean", "running_var", "num_batches_tracked"
        tracks += [track(f"{number}.{slot}", (3,), "buffer", slot) for slot in slots]
    found = sample(History(tuple(tracks)))
    kinds = Counter(one.track.name.partition(".")[2] for one in found)
    assert sum(kinds.values()) == TRAINED_TENSORS
    assert set(kinds) == {"weight", "bias", "running_mean", "running_var"}
    # Mean and variance of the same layers, which belong together.
    layers = [
        {one.track.name.partition(".")[0] for one in found if one.track.slot == slot}
        for slot in ("running_mean", "running_var")
    ]
    assert layers[0] == layers[1]


def without(runs, name):
    """The same runs, of which nobody recorded this gradient."""
    known = history(*runs)
    tracks = [replace(t, gradients=((), ())) if t.name == name else t for t in known.tracks]
    return replace(known, tracks=tracks)


@pytest.mark.parametrize("case", ["rate", "betas", "eps", "coupling"])
def test_a_tensor_without_gradients_is_left_out_of_the_fit(case):
    left, right, cause = DIFFERENT[case]
    data = Run(0)
    found = detect_updates(without((data.run(left), data.run(right)), "b.weight"))
    assert [(one.cause, one.evidence["gradients"]) for one in found] == [(cause, "recorded")]


def behind_a_step(runs):
    """What is left of runs that saved behind each step: the first gradient led to no update."""
    known = history(*runs)
    tracks = [
        replace(t, values=(t.values[0][1:], t.values[1][1:]), gradients=t.gradients)
        for t in known.tracks
    ]
    return replace(known, tracks=tracks, is_after=True)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "case", ["rate", "momentum", "betas", "eps", "no correction", "decay", "coupling"]
)
def test_the_step_before_the_first_values_is_remembered(case):
    left, right, cause = DIFFERENT[case]
    data = Run(0)
    found = detect_updates(behind_a_step((data.run(left), data.run(right))))
    assert [one.cause for one in found] == [cause]


def forgets(rule, at):
    def update(step, value, gradient, state):
        if step == at:
            state.clear()
        return rule(step - at if step >= at else step, value, gradient, state)

    return update


@pytest.mark.parametrize("rule", [sgd(momentum=0.9), sgd(momentum=0.9, decay=0.01), adam()])
@pytest.mark.parametrize("swapped", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_state_that_is_lost_on_the_way_is_told_with_its_step(rule, swapped):
    data = Run(0)
    runs = [data.run(forgets(rule, 2)), data.run(rule)]
    (found,) = detect_updates(history(*(runs[::-1] if swapped else runs)))
    assert found.cause == "optimizer_state_lost"
    said = found.evidence["right" if swapped else "left"]
    assert told(said, "en") == "nothing remembered from step 2 on"
    # Saved behind the steps, of which the first led to no update that was seen.
    late = replace(behind_a_step(runs), steps=tuple(range(11, 11 + STEPS)))
    (found,) = detect_updates(late)
    assert told(found.evidence["left"], "en") == "nothing remembered from step 13 on"


def going_on(runs, at):
    """Runs from a later step on."""
    known = history(*runs)
    tracks = [
        replace(
            t,
            values=(t.values[0][at:], t.values[1][at:]),
            gradients=(t.gradients[0][at:], t.gradients[1][at:]),
        )
        for t in known.tracks
    ]
    steps = tuple(range(at, STEPS + 1))
    return replace(known, tracks=tracks, steps=steps, fresh=False, norms=(None, None))


@pytest.mark.parametrize(
    ("rule", "sure"),
    [(sgd(momentum=0.9), 0.9), (sgd(momentum=0.9, decay=0.01), 0.9), (adam(), 0.5)],
)
@pytest.mark.parametrize("swapped", [False, True])
def test_an_optimizer_that_begins_anew_at_a_resume_is_told(rule, sure, swapped):
    data = Run(0)
    runs = [data.run(forgets(rule, 2)), data.run(rule)]
    (found,) = detect_updates(going_on(runs[::-1] if swapped else runs, 2))
    assert (found.cause, found.evidence["side"]) == (
        "optimizer_state_lost",
        "right" if swapped else "left",
    )
    assert confidence(found) > sure


@pytest.mark.parametrize("case", ["rate", "momentum", "none", "betas", "eps", "coupling"])
def test_other_settings_that_go_on_are_no_lost_state(case):
    left, right, _ = DIFFERENT[case]
    data = Run(0)
    found = detect_updates(going_on((data.run(left), data.run(right)), 2))
    assert "optimizer_state_lost" not in [one.cause for one in found]


def torch_run(make, seed=0, steps=4, batch_seed=1):
    import torch

    torch.manual_seed(seed)
    net = torch.nn.Sequential(
        torch.nn.Linear(12, 24), torch.nn.Tanh(), torch.nn.LayerNorm(24), torch.nn.Linear(24, 8)
    )
    optimizer = make(torch.optim, net.parameters())
    values = {name: [p.detach().numpy().copy()] for name, p in net.named_parameters()}
    gradients = {name: [] for name in values}
    generator = torch.Generator().manual_seed(batch_seed)
    for _ in range(steps):
        inputs = torch.randn(32, 12, generator=generator)
        labels = torch.randint(0, 8, (32,), generator=generator)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(inputs), labels).backward()
        for name, p in net.named_parameters():
            gradients[name].append(p.grad.numpy().copy())
        optimizer.step()
        for name, p in net.named_parameters():
            values[name].append(p.detach().numpy().copy())
    return values, gradients


TORCH = {
    "nesterov": (
        lambda o, p: o.SGD(p, 0.1, momentum=0.9),
        lambda o, p: o.SGD(p, 0.1, momentum=0.9, nesterov=True),
        ["momentum_convention"],
    ),
    "dampening": (
        lambda o, p: o.SGD(p, 0.1, momentum=0.9, dampening=0.9),
        lambda o, p: o.SGD(p, 0.1, momentum=0.9),
        ["momentum_convention"],
    ),
    "adam against adamw": (
        lambda o, p: o.Adam(p, 1e-3, weight_decay=0.1),
        lambda o, p: o.AdamW(p, 1e-3, weight_decay=0.1),
        ["weight_decay_coupling"],
    ),
    "adamw defaults": (
        lambda o, p: o.AdamW(p, 1e-3),
        lambda o, p: o.AdamW(p, 1e-3, weight_decay=0.0),
        ["weight_decay_coupling"],
    ),
    "eps": (
        lambda o, p: o.AdamW(p, 1e-3, eps=1e-5),
        lambda o, p: o.AdamW(p, 1e-3),
        ["adam_epsilon_place"],
    ),
    "rate": (
        lambda o, p: o.RMSprop(p, 1e-3),
        lambda o, p: o.RMSprop(p, 1e-2),
        ["learning_rate"],
    ),
    "alike": (lambda o, p: o.AdamW(p, 1e-3), lambda o, p: o.AdamW(p, 1e-3), []),
    "another optimizer": (lambda o, p: o.SGD(p, 0.1), lambda o, p: o.Adam(p, 1e-3), []),
}


@pytest.mark.torch
@pytest.mark.parametrize("case", TORCH)
def test_optimizers_of_torch(case):
    left, right, expected = TORCH[case]
    assert causes(torch_run(left), torch_run(right)) == expected


def mindspore_run(make, torch_values, torch_gradients, steps=4):
    """What an optimizer of MindSpore makes of gradients; the network itself is torch's."""
    import mindspore as ms

    parameters = [
        ms.Parameter(ms.Tensor(one[0]), name=name.replace(".", "_"))
        for name, one in torch_values.items()
    ]
    optimizer = make(ms, parameters)
    values = {name: [one[0]] for name, one in torch_values.items()}
    for step in range(steps):
        given = tuple(ms.Tensor(one[step]) for one in torch_gradients.values())
        optimizer(given)
        for name, parameter in zip(values, parameters, strict=True):
            values[name].append(parameter.asnumpy().copy())
    return values, torch_gradients


MINDSPORE = {
    "momentum alike": (
        lambda o, p: o.SGD(p, 0.1, momentum=0.9),
        lambda ms, p: ms.nn.Momentum(p, 0.1, 0.9),
        [],
    ),
    "sgd default rate": (
        lambda o, p: o.SGD(p, 1e-3),
        lambda ms, p: ms.nn.SGD(p),
        ["learning_rate"],
    ),
    "adam alike": (
        lambda o, p: o.Adam(p, 1e-3),
        lambda ms, p: ms.experimental.optim.Adam(p, 1e-3),
        [],
    ),
    "AdamWeightDecay corrects nothing": (
        lambda o, p: o.AdamW(p, 1e-3, weight_decay=0.0, eps=1e-6),
        lambda ms, p: ms.nn.AdamWeightDecay(p, 1e-3, eps=1e-6),
        ["adam_epsilon_place"],
    ),
    "coupled decay": (
        lambda o, p: o.AdamW(p, 1e-3, weight_decay=0.1),
        lambda ms, p: ms.nn.Adam(p, 1e-3, weight_decay=0.1),
        ["weight_decay_coupling"],
    ),
}


@pytest.mark.torch
@pytest.mark.mindspore
@pytest.mark.parametrize("case", MINDSPORE)
def test_optimizers_of_mindspore_against_torch(case):
    make_torch, make_mindspore, expected = MINDSPORE[case]
    right = torch_run(make_torch)
    left = mindspore_run(make_mindspore, *right)
    found = causes(left, right)
    # nn.Adam adds eps before the correction, which is a difference of its own where it shows.
    assert [one for one in found if one != "adam_epsilon_place" or one in expected] == expected


@pytest.mark.parametrize("gradients", [True, False])
def test_a_smaller_rate_over_few_steps_is_no_average(gradients):
    from troubleshooter_nb.analysis.causes.training.trajectory import _are_of_one_average

    data = Run(0, steps=2)
    values = [data.run(sgd(rate)) for rate in (0.11, 0.1)]
    found = detect_updates(history(*values, gradients=gradients))
    assert [one.cause for one in found] == ["learning_rate"]
    # Shares of each step's own are those of another rate: the gap grows with the steps.
    assert not _are_of_one_average([0.909, 0.834], 1e-2)
    assert not _are_of_one_average([1 / (1.1 + 0.1 * t) for t in range(6)], 1e-2)
    assert _are_of_one_average([0.01] * 3, 1e-2)
    assert _are_of_one_average([1 - min(0.5, (1 + t) / (10 + t)) for t in range(20)], 1e-2)


def sure(found):
    return [one.cause for one in found if confidence(one) > 0.5]


def steps_of(rule, steps=2, seed=0, scale=1.0):
    """Two steps of a rule on gradients of which some are far below the usual eps."""
    data = Run(seed, steps)
    rng = np.random.default_rng(seed + 7)
    for target in data.targets:
        for name, shape in SHAPES.items():
            target[name] = scale * rng.normal(size=shape) * 10.0 ** rng.uniform(-8, 0, shape)
    return data.run(rule)


def late_by_one(values):
    return {name: [one[max(t - 1, 0)] for t in range(len(one))] for name, one in values.items()}


def test_values_of_the_step_before_are_stale_and_no_late_schedule():
    values, gradients = Run(0, 2).run(sgd(0.1, momentum=0.9))
    runs = (late_by_one(values), gradients), (values, gradients)
    assert sure(detect_updates(history(*runs, gradients=False))) == ["stale_weights"]
    assert sure(detect_updates(history(*runs[::-1], gradients=False))) == ["stale_weights"]


def test_on_one_batch_a_late_copy_and_a_first_rate_of_zero_are_the_same():
    data = Run(0, 3)
    data.targets = [data.targets[0]] * 3
    runs = data.run(sgd(rates=[0.0, 0.1, 0.1])), data.run(sgd(0.1))
    found = detect_updates(history(*runs, gradients=False))
    assert [one.cause for one in found] == ["stale_weights"]
    assert sure(found) == []
    # Gradients decide it.
    assert sure(detect_updates(history(*runs))) == ["schedule_off_by_one"]


@pytest.mark.torch
def test_nesterov_over_two_steps_is_no_other_rate():
    # Rate 0.19 and momentum 0.81 / 1.9 make the same two steps.
    left, right, expected = TORCH["nesterov"]
    found = detect_updates(history(torch_run(left, steps=2), torch_run(right, steps=2)))
    assert sure(found) == expected
    assert found[0].evidence["right_nesterov"]


def test_squares_that_start_at_one_are_no_other_optimizer():
    # With small gradients that is plain SGD, at the very rates that the other side's betas give.
    betas = {"betas": (0.9, 0.99), "rate": 1e-2}
    runs = [Run(0, 2).run(adam(**betas, start=start)) for start in (1.0, 0.0)]
    assert sure(detect_updates(history(*runs))) == ["optimizer_start_state"]


def test_decay_that_outweighs_the_gradients_is_fitted_to_the_end():
    rules = sgd(0.05, 0.9, 0.1, only_matrices=True), sgd(0.05, 0.9, 0.1)
    runs = [steps_of(rule, scale=1e-2) for rule in rules]
    assert sure(detect_updates(history(*runs))) == ["weight_decay_selection"]


def dampened(step, value, gradient, state):
    old = state.get("m")
    state["m"] = gradient if old is None else 0.9 * old + 0.1 * gradient
    return value - 0.1 * state["m"]


def test_dampening_shows_without_gradients_in_the_second_step():
    runs = Run(0, 2).run(dampened), Run(0, 2).run(sgd(0.1, momentum=0.9))
    found = detect_updates(history(*runs, gradients=False))
    assert sure(found) == ["momentum_convention"]
    assert found[0].evidence["new_gradient"] == pytest.approx(0.1, abs=1e-4)
    # A rate that changes in the second step is no momentum.
    runs = Run(0, 2).run(sgd(rates=[0.1, 0.2], momentum=0.9)), Run(0, 2).run(sgd(momentum=0.9))
    assert sure(detect_updates(history(*runs, gradients=False))) == []


def adam_with_decay(rate, decay, decoupled):
    plain = adam(rate)

    def update(step, value, gradient, state):
        if decoupled:
            return plain(step, value, gradient, state) - rate * decay * value
        return plain(step, value, gradient + decay * value, state)

    return update


ADAM_WITHOUT_GRADIENTS = {
    "coupling": (
        adam_with_decay(1e-2, 0.1, False),
        adam_with_decay(1e-2, 0.1, True),
        ["weight_decay_coupling"],
    ),
    "inside": (adam(1e-2, inside=True), adam(1e-2), ["adam_epsilon_place"]),
    "no correction": (
        adam(1e-2, (0.9, 0.99), correct=False),
        adam(1e-2, (0.9, 0.99)),
        ["adam_epsilon_place"],
    ),
    # Smaller gradients do the same as a larger eps.
    "another eps": (adam(1e-2, eps=1e-6), adam(1e-2), []),
    "alike": (adam(1e-2), adam(1e-2), []),
    "another optimizer": (sgd(1e-3), adam(1e-2), []),
    "another rate": (adam(2e-2), adam(1e-2), []),
}


@pytest.mark.parametrize("case", ADAM_WITHOUT_GRADIENTS)
@pytest.mark.parametrize("swapped", [False, True])
def test_first_updates_of_adam_without_gradients(case, swapped):
    *rules, expected = ADAM_WITHOUT_GRADIENTS[case]
    runs = [steps_of(rule) for rule in (rules[::-1] if swapped else rules)]
    found = detect_updates(history(*runs, gradients=False))
    assert sure(found) == expected
    for one in found if expected else ():
        for text in (*CAUSES[one.cause].proof, *CAUSES[one.cause].repair):
            assert "{" not in text.format(
                before=one.before, residual=one.residual, rival=one.rival, **one.evidence
            )
