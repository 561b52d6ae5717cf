"""The door to the two widgets: nothing of Jupyter is imported before one is asked for."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from troubleshooter_nb.errors import ArgumentTypeError, ExtraMissingError
from troubleshooter_nb.messages import Message, told

if TYPE_CHECKING:
    from troubleshooter_nb.comparison import Comparison
    from troubleshooter_nb.dump import Dump
    from troubleshooter_nb.pairing import Pairing
    from troubleshooter_nb.weight_map import WeightMap

_INSTALL = "pip install 'troubleshooter_nb[notebook]'"
# What the widgets import of Jupyter.
_NEEDED = ("anywidget", "ipywidgets", "IPython.display")


def edit(
    value: WeightMap | Pairing, *, source: object = None, target: object = None, height: int = 320
) -> Any:
    """A widget that edits a weight map or a pairing with mouse or keyboard.

    Parameters
    ----------
    value : WeightMap or Pairing
        What to start from; it stays as it is.
    source, target : Dump, path or mapping of str to array, optional
        The values on both sides of a weight map, for what they say of a row; names and shapes as
        well, of a side that the map knows nothing of, as of one just read from a file. A pairing
        has its dumps.
    height : int
        Of the list of pairs, in pixels; at most 600.

    Returns
    -------
    MappingEditor
        Its `value` is always a complete `WeightMap` or `Pairing`. Under the widget stands a table
        of its own that follows every change, so that the saved notebook shows the last state.

    Raises
    ------
    ExtraMissingError
        If anywidget is not installed or cannot be imported; a notebook shows the sentence alone.
    TypeError
        For anything else to edit, and for values beside a pairing.
    """
    _require("edit")
    from troubleshooter_nb.pairing import Pairing
    from troubleshooter_nb.widgets.mapping_editor import make_editor

    given = [word for word, one in (("source", source), ("target", target)) if one is not None]
    if isinstance(value, Pairing) and given:
        id = f"editor.pairing_takes_no_{given[0] if len(given) == 1 else 'source_target'}"
        raise ArgumentTypeError(Message(id))
    return make_editor(value, source=source, target=target, height=height)


def explore(value: Comparison | Dump) -> Any:
    """A widget to sort, filter and drill down in a comparison or a dump.

    Parameters
    ----------
    value : Comparison or Dump

    Returns
    -------
    Explorer
        What is selected in it can be read in Python.

    Raises
    ------
    ExtraMissingError
        If anywidget is not installed or cannot be imported; a notebook shows the sentence alone.
    TypeError
        For anything else to explore.
    """
    _require("explore")
    from troubleshooter_nb.widgets.explorer import make_explorer

    return make_explorer(value)


def _require(call: str) -> None:
    """Raise unless anywidget is there; IPython shows the sentence instead of a traceback."""
    broken: ImportError | None = None
    missing = [name for name in ("anywidget", "ipywidgets") if find_spec(name) is None]
    needed: str = missing[0] if missing else ""
    if len(missing) > 1:
        needed = Message("widgets.two", first=missing[0], second=missing[1])
    for name in () if missing else _NEEDED:
        try:
            import_module(name)
        except ImportError as error:  # it is there, and something that it needs is not
            needed, broken = Message("widgets.broken", name=name, error=error), error
            break
    if not needed:
        return
    facts = {"call": f"{call}()", "needed": needed, "install": _INSTALL}
    said = Message("widgets.needs", **facts, instead=Message(f"widgets.without_{call}"))
    wrong = ExtraMissingError(said)
    wrong._render_traceback_ = lambda: [told(said)]  # type: ignore[attr-defined]
    raise wrong from broken
