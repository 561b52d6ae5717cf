"""Settings of equal layers are equal in both frameworks, and those of unequal layers are not."""

from __future__ import annotations

import pytest

from troubleshooter_nb import frameworks
from troubleshooter_nb.frameworks.settings import (
    depends_on_input,
    is_known,
    settings_of,
    written,
)

# Layers that compute the same: what the user writes in torch, and in MindSpore.
EQUAL = [
    ("nn.Linear(4, 3)", "nn.Dense(4, 3)"),
    ("nn.Linear(4, 3, bias=False)", "nn.Dense(4, 3, has_bias=False)"),
    ("nn.Linear(4, 3)", "mint.nn.Linear(4, 3)"),
    ("nn.Conv1d(4, 6, 3)", "nn.Conv1d(4, 6, 3, pad_mode='valid', has_bias=True)"),
    ("nn.Conv1d(4, 6, 3, 2, 1)", "nn.Conv1d(4, 6, 3, 2, 'pad', 1, has_bias=True)"),
    (
        "nn.Conv2d(4, 6, (3, 2), 2, (1, 0), groups=2, bias=False)",
        "nn.Conv2d(4, 6, (3, 2), 2, 'pad', (1, 1, 0, 0), group=2)",
    ),
    ("nn.Conv2d(4, 6, 3, padding=1)", "nn.Conv2d(4, 6, 3, has_bias=True)"),
    ("nn.Conv2d(4, 6, 2, padding='same')", "nn.Conv2d(4, 6, 2, has_bias=True)"),
    (
        "nn.Conv2d(4, 6, 3, padding='same', dilation=2)",
        "nn.Conv2d(4, 6, 3, dilation=2, has_bias=True)",
    ),
    ("nn.Conv2d(4, 6, 1, 2)", "nn.Conv2d(4, 6, 1, 2, has_bias=True)"),
    ("nn.Conv2d(4, 6, 3, padding=1)", "mint.nn.Conv2d(4, 6, 3, padding=1)"),
    (
        "nn.Conv3d(4, 6, 3, padding=1)",
        "nn.Conv3d(4, 6, 3, pad_mode='pad', padding=1, has_bias=True)",
    ),
    (
        "nn.ConvTranspose1d(4, 6, 3, 2, 1)",
        "nn.Conv1dTranspose(4, 6, 3, 2, 'pad', 1, has_bias=True)",
    ),
    (
        "nn.ConvTranspose2d(4, 6, 3, 2, 1)",
        "nn.Conv2dTranspose(4, 6, 3, 2, 'pad', 1, has_bias=True)",
    ),
    ("nn.ConvTranspose2d(4, 6, 3, 2)", "nn.Conv2dTranspose(4, 6, 3, 2, 'valid', has_bias=True)"),
    ("nn.LayerNorm(4)", "nn.LayerNorm((4,), epsilon=1e-5)"),
    ("nn.BatchNorm1d(4, momentum=0.3)", "nn.BatchNorm1d(4, momentum=0.7)"),
    ("nn.BatchNorm2d(4)", "nn.BatchNorm2d(4)"),
    ("nn.BatchNorm3d(4)", "nn.BatchNorm3d(4)"),
    ("nn.BatchNorm2d(4, momentum=0.3)", "mint.nn.BatchNorm2d(4, momentum=0.3)"),
    (
        "nn.BatchNorm2d(4, track_running_stats=False)",
        "nn.BatchNorm2d(4, use_batch_statistics=True)",
    ),
    ("nn.BatchNorm2d(4, affine=False)", "mint.nn.BatchNorm2d(4, affine=False)"),
    ("nn.ELU()", "nn.ELU()"),
    ("nn.CELU(2.0)", "nn.CELU(2.0)"),
    ("nn.Linear(4, 3, bias=False)", "mint.nn.Linear(4, 3, bias=False)"),
    ("nn.InstanceNorm2d(4)", "nn.InstanceNorm2d(4)"),
    ("nn.GroupNorm(2, 4)", "nn.GroupNorm(2, 4)"),
    ("nn.Dropout(0.1)", "nn.Dropout(p=0.1)"),
    ("nn.Dropout(0.1)", "nn.Dropout(keep_prob=0.9)"),
    ("nn.Dropout2d(0.2)", "nn.Dropout2d(p=0.2)"),
    ("nn.GELU()", "nn.GELU(approximate=False)"),
    ("nn.GELU('tanh')", "nn.GELU()"),
    ("nn.Softmax(-1)", "nn.Softmax()"),
    ("nn.Softmax(1)", "nn.Softmax(1)"),
    ("nn.Softmax(1)", "nn.Softmax(-1)"),  # of a tensor with two axes
    ("nn.LogSoftmax(-1)", "nn.LogSoftmax()"),
    ("nn.LeakyReLU(0.2)", "nn.LeakyReLU()"),
    ("nn.Embedding(5, 3, padding_idx=1)", "nn.Embedding(5, 3, padding_idx=1)"),
    (
        "nn.LSTM(4, 3, 2, bidirectional=True, dropout=0.1, batch_first=True)",
        "nn.LSTM(4, 3, 2, bidirectional=True, dropout=0.1, batch_first=True)",
    ),
    ("nn.GRU(4, 3)", "nn.GRU(4, 3)"),
    ("nn.LSTMCell(4, 3)", "nn.LSTMCell(4, 3)"),
    ("nn.MaxPool1d(2)", "nn.MaxPool1d(2, 2)"),
    ("nn.MaxPool2d(3, 1, 1)", "nn.MaxPool2d(3, 1, 'same')"),
    ("nn.MaxPool2d(2, 2, 1)", "nn.MaxPool2d(2, 2, 'pad', 1)"),
    ("nn.MaxPool3d(2)", "nn.MaxPool3d(2, 2)"),
    ("nn.AvgPool1d(2)", "nn.AvgPool1d(2, 2)"),
    ("nn.AvgPool2d((2, 3))", "nn.AvgPool2d((2, 3), (2, 3))"),
    ("nn.AvgPool3d(2)", "nn.AvgPool3d(2, 2)"),
    ("nn.CrossEntropyLoss()", "nn.CrossEntropyLoss()"),
    ("nn.MSELoss(reduction='sum')", "nn.MSELoss(reduction='sum')"),
    ("nn.Flatten()", "nn.Flatten()"),
    ("nn.MultiheadAttention(4, 2)", "nn.MultiheadAttention(4, 2)"),
]
# Layers that differ in the settings named.
UNEQUAL = [
    ("nn.Linear(4, 3)", "nn.Dense(4, 3, has_bias=False)", {"bias"}),
    ("nn.Conv1d(4, 6, 3)", "nn.Conv1d(4, 6, 3, has_bias=True)", {"padding"}),
    ("nn.Conv2d(4, 6, 3)", "nn.Conv2d(4, 6, 3)", {"padding", "bias"}),
    (
        "nn.Conv2d(4, 6, 3, padding=1)",
        "nn.Conv2d(4, 6, 3, pad_mode='pad', padding=(0, 1, 0, 1), has_bias=True)",
        {"padding"},
    ),
    (
        "nn.Conv3d(4, 6, 3, (1, 2, 2))",
        "nn.Conv3d(4, 6, 3, pad_mode='valid', has_bias=True)",
        {"stride"},
    ),
    ("nn.LayerNorm(4)", "nn.LayerNorm((4,))", {"eps"}),
    ("nn.BatchNorm2d(4, momentum=0.9)", "nn.BatchNorm2d(4)", {"momentum"}),
    ("nn.BatchNorm3d(4, momentum=0.9)", "nn.BatchNorm3d(4)", {"momentum"}),
    (
        "nn.BatchNorm2d(4)",
        "nn.BatchNorm2d(4, use_batch_statistics=False)",
        {"track_running_stats"},
    ),
    (
        "nn.Conv2d(4, 6, 3, padding=1, padding_mode='reflect')",
        "nn.Conv2d(4, 6, 3, has_bias=True)",
        {"padding_mode"},
    ),
    ("nn.Conv2d(4, 6, 3)", "mint.nn.Conv2d(4, 6, 3, bias=False)", {"bias"}),
    ("nn.GroupNorm(2, 4)", "nn.GroupNorm(4, 4)", {"num_groups"}),
    ("nn.Dropout(0.9)", "nn.Dropout(keep_prob=0.9)", {"p"}),
    ("nn.GELU()", "nn.GELU()", {"approximate"}),
    ("nn.Softmax(-2)", "nn.Softmax()", {"dim"}),
    ("nn.Softmax(2)", "nn.Softmax(1)", {"dim_from_front"}),
    ("nn.LeakyReLU()", "nn.LeakyReLU()", {"negative_slope"}),
    ("nn.Embedding(5, 3, padding_idx=1)", "nn.Embedding(5, 3)", {"padding_idx"}),
    ("nn.LSTM(4, 3, 2)", "nn.LSTM(4, 3, 2, dropout=0.5)", {"dropout"}),
    ("nn.MaxPool2d(2)", "nn.MaxPool2d(2)", {"stride"}),
    ("nn.AvgPool2d(3, 1)", "nn.AvgPool2d(2, 1)", {"kernel_size"}),
    ("nn.MSELoss()", "nn.MSELoss(reduction='none')", {"reduction"}),
]
# What only an input decides is not compared: the pair, and the setting that stays out.
OPEN = [
    ("nn.Conv2d(4, 6, 3, 2, 1)", "nn.Conv2d(4, 6, 3, 2, has_bias=True)", "padding"),
    (
        "nn.ConvTranspose2d(4, 6, 3, 2, 1)",
        "nn.Conv2dTranspose(4, 6, 3, 2, has_bias=True)",
        "padding",
    ),
    ("nn.ConvTranspose2d(4, 6, 1, 2)", "nn.Conv2dTranspose(4, 6, 1, 2, 'valid')", "padding"),
    ("nn.AvgPool2d(3, 1, 1)", "nn.AvgPool2d(3, 1, 'same')", "padding"),
    ("nn.LayerNorm(4, elementwise_affine=False)", "nn.LayerNorm((4,))", "elementwise_affine"),
]


def settings(framework, text):
    if framework == "torch":
        from torch import nn

        scope = {"nn": nn}
    else:
        from mindspore import mint, nn

        scope = {"nn": nn, "mint": mint}
    facts = frameworks.require(framework).layers(eval(text, scope))[0]
    return settings_of(facts.kind, facts.settings, framework)


def apart(torch_text, mindspore_text):
    """Names of the settings that both have and that differ; there must be one to compare."""
    left, right = settings("torch", torch_text), settings("mindspore", mindspore_text)
    shared = left.keys() & right.keys()
    return {name for name in shared if left[name] != right[name]}


@pytest.mark.torch
@pytest.mark.mindspore
@pytest.mark.parametrize(("torch_text", "mindspore_text"), EQUAL)
def test_no_setting_of_equal_layers_differs(torch_text, mindspore_text):
    assert apart(torch_text, mindspore_text) == set()


@pytest.mark.torch
@pytest.mark.mindspore
@pytest.mark.parametrize(("torch_text", "mindspore_text", "names"), UNEQUAL)
def test_the_setting_in_which_two_layers_differ_differs(torch_text, mindspore_text, names):
    assert apart(torch_text, mindspore_text) == names


@pytest.mark.torch
@pytest.mark.mindspore
@pytest.mark.parametrize(("torch_text", "mindspore_text", "name"), OPEN)
def test_what_cannot_be_said_in_the_words_of_torch_is_left_out(torch_text, mindspore_text, name):
    assert name in settings("torch", torch_text)
    assert name not in settings("mindspore", mindspore_text)


@pytest.mark.torch
@pytest.mark.mindspore
def test_the_layers_that_are_compared_have_settings_in_common():
    without = {
        pair
        for pair in EQUAL
        if not settings("torch", pair[0]).keys() & settings("mindspore", pair[1]).keys()
    }
    assert without == {("nn.Softmax(1)", "nn.Softmax(-1)")}


def test_attributes_of_a_class_of_the_user_stay_as_they_are():
    given = {"axis": 1, "group": 2, "momentum": 0.9, "padding": 3}
    assert settings_of("Block", given, "mindspore") == given
    assert settings_of("mypackage.Conv2d", given, "torch") == given


def test_one_number_for_all_axes_of_a_layer_of_torch_is_one_per_axis():
    given = {"kernel_size": 2, "stride": 2, "padding": 0, "ceil_mode": True}
    assert settings_of("MaxPool2d", given, "torch") == {
        "kernel_size": (2, 2),
        "stride": (2, 2),
        "padding": (0, 0),
        "ceil_mode": True,
    }


@pytest.mark.parametrize(
    ("kind", "settings", "name", "expected"),
    [
        ("Conv2d", {"padding": (1, 1)}, "padding", "padding=(1, 1)"),
        ("nn.Conv2d", {"pad_mode": "pad", "padding": 1}, "padding", "pad_mode='pad', padding=1"),
        ("nn.Conv2d", {"pad_mode": "same", "padding": 0}, "padding", "pad_mode='same'"),
        ("nn.Conv2d", {}, "padding_mode", ""),
        ("nn.LayerNorm", {"epsilon": 1e-7}, "eps", "epsilon=1e-07"),
        ("mint.nn.Linear", {"bias": False}, "bias", "bias=False"),
    ],
)
def test_a_setting_is_written_as_its_constructor_takes_it(kind, settings, name, expected):
    framework = "mindspore" if "nn." in kind else "torch"
    assert written(kind, settings, name, framework) == expected


def test_padding_depends_on_the_input_where_a_stride_meets_the_mode_same():
    given = {"pad_mode": "same", "kernel_size": (3, 3), "stride": (2, 2)}
    assert depends_on_input("nn.Conv2d", given, "mindspore")
    assert not depends_on_input("nn.Conv2d", given | {"stride": (1, 1)}, "mindspore")
    assert not depends_on_input("nn.Dense", {}, "mindspore")


def test_a_class_of_the_user_is_not_known():
    assert is_known("nn.Dense", "mindspore")
    assert is_known("BatchNorm3d", "torch")
    assert not is_known("mypackage.Conv2d", "torch")
    assert not is_known("Conv2d", "mindspore")
    assert not is_known("Sequential", "torch")
