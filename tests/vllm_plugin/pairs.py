"""One question in two ways: inside vLLM, and in transformers under vispco's pruner at layer 0."""

import hashlib
import os
from dataclasses import dataclass

import torch

import vispco
from vispco import models as zoo
from vispco.core.indexing import runs_of
from vispco.evaluation.encoded import apply_template
from vispco.scorers import Chain
from vispco.vllm.choosing import choose
from vispco.vllm.settings import kept_tokens

ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the engine in this process, where tests can look at it
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
SHARES = (1.0, 0.5, 0.25)
TOKENS, SHOWN = 6, 5
ROUNDING = 1e-6  # relative; the towers of vLLM and transformers differ by as much


@dataclass(frozen=True)
class Request:
    """Pictures, a question and the share that stays."""

    images: tuple
    question: str
    share: float

    def turns(self):
        shown = [{"type": "image"} for _ in self.images]
        return [{"role": "user", "content": [*shown, {"type": "text", "text": self.question}]}]


@dataclass(frozen=True)
class Outcome:
    """What was written, the log-probabilities of the likeliest tokens at each step, and the tokens kept of each picture."""

    tokens: tuple[int, ...]
    logprobs: tuple[dict[int, float], ...]
    kept: tuple[tuple[int, ...], ...]
    prompt_length: int | None = None
    num_cached: int | None = None


def fingerprint(pixels: torch.Tensor) -> str:
    return hashlib.sha256(pixels.float().contiguous().numpy().tobytes()).hexdigest()


class Engine:
    """vLLM in this process, which remembers what was kept of each picture at each share."""

    def __init__(self, folder, scorer: str, *, keep: float = 0.5, options=None, **given) -> None:
        os.environ.update(ENVIRONMENT)
        from vllm import LLM

        self.name, self.scorer, self.keep = str(folder), scorer, keep
        self.kept: dict[tuple[str, int], tuple[int, ...]] = {}
        self.choices = 0
        defaults = {
            "dtype": "float32",
            "max_model_len": 768,
            "max_num_seqs": 32,
            "block_size": 32,
            "disable_log_stats": False,
            "limit_mm_per_prompt": {"image": 2},
            "mm_device_do_normalize": False,  # pixels as transformers has them, by which pictures are known again
        }
        pruned = vispco.vllm.options(scorer, keep=keep) if options is None else options
        self.llm = LLM(str(folder), **{**defaults, **pruned, **given})
        if options is None:
            self.watch()

    @property
    def model(self):
        return self.llm.llm_engine.engine_core.engine_core.model_executor.driver_worker.worker.get_model()

    def watch(self) -> None:
        """Keep what `choose` gives, by the picture's pixels."""
        from vispco.vllm import models
        from vispco.vllm.processing import PICTURES

        model, chosen = self.model, []
        embed, choose = model.embed_multimodal, models.choose

        def remember(*args):
            chosen.append(choose(*args))
            return chosen[-1]

        def watched(**kwargs):
            pictures, pixels = kwargs[PICTURES].tolist(), kwargs["pixel_values"]
            if "image_grid_thw" in kwargs:
                pixels = pixels.split(kwargs["image_grid_thw"].prod(-1).tolist())
            if "image_num_patches" in kwargs:
                pixels = pixels.split(kwargs["image_num_patches"].tolist())
            chosen.clear()
            models.choose = remember
            try:
                found = embed(**kwargs)
            finally:
                models.choose = choose
            for (left, *_), own, index in zip(pictures, pixels, chosen, strict=True):
                self.kept[fingerprint(own), left] = tuple(index.tolist())
            self.choices += len(chosen)
            return found

        model.embed_multimodal = watched

    def __call__(self, requests, processor):
        from vllm import SamplingParams

        prompts = [
            {
                "prompt": apply_template(processor, request.turns()),
                "multi_modal_data": {"image": list(request.images)},
                **({} if request.share == self.keep else {"mm_processor_kwargs": {"vispco_keep": request.share}}),
            }
            for request in requests
        ]
        found = self.llm.generate(
            prompts, SamplingParams(temperature=0, max_tokens=TOKENS, logprobs=SHOWN), use_tqdm=False
        )
        return [self._outcome(request, each, processor) for request, each in zip(requests, found, strict=True)]

    def _outcome(self, request, found, processor):
        kept = []
        for pixels, number in pictures_of(request, processor):
            kept.append(self.kept.get((fingerprint(pixels), kept_tokens(number, request.share)), ()))
        first = found.outputs[0]
        logprobs = tuple({token: each.logprob for token, each in step.items()} for step in first.logprobs)
        return Outcome(
            tuple(first.token_ids), logprobs, tuple(kept), len(found.prompt_token_ids), found.num_cached_tokens
        )


def inputs_of(request, processor):
    text = apply_template(processor, request.turns())
    return processor(text=[text], images=list(request.images), return_tensors="pt")


def pictures_of(request, processor):
    """Pixels and the number of tokens of each picture."""
    found = inputs_of(request, processor)
    if "image_grid_thw" in found:
        merge = processor.image_processor.merge_size
        patches = found["image_grid_thw"].prod(-1)
        return list(zip(found["pixel_values"].split(patches.tolist()), (patches // merge**2).tolist(), strict=True))
    token = processor.image_token if isinstance(processor.image_token, str) else processor.tokenizer.image_token
    visual = found["input_ids"] == processor.tokenizer.convert_tokens_to_ids(token)
    if hasattr(processor, "start_image_token"):  # InternVL: a run of tiles for each picture
        sizes = [end - start for _, start, end in runs_of(visual.numpy())]
        return list(
            zip(found["pixel_values"].split([n // processor.image_seq_length for n in sizes]), sizes, strict=True)
        )
    return [(pixels, int(visual.sum()) // len(found["pixel_values"])) for pixels in found["pixel_values"]]


class Reference:
    """transformers, pruned at layer 0; each picture of a prompt gets a number in proportion to its size."""

    def __init__(self, name: str, scorer: str) -> None:
        self.model, self.processor = vispco.load(name if name in zoo.names() else str(name), dtype=torch.float32)
        self.scorer = scorer
        config = self.model.config.get_text_config()
        self.num_layers, self.eos = config.num_hidden_layers, config.eos_token_id

    @torch.no_grad()
    def __call__(self, request):
        schedule = vispco.Schedule((request.share,) * self.num_layers)
        scorer = self.scorer if len(request.images) == 1 else f"size:{self.scorer}"
        pruner = vispco.Pruner(scorer, schedule, record=True)
        inputs = inputs_of(request, self.processor)
        with pruner(self.model):
            found = self.model.generate(
                **inputs,
                do_sample=False,
                max_new_tokens=TOKENS,
                eos_token_id=self.eos,
                return_dict_in_generate=True,
                output_logits=True,
            )
            live = pruner.survivors(self.model)[0][0]
        sizes = [number for _, number in pictures_of(request, self.processor)]
        kept = tuple(tuple(part.nonzero()[:, 0].tolist()) for part in live.split(sizes))
        logprobs = tuple(dict(enumerate(step[0].float().log_softmax(-1).tolist())) for step in found.logits)
        return Outcome(tuple(found.sequences[0, inputs["input_ids"].shape[1] :].tolist()), logprobs, kept)

    @torch.no_grad()
    def decided_by_rounding(self, request) -> bool:
        """Whether transformers itself would choose other tokens of a picture after noise of the size of float32's rounding."""
        features = self.model.model.get_image_features(
            **{
                key: value
                for key, value in inputs_of(request, self.processor).items()
                if key in ("pixel_values", "image_grid_thw")
            }
        ).pooler_output
        scorer, noise = Chain.of(self.scorer).scorers[0], torch.Generator().manual_seed(0)
        for states in features:
            count = kept_tokens(len(states), request.share)
            grid = (1, 1, len(states))  # of no use to a scorer of embeddings
            known = choose(scorer, states, grid, count)
            for _ in range(8):
                moved = states * (1 + ROUNDING * torch.randn(states.shape, generator=noise))
                if not torch.equal(known, choose(scorer, moved, grid, count)):
                    return True
        return False


def largest_difference(served: Outcome, expected: Outcome) -> float:
    """Of the log-probabilities that vLLM shows, over the tokens that both have written alike."""
    worst = 0.0
    for place, (shown, known) in enumerate(zip(served.logprobs, expected.logprobs, strict=False)):
        if served.tokens[:place] != expected.tokens[:place]:
            break
        worst = max(worst, *(abs(value - known[token]) for token, value in shown.items() if token in known))
    return worst
