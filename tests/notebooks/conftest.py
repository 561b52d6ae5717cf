"""What runs the templates in these tests: the package's own execution, with a limit of time."""

import sys
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
sys.path.insert(0, str(NOTEBOOKS))


class Demo:
    """Runs a template, which has to succeed."""

    @staticmethod
    def execute(template, parameters):
        from troubleshooter_nb.templates.execution import execute

        record = execute(template, parameters, folder=Path(template).parent, seconds=600)
        if record.problem is not None:
            raise RuntimeError(record.problem)
        assert record.exit_code is not None
        return record.notebook

    @staticmethod
    def verdict(notebook):
        from troubleshooter_nb.templates.execution import Record

        return Record(notebook).verdict


@pytest.fixture(scope="session")
def run_demo():
    return Demo
