"""Every word of the editor, by id, in English and Chinese."""

# ruff: noqa: RUF001 - Chinese punctuation is meant

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from troubleshooter_nb.widgets.words import word_of

EDITOR_WORDS: Mapping[str, tuple[str, str]] = {
    "title": ("Mapping editor", "映射编辑器"),
    "static": (
        "Interactive editor: run this cell to use it. Its last state is the table below.",
        "交互式编辑器：运行此单元格即可使用。最后的状态见下表。",
    ),
    "undo": ("Undo", "撤销"),
    "redo": ("Redo", "重做"),
    "nothing": ("nothing", "无"),
    "rest": ("Auto-match rest", "自动匹配其余"),
    "filter": ("Filter names", "筛选名称"),
    "show": ("Show", "显示"),
    "all": ("all pairs", "全部配对"),
    "changed": ("renamed or transformed", "改名或变换"),
    "attention": ("needs attention", "需要注意"),
    "unmatched": ("Unmatched in", "未匹配："),
    "none_left": ("every name has a partner", "所有名称都已配对"),
    "no_hits": ("no name matches the filter", "没有符合筛选的名称"),
    "no_pairs": ("nothing is paired yet", "尚无配对"),
    "pairs": ("Pairs", "配对"),
    "transform": ("transform", "变换"),
    "method": ("method", "方法"),
    "shape": ("shape", "形状"),
    "remark": ("remark", "备注"),
    "closest": ("Closest to", "最接近"),
    "no_candidates": ("nothing on the other side is close", "另一侧没有相近的名称"),
    "pair_with": ("Pair", "配对"),
    "drop": ("Drop on purpose", "有意丢弃"),
    "expect": ("Expect no partner", "预期无对应"),
    "expected": ("expected", "预期"),
    "unpair": ("Unpair", "取消配对"),
    "apply": ("Apply", "应用"),
    "accept": ("Take suggestion", "采纳建议"),
    "suggested": ("values suggest", "数值建议"),
    "target_name": ("target name", "目标名称"),
    "target_name_why": (
        "The names of the target are not known: type the one that this tensor goes to",
        "目标的名称未知：请填写该张量对应的名称",
    ),
    "no_target_name": ("type the name of the target first", "请先填写目标名称"),
    # What matching the rest and applying a transform did.
    "rest_made": ("pairs made: {count}", "新增配对 {count} 对"),
    "rest_none": (
        "no pair made: of what is left no two belong together by name and shape",
        "未新增配对：剩余名称中没有名称和形状都对应的",
    ),
    "rest_both": (
        "no pair made: every name has a partner already",
        "未新增配对：所有名称都已有对应",
    ),
    "rest_left": ("no pair made: nothing is left on the left", "未新增配对：左侧没有剩余名称"),
    "rest_right": ("no pair made: nothing is left on the right", "未新增配对：右侧没有剩余名称"),
    "unchanged": ("nothing changed: {how} was applied already", "未作更改：已是 {how}"),
    "same_shape": ("same shape", "形状相同"),
    "save": ("Save", "保存"),
    "path": ("File to save: .yaml or .json", "保存到文件：.yaml 或 .json"),
    "path_pairing": ("File to save: .yaml", "保存到文件：.yaml"),
    "dropped": ("(dropped)", "（已丢弃）"),
    "help": (
        "Drag a name onto its partner, or: arrow keys choose, Enter goes to the partner and pairs, "
        "Delete unpairs, Ctrl+Z undoes.",
        "把名称拖到对应名称上；或用方向键选择，Enter 转到另一侧并配对，"
        "Delete 取消配对，Ctrl+Z 撤销。",
    ),
    "kind": ("Kind of mapping file", "映射文件类型"),
    "by_name": ("kind by file name", "类型由文件名决定"),
    "step": ("step", "步"),
    "rank": ("rank", "进程"),
    "another_place": ("another step or rank", "步或进程不同"),
    "silent": (
        "the kernel does not answer: run the cell again (or wait where it is busy)",
        "内核没有响应：请重新运行单元格（若内核正忙，请稍候）",
    ),
    # Before the kernel has answered.
    "waiting": ("Waiting for the kernel …", "正在等待内核……"),
    "lonely": (
        "The kernel does not answer: it is busy, or not the one that ran this cell. The table "
        "below shows the last state; run the cell again to edit.",
        "内核没有响应：内核正忙，或不是运行此单元格的那个内核。下表为最后的状态；"
        "请重新运行单元格以继续编辑。",
    ),
    "failed": (
        "the kernel met an error; its message is in the notebook's log",
        "内核出错；错误信息见笔记本日志",
    ),
    "drawing": ("the table below follows …", "下表正在更新……"),
    # How a name fits another one.
    "unknown_shape": ("shape not known", "形状未知"),
    "another_shape": ("another shape", "形状不同"),
    "shapes_differ": ("shapes differ", "形状不同"),
    "shape_of": ("shape {of}", "形状 {of}"),
    "scalar": ("scalar", "标量"),
    "values": ("{sizes} values", "{sizes} 个值"),
    "value": ("{sizes} value", "{sizes} 个值"),
    "of_shape": ("{said} ({shape})", "{said}（{shape}）"),
    "fits_by": ("fits by {how}", "经 {how} 后匹配"),
    "other_size": ("{mine} against {theirs}", "{mine} ≠ {theirs}"),
    "paired_with": ("paired with {names}", "已与 {names} 配对"),
    "is_dropped": ("dropped", "已丢弃"),
    "by": ("{name} by {how}", "{name}，经 {how}"),
    "left": ("left", "左侧"),
    "right": ("right", "右侧"),
    # The line that sums up.
    "matched": ("{count} of {total} matched", "已匹配 {count} / {total}"),
    "pair_count": ("{count} pairs", "{count} 对"),
    "open_left": ("{count} unmatched left", "左侧未匹配 {count}"),
    "open_right": ("{count} unmatched right", "右侧未匹配 {count}"),
    "broken": ("{count} cannot be converted", "{count} 项无法转换"),
    "transformed": ("{count} transformed", "{count} 项有变换"),
    "dropped_count": ("{count} dropped", "已丢弃 {count}"),
    "by_values": ("{count} suggested by values", "数值建议 {count}"),
    "different": ("{count} of different shape", "{count} 对形状不同"),
    "expected_count": ("{count} expected to be missing", "预期无对应 {count}"),
    # What undo takes back.
    "did_pair": ("pair {left} with {right}", "将 {left} 与 {right} 配对"),
    "did_unpair": ("unpair {name}", "取消 {name} 的配对"),
    "did_rest": ("auto-match the rest", "自动匹配其余"),
    "did_drop": ("drop {name}", "丢弃 {name}"),
    "did_expect": ("expect no partner of {name}", "预期 {name} 无对应"),
    "did_transform": ("{how} for {name}", "对 {name} 使用 {how}"),
    "did_accept": ("take what values suggest of {name}", "采纳数值对 {name} 的建议"),
    "did_set": ("set from Python", "由 Python 设置"),
    # Saving.
    "saved": ("saved {name}", "已保存 {name}"),
    "no_path": (
        "give the file a name, such as mapping.yaml",
        "请填写文件名，例如 mapping.yaml",
    ),
    "exists": (
        "{path} is there already, from elsewhere; press Save again to overwrite it",
        "{path} 已存在，且不是由此编辑器写入；再次按“保存”将覆盖",
    ),
    "no_kinds": (
        "a weight map has no kinds, got kind={kind}; a Pairing has",
        "权重映射没有类型之分，得到 kind={kind}；Pairing 才有",
    ),
    "unsaid": (
        "a {kind} mapping does not say {count} of these pairs as they are; its comments list them "
        "({first})",
        "{kind} 映射无法如实表达其中 {count} 对，已列在文件注释中（{first}）",
    ),
    # What cannot be done.
    "cannot": ("{source} cannot become {target}: {why}", "{source} 无法变为 {target}：{why}"),
    "only_sources": (
        "a target that nothing fills keeps what it has; only a source can be dropped",
        "没有来源的目标保持原值；只能丢弃源参数",
    ),
    "place": ("step {step}, rank {rank}", "步 {step}、进程 {rank}"),
    "other_place": (
        "{left} is of {first} and {right} of {second}; only entries of the same step and rank are "
        "paired",
        "{left} 属于{first}，{right} 属于{second}；只有同一步、同一进程的条目可以配对",
    ),
    "no_transforms": ("pairs have no transforms", "配对没有变换"),
    "no_row": ("this row is not there any more", "该行已不存在"),
    "no_name": (
        "there is no name number {number} on the {side}",
        "{side}没有编号为 {number} 的名称",
    ),
    "no_such": ("the editor knows no {what}", "编辑器不认识 {what}"),
    "unread": ("no values to compare: {reason}", "没有可比较的数值：{reason}"),
    "too_large": (
        "no values compared: the tensors are larger than {most} MiB",
        "未比较数值：张量大于 {most} MiB",
    ),
}


def editor_word(key: str, language: str = "en", **values: object) -> str:
    """The words of an id; see `words.word_of`."""
    return word_of(EDITOR_WORDS, key, language, **values)


# What is said in English below the editor, as sentences or their parts: the Chinese of each.
_IN_CHINESE = [
    (re.compile(pattern), chinese)
    for pattern, chinese in (
        # Evidence: `convert.row_evidence`.
        (r"values are equal, every one", "所有值都相等"),
        (r"values are equal once both are (\w+)", r"转换为 {0} 后值都相等"),
        (r"values are nearly equal, residual (\S+)", r"值几乎相等，残差 {0}"),
        (
            r"values are correlated but not equal, cosine (\S+)",
            r"值相关但不相等，余弦 {0}",
        ),
        (r"values differ: one side is constant", "值不同：一侧为常数"),
        (r"values are no more alike than chance, cosine (\S+)", r"值与随机无异，余弦 {0}"),
        (r"values not comparable: (\S+) and (\S+) of them", r"值无法比较：{0} 个与 {1} 个"),
        (r"values not comparable: they are no numbers", "值无法比较：不是数值"),
        (r"(.*) \(only (\S+) values\)", r"{0}（仅 {1} 个值）"),
        (r"no values to compare: they are not in the files", "没有可比较的数值：文件中没有"),
        (
            r"no values compared: the tensors are larger than (\d+) MiB",
            r"未比较数值：张量大于 {0} MiB",
        ),
        (r"no values to compare: (.*)", r"没有可比较的数值：{0}"),
        # Problems of a row and of a transform: `weight_map`.
        (r"(\(.*\)) for ('.*') of shape (\(.*\))", r"得到形状 {0}，而 {1} 的形状为 {2}"),
        (r"the target name is empty", "目标名称为空"),
        (r"(.+) gives (\d+) tensors for (\d+) names", r"{0} 得到 {1} 个张量，名称有 {2} 个"),
        (r"('.*') is not in (.+)", r"{0} 不在 {1} 中"),
        (r"no ('.*') in (.+)", r"{1} 中没有 {0}"),
        (r"no row of ('.*') in the weight map", r"权重映射中没有 {0} 的行"),
        (r"closest: (.+)", r"最接近：{0}"),
        (r"no transform ('.*')", r"没有名为 {0} 的变换"),
        (r"there are (copy, .+)", r"可用：{0}"),
        (r"did you mean (\w+)\?", r"是否想用 {0}？"),
        (r"('.*') is no transform", r"{0} 不是变换"),
        (r"write one like (\S+) of \((.+)\)", r"写法如 {0}，可用：{1}"),
        (r"(\w+) takes no arguments, got (.+)", r"{0} 不带参数，得到 {1}"),
        (r"(\w+) takes one argument, got (.+)", r"{0} 需要一个参数，得到 {1}"),
        (r"(\w+) takes whole numbers, got (.+)", r"{0} 需要整数，得到 {1}"),
        (r"(.+) takes several sources", r"{0} 需要多个来源"),
        (r"(.+) takes one source", r"{0} 只能有一个来源"),
        (r"(.+) does not fit (\(.*?\)): (.+)", r"{0} 不适用于 {1}：{2}"),
        (r"the shapes of the source are not known", "源的形状未知"),
        # Notes of rows and pairs.
        (r"auto-matched: same name", "自动匹配：名称相同"),
        (
            r"auto-matched: closest names \((\S+)\), same numbers",
            r"自动匹配：名称最接近（{0}），编号相同",
        ),
        (r"auto-matched: the only ones of this shape", "自动匹配：此形状仅此一对"),
        (r"expected to be missing", "预期无对应"),
        (r"other shape", "形状不同"),
        # Why a file is not written: `formats`, and the system.
        (r"cannot write a (?:weight map|mapping) as ('.*')", r"不能写为 {0}"),
        (r"cannot write a (?:weight map|mapping) as a file without suffix", "文件名缺少后缀"),
        (r"use \.yaml", "请用 .yaml"),
        (r"(.+): the json does not know (.+)", r"{0}：json 无法表示 {1}"),
        (r"(.+): the json knows one name on each side", r"{0}：json 每侧只能有一个名称"),
        (r"cannot write ('.*'): a folder has this name", r"无法写入 {0}：已有同名文件夹"),
        (
            r"no operator is paired with an operator, so there is nothing for an api mapping",
            "没有算子与算子配对，api 映射无内容可写",
        ),
        (r'write kind="(\w+)"', "请选 {0} 类型"),
        (r"No such file or directory", "没有该文件或文件夹"),
        (r"Permission denied|Operation not permitted", "没有权限"),
        (r"Read-only file system", "文件系统只读"),
        (r"Not a directory", "路径中有一部分不是文件夹"),
        (r"Is a directory", "这是一个文件夹"),
        (r"File exists", "已有同名文件"),
        (r"No space left on device", "磁盘空间不足"),
        (r"File name too long", "文件名过长"),
    )
]


def in_words_of(text: str, language: str) -> str:
    """What others say in English in this language, part by part; as it is where not known."""
    if language != "zh":
        return text
    return "; ".join(_chinese(part) for part in text.split("; "))


@lru_cache(maxsize=1 << 12)
def _chinese(part: str) -> str:
    for pattern, chinese in _IN_CHINESE:
        if match := pattern.fullmatch(part):
            return chinese.format(*map(_chinese, match.groups()))
    # A name stands before what is said of it.
    head, colon, rest = part.partition(": ")
    known = _chinese(rest) if colon else rest
    return f"{head}：{known}" if known != rest else part
