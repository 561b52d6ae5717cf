"""Find the first layer in which two runs of the same network differ, from their saved tensors.

``compare(open_dump("left"), open_dump("right"))`` pairs two dumps, measures and judges every pair
and shows the answer in a notebook. The right side is the reference.

Nothing is loaded before it is asked for: a name brings the module that has it. Type checkers and
editors read the imports, `__getattr__` the table below; `tests/test_public_api.py` holds both to
`__all__`.
"""

from __future__ import annotations

import importlib.util
import typing

from troubleshooter_nb.version import VERSION as _VERSION

if typing.TYPE_CHECKING:
    from troubleshooter_nb.analysis.align import pair_dumps
    from troubleshooter_nb.analysis.assertion import assert_same
    from troubleshooter_nb.analysis.checkpoints import diff_checkpoints
    from troubleshooter_nb.analysis.engine import compare
    from troubleshooter_nb.analysis.self_noise import measure_noise
    from troubleshooter_nb.analysis.series import SeriesComparison, compare_series
    from troubleshooter_nb.analysis.shards.ranks import merge_ranks, missing_places
    from troubleshooter_nb.capture.determinism import Seeded, seed_all
    from troubleshooter_nb.capture.differences import Difference, Differences
    from troubleshooter_nb.capture.overflow_found import Overflow
    from troubleshooter_nb.capture.overflow_watch import watch_overflow
    from troubleshooter_nb.capture.recording import Recording, record
    from troubleshooter_nb.capture.saving import save, save_grad
    from troubleshooter_nb.capture.schedule import Schedule
    from troubleshooter_nb.checkpoint_diff import CheckpointDiff
    from troubleshooter_nb.comparison import Comparison, Explanation, PairRows, TensorDiff
    from troubleshooter_nb.convert.apply import convert_weights
    from troubleshooter_nb.convert.draft import draft_weight_map
    from troubleshooter_nb.dump import ArraySource, Dump
    from troubleshooter_nb.errors import (
        AmbiguousEntryError,
        ArgumentError,
        ArgumentTypeError,
        EntryNotFoundError,
        ExtraMissingError,
        FormatError,
        FrameworkMissingError,
        IncompleteWarning,
        MappingFileError,
        NoGradientError,
        NotOfferedError,
        NotSameError,
        OptionError,
        OverflowFoundError,
        PairingError,
        PathNotFoundError,
        ReadError,
        TroubleshooterError,
        TroubleshooterWarning,
        UnknownFormatError,
        WeightMapError,
        WriteError,
    )
    from troubleshooter_nb.findings import Check, Finding
    from troubleshooter_nb.first_steps import Start, start
    from troubleshooter_nb.formats import open_dump, save_dump
    from troubleshooter_nb.formats.mapping_file import read_weight_map, write_weight_map
    from troubleshooter_nb.formats.pairing_files import read_mapping
    from troubleshooter_nb.formats.pairing_rules import MappingFile
    from troubleshooter_nb.formats.pairing_writer import write_mapping
    from troubleshooter_nb.formats.series import Series, open_series
    from troubleshooter_nb.formats.verifying import verify
    from troubleshooter_nb.metrics.noise import NoiseModel
    from troubleshooter_nb.metrics.verdict import Tolerance
    from troubleshooter_nb.options import get_options, option_context, set_options
    from troubleshooter_nb.pairing import Pairing
    from troubleshooter_nb.replaying.replay import replay
    from troubleshooter_nb.replaying.reproduction import export_reproduction
    from troubleshooter_nb.report import export
    from troubleshooter_nb.run_card import RunCard
    from troubleshooter_nb.saved_comparison import open_comparison
    from troubleshooter_nb.templates.outcome import Outcome, outcome
    from troubleshooter_nb.templates.shipped import use_example_nets
    from troubleshooter_nb.verification import Verification
    from troubleshooter_nb.weight_map import WeightMap, WeightMapHistory
    from troubleshooter_nb.widgets import edit, explore

__version__ = _VERSION

__all__ = [
    "AmbiguousEntryError",
    "ArgumentError",
    "ArgumentTypeError",
    "ArraySource",
    "Check",
    "CheckpointDiff",
    "Comparison",
    "Difference",
    "Differences",
    "Dump",
    "EntryNotFoundError",
    "Explanation",
    "ExtraMissingError",
    "Finding",
    "FormatError",
    "FrameworkMissingError",
    "IncompleteWarning",
    "MappingFile",
    "MappingFileError",
    "NoGradientError",
    "NoiseModel",
    "NotOfferedError",
    "NotSameError",
    "OptionError",
    "Outcome",
    "Overflow",
    "OverflowFoundError",
    "PairRows",
    "Pairing",
    "PairingError",
    "PathNotFoundError",
    "ReadError",
    "Recording",
    "RunCard",
    "Schedule",
    "Seeded",
    "Series",
    "SeriesComparison",
    "Start",
    "TensorDiff",
    "Tolerance",
    "TroubleshooterError",
    "TroubleshooterWarning",
    "UnknownFormatError",
    "Verification",
    "WeightMap",
    "WeightMapError",
    "WeightMapHistory",
    "WriteError",
    "assert_same",
    "compare",
    "compare_series",
    "convert_weights",
    "diff_checkpoints",
    "draft_weight_map",
    "edit",
    "explore",
    "export",
    "export_reproduction",
    "get_options",
    "measure_noise",
    "merge_ranks",
    "missing_places",
    "open_comparison",
    "open_dump",
    "open_series",
    "option_context",
    "outcome",
    "pair_dumps",
    "read_mapping",
    "read_weight_map",
    "record",
    "replay",
    "save",
    "save_dump",
    "save_grad",
    "seed_all",
    "set_options",
    "start",
    "use_example_nets",
    "verify",
    "watch_overflow",
    "write_mapping",
    "write_weight_map",
]

# Module -> what it has of the names above.
_HOMES = {
    ".analysis.align": "pair_dumps",
    ".analysis.assertion": "assert_same",
    ".analysis.checkpoints": "diff_checkpoints",
    ".analysis.engine": "compare",
    ".analysis.self_noise": "measure_noise",
    ".analysis.series": "SeriesComparison compare_series",
    ".analysis.shards.ranks": "merge_ranks missing_places",
    ".capture.determinism": "Seeded seed_all",
    ".capture.differences": "Difference Differences",
    ".capture.overflow_found": "Overflow",
    ".capture.overflow_watch": "watch_overflow",
    ".capture.recording": "Recording record",
    ".capture.saving": "save save_grad",
    ".capture.schedule": "Schedule",
    ".checkpoint_diff": "CheckpointDiff",
    ".comparison": "Comparison Explanation PairRows TensorDiff",
    ".findings": "Check Finding",
    ".convert.apply": "convert_weights",
    ".convert.draft": "draft_weight_map",
    ".dump": "ArraySource Dump",
    ".errors": (
        "AmbiguousEntryError ArgumentError ArgumentTypeError EntryNotFoundError "
        "ExtraMissingError FormatError FrameworkMissingError IncompleteWarning "
        "MappingFileError NoGradientError NotOfferedError NotSameError OptionError "
        "OverflowFoundError PairingError PathNotFoundError ReadError TroubleshooterError "
        "TroubleshooterWarning UnknownFormatError WeightMapError WriteError"
    ),
    ".formats": "open_dump save_dump",
    ".formats.mapping_file": "read_weight_map write_weight_map",
    ".formats.pairing_files": "read_mapping",
    ".formats.pairing_rules": "MappingFile",
    ".formats.pairing_writer": "write_mapping",
    ".formats.series": "Series open_series",
    ".formats.verifying": "verify",
    ".metrics.noise": "NoiseModel",
    ".metrics.verdict": "Tolerance",
    ".options": "get_options option_context set_options",
    ".pairing": "Pairing",
    ".replaying.replay": "replay",
    ".replaying.reproduction": "export_reproduction",
    ".report": "export",
    ".saved_comparison": "open_comparison",
    ".run_card": "RunCard",
    ".first_steps": "Start start",
    ".templates.outcome": "Outcome outcome",
    ".templates.shipped": "use_example_nets",
    ".verification": "Verification",
    ".weight_map": "WeightMap WeightMapHistory",
    ".widgets": "edit explore",
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

if not typing.TYPE_CHECKING:  # to whom any name would exist

    def __getattr__(name: str) -> object:
        """What a name of `__all__` stands for, or a module of the package."""
        if name in _MODULE_OF:
            from troubleshooter_nb.collector import uncollected

            with uncollected():  # classes and functions, all of which stay
                module = importlib.import_module(_MODULE_OF[name], __name__)
            # Kept, so that it is found without asking the next time.
            return globals().setdefault(name, getattr(module, name))
        if not name.startswith("_") and importlib.util.find_spec(f"{__name__}.{name}"):
            return importlib.import_module(f"{__name__}.{name}")
        from troubleshooter_nb.messages import Message

        raise AttributeError(Message("arguments.no_attribute", module=__name__, name=name))

    def __dir__() -> list[str]:
        """The public names, loaded or not."""
        return sorted({*globals(), *__all__})
