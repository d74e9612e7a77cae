"""The few things that a sweep does to trials in an Optuna storage, by trial number."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import optuna
from optuna.exceptions import UpdateFinishedTrialError

from vispco.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial, TrialState

    from vispco.sweep.storage import Store

KEY = "vispco"
DIRECTIONS = ("minimize", "maximize")  # cost, accuracy: the dashboard then draws the frontier by itself


class Book:
    """The trials of one study. A trial that someone else has finished meanwhile is left as it is."""

    def __init__(self, study: optuna.Study, store: Store) -> None:
        self.name = study.study_name
        self.store = store
        self._storage = study._storage  # noqa: SLF001  # the storage with its cache, as the study itself uses it
        self._study_id = self._storage.get_study_id_from_name(self.name)
        self._ids: dict[int, int] = {}

    def trials(self) -> list[FrozenTrial]:
        """All trials; a trial's number is its index."""
        return sorted(self._storage.get_all_trials(self._study_id, deepcopy=False), key=lambda trial: trial.number)

    def attributes(self) -> dict[str, Any]:
        """What sweeps have said about themselves in the study."""
        return dict(self._storage.get_study_user_attrs(self._study_id))

    def say(self, key: str, value: Any) -> None:
        self._storage.set_study_user_attr(self._study_id, key, value)

    def add(
        self,
        state: TrialState,
        params: Mapping[str, float],
        distributions: Mapping[str, BaseDistribution],
        attributes: Mapping[str, Any],
        system_attributes: Mapping[str, Any] | None = None,
    ) -> int:
        """Add a trial that is waiting or running, in one step; its number."""
        template = optuna.trial.create_trial(
            state=state,
            params=dict(params),
            distributions=dict(distributions),
            user_attrs=dict(attributes),
            system_attrs=dict(system_attributes or {}),
        )
        return int(self._storage.get_trial(self._storage.create_new_trial(self._study_id, template)).number)

    def sampled(self, number: int, sampler: optuna.samplers.BaseSampler) -> optuna.Trial:
        """The trial, to be asked for its parameters (a new `Study`, because it caches the history that samplers see)."""
        study = optuna.load_study(study_name=self.name, storage=self._storage, sampler=sampler)
        return optuna.trial.Trial(study, self._id(number))

    def get(self, number: int) -> FrozenTrial:
        return self._storage.get_trial(self._id(number))

    def note(self, number: int, **attributes: Any) -> None:
        for key, value in attributes.items():
            try:
                self._storage.set_trial_user_attr(self._id(number), key, value)
            except UpdateFinishedTrialError:
                return

    def finish(self, number: int, state: TrialState, values: list[float] | None = None) -> bool:
        """End a trial; False when it had ended already."""
        with self.store.transition():
            return self.set_state(number, state, values)

    def set_state(self, number: int, state: TrialState, values: list[float] | None = None) -> bool:
        """Change a trial's state, inside of a `transition`; False when someone was faster."""
        try:
            return bool(self._storage.set_trial_state_values(self._id(number), state, values))
        except UpdateFinishedTrialError:
            return False

    def _id(self, number: int) -> int:
        if number not in self._ids:
            self._ids[number] = self._storage.get_trial_id_from_study_id_trial_number(self._study_id, number)
        return self._ids[number]


def open_study(store: Store, name: str, identity: Mapping[str, Any]) -> optuna.Study:
    """The study `name`: a new one, or the one that is there, if it is of the same model, space, tasks and so on."""
    wanted = json.loads(json.dumps(identity))
    with store.transition():
        study = optuna.create_study(storage=store.optuna, study_name=name, directions=DIRECTIONS, load_if_exists=True)
        found = study.user_attrs.get(KEY)
        if found is None and not study.get_trials(deepcopy=False):
            study.set_user_attr(KEY, wanted)
            return study
    if found is None:
        raise InvalidInputError(f"The study {name!r} in {store.name} was not made by vispco. Give another name.")
    theirs, ours = _flat(found), _flat(wanted)
    differing = sorted(key for key in {*theirs, *ours} if theirs.get(key) != ours.get(key))
    if differing:
        raise InvalidInputError(
            f"The study {name!r} in {store.name} is another sweep: it has {_named(theirs, differing)}; "
            f"this one has {_named(ours, differing)}. Give another name, or the same settings to go on with it."
        )
    return study


def _flat(identity: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in identity.items() if k != "fingerprint"} | dict(identity.get("fingerprint", {}))


def _named(identity: Mapping[str, Any], keys: list[str]) -> str:
    return ", ".join(f"{key}={identity.get(key)!r}" for key in keys)
