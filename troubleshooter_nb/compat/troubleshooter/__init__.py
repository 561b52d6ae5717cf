"""TroubleShooter's calls under their old names, with the files, tables and values they gave.

``import troubleshooter_nb.compat.troubleshooter as ts`` takes the place of
``import troubleshooter as ts``; the rest of the script stays.
"""

from troubleshooter_nb.compat.not_offered import not_offered as _not_offered
from troubleshooter_nb.compat.troubleshooter import migrator, widget
from troubleshooter_nb.compat.troubleshooter.saving import save, save_grad
from troubleshooter_nb.messages import Message as _Message

__all__ = ["migrator", "proposal", "save", "save_grad", "tracking", "widget"]

proposal = _not_offered(
    "proposal",
    _Message("compat.instead_of_proposal"),
)
tracking = _not_offered(
    "tracking",
    _Message("compat.instead_of_tracking"),
)
