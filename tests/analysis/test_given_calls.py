"""Pairs that the user gives: the other tensors of their calls follow."""

from __future__ import annotations

from pathlib import Path

import pytest

from troubleshooter_nb import Dump, open_dump
from troubleshooter_nb.analysis.pair_by_calls import by_sites
from troubleshooter_nb.analysis.search import Item, Search, SiteFacts
from troubleshooter_nb.dump import Entry
from troubleshooter_nb.naming import Site
from troubleshooter_nb.naming.hooks import sampled_name
from troubleshooter_nb.pairing import Match

DATA = Path(__file__).parents[1] / "data"
HOOKS, MSPROBE = DATA / "torch_npu_hooks", DATA / "msprobe" / "v26_2_0"
NAN = float("nan")


def items_of(dump):
    names = ("name", "kind", "path", "call", "direction", "role", "slot", "shape", "layer", "value")
    columns = [dump.index[name].values.tolist() for name in (*names, "parent", "step")]
    items = []
    for row, (
        name,
        kind,
        path,
        call,
        way,
        role,
        slot,
        shape,
        layer,
        value,
        parent,
        step,
    ) in enumerate(zip(*columns, strict=True)):
        if step == 0:
            facts = SiteFacts(kind, layer, role, slot, value, parent, (NAN, NAN, NAN), -1)
            place = path, call, way, (role, slot), shape, facts
            items.append(Item(row, row, True, name, *place))
    return items


def sited(left, right, *given):
    """What `by_sites` finds when these pairs are given: partner and row by left name."""
    search = Search(items_of(left), items_of(right))
    by_name = [{item.name: item for item in side} for side in search.all]
    known = [(by_name[0][a], by_name[1][b]) for a, b in given]
    search.add_matches((a, b, Match(a.row, b.row, "user", 1.0)) for a, b in known)
    by_sites(search)
    assert len({a.row for a, _ in search.pairs}) == len(search.pairs)
    assert len({b.row for _, b in search.pairs}) == len(search.pairs)
    return {
        a.name: (b.name, match) for (a, b), match in zip(search.pairs, search.matches, strict=True)
    }


def names(found):
    return {name: other for name, (other, _) in found.items()}


CASES = {
    "fused_op": (HOOKS / "fused_op" / "npu.pkl", HOOKS / "fused_op" / "bench.pkl"),
    "extra_ops": (HOOKS / "extra_ops" / "npu.pkl", HOOKS / "extra_ops" / "bench.pkl"),
    "two tools": (HOOKS / "module_full" / "npu.pkl", HOOKS / "ptdbg" / "v4" / "npu"),
    "frameworks": (MSPROBE / "mindspore/m_mlp_L1_tensor", MSPROBE / "torch/t_mlp_L1_tensor"),
    "both levels": (MSPROBE / "mindspore/m_mlp_mix_tensor", MSPROBE / "torch/t_mlp_mix_tensor"),
}


@pytest.mark.parametrize("case", CASES)
def test_giving_a_pair_that_is_found_anyway_changes_no_other(case):
    left, right = (open_dump(path) for path in CASES[case])
    without = names(sited(left, right))
    assert len(without) > 20
    for mine, theirs in without.items():
        found = sited(left, right, (mine, theirs))
        assert names(found) == without
        assert found[mine][1].method == "user"


def test_what_follows_a_given_pair_says_so():
    left, right = (open_dump(path) for path in CASES["fused_op"])
    given = "0_Functional_linear_forward_input.0", "0_Functional_linear_forward_input.0"
    found = sited(left, right, given)
    _, match = found["3_Functional_linear_forward_output"]
    assert match.note == f"follows the given pair {given[0]} / {given[1]}"
    assert match.confidence >= 0.93
    assert match.method in ("name", "site")
    assert found[f"{given[0]}#10_of_30"][1].method == "site"
    assert "follows" not in found["5_Torch_relu_forward_output"][1].note


# Calls by hand: (category and op, shapes in, shapes out).


def calls(*ops):
    entries, numbers = [], {}
    for op, given, made in ops:
        number = numbers[op] = numbers.get(op, -1) + 1
        for role, shapes in (("input", given), ("output", made)):
            for slot, shape in enumerate(shapes):
                site = Site("api", op, number, "forward", role, str(slot))
                name = f"{op}.{number}.forward.{role}.{slot}"
                layer = op.rpartition(".")[2]
                entries.append(Entry(name, site, order=len(entries), shape=shape, layer=layer))
    return Dump.from_entries(entries)


RELU, ADD, MUL = "Functional.relu", "Torch.add", "Torch.mul"
A, B = (4, 6), (4, 3)


def test_calls_that_a_given_pair_puts_together_take_all_their_tensors():
    three = calls(*[(RELU, [A], [A])] * 3)
    given = f"{RELU}.0.forward.output.0", f"{RELU}.2.forward.output.0"
    assert names(sited(three, three))[f"{RELU}.0.forward.input.0"] == f"{RELU}.0.forward.input.0"
    found = sited(three, three, given)
    assert found[f"{RELU}.0.forward.input.0"][0] == f"{RELU}.2.forward.input.0"
    # The others are as many on both sides, and keep their order.
    assert found[f"{RELU}.1.forward.input.0"][0] == f"{RELU}.0.forward.input.0"
    assert found[f"{RELU}.2.forward.output.0"][0] == f"{RELU}.1.forward.output.0"


def test_arguments_that_a_given_pair_crosses_change_places():
    left, right = calls((ADD, [A, A], [A])), calls((ADD, [A, A], [A]))
    found = names(sited(left, right, (f"{ADD}.0.forward.input.0", f"{ADD}.0.forward.input.1")))
    assert found == {
        f"{ADD}.0.forward.input.0": f"{ADD}.0.forward.input.1",
        f"{ADD}.0.forward.input.1": f"{ADD}.0.forward.input.0",
        f"{ADD}.0.forward.output.0": f"{ADD}.0.forward.output.0",
    }


def test_an_output_given_with_an_input_says_nothing_of_the_calls():
    left = calls((RELU, [A], [A]), (MUL, [A, B], [B]))
    found = names(sited(left, left, (f"{RELU}.0.forward.output.0", f"{MUL}.0.forward.input.0")))
    assert found[f"{RELU}.0.forward.input.0"] == f"{RELU}.0.forward.input.0"
    assert found[f"{MUL}.0.forward.input.1"] == f"{MUL}.0.forward.input.1"


def test_two_given_pairs_make_two_operators_the_work_of_one():
    # No table knows this pair of operators as the work of the other one.
    left = calls((MUL, [A, B], [B]), (RELU, [B], [B]), (ADD, [B, B], [B]))
    right = calls(("Functional.gated", [A, B, B], [B]))
    whole = "Functional.gated.0.forward"
    found = sited(
        left,
        right,
        (f"{MUL}.0.forward.input.0", f"{whole}.input.0"),
        (f"{ADD}.0.forward.output.0", f"{whole}.output.0"),
    )
    assert found[f"{MUL}.0.forward.input.1"][0] == f"{whole}.input.1"
    assert found[f"{MUL}.0.forward.input.1"][1].method in ("api", "shape")
    assert f"{RELU}.0.forward.input.0" not in found


def test_given_pairs_that_contradict_each_other_put_no_calls_together():
    two = calls((ADD, [A, A], [A]), (ADD, [A, A], [A]))
    given = [
        (f"{ADD}.{i}.forward.input.{i}", f"{ADD}.{j}.forward.input.{i}")
        for i, j in ((0, 0), (1, 0))
    ]
    given.append((f"{ADD}.0.forward.output.0", f"{ADD}.1.forward.output.0"))
    found = names(sited(two, two, *given))
    assert all(found[a] == b for a, b in given)


def test_the_sample_of_a_given_tensor_follows_it():
    left, right = (open_dump(path) for path in CASES["extra_ops"])
    tensors = [n for n in left.names if not sampled_name(n) and f"{n}#10_of_24" in left.names]
    theirs = [n for n in right.names if not sampled_name(n) and f"{n}#10_of_24" in right.names]
    found = names(sited(left, right, (tensors[0], theirs[-1])))
    assert found[f"{tensors[0]}#10_of_24"] == f"{theirs[-1]}#10_of_24"
