"""One run of msprobe's comparison: which tables two paths make, and what is said beside each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from troubleshooter_nb.compat.msprobe.compare.advice import advice_on, write_advice
from troubleshooter_nb.compat.msprobe.compare.agreement import beside
from troubleshooter_nb.compat.msprobe.compare.config import Config
from troubleshooter_nb.compat.msprobe.compare.files import Names, check_xlsx, write_table
from troubleshooter_nb.compat.msprobe.compare.highlights import highlight
from troubleshooter_nb.compat.msprobe.compare.kernels import kernel_tables
from troubleshooter_nb.compat.msprobe.compare.pairs import Mappings, pair_values
from troubleshooter_nb.compat.msprobe.compare.releases import Release
from troubleshooter_nb.compat.msprobe.compare.rows import Mode, Row, measured_rows, mode_of
from troubleshooter_nb.compat.msprobe.compare.tables import NAMES, Layout, Table, table_of
from troubleshooter_nb.compat.msprobe.compare.values import NOTHING, Side, read_side
from troubleshooter_nb.compat.msprobe.compare.verdicts import judge
from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import FormatError, OptionError, PathNotFoundError
from troubleshooter_nb.formats import open_dump
from troubleshooter_nb.formats.missing_path import not_there
from troubleshooter_nb.formats.msprobe_layout import DOCUMENTS, folders_in, is_rank_folder
from troubleshooter_nb.formats.pairing_rules import MappingFile
from troubleshooter_nb.formats.yaml_text import dumped
from troubleshooter_nb.messages import Message, message_of, told

Say = Callable[[str], None]


@dataclass(frozen=True)
class Request:
    """What a run is asked for.

    Attributes
    ----------
    config : Config
        What is compared.
    output : Path
        A folder, which is made.
    release : Release
    wants_stack : bool
    gives_advice : bool
    fuzzy : bool
    mappings : Mappings
    colors : bool
    suffix : str
        Of the tables.
    """

    config: Config
    output: Path
    release: Release
    wants_stack: bool = False
    gives_advice: bool = True
    fuzzy: bool = False
    mappings: Mappings = field(default_factory=Mappings)
    colors: bool = True
    suffix: str = ".xlsx"

    @property
    def target(self) -> Path:
        """Where the target is."""
        return self.config.target

    @property
    def golden(self) -> Path:
        """Where the golden dump is."""
        return self.config.golden


def run(request: Request, say: Say) -> list[Path]:
    """Write the tables of two dumps.

    Parameters
    ----------
    request : Request
    say : callable
        Takes lines of the screen.

    Returns
    -------
    list of Path
        The files that were written.

    Raises
    ------
    FileNotFoundError, FormatError, OptionError, ExtraMissingError, WriteError
        If a path holds no dump, something does not go together, or nothing can be written. Of
        several ranks the others are compared before one that cannot be read is an error.
    """
    for path in (request.target, request.golden):
        if not path.exists():
            raise PathNotFoundError(Message("msprobe_compare.no_json", why=not_there(path)))
    if request.suffix == ".xlsx":
        check_xlsx()
    if request.target.is_dir() != request.golden.is_dir():
        raise FormatError(Message("msprobe_compare.file_and_folder"))
    if request.config.is_of_kernels or _is_of_kernels(request.target):
        return _run_kernels(request, say)
    jobs = _jobs(request, say)
    written: list[Path] = []
    failed = []
    with Names(request.output) as names:
        for job in jobs:
            try:
                written += _write(request, job, names, say)
            except (FormatError, OSError) as error:
                if len(jobs) == 1:
                    raise
                failed.append(job.paths[0].name)
                said = {"rank": failed[-1], "why": message_of(error)}
                say(told(Message("msprobe_compare.rank_failed", **said)))
    if failed:
        raise FormatError(Message("msprobe_compare.ranks_failed", ranks=failed, count=len(jobs)))
    return written


@dataclass(frozen=True)
class _Job:
    """One table: what it is of, the beginnings of the names of its files, and how it is paired."""

    paths: tuple[Path, Path]
    stem: str
    advice: str
    of_ranks: bool = False


def _jobs(request: Request, say: Say) -> list[_Job]:
    if not request.target.is_dir() or is_rank_folder(request.target):
        return [_Job((request.target, request.golden), "", "advisor")]
    if request.wants_stack:
        raise OptionError(Message("msprobe_compare.stack_of_ranks"))
    folders = [_ranks_in(path) for path in (request.target, request.golden)]
    both = _met(*folders)
    for at, name in enumerate(("npu_path", "bench_path")):
        if alone := sorted(set(folders[at]) - {pair[at] for pair in both}):
            said = {"side": name, "ranks": alone}
            say(told(Message("msprobe_compare.ranks_alone", **said)))
    jobs = []
    for mine, theirs in both:
        if mine != theirs:
            say(told(Message("msprobe_compare.other_rank", target=mine, golden=theirs)))
        place = f"{mine}-{theirs}" if request.release.names_both_ranks else mine
        paths = folders[0][mine], folders[1][theirs]
        jobs.append(_Job(paths, f"_{place}", f"advisor_{place}", of_ranks=True))
    return jobs


def _is_of_kernels(path: Path) -> bool:
    if not path.is_dir() or is_rank_folder(path):
        return False
    return any(child.name.startswith("rank_") for child in folders_in(path))


def _run_kernels(request: Request, say: Say) -> list[Path]:
    """One table per rank and step."""
    if request.wants_stack or request.fuzzy or request.mappings or not request.gives_advice:
        raise OptionError(Message("msprobe_compare.kernel_flags"))
    if not request.target.is_dir():
        raise FormatError(Message("msprobe_compare.no_kernels", folder=str(request.target)))
    config, written = request.config, []
    found = kernel_tables(config.target, config.golden, config.ranks, config.steps, request.release)
    for side, places in found.alone.items():
        if places:
            said = {"side": side, "places": places}
            say(told(Message("msprobe_compare.places_alone", **said)))
    sides = [open_dump(path) for path in (request.target, request.golden)]
    with Names(request.output) as names:
        for one in found.tables:
            path = names.path(f"compare_result_{one.rank}_{one.step}", request.suffix)
            write_table(path, one.table)
            written.append(path)
            _say_counts(one.table, one.unread, say)
            say(told(Message("msprobe_compare.written", file=str(path))))
            left, right = (side.select(rank=one.rank, step=one.step) for side in sides)
            _say_beside(request, left, right, one.table, say)
    if not any(_has_met(one.table) for one in found.tables):
        raise FormatError(Message("msprobe_compare.none_met"))
    return written


def _ranks_in(path: Path) -> dict[str, Path]:
    children = folders_in(path)
    found = {child.name: child for child in children if is_rank_folder(child)}
    if found:
        return found
    steps = [c.name for c in children if any(is_rank_folder(inner) for inner in folders_in(c))]
    if steps:
        said = {"folder": str(path), "steps": steps}
        raise FormatError(Message("msprobe_compare.root_of_steps", **said))
    raise FormatError(Message("msprobe_compare.no_ranks", folder=str(path), files=DOCUMENTS))


def _met(target: dict[str, Path], golden: dict[str, Path]) -> list[tuple[str, str]]:
    """Folders of the same name; two runs of one process each meet whatever theirs is called."""
    if len(target) == len(golden) == 1:
        return [(next(iter(target)), next(iter(golden)))]
    both = [(name, name) for name in target if name in golden]
    if not both:
        said = {"target": sorted(target), "golden": sorted(golden)}
        raise FormatError(Message("msprobe_compare.no_common_rank", **said))
    return both


def _write(request: Request, job: _Job, names: Names, say: Say) -> list[Path]:
    """One table, its advice, its data mapping, and what is said of it."""
    release = request.release
    stack = request.config.stack if request.wants_stack else None
    target = _read(job.paths[0], "npu_path", stack)
    golden = _read(job.paths[1], "bench_path")
    _check(request, target, golden)
    paired = pair_values(target, golden, release, request.mappings, fuzzy=request.fuzzy)
    mode = mode_of(target, golden)
    if (target.has_tensors, target.has_digests) != (golden.has_tensors, golden.has_digests):
        say(told(Message("msprobe_compare.other_tasks", mode=mode)))
    with_stack = (
        target.has_stacks if release.has_wide_stack else request.wants_stack or job.of_ranks
    )
    layout = layout_of(release, mode, target, request.mappings, with_stack=with_stack)
    rows = measured_rows(paired.rows, target, golden, release, mode)
    judge(rows, release, mode, is_torch=target.has_torch_names)
    if request.colors and release.verdicts == "classic":
        highlight(rows, release, mode)
    if request.config.prints_rows:
        for row in rows:
            say(row_line(row, layout))
    alone = measured_rows(paired.golden_only, target, golden, release, mode)
    stacks = target.stacks if not job.of_ranks or release.has_wide_stack else None
    table = table_of(rows, alone, layout, stacks)
    stem = "debug_compare_result" if target.is_debug else "compare_result"
    written = [names.path(f"{stem}{job.stem}", request.suffix)]
    write_table(written[0], table)
    if paired.names:
        written.append(names.path("data_mapping", ".yaml"))
        written[-1].write_text(dumped(paired.names), encoding="utf-8")
    advice = advice_on(rows) if release.has_advice and request.gives_advice else None
    if advice is not None:
        written.append(names.path(job.advice, ".txt"))
        write_advice(written[-1], advice)
    unread = [(row.pair.value.name, row.problem) for row in rows if row.problem]
    _say_counts(table, unread, say)
    for line in advice.lines if advice is not None else ():
        say(line)
    for file in written:
        say(told(Message("msprobe_compare.written", file=str(file))))
    _say_beside(request, *job.paths, table, say)
    if not _has_met(table):
        raise FormatError(Message("msprobe_compare.none_met"))
    return written


def _read(path: Path, side: str, stack: Path | None = None) -> Side:
    """One side; what is wrong with it names it."""
    try:
        return read_side(path, stack)
    except FormatError as error:
        said = {"side": side, "path": str(path), "why": message_of(error)}
        raise FormatError(Message("msprobe_compare.of_side", **said)) from None


def layout_of(
    release: Release, mode: Mode, target: Side, mappings: Mappings, *, with_stack: bool
) -> Layout:
    """What decides the columns and words of the table of a target."""
    is_torch = target.has_torch_names
    is_joined = release.whole_calls and not is_torch and not (mappings.layer or mappings.data)
    return Layout(release, mode, with_stack, is_torch, is_joined)


def _check(request: Request, target: Side, golden: Side) -> None:
    """Refuse what cannot be compared."""
    for side, name in ((target, "npu_path"), (golden, "bench_path")):
        if not side.values:
            task = side.facts.get("task", "")
            raise FormatError(Message("msprobe_compare.no_values", side=name, task=task))
    if request.mappings.api and target.has_torch_names:
        raise OptionError(Message("msprobe_compare.api_of_torch"))
    if target.has_torch_names and not golden.has_torch_names:
        raise OptionError(Message("msprobe_compare.torch_against_mindspore"))


def _say_counts(table: Table, unread: Sequence[tuple[str, str]], say: Say) -> None:
    """How many rows there are and met, and what could not be read."""
    counts = {
        "count": len(table.rows),
        "matched": _count_met(table),
        "alone": len(table.golden_only),
    }
    say(told(Message("msprobe_compare.rows", **counts)))
    if unread:
        said = {"count": len(unread), "name": unread[0][0], "why": unread[0][1]}
        say(told(Message("msprobe_compare.unread", **said)))


def _has_met(table: Table) -> bool:
    """Whether any row has met another; a table without one says nothing."""
    return _count_met(table) > 0


def _count_met(table: Table) -> int:
    return sum(NOTHING not in (row[name] for name in NAMES) for row in table.rows)


def row_line(row: Row, layout: Layout) -> str:
    """What the screen says of a row."""
    value = row.pair.value
    said = {"name": value.name, "verdict": row.verdict or "-"}
    if layout.mode == "tensor":
        figures = {"cosine": str(row.metric("Cosine")), "largest": str(row.metric("MaxAbsErr"))}
        figures["relative"] = str(row.metric("MaxRelativeErr"))
        return told(Message("msprobe_compare.row_of_tensors", **said, **figures))
    if layout.mode == "statistics":
        cells = [str(cell) for cell in row.differences[:4]]
        return told(Message("msprobe_compare.row_of_statistics", **said, cells=cells))
    return told(Message("msprobe_compare.row_of_digests", **said))


def _say_beside(
    request: Request, left: Dump | Path, right: Dump | Path, table: Table, say: Say
) -> None:
    files = [one for one in request.mappings.files if isinstance(one, MappingFile)]
    found = beside(left, right, files, table, fuzzy=request.fuzzy)
    for line in [*found.lines, *found.why]:
        say(told(line))
