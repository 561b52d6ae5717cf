"""``ts.migrator``: weight maps, conversion, comparison of folders and checkpoints.

Calls that hook networks are not offered; they say what to use.
"""

from troubleshooter_nb.compat.troubleshooter.checkpoint_compare import (
    compare_ms_ckpt,
    compare_pth_and_ckpt,
)
from troubleshooter_nb.compat.troubleshooter.not_offered import not_offered
from troubleshooter_nb.compat.troubleshooter.npy_compare import (
    compare_dict_dir,
    compare_grads_dir,
    compare_list_dir,
    compare_npy_dir,
)
from troubleshooter_nb.compat.troubleshooter.pairing import (
    get_name_map_list_by_name,
    get_name_map_list_by_number,
    get_name_map_list_by_shape_edit_distance,
)
from troubleshooter_nb.compat.troubleshooter.weights import (
    convert_weight,
    convert_weight_and_load,
    get_weight_map,
)

__all__ = [
    "NetDifferenceFinder",
    "api_dump_compare",
    "api_dump_init",
    "api_dump_start",
    "api_dump_stop",
    "compare_dict_dir",
    "compare_grads_dir",
    "compare_list_dir",
    "compare_ms_ckpt",
    "compare_npy_dir",
    "compare_pth_and_ckpt",
    "convert_weight",
    "convert_weight_and_load",
    "get_name_map_list_by_name",
    "get_name_map_list_by_number",
    "get_name_map_list_by_shape_edit_distance",
    "get_weight_map",
    "save_net_and_weight_params",
]

_COMPARE_OUTPUTS = (
    "run both nets on one input with save() calls in them, and let troubleshooter_nb.compare find "
    "the first tensor that differs"
)
_COMPARE_WEIGHTS = (
    "weight maps, conversion and checkpoints come with a later version; until then "
    "troubleshooter_nb.compare(Dump.from_arrays(left), Dump.from_arrays(right)) compares two "
    "state dictionaries"
)

NetDifferenceFinder = not_offered("migrator.NetDifferenceFinder", _COMPARE_OUTPUTS)
save_net_and_weight_params = not_offered(
    "migrator.save_net_and_weight_params",
    "use torch.save(net.state_dict(), file) or mindspore.save_checkpoint(net, file)",
)
api_dump_init = not_offered("migrator.api_dump_init", _COMPARE_OUTPUTS)
api_dump_start = not_offered("migrator.api_dump_start", _COMPARE_OUTPUTS)
api_dump_stop = not_offered("migrator.api_dump_stop", _COMPARE_OUTPUTS)
api_dump_compare = not_offered("migrator.api_dump_compare", _COMPARE_OUTPUTS)
