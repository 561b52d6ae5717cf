"""A process that dumps two steps of training with msprobe's calls, its own or this project's.

``python -m measuring.dumping debugger|msprobe LEVEL TASK FOLDER [CHANGED]``, in the environment of
the recorder. A layer is `CHANGED` before the first step.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from measuring.stepping import Way, debugger_of
from measuring.transformer import Size, Training

SIZE = Size(32, 2)
STEPS = 2


def main() -> None:
    """Write the dump."""
    recorder, level, task, folder, *changed = sys.argv[1:]
    way = Way(recorder, level, task, SIZE, Path(folder))
    way.dumps.mkdir(parents=True)
    training = Training(SIZE)
    for name in changed:
        with torch.no_grad():
            training.net.get_submodule(name).weight.mul_(1.25)
    debugger = debugger_of(way)
    for _ in range(STEPS):
        debugger.start(model=training.net)
        training.learn()
        debugger.stop()
        debugger.step()
        training.update()


if __name__ == "__main__":
    main()
