"""Examines models, data and training: finds silent faults, with evidence and a mend."""

from gnomon.doctor.check import SYMPTOMS, Check, all_checks, check
from gnomon.doctor.examine import diagnose
from gnomon.doctor.finding import Finding, Verdict
from gnomon.doctor.patient import Patient
from gnomon.doctor.plan import Plan
from gnomon.doctor.report import Report

__all__ = [
    "SYMPTOMS",
    "Check",
    "Finding",
    "Patient",
    "Plan",
    "Report",
    "Verdict",
    "all_checks",
    "check",
    "diagnose",
]
