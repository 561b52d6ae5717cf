"""What `seed_all` says."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "range": ("seed must be from 0 to {most}, got {given}: the global generator of numpy takes no other", "seed 必须在 0 到 {most} 之间，得到 {given}：numpy 的全局随机数生成器不接受其他值"),
    "graph_mode": ("rm_dropout cannot reach MindSpore's GRAPH_MODE, where no Python is run: use PYNATIVE_MODE, or make the dropout layers with p=0.0", "rm_dropout 对 MindSpore 的 GRAPH_MODE 无效，因为图模式下不运行 Python：请使用 PYNATIVE_MODE，或以 p=0.0 创建 dropout 层"),
    "set": ("seed {seed} for {names}", "已为 {names} 设置随机种子 {seed}"),
    "deterministic": ("deterministic algorithms: {names}", "确定性算法：{names}"),
    "no_dropout": ("dropout removed: {names}", "已去除 dropout：{names}"),
    "undone": ("undone", "已撤销"),
}
