"""What the calls of torch_npu.hooks say."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    # Registering.
    "no_network": ("register_hook needs a torch.nn.Module, got {type}", "register_hook 需要 torch.nn.Module，实际为 {type}"),
    "no_hook": ("register_hook takes one of {known}, not {given}", "register_hook 接受 {known} 之一，不能是 {given}"),
    "hook_called": ("{name} is given to register_hook and is not called", "{name} 应传给 register_hook，不能直接调用"),
    "no_schedule": ("schedule must be a function of the step, such as schedule(4, 10, 2), not {given}", "schedule 必须是以 step 为参数的函数，例如 schedule(4, 10, 2)，不能是 {given}"),
    "capacity": ("capacity must be a whole number from 3 to 2048, got {given}", "capacity 必须是 3 到 2048 的整数，实际为 {given}"),
    "not_asynchronous": ("wrap_async_datadump_hook writes its files at once, before the operator returns: there is no queue of a device here", "wrap_async_datadump_hook 在算子返回之前立即写文件：这里没有设备的队列"),
    # The file of the lines.
    "path_missing": ("set_dump_path needs the path of a file", "set_dump_path 需要一个文件路径"),
    "path_is_folder": ("set_dump_path needs a file, but {path!r} is a folder; name a file in it", "set_dump_path 需要文件，但 {path!r} 是文件夹；请指定其中的文件"),
    "path_unset": ("there is no file to dump to; call set_dump_path before the network runs", "没有可写入的文件；请在运行网络之前调用 set_dump_path"),
    "no_folder": ("the folder {folder!r} of the dump does not exist; create it first", "dump 所在的文件夹 {folder!r} 不存在；请先创建"),
    "overflow": ("[check overflow]: module name :'{label}' is overflow and dump file is saved in '{path}'.", "[check overflow]: 模块 '{label}' 溢出，dump 文件保存在 '{path}'。"),
    # Comparing.
    "columns": ('{where} is "tool" or "document", not {given}', '{where} 应为 "tool" 或 "document"，不能是 {given}'),
    "no_dump_file": ("there is no file {file!r}; compare takes the text files that set_dump_path names", "没有文件 {file!r}；compare 需要由 set_dump_path 指定的文本文件"),
    "no_output_folder": ("the folder {folder!r} of output_path does not exist; create it first", "output_path 所在的文件夹 {folder!r} 不存在；请先创建"),
    "no_tensor_line": ("{file}, line {line} is no [name, values, dtype, shape] ({problem}); dump it again, or open it with troubleshooter_nb.open_dump", "{file} 第 {line} 行不是 [name, values, dtype, shape]（{problem}）；请重新 dump，或用 troubleshooter_nb.open_dump 打开"),
    "other_sampling": ("{left} has {left_count} values and {right} has {right_count}, both of shape {shape}: one file is sampled, the other is not; dump both alike, or use troubleshooter_nb.compare, which compares what both hold", "{left} 有 {left_count} 个数值，{right} 有 {right_count} 个，形状均为 {shape}：一份经过采样，另一份没有；请以相同方式 dump，或使用 troubleshooter_nb.compare，它只比较两者共有的部分"),
}
