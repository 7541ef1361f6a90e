"""The main jobs as functions: here the rooms are wired together, for Python and command line."""

from gnomon.api.average import average
from gnomon.api.backtranslate import backtranslate
from gnomon.api.curves import CurveVerdict, check_curve, save_curve
from gnomon.api.doctor import examine_target
from gnomon.api.dry_run import Look, dry_run
from gnomon.api.evaluate import evaluate, evaluate_files
from gnomon.api.evaluate_labels import evaluate_classifier
from gnomon.api.evaluate_language import evaluate_language_model
from gnomon.api.exchange import embed_lines, export_model, import_model
from gnomon.api.extend import Extension, extend
from gnomon.api.fit import fit
from gnomon.api.forecast import forecast
from gnomon.api.load import VERBS, check_task, is_of, load, load_for, model_folder, task_of
from gnomon.api.needle import find_needles, write_needles
from gnomon.api.pairs import given_pairs
from gnomon.api.runs import RunComparison, RunScores, RunSummary, compare_runs, list_runs, scores_of
from gnomon.api.train import Training, prepare, read_recipe, run_path, train

__all__ = [
    "VERBS",
    "CurveVerdict",
    "Extension",
    "Look",
    "RunComparison",
    "RunScores",
    "RunSummary",
    "Training",
    "average",
    "backtranslate",
    "check_curve",
    "check_task",
    "compare_runs",
    "dry_run",
    "embed_lines",
    "evaluate",
    "evaluate_classifier",
    "evaluate_files",
    "evaluate_language_model",
    "examine_target",
    "export_model",
    "extend",
    "find_needles",
    "fit",
    "forecast",
    "given_pairs",
    "import_model",
    "is_of",
    "list_runs",
    "load",
    "load_for",
    "model_folder",
    "prepare",
    "read_recipe",
    "run_path",
    "save_curve",
    "scores_of",
    "task_of",
    "train",
    "write_needles",
]
