"""Raw files to batches: lines, corpora, tokenizer, token store, length-bucketed batches.

This room knows text and ids. It must not know models, losses or devices beyond moving a batch.
"""

from gnomon.text.augmentation import AugmentationConfig, Augmenter
from gnomon.text.batches import Batch, BatchPlan, collate
from gnomon.text.cleaning import REASONS, CleaningConfig
from gnomon.text.cleaning_controls import mend_controls
from gnomon.text.cleaning_pass import FINDINGS, Cleaned, clean, judge, look
from gnomon.text.cleaning_report import CleaningReport
from gnomon.text.corpus import Pair, ParallelCorpus
from gnomon.text.familiarity import Familiarity
from gnomon.text.lines import Replacements, count_lines, read_lines
from gnomon.text.occurrences import Occurrences
from gnomon.text.pretrained import PretrainedTokenizer, TokenizerRoles
from gnomon.text.reserved import BOS_ID, BYTES, EOS_ID, PAD_ID, SPECIALS, UNK_ID
from gnomon.text.scripts import is_word_edge, joins_words
from gnomon.text.sentences import Part
from gnomon.text.sentences import join as join_parts
from gnomon.text.sentences import parts as text_parts
from gnomon.text.sources import DataConfig, SourceConfig
from gnomon.text.splits import Corpora, SplitReport, open_corpora, open_split
from gnomon.text.store import TokenStore
from gnomon.text.store_writer import BuildReport
from gnomon.text.tokenizer import Tokenizer
from gnomon.text.tokenizer_config import TokenizerConfig, VocabularyConfig
from gnomon.text.tokenizer_pair import AnyTokenizer, TokenizerPair
from gnomon.text.units import Unit, owners, units
from gnomon.text.variants import Variants

__all__ = [
    "BOS_ID",
    "BYTES",
    "EOS_ID",
    "FINDINGS",
    "PAD_ID",
    "REASONS",
    "SPECIALS",
    "UNK_ID",
    "AnyTokenizer",
    "AugmentationConfig",
    "Augmenter",
    "Batch",
    "BatchPlan",
    "BuildReport",
    "Cleaned",
    "CleaningConfig",
    "CleaningReport",
    "Corpora",
    "DataConfig",
    "Familiarity",
    "Occurrences",
    "Pair",
    "ParallelCorpus",
    "Part",
    "PretrainedTokenizer",
    "Replacements",
    "SourceConfig",
    "SplitReport",
    "TokenStore",
    "Tokenizer",
    "TokenizerConfig",
    "TokenizerPair",
    "TokenizerRoles",
    "Unit",
    "Variants",
    "VocabularyConfig",
    "clean",
    "collate",
    "count_lines",
    "is_word_edge",
    "join_parts",
    "joins_words",
    "judge",
    "look",
    "mend_controls",
    "open_corpora",
    "open_split",
    "owners",
    "read_lines",
    "text_parts",
    "units",
]
