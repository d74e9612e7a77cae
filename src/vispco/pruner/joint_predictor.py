"""The predictor of a joint search: a configuration for each input, by kernel regression on the calibration samples.

A joint search leaves a few configurations (a chain and a shape each) at several levels, and the loss of each of them on the
calibration samples. For a new input the loss of every configuration is estimated. Under a hard budget the best configuration
of the nearest level is taken and solved to the budget. Under a mean budget the level is chosen, too: the one with the least
estimated loss plus multiplier times cost (`mean_budget.py`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from vispco import cost as costs
from vispco import kernels
from vispco.core.weights import hide_weight_bars
from vispco.cost import Cost
from vispco.kernels import Kernel
from vispco.pruner.configurations import Configurations
from vispco.pruner.kernel_regression import NUM_COMPONENTS, KernelRegression
from vispco.pruner.observation import Observation
from vispco.scorers import Chain


class JointPredictorConfig(PreTrainedConfig):  # type: ignore[misc]
    """Everything that a joint predictor needs at deployment, without the model that it was made for.

    hidden: D of the language model. kernel, chains, cost: as data. anchors: K. samples: M, the calibration samples.
    servable: every layer gets the same tokens, as serving engines need it.
    """

    model_type = "vispco_joint_predictor"

    def __init__(
        self,
        hidden: int = 2048,
        anchors: int = 1,
        samples: int = 1,
        kernel: dict[str, Any] | None = None,
        chains: list[dict[str, Any]] | None = None,
        cost: dict[str, Any] | None = None,
        axes: int = NUM_COMPONENTS,
        *,
        servable: bool = False,
        **kwargs: Any,
    ) -> None:
        self.servable = servable
        self.hidden, self.anchors, self.samples, self.axes = hidden, anchors, samples, axes
        self.kernel = kernel or {"name": "steps", "earliest_layer": 0}
        self.chains = chains or [{"name": "fastv"}]
        self.cost = cost or {}
        super().__init__(**kwargs)


class JointPredictor(PreTrainedModel):  # type: ignore[misc]
    """Pooled visual and instruction embeddings and a budget -> a configuration for each sample."""

    config_class = JointPredictorConfig
    main_input_name = "observation"

    def __init__(self, config: JointPredictorConfig) -> None:
        super().__init__(config)
        num_layers = int(config.cost.get("dimensions", {}).get("num_layers", 2))
        P, K, M = self.kernel.num_parameters(num_layers), config.anchors, config.samples
        self.memory = KernelRegression(config.hidden, M, K, config.axes)
        self.params = torch.nn.Parameter(torch.zeros(K, P), requires_grad=False)  # weights have one type
        self.register_buffer("chain", torch.zeros(K, dtype=torch.int64))
        self.register_buffer("level", torch.zeros(K))
        self.register_buffer("kept", torch.ones(K, dtype=torch.bool))  # False: worse than the others of its level
        self.register_buffer("sizes", torch.ones(M, 4, dtype=torch.int64))  # prompt sizes of the samples
        self.post_init()

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any) -> JointPredictor:
        """As `PreTrainedModel.from_pretrained`, without progress bars."""
        with hide_weight_bars():
            loaded: JointPredictor = super().from_pretrained(*args, **kwargs)
        return loaded

    @property
    def kernel(self) -> Kernel:
        return kernels.get(**self.config.kernel)

    @property
    def chains(self) -> tuple[Chain, ...]:
        return tuple(Chain.of(chain) for chain in self.config.chains)

    def make_cost(self) -> Cost:
        return costs.from_dict(self.config.cost)

    @property
    def configurations(self) -> Configurations:
        params, level = self.params.detach().cpu().double(), self.level.cpu().double()
        return Configurations(self.chains, self.chain.cpu(), params, level)

    def _init_weights(self, module: Any) -> None:
        """There are no weights to initialise: all of it is buffers."""

    def estimate(self, observation: Observation | None = None) -> Tensor:
        """The estimated KL of each configuration: [B, K], infinite where one is not kept.

        Without an observation: of the calibration samples themselves, each from the others (leave-one-out).
        """
        return torch.where(self.kept, self.memory.estimate(observation), torch.inf)
