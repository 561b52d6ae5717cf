"""What is wrong with any file or folder, and why it cannot be opened or written."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "in_file": ("{file}: {what}", "{file}：{what}"),
    "copy_or_save": ("copy or save it again", "请重新复制或重新保存"),
    "save_again": ("save it again", "请重新保存"),
    "save_network_again": ("save the network again", "请重新保存网络"),
    "download_or_save": ("download or save it again", "请重新下载或重新保存"),
    "damaged": ("the file is damaged", "文件已损坏"),
    "damaged_again": ("the file is damaged, copy or save it again", "文件已损坏，请重新复制或重新保存"),
    "limit": ("the limit is {most:,}", "上限为 {most:,}"),
    "not_read": ("not read", "不予读取"),
    "not_there": ("no such file or folder: {path} (the part {exists} exists{inside})", "没有该文件或文件夹：{path}（其中 {exists} 存在{inside}）"),
    "it_has": ("; it has {names:r}", "；其中有 {names:r}"),
    "changed": ("{file} changed since it was opened; open the dump again", "{file} 在打开之后发生了变化；请重新打开"),
    "values_outside": ("truncated: its values lie at bytes {begin:,} to {end:,}, the file has {size:,}", "文件被截断：数值应在第 {begin:,} 至 {end:,} 字节，而文件只有 {size:,} 字节"),
    "offset_outside": ("offset {offset} and strides {strides} reach outside the storage", "偏移 {offset} 与步长 {strides} 超出存储范围"),
    "strides_of_axes": ("{strides} strides for {axes} axes", "{axes} 个轴却有 {strides} 个步长"),
    "storage_too_small": ("shape {shape} of {dtype} needs {needed:,} elements of storage, there are {held:,}", "形状 {shape}（{dtype}）需要 {needed:,} 个元素的存储，实有 {held:,} 个"),
    "repeats": ("{size:,} elements of shape {shape} repeat {held:,} stored ones", "形状 {shape} 的 {size:,} 个元素只是在重复所存的 {held:,} 个"),
    "strides_of_pieces": ("strides {strides} over a storage in {count} pieces", "步长 {strides} 跨越了分成 {count} 段的存储"),
    "impossible_shape": ("header gives the impossible shape {shape}", "文件头给出的形状不可能存在：{shape}"),
    "no_contents": ("not a file with contents (a folder, pipe or device)", "不是有内容的文件（而是文件夹、管道或设备）"),
    "empty": ("empty file: the save was interrupted", "空文件：保存过程被中断"),
    "folder_of_this_name": ("cannot write {file!r}: a folder has this name", "无法写入 {file!r}：已有同名文件夹"),
    "number_too_long": ("a number too long", "数字过长"),
}
