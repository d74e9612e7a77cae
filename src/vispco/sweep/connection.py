"""Is anybody there? Asked before a client that would wait for minutes is let loose."""

from __future__ import annotations

import socket

TIMEOUT = 5.0  # seconds
SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"  # an empty SETTINGS frame of HTTP/2, with which both sides begin
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SETTINGS


def complaint(host: str, port: int, *, grpc: bool = False, timeout: float = TIMEOUT) -> str | None:
    """Why nothing answers at host:port (or nothing that speaks gRPC, where asked); None when something does."""
    try:
        with socket.create_connection((host, port), timeout=timeout) as connection:
            if not grpc:
                return None
            connection.sendall(GREETING)
            answer = connection.recv(len(SETTINGS), socket.MSG_WAITALL)
    except TimeoutError:
        return f"nothing answered within {timeout:g} seconds"
    except OSError as error:
        return error.strerror or str(error)
    return None if answer[3:4] == SETTINGS[3:4] else "what answers there does not speak gRPC"
