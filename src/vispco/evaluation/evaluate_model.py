"""`vispco.evaluate`: accuracy and cost of a model, pruned or not, in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from vispco.core.errors import InvalidInputError
from vispco.evaluation.evaluator import TaskEvaluator
from vispco.pruner.pruner import Pruner

if TYPE_CHECKING:
    from vispco.data.sample import Sample
    from vispco.evaluation.result import Evaluation


def evaluate(
    model: Any,
    processor: Any,
    samples: Sequence[Sample],
    *,
    pruner: Pruner | None = None,
    kl: bool = False,
    details: bool = False,
    max_new_tokens: int | None = None,
    batch_size: int = 32,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Answer every sample by greedy decoding; return accuracy by task, and mean FLOPs by each cost.

    model, processor: as `vispco.load` returns them.
    samples: what is asked, such as `vispco.data.dataset("test")`.
    pruner: how the model is pruned; None for the unpruned model.
    kl: also measure the KL divergence of the answers from those of the unpruned model.
    details: keep every prediction, in `Evaluation.details["predictions"]`.
    max_new_tokens: of each answer; default: what its benchmark allows, or the length of the longest reference answer.
    progress: called with (samples done, all samples).

    To compare many pruners on the same samples, make one `vispco.evaluation.TaskEvaluator`: it encodes pictures once.
    """
    if pruner is not None and not isinstance(pruner, Pruner):
        raise InvalidInputError(
            f"pruner={pruner!r} was given. Give a Pruner, such as Pruner('fastv', schedule), or None for the unpruned model."
        )
    evaluator = TaskEvaluator(
        model,
        processor,
        samples,
        kl=kl,
        details=details,
        max_new_tokens=max_new_tokens,
        batch_size=batch_size,
        progress=progress,
    )
    return evaluator(pruner)
