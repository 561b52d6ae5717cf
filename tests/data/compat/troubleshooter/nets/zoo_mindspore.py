"""The layer zoo in MindSpore: the same layers, of ``mindspore.nn`` or of ``mindspore.mint``.

Arguments make up for defaults that differ from PyTorch's.
"""

from mindspore import mint, nn

CONV = {"has_bias": True, "pad_mode": "valid"}


def layers():
    """Every layer of ``mindspore.nn`` by the name it has in the network."""
    return {
        "lin": nn.Dense(2, 2),
        "c1": nn.Conv1d(1, 2, 3, **CONV),
        "c2": nn.Conv2d(1, 2, 3, **CONV),
        "c3": nn.Conv3d(1, 2, 2, **CONV),
        "t1": nn.Conv1dTranspose(1, 2, 3, **CONV),
        "t2": nn.Conv2dTranspose(1, 2, 3, **CONV),
        "b1": nn.BatchNorm1d(2),
        "b2": nn.BatchNorm2d(2),
        "b3": nn.BatchNorm3d(2),
        "sb": nn.SyncBatchNorm(2),
        "i2": nn.InstanceNorm2d(2),
        "gn": nn.GroupNorm(1, 2),
        "ln": nn.LayerNorm((2,), epsilon=1e-5),
        "emb": nn.Embedding(3, 2),
        "pr": nn.PReLU(2),
        "lstm": nn.LSTM(2, 2),
        "gru": nn.GRU(2, 2),
        "mha": nn.MultiheadAttention(2, 1),
        "enc": nn.TransformerEncoderLayer(2, 1, 3, dropout=0.0),
    }


def mint_layers():
    """Those layers that ``mindspore.mint`` has."""
    return {
        "lin": mint.nn.Linear(2, 2),
        "c1": mint.nn.Conv1d(1, 2, 3),
        "c2": mint.nn.Conv2d(1, 2, 3),
        "c3": mint.nn.Conv3d(1, 2, 2),
        "t2": mint.nn.ConvTranspose2d(1, 2, 3),
        "b1": mint.nn.BatchNorm1d(2),
        "b2": mint.nn.BatchNorm2d(2),
        "b3": mint.nn.BatchNorm3d(2),
        "sb": mint.nn.SyncBatchNorm(2),
        "gn": mint.nn.GroupNorm(1, 2),
        "ln": mint.nn.LayerNorm(2),
        "emb": mint.nn.Embedding(3, 2),
        "pr": mint.nn.PReLU(2),
    }


class Zoo(nn.Cell):
    """The layers, one beside the other."""

    def __init__(self, mint=False):
        super().__init__()
        for name, layer in (mint_layers() if mint else layers()).items():
            setattr(self, name, layer)
