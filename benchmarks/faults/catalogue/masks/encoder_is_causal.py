"""The encoder was built with the decoder's look-ahead mask."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.seams import attention, look_ahead
from torch import Tensor, nn

ITEM = "masks: causal mask in an encoder"
EXPECTED = {"causal-encoder"}
HOSTS = on(families={"encoder", "encoder_decoder"})
NOT_ON = "decoders"


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        return attend(call.but(keep=call.keep & look_ahead(call)))

    attention(module, host, change, "encoder")
