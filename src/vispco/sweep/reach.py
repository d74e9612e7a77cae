"""Is anybody there? Asked before a client that would wait for minutes is let loose."""

from __future__ import annotations

import socket

TIMEOUT = 5.0  # seconds


def complaint(host: str, port: int, timeout: float = TIMEOUT) -> str | None:
    """Why nothing answers at host:port; None when something does."""
    try:
        with socket.create_connection((host, port), timeout=timeout):
            return None
    except TimeoutError:
        return f"nothing answered within {timeout:g} seconds"
    except OSError as error:
        return error.strerror or str(error)
