"""The storage of a sweep: a journal file in its folder, or any Optuna storage given by its URL, if its server answers."""

from __future__ import annotations

import socket
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
import sqlalchemy

from vispco.core.errors import InvalidInputError
from vispco.sweep.journal import SweepJournal, file_lock, is_foreign_file

PORTS = {"postgresql": 5432, "mysql": 3306, "mariadb": 3306}
DRIVERS_WITH_TIMEOUT = {"psycopg", "psycopg2", "pymysql", "mysqldb"}  # they take the option `connect_timeout`
JOURNAL = "journal.log"
TIMEOUT = 5.0  # seconds
SETTINGS_FRAME = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"  # an empty HTTP/2 SETTINGS frame; both sides begin with one
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SETTINGS_FRAME


@dataclass(frozen=True)
class SweepStorage:
    """An Optuna storage, its name in messages, and the lock file for changes of trials' states, if it needs one."""

    backend: optuna.storages.BaseStorage
    name: str
    lock: Path | None = None
    journal: SweepJournal | None = None

    @property
    def damaged_lines(self) -> int:
        """How many damaged lines of the journal were skipped."""
        return 0 if self.journal is None else self.journal.damaged_lines

    def state_lock(self) -> AbstractContextManager[None]:
        """Return the lock to hold while the state of a trial changes.

        Optuna makes "waiting -> running" one step in a journal (by the order of its lines) and in PostgreSQL and MySQL
        (by `SELECT ... FOR UPDATE`). SQLite has no such clause, so that two processes could get the same trial. Its
        database is one file on one machine: a lock file next to it is enough.
        """
        return file_lock(self.lock) if self.lock is not None else nullcontext()


def open_storage(storage: str | None, directory: Path) -> SweepStorage:
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
        port = url.port or PORTS.get(url.get_backend_name(), 5432)
        problem = connection_problem(url.host, port)
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
    return SweepStorage(optuna.storages.get_storage(database), shown, lock)


def _open_database(url: sqlalchemy.URL) -> optuna.storages.RDBStorage:
    """Open the database and create its tables if it has none. If several processes do so at once, all but one fail."""
    options: dict[str, Any] = {"pool_pre_ping": True}
    if url.get_driver_name() in DRIVERS_WITH_TIMEOUT:
        options["connect_args"] = {"connect_timeout": 10}
    for wait in (1.0, 2.0):
        try:
            return optuna.storages.RDBStorage(url.render_as_string(hide_password=False), engine_kwargs=options)
        except (sqlalchemy.exc.IntegrityError, sqlalchemy.exc.ProgrammingError):
            time.sleep(wait)
    return optuna.storages.RDBStorage(url.render_as_string(hide_password=False), engine_kwargs=options)


def _open_journal(path: Path) -> SweepStorage:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if (path.exists() and not path.is_file()) or is_foreign_file(path):
            raise ValueError  # noqa: TRY301
        journal = SweepJournal(path)
        return SweepStorage(optuna.storages.JournalStorage(journal), str(path), journal=journal)
    except (OSError, ValueError, KeyError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not an Optuna journal"
        raise InvalidInputError(
            f"The journal {path} cannot be opened: {why}. Give another folder or storage."
        ) from error


def connection_problem(host: str, port: int, *, grpc: bool = False, timeout: float = TIMEOUT) -> str | None:
    """Return why no server (with `grpc`: no gRPC server) answers at host:port; None if one does."""
    try:
        with socket.create_connection((host, port), timeout=timeout) as connection:
            if not grpc:
                return None
            connection.sendall(PREFACE)
            answer = connection.recv(len(SETTINGS_FRAME), socket.MSG_WAITALL)
    except TimeoutError:
        return f"nothing answered within {timeout:g} seconds"
    except OSError as error:
        return error.strerror or str(error)
    return None if answer[3:4] == SETTINGS_FRAME[3:4] else "the server there does not speak gRPC"
