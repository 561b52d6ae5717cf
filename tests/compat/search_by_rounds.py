"""The search for partners of the old tools, as their rules read: every candidate of every round."""


def searched(left, right, fit):
    """Places on both sides that met; `fit` says of a pair of places whether they may."""
    pairs, first, last = [], [0, 0], [-1, -1]
    while last[0] + 1 < len(left) or last[1] + 1 < len(right):
        last = [min(last[0] + 1, len(left) - 1), min(last[1] + 1, len(right) - 1)]
        if last[0] < first[0] or last[1] < first[1]:
            break
        candidates = [tuple(last)]
        candidates += [(last[0], q) for q in range(first[1], last[1])]
        candidates += [(p, last[1]) for p in range(first[0], last[0])]
        hit = next((pair for pair in candidates if fit(*pair)), None)
        if hit:
            pairs.append(hit)
            first = [hit[0] + 1, hit[1] + 1]
    return pairs
