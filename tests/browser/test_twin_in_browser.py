"""The table below the editor of a large map: Notebook 7 leaves its cell as tall as it is."""

from __future__ import annotations

import pytest

pytest.importorskip("playwright")
pytest.importorskip("jupyter_client")

from tests.browser import harness, scenes

pytestmark = [pytest.mark.browser, pytest.mark.notebook, pytest.mark.long]

# Where Notebook 7 puts the output into a box that scrolls: 100 lines of 1.3 times 14 pixels.
TALLEST = 1820


def test_the_first_edit_of_a_large_map_leaves_the_editor_in_full_sight(tmp_path):
    path = f"import sys; sys.path.insert(0, {scenes.PACKAGE!r})\n"
    cell = path + scenes._EDITOR + scenes._MATCHED + scenes._EDIT
    with harness.jupyter(tmp_path) as server, harness.browser_page(height=1000) as page:
        server.write("large.ipynb", [cell])
        with harness.opened(server, page, "large.ipynb", "notebook7") as notebook:
            notebook.run_all()
            root = scenes.editor_of(page)
            harness.followed(root)
            scenes.pool(root, 0).first.click()
            root.locator(".tsnb-w-candidate button").first.click()
            harness.followed(root)
            page.locator(".tsnb", has_text="Edited (1 of 1)").wait_for()
            area = page.locator(".jp-Cell-outputArea").first
            assert area.evaluate("area => area.scrollHeight") < TALLEST
            assert page.locator(".jp-mod-outputsScrolled").count() == 0
            notebook.close()
