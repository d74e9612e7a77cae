"""Peak memory of one prefill. On a GPU its allocator tells; on a CPU a fresh process is asked, which does nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from vispco.bench.contender import Contender
from vispco.bench.prefill import generated
from vispco.bench.row import BenchRow
from vispco.errors import VispcoError
from vispco.evaluation.encoded import Encoded, encode, pad_token

if TYPE_CHECKING:
    from vispco.evaluation.evaluator import TaskEvaluator
    from vispco.evaluation.spec import EvaluatorSpec

STATUS, FORGET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class MemoryProbeError(VispcoError, RuntimeError):
    """The process that measures memory did not come to an end."""


@dataclass(frozen=True)
class Peak:
    """Bytes: the highest that the process (or the GPU's allocator) held, and by how much the prefill raised it."""

    whole: int
    raised: int


def on_gpu(model: Any, encoded: Encoded, contender: Contender, pad: int) -> Peak:
    torch.cuda.reset_peak_memory_stats(model.device)
    before = torch.cuda.memory_allocated(model.device)
    generated(model, encoded, contender.pruner(), 1, pad)
    whole = torch.cuda.max_memory_allocated(model.device)
    return Peak(whole, whole - before)


def in_child(spec: EvaluatorSpec, contender: Contender, batch_size: int = 1) -> Peak:
    """Peak of a process of its own that loads the spec's model and answers its first samples."""
    told = {"spec": spec.to_dict(), "contender": contender.to_dict(), "batch_size": batch_size}
    done = subprocess.run(  # noqa: S603 - this interpreter, this module
        [sys.executable, "-m", __spec__.name],
        input=json.dumps(told),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise MemoryProbeError(
            f"The process that measures the memory of {contender.name} ended with code {done.returncode}: {last} "
            "Leave it out with --no-memory."
        )
    return Peak(**json.loads(done.stdout.splitlines()[-1]))


def with_peaks(
    rows: Sequence[BenchRow],
    judge: TaskEvaluator,
    spec: EvaluatorSpec,
    contenders: Sequence[Contender],
    batch_size: int = 1,
    *,
    on_progress: Callable[[int, int, str], None] = lambda _done, _total, _text: None,
) -> list[BenchRow]:
    """The rows of a race with the peak memory of each."""
    model, processor, found = judge.model, judge.processor, []
    everyone = [Contender.unpruned(), *contenders]
    for place, (row, contender) in enumerate(zip(rows, everyone, strict=True)):
        on_progress(place, len(everyone), f"{contender.name}, memory")
        if model.device.type == "cuda":
            encoded = encode(model, processor, judge.samples[:batch_size])
            peak = on_gpu(model, encoded, contender, pad_token(processor))
        else:
            peak = in_child(spec, contender, batch_size)
        found.append(replace(row, peak_bytes=peak.whole, prefill_bytes=peak.raised))
    return found


def own_peak(told: Mapping[str, Any]) -> Peak:
    """What the child does: load, warm up on words alone, forget the peak so far, prefill once."""
    from vispco.evaluation.spec import EvaluatorSpec  # noqa: PLC0415

    spec, contender = EvaluatorSpec.from_dict(told["spec"]), Contender.from_dict(told["contender"])
    judge = spec.build()
    model, processor = judge.model, judge.processor
    encoded = encode(model, processor, judge.samples[: told["batch_size"]])
    pruner = contender.pruner()
    with torch.no_grad():
        words = processor.tokenizer("a few words", return_tensors="pt")["input_ids"].to(model.device)
        model(input_ids=words, attention_mask=torch.ones_like(words))  # kernels, thread pools
    before = _resident("VmRSS")
    if before is not None:
        FORGET.write_text("5")
    generated(model, encoded, pruner, 1, pad_token(processor))
    peak = _resident("VmHWM")
    if before is None or peak is None:
        return Peak(_high_water(), 0)
    return Peak(peak, max(0, peak - before))


def _resident(field: str) -> int | None:
    """A field of Linux' account of this process, in bytes; None where there is no such account."""
    if not STATUS.exists() or not FORGET.exists():
        return None
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024


def _high_water() -> int:
    """The most that this process ever held: bytes on macOS, where Linux counts kilobytes."""
    import resource  # noqa: PLC0415 - not on Windows

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


if __name__ == "__main__":
    found = own_peak(json.load(sys.stdin))
    print(json.dumps({"whole": found.whole, "raised": found.raised}))  # noqa: T201 - this is what the parent reads
