"""Which call made a value, and which calls read it."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "made": ("Made by {maker}.", "由 {maker} 产生。"),
    "read": ("Read by {readers}.", "被 {readers} 读取。"),
    "also_read": ("Also read by {readers}.", "还被 {readers} 读取。"),
    "made_read": ("Made by {maker}, read by {readers}.", "由 {maker} 产生，被 {readers} 读取。"),
    "made_also_read": ("Made by {maker}, also read by {readers}.", "由 {maker} 产生，还被 {readers} 读取。"),
    "of_side": ("{side}: {text}", "{side}：{text}"),
    "and_more": ("{shown} (+{count})", "{shown}（另有 {count} 个）"),
    "fed_otherwise": ("Wired otherwise: on the left it is what {left} made, on the right what {right} made.", "连接方式不同：左侧为 {left} 的结果，右侧为 {right} 的结果。"),
    "see_code": ("Compare what the code of both networks gives to this call.", "请比较两侧网络的代码传给该调用的是什么。"),
}
