"""What is said of folders of a run: steps, tensors in files of their own."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "no_files": ("a folder without files of tensors", "文件夹中没有张量文件"),
    "other_reader": ("checkpoints that another reader takes whole", "其中的权重文件可由另一读取器完整读取"),
    "no_steps": ("neither tensors in files of their own nor checkpoints of numbered steps", "既没有单独成文件的张量，也没有按步编号的权重文件"),
    "several": ("checkpoints of several runs: {folders:4}; open one of them", "其中有多次运行的权重文件：{folders:4}；请打开其中一个"),
    "unlike": ("numbered, but not alike in names and shapes: {files:4}", "虽有编号，但名称与形状不一致：{files:4}"),
    "none_readable": ("nothing in it can be read: {reason}", "其中没有可读取的内容：{reason}"),
}
