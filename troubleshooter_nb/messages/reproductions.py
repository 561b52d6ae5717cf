"""What the script of a reproduction prints, and why there can be none."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "script": ("Runs one call of a layer alone, as each of two runs made it, and prints how they differ.\n\nIt needs numpy, and uses torch and MindSpore where they are installed. Beside it, call.json says\nwhat was called, left.npz and right.npz hold what the call was given, held and gave.", "单独运行一个层的一次调用（两次运行各自的版本），并打印两者的差异。\n\n只需要 numpy；若已安装 torch 和 MindSpore 则一并使用。同目录的 call.json 说明调用内容，\nleft.npz 与 right.npz 保存该调用的输入、参数和输出。"),
    "fill_in": ("FILL IN where no formula is known: what the layer makes of `inputs` (by name), with\n# parameters `p` and settings `s`, in arrays of numpy or tensors of torch or MindSpore.", "没有已知公式时请在此填写：该层由 `inputs`（按名称）、参数 `p` 和设置 `s` 得到什么，\n# 其中为 numpy 数组或 torch、MindSpore 张量。"),
    "about": ("left:  {left}\nright: {right}", "左侧：{left}\n右侧：{right}"),
    "given": ("given {name}: {what}", "输入 {name}：{what}"),
    "equal": ("equal", "相等"),
    "one_side": ("given {name}: on the {side} only", "输入 {name}：仅一侧有（{side}）"),
    "shapes": ("shapes differ, {left} and {right}", "形状不同：{left} 与 {right}"),
    "values": ("values differ", "值不同"),
    "difference": ("differ, largest {largest:.3g}, relative {relative:.3g}", "不同，最大 {largest:.3g}，相对 {relative:.3g}"),
    "settings": ("setting {name}: {left!r} and {right!r}", "设置 {name}：{left!r} 与 {right!r}"),
    "unused": ("  what is computed below takes no notice of {name}", "  下面的计算不考虑 {name}"),
    "unknown_settings": ("settings of the {side} are unknown: torch's defaults are used", "{side} 侧的设置未知：使用 torch 的默认值"),
    "stored": ("stored output {name}, left against right: {what}", "已存输出 {name}，左侧对右侧：{what}"),
    "no_output": ("outputs of both sides are not stored", "没有两侧的输出"),
    "not_installed": ("{framework}: not installed", "{framework}：未安装"),
    "failed": ("{framework}: cannot compute it, {what}", "{framework}：无法计算，{what}"),
    "no_formula": ("{framework}: no formula, fill in `layer` above", "{framework}：没有公式，请填写上面的 `layer`"),
    "again": ("{framework}: {side} computed again against what is stored: {what}", "{framework}：重新计算的 {side} 对已存值：{what}"),
    "both": ("{framework}: left against right, each on its own input: {what}", "{framework}：左侧对右侧，各用自己的输入：{what}"),
    "same_input": ("{framework}: left against right, both on the right's input: {what}", "{framework}：左侧对右侧，都用右侧的输入：{what}"),
    # Why there is none.
    "no_row": ("{key!r} is no call of this comparison{closest}; give a path, the name of an entry or the number of a pair", "{key!r} 不是此比较中的调用{closest}；请给出路径、项的名称或对的编号"),
    "taken": ("{folder} is not empty: a reproduction is written into a new or empty folder", "{folder} 非空：复现需要写入新的或空的文件夹"),
    "nothing": ("{key!r}: neither side has values to write", "{key!r}：两侧都没有可写的数值"),
    "about_call": ("{place}, {layer} of {label}", "{label} 的 {layer}：{place}"),
}
