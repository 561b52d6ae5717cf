"""What a recording says that is compared with a reference while it runs."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "needs_reference": ("{name} goes with a reference: record(net, against=...)", "{name} 需要参考：record(net, against=...)"),
    "stop_kind": ("stop_after is a number of calls that differ, got {given}", "stop_after 应为不一致调用的次数，实际为 {given}"),
    "stop_range": ("stop_after is a number from 1, got {given}", "stop_after 应从 1 起，实际为 {given}"),
    "weight_map": ("a weight map is not applied while a network runs: record, then compare(rec.dump, reference, mapping=...)", "网络运行时不应用权重映射：请先记录，再调用 compare(rec.dump, reference, mapping=...)"),
    "same_folder": ("{folder} is the reference, which this recording would overwrite: record to another folder", "{folder} 是参考，本次记录会覆盖它：请记录到另一文件夹"),
    "no_calls": ("{label} ({format}) holds no calls of layers or operators that could be compared while a network runs: record it with tnb.record, or record here and use compare(rec.dump, reference)", "{label}（{format}）中没有可在网络运行时比较的层或算子调用：请用 tnb.record 记录，或先记录再调用 compare(rec.dump, reference)"),
    "mapping_of_operators": ("operators are compared with those of their name while they run: for others record, then compare(rec.dump, reference, mapping=...)", "运行时算子只与同名算子比较：其他情况请先记录，再调用 compare(rec.dump, reference, mapping=...)"),
    "none": ("nothing is compared: give a reference, record(net, against=...), and start", "没有进行比较：请给出参考 record(net, against=...) 并开始记录"),
    "stopped": ("stopped at {call}, which differs from the reference; the recording is at its end", "在 {call} 处停止，它与参考不一致；记录到此结束"),
    # What of a call differs.
    "output": ("output {slot}", "输出 {slot}"),
    "input": ("input {slot}", "输入 {slot}"),
    "gradient_of": ("gradient of {what}", "{what} 的梯度"),
    # The headline.
    "head_differ": ("{count:,} {count:difference|differences} from {reference}", "{count:,} 处与 {reference} 不一致"),
    "head_first": ("first made in {where}", "最早产生于 {where}"),
    "head_first_carried": ("first seen in {where}", "最早见于 {where}"),
    "head_none": ("nothing differs from {reference}", "与 {reference} 没有不一致"),
    "head_nothing": ("nothing was compared with {reference}", "尚未与 {reference} 进行任何比较"),
    "compared": ("{count:,} {count:call|calls} compared", "已比较 {count:,} 次调用"),
    "compared_gradients": ("{count:,} {count:call|calls} and {gradients:,} {gradients:gradient|gradients} compared", "已比较 {count:,} 次调用与 {gradients:,} 个梯度"),
    "stopped_there": ("stopped there", "已在该处停止"),
    "where": ("{path} ({layer})", "{path}（{layer}）"), "where_backward": ("the backward of {where}", "{where} 的反向"),
    "whole_net": ("the whole net", "整个网络"),
    "at_call": ("{where}, call {number}", "{where}，调用编号 {number}"), "at_step": ("{where}, step {step}", "{where}，第 {step} 步"),
    # A call.
    "created": ("made here: what it was given agrees", "产生于此：其输入一致"),
    "created_parameters": ("made here: what it was given agrees, unlike its {names}", "产生于此：其输入一致，但 {names} 不一致"),
    "carried": ("passed on: what it was given differs already", "仅传播：其输入已不一致"),
    "contains": ("a call inside it differs", "其内部的调用不一致"),
    "unknown": ("what it was given was not compared", "其输入未经比较"),
    "apart": ("{what}: {verdict}, relative error {error}, largest {largest}", "{what}：{verdict}，相对误差 {error}，最大误差 {largest}"),
    "apart_estimated": ("{what}: {verdict}, relative error about {error}, by fingerprints", "{what}：{verdict}，由指纹估计相对误差约为 {error}"),
    "apart_statistics": ("{what}: {verdict}, by statistics", "{what}：{verdict}（由统计量判断）"),
    "apart_shape": ("{what}: {verdict}", "{what}：{verdict}"),
    # What has no partner.
    "alone": ("{count:,} {count:call has|calls have} no partner in the reference: {names}", "{count:,} 次调用在参考中没有对应项：{names}"),
    "unmet": ("{count:,} {count:call|calls} of the reference {count:was|were} not met: {names}", "参考中有 {count:,} 次调用未出现：{names}"),
    "unmet_yet": ("{count:,} {count:call|calls} of the reference {count:was|were} not met so far", "参考中有 {count:,} 次调用到目前为止尚未出现"),
    "undecided": ("{count:,} {count:result|results} could not be decided: only statistics agree, values cannot be read, or all lies below atol", "{count:,} 个结果无法判定：仅统计量一致、数值无法读取，或全部小于 atol"),
    "title": ("Calls that differ, in order of execution", "不一致的调用（按执行顺序）"),
}
