"""Hosts that no check may be developed on: look at them only to judge."""

from benchmarks.faults.hosts.held_out import (
    functional,
    huggingface,
    per_head,
    relative,
    time_first,
)

HOSTS = (
    per_head.HOST,
    time_first.HOST,
    functional.HOST,
    relative.HOST,
    *huggingface.HOSTS,
)
