"""Every word of the editor, by id, in English and Chinese."""

# ruff: noqa: RUF001 - Chinese punctuation is meant

from __future__ import annotations

from collections.abc import Mapping

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
    "scalar": ("a scalar", "标量"),
    "values": ("{sizes} values", "{sizes} 个值"),
    "fits_by": ("fits by {how}", "经 {how} 后匹配"),
    "other_size": (
        "{mine} has {count} values, {theirs} has {other}",
        "{mine} 有 {count} 个值，{theirs} 有 {other} 个",
    ),
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
