"""The same small networks in PyTorch and MindSpore, with planted migration faults.

Template notebooks use them to make real files: `make_gradients` runs one training step in both
frameworks, from the same weights on the same batch, and writes one npy file per parameter
gradient; `make_checkpoints` trains for some steps and saves checkpoints. `FAULTS` lists what can
be planted on the MindSpore side. Importing this package loads neither framework.
"""

from example_nets.checkpoints import make_checkpoints
from example_nets.faults import FAULTS
from example_nets.gradients import make_gradients
from example_nets.weights import make_networks, outputs_of_both

__all__ = ["FAULTS", "make_checkpoints", "make_gradients", "make_networks", "outputs_of_both"]
