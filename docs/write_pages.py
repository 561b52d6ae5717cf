"""Write the pages that are made of the package: ``causes.md``, in both languages, and ``api.md``.

``python docs/write_pages.py`` writes them anew; ``tests/docs/test_pages.py`` says when that is due.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from string import Formatter
from types import ModuleType

import troubleshooter_nb as tnb
from troubleshooter_nb import catalogue
from troubleshooter_nb.catalogue.entry import Bilingual, Cause

DOCS = Path(__file__).parent

# English, Chinese: as in the entries of the catalogue.
CAUSES_HEAD = (
    """# All causes

{count} causes can be proved. Each is computed from the values of both sides: a layer is run again from its own inputs
under one setting and the other, and what reproduces the output is what that side did ([Why do they differ?](diagnosis.md)).
`tnb causes ID` prints one in a terminal, also in Chinese; the id is what `cmp.findings` and `--json` have.

In the sentences, words in `<>` are filled with what was found: `<left>` and `<right>` what each side did, `<before>`
the relative error as it was, `<residual>` what is left of it when both are treated alike. Any cause is held against
all others that explain the same numbers: the best of them is the `rival` of the evidence, and the nearer it comes, the
less sure the finding is. Where an entry does not say what it cannot be told from, these numbers decide.

This page is made of `troubleshooter_nb/catalogue/` by `docs/write_pages.py`.
""",
    """# 全部原因

共有 {count} 个可以证明的原因。每一个都由两侧的数值计算得出：用每侧各自的输入、以一种或另一种设置重算该层，能复现其输出的就是该侧实际的做法（[为什么不一样？](diagnosis.md)）。`tnb causes ID --language zh` 在终端中显示其中一个；id 与 `cmp.findings` 和 `--json` 中的相同。

句子中 `<>` 里的词由实际结果填写：`<left>` 与 `<right>` 是两侧的做法，`<before>` 是原来的相对误差，`<residual>` 是两侧做法一致后剩余的误差。每个原因都与能解释同样数字的其他原因比较：其中最好的一个是证据中的 `rival`，它越接近，结论的置信度越低。条目中没有写明与什么无法区分时，由这些数字决定。

本页由 `docs/write_pages.py` 根据 `troubleshooter_nb/catalogue/` 生成。
""",
)

# Titles of the families.
FAMILIES = {
    "normalisation": ("Normalisation", "归一化"),
    "activations": ("Activations and dropout", "激活函数与 dropout"),
    "attention": ("Attention and softmax", "注意力与 softmax"),
    "convolution": ("Convolution and pooling", "卷积与池化"),
    "products": ("Dense layers and products", "全连接层与矩阵乘"),
    "positions": ("Embedding and positions", "嵌入与位置编码"),
    "recurrent": ("Recurrent layers", "循环层"),
    "calls": ("Calls of any layer", "任意层的调用"),
    "between": ("Between layers", "层与层之间"),
    "layouts": ("Layouts of weights", "权重的布局"),
    "loading": ("Loading and initialising", "加载与初始化"),
    "tensors": ("Tensors, precision, NaN", "张量、精度与 NaN"),
    "training": ("Training", "训练"),
}

PROOF = ("How it is proved", "如何证明")
REPAIR = ("What to do", "怎么办")
APART = ("What it cannot be told from", "与什么无法区分")
BESIDE = ("Beside others", "与其他原因")
HARMLESS = ("When it is harmless", "什么时候无害")

POSSIBLE = (
    "others that fit the same values: it is told as possible, never as likely",
    "同样符合这些数值的其他原因：只作为可能提出，从不作为很可能",
)
AT_MOST = (
    "others that fit the same values: it is at most {sure:.0%} sure",
    "同样符合这些数值的其他原因：置信度最高为 {sure:.0%}",
)
PROVED_WHERE = {
    "readers agree": (
        "others that fit the same values, unless the calls that read the values agree all the same",
        "同样符合这些数值的其他原因，除非读取这些数值的调用仍然一致",
    ),
    "NaN is given": (
        "others that fit the same values, unless the call was given NaN",
        "同样符合这些数值的其他原因，除非该调用的输入中有 NaN",
    ),
}
IN_PLACE_OF = ("is told in the place of what follows from it: {names}", "代替由它引起的：{names}")
FOLLOWS = ("follows from, and is then not told: {names}", "由下列原因引起时不再提出：{names}")
ANY_UPDATE = (
    "may be true together with any other cause in how weights are updated",
    "可以与权重更新方式的任何其他原因同时成立",
)
TOGETHER = ("may be true together with: {names}", "可以同时成立：{names}")
NOTHING_WRONG = (
    "where all that reads the values agrees, nothing is wrong",
    "读取这些数值的一切都一致时，并没有错误",
)

GROUPS = {
    "Begin": "start Start",
    "Record and save": "record Recording Schedule save save_grad save_dump seed_all Seeded",
    "Open": (
        "open_dump Dump ArraySource RunCard merge_ranks missing_places open_series Series verify "
        "Verification"
    ),
    "Compare": (
        "compare Comparison PairRows TensorDiff Finding Explanation Check Tolerance measure_noise "
        "NoiseModel assert_same diff_checkpoints CheckpointDiff compare_series SeriesComparison"
    ),
    "While it runs": "Difference Differences watch_overflow Overflow replay export_reproduction",
    "Pair": "pair_dumps Pairing read_mapping write_mapping MappingFile",
    "Move weights": (
        "draft_weight_map WeightMap WeightMapHistory convert_weights read_weight_map write_weight_map"
    ),
    "Look, keep and send": (
        "explore edit export open_comparison outcome Outcome use_example_nets set_options get_options "
        "option_context"
    ),
}


def with_names(template: str) -> str:
    """A sentence of the catalogue, its gaps by their names."""
    parts = Formatter().parse(template)
    said = "".join(text + (f"`<{name}>`" if name else "") for text, name, _, _ in parts)
    return " ".join(said.split())


def titled(causes: Iterable[str], zh: int) -> str:
    """The titles of causes with links to their places in the page."""
    links = (f"[{catalogue.of(cause).title[zh]}](#{cause})" for cause in causes)
    return ("、" if zh else ", ").join(links)


def told_apart(id: str, cause: Cause, zh: int) -> list[str]:
    """What a cause cannot be told from, what is told in its place, and when it is harmless."""
    apart = []
    if not cause.explains:
        apart.append(POSSIBLE[zh])
    elif cause.at_most < 1:
        apart.append(AT_MOST[zh].format(sure=cause.at_most))
    if cause.proved_where:
        apart.append(PROVED_WHERE[cause.proved_where][zh])
    instead = [other for other, one in catalogue.CAUSES.items() if id in one.excludes]
    parts = [
        other
        for other, one in catalogue.CAUSES.items()
        if cause.is_part_of and one.is_part_of == cause.is_part_of and other != id
    ]
    beside = []
    if cause.excludes:
        beside.append(IN_PLACE_OF[zh].format(names=titled(cause.excludes, zh)))
    if instead:
        beside.append(FOLLOWS[zh].format(names=titled(instead, zh)))
    if len(parts) > 2:  # all settings of one update
        beside.append(ANY_UPDATE[zh])
    elif parts:
        beside.append(TOGETHER[zh].format(names=titled(parts, zh)))
    found = [(APART, apart), (BESIDE, beside)]
    found.append((HARMLESS, [NOTHING_WRONG[zh]] if cause.changes_nothing else []))
    semicolon = ("; ", "；")[zh]
    return [line(title, semicolon.join(said) + ".。"[zh], zh) for title, said in found if said]


def line(title: Bilingual, said: str, zh: int) -> str:
    """A line of an entry."""
    return f"- **{title[zh]}**{(': ', '：')[zh]}{said}"


def causes_page(zh: int = 0) -> str:
    """The text of ``causes.md``, in English or Chinese."""
    lines = [CAUSES_HEAD[zh].format(count=len(catalogue.CAUSES))]
    for family in catalogue.FAMILIES:
        lines += [f"## {FAMILIES[name_of(family)][zh]}\n"]
        for id, cause in family.CAUSES.items():
            lines += [f"### {id}\n", f"**{cause.title[zh]}**\n"]
            lines += [line(PROOF, with_names(cause.proof[zh]), zh)]
            if cause.repair[zh]:
                lines += [line(REPAIR, with_names(cause.repair[zh]), zh)]
            lines += [*told_apart(id, cause, zh), ""]
    return "\n".join(lines).rstrip() + "\n"


def name_of(family: ModuleType) -> str:
    """The last part of a module's name."""
    return family.__name__.rpartition(".")[2]


def first_line(value: object) -> str:
    """The first sentence of a docstring, as markdown."""
    said = (inspect.getdoc(value) or "").partition("\n\n")[0]
    said = re.sub(r"``(.+?)``", r"`\1`", " ".join(said.split()))
    return said.replace("|", "\\|")


def api_page() -> str:
    """The text of ``api.md``."""
    groups = {title: names.split() for title, names in GROUPS.items()}
    errors = [
        name
        for name in tnb.__all__
        if isinstance(getattr(tnb, name), type) and issubclass(getattr(tnb, name), Exception)
    ]
    groups["Errors and warnings"] = sorted(errors)
    missing = {*tnb.__all__} - {name for names in groups.values() for name in names}
    if missing:
        message = f"names of __all__ that no group of docs/write_pages.py has: {sorted(missing)}"
        raise ValueError(message)
    lines = [
        "# Python names",
        "",
        "Everything that `import troubleshooter_nb as tnb` gives, with the first line of its docstring. `help(tnb.compare)`",
        "has all of it: shapes, units, what is raised; so has this page in the built site (`make docs`). The calls of other",
        "tools are in [msprobe](msprobe.md), [TroubleShooter](troubleshooter.md) and [torch_npu.hooks](torch_npu_hooks.md).",
        "",
        "This page is made of docstrings by `docs/write_pages.py`.",
    ]
    for title, names in groups.items():
        lines += ["", f"## {title}", "", "| name | what it is |", "| --- | --- |"]
        lines += [f"| `{name}` | {first_line(getattr(tnb, name))} |" for name in names]
    return "\n".join(lines) + "\n"


PAGES = {
    "causes.md": causes_page,
    "zh/causes.md": lambda: causes_page(1),
    "api.md": api_page,
}

if __name__ == "__main__":
    for name, made in PAGES.items():
        (DOCS / name).write_text(made(), encoding="utf-8")
