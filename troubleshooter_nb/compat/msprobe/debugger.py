"""msprobe's ``PrecisionDebugger`` on the recorder of `record`."""

from __future__ import annotations

import atexit
import os
import warnings
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

from troubleshooter_nb.capture.plan import Plan
from troubleshooter_nb.capture.recorder import Recorder
from troubleshooter_nb.capture.selection import Kept
from troubleshooter_nb.compat.msprobe.config import Config, config_of
from troubleshooter_nb.compat.msprobe.frameworks import MINDSPORE, TORCH, Recorded, is_of_torch
from troubleshooter_nb.compat.msprobe.generations import Generation, generation_of
from troubleshooter_nb.compat.msprobe.listed import changed_operators
from troubleshooter_nb.compat.msprobe.operators import harmless_operators
from troubleshooter_nb.compat.msprobe.others import monitor
from troubleshooter_nb.compat.msprobe.tensors import TensorFacts
from troubleshooter_nb.compat.msprobe.trees import Trees
from troubleshooter_nb.compat.msprobe.writer import Sought, StepWriter
from troubleshooter_nb.errors import (
    ArgumentError,
    ArgumentTypeError,
    NotOfferedError,
    TroubleshooterWarning,
    path_of,
)
from troubleshooter_nb.frameworks import require
from troubleshooter_nb.frameworks.named_operators import NamedOperator
from troubleshooter_nb.frameworks.recording import ApiCall
from troubleshooter_nb.messages import Message, told
from troubleshooter_nb.options import get_options
from troubleshooter_nb.render.missing_words import MissingRow, what_of

_WITH_MODULES = ("L0", "mix")
_LEVELS = {"L0": "module", "L1": "api", "mix": "both", "debug": "module"}


class PrecisionDebugger:
    """Records calls of modules and operators of a network, step by step, into msprobe's folders.

    One exists at a time: another call with the same arguments gives it again, one with others
    takes its place. The methods can be called on the class, too.

    Parameters
    ----------
    config_path : path, optional
        A json file of msprobe's keys. Without one, statistics of operators (level ``L1``) of all
        steps go to ``./dump_path``.
    task : {"statistics", "tensor", "structure", "overflow_check"}, optional
    dump_path : path, optional
    level : {"L0", "L1", "mix", "debug"}, optional
        Modules, operators, both, or what `save` is given.
    step : list of int or str, optional
        Numbers and ranges such as ``"4-6"``. These five take the place of the keys of the file.
    generation : {"1.2", "8.3", "26.2"}, optional
        Whose layout is written; default what ``TNB_MSPROBE_GENERATION`` says, else 8.3 for torch
        and 1.2 for MindSpore.
    operators : path, optional
        A yaml of operators that are recorded besides, or with ``-`` in front are not: their names
        by module (``torch.nn.functional: [glu, -relu]``).

    Raises
    ------
    ValueError, OSError, NotImplementedError
        For a configuration that cannot be, or asks for what is not built; the message says what to
        use.

    Notes
    -----
    Source: runs of msprobe 1.2.2, 8.3.3 and 26.2.0; ``docs/msprobe.md`` has the differences.
    """

    framework: ClassVar[Recorded]
    monitor = staticmethod(monitor)
    _instance: ClassVar[Any] = None

    def __new__(
        cls,
        config_path: str | PathLike[str] | None = None,
        task: str | None = None,
        dump_path: str | PathLike[str] | None = None,
        level: str | None = None,
        step: Any = None,
        *,
        generation: str | None = None,
        operators: str | PathLike[str] | None = None,
    ) -> PrecisionDebugger:
        """The one that exists, if it was made of the same or nothing is asked, else a new one."""
        known = PrecisionDebugger._instance
        given = (config_path, task, dump_path, level, step, generation, operators)
        if type(known) is cls and all(one is None for one in given):
            return known
        config = config_of(config_path, task, dump_path, level, step)
        framework = cls._framework_now()
        generation_of(generation, framework.generation)  # refused before anything is replaced
        asked = (config, generation, operators and str(operators))
        if known is not None and type(known) is cls and known._asked == asked:
            return known
        if known is not None:
            known._session.close()
            warnings.warn(told(Message("debugger.replaced")), TroubleshooterWarning, stacklevel=2)
        made = super().__new__(cls)
        made._asked = asked
        changed = changed_operators(None if operators is None else path_of(operators))
        made._session = Session(framework, config, generation, changed)
        PrecisionDebugger._instance = made
        return made

    _asked: tuple[Any, ...]
    _session: Session

    @classmethod
    def _framework_now(cls) -> Recorded:
        return cls.framework

    @classmethod
    def _now(cls) -> Session:
        instance = PrecisionDebugger._instance
        if instance is None:
            raise ArgumentError(Message("debugger.no_debugger"))
        session: Session = instance._session
        return session

    @classmethod
    def start(cls, model: Any = None, token_range: Any = None, rank_id: Any = None) -> None:
        """Begin to record.

        Parameters
        ----------
        model : module or cell, or list or tuple of them, optional
            Needed by the levels ``L0`` and ``mix``; with MindSpore at ``L1``, the primitives of its
            cells are recorded, too.
        token_range, rank_id
            Not built; leave them out.

        Raises
        ------
        ValueError
            Without a model where one is needed, or for what is none.
        """
        given = {"token_range": token_range, "rank_id": rank_id}
        for name, value in given.items():
            if value is not None:
                instead = Message("debugger.instead_of_leaving_out")
                raise NotOfferedError(
                    Message("debugger.option_not_built", name=name, instead=instead)
                )
        cls._now().start(model)

    @classmethod
    def stop(cls) -> None:
        """See no further calls; gradients of what was seen still arrive until `step`."""
        cls._now().stop()

    @classmethod
    def forward_backward_dump_end(cls) -> None:
        """`stop`, as it was called before."""
        cls._now().stop()

    @classmethod
    def step(cls) -> None:
        """Write what the step has recorded, and begin the next one."""
        cls._now().step()

    @classmethod
    def save(cls, variable: Any, name: str, save_backward: bool = True) -> None:
        """Write one value by a name, and its gradient when that arrives.

        Parameters
        ----------
        variable : tensor, number, str, or list, tuple, dict of such
        name : str
        save_backward : bool

        Raises
        ------
        TypeError
            For anything else.
        """
        cls._now().save(variable, name, save_backward)

    @classmethod
    def set_init_step(cls, step: int) -> None:
        """Have the step that comes next be called by a number."""
        if not isinstance(step, int) or isinstance(step, bool) or step < 0:
            raise ArgumentError(Message("debugger.whole", name="step", given=repr(step)))
        cls._now().step_number = step

    @classmethod
    def register_custom_api(cls, module: Any, api: str, api_prefix: str | None = None) -> None:
        """Record a function of one's own module or class, too, from the next `start` on.

        Parameters
        ----------
        module : object
        api : str
            Its name there.
        api_prefix : str, optional
            In front of its name in the files; default the name of the module.

        Raises
        ------
        ValueError
            If the module has no such function.
        """
        if not callable(getattr(module, api, None)):
            name = getattr(module, "__name__", str(module))
            raise ArgumentError(Message("debugger.no_api", module=name, api=api))
        prefix = str(api_prefix or getattr(module, "__name__", "Custom")).replace(".", "_")
        named = NamedOperator("", api, ApiCall(f"{prefix}.{api}"), module)
        cls._now().custom[id(module), api] = named

    @classmethod
    def restore_custom_api(cls, module: Any, api: str) -> None:
        """Undo `register_custom_api`."""
        cls._now().custom.pop((id(module), api), None)


class Session:
    """What one debugger records, in steps.

    Parameters
    ----------
    framework : Recorded
    config : Config
    asked : str or None
        Whose layout is written, see `generation_of`.
    changed : function
        Changes a list of operators, as a file asks for it.
    """

    def __init__(
        self, framework: Recorded, config: Config, asked: str | None, changed: Any
    ) -> None:
        self.framework, self.config, self._asked = framework, config, asked
        self._is_mixed = False  # networks of torch, by MindSpore's debugger
        self.step_number = 0
        self.custom: dict[tuple[int, str], NamedOperator] = {}
        self._changed = changed
        self._networks: dict[str, Any] = {}
        self._watched: tuple[dict[str, Any], dict[Any, NamedOperator]] = {}, {}
        self._recorder: Recorder | None = None
        self._earlier: list[Recorder] = []  # of this step, of other networks
        self._writer: StepWriter | None = None
        self._is_seeing = False
        self._stacks: dict[int, str] = {}
        self._told: set[str] = set()
        atexit.register(self.close)

    # The calls of a script

    def start(self, model: Any) -> None:
        """See calls from here on."""
        if self.config.level in _WITH_MODULES and model is None:
            raise ArgumentError(Message("debugger.needs_model", level=self.config.level))
        if model is not None and self.framework is MINDSPORE and is_of_torch(model):
            self.framework, self._is_mixed = TORCH, True
        networks = {} if model is None else self.framework.networks_of(model)
        if self._is_seeing or self.config.level == "debug" or not self._is_wanted():
            return
        self._prepare(networks)
        if self._recorder is not None:
            # What was written since the last window may not show, such as memory of numpy's.
            self._recorder.values.forget()
            self._recorder.install()
            self._is_seeing = True

    def stop(self) -> None:
        """See no further calls."""
        if self._recorder is not None and self._is_seeing:
            self._is_seeing = False
            self._recorder.stop_calls()

    def step(self) -> None:
        """Write the step."""
        self.stop()
        self._write()
        self.step_number += 1

    def save(self, variable: Any, name: str, with_gradient: bool) -> None:
        """Write one value."""
        if not isinstance(name, str):
            raise ArgumentTypeError(Message("debugger.name_kind", given=repr(name)))
        self._check_saved(variable, name)
        if not self._is_wanted():
            return
        self._prepare(self._networks)
        if self._recorder is not None and self._writer is not None:
            self._writer.saves_gradient = with_gradient
            self._recorder.values.forget()
            self._recorder.mark(name, variable)

    def close(self) -> None:
        """Write what is left, and take everything away."""
        atexit.unregister(self.close)
        try:
            self.stop()
            self._write()
        finally:
            if self._recorder is not None:
                self._recorder.remove()
            self._recorder = None

    # What is behind them

    @property
    def generation(self) -> Generation:
        """Whose layout is written."""
        return generation_of(self._asked, self.framework.generation)

    def _check_saved(self, value: Any, name: str) -> None:
        if isinstance(value, Mapping):
            value = [*value.values()]
        if isinstance(value, list | tuple):
            for part in value:
                self._check_saved(part, name)
            return
        is_plain = isinstance(value, bool | int | float | str)
        if not is_plain and not self.framework.recording.is_tensor(value):
            kind = type(value).__name__
            raise ArgumentTypeError(Message("debugger.value_kind", name=name, type=kind))

    def _is_wanted(self) -> bool:
        """Whether this step of this process is asked for."""
        config = self.config
        if config.steps and self.step_number not in config.steps:
            return False
        rank, size = require(self.framework.adapter).rank_and_size()
        if config.ranks and size == 1:
            self._warn("rank_alone", Message("debugger.rank_alone", ranks=sorted(config.ranks)))
        if config.ranks and rank not in config.ranks:
            return False
        return config.is_enabled()

    def _prepare(self, networks: Mapping[str, Any]) -> None:
        """Have a recorder of these networks and a writer of this step."""
        watched = {**networks}, {**self.custom}
        if self._recorder is None or watched != self._watched:
            self._networks, self._watched = watched[0], watched
            self._follow()
        if self._writer is None:
            self._writer = StepWriter(self._folder(), self._sought(), self._stacks, self._forget)
        else:
            self._writer.add_roots(self._roots())
        if self._recorder is not None:
            self._recorder.step = self.step_number

    def _follow(self) -> None:
        """Have a new recorder; the one before waits for its gradients until the step is over."""
        # Modules are not watched where nothing of them is written.
        seen = self._networks if self.config.level in _WITH_MODULES else {}
        recorder = Recorder(self.framework.recording, seen, self._plan(), self)
        if self._recorder is not None:
            recorder.follow(self._recorder)
            self._earlier.append(self._recorder)
        self._recorder = recorder

    def put(self, event: dict[str, Any], array: Any = None) -> None:
        """Take an event of the recorder."""
        if self._writer is not None:
            self._writer.put(event, array)

    def _forget(self) -> None:
        if self._recorder is not None:
            self._recorder.values.forget()

    def _write(self) -> None:
        recorder, writer = self._recorder, self._writer
        if recorder is None or writer is None:
            return
        for one in (*self._earlier, recorder):
            one.forget_step()
        self._writer = None
        if not writer.is_empty:
            self._tell_in_vain(writer)
            writer.write()
        for one in (*self._earlier, recorder):
            self._tell_missing(one, writer)
        for one in self._earlier:
            one.remove()
        self._earlier.clear()
        recorder.leave_parameters()

    def _tell_in_vain(self, writer: StepWriter) -> None:
        """Say once that no call is called what names and scope ask for."""
        if known := writer.in_vain:
            names, scope = [*self.config.wanted.names], [*self.config.wanted.scope]
            facts = {"step": self.step_number, "names": names, "scope": scope, "known": known}
            self._warn("in_vain", Message("debugger.nothing_matched", **facts))

    def _tell_missing(self, recorder: Recorder, writer: StepWriter) -> None:
        """Say once what could not be seen, and why no backward pass of torch was."""
        if self._is_mixed and writer.expects_backward and not writer.has_backward:
            facts = {"step": self.step_number, "folder": os.fspath(self.config.dump_path)}
            self._warn("no_backward", Message("debugger.no_backward", **facts))
        kinds = sorted({kind for kind, _ in recorder.missing} & _TOLD)
        for kind in kinds:
            what = _what_of_kind(kind, [place for one, place in recorder.missing if one == kind])
            self._warn(f"missing {kind}", Message("debugger.missing", what=what))

    def _warn(self, key: str, text: Message) -> None:
        if key not in self._told:
            self._told.add(key)
            warnings.warn(told(text), TroubleshooterWarning, stacklevel=4)

    def _folder(self) -> Path:
        rank, size = require(self.framework.adapter).rank_and_size()
        alone = f"proc{os.getpid()}" if self.generation.process_folder else "rank"
        name = f"rank{rank}" if size > 1 else alone
        return self.config.dump_path / f"step{self.step_number}" / name

    def _sought(self) -> Sought:
        config = self.config
        facts = TensorFacts(
            self.framework.name,
            self.generation,
            stores=config.task in ("tensor", "overflow_check") or bool(config.wanted.stored),
            checksums=config.checksums,
            slices=config.slices,
        )
        return Sought(
            config.task,
            config.level,
            facts,
            config.wanted,
            self.framework.module_word,
            self._roots(),
            self._leaves_out,
            config.extra_info,
            config.overflows,
        )

    def _roots(self) -> frozenset[str]:
        return frozenset(path for path in self._networks if _is_root(path))

    def _plan(self) -> Plan:
        level = self.config.level
        recording = self.framework.recording
        return Plan(
            level=_LEVELS[level],  # type: ignore[arg-type]
            parameters=level in _WITH_MODULES,
            keep=self._keep(),
            borrows=True,
            # A compiled function of MindSpore is told of as a whole, as the old tool does.
            compiled="eager" if self.framework.adapter == "torch" else "boundary",
            own_parts=level in _WITH_MODULES,
            fingerprints=False,
            operator_names=self._operators(),
            whole_gradients="none" if level == "L1" else "results",
            node_gradients=level in ("L1", "mix"),
            accumulated=self.generation.counts_gradients,
            trees=Trees(recording.is_tensor, self.framework.name == "pytorch"),
            keeps_all=True,
        )

    def _operators(self) -> Sequence[NamedOperator]:
        if self.config.level not in ("L1", "mix"):
            return ()
        listed = self.framework.watched(self.generation, [*self._networks.values()])
        return [*self._changed(listed, self.framework.operators), *self.custom.values()]

    def _keep(self) -> Any:
        config = self.config
        kept = self._kept()
        harmless = harmless_operators(self.framework.operators)
        if not self._leaves_out or config.level not in ("L1", "mix"):
            return kept
        return lambda site: None if site.path in harmless else kept

    @property
    def _leaves_out(self) -> bool:
        """Whether operators that move values only are left out."""
        if not self.config.wanted.is_all:
            return False
        keeps = self.config.keeps_harmless
        return self.generation.leaves_out_harmless if keeps is None else not keeps

    def _kept(self) -> Kept:
        config = self.config
        if config.task in ("tensor", "overflow_check") or config.checksums or config.slices:
            return "tensor"
        return "tensor" if config.wanted.stored else "summary"


# Kinds of what a recorder misses that change what a reader makes of a dump.
_TOLD = {
    "compiled",
    "no_values",
    "scripted",
    "traced",
    "fast_path",
    "unhookable",
    "graph_too_large",
    "generator",
}


def _what_of_kind(kind: str, where: Sequence[str]) -> str:
    """The sentence of what is missing of a kind."""
    row = MissingRow(kind, tuple(where), len(where), "")
    return what_of(row, str(get_options()["language"]))


def _is_root(path: str) -> bool:
    """Whether a path is that of a network itself, not of one inside a wrapper."""
    return not path or path.isdecimal()
