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
        "Interactive editor: run this cell in a notebook to use it. Its last state is the table "
        "below.",
        "交互式编辑器：在笔记本中运行此单元格即可使用。最后的状态见下表。",
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
    "together": ("Pair together", "一起配对"),
    "by_transform": ("by", "经"),
    "choose_partner": (
        "Choose the partner on the other side (several with Ctrl+click or Space), or drag one of "
        "these names onto it.",
        "请在另一侧选择对应名称（Ctrl+单击或空格可选多个），或把其中一个名称拖到其上。",
    ),
    "holding": (
        "Arrow keys move, Space adds a name or takes it out, Enter pairs, Escape gives up.",
        "方向键移动，空格加入或移出名称，Enter 配对，Escape 放弃。",
    ),
    "no_candidates": ("nothing on the other side is close", "另一侧没有相近的名称"),
    "pair_with": ("Pair", "配对"),
    "drop": ("Drop on purpose", "有意丢弃"),
    "expect": ("Expect no partner", "预期无对应"),
    "want": ("Expect a partner", "仍需对应"),
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
    "help_several": (
        "To split or join: Ctrl+click or Space chooses several names, in their order.",
        "拆分或拼接：按顺序用 Ctrl+单击或空格选择多个名称。",
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
    "lost": (
        "The table below no longer follows the editor: run the cell again before saving.",
        "下表不再随编辑器更新：保存前请重新运行单元格。",
    ),
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
    "by_values_how": ("values suggest it, by {how}", "数值建议，经 {how}"),
    "by_values": ("{count} suggested by values", "数值建议 {count}"),
    "different": ("{count} of different shape", "{count} 对形状不同"),
    "expected_count": ("{count} expected to be missing", "预期无对应 {count}"),
    # What undo takes back.
    "did_pair": ("pair {left} with {right}", "将 {left} 与 {right} 配对"),
    "did_unpair": ("unpair {name}", "取消 {name} 的配对"),
    "did_rest": ("auto-match the rest", "自动匹配其余"),
    "did_drop": ("drop {name}", "丢弃 {name}"),
    "did_expect": ("expect no partner of {name}", "预期 {name} 无对应"),
    "did_want": ("expect a partner of {name}", "仍需 {name} 的对应"),
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
        "a {kind} mapping does not say {count} of these rows as they are; its comments list them "
        "({first})",
        "{kind} 映射无法如实表达其中 {count} 行，已列在文件注释中（{first}）",
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
    "several_both": (
        "no transform makes several of several; choose one on either side",
        "没有变换能由多个得到多个；请在某一侧只选一个",
    ),
    "one_dtype": (
        "only one dtype is joined, not {dtypes}",
        "只能拼接同一种 dtype，得到 {dtypes}",
    ),
    "one_each": (
        "a pair has one entry on each side; choose one of each",
        "一对在每侧只有一个条目；请每侧各选一个",
    ),
    "choose_one": ("choose a name on the {side} first", "请先在{side}选择名称"),
    "no_transforms": ("pairs have no transforms", "配对没有变换"),
    "no_row": ("this row is not there any more", "该行已不存在"),
    "renumbered": (
        "the names changed meanwhile: choose again",
        "名称在此期间已改变：请重新选择",
    ),
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
        (r"(.+) gives (\d+) tensors? for (\d+) names?", r"{0} 得到 {1} 个张量，名称有 {2} 个"),
        (r"(.+) needs a target", r"{0} 需要目标"),
        (r"(.+) needs no target", r"{0} 不能有目标"),
        (r"a target stands twice: (.+)", r"目标重复：{0}"),
        (r"('.*') is the target of several: (.+)", r"{0} 有多个来源：{1}"),
        (r"no axis joins (.+)", r"没有可拼接 {0} 的轴"),
        (r"no axis of (.+) has (\d+) equal parts", r"{0} 没有可等分为 {1} 份的轴"),
        (r"no row (\d+) in a weight map of (\d+) rows", r"权重映射有 {1} 行，没有第 {0} 行"),
        (
            r"concat needs several sources alike but along axis (-?\d+), got (.+)",
            r"concat 需要除轴 {0} 外都相同的多个来源，得到 {1}",
        ),
        (r"add needs equal shapes, got (.+)", r"add 需要相同的形状，得到 {0}"),
        (
            r"(.+) takes the two parts g and v of a weight norm, got (\d+) sources",
            r"{0} 需要权重归一化的 g 和 v 两部分，得到 {1} 个来源",
        ),
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
        (r"(.+) takes several sources, got (\d+)", r"{0} 需要多个来源，得到 {1} 个"),
        (r"(.+) takes one source, got (\d+)", r"{0} 只能有一个来源，得到 {1} 个"),
        (r"(.+) does not fit (\(.*?\)): (.+)", r"{0} 不适用于 {1}：{2}"),
        (r"the shapes of the source are not known", "源的形状未知"),
        (
            r"(.+) takes the two parts g and v of a weight norm, got shapes (.+)",
            r"{0} 需要权重归一化的 g 和 v 两部分，得到形状 {1}",
        ),
        (
            r"weight_norm takes the axis that keeps its norm, got (.+)",
            r"weight_norm 需要保持范数的轴，得到 {0}",
        ),
        (r"(.+): (\(.*\)) has no axis (-?\d+)", r"{0}：形状 {1} 没有轴 {2}"),
        (
            r"(.+): (\(.*\)) has no place for an axis (-?\d+)",
            r"{0}：形状 {1} 放不下轴 {2}",
        ),
        (r"unknown dtype ('.*')", r"未知的 dtype {0}"),
        (
            r"('.*') is the target of several in one row: (.+)",
            r"一行中 {0} 多次作为目标：{1}",
        ),
        (
            r"('.*') goes to (.+), and not to ('.*')",
            r"{0} 已对应 {1}，而不是 {2}",
        ),
        (
            r"give tied=True to keep them all, or unpair the wrong one first, with target=",
            "可用 tied=True 全部保留，或先用 target= 取消其中错误的一对",
        ),
        (r"('.*') goes to several: (.+)", r"{0} 对应多个目标：{1}"),
        (r"name the row by its target too: target=(.+)", r"请同时给出目标：target={0}"),
        (r"name the row by its source", "请用来源指明该行"),
        (r"no suggestion for ('.*')", r"没有对 {0} 的建议"),
        (r"see weight_map\.suggestions", "见 weight_map.suggestions"),
        (r"('.*') is one part of a weight norm", r"{0} 是权重归一化的一部分"),
        (
            r"give both, g first, with the transform (\S+), or call (\S+) first",
            r"请用变换 {0} 给出两部分（g 在前），或先调用 {1}",
        ),
        (r"('.*') is a weight before its spectral norm", r"{0} 是谱归一化之前的权重"),
        (r"('.*') is a weight before it is pruned", r"{0} 是剪枝之前的权重"),
        (
            r"('.*') is a weight before its parametrization",
            r"{0} 是参数化之前的权重",
        ),
        (r"call (\S+\(.*\)) first", r"请先调用 {0}"),
        # Why numpy does not make the shape.
        (r"axes don't match array", "轴的个数与数组不符"),
        (
            r"cannot select an axis to squeeze out which has size not equal to one",
            "只能去掉长度为 1 的轴",
        ),
        (
            r"axis (-?\d+) is out of bounds for array of dimension (\d+)",
            r"轴 {0} 超出 {1} 维数组的范围",
        ),
        (r"repeated axis in transpose", "轴重复"),
        (
            r"cannot reshape array of size (\d+) into shape (\(.*\))",
            r"{0} 个值无法排成形状 {1}",
        ),
        (r"can only specify one unknown dimension", "只能有一个未知的长度"),
        (r"sizes (\[.*\]) are not those of axis (-?\d+)", r"各段长度 {0} 与轴 {1} 不符"),
        (r"tuple index out of range", "没有这个轴"),
        (r"not enough values to unpack .*", "缺少参数"),
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
        (r"embedded null (?:byte|character)(?: in \w+)?", "路径中含有空字符"),
        (r"Could not determine home directory\.", "找不到该用户的主目录"),
        (
            r"('.*') holds half of a character, which no file can hold",
            r"{0} 含有半个字符，文件无法保存",
        ),
        (r"('.*') is blank, which no file takes for a name", r"{0} 为空白，文件不能以此为名称"),
        (r"rename it", "请改名"),
        (
            r"(.+) goes to (.+) and to (.+): the json knows one target for a name",
            r"{0} 对应 {1} 和 {2}：json 中一个名称只能有一个目标",
        ),
        (
            r"use \.yaml, or call (\S+\(.*\)) before",
            r"请用 .yaml，或事先调用 {0}",
        ),
        (
            r"(.+) was written without (\d+) dropped tensors?, which the json cannot name \((.+)\)",
            r"{0} 未包含 {1} 个已丢弃的张量，json 无法表示（{2}）",
        ),
        (r"the yaml holds (?:it|them)", "yaml 可以包含"),
        # What a mapping does not say: `formats.pairing_writer` and `formats.pairing_operators`.
        (r"(.* 映射无法如实表达.*)（(.+)）", r"{0}（{1}）"),
        (
            r"not said here: expected to be missing: (.+) on the left",
            r"未写入：左侧 {0} 预期无对应",
        ),
        (
            r"not said here: expected to be missing: (.+) on the right",
            r"未写入：右侧 {0} 预期无对应",
        ),
        (r"not said here: (.+)", r"未写入：{0}"),
        (r"said here, but not so paired: (.+)", r"文件会配对，而此处没有：{0}"),
        (
            r"(.+) cannot keep apart what reading it may pair again: (.+)",
            r"{0} 无法表示这些未配对，读取时可能重新配对：{1}",
        ),
        (
            r"expect_missing\(name\) says that there is no partner",
            "可用 expect_missing(name) 说明没有对应",
        ),
        (
            r'expect_missing\(name\) says that there is no partner in a mapping of kind="data"',
            "可用 expect_missing(name) 在 data 映射中说明没有对应",
        ),
        (
            r"(.+) cannot say that these are expected to be missing in some steps or ranks only, "
            r"and does not say it at all: (.+)",
            r"{0} 无法表示只在部分步或进程中预期无对应，因此未写入：{1}",
        ),
        (
            r"('.*') and ('.*') are paired otherwise in another step or rank, which a data mapping "
            r"cannot say",
            r"{0} 与 {1} 在其他步或进程中的配对不同，data 映射无法表示",
        ),
        (
            r"pair one step and rank, such as (.+)",
            r"请只配对一个步和进程，例如 {0}",
        ),
        (
            r"a cell mapping gives each module one partner, and cannot say (.+)",
            r"cell 映射中每个模块只能有一个对应，无法表示 {0}",
        ),
        (
            r"('.*') would not be read as a module in a cell mapping, where classes begin with a "
            r"capital letter",
            r"cell 映射中类名以大写字母开头，{0} 不会被当作模块",
        ),
        (
            r"no module is paired with a module, so there is nothing for a (layer|cell) mapping",
            r"没有模块与模块配对，{0} 映射无内容可写",
        ),
        (
            r"an api mapping pairs the n-th call of an operator with the n-th, by position of the "
            r"arguments, and cannot say (.+)",
            r"api 映射按次序配对算子的调用、按位置配对参数，无法表示 {0}",
        ),
        (r"(.+) \(calls (\d+) and (\d+)\)", r"{0}（第 {1} 次与第 {2} 次调用）"),
        (r"(.+) \(paired otherwise in another call\)", r"{0}（在另一次调用中配对不同）"),
        (
            r"(.+) \(would be paired, and has another partner\)",
            r"{0}（会被配对，但已有其他对应）",
        ),
        (r"(.+) and ([\d,]+) more", r"{0}，另有 {1} 项"),
        (r"(.+ on the (?:left|right)), (\S+ on the (?:left|right))", r"{0}、{1}"),
        (r"(\S+) on the left", r"左侧 {0}"),
        (r"(\S+) on the right", r"右侧 {0}"),
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
