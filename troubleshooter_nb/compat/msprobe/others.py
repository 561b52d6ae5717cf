"""Calls of msprobe that this package does not have: they exist and say what to use."""

from troubleshooter_nb.compat.not_offered import not_offered
from troubleshooter_nb.messages import Message

module_dump = not_offered("module_dump", Message("debugger.instead_of_names"))
module_dump_end = not_offered("module_dump_end", Message("debugger.instead_of_names"))
monitor = not_offered("PrecisionDebugger.monitor", Message("debugger.instead_of_record"))
random_save = not_offered("random_save", Message("debugger.instead_of_seeds"))
