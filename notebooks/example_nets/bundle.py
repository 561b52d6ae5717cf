"""Regenerate the bundled MindSpore gradients: ``python -m example_nets.bundle`` in notebooks/."""

import json
from importlib.metadata import version

from example_nets.gradients import BUNDLE, BUNDLE_VERSIONS, BUNDLED_SETTING, emptied
from troubleshooter_nb import save_dump


def main() -> None:
    """Run the bundled setting and replace the files."""
    # Here, not above: this module can then be read where MindSpore is missing.
    from example_nets import step_mindspore

    net, fault, seed = BUNDLED_SETTING
    model = step_mindspore.build(net, fault, seed)
    save_dump(step_mindspore.run_step(model, net, seed)[1], emptied(BUNDLE))
    versions = {"mindspore": version("mindspore"), "numpy": version("numpy")}
    BUNDLE_VERSIONS.write_text(json.dumps(versions) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
