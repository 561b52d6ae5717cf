"""What is known of dumps of any format, their entries and their folders."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "name_twice": ("{count} entries of step {step}, rank {rank} are called {name!r}", "step {step}、rank {rank} 中有 {count} 项都名为 {name!r}"),
    "cannot_be_read": ("{name!r} of {label!r} cannot be read: {reason}", "无法读取 {label!r} 的 {name!r}：{reason}"),
    "ambiguous": ("{name!r} means {count} entries of {label!r}; choose one: {advice}", "{name!r} 在 {label!r} 中对应 {count} 项；请选择其一：{advice}"),
    "no_entry": ("no entry {name} in {label!r} ({count} entries){closest}", "{label!r} 中没有 {name}（共 {count} 项）{closest}"),
    "see_names": ("; see dump.names", "；见 dump.names"),
    "no_numbers": ("holds {dtype}, not numbers", "内容为 {dtype}，不是数值"),
    "note_of": ("{label}: {note}", "{label}：{note}"),
}
