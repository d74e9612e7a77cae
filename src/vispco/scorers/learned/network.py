"""The weights of a learned method: a `PreTrainedModel`, so that it is saved, loaded and shared like any other.

A folder holds config.json and model.safetensors. Weights are read from safetensors only.
"""

from abc import abstractmethod
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel

from vispco.core.errors import InvalidInputError
from vispco.core.weights import hide_weight_bars

SHIPPED = Path(__file__).parent / "weights"
TRAINED = "scorer"
"""The folder of the weights inside the run folder of `vispco train`."""
_KEPT = 8  # networks that stay in memory


class LearnedConfig(PreTrainedConfig):  # type: ignore[misc]
    """The method and the model that weights belong to.

    method: the scorer's name. model: what it was trained for, for people. hidden, num_layers: of that language model.
    target: what training aimed at; each method says in which unit. options: of the network (`LearnedNetwork.defaults`).
    """

    model_type = "vispco_scorer"

    def __init__(
        self,
        method: str = "",
        model: str = "",
        hidden: int = 0,
        num_layers: int = 0,
        target: float = 0.0,
        options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self.method, self.model, self.hidden, self.num_layers = method, model, hidden, num_layers
        self.target, self.options = target, options or {}
        super().__init__(**kwargs)


class LearnedNetwork(PreTrainedModel):  # type: ignore[misc]
    """The trained part of a method. Subclasses build their modules in `build`, from `self.config`."""

    config_class = LearnedConfig
    main_input_name = "hidden"

    def __init__(self, config: LearnedConfig) -> None:
        super().__init__(config)
        config.options = {**self.defaults(config.hidden, config.num_layers), **config.options}
        self.build(**config.options)
        self.post_init()

    @classmethod
    def defaults(cls, hidden: int, num_layers: int) -> dict[str, Any]:  # noqa: ARG003
        """The options for a language model of this width and depth."""
        return {}

    @abstractmethod
    def build(self, **options: Any) -> None:
        """Make the modules."""

    def _init_weights(self, module: nn.Module) -> None:
        """Each part starts as its own class and `build` made it."""

    def save_pretrained(self, save_directory: str | Path, **kwargs: Any) -> None:
        """As `PreTrainedModel.save_pretrained`, without progress bars."""
        with hide_weight_bars():
            super().save_pretrained(save_directory, **kwargs)

    @classmethod
    def from_pretrained(cls, source: str | Path, **kwargs: Any) -> Self:
        """Read saved weights: a folder, or a hub id. Safetensors only, in float32."""
        try:
            with hide_weight_bars():
                loaded, info = super().from_pretrained(
                    source, use_safetensors=True, dtype=torch.float32, output_loading_info=True, **kwargs
                )
        except (OSError, ValueError, RuntimeError) as error:
            first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
            raise InvalidInputError(
                f"The weights {source} cannot be read: {first.strip()} Give the folder of a `vispco train` run, or of "
                "`save_pretrained` (config.json and model.safetensors)."
            ) from error
        missing = sorted(info["missing_keys"])
        if missing:  # transformers leaves them at random
            raise InvalidInputError(
                f"The weights {source} are not complete: {', '.join(missing[:3])} is not among them. Train the method again."
            )
        found: Self = loaded
        return found


def find_weights(weights: str | None, method: str, model: Any) -> str:
    """Where the weights of a method for a model are: given, or shipped for that model."""
    name = Path(str(getattr(model.config, "name_or_path", "") or "")).name
    shipped = SHIPPED / (weights or name or "-") / method
    if (shipped / "config.json").is_file() and "/" not in (weights or ""):
        return str(shipped)
    if weights is None:
        there = sorted(path.parent.name for path in SHIPPED.glob(f"*/{method}"))
        shown = f"Shipped ones are for {', '.join(there)}. " if there else ""
        raise InvalidInputError(
            f"The method {method!r} is a trained one, and there are no weights for the model {name or type(model).__name__}. "
            f"{shown}Train it with `vispco train {method} MODEL --out DIR`, then write {method}(weights=DIR)."
        )
    folder = Path(weights).expanduser()
    if (folder / TRAINED / "config.json").is_file():
        return str(folder / TRAINED)
    if not folder.is_dir() and (weights.startswith((".", "/", "~")) or weights.count("/") != 1):
        raise InvalidInputError(
            f"There are no weights {weights!r} for {method!r}. Give the folder of a `vispco train` run, the name of a "
            "shipped model, or a hub id of the form owner/name."
        )
    return str(folder if folder.is_dir() else weights)


def load_network(kind: type[LearnedNetwork], source: str, device: torch.device) -> LearnedNetwork:
    """Saved weights on a device, ready to run and never to be trained. The same files are read once."""
    files = [Path(source) / name for name in ("config.json", "model.safetensors")]
    changed = tuple(file.stat().st_mtime_ns for file in files if file.is_file())
    made: Any = kind
    return _load(made, source, str(device), changed)


@lru_cache(maxsize=_KEPT)
def _load(kind: type[LearnedNetwork], source: str, device: str, changed: tuple[int, ...]) -> LearnedNetwork:  # noqa: ARG001
    network = kind.from_pretrained(source).to(device).eval()
    return network.requires_grad_(False)  # type: ignore[no-any-return]


def masked_mean(values: Tensor, live: Tensor) -> Tensor:
    """Mean over the live tokens: values [B, V, ...] -> [B, ...]; 0 where there are none."""
    weight = live.view(*live.shape, *[1] * (values.dim() - 2)).to(values.dtype)
    return (values * weight).sum(1) / weight.sum(1).clamp_min(1)
