"""Padding is "hidden" by adding -5 to its scores."""

from __future__ import annotations

import torch.nn.functional as F
from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention, scores
from torch import Tensor, nn

ITEM = "masks: padding leak; heads attending to padding"
EXPECTED = {"padding-leak", "attends-padding"}
HOSTS = on("padding", families={"encoder", "encoder_decoder"})
NOT_ON = "decoders, where the look-ahead mask hides padding on the right"
WEIGHTS = "trained"


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        found = scores(call) + (1.0 - call.keep.float()) * -5.0
        return F.dropout(found.softmax(-1), call.dropout) @ call.value

    attention(module, host, change, "encoder")
