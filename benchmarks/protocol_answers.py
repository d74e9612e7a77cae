"""Answers as models write them, for each kind of benchmark: right ones, wrong ones, and awkward ones."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from vispco.data.files import Record, Turn

WORDS = [
    "cat",
    "dog",
    "red",
    "car",
    "tree",
    "a",
    "blue",
    "house",
    "two",
    "dogs",
    "the",
    "sky",
    "bus",
    "stop",
    "12",
    "parking",
    "lot",
    "man",
    "on",
    "bench",
    "3.5",
    "no",
    "one",
    "can't",
    "don't",
    "its",
    "oclock",
    "isnt",
    "ten",
    "one",
    "two",
    "zero",
    "left",
    "right",
    "of",
    "the",
    "table",
    "pizza-box",
    "t-shirt",
    "coca",
    "cola",
    "st.",
    "louis",
    "Dr.",
    "Smith",
    "10,000",
    "yes",
    "no",
    "maybe",
    "NaN",
    "none",
    "of",
    "these",
    "all",
    "of",
    "the",
    "above",
    "sign",
]
LONG = "because the picture shows several things next to each other and the light comes from the left side"
REFUSALS = ("Cannot determine the answer", "I'm sorry, but without the image provided, I cannot say.", "I don't know.")
FORMULA = "Handwritten Mathematical Expression Recognition"
CATEGORIES = (FORMULA, "Regular Text Recognition", "Scene Text-centric VQA", "Doc-oriented VQA")


@dataclass(frozen=True)
class Case:
    """A prediction for a row."""

    prediction: str
    record: Record


def row(
    question: str,
    references: tuple[str, ...],
    options: dict[str, str] | None = None,
    hint: str = "",
    category: str = "",
) -> Record:
    return Record("1", "t", (), (Turn(question, references[0]),), references, options or {}, hint, meta={"category": category})  # fmt: skip


def phrase(chance: random.Random, most: int = 3) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(chance.randint(1, most)))


def question(chance: random.Random) -> str:
    return chance.choice(
        ("What is shown?", "Which one is it?", "图中有几只猫?", "How many are\nthere?", phrase(chance, 6))
    )


def option_case(chance: random.Random, name: str) -> Case:
    """Multiple choice."""
    del name
    letters = "ABCDE"[: chance.randint(2, 5)]
    options = {letter: phrase(chance) for letter in letters}
    right, other = chance.choice(letters), chance.choice(letters)
    text = options[chance.choice((right, right, other))]
    forms: tuple[Callable[[], str], ...] = (
        lambda: right,
        lambda: f"{right}.",
        lambda: f"({right})",
        lambda: f"{right}. {options[right]}",
        lambda: other,
        lambda: text,
        text.upper,
        lambda: f"The answer is {right}.",
        lambda: f"The correct answer is **{right}**. {LONG}",
        lambda: f"The answer is {right} {LONG}.",
        lambda: f"Answer: {other}",
        lambda: f"{right}\n\n{LONG}",
        lambda: f"{LONG}, so it is {right}",
        lambda: f"{LONG} {text}",
        lambda: f"I think it is {text}.",
        lambda: f"A {text} can be seen",
        lambda: f"Both {right} and {other}",
        lambda: f"not {right} but {other}",
        right.lower,
        lambda: f"option {right.lower()})",
        lambda: f"{options[right]} or {options[other]}",
        lambda: f"\\boxed{{{right}}}",
        lambda: f"[{right}]: {text}!",
        lambda: "Z",
        lambda: phrase(chance, 8),
        lambda: chance.choice(REFUSALS),
        lambda: "Failed to obtain answer via API.",
        lambda: chance.choice(("", " ", "\n")),
    )
    hint = phrase(chance, 5) if chance.random() < 0.3 else ""
    return Case(chance.choice(forms)(), row(question(chance), (right,), options, hint))


def yes_no_case(chance: random.Random, name: str) -> Case:
    """MME."""
    del name
    right = chance.choice(("Yes", "No"))
    said = chance.choice((right, "Yes" if right == "No" else "No", chance.choice(("Yes", "No"))))
    forms: tuple[Callable[[], str], ...] = (
        lambda: said,
        said.lower,
        lambda: f"{said}.",
        lambda: f"{said}, {LONG}.",
        lambda: f"{said}! {phrase(chance, 5)}",
        lambda: f"The answer is {said}",
        lambda: f"**{said}**",
        lambda: f'"{said}"',
        lambda: f"{said}/{right}",
        lambda: f"{said}.{phrase(chance)}",
        lambda: f"{said}-{phrase(chance)}",
        lambda: f"No. {chance.randint(1, 9)} {phrase(chance)}",
        lambda: f"There is no {phrase(chance)}, {said.lower()}",
        lambda: f"Yesterday, {phrase(chance)}",
        lambda: f"Not {said.lower()} (1,000)",
        lambda: phrase(chance, 6),
        lambda: chance.choice(REFUSALS),
        lambda: "",
    )
    return Case(chance.choice(forms)(), row(question(chance), (right,)))


def vqa_case(chance: random.Random, name: str) -> Case:
    """TextVQA and VizWiz: ten people's answers."""
    common, rare = phrase(chance), phrase(chance)
    people = [common] * chance.randint(1, 9)
    while len(people) < 10:
        people.append(chance.choice((rare, phrase(chance), "unanswerable" if name == "vizwiz" else common)))
    if chance.random() < 0.01:
        people[-1] = ""
    chance.shuffle(people)
    wanted = chance.choice((common, common, rare, chance.choice(people), phrase(chance)))
    forms: tuple[Callable[[], str], ...] = (
        lambda: wanted,
        lambda: wanted,
        wanted.capitalize,
        wanted.upper,
        lambda: f"{wanted}.",
        lambda: f"the {wanted}",
        lambda: f"a {wanted}!",
        lambda: f"{wanted}\n",
        lambda: f" {wanted} ",
        lambda: f'"{wanted}"',
        lambda: f"{wanted}, {phrase(chance)}",
        lambda: wanted.replace(" ", "-"),
        lambda: wanted.replace("'", ""),
        lambda: f"It says {wanted}.",
        lambda: f"{wanted} (1,500)",
        lambda: f"{chance.randint(0, 20)}.",
        lambda: f"$ {chance.randint(0, 99)}.{chance.randint(10, 99)}",
        lambda: "unanswerable",
        lambda: phrase(chance, 6),
        lambda: ". ".join([wanted] * chance.randint(1, 40)),
        lambda: "" if chance.random() < 0.1 else wanted,
    )
    return Case(chance.choice(forms)(), row(question(chance), tuple(people)))


def chart_case(chance: random.Random, name: str) -> Case:
    """ChartQA: numbers in many spellings, and words."""
    del name
    if chance.random() < 0.3:
        right = phrase(chance)
        said = chance.choice((right, right.upper(), f"{right}.", f" {right}\n", phrase(chance), ""))
        return Case(said, row(question(chance), (right,)))
    value = chance.choice((chance.randint(0, 2030), round(chance.uniform(0, 100), 2), -chance.randint(1, 99)))
    right = chance.choice((f"{value}", f"{value}", f"{value}%", f"{value:,}"))
    near = value * chance.choice((1.0, 1.0, 1.02, 0.96, 1.05, 0.95, 1.06, 2.0))
    told = chance.choice((f"{near:g}", f"{near:.2f}", f"{near:.0f}", f"{near:e}"))
    forms = (told, told, f"{told}%", f"${told}", f"{told} million", f"{told}k", f"{told}.", f" {told}\n", f"{near:,.1f}",
             f"The value is {told}", f"+{told}", f"{told} %", right, "nan", "inf", "")  # fmt: skip
    return Case(chance.choice(forms), row(question(chance), (right,)))


def contains_case(chance: random.Random, name: str) -> Case:
    """OCRBench: one of several answers stands in the text."""
    del name
    category = chance.choice(CATEGORIES)
    answers = [phrase(chance) for _ in range(chance.randint(1, 3))]
    if category == FORMULA:
        answers = [chance.choice((r"\frac { a } { b }", "x ^ 2 + y", r"\sqrt{ 3 }", "A _ { 1 }")) for _ in answers]
    if chance.random() < 0.002:
        answers[-1] = ""
    right = chance.choice(answers)
    forms = (right, right.upper(), f"The text is {right}.", right.replace(" ", ""), right.replace(" ", "\n"),
             f"{phrase(chance, 5)} {right} {phrase(chance)}", phrase(chance, 5), f"  {right}  ", right[:-1], "")  # fmt: skip
    return Case(chance.choice(forms), row(question(chance), tuple(answers), category=category))


MAKERS: dict[str, Callable[[random.Random, str], Case]] = {
    "options": option_case,
    "yes-no": yes_no_case,
    "words": lambda chance, name: (chart_case if name == "chartqa" else vqa_case)(chance, name),
    "text": vqa_case,
    "contains": contains_case,
}
