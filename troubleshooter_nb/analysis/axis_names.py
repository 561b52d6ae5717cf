"""What the axes of a value are: samples, tokens, heads, channels, by the inputs of the run."""

from __future__ import annotations

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.tensors.places import KnownAxes
from troubleshooter_nb.analysis.flow import Flow
from troubleshooter_nb.analysis.padding import Padding
from troubleshooter_nb.analysis.token_axes import token_axes
from troubleshooter_nb.metrics.floats import is_integer_name

_IMAGE = ("sample", "channel", "line", "column")


def known_axes(flow: Flow, row: int, padding: Padding | None) -> KnownAxes:
    """What is known of the axes of a row; nothing of parameters.

    Parameters
    ----------
    flow : Flow
    row : int
    padding : Padding, optional
        Of the row's step and rank.
    """
    shape = flow.shape(row)
    if row in flow.roots or not shape:
        return KnownAxes()
    inputs = [other for other in sorted(flow.external) if flow.place(other) == flow.place(row)]
    shapes = {flow.shape(other): _is_exact(flow, other) for other in inputs}
    texts = [one for one, is_exact in shapes.items() if is_exact and len(one) == 2]
    sizes = padding.padded.shape if padding is not None else next(iter(texts), None)
    if sizes is not None:
        ways = [*token_axes(shape, (sizes[0], sizes[1]))]
        # Of two ways either may be meant.
        if len(ways) == 1:
            valid = None if padding is None else ~ways[0].spread(padding.padded)
            return KnownAxes(ways[0].names, valid)
    return KnownAxes(_of_images(shape, [one for one, is_exact in shapes.items() if not is_exact]))


def _of_images(shape: tuple[int, ...], inputs: list[tuple[int, ...]]) -> tuple[str, ...]:
    """Names of the axes where all inputs are images, as many as the value has samples."""
    are_images = all(
        len(one) == len(_IMAGE) and one[1] <= thresholds.MOST_IMAGE_CHANNELS for one in inputs
    )
    if not inputs or not are_images or {one[0] for one in inputs} != {shape[0]}:
        return ()
    return _IMAGE if len(shape) == len(_IMAGE) else ("sample",)


def _is_exact(flow: Flow, row: int) -> bool:
    return is_integer_name(str(flow.result["right_dtype"][row]))
