"""Translating texts with a trained model: what `gnomon.load` gives for a translation model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from gnomon.decoding import (
    Combination,
    Constraints,
    EncoderDecoderScorer,
    EnsembleScorer,
    Hypothesis,
    SearchConfig,
    TokenScorer,
    beam_search,
    greedy_search,
    sample,
)
from gnomon.errors import RecipeError
from gnomon.model import Transformer
from gnomon.tasks.alignment import Alignment, align_pairs
from gnomon.tasks.constraints import ConstraintCompiler, Wishes
from gnomon.tasks.ids import ForcedFirst, SequenceIds
from gnomon.tasks.long_text import Plan, Split
from gnomon.tasks.progress import Progress, silent
from gnomon.tasks.rows import batches, longest_first, padded
from gnomon.tasks.scoring import PairScore, score_pairs
from gnomon.tasks.tags import Tags, tags_of_each, warn_of_unseen
from gnomon.tasks.terminology import Terminology
from gnomon.text import Familiarity, Tokenizer, TokenizerPair, Unit, mend_controls


@dataclass(frozen=True, slots=True)
class Translation:
    """One translated text.

    Attributes:
        text: the translation, on one line. Blank input gives "".
        score: what the search ranks by, log_prob / penalty(length) (see `SearchConfig`).
        log_prob: natural logarithm of the output's probability, EOS included.
        num_tokens: length of the output in tokens, EOS included.
        truncated: the length limit came before the model ended the sentence.
        far: the input is far from what the model was trained on, so do not trust the output;
            None if the model folder has no profile of its training text.
        num_parts: into how many parts a long text was split. Its score, log_prob and num_tokens are
            then sums over the parts, and it is truncated if any part is.
        num_divided: how many of these are pieces of sentences that were too long themselves.
        num_cut: tokens at the input's end that were not read, as the model learned from the
            beginnings of long texts (`data.on_too_long = "cut"`).
        alternatives: further outputs by falling score, if `nbest` asked for them; with sampling,
            further samples.
    """

    text: str
    score: float
    log_prob: float
    num_tokens: int
    truncated: bool
    far: bool | None = None
    alternatives: tuple[Translation, ...] = ()
    num_parts: int = 1
    num_divided: int = 0
    num_cut: int = 0


class Translator:
    """A trained encoder-decoder with its tokenizer and search settings.

    The output for a text does not depend on the other texts given with it.

    Args:
        longest_source: tokens of the longest source it was trained on, EOS included, if known;
            longer texts are translated sentence by sentence.
        longest_target: the same of the targets; that scores and links are of longer ones is told.
        members: further models with the same vocabulary that decode together with `model`.
        combination: what the models' distributions are combined to (see `decoding.combined`).
        ids: what stands around sources and translations.
        cuts_sources: it was trained with `data.on_too_long = "cut"`: of texts that are longer than
            any it was trained on the beginning is read, and how much is left out is told.
    """

    def __init__(
        self,
        model: Transformer,
        tokenizers: TokenizerPair,
        search: SearchConfig,
        *,
        familiarity: Familiarity | None = None,
        longest_source: int | None = None,
        longest_target: int | None = None,
        members: Sequence[Transformer] = (),
        combination: Combination = "mean",
        tag_sets: Sequence[tuple[str, ...]] = ((),),
        ids: SequenceIds | None = None,
        cuts_sources: bool = False,
    ) -> None:
        self.model = model
        self.cuts_sources = cuts_sources
        self.ids = SequenceIds() if ids is None else ids
        self.models = (model, *members)
        self.combination: Combination = combination
        self.tokenizers = tokenizers
        self.search = search
        self.familiarity = familiarity
        self.longest_source = longest_source
        self.longest_target = longest_target
        self._compiler: tuple[tuple[str, ...], ConstraintCompiler] | None = None
        self.tag_sets = tuple(tag_sets)  # the combinations of tags that it was trained with

    def translate(
        self,
        texts: Sequence[str],
        *,
        tags: Tags = (),
        prefixes: Sequence[str | None] | None = None,
        required: Sequence[Sequence[str]] | None = None,
        banned: Sequence[str] = (),
        terminology: Terminology | None = None,
        batch_tokens: int = 4096,
        split: Split = "auto",
        first: int = 0,
        progress: Progress = silent,
        **search: Any,
    ) -> list[Translation]:
        """Translate each text; results come in the order of `texts`, one for one.

        Args:
            texts: any texts; a line break or control character inside one is a
                blank to the model, as in the text it learned from.
            prefixes: what each translation must begin with; None or blank: nothing.
            required: phrases that each translation must contain. Beam search only.
            banned: phrases that no translation may contain.
            terminology: more required phrases, by the terms in each text.
            tags: what to put in front of every text, such as ["<2de>"]; or for each text its own
                list. Tags that the model did not see together in training are a warning.
            batch_tokens: padded source tokens decoded at once: memory and speed, not results.
            split: "auto": a text longer than any that the model was trained on, or of more
                sentences than all but one in a hundred of those, is cut into sentences (these at
                clauses, blanks or, at last, anywhere, where they are still too long), which are
                translated each by itself and joined with the white space between them; "always":
                every text; "never". With a model that reads the beginnings of long texts
                (`cuts_sources`) "auto" does that instead, see `Translation.num_cut`.
            first: how many texts came before these, where one input is given in several calls:
                samples depend on a text's place in the whole input.
            progress: is told how many more texts are done, now and then.
            **search: fields of `SearchConfig` to change, for example `beam=1` or `nbest=3`.

        Raises:
            RecipeError: a search setting is unknown, out of range or without effect.
            DataError: a tag is unknown, or a prefix or phrase cannot be had.
            ModelError: a text is longer than the model's positions reach.
        """
        if isinstance(texts, str):
            raise RecipeError("texts is a list of texts", seen="one str", mend="give [text]")
        if batch_tokens < 1:
            raise RecipeError("batch_tokens must be at least 1", seen=batch_tokens)
        texts = [mend_controls(text) for text in texts]
        config = self.search_config(search)
        wishes = Wishes(
            prefixes=prefixes, required=required, banned=banned, terminology=terminology
        )
        if problems := wishes.problems(len(texts), config):
            raise RecipeError("what is asked for must fit together", seen="; ".join(problems))
        every = self._tags_of_each(tags, len(texts))
        limit = self._longest_part(max(map(len, every), default=0))
        plan = Plan(
            texts, self.tokenizers.source, split, limit, self.familiarity, cuts=self.cuts_sources
        )
        # What a part is, in the whole input: the number of its text, and its own within it.
        places = [
            (first + i, part) for i, parts in enumerate(plan.parts) for part in range(len(parts))
        ]
        wishes = wishes.of_parts([len(parts) for parts in plan.parts], first)
        every = [own for own, parts in zip(every, plan.parts, strict=True) for _ in parts]
        done = plan.watched(progress)
        apart = self._translate(
            plan.texts, every, config, wishes, places, batch_tokens, done, cut=plan.cuts
        )
        if not plan.needed:
            return apart
        return plan.joined(apart, self._far(texts), sampled=config.sample)

    def _translate(
        self,
        texts: Sequence[str],
        tags: Sequence[tuple[str, ...]],
        config: SearchConfig,
        wishes: Wishes,
        places: Sequence[tuple[int, int]],
        batch_tokens: int,
        done: Callable[[Iterable[int]], None],
        *,
        cut: bool,
    ) -> list[Translation]:
        """Translate each text by itself; `done` is told the places of those that are."""
        whole = self.tokenizers.encode_sources(texts, tags)
        sources = self.cut(whole) if cut else whole
        blank = [not text.strip() for text in texts]
        results = [Translation("", 0.0, 0.0, 0, False) if empty else None for empty in blank]
        lengths = [len(ids) + self.ids.num_around_source for ids in sources]
        order = longest_first([i for i in range(len(texts)) if not blank[i]], lengths)
        done(place for place, empty in enumerate(blank) if empty)
        far = self._far(texts)
        limits = self._limits(lengths, config)
        constraints = self._constraints(wishes, texts, limits, [place[0] + 1 for place in places])
        were_training = [model.training for model in self.models]
        for model in self.models:
            model.eval()
        try:
            for batch in batches(order, lengths, batch_tokens):
                found = self._decode(
                    [sources[i] for i in batch],
                    config,
                    limits=[limits[i] for i in batch],
                    constraints=None if constraints is None else [constraints[i] for i in batch],
                    keys=[places[i][0] | places[i][1] << 40 for i in batch],
                )
                for i, hypotheses in zip(batch, found, strict=True):
                    found_here = self._as_translation(hypotheses, far[i])
                    results[i] = replace(found_here, num_cut=len(whole[i]) - len(sources[i]))
                done(batch)
        finally:
            for model, was_training in zip(self.models, were_training, strict=True):
                model.train(was_training)
        return [result for result in results if result is not None]

    def cut(self, sources: Sequence[list[int]]) -> list[list[int]]:
        """The ids of sources, tags in front, as far as this model learned to read them."""
        limit = self._longest_part(0)
        return [ids if limit is None else ids[: limit - 1] for ids in sources]

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        tags: Tags = (),
        batch_tokens: int = 4096,
        progress: Progress = silent,
    ) -> list[PairScore]:
        """How probable each target is as the translation of its source, one for one.

        A blank source is never given to the model: with a blank target the log-probability is 0
        over no tokens, with any other target there is none. Nothing is ever cut to fit: a pair
        that the model's positions do not reach, or that is far too long to be read at once
        (`likelihood.LONGEST_PAIR`), has no probability either, and the reason is told.

        Args:
            tags: as for `translate`.
            batch_tokens: padded tokens of both sides scored at once: memory and speed.
            progress: as for `translate`.

        Raises:
            DataError: not as many sources as targets, or an unknown tag.
        """
        every = self._tags_of_each(tags, len(sources))
        return score_pairs(self, sources, targets, batch_tokens, every, progress)

    def align(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        layer: int | None = None,
        shift: bool = False,
        source_units: Unit = "words",
        target_units: Unit = "words",
        tags: Tags = (),
        batch_tokens: int = 4096,
        progress: Progress = silent,
    ) -> list[Alignment]:
        """Which source words each target word comes from, by cross-attention, one for one.

        Of several models the first one alone is looked at. A pair that is too long for it (see
        `score`) has no links, and the reason is told.

        Args:
            layer: the decoder layer to look at, from 1; None: the last but one.
            shift: look where a target token is read (Chen et al. 2020) instead of where it is
                predicted; some models' first layer aligns well so, later ones do not.
            source_units, target_units: "words" (between white space) or "characters", for scripts
                written without spaces.
            tags: as for `translate`; attention on them counts as elsewhere.
            batch_tokens: padded tokens of both sides at once: memory and speed.
            progress: as for `translate`.

        Raises:
            DataError: not as many sources as targets, or an unknown tag.
            ModelError: the decoder has no such layer.
        """
        return align_pairs(
            self,
            sources,
            targets,
            layer=layer,
            shift=shift,
            source_units=source_units,
            target_units=target_units,
            tags=self._tags_of_each(tags, len(sources)),
            batch_tokens=batch_tokens,
            progress=progress,
        )

    def _tags_of_each(self, tags: Tags, num_texts: int) -> list[tuple[str, ...]]:
        every = tags_of_each(tags, num_texts)
        warn_of_unseen(every, self.tag_sets, self.tokenizers.source.tags)
        return every

    def search_config(self, changes: dict[str, Any]) -> SearchConfig:
        """The model's own search settings with these fields changed; None changes nothing.

        Raises:
            RecipeError: a field is unknown, or the values do not fit together.
        """
        config = self.search.changed(changes)
        given = [name for name, value in changes.items() if value is not None]
        ignored = [
            message
            for message in config.unused()
            if any(message.startswith(f"decoding.{name} ") for name in given)
        ]
        if ignored:
            raise RecipeError("a search setting must have an effect", seen="; ".join(ignored))
        return config

    def _longest_part(self, num_tags: int) -> int | None:
        """The longest source, in tokens with EOS, that the model can be trusted with."""
        bounds = (self.longest_source, self.reach)
        return min((bound - num_tags for bound in bounds if bound is not None), default=None)

    @property
    def reach(self) -> int | None:
        """The longest text that the positions of all models reach, in tokens; None: any."""
        reaches = [model.config.max_positions() for model in self.models]
        return min((reach for reach in reaches if reach is not None), default=None)

    def _limits(self, lengths: Sequence[int], config: SearchConfig) -> list[int]:
        """The longest output of each text, in tokens with EOS."""
        reach = self.reach
        limits = config.max_lengths(lengths)
        return limits if reach is None else [min(limit, reach) for limit in limits]

    def _constraints(
        self,
        wishes: Wishes,
        texts: Sequence[str],
        limits: Sequence[int],
        numbers: Sequence[int],
    ) -> list[Constraints] | None:
        if not wishes:
            if self.ids.first is None:
                return None
            forced = ForcedFirst(self.ids.first, self.model.config.output_vocab_size())
            return [Constraints(prefix=forced)] * len(texts)
        target = self.tokenizers.target
        if not isinstance(target, Tokenizer):
            raise RecipeError(
                "prefixes, required and banned phrases need a vocabulary that gnomon learned",
                seen="a model that was taken in with its own",
                mend="translate without them",
            )
        key = tuple(wishes.banned)
        if self._compiler is None or self._compiler[0] != key:
            self._compiler = key, ConstraintCompiler(target, key)
        return self._compiler[1].compile(wishes, texts, limits, numbers)

    def _far(self, texts: Sequence[str]) -> list[bool | None]:
        if self.familiarity is None:
            return [None] * len(texts)
        return list(self.familiarity.is_far(texts))

    @torch.no_grad()
    def _decode(
        self,
        sources: list[list[int]],
        config: SearchConfig,
        *,
        limits: list[int],
        constraints: list[Constraints] | None,
        keys: list[int],
    ) -> list[list[Hypothesis]]:
        source = padded([self.ids.source(ids) for ids in sources], self.ids.pad).to(self.device)
        attends = config.coverage_penalty > 0 and config.beam > 1 and not config.sample
        scorers = [EncoderDecoderScorer(model, source, attends=attends) for model in self.models]
        scorer: TokenScorer = scorers[0]
        if len(scorers) > 1:
            scorer = EnsembleScorer(scorers, self.combination)
        ids = self.ids
        same: dict[str, Any] = {"pad_id": ids.pad, "bos_id": ids.start, "eos_id": ids.end}
        same |= {"max_lengths": limits, "constraints": constraints}
        if config.sample:
            return sample(scorer, config, keys=keys, **same)
        if config.beam == 1:
            return [[best] for best in greedy_search(scorer, config, **same)]
        return beam_search(scorer, config, **same)

    def _as_translation(self, hypotheses: list[Hypothesis], far: bool | None) -> Translation:
        texts = self.tokenizers.target.decode([found.tokens for found in hypotheses])
        best, *others = (
            # Byte pieces can spell a line break or an escape; one input line gives one output line.
            Translation(
                mend_controls(text),
                found.score,
                found.log_prob,
                len(found.tokens),
                found.truncated,
                far,
            )
            for text, found in zip(texts, hypotheses, strict=True)
        )
        return replace(best, alternatives=tuple(others))

    @property
    def device(self) -> torch.device:
        """Where the model's parameters are."""
        return next(self.model.parameters()).device
