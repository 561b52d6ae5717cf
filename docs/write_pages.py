"""Write the pages that are made of the package: ``causes.md`` and ``api.md``.

``python docs/write_pages.py`` writes them anew; ``tests/docs/test_pages.py`` says when that is due.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from string import Formatter
from types import ModuleType

import troubleshooter_nb as tnb
from troubleshooter_nb import catalogue
from troubleshooter_nb.catalogue.entry import Cause

DOCS = Path(__file__).parent

CAUSES_HEAD = """# All causes

{count} causes can be proved. Each is computed from the values of both sides: a layer is run again from its own inputs
under one setting and the other, and what reproduces the output is what that side did ([diagnosis.md](diagnosis.md)).
`tnb causes ID` prints one in a terminal, also in Chinese; the id is what `cmp.findings` and `--json` have.

In the sentences, words in `<>` are filled with what was found: `<left>` and `<right>` what each side did, `<before>`
the relative error as it was, `<residual>` what is left of it when both are treated alike. Any cause is held against
all others that explain the same numbers: the best of them is the `rival` of the evidence, and the nearer it comes, the
less sure the finding is. Where an entry does not say what it cannot be told from, these numbers decide.

This page is made of `troubleshooter_nb/catalogue/` by `docs/write_pages.py`.
"""

# Titles of the families, in the order of `catalogue.FAMILIES`.
FAMILIES = {
    "normalisation": "Normalisation",
    "activations": "Activations and dropout",
    "attention": "Attention and softmax",
    "convolution": "Convolution and pooling",
    "products": "Dense layers and products",
    "positions": "Embedding and positions",
    "recurrent": "Recurrent layers",
    "calls": "Calls of any layer",
    "between": "Between layers",
    "layouts": "Layouts of weights",
    "loading": "Loading and initialising",
    "tensors": "Tensors, precision, NaN",
    "training": "Training",
}

PROVED_WHERE = {
    "readers agree": "the calls that read the values agree all the same",
    "NaN is given": "the call was given NaN",
}

GROUPS = {
    "Record and save": "record Recording Schedule save save_grad save_dump seed_all Seeded",
    "Open": "open_dump Dump ArraySource RunCard merge_ranks missing_places open_series Series",
    "Compare": (
        "compare Comparison TensorDiff Finding Explanation Check Tolerance measure_noise NoiseModel "
        "assert_same diff_checkpoints CheckpointDiff compare_series SeriesComparison"
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


def titled(cause: str) -> str:
    """The title of a cause with a link to its place in the page."""
    return f"[{catalogue.of(cause).title[0]}](#{cause.replace('.', '')})"


def told_apart(id: str, cause: Cause) -> list[str]:
    """What a cause cannot be told from, what is told in its place, and when it is harmless."""
    lines = []
    apart = []
    if not cause.explains:
        apart.append("others that fit the same values: it is told as possible, never as likely")
    elif cause.at_most < 1:
        apart.append(f"others that fit the same values: it is at most {cause.at_most:.0%} sure")
    if cause.proved_where:
        apart.append(f"others that fit the same values, unless {PROVED_WHERE[cause.proved_where]}")
    if apart:
        lines.append(f"- **What it cannot be told from**: {'; '.join(apart)}.")
    beside = []
    if cause.excludes:
        names = ", ".join(titled(one) for one in cause.excludes)
        beside.append(f"is told in the place of what follows from it: {names}")
    instead = [other for other, one in catalogue.CAUSES.items() if id in one.excludes]
    if instead:
        names = ", ".join(titled(one) for one in instead)
        beside.append(f"follows from, and is then not told: {names}")
    parts = [
        titled(other)
        for other, one in catalogue.CAUSES.items()
        if cause.is_part_of and one.is_part_of == cause.is_part_of and other != id
    ]
    if len(parts) > 2:  # all settings of one update
        beside.append("may be true together with any other cause in how weights are updated")
    elif parts:
        beside.append(f"may be true together with: {', '.join(parts)}")
    if beside:
        lines.append(f"- **Beside others**: {'; '.join(beside)}.")
    if cause.changes_nothing:
        lines.append(
            "- **When it is harmless**: where all that reads the values agrees, nothing is wrong."
        )
    return lines


def causes_page() -> str:
    """The text of ``causes.md``."""
    lines = [CAUSES_HEAD.format(count=len(catalogue.CAUSES))]
    for family in catalogue.FAMILIES:
        lines += [f"## {FAMILIES[name_of(family)]}\n"]
        for id, cause in family.CAUSES.items():
            lines += [f"### {id}\n", f"**{cause.title[0]}**\n"]
            lines += [f"- **How it is proved**: {with_names(cause.proof[0])}"]
            if cause.repair[0]:
                lines += [f"- **What to do**: {with_names(cause.repair[0])}"]
            lines += [*told_apart(id, cause), ""]
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


PAGES = {"causes.md": causes_page, "api.md": api_page}

if __name__ == "__main__":
    for name, made in PAGES.items():
        (DOCS / name).write_text(made(), encoding="utf-8")
