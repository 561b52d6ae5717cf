"""In which ways runs are recorded, and of what each holds the proof."""

from __future__ import annotations

from dataclasses import dataclass, field

from faulty import writing
from faulty.families import FAMILIES, WIDE
from faulty.mindspore_side import FAMILIES as IN_MINDSPORE
from faulty.registry import Fault
from faulty.styles import STYLED
from faulty.writing import Write

MEMORY = "memory"
FORWARD = ("forward", "loading")
_HARD = ("half noise", "other precision", "small", "amplified", "harmless first")

# What nothing but outputs shows: that of the layer before is the input, and no weight is needed. A
# dropout stands behind sums and pooling that no layer gives.
_OF_OUTPUTS = frozenset(
    "gelu_variant activation_changed own_gate_activation pool_rounding numbered_pool "
    "resize_convention own_resize fp16_overflow saturation underflow nan_swallowed kernel_fault "
    "own_flatten_order dropout_mode rrelu_random low_precision_cast table_theta "
    "table_offset own_rope_interleave own_rope_kernel own_grouped_heads own_attention_scale "
    "own_scale_twice own_mask_missing own_window own_softmax_axis own_softmax_precision "
    "own_gate_up_order".split()
)
# A layer's own numbers are in no file of the way.
_BUFFERS = frozenset({"buffer_uninitialised"})
# Which of many layers multiplies gradients by one factor, those of parameters alone do not tell.
_BETWEEN_GRADIENTS = frozenset({"mask_shape"})
_WIDE = frozenset(
    "norm_eps bn_eps bn_gamma_ignored gelu_variant activation_changed bias_per_rank "
    "reduce_missing low_precision_cast attention_scale mask_missing pad_mode pool_rounding "
    "numbered_pool own_resize preprocess_scale preprocess_bgr linear_transposed constant cubic "
    "swapped_channels clamp".split()
)


@dataclass(frozen=True)
class Way:
    """One way of recording.

    Attributes
    ----------
    write : callable
        Both sides of a run are written by it, each into a folder of its own.
    keep, level : str
        Which records it holds, as `capture.is_kept` and `capture.Recorder` have them.
    kinds : tuple of str
        Of the faults that it can show.
    only : frozenset of str, optional
        Names of the faults that are planted.
    decides : frozenset of str, optional
        Names of the faults whose cause its files prove; default all but `hides`.
    hards : tuple of str
        What makes half of its runs hard, beside what lies in the fault; none: all are easy.
    share : float
        Of the runs over all ways, relative to the others.
    """

    name: str
    write: Write
    keep: str
    level: str = "leaf"
    kinds: tuple[str, ...] = FORWARD
    families: tuple[str, ...] = (*FAMILIES, *STYLED)
    only: frozenset[str] | None = None
    decides: frozenset[str] | None = None
    hides: frozenset[str] = field(default_factory=frozenset)
    hards: tuple[str, ...] = _HARD
    is_wide: bool = False
    share: float = 1.0

    def can(self, fault: Fault) -> bool:
        """Whether the fault may be planted."""
        return (
            fault.kind in self.kinds
            and bool({*fault.families} & {*self.families})
            and (self.only is None or fault.name in self.only)
        )

    def holds_proof_of(self, fault: Fault) -> bool:
        """Whether the files decide the cause."""
        decided = self.decides is None or fault.name in self.decides
        return decided and fault.name not in self.hides


_ALL = (
    Way("hand_numbered", writing.hand_numbered, "calls", hides=_BUFFERS),
    Way("hand_plain", writing.hand_plain, "calls", hides=_BUFFERS),
    Way("outputs_only", writing.outputs_only, "outputs", decides=_OF_OUTPUTS),
    Way(
        "troubleshooter",
        writing.by_troubleshooter,
        "saved",
        kinds=(*FORWARD, "backward"),
        hides=_BUFFERS,
    ),
    Way(
        "msprobe_l0",
        writing.as_msprobe,
        "no buffers",
        "module",
        kinds=(*FORWARD, "backward"),
        hides=_BUFFERS,
    ),
    Way(
        "checkpoints",
        writing.as_checkpoints,
        "training",
        kinds=("loading", "steps", "running", "backward"),
        hides=_BETWEEN_GRADIENTS,
        hards=(),
    ),
    Way(
        "gradients",
        writing.gradients_by_troubleshooter,
        "gradients",
        kinds=("backward",),
        hides=_BETWEEN_GRADIENTS | {"decay_in_gradients"},
        hards=(),
    ),
    Way(
        "record",
        writing.as_recorded,
        "all",
        "module",
        kinds=(*FORWARD, "running", "steps", "backward"),
    ),
    Way(
        "mindspore",
        writing.by_either,
        "calls",
        families=IN_MINDSPORE,
        hides=_BUFFERS,
        hards=("amplified", "harmless first"),
    ),
    Way(
        "real_width",
        writing.by_either,
        "calls",
        families=tuple(WIDE),
        only=_WIDE,
        hards=("amplified", "small"),
        is_wide=True,
        share=0.4,
    ),
)
WAYS = {way.name: way for way in _ALL}
