"""A report as text for a terminal, as SARIF for code hosts, as one HTML page; JSON is its values.

Each reads the finished report and nothing else.
"""

from gnomon.doctor.reports.html import html_page
from gnomon.doctor.reports.page import check_page
from gnomon.doctor.reports.sarif import sarif
from gnomon.doctor.reports.text import draw_report, plan_sentence, report_text

__all__ = ["check_page", "draw_report", "html_page", "plan_sentence", "report_text", "sarif"]
