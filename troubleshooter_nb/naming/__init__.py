"""Entry names: what every dump grammar says about the tensor behind a name.

Inside the package an entry has a `Site`; only this folder knows how a dump format spells one.
"""

from troubleshooter_nb.naming.gradients import (
    parameters_of_gradients,
    says_gradient,
    without_gradient_word,
)
from troubleshooter_nb.naming.msprobe import (
    MsprobeCall,
    RowName,
    format_msprobe_call,
    format_row_name,
    forward_of,
    is_process_group,
    model_numbers,
    parse_msprobe_call,
    parse_row_name,
    site_of_msprobe,
    without_model,
)
from troubleshooter_nb.naming.npy import (
    DTYPE_TOKENS,
    NpyName,
    format_npy_name,
    natural_key,
    parse_npy_name,
    site_of_npy_stem,
)
from troubleshooter_nb.naming.parameters import (
    AVERAGES,
    BUFFER_LEAVES,
    OPTIMIZER_STATES,
    canonical_parameter,
    likely_parameter,
    parameter_leaf,
    site_of_parameter,
    without_position,
    without_wrappers,
)
from troubleshooter_nb.naming.saved_calls import (
    layers_of_output,
    readings_of_parameter,
    saved_calls,
)
from troubleshooter_nb.naming.site import (
    ASIDE_ROLES,
    CALL_KINDS,
    CHECKPOINT_ROLES,
    ROLES,
    TRAINING_ROLES,
    Direction,
    Role,
    Site,
    is_whole_gradient,
    place_text,
)

__all__ = [
    "ASIDE_ROLES",
    "AVERAGES",
    "BUFFER_LEAVES",
    "CALL_KINDS",
    "CHECKPOINT_ROLES",
    "DTYPE_TOKENS",
    "OPTIMIZER_STATES",
    "ROLES",
    "TRAINING_ROLES",
    "Direction",
    "MsprobeCall",
    "NpyName",
    "Role",
    "RowName",
    "Site",
    "canonical_parameter",
    "format_msprobe_call",
    "format_npy_name",
    "format_row_name",
    "forward_of",
    "is_process_group",
    "is_whole_gradient",
    "layers_of_output",
    "likely_parameter",
    "model_numbers",
    "natural_key",
    "parameter_leaf",
    "parameters_of_gradients",
    "parse_msprobe_call",
    "parse_npy_name",
    "parse_row_name",
    "place_text",
    "readings_of_parameter",
    "saved_calls",
    "says_gradient",
    "site_of_msprobe",
    "site_of_npy_stem",
    "site_of_parameter",
    "without_gradient_word",
    "without_model",
    "without_position",
    "without_wrappers",
]
