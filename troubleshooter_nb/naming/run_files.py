"""What the names of files and folders of a run say: steps, ranks, and whose tensors are in them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from troubleshooter_nb.naming.gradients import says_gradient

_COUNTED = r"steps?|iters?|iterations?|epochs?|ep|global_?steps?|checkpoints?|ckpts?"
_WORD = re.compile(rf"(?is)(?P<front>.*?)(?<![a-z])(?:{_COUNTED})[_=.-]?(?P<step>[0-9]{{1,18}})")
_WORD_AHEAD = re.compile(rf"(?is)(?:{_COUNTED})[_=.-]?(?P<step>[0-9]{{1,18}})[_.-]+(?P<rest>.+)")
_NUMBER_AHEAD = re.compile(r"(?s)(?P<step>[0-9]{1,18})[_.-]+(?P<rest>.+)")
_NUMBER = re.compile(r"(?is)(?P<front>.*?)[_.-]?(?P<step>[0-9]{1,18})")
# MindSpore's ModelCheckpoint: net-3_20.ckpt is step 20 of epoch 3.
_EPOCH_STEP = re.compile(r"(?s)(?P<front>.*)-(?P<epoch>[0-9]{1,9})_(?P<step>[0-9]{1,9})")
_RANK = re.compile(r"(?i)(?:mp_)?rank[_-]?([0-9]{1,9})")
_RANK_IN_FILE = re.compile(r"(?i)(?:^|[._-])(?:zero_pp_|mp_|tp_|dp_)?rank[_-]?([0-9]{1,9})")
_SHARD = re.compile(r"(?i)-[0-9]+-of-[0-9]+$")
# Folders whose sub-folders may be called by their step alone.
_OF_STEPS = re.compile(rf"(?i)(?:{_COUNTED}|weights|models?|params?|parameters)s?")
# Numbers behind these count parts of a network or its releases, and never steps.
_OF_PARTS = re.compile(
    r"(?i)(?:^|[^a-z])(?:layers?|blocks?|stages?|experts?|heads?|h|v|part|fold)$"
)
_FIELD = re.compile(r"(?s)([A-Za-z_][A-Za-z0-9_]*)=(.*)")
_BETWEEN_FIELDS = "___"
_GRADIENT_FIELD = "grad__"
_HOOK_FIELD = "non_intrusive__"
_LARGEST_STEP = 2**62


@dataclass(frozen=True)
class Numbered:
    """A name without its step: what is left, the step, and whether a word says it is one.

    `epoch` is that in front of a step that begins again in each.
    """

    rest: str
    step: int
    is_said: bool
    epoch: int = -1


def step_of_name(name: str) -> Numbered | None:
    """The step in the name of a checkpoint's file or folder, or of a folder of a step.

    ``step_0001``, ``epoch=3``, ``checkpoint-100`` and ``global_step20`` say so themselves, as
    ``grads_0001`` does; of ``net-12`` it is only likely. None for a name that ends in no number,
    or in that of a layer, a release or a shard.
    """
    if _SHARD.search(name):
        return None
    if both := _EPOCH_STEP.fullmatch(name):
        return Numbered(both["front"], int(both["step"]), True, int(both["epoch"]))
    if said := _WORD.fullmatch(name):
        return Numbered(said["front"].strip("_.-"), int(said["step"]), True)
    if ahead := _WORD_AHEAD.fullmatch(name):
        return Numbered(ahead["rest"], int(ahead["step"]), True)
    if (ahead := _NUMBER_AHEAD.fullmatch(name)) and says_gradient(ahead["rest"]):
        return Numbered(ahead["rest"], int(ahead["step"]), True)
    number = _NUMBER.fullmatch(name)
    if number is None or _OF_PARTS.search(number["front"]) or _RANK.fullmatch(name):
        return None
    front = number["front"].strip("_.-")
    return Numbered(front, int(number["step"]), says_gradient(front))


def rank_of_folder(name: str) -> int | None:
    """The rank a folder is of; None for another."""
    match = _RANK.fullmatch(name)
    return int(match[1]) if match else None


def rank_of_file(stem: str) -> int | None:
    """The rank whose file this is, the last one that its name has; None for none."""
    found = _RANK_IN_FILE.findall(stem)
    return int(found[-1]) if found else None


def is_of_steps(folder: str) -> bool:
    """Whether folders below one of this name may be called by the number of their step alone."""
    return bool(_OF_STEPS.fullmatch(folder)) or says_gradient(folder)


@dataclass(frozen=True)
class DumperName:
    """What a file name of SGLang's dumper says of the tensor in it."""

    path: str
    step: int
    rank: int
    number: int
    is_gradient: bool


def parse_dumper_name(stem: str) -> DumperName | None:
    """The fields of ``step=1___rank=0___dump_index=3___name=attn_out``; None for other names.

    Older releases call the step ``forward_pass_id``. Other fields, such as ``layer_id=4``, become
    parts in front of the name.
    """
    matches = [_FIELD.fullmatch(part) for part in stem.split(_BETWEEN_FIELDS)]
    fields = {match[1]: match[2] for match in matches if match}
    if len(fields) != len(matches) or not {"name", "rank", "dump_index"} <= fields.keys():
        return None
    name = fields.pop("name")
    step = fields.pop("step", fields.pop("forward_pass_id", "0"))
    numbers = [step, fields.pop("rank"), fields.pop("dump_index")]
    if not all(re.fullmatch(r"[0-9]{1,18}", text) for text in numbers):
        return None
    bare = name.removeprefix(_GRADIENT_FIELD)
    tags = [part for key in sorted(fields) for part in (key, fields[key])]
    path = ".".join([*tags, bare.removeprefix(_HOOK_FIELD)])
    count, rank, number = map(int, numbers)
    return DumperName(path, count, rank, number, is_gradient=bare != name)
