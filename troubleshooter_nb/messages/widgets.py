"""Words that both widgets use."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "no_front_end": ("No {what} above this line? Run the cell again. Where a JavaScript error stands there, the Jupyter server lacks anywidget: pip install 'troubleshooter_nb[notebook]' where the server runs, restart it and reload the page.", "此行上方没有{what}？请重新运行单元格。若显示 JavaScript 错误，则 Jupyter 服务器缺少 anywidget：请在服务器环境中运行 pip install 'troubleshooter_nb[notebook]'，重启服务器并刷新页面。"),
    "editor": ("editor", "编辑器"), "table": ("table", "表格"),
    "needs": ("{call} needs {needed}: {install}. {instead}", "{call} 需要 {needed}：请运行 {install}。{instead}"),
    "two": ("{first} and {second}", "{first} 和 {second}"),
    "broken": ("{name}, which cannot be imported here ({error})", "{name}，但此处无法导入（{error}）"),
    "without_edit": ("Without it, the methods pair, unpair, match_rest of the object do the same.", "若不安装，可用对象的 pair、unpair、match_rest 方法完成同样的操作。"),
    "without_explore": ("Without it, to_dataframe() and cmp[name] of the object show the same.", "若不安装，可用对象的 to_dataframe() 和 cmp[name] 查看同样的内容。"),
}
