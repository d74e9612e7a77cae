"""Pictures at http(s) addresses, fetched from public addresses alone; neither a name nor a redirect leads elsewhere."""

import asyncio
import ipaddress
import socket
import ssl
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import SplitResult, quote, urljoin, urlsplit

import h11

from vispco.core.errors import VispcoError
from vispco.version import __version__

_MAX_REDIRECTS = 5
_CHUNK = 1 << 16
_REDIRECTS = (301, 302, 303, 307, 308)
_SAFE = "/%:=&~+!$,;'@()*?"  # in a path or query that is quoted already, or not
_PORTS = {"http": 80, "https": 443}
_EMBEDDED_IPV4 = (ipaddress.IPv6Network("::/96"), ipaddress.IPv6Network("64:ff9b::/96"))
_LOCAL_NAT64 = ipaddress.IPv6Network("64:ff9b:1::/48")


class FetchError(VispcoError):
    """A picture that could not or may not be fetched; the message says why, the caller knows which it is."""


@dataclass(frozen=True)
class RemoteRules:
    """Hosts that pictures are fetched from. public: every public address. hosts: these names, whatever their addresses."""

    public: bool = False
    hosts: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.public or bool(self.hosts)


async def fetch_picture(address: str, rules: RemoteRules, max_bytes: int) -> bytes:
    """The bytes at an address; every redirect is checked as the address was."""
    for _ in range(_MAX_REDIRECTS + 1):
        try:
            url = urlsplit(address)
            known = url.scheme in _PORTS and url.hostname is not None and url.port != 0
        except ValueError:
            known = False
        if not known:
            raise FetchError(f"{address[:200]!r} is not an http or https address, and nothing else is fetched")
        try:
            status, data, location = await _get(url, await _checked_addresses(url, rules), max_bytes)
        except (OSError, ValueError, h11.ProtocolError) as error:
            raise FetchError(f"{url.hostname} could not be read: {error or type(error).__name__}") from error
        if status not in _REDIRECTS or location is None:
            break
        address = urljoin(address, location)
    else:
        raise FetchError(f"it was redirected more than {_MAX_REDIRECTS} times")
    if status != 200:
        raise FetchError(f"{url.hostname} answered with status {status}")
    return data


def _is_public(address: str) -> bool:
    """Whether an IP address belongs to the public internet; one that stands for an IPv4 address is judged by that."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour
        if any(ip in network for network in _EMBEDDED_IPV4):
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None:
            return _is_public(str(inner))
        if ip in _LOCAL_NAT64:
            return False
    return ip.is_global and not ip.is_multicast


async def _checked_addresses(url: SplitResult, rules: RemoteRules) -> list[str]:
    """Where the host's name leads, asked once: what is checked here is what is connected to."""
    host = url.hostname or ""
    named = host in rules.hosts
    if not named and not rules.public:
        raise FetchError(f"pictures are fetched from {', '.join(rules.hosts)} only (`--allow-image-host`)")
    port = url.port or _PORTS[url.scheme]
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
    if not named and not all(map(_is_public, addresses)):
        raise FetchError(f"{host} is not on the public internet (`--allow-image-host {host}` would allow it)")
    return addresses


async def _get(url: SplitResult, addresses: list[str], max_bytes: int) -> tuple[int, bytes, str | None]:
    """(status, body, where it is redirected to) from the first address that answers."""
    secure = _tls() if url.scheme == "https" else None
    name, port = url.hostname if secure is not None else None, url.port or _PORTS[url.scheme]
    for number, address in enumerate(addresses, 1):
        try:
            reader, writer = await asyncio.open_connection(address, port, ssl=secure, server_hostname=name)
            break
        except OSError:
            if number == len(addresses):
                raise
    try:
        connection = h11.Connection(h11.CLIENT)
        # without the name and password that an address may hold
        host = url.netloc.rpartition("@")[2].encode("idna").decode()
        path = quote(url.path or "/", safe=_SAFE) + (f"?{quote(url.query, safe=_SAFE)}" if url.query else "")
        about = [
            ("Host", host),
            ("User-Agent", f"vispco/{__version__}"),
            ("Accept", "image/*"),
            ("Connection", "close"),
        ]
        writer.write(connection.send(h11.Request(method="GET", target=path, headers=about)) or b"")
        writer.write(connection.send(h11.EndOfMessage()) or b"")
        return await _response(connection, reader, max_bytes)
    finally:
        writer.close()


async def _response(
    connection: h11.Connection, reader: asyncio.StreamReader, max_bytes: int
) -> tuple[int, bytes, str | None]:
    status, location, body = 0, None, bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(_CHUNK))
        elif isinstance(event, h11.Response):
            status, given = event.status_code, dict(event.headers).get(b"location")
            location = None if given is None else given.decode("latin-1")
            if status != 200:
                return status, b"", location
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > max_bytes:
                raise FetchError(f"more than {max_bytes:,} bytes came, and a request may fetch no more (`--max-body`)")
        elif isinstance(event, (h11.EndOfMessage, h11.ConnectionClosed)):
            return status, bytes(body), location


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()
