"""Several scorers search as one whose table is their combination."""

import pytest
import torch

from gnomon.decoding import EnsembleScorer, SearchConfig, beam_search, combined, sample


@pytest.mark.parametrize("combination", ["mean", "log_mean"])
@pytest.mark.parametrize("how", ["beam", "coverage", "sample"])
def test_equals_a_search_over_the_combined_table(toy, combination, how):
    class Combined(toy.Scorer):
        def after(self, sentence, prefix):
            tables = [toy.log_probs_after(sentence + n, prefix, 6, None) for n in (0, 3)]
            probabilities = torch.stack([table.double().exp() for table in tables])
            mean = (
                probabilities.mean(0)
                if combination == "mean"
                else probabilities.log().mean(0).exp()
            )
            return (mean / mean.sum()).log().float()

    sentences, limits = [5, 2, 9], [6, 3, 8]
    config = {
        "beam": SearchConfig(beam=3, nbest=2),
        "coverage": SearchConfig(beam=3, coverage_penalty=0.3),
        "sample": SearchConfig(sample=True, nbest=3),
    }[how]

    def search(scorer):
        if how == "sample":
            return sample(scorer, config, **toy.ids, max_lengths=limits, keys=range(3))
        return beam_search(scorer, config, **toy.ids, max_lengths=limits)

    def members():
        return [toy.Scorer(sentences), toy.Scorer([each + 3 for each in sentences])]

    found = search(EnsembleScorer(members(), combination))
    if how == "coverage":  # the members look at other source tokens than one table would
        assert found != search(Combined(sentences))
        plain = SearchConfig(beam=3)
        scorer = EnsembleScorer(members(), combination)
        assert found != beam_search(scorer, plain, **toy.ids, max_lengths=limits)
        return
    expected = search(Combined(sentences))
    for some, others in zip(found, expected, strict=True):
        assert [h.tokens for h in some] == [h.tokens for h in others]
        assert [h.log_prob for h in some] == pytest.approx([h.log_prob for h in others], rel=1e-4)


def test_a_veto_counts_in_the_geometric_mean_only():
    sure = torch.tensor([0.999, 0.001]).log()
    doubtful = torch.tensor([0.5, 0.5]).log()
    assert combined([sure, doubtful], "mean").exp().tolist() == pytest.approx([0.7495, 0.2505])
    assert combined([sure, doubtful], "log_mean").exp()[0] > 0.96
    assert combined([sure], "mean") is sure
