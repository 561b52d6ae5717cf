"""Which parameters of one network become which of another, and what their values go through."""

from troubleshooter_nb.transforms import KINDS, Spec, Transform
from troubleshooter_nb.weight_map.map import WeightMap, WeightMapHistory
from troubleshooter_nb.weight_map.reparametrized import Parts, is_part, reparametrized
from troubleshooter_nb.weight_map.rows import WeightRow

__all__ = [
    "KINDS",
    "Parts",
    "Spec",
    "Transform",
    "WeightMap",
    "WeightMapHistory",
    "WeightRow",
    "is_part",
    "reparametrized",
]
