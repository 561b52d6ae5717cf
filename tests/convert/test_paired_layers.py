"""What two networks at hand are set to otherwise is said, and nothing else."""

from __future__ import annotations

import pytest

from troubleshooter_nb import draft_weight_map
from troubleshooter_nb.messages import Message
from troubleshooter_nb.options import option_context

pytestmark = [pytest.mark.torch, pytest.mark.mindspore]


def networks(*pairs, torch_names=None, mindspore_names=None):
    """Two networks of layers in order, each given as its two texts."""
    import mindspore
    import torch

    names = [str(number) for number in range(len(pairs))]

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for name, (text, _) in zip(torch_names or names, pairs, strict=True):
                if text:
                    self.add_module(name, eval(text, {"nn": torch.nn}))

    class Cell(mindspore.nn.Cell):
        def __init__(self):
            super().__init__()
            for name, (_, text) in zip(mindspore_names or names, pairs, strict=True):
                scope = {"nn": mindspore.nn, "mint": mindspore.mint}
                if text:
                    setattr(self, name, eval(text, scope))

    return Net().eval(), Cell()


def said(*pairs, **names):
    """Ids and values of the notes on layers."""
    notes = draft_weight_map(*networks(*pairs, **names)).notes
    assert all(isinstance(note, Message) for note in notes)
    ids = ("setting_differs", "setting_means", "padding_open", "other_class", "default_differs")
    wanted = {f"weight_maps.{id}" for id in ids}
    return [(note.id.partition(".")[2], note.values) for note in notes if note.id in wanted]


CONV = ("nn.Conv2d(3, 4, 3, padding=1)", "nn.Conv2d(3, 4, 3, 1, 'pad', 1, has_bias=True)")
ALIKE = [
    CONV,
    ("nn.BatchNorm2d(4, eps=1e-3, momentum=0.3)", "nn.BatchNorm2d(4, 1e-3, 0.7)"),
    ("nn.GELU('tanh')", "nn.GELU()"),
    ("nn.MaxPool2d(2)", "nn.MaxPool2d(2, 2)"),
    ("nn.Dropout(0.1)", "nn.Dropout(p=0.1)"),
    ("nn.LayerNorm(4, eps=1e-7)", "nn.LayerNorm((4,))"),
    ("nn.LSTM(3, 4, 2, batch_first=True)", "nn.LSTM(3, 4, 2, batch_first=True)"),
]


def test_networks_that_are_set_alike_have_no_notes_of_defaults():
    assert said(*ALIKE) == []


@pytest.mark.parametrize(
    ("torch_text", "mindspore_text", "id", "ours", "theirs"),
    [
        ("BatchNorm2d(4, eps=1e-3)", "nn.BatchNorm2d(4)", "differs", "eps=0.001", "eps=1e-05"),
        ("BatchNorm2d(4)", "nn.BatchNorm2d(4, momentum=0.1)", "means", *["momentum=0.1"] * 2),
        ("BatchNorm2d(4)", "mint.nn.BatchNorm2d(4, 1e-4)", "differs", "eps=1e-05", "eps=0.0001"),
        (
            "BatchNorm2d(4)",
            "nn.BatchNorm2d(4, use_batch_statistics=True)",
            "means",
            "track_running_stats=True",
            "use_batch_statistics=True",
        ),
        ("LayerNorm(4)", "nn.LayerNorm((4,))", "differs", "eps=1e-05", "epsilon=1e-07"),
        ("Linear(4, 2)", "nn.Dense(4, 2, has_bias=False)", "differs", "bias=True",
         "has_bias=False"),
        ("Linear(4, 2)", "mint.nn.Linear(4, 2, bias=False)", "differs", "bias=True", "bias=False"),
        (
            "Conv2d(4, 2, 3, bias=False)",
            "nn.Conv2d(4, 2, 3, pad_mode='pad', padding=1)",
            "means",
            "padding=(0, 0)",
            "pad_mode='pad', padding=(1, 1, 1, 1)",
        ),
        (
            "Conv2d(4, 2, 3, 2, 1, bias=False)",
            "nn.Conv2d(4, 2, 3, 2)",
            "open",
            "padding=(1, 1)",
            "pad_mode='same'",
        ),
        (
            "Conv2d(4, 2, 3, padding=1, padding_mode='reflect')",
            "nn.Conv2d(4, 2, 3, 1, 'pad', 1, has_bias=True)",
            "differs",
            "padding_mode='reflect'",
            "padding_mode='zeros'",
        ),
        ("Embedding(5, 3, padding_idx=1)", "nn.Embedding(5, 3)", "differs", "padding_idx=1",
         "padding_idx=None"),
        ("LSTM(3, 4)", "nn.LSTM(3, 4, batch_first=True)", "differs", "batch_first=False",
         "batch_first=True"),
        ("GELU()", "nn.GELU()", "means", "approximate='none'", "approximate=True"),
        ("LeakyReLU()", "nn.LeakyReLU()", "differs", "negative_slope=0.01", "alpha=0.2"),
        ("ELU(0.5)", "nn.ELU()", "differs", "alpha=0.5", "alpha=1.0"),
        ("Dropout(0.9)", "nn.Dropout(0.9)", "means", "p=0.9", "p=0.1"),
    ],
)  # fmt: skip
def test_a_setting_that_differs_is_said_as_each_side_writes_it(
    torch_text, mindspore_text, id, ours, theirs
):
    found = said(CONV, (f"nn.{torch_text}", mindspore_text))
    ((got, facts),) = found
    assert got in (f"setting_{id}", f"padding_{id}") or (id, got) == ("means", "setting_differs")
    assert (facts["ours"], facts["theirs"], facts["places"]) == (ours, theirs, ["1"])


def test_momentum_is_told_in_the_words_of_torch_beside_those_written():
    ((_, facts),) = said(("nn.BatchNorm2d(4)", "nn.BatchNorm2d(4, momentum=0.1)"))
    assert (facts["left"], facts["right"]) == ("0.1", "0.9")


def test_what_is_true_of_several_layers_is_said_once():
    one = ("nn.BatchNorm2d(4, eps=1e-3)", "nn.BatchNorm2d(4)")
    names = {"torch_names": ["bn1", "c", "bn2"], "mindspore_names": ["bn_1", "c", "bn_2"]}
    ((id, facts),) = said(one, CONV, one, **names)
    assert id == "setting_differs"
    assert facts["places"] == ["bn1 / bn_1", "bn2 / bn_2"]


def test_activations_of_two_classes_at_one_place_are_said():
    ((id, facts),) = said(CONV, ("nn.ReLU()", "nn.SiLU()"), CONV)
    assert (id, facts["ours"], facts["theirs"]) == ("other_class", "ReLU", "nn.SiLU")
    ((id, facts),) = said(CONV, ("nn.AvgPool2d(2)", "nn.MaxPool2d(2)"), CONV)
    assert (id, facts["places"]) == ("other_class", ["1"])


def test_a_layer_that_only_one_side_has_shifts_nothing():
    dense = ("nn.Linear(4, 4)", "nn.Dense(4, 4)")
    pairs = [dense, ("", "nn.Dropout(p=0.2)"), ("nn.ReLU()", "nn.ReLU()"), dense]
    names = {"torch_names": ["0", "-", "1", "2"], "mindspore_names": ["0", "1", "2", "3"]}
    assert said(*pairs, **names) == []


def test_defaults_are_said_where_only_one_network_is_at_hand():
    net, cell = networks(ALIKE[0], ALIKE[1])
    assert any(note.id == "weight_maps.default_differs" for note in draft_weight_map(net).notes)
    ids = {note.id for note in draft_weight_map(net, cell).notes}
    assert ids == {"weight_maps.target_to_fill"}


def test_the_two_modes_are_said():
    net, cell = networks(CONV)
    net.train()
    assert Message("weight_maps.source_trains") in draft_weight_map(net, cell).notes
    assert Message("weight_maps.target_trains") in draft_weight_map(cell, net).notes
    cell.set_train()
    assert len(draft_weight_map(net, cell).notes) == 1


def test_a_difference_is_said_in_chinese():
    net, cell = networks(("nn.LayerNorm(4)", "nn.LayerNorm((4,))"))
    with option_context(language="zh"):
        assert "源中为 eps=1e-05" in repr(draft_weight_map(net, cell))
