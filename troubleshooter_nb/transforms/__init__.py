"""What the values of a weight may go through: a table of kinds, each of which is one entry.

An entry (`kind.Kind`) says all there is of a kind: its arguments, how many tensors it takes and
gives, their shapes, how it is computed and undone, what it is proposed for, its words, and what
files of other tools call it. Nothing else knows a kind by its name, but for the "copy" of a row
that says nothing and the "drop" of one without a target.
"""

from troubleshooter_nb.transforms.parts import norm_axes
from troubleshooter_nb.transforms.recognised import RELATIONS, of_relation, simplest
from troubleshooter_nb.transforms.spec import Spec, shapes_said
from troubleshooter_nb.transforms.table import KINDS
from troubleshooter_nb.transforms.transform import Transform, chained, fitting, of_troubleshooter

__all__ = [
    "KINDS",
    "RELATIONS",
    "Spec",
    "Transform",
    "chained",
    "fitting",
    "norm_axes",
    "of_relation",
    "of_troubleshooter",
    "shapes_said",
    "simplest",
]
