"""Take the pictures of README.md: the page of a comparison whose cause is proved.

``python docs/make_pictures.py`` needs torch, playwright and Chromium.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import torch
from PIL import Image
from playwright.sync_api import sync_playwright

import troubleshooter_nb as tnb

PICTURES = Path(__file__).parent / "pictures"


def network(gelu: str) -> torch.nn.Module:
    """A small residual network; only the form of its GELU differs between the two sides."""
    torch.manual_seed(0)
    layers: list[torch.nn.Module] = []
    for n in range(3):
        form = gelu if n == 1 else "none"
        layers += [torch.nn.Linear(32, 32), torch.nn.LayerNorm(32), torch.nn.GELU(form)]
    return torch.nn.Sequential(*layers, torch.nn.Linear(32, 4))


def page_in(folder: Path) -> Path:
    """The page of two recorded runs."""
    batch = torch.linspace(-2, 2, 64 * 32).reshape(64, 32).sin()
    for name, gelu in (("torch_run", "none"), ("port_run", "tanh")):
        net = network(gelu)
        with tnb.record(net, to=folder / name):
            net(batch).pow(2).mean().backward()
    page = folder / "record.html"
    tnb.export(tnb.compare(folder / "port_run", folder / "torch_run"), page)
    return page


def main() -> None:
    """Write both pictures."""
    PICTURES.mkdir(exist_ok=True)
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = page_in(Path(folder))
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=arguments
        )
        for scheme in ("light", "dark"):
            context = browser.new_context(
                viewport={"width": 1000, "height": 695},
                color_scheme=scheme,
                device_scale_factor=1.5,
            )
            page = context.new_page()
            page.goto(page_file.as_uri())
            picture = PICTURES / f"cause_{scheme}.png"
            page.screenshot(path=picture)
            Image.open(picture).convert("RGB").quantize(128).save(picture, optimize=True)
        browser.close()


if __name__ == "__main__":
    main()
