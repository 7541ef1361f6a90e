"""One model for two directions, told apart by tags, through the command line."""

import json
import warnings

import pytest

from command_line import run_command
from gnomon.tasks.tags import TagWarning

RECIPE = """
name = "two"
[tokenizer]
vocab_size = 290
[model]
d_model = 32
num_encoder_layers = 1
num_decoder_layers = 1
attention.num_heads = 2
feedforward.size = 64
[training]
tokens_per_batch = 600
max_steps = 2
validate_every = 1
checkpoint_every = 1
precision = "fp32"
[[data.sources]]
pairs = "back.jsonl"
source_field = "text.in"
target_field = "text.out"
tags = ["<back>"]
[[data.sources]]
source = "in.gz"
target = "same"
tags = ["<same>"]
weight = 2.0
[[data.valid]]
pairs = "valid.tsv"
tags = ["<back>"]
[[data.valid]]
pairs = "valid-same.tsv"
tags = ["<same>"]
"""


def gnomon(*arguments, cwd, text=None):
    done = run_command(*arguments, cwd=cwd, text=text or b"")
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    import gzip
    import random

    place = tmp_path_factory.mktemp("two")
    rng = random.Random(0)
    rows = ["".join(rng.choices("0123456789", k=rng.randint(1, 8))) for _ in range(200)]
    back = ({"text": {"in": row, "out": row[::-1]}} for row in rows[:100])
    (place / "back.jsonl").write_text("".join(json.dumps(row) + "\n" for row in back))
    same = "".join(row + "\n" for row in rows[100:]).encode()
    (place / "in.gz").write_bytes(gzip.compress(same))
    (place / "same").write_bytes(same)
    (place / "valid.tsv").write_text("4711\t1174\n99\t99\n")
    (place / "valid-same.tsv").write_text("4712\t4712\n")
    (place / "two.toml").write_text(RECIPE)
    code, _, errors = gnomon("train", "two.toml", cwd=place)
    assert code == 0, errors
    assert "back.jsonl; " in errors
    return place


def test_both_directions_translate(folder):
    for tag in ("<back>", "<same>"):
        code, output, errors = gnomon(
            "translate", "runs/two", "--tag", tag, cwd=folder, text=b"123\n\n45\n"
        )
        assert code == 0, errors
        assert output.count("\n") == 3
        assert "was not trained on" not in errors


def test_a_tag_changes_the_output(folder):
    import gnomon as package

    translator = package.load(folder / "runs" / "two")
    assert translator.tokenizers.source.tags == ("<back>", "<same>")
    texts = ["123", "", "4567"]
    back = translator.translate(texts, tags=["<back>"])
    same = translator.translate(texts, tags=["<same>"])
    assert back[0].score != same[0].score
    assert back[2].score != same[2].score
    mixed = translator.translate(texts, tags=[["<same>"], ["<back>"], ["<back>"]])
    assert [mixed[0], mixed[2]] == [same[0], back[2]]
    plain = translator.tokenizers.source.encode(["<back>123"])
    assert translator.tokenizers.source.tag_ids(["<back>"])[0] not in plain[0]


def test_no_tag_and_unseen_combinations_are_a_warning(folder):
    import gnomon as package

    translator = package.load(folder / "runs" / "two")
    for tags in ((), ("<same>", "<back>")):
        with pytest.warns(TagWarning, match="sources with: <back>; <same>"):
            translator.translate(["1"], tags=tags)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        translator.translate(["1"], tags=["<same>"])
    code, output, errors = gnomon("translate", "runs/two", cwd=folder, text=b"12\n")
    assert (code, output.count("\n")) == (0, 1)
    assert "was not trained on sources with no tag" in errors


def test_unknown_tags_name_the_known_ones(folder):
    code, output, errors = gnomon(
        "translate", "runs/two", "--tag", "<2fr>", cwd=folder, text=b"12\n"
    )
    assert (code, output) == (2, "")
    assert "<2fr>" in errors
    assert "<back>, <same>" in errors


def test_a_direction_is_judged_by_itself(folder):
    counts = {}
    for tag in ("<back>", "<same>", None):
        options = ["--tag", tag] if tag else []
        code, output, errors = gnomon("evaluate", "runs/two", "--json", *options, cwd=folder)
        assert code == 0, errors
        counts[tag] = len(json.loads(output)["lines"])
    assert counts == {"<back>": 2, "<same>": 1, None: 3}
    code, _, errors = gnomon("evaluate", "runs/two", "--tag", "<x>", cwd=folder)
    assert code == 2
    assert "tags there: <back>; <same>" in errors


def test_given_files_get_the_tags(folder):
    arguments = ["evaluate", "runs/two", "--data", "valid.tsv", "--json"]
    scores = {}
    for tag in ("<back>", "<same>"):
        code, output, errors = gnomon(*arguments, "--tag", tag, cwd=folder)
        assert code == 0, errors
        scores[tag] = [
            s["value"] for s in json.loads(output)["scores"] if "perplexity" in s["name"]
        ]
    assert scores["<back>"]
    assert scores["<back>"] != scores["<same>"]


def test_packed_text_is_translated_from_files_and_standard_input(folder):
    import gzip

    code, plain, _ = gnomon("translate", "runs/two", "--tag", "<same>", cwd=folder, text=b"12\n3\n")
    packed = gzip.compress(b"12\n3\n")
    _, piped, errors = gnomon("translate", "runs/two", "--tag", "<same>", cwd=folder, text=packed)
    assert (code, piped) == (0, plain), errors
    (folder / "packed").write_bytes(packed)
    _, read, _ = gnomon("translate", "runs/two", "--tag", "<same>", "-i", "packed", cwd=folder)
    assert read == plain
    code, output, errors = gnomon(
        "translate", "runs/two", "--tag", "<same>", cwd=folder, text=packed[:-4]
    )
    assert code == 2
    assert "gzip data must be whole" in errors
    assert plain.startswith(output)


def test_every_verb_that_reads_sources_takes_tags(folder):
    (folder / "given.jsonl").write_text('{"text": {"in": "123", "out": "321"}}\n')
    fields = ("--source-field", "text.in", "--target-field", "text.out")
    given = ("runs/two", "--data", "given.jsonl", *fields)
    for verb in (("score",), ("align", "--soft")):
        outputs = set()
        for tag in ("<back>", "<same>"):
            code, output, errors = gnomon(*verb, *given, "--tag", tag, cwd=folder)
            assert code == 0, errors
            assert "was not trained on" not in errors
            outputs.add(output)
        code, output, errors = gnomon(*verb, *given, cwd=folder)
        assert code == 0, errors
        assert "was not trained on sources with no tag" in errors
        assert len(outputs | {output}) == 3
        code, _, errors = gnomon(*verb, *given, "--tag", "<2fr>", cwd=folder)
        assert code == 2
        assert "tags of this model: <back>, <same>" in errors
        assert "warning" not in errors


def test_attention_on_tags_is_elsewhere(folder):
    _, output, _ = gnomon(
        *("align", "runs/two", "--data", "valid.tsv", "--soft", "--tag", "<back>"), cwd=folder
    )
    found = json.loads(output.splitlines()[0])
    assert found["source"] == ["4711"]
    assert len(found["weights"][0]) == 1
    assert found["weights"][0][0] + found["elsewhere"][0] == pytest.approx(1, abs=2e-4)


def test_back_translation_by_a_model_with_tags(folder):
    (folder / "mono").write_text("123\n4567\n89\n")
    arguments = ("backtranslate", "runs/two", "--mono", "mono", "--max-ratio", "1000")
    tagged = ("--tag", "<same>", "--synthetic-tag", "<back>", "--synthetic-tag", "<bt>")
    code, output, errors = gnomon(*arguments, "-o", "bt.tsv", *tagged, cwd=folder)
    assert code == 0, errors
    assert "was not trained on" not in errors
    # so small a model never ends a text: all are left out, and nothing is there to be added
    assert output == "" and "no pair to add to a recipe" in errors
    code, output, errors = gnomon(*arguments, "-o", "bt2.tsv", "--synthetic-tag", "", cwd=folder)
    assert "was not trained on sources with no tag" in errors


def test_fields_of_a_runs_own_text_and_of_others(folder):
    (folder / "own.jsonl").write_text('{"source": "12", "target": "21"}\n')
    code, _, errors = gnomon(
        *("evaluate", "runs/two", "--data", "own.jsonl", "--tag", "<back>"),
        *("--source-field", "nope"),
        cwd=folder,
    )
    assert code == 2
    assert "--source-field" in errors
    code, _, errors = gnomon("evaluate", "runs/two", "--source-field", "x", cwd=folder)
    assert code == 2
    assert "fields are named for a file of pairs" in errors
    code, _, errors = gnomon("evaluate", "runs/two", "--tag", "<back>", cwd=folder)
    assert code == 0, errors
    assert "text: 2 lines of the run's validation text (valid.tsv, valid-same.tsv)" in errors
    code, _, errors = gnomon(
        *("evaluate", "runs/two", "--data", "own.jsonl", "--tag", "<back>"), cwd=folder
    )
    assert code == 0, errors
    assert "text: 1 lines of own.jsonl" in errors


def test_findings_of_several_sources_name_the_source(folder):
    code, _, errors = gnomon(
        *("prepare", "two.toml", "--dry-run", "--report", "found.tsv"), cwd=folder
    )
    assert code == 0, errors
    assert "every line that was found: found.tsv" in errors
    rows = [line.split("\t") for line in (folder / "found.tsv").read_text().splitlines()[1:]]
    spots = [row[0] for row in rows if row[1] == "identical_sides"]
    assert "in.gz:1" in spots  # line 101 of the corpus
    assert "in.gz:100" in spots
    assert f"{spots[0]}: " in errors
