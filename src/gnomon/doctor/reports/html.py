"""placeholder"""

from gnomon.doctor.report import Report


def html_page(report: Report) -> str:
    """x"""
    return ""
