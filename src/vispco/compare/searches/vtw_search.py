"""VTW: at one layer, all visual tokens leave.

Lin et al., "Boosting Multimodal Large Language Models with Visual Tokens Withdrawal" (AAAI 2025).

Faithful: one withdrawal layer K for the model; K grows until the mean KL between pruned and unpruned model on some 20
samples is at most eta; no scores, so any scorer gives the same result; original positions are kept.

Not faithful: the original compares the distributions of the last prompt token, here it is the evaluator's KL, the mean
over the positions that predict the answer, in the evaluator's direction. The scan begins at layer 5 of 32 there, at the
same relative depth here. eta is tuned to each model there (0.003, 0.0005, 0.0001), and is one number here. A budget is
ours: the original has none, so given one, K is the deepest layer that meets it, and nothing is measured; on a sample
that is still too dear, the layers before K are cut.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from vispco.compare.searches.calibration import Calibration
from vispco.compare.searches.rival import Choice, Rival
from vispco.compare.searches.search_registry import SEARCHES
from vispco.core.errors import InvalidInputError
from vispco.core.schedule import Schedule


@SEARCHES.register
@dataclass(frozen=True)
class _VTW(Rival):
    """The first layer K with mean KL <= eta; with a budget, the deepest K that meets it.

    samples: how many calibration samples the scan looks at. start: the first K to try; None for 5/32 of the depth.
    """

    name: ClassVar[str] = "vtw"
    least: ClassVar[Mapping[str, float]] = {"eta": 0.0}

    eta: float = 0.003
    samples: int = 20
    start: int | None = None

    def _search_freely(self, calibration: Calibration) -> Choice:
        L = calibration.num_layers
        least = calibration.sizes.earliest_layer
        start = max(round(5 * L / 32), least) if self.start is None else self.start
        if not least <= start < L:
            raise InvalidInputError(f"start={start} was given to {self.name!r}. Give a layer from {least} to {L - 1}.")
        few = calibration.first(self.samples)
        seen: dict[str, float] = {}
        for K in range(start, L):
            schedule = Schedule.withdraw(K, L)
            seen[str(K)] = few.kl(schedule)
            if seen[str(K)] <= self.eta:
                break
        else:
            K, schedule = L, Schedule.full(L)  # nothing may be withdrawn
        return Choice(schedule, provenance={"layer": K, "kl": seen, "scanned": len(few.sizes)})

    def _search(self, calibration: Calibration, budget: float) -> Choice:
        L, sizes = calibration.num_layers, calibration.sizes
        schedules = [Schedule.withdraw(K, L) for K in range(sizes.earliest_layer, L)] + [Schedule.full(L)]
        fitting = [schedule for schedule in schedules if sizes.fraction(schedule) <= budget]
        schedule = fitting[-1]  # the floor was checked, so there is one
        return Choice(schedule, lift=False, provenance={"layer": int(sum(schedule.tensor() > 0))})
