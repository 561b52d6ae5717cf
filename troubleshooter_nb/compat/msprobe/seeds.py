"""``seed_all`` as msprobe documents it."""

from __future__ import annotations

from troubleshooter_nb.capture import determinism
from troubleshooter_nb.errors import NotOfferedError
from troubleshooter_nb.messages import Message


def seed_all(
    seed: int = 1234, mode: bool = False, rm_dropout: bool = True, is_enhanced: bool = False
) -> determinism.Seeded:
    """Seed everything, and take dropout away unless told otherwise.

    Parameters
    ----------
    seed, mode, rm_dropout
        As in `troubleshooter_nb.seed_all`.
    is_enhanced : bool
        Not built: it seeds anew before every draw, so that all draws are alike.

    Returns
    -------
    Seeded
        With ``undo()``, also a context.

    Raises
    ------
    NotImplementedError
        For `is_enhanced`.
    ValueError, TypeError
        As `troubleshooter_nb.seed_all`.

    Notes
    -----
    The default of `rm_dropout` is that of the documents and of msprobe 1.2; since 8.3 the tool's
    own is False.
    """
    if is_enhanced:
        instead = Message("debugger.instead_of_leaving_out")
        raise NotOfferedError(
            Message("debugger.option_not_built", name="is_enhanced", instead=instead)
        )
    return determinism.seed_all(seed, mode, rm_dropout)
