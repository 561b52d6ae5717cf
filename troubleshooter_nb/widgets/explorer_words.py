"""Every word of the explorer, by id, in English and Chinese."""

# ruff: noqa: RUF001 - Chinese punctuation is meant

from __future__ import annotations

from collections.abc import Mapping

from troubleshooter_nb.widgets.words import word_of

EXPLORER_WORDS: Mapping[str, tuple[str, str]] = {
    # Columns.
    "number": ("#", "#"),
    "verdict": ("verdict", "结论"),
    "health": ("health", "状态"),
    "origin": ("origin", "来源"),
    "names": ("left → right", "左 → 右"),
    "name": ("name", "名称"),
    "step": ("step", "步"),
    "rank": ("rank", "进程"),
    "role": ("role", "角色"),
    "direction": ("direction", "方向"),
    "layer": ("layer", "层类型"),
    "dtype": ("dtype", "类型"),
    "shape": ("shape", "形状"),
    "max_abs_error": ("max |Δ|", "最大 |Δ|"),
    "rel_l2_error": ("rel L2", "相对 L2"),
    "one_minus_cosine": ("1 − cos", "1 − cos"),
    "growth": ("growth", "放大"),
    "largest": ("max |x|", "最大 |x|"),
    "mean": ("mean", "均值"),
    "l2": ("L2", "L2"),
    "nan_count": ("NaN", "NaN"),
    "inf_count": ("Inf", "Inf"),
    "zero_count": ("zeros", "零"),
    "size": ("elements", "元素数"),
    "created": ("created", "产生"),
    "within": ("created within tol.", "容差内产生"),
    "carried": ("carried", "传入"),
    "without_effect": ("without effect", "没有后续影响"),
    "allclose_ratio": ("in tol.", "容差内"),
    # Figures of an opened row that are no columns.
    "cosine": ("cosine", "余弦相似度"),
    "smallest_passing_tolerance": ("smallest passing tolerance", "可通过的最小容差"),
    "mean_abs_error": ("mean |Δ|", "平均 |Δ|"),
    "rmse": ("RMSE", "均方根误差"),
    "correlation": ("correlation", "相关系数"),
    "max_rel_error": ("max relative error", "最大相对误差"),
    "mean_rel_error": ("mean relative error", "平均相对误差"),
    "mape": ("MAPE", "平均绝对百分比误差"),
    "unequal_count": ("unequal elements", "不相等的元素"),
    "nan_mismatch_count": ("NaN on one side", "仅一侧为 NaN"),
    "inf_mismatch_count": ("Inf on one side", "仅一侧为 Inf"),
    "zero_reference_count": ("right is 0", "右侧为 0"),
    "min": ("min", "最小值"),
    "max": ("max", "最大值"),
    # Health of a dump's entry.
    "ok": ("ok", "正常"),
    "constant": ("constant", "常数"),
    "zero": ("all zero", "全为零"),
    "near": ("near overflow", "接近溢出"),
    "saturated": ("saturated", "达到上限"),
    "inf": ("Inf", "Inf"),
    "nan": ("NaN", "NaN"),
    "unreadable_entry": ("unreadable", "无法读取"),
    "not_read": ("not read", "未读取"),
    # The bar above the table.
    "filter_label": ("Filter names", "按名称筛选"),
    "filter_hint": ("filter names, / to come here", "按名称筛选，按 / 跳到此处"),
    "all": ("all", "全部"),
    "none": ("(none)", "（无）"),
    "from_pair": ("pairs from", "配对从"),
    "from_entry": ("entries from", "条目从"),
    "to": ("to", "到"),
    "clear": ("Clear filters", "清除筛选"),
    "count": ("{shown} of {total} shown", "显示 {shown} / {total}"),
    "selected": (", {selected} selected", "，已选 {selected}"),
    "selected_only": ("Selected only", "仅显示已选"),
    "clear_selection": ("Clear selection", "清除选择"),
    "nothing": ("no row fits these filters", "没有符合筛选条件的行"),
    "no_rows": ("there are no rows: nothing was recorded or compared", "没有行：没有记录或比较"),
    "table_label": (
        "Pairs: arrow keys move, Enter opens, Space selects, slash filters",
        "配对：方向键移动，Enter 打开，空格选择，斜杠筛选",
    ),
    "entries_label": (
        "Entries: arrow keys move, Enter opens, Space selects, slash filters",
        "条目：方向键移动，Enter 打开，空格选择，斜杠筛选",
    ),
    "select_row": ("select {number}", "选择 {number}"),
    "keys": (
        "↑ ↓ move · Enter opens · Space selects · Shift+click a range · / filters · Esc closes, "
        "then deselects",
        "↑ ↓ 移动 · Enter 打开 · 空格选择 · Shift+单击选范围 · / 筛选 · Esc 关闭，再取消选择",
    ),
    # The chart.
    "chart_pairs": (
        "largest |Δ| of each pair in execution order, log scale; drag to filter, click to go there",
        "按执行顺序的每对最大 |Δ|，对数刻度；拖动以筛选，单击以跳转",
    ),
    "chart_entries": (
        "largest |x| of each entry, log scale; drag to filter, click to go there",
        "每个条目的最大 |x|，对数刻度；拖动以筛选，单击以跳转",
    ),
    "chart_axis": (
        "axis 1e{low} to 1e{high}; above it {over}, below or 0 {under}, not measured {unsized}",
        "坐标轴 1e{low} 至 1e{high}；其上 {over}，其下或为 0 {under}，未测量 {unsized}",
    ),
    "mark_ok": ("– passes", "– 通过"),
    "mark_bad": ("× differs", "× 不一致"),
    "mark_created": ("× created here", "× 在此产生"),
    "mark_without_effect": ("+ differs, without effect", "+ 不一致，没有后续影响"),
    "mark_carried": ("| carried", "| 由输入传入"),
    "mark_warn": ("○ no values or other shape", "○ 无数值或形状不同"),
    "mark_miss": ("△ NaN or Inf", "△ NaN 或 Inf"),
    "mark_over": ("^ above the axis", "^ 超出坐标轴"),
    "mark_fine": ("– ordinary", "– 正常"),
    "mark_odd": ("○ zero, constant or near overflow", "○ 全零、常数或接近溢出"),
    "mark_unread": ("□ unreadable or not read", "□ 无法读取或未读取"),
    "no_chart": (
        "The values were not read yet: explore(dump.summarise()) shows their size here.",
        "尚未读取数值：explore(dump.summarise()) 将在此显示其大小。",
    ),
    "no_size": (
        "No value here is finite and other than 0, so there is no size to draw: {counts}.",
        "此处没有有限的非零数值，因此没有可绘制的大小：{counts}。",
    ),
    "no_pair_sizes": (
        "No pair was compared value by value, so there is no |Δ| to draw: {counts}.",
        "没有逐值比较的配对，因此没有可绘制的 |Δ|：{counts}。",
    ),
    # The opened row.
    "opened": (
        "opened below the table, Tab goes there: #{number} {name}, {what}",
        "已在表格下方打开，按 Tab 前往：#{number} {name}，{what}",
    ),
    "close": ("Close", "关闭"),
    "reading": ("reading {name} …", "正在读取 {name} …"),
    "side": ("side", "侧"),
    "left": ("left", "左"),
    "right": ("right", "右"),
    "value": ("value", "值"),
    "figures": ("Figures", "指标"),
    "statistics": ("Statistics", "统计量"),
    "worst": ("Worst elements", "最差元素"),
    "largest_elements": ("Largest elements", "最大元素"),
    "index": ("index", "下标"),
    "error": ("|Δ|", "|Δ|"),
    "relative": ("relative", "相对"),
    "profiles": ("Where on each axis: squared error", "各轴上的平方误差"),
    "value_profiles": ("Along each axis: squares of the values", "各轴上的数值平方"),
    "axis": ("axis {axis}", "轴 {axis}"),
    "value_histogram": (
        "Values, {low} to {high} · height √count",
        "数值，{low} 至 {high} · 柱高为 √计数",
    ),
    "no_values": ("Values: none is finite", "数值：没有有限值"),
    "error_histogram": (
        "|Δ|, {low} to {high}, log scale · height √count",
        "|Δ|，{low} 至 {high}，对数刻度 · 柱高为 √计数",
    ),
    "equal_elements": (" · {count} equal elements in none", " · {count} 个相等元素未计入"),
    "no_errors": ("|Δ|: none is finite and other than 0", "|Δ|：没有有限的非零误差"),
    "span": ("{low} to {high}", "{low} 至 {high}"),
    "no_error": ("no finite error", "没有有限误差"),
    "no_value": ("no finite value other than 0", "没有有限的非零数值"),
    "tiny_squares": ("squares too small for a picture", "平方值过小，无法绘制"),
    "value_range": (
        "99 % of the squares in [{start}:{stop}] of {length}",
        "99 % 的平方值位于 [{start}:{stop}]，长度 {length}",
    ),
    "map_error": ("|Δ|, log scale, largest of each tile", "|Δ|，对数刻度，每格最大值"),
    "map_value": ("|x|, log scale, largest of each tile", "|x|，对数刻度，每格最大值"),
    "map_label": (
        "Heat map: arrow keys move, Enter zooms in, Backspace zooms out",
        "热图：方向键移动，Enter 放大，Backspace 缩小",
    ),
    "map_hint": ("click a tile to zoom in", "单击一格以放大"),
    "zoom_out": ("Zoom out", "缩小"),
    "whole": ("Whole tensor", "整个张量"),
    "slices": ("picture", "图像"),
    "folded": ("the whole tensor, {rows} × {columns}", "整个张量，{rows} × {columns}"),
    "one_slice": ("one slice of the last two axes", "末两轴的一个切片"),
    "rows_columns": ("rows {rows}, columns {columns}", "行 {rows}，列 {columns}"),
    "mismatch": ("{count} NaN or Inf mismatches (violet)", "{count} 处 NaN 或 Inf 不一致（紫色）"),
    "nonfinite": ("{count} NaN or Inf (violet)", "{count} 个 NaN 或 Inf（紫色）"),
    "alike": ("the same on both sides", "两侧相同"),
    "show_there": ("show {index} in the heat map", "在热图中显示 {index}"),
    # Sentences in place of a picture.
    "waiting": (
        "The table needs the kernel, which has not answered yet. Without a running kernel, run the "
        "cell again; the static record below needs none.",
        "表格需要内核，内核尚未响应。若内核未运行，请重新执行单元格；下方的静态记录不需要内核。",
    ),
    "silent": (
        "the kernel does not answer: run the cell again (or wait where it is busy)",
        "内核没有响应：请重新运行单元格（若内核正忙，请稍候）",
    ),
    "static": (
        "The interactive table needs a running kernel and a trusted notebook: run this cell again. "
        "The static record follows.",
        "交互表格需要运行中的内核与受信任的笔记本：请重新执行此单元格。静态记录如下。",
    ),
    "static_record": ("static record", "静态记录"),
    "statistics_only": (
        "Only statistics were recorded here: there are no values to draw.",
        "此处仅记录了统计量：没有可绘制的数值。",
    ),
    "value_only": (
        "This is a single value and no tensor: there is nothing to draw.",
        "这是单个值而非张量：没有可绘制的内容。",
    ),
    "nothing_recorded": (
        "Neither values nor statistics were recorded here: there is nothing to draw.",
        "此处未记录数值或统计量：没有可绘制的内容。",
    ),
    "left_alone": ("left alone", "仅左侧"),
    "right_alone": ("right alone", "仅右侧"),
    "other_shape": (
        "The shapes differ, so no element has a partner to be compared with.",
        "形状不同，元素之间无法一一比较。",
    ),
    "missing": (
        "There is no partner: only one side recorded this.",
        "没有对应项：仅一侧有记录。",
    ),
    "unreadable": ("The values could not be read.", "数值无法读取。"),
    "empty": ("The tensor has no elements.", "张量没有元素。"),
    "unread": ("The values can no longer be read: {reason}", "数值已无法读取：{reason}"),
    "failed": (
        "The kernel could not answer; its message is in the notebook's log.",
        "内核未能给出结果；错误信息见笔记本日志。",
    ),
}


def explorer_word(key: str, language: str = "en", **values: object) -> str:
    """The words of an id; see `words.word_of`."""
    return word_of(EXPLORER_WORDS, key, language, **values)
