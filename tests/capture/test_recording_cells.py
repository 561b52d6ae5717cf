"""A recording across cells of a notebook, in a real kernel, and one that nobody holds any more."""

from __future__ import annotations

import ast
import gc
import os
import sys
import time
import weakref
from pathlib import Path

import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.errors import TroubleshooterWarning
from troubleshooter_nb.formats.record_writer import RecordWriter

torch = pytest.importorskip("torch")
manager = pytest.importorskip("jupyter_client.manager")
torch_recording = pytest.importorskip("troubleshooter_nb.frameworks.torch_recording")

ROOT = Path(__file__).parents[2]
SETUP = """
import time, torch
import troubleshooter_nb as tnb
torch.set_num_threads(1)
def new_net():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
def hooks_of(net):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in net.modules())
def listed(dump):
    return [(step, name) for step, name in zip(dump.index.step.values.tolist(), dump.names)]
net, x, rec, other = new_net(), torch.arange(6.0).reshape(2, 3), None, None
"""


class Notebook:
    """A kernel whose cells are run as a front end does."""

    def __init__(self, client) -> None:
        self.client = client

    def begin(self, code, cell=None):
        """Ask for a cell to be run, known by its id; its request."""
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}}
        content |= {"allow_stdin": False, "stop_on_error": True}
        metadata = {} if cell is None else {"cellId": cell}
        message = self.client.session.msg("execute_request", content, metadata=metadata)
        self.client.shell_channel.send(message)
        return message["header"]["msg_id"]

    def end(self, request):
        """What a cell gave: text of its streams, its error, its result by kind."""
        text, error, result = "", "", {}
        while True:
            message = self.client.get_iopub_msg(timeout=60)
            if message["parent_header"].get("msg_id") != request:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                text += content["text"]
            elif kind == "error":
                error = content["ename"]
            elif kind == "execute_result":
                result = content["data"]
            elif kind == "status" and content["execution_state"] == "idle":
                return text, error, result

    def run(self, code, cell=None, error=""):
        """Run a cell that ends in this error, or in none."""
        text, raised, result = self.end(self.begin(code, cell))
        assert raised == error, (raised, text)
        return result or text

    def ask(self, expression):
        """The value of an expression, which runs in no cell."""
        request = self.client.execute(
            "", silent=True, user_expressions={"it": f"repr(({expression}))"}
        )
        while True:
            reply = self.client.get_shell_msg(timeout=60)
            if reply["parent_header"].get("msg_id") == request:
                break
        found = reply["content"]["user_expressions"]["it"]
        assert found["status"] == "ok", found
        return ast.literal_eval(ast.literal_eval(found["data"]["text/plain"]))


@pytest.fixture(scope="module")
def kernel():
    started = manager.KernelManager(kernel_name="python3")
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    started.start_kernel(env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)})
    client = started.client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    yield started, Notebook(client)
    client.stop_channels()
    started.shutdown_kernel(now=True)


@pytest.fixture
def notebook(kernel):
    kernel[1].run(SETUP, "setup")
    return kernel[1]


START = "rec = tnb.record(net); rec.start();"
TRAIN = "net(x).sum().backward()"
TWO_STEPS = "for _ in range(2):\n    net(x).sum().backward()\n    rec.step()"


def test_three_cells_record_what_one_block_does(notebook):
    notebook.run("with tnb.record(net) as one:\n    net(x).sum().backward()")
    notebook.run(START, "start")
    notebook.run(TRAIN, "train")
    notebook.run("dump = rec.stop()", "stop")
    assert notebook.ask("listed(dump) == listed(one.dump) and len(dump) > 20")
    assert notebook.ask("tnb.compare(dump, one.dump).passed")
    assert notebook.ask("hooks_of(net), rec.state") == (0, "stopped")


@pytest.mark.parametrize("to", ["None", "'{}'"])
def test_a_training_cell_run_again_replaces_what_it_gave(notebook, tmp_path, to):
    to = to.format(tmp_path / "rec")
    notebook.run(f"rec = tnb.record(net, to={to}); rec.start();", "start")
    notebook.run(TWO_STEPS, "train")
    once = notebook.ask("listed(rec.dump)")
    assert {step for step, _ in once} == {0, 1}
    facts = "[rec._facts()[k] for k in ('calls', 'values', 'gradients', 'layers', 'steps')]"
    counted = notebook.ask(facts)
    notebook.run("x = x + 1\n" + TWO_STEPS, "train")
    notebook.run("x = x + 1\n" + TWO_STEPS, "train")
    assert notebook.ask("listed(rec.dump)") == once
    assert notebook.ask(facts) == counted
    name = "Module.0.Linear.forward.0.input.0"
    values = notebook.ask(f"rec.dump.select(step=1).array({name!r}).tolist()")
    assert values == [[2, 3, 4], [5, 6, 7]]
    notebook.run("rec.stop();", "stop")
    assert notebook.ask("listed(rec.dump)") == once


def test_memory_of_replaced_runs_is_given_back(notebook):
    notebook.run(START, "start")
    notebook.run(TWO_STEPS, "train")
    held = "[len(rec._kept.events), len(rec._kept.arrays), rec._recorder.values.size_bytes]"
    events, arrays, size = notebook.ask(held)
    for _ in range(3):
        notebook.run(TWO_STEPS, "train")
    again = notebook.ask(held)
    assert again[1:] == [arrays, size]
    assert again[0] == events + 3 * 3  # its two steps, and which run it replaced
    notebook.run("rec.stop();", "stop")


def test_steps_go_on_from_cell_to_cell_and_begin_again_where_one_is_run_again(notebook):
    notebook.run(START, "start")
    notebook.run(TWO_STEPS, "first")
    notebook.run(TWO_STEPS, "second")
    assert notebook.ask("rec.steps") == [0, 1, 2, 3]
    notebook.run(TWO_STEPS, "first")
    assert notebook.ask("rec.steps") == [0, 1, 2, 3]
    notebook.run(TWO_STEPS, "third")
    assert notebook.ask("rec.steps") == [0, 1, 2, 3, 4, 5]
    assert not notebook.ask("[n for n in rec.dump.names if 'forward.1' in n]")
    notebook.run("rec.stop();", "stop")


def test_a_cell_run_again_is_hooked_in_the_steps_that_are_recorded(notebook):
    notebook.run("rec = tnb.record(net, steps=[0]); rec.start();", "start")
    notebook.run(TWO_STEPS, "train")
    assert notebook.ask("hooks_of(net)") == 0
    once = notebook.ask("listed(rec.dump)")
    notebook.run(TWO_STEPS, "train")
    assert notebook.ask("listed(rec.dump)") == once
    notebook.run("rec.stop();", "stop")


def test_a_value_of_an_earlier_cell_outlives_a_later_one(notebook):
    notebook.run(START, "start")
    notebook.run("h = net[0](x)", "first")
    notebook.run("y = net[1](h)", "second")
    notebook.run("h2 = net[0](x)", "first")
    name = "Module.1.ReLU.forward.0.input.0"
    assert notebook.ask(f"rec.dump.array({name!r}).tolist() == h.tolist()")
    assert notebook.ask("sum('forward.0.output' in n for n in rec.dump.names)") == 2
    notebook.run("rec.stop();", "stop")


def test_the_cell_that_starts_run_again_leaves_one_recording(notebook):
    for _ in range(2):
        notebook.run(START, "start")
        notebook.run(TRAIN, "train")
    assert notebook.ask("hooks_of(net)") == 6 + 2  # two a module
    assert not notebook.ask("[n for n in rec.dump.names if 'forward.1' in n]")
    notebook.run("rec.stop();", "stop")
    assert notebook.ask("hooks_of(net)") == 0


def test_the_cell_that_starts_edited_takes_its_earlier_recording_away(notebook, tmp_path):
    notebook.run(f"rec = tnb.record(net, to={str(tmp_path / 'r')!r}); rec.start()", "start")
    edited = f"old, net = net, new_net()\nrec = tnb.record(net, to={str(tmp_path / 'r')!r})"
    text = notebook.run(edited + "\nrec.start();", "start")
    assert text == ""  # no warning
    assert notebook.ask("hooks_of(old), hooks_of(net)") == (0, 8)
    notebook.run("rec.stop();", "stop")


def test_a_cell_without_an_id_is_known_by_its_text(notebook):
    notebook.run(START)
    notebook.run(TRAIN)
    once = notebook.ask("listed(rec.dump)")
    notebook.run(TRAIN)
    assert notebook.ask("listed(rec.dump)") == once
    notebook.run(START)
    assert notebook.ask("hooks_of(net), len(rec.dump)") == (8, 0)
    notebook.run("rec.stop();")


def test_a_recording_whose_name_is_given_to_another_is_stopped_with_a_warning(notebook):
    notebook.run(START, "start")
    text = notebook.run("rec = tnb.record(net)", "another")
    assert "TroubleshooterWarning" in text
    assert "no name holds it" in text
    assert notebook.ask("hooks_of(net)") == 0


def test_interrupting_the_kernel_leaves_nothing_hooked_and_says_so(kernel, notebook):
    notebook.run(START, "start")
    code = (
        "for i in range(10**6):\n    net(x).sum().backward()\n    rec.step()\n    time.sleep(0.02)"
    )
    request = notebook.begin(code, "train")
    time.sleep(0.5)
    kernel[0].interrupt_kernel()
    assert notebook.end(request)[1] == "KeyboardInterrupt"
    assert notebook.ask("hooks_of(net), rec.state") == (0, "broken")
    assert notebook.ask("rec.missing.of_kind('interrupted')") == ("",)
    assert notebook.ask("[n for n in rec.dump.notes if 'was interrupted' in n]")
    steps = notebook.ask("rec.steps")
    per_step = "[sum(s == k for s, _ in listed(rec.dump)) for k in rec.steps[:-1]]"
    assert len(steps) > 2
    assert len(set(notebook.ask(per_step))) == 1
    notebook.run("net(x)", "after")
    assert notebook.ask("rec.steps") == steps
    assert notebook.ask("torch.is_grad_enabled()")


def test_an_exception_in_a_cell_keeps_the_recording_running(notebook):
    notebook.run(START, "start")
    notebook.run("net(x)\nnet(torch.ones(2, 7))", "train", error="RuntimeError")
    assert notebook.ask("rec.state, hooks_of(net)") == ("running", 8)
    assert notebook.ask("rec.missing.of_kind('raised')") == ("0", "")
    notebook.run(TRAIN, "train")
    assert notebook.ask("rec.missing.of_kind('raised')") == ()
    notebook.run("dump = rec.stop()", "stop")
    assert notebook.ask("[*dump.notes], rec.state") == ([], "stopped")


def test_a_stopped_recording_starts_again_from_nothing(notebook):
    notebook.run(START, "start")
    notebook.run("net(x); net(x)", "train")
    notebook.run("first = rec.stop()", "stop")
    notebook.run("rec.start();\nnet(x)\nsecond = rec.stop()", "again")
    assert notebook.ask("2 * len([n for n in second.names if 'parameters' not in n])") == (
        notebook.ask("len([n for n in first.names if 'parameters' not in n])")
    )


def test_one_recording_in_a_cell_and_one_across_cells_see_the_same(notebook):
    notebook.run(START, "start")
    notebook.run("with tnb.record(net) as other:\n    net(x).sum().backward()", "train")
    assert notebook.ask("hooks_of(net), rec.state, other.state") == (8, "running", "stopped")
    notebook.run("rec.stop();", "stop")
    assert notebook.ask("listed(rec.dump) == listed(other.dump)")


def test_a_recording_and_what_it_lacks_are_shown_at_the_end_of_a_cell(notebook):
    notebook.run(START, "start")
    notebook.run("net[0](x)", "train")
    shown = notebook.run("rec", "show")
    assert "Recording" in shown["text/plain"]
    assert "<table" in shown["text/html"]
    notebook.run("rec.stop();", "stop")
    shown = notebook.run("rec.missing", "show missing")
    assert "was never called" in shown["text/plain"]
    assert "was never called" in shown["text/html"]


# In a terminal, and without IPython


@pytest.fixture
def shell():
    from IPython.core.interactiveshell import InteractiveShell

    made = InteractiveShell.instance()
    yield made
    InteractiveShell.clear_instance()


@pytest.fixture
def net():
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())


def hooks_of(net):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in net.modules())


def test_a_line_typed_twice_in_a_terminal_is_two_calls(shell, net):
    shell.push({"net": net, "tnb": tnb, "x": torch.ones(2, 3)})
    for line in ("rec = tnb.record(net).start()", "y = net(x)", "y = net(x)", "d = rec.stop()"):
        assert shell.run_cell(line).success
    names = shell.user_ns["d"].names
    assert "Module.0.Linear.forward.1.output.0" in names
    assert not shell.events.callbacks["pre_run_cell"]


def test_an_interrupt_in_a_terminal_ends_the_recording(shell, net):
    shell.push({"net": net, "tnb": tnb, "x": torch.ones(2, 3)})
    shell.run_cell("rec = tnb.record(net).start()")
    shell.run_cell("net(x)\nraise KeyboardInterrupt")
    assert shell.user_ns["rec"].state == "broken"
    assert hooks_of(net) == 0
    assert not shell.events.callbacks["post_run_cell"]


@pytest.mark.parametrize("level", ["module", "api", "both"])
def test_a_recording_without_a_name_is_stopped(net, level):
    rec = tnb.record(net, level=level).start()
    net(torch.ones(2, 3))
    with pytest.warns(TroubleshooterWarning, match="no name holds it"):
        del rec
    assert hooks_of(net) == 0
    assert torch._C._len_torch_function_stack() == 0


def test_a_function_that_forgets_to_stop_leaves_nothing_behind(net, tmp_path):
    def train():
        rec = tnb.record(net, to=tmp_path / "rec").start()
        net(torch.ones(2, 3))
        assert rec.state == "running"

    with pytest.warns(TroubleshooterWarning, match="rec was stopped"):
        train()
    assert hooks_of(net) == 0
    dump = tnb.open_dump(tmp_path / "rec")
    assert "Module.1.ReLU.forward.0.output.0" in dump.names
    assert any("was interrupted" in note for note in dump.notes)
    with tnb.record(net, to=tmp_path / "rec"):  # nobody writes there any more
        net(torch.ones(2, 3))


def test_a_recording_in_a_cycle_is_stopped_by_the_collector(net):
    rec = tnb.record(net).start()
    rec.itself = rec
    known = weakref.ref(rec)
    del rec
    with pytest.warns(TroubleshooterWarning, match="no name holds it"):
        gc.collect()
    assert known() is None
    assert hooks_of(net) == 0


def test_a_block_without_a_name_records_to_its_end(net, tmp_path):
    with tnb.record(net, to=tmp_path / "rec"):
        gc.collect()
        net(torch.ones(2, 3)).sum().backward()
    assert tnb.open_dump(tmp_path / "rec").notes == ()
    assert hooks_of(net) == 0


def test_a_block_left_by_an_exception_says_that_it_broke_off(net):
    rec = tnb.record(net)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), rec:
        torch.mm(net(torch.ones(2, 3)), torch.ones(7, 7))
    assert rec.state == "broken"
    assert any("was interrupted" in note for note in rec.dump.notes)


def test_no_layer_by_that_name_leaves_an_earlier_recording_alone(net, tmp_path):
    with tnb.record(net, to=tmp_path / "rec"):
        net(torch.ones(2, 3))
    with pytest.raises(LookupError, match="no layer is called 'zero'"):
        tnb.record(net, to=tmp_path / "rec", names="zero").start()
    assert len(tnb.open_dump(tmp_path / "rec")) > 5
    assert hooks_of(net) == 0


# Interrupts in the middle of what records


class InterruptAt:
    """Raises KeyboardInterrupt before the n-th line that runs of a function, as a signal may."""

    def __init__(self, function, line) -> None:
        self.code, self.left = function.__code__, line

    def __enter__(self):
        self.earlier = sys.gettrace()
        sys.settrace(self.enter)
        return self

    def __exit__(self, *error):
        sys.settrace(self.earlier)

    def enter(self, frame, event, argument):
        if frame.f_code is not self.code:
            return None
        return self.line(frame, event, argument)

    def line(self, frame, event, argument):
        self.left -= event == "line"
        if self.left == 0:
            sys.settrace(None)
            frame.f_trace = None
            pressed = "pressed"
            raise KeyboardInterrupt(pressed)
        return self.line


@pytest.mark.parametrize(
    "function",
    [torch_recording.quiet.__enter__, torch_recording.quiet.__exit__, RecordWriter.put],
    ids=["quiet begins", "quiet ends", "writing"],
)
@pytest.mark.parametrize("line", [*range(1, 9), 30, 31, 32])
def test_an_interrupt_anywhere_leaves_torch_as_it_was(net, tmp_path, function, line):
    rec = tnb.record(net, to=tmp_path / "rec", level="both")

    def train():
        with rec, InterruptAt(function, line):
            for _ in range(20):
                net(torch.ones(2, 3)).sum().backward()

    with pytest.raises(KeyboardInterrupt, match="pressed"):
        train()
    assert hooks_of(net) == 0
    assert torch.is_grad_enabled()
    assert torch._C._is_torch_function_enabled()
    assert torch._C._len_torch_function_stack() == 0
    assert rec.state == "broken"
    assert any("was interrupted" in note for note in rec.dump.notes)
