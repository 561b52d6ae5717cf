"""The same small networks in PyTorch and MindSpore, with planted migration faults.

Template notebooks use them to make real files: `make_gradients` runs one training step in both
frameworks, from the same weights on the same batch, and writes one npy file per parameter
gradient; `make_checkpoints` trains for some steps and saves checkpoints. `make_dumps` unpacks what
msprobe wrote in both frameworks, `make_rank_dumps` makes dumps of several ranks, `make_rewritten`
weights of one layer as two code bases keep them. `FAULTS` and
`DUMP_FAULTS` list what can be planted on the MindSpore side. Importing this package loads neither
framework.
"""

from example_nets.checkpoints import make_checkpoints
from example_nets.dumps import DUMP_FAULTS, make_dumps, make_rank_dumps
from example_nets.faults import FAULTS
from example_nets.gradients import make_gradients
from example_nets.rewritten import make_rewritten
from example_nets.weights import make_networks, outputs_of_both

__all__ = [
    "DUMP_FAULTS",
    "FAULTS",
    "make_checkpoints",
    "make_dumps",
    "make_gradients",
    "make_networks",
    "make_rank_dumps",
    "make_rewritten",
    "outputs_of_both",
]
