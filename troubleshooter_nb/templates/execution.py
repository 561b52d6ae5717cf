"""A notebook run in a fresh kernel, and the record that is left of it."""

from __future__ import annotations

import asyncio
import atexit
import os
import re
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from troubleshooter_nb.errors import FormatError, check_extra
from troubleshooter_nb.messages import Foreign, Message
from troubleshooter_nb.templates.outcome import exit_code_in
from troubleshooter_nb.templates.parameters import (
    FILLED_IN,
    FORM,
    check_names,
    source_of,
    tagged,
)
from troubleshooter_nb.templates.private import Clean, clean, cleaner
from troubleshooter_nb.templates.shipped import Template
from troubleshooter_nb.templates.translated import in_language, language_of

OnCell = Callable[[Message], object]
# What a line of progress leaves behind, where it was shown.
_NOTHING = {"text/plain": ""}
_COLOURS = re.compile(r"\x1b\[[\d;]*m")
_MOST_SAID = 300
_NO_NOTEBOOK = (ValueError, KeyError, AttributeError, TypeError, RecursionError)
_OF_A_RUN = ("widgets", "papermill", "execution", "ExecuteTime")


@dataclass(frozen=True)
class Record:
    """A notebook as it was executed.

    Attributes
    ----------
    notebook : nbformat.NotebookNode
        With the outputs of all cells that ran.
    problem : Message or None
        Why not all did.
    is_interrupted : bool
        Ctrl-C is why.
    """

    notebook: Any
    problem: Message | None = None
    is_interrupted: bool = False

    @property
    def exit_code(self) -> int | None:
        """That of the comparison, as `outcome` told it; None where no cell told any."""
        return exit_code_in(self.notebook) if self.problem is None else None

    @property
    def verdict(self) -> str:
        """What the cell tagged ``verdict`` printed; nothing where there is none."""
        place = tagged(self.notebook.cells, "verdict")
        if place is None:
            return ""
        outputs = self.notebook.cells[place].get("outputs", ())
        return "".join(one.get("text", "") for one in outputs).strip()


def check_runner() -> None:
    """Raise ExtraMissingError where what runs notebooks is not installed."""
    for package in ("nbformat", "nbclient", "ipykernel"):
        check_extra(package, Message("notebooks.no_runner", package=package))


def read_notebook(path: Path) -> Any:
    """A notebook from a file.

    Raises
    ------
    FormatError
        If it is none, or not one of Python.
    """
    import nbformat

    try:
        notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
        nbformat.validate(notebook)
    except (*_NO_NOTEBOOK, nbformat.ValidationError) as error:
        said = Foreign(str(error).partition("\n")[0][:200])
        raise FormatError(Message("notebooks.no_notebook", file=path.name, problem=said)) from None
    about = notebook.metadata
    language = about.get("kernelspec", {}).get("language") or about.get("language_info", {}).get(
        "name", "python"
    )
    if str(language).lower() != "python":
        of = Foreign(str(language))
        raise FormatError(Message("notebooks.other_language", file=path.name, kernel=of))
    return notebook


def fill_in(notebook: Any, values: Mapping[str, Any], *, file: str) -> None:
    """Put values into a cell of their own behind the parameters, as papermill does.

    The record then shows both the form and what was filled in. What an earlier run filled in is
    replaced.

    Raises
    ------
    ArgumentError
        For a name that the notebook has no parameter of, and where it has none at all.
    """
    if not values:
        return
    check_names(notebook, values, file=file)
    from nbformat.v4 import new_code_cell

    cell = new_code_cell(source_of(values), metadata={"tags": [FILLED_IN]})  # type: ignore[no-untyped-call]
    # Of no chance, so that the same run gives the same file; older notebooks have no ids.
    cell["id"] = FILLED_IN
    if (notebook.nbformat, notebook.nbformat_minor) < (4, 5):
        del cell["id"]
    earlier = tagged(notebook.cells, FILLED_IN)
    if earlier is not None:
        del notebook.cells[earlier]
    place = tagged(notebook.cells, FORM)
    notebook.cells.insert((place or 0) + 1, cell)


def execute(
    path: Path,
    values: Mapping[str, Any] | None = None,
    *,
    folder: Path | None = None,
    seconds: float | None = None,
    on_cell: OnCell | None = None,
) -> Record:
    """Run a notebook with other parameters; no file is written but by the notebook itself.

    It runs in the Python of this process, whatever the notebook says, and reads in the language
    that its parameter ``language`` is given, where its cells carry that. Neither clock, widget
    state, home folder nor the folder it ran in are in the record: the same run gives the same
    record.

    Parameters
    ----------
    path : Path
        Of the notebook.
    values : mapping of str to bool, int, float, str, list, dict or None, optional
        Parameters by name.
    folder : Path, optional
        Where it runs, which is where relative paths begin; default the current folder.
    seconds : float, optional
        A cell that takes longer ends the run; default none does.
    on_cell : callable, optional
        Is told which cell begins; it is called in another thread.

    Raises
    ------
    ExtraMissingError, FormatError, ArgumentError
        If it cannot run: see `check_runner`, `read_notebook`, `fill_in`.
    """
    check_runner()
    notebook = read_notebook(path)
    notebook = in_language(notebook, language_of(notebook, values or {}))
    fill_in(notebook, values or {}, file=path.name)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    where = Path.cwd() if folder is None else folder
    run = _Run(notebook, where, seconds, on_cell)
    run.run()
    _make_presentable(notebook, where)
    return Record(notebook, run.problem, run.is_interrupted)


class _Run:
    """One run of a notebook, in a thread of its own: Ctrl-C comes to the one that waits."""

    def __init__(
        self,
        notebook: Any,
        folder: Path,
        seconds: float | None,
        on_cell: OnCell | None,
    ) -> None:
        self.notebook, self.folder = notebook, folder
        self.seconds, self.on_cell = seconds, on_cell
        self.cells = [c for c in notebook.cells if c.cell_type == "code" and c.source.strip()]
        self.number = 0
        self.heading = ""
        self.problem: Message | None = None
        self.is_interrupted = False
        self._ended = threading.Event()
        self._fault: BaseException | None = None
        self._client: Any = None
        self._manager: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    def run(self) -> None:
        """Run all cells, or those before the first that fails."""
        thread = threading.Thread(target=self._in_thread, name="notebook")
        thread.start()
        # Not `join`, which takes an interrupt for the end of the thread (Python before 3.13).
        while not self._ended.is_set():
            try:
                self._ended.wait()
            except KeyboardInterrupt:
                if self.is_interrupted:  # a second one: the kernel sees that we are gone
                    raise
                self.is_interrupted = True
                if self._client is not None:  # which waits for a cell to end otherwise
                    self._client.shutdown_kernel = "immediate"
                if self._loop is not None and self._task is not None:
                    self._loop.call_soon_threadsafe(self._task.cancel)
        thread.join()
        if self._fault is not None:
            raise self._fault

    def _in_thread(self) -> None:
        try:
            asyncio.run(self._execute())
        except BaseException as error:  # raised again where the caller is
            self._fault = error
        finally:
            self._ended.set()

    async def _execute(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        from nbclient.exceptions import (
            CellExecutionError,
            CellTimeoutError,
            DeadKernelError,
        )

        with tempfile.TemporaryFile("w+", errors="replace") as said:
            client = self._client = self._new_client()
            try:
                if not self.is_interrupted:
                    await client.async_execute(
                        cleanup_kc=True,
                        env={"GLOG_v": "4"} | os.environ,
                        stdout=said,
                        stderr=said,
                    )
            except CellExecutionError as error:
                self.problem = self._raised(error.ename, error.evalue)
            except CellTimeoutError:
                self.problem = self._of_cell("timed_out", seconds=self.seconds or 0.0)
            except (DeadKernelError, RuntimeError, asyncio.CancelledError) as error:
                self.problem = self._died(error, said)
            finally:
                await self._leave_nothing(client)
            if self.is_interrupted:
                self.problem = (
                    self._of_cell("interrupted")
                    if self.number
                    else Message("notebooks.interrupted_early")
                )

    async def _leave_nothing(self, client: Any) -> None:
        """End a kernel whose start failed or was interrupted, which nbclient leaves to the exit."""
        atexit.unregister(client._cleanup_kernel)
        if self._manager.has_kernel:
            await self._manager.shutdown_kernel(now=True)

    def _new_client(self) -> Any:
        from jupyter_client.kernelspec import NATIVE_KERNEL_NAME, KernelSpecManager
        from jupyter_client.manager import AsyncKernelManager
        from nbclient import NotebookClient

        # No folder of kernels is looked into: what is called python3 there may be another Python.
        kernels = KernelSpecManager(kernel_dirs=[])
        self._manager = AsyncKernelManager(
            kernel_name=NATIVE_KERNEL_NAME, kernel_spec_manager=kernels
        )
        return NotebookClient(
            self.notebook,
            km=self._manager,
            timeout=None if self.seconds is None else max(1, round(self.seconds)),
            record_timing=False,
            store_widget_state=False,
            resources={"metadata": {"path": str(self.folder)}},
            on_cell_start=self._pass,
            on_cell_execute=self._begin,
            # ipykernel warns at every start that it talks over local sockets.
            extra_arguments=["--IPKernelApp.log_level=40"],
        )

    def _pass(self, cell: Any, cell_index: int) -> None:
        """Remember under which heading the cells stand that follow."""
        if cell.cell_type == "markdown":
            lines = [line for line in cell.source.splitlines() if re.match("#+ ", line)]
            self.heading = lines[-1].lstrip("# ").strip() if lines else self.heading

    def _begin(self, cell: Any, cell_index: int) -> None:
        self.number += 1
        if self.on_cell is None:
            return
        at = {"number": self.number, "total": len(self.cells)}
        if self.heading:
            self.on_cell(Message("notebooks.running_under", **at, heading=self.heading))
        else:
            self.on_cell(Message("notebooks.running", **at))

    def _of_cell(self, event: str, **values: Any) -> Message:
        """What happened in the cell that ran last, by its number in the record."""
        if self.heading:
            cell = Message("notebooks.cell_under", number=self.number, heading=self.heading)
        else:
            cell = Message("notebooks.cell", number=self.number)
        return Message(f"notebooks.{event}", cell=cell, **values)

    def _raised(self, kind: str, what: str) -> Message:
        what = cleaner(self.folder)(_COLOURS.sub("", what)).strip().partition("\n")[0]
        if not what:
            return self._of_cell("raised_plain", kind=Foreign(kind))
        return self._of_cell("raised", kind=Foreign(kind), what=Foreign(what[:_MOST_SAID]))

    def _died(self, error: BaseException, said: IO[str]) -> Message:
        """That the kernel is gone, and the last thing that it said."""
        said.seek(0)
        text = cleaner(self.folder)(said.read())
        lines = [line for line in text.splitlines() if line.strip()]
        if not self.number:
            what = Foreign((lines or [str(error) or type(error).__name__])[-1][:_MOST_SAID])
            return Message("notebooks.no_start", what=what)
        if lines:
            return self._of_cell("died_saying", what=Foreign(lines[-1][:_MOST_SAID]))
        return self._of_cell("died")


def _make_presentable(notebook: Any, folder: Path) -> None:
    """Take out of a record what chance or its place on this machine put into it."""
    from nbformat import from_dict

    by = cleaner(folder)
    for cell in notebook.cells:
        if "outputs" in cell:
            kept = [one for one in cell.outputs if one.get("data") != _NOTHING]
            cell.outputs = [from_dict(clean(one, by)) for one in _in_one_piece(kept)]  # type: ignore[no-untyped-call]
        if {FILLED_IN, FORM}.intersection(cell.metadata.get("tags", ())):
            cell.source = by(cell.source)
        cell.metadata = _lasting(cell.metadata, by)
    notebook.metadata = _lasting(notebook.metadata, by)


def _lasting(metadata: Any, by: Clean) -> Any:
    """Metadata without what other programs noted of one run."""
    from nbformat import from_dict

    kept = {key: said for key, said in metadata.items() if key not in _OF_A_RUN}
    return from_dict(clean(kept, by))  # type: ignore[no-untyped-call]


def _in_one_piece(outputs: list[Any]) -> list[Any]:
    """What was printed comes in any number of pieces, as the clock has it."""
    found: list[Any] = []
    for one in outputs:
        is_text = one.output_type == "stream"
        if is_text and found and found[-1].get("name") == one.name:
            found[-1].text += one.text
        else:
            found.append(one)
    return found


def missing_needs(template: Template) -> list[str]:
    """Frameworks that the example of a template needs and this Python lacks."""
    return [name for name in template.needs if find_spec(name) is None]
