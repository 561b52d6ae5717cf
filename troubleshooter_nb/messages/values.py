"""What the values of two tensors say about each other."""

# fmt: off

MESSAGES: dict[str, tuple[str, str]] = {
    "left": ("left", "左侧"), "right": ("right", "右侧"), "the_source": ("the source", "源"),
    "the_target": ("the target", "目标"), "it": ("it", "它"),
    # How right comes of left.
    "identical": ("{right} is identical to {left}", "{right}与{left}完全相同"),
    "cast": ("{side} is the other one rounded to {dtype}", "{side}是另一侧舍入为 {dtype} 的结果"),
    "close": ("{right} equals {left} up to noise", "{right}与{left}仅有噪声之差"),
    "scale": ("{right} is {left} times {scale:.6g}", "{right}等于{left}乘以 {scale:.6g}"),
    "offset": ("{right} is {left} plus {offset:.6g}", "{right}等于{left}加 {offset:.6g}"),
    "reshape": ("{right} is {left} reshaped to {shape}", "{right}等于{left}变形为 {shape}"),
    "transpose": ("{right} is {left} transposed", "{right}等于{left}的转置"),
    "flip": ("{right} is {left} reversed along axes {axes}", "{right}等于{left}沿轴 {axes} 反转"),
    "blocks": ("{right} is {left} with its {blocks} blocks along axis {axis} in order {order}", "{right}等于{left}沿轴 {axis} 的 {blocks} 块按 {order} 的顺序排列"),
    "repeat": ("{right} is {left} with every {block} rows along axis {axis} {times} times", "{right}等于{left}沿轴 {axis} 每 {block} 行重复 {times} 次"),
    "slice": ("{right} is the part of {left} of shape {sizes} that starts at {starts}", "{right}是{left}中从 {starts} 开始、形状为 {sizes} 的部分"),
    "pad": ("{left} is the part of {right} that starts at {starts}", "{left}是{right}中从 {starts} 开始的部分"),
    "permute": ("{right} is {left} with axes in order {axes}{steps}", "{right}等于{left}的轴按 {axes} 排列{steps}"),
    "permute_from_shape": (" after a reshape to {given}", "（先变形为 {given}）"),
    "permute_flip": (", reversed along axes {given}", "，并沿轴 {given} 反转"),
    "permute_shape": (", then reshaped to {given}", "，再变形为 {given}"),
    "steps": ("{first}{rest}", "{first}{rest}"),
    "row_permutation": ("{right} is {left} with every {period} rows along axis {axis} taken as {swapped} instead of {shape}", "{right}等于{left}沿轴 {axis} 每 {period} 行按 {swapped} 而非 {shape} 取用"),
    "rows_in_another_order": ("{right} is {left} with its rows along axis {axis} in another order", "{right}等于{left}沿轴 {axis} 的各行换了顺序"),
    "packed": ("{right} has the blocks {parts} of {left} in the order {order}", "{right}中{left}的各块 {parts} 按 {order} 的顺序排列"),
    "halves": ("{right} is {left} with its two halves along axis {axis} swapped", "{right}等于{left}沿轴 {axis} 的前后两半互换"),
    # What a tensor is made of.
    "each_transposed": (", each transposed,", "（各自转置）"),
    "stack": ("stack of {names}{turned} along a new axis {axis}", "{names}{turned}沿新轴 {axis} 堆叠"),
    "concat": ("{names}{turned} one after the other along axis {axis}", "{names}{turned}沿轴 {axis} 依次拼接"),
    "interleave": ("{groups} turns of {sizes} rows of {names}{turned} along axis {axis}", "{names}{turned}沿轴 {axis} 各取 {sizes} 行，轮流 {groups} 次"),
    "sum": ("sum of {first} and {second}", "{first} 与 {second} 之和"),
    # How alike the values of a row are.
    "equal": ("values are equal, every one", "所有值都相等"),
    "rounded": ("values are equal once both are {dtype}", "转换为 {dtype} 后值都相等"),
    "near": ("values are nearly equal, residual {residual:.1e}", "值几乎相等，残差 {residual:.1e}"),
    "similar": ("values are correlated but not equal, cosine {cosine:.2f}", "值相关但不相等，余弦 {cosine:.2f}"),
    "constant": ("values differ: one side is constant", "值不同：一侧为常数"),
    "other": ("values are no more alike than chance, cosine {cosine:.2f}", "值与随机无异，余弦 {cosine:.2f}"),
    "few": ("{said} (only {count:,} values)", "{said}（仅 {count:,} 个值）"),
    "other_sizes": ("values not comparable: {left:,} and {right:,} of them", "值无法比较：{left:,} 个与 {right:,} 个"),
    "no_numbers": ("values not comparable: they are no numbers", "值无法比较：不是数值"),
    "not_in_files": ("no values to compare: they are not in the files", "没有可比较的数值：文件中没有"),
    "too_large": ("no values compared: the tensors are larger than {most} MiB", "未比较数值：张量大于 {most} MiB"),
    "unread": ("no values to compare: {reason}", "没有可比较的数值：{reason}"),
}
