"""Checks that a server answers, before a client is started that would wait for minutes."""

from __future__ import annotations

import socket

TIMEOUT = 5.0  # seconds
SETTINGS_FRAME = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"  # an empty HTTP/2 SETTINGS frame; both sides begin with one
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SETTINGS_FRAME


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
