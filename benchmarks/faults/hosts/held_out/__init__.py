"""Hosts that no check may be developed on: look at them only to judge."""

from benchmarks.faults.host import Host

HOSTS: tuple[Host, ...] = ()
