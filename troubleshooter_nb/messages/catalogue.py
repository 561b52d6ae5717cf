"""All sentences by id: the subject, a dot and the key in the subject's file."""

from __future__ import annotations

from collections.abc import Mapping

from troubleshooter_nb.messages import (
    alignment,
    arguments,
    calls,
    capture,
    checkpoints,
    ckpt,
    comparisons,
    compat,
    dumps,
    editor,
    evidence,
    evidence_words,
    explanations,
    explorer,
    facts,
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

# fmt: off
_SUBJECTS = (
    alignment, arguments, calls, capture, checkpoints, ckpt, comparisons, compat, dumps, editor,
    evidence, evidence_words, explanations, explorer, facts, files, frameworks, hooks, layers,
    lists, mappings, msprobe, npy, pages, pairings, pth, safetensors, series, system, values,
    verdicts, weight_maps, widgets, zips,
)
# fmt: on
CATALOGUE: Mapping[str, tuple[str, str]] = {
    f"{subject.__name__.rpartition('.')[2]}.{key}": both
    for subject in _SUBJECTS
    for key, both in subject.MESSAGES.items()
}
