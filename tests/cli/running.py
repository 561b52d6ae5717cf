"""The command line as a process of its own: in a pipe, in a terminal, interrupted."""

from __future__ import annotations

import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from fcntl import ioctl

COMMAND = [sys.executable, "-m", "troubleshooter_nb"]
SILENT = {"TNB_LANGUAGE": "en", "TERM": "xterm"}


def environment(**changes):
    """That of this process without what chooses languages and colours; None takes a name away."""
    names = ("LC_ALL", "LC_MESSAGES", "LANG", "TNB_LANGUAGE", "NO_COLOR", "COLUMNS")
    kept = {name: value for name, value in os.environ.items() if name not in names}
    wanted = kept | {"PYTHONIOENCODING": "utf-8"} | SILENT | changes
    return {name: value for name, value in wanted.items() if value is not None}


def piped(*words, cwd=None, command=COMMAND, **changes):
    """Exit code, standard output and standard error of a process in pipes."""
    done = subprocess.run(
        [*command, *map(str, words)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=cwd,
        env=environment(**changes),
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def in_terminal(*words, columns=100, command=COMMAND, interrupt_at=None, **changes):
    """Exit code and all that a terminal of so many columns gets.

    ``interrupt_at`` presses Ctrl-C as soon as the terminal shows it.
    """
    process, terminal = pty.fork()
    if not process:
        os.execvpe(command[0], [*command, *map(str, words)], environment(**changes))
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    shown = b""
    while True:
        try:
            new = os.read(terminal, 1 << 16)
        except OSError:  # its end
            break
        shown += new
        if interrupt_at is not None and interrupt_at.encode() in shown:
            os.write(terminal, b"\x03")
            interrupt_at = None
        if not new:
            break
    _, status = os.waitpid(process, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), shown.decode().replace("\r\n", "\n")


def interrupted(program, *words, after, **changes):
    """As `piped`, of a program that is sent SIGINT once a file says that it is amid its work."""
    command = [sys.executable, "-c", program, *map(str, words)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment(**changes), text=True, **pipes) as process:
        for _ in range(600):
            if after.exists():
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    return process.returncode, out, err
