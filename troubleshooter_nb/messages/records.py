"""What is wrong with the folder of a recording, and why one cannot be written."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "refusal": ("no folder of a recording: no index.jsonl in it, nor in a folder rank0", "不是记录的文件夹：其中以及 rank0 文件夹中都没有 index.jsonl"),
    "refusal_file": ("not the index.jsonl of a recording", "不是记录的 index.jsonl"),
    "no_header": ("does not begin with the header of a recording", "开头不是记录的文件头"),
    "damaged_header": ("its header is damaged", "文件头已损坏"),
    "other_version": ("a recording of format {found}, this version reads {known}", "记录的格式为 {found}，此版本读取 {known}"),
    "again": ("record again, or copy the folder again", "请重新记录，或重新复制文件夹"),
    "not_closed": ("the recording is not closed: the program was killed, or is still recording; its {count:,} events until then are here", "记录没有结束：程序被终止，或仍在记录；此前的 {count:,} 条事件都在这里"),
    "closed_early": ("the recording ended before its time, by an error or with the program; its {count:,} events until then are here", "记录因错误或程序退出而提前结束；此前的 {count:,} 条事件都在这里"),
    "cut_line": ("the last line of index.jsonl is cut and was left out", "index.jsonl 的最后一行不完整，已略去"),
    "damaged_lines": ("damaged lines of index.jsonl, {count:,} in all, were left out: {numbers:4}", "index.jsonl 中共有 {count:,} 行损坏，已略去：第 {numbers:4} 行"),
    "shards_missing": ("values without bytes, because files are missing: {count:,} ({files:4})", "因文件缺失而没有数值的有 {count:,} 个（{files:4}）"),
    "shards_short": ("values without bytes, because files are cut: {count:,} ({files:4})", "因文件被截断而没有数值的有 {count:,} 个（{files:4}）"),
    "shard_missing": ("{file} is missing or cannot be opened", "{file} 缺失或无法打开"),
    "no_place": ("where its bytes lie is damaged", "其数值的位置信息已损坏"),
    "broken_seal": ("value {number}: its bytes in {file} are not those that were recorded: damaged or overwritten", "数值 {number}：{file} 中的字节与记录时不同：已损坏或被覆盖"),
    "rank_left_out": ("{folder} was left out: {problem}", "已略去 {folder}：{problem}"),
    "not_written": ("{folder}: cannot be written: {why}", "{folder}：无法写入：{why}"),
    "stays_readable": ("what was recorded before is readable", "此前的记录可以读取"),
    "less_or_elsewhere": ("record into a folder on another disk, or keep less, such as statistics", "请记录到另一磁盘的文件夹，或减少保留的内容，例如只保留统计量"),
    "foreign_files": ("{folder!r} holds other files ({names:4}); record into an empty or new folder", "{folder!r} 中有其他文件（{names:4}）；请记录到空文件夹或新文件夹"),
    "being_written": ("{folder!r} is being written by another recording; give each process a folder or a rank of its own", "{folder!r} 正在被另一个记录写入；请为每个进程指定各自的文件夹或 rank"),
    "a_file": ("{folder!r} is a file; record into a folder", "{folder!r} 是文件；请记录到文件夹"),
    "closed": ("the recording in {folder!r} is closed", "{folder!r} 中的记录已经结束"),
    "no_numbers": ("arrays of {dtype} hold no numbers and are not recorded", "{dtype} 数组中不是数值，不予记录"),
}
