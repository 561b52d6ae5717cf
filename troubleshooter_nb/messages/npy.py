"""What is wrong with .npy and .npz files."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "truncated": ("truncated: {shape} of {dtype} needs {needed:,} bytes, the file holds {held:,}", "文件被截断：{shape}（{dtype}）需要 {needed:,} 字节，文件只有 {held:,} 字节"),
    "member_truncated": ("truncated: {shape} of {dtype} needs {needed:,} bytes, the member holds {held:,}", "被截断：{shape}（{dtype}）需要 {needed:,} 字节，该成员只有 {held:,} 字节"),
    "not_npy": ("not a .npy file: {detail}", "不是 .npy 文件：{detail}"),
    "of_records": ("npy format {version} is used only for records, which hold no tensor", "npy 格式 {version} 只用于结构化记录，其中没有张量"),
    "of_nobody": ("npy format {version} is used by no numpy we know", "没有已知的 numpy 使用 npy 格式 {version}"),
    "objects": ("holds Python objects; reading them would run code from the file, so it is not read", "其中是 Python 对象；读取会执行文件中的代码，因此不予读取"),
    "records": ("holds records ({dtype}), not numbers", "其中是结构化记录（{dtype}），不是数值"),
    "text": ("holds text or dates ({dtype}), not numbers", "其中是文本或日期（{dtype}），不是数值"),
    "raw_bytes": ("holds raw bytes ({dtype}); if they are bfloat16 or float8, say so in the file name, as in x_bfloat16_0.npy", "其中是原始字节（{dtype}）；若为 bfloat16 或 float8，请在文件名中注明，如 x_bfloat16_0.npy"),
    "no_archive": ("no zip archive, and not called .npz", "不是 zip 压缩包，后缀也不是 .npz"),
    "not_listed": ("a zip archive that cannot be listed: {why}", "是 zip 压缩包，但无法列出其内容：{why}"),
    "of_other_things": ("a zip archive of other things than arrays: {names:4}", "是 zip 压缩包，内容不是数组：{names:4}"),
    "empty_archive": ("a zip archive of other things than arrays: it is empty", "是 zip 压缩包，但其中没有数组：它是空的"),
    "not_zip": ("not a zip archive, which every .npz file is", "不是 zip 压缩包，而 .npz 文件都是"),
    "save_arrays_again": ("save the arrays again", "请重新保存这些数组"),
    "no_members": ("no .npy members in it", "其中没有 .npy 成员"),
    "save_with_savez": ("save the arrays again with numpy.savez", "请用 numpy.savez 重新保存这些数组"),
    "no_arrays": ("not read, no arrays: {names:4}", "未读取，不是数组：{names:4}"),
}
