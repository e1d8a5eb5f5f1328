"""No input breaks a property of a target: those of the committed corpus, and what hypothesis makes out of them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import CORPUS, TARGETS, Target

EXAMPLES = 60
"""For each target, in a second; `make fuzz` tries millions."""

INPUTS = [(target, path) for target in TARGETS.values() for path in target.corpus()]


@pytest.mark.parametrize(("target", "path"), INPUTS, ids=[f"{target.name}-{path.stem}" for target, path in INPUTS])
def test_what_was_found_once_is_mended(target, path):
    target.check(path.read_bytes())


def inputs(target: Target) -> st.SearchStrategy[bytes]:
    """Inputs of the corpus, in parts, joined with words of the format and with anything."""
    known = st.sampled_from([path.read_bytes() for path in target.corpus()])
    part = st.tuples(known, st.integers(0, 400), st.integers(1, 400)).map(lambda cut: cut[0][cut[1] : cut[1] + cut[2]])
    words = st.sampled_from([*target.words, b"\x00"])
    body = st.lists(st.one_of(known, part, words, st.binary(max_size=12)), max_size=12).map(b"".join)
    return st.tuples(st.binary(min_size=1, max_size=6), body).map(b"".join)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_no_input_breaks_a_property(target):
    @settings(max_examples=EXAMPLES, deadline=None)
    @given(inputs(target))
    def case(data):
        target.check(data)

    case()


def test_every_target_has_a_corpus_and_every_input_its_line_in_the_readme():
    readme = (CORPUS / "README.md").read_text()
    assert [name for name, target in TARGETS.items() if not target.corpus()] == []
    assert [
        f"{path.parent.name}/{path.name}" for _, path in INPUTS if f"`{path.parent.name}/{path.name}`" not in readme
    ] == []
    assert sorted({path.parent.name for path in CORPUS.glob("*/*")} - set(TARGETS)) == []


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_no_bytes_at_all_break_nothing(target):
    target.check(b"")
    target.check(b"\x00")
    target.check(b"\xff" * 40)
