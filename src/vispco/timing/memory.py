"""Peak memory of one prefill: from the allocator of a GPU, or of a new process that does nothing else on a CPU."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from vispco.core.errors import VispcoError
from vispco.core.plugins import load_plugin, loaded_plugins
from vispco.evaluation.encoded import encode, pad_token
from vispco.evaluation.evaluator import TaskEvaluator
from vispco.evaluation.spec import EvaluatorSpec
from vispco.pruner.pruner_spec import PrunerSpec
from vispco.timing.candidate_options import UNPRUNED
from vispco.timing.prefill import time_generation
from vispco.timing.timing import BenchRow

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class _MemoryProbeError(VispcoError, RuntimeError):
    """The process that measures memory failed."""


@dataclass(frozen=True)
class Peak:
    """Bytes: the peak of the process (or of the GPU's allocator), and how much the prefill added."""

    whole: int
    raised: int


def _peak_in_child_process(spec: EvaluatorSpec, pruning: PrunerSpec | None, batch_size: int = 1) -> Peak:
    """Peak of a process of its own that loads the spec's model and answers its first samples."""
    request = {
        "spec": spec.to_dict(),
        "pruner": None if pruning is None else pruning.to_dict(),
        "folder": None if pruning is None else str(pruning.folder),
        "batch_size": batch_size,
        "plugins": loaded_plugins(),
    }
    done = subprocess.run(  # noqa: S603 - this interpreter, this module
        [sys.executable, "-m", __spec__.name],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise _MemoryProbeError(
            f"The process that measures the memory of {UNPRUNED if pruning is None else pruning.title} ended with code {done.returncode}: {last} "
            "Leave it out with --no-memory."
        )
    return Peak(**json.loads(done.stdout.splitlines()[-1]))


def add_peaks(
    rows: Sequence[BenchRow],
    judge: TaskEvaluator,
    spec: EvaluatorSpec,
    candidates: Mapping[str, PrunerSpec],
    batch_size: int = 1,
    *,
    on_progress: Callable[[int, int, str], None] = lambda _done, _total, _text: None,
) -> list[BenchRow]:
    """The rows of `time_candidates` with the peak memory of each."""
    model, processor, found = judge.model, judge.processor, []
    for place, row in enumerate(rows):
        on_progress(place, len(rows), f"{row.configuration}, memory")
        pruning = candidates.get(row.configuration)
        if model.device.type == "cuda":
            pruner = None if pruning is None else pruning.resolve(model)
            encoded = encode(model, processor, judge.samples[:batch_size], pruner=pruner)
            torch.cuda.reset_peak_memory_stats(model.device)
            before = torch.cuda.memory_allocated(model.device)
            time_generation(model, encoded, pruner, 1, pad_token(processor))
            whole = torch.cuda.max_memory_allocated(model.device)
            peak = Peak(whole, whole - before)
        else:
            peak = _peak_in_child_process(spec, pruning, batch_size)
        found.append(replace(row, peak_bytes=peak.whole, prefill_bytes=peak.raised))
    return found


def _measure_own_peak(request: Mapping[str, Any]) -> Peak:
    """Run in the child process: load, warm up on text alone, reset the peak, prefill once."""
    from vispco.evaluation.spec import EvaluatorSpec  # noqa: PLC0415
    from vispco.pruner.pruner_spec import PrunerSpec  # noqa: PLC0415

    for plugin in request["plugins"]:
        load_plugin(plugin)
    judge = EvaluatorSpec.from_dict(request["spec"]).build()
    model, processor = judge.model, judge.processor
    pruner = None
    if request["pruner"] is not None:
        pruner = replace(PrunerSpec.from_dict(request["pruner"]), folder=Path(request["folder"])).resolve(model)
    encoded = encode(model, processor, judge.samples[: request["batch_size"]], pruner=pruner)
    with torch.no_grad():
        words = processor.tokenizer("a few words", return_tensors="pt")["input_ids"].to(model.device)
        model(input_ids=words, attention_mask=torch.ones_like(words))  # kernels, thread pools
    before = _resident("VmRSS")
    if before is not None:
        RESET.write_text("5")
    time_generation(model, encoded, pruner, 1, pad_token(processor))
    peak = _resident("VmHWM")
    if before is None or peak is None:
        # The peak of this process; macOS reports bytes and Linux kilobytes.
        import resource  # noqa: PLC0415 - not on Windows

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return Peak(most if sys.platform == "darwin" else most * 1024, 0)
    return Peak(peak, max(0, peak - before))


def _resident(field: str) -> int | None:
    """A field of /proc/self/status in bytes; None where there is no such file."""
    if not STATUS.exists() or not RESET.exists():
        return None
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    found = _measure_own_peak(json.load(sys.stdin))
    print(json.dumps({"whole": found.whole, "raised": found.raised}))  # noqa: T201 - this is what the parent reads
