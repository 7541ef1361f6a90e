"""Monitors: what the doctor looks at while a model trains."""

from gnomon.doctor.monitors.bundle import Bundle, is_bundle, read_bundle
from gnomon.doctor.monitors.monitor import Monitor, Sample, Seen
from gnomon.doctor.monitors.panel import Panel
from gnomon.doctor.monitors.replay import replay
from gnomon.doctor.monitors.watch import TrainingMonitor, watch

__all__ = [
    "Bundle",
    "Monitor",
    "Panel",
    "Sample",
    "Seen",
    "TrainingMonitor",
    "is_bundle",
    "read_bundle",
    "replay",
    "watch",
]
