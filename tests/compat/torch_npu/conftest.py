"""No test leaves a hook, a file or a step behind."""

from __future__ import annotations

import pytest

from troubleshooter_nb.compat.torch_npu.hooks import dump_file, registration, step_schedule


@pytest.fixture(autouse=True)
def clean():
    yield
    if registration._hooks is not None:
        registration._hooks.remove()
    registration._hooks = dump_file._file = None
    step_schedule.step_num = 0
    assert step_schedule._followers == []
