"""Take the pictures of README.md from the newest page that ``make demo`` wrote into records/."""

from __future__ import annotations

import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
PAGE = max((ROOT / "records").glob("*-gradient_comparison.html"))
PICTURES = ROOT / "docs" / "pictures"

PICTURES.mkdir(exist_ok=True)
with sync_playwright() as playwright:
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
    for scheme in ("light", "dark"):
        context = browser.new_context(
            viewport={"width": 1000, "height": 700}, color_scheme=scheme, device_scale_factor=1.5
        )
        page = context.new_page()
        page.goto(PAGE.as_uri())
        page.screenshot(path=PICTURES / f"comparison_{scheme}.png")
    browser.close()
