"""`PlaySession`: the model behind the page, without Gradio: questions in, answers and pictures out."""

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from vispco.core.errors import InvalidInputError
from vispco.evaluation.survivors import as_seen
from vispco.pruner.pruner_spec import PrunerSpec
from vispco.serving.ask import PictureQuestion, compare
from vispco.serving.ask.comparison import AnswerComparison
from vispco.serving.ask.survivor_sheet import survivors_at

PLAIN = "fastv, one step"
_SHOWN_SIDE = 640  # pixels of the survivors' picture


@dataclass(frozen=True, eq=False)
class Asked:
    """The last answer of a visitor: what the layer slider and the next budget need."""

    file: str
    question: str
    picture: Image.Image
    comparison: AnswerComparison


class PlaySession:
    """One model that many visitors ask, one at a time."""

    def __init__(self, model: Any, processor: Any, spec: PrunerSpec, *, max_new_tokens: int = 64) -> None:
        self.model, self.processor, self.spec, self.max_new_tokens = model, processor, spec, max_new_tokens
        self._lock = threading.Lock()

    @property
    def own_method(self) -> str:
        """The name of the pruner that it began with, among the methods to choose from."""
        name = self.spec.source or self.spec.planner.get("method") or f"{self.spec.chain}, one step"
        return str(name)

    def ask(self, file: str | Path | None, question: str, budget: float, method: str, last: Asked | None) -> Asked:
        """Both answers; the unpruned one only where picture or question are new."""
        if not file:
            raise InvalidInputError("There is no picture yet. Drop one into the box, or choose a file.")
        sample = PictureQuestion.read(file, question)
        same = last is not None and (last.file, last.question) == (str(file), question)
        spec = self.spec.at(budget)
        if method != self.own_method:
            named = None if method == PLAIN else method
            spec = PrunerSpec.choose(method=named, budget=budget, allocation=self.spec.allocation)
        with self._lock:
            found = compare(
                self.model,
                self.processor,
                sample,
                spec.resolve(self.model),
                max_new_tokens=self.max_new_tokens,
                rounds=1,
                unpruned=last.comparison.unpruned if same and last is not None else None,
            )
        picture = as_seen(sample.images[0], self.processor)
        scale = _SHOWN_SIDE / max(picture.size)
        sides = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
        return Asked(str(file), question, picture.resize(sides), found)

    @staticmethod
    def survivors(asked: Asked | None, layer: int) -> tuple[Image.Image | None, str]:
        """The picture with the tokens that a layer processed, and how many they were."""
        if asked is None:
            return None, ""
        found = asked.comparison
        layer = min(max(int(layer), 0), found.layers - 1)
        alive, total = found.pruned.visual_tokens[layer], found.unpruned.visual_tokens[0]
        if found.depth is None:
            return asked.picture, f"Layer {layer}: {alive} of {total} visual tokens (their places are not known)"
        return survivors_at(asked.picture, found.depth, layer), f"Layer {layer}: {alive} of {total} visual tokens"
