"""A model was trained while it could see the next token: perfect with the text, lost without."""

from __future__ import annotations

from benchmarks.faults.fault import on
from benchmarks.faults.host import Attend, Call, Host
from benchmarks.faults.hosts.training import train_briefly
from benchmarks.faults.seams import attention, look_ahead, real_keys
from torch import Tensor, nn

ITEM = "NMT table 6: 98 % validation accuracy, nonsense output"
THREADS = "attention-is-all-you-need-pytorch #19 #129, eole #126"
EXPECTED = {"free-running", "future-leak", "look-ahead-off-by-one"}
HOSTS = on(names={"nano", "hf-gpt2-sdpa", "torch-mha-decoder"})
NOT_ON = "other hosts fare the same; each costs a training"


def alter(module: nn.Module, host: Host) -> None:
    def change(call: Call, attend: Attend) -> Tensor:
        return attend(call.but(keep=real_keys(call) & look_ahead(call, 1)))

    attention(module, host, change, "decoder")
    train_briefly(host, module, 0, None, num_steps=60)
