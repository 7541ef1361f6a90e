"""How the benchmark of options makes its texts and counts its terms."""

from benchmarks.worth.links import sure_links
from benchmarks.worth.long_text import joined
from benchmarks.worth.measure import Table, Text
from benchmarks.worth.terms import by_glossary, by_line, glossary, show
from benchmarks.worth.texts import damaged

DOGS = Text(
    "dogs",
    ["a running terrier", "one terrier sleeps", "terrier and people", "people sleeping"],
    ["ein Terrier rennt", "ein Terrier", "Terrier und Menschen", "Menschen schlafend"],
)


def test_a_glossary_holds_the_words_that_keep_company() -> None:
    assert glossary(DOGS) == [("terrier", "Terrier")]  # "people" comes twice only
    assert by_glossary(DOGS) == [["Terrier"], ["Terrier"], ["Terrier"], []]


def test_links_of_a_glossary_are_places_of_words_that_stand_once() -> None:
    assert sure_links(DOGS) == [{(2, 1)}, {(1, 1)}, {(0, 0)}, set()]
    twice = Text("twice", [*DOGS.sources, "terrier or terrier"], [*DOGS.references, "Terrier"])
    assert sure_links(twice)[-1] == set()


def test_one_word_of_each_line_is_its_longest() -> None:
    assert by_line(DOGS) == [["Terrier"], ["Terrier"], ["Menschen"], ["schlafend"]]
    assert by_line(Text("short", ["a b"], ["x y ."])) == [[]]


def test_terms_are_found_as_words_and_as_their_beginnings(capsys) -> None:
    show("with", [["Terriers", "ein Bullterrier", "", "schlafend"]], [by_line(DOGS)])
    assert "2 of 4 terms" in capsys.readouterr().out


def test_lines_are_put_together_on_both_sides_and_none_is_lost() -> None:
    found = joined(DOGS, 3)
    assert found.sources == [" ".join(DOGS.sources[:3]), DOGS.sources[3]]
    assert found.references == [" ".join(DOGS.references[:3]), DOGS.references[3]]


def test_damage_is_a_tenth_of_each_kind_and_the_same_each_time() -> None:
    pairs = [(f"s{place}", f"t{place}") for place in range(2000)]
    found = damaged(pairs)
    assert len(found) == len(pairs)
    assert found == damaged(pairs)
    untranslated = sum(source == target for source, target in found)
    repeated = len(found) - len(set(found))
    shifted = sum(target == f"t{(int(source[1:]) + 1) % 2000}" for source, target in set(found))
    for count in (untranslated, repeated, shifted):
        assert 120 < count < 280


def test_a_row_tells_score_length_and_chance(capsys) -> None:
    text = Text("text", ["a b c d e f"] * 20, ["u v w x y z"] * 20)
    table = Table([text], "none")
    table.begin("group")
    table.row("right", lambda text: text.references)
    table.row("short", lambda text: [line[:9] for line in text.references])
    table.row("seeds", lambda text: text.references, lambda text: text.sources)
    _, _, header, right, short, seeds = capsys.readouterr().out.split("\n")[:6]
    assert header == "option\ttext\ttime"
    assert "\t100.00 length 1.000" in right
    assert "(p 0.00" in short and "length 0.833" in short
    assert "\t50.00 (0.00 to 100.00) length 1.000" in seeds
