"""What runs the templates in these tests: the package's own execution, with a limit of time."""

import getpass
import re
import socket
import sys
from pathlib import Path

import nbformat
import pytest

from tests.notebooks.checks import faults_of

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
sys.path.insert(0, str(NOTEBOOKS))


def private_in(text):
    """What an executed notebook says of the machine and the user it ran for."""
    places = [Path.home(), Path(sys.prefix), NOTEBOOKS.parent]
    found = [
        str(one) for one in places if re.search(rf"(?<!\w){re.escape(str(one))}(?![\w-])", text)
    ]
    # Names that are words as well, as those of containers, say nothing.
    names = {socket.gethostname(), getpass.getuser()}
    return found + [name for name in names if len(name) > 5 and name in text]


class Demo:
    """Runs a template, which has to succeed."""

    @staticmethod
    def execute(template, parameters):
        from troubleshooter_nb.templates.execution import execute

        record = execute(template, parameters, folder=Path(template).parent, seconds=600)
        if record.problem is not None:
            raise RuntimeError(record.problem)
        assert record.exit_code is not None
        assert private_in(nbformat.writes(record.notebook)) == []
        assert list(faults_of(record.notebook)) == []
        return record.notebook

    @staticmethod
    def verdict(notebook):
        from troubleshooter_nb.templates.execution import Record

        return Record(notebook).verdict


@pytest.fixture(scope="session")
def run_demo():
    return Demo
