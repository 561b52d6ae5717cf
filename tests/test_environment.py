"""pyproject.toml, environment.yml and the constraints files tell one story."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import troubleshooter_nb

pytestmark = pytest.mark.once

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pytest brings it on 3.10

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OURSELVES = canonicalize_name(PROJECT["name"])


def merged(lines: list[str]) -> dict[str, SpecifierSet]:
    """Package name to its whole range; our own extras are followed, markers left aside."""
    ranges: dict[str, SpecifierSet] = defaultdict(SpecifierSet)
    for line in lines:
        requirement = Requirement(line)
        name = canonicalize_name(requirement.name)
        if name == OURSELVES:
            for extra in requirement.extras:
                for inner, specifier in merged(PROJECT["optional-dependencies"][extra]).items():
                    ranges[inner] &= specifier
        else:
            ranges[name] &= requirement.specifier
    return dict(ranges)


def project_ranges(*extras: str) -> dict[str, SpecifierSet]:
    """Ranges of the core and the named extras in pyproject.toml."""
    wanted = [f"{OURSELVES}[{','.join(extras)}]"] if extras else []
    return merged(PROJECT["dependencies"] + wanted)


def conda_ranges() -> dict[str, SpecifierSet]:
    """Ranges in environment.yml, its pip section included."""
    lines = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    pip_lines = next(line["pip"] for line in lines if isinstance(line, dict))
    plain = [line for line in lines if isinstance(line, str)]
    return merged(plain + [line for line in pip_lines if not line.startswith("-")])


def test_environment_yml_has_the_ranges_of_pyproject():
    ranges = conda_ranges()
    assert ranges.pop("pip") == SpecifierSet()
    python = SpecifierSet(PROJECT["requires-python"])
    assert ranges.pop("python") == python & SpecifierSet("<3.13")  # MindSpore's marker
    assert ranges == project_ranges("all")


@pytest.mark.parametrize(
    ("file", "extras"),
    [
        ("full.txt", ["all", "dev"]),
        ("core.txt", ["excel", "netcdf", "test"]),
        ("docs.txt", ["docs"]),
    ],
)
def test_constraints_pin_every_requirement_inside_its_range(file, extras):
    lines = (ROOT / "constraints" / file).read_text().splitlines()
    pins = merged([line for line in lines if not line.startswith("#")])
    assert all(str(pin).startswith("==") for pin in pins.values())
    for name, specifier in project_ranges(*extras).items():
        version = str(pins[name]).removeprefix("==")
        assert version in specifier, f"{name} {version} is pinned, {specifier} is required"


def test_the_package_knows_its_version():
    assert troubleshooter_nb.__version__ == PROJECT["version"]


def test_the_oldest_releases_are_those_that_are_promised():
    """Of each range the lower end is what the tests of `make worlds WORLD=minimum` run with."""
    lines = (ROOT / "constraints" / "minimum.txt").read_text().splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    ranges = project_ranges("excel", "netcdf")
    assert {canonicalize_name(pin.name) for pin in pins} == {*ranges}
    for pin in pins:
        (equal,) = pin.specifier
        (lower,) = (one for one in ranges[canonicalize_name(pin.name)] if one.operator == ">=")
        assert equal.version.startswith(lower.version), pin
