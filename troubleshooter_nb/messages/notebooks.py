"""What is said of template notebooks: which there are, their parameters, how a run of one ended."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    # which there are
    "not_installed": ("the template notebooks are missing from this installation: install troubleshooter_nb again, or run it from a checkout", "此安装缺少模板 notebook：请重新安装 troubleshooter_nb，或在源码目录中运行"),
    "needs": ("Its example needs {names: }; data of your own need no framework.", "示例需要 {names}；使用自己的数据则不需要任何框架。"),
    "no_framework": ("Needs no framework.", "不需要任何框架。"),
    "its_parameters": ("parameters:", "参数："),
    "parameter": ("{name} = {default}", "{name} = {default}"),
    "how_to_start": ("{run} executes one, {new} copies it to be filled in, {parameters} shows its parameters.", "{run} 执行模板，{new} 复制一份供填写，{parameters} 列出参数。"),
    "how_to_run": ("Run everything in it in Jupyter, or: {command}", "在 Jupyter 中全部运行，或执行：{command}"),
    # what cannot be run
    "no_template": ("no template or notebook {name!r}{closest}; there are {known}", "没有名为 {name!r} 的模板或 notebook{closest}；现有：{known}"),
    "no_notebook": ("{file} is no notebook that can be read: {problem}", "无法将 {file} 作为 notebook 读取：{problem}"),
    "other_language": ("{file} is a notebook of {kernel}; only those of Python are run", "{file} 是 {kernel} 的 notebook；只能执行 Python 的 notebook"),
    "no_runner": ("running a notebook needs {package}: pip install 'troubleshooter_nb[notebook]'", "执行 notebook 需要 {package}：pip install 'troubleshooter_nb[notebook]'"),
    "no_form": ("{file} has no cell tagged 'parameters', so nothing can be set", "{file} 没有标记为 'parameters' 的单元格，无法设置参数"),
    "no_parameter": ("{file} has no parameter {name!r}{closest}; there are {known}", "{file} 没有参数 {name!r}{closest}；现有：{known}"),
    "no_list": ("a value that begins with a bracket is a list or mapping as in yaml, got {value}; -r takes it as text", "以括号开头的值应为 yaml 形式的列表或映射，实际为 {value}；-r 按文本处理"),
    # how a run went
    "running": ("cell {number} of {total}", "单元格 {number}/{total}"),
    "running_under": ("cell {number} of {total}: {heading}", "单元格 {number}/{total}：{heading}"),
    "cell": ("cell {number}", "第 {number} 个单元格"),
    "cell_under": ("cell {number} ({heading})", "第 {number} 个单元格（{heading}）"),
    "raised": ("{cell} raised {kind}: {what}", "{cell}抛出 {kind}：{what}"),
    "raised_plain": ("{cell} raised {kind}", "{cell}抛出 {kind}"),
    "timed_out": ("{cell} took longer than {seconds:g} s", "{cell}用时超过 {seconds:g} 秒"),
    "died": ("the kernel ended in {cell}, for lack of memory perhaps", "内核在{cell}中退出，可能是内存不足"),
    "died_saying": ("the kernel ended in {cell}: {what}", "内核在{cell}中退出：{what}"),
    "no_start": ("the kernel does not start: {what}", "内核无法启动：{what}"),
    "interrupted": ("interrupted in {cell}", "在{cell}中被中断"),
    "interrupted_early": ("interrupted before the first cell", "在第一个单元格之前被中断"),
    "missing_framework": ("the example needs {names: }, which this Python does not have: pip install {names: }, or give data of your own with -p", "示例需要 {names}，当前 Python 中没有：请执行 pip install {names: }，或用 -p 给出自己的数据"),
    "missing_module": ("install what the notebook imports into the Python that runs the command", "请把 notebook 导入的模块安装到运行此命令的 Python 中"),
    "untold": ("no cell tells an outcome, so nothing was decided: end the notebook with tnb.outcome(cmp)", "没有单元格给出结果，因此无法判定：请在 notebook 末尾使用 tnb.outcome(cmp)"),
    # the outcome
    "passed": ("outcome: passed (exit code 0)", "结果：通过（退出码 0）"),
    "differs": ("outcome: differs (exit code 1)", "结果：不一致（退出码 1）"),
    "undecided": ("outcome: not decided (exit code 2)", "结果：未能判定（退出码 2）"),
    "no_outcome": ("outcome() takes comparisons and what else can pass or differ, got {type}", "outcome() 接受比较等能给出通过或不一致的对象，实际为 {type}"),
    "nothing_given": ("outcome() needs at least one comparison", "outcome() 至少需要一个比较"),
}
