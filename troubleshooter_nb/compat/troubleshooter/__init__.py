"""TroubleShooter's calls under their old names, with the files, tables and values they gave.

``import troubleshooter_nb.compat.troubleshooter as ts`` takes the place of
``import troubleshooter as ts``; the rest of the script stays.
"""

from troubleshooter_nb.compat.troubleshooter import migrator, widget
from troubleshooter_nb.compat.troubleshooter.passed_over import proposal, tracking
from troubleshooter_nb.compat.troubleshooter.saving import save, save_grad
from troubleshooter_nb.compat.troubleshooter.widget import fix_random

__all__ = ["fix_random", "migrator", "proposal", "save", "save_grad", "tracking", "widget"]

# The release whose calls, names and tables these are.
__version__ = "1.0.19"
