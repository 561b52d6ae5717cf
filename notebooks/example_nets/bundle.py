"""Regenerate the bundled MindSpore gradients: ``python -m example_nets.bundle`` in notebooks/."""

from example_nets.gradients import BUNDLE, BUNDLED_SETTING, emptied
from troubleshooter_nb import RunCard, save_dump


def main() -> None:
    """Run the bundled setting and replace the files."""
    # Here, not above: this module can then be read where MindSpore is missing.
    from example_nets import step_mindspore

    net, fault, seed = BUNDLED_SETTING
    model = step_mindspore.build(net, fault, seed)
    gradients = step_mindspore.run_step(model, net, seed)[1]
    save_dump(gradients, emptied(BUNDLE), card=RunCard.current("mindspore", seed=seed))


if __name__ == "__main__":
    main()
