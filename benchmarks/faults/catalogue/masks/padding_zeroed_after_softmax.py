"""Weights at padding are multiplied by 0 after the softmax and not renormalised."""

from __future__ import annotations

import torch.nn.functional as F
from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention, scores
from torch import Tensor, nn

ITEM = "masks: padding leak on the right"
EXPECTED = {"padding-leak"}
HOSTS = on("padding", families={"encoder", "encoder_decoder"})
NOT_ON = "decoders, where the look-ahead mask hides padding on the right"


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        weights = scores(call).softmax(-1) * call.keep
        return F.dropout(weights, call.dropout) @ call.value

    attention(module, host, change, "encoder")
