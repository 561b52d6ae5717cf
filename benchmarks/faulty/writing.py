"""Both sides of a run as the files that people have of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import ml_dtypes
import numpy as np
import torch

from faulty.capture import Record, dump_of, is_kept
from troubleshooter_nb.capture.numbering import Numbering
from troubleshooter_nb.capture.saving import save, save_grad
from troubleshooter_nb.formats.checkpoint_save import save_checkpoint
from troubleshooter_nb.formats.msprobe_writer import save_msprobe_dir
from troubleshooter_nb.naming import natural_key
from troubleshooter_nb.options import option_context


@dataclass
class Filed:
    """One side on disk.

    Attributes
    ----------
    path : Path
        What a user gives to `compare`.
    records : list of Record
        In the order in which the files lie: by name, or as an index file lists them.
    names : dict
        What an opened dump may call an entry -> (step that the files tell, record).
    """

    path: Path
    records: list[Record] = field(default_factory=list)
    names: dict[str, list[tuple[int, Record]]] = field(default_factory=dict)

    def know(self, record: Record, step: int, *names: str) -> None:
        """An entry is called one of these."""
        for name in names:
            self.names.setdefault(name, []).append((step, record))

    def find(self, name: str, step: int, direction: str) -> Record | None:
        """The record behind a row of a result."""
        found = self.names.get(name, [])
        found = [one for one in found if one[0] == step] or found
        found = [one for one in found if one[1].site.direction == direction] or found
        return found[0][1] if found else None


Write = Callable[[list[Record], Path, np.random.Generator], Filed]


def as_numpy(array: np.ndarray) -> np.ndarray:
    """What numpy can store."""
    return array.astype(np.float32) if array.dtype == ml_dtypes.bfloat16 else array


def as_tensor(array: np.ndarray) -> torch.Tensor:
    """A tensor of torch with these values, in their dtype."""
    array = np.ascontiguousarray(array)
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _slot(record: Record) -> str:
    """Behind the word for what it is: nothing for the first argument of the first call."""
    site = record.site
    slot = "" if site.slot == "0" else site.slot.replace(".", "_")
    slot = slot if slot.isdigit() or not slot else f"_{slot}"
    return slot + (f"_{site.call}" if site.call else "")


def underlined(record: Record) -> str:
    """``layer1_0_conv1_in``, ``layer1_0_conv1_weight``."""
    path, site = record.site.path.replace(".", "_"), record.site
    if site.role == "parameter":
        return f"{path}_{site.slot}"
    return f"{path}_{'in' if site.role == 'input' else 'out'}{_slot(record)}"


def dotted(record: Record) -> str:
    """``layer1.0.conv1.input``, ``layer1.0.conv1.weight``."""
    site = record.site
    return f"{site.path}.{site.slot if site.role == 'parameter' else site.role + _slot(record)}"


def in_front(record: Record) -> str:
    """``x_layer1.0.conv1``, ``y_layer1.0.conv1``, ``w_layer1.0.conv1.weight``."""
    site = record.site
    if site.role == "parameter":
        return f"w_{site.path}.{site.slot}"
    return f"{'x' if site.role == 'input' else 'y'}{_slot(record)}_{site.path}"


def in_folders(record: Record) -> str:
    """``inputs/conv1``, ``outputs/conv1``, ``params/conv1.weight``."""
    site = record.site
    if site.role == "parameter":
        return f"params/{site.path}.{site.slot}"
    slot = _slot(record)
    return f"{site.role}s/{site.path}{'.' if slot else ''}{slot}"


def path_alone(record: Record) -> str:
    """``layer1.0.conv1``, as those save it who save nothing but outputs."""
    slot = _slot(record)
    return f"{record.site.path}{'.' if slot else ''}{slot}"


SPELLINGS = (underlined, dotted, in_front, in_folders)


def by_hand(
    records: list[Record],
    folder: Path,
    rng: np.random.Generator,
    numbered: bool,
    keep: str = "calls",
) -> Filed:
    """``np.save`` for each, under the layer's path."""
    filed, files = Filed(folder), []
    spell = path_alone if keep == "outputs" else SPELLINGS[int(rng.integers(len(SPELLINGS)))]
    steps = {r.step for r in records}
    for number, record in enumerate(r for r in records if is_kept(r, keep)):
        above, _, stem = spell(record).rpartition("/")
        stem = f"{number:03d}_{stem}" if numbered else stem
        name = f"{above}/{stem}" if above else stem
        parts = (f"step{record.step}", name) if len(steps) > 1 else (name,)
        file = folder.joinpath(*parts).with_name(f"{stem}.npy")
        file.parent.mkdir(parents=True, exist_ok=True)
        np.save(file, as_numpy(record.array))
        files.append((str(file.relative_to(folder)), record))
        filed.know(record, record.step, *{stem, name, "/".join(parts)})
    filed.records = [record for _, record in sorted(files, key=lambda one: natural_key(one[0]))]
    return filed


NUMBERINGS = ("current", "id-first")


def by_troubleshooter(records: list[Record], folder: Path, rng: np.random.Generator) -> Filed:
    """``ts.save`` of what calls read, hold and give, ``ts.save_grad`` of outputs, then gradients.

    The numbers are those of one process that saves nothing else.
    """
    kept = [r for r in records if is_kept(r, "saved")]
    forward = [r for r in kept if r.site.direction == "forward"]
    after = [r for r in kept if r.site.direction == "backward"]
    return _by_save([*forward, *after], folder, str(rng.choice(NUMBERINGS)), _saved_name)


def _saved_name(record: Record) -> str:
    """The name that a line of somebody's script gives."""
    site = record.site
    if site.direction == "forward":
        return underlined(record)
    if site.role == "parameter":
        return f"grads.{site.path}.{site.slot}"
    return site.path.replace(".", "_") + (f"_{site.call}" if site.call else "")


def gradients_by_troubleshooter(
    records: list[Record], folder: Path, rng: np.random.Generator
) -> Filed:
    """``ts.save`` of the gradients of all parameters, which the folder's name or theirs tell."""
    kept = [r for r in records if is_kept(r, "gradients")]
    of_step = bool(rng.random() < 0.5)

    def name(record: Record) -> str:
        own = f"{record.site.path}.{record.site.slot}"
        return f"{record.step}_grads.{own}" if of_step else own

    below = folder if of_step else folder / "grads"
    return _by_save(kept, below, str(rng.choice(NUMBERINGS)), name)


def _by_save(
    records: Iterable[Record], folder: Path, naming: str, name_of: Callable[[Record], str]
) -> Filed:
    numbering, filed, known = Numbering(per="framework"), Filed(folder), set[Path]()
    files = []
    with option_context(npy_names=naming):
        for record in records:
            name = name_of(record)
            value = torch.from_numpy(np.ascontiguousarray(as_numpy(record.array)))
            if record.site.direction == "backward" and record.site.role != "parameter":
                output = torch.zeros(value.shape, dtype=value.dtype, requires_grad=True)
                kept = save_grad(folder / name, output, numbering=numbering, widen=True)
                kept.backward(value)
            else:
                save(folder / name, value, numbering=numbering, widen=True)
            (file,) = {*folder.iterdir()} - known
            known.add(file)
            files.append((file.name, record))
            filed.know(record, record.step, file.stem, f"{folder.name}/{file.stem}")
    filed.records = [record for _, record in sorted(files, key=lambda one: natural_key(one[0]))]
    return filed


def as_msprobe(records: list[Record], folder: Path, rng: np.random.Generator) -> Filed:
    """Calls of modules in msprobe's layout, which has no buffers."""
    kept = [r for r in records if is_kept(r, "no buffers")]
    save_msprobe_dir(dump_of(kept, "all", folder.name, False), folder)
    filed = Filed(folder, kept)
    for record in kept:
        filed.know(record, record.step, record.name)
    return filed


@dataclass(frozen=True)
class Layout:
    """Where a step's checkpoint and gradients lie; steps are counted from `first` in `stride`s."""

    state: str
    gradients: str
    first: int = 0
    stride: int = 1


LAYOUTS = (
    Layout("step_{:04d}.pth", "grads_{:04d}"),
    Layout("step_{:04d}.pth", "grads_{:04d}", first=1),
    Layout("checkpoint-{}/model.safetensors", "grads-{}", first=100, stride=100),
)


def as_checkpoints(records: list[Record], folder: Path, rng: np.random.Generator) -> Filed:
    """``step_0001.pth`` beside ``grads_0001/``, one of each a step."""
    layout = LAYOUTS[int(rng.integers(len(LAYOUTS)))]
    filed, states, files = Filed(folder), dict[str, dict[str, np.ndarray]](), []
    for record in (r for r in records if is_kept(r, "training")):
        site, number = record.site, layout.first + layout.stride * record.step
        name, is_state = f"{site.path}.{site.slot}", site.direction == "forward"
        below = (layout.state if is_state else layout.gradients).format(number)
        if is_state:
            states.setdefault(below, {})[name] = record.array
        else:
            (folder / below).mkdir(parents=True, exist_ok=True)
            np.save(folder / below / f"{name}.npy", as_numpy(record.array))
        files.append((f"{below}/{name}", record))
        names = {name} if is_state else {name, f"{name}.grad", f"grads/{name}"}
        names |= {f"{below.removesuffix('.pth')}{between}{name}" for between in "/."}
        filed.know(record, number, *names)
    for below, state in states.items():
        file = folder / below
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".pth":
            torch.save({name: as_tensor(array) for name, array in state.items()}, file)
        else:
            save_checkpoint(state, file, "safetensors")
    filed.records = [record for _, record in sorted(files, key=lambda one: natural_key(one[0]))]
    return filed


def as_recorded(records: list[Record], folder: Path, rng: np.random.Generator) -> Filed:
    """`tnb.record` has written the folder already."""
    filed = Filed(folder, records)
    for record in records:
        filed.know(record, record.step, record.name)
    return filed


def by_either(records: list[Record], folder: Path, rng: np.random.Generator) -> Filed:
    """The layout of msprobe in half of the runs, saved by hand in the others."""
    write = as_msprobe if rng.random() < 0.5 else hand_numbered
    return write(records, folder, rng)


hand_numbered = partial(by_hand, numbered=True)
hand_plain = partial(by_hand, numbered=False)
outputs_only = partial(by_hand, numbered=True, keep="outputs")
