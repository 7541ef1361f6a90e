"""Tensors of [B, T, D] are read as [T, B, D]: attention runs over the rows of the batch."""

from __future__ import annotations

import torch.nn.functional as F
from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention, own_role
from torch import Tensor, nn

ITEM = "masks: batch rows leaking into each other"
EXPECTED = {"batch-leak"}
HOSTS = on(families={"encoder", "decoder"}, without={"cache", "one-head-modules"})
NOT_ON = "hosts that could not decode a single row afterwards; encoder-decoders fare the same"


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        query, key, value = (x.transpose(0, 2) for x in (call.query, call.key, call.value))
        weights = (query @ key.transpose(-2, -1) * call.scale).softmax(-1)
        return (F.dropout(weights, call.dropout) @ value).transpose(0, 2)

    attention(module, host, change, own_role(host))
