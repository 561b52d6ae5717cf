"""What all browser tests share."""

import importlib

import pytest


@pytest.fixture(scope="session")
def harness():
    """Imported only when a test runs: the core environment has no playwright."""
    return importlib.import_module("tests.browser.harness")
