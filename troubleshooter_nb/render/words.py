"""Every verdict and sentence shown to a person, by id, in English and Chinese."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from troubleshooter_nb.render.causes.explanations import EXPLANATIONS
from troubleshooter_nb.render.charts import scientific
from troubleshooter_nb.shapes import shape_text

# verdict -> (glyph, ASCII glyph, tone, English, Chinese)
VERDICTS: Mapping[str, tuple[str, str, str, str, str]] = {
    "identical": ("=", "=", "ok", "identical", "完全一致"),
    "pass": ("✓", "ok", "ok", "pass", "通过"),
    "rounding": ("≈", "~", "ok", "rounding", "舍入误差"),
    "reduced": ("✗", "x", "bad", "reduced", "精度降低"),
    "differs": ("✗", "x", "bad", "differs", "不一致"),
    "unrelated": ("✗", "x", "bad", "unrelated", "不相关"),
    "nan": ("◇", "N", "miss", "NaN/Inf", "NaN/Inf 不一致"),
    "shape": ("▲", "S", "warn", "shape", "形状不同"),
    "missing": ("○", "-", "warn", "missing", "缺失"),
    "unreadable": ("!", "!", "warn", "unreadable", "无法读取"),
    "undecidable": ("?", "?", "warn", "undecidable", "无法判定"),
}

# What became known of where a pair's difference comes from, shown in place of its verdict.
ORIGINS: Mapping[str, tuple[str, str, str, str, str]] = {
    "created": ("✗", "x", "bad", "created", "源头"),
    # The verdict passed, and what follows from the difference may not.
    "within": ("✓", "ok", "warn", "created", "源头"),
    "carried": ("↳", ">", "warn", "carried", "传播"),
}
_MARKS = {**VERDICTS, **ORIGINS}

# Verdicts that say values differ, as opposed to "could not be compared".
DIFFERING = ("reduced", "differs", "unrelated", "nan", "shape")

_SENTENCES: Mapping[str, tuple[str, str]] = {
    "": ("", ""),
    "identical_nonfinite": (
        "bit-equal, and both sides hold {left_nan_count} NaN and {left_inf_count} Inf",
        "逐位相等，且两侧均含 {left_nan_count} 个 NaN、{left_inf_count} 个 Inf",
    ),
    "pass_dtypes": (
        "values agree, stored as {left_dtype} and {right_dtype}",
        "数值一致，但存储类型为 {left_dtype} 与 {right_dtype}",
    ),
    "pass_blind": (
        "passes only because of atol: relative error {rel} as a whole, largest |right| {scale}",
        "仅因 atol 而通过：整体相对误差 {rel}，|right| 最大 {scale}",
    ),
    "rounding": (
        "rounding of {coarser}: relative error {rel}; passes from rtol = atol = {smallest}",
        "{coarser} 的舍入误差：相对误差 {rel}；rtol = atol = {smallest} 时通过",
    ),
    "reduced": (
        "size and pattern of {detail} rounding: relative error {rel}",
        "误差的大小与分布符合 {detail} 舍入：相对误差 {rel}",
    ),
    "differs": (
        "relative error {rel}, largest {largest}; {share} of elements within tolerance",
        "相对误差 {rel}，最大误差 {largest}；{share} 的元素在容差内",
    ),
    "unrelated": (
        "does not correlate with the reference (correlation {likeness})",
        "与基准不相关（相关系数 {likeness}）",
    ),
    "nan_mismatch": (
        "{mismatches} not alike on both sides",
        "两侧的 {mismatches} 不一致",
    ),
    "nan_shared": (
        "{left_nan_count} NaN at the same places on both sides; equal_nan=True accepts them",
        "两侧相同位置有 {left_nan_count} 个 NaN；equal_nan=True 时视为相等",
    ),
    "shape": (
        "shapes {left_shape} and {right_shape} differ",
        "形状不同：{left_shape} 与 {right_shape}",
    ),
    "missing_left": ("no partner in the left dump", "左侧没有对应项"),
    "missing_right": ("no partner in the right dump", "右侧没有对应项"),
    "missing_expected": ("missing, as declared", "缺失，已声明为预期"),
    "missing_noted": ("no partner is expected: {detail}", "无需对应项：{detail}"),
    "digest_kinds": (
        "checksums of two kinds cannot be compared ({detail}); dump both sides with one task",
        "两侧校验和的种类不同，无法比较（{detail}）；请用同一任务重新采集",
    ),
    "unreadable": ("{detail}", "{detail}"),
    "unreadable_left": ("left: {detail}", "左侧：{detail}"),
    "unreadable_right": ("right: {detail}", "右侧：{detail}"),
    "interrupted": (
        "not measured: the comparison was interrupted",
        "未测量：比较被中断",
    ),
    "undecidable": (
        "equal statistics cannot prove equal values: order and signs may differ",
        "统计量相等不能证明数值相等：顺序与符号可能不同",
    ),
    "statistics_differ": (
        "{detail} is {left_statistic} and {right_statistic}",
        "{detail} 分别为 {left_statistic} 与 {right_statistic}",
    ),
    "statistics_only_left": (
        "{detail} on the left side only, by the statistics",
        "由统计量可知仅左侧存在 {detail}",
    ),
    "statistics_only_right": (
        "{detail} on the right side only, by the statistics",
        "由统计量可知仅右侧存在 {detail}",
    ),
    "statistics_counts": (
        "other numbers of NaN or Inf, by the statistics: left {left_value}, right {right_value}",
        "由统计量可知 NaN 或 Inf 的数量不同：左 {left_value}，右 {right_value}",
    ),
    "statistics_opposite": (
        "infinities of opposite sign, by the statistics: left {left_value}, right {right_value}",
        "由统计量可知无穷大的符号相反：左 {left_value}，右 {right_value}",
    ),
    "statistics_both": (
        "{detail} on both sides, by the statistics; whether at the same places was not recorded",
        "由统计量可知两侧均有 {detail}；是否在相同位置未记录",
    ),
    "statistics_all_nan": (
        "every element is NaN on both sides, by the statistics",
        "由统计量可知两侧全部元素均为 NaN",
    ),
    "digest_same": ("equal checksums", "校验和相等"),
    "digest_differs": (
        "other bits, by checksum; how far apart they are was not recorded",
        "校验和不同；未记录差异大小",
    ),
    "digest_differs_nan": (
        "NaN on both sides, and other bits, by checksum",
        "两侧均有 NaN，且校验和不同",
    ),
    "defined_differently": ("{detail}", "{detail}"),
    "nothing_shared": (
        "the two dumps recorded nothing that could be compared",
        "两侧没有可以比较的记录",
    ),
    "value_same": ("both are {detail}", "两侧均为 {detail}"),
    "values_close": (
        "within tolerance: left {left_value}, right {right_value}",
        "在容差内：左 {left_value}，右 {right_value}",
    ),
    "values_differ": (
        "left {left_value}, right {right_value}",
        "左 {left_value}，右 {right_value}",
    ),
    "constants_close": (
        "every element is the same number, by min and max: left {left_value}, right {right_value}",
        "由最小值与最大值可知全部元素相同：左 {left_value}，右 {right_value}",
    ),
    "constants_rounding": (
        "rounding of {coarser}; every element is one number, by min and max: left {left_value}, "
        "right {right_value}",
        "{coarser} 的舍入误差；由最小值与最大值可知每侧全部元素为同一数：左 {left_value}，"
        "右 {right_value}",
    ),
    "constants_differ": (
        "every element is one number, by min and max: left {left_value}, right {right_value}",
        "由最小值与最大值可知每侧全部元素为同一数：左 {left_value}，右 {right_value}",
    ),
    "no_tensor": (
        "only one side is a tensor: left {left_value}, right {right_value}",
        "仅一侧为张量：左 {left_value}，右 {right_value}",
    ),
    # Sentences of the reprs.
    "all_agree": ("{passed} of {total} pairs agree", "{total} 对中 {passed} 对一致"),
    "some_differ": ("{failed} of {total} pairs differ", "{total} 对中 {failed} 对不一致"),
    "colon": (": ", "："),
    "created_count": ("{count} created the error", "{count} 对为误差源头"),
    "within_count": (
        "{count} created the error within the tolerance",
        "{count} 对在容差内产生误差",
    ),
    "carried_count": ("{count} carried it", "{count} 对为传播"),
    "carried_on_count": ("{count} carried an error", "{count} 对为传播"),
    "without_effect_count": ("{count} without effect", "{count} 对没有后续影响"),
    "within_at": ("within the tolerance a difference begins at", "在容差内，差异始于"),
    "within_title": ("Within the tolerance a difference begins", "差异始于（容差内）"),
    "note": ("note: {text}", "说明：{text}"),
    "more_note": ("{count} more note{where}", "另有 {count} 条说明{where}"),
    "more_notes": ("{count} more notes{where}", "另有 {count} 条说明{where}"),
    "on_either_dump": (", on either dump", "（任一侧）"),
    "more_lines": ("{count} more lines", "另有 {count} 行"),
    "expected_word": ("expected", "属预期"),
    "dropped_word": ("(dropped)", "（丢弃）"),
    "suggested": ("suggested: {how}", "建议：{how}"),
    "worst_of": ("worst {largest}", "最差 {largest}"),
    "at_word": ("at", "位于"),
    "largest_finite": ("largest finite {value}", "最大有限值 {value}"),
    "checkpoint_title": (
        "CheckpointDiff {left} against {right}",
        "权重差异：{left} 对比基准 {right}",
    ),
    "pairing_title": ("Pairing of {left} with {right}", "配对：{left} 与 {right}"),
    "dump_title": ("Dump {label}", "数据 {label}"),
    "map_title": ("WeightMap {source} -> {target}", "权重映射：{source} -> {target}"),
    "map_row": ("{count} row", "{count} 行"),
    "map_rows": ("{count} rows", "{count} 行"),
    "comma": (", ", "，"),
    "nothing": ("no pairs: nothing was compared", "没有配对：未进行比较"),
    "nothing_selected": ("nothing selected: none of {total} pairs", "未选中任何项：共 {total} 对"),
    "first_at": ("first at", "首个差异："),
    "without_partner": ("{count} without a partner", "{count} 项没有对应"),
    "unreadable_count": ("{count} not readable", "{count} 项无法读取"),
    "shape_count": ("{count} of other shape", "{count} 对形状不同"),
    "undecidable_count": ("{count} undecidable", "{count} 对无法判定"),
    "nonfinite_count": (
        "{count} identical, NaN or Inf included",
        "{count} 对逐位相等，但含 NaN 或 Inf",
    ),
    "rounding_count": ("{count} differ by rounding only", "{count} 对仅有舍入误差"),
    "blind_count": (
        "{count} pass only because of atol",
        "{count} 对仅因 atol 而通过",
    ),
    "interrupted_count": ("interrupted: {count} not measured", "已中断：{count} 对未测量"),
    "sides": ("{left} against {right}, the reference", "{left} 对比基准 {right}"),
    "digests": (
        "checksums: left {left}, right {right}",
        "校验和：左 {left}，右 {right}",
    ),
    "next": ("next:", "下一步："),
    "first_entry": ("first at", "首个为"),
    "saturated_word": ("at the largest finite value", "达到最大有限值"),
    "near_word": ("near overflow of the dtype", "接近该类型的溢出上限"),
    "zero_word": ("all zero", "全为零"),
    "constant_word": ("constant", "常数"),
    "not_read_word": ("not read", "未读取"),
    "criterion": (
        "pass = |left − right| ≤ {atol} + {rtol}·|right| everywhere · figures in float64",
        "通过 = 处处满足 |left − right| ≤ {atol} + {rtol}·|right| · 指标以 float64 计算",
    ),
    "backward_order": (
        "parameter gradients are walked from the loss backwards",
        "参数梯度按反向传播顺序（从损失开始）排列",
    ),
    "first_divergence": ("First difference", "首个差异"),
    "before_agrees": (
        "The pair before it in execution order still agrees: {name}, relative error {rel}.",
        "执行顺序上的前一对仍然一致：{name}，相对误差 {rel}。",
    ),
    "is_first": (
        "It is the first pair in execution order: nothing recorded comes before it.",
        "它是执行顺序上的第一对：此前没有记录。",
    ),
    "not_compared_before": (
        "Not compared before it: {count}.",
        "此前有 {count} 对未能比较。",
    ),
    "by_name": (
        "names carry no number, so the order is that of the names and not of execution",
        "名称中没有编号，因此按名称排序，而非执行顺序",
    ),
    "parameters_forward": (
        "parameters are listed as saved; for gradients: compare(..., walk='backward')",
        "参数按保存顺序排列；若为梯度，请用 compare(..., walk='backward')",
    ),
    "concentrated": (
        "99 % of the squared error lies in [{start}:{stop}] of {length} on axis {axis}.",
        "轴 {axis} 上 99 % 的平方误差位于 [{start}:{stop}]（长度 {length}）。",
    ),
    "spread": ("not concentrated", "不集中"),
    "range": (
        "99 % of the squared error in [{start}:{stop}] of {length}",
        "99 % 的平方误差位于 [{start}:{stop}]，长度 {length}",
    ),
    "along": ("Error along the network", "误差沿网络的变化"),
    "along_remark": (
        "largest |Δ| of each pair in execution order: – passes, × differs, △ NaN or Inf, | other",
        "按执行顺序列出每对的最大 |Δ|：– 通过，× 不一致，△ NaN 或 Inf，| 其他",
    ),
    "along_remark_origin": (
        "largest |Δ| of each pair in execution order: – passes, × created here, | carried on or "
        "without effect, △ NaN or Inf",
        "按执行顺序列出每对的最大 |Δ|：– 通过，× 源头，| 传播或无后续影响，△ NaN 或 Inf",
    ),
    "worst": ("Worst {count}", "最差 {count} 对"),
    "worst_remark": (
        "failed first, then by relative L2 error · last column: histogram of |Δ|, one axis for all",
        "先列未通过者，再按相对 L2 误差排列 · 末列：|Δ| 直方图，各行共用坐标轴",
    ),
    "worst_remark_origin": (
        "created first, then by relative L2 error · growth: relative L2 error over that of what it "
        "was computed from, or over rounding · last column: histogram of |Δ|, one axis for all",
        "先列源头，再按相对 L2 误差排列 · growth：相对 L2 误差与其输入误差（或舍入误差）之比 · "
        "末列：|Δ| 直方图，各行共用坐标轴",
    ),
    "inside": ("Inside the worst tensors", "最差张量的内部"),
    "all_pairs": ("All pairs", "全部配对"),
    "all_pairs_remark": (
        "in execution order; strip: largest |Δ| of each pair, 1e-9 to 1e1",
        "按执行顺序；条形：每对的最大 |Δ|，范围 1e-9 至 1e1",
    ),
    "left_out": (
        "Rows left out to keep this small: cmp.to_dataframe() has all {total}.",
        "为控制篇幅省略了部分行：cmp.to_dataframe() 含全部 {total} 行。",
    ),
    "unmatched": ("{count} without a partner", "{count} 项没有对应"),
    "dump_tensor": ("{count} tensor", "{count} 个张量"),
    "dump_tensors": ("{count} tensors", "{count} 个张量"),
    "dump_steps": ("{count} steps", "{count} 个 step"),
    "dump_ranks": ("{count} ranks", "{count} 个 rank"),
    "matched": ("{count} matched", "已配对 {count} 项"),
    "matched_how": ("{count} matched ({how})", "已配对 {count} 项（{how}）"),
    "unmatched_left": ("{count} unmatched on the left", "左侧未匹配 {count} 项"),
    "unmatched_right": ("{count} unmatched on the right", "右侧未匹配 {count} 项"),
    "other_shape": ("{count} of other shape", "{count} 项形状不同"),
    "unsure_pairs": ("{count} below 0.5 confidence", "{count} 项置信度低于 0.5"),
    "provenance": ("Provenance", "运行信息"),
    "heat_map": (
        "Heat map of the absolute error of {name}, {shape}: largest value of each tile; "
        "worst {largest} at {index}",
        "{name}（{shape}）绝对误差热图：每格取最大值；最大 {largest}，位于 {index}",
    ),
    "tile_remark": ("|Δ|, log scale, largest of each tile", "|Δ|，对数刻度，每格最大值"),
    "chart_alt": (
        "Largest absolute error by execution order: {before} before the first difference, "
        "{first} at it, up to {after} after it",
        "按执行顺序的最大绝对误差：首个差异之前 {before}，该处 {first}，之后最大 {after}",
    ),
    "chart_alt_origin": (
        "; created at {created}; {carried} pairs only carry it on",
        "；源头：{created}；另有 {carried} 对仅为传播",
    ),
    "chart_alt_nan": (
        "; NaN or Inf first at {name}",
        "；NaN 或 Inf 首见于 {name}",
    ),
    "chart_alt_pass": (
        "Largest absolute error by execution order: at most {largest}",
        "按执行顺序的最大绝对误差：不超过 {largest}",
    ),
    "mismatch_violet": (
        "{count} NaN or Inf mismatches, violet in the map",
        "{count} 处 NaN 或 Inf 不一致，图中为紫色",
    ),
    "with_nan": ("{count} with NaN", "{count} 个含 NaN"),
    "with_inf": ("{count} with Inf", "{count} 个含 Inf"),
    "saturated": ("{count} at the largest finite value", "{count} 个达到最大有限值"),
    "near_limit": ("{count} near overflow of the dtype", "{count} 个接近该类型的溢出上限"),
    "all_zero": ("{count} all zero", "{count} 个全为零"),
    "constant": ("{count} constant", "{count} 个为常数"),
    "all_finite": (
        "all values finite, no tensor all zero or constant",
        "所有数值有限，没有全零或常数张量",
    ),
    "not_summarised": (
        "values not read yet: dump.summarise() adds statistics",
        "尚未读取数值：dump.summarise() 可补充统计量",
    ),
    "not_read": (
        "{count} of {of} not read yet: dump.summarise() adds statistics",
        "{of} 个中有 {count} 个尚未读取：dump.summarise() 可补充统计量",
    ),
    "gap": (
        "step {step}, rank {rank}: {count} entries missing that others have",
        "step {step}、rank {rank}：缺少其他位置拥有的 {count} 项",
    ),
    "magnitudes": ("Magnitude along the network", "数值大小沿网络的变化"),
    "magnitudes_remark": (
        "largest |x| of each tensor in the order of saving: – ordinary, | zero, constant or near "
        "overflow, △ NaN or Inf",
        "按保存顺序列出每个张量的最大 |x|：– 正常，| 全零、常数或接近溢出，△ NaN 或 Inf",
    ),
    "magnitudes_alt": (
        "Largest magnitude of each tensor in the order of saving, from {smallest} to {largest}",
        "按保存顺序的每个张量最大绝对值，从 {smallest} 到 {largest}",
    ),
    "pool": ("{count} without a partner in {label}", "{label} 中 {count} 项没有对应"),
    "closest": ("closest:", "最接近："),
    "check_these": ("Check these pairs ({count})", "请检查这些配对（{count}）"),
    "certain": ("{count} certain pairs", "{count} 对确定的配对"),
    "look_first": ("Look at these first ({count})", "先看这些（{count}）"),
    "tensors": ("{count} tensors · {size} elements", "{count} 个张量 · {size} 个元素"),
    "map_coverage": (
        "{share} of the elements have a target; {renamed} renamed, {changed} transformed, "
        "{dropped} dropped",
        "{share} 的元素有去处；改名 {renamed} 项，变换 {changed} 项，丢弃 {dropped} 项",
    ),
    "unmatched_sources": (
        "{count} of the source go nowhere: {names}",
        "源中 {count} 项没有去处：{names}",
    ),
    "unmatched_targets": (
        "{count} of the target keep their values: {names}",
        "目标中 {count} 项保持原值：{names}",
    ),
    "map_suggestions": (
        "suggestions, as values lie elsewhere or otherwise: {count}; see .suggestions and "
        ".accept()",
        "{count} 行的值在别处或排列不同 → weight_map.suggestions / .accept()",
    ),
    "map_unknown": (
        "{count} rows; no shapes are known before a source is: convert_weights checks them",
        "{count} 行 · 源的形状未知 → convert_weights",
    ),
    "map_problem_count": ("{count} rows cannot be converted", "{count} 行无法转换"),
    "notes": ("{count} notes", "{count} 条说明"),
    "map_problems": ("Cannot be converted", "无法转换"),
    "map_changing": (
        "What changes ({shown} of {count})",
        "有改动的行（{count} 行中的 {shown} 行）",
    ),
    "map_all": ("All rows", "全部行"),
    "map_block": ("{count} tensors, {changing} changed", "{count} 个张量，{changing} 个有改动"),
    "no_facts": ("nothing recorded", "没有记录"),
    "same_structure": ("same structure", "结构相同"),
    "other_structure": ("the structure differs", "结构不同"),
    "structure_rows": ("Not alike in structure", "结构上的不同"),
    "paired_of": ("{count} of {total} entries paired", "共 {total} 项，配对 {count} 项"),
    "structure_left_only": ("{count} only on the left", "仅左侧有 {count} 项"),
    "structure_right_only": ("{count} only on the right", "仅右侧有 {count} 项"),
    "structure_unreadable": ("{count} unreadable", "{count} 项无法读取"),
    "structure_shape": ("{count} of other shape", "{count} 项形状不同"),
    "structure_dtype": ("{count} of other dtype", "{count} 项类型不同"),
    "structure_guessed": ("{count} paired by a guess", "{count} 项为推测配对"),
    "guessed_word": ("guessed pair", "推测的配对"),
    "all_identical": (
        "all {count} compared tensors are bit-equal",
        "比较的 {count} 个张量逐位相等",
    ),
    "nothing_compared": ("no tensor could be compared", "没有可以比较的张量"),
    "structure_renamed": ("{count} renamed", "{count} 项名称不同"),
    "structure_expected": ("{count} alone as expected", "{count} 项没有对应，属预期"),
    "left_only_word": ("only on the left", "仅左侧"),
    "right_only_word": ("only on the right", "仅右侧"),
    "unreadable_word": ("unreadable", "无法读取"),
    "shape_word": ("shape", "形状"),
    "dtype_word": ("dtype", "类型"),
    "names_differ": ("names:", "名称："),
    "values_not_compared": (
        "values were not compared: only headers were read",
        "未比较数值：仅读取了文件头",
    ),
    "changed_untouched": (
        "tensors: {changed} changed, {untouched} untouched",
        "{changed} 个张量有变化，{untouched} 个未变",
    ),
    "whole_change": (
        "; all parameters together by {change} of their norm",
        "；全部参数整体变化为其范数的 {change}",
    ),
    "rate_known": ("learning rate {rate}", "学习率 {rate}"),
    "by_block": ("By block", "按模块"),
    "by_block_remark": (
        "relative: norm of the change / norm of the right side",
        "relative：变化的范数 / 右侧的范数",
    ),
    "largest_changes": ("Largest changes", "变化最大"),
    "untouched_list": ("{count} untouched (bit-equal)", "{count} 个未变（逐位相等）"),
    "expected_list": (
        "{count} without partner, as expected",
        "{count} 项没有对应，属预期",
    ),
    "tied_list": ("{count} tied to another name", "{count} 项与另一名称共用同一张量"),
    "cards_differ": ("the two runs differ in", "两次运行的不同之处"),
    "more": ("{count} more", "另有 {count} 项"),
    **EXPLANATIONS,
}


_FIGURES = {
    "rel": "rel_l2_error",
    "largest": "max_abs_error",
    "smallest": "smallest_passing_tolerance",
    "likeness": "correlation",
}


def sentence(key: str, language: str = "en", **values: object) -> str:
    """A sentence by id; numbers are passed in as they shall be shown."""
    return _SENTENCES[key][language == "zh"].format(**values)


def has_sentence(key: str) -> bool:
    """Whether there is a sentence of this id."""
    return key in _SENTENCES


def glyph(verdict: str, *, ascii_only: bool = False) -> str:
    """The mark of a verdict or an origin."""
    return _MARKS[verdict][1 if ascii_only else 0]


def tone_of(verdict: str) -> str:
    """The tone of a verdict or an origin: ok, bad, warn or miss."""
    return _MARKS[verdict][2]


def word(verdict: str, language: str = "en") -> str:
    """The verdict or the origin in a word."""
    return _MARKS[verdict][4 if language == "zh" else 3]


def reason_text(row: Mapping[str, Any], language: str = "en") -> str:
    """The reason of a row of a comparison in a sentence, from its id and its figures."""
    template = _SENTENCES[row.get("reason_id", "")][language == "zh"]
    if "{" not in template:
        return template
    shapes = {f"{side}_shape": shape_text(row.get(f"{side}_shape")) for side in ("left", "right")}
    return template.format_map(_Gaps(row, **shapes))


class _Gaps(dict[str, Any]):
    """What fills the gaps of a sentence, made when one asks for it."""

    def __missing__(self, name: str) -> str:
        if name in _FIGURES:
            return scientific(float(self[_FIGURES[name]]))
        if name in ("left_statistic", "right_statistic"):
            # As many digits as tell them apart.
            return f"{float(self[name.partition('_')[0] + '_' + self['detail']]):.6g}"
        if name in ("left_value", "right_value"):
            # What the two sides are, with a slash between.
            left, _, right = str(self["detail"]).partition(" / ")
            return left if name == "left_value" else right
        if name == "scale":
            return scientific(max(abs(float(self["right_max"])), abs(float(self["right_min"]))))
        if name == "share":
            return percent(float(self["allclose_ratio"]))
        if name == "mismatches":
            return mismatches(int(self["nan_mismatch_count"]), int(self["inf_mismatch_count"]))
        if name == "coarser":
            return coarser(str(self["left_dtype"]), str(self["right_dtype"]))
        raise KeyError(name)


def growth_text(growth: float) -> str:
    """``×12``, ``×1.4e6``; empty where unknown, nothing in particular over an error of zero."""
    if math.isnan(growth):
        return ""
    if math.isinf(growth):
        return "×∞"
    return f"×{growth:.1f}" if growth < 100 else f"×{scientific(growth)}"


def growth_of(row: Mapping[str, Any]) -> str:
    """Growth of a row's error as a table shows it: ``×1.3``, ``new NaN``, or nothing."""
    growth = float(row["growth"])
    if row["verdict"] == "nan":
        is_new = row["origin"] == "created"
        return f"new {'NaN' if row['nan_mismatch_count'] else 'Inf'}" if is_new else ""
    return "" if row["verdict"] == "shape" else growth_text(growth)


def mismatches(nan: int, inf: int) -> str:
    """``4 NaN, 2 Inf``; what there is none of is left out."""
    counted = ((nan, "NaN"), (inf, "Inf"))
    return ", ".join(f"{count:,} {name}" for count, name in counted if count)


def percent(ratio: float) -> str:
    """A share that is never rounded up to 100 %."""
    if ratio >= 1.0:
        return "100%"
    return f"{min(ratio * 100, 99.99):.2f}%"


def coarser(left_dtype: str, right_dtype: str) -> str:
    """The less precise of two float dtypes, by name; both when they are not comparable."""
    known = ("float8", "bfloat16", "float16", "float32", "complex64", "float64", "complex128")
    for prefix in known:
        for dtype in (left_dtype, right_dtype):
            if dtype.lstrip("<>=").startswith(prefix):
                return dtype
    return left_dtype if left_dtype == right_dtype else f"{left_dtype}/{right_dtype}"
