"""The same small networks in PyTorch and MindSpore, with planted migration faults.

Template notebooks use them to make real files: `make_gradients` runs one training step in both
frameworks, from the same weights on the same batch, and writes one npy file per parameter
gradient; `make_checkpoints` trains for some steps and saves checkpoints. `make_dumps` unpacks what
msprobe wrote in both frameworks, `make_rank_dumps` makes dumps of several ranks, `make_rewritten`
weights of one layer as two code bases keep them, `make_environment_runs` records one network in
two environments. `FAULTS` and `DUMP_FAULTS` list what can be planted on the MindSpore side,
`ENVIRONMENTS` what in an environment. Importing this package loads neither framework.
"""

from importlib.util import find_spec

from example_nets.checkpoints import make_checkpoints
from example_nets.dumps import DUMP_FAULTS, make_dumps, make_rank_dumps
from example_nets.environments import ENVIRONMENTS, make_environment_runs
from example_nets.faults import FAULTS
from example_nets.gradients import make_gradients
from example_nets.rewritten import make_rewritten
from example_nets.weights import make_networks, outputs_of_both

__all__ = [
    "DUMP_FAULTS",
    "ENVIRONMENTS",
    "FAULTS",
    "available",
    "make_checkpoints",
    "make_dumps",
    "make_environment_runs",
    "make_gradients",
    "make_networks",
    "make_rank_dumps",
    "make_rewritten",
    "outputs_of_both",
]


def available(framework: str) -> str:
    """The framework of the left side of an example: PyTorch, said aloud, where it is missing."""
    if find_spec(framework) is not None:
        return framework
    print(f"{framework} is not installed: both sides of the example run in PyTorch")
    return "torch"
