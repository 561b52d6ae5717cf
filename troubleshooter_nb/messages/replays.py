"""What a replay of recorded calls says: what it cannot take, what the record lacks of a call."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "no_network": ("replay takes a torch module or a MindSpore cell, got {type}", "replay 需要 torch 模块或 MindSpore cell，实际为 {type}"),
    "dtype": ("dtype is None, for each tensor's own, or 'float64', the referee; got {given}", "dtype 应为 None（各张量自身的 dtype）或 'float64'（裁判），实际为 {given}"),
    "no_calls": ("{label} has no calls of layers: record a network with tnb.record(net, replayable=True)", "{label} 中没有层的调用：请用 tnb.record(net, replayable=True) 记录网络"),
    "mapping_kind": ("mapping is a dict of paths, {{network's: record's}}, got {given}", "mapping 应为路径字典 {{网络路径: 记录路径}}，实际为 {given}"),
    "no_path": ("no layer is called {path}{closest}; there are {known}", "没有名为 {path} 的层{closest}；现有：{known}"),
    "no_such_value": ("the record has {kind} {text}, which this framework does not have", "记录中有 {kind} {text}，而本框架没有对应物"),
    # Why a call could not be replayed.
    "no_arguments": ("the record does not say what the call was given", "记录未说明该调用的输入"),
    "argument_lost": ("argument {slot} is of class {kind}, which no record can hold", "参数 {slot} 的类型为 {kind}，记录无法保存"),
    "argument_missing": ("argument {slot} is not in the record", "记录中没有参数 {slot}"),
    "argument_unread": ("argument {slot} has no values in the record: {why}", "参数 {slot} 在记录中没有数值：{why}"),
    "statistics_only": ("it holds no values; record with keep='tensor'", "其中没有数值；请以 keep='tensor' 记录"),
    "raised": ("the layer raised {kind}: {what}", "该层抛出 {kind}：{what}"),
    "no_layer": ("no layer of the network belongs to {path}", "网络中没有与 {path} 对应的层"),
    # What the record lacks of a call; with _of, of which layers.
    "lacks_parameter": ("the record lacks parameters of this call, the network's own were used: {names:4}", "记录缺少该调用的参数，已使用网络自身的参数：{names:4}"),
    "lacks_parameter_of": ("the record lacks parameters, so that the network's own were used: {names:8}; record with parameters=True", "记录缺少参数，已使用网络自身的参数：{names:8}；请以 parameters=True 记录"),
    "lacks_buffer": ("the record lacks buffers of this call, the network's own were used: {names:4}", "记录缺少该调用的 buffer，已使用网络自身的 buffer：{names:4}"),
    "lacks_buffer_of": ("the record lacks buffers, so that the network's own were used: {names:8}; record with parameters=True", "记录缺少 buffer，已使用网络自身的 buffer：{names:8}；请以 parameters=True 记录"),
    "lacks_random": ("the call draws random numbers, and the record lacks the state of the generator", "该调用使用随机数，而记录缺少随机数发生器的状态"),
    "lacks_random_of": ("these draw random numbers, and the record lacks the state of the generator: {names:8}; record with replayable=True", "以下层使用随机数，而记录缺少随机数发生器的状态：{names:8}；请以 replayable=True 记录"),
    "lacks_training": ("the mode (training or evaluation) decides what the call gives, and the record lacks it", "该调用的结果取决于模式（训练或推理），而记录缺少该模式"),
    "lacks_training_of": ("these depend on their mode (training or evaluation), which the record lacks: {names:8}", "以下层取决于模式（训练或推理），而记录缺少该模式：{names:8}"),
    "lacks_autocast": ("the call gives another dtype than it did: the record lacks whether autocast was on", "该调用的结果 dtype 与记录不同：记录未说明是否启用了 autocast"),
    "lacks_autocast_of": ("these give other dtypes than they did, and the record lacks whether autocast was on: {names:8}", "以下层结果的 dtype 与记录不同，而记录未说明是否启用了 autocast：{names:8}"),
    "unsteady": ("the call gives something else each time: it draws on a state that no record holds", "该调用每次结果不同：它依赖记录无法保存的状态"),
    "unsteady_of": ("these give something else each time, as they draw on a state that no record holds: {names:8}", "以下层每次结果不同，因其依赖记录无法保存的状态：{names:8}"),
    "not_replayed": ("these could not be replayed, the rows say why: {names:8}", "以下层无法重放，原因见各行：{names:8}"),
    "never_called": ("the record has no call of {names:8}", "记录中没有这些层的调用：{names:8}"),
    "no_outputs": ("the record has no outputs of {names:8}; record with outputs=True", "记录中没有这些层的输出：{names:8}；请以 outputs=True 记录"),
    # The referee.
    "no_referee": ("not computed in float64: {why}", "未以 float64 计算：{why}"),
    "no_referee_random": ("not computed in float64: what is drawn there is something else", "未以 float64 计算：在 float64 下抽取的随机数不同"),
    "nearer_left": ("float64 is {left:.2g} from left and {right:.2g} from right: left is nearer", "float64 结果与左侧相距 {left:.2g}，与右侧相距 {right:.2g}：左侧更近"),
    "nearer_right": ("float64 is {left:.2g} from left and {right:.2g} from right: right is nearer", "float64 结果与左侧相距 {left:.2g}，与右侧相距 {right:.2g}：右侧更近"),
    "nearer_none": ("float64 is {left:.2g} from left and {right:.2g} from right: as near to both", "float64 结果与左侧相距 {left:.2g}，与右侧相距 {right:.2g}：与两侧同样近"),
    "referee_counts": ("by the float64 results of {count} outputs, left is nearer to the truth at {left}, right at {right}; furthest from it is {side} at {where}, {distance:.2g}", "以 {count} 个输出的 float64 结果为准，左侧在 {left} 处更近，右侧在 {right} 处更近；离其最远的是{side}的 {where}，{distance:.2g}"),
    "side_left": ("left", "左侧"), "side_right": ("right", "右侧"),
}
