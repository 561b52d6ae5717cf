"""Gradients saved by hand, in every spelling, find their parameter by name."""

from __future__ import annotations

import pytest

from troubleshooter_nb.naming import Site, parameters_of_gradients, site_of_npy_stem

PARAMETERS = ("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias")


@pytest.mark.parametrize(
    "spelling",
    [
        *("grads.{}", "grad.{}", "torch_grads.{}", "ms_grads.{}", "gradients/{}", "a/grads/{}"),
        *("{}.grad", "{}_grad", "{}.grads", "{}_gradient", "{}/grad"),
        *("{}", "{}_0", "grads.{}_0", "grads.{}.grad"),
    ],
)
def test_a_gradient_finds_its_parameter(spelling):
    gradients = {spelling.format(name): name for name in PARAMETERS}
    assert parameters_of_gradients(gradients, PARAMETERS) == gradients


@pytest.mark.parametrize(
    ("gradient", "parameter"),
    [
        ("net.grads.fc.weight", "net.fc.weight"),  # the word stands in the middle
        ("gen_grads.fc.weight", "gen.fc.weight"),  # it is part of a word
        ("net.grads.fc.weight", "fc.weight"),
        ("grads.fc.weight", "params.fc.weight"),  # what all parameters begin with
        ("fc.weight.grad", "params/fc.weight"),
        ("grads.bn.gamma", "bn.weight"),  # the other framework's spelling
        ("bn.weight.grad", "bn.gamma"),
    ],
)
def test_the_place_of_the_word_does_not_matter(gradient, parameter):
    assert parameters_of_gradients([gradient], [parameter]) == {gradient: parameter}


def test_networks_with_gradients_of_their_own_are_told_apart():
    parameters = ["gen.fc.weight", "disc.fc.weight"]
    gradients = ["gen_grads.fc.weight", "disc_grads.fc.weight"]
    found = parameters_of_gradients(gradients, parameters)
    assert found == dict(zip(gradients, parameters, strict=True))


@pytest.mark.parametrize(
    ("gradient", "parameters"),
    [
        ("net.grads.fc.weight", ["net.fc.weight", "fc.weight"]),
        ("grads.fc.weight", ["gen.fc.weight", "disc.fc.weight"]),
        ("grads.bn.weight", ["a.bn.weight", "a.bn.gamma"]),
        ("grads.weight", ["fc.bias", "fc2.weight"]),
        ("grads.0", ["fc.weight"]),
        ("act.grad", ["fc.weight"]),
        ("d_fc.weight", ["fc.weight"]),
        ("grads.fc.weight", []),
    ],
)
def test_what_could_be_of_two_parameters_or_of_none_is_not_used(gradient, parameters):
    assert parameters_of_gradients([gradient], parameters) == {}


def test_two_gradients_of_one_parameter_are_not_used():
    """Such as those before and after clipping."""
    gradients = ["grads.fc.weight", "clipped_grads.fc.weight", "fc.bias.grad"]
    found = parameters_of_gradients(gradients, ["fc.weight", "fc.bias"])
    assert found == {"fc.bias.grad": "fc.bias"}


def test_the_very_name_comes_first():
    """As ``save_grad`` and modules give it."""
    gradients = ["fc.weight", "clipped_grads.fc.weight"]
    assert parameters_of_gradients(gradients, ["fc.weight"]) == {"fc.weight": "fc.weight"}
    parameters = ["m.fc.weight", "m.m.fc.weight"]
    assert parameters_of_gradients(parameters, parameters) == {name: name for name in parameters}


@pytest.mark.parametrize(
    ("stem", "site"),
    [
        ("fc.weight.grad", Site("file", "fc.weight.grad", 0, "backward", "parameter")),
        ("fc.weight_grad", Site("file", "fc.weight_grad", 0, "backward", "parameter")),
        ("bn.gamma.gradient", Site("file", "bn.gamma.gradient", 0, "backward", "parameter")),
        ("act.grad", Site("file", "act.grad", 0, "backward", "gradient")),
        ("act_grad", Site("file", "act_grad", 0, "backward", "gradient")),
    ],
)
def test_the_word_may_stand_behind_a_parameter(stem, site):
    assert site_of_npy_stem(stem) == site
