"""Longer, natural wordings of the tasks' questions, so that a pre-trained language model is used as one."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from vispco.data.dataset import DrawnSample, random_for

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random

_WORDINGS = (
    (
        r"what color is the (biggest|smallest) (\w+)\?",
        "Look at every {1} in the picture. Which color does the {0} one have?",
        "Of all the shapes that are a {1}, find the {0} one. What color is it?",
        "Please tell me the color of the {0} {1} that you can see.",
    ),
    (
        r"what color is the (\w+)\?",
        "There is exactly one {0} in this picture. Which color does it have?",
        "Please find the {0} and tell me its color.",
        "In which color is the {0} drawn?",
    ),
    (
        r"what shape is (\w+)\?",
        "Only one thing in this picture is {0}. What shape does it have?",
        "Please find the {0} thing and name its shape.",
        "Which shape is drawn in {0}?",
    ),
    (
        r"where is the (\w+) (\w+)\?",
        "In which part of the picture can I find the {0} {1}?",
        "Please tell me where in the picture the {0} {1} is.",
        "I am looking for a {1} that is {0}. Where is it?",
    ),
    (
        r"is there a (\w+) (\w+)\?",
        "Can you see a {0} {1} anywhere in this picture? Answer yes or no.",
        "Does this picture show a {1} that is {0}?",
        "Please check whether there is any {0} {1} here.",
    ),
    (
        r"how many things are (\w+)\?",
        "Please count all the {0} things in this picture. How many are there?",
        "How many of the shapes that you see are {0}?",
        "What is the number of {0} things in the picture?",
    ),
    (
        r"how many (\w+) are there\?",
        "Please count the {0} in this picture. How many do you find?",
        "How many {0} can you see in the picture, whatever their color?",
        "What is the number of {0} that are shown here?",
    ),
    (
        r"what word is on the (\w+) sign\?",
        "Please read the {0} sign to me. Which word is written on it?",
        "Which word is written on the sign that is {0}?",
        "What does the {0} sign in the picture say?",
    ),
    (
        r"what is the value of the (\w+) bar\?",
        "In this chart, which number stands above the {0} bar?",
        "Please read the chart. How high is the {0} bar?",
        "Which value does the bar that is {0} have?",
    ),
    (
        r"what number is in row (\w+) column (\w+)\?",
        "Please look at the table. Which entry is in row {0} and column {1}?",
        "Which number does the table have in column {1} of row {0}?",
        "Read the row named {0}. What is its entry in column {1}?",
    ),
)


def reword(question: str, rng: Random) -> str:
    """One of the longer wordings of a question; a question that is none of the tasks' stays as it is."""
    for pattern, *wordings in _WORDINGS:
        found = re.fullmatch(pattern, question)
        if found:
            return rng.choice(wordings).format(*found.groups())
    return question


def reworded(samples: Iterable[DrawnSample]) -> list[DrawnSample]:
    """The samples with longer questions; the wording follows from the id."""
    return [replace(each, question=reword(each.question, random_for("wording", each.id))) for each in samples]
