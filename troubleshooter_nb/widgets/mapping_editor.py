"""The widget that edits a weight map or a pairing: a view of a session, and its static twin."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import warnings
from os import PathLike
from pathlib import Path
from typing import Any

import anywidget
import traitlets
from IPython.display import display

from troubleshooter_nb.collector import uncollected
from troubleshooter_nb.errors import ArgumentTypeError, TroubleshooterWarning
from troubleshooter_nb.formats import as_dump
from troubleshooter_nb.messages import Message
from troubleshooter_nb.options import get_options, option_context
from troubleshooter_nb.pairing import Pairing
from troubleshooter_nb.render.html import element, fragment, paragraph
from troubleshooter_nb.weight_map import WeightMap
from troubleshooter_nb.widgets.editing import PairingSession, WeightMapSession, open_session
from troubleshooter_nb.widgets.page_files import script, style
from troubleshooter_nb.widgets.sendable import sendable
from troubleshooter_nb.widgets.words import editor_word, front_end_note, words_of

# The twin is drawn again after every change, so it is shorter than the repr it comes from.
_TWIN_BYTES = 100_000
# Seconds without a question before the twins are drawn, which takes longer than any answer.
_QUIET = 0.15
# Nor are they drawn later than this, however many questions come.
_LATEST = 1.0
_TALLEST = 600  # pixels: with rows of 26 pixels, what is drawn stays below 60 rows


class MappingEditor(anywidget.AnyWidget):
    """Pair, unpair and transform with mouse or keyboard; `value` is always complete.

    Notes
    -----
    Rows travel as messages that the page asks for and are no state of the widget: a saved notebook
    holds only its code, and what was edited stands in the table below it.
    """

    # Texts: of a path anywidget keeps a watcher for ever, and with it every editor.
    _esm = script("mapping_editor.js")
    _css = style("mapping_editor.css")
    _height = traitlets.Int(320).tag(sync=True)
    # What the page shows until the kernel answers, and for ever without one.
    _waiting = traitlets.Unicode().tag(sync=True)
    _lonely = traitlets.Unicode().tag(sync=True)

    def __init__(self, session: WeightMapSession | PairingSession, *, height: int = 320) -> None:
        language = session.language
        super().__init__(
            _height=max(130, min(int(height), _TALLEST)),
            _waiting=editor_word("waiting", language),
            _lonely=editor_word("lonely", language),
        )
        self._session = session
        self._twins: list[Any] = []
        self._due = False  # the twins show an older version
        self._due_at = 0.0  # when they have to be drawn, in the loop's time
        self._timer: asyncio.TimerHandle | None = None
        self._language = language
        # Messages come in a context of their own, in which nothing is set.
        self._options = get_options() | {"language": language}
        self.on_msg(self._heard)

    @property
    def value(self) -> Any:
        """The current version, a complete frozen `WeightMap` or `Pairing`.

        Another one may be assigned; that can be undone like any other change.
        """
        return self._session.value

    @value.setter
    def value(self, value: Any) -> None:
        if type(value) is not type(self.value):
            types = {"wanted": type(self.value).__name__, "got": type(value).__name__}
            raise ArgumentTypeError(Message("editor.not_this", **types))
        session: Any = self._session
        self._tell(session.replace(value, session.word("did_set")))

    def undo(self) -> Any:
        """The version before, which is current again; the same where there is none."""
        self._tell(self._session.answer({"op": "undo"}))
        return self.value

    def redo(self) -> Any:
        """The version that was undone last; the same where there is none."""
        self._tell(self._session.answer({"op": "redo"}))
        return self.value

    def save(self, path: str | PathLike[str], kind: str | None = None) -> Path:
        """Write the current version; raises as `write_weight_map` or `write_mapping` does.

        Parameters
        ----------
        path : str or path-like
            ``~`` is the home folder.
        kind : {"data", "layer", "cell", "api"}, optional
            Of a pairing; default the last word of the file's name (``net_layer.yaml``), else data.

        Warns
        -----
        TroubleshooterWarning
            About what the file leaves out.
        """
        written, left_out = self._session.saved(str(path), kind)
        for said in left_out:
            warnings.warn(said, TroubleshooterWarning, stacklevel=2)
        return written

    def __repr__(self) -> str:
        """What is being edited."""
        between = " | " if self._options["ascii"] else " · "
        counts = between.join(self._session.summary())
        return editor_word("of_what", self._language, counts=counts)

    def _heard(self, _: object, message: dict[str, Any], __: object = None) -> None:
        """Answer the page first, then draw the twin again."""
        before = self._session.revision
        answer: dict[str, Any] = {"type": "error", "text": editor_word("failed", self._language)}
        answer |= {"re": message.get("re"), "revision": before}
        try:
            with uncollected():
                answer = self._session.answer(message)
            if message.get("op") == "ready":
                answer["words"] = words_of("editor", self._language)
        finally:
            if self._session.revision != before:
                self._due = bool(self._twins)
            self.send(sendable({**answer, "due": self._due}))
            self._soon()

    def _soon(self) -> None:
        """Draw the twins when the page has had its answers, at once where no kernel runs."""
        if not self._due:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._draw()
            return
        if self._timer is None:
            self._due_at = loop.time() + _LATEST
        else:
            self._timer.cancel()
        self._timer = loop.call_at(min(loop.time() + _QUIET, self._due_at), self._draw_aside, loop)

    def _draw_aside(self, loop: asyncio.AbstractEventLoop) -> None:
        """Draw in a thread, so that the page has its answers meanwhile; the value is frozen."""
        self._timer = None
        value, context = self.value, contextvars.copy_context()

        def draw() -> None:
            bundle = context.copy().run(self._twin, value)
            loop.call_soon_threadsafe(self._show, value, bundle, context=context)

        threading.Thread(target=draw, daemon=True).start()

    def _draw(self) -> None:
        """Draw now: what Python changes is shown when the cell has run, and saved with it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._twins:
            self._show(self.value, self._twin(self.value))

    def _show(self, value: object, bundle: dict[str, str]) -> None:
        if value is not self.value:
            return  # a later change draws its own
        self._due = False
        for twin in self._twins:
            twin.update(bundle, raw=True)
        self.send({"type": "drawn", "re": None, "revision": self._session.revision})

    def _tell(self, answer: dict[str, Any]) -> None:
        """Tell the page what changed without being asked."""
        if answer["type"] == "state":
            answer["words"] = words_of("editor", self._language)
        said = {**answer, "re": None, "revision": self._session.revision}
        self.send(sendable({**said, "due": bool(self._twins)}))
        self._draw()

    def _twin(self, value: WeightMap | Pairing) -> dict[str, str]:
        """The value's repr, or why there is none: a page waits for it."""
        budget = min(int(str(self._options["html_bytes"])), _TWIN_BYTES)
        note = str(front_end_note("editor", self._language))
        with option_context(**(self._options | {"html_bytes": budget})):
            try:
                drawn = {"text/html": note + value._repr_html_(), "text/plain": repr(value)}
            except Exception as error:
                said = f"{type(value).__name__}: {type(error).__name__}: {error}"
                drawn = {"text/html": str(element("pre", said)), "text/plain": said}
        return dict(sendable(drawn))

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The widget, and a sentence for whatever cannot show one; the twin is its own output."""
        shown = super()._repr_mimebundle_()
        bundle = dict(shown[0] if isinstance(shown, tuple) else shown or {})
        said = editor_word("static", self._language)
        bundle["text/html"] = str(fragment(paragraph(element("em", said))))
        bundle["text/plain"] = said
        return bundle, {}

    def _ipython_display_(self) -> None:
        show: Any = display
        bundle, _ = self._repr_mimebundle_()
        show(bundle, raw=True)
        number = len(self._twins) + 1
        # The id is for the messages of this session only; no file holds it.
        handle = show(self._twin(self.value), raw=True, display_id=f"{self.model_id}-{number}")
        if handle is not None:
            self._twins.append(handle)


def make_editor(
    value: object, *, source: object = None, target: object = None, height: int = 320
) -> MappingEditor:
    """The editor of a weight map or a pairing; raises as `edit` does."""
    if not isinstance(value, (WeightMap, Pairing)):
        is_file = value is None or isinstance(value, (str, Path))
        id = f"editor.takes{'_no_file' if is_file else ''}"
        raise ArgumentTypeError(Message(id, got=type(value).__name__))
    given: list[Any] = [source, target]
    values = [
        None if one is None else as_dump(one, word)
        for one, word in zip(given, ("source", "target"), strict=True)
    ]
    language = str(get_options()["language"])
    return MappingEditor(open_session(value, values[0], values[1], language), height=height)
