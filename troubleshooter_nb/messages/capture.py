"""What is said while values are saved."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "arrays_before": ("{folder!r} holds arrays of an earlier run; those of the same name are replaced and the others stay: empty the folder before a new run", "{folder!r} 中有先前运行保存的数组；同名的会被替换，其余保留：重新运行之前请先清空文件夹"),
    "no_tensor": ("{name!r}: save_grad takes one tensor of torch or MindSpore, got {type}; call it for each tensor", "{name!r}：save_grad 需要一个 torch 或 MindSpore 张量，实际为 {type}；请对每个张量分别调用"),
    "no_value": ("{name!r}: cannot save {type}; expected a tensor, an array, a number, or list, tuple, dict of them", "{name!r}：无法保存 {type}；需要张量、数组、数，或由它们组成的 list、tuple、dict"),
    "output_mode": ("output_mode is 'npy' or 'print', got {given}", "output_mode 应为 'npy' 或 'print'，实际为 {given}"),
    "file_in_compiled": ("file became {given} in compiled code: a path in an f-string has no text there; make the text before, in __init__, or give the path itself", "在编译的代码中 file 变成了 {given}：f-string 中的路径在那里没有文本；请提前（在 __init__ 中）生成文本，或直接传入路径"),
    "file_type": ("file is a str or a path such as 'out/dense', got {given}", "file 应为 str 或路径，例如 'out/dense'，实际为 {given}"),
    "file_without_name": ("file must end with a name, got {given!r}; 'folder/name' gives folder/name_..._0.npy", "file 必须以名称结尾，实际为 {given!r}；'folder/name' 会得到 folder/name_..._0.npy"),
    "missing_row": ("what is missing is (kind, where, count, detail), got {given}", "缺失项的形式为 (kind, where, count, detail)，实际为 {given}"),
}
