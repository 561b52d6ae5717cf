"""How entries of two dumps were paired, and why others were not."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    # Pairs of what was left over.
    "auto_matched": ("auto-matched: {why}", "自动匹配：{why}"), "same_name": ("same name", "名称相同"),
    "closest_names": ("closest names ({closeness:.2f}), same numbers", "名称最接近（{closeness:.2f}），编号相同"),
    "only_of_shape": ("the only ones of this shape", "此形状仅此一对"),
    "placed_by_values": ("one side has more of these; the values that agree decide which is additional", "一侧此类条目更多；由一致的数值决定哪一个是多出的"),
    "outvalued": ("additional, by the values of the others called alike", "由其他同名条目的数值判断，此为多出的一项"),
    "equal_values": ("the values agree, and those of no other entry", "数值一致，且不与其他任何条目一致"),
    "same_group": ("the layers around it give the same on both sides, written in another way", "其所在的一组层写法不同，而两侧给出的结果相同"),
    "joined_of": ("holds {names:;} behind each other", "依次包含 {names:;}"),
    "part_of": ("a part of {name}", "{name} 的一部分"),
    "names_alike": ("names alike", "名称相近"), "same_layer": ("same layer", "同一层"),
    # Entries without a partner.
    "expected": ("expected to be missing", "预期无对应"), "expected_by": ("expected to be missing ({where})", "预期无对应（{where}）"),
    "one_sided_part": ("parts of weights, of one side only", "仅一侧有的权重组成部分"),
    "quantized_there": ("the other side holds this weight quantized", "另一侧以量化形式保存该权重"),
    "one_sided_state": ("training state of one side only", "仅一侧有训练状态"),
    "no_own_gradients": ("the other side does not tell what one call adds to the gradient of its input", "另一侧未记录单次调用对其输入梯度的贡献"),
    "no_whole_gradients": ("the other side does not tell the whole gradient of what a call reads", "另一侧未记录调用输入的总梯度"),
    "no_batches": ("the other framework counts no batches", "另一框架不统计批次数"),
    "no_buffers": ("the other side keeps this as no buffer", "另一侧未将其记为缓冲区"),
    "nothing_of_place": ("the other side has nothing of this step and rank", "另一侧没有此步和 rank 的条目"),
    # What another entry has for or against it.
    "candidate": ("{name} ({why})", "{name}（{why}）"),
    "same_shape": ("same shape", "形状相同"), "of_shape": ("shape {shape}", "形状 {shape}"),
    "unknown_shape": ("shape not known", "形状未知"), "other_operator": ("another operator", "算子不同"),
    "paired_with": ("paired with {name}", "已与 {name} 配对"), "alone_as_well": ("without a partner as well", "同样没有对应"),
    "at_step": ("step {number}", "第 {number} 步"), "at_rank": ("rank {number}", "rank {number}"),
    # What a call cannot do.
    "place": ("step {step}, rank {rank}", "第 {step} 步、rank {rank}"),
    "other_place": ("{left!r} is of {here} and {right!r} of {there}; only entries of the same are paired", "{left!r} 属于{here}，{right!r} 属于{there}；只有同一步、同一 rank 的条目可以配对"),
    "no_partner": ("{name!r} has no partner to be parted from", "{name!r} 没有对应，无法拆开"),
    "has_partner": ("{name!r} has a partner (the pair is {left!r} and {right!r}); unpair it first", "{name!r} 已有对应（该对为 {left!r} 与 {right!r}）；请先用 unpair 拆开"),
    "on_neither_side": ("no entry {name!r} on either side{closest}", "两侧都没有条目 {name!r}{closest}"),
    "closest_on_sides": ("; closest: {names}", "；最接近：{names}"), "name_on_left": ("{name!r} on the left", "左侧 {name!r}"),
    "name_on_right": ("{name!r} on the right", "右侧 {name!r}"), "on_left": ("{name} on the left", "左侧 {name}"),
    "on_right": ("{name} on the right", "右侧 {name}"),
    "not_on_left": ("no entry {name!r} on the left{in_step}{in_rank}{closest}", "左侧没有条目 {name!r}{in_step}{in_rank}{closest}"),
    "not_on_right": ("no entry {name!r} on the right{in_step}{in_rank}{closest}", "右侧没有条目 {name!r}{in_step}{in_rank}{closest}"),
    "in_step": (" in step {number}", "（第 {number} 步）"), "in_rank": (" in rank {number}", "（rank {number}）"),
    "several_on_left": ("{name!r} occurs in {count} steps or ranks on the left; give step= or rank=", "{name!r} 在左侧出现于 {count} 个步或 rank；请给出 step= 或 rank="),
    "several_on_right": ("{name!r} occurs in {count} steps or ranks on the right; give step= or rank=", "{name!r} 在右侧出现于 {count} 个步或 rank；请给出 step= 或 rank="),
    "no_method": ("unknown pairing {method}; choose one of {known}", "未知的配对方法 {method}；可用：{known}"),
    "no_bool": ("fuzzy takes True or False, got {got}", "fuzzy 需要 True 或 False，得到 {got}"),
    # What a mapping given as pairs cannot say.
    "no_mapping": ("mapping takes {{left name: right name}}, a list of such pairs, or the path of a mapping file, got {got}", "mapping 需要 {{左侧名称: 右侧名称}}、这样的键值对列表，或映射文件的路径，得到 {got}"),
    "no_pair": ("row {number} of the mapping is {got}; expected (left name, right name)", "映射第 {number} 行为 {got}；应为 (左侧名称, 右侧名称)"),
    "named_twice": ("row {number} of the mapping names {name!r} a second time", "映射第 {number} 行再次出现 {name!r}"),
    "no_common_place": ("row {number} of the mapping: {left!r} and {right!r} share no step and rank", "映射第 {number} 行：{left!r} 与 {right!r} 没有共同的步和 rank"),
    "no_entry_of_row": ("row {number} of the mapping: no {name!r} in {where}{closest}", "映射第 {number} 行：{where}中没有 {name!r}{closest}"),
    # What its repr says.
    "pairs_of_user": ("Paired by the user ({shown:,} of {count:,})", "用户指定的配对（{count:,} 对中的 {shown:,} 对）"),
}
