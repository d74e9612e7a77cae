"""Pictures at addresses: from public ones or named hosts, over http(s) at every step, in a total time."""

import asyncio
import http.server
import io
import socket
import threading
import time

import pytest

pytest.importorskip("h11")

from PIL import Image

from vispco.serving.server.limits import ServerLimits
from vispco.serving.server.messages import Chat, Picture, fetch_remote
from vispco.serving.server.remote_pictures import FetchError, RemoteRules, _is_public, fetch_picture
from vispco.serving.server.request_error import RequestError

LOCAL = RemoteRules(hosts=("127.0.0.1",))


def png():
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(buffer, "PNG")
    return buffer.getvalue()


class Pictures(http.server.BaseHTTPRequestHandler):
    """/picture, /to/ADDRESS (a redirect there), /loop, /missing, /drip-head and /drip-body."""

    def do_GET(self):
        self.server.asked.append((self.path, self.headers["Host"]))
        name = self.path[1:]
        if name.startswith("to/"):
            self.send_response(302)
            self.send_header("Location", name[3:].replace("PORT", str(self.server.server_port)))
            self.end_headers()
        elif name == "loop":
            self.send_response(301)
            self.send_header("Location", "/loop")
            self.end_headers()
        elif name.startswith("drip"):
            self.wfile.write(b"HTTP/1.1 200 OK\r\n" + (b"\r\n" if name == "drip-body" else b""))
            try:
                for _ in range(100):
                    self.wfile.write(b"x")
                    time.sleep(0.05)
            except OSError:
                pass
        else:
            self.send_response(200 if name.startswith("picture") else 404)
            self.end_headers()
            self.wfile.write(png())

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pictures) as server:
        server.daemon_threads = True
        server.asked = []
        server.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def fetch(address, rules=LOCAL, max_bytes=10_000):
    return asyncio.run(fetch_picture(address, rules, max_bytes))


def refused(address, told, rules=LOCAL, max_bytes=10_000):
    with pytest.raises(FetchError, match=told):
        fetch(address, rules, max_bytes)


@pytest.mark.parametrize(
    "address",
    [
        *(
            "127.0.0.1",
            "10.0.0.1",
            "192.168.1.1",
            "172.16.0.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",  # noqa: S104
            "224.0.0.1",
        ),
        *("::1", "::", "fe80::1%eth0", "fd00::1", "::ffff:127.0.0.1", "2002:7f00:1::", "64:ff9b::a00:1", "::127.0.0.1"),
        *("64:ff9b:1::808:808", "ff0e::1", "240.0.0.1", "255.255.255.255"),
    ],
)
def test_no_private_address_passes_for_a_public_one(address):
    assert not _is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_public_addresses_are_public(address):
    assert _is_public(address)


def test_a_named_host_is_fetched_from(site):
    assert fetch(f"{site.url}/picture") == png()
    assert site.asked[0] == ("/picture", f"127.0.0.1:{site.server_port}")


@pytest.mark.parametrize("rules", [RemoteRules(public=True), RemoteRules(public=True, hosts=("127.0.0.2",))])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "[::ffff:127.0.0.1]"])
def test_an_address_of_this_machine_is_not_fetched_from(site, host, rules):
    site.asked.clear()
    refused(f"http://{host}:{site.server_port}/picture", "not on the public internet", rules)
    assert not site.asked


def test_hosts_alone_allow_no_others():
    refused("http://8.8.8.8/picture", "from 127.0.0.1 only")


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("ftp://127.0.0.1/picture", "not an http or https address"),
        ("file:///etc/passwd", "not an http or https address"),
        ("http://127.0.0.2:PORT/picture", "not on the public internet"),
        ("http://localhost:PORT/picture", "not on the public internet"),
        ("//127.0.0.2:PORT/picture", "not on the public internet"),
    ],
)
def test_every_redirect_is_checked_again(site, target, told):
    site.asked.clear()
    refused(f"{site.url}/to/{target}", told, RemoteRules(public=True, hosts=("127.0.0.1",)))
    assert [path[:4] for path, _ in site.asked] == ["/to/"]


def test_redirects_between_named_hosts_are_followed_and_end(site):
    assert fetch(f"{site.url}/to/{site.url}/picture?size=8") == png()
    assert fetch(f"{site.url}/to//picture") == png()
    refused(f"{site.url}/loop", "more than 5 times")


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("URL/missing", "status 404"),
        ("http://127.0.0.1:1/picture", "could not be read"),
        ("http://[::1", "not an http"),
        ("http://127.0.0.1:99999/", "not an http"),
        ("http:///picture", "not an http"),
    ],
)
def test_what_is_not_there_is_told(site, address, told):
    refused(address.replace("URL", site.url), told)


def test_a_large_file_is_not_read_to_its_end(site):
    refused(f"{site.url}/picture", "more than 10 bytes", max_bytes=10)


def resolver(monkeypatch, *addresses):
    """Every name leads to these addresses; what is asked for is kept."""
    asked = []

    def found(host, port, *args, **more):
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", found)
    return asked


def test_a_name_is_asked_for_once_and_its_checked_address_is_connected_to(site, monkeypatch):
    asked = resolver(monkeypatch, "127.0.0.1")
    rules = RemoteRules(hosts=("pictures.example",))
    assert fetch(f"http://pictures.example:{site.server_port}/picture", rules) == png()
    assert asked == ["pictures.example"]
    assert site.asked[-1] == ("/picture", f"pictures.example:{site.server_port}")


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["8.8.8.8", "127.0.0.1"]])
def test_a_name_with_any_private_address_is_refused(site, monkeypatch, addresses):
    resolver(monkeypatch, *addresses)
    site.asked.clear()
    refused(f"http://pictures.example:{site.server_port}/", "not on the public", RemoteRules(public=True))
    assert not site.asked


@pytest.mark.parametrize("part", ["drip-head", "drip-body"])
def test_pictures_that_drip_end_in_a_total_time_and_hold_nobody_up(site, part):
    limits = ServerLimits(fetch_seconds=0.5)

    def chat(name, number):
        return Chat([], tuple(Picture(f"picture {n}", f"{site.url}/{name}") for n in range(number)))

    async def together():
        began = time.perf_counter()
        slow = [asyncio.create_task(fetch_remote(chat(part, 2), limits, LOCAL)) for _ in range(20)]
        await asyncio.sleep(0.05)
        quick = await fetch_remote(chat("picture", 2), limits, LOCAL)
        after = time.perf_counter() - began
        return quick, after, await asyncio.gather(*slow, return_exceptions=True), time.perf_counter() - began

    quick, after, slow, ended = asyncio.run(together())
    assert [picture.source for picture in quick.pictures] == [png()] * 2
    assert after < 0.5
    assert all(isinstance(each, RequestError) and "0.5 seconds" in str(each) for each in slow)
    assert ended < 2
