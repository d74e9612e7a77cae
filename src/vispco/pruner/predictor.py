"""The surrogate network f_theta of the paper: an observation and a budget in, kernel parameters out."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel

from vispco import cost as costs
from vispco import kernels
from vispco.core.weights import hide_weight_bars
from vispco.cost import Cost, Dimensions, Exact
from vispco.kernels import Kernel
from vispco.pruner.observation import Observation
from vispco.scorers import Chain

_WAVES = 8  # sines and cosines of the budget
_SIZES = 3  # log N_t, log N_v and their ratio


class PredictorConfig(PreTrainedConfig):  # type: ignore[misc]
    """Everything that a predictor needs at deployment, without the model it was trained for.

    hidden: D of the language model. kernel, scorer: as their `config()` and `to_dict()` give them. cost: as its
    `to_dict()` gives it. dimensions: of the language model.
    """

    model_type = "vispco_predictor"

    def __init__(
        self,
        hidden: int = 2048,
        width: int = 256,
        queries: int = 4,
        dropout: float = 0.0,
        kernel: dict[str, Any] | None = None,
        scorer: dict[str, Any] | None = None,
        cost: str | dict[str, Any] = "exact",
        dimensions: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self.hidden, self.width, self.queries, self.dropout = hidden, width, queries, dropout
        self.kernel = kernel or {"name": "single"}
        self.scorer = scorer or {"name": "fastv"}
        self.cost = cost
        self.dimensions = dimensions or {}
        super().__init__(**kwargs)

    def make_cost(self) -> Cost:
        if isinstance(self.cost, str):
            return costs.from_dict({"name": self.cost, "dimensions": self.dimensions})
        return costs.from_dict(self.cost)


class Predictor(PreTrainedModel):  # type: ignore[misc]
    """Pooled visual and instruction embeddings and a budget -> kernel parameters for each sample."""

    config_class = PredictorConfig
    main_input_name = "observation"

    def __init__(self, config: PredictorConfig) -> None:
        super().__init__(config)
        D, W, Q = config.hidden, config.width, config.queries
        num_layers = int(config.dimensions.get("num_layers", 2))
        P = self.kernel.num_parameters(num_layers)
        self.visual = nn.Sequential(nn.LayerNorm(2 * D), nn.Linear(2 * D, W))
        self.text = nn.Sequential(nn.LayerNorm(D), nn.Linear(D, W), nn.GELU())
        self.queries = nn.Parameter(torch.randn(Q, W) * W**-0.5)
        self.terms = nn.Sequential(nn.Linear(2 * _WAVES + 1 + _SIZES, W), nn.GELU(), nn.Linear(W, W))
        self.trunk = nn.Sequential(
            nn.LayerNorm((3 + Q) * W),
            nn.Dropout(config.dropout),
            nn.Linear((3 + Q) * W, W),
            nn.GELU(),
            nn.Dropout(config.dropout),
            nn.Linear(W, W),
            nn.GELU(),
        )
        self.offset = nn.Linear(W, P)
        nn.init.zeros_(self.offset.weight)
        nn.init.zeros_(self.offset.bias)
        self.register_buffer("start", torch.zeros(P))  # the shape that the offset is added to
        self.post_init()

    @classmethod
    def for_model(
        cls, model: Any, kernel: Kernel, scorer: Chain, *, cost: Cost | None = None, **options: Any
    ) -> Predictor:
        """A fresh predictor for a vision-language model; it begins with the kernel's initial shape. cost: default: exact."""
        sizes = Dimensions.from_config(model.config)
        config = PredictorConfig(
            hidden=sizes.hidden,
            kernel=kernel.config(),
            scorer=scorer.to_dict(),
            cost=(cost or Exact(sizes)).to_dict(),
            dimensions=sizes.to_dict(),
            **options,
        )
        made = cls(config)
        made.start.copy_(kernel.initial(sizes.num_layers))
        return made

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any) -> Any:
        """As `PreTrainedModel.from_pretrained`, without progress bars."""
        with hide_weight_bars():
            return super().from_pretrained(*args, **kwargs)

    @property
    def kernel(self) -> Kernel:
        return kernels.get(**self.config.kernel)

    def _init_weights(self, module: nn.Module) -> None:
        """Each part starts as its own class and `__init__` made it."""

    def forward(self, observation: Observation, budget: Tensor) -> Tensor:
        """Kernel parameters [B, P] of each sample. budget: [B], fractions of the unpruned cost."""
        seen = self.visual(observation.visual)
        words = self.text(observation.text)  # [B, T, W]
        gap = ~observation.present
        match = torch.einsum("qw,btw->bqt", self.queries, words).masked_fill(gap[:, None], -1e4)
        attended = torch.einsum("bqt,btw->bqw", match.softmax(-1), words).flatten(1)
        mean = words.masked_fill(gap[..., None], 0.0).sum(1) / observation.present.sum(-1, keepdim=True).clamp_min(1)
        # The budget as a number and as waves, and the sizes that say what it buys.
        dtype = self.offset.weight.dtype
        b = budget.to(observation.visual.device, dtype)[:, None]
        phase = b * torch.pi * torch.arange(1, _WAVES + 1, device=b.device)
        sizes = observation.sizes[:, :2].to(dtype).clamp_min(1)
        logs = sizes.log() / 5.0
        terms = self.terms(torch.cat([b, phase.sin(), phase.cos(), logs, (logs[:, 1:] - logs[:, :1])], dim=-1))
        state = self.trunk(torch.cat([seen, mean, attended, terms], dim=-1))
        params: Tensor = self.start + self.offset(state).float()
        return params

    def flops(self, num_text: int) -> int:
        """FLOPs of one prediction for an instruction of `num_text` tokens: what it adds to a prefill."""
        D, W, Q = self.config.hidden, self.config.width, self.config.queries
        per_word = 2 * D * W + 4 * Q * W
        once = sum(2 * int(m.weight.numel()) for m in self.modules() if isinstance(m, nn.Linear)) - 2 * D * W
        return int(num_text * per_word + once)
