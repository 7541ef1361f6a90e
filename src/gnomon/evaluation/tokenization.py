"""Which of sacreBLEU's tokenizers suits a target language."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

# Written without spaces between words, so that 13a would take a whole sentence for one word.
# Korean has spaces, but its particles stick to the nouns and 13a punishes each of them as a wrong
# word. sacreBLEU's own choice for Japanese and Korean, MeCab, needs extra packages with a
# dictionary; characters need nothing and can be named in the recipe's place.
CHARACTER_LANGUAGES = frozenset({"ja", "ko", "th", "lo", "km", "my", "bo", "dz"})
CHINESE = frozenset({"zh", "yue", "wuu", "lzh", "cmn"})

KANA_AND_OTHERS = re.compile(
    "[\u3041-\u30ff\u31f0-\u31ff"  # hiragana, katakana
    "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af"  # hangul
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff]"  # Thai, Lao, Tibetan, Burmese, Khmer
)
HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
LETTER = re.compile(r"[^\W\d_]")


def bleu_tokenizer(references: Sequence[str], language: str | None = None) -> str:
    """Choose "zh", "char" or "13a" by language or, where that is not known, by script.

    Args:
        references: lines in the target language; the first thousand are looked at.
        language: a code such as "de", "zh" or "zh-Hant"; None looks at the script alone.
    """
    if language is not None:
        code = re.split("[-_]", language.lower())[0]
        if code in CHINESE:
            return "zh"
        return "char" if code in CHARACTER_LANGUAGES else "13a"
    sample = "\n".join(islice(references, 1000))
    letters = len(LETTER.findall(sample))
    syllables, han = len(KANA_AND_OTHERS.findall(sample)), len(HAN.findall(sample))
    if 2 * (syllables + han) <= letters or syllables + han == 0:
        return "13a"
    # Japanese mixes Han with much kana; Chinese has next to none.
    return "char" if 10 * syllables > han else "zh"
