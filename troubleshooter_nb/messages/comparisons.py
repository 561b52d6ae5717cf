"""What a comparison says of itself: notes, titles, tables, refusals."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "progress": ("comparing: {share:4.0%}, {done:.2f} of {total:.2f} GB", "正在比较：{share:4.0%}，{done:.2f} / {total:.2f} GB"),
    "opening": ("comparing: opening both sides", "正在比较：打开两侧数据"),
    "pairing": ("comparing: pairing the entries", "正在比较：配对两侧条目"),
    "locating": ("comparing: where in the tensors they differ", "正在比较：定位张量内的差异"),
    "diagnosing": ("comparing: looking for where and why they part", "正在比较：查找差异的源头与原因"),
    "interrupted_after": ("interrupted: all pairs were measured, but not everything that differs was looked into", "已中断：所有配对均已测量，但差异尚未全部分析"),
    "interrupted": ("interrupted: {count} of {total} pairs were not measured", "已中断：共 {total} 对，{count} 对未测量"),
    "pairing_and_mapping": ("give either a finished pairing or a mapping, not both", "已有配对与映射只能给出其一"),
    "other_dump_left": ("the pairing was made for another left dump ({label}); compare(pairing.left, pairing.right, pairing=pairing) uses its own", "该配对的左侧是另一份数据（{label}）；请用 compare(pairing.left, pairing.right, pairing=pairing) 比较配对自身的数据"),
    "other_dump_right": ("the pairing was made for another right dump ({label}); compare(pairing.left, pairing.right, pairing=pairing) uses its own", "该配对的右侧是另一份数据（{label}）；请用 compare(pairing.left, pairing.right, pairing=pairing) 比较配对自身的数据"),
    "no_noise": ("these two runs differ by more than noise, first at {name}", "这两次运行的差异超出噪声，首个为 {name}"),
    "no_pair": ("no pair {number}; there are {count}, numbered from {first} to {last}; or use a name", "没有编号为 {number} 的配对；共 {count} 对，编号从 {first} 到 {last}；也可以用名称"),
    "no_pair_of_none": ("no pair {number}; there are 0, numbered none; or use a name", "没有编号为 {number} 的配对；共 0 对"),
    "no_pair_named": ("no pair named {name} among {count}{closest}", "{count} 对中没有名为 {name} 的配对{closest}"),
    "ambiguous": ("{name!r} belongs to {count} pairs: use a pair number, {places:8}", "{name!r} 对应 {count} 对：请使用配对编号，{places:8}"),
    "place": ("{number} (step {step}, rank {rank})", "{number}（第 {step} 步，rank {rank}）"),
    "not_located": ("{name}: nothing to locate, verdict is {verdict}", "{name}：没有可定位的内容，结论为 {verdict}"),
    "no_tensor_left": ("{name}: the left side has no stored tensor", "{name}：左侧没有存储的张量"),
    "no_tensor_right": ("{name}: the right side has no stored tensor", "{name}：右侧没有存储的张量"),
    "no_record": ("{file} is no saved comparison: {problem}", "{file} 不是保存的比较：{problem}"),
    "record_too_large": ("{file} is too large for a saved comparison", "{file} 过大，不是保存的比较"),
    "other_schema": ("its table is {schema}", "其中的表为 {schema}"),
    "other_verdicts": ("verdicts that are not known: {verdicts:3}", "未知的结论：{verdicts:3}"),
    "no_netcdf": ("a .nc needs netCDF4: pip install 'troubleshooter_nb[netcdf]'", "读取 .nc 需要 netCDF4：pip install 'troubleshooter_nb[netcdf]'"),
}
