"""What is wrong with a checkpoint of MindSpore."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "field_too_long": ("field {number} at byte {begin:,} needs {size:,} bytes, {left:,} are left", "第 {begin:,} 字节处的字段 {number} 需要 {size:,} 字节，只剩 {left:,} 字节"),
    "no_field": ("no field begins at byte {at:,} (wire type {wire})", "第 {at:,} 字节处不是字段的开头（wire type {wire}）"),
    "endless_number": ("the number at byte {at:,} does not end", "第 {at:,} 字节处的数字没有结尾"),
}
