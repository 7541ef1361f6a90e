"""What a model is trained for: binds text, model, search and scores.

Knows nothing of optimizers, recipes or the command line.
"""

from gnomon.tasks.alignment import Alignment
from gnomon.tasks.backtranslation import (
    BacktranslationConfig,
    BacktranslationReport,
    backtranslate,
    recipe_lines,
)
from gnomon.tasks.card import add_scores_to_card
from gnomon.tasks.classification import ClassificationTask, LabelPreparation
from gnomon.tasks.classifier import Classification, Classifier
from gnomon.tasks.classifier_folder import load_classifier, save_classifier
from gnomon.tasks.continuation import Continuation
from gnomon.tasks.document_task import DocumentPreparation, DocumentTask
from gnomon.tasks.embedding import Encoder, EncoderConfig
from gnomon.tasks.encoder_folder import load_encoder, save_encoder
from gnomon.tasks.evaluation import evaluate_translator
from gnomon.tasks.folder import (
    ensemble,
    load_translator,
    load_weights,
    save_translator,
    task_of,
)
from gnomon.tasks.language_folder import load_language_model, save_language_model
from gnomon.tasks.language_model import LanguageModel
from gnomon.tasks.language_modelling import LanguageModellingTask
from gnomon.tasks.language_scoring import TextScore
from gnomon.tasks.preparation import Preparation, prepare_translation
from gnomon.tasks.scoring import PairScore
from gnomon.tasks.symmetrisation import Symmetrisation, symmetrise
from gnomon.tasks.terminology import Terminology
from gnomon.tasks.translation import TranslationTask
from gnomon.tasks.translator import Translation, Translator

__all__ = [
    "Alignment",
    "BacktranslationConfig",
    "BacktranslationReport",
    "Classification",
    "ClassificationTask",
    "Classifier",
    "Continuation",
    "DocumentPreparation",
    "DocumentTask",
    "Encoder",
    "EncoderConfig",
    "LabelPreparation",
    "LanguageModel",
    "LanguageModellingTask",
    "PairScore",
    "Preparation",
    "Symmetrisation",
    "Terminology",
    "TextScore",
    "Translation",
    "TranslationTask",
    "Translator",
    "add_scores_to_card",
    "backtranslate",
    "ensemble",
    "evaluate_translator",
    "load_classifier",
    "load_encoder",
    "load_language_model",
    "load_translator",
    "load_weights",
    "prepare_translation",
    "recipe_lines",
    "save_classifier",
    "save_encoder",
    "save_language_model",
    "save_translator",
    "symmetrise",
    "task_of",
]
