"""TroubleShooter's calls under their old names, with the files, tables and values they gave.

``import troubleshooter_nb.compat.troubleshooter as ts`` takes the place of
``import troubleshooter as ts``; the rest of the script stays.
"""

from troubleshooter_nb.compat.troubleshooter import migrator, widget
from troubleshooter_nb.compat.troubleshooter.not_offered import not_offered as _not_offered
from troubleshooter_nb.compat.troubleshooter.saving import save, save_grad

__all__ = ["migrator", "proposal", "save", "save_grad", "tracking", "widget"]

proposal = _not_offered(
    "proposal",
    "it explained error texts of MindSpore 1; read the error itself, and for differing values use "
    "troubleshooter_nb.compare",
)
tracking = _not_offered(
    "tracking",
    "to find the first nan, save() the tensors along the net and look at the column nan_count of "
    "troubleshooter_nb.open_dump(folder).summarise().to_dataframe()",
)
