"""The Optuna study of a sweep: opening it, and reading and changing its trials by number."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import optuna
from optuna.exceptions import UpdateFinishedTrialError

from vispco.core.errors import InvalidInputError
from vispco.sweep.journal import STUDY_COPY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial, TrialState

    from vispco.sweep.storage import SweepStorage

IDENTITY = "vispco"  # the study attribute that holds the settings of the sweep
DIRECTIONS = ("minimize", "maximize")  # cost, accuracy: Optuna's dashboard draws the frontier from these


class SweepStudy:
    """The trials of one study. Changes to a trial that another process has finished are ignored."""

    def __init__(self, study: optuna.Study, storage: SweepStorage) -> None:
        self.name = study.study_name
        self.storage = storage
        self._backend = study._storage  # noqa: SLF001  # the storage with its cache, as the study itself uses it
        self._study_id = self._backend.get_study_id_from_name(self.name)
        self._trial_ids: dict[int, int] = {}

    @classmethod
    def open(cls, storage: SweepStorage, name: str, identity: Mapping[str, Any]) -> SweepStudy:
        """Create the study `name`, or open an existing one with the same `identity` (model, space, tasks, ...)."""
        return cls(_open_optuna_study(storage, name, identity), storage)

    def trials(self) -> list[FrozenTrial]:
        """Return all trials; the index of a trial is its number."""
        return sorted(self._backend.get_all_trials(self._study_id, deepcopy=False), key=lambda trial: trial.number)

    def attributes(self) -> dict[str, Any]:
        """Return the attributes of the study: its identity and the heartbeats of its sweeps."""
        return dict(self._backend.get_study_user_attrs(self._study_id))

    def set_attribute(self, key: str, value: Any) -> None:
        self._backend.set_study_user_attr(self._study_id, key, value)

    def add_trial(
        self,
        state: TrialState,
        params: Mapping[str, float],
        distributions: Mapping[str, BaseDistribution],
        attributes: Mapping[str, Any],
        system_attributes: Mapping[str, Any] | None = None,
    ) -> int:
        """Add a waiting or running trial in one step and return its number."""
        template = optuna.trial.create_trial(
            state=state,
            params=dict(params),
            distributions=dict(distributions),
            user_attrs=dict(attributes),
            system_attrs=dict(system_attributes or {}),
        )
        return int(self._backend.get_trial(self._backend.create_new_trial(self._study_id, template)).number)

    def sampler_trial(self, number: int, sampler: optuna.samplers.BaseSampler) -> optuna.Trial:
        """Return a trial that `sampler` suggests parameters for.

        A new `Study` is loaded each time, because a study caches the history that samplers see.
        """
        study = optuna.load_study(study_name=self.name, storage=self._backend, sampler=sampler)
        return optuna.trial.Trial(study, self._id(number))

    def trial(self, number: int) -> FrozenTrial:
        return self._backend.get_trial(self._id(number))

    def set_trial_attributes(self, number: int, **attributes: Any) -> None:
        for key, value in attributes.items():
            try:
                self._backend.set_trial_user_attr(self._id(number), key, value)
            except UpdateFinishedTrialError:
                return

    def finish(self, number: int, state: TrialState, values: list[float] | None = None) -> bool:
        """End a trial; return False if it had already ended."""
        with self.storage.state_lock():
            return self.set_state(number, state, values)

    def set_state(self, number: int, state: TrialState, values: list[float] | None = None) -> bool:
        """Change the state of a trial while holding `state_lock`; return False if another process was faster."""
        try:
            return bool(self._backend.set_trial_state_values(self._id(number), state, values))
        except UpdateFinishedTrialError:
            return False

    def _id(self, number: int) -> int:
        if number not in self._trial_ids:
            self._trial_ids[number] = self._backend.get_trial_id_from_study_id_trial_number(self._study_id, number)
        return self._trial_ids[number]


def _open_optuna_study(storage: SweepStorage, name: str, identity: Mapping[str, Any]) -> optuna.Study:
    wanted = json.loads(json.dumps(identity))
    with storage.state_lock():
        study = optuna.create_study(
            storage=storage.backend, study_name=name, directions=DIRECTIONS, load_if_exists=True
        )
        attributes = study.user_attrs
        found = attributes.get(IDENTITY) or attributes.get(STUDY_COPY, {}).get("identity")
        if found is None and not study.get_trials(deepcopy=False):
            study.set_user_attr(IDENTITY, wanted)
            study.set_user_attr(STUDY_COPY, {"name": name, "identity": wanted})
            return study
    if found is None:
        raise InvalidInputError(f"The study {name!r} in {storage.name} was not made by vispco. Give another name.")
    existing, given = _flatten(found), _flatten(wanted)
    differing = sorted(key for key in {*existing, *given} if existing.get(key) != given.get(key))
    if differing:
        raise InvalidInputError(
            f"The study {name!r} in {storage.name} is another sweep: it has {_listed(existing, differing)}; "
            f"this one has {_listed(given, differing)}. Give another name, or the same settings to continue it."
        )
    return study


def _flatten(identity: Mapping[str, Any]) -> dict[str, Any]:
    own = {key: value for key, value in identity.items() if key != "fingerprint"}
    more = identity.get("fingerprint", {})
    return own | {f"samples {key}" if key in own else key: value for key, value in more.items()}  # both have a seed


def _listed(identity: Mapping[str, Any], keys: list[str]) -> str:
    return ", ".join(f"{key}={identity.get(key)!r}" for key in keys)
