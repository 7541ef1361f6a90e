"""The walks, by symptom: which questions, in which order."""

from __future__ import annotations

from collections.abc import Mapping

from gnomon.doctor.walks.speed import SLOW
from gnomon.doctor.walks.walk import Station

_WEIGHTS = Station(
    "Do the weights look like those of one training?",
    ("empty-weights", "untrained-weights", "rescaled-weights", "query-key-exchanged"),
    if_wrong="a part was not loaded, or loaded exchanged or in other units: mend the conversion",
)

WALKS: Mapping[str, tuple[Station, ...]] = {
    "nan": (
        Station(
            "Where does the first NaN or infinity arise, and how large are the scores there?",
            ("non-finite",),
            if_wrong="look at the scores, the scale and the mask of that place",
            if_fine="this pass is finite: look for what leaves the range under other numbers",
        ),
        Station(
            "Are the scores before softmax as large as they should be: is the scale there?",
            ("score-scale", "fp16-scores", "saturated-softmax"),
            if_wrong="the scores are too large: put the scale 1/√d_k in, then measure again",
            if_fine="the scale is right: look at what the heads attend to",
        ),
        Station(
            "Do heads attend where they should, or at padding alone?",
            ("attends-padding", "entropy-collapse", "padding-leak"),
            if_wrong="a mask does not reach these heads: see which",
            if_fine="attention is spread over real tokens: look at the mask itself",
        ),
        Station(
            "Is the mask on every head and layer, with a constant that the format holds?",
            ("mask-heads", "mask-constant", "empty-row", "cross-padding"),
            if_wrong="mend the mask: boolean, every head, torch.finfo(dtype).min",
            if_fine="masks are sound: look at the rest of the layer",
        ),
        Station(
            "Do activations and norms stay inside the range?",
            ("fp16-residual", "fp16-norm", "fp16-range", "norm-eps"),
            if_wrong="keep these parts in fp32, or use bf16",
        ),
        Station(
            "Do the steps fit: learning rate, warm-up, clipping, loss scale, eps?",
            ("gradient-ratio", "warmup", "post-norm-warmup", "clipping", "loss-scale", "adam-eps"),
            if_wrong="the optimizer takes the weights there: mend the schedule",
        ),
    ),
    "stuck": (
        Station(
            "Does the loss begin at that of guessing?",
            ("initial-loss", "logits-spread"),
            if_wrong="the output is drawn wrong, or labels are: mend this before anything else",
            if_fine="the beginning is sound: can it learn anything at all?",
        ),
        Station(
            "Can it learn one batch by heart?",
            ("overfit-batch",),
            if_wrong="something cuts the way from loss to weights: see which parameters move",
            if_fine="it can learn: look at how the real training differs",
        ),
        Station(
            "Does every parameter get its gradient and its step?",
            ("parameter-missing", "parameter-frozen", "parameter-unused", "parameter-twice",
             "bf16-update", "gradient-ratio"),
            if_wrong="these weights do not move as they should",
        ),
        Station(
            "Does decay leave norms and biases alone?",
            ("decay-on-norms",),
            if_wrong="decay pulls gains to 0: make two groups by rule",
        ),
        Station(
            "Is there a warm-up where it is needed, and does the schedule go by steps?",
            ("warmup", "post-norm-warmup", "schedule-speed", "clipping"),
            if_wrong="without it Adam's first steps overshoot and attention collapses",
        ),
        Station(
            "Has attention collapsed, or is its scale missing?",
            ("score-scale", "saturated-softmax", "entropy-collapse", "softmax-axis"),
            if_wrong="hardly any gradient passes softmax",
        ),
        Station(
            "Do signal and gradient come through all layers?",
            ("residual", "gradient-depth", "dead-ffn", "norm-axis", "embedding-scale"),
            if_wrong="a layer holds them up",
        ),
        Station(
            "Is what is asked for to be learned: labels, source, corpus?",
            ("label-shift", "padding-in-loss", "source-ignored", "misalignment", "dirty-corpus"),
            if_wrong="the data asks for the impossible",
        ),
    ),
    "too-good": (
        Station(
            "Does a position see what it has to predict?",
            ("future-leak", "look-ahead-off-by-one"),
            if_wrong="it copies the answer: mend the look-ahead mask",
            if_fine="nothing leaks: look at the labels",
            last=True,
        ),
        Station(
            "Are the labels the next tokens?",
            ("label-shift", "initial-loss"),
            if_wrong="it is asked for its own input",
            if_fine="labels are right: look at what is counted",
        ),
        Station(
            "Is padding counted in the loss?",
            ("padding-in-loss", "padding-in-smoothing"),
            if_wrong="easy padding makes the mean small",
        ),
        Station(
            "Do texts of one batch or one row see each other?",
            ("batch-leak", "packed-documents", "causal-encoder"),
            if_wrong="the answer comes from a neighbour",
        ),
        Station(
            "Does it write freely what it predicts with the right prefix?",
            ("free-running",),
            if_wrong="training and decoding are not the same task",
        ),
        Station(
            "Are the test lines among the training lines?",
            ("split-overlap",),
            if_wrong="what is measured was learned by heart",
        ),
    ),
    "gibberish": (
        Station(
            "Does training see what it must predict, so that writing alone was never learned?",
            ("future-leak", "look-ahead-off-by-one", "label-shift"),
            if_wrong="it never learned to go on by itself",
            if_fine="training is sound: does decoding do the same?",
            last=True,
        ),
        Station(
            "Does decoding with the cache give what the full pass gives?",
            ("cache-differs", "cached-mask-alignment", "cache-leak", "beam-reorder"),
            if_wrong="mend the cache: the model itself is not at fault",
            if_fine="decoding is sound: is what is loaded what was trained?",
        ),
        Station(
            "Is what was loaded what was trained: weights, ties, vocabulary?",
            ("reload", "broken-tie", "key-prefix", "vocabulary-mismatch", "conformance"),
            if_wrong="the file is at fault",
        ),
        _WEIGHTS,
        Station(
            "Does it end, and does padding stay out of it?",
            ("pad-is-eos", "padding-leak", "left-padded-generation", "batch-differs"),
            if_wrong="padding or the end token leads it astray",
        ),
        Station(
            "Does the output depend on the source, and do positions reach it?",
            ("source-ignored", "cross-padding", "positions-missing", "positions-shifted"),
            if_wrong="it does not see what it should translate or where",
        ),
        Station(
            "Was it trained on the text that it is given now?",
            ("foreign-ids", "tokenisation-mismatch", "misalignment", "dirty-corpus"),
            if_wrong="the corpus or its tokens are at fault",
        ),
    ),
    "long-input": (
        Station(
            "Do positions reach so far?",
            ("position-range", "trained-length"),
            if_wrong="past it positions overflow or were never trained: interpolate, use RoPE with "
            "NTK-aware scaling, or cut",
            if_fine="positions reach: look at their precision",
        ),
        Station(
            "Do positions keep their precision and order?",
            ("rope-precision", "bf16-positions", "rope-pairing", "positions-shifted"),
            if_wrong="compute phases in fp32",
        ),
        Station(
            "Does the cache keep the whole text?",
            ("cache-differs", "cached-mask-alignment"),
            if_wrong="it is cut or shifted past some length",
        ),
        Station(
            "Do scores stay in range as keys become more?",
            ("score-scale", "fp16-scores"),
            if_wrong="softmax over more keys needs the right scale",
        ),
    ),
    "padding": (
        Station(
            "Does padding at the right move real positions?",
            ("padding-leak", "attends-padding"),
            if_wrong="attention, a norm or a pooling reads padding",
            if_fine="not at the right: and at the left?",
        ),
        Station(
            "Does padding at the left?",
            ("left-padding", "padding-shifts-positions", "left-padded-generation"),
            if_wrong="positions are counted over padding: pass position ids, or pad at the right",
        ),
        Station(
            "Is the mask the right way round, on every head, and in cross-attention?",
            ("mask-polarity", "mask-heads", "cross-padding", "empty-row"),
            if_wrong="mend the mask there",
        ),
        Station(
            "Do rows of a batch see each other?",
            ("batch-leak", "norm-axis", "packed-documents"),
            if_wrong="something mixes rows (BatchNorm, a wrong reshape)",
        ),
        Station(
            "Is it decoding alone, or noise?",
            ("batch-differs", "noise-in-eval"),
            if_wrong="the model is sound; decoding or dropout is not",
        ),
    ),
    "slow": SLOW,
    "deployed": (
        Station(
            "Is what was loaded what was saved?",
            ("reload", "broken-tie", "key-prefix"),
            if_wrong="mend how it is loaded",
            if_fine="weights are the same: and the code?",
            last=True,
        ),
        Station(
            "Does the model compute what its architecture says?",
            ("conformance",),
            if_wrong="the first module that differs is named",
        ),
        _WEIGHTS,
        Station(
            "Are tokenizer and vocabulary those of training?",
            ("foreign-ids", "vocabulary-mismatch", "tokenisation-mismatch", "vocabulary-range"),
            if_wrong="keep the files of one model together",
        ),
        Station(
            "Is dropout or other noise alive?",
            ("noise-in-eval",),
            if_wrong="call eval() before serving",
        ),
        Station(
            "Does the served precision hold the model?",
            ("fp16-scores", "mask-constant", "fp16-residual", "fp16-norm", "bf16-positions"),
            if_wrong="serve in bf16, or these parts in fp32",
        ),
        Station(
            "Do cache, batches and padding change the output?",
            ("cache-differs", "cache-leak", "batch-differs", "left-padded-generation"),
            if_wrong="the decoder around the model is at fault",
        ),
    ),
}  # fmt: skip
