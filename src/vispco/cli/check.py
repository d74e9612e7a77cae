"""`vispco check`: the laws of pruning, run on a user's own model."""

from typing import Annotated

import typer

from vispco.cli.console import show, table
from vispco.cli.options import AsJson
from vispco.core.errors import UnsupportedModelError
from vispco.models.model_spec import ModelSpec, read_config

_COLOURS = {"holds": "green", "refused": "yellow", "broken": "red", "crash": "red"}


def check(
    model: Annotated[
        str,
        typer.Argument(help="A shipped model, a folder, a hub id, a config.json, or a model_type such as qwen3_vl."),
    ],
    *,
    weights: Annotated[bool, typer.Option("--weights", help="Load the real weights, not a tiny random twin.")] = False,
    scorer: Annotated[str, typer.Option(help="With which tokens are chosen.")] = "fastv",
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a hub id.")] = None,
    trust_remote_code: Annotated[bool, typer.Option(help="Run code that comes with the config.")] = False,
    json: AsJson = False,
) -> None:
    """Whether a model is pruned exactly.

    All laws of pruning, run on a tiny random twin of its config, or on the real weights.

    Examples:

        vispco check qwen3_vl

        vispco check tiny-gemma --weights
    """
    from rich.text import Text  # noqa: PLC0415

    from vispco.check.check_model import check_model  # noqa: PLC0415
    from vispco.check.twin import checked_twin, classes, quiet  # noqa: PLC0415
    from vispco.scorers import Chain  # noqa: PLC0415

    Chain.of(scorer)  # a wrong name is refused before a model is made
    with quiet():
        if weights:
            loaded, _ = ModelSpec(
                model, dtype="float32", device="cpu", revision=revision, trust_remote_code=trust_remote_code
            ).load()
        elif model in classes():
            loaded = checked_twin(model)
        else:
            found = read_config(model, revision=revision, trust_remote_code=trust_remote_code, also=classes())
            loaded = checked_twin(found)
        report = check_model(loaded, scorer)
    data = {"model": model, "weights": weights, **report.to_dict()}
    rows = [
        (found["law"].replace("_", " "), Text(found["state"], _COLOURS[found["state"]]), found["why"])
        for found in data["findings"]
    ]
    title = f"{report.model_class}, {'real weights' if weights else 'a tiny random twin'}: {report.verdict}"
    shown = table(("law", "state", "why"), rows, title, caption=data["why"] or "", left=("state", "why"))
    show(data, as_json=json, table=shown)
    if report.verdict in ("wrong", "crash"):
        raise UnsupportedModelError(
            f"{report.model_class} is not pruned exactly: {report.why}. Do not use a pruner on it; please report it."
        )
