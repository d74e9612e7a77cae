"""What one request may hold, told by headers before anything is decoded; and options that set it, in a server of its own."""

import re
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from PIL import Image

from serving.server.conftest import Server, data_url, read_to_end
from serving.server.test_trouble import refused
from vispco.core.errors import InvalidInputError
from vispco.serving.server.limits import ServerLimits


def picture(width, height, mode="1"):
    return {"type": "image_url", "image_url": {"url": data_url(Image.new(mode, (width, height)))}}


def memory(server) -> int:
    """The most memory that the server has ever had, in MB."""
    told = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", told)[1]) // 1024


def test_many_pictures_of_many_pixels_take_no_memory(server):
    if not Path("/proc/self/status").exists():
        pytest.skip("the memory of another process is read from /proc")
    before = memory(server)
    large = picture(4096, 4096)
    refused(server, 400, "60 pictures", "--max-images", content=[large] * 60)
    refused(server, 400, "67,108,864 pixels", "--max-megapixels", content=[large] * 16)
    assert memory(server) - before < 100


def test_the_number_of_pictures_is_told_before_one_is_read(server):
    broken = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    refused(server, 400, "17 pictures", content=[broken] * 17)


def test_pixels_are_counted_in_headers(server):
    """The last of them is cut off: had one been decoded before, it would be said that it cannot be read."""
    cut = picture(5000, 5000)
    cut["image_url"]["url"] = cut["image_url"]["url"][:82]
    refused(server, 400, "75,000,000 pixels", content=[cut] * 3)


def test_a_long_prompt_is_refused_at_once(server):
    began = time.perf_counter()
    refused(server, 400, "tokens or more; this server takes 2,048", content="red " * 25_000)
    refused(server, 400, "800,000 characters", content="red " * 200_000)
    assert time.perf_counter() - began < 5


def test_pictures_count_into_the_prompt(server):
    refused(server, 400, "tokens or more", "smaller pictures", content=[picture(1000, 1000)] * 16)


@pytest.mark.parametrize("name", ["max_images", "max_megapixels", "header_seconds", "max_body"])
def test_limits_are_numbers_above_0(name):
    with pytest.raises(InvalidInputError, match=f"--{name.replace('_', '-')} 0 was given"):
        ServerLimits(**{name: 0})


class Slow(BaseHTTPRequestHandler):
    """Never sends the picture that it promises."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        time.sleep(2)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def strict():
    running = Server(
        *("--key", "secret", "--max-images", "2", "--max-megapixels", "0.5", "--max-prompt-tokens", "90"),
        *("--allow-image-host", "127.0.0.1", "--fetch-seconds", "0.5", "--grace-seconds", "0.5"),
    )
    running.client = lambda: Server.client(running).with_options(api_key="secret")
    yield running
    running.process.terminate()
    running.process.wait(20)


def test_options_of_the_command_set_the_limits(strict):
    refused(strict, 400, "takes 2 at most", content=[picture(8, 8)] * 3)
    refused(strict, 400, "takes 500,000 in a", content=[picture(1000, 501)])
    refused(strict, 400, "takes 90 at most", content="red " * 91)
    assert strict.post("x" * 10_000_000)[0] == 401


def test_a_slow_picture_holds_up_nobody_and_other_hosts_are_not_asked(strict):
    def asked(address):
        content = [{"type": "image_url", "image_url": {"url": address}}, {"type": "text", "text": "what color?"}]
        return strict.open(content, "Authorization: Bearer secret\r\n", max_tokens=2)

    with ThreadingHTTPServer(("127.0.0.1", 0), Slow) as site:
        site.daemon_threads = True
        threading.Thread(target=site.serve_forever, daemon=True).start()
        port = site.server_port
        slow = [asked(f"http://127.0.0.1:{port}/") for _ in range(8)]
        began = time.perf_counter()
        quick = strict.client().chat.completions.create(
            model="tiny-qwen", max_tokens=2, messages=[{"role": "user", "content": [picture(28, 28)]}]
        )
        assert quick.usage.pruning["visual_tokens"] > 0
        assert time.perf_counter() - began < 3
        assert all(b"did not arrive: 0.5 seconds" in read_to_end(client) for client in slow)
        assert b"from 127.0.0.1 only" in read_to_end(asked(f"http://localhost:{port}/"))
        site.shutdown()


def test_a_server_that_is_told_to_stop_does_not_wait_for_a_long_answer(strict):
    import vispco
    from vispco.evaluation.encoded import end_tokens

    ends = {str(token): -100 for token in end_tokens(*vispco.load("tiny-qwen"))}
    client = strict.open("what color?", "Authorization: Bearer secret\r\n", max_tokens=4000, logit_bias=ends)
    time.sleep(0.3)
    strict.process.send_signal(signal.SIGTERM)
    began = time.perf_counter()
    strict.process.wait(20)
    assert 0.4 < time.perf_counter() - began < 15
    assert b"The server is stopping" in read_to_end(client)
    assert "Traceback" not in strict.process.stderr.read()
