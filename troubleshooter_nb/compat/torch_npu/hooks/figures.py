"""The three figures of the old comparison, as it computed and printed them.

They exist to write the old csv. What this package itself reports is computed in
`troubleshooter_nb.metrics`; nothing from here enters a `Comparison`.
"""

from __future__ import annotations

import math

import numpy as np

# For shapes that differ; the blank at the end of the first cell is the tool's.
NOT_CALCULATED = ("cannot be calculated ", "cannot be calculated", "cannot be calculated")


def figure_cells(left: np.ndarray, right: np.ndarray) -> tuple[str, str, str]:
    """The cells ``Cosine``, ``RMSE`` and ``MAPE`` of two tensors.

    Parameters
    ----------
    left, right : ndarray of float64, shape (count,)
        What stands in a line of either file; `right` is the reference. Where a line holds ten
        values and three statistics, all thirteen count as elements, as they did.

    Returns
    -------
    cosine, rmse, mape : str
        The cosine is mapped from [-1, 1] to [0, 1], and ``nan`` where one side has no length or
        anything is not finite; so is it for two sides that are all zero. An unknown RMSE is an
        empty cell. The MAPE is a percentage with four decimals: ``nan%`` with a 0/0 in it,
        ``inf%`` with another x/0.

    Notes
    -----
    Source: runs of torch_npu.hooks. Its document prints other formulas: the cosine there lacks a
    square and the MAPE is a fraction.
    """
    with np.errstate(all="ignore"):
        lengths = math.sqrt(float(left @ left)) * math.sqrt(float(right @ right))
        cosine = float(np.float64(left @ right) / np.float64(lengths))
        rmse = float(np.linalg.norm(left - right) / np.sqrt(np.float64(len(left))))
        relative = np.abs((left - right) / right)
        mape = float(100 * np.sum(relative) / np.float64(len(left)))
    return repr(0.5 + 0.5 * cosine), "" if math.isnan(rmse) else repr(rmse), f"{round(mape, 4)}%"
