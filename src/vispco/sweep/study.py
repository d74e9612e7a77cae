"""The Optuna study of a sweep: where it is stored, how it is opened, and its trials by number."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
import sqlalchemy
from optuna.distributions import BaseDistribution
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, TrialState

from vispco.core.errors import InvalidInputError
from vispco.core.runs.files import DamagedFileError
from vispco.sweep.journal import SweepJournal, file_lock, is_foreign_file

_PORTS = {"postgresql": 5432, "mysql": 3306, "mariadb": 3306}
_DRIVERS_WITH_TIMEOUT = {"psycopg", "psycopg2", "pymysql", "mysqldb"}  # they take the option `connect_timeout`
JOURNAL = "journal.log"
WRITTEN = (f"{JOURNAL}*", "*.frontier.json", "*.run.json")  # by sweeps, in their folder
_TIMEOUT = 5.0  # seconds


@dataclass(frozen=True)
class _SweepStorage:
    """An Optuna storage, its name in messages, and the lock file for changes of trials' states, if it needs one."""

    backend: optuna.storages.BaseStorage
    name: str
    lock: Path | None = None

    def state_lock(self) -> AbstractContextManager[None]:
        """Return the lock to hold while the state of a trial changes.

        Optuna makes "waiting -> running" one step in a journal (by the order of its lines) and in PostgreSQL and MySQL
        (by `SELECT ... FOR UPDATE`). SQLite has no such clause, so that two processes could get the same trial. Its
        database is one file on one machine: a lock file next to it is enough.
        """
        return file_lock(self.lock) if self.lock is not None else nullcontext()


def open_storage(storage: str | None, directory: Path) -> _SweepStorage:
    """Open a URL (`sqlite:///...`, `postgresql://...`), a journal file by its path, or the journal in `directory`."""
    if storage is None or "://" not in storage:
        return _open_journal(Path(storage) if storage is not None else directory / JOURNAL)
    try:
        url = sqlalchemy.make_url(storage)
    except sqlalchemy.exc.ArgumentError as error:
        raise InvalidInputError(
            f"The storage {storage!r} is not a URL that Optuna takes. Give sqlite:///FILE, postgresql://USER@HOST/NAME, "
            "or the path of a journal file."
        ) from error
    shown = url.render_as_string(hide_password=True)
    if url.host:
        port = url.port or _PORTS.get(url.get_backend_name(), 5432)
        problem = _connection_problem(url.host, port)
        if problem is not None:
            raise InvalidInputError(
                f"The storage {shown} cannot be reached: {problem} (port {port}). Is the database server running?"
            )
    on_disk = url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:")
    lock = Path(f"{url.database}.flock") if on_disk else None
    try:
        with file_lock(lock) if lock is not None else nullcontext():
            database = _open_database(url)
    except ImportError as error:
        raise InvalidInputError(
            f"The storage {shown} needs the Python driver {url.get_driver_name()!r}, which is not installed: "
            f"pip install {url.get_driver_name()}."
        ) from error
    except (sqlalchemy.exc.SQLAlchemyError, OSError, RuntimeError) as error:
        why = error.strerror if isinstance(error, OSError) else str(getattr(error, "orig", None) or error)
        why = (why or str(error)).strip().splitlines()[0]
        raise InvalidInputError(f"The storage {shown} cannot be opened: {why}.") from error
    return _SweepStorage(optuna.storages.get_storage(database), shown, lock)


def _open_database(url: sqlalchemy.URL) -> optuna.storages.RDBStorage:
    """Open the database and create its tables if it has none. If several processes do so at once, all but one fail."""
    options: dict[str, Any] = {"pool_pre_ping": True}
    if url.get_driver_name() in _DRIVERS_WITH_TIMEOUT:
        options["connect_args"] = {"connect_timeout": 10}
    for wait in (1.0, 2.0):
        try:
            return optuna.storages.RDBStorage(url.render_as_string(hide_password=False), engine_kwargs=options)
        except (sqlalchemy.exc.IntegrityError, sqlalchemy.exc.ProgrammingError):
            time.sleep(wait)
    return optuna.storages.RDBStorage(url.render_as_string(hide_password=False), engine_kwargs=options)


def _open_journal(path: Path) -> _SweepStorage:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if (path.exists() and not path.is_file()) or is_foreign_file(path):
            raise ValueError  # noqa: TRY301
        return _SweepStorage(optuna.storages.JournalStorage(SweepJournal(path)), str(path))
    except DamagedFileError:
        raise
    except (OSError, ValueError, KeyError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not an Optuna journal"
        raise InvalidInputError(
            f"The journal {path} cannot be opened: {why}. Give another folder or storage."
        ) from error


def _connection_problem(host: str, port: int) -> str | None:
    """Return why no server answers at host:port; None if one does."""
    try:
        with socket.create_connection((host, port), timeout=_TIMEOUT):
            return None
    except TimeoutError:
        return f"nothing answered within {_TIMEOUT:g} seconds"
    except OSError as error:
        return error.strerror or str(error)


_IDENTITY = "vispco"  # the study attribute that holds the settings of the sweep
_DIRECTIONS = ("minimize", "maximize")  # cost, accuracy: Optuna's dashboard draws the frontier from these


class SweepStudy:
    """The trials of one study. Changes to a trial that another process has finished are ignored."""

    def __init__(self, study: optuna.Study, storage: _SweepStorage) -> None:
        self.name = study.study_name
        self.storage = storage
        self._backend = study._storage  # noqa: SLF001  # the storage with its cache, as the study itself uses it
        self._study_id = self._backend.get_study_id_from_name(self.name)
        self._trial_ids: dict[int, int] = {}

    @classmethod
    def open(cls, storage: _SweepStorage, name: str, identity: Mapping[str, Any]) -> SweepStudy:
        """Create the study `name`, or open an existing one with the same `identity` (model, space, tasks, ...)."""
        wanted = json.loads(json.dumps(identity))
        with storage.state_lock():
            study = optuna.create_study(
                storage=storage.backend, study_name=name, directions=_DIRECTIONS, load_if_exists=True
            )
            found = study.user_attrs.get(_IDENTITY)
            if found is None and not study.get_trials(deepcopy=False):
                study.set_user_attr(_IDENTITY, wanted)
                found = wanted
        if found is None:
            raise InvalidInputError(f"The study {name!r} in {storage.name} was not made by vispco. Give another name.")
        existing, given = _flatten(found), _flatten(wanted)
        differing = sorted(key for key in {*existing, *given} if existing.get(key) != given.get(key))
        if differing:
            theirs, ours = (", ".join(f"{key}={one.get(key)!r}" for key in differing) for one in (existing, given))
            raise InvalidInputError(
                f"The study {name!r} in {storage.name} is another sweep: it has {theirs}; this one has {ours}. Give another "
                "name, or the same settings to continue it."
            )
        return cls(study, storage)

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


def _flatten(identity: Mapping[str, Any]) -> dict[str, Any]:
    own = {key: value for key, value in identity.items() if key != "fingerprint"}
    more = identity.get("fingerprint", {})
    return own | {f"samples {key}" if key in own else key: value for key, value in more.items()}  # both have a seed
