"""All sentences by id: the subject, a dot and the key in the subject's file."""

from __future__ import annotations

from collections.abc import Mapping

from troubleshooter_nb.messages import (
    alignment,
    arguments,
    capture,
    checkpoints,
    ckpt,
    comparisons,
    compat,
    dumps,
    editor,
    evidence,
    explanations,
    explorer,
    files,
    frameworks,
    hooks,
    layers,
    lists,
    mappings,
    msprobe,
    npy,
    pages,
    pairings,
    pth,
    safetensors,
    series,
    system,
    values,
    verdicts,
    weight_maps,
    widgets,
    zips,
)

CATALOGUE: Mapping[str, tuple[str, str]] = {
    f"{subject}.{key}": both
    for subject, messages in {
        "alignment": alignment.MESSAGES,
        "arguments": arguments.MESSAGES,
        "capture": capture.MESSAGES,
        "checkpoints": checkpoints.MESSAGES,
        "ckpt": ckpt.MESSAGES,
        "comparisons": comparisons.MESSAGES,
        "compat": compat.MESSAGES,
        "dumps": dumps.MESSAGES,
        "editor": editor.MESSAGES,
        "evidence": evidence.MESSAGES,
        "explanations": explanations.MESSAGES,
        "explorer": explorer.MESSAGES,
        "files": files.MESSAGES,
        "frameworks": frameworks.MESSAGES,
        "hooks": hooks.MESSAGES,
        "layers": layers.MESSAGES,
        "list": lists.MESSAGES,
        "mappings": mappings.MESSAGES,
        "msprobe": msprobe.MESSAGES,
        "npy": npy.MESSAGES,
        "pages": pages.MESSAGES,
        "pairings": pairings.MESSAGES,
        "pth": pth.MESSAGES,
        "safetensors": safetensors.MESSAGES,
        "series": series.MESSAGES,
        "system": system.MESSAGES,
        "values": values.MESSAGES,
        "verdicts": verdicts.MESSAGES,
        "weight_maps": weight_maps.MESSAGES,
        "widgets": widgets.MESSAGES,
        "zips": zips.MESSAGES,
    }.items()
    for key, both in messages.items()
}
