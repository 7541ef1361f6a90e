"""Verbs that make a line of each line, as descriptions that can be sent to another process."""

from gnomon.api.lines.classify import ClassifyLines
from gnomon.api.lines.job import LineJob, LineWork, Made
from gnomon.api.lines.translate import TranslateLines

__all__ = ["ClassifyLines", "LineJob", "LineWork", "Made", "TranslateLines"]
