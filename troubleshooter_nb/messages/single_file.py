"""What the single file of the recorder says of itself and of what it wrote."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "what": ("recorder of troubleshooter_nb {version} under Python {python}; record(net, to=\"folder\") records, help(tnb_record.record) says how", "troubleshooter_nb {version} 的录制器，Python {python}；用 record(net, to=\"文件夹\") 录制，用法见 help(tnb_record.record)"),
    "framework": ("- {name} {version}: {said}", "- {name} {version}：{said}"),
    "whole": ("all can be recorded", "全部可以录制"),
    "no_framework": ("neither torch nor MindSpore can be imported here: {errors:;}", "这里无法导入 torch，也无法导入 MindSpore：{errors:;}"),
    "recording": ("recording in {folder}: {state}, {calls} {calls:call|calls}", "录制于 {folder}：{state}，{calls} 次调用"),
    "open": ("copy the folder and open it with troubleshooter_nb: tnb.open_dump({folder!r})", "复制该文件夹，用 troubleshooter_nb 打开：tnb.open_dump({folder!r})"),
    # mistakes in this package, told when the file is made
    "left_out": ("{wanted} of {name}, which is left out, is needed", "需要 {name} 中的 {wanted}，而该模块已排除在外"),
    "no_name": ("{name} has no {wanted}", "{name} 中没有 {wanted}"),
    "other_package": ("the recorder would need {names}", "录制器将需要 {names}"),
    "quotes": ("{name} holds three quotes in a row, between which it is to stand", "{name} 含有连续三个引号，无法放入引号之间"),
    # what older versions lack
    "no_end": ("before MindSpore 2.10 a call that raises is not seen to end, nor one of a cell with a bprop", "MindSpore 2.10 之前看不到抛出异常的调用以及带 bprop 的 cell 的调用结束"),
    "no_operators": ("level=\"api\" needs MindSpore 2.9", "level=\"api\" 需要 MindSpore 2.9"),
    "no_compiled": ("a network around which something is compiled needs torch 2.3", "外层经过编译的网络需要 torch 2.3"),
    "no_eager": ("compiled=\"eager\" needs torch 2.6", "compiled=\"eager\" 需要 torch 2.6"),
}
