"""The comparison of ptdbg_ascend under its old names, with the csv and the advice it wrote.

``from troubleshooter_nb.compat.ptdbg_ascend import compare, compare_distributed`` takes the place
of ``from ptdbg_ascend import *``; the rest of the script stays. Calls that record are not here,
and say what to use.
"""

from troubleshooter_nb.compat.not_offered import not_offered as _not_offered
from troubleshooter_nb.compat.ptdbg_ascend.comparing import compare, compare_distributed
from troubleshooter_nb.messages import Message as _Message

__all__ = [
    "PrecisionDebugger",
    "acc_cmp_dump",
    "compare",
    "compare_distributed",
    "module_dump",
    "module_dump_end",
    "overflow_check",
    "parse",
    "register_hook",
    "seed_all",
    "set_backward_input",
    "set_dump_path",
    "set_dump_switch",
    "set_overflow_check_switch",
]

_RECORD = _Message("ptdbg_ascend.instead_of_recording")
_OVERFLOW = _Message("ptdbg_ascend.instead_of_overflow")

PrecisionDebugger = _not_offered("PrecisionDebugger", _RECORD)
acc_cmp_dump = _not_offered("acc_cmp_dump", _RECORD)
module_dump = _not_offered("module_dump", _RECORD)
module_dump_end = _not_offered("module_dump_end", _RECORD)
overflow_check = _not_offered("overflow_check", _OVERFLOW)
parse = _not_offered("parse", _Message("ptdbg_ascend.instead_of_parse"))
register_hook = _not_offered("register_hook", _RECORD)
seed_all = _not_offered("seed_all", _Message("ptdbg_ascend.instead_of_seeding"))
set_backward_input = _not_offered("set_backward_input", _RECORD)
set_dump_path = _not_offered("set_dump_path", _RECORD)
set_dump_switch = _not_offered("set_dump_switch", _RECORD)
set_overflow_check_switch = _not_offered("set_overflow_check_switch", _OVERFLOW)
