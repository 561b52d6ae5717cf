"""What a checksum says of what is stored."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "other_bytes": ("not the bytes that were saved", "字节与保存时不同"),
    "none": ("the file has none", "文件中没有校验和"),
    "not_listed": ("its folder has no list with it", "所在文件夹没有列出它的校验和"),
    "of_other_header": ("the header is damaged, so that its checksums say nothing of the values", "文件头已损坏，其中的校验和无法说明数值"),
    "copied": ("another program wrote the file and copied checksums that are not its own", "文件由其他程序写出，其中的校验和是照抄来的，不属于它"),
    "not_closed": ("the recording was not closed, or by an older version", "记录没有正常结束，或由旧版本写出"),
    "gone": ("listed, and not there", "列表中有，文件不存在"),
    "only_ends": ("only its two ends have one, and they are right", "只有两端有校验和，且校验正确"),
    "no_netcdf": ("cannot be written as netCDF: {detail}", "无法写为 netCDF：{detail}"),
    "netcdf": ("{file}: no netCDF file, or a damaged one: {detail}", "{file}：不是 netCDF 文件，或已损坏：{detail}"),
    "count_intact": ("{count:,} intact", "{count:,} 个完好"),
    "count_damaged": ("{count:,} damaged", "{count:,} 个损坏"),
    "count_no_checksum": ("{count:,} without a checksum", "{count:,} 个没有校验和"),
    "count_unread": ("{count:,} cannot be read", "{count:,} 个无法读取"),
    "count_nothing": ("no values to check", "没有可校验的数值"),
    "status_intact": ("intact", "完好"),
    "status_damaged": ("damaged", "损坏"),
    "status_none": ("no checksum", "无校验和"),
    "status_unread": ("cannot be read", "无法读取"),
}
