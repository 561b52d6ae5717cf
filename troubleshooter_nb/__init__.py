"""Find the first layer in which two runs of the same network differ, from their saved tensors.

``compare(open_dump("left"), open_dump("right"))`` pairs two dumps, measures and judges every pair
and shows the answer in a notebook. The right side is the reference.
"""

from troubleshooter_nb.analysis.align import pair_dumps
from troubleshooter_nb.analysis.checkpoints import diff_checkpoints
from troubleshooter_nb.analysis.engine import compare
from troubleshooter_nb.analysis.self_noise import measure_noise
from troubleshooter_nb.analysis.series import SeriesComparison, compare_series
from troubleshooter_nb.analysis.shards.ranks import merge_ranks, missing_places
from troubleshooter_nb.capture.determinism import Seeded, seed_all
from troubleshooter_nb.capture.overflow_found import Overflow
from troubleshooter_nb.capture.overflow_watch import watch_overflow
from troubleshooter_nb.capture.recording import Recording, record
from troubleshooter_nb.capture.saving import save, save_grad
from troubleshooter_nb.capture.schedule import Schedule
from troubleshooter_nb.checkpoint_diff import CheckpointDiff
from troubleshooter_nb.comparison import Check, Comparison, Explanation, Finding, TensorDiff
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
from troubleshooter_nb.formats import open_dump, save_dump
from troubleshooter_nb.formats.mapping_file import read_weight_map, write_weight_map
from troubleshooter_nb.formats.pairing_files import read_mapping
from troubleshooter_nb.formats.pairing_rules import MappingFile
from troubleshooter_nb.formats.pairing_writer import write_mapping
from troubleshooter_nb.formats.series import Series, open_series
from troubleshooter_nb.metrics.noise import NoiseModel
from troubleshooter_nb.metrics.verdict import Tolerance
from troubleshooter_nb.options import get_options, option_context, set_options
from troubleshooter_nb.pairing import Pairing
from troubleshooter_nb.report import export
from troubleshooter_nb.run_card import RunCard
from troubleshooter_nb.weight_map import WeightMap, WeightMapHistory
from troubleshooter_nb.widgets import edit, explore

__version__ = "0.1.0"

__all__ = [
    "AmbiguousEntryError",
    "ArgumentError",
    "ArgumentTypeError",
    "ArraySource",
    "Check",
    "CheckpointDiff",
    "Comparison",
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
    "OptionError",
    "Overflow",
    "OverflowFoundError",
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
    "TensorDiff",
    "Tolerance",
    "TroubleshooterError",
    "TroubleshooterWarning",
    "UnknownFormatError",
    "WeightMap",
    "WeightMapError",
    "WeightMapHistory",
    "WriteError",
    "compare",
    "compare_series",
    "convert_weights",
    "diff_checkpoints",
    "draft_weight_map",
    "edit",
    "explore",
    "export",
    "get_options",
    "measure_noise",
    "merge_ranks",
    "missing_places",
    "open_dump",
    "open_series",
    "option_context",
    "pair_dumps",
    "read_mapping",
    "read_weight_map",
    "record",
    "save",
    "save_dump",
    "save_grad",
    "seed_all",
    "set_options",
    "watch_overflow",
    "write_mapping",
    "write_weight_map",
]
