"""A net of another kind for the scripts of s003: convolutions, a layer that is called twice, a
layer that works in place, one that gives a tuple, attention, no affine end."""


def __getattr__(name):
    if name == "TorchNet":
        import torch
        from torch import nn

        class Gate(nn.Module):
            def __init__(self):
                super().__init__()
                self.project = nn.Conv1d(3, 6, 1, bias=False)

            def forward(self, x):
                value, gate = self.project(x).chunk(2, dim=1)
                return torch.sigmoid(gate) * value, gate

        class TorchNet(nn.Module):
            def __init__(self, weights):
                super().__init__()
                self.conv = nn.Conv1d(1, 3, 3, padding=1)
                self.norm = nn.BatchNorm1d(3)
                self.act = nn.ReLU(inplace=True)
                self.gate = Gate()
                self.attend = nn.MultiheadAttention(8, 2, batch_first=True)
                self.shared = nn.Linear(8, 8)
                with torch.no_grad():
                    for number, p in enumerate(self.parameters()):
                        p.copy_(torch.linspace(-0.5, 0.6, p.numel()).roll(number).view(p.shape))
                    self.shared.weight[:4].copy_(torch.from_numpy(weights[0]))

            def forward(self, x):
                x = self.act(self.norm(self.conv(x[:, None])))
                value, gate = self.gate(x)
                value = value + self.attend(value, value, gate, need_weights=False)[0]
                twice = self.shared(torch.tanh(self.shared(value)))
                return nn.functional.log_softmax(twice.mean(1), dim=-1)

            def step_function(self):
                return lambda x: self(x).square().mean().backward()

        return TorchNet
    raise AttributeError(name)
