"""Every word of the editor, by id, in English and Chinese."""

# ruff: noqa: RUF001 - Chinese punctuation is meant

from __future__ import annotations

from collections.abc import Mapping

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
}
