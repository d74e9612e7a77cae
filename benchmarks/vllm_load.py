"""A vLLM engine and `vispco serve` under load, measured in processor time: other work on the machine does not count.

Used by vllm.py and serving.py; it measures nothing by itself.
"""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

WIDTHS = {  # those of Qwen2.5-VL-3B, with 2 of 36 layers and 2 of 32 blocks of the tower, which keeps their proportion
    "text_config": {
        "hidden_size": 2048,
        "intermediate_size": 11008,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "num_hidden_layers": 2,
        "layer_types": ["full_attention"] * 2,
        "max_position_embeddings": 4096,
        "rope_parameters": {"mrope_section": [16, 24, 24], "rope_theta": 1000000.0, "rope_type": "default"},
    },
    "vision_config": {
        "hidden_size": 1280,
        "intermediate_size": 3420,
        "num_heads": 16,
        "depth": 2,
        "out_hidden_size": 2048,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "fullatt_block_indexes": [1],
        "window_size": 112,
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "axial"},
    },
}


def write_model(folder: Path, widths: dict[str, Any]) -> Path:
    """A folder with a config of these widths and tiny-qwen's tokenizer; vLLM draws the weights itself."""
    from vispco import models as zoo

    source = zoo.path("tiny-qwen")
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("*.safetensors", "card.json"), dirs_exist_ok=True)
    config = json.loads((source / "config.json").read_text())
    for part, changes in widths.items():
        config[part] |= changes
    config["dtype"] = "float32"
    (folder / "config.json").write_text(json.dumps(config))
    name = folder / "preprocessor_config.json"
    processor = json.loads(name.read_text())
    processor |= {
        "merge_size": config["vision_config"]["spatial_merge_size"],
        "size": {"shortest_edge": 3136, "longest_edge": 1003520},
    }
    for old in ("min_pixels", "max_pixels"):
        processor.pop(old, None)
    name.write_text(json.dumps(processor))
    return folder


def pictures(sizes: Sequence[tuple[int, int]], seed: int = 0) -> list[Any]:
    """Pictures of noise, of so many pixels across and down."""
    from PIL import Image

    generator = np.random.default_rng(seed)
    return [Image.fromarray(generator.integers(0, 255, (down, across, 3), dtype=np.uint8)) for across, down in sizes]


@dataclass
class Load:
    """What a run took, in seconds of this process. first: until the first token of each request, since it was added."""

    seconds: float
    first: list[float] = field(default_factory=list)
    kv_blocks: int = 0

    def percentile(self, share: float) -> float:
        return float(np.percentile(self.first, 100 * share))


class LoadedEngine:
    """`vllm.LLM` whose steps are taken here."""

    def __init__(self, folder: Path, keep: float, **given: Any) -> None:
        from vllm import LLM

        import vispco

        options = {"dtype": "float32", "load_format": "dummy", "max_num_seqs": 32, "block_size": 32} | given
        self.llm = LLM(str(folder), **options, **vispco.vllm.options("divprune", keep=keep))
        self.engine = self.llm.llm_engine
        self.number = 0

    @property
    def core(self) -> Any:
        return self.engine.engine_core.engine_core

    def forget(self) -> None:
        """Empty the caches of prefixes, encoder outputs and processed pictures."""
        self.llm.reset_prefix_cache()
        self.core.reset_encoder_cache()
        self.core.reset_mm_cache()
        self.engine.reset_mm_cache()

    def run(self, prompts: Sequence[dict[str, Any]], concurrency: int, tokens: int = 1) -> Load:
        """Keep so many requests in flight until all are answered."""
        from vllm import SamplingParams

        sampling = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True)
        waiting: Iterator[dict[str, Any]] = iter(prompts)
        added: dict[str, float] = {}
        seen: dict[str, float] = {}
        pool = self.core.scheduler.kv_cache_manager.block_pool
        peak, begin = 0, time.process_time()

        def add() -> None:
            prompt = next(waiting, None)
            if prompt is not None:
                self.number += 1
                added[str(self.number)] = time.process_time()
                self.engine.add_request(str(self.number), prompt, sampling)

        for _ in range(concurrency):
            add()
        free = pool.get_num_free_blocks()
        while self.engine.has_unfinished_requests():
            for found in self.engine.step():
                peak = max(peak, free - pool.get_num_free_blocks())
                if found.outputs and found.outputs[0].token_ids:
                    seen.setdefault(found.request_id, time.process_time())
                if found.finished:
                    add()
        first = [seen[key] - added[key] for key in added]
        return Load(time.process_time() - begin, first, peak)


class Server:
    """`vispco serve` in a process of its own, with divprune at one share before the language model."""

    def __init__(self, model: str, share: float, num_layers: int, folder: Path) -> None:
        from vispco import PrunerSpec, Schedule

        self.model, file = model, folder / f"share-{share}.json"
        PrunerSpec.of_schedule("divprune", Schedule((share,) * num_layers), budget=0.5).save(file)
        command = [sys.executable, "-m", "vispco", "serve", model, "--port", "0", "--pruner", str(file)]
        log = folder / f"share-{share}.log"  # a pipe that nobody reads would fill up
        with log.open("w") as errors:
            self.process = subprocess.Popen(command, stderr=errors, env={**os.environ})
        self.url = ""
        for _ in range(1200):
            said = log.read_text()
            if "http://" in said and "/v1" in said:
                self.url = "http://" + said.split("http://")[1].split("/v1")[0]
            if self.process.poll() is not None or (self.url and self._is_up()):
                break
            time.sleep(0.1)
        if not self.url or self.process.poll() is not None:
            raise RuntimeError(log.read_text()[-2000:])

    def _is_up(self) -> bool:
        try:
            return bool(urllib.request.urlopen(f"{self.url}/health", timeout=2))  # noqa: S310
        except OSError:
            return False

    @property
    def seconds(self) -> float:
        """Processor time of the process so far."""
        words = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def ask(self, picture: Any, question: str, tokens: int) -> str:
        with self._answer(picture, question, tokens) as response:
            found: str = json.loads(response.read())["choices"][0]["message"]["content"]
        return found

    def first_token(self, picture: Any, question: str, tokens: int) -> float:
        """Processor time of the server from a request to its first token, with all that it did for others meanwhile."""
        begin, first = self.seconds, None
        with self._answer(picture, question, tokens, stream=True) as response:
            for line in response:
                if first is None and b'"content":' in line and b'"content":""' not in line.replace(b" ", b""):
                    first = self.seconds - begin
        return self.seconds - begin if first is None else first

    def _answer(self, picture: Any, question: str, tokens: int, **more: Any) -> Any:
        buffer = io.BytesIO()
        picture.save(buffer, "PNG")
        url = f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
        content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": question}]
        messages = [{"role": "user", "content": content}]
        body = {"model": self.model, "messages": messages, "temperature": 0, "max_tokens": tokens, **more}
        request = urllib.request.Request(  # noqa: S310
            f"{self.url}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        return urllib.request.urlopen(request, timeout=300)  # noqa: S310

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(30)


def implied_seconds_ratio(folder: Path, num_text: int, grid: tuple[int, int], keep: float) -> float:
    """By FLOPs: a whole prefill, tower and language model, over one with this share of the visual tokens."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode
    from transformers import AutoConfig, AutoModelForImageTextToText

    from vispco import cost
    from vispco.scorers import Chain
    from vispco.scorers.cost import workload_under
    from vispco.vllm.settings import kept_tokens

    config = AutoConfig.from_pretrained(folder)
    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(config)
    vision = config.vision_config
    rows, columns = grid
    patches = rows * columns * vision.spatial_merge_size**2
    pixels = torch.empty(patches, 3 * vision.temporal_patch_size * vision.patch_size**2, device="meta")
    exact = cost.get("exact", config)
    visual = rows * columns
    load = workload_under(Chain.of("divprune"), exact.dimensions, num_text, visual)
    prices = [
        int(exact.bill(torch.full((exact.num_layers,), number), load)) for number in (visual, kept_tokens(visual, keep))
    ]
    size = torch.tensor([[1, rows * vision.spatial_merge_size, columns * vision.spatial_merge_size]])
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter, torch.no_grad():
        model.model.visual.to_empty(device="cpu")(torch.zeros_like(pixels, device="cpu"), grid_thw=size)
    tower = counter.get_total_flops()
    return (tower + prices[0]) / (tower + prices[1])
