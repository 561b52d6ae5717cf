"""What is known of training logs and series of checkpoints."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "no_series": ("{file}: no series; looked for json lines, for a csv with a column {columns}, and for lines such as 'step 10 loss 2.31'", "{file}：不含序列；查找过逐行的 json、带有 {columns} 列的 csv，以及形如 'step 10 loss 2.31' 的行"),
    "too_large": ("{file}: {size:,} bytes are too many for a log", "{file}：{size:,} 字节，对日志来说过大"),
    "binary": ("{file}: a binary file, no log", "{file}：是二进制文件，不是日志"),
    "json": ("no series in this json: {problem}", "该 json 不含序列：{problem}"),
    "json_no_rows": ("no series in this json, as it is no rows", "该 json 不含序列，因为它不是由行组成的"),
    "json_rows": ("rows are one object a line, a list of objects, or such a list as log_history, as in trainer_state.json of Hugging Face", "行的形式为：每行一个对象，或一个对象列表，或名为 log_history 的这种列表（如 Hugging Face 的 trainer_state.json）"),
    "json_objects": ("none of its objects has a loss, norm or rate", "其中没有对象含 loss、norm 或 rate"),
    "json_measures": ("none of its {count} rows has a loss, norm or rate", "{count} 行中没有一行含 loss、norm 或 rate"),
    "ragged": ("{count} rows have more or fewer cells than the first: left out", "{count} 行的单元格数与首行不同：已略去"),
    "without_step": ("{count} rows without a step: left out", "{count} 行没有步数：已略去"),
    "repeated": ("{count} lines repeat a step; the last value of each measure is kept", "{count} 行的步数重复；每个指标保留最后的值"),
    "by_epoch": ("no steps: epochs are used", "没有步数：改用 epoch"),
    "by_line": ("no steps: lines are numbered from 0", "没有步数：按行从 0 编号"),
    "counted_on": ("steps begin again in every epoch: counted on by {steps}", "每个 epoch 的步数都重新开始：按每个 epoch {steps} 步累计"),
    "no_checkpoint_read": ("none of {count} checkpoints can be read; {problem}", "{count} 个权重文件都无法读取；{problem}"),
    "no_checkpoints": ("{folder!r}: no checkpoints whose names hold a step ({suffixes})", "{folder!r}：没有名称中带步数的权重文件（{suffixes}）"),
    "aside": ("left aside: {names:4}", "未采用：{names:4}"),
}
