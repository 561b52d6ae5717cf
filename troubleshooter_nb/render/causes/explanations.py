"""Sentences about origins, causes and preflight checks by id, in English and Chinese."""

from __future__ import annotations

from collections.abc import Mapping

EXPLANATIONS: Mapping[str, tuple[str, str]] = {
    # Where a difference comes from.
    "origin_inputs": (
        "Created here: its inputs differ by {source} only, its output by {rel}, growth {growth}. "
        "So the cause is inside this layer or its weights, not upstream.",
        "源头在此：输入仅相差 {source}，输出相差 {rel}，增长 {growth}。"
        "因此原因在该层内部或其权重，而非上游。",
    ),
    "origin_inputs_equal": (
        "Created here: its inputs are equal, its output differs by {rel}, growth {growth} over "
        "rounding. So the cause is inside this layer or its weights, not upstream.",
        "源头在此：输入相同，输出相差 {rel}，相对舍入误差增长 {growth}。"
        "因此原因在该层内部或其权重，而非上游。",
    ),
    "origin_inputs_unmeasured": (
        "Created here: its inputs differ by {source} at most. So the cause is inside this layer "
        "or its weights, not upstream.",
        "源头在此：输入最多相差 {source}。因此原因在该层内部或其权重，而非上游。",
    ),
    "origin_backward": (
        "Created here in the backward pass: the gradients and values it was given differ by "
        "{source} only, its result by {rel}, growth {growth}. So the cause is in how this layer "
        "is differentiated.",
        "源头在此（反向）：得到的梯度与数值仅相差 {source}，结果相差 {rel}，增长 {growth}。"
        "因此原因在该层的求导。",
    ),
    "origin_backward_equal": (
        "Created here in the backward pass: the gradients and values it was given are equal, its "
        "result differs by {rel}, growth {growth} over rounding. So the cause is in how this "
        "layer is differentiated.",
        "源头在此（反向）：得到的梯度与数值相同，结果相差 {rel}，相对舍入误差增长 {growth}。"
        "因此原因在该层的求导。",
    ),
    "origin_backward_unmeasured": (
        "Created here in the backward pass: the gradients and values it was given differ by "
        "{source} at most. So the cause is in how this layer is differentiated.",
        "源头在此（反向）：得到的梯度与数值最多相差 {source}。因此原因在该层的求导。",
    ),
    "origin_root": (
        "It differs by {rel} before anything is computed from it: nothing recorded made it. So "
        "the cause is in how it was made, loaded or converted.",
        "在参与任何计算之前即相差 {rel}：它不是由已记录的计算得到的。"
        "因此原因在其生成、加载或转换方式。",
    ),
    "origin_root_unmeasured": (
        "It differs before anything is computed from it: nothing recorded made it. So the cause "
        "is in how it was made, loaded or converted.",
        "在参与任何计算之前即不同：它不是由已记录的计算得到的。因此原因在其生成、加载或转换方式。",
    ),
    "origin_update": (
        "It agreed in the step before and now differs by {rel}, while the gradients agree. So the "
        "cause is in the update between the steps: the optimizer, its settings or its schedule.",
        "上一步仍一致，此步相差 {rel}，而梯度一致。"
        "因此原因在两步之间的更新：优化器、其设置或学习率计划。",
    ),
    "origin_update_unmeasured": (
        "It agreed in the step before and now differs. So the cause is in the update between the "
        "steps: the optimizer, its settings or its schedule.",
        "上一步仍一致，此步不同。因此原因在两步之间的更新：优化器、其设置或学习率计划。",
    ),
    "origin_buffer_update": (
        "It agreed in the step before and now differs. So the cause is in how the layer keeps its "
        "statistics from step to step, or in what went through it.",
        "上一步仍一致，此步不同。因此原因在该层如何逐步更新统计量，或在经过它的数据。",
    ),
    "origin_smaller": (
        "Its error, {rel}, is no larger than that of what it was given, {source}, but each side "
        "computed something else from its own.",
        "误差 {rel} 不大于其输入的误差 {source}，但两侧由各自的输入所做的计算不同。",
    ),
    "over_rounding": (" over rounding", "（相对舍入误差）"),
    "origin_input": (
        "An input of the network differs by {rel}. So the cause is in front of the network: data, "
        "order or preprocessing.",
        "网络的输入相差 {rel}。因此原因在网络之前：数据、顺序或预处理。",
    ),
    "origin_input_unmeasured": (
        "An input of the network differs. So the cause is in front of the network: data, order or "
        "preprocessing.",
        "网络的输入不同。因此原因在网络之前：数据、顺序或预处理。",
    ),
    "origin_setting": (
        "A number or text that the call was given differs, and so does its result.",
        "调用所给的数值或文本不同，其结果也不同。",
    ),
    "origin_order": (
        "No inputs were recorded here, so neighbours decide: the pairs before it differ by "
        "{source} at most, this one by {rel}, growth {growth}.",
        "此处没有记录输入，因此按顺序相邻者判断：此前各对最多相差 {source}，"
        "此处相差 {rel}，增长 {growth}。",
    ),
    "origin_order_equal": (
        "No inputs were recorded here, so neighbours decide: nothing before it differs, this one "
        "by {rel}.",
        "此处没有记录输入，因此按顺序相邻者判断：此前没有差异，此处相差 {rel}。",
    ),
    "origin_order_unmeasured": (
        "No inputs were recorded here, so neighbours decide: the pairs before it differ by "
        "{source} at most.",
        "此处没有记录输入，因此按顺序相邻者判断：此前各对最多相差 {source}。",
    ),
    "origin_between": (
        "Made between recorded calls: what was recorded before differs by {source} only, this "
        "value by {rel}, growth {growth}. So the cause is in work that was not recorded, such as "
        "functions between the layers.",
        "产生于已记录的调用之间：此前的记录仅相差 {source}，该值相差 {rel}，增长 {growth}。"
        "因此原因在未记录的计算中，例如层之间的函数。",
    ),
    "origin_between_equal": (
        "Made between recorded calls: nothing recorded before it differs, this value by {rel}. So "
        "the cause is in work that was not recorded, such as functions between the layers.",
        "产生于已记录的调用之间：此前的记录没有差异，该值相差 {rel}。"
        "因此原因在未记录的计算中，例如层之间的函数。",
    ),
    "origin_between_unmeasured": (
        "Made between recorded calls: what was recorded before differs by {source} at most. So "
        "the cause is in work that was not recorded, such as functions between the layers.",
        "产生于已记录的调用之间：此前的记录最多相差 {source}。"
        "因此原因在未记录的计算中，例如层之间的函数。",
    ),
    "origin_carried": (
        "It carries on what it was given: that differs by {source}, this by {rel}, growth "
        "{growth}.",
        "由上游传播：其输入相差 {source}，此处相差 {rel}，增长 {growth}。",
    ),
    "none_created": (
        "No row stands out as the one that created it: rounding that grew, or differences that "
        "whatever uses the values does not see.",
        "没有哪一项明显是源头：可能是逐渐放大的舍入误差，或后续计算并未体现的差异。",
    ),
    "no_origin": ("No difference begins anywhere.", "没有发现差异的源头。"),
    "nothing_asked": (
        "Where it comes from was not asked: compare(..., diagnose=True).",
        "未分析差异的来源：请使用 compare(..., diagnose=True)。",
    ),
    # Why.
    "cause_likely": (
        "Likely cause ({confidence} sure): {cause}.",
        "可能的原因（置信度 {confidence}）：{cause}。",
    ),
    "cause_possible": (
        "Possible cause ({confidence} sure): {cause}.",
        "或许的原因（置信度 {confidence}）：{cause}。",
    ),
    "cause_at": ("It acts at #{number}.", "作用于 #{number}。"),
    "cause_places": ("The same at {count} pairs.", "共 {count} 对如此。"),
    "causes_besides": ("Also possible: {causes}.", "其他可能：{causes}。"),
    "no_cause": (
        "No known cause explains the values.",
        "没有已知原因能解释这些数值。",
    ),
    "observed_scale": (
        "But the values show: right = left × {factor}{offset}, to {residual}.",
        "但数值显示：右侧 = 左侧 × {factor}{offset}，余差 {residual}。",
    ),
    "observed_scale_per_index": (
        "But the values show: a factor or offset for each index of axis {axis} turns left into "
        "right, to {residual}.",
        "但数值显示：沿第 {axis} 轴每个下标各有一个系数或偏移，"
        "即可由左侧得到右侧，余差 {residual}。",
    ),
    "observed_relation": (
        "But the values show: {text}, to {residual}.",
        "但数值显示：{text}，余差 {residual}。",
    ),
    "observed_shift": (
        "But the values show: shifted by {lag} along axis {axis} they agree to {residual}.",
        "但数值显示：沿第 {axis} 轴移动 {lag} 后一致，余差 {residual}。",
    ),
    "observed_moments": (
        "But mean, deviation and extremes agree although the values do not: another order, or "
        "another draw.",
        "但均值、标准差与极值一致而数值不同：顺序不同，或随机抽样不同。",
    ),
    # Where in the tensor, by `analysis.causes.tensors.places.observed_place`.
    "place_index": (
        "The sides differ by more than rounding only at index {start} of axis {axis} "
        "({share} of the elements).",
        "两侧的差异仅在第 {axis} 轴的下标 {start} 处超出舍入误差（占元素的 {share}）。",
    ),
    "place_index_first": (
        "The sides differ by more than rounding only at the first index of axis {axis} "
        "({share} of the elements).",
        "两侧的差异仅在第 {axis} 轴的第一个下标处超出舍入误差（占元素的 {share}）。",
    ),
    "place_index_last": (
        "The sides differ by more than rounding only at the last index of axis {axis}, {start} "
        "({share} of the elements).",
        "两侧的差异仅在第 {axis} 轴的最后一个下标 {start} 处超出舍入误差（占元素的 {share}）。",
    ),
    "place_indices": (
        "The sides differ by more than rounding only at the indices {start} to {last} of axis "
        "{axis} ({share} of the elements).",
        "两侧的差异仅在第 {axis} 轴的下标 {start} 至 {last} 处超出舍入误差（占元素的 {share}）。",
    ),
    "place_indices_first": (
        "The sides differ by more than rounding only at the first {count} indices of axis {axis} "
        "({share} of the elements).",
        "两侧的差异仅在第 {axis} 轴的前 {count} 个下标处超出舍入误差（占元素的 {share}）。",
    ),
    "place_indices_last": (
        "The sides differ by more than rounding only at the last {count} indices of axis {axis} "
        "({share} of the elements).",
        "两侧的差异仅在第 {axis} 轴的后 {count} 个下标处超出舍入误差（占元素的 {share}）。",
    ),
    "place_border": (
        "The sides differ by more than rounding only in a border {width} wide of the last two axes "
        "({share} of the elements).",
        "两侧的差异仅在最后两轴宽 {width} 的边缘处超出舍入误差（占元素的 {share}）。",
    ),
    "repair": ("What to do:", "处理："),
    "proof_sides": (
        "Found from each side's own values: left {left}, right {right}. Relative error {before}; "
        "treated alike {residual} is left.",
        "由两侧各自的数值得出：左侧 {left}，右侧 {right}。"
        "相对误差 {before}；统一后剩余 {residual}。",
    ),
    "proof_undone": (
        "Undone, the relative error {before} becomes {residual}.",
        "消除后相对误差由 {before} 降到 {residual}。",
    ),
    # Parts of `Comparison.explain`.
    "part_check": ("Can the runs be compared?", "两次运行可以比较吗？"),
    "part_origin": ("Where", "在哪里"),
    "part_cause": ("Why", "为什么"),
    "part_repair": ("What to do", "怎么办"),
    "part_findings": ("Findings", "发现"),
    "no_checks": ("Not checked.", "未检查。"),
    "finding_figures": (
        "relative error {before}; undone {residual}; best other explanation {rival}",
        "相对误差 {before}；消除后 {residual}；最佳的其他解释 {rival}",
    ),
    "comparable": ("comparable?", "可比性："),
    # Preflight, by what is checked and how it stands.
    "check_inputs_ok": ("inputs equal ({count})", "输入相同（{count}）"),
    "check_inputs_bad": (
        "inputs differ, {equal} of {count} equal: {names}",
        "输入不同，{count} 个中 {equal} 个相同：{names}",
    ),
    "check_inputs_note": (
        "inputs equal to rounding, {equal} of {count} to the bit",
        "输入在舍入误差内相同，{count} 个中 {equal} 个逐位相同",
    ),
    "check_inputs_unknown": (
        "inputs: statistics cannot tell, {equal} of {count} equal",
        "输入：统计量无法判定，{count} 个中 {equal} 个相同",
    ),
    "check_parameters_ok": ("parameters equal ({count})", "参数相同（{count}）"),
    "check_parameters_bad": (
        "parameters differ, {equal} of {count} equal: {names}",
        "参数不同，{count} 个中 {equal} 个相同：{names}",
    ),
    "check_parameters_note": (
        "parameters equal to rounding, {equal} of {count} to the bit",
        "参数在舍入误差内相同，{count} 个中 {equal} 个逐位相同",
    ),
    "check_parameters_unknown": (
        "parameters: statistics cannot tell, {equal} of {count} equal",
        "参数：统计量无法判定，{count} 个中 {equal} 个相同",
    ),
    "check_buffers_ok": ("buffers equal ({count})", "缓冲区相同（{count}）"),
    "check_buffers_bad": (
        "buffers differ, {equal} of {count} equal: {names}",
        "缓冲区不同，{count} 个中 {equal} 个相同：{names}",
    ),
    "check_buffers_note": (
        "buffers equal to rounding, {equal} of {count} to the bit",
        "缓冲区在舍入误差内相同，{count} 个中 {equal} 个逐位相同",
    ),
    "check_buffers_unknown": (
        "buffers: statistics cannot tell, {equal} of {count} equal",
        "缓冲区：统计量无法判定，{count} 个中 {equal} 个相同",
    ),
    "check_dtypes_note": (
        "{count} of {of} pairs stored in other dtypes: {kinds}",
        "{of} 对中 {count} 对存储类型不同：{kinds}",
    ),
    "check_settings_ok": ("layer settings alike ({count})", "层设置一致（{count}）"),
    "check_settings_bad": (
        "{apart} of {count} layer settings differ: {names}",
        "{count} 项层设置中 {apart} 项不同：{names}",
    ),
    # Framework, versions and device are no part of them: see `analysis.preflight`.
    "check_cards_ok": (
        "run settings (seeds, switches) alike ({count})",
        "运行设置（随机种子、开关等）一致（{count}）",
    ),
    "check_cards_note": (
        "{apart} of {count} run settings differ: {names}",
        "{count} 项运行设置中 {apart} 项不同：{names}",
    ),
    "check_coverage_ok": ("every entry has a partner", "各项均有对应"),
    "check_coverage_note": (
        "{alone} of {count} without a partner: {names}",
        "{count} 项中 {alone} 项没有对应：{names}",
    ),
}
