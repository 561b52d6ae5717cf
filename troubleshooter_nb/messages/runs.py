"""What is said of folders of a run: steps, tensors in files of their own."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "no_files": ("a folder without files of tensors", "文件夹中没有张量文件"),
    "other_reader": ("checkpoints that another reader takes whole", "其中的权重文件可由另一读取器完整读取"),
    "no_steps": ("neither tensors in files of their own nor checkpoints of numbered steps", "既没有单独成文件的张量，也没有按步编号的权重文件"),
    "several": ("checkpoints of several runs: {folders:4}; open one of them", "其中有多次运行的权重文件：{folders:4}；请打开其中一个"),
    "unlike": ("numbered, but not alike in names and shapes: {files:4}", "虽有编号，但名称与形状不一致：{files:4}"),
    "none_readable": ("nothing in it can be read: {reason}", "其中没有可读取的内容：{reason}"),
    "no_tree": ("no {suffix}, as transformers' model debugger writes it", "没有 transformers 模型调试器写出的 {suffix}"),
    "several_trees": ("dumps of several models: {files:4}; open one of them", "其中有多个模型的 dump 数据：{files:4}；请打开其中一个"),
    "tree": ("the tree of calls", "调用树"),
    "tree_without_tensors": ("no tensor in the tree of calls", "调用树中没有张量"),
    "overwritten": ("overwritten by a later call of this module", "已被该模块之后的调用覆盖"),
    "printed": ("only printed values; run it again with use_repr=False", "只有打印出的数值；请以 use_repr=False 重新运行"),
    "not_one": ("{file} holds {count} tensors, not one", "{file} 含有 {count} 个张量，而非一个"),
}
