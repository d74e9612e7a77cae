"""Everything that the report page shows, as plain data. A part that a run does not have is empty, never invented."""

from __future__ import annotations

import types
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from typing import Any, Self, Union, get_args, get_origin, get_type_hints

from vispco.core.errors import InvalidInputError, check_version, parsing


class _JsonRecord:
    """A base for frozen dataclasses whose fields are numbers, texts, mappings, records, or tuples of those."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)  # type: ignore[call-overload, no-any-return]

    @classmethod
    @parsing("a part of a report")
    def from_dict(cls, data: Any) -> Self:
        if not isinstance(data, dict):
            raise InvalidInputError(f"A {cls.__name__} is a JSON object; {type(data).__name__} was given.")
        known = {name: _typed(hint, data[name]) for name, hint in _hints(cls).items() if name in data}  # type: ignore[arg-type]
        try:
            return cls(**known)
        except TypeError as error:
            raise InvalidInputError(f"A {cls.__name__} lacks what it needs: {error}.") from error


@cache
def _hints(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in fields(cls)}


def _typed(hint: Any, value: Any) -> Any:
    """JSON has lists where records have tuples, and objects where they have records."""
    origin, inside = get_origin(hint), get_args(hint)
    if value is None:
        return None
    if origin in (Union, types.UnionType):
        options = [option for option in inside if option is not type(None)]
        return _typed(options[0], value) if len(options) == 1 else value
    if origin is tuple:
        return tuple(_typed(inside[0], item) for item in value)
    if origin is not None and isinstance(value, dict):
        return {key: _typed(inside[1], item) for key, item in value.items()}
    if isinstance(hint, type) and issubclass(hint, _JsonRecord):
        return hint.from_dict(value)
    return value


_FORMAT = "vispco-report"
VERSION = 1


@dataclass(frozen=True)
class ChainRow(_JsonRecord):
    """A chain that some samples followed: their share, and who chooses the tokens that enter each layer; "" for nobody.

    tower: who chooses what enters each block of a cut vision tower.
    """

    chain: str
    share: float
    scorers: tuple[str, ...]
    tower: tuple[str, ...] = ()


@dataclass(frozen=True)
class TaskRow(_JsonRecord):
    """Accuracy on one task, and on how many items."""

    task: str
    accuracy: float
    items: int


@dataclass(frozen=True)
class PointRow(_JsonRecord):
    """One evaluated schedule.

    fraction, flops: by the page's cost model; seconds: of the evaluation, for one sample and its whole answer, None
        where it was not measured. tasks: (task, accuracy, items), of points on the frontier.
    retention: [L]; where every sample has a schedule of its own, their mean, and `samples` says how many they are: no
        sample ran the mean. tower: the same before each block of a cut vision tower. prefill: the fraction of the whole
        prefill, where the tower is described. chains: those that they followed, of a joint search.
    """

    fraction: float
    accuracy: float
    low: float
    high: float
    retention: tuple[float, ...]
    flops: float | None = None
    seconds: float | None = None
    kl: float | None = None
    samples: int = 0
    name: str = ""
    budget: float | None = None  # that the search aimed at
    chains: tuple[ChainRow, ...] = ()
    tasks: tuple[TaskRow, ...] = ()
    tower: tuple[float, ...] = ()
    prefill: float | None = None
    asked: str = ""  # that budget as it is written, where it is of the whole prefill


@dataclass(frozen=True)
class Run(_JsonRecord):
    """Points of one search or sweep, cheapest first. frontier: the places of those that nothing dominates."""

    label: str
    kind: str  # searched | empirical
    points: tuple[PointRow, ...]
    frontier: tuple[int, ...]
    model: str = ""
    scorer: str = ""
    kernel: str = ""
    solver: str = ""
    unpruned: float | None = None  # accuracy of the unpruned model on the same items
    unpruned_tasks: tuple[TaskRow, ...] = ()
    verdict: str = ""
    folder: str = ""  # what `Pruner.from_pretrained` takes, where it can: a planner then solves each sample's schedule


@dataclass(frozen=True)
class BudgetRow(_JsonRecord):
    """A stop of the slider: for each run, the place of its most accurate affordable point; None where it has none."""

    budget: float
    choices: tuple[int | None, ...]


@dataclass(frozen=True)
class ExampleState(_JsonRecord):
    """One example at one budget.

    depth: base64 of one byte per token of the grid, row by row: how many layers process it. A token that has left
    cannot come back, so this says which tokens live at every layer: those with depth > layer.
    """

    budget: float
    answer: str
    depth: str
    correct: bool | None = None


@dataclass(frozen=True)
class Example(_JsonRecord):
    """A picture (data URI), its question, and what the model answers with all tokens and with fewer."""

    id: str
    image: str
    width: int
    height: int
    question: str
    reference: str
    unpruned: str
    rows: int
    columns: int
    layers: int
    states: tuple[ExampleState, ...]
    task: str = ""
    scorer: str = ""
    unpruned_correct: bool | None = None
    run: str = ""  # whose pruning it shows: the label of a run on the page


@dataclass(frozen=True)
class Convergence(_JsonRecord):
    """The steps of a solver. series: by name (kl, violation, w, lambda), one value per step, None where unknown."""

    label: str
    steps: tuple[float, ...]
    series: dict[str, tuple[float | None, ...]]
    run: str = ""  # the label of its run on the page
    budget: float | None = None  # that this was about; None for all at once


@dataclass(frozen=True)
class Curve(_JsonRecord):
    """Hypervolume by search cost.

    cost: seconds, or empty where the run was not timed; flops: the same in FLOPs of the language model, or empty.
    """

    label: str
    kind: str
    cost: tuple[float, ...]
    value: tuple[float, ...]
    flops: tuple[float, ...] = ()


@dataclass(frozen=True)
class MethodRow(_JsonRecord):
    """A run in one line. ratio: its hypervolume over that of all empirical points of its model and scorer."""

    label: str
    kind: str
    evaluations: int
    hypervolume: float
    accuracy: tuple[float | None, ...]  # at each of the payload's method_budgets
    ratio: float | None = None
    seconds: float | None = None  # of search
    flops: float | None = None  # of search, where it kept count


@dataclass(frozen=True)
class Areas(_JsonRecord):
    """Image areas of the training data before and after equalisation: edges [bins + 1] pixels, counts [bins]."""

    label: str
    edges: tuple[float, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]


@dataclass(frozen=True)
class Bench(_JsonRecord):
    """A table of measurements, as its run wrote it. note: what it was measured with, such as the batch size."""

    label: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class Provenance(_JsonRecord):
    """Provenance of the numbers of one run."""

    label: str
    seed: int | None = None
    command: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Summary(_JsonRecord):
    """What the page opens with: a headline, what it rests on, what is known of time; where budget and picture begin."""

    headline: str
    accuracy: str
    time: str
    budget: float
    example: int | None = None  # its place among the payload's; None where no picture has the same answer


@dataclass(frozen=True)
class Payload(_JsonRecord):
    """The page. cost_model: whose FLOPs these are. Empty tuples are parts that the page leaves out."""

    title: str
    cost_model: str
    runs: tuple[Run, ...]
    budgets: tuple[BudgetRow, ...]
    summary: Summary | None = None
    examples: tuple[Example, ...] = ()
    convergence: tuple[Convergence, ...] = ()
    hypervolume: tuple[Curve, ...] = ()
    method_budgets: tuple[float, ...] = ()
    methods: tuple[MethodRow, ...] = ()
    areas: tuple[Areas, ...] = ()
    equal_terms: tuple[Bench, ...] = ()  # other runs at the cost of a search, and what they pay for as much, as text
    spaces: tuple[Bench, ...] = ()  # full, servable and cacheable searches side by side, as text
    comparisons: tuple[Bench, ...] = ()  # `vispco compare searches`, as text
    published: tuple[Bench, ...] = ()  # `vispco compare methods`, as text
    bench: tuple[Bench, ...] = ()
    provenance: tuple[Provenance, ...] = ()
    vispco: str = ""  # the version that wrote the page
    created: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {"format": _FORMAT, "version": VERSION, **super().to_dict()}

    @classmethod
    def from_dict(cls, data: Any) -> Payload:
        if not isinstance(data, dict) or data.get("format") != _FORMAT:
            raise InvalidInputError(f'This is not a report: it has no "format": "{_FORMAT}".')
        check_version(data, VERSION, "This report")
        return super().from_dict(data)
