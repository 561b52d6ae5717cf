"""What the operating system answers, in its own words in English."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "no_such_file": ("No such file or directory", "没有该文件或文件夹"),
    "not_permitted": ("Operation not permitted", "没有权限"),
    "permission_denied": ("Permission denied", "没有权限"),
    "exists": ("File exists", "已有同名文件"),
    "not_a_folder": ("Not a directory", "路径中有一部分不是文件夹"),
    "is_a_folder": ("Is a directory", "这是一个文件夹"),
    "no_space": ("No space left on device", "磁盘空间不足"),
    "read_only": ("Read-only file system", "文件系统只读"),
    "name_too_long": ("File name too long", "文件名过长"),
}
