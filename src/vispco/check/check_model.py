"""The verdict of all laws on one model, as data."""

import traceback
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from torch import nn

from vispco.check.laws import LAWS, LawBrokenError, Subject
from vispco.check.prompts import Prompter, prompter_for
from vispco.core.errors import VispcoError
from vispco.engine.layer_map import LayerMap
from vispco.families import family_of

_Verdict = Literal["right", "wrong", "crash", "refused", "no visual tokens", "no twin"]


@dataclass(frozen=True)
class _Finding:
    """One law on one model. state: 'holds', 'broken', 'refused' or 'crash'."""

    law: str
    state: str
    why: str = ""


@dataclass(frozen=True)
class Report:
    """Findings on one model."""

    model_class: str
    verdict: _Verdict
    why: str = ""
    scorer: str = "fastv"
    first: int = 1
    findings: tuple[_Finding, ...] = field(default_factory=tuple)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def check_model(model: nn.Module, scorer: str = "fastv", *, prompter: Prompter | None = None) -> Report:
    """Run all laws on a model; where everything is refused, one law tells why."""
    name = type(model).__name__
    try:
        family = family_of(model)
        family.check_served(model)
        first = max(LayerMap.of(family, model).last_mixing + 1, 1)
    except VispcoError as error:
        return Report(name, "refused", str(error), scorer)
    subject = Subject(model, prompter or prompter_for(model), scorer, first)
    findings: list[_Finding] = []
    for law, check in LAWS.items():
        state, why = "holds", ""
        try:
            check(subject)
        except LawBrokenError as error:
            state, why = "broken", str(error)
        except VispcoError as error:
            state, why = "refused", str(error)
        except Exception as error:  # noqa: BLE001 - a crash is a finding
            frame = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}"
            state, why = "crash", f"{type(error).__name__}: {''.join(str(error).splitlines()[:1])} ({place})"
        findings.append(_Finding(law, state, why))
        if state == "refused" and not any(f.state == "holds" for f in findings):
            break
    return Report(name, *_verdict(findings), scorer, first, tuple(findings))


def _verdict(findings: list[_Finding]) -> tuple[_Verdict, str]:
    verdicts: dict[str, _Verdict] = {"broken": "wrong", "crash": "crash", "refused": "refused"}
    for state, verdict in verdicts.items():
        for finding in findings:
            if finding.state == state:
                return verdict, f"{finding.law.replace('_', ' ')}: {finding.why}"
    return "right", ""
