"""The walks, by symptom: which questions, in which order."""

from __future__ import annotations

from collections.abc import Mapping

from gnomon.doctor.walks.speed import SLOW
from gnomon.doctor.walks.walk import Station

_WEIGHTS = Station(
    "Do the weights look like those of one training?",
    ("empty-weights", "untrained-weights", "rescaled-weights", "query-key-exchanged"),
    if_wrong="see whether this part was loaded: mend the conversion",
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
            if_wrong="put the scale 1/√d_k in where it is missing, then measure again",
            if_fine="the scale is right: look at what the heads attend to",
        ),
        Station(
            "Do heads attend where they should, or at padding alone?",
            ("attends-padding", "entropy-collapse", "padding-leak"),
            if_wrong="see which heads, and whether a mask reaches them",
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
            if_wrong="mend the optimizer's settings, then look at the weights again",
        ),
    ),
    "stuck": (
        Station(
            "Does the loss begin at that of guessing?",
            ("initial-loss", "logits-spread"),
            if_wrong="mend this before anything else: the output's weights, or the labels",
            if_fine="the beginning is sound: can it learn anything at all?",
        ),
        Station(
            "Can it learn one batch by heart?",
            ("overfit-batch",),
            if_wrong="look for what cuts the way from loss to weights: see which parameters move",
            if_fine="it can learn: look at how the real training differs",
        ),
        Station(
            "Does every parameter get its gradient and its step?",
            ("parameter-missing", "parameter-frozen", "parameter-unused", "parameter-twice",
             "bf16-update", "gradient-ratio"),
            if_wrong="see why these weights do not move as the others do",
        ),
        Station(
            "Does decay leave norms and biases alone?",
            ("decay-on-norms",),
            if_wrong="make two groups by rule: decay for matrices alone",
        ),
        Station(
            "Is there a warm-up where it is needed, and does the schedule go by steps?",
            ("warmup", "post-norm-warmup", "schedule-speed", "clipping"),
            if_wrong="mend the schedule, and watch the first steps",
        ),
        Station(
            "Has attention collapsed, or is its scale missing?",
            ("score-scale", "saturated-softmax", "entropy-collapse", "softmax-axis"),
            if_wrong="mend scale or size of the scores, then look at the loss again",
        ),
        Station(
            "Do signal and gradient come through all layers?",
            ("residual", "gradient-depth", "dead-ffn", "norm-axis", "embedding-scale"),
            if_wrong="look at these layers first",
        ),
        Station(
            "Is what is asked for to be learned: labels, source, corpus?",
            ("label-shift", "padding-in-loss", "source-ignored", "misalignment", "dirty-corpus"),
            if_wrong="mend labels or corpus",
        ),
    ),
    "too-good": (
        Station(
            "Does a position see what it has to predict?",
            ("future-leak", "look-ahead-off-by-one"),
            if_wrong="it can read the answer: mend the look-ahead mask",
            if_fine="nothing leaks: look at the labels",
            last=True,
        ),
        Station(
            "Are the labels the next tokens?",
            ("label-shift", "initial-loss"),
            if_wrong="mend the labels, or how the output begins",
            if_fine="labels are right: look at what is counted",
        ),
        Station(
            "Is padding counted in the loss?",
            ("padding-in-loss", "padding-in-smoothing"),
            if_wrong="leave padding out of the loss",
        ),
        Station(
            "Do texts of one batch or one row see each other?",
            ("batch-leak", "packed-documents", "causal-encoder"),
            if_wrong="keep texts apart",
        ),
        Station(
            "Does it write freely what it predicts with the right prefix?",
            ("free-running",),
            if_wrong="compare what training and decoding hand to the model",
        ),
        Station(
            "Are the test lines among the training lines?",
            ("split-overlap",),
            if_wrong="take these lines out of training",
        ),
    ),
    "gibberish": (
        Station(
            "Does training see what it must predict, so that writing alone was never learned?",
            ("future-leak", "look-ahead-off-by-one", "label-shift"),
            if_wrong="mend training first: what it reads there is not there in use",
            if_fine="training is sound: does decoding do the same?",
            last=True,
        ),
        Station(
            "Does decoding with the cache give what the full pass gives?",
            ("cache-differs", "cached-mask-alignment", "cache-leak", "beam-reorder"),
            if_wrong="mend the cache first",
            if_fine="decoding is sound: is what is loaded what was trained?",
        ),
        Station(
            "Is what was loaded what was trained: weights, ties, vocabulary?",
            ("reload", "broken-tie", "key-prefix", "vocabulary-mismatch", "conformance"),
            if_wrong="mend how it is saved or loaded",
        ),
        _WEIGHTS,
        Station(
            "Does it end, and does padding stay out of it?",
            ("pad-is-eos", "padding-leak", "left-padded-generation", "batch-differs"),
            if_wrong="mend padding and the end token",
        ),
        Station(
            "Does the output depend on the source, and do positions reach it?",
            ("source-ignored", "cross-padding", "positions-missing", "positions-shifted"),
            if_wrong="mend what it reads, and where",
        ),
        Station(
            "Was it trained on the text that it is given now?",
            ("foreign-ids", "tokenisation-mismatch", "misalignment", "dirty-corpus"),
            if_wrong="mend the corpus or its tokens",
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
            if_wrong="mend the cache past that length",
        ),
        Station(
            "Do scores stay in range as keys become more?",
            ("score-scale", "fp16-scores"),
            if_wrong="set the scale: more keys need it the more",
        ),
    ),
    "padding": (
        Station(
            "Does padding at the right move real positions?",
            ("padding-leak", "attends-padding"),
            if_wrong="find what reads padding: attention, a norm or a pooling",
            if_fine="not at the right: and at the left?",
        ),
        Station(
            "Does padding at the left?",
            ("left-padding", "padding-shifts-positions", "left-padded-generation"),
            if_wrong="pass a mask and position ids, or pad at the right",
        ),
        Station(
            "Is the mask the right way round, on every head, and in cross-attention?",
            ("mask-polarity", "mask-heads", "cross-padding", "empty-row"),
            if_wrong="mend the mask there",
        ),
        Station(
            "Do rows of a batch see each other?",
            ("batch-leak", "norm-axis", "packed-documents"),
            if_wrong="find what mixes rows (BatchNorm, a reshape)",
        ),
        Station(
            "Is it decoding alone, or noise?",
            ("batch-differs", "noise-in-eval"),
            if_wrong="mend decoding, or what draws",
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
            if_wrong="mend the decoder around the model",
        ),
    ),
}  # fmt: skip
