"""Make a deeper model from a trained one, so that it starts with what the smaller one has learned.

A decoder layer adds two branches to the hidden states: attention and MLP. `grow` replaces a layer by k layers with the
same weights whose branches are divided by k: k short steps in the direction of one long step. Every layer of the deep
model takes part from the first step of its training, unlike layers that are inserted as the identity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from vispco.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

OUTPUTS = ("self_attn.o_proj.weight", "mlp.down_proj.weight")  # the last linear map of each branch


@torch.no_grad()
def grow(model: Any, deep: Any, copies: Sequence[int]) -> None:
    """Fill `deep` with the weights of `model`; layer i of `model` becomes `copies[i]` layers of `deep`.

    Both models are equal in everything but the number of decoder layers.
    """
    source, target = model.model.language_model.layers, deep.model.language_model.layers
    if len(copies) != len(source) or sum(copies) != len(target) or min(copies) < 1:
        raise InvalidInputError(
            f"copies is {tuple(copies)}; it needs {len(source)} numbers of 1 or more that add up to {len(target)}, "
            "one for each decoder layer of the smaller model."
        )
    prefix = "model.language_model.layers."
    rest = {name: tensor for name, tensor in model.state_dict().items() if not name.startswith(prefix)}
    deep.load_state_dict(rest, strict=False)
    layers = iter(target)
    for layer, count in zip(source, copies, strict=True):
        state = layer.state_dict()
        divided = {name: tensor / count if name in OUTPUTS else tensor for name, tensor in state.items()}
        for _ in range(count):
            next(layers).load_state_dict(divided)
