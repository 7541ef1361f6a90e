"""The examples of the reference page run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "probe.md"


def test_the_page_s_examples_run(capsys) -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert len(examples) == 2
    names: dict[str, object] = {}
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), names)
    printed = capsys.readouterr().out
    assert "decoder.layers.0.multihead_attn mha True 0.353" in printed
    assert "True" in printed and "_transformer_encoder_layer_fwd" in printed
