"""Train a new Marian with `Seq2SeqTrainer`: `python huggingface_train.py options.json`.

Runs in an environment with transformers; see `huggingface.py`.
"""

import json
import sys
from pathlib import Path

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    MarianConfig,
    MarianMTModel,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    TrainerCallback,
)

PAD, EOS = 0, 3
NO_LABEL = -100


def main() -> None:
    options = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    model = MarianMTModel(
        MarianConfig(
            pad_token_id=PAD,
            eos_token_id=EOS,
            decoder_start_token_id=PAD,
            max_position_embeddings=512,
            **options["model"],
        )
    )
    progress = Progress(options["report_every"])
    model.register_forward_pre_hook(progress.count, with_kwargs=True)
    Seq2SeqTrainer(
        model=model,
        args=Seq2SeqTrainingArguments(output_dir=options["output"], **options["training"]),
        train_dataset=read_pairs(options["source"], options["target"]),
        data_collator=Collator(model),
        callbacks=[progress],
    ).train()


def read_pairs(source: str, target: str) -> list[dict[str, list[int]]]:
    """Ids of each pair, an end symbol behind both sides."""
    sides = [Path(name).read_text(encoding="utf-8").splitlines() for name in (source, target)]
    ids = [[[*map(int, line.split()), EOS] for line in lines] for lines in sides]
    return [{"input_ids": s, "labels": t} for s, t in zip(*ids, strict=True)]


class Collator:
    """Pads to the longest of the batch; shifts the labels to get the decoder's input."""

    def __init__(self, model: MarianMTModel) -> None:
        self.model = model

    def __call__(self, rows: list[dict[str, list[int]]]) -> dict[str, torch.Tensor]:
        source = padded([row["input_ids"] for row in rows], PAD)
        labels = padded([row["labels"] for row in rows], NO_LABEL)
        return {
            "input_ids": source,
            "attention_mask": (source != PAD).long(),
            "labels": labels,
            "decoder_input_ids": self.model.prepare_decoder_input_ids_from_labels(labels=labels),
        }


def padded(rows: list[list[int]], value: int) -> torch.Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], True, value)


class Progress(TrainerCallback):
    """Prints the target tokens since its last line; the end of a sentence counts, padding not."""

    def __init__(self, every: int) -> None:
        self.every = every
        self.tokens = 0

    def count(self, model, arguments, given) -> None:
        # The labels are gone here: they are what the decoder reads without starts and padding,
        # and an end for each row.
        rows = given["decoder_input_ids"]
        self.tokens += int(((rows != PAD) & (rows != EOS)).sum()) + len(rows)

    def on_step_end(self, arguments, state, control, **others) -> None:
        if state.global_step % self.every == 0:
            print(f"update {state.global_step}: {self.tokens} target tokens", flush=True)
            self.tokens = 0


if __name__ == "__main__":
    main()
