"""The layer zoo in PyTorch: one small layer of every kind whose tensors have rules of their own."""

from torch import nn


def layers():
    """Every layer by the name it has in the network."""
    return {
        "lin": nn.Linear(2, 2),
        "c1": nn.Conv1d(1, 2, 3),
        "c2": nn.Conv2d(1, 2, 3),
        "c3": nn.Conv3d(1, 2, 2),
        "t1": nn.ConvTranspose1d(1, 2, 3),
        "t2": nn.ConvTranspose2d(1, 2, 3),
        "b1": nn.BatchNorm1d(2),
        "b2": nn.BatchNorm2d(2),
        "b3": nn.BatchNorm3d(2),
        "sb": nn.SyncBatchNorm(2),
        "i2": nn.InstanceNorm2d(2, affine=True),
        "gn": nn.GroupNorm(1, 2),
        "ln": nn.LayerNorm(2),
        "emb": nn.Embedding(3, 2),
        "pr": nn.PReLU(2),
        "lstm": nn.LSTM(2, 2),
        "gru": nn.GRU(2, 2),
        "mha": nn.MultiheadAttention(2, 1),
        "enc": nn.TransformerEncoderLayer(2, 1, 3, dropout=0.0),
    }


class Zoo(nn.Module):
    """The layers, one beside the other; `names` leaves some out."""

    def __init__(self, names=None):
        super().__init__()
        for name, layer in layers().items():
            if names is None or name in names:
                setattr(self, name, layer)
