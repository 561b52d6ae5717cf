"""How Sphinx builds the site of this folder: ``make docs``.

The pages are plain markdown that reads well on a code host. What only the site has is added here:
the menu is made of the links of ``index.md``, the entries of ``api.md`` of docstrings.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import troubleshooter_nb as tnb

DOCS = Path(__file__).parent

project = "troubleshooter_nb"
author = "The authors of troubleshooter_nb"
release = tnb.__version__
extensions = [
    "myst_parser",  # markdown, with the anchors that a code host gives headings
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",  # docstrings of numpydoc
]
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline"]  # for `pictures_of`
napoleon_use_rtype = False
napoleon_google_docstring = False
autodoc_typehints = "none"  # the docstrings say what goes in and out
autodoc_member_order = "bysource"
add_module_names = False
suppress_warnings = ["myst.header"]
smartquotes = False  # eps=... is code
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_title = "troubleshooter_nb"
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "one-dark"

INDEXES = ("index", "zh/index")
LINK = re.compile(r"\]\(([\w/]+)\.md\)")


def menu_of(text: str) -> str:
    """The menu that the links of an index make, a part for each of its headings."""
    parts, seen = [], set()
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, rest = section.partition("\n")
        pages = [page for page in LINK.findall(rest) if page not in seen]
        seen.update(pages)
        if pages:
            lines = "\n".join(pages)
            parts.append(f"```{{toctree}}\n:hidden:\n:caption: {title}\n\n{lines}\n```\n")
    return "\n".join(parts)


def pictures_of(text: str) -> str:
    """Beside each picture of a light page that of a dark one, which furo chooses from."""
    picture = re.compile(r"!\[([^]]*)\]\((\S+)_light\.png\)")
    both = (rf"![\1](\2_{scheme}.png){{.only-{scheme}}}" for scheme in ("light", "dark"))
    return picture.sub("\n".join(both), text)


def directive_of(name: str) -> str:
    """What brings the docstring of a public name into the page."""
    is_class = isinstance(getattr(tnb, name), type)
    is_error = is_class and issubclass(getattr(tnb, name), Exception)
    kind = "autoexception" if is_error else "autoclass" if is_class else "autofunction"
    members = "\n   :members:" if is_class and not is_error else ""
    return f"```{{eval-rst}}\n.. {kind}:: troubleshooter_nb.{name}{members}\n```\n"


def source_read(app: Any, page: str, source: list[str]) -> None:
    """Add to a page what only the site has."""
    source[0] = pictures_of(source[0])
    if page in INDEXES:
        source[0] += "\n" + menu_of(source[0])
    elif page == "api":
        row = re.compile(r"^\| \[?`(\w+)`.*\n", re.MULTILINE)
        head = re.compile(r"^\| name \| .*\n\| --- .*\n", re.MULTILINE)
        source[0] = row.sub(lambda found: directive_of(found[1]), head.sub("", source[0]))


def html_page_context(app: Any, page: str, template: str, context: dict[str, Any], *_: Any) -> None:
    """Tell a browser which pages are Chinese, so that it takes the right characters."""
    if page.startswith("zh/"):
        context["language"] = "zh-CN"


def setup(app: Any) -> None:
    """What Sphinx calls."""
    app.connect("source-read", source_read)
    app.connect("html-page-context", html_page_context)
