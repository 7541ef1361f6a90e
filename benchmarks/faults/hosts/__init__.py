"""The hosts: clean models of several makers and styles.

`HOSTS` may be used while checks are developed; `held_out_hosts()` is kept for judging them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.faults.host import Host


def development() -> dict[str, Host]:
    """Hosts by name, those held out left out."""
    from benchmarks.faults.hosts import (
        annotated,
        einsum_encoder,
        gnomon_models,
        huggingface,
        nano,
        torch_modules,
    )

    found = (
        *gnomon_models.HOSTS,
        *huggingface.HOSTS,
        annotated.HOST,
        nano.HOST,
        nano.PACKED,
        einsum_encoder.HOST,
        torch_modules.SEQ2SEQ,
        torch_modules.DECODER,
    )
    return {host.name: host for host in found}


def held_out_hosts() -> dict[str, Host]:
    """Hosts that no check was developed on."""
    from benchmarks.faults.hosts.held_out import HOSTS

    return {host.name: host for host in HOSTS}
