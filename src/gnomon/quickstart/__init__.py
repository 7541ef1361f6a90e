"""The quickstart's corpus: short English phrases and their translations, made from CLDR data.

`make_corpus("de")` needs no network and no file: Babel brings the Unicode CLDR. This room knows
nothing of training; the story around the corpus is told elsewhere.
"""

from gnomon.quickstart.corpus import Corpus, Pair, make_corpus
from gnomon.quickstart.kinds import KINDS, LIMITS

__all__ = ["KINDS", "LIMITS", "Corpus", "Pair", "make_corpus"]
