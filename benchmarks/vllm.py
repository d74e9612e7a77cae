"""vispco inside vLLM on a CPU: against transformers, against FLOPs, and against `vispco serve`.

make vllm-bench                     in the environment of `make vllm-test`; some ten minutes of one core

- kept sets and log-probabilities of four architectures (InternVL with random weights), every share in one batch, against
  vispco's pruner at layer 0;
- throughput, time to first token and KV blocks of a model with the widths of Qwen2.5-VL-3B (two layers, two blocks of the
  tower), interleaved, in processor time;
- a picture that is asked about again: choices that do not read the question are cached, others are made again;
- the same share through `vispco serve` and through vLLM.

--parts FOLDER keeps what each part gave, so that a stopped run goes on; --only measures some of them there, and writes
no result.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:] = [
    *(place for place in sys.path if Path(place or ".").resolve() != HERE),
    str(HERE),
]  # `vllm` is not this file
sys.path.insert(0, str(HERE.parent / "tests"))

import argparse  # noqa: E402
import gc  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import statistics  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from functools import partial  # noqa: E402
from typing import Any  # noqa: E402

from figures import Figure, write  # noqa: E402
from vispco.vllm.engine_arguments import check_version  # noqa: E402
from vllm_plugin.lifted import lifted  # noqa: E402
from vllm_plugin.pairs import ENVIRONMENT, SHARES, Engine, Reference, Request, largest_difference  # noqa: E402

ARCHITECTURES = {"tiny-qwen3": "Qwen3-VL", "tiny-qwen": "Qwen2.5-VL", "tiny-llava": "LLaVA", "internvl": "InternVL"}
KEEP, SIDES, TOKENS = 0.25, (644, 476), (17, 23)  # pixels across and down, tokens down and across
QUESTIONS = ("what is the color of the circle?", "how many circles are there?")


def samples(per_task: int, split: str = "test") -> list[Any]:
    from vispco.data import TASKS, dataset

    return [sample for task in TASKS for sample in dataset(split, task, per_task)]


def compare(name: str, per_task: int, folder: Path) -> dict[str, Any]:
    """One architecture against transformers."""
    asked = [Request(tuple(s.images), s.question, share) for s in samples(per_task) for share in SHARES]
    place = lifted(name, folder / name)
    reference = Reference(place if name == "internvl" else name, "divprune")
    engine = Engine(place, "divprune", max_num_batched_tokens=112)
    served, expected = engine(asked, reference.processor), [reference(request) for request in asked]
    differ = [r for r, one, other in zip(asked, served, expected, strict=True) if one.kept != other.kept]
    rounding = sum(reference.decided_by_rounding(request) for request in differ)
    gaps = [largest_difference(*both) for both in zip(served, expected, strict=True) if both[0].kept == both[1].kept]
    found = {
        "requests": len(asked),
        "decided_by_rounding": rounding,
        "equal_kept_sets": len(asked) - len(differ),
        "equal_answers": sum(one.tokens == other.tokens for one, other in zip(served, expected, strict=True)),
        "largest_logprob_difference": max(gaps),
    }
    close(engine.llm)
    print(name, found, flush=True)
    return found


def close(llm: Any) -> None:
    from vllm.distributed import cleanup_dist_env_and_memory

    llm.llm_engine.engine_core.shutdown()
    cleanup_dist_env_and_memory()
    gc.collect()


def measure_load(folder: Path, rounds: int) -> dict[str, Any]:
    """Pruned over unpruned, interleaved; and a repeated picture."""
    from vllm_load import WIDTHS, LoadedEngine, implied_seconds_ratio, pictures, write_model

    place = write_model(folder / "wide", WIDTHS)
    engine = LoadedEngine(place, KEEP, max_model_len=1024, max_num_batched_tokens=1024)
    tokenizer = engine.llm.get_tokenizer()
    texts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": question}]}],
            tokenize=False,
            add_generation_prompt=True,
        )
        for question in QUESTIONS
    ]
    shown = pictures([SIDES] * 8)

    def prompts(share: float, text: str = texts[0], number: int = 8) -> list[dict[str, Any]]:
        return [
            {"prompt": text, "multi_modal_data": {"image": one}, "mm_processor_kwargs": {"vispco_keep": share}}
            for one in shown[:number]
        ]

    seconds: dict[float, list[float]] = {1.0: [], KEEP: []}
    last: dict[float, list[float]] = {1.0: [], KEEP: []}
    blocks: dict[float, int] = {}
    again: dict[str, list[float]] = {"cached": [], "chosen again": []}
    engine.run(prompts(KEEP, number=1), 1)  # warms up
    for number in range(rounds):
        for share in (1.0, KEEP) if number % 2 == 0 else (KEEP, 1.0):
            engine.forget()
            seconds[share].append(engine.run(prompts(share, number=4), 1).seconds)
            engine.forget()
            load = engine.run(prompts(share), 8, tokens=3)
            last[share].append(load.percentile(0.95))
            blocks[share] = load.kv_blocks
        for kind, taken in again.items():  # a second question about pictures that were seen
            engine.forget()
            engine.run(prompts(KEEP, number=4), 1)
            if kind == "chosen again":
                engine.forget()  # as if the question were part of what a cached choice is known by
            taken.append(engine.run(prompts(KEEP, texts[1], 4), 1).seconds)
        print(number, seconds, last, blocks, again, flush=True)
    implied = implied_seconds_ratio(place, len(tokenizer(texts[0])["input_ids"]) - 1, TOKENS, KEEP)
    close(engine.llm)
    ratios = [whole / part for whole, part in zip(seconds[1.0], seconds[KEEP], strict=True)]
    return {
        "implied_ratio": implied,
        "requests_per_second_ratio": statistics.median(ratios),
        "rounds": ratios,
        "kv_blocks": {str(share): number for share, number in blocks.items()},
        "ttft_p95_ratio": statistics.median(a / b for a, b in zip(last[KEEP], last[1.0], strict=True)),
        "cached_repeat_ratio": statistics.median(
            a / b for a, b in zip(again["cached"], again["chosen again"], strict=True)
        ),
    }


def compare_servers(items: int, folder: Path) -> dict[str, Any]:
    """The same share of the same pictures through `vispco serve` and through vLLM."""
    from vllm_load import Server

    share, name = 0.5, "tiny-qwen3"
    reference = Reference(name, "divprune")  # for its processor
    chosen = samples(-(-items // 8), "calibration")[:items]
    asked = [Request(tuple(s.images), s.question, share) for s in chosen]
    engine = Engine(lifted(name, folder / name), "divprune", keep=share)
    served = reference.processor.batch_decode(
        [each.tokens for each in engine(asked, reference.processor)], skip_special_tokens=True
    )
    close(engine.llm)
    server = Server(name, share, reference.num_layers, folder)
    try:
        other = [server.ask(sample.images[0], sample.question, 6) for sample in chosen]
    finally:
        server.close()
    equal = sum(one.strip() == two.strip() for one, two in zip(served, other, strict=True))
    print("servers", equal, len(chosen), flush=True)
    return {"items": len(chosen), "equal": equal, "share": share}


def measured(part: Callable[[], dict[str, Any]], name: str, folder: Path | None) -> dict[str, Any]:
    """What a part gives, with its minutes of processor time; read where the folder has it already."""
    file = None if folder is None else folder / f"{name}.json"
    if file is not None and file.is_file():
        return dict(json.loads(file.read_text()))
    begin = time.process_time()
    found = part()
    found["minutes"] = (time.process_time() - begin) / 60
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(found))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--per-task", type=int, default=8, help="items of each of eight tasks, for each architecture")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--items", type=int, default=256, help="through both servers")
    parser.add_argument("--parts", type=Path, help="a folder")
    parser.add_argument("--only", nargs="+", choices=[*ARCHITECTURES, "load", "servers"])
    given = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        parts = {name: partial(compare, name, given.per_task, folder) for name in ARCHITECTURES}
        parts |= {
            "load": partial(measure_load, folder, given.rounds),
            "servers": partial(compare_servers, given.items, folder),
        }
        found = {name: measured(parts[name], name, given.parts) for name in given.only or parts}
    if given.only:
        return
    parity = {title: found[name] for name, title in ARCHITECTURES.items()}
    load, servers = found["load"], found["servers"]
    requests = sum(each["requests"] for each in parity.values())
    rounding = sum(each["decided_by_rounding"] for each in parity.values())
    equal = sum(each["equal_kept_sets"] for each in parity.values())
    blocks = load["kv_blocks"]
    figures = {
        "requests": Figure(requests, "higher", 512, "requests"),
        "architectures": Figure(len(parity), "higher", 3, "classes"),
        "equal_kept_sets": Figure(equal / (requests - rounding), "higher", 1.0, "share"),
        "decided_by_rounding": Figure(rounding, "lower", None, "requests"),
        "largest_logprob_difference": Figure(
            max(each["largest_logprob_difference"] for each in parity.values()), "lower", 1e-4, "nats"
        ),
        "requests_per_second_ratio.25": Figure(
            load["requests_per_second_ratio"] / load["implied_ratio"], "higher", 0.85, "of what FLOPs imply"
        ),
        "requests_per_second.25": Figure(load["requests_per_second_ratio"], "higher", None, "pruned / unpruned"),
        "kv_blocks_ratio": Figure(blocks[str(KEEP)] / blocks["1.0"], "lower", None, "pruned / unpruned"),
        "ttft_p95_ratio": Figure(load["ttft_p95_ratio"], "lower", 1.0, "pruned / unpruned"),
        "cached_repeat_ratio": Figure(load["cached_repeat_ratio"], "lower", 1.0, "cached / chosen again"),
        "equal_answers_to_serve": Figure(servers["equal"], "higher", servers["items"], "answers"),
        "minutes": Figure(sum(each["minutes"] for each in found.values()), "lower", None, "minutes of one core"),
    }
    write("vllm", figures, {"vllm": check_version(), "parity": parity, "load": load, "servers": servers}, seed=0)


if __name__ == "__main__":
    main()
