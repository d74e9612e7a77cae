"""Real data from disk, read as it is used: training conversations and evaluation tables."""

from vispco.sources.hf_folder import HfFolder
from vispco.sources.jsonl import Jsonl
from vispco.sources.llava_instruct import LlavaInstruct
from vispco.sources.record import ConversationSample, Record, Turn
from vispco.sources.records import Records
from vispco.sources.sample_set import SampleSet
from vispco.sources.sampling import AreaSample, area_equalised, equalise_areas, read_areas, take
from vispco.sources.skipped import Skipped, SkippedItemError, SkipReport
from vispco.sources.training import Turns, open_data, training_samples
from vispco.sources.tsv import Tsv

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
    "Turns",
    "area_equalised",
    "equalise_areas",
    "open_data",
    "read_areas",
    "take",
    "training_samples",
]
