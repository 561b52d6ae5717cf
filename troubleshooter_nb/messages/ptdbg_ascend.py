"""What the calls of ptdbg_ascend say, and what stands in their tables."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    # What is given.
    "no_file": ("{argument}: there is no file {path!r}", "{argument}：没有文件 {path!r}"),
    "folder_for_file": ("{argument}: {path!r} is a folder; name the .pkl file in it, or give the folders of the ranks to compare_distributed", "{argument}：{path!r} 是文件夹；请指定其中的 .pkl 文件，或把含有各 rank 文件夹的文件夹传给 compare_distributed"),
    "no_folder": ("{argument}: there is no folder {path!r}", "{argument}：没有文件夹 {path!r}"),
    "file_for_folder": ("{argument}: {path!r} is a file; expected a folder", "{argument}：{path!r} 是文件；应为文件夹"),
    "one_folder": ("{missing} is missing; give the folders of arrays of both sides, or of neither to compare the statistics in the .pkl files", "缺少 {missing}；请给出两侧的数组文件夹；若两侧都不给，则比较 .pkl 文件中的统计值"),
    "output_is_file": ("output_path {path!r} is a file; expected a folder", "output_path {path!r} 是文件；应为文件夹"),
    "release": ("release is one of {known}, not {given}", "release 应为 {known} 之一，不能是 {given}"),
    "release_needs_arrays": ("statistics alone are compared by release \"4.0\" only; give {folders:&}", "只有版本 \"4.0\" 可以仅比较统计值；请给出 {folders:&}"),
    "no_ranks": ("{argument}: {path!r} has no folders rank0, rank1, ...; name the folder that holds them, such as ptdbg_dump_v4.0", "{argument}：{path!r} 中没有 rank0、rank1 等文件夹；请指定包含它们的文件夹，例如 ptdbg_dump_v4.0"),
    "unequally_many_ranks": ("{npu} rank folders against {bench}; both runs need equally many, or compare single ranks with compare", "rank 文件夹的数量为 {npu} 与 {bench}；两次运行的数量须相同，或用 compare 比较单个 rank"),
    "rank_without_file": ("there is no .pkl file in {path!r}: the run ended before it wrote the text, or nothing was dumped", "{path!r} 中没有 .pkl 文件：运行在写出文本之前结束，或没有 dump 任何数据"),
    "rank_with_files": ("{path!r} has several .pkl files, {names}; compare two of them with compare", "{path!r} 中有多个 .pkl 文件：{names}；请用 compare 比较其中两个"),
    "arrays_of_one_side": ("{file!r} has no folder of arrays beside it, the other side has one; compare their statistics with compare and no folders", "{file!r} 旁没有数组文件夹，而另一侧有；请用 compare 且不给文件夹，以比较统计值"),
    "line_of_hooks": ("it is of torch_npu.hooks, the tool before ptdbg_ascend, whose files troubleshooter_nb.compat.torch_npu.hooks.tools.compare compares", "这是 ptdbg_ascend 之前的工具 torch_npu.hooks 的行，其文件由 troubleshooter_nb.compat.torch_npu.hooks.tools.compare 比较"),
    "line_of_prototype": ("its values stand in it, as the prototype of ptdbg_ascend wrote them; compare such files with troubleshooter_nb.compare", "数值写在行内，这是 ptdbg_ascend 原型版本的写法；请用 troubleshooter_nb.compare 比较这类文件"),
    "dump_again_or_open": ("dump it again, or open it with troubleshooter_nb.open_dump", "请重新 dump，或用 troubleshooter_nb.open_dump 打开"),
    # In the table.
    "no_partner": ("no partner in the reference", "参照中没有对应项"),
    "no_array": ("there is no {file} in {folder}", "{folder} 中没有 {file}"),
    "not_read": ("{side}: {problem}", "{side}：{problem}"),
    "shapes_differ": ("the shapes differ: {left} and {right}", "形状不同：{left} 与 {right}"),
    "no_elements": ("empty, there is nothing to compare", "为空，没有可比较的内容"),
    "not_finite": ("NaN or infinities stand at different places", "NaN 或无穷大所在的位置不同"),
    "no_axes": ("a value without axes has no cosine and no ratios", "没有轴的值没有余弦，也没有比例"),
    "one_element": ("one element has no cosine", "单个元素没有余弦"),
    "one_side_zero": ("one side is all zeros, it has no cosine", "一侧全为零，没有余弦"),
    "written": ("the table is {path}", "表格为 {path}"),
    # What there is not, and what to use.
    "instead_of_recording": ("record with PrecisionDebugger of troubleshooter_nb.compat.msprobe.pytorch, the tool's successor, or with troubleshooter_nb.record", "请用其后继工具 troubleshooter_nb.compat.msprobe.pytorch 的 PrecisionDebugger，或 troubleshooter_nb.record 录制"),
    "instead_of_overflow": ("use troubleshooter_nb.watch_overflow", "请使用 troubleshooter_nb.watch_overflow"),
    "instead_of_parse": ("troubleshooter_nb.open_dump(file).to_dataframe() has the statistics and the call stack of every entry", "troubleshooter_nb.open_dump(file).to_dataframe() 含有每个条目的统计值和调用栈"),
    "instead_of_seeding": ("use seed_all of troubleshooter_nb.compat.msprobe.pytorch, which takes the same arguments", "请使用 troubleshooter_nb.compat.msprobe.pytorch 的 seed_all，参数相同"),
}
