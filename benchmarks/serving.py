"""Load: requests per second and time to first token of pruned and unpruned engines, vLLM and `vispco serve`.

make vllm-bench NAME=serving        in the environment of `make vllm-test`; some ten minutes of one core

A Qwen2.5-VL of 34 million random weights, pictures of three sizes, answers of four tokens. Concurrency is the number of
requests in flight. Cold pictures are new to the engine; repeated ones were asked about before, with another question. All
is measured in processor time and interleaved, since the machine may be busy. `vispco serve` answers one request at a time, so
that its time to first token under load is mostly that of those who came before.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:] = [
    *(place for place in sys.path if Path(place or ".").resolve() != HERE),
    str(HERE),
]  # `vllm` is not vllm.py
sys.path.insert(0, str(HERE.parent / "tests"))

import argparse  # noqa: E402
import os  # noqa: E402
import statistics  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from concurrent.futures import ThreadPoolExecutor  # noqa: E402
from typing import Any  # noqa: E402

from figures import Figure, write  # noqa: E402
from vllm_load import Load, LoadedEngine, Server, pictures, write_model  # noqa: E402
from vllm_plugin.pairs import ENVIRONMENT  # noqa: E402

WIDTHS: dict[str, Any] = {
    "text_config": {
        "hidden_size": 512,
        "intermediate_size": 2048,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "num_hidden_layers": 8,
        "layer_types": ["full_attention"] * 8,
        "rope_parameters": {"mrope_section": [8, 12, 12], "rope_theta": 10000.0, "rope_type": "default"},
    },
    "vision_config": {
        "hidden_size": 256,
        "intermediate_size": 704,
        "num_heads": 8,
        "depth": 4,
        "out_hidden_size": 512,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "fullatt_block_indexes": [1, 3],
        "window_size": 112,
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "axial"},
    },
}
SHARES = (1.0, 0.25)
CONCURRENCIES = (1, 8, 32)
SIZES = ((448, 336), (560, 420), (336, 560))
QUESTIONS = ("what is the color of the circle?", "how many circles are there?")
TOKENS = 4


def write_weights(folder: Path) -> Path:
    import torch
    from transformers import AutoConfig, AutoModelForImageTextToText

    place = write_model(folder / "model", WIDTHS)
    torch.manual_seed(0)
    model = AutoModelForImageTextToText.from_config(AutoConfig.from_pretrained(place), dtype=torch.float32)
    model.save_pretrained(place)
    return place


def measure_vllm(place: Path, requests: int, rounds: int) -> dict[str, Any]:
    """By concurrency, picture and share: requests per second and times to first token, round by round."""
    engine = LoadedEngine(place, 1.0, load_format="auto", max_model_len=1024, max_num_batched_tokens=1024)
    tokenizer = engine.llm.get_tokenizer()
    texts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": question}]}],
            tokenize=False,
            add_generation_prompt=True,
        )
        for question in QUESTIONS
    ]
    shown = pictures([SIZES[number % len(SIZES)] for number in range(requests)])

    def prompts(share: float, text: str) -> list[dict[str, Any]]:
        extra = {"mm_processor_kwargs": {"vispco_keep": share}}
        return [{"prompt": text, "multi_modal_data": {"image": one}, **extra} for one in shown]

    engine.run(prompts(0.25, texts[0])[:2], 1)  # warms up
    found: dict[str, Any] = {}
    for number in range(rounds):
        for concurrency in CONCURRENCIES:
            for share in SHARES if number % 2 == 0 else SHARES[::-1]:
                engine.forget()
                for kind, text in zip(("cold", "repeated"), texts, strict=True):
                    add(found, f"{kind}.{concurrency}.{share}", engine.run(prompts(share, text), concurrency, TOKENS))
        print("vllm", number, {key: round(row["rps"][-1], 2) for key, row in found.items()}, flush=True)
    return found


def load_server(server: Server, shown: list[Any], concurrency: int) -> Load:
    """Processor time of the server for all requests, and until the first token of each."""
    begin = server.seconds
    with ThreadPoolExecutor(concurrency) as pool:
        first = list(pool.map(lambda picture: server.first_token(picture, QUESTIONS[0], TOKENS), shown))
    return Load(server.seconds - begin, first)


def add(found: dict[str, Any], key: str, load: Load) -> None:
    row = found.setdefault(key, {"rps": [], "p50": [], "p95": []})
    row["rps"].append(len(load.first) / load.seconds)
    row["p50"].append(load.percentile(0.5))
    row["p95"].append(load.percentile(0.95))


def measure_serve(place: Path, folder: Path, requests: int, rounds: int) -> dict[str, Any]:
    """By concurrency and share: requests per second and times to first token, round by round."""
    shown = pictures([SIZES[number % len(SIZES)] for number in range(requests)])
    layers: int = WIDTHS["text_config"]["num_hidden_layers"]
    servers = {share: Server(str(place), share, layers, folder) for share in SHARES}
    found: dict[str, Any] = {}
    try:
        for server in servers.values():
            load_server(server, shown[:2], 1)  # warms up
        for number in range(rounds):
            for concurrency in CONCURRENCIES:
                for share in SHARES if number % 2 == 0 else SHARES[::-1]:
                    add(found, f"{concurrency}.{share}", load_server(servers[share], shown, concurrency))
            print("serve", number, {key: round(row["rps"][-1], 2) for key, row in found.items()}, flush=True)
    finally:
        for server in servers.values():
            server.close()
    return found


def ratio(found: dict[str, Any], key: str, what: str) -> float:
    """Pruned over unpruned, the median of the rounds."""
    both = (found[f"{key}.{share}"][what] for share in SHARES[::-1])
    return statistics.median(a / b for a, b in zip(*both, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    begin = time.process_time()
    with tempfile.TemporaryDirectory() as temporary:
        place = write_weights(Path(temporary))
        serve = measure_serve(place, Path(temporary), given.requests, given.rounds)
        vllm = measure_vllm(place, given.requests, given.rounds)
    figures: dict[str, Figure] = {}
    for kind in ("cold", "repeated"):
        for concurrency in CONCURRENCIES:
            key = f"{kind}.{concurrency}"
            figures[f"rps.{key}"] = Figure(ratio(vllm, key, "rps"), "higher", 1.0 if kind == "cold" else None, "ratio")
            for what in ("p50", "p95"):
                figures[f"ttft_{what}.{key}"] = Figure(ratio(vllm, key, what), "lower", None, "ratio")
    for concurrency in CONCURRENCIES:
        figures[f"serve_rps.{concurrency}"] = Figure(ratio(serve, f"{concurrency}", "rps"), "higher", None, "ratio")
        for what in ("p50", "p95"):
            figures[f"serve_ttft_{what}.cold.{concurrency}"] = Figure(
                ratio(serve, f"{concurrency}", what), "lower", None, "ratio"
            )
    over = statistics.median(vllm[f"cold.8.{SHARES[1]}"]["rps"]) / statistics.median(serve[f"8.{SHARES[1]}"]["rps"])
    figures["vllm_over_serve"] = Figure(over, "higher", None, "ratio")
    figures["minutes"] = Figure((time.process_time() - begin) / 60, "lower", None, "minutes of one core")
    write("serving", figures, {"vllm": vllm, "serve": serve, "shares": SHARES, "requests": given.requests}, seed=0)


if __name__ == "__main__":
    main()
