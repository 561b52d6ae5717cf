"""The dumps of msprobe that its tables are of."""

import zipfile

import pytest

from tests.compat.msprobe.compare.tables_of_peers import DATA


@pytest.fixture(scope="session")
def dumps(tmp_path_factory):
    """Folder of the dumps, under the paths that the cases name."""
    folder = tmp_path_factory.mktemp("dumps")
    with zipfile.ZipFile(DATA / "dumps.zip") as archive:
        archive.extractall(folder)
    return folder
