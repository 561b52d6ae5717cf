"""One run of msprobe's comparison: which tables two paths make, and what is said beside each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from troubleshooter_nb.compat.msprobe.compare.advice import Advice, advice_on, write_advice
from troubleshooter_nb.compat.msprobe.compare.agreement import beside
from troubleshooter_nb.compat.msprobe.compare.config import Config
from troubleshooter_nb.compat.msprobe.compare.files import Names, check_xlsx, write_table
from troubleshooter_nb.compat.msprobe.compare.highlights import highlight
from troubleshooter_nb.compat.msprobe.compare.kernels import kernel_tables
from troubleshooter_nb.compat.msprobe.compare.pairs import Mappings, pair_values
from troubleshooter_nb.compat.msprobe.compare.releases import Release
from troubleshooter_nb.compat.msprobe.compare.rows import Mode, Row, measured_rows, mode_of
from troubleshooter_nb.compat.msprobe.compare.tables import Layout, Table, table_of
from troubleshooter_nb.compat.msprobe.compare.values import Side, read_side
from troubleshooter_nb.compat.msprobe.compare.verdicts import judge
from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import FormatError, OptionError, PathNotFoundError
from troubleshooter_nb.formats import open_dump
from troubleshooter_nb.formats.missing_path import not_there
from troubleshooter_nb.formats.msprobe_layout import DOCUMENTS, folders_in, is_rank_folder
from troubleshooter_nb.formats.pairing_rules import MappingFile
from troubleshooter_nb.formats.yaml_text import dumped
from troubleshooter_nb.messages import Message, told

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
        The files that were written, tables first.

    Raises
    ------
    FileNotFoundError, FormatError, OptionError, ExtraMissingError
        If a path holds no dump, or something does not go together. Nothing is written then.
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
    if request.target.is_dir() and not is_rank_folder(request.target):
        return _run_ranks(request, say)
    target = read_side(request.target, request.config.stack if request.wants_stack else None)
    golden = read_side(request.golden)
    names = _names(request)
    stem = "debug_compare_result" if target.is_debug else "compare_result"
    paths = request.target, request.golden
    return _write(request, (target, golden), paths, names, (stem, "advisor"), say)


def _names(request: Request) -> Names:
    request.output.mkdir(parents=True, exist_ok=True)
    return Names(request.output)


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
    asked = request.config.ranks, request.config.steps
    found = kernel_tables(request.target, request.golden, *asked, request.release)
    names, written = _names(request), []
    sides = [open_dump(path) for path in (request.target, request.golden)]
    for one in found:
        path = names.path(f"compare_result_{one.rank}_{one.step}", request.suffix)
        write_table(path, one.table)
        written.append(path)
        say(told(Message("msprobe_compare.written", file=str(path))))
        left, right = (side.select(rank=one.rank, step=one.step) for side in sides)
        _say_beside(request, left, right, one.table, say)
    return written


def _run_ranks(request: Request, say: Say) -> list[Path]:
    """One table per rank that both sides have."""
    if request.wants_stack and not request.release.has_wide_stack:
        raise OptionError(Message("msprobe_compare.stack_of_ranks"))
    folders = [_ranks_in(path) for path in (request.target, request.golden)]
    both = _met(*folders)
    for side, name in zip(folders, ("npu_path", "bench_path"), strict=True):
        if alone := sorted(set(side) - {pair[name == "bench_path"] for pair in both}):
            said = {"side": name, "ranks": alone}
            say(told(Message("msprobe_compare.ranks_alone", **said)))
    names, written = _names(request), []
    for mine, theirs in both:
        paths = folders[0][mine], folders[1][theirs]
        sides = read_side(paths[0]), read_side(paths[1])
        place = f"{mine}-{theirs}" if request.release.names_both_ranks else mine
        stems = f"compare_result_{place}", f"advisor_{place}"
        written += _write(request, sides, paths, names, stems, say, of_ranks=True)
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


def _write(
    request: Request,
    sides: tuple[Side, Side],
    paths: tuple[Path, Path],
    names: Names,
    stems: tuple[str, str],
    say: Say,
    *,
    of_ranks: bool = False,
) -> list[Path]:
    """One table, its advice, its data mapping, and what is said of it."""
    release = request.release
    target, golden = sides
    _check_frameworks(request, target, golden)
    paired = pair_values(target, golden, release, request.mappings, fuzzy=request.fuzzy)
    mode = mode_of(target, golden)
    if (target.has_tensors, target.has_digests) != (golden.has_tensors, golden.has_digests):
        say(told(Message("msprobe_compare.other_tasks", mode=mode)))
    has_stack = bool(target.stacks.texts)
    with_stack = has_stack if release.has_wide_stack else request.wants_stack or of_ranks
    layout = layout_of(release, mode, target, request.mappings, with_stack=with_stack)
    rows = measured_rows(paired.rows, target, golden, release, mode)
    judge(rows, release, mode, is_torch=target.has_torch_names)
    if request.colors and release.verdicts == "classic":
        highlight(rows, release, mode)
    if request.config.prints_rows:
        for row in rows:
            say(row_line(row, layout))
    alone = measured_rows(paired.golden_only, target, golden, release, mode)
    stacks = target.stacks if not of_ranks or release.has_wide_stack else None
    table = table_of(rows, alone, layout, stacks)
    written = [names.path(stems[0], request.suffix)]
    write_table(written[0], table)
    if paired.names:
        written.append(names.path("data_mapping", ".yaml"))
        written[-1].write_text(dumped(paired.names), encoding="utf-8")
    advice = advice_on(rows) if release.has_advice and request.gives_advice else None
    if advice is not None:
        written.append(names.path(stems[1], ".txt"))
        write_advice(written[-1], advice)
    _say_all(rows, alone, advice, written, say)
    _say_beside(request, *paths, table, say)
    return written


def layout_of(
    release: Release, mode: Mode, target: Side, mappings: Mappings, *, with_stack: bool
) -> Layout:
    """What decides the columns and words of the table of a target."""
    is_torch = target.has_torch_names
    is_joined = release.whole_calls and not is_torch and not (mappings.layer or mappings.data)
    return Layout(release, mode, with_stack, is_torch, is_joined)


def _check_frameworks(request: Request, target: Side, golden: Side) -> None:
    if request.mappings.api and target.has_torch_names:
        raise OptionError(Message("msprobe_compare.api_of_torch"))
    if target.has_torch_names and not golden.has_torch_names:
        raise OptionError(Message("msprobe_compare.torch_against_mindspore"))


def _say_all(
    rows: Sequence[Row],
    alone: Sequence[Row],
    advice: Advice | None,
    files: Sequence[Path],
    say: Say,
) -> None:
    matched = sum(row.is_matched for row in rows)
    counts = {"count": len(rows), "matched": matched, "alone": len(alone)}
    say(told(Message("msprobe_compare.rows", **counts)))
    unread = [row for row in rows if row.problem]
    if unread:
        said = {"count": len(unread), "name": unread[0].pair.value.name, "why": unread[0].problem}
        say(told(Message("msprobe_compare.unread", **said)))
    if rows and not matched:
        say(told(Message("msprobe_compare.none_met")))
    if advice is not None:
        for line in advice.lines:
            say(line)
    for file in files:
        say(told(Message("msprobe_compare.written", file=str(file))))


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
    found = beside(left, right, files, table, request.release, fuzzy=request.fuzzy)
    for line in [*found.lines, *found.why]:
        say(told(line))
