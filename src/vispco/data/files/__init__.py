"""Real data from disk, read as it is used: training conversations and evaluation tables."""

from vispco.data.files.hf_folder import HfFolder
from vispco.data.files.json_files import Jsonl, LlavaInstruct
from vispco.data.files.record import ConversationSample, Record, Records, Skipped, SkippedItemError, SkipReport, Turn
from vispco.data.files.samples import SampleSet, data_files, open_data, training_samples
from vispco.data.files.sampling import AreaSample, equalise_areas, read_areas, take
from vispco.data.files.tsv import Tsv

__all__ = [
    "AreaSample",
    "ConversationSample",
    "HfFolder",
    "Jsonl",
    "LlavaInstruct",
    "Record",
    "Records",
    "SampleSet",
    "SkipReport",
    "Skipped",
    "SkippedItemError",
    "Tsv",
    "Turn",
    "data_files",
    "equalise_areas",
    "open_data",
    "read_areas",
    "take",
    "training_samples",
]
