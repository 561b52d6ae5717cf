"""What is known of checkpoints of any format: folders, shards, tied weights, writing."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "part_does_not_fit": ("a part of {part_dtype} {part} at {offsets} does not fit into {dtype} {shape}", "位于 {offsets} 的分片（{part_dtype} {part}）放不进 {dtype} {shape}"),
    "values_missing": ("{count:,} of {size:,} values are missing", "{size:,} 个数值中缺少 {count:,} 个"),
    "values_twice": ("{count:,} of {size:,} values are there twice", "{size:,} 个数值中有 {count:,} 个重复"),
    "parts_of_many_sizes": ("cut into {count:,} parts of too many different sizes", "被切成 {count:,} 个分片，大小种类过多"),
    "second_part": ("a second part of shape {shape} lies at {offsets}", "{offsets} 处还有一个形状为 {shape} 的分片"),
    "no_such_axis": ("axis {axis} does not exist in shape {shape}, which has axes 0 to {last}", "形状 {shape} 没有轴 {axis}，只有轴 0 到 {last}"),
    "no_axis": ("axis {axis} does not exist in shape {shape}, which has no axis", "形状 {shape} 没有轴 {axis}，它一个轴也没有"),
    "shapes_apart": ("shapes {one} and {other} differ in more than the length of axis {axis}", "形状 {one} 与 {other} 的差别不止轴 {axis} 的长度"),
    "not_divided": ("a length of {length} along axis {axis} cannot be divided as {proportions}", "轴 {axis} 上的长度 {length} 无法按 {proportions} 划分"),
    "sum_outside": ("the sum of {count} tensors of {dtype} lies outside {dtype}: from {low} to {high}", "{count} 个 {dtype} 张量之和超出了 {dtype} 的范围：从 {low} 到 {high}"),
    "shapes_not_added": ("tensors of shapes {one} and {other} cannot be added", "形状为 {one} 与 {other} 的张量无法相加"),
    "dtype_not_added": ("{dtype} cannot be added", "{dtype} 无法相加"),
    "dtypes_of_parts": ("tensors of {one} and {other} are not parts of one", "{one} 与 {other} 的张量不是同一个张量的分片"),
}
