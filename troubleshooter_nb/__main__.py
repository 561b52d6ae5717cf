"""``python -m troubleshooter_nb`` is the command line ``tnb``."""

from __future__ import annotations

from troubleshooter_nb.cli.process import run

if __name__ == "__main__":
    run()
