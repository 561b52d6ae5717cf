"""The dumps of msprobe that its tables are of."""

import shutil
import zipfile

import pytest

from tests.compat.msprobe.compare.tables_of_peers import DATA, MAPS

SNIPPETS = DATA.parent / "snippets" / "s004"


@pytest.fixture(scope="session")
def dumps(tmp_path_factory):
    """Folder of the dumps, under the paths that the cases name."""
    folder = tmp_path_factory.mktemp("dumps")
    with zipfile.ZipFile(DATA / "dumps.zip") as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture
def place(dumps, tmp_path, monkeypatch):
    """A folder with two dumps, a compare.json and the mapping files, which is gone into."""

    def prepare(target, golden, config):
        for name, source in (("npu_dump", target), ("bench_dump", golden)):
            shutil.copytree(dumps / source if isinstance(source, str) else source, tmp_path / name)
        shutil.copy(
            DATA.parent / "snippets/s004" / f"compare_{config}.json", tmp_path / "compare.json"
        )
        for file in MAPS.glob("map_*.yaml"):
            shutil.copy(file, tmp_path)
        monkeypatch.chdir(tmp_path)
        return tmp_path

    return prepare


@pytest.fixture
def kernels(dumps):
    """The kernel dumps under the names that msprobe gives their folders."""
    return dumps / "kernel_synthetic"
