"""What stays alone names what it might have belonged to, and why it does not."""

from pathlib import Path

import numpy as np
import pytest

from troubleshooter_nb import open_dump, pair_dumps
from troubleshooter_nb.dump import ArrayInMemory, Dump, Entry
from troubleshooter_nb.naming import Site
from troubleshooter_nb.naming.hooks import sampled_slot

FIXTURES = Path(__file__).parents[1] / "data" / "torch_npu_hooks"


def run(calls):
    """A run of operators ``(name, number, shape in, shape out)``, forward and backward."""
    entries = []
    for direction, ways in (("forward", ("input", "output")), ("backward", ("output", "input"))):
        for op, number, *shapes in calls:
            for role, shape in zip(ways, shapes, strict=True):
                name = f"{op}.{number}.{direction}.{role}.0"
                site = Site("api", op, number, direction, role, "0")
                layer = op.partition(".")[2]
                entries.append(Entry(name, site, order=len(entries), layer=layer, shape=shape))
    return Dump.from_entries(entries, label="run")


def candidates_of(pairing, name):
    table = pairing.to_dataframe()
    [row] = table[(table["left"] == name) | (table["right"] == name)].to_dict("records")
    assert row["method"] == "unmatched"
    return row["candidates"].split("; ")


@pytest.mark.parametrize("name", ["extra_ops", "fused_op", "same_name_extra", "shifted_chain"])
def test_candidates_are_of_the_same_direction_and_role_and_say_why(name):
    folder = FIXTURES / name
    pairing = pair_dumps(*(open_dump(folder / f"{who}.pkl") for who in ("npu", "bench")))
    dumps = pairing.left, pairing.right
    kinds = [
        dict(
            zip(
                dump.names,
                zip(
                    *(dump.index[column].values for column in ("direction", "role")),
                    [sampled_slot(slot)[1] for slot in dump.index["slot"].values],
                    strict=True,
                ),
                strict=True,
            )
        )
        for dump in dumps
    ]
    seen = 0
    for row in pairing.to_dataframe().query("method == 'unmatched'").to_dict("records"):
        side = 0 if row["left"] else 1
        for text in filter(None, row["candidates"].split("; ")):
            candidate, _, why = text.partition(" (")
            mine, theirs = kinds[side][row["left"] or row["right"]], kinds[1 - side][candidate]
            assert mine == theirs
            assert why.endswith(")")
            seen += 1
    assert seen


def test_operators_of_one_family_come_first():
    same = (4, 4), (4, 4)
    left = run([("Torch.relu", 0, *same), ("Torch.relu", 1, *same)])
    right = run([("Torch.tanh", 0, *same), ("Torch.relu", 5, *same)])
    table = pair_dumps(left, right).to_dataframe()
    alone = table[table["left"].str.contains("forward.output") & (table["right"] == "")]
    [partner] = set(table["left"][table["right"] == "Torch.relu.5.forward.output.0"])
    assert alone["candidates"].tolist() == [
        f"Torch.relu.5.forward.output.0 (paired with {partner}); "
        "Torch.tanh.0.forward.output.0 (another operator)"
    ]


def test_of_equal_candidates_the_nearest_in_the_run_come_first():
    calls = [("Torch.relu", k, (4, 4), (4, 4)) for k in range(9)]
    pairing = pair_dumps(run(calls[:8]), run(calls), method="name")
    found = candidates_of(pairing, "Torch.relu.8.forward.output.0")
    assert found[0].startswith("Torch.relu.7.forward.output.0 (paired with")


def test_another_step_is_named_where_nothing_is_nearer():
    def at(step, rank=0):
        site = Site("file", "x")
        return Entry("x", site, ArrayInMemory(np.ones(2)), order=0, step=step, rank=rank)

    # One step and rank against one other are compared.
    left = Dump.from_entries([at(0), at(7, 7)], label="left")
    for right, where in ((at(4), "step 4"), (at(0, 3), "rank 3"), (at(1, 1), "step 1, rank 1")):
        table = pair_dumps(left, Dump.from_entries([right], label="right")).to_dataframe()
        assert f"x ({where})" in table["candidates"].tolist()
