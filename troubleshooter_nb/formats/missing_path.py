"""What to say about a path that does not exist."""

from __future__ import annotations

import os
from pathlib import Path

from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming.closeness import close_names


def not_there(path: Path) -> str:
    """That it does not exist, how far it does, and what is called like the part that is missing.

    Of a link to what is gone, where it leads.
    """
    if link := next(
        (up for up in (path, *path.parents) if up.is_symlink() and not up.exists()), None
    ):
        return Message("files.link_to_nothing", link=link, target=os.readlink(link))
    exists = next((up for up in path.absolute().parents if up.exists()), Path("/"))
    missing = path.absolute().relative_to(exists).parts[0]
    inside = os.listdir(exists) if exists.is_dir() and os.access(exists, os.R_OK) else []
    close = close_names(missing, inside)
    hint = Message("files.it_has", names=close) if close else ""
    return Message("files.not_there", path=path, exists=exists, inside=hint)
