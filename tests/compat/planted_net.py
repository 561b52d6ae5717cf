"""A small transformer in which one fault of five can be planted."""

import torch
from torch import nn
from torch.nn import functional

WIDTH, HEADS, TOKENS = 32, 4, 50
FAULTS = ("eps", "gelu", "mask", "dropout", "loaded")


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.drop = nn.Dropout(0.1)

    def forward(self, x, mask=None):
        batch, length, _ = x.shape
        shape = (batch, length, HEADS, WIDTH // HEADS)
        q, k, v = (one(x).view(shape).transpose(1, 2) for one in (self.q, self.k, self.v))
        scores = torch.matmul(q, k.transpose(-1, -2)) / (WIDTH // HEADS) ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask, -1e9)
        weights = self.drop(functional.softmax(scores, dim=-1))
        return self.o(torch.matmul(weights, v).transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    def __init__(self, eps=1e-5, approximate="none"):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(WIDTH, eps=eps), nn.LayerNorm(WIDTH, eps=eps)
        self.att = Attention()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.act = nn.GELU(approximate=approximate)

    def forward(self, x, mask=None):
        x = x + self.att(self.n1(x), mask)
        return x + self.down(self.act(self.up(self.n2(x))))


class Net(nn.Module):
    """The second block has the fault, if there is one."""

    def __init__(self, fault=""):
        super().__init__()
        torch.manual_seed(0)
        eps = 1e-2 if fault == "eps" else 1e-5
        approximate = "tanh" if fault == "gelu" else "none"
        self.has_mask = True, fault != "mask"
        self.emb = nn.Embedding(TOKENS, WIDTH)
        self.layers = nn.ModuleList([Block(), Block(eps, approximate)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, TOKENS)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                parameter.data.normal_(0, 0.3)
        self.eval()
        first, second = self.layers
        if fault == "dropout":
            second.att.drop.train()
        if fault == "loaded":
            second.att.k.weight.data = first.att.k.weight.data.clone()

    def forward(self, tokens):
        x, length = self.emb(tokens), tokens.shape[1]
        mask = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)
        for layer, has_mask in zip(self.layers, self.has_mask, strict=True):
            x = layer(x, mask if has_mask else None)
        return self.head(self.norm(x))

    def learn(self):
        """One forward and backward pass, alike in every network but for the fault."""
        drawn = torch.Generator().manual_seed(1)
        tokens = torch.randint(0, TOKENS, (4, 12), generator=drawn)
        wanted = torch.randint(0, TOKENS, (48,), generator=drawn)
        torch.manual_seed(5)
        functional.cross_entropy(self(tokens).reshape(-1, TOKENS), wanted).backward()
