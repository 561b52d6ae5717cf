"""``ts.migrator``: saving, weight maps, conversion, comparison of folders and checkpoints.

Calls that hook networks are not offered; they say what to use.
"""

from troubleshooter_nb.compat.not_offered import not_offered
from troubleshooter_nb.compat.troubleshooter.checkpoint_compare import (
    compare_ms_ckpt,
    compare_pth_and_ckpt,
)
from troubleshooter_nb.compat.troubleshooter.kernels import cal_algorithm, cal_cosine_sim
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
from troubleshooter_nb.compat.troubleshooter.saving import save, save_grad
from troubleshooter_nb.compat.troubleshooter.weights import (
    convert_weight,
    convert_weight_and_load,
    get_weight_map,
    save_net_and_weight_params,
)
from troubleshooter_nb.messages import Message

__all__ = [
    "NetDifferenceFinder",
    "api_dump_compare",
    "api_dump_init",
    "api_dump_start",
    "api_dump_stop",
    "cal_algorithm",
    "cal_cosine_sim",
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
    "save",
    "save_grad",
    "save_net_and_weight_params",
]

_COMPARE_OUTPUTS = Message("compat.instead_of_outputs")

NetDifferenceFinder = not_offered("migrator.NetDifferenceFinder", _COMPARE_OUTPUTS)
api_dump_init = not_offered("migrator.api_dump_init", _COMPARE_OUTPUTS)
api_dump_start = not_offered("migrator.api_dump_start", _COMPARE_OUTPUTS)
api_dump_stop = not_offered("migrator.api_dump_stop", _COMPARE_OUTPUTS)
api_dump_compare = not_offered("migrator.api_dump_compare", _COMPARE_OUTPUTS)
