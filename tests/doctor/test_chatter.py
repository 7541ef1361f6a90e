"""What transformers says during an examination stays out; what it says afterwards is heard."""

from __future__ import annotations

import pytest
import torch

import gnomon

transformers = pytest.importorskip("transformers")


def test_an_examination_is_quiet_and_leaves_logging_as_it_was(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    logging = transformers.utils.logging
    monkeypatch.setattr(logging._get_library_root_logger(), "propagate", True)
    logging.Logger = logging.logging.Logger
    logging.logging.Logger.warning_once.cache_clear()
    config = transformers.GPT2Config(
        vocab_size=50, n_embd=16, n_layer=1, n_head=2, n_positions=16, bos_token_id=1,
        eos_token_id=2, loss_type=None,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config)
    ids = torch.randint(3, 50, (2, 8))
    level = logging.get_verbosity()
    caplog.clear()
    gnomon.diagnose(model, {"input_ids": ids, "labels": ids}, only=["initial-loss", "label-shift"])
    assert not [each for each in caplog.records if each.name.startswith("transformers")]
    assert logging.get_verbosity() == level
    model(input_ids=ids, labels=ids)
    assert any("loss_type=None" in each.getMessage() for each in caplog.records)
