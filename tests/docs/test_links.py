"""Links and pictures of README and docs lead somewhere, on a code host and in the built site."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import FENCE, PAGES, ROOT

pytestmark = pytest.mark.once

HELD = [*PAGES, ROOT / "benchmarks/README.md", ROOT / ".ci/README.md", ROOT / "CHANGELOG.md"]
LINK = re.compile(r"\]\(<?([^)\s>]+)>?\)|(?:src|srcset|href)=\"([^\"]+)\"")
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
CODE = re.compile(r"(`+).*?\1", re.DOTALL)


def prose_of(page):
    return COMMENT.sub("", FENCE.sub("", page.read_text(encoding="utf-8")))


def anchor_of(heading):
    """The anchor that GitHub and MyST give a heading."""
    said = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
    said = re.sub(r"[^\w\- ]", "", said.strip().lower())
    return said.replace(" ", "-")


def anchors_of(page):
    found: dict[str, int] = {}
    for heading in re.findall(r"^#+ (.*)$", prose_of(page), re.MULTILINE):
        anchor = anchor_of(heading)
        found[anchor] = found.get(anchor, 0) + 1
    return {f"{one}-{n}" if n else one for one, times in found.items() for n in range(times)}


def links_of(page):
    text = CODE.sub("", prose_of(page))
    return [one or other for one, other in LINK.findall(text)]


@pytest.mark.parametrize("page", HELD, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_and_picture_is_there(page):
    for link in links_of(page):
        if re.match(r"(https?|mailto):", link):
            continue
        path, _, anchor = link.partition("#")
        assert not path.startswith("/"), f"{link} means another place on every host"
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name} links to {link}"
        assert ROOT in target.parents, f"{link} leaves the repository"
        if anchor:
            assert anchor in anchors_of(target), f"{page.name} links to {link}"


@pytest.mark.parametrize("index", ["docs/index.md", "docs/zh/index.md"])
def test_every_page_is_in_the_index(index):
    index = ROOT / index
    inside = {page for page in PAGES if page.parent == index.parent} - {index}
    linked = {(index.parent / link.partition("#")[0]).resolve() for link in links_of(index)}
    assert not {page.name for page in inside - linked}


def test_anchors_are_those_of_the_code_host():
    assert anchor_of("To change X, go to Y") == "to-change-x-go-to-y"
    assert anchor_of("`tnb.edit` and a file") == "tnbedit-and-a-file"
    assert anchor_of("第一小时：安装") == "第一小时安装"
