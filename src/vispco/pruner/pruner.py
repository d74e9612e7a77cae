"""`Pruner`: a scorer and a schedule, put on a model for the length of a block or until it is removed."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from vispco.core.errors import InvalidInputError, PrunerStateError
from vispco.core.layout import Array, TokenLayout
from vispco.core.pixels import check_pixels
from vispco.core.schedule import Schedule
from vispco.cost import Budget, Dimensions, Workload
from vispco.engine import Engine, EngineOptions, Mode, PlanMemory, Planner, Relaxation, TokenPlan, engine_on, unwrap
from vispco.engine.tower_cut import TowerSetting
from vispco.families import family_of
from vispco.scorers import Chain, ChainLike, with_options
from vispco.scorers.cost import workload_under

if TYPE_CHECKING:
    from vispco.pruner.mean_budget import MeanController
    from vispco.pruner.pruner_spec import PrunerSpec


class Pruner:
    """Prunes visual tokens inside an unmodified transformers model.

    scorer: which tokens are kept: a scorer's name ('fastv'), a chain of them by depth ('divprune+fastv',
        {0: 'divprune', 3: 'fastv', 20: 'random'}), with options ('sparsevlm(recycle=true)'), or a `Scorer`.
    schedule: how many, as a `Schedule`, or a `Planner` that makes one for each batch.
    mode: 'drop' removes tokens (inference); 'mask' hides them from attention and computes all (search), in the vision tower
        and in the language model.
    record: keep which visual tokens were live at each layer of the last prefill, in `survivors(model)`.
    allocation: how a prompt's tokens are divided over its pictures or frames: 'score' (the best stay wherever they are),
        'equal' (every picture keeps the same number) or 'size' (in proportion). Default: what the scorer says.
    compensate: beta, how much attention text gives back to the visual tokens that are left: their logits += beta *
        log(shown / left). 0 is off. Default: what the chain says.
    pixels: the share of its pixels with which a picture enters: read pictures with `pruner.prepare(processor)` then.

        with pruner(model):
            model.generate(**inputs)
    """

    def __init__(
        self,
        scorer: ChainLike,
        schedule: Schedule | Planner,
        *,
        mode: Mode = "drop",
        relaxation: Relaxation | None = None,
        record: bool = False,
        allocation: str | None = None,
        compensate: float | None = None,
        pixels: float = 1.0,
    ) -> None:
        if not isinstance(schedule, Schedule) and not callable(schedule):
            raise InvalidInputError(
                f"{schedule!r:.60} was given as the schedule of a pruner. Give a Schedule, such as "
                "Schedule.single(layer=2, keep=0.5, num_layers=10) or Schedule((1.0, 0.5, ...)), or a planner."
            )
        self.chain = with_options(Chain.of(scorer), allocation, compensate)
        self.schedule, self.mode, self.relaxation, self.record = schedule, mode, relaxation, record
        self.pixels, self.prepared = check_pixels(pixels), False
        # see `Schedule.tower`; a planner may have one
        self.tower: tuple[float, ...] | None = getattr(schedule, "tower", None)
        if isinstance(schedule, Schedule) and schedule.tower is not None and schedule.rebuilt != self.chain.rebuilds:
            raise InvalidInputError(
                f"The chain {str(self.chain)!r} {'rebuilds' if self.chain.rebuilds else 'does not rebuild'} what leaves in the vision "
                f"tower. Give Schedule.with_tower(..., rebuilt={self.chain.rebuilds})."
            )
        self._plans = PlanMemory()
        self._spec: PrunerSpec | None = None  # what it was resolved from
        self._checked: weakref.WeakSet[nn.Module] = weakref.WeakSet()  # models that it was made for

    @property
    def cut(self) -> TowerSetting | None:
        """How it cuts the vision tower; None where it does not."""
        return None if self.tower is None else TowerSetting(self.chain, self.tower)

    @classmethod
    def from_pretrained(
        cls,
        folder: str | Path,
        *,
        budget: float | str | None = None,
        record: bool = False,
        allocation: str | None = None,
        compensate: float | None = None,
        controller: str | None = None,
        pixels: float | None = None,
    ) -> Pruner:
        """A saved pruner, or what a search found, at a budget: a fraction of each sample's unpruned language-model FLOPs.

        folder: what `save_pretrained` or `vispco export` wrote, the directory of a search, or a saved predictor; a path, or
            a repository on the hub (hub:owner/name).
        budget: default: the one that the pruner was saved with. allocation, compensate, pixels: in place of what it was made with.
        controller: of a mean budget: 'integral' moves its price so that the mean holds while the traffic changes, which makes a
            plan depend on the inputs before it; 'none' leaves it as the calibration samples fixed it. Default: 'integral', with
            the state that it was saved with.
        """
        from vispco.pruner.pruner_spec import PrunerSpec  # noqa: PLC0415 - only for what was saved

        given: dict[str, Any] = {"allocation": allocation, "compensate": compensate, "pixels": pixels}
        spec = PrunerSpec.load(folder).at(budget)
        if controller is not None:
            spec = spec.with_controller(controller)
        return replace(spec, **{name: each for name, each in given.items() if each is not None}).resolve(record=record)

    @property
    def spec(self) -> PrunerSpec:
        """Everything that it is, as data. A planner of your own is code, so such a pruner has none."""
        from vispco.pruner.pruner_spec import PrunerSpec  # noqa: PLC0415 - only for what is saved

        if self._spec is not None:
            return self._spec
        if isinstance(self.schedule, Schedule):
            return PrunerSpec.of_schedule(self.chain, self.schedule, pixels=self.pixels)
        raise PrunerStateError(
            f"This pruner plans by a {type(self.schedule).__name__}, which is code and cannot be saved. Make it with a Schedule, "
            "or with Pruner.from_pretrained from the folder of a search."
        )

    @property
    def controller(self) -> MeanController | None:
        """What keeps the mean of a mean budget; None where nothing does. `running_mean` is over the last 256 inputs."""
        return getattr(self.schedule, "controller", None)

    def named(self) -> dict[str, Any]:
        """The scorer and the schedule, as a result keeps them; a planner has no schedule."""
        schedule = self.schedule.to_dict() if isinstance(self.schedule, Schedule) else None
        return {"scorer": str(self.chain), "schedule": schedule}

    def save_pretrained(self, folder: str | Path) -> Path:
        """Write the pruner into a folder, with its predictor if it has one; `from_pretrained` reads it. Gives the folder."""
        spec = self.spec
        if self.controller is not None:
            spec = replace(spec, planner={**spec.planner, "controller": self.controller.to_dict()})
        spec.save(folder)
        return Path(folder)

    def push_to_hub(self, repo_id: str, *, private: bool = False, commit_message: str = "Upload pruner") -> str:
        """Upload what `save_pretrained` writes to a repository on the hub, which is made if there is none. Gives its url."""
        from huggingface_hub import HfApi  # noqa: PLC0415 - half a second of import, for uploads only

        api = HfApi()
        with TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            url = str(api.create_repo(repo_id, private=private, exist_ok=True))
            api.upload_folder(repo_id=repo_id, folder_path=folder, commit_message=commit_message)
        return url

    def prepare(self, processor: Any) -> Any:
        """The processor with which pictures are read for this pruner: the same, or one that makes them smaller."""
        from vispco.pruner.picture_setting import shrink_processor  # noqa: PLC0415 - only for what is made smaller

        self.prepared = True
        return processor if self.pixels == 1.0 else shrink_processor(processor, self.pixels)

    @contextmanager
    def __call__(self, model: nn.Module) -> Iterator[nn.Module]:
        """Prune inside the block; the model is as it was afterwards, also after an exception."""
        self.apply(model)
        try:
            yield model
        finally:
            self.remove(model)

    def apply(self, model: nn.Module) -> nn.Module:
        """Prune from now on, until `remove`. Raises if the pruner was made for another model, or for smaller pictures than are read."""
        self.check(model)
        if self.pixels != 1.0 and not self.prepared:
            raise PrunerStateError(
                f"This pruner lets pictures enter with {self.pixels:g} of their pixels, and no processor was made for it. Read the "
                "pictures with processor = pruner.prepare(processor), then prune."
            )
        options = EngineOptions(self.mode, self.relaxation, self.record, self.tower, self.pixels)
        Engine(model, self.chain, self._plan, options, owner=self).attach()
        return model

    def check(self, model: nn.Module) -> None:
        """Raise if the pruner was made for a model of another class or other sizes, or for a budget of the whole prefill of
        a model whose vision tower is not described; warn if for other weights.
        """
        budget = None if self._spec is None else self._spec.budget
        if budget is not None and Budget.of(budget).kind == "prefill":
            family_of(unwrap(model)).tower_shape(unwrap(model))
        if self._spec is not None and model not in self._checked:
            from vispco.pruner.model_fingerprint import ModelFingerprint  # noqa: PLC0415 - only for what was made elsewhere

            known, sizes = self._spec.fingerprint, (self._spec.cost or {}).get("dimensions")
            if known is None and isinstance(sizes, Mapping):  # of older runs only the language model's sizes are known
                known = ModelFingerprint("", dict(sizes), "").to_dict()
            if known is not None:
                ModelFingerprint.from_dict(known).check(model, f"The pruner in {self._spec.folder}")
            self._checked.add(model)

    def remove(self, model: nn.Module) -> nn.Module:
        """Take the pruner off a model."""
        engine = self._engine(model)
        if engine is None:
            raise PrunerStateError(
                f"This pruner is not on this {type(model).__name__}: it was never applied, or removed already."
            )
        engine.detach()
        return model

    def survivors(self, model: nn.Module) -> list[Tensor]:
        """For each layer of this thread's last prefill, the visual tokens that it processed; bool [B, V] each."""
        engine = self._engine(model)
        if engine is None or engine.state.trace is None:
            raise PrunerStateError(
                "Nothing was recorded: make the pruner with record=True, and ask inside the block, after a prefill."
            )
        return engine.state.trace

    def tower_survivors(self, model: nn.Module) -> list[Tensor]:
        """For each block of a cut vision tower, the visual tokens that it processed in this thread's last prefill: bool [B, V]."""
        passed = self._tower(model)[0]
        return [torch.from_numpy(passed > block) for block in range(len(self.tower or ()))]

    def tower_flops(self, model: nn.Module) -> Tensor:
        """FLOPs of the cut vision tower and the choices in it in this thread's last prefill: int64 [B] on the host."""
        return torch.from_numpy(self._tower(model)[1])

    def _tower(self, model: nn.Module) -> tuple[Array, Array]:
        engine = self._engine(model)
        passed, spent = (None, None) if engine is None else engine.state.tower
        if passed is None or spent is None:
            raise PrunerStateError(
                "No prefill with a cut vision tower was run under this pruner. Give a schedule with a tower part "
                "(Schedule.with_tower), and ask inside the block, after a prefill."
            )
        return passed, spent

    def token_counts(self, model: nn.Module) -> Tensor:
        """The number of visual tokens that each layer of this thread's last prefill processed; int64 [B, L] on the host.

        What was planned, or less where a scorer decides by itself how many stay.
        """
        engine = self._engine(model)
        if engine is None or engine.state.counts is None:
            raise PrunerStateError(
                "No prefill with pictures was run under this pruner. Ask inside the block, after one."
            )
        return engine.state.counts.clone()  # the plan itself is used again

    def workload(self, model: nn.Module) -> Workload:
        """The prompts of this thread's last prefill, and what choosing their tokens took.

        `cost.bill(pruner.token_counts(model), pruner.workload(model))` is what the prefill cost.
        """
        engine = self._engine(model)
        if engine is None or engine.state.plan is None or engine.state.sizes is None:
            raise PrunerStateError(
                "No prefill with pictures was run under this pruner. Ask inside the block, after one."
            )
        plan, columns = engine.state.plan, (torch.from_numpy(column.copy()) for column in engine.state.sizes.T)
        sizes = Dimensions.from_config(engine.model.config)
        planning = torch.tensor(plan.planning_flops or 0)
        return workload_under(engine.chain, sizes, *columns, planning_flops=planning, groups=plan.groups)

    def _engine(self, model: nn.Module) -> Engine | None:
        """The engine of this pruner on a model; the model itself knows it."""
        inner = unwrap(model)
        engine = engine_on(family_of(inner).base(inner))
        return engine if engine is not None and engine.owner is self else None

    def _plan(self, layout: TokenLayout, embeddings: Tensor) -> TokenPlan:
        if isinstance(self.schedule, Schedule):
            schedule, sizes, left = self.schedule, layout.whole.num_visual, layout.num_visual
            return self._plans.recall((schedule, sizes, left), lambda: TokenPlan(schedule.counts(sizes, left)))
        return self.schedule(layout, embeddings)

    def __repr__(self) -> str:
        kind: Any = "schedule" if isinstance(self.schedule, Schedule) else type(self.schedule).__name__
        return f"Pruner({str(self.chain)!r}, {kind}, mode={self.mode!r})"
