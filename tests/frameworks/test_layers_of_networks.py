"""One contract for both frameworks: what a network consists of, and what its tensors are called."""

from __future__ import annotations

import numpy as np
import pytest

from troubleshooter_nb import frameworks
from troubleshooter_nb.frameworks import LayerEntry

BOTH = [
    pytest.param("torch", marks=pytest.mark.torch),
    pytest.param("mindspore", marks=pytest.mark.mindspore),
]
# Many layers at once: the ones whose names differ, nested, and without parameters.
TORCH_ZOO = {
    "lin": "nn.Linear(4, 3)",
    "conv": "nn.Conv1d(4, 6, 3)",
    "bn": "nn.BatchNorm2d(4)",
    "bn3": "nn.BatchNorm3d(4)",
    "bare": "nn.BatchNorm1d(4, affine=False, track_running_stats=False)",
    "norms": "nn.Sequential(nn.LayerNorm(4), nn.Sequential(nn.GroupNorm(2, 4), nn.GELU()))",
    "emb": "nn.Embedding(5, 3)",
    "act": "nn.PReLU(4)",
    "rnn": "nn.LSTM(4, 3, 2, bidirectional=True)",
    "attn": "nn.MultiheadAttention(4, 2)",
    "enc": "nn.TransformerEncoderLayer(4, 2, 8)",
    "none": "nn.ModuleList()",
}
MINDSPORE_ZOO = {
    "lin": "nn.Dense(4, 3)",
    "conv": "nn.Conv1d(4, 6, 3)",
    "bn": "nn.BatchNorm2d(4)",
    "bn3": "nn.BatchNorm3d(4)",
    "mint": "mint.nn.BatchNorm2d(4)",
    "norms": "nn.SequentialCell(nn.LayerNorm((4,)), nn.SequentialCell(nn.GroupNorm(2, 4)))",
    "emb": "nn.Embedding(5, 3)",
    "act": "nn.PReLU(4)",
    "rnn": "nn.LSTM(4, 3, 2, bidirectional=True)",
    "attn": "nn.MultiheadAttention(4, 2)",
    "enc": "nn.TransformerEncoderLayer(4, 2, 8)",
    "none": "nn.CellList()",
}


def network(framework, **texts):
    """A network of these layers, in the order given."""
    if framework == "torch":
        from torch import nn

        net = nn.Module()
        scope = {"nn": nn}
    else:
        from mindspore import mint, nn

        net = nn.Cell()
        scope = {"nn": nn, "mint": mint}
    for name, text in texts.items():
        setattr(net, name, eval(text, scope | {"net": net}))
    return net


def layer(framework, text):
    return network(framework, it=text).it


def saved_names(framework, net, folder):
    """The names a checkpoint of the network has, from the framework itself."""
    if framework == "torch":
        return list(net.state_dict())
    import mindspore

    path = str(folder / "net.ckpt")
    mindspore.save_checkpoint(net, path)
    return list(mindspore.load_checkpoint(path))


def names_of(facts):
    """Every name of a checkpoint, once, in the order of the layers."""
    names = (
        name for one in facts for entry in one.entries for name in (entry.name, *entry.other_names)
    )
    return list(dict.fromkeys(names))


def facts_of(framework, net):
    return {one.path: one for one in frameworks.require(framework).layers(net)}


def zoo(framework):
    return network(framework, **(TORCH_ZOO if framework == "torch" else MINDSPORE_ZOO))


@pytest.mark.parametrize("framework", BOTH)
def test_the_names_are_those_of_a_checkpoint_in_its_order(framework, tmp_path):
    net = zoo(framework)
    facts = frameworks.require(framework).layers(net)
    assert names_of(facts) == saved_names(framework, net, tmp_path)


@pytest.mark.parametrize("framework", BOTH)
@pytest.mark.parametrize("name", TORCH_ZOO)
def test_a_layer_that_is_the_network_has_the_names_it_is_saved_under(framework, name, tmp_path):
    texts = TORCH_ZOO if framework == "torch" else MINDSPORE_ZOO
    if name not in texts:
        name = "mint"
    # Not out of a parent, which would name the parameters of MindSpore.
    scope = {}
    if framework == "torch":
        from torch import nn
    else:
        from mindspore import mint, nn

        scope["mint"] = mint
    net = eval(texts[name], scope | {"nn": nn})
    facts = frameworks.require(framework).layers(net)
    assert facts[0].path == ""
    saved = [] if name == "none" else saved_names(framework, net, tmp_path)
    assert names_of(facts) == saved


@pytest.mark.parametrize("framework", BOTH)
def test_layers_come_parents_first_with_their_paths(framework):
    net = zoo(framework)
    facts = frameworks.require(framework).layers(net)
    if framework == "torch":
        expected = [path for path, _ in net.named_modules()]
    else:
        expected = [path for path, _ in net.cells_and_names()]
    paths = [one.path for one in facts]
    assert [path for path in paths if path != "none"] == [
        path for path in expected if path != "none"
    ]
    assert "none" in paths
    assert all(one.aliases == () for one in facts)


@pytest.mark.parametrize("framework", BOTH)
def test_shape_dtype_and_role_come_with_the_name(framework):
    facts = facts_of(framework, zoo(framework))
    of_mindspore = framework == "mindspore"
    weight, *_ = facts["conv"].entries
    shape = (6, 4, 1, 3) if of_mindspore else (6, 4, 3)
    assert weight == LayerEntry("weight", "conv.weight", shape, "float32", "parameter")
    bn = facts["bn3.bn2d" if of_mindspore else "bn3"]
    roles = {entry.leaf: entry.role for entry in bn.entries}
    if of_mindspore:
        assert facts["bn3"].entries == ()
        assert roles == {
            "gamma": "parameter",
            "beta": "parameter",
            "moving_mean": "buffer",
            "moving_variance": "buffer",
        }
        bn = facts["mint"]
    counter = bn.entries[-1]
    assert (counter.leaf, counter.shape) == ("num_batches_tracked", ())
    assert (counter.dtype, counter.role) == ("int64", "buffer")


@pytest.mark.parametrize("framework", BOTH)
def test_the_kind_is_the_one_of_the_tables(framework):
    facts = facts_of(framework, zoo(framework))
    if framework == "torch":
        expected = {
            "lin": "Linear",
            "norms": "Sequential",
            "norms.1.1": "GELU",
            "attn.out_proj": "Linear",  # a subclass that torch keeps for itself
            "": "Module",
        }
    else:
        expected = {
            "lin": "nn.Dense",
            "bn": "nn.BatchNorm2d",
            "mint": "mint.nn.BatchNorm2d",
            "norms": "nn.SequentialCell",
            "": "Cell",
        }
    assert {path: facts[path].kind for path in expected} == expected


@pytest.mark.mindspore
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("mint.nn.Linear(2, 3)", "mint.nn.Linear"),  # is nn.Linear, of which nn documents nothing
        ("mint.nn.PReLU()", "mint.nn.PReLU"),  # is nn.PReLUExt
        ("mint.nn.Embedding(2, 3)", "mint.nn.Embedding"),
        ("mint.nn.LayerNorm(3)", "mint.nn.LayerNorm"),
        ("mint.nn.Conv2d(2, 3, 3)", "mint.nn.Conv2d"),
        ("nn.PReLU()", "nn.PReLU"),
        ("nn.ReLU()", "nn.ReLU"),
        ("mint.nn.ReLU()", "nn.ReLU"),  # one class, two names
    ],
)
def test_layers_of_mint_are_told_from_those_of_nn(text, kind):
    assert facts_of("mindspore", layer("mindspore", text))[""].kind == kind


@pytest.mark.parametrize("framework", BOTH)
def test_a_users_class_counts_as_the_layer_it_is_made_from(framework):
    if framework == "torch":
        from torch import nn

        base, root, expected = nn.Linear, nn.Module, "Linear"
    else:
        from mindspore import nn

        base, root, expected = nn.Dense, nn.Cell, "nn.Dense"

    class Mine(base):
        pass

    class Own(root):
        pass

    class LayerNorm(root):
        pass

    net = network(framework)
    net.mine, net.own, net.norm = Mine(2, 3), Own(), LayerNorm()
    facts = facts_of(framework, net)
    assert facts["mine"].kind == expected
    assert facts["own"].kind == "Own"
    # Not the LayerNorm of the framework.
    assert facts["norm"].kind == (f"{__name__}.LayerNorm" if framework == "torch" else "LayerNorm")


@pytest.mark.parametrize("framework", BOTH)
def test_a_shared_layer_has_all_its_paths_and_names(framework, tmp_path):
    if framework == "torch":
        texts = {"a": "nn.Sequential(nn.BatchNorm2d(3))", "b": "net.a", "c": "net.a[0]"}
    else:
        texts = {"a": "nn.SequentialCell(nn.BatchNorm2d(3))", "b": "net.a", "c": "net.a[0]"}
    net = network(framework, **texts)
    facts = facts_of(framework, net)
    assert list(facts) == ["", "a", "a.0"]
    assert facts["a"].aliases == ("b",)
    assert facts["a.0"].aliases == ("b.0", "c")
    assert set(names_of(facts.values())) == set(saved_names(framework, net, tmp_path))
    if framework == "torch":
        first = facts["a.0"].entries[0]
        assert (first.name, first.other_names) == ("a.0.weight", ("b.0.weight", "c.weight"))
        assert len(names_of(facts.values())) == 15
    else:
        assert len(names_of(facts.values())) == 4


@pytest.mark.parametrize("framework", BOTH)
def test_a_tied_parameter_belongs_to_both_layers(framework, tmp_path):
    if framework == "torch":
        net = network(framework, emb="nn.Embedding(5, 3)", out="nn.Linear(3, 5)")
        net.out.weight = net.emb.weight
        expected = ["emb.weight", "out.weight"]
    else:
        net = network(framework, emb="nn.Embedding(5, 3)", out="nn.Dense(3, 5)")
        net.out.weight = net.emb.embedding_table
        expected = ["emb.embedding_table"] * 2  # MindSpore saves it once
    facts = facts_of(framework, net)
    assert [facts[path].entries[0].name for path in ("emb", "out")] == expected
    assert set(names_of(facts.values())) == set(saved_names(framework, net, tmp_path))


@pytest.mark.parametrize("framework", BOTH)
def test_a_buffer_that_is_not_saved_is_not_listed(framework, tmp_path):
    net = network(framework, lin="nn.Linear(2, 3)" if framework == "torch" else "nn.Dense(2, 3)")
    if framework == "torch":
        import torch

        net.register_buffer("kept", torch.ones(2, dtype=torch.bfloat16))
        net.register_buffer("passing", torch.ones(2), persistent=False)
        expected = ["kept", "lin.weight", "lin.bias"]
    else:
        import mindspore

        if not hasattr(net, "register_buffer"):
            pytest.skip("this MindSpore has no buffers")
        net.register_buffer("passing", mindspore.Tensor(np.ones(2, np.float32)))
        expected = ["lin.weight", "lin.bias"]
    facts = frameworks.require(framework).layers(net)
    assert names_of(facts) == expected == saved_names(framework, net, tmp_path)
    if framework == "torch":
        assert facts[0].entries == (LayerEntry("kept", "kept", (2,), "bfloat16", "buffer"),)


@pytest.mark.mindspore
def test_a_parameter_of_mindspore_keeps_the_name_it_was_given(tmp_path):
    import mindspore

    net = network("mindspore", lin="nn.Dense(2, 3)")
    net.own = mindspore.Parameter(mindspore.Tensor(np.ones(2), mindspore.bfloat16), name="blah")
    (entry,) = facts_of("mindspore", net)[""].entries
    assert entry == LayerEntry("own", "blah", (2,), "bfloat16", "parameter")
    assert "blah" in saved_names("mindspore", net, tmp_path)


SETTINGS = [
    ("torch", "nn.LayerNorm(4)", {"eps": 1e-5, "normalized_shape": (4,), "bias": True}),
    ("torch", "nn.LayerNorm(4, bias=False)", {"bias": False}),
    ("torch", "nn.Conv1d(2, 3, 3, bias=False)", {"padding": (0,), "bias": False}),
    ("torch", "nn.Conv2d(2, 3, 3, padding='same')", {"padding": "same", "stride": (1, 1)}),
    ("torch", "nn.BatchNorm2d(4, momentum=None)", {"momentum": None, "affine": True}),
    ("torch", "nn.GELU()", {"approximate": "none"}),
    ("torch", "nn.LeakyReLU()", {"negative_slope": 0.01}),
    ("torch", "nn.MaxPool2d(2)", {"kernel_size": 2, "stride": 2}),
    ("torch", "nn.LSTM(2, 3)", {"bias": True, "hidden_size": 3, "proj_size": 0}),
    ("torch", "nn.Softmax(1)", {"dim": 1}),
    ("mindspore", "nn.LayerNorm((4,))", {"epsilon": 1e-7, "normalized_shape": (4,)}),
    ("mindspore", "nn.Conv2d(2, 3, 3)", {"pad_mode": "same", "has_bias": False}),
    (
        "mindspore",
        "nn.Conv1d(2, 3, 3, pad_mode='pad', padding=1, stride=2)",
        {"pad_mode": "pad", "padding": (1, 1), "kernel_size": (3,), "stride": (2,)},
    ),
    ("mindspore", "nn.BatchNorm2d(4)", {"momentum": 0.9, "eps": 1e-5}),
    ("mindspore", "nn.BatchNorm3d(4, momentum=0.7)", {"momentum": 0.7}),
    ("mindspore", "mint.nn.BatchNorm2d(4)", {"momentum": 0.1, "affine": True}),
    ("mindspore", "nn.GELU()", {"approximate": True}),
    ("mindspore", "nn.GELU(False)", {"approximate": False}),
    ("mindspore", "mint.nn.GELU()", {"approximate": "none"}),
    ("mindspore", "nn.LeakyReLU()", {"alpha": 0.2}),
    ("mindspore", "nn.MaxPool2d(2)", {"kernel_size": 2, "stride": 1, "pad_mode": "valid"}),
    ("mindspore", "nn.MaxPool1d(2)", {"kernel_size": (2,), "stride": (1,)}),
    ("mindspore", "nn.Dropout(0.9)", {"p": 0.1}),
    ("mindspore", "nn.Dropout(p=0.9)", {"p": 0.9}),
    ("mindspore", "nn.Softmax()", {"axis": -1}),
    ("mindspore", "nn.LogSoftmax(1)", {"axis": 1}),
]


@pytest.mark.parametrize(
    ("framework", "text", "expected"),
    [pytest.param(*case, marks=getattr(pytest.mark, case[0])) for case in SETTINGS],
)
def test_settings_are_what_the_constructor_was_given(framework, text, expected):
    settings = facts_of(framework, layer(framework, text))[""].settings
    assert {name: settings.get(name, "absent") for name in expected} == expected
    assert "training" not in settings


@pytest.mark.parametrize("framework", BOTH)
def test_only_networks_are_networks(framework):
    adapter = frameworks.require(framework)
    net = network(framework)
    assert adapter.is_network(net)
    assert frameworks.adapter_of_network(net) is adapter
    assert not adapter.is_network(type(net))
    assert not adapter.is_network(np.ones(2))
    assert frameworks.adapter_of_network(np.ones(2)) is None
    assert frameworks.adapter_of(net) is None


@pytest.mark.torch
def test_a_weight_norm_is_a_list_of_its_own_kind():
    import torch

    net = torch.nn.Module()
    net.fc = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 3))
    facts = facts_of("torch", net)
    assert facts["fc"].kind == "Linear"
    assert [entry.name for entry in facts["fc"].entries] == ["fc.bias"]
    below = facts["fc.parametrizations.weight"]
    assert below.kind == "ParametrizationList"
    assert [entry.leaf for entry in below.entries] == ["original0", "original1"]
    assert names_of(facts.values()) == list(net.state_dict())


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:Lazy modules:UserWarning")
def test_a_lazy_module_that_has_not_run_says_so():
    import torch

    net = torch.nn.Sequential(torch.nn.LazyLinear(3))
    layers = frameworks.require("torch").layers
    with pytest.raises(ValueError, match=r"'0.weight' has no shape yet; call the network once"):
        layers(net)
    net(torch.ones(2, 4))
    assert layers(net)[1].entries[0].shape == (3, 4)
    assert layers(net)[1].kind == "Linear"
