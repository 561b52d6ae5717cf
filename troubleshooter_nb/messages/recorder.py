"""Errors of recording a network while it runs, and of what was lost of a record."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "no_step": ("Schedule({name}=...) takes a whole number of steps, got {given}", "Schedule({name}=...) 需要整数步数，实际为 {given}"),
    "schedule": ("no step is recorded by Schedule({begin}, {end}, {stride}): begin from 0, end not before it, stride from 1", "Schedule({begin}, {end}, {stride}) 不包含任何步：begin 从 0 起，end 不早于 begin，stride 从 1 起"),
    "steps_kind": ("steps is a number, a range, a list of numbers, a Schedule or a function of the step, got {given}", "steps 应为数、range、数的列表、Schedule 或以步号为参数的函数，实际为 {given}"),
    "names_kind": ("names is a path such as 'blocks.*.attn', a list of paths, or a function of the site, got {given}", "names 应为路径（例如 'blocks.*.attn'）、路径列表或以位置为参数的函数，实际为 {given}"),
    "no_layer": ("no layer is called {names}{closest}; layers: {known}", "没有名为 {names} 的层{closest}；现有的层：{known}"),
    "keep": ("keep is one of {known} or a function of the site that gives one of them or None, got {given}", "keep 应为 {known} 之一，或以位置为参数、返回其中之一或 None 的函数，实际为 {given}"),
    "word": ("{name} is one of {known}, got {given}", "{name} 应为 {known} 之一，实际为 {given}"),
    "near": ("near is a share of the largest finite number, above 0 and at most 1, got {given}", "near 是最大有限值的比例，应大于 0 且不超过 1，实际为 {given}"),
    "limit": ("limit is a number of bytes or a size such as '4 GiB', got {given}", "limit 应为字节数或 '4 GiB' 这样的大小，实际为 {given}"),
    "rank_kind": ("rank is a whole number, got {given}", "rank 应为整数，实际为 {given}"),
    "rank_range": ("rank is a number from 0 to {most}, got {given}", "rank 应为 0 到 {most} 的整数，实际为 {given}"),
    "needs_net": ("record(level={level!r}) needs the network: record(net, ...); without one only level='api' records, all operators of the block", "record(level={level!r}) 需要网络：record(net, ...)；没有网络时只能用 level='api' 记录代码块中的全部算子"),
    "no_network": ("record takes a torch module or a MindSpore cell, or a list or dict of them; {name!r} is {type}", "record 需要 torch 模块或 MindSpore cell，或由它们组成的列表或字典；{name!r} 是 {type}"),
    "no_framework": ("nothing to record: neither the networks nor what is loaded are of framework {name!r}; there are {known}, import one first", "没有可记录的内容：给出的网络与已加载的框架都不是 {name!r}；可用的有 {known}，请先导入其一"),
    "one_framework": ("one recording sees one framework, here it would be {names}; give the network, or framework='torch', or make one recording for each", "一次记录只针对一个框架，这里会是 {names}；请给出网络或 framework='torch'，或为每个框架各建一次记录"),
    "not_running": ("the recording is {state}: use it inside `with tnb.record(net) as rec:` or after rec.start()", "记录的状态为 {state}：请在 `with tnb.record(net) as rec:` 中或 rec.start() 之后使用"),
    "dropped": ("the recording {label} was stopped, as no name holds it any more: keep it in a name until rec.stop(), or use `with`", "记录 {label} 已停止，因为已没有变量引用它：请在 rec.stop() 之前用变量保存它，或使用 `with`"),
    "mark_name": ("mark(name, value) takes a name, got {given}", "mark(name, value) 需要名称，实际为 {given}"),
    "compiled_operators": ("operators inside compiled parts cannot be seen: {names}; record(..., compiled='eager') runs them as they are written", "无法看到已编译部分内部的算子：{names}；record(..., compiled='eager') 会按原样执行它们"),
    "replaced": ("{folder} holds another recording by now, or none: open_dump() opens what is there", "{folder} 中现在是另一份记录，或已没有记录：可用 open_dump() 打开现有内容"),
    "value_lost": ("its values were not written before the recording broke off", "记录中断之前其数值尚未写入"),
}
