"""Do our scores and prompts under `--protocol vlmevalkit` equal those of VLMEvalKit's own functions?

python benchmarks/protocol.py [--checkout VLMEvalKit] [--number 4000]

VLMEvalKit comes from a checkout, or from PyPI (`pip download --no-deps ms-vlmeval`); lmms-eval always from PyPI. Only the
functions that score and ask are taken, by their names, from the source files: nothing of them is installed or kept.
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from figures import Figure, write
from protocol_answers import MAKERS, Case
from protocol_functions import Harness, from_checkout, from_pypi
from vispco.metrics import BENCHMARKS, AskSettings
from vispco.metrics.protocols import protocol

SEED = 0
BAR = 0.995
FAMILIES = {"qwen2_5_vl": "Qwen2.5-VL", "llava": "LLaVA-1.5"}
REASONS = {
    "empty answer": "VLMEvalKit takes an empty accepted answer as part of every prediction; ours as part of none.",
    "empty prediction": "VLMEvalKit scores an empty prediction where an accepted answer is empty, or an article alone; ours never does.",
    "verbose": "PyPI's 0.0.20 has no rule for 'the answer is X' far from the end; commit e8e78f0 and ours have.",
    "other": "see the examples",
}


def reason(case: Case) -> str:
    """The class of a disagreement."""
    if not case.prediction.strip():
        return "empty prediction"
    if any(not each.strip() for each in case.record.references):
        return "empty answer"
    if re.search(r"answer\s+is", case.prediction, re.IGNORECASE):
        return "verbose"
    return "other"


def compare(name: str, harness: Harness, number: int) -> dict[str, Any]:
    """Both scores of `number` generated answers of a benchmark."""
    chance = random.Random(f"{SEED}-{name}")
    benchmark, settings = BENCHMARKS.get(name), AskSettings(protocol="vlmevalkit", family="qwen2_5_vl")
    cases = [MAKERS[benchmark.kind if name != "ocrbench" else "contains"](chance, name) for _ in range(number)]
    same, right, classes, examples = 0, 0.0, Counter(), []
    for case in cases:
        ours, theirs = settings.score(benchmark, case.prediction, case.record), harness.score(name, case)
        same += abs(ours - theirs) < 1e-9
        right += theirs
        if abs(ours - theirs) >= 1e-9:
            classes[reason(case)] += 1
            if len(examples) < 12:
                examples.append({"prediction": case.prediction, "references": list(case.record.references)[:3],
                                 "options": dict(case.record.options), "ours": ours, "theirs": theirs})  # fmt: skip
    listed = {kind: {"answers": count, "reason": REASONS[kind]} for kind, count in classes.items()}
    return {
        "answers": number,
        "agreement": same / number,
        "mean": right / number,
        "classes": listed,
        "examples": examples,
    }


def compare_prompts(harness: Harness, number: int) -> dict[str, float]:
    """The share of prompts that are equal to the letter, by family; for LLaVA with the conversation around them."""
    found = {}
    for family in FAMILIES:
        equal = total = 0
        for name in BENCHMARKS:
            chance = random.Random(f"{SEED}-prompt-{name}")
            benchmark = BENCHMARKS.get(name)
            for _ in range(number):
                record = MAKERS[benchmark.kind if name != "ocrbench" else "contains"](chance, name).record
                ours = protocol("vlmevalkit").prompt(benchmark, record, family)
                theirs = harness.prompt(name, record, family)
                if family == "llava":
                    ours, theirs = rendered(ours), harness.llava_conversation(theirs)
                equal += ours == theirs
                total += 1
        found[family] = equal / total
    return found


def rendered(text: str) -> str:
    """A question as the chat template of the protocol writes it."""
    import jinja2

    template = protocol("vlmevalkit").chat_template("llava")
    parts = [{"type": "image"}, {"type": "text", "text": text}]
    told = jinja2.Environment(autoescape=False).from_string(template or "")  # noqa: S701 - plain text for a model
    return told.render(messages=[{"role": "user", "content": parts}], add_generation_prompt=True)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--checkout", type=Path)
    options.add_argument("--number", type=int, default=4000)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        harness = from_checkout(given.checkout) if given.checkout else from_pypi("ms-vlmeval", Path(folder))
        lmms = from_pypi("lmms-eval", Path(folder))
        details: dict[str, Any] = {name: compare(name, harness, given.number) for name in BENCHMARKS}
        details["chartqa, lmms-eval"] = compare("chartqa", lmms, given.number)
        prompts = compare_prompts(harness, 200)
        released = from_pypi("ms-vlmeval", Path(folder)) if given.checkout else harness
        older = {name: compare(name, released, given.number) for name in BENCHMARKS} if given.checkout else {}
    figures = {
        f"agreement, {name}": Figure(each["agreement"], "higher", BAR, "ratio") for name, each in details.items()
    }
    figures |= {f"prompts, {FAMILIES[name]}": Figure(share, "higher", 1.0, "ratio") for name, share in prompts.items()}
    figures["answers"] = Figure(given.number, "higher", 3000, "answers each")
    if older:  # a released version may lack rules that the checkout has
        details[f"with {released.version}"] = {
            name: {k: e[k] for k in ("agreement", "classes")} for name, e in older.items()
        }
    write("protocol", figures, {"vlmevalkit": harness.version, "lmms-eval": lmms.version, **details}, SEED)


if __name__ == "__main__":
    main()
