"""A letter counts as a label only, several options are none, and prose is not an answer."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vispco.metrics import METRICS
from vispco.metrics.multiple_choice import _extract_option

ANIMALS = {"A": "dog", "B": "cat", "C": "bird", "D": "horse"}

CHOOSES_B = """
B | b | (B) | [b] | B. | B) | **B** | `B` | Option B | option b. | Answer: B | answer is B | Answer: (B)
B. cat | (b) cat | b) cat | B: cat | B cat | B (cat) | B - cat | B, because it purrs. | \\boxed{B} | $\\boxed{\\text{B}}$
The answer is B | The answer is B. | the answer is b. | The correct answer is option B. | The correct option is (B).
I think the answer is B because of the tail. | I choose B | I would go with B. | B is correct | B is the correct answer.
cat | Cat. | a cat | The cat | It is a cat. | The animal in the picture is a cat | I think it's a cat.
The answer is a cat. | Answer: cat | cat, because a dog would be larger
The answer is B, not C. | The answer is B because C is smaller. | Between A and C, B is the correct answer.
A is wrong and C is wrong, so the answer is B. | The answer is A. Actually, the answer is B.
I first thought of A, but the final answer is B. | <answer>B</answer> | (B) fits best. | I believe that option B fits.
A. dog B. cat C. bird D. horse. The answer is B. | So, B. | Therefore, B | I think B | It looks like B. | Cat (B)
The answer isn't A, it's B. | The answer is cat, not dog. | The dog is next to the cat, therefore the answer is cat
<think>It could be A or C.</think>B | The answer is "cat".
"""

CHOOSES_NONE = """
A or B | A and B | A, B | A/B | Both A and B | (A) or (B) | A. dog or B. cat | It could be A or B. | B or C.
A, B and C | The answer is A or B. | The answer is (A) and (B). | It's B or maybe C | A B | AB | dog or cat | dog, cat | A dog and a cat are there.
A. dog B. cat C. bird D. horse | The answer is A. The answer is B.
I cannot tell | I cannot tell. | I can't tell if it is a cat. | I don't know | I do not know whether it is a cat.
Not B | It is not a cat. | It isn't B. | The answer is not B | I do not think that the answer is B. | Option B is wrong. | B is not the answer. | Option (B) isn't right.
E | Z. | The answer is E | I | None of the above | ? | ... | A table with a lamp | A tiger | A very old tree stands there.
Vitamin C is healthy. | This is plan B for them. | Grade A beef | Hepatitis B | The letter is an A on a wall.
Without the picture I could say cat | unanswerable | cats and dogs | concatenate
"""


def cases(table):
    return [case.strip() for line in table.strip().splitlines() for case in line.split(" | ")]


@pytest.mark.parametrize("prediction", cases(CHOOSES_B))
def test_a_choice_is_found(prediction):
    assert _extract_option(prediction, ANIMALS) == "B"


@pytest.mark.parametrize("prediction", ["", " ", "\n", *cases(CHOOSES_NONE)])
def test_what_does_not_choose_is_no_choice(prediction):
    assert _extract_option(prediction, ANIMALS) is None


@pytest.mark.parametrize(
    ("prediction", "choices", "chosen"),
    [
        ("A dog", {"A": "cat", "B": "dog"}, "B"),
        ("A. dog", {"A": "cat", "B": "dog"}, "A"),
        ("Answer: **B**\n\nExplanation: A is a dog.", {"A": "dog", "B": "cat"}, "B"),
        ("B\n\nThe picture shows a dog (A) too.", {"A": "dog", "B": "cat"}, "B"),
        ("The answer is: B\n\nA: no", {"A": "dog", "B": "cat"}, "B"),
        ("A\nB", {"A": "dog", "B": "cat"}, None),
        ("A) dog: no\nB) cat: yes", {"A": "dog", "B": "cat"}, None),
        ("A. Lincoln", {"A": "B. Obama", "B": "A. Lincoln"}, "B"),
        ("A dog is lying there", {"A": "cat", "B": "dog"}, "B"),
        ("A dog", {"A": "sofa", "B": "table"}, None),
        ("The answer is a dog", {"A": "cat", "B": "dog"}, "B"),
        ("a hot dog", {"A": "dog", "B": "hot dog"}, "B"),
        ("It is a hot dog.", {"A": "dog", "B": "hot dog"}, "B"),
        ("2", {"A": "1", "B": "2"}, "B"),
        ("There are 2 dogs", {"A": "1", "B": "2"}, "B"),
        ("12", {"A": "1", "B": "2"}, None),
        ("2.5", {"A": "2", "B": "5"}, None),
        ("No", {"A": "yes", "B": "no"}, "B"),
        ("No, there is not.", {"A": "yes", "B": "no"}, "B"),
        ("Yes, there is no dog.", {"A": "yes", "B": "no"}, "A"),
        ("I cannot tell", {"A": "yes", "B": "I cannot tell"}, "B"),
        ("None of the above", {"A": "yes", "B": "none of the above"}, "B"),
        ("dog", {"A": "dog", "B": "Dog."}, None),
        ("F", {"A": "1", "F": "2"}, "F"),
        ("I", {"H": "1", "I": "2"}, "I"),
        ("A", {"A": "B", "B": "A"}, "A"),
        ("B", {}, None),
        ("cat", {"A": "", "B": "cat"}, "B"),
        ("$1.50", {"A": "$2.50", "B": "$1.50"}, "B"),
        ("The answer is $1.50.", {"A": "$2.50", "B": "$1.50"}, "B"),
        ("**$1.50**", {"A": "$2.50", "B": "$1.50"}, "B"),
        ("a*b", {"A": "a+b", "B": "a*b"}, "B"),
        ("The answer is a*b", {"A": "a+b", "B": "a*b"}, "B"),
        ("B. a*b", {"A": "a+b", "B": "a*b"}, "B"),
        ("<p>", {"A": "<div>", "B": "<p>"}, "B"),
        ("<b>B</b>", {"A": "dog", "B": "cat"}, "B"),
        ("{1, 2}", {"A": "[1, 2]", "B": "{1, 2}"}, "B"),
        ("x", {"A": "x", "B": "y"}, "A"),
        ("Y.", {"A": "x", "B": "y"}, "B"),
        ("D. Both A and C", {"A": "1", "B": "2", "C": "3", "D": "Both A and C"}, "D"),
        ("(D) Both A and C.", {"A": "1", "B": "2", "C": "3", "D": "Both A and C"}, "D"),
        ("D. Both A and C", {"A": "1", "B": "2", "C": "3", "D": "4"}, None),
        ("The sign says no parking.", {"A": "stop", "B": "no parking"}, "B"),
        ("The man is without a hat.", {"A": "with a hat", "B": "without a hat"}, "B"),
        ("It is a man without a hat.", {"A": "woman", "B": "man"}, "B"),
        ("It is without a man.", {"A": "woman", "B": "man"}, None),
        ("There is no parking sign, but not a man", {"A": "woman", "B": "man"}, None),
        (r"\( \boxed{B} \)", {"A": "dog", "B": "cat"}, "B"),
        (r"The answer is \( \boxed{B} \).", {"A": "dog", "B": "cat"}, "B"),
        ("ASSISTANT: B", {"A": "dog", "B": "cat"}, "B"),
        ("assistant: the cat", {"A": "dog", "B": "cat"}, "B"),
        ("", {"A": "", "B": "cat"}, None),
    ],
)
def test_options_decide_what_a_word_means(prediction, choices, chosen):
    assert _extract_option(prediction, choices) == chosen


@dataclass
class Question:
    references: tuple
    options: dict = field(default_factory=lambda: ANIMALS)


def test_the_right_option_may_be_given_by_letter_or_by_text():
    assert METRICS.get("option")("(B)", Question(("B",))) == 1.0
    assert METRICS.get("option")("It is a cat.", Question(("b",))) == 1.0
    assert METRICS.get("option")("B", Question(("Cat",))) == 1.0
    assert METRICS.get("option")("A", Question(("B",))) == 0.0
    assert METRICS.get("option")("", Question(("B",))) == 0.0
    assert METRICS.get("option")("I cannot tell", Question(("A",))) == 0.0


@given(st.text(), st.dictionaries(st.sampled_from("ABCDEFGHI"), st.text(max_size=12)))
def test_any_text_gives_an_option_or_none(prediction, choices):
    chosen = _extract_option(prediction, choices)
    assert chosen is None or chosen in choices


@given(st.sampled_from("ABCD"), st.sampled_from(["{}", "({})", "{}.", "The answer is {}.", "**{}**", "Option {}"]))
def test_every_letter_is_found_in_every_form(letter, form):
    assert _extract_option(form.format(letter), ANIMALS) == letter
