"""Where a sweep is recorded: a journal file in its folder, or any Optuna storage by its URL."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
import sqlalchemy

from vispco.errors import InvalidInputError
from vispco.sweep import connection
from vispco.sweep.journal import Journal, exclusive

PORTS = {"postgresql": 5432, "mysql": 3306, "mariadb": 3306}
TIMED_DRIVERS = {"psycopg", "psycopg2", "pymysql", "mysqldb"}  # those that know the option `connect_timeout`
JOURNAL = "journal.log"


@dataclass(frozen=True)
class Store:
    """An Optuna storage, what a user calls it, and the lock file under which its trials change hands, if it needs one."""

    optuna: optuna.storages.BaseStorage
    name: str
    lock: Path | None = None

    def transition(self) -> AbstractContextManager[None]:
        """Around every change of a trial's state.

        Optuna makes "waiting -> running" one step in a journal (by the order of its lines) and in PostgreSQL and MySQL
        (by `SELECT ... FOR UPDATE`). SQLite has no such clause: two processes do get the same trial. It is one file on
        one machine, so a lock beside it is enough.
        """
        return exclusive(self.lock) if self.lock is not None else nullcontext()


def open_store(storage: str | None, directory: Path) -> Store:
    """The storage at a URL (`sqlite:///...`, `postgresql://...`), or a journal file: by its path, or in `directory`."""
    if storage is None or "://" not in storage:
        return _journal(Path(storage) if storage is not None else directory / JOURNAL)
    try:
        url = sqlalchemy.make_url(storage)
    except sqlalchemy.exc.ArgumentError as error:
        raise InvalidInputError(
            f"The storage {storage!r} is no URL that Optuna takes. Give sqlite:///FILE, postgresql://USER@HOST/NAME, "
            "or the path of a journal file."
        ) from error
    shown = url.render_as_string(hide_password=True)
    if url.host:
        port = url.port or PORTS.get(url.get_backend_name(), 5432)
        why = connection.complaint(url.host, port)
        if why is not None:
            raise InvalidInputError(
                f"The storage {shown} cannot be reached: {why} (port {port}). Is the database server running?"
            )
    on_disk = url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:")
    lock = Path(f"{url.database}.flock") if on_disk else None
    try:
        with exclusive(lock) if lock is not None else nullcontext():
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
    return Store(optuna.storages.get_storage(database), shown, lock)


def _open_database(url: sqlalchemy.URL) -> optuna.storages.RDBStorage:
    """Open it, and make its tables if it has none: of several that do so at once, Optuna lets all but one fail."""
    options: dict[str, Any] = {"pool_pre_ping": True}
    if url.get_driver_name() in TIMED_DRIVERS:
        options["connect_args"] = {"connect_timeout": 10}
    for wait in (1.0, 2.0):
        try:
            return optuna.storages.RDBStorage(url.render_as_string(hide_password=False), engine_kwargs=options)
        except (sqlalchemy.exc.IntegrityError, sqlalchemy.exc.ProgrammingError):
            time.sleep(wait)
    return optuna.storages.RDBStorage(url.render_as_string(hide_password=False), engine_kwargs=options)


def _journal(path: Path) -> Store:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        backend = Journal(path)
        return Store(optuna.storages.JournalStorage(backend), str(path), None)
    except (OSError, ValueError, KeyError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not a journal of Optuna"
        raise InvalidInputError(
            f"The journal {path} cannot be opened: {why}. Give another folder or storage."
        ) from error
