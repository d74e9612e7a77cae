"""`vispco check`: the laws of pruning, run on a user's own model."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from vispco.cli.output import show
from vispco.core.errors import UnsupportedModelError, VispcoError
from vispco.models.model_source import read_config
from vispco.models.model_spec import ModelSpec

SIGNS = {
    "holds": "[green]holds[/]",
    "refused": "[yellow]refused[/]",
    "broken": "[red]broken[/]",
    "crash": "[red]crash[/]",
}


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
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Whether a model is pruned exactly.

    All laws of pruning, run on a tiny random twin of its config, or on the real weights.

    Examples:

        vispco check qwen3_vl

        vispco check tiny-gemma --weights
    """
    from vispco.check.check_model import check_model  # noqa: PLC0415
    from vispco.check.twin import classes, quiet  # noqa: PLC0415
    from vispco.scorers import Chain  # noqa: PLC0415

    Chain.of(scorer)  # a wrong name is refused before a model is made
    with quiet():
        if weights:
            loaded, _ = ModelSpec(
                model, dtype="float32", device="cpu", revision=revision, trust_remote_code=trust_remote_code
            ).load()
        elif model in classes():
            loaded = _twin(model)
        else:
            found = read_config(model, revision=revision, trust_remote_code=trust_remote_code, also=classes())
            loaded = _twin(found)
        report = check_model(loaded, scorer)
    data = {"model": model, "weights": weights, **report.to_dict()}
    show(data, as_json=json, table=None if json else _table(data))
    if report.verdict in ("wrong", "crash"):
        raise UnsupportedModelError(
            f"{report.model_class} is not pruned exactly: {report.why}. Do not use a pruner on it; please report it."
        )


def _twin(config: Any) -> Any:
    from vispco.check.twin import twin_of  # noqa: PLC0415
    from vispco.families.unserved import NO_VISUAL_TOKENS  # noqa: PLC0415

    kind = config if isinstance(config, str) else config.model_type
    if kind in NO_VISUAL_TOKENS:
        raise UnsupportedModelError(
            f"{kind!r} has no visual tokens in its decoder layers: {NO_VISUAL_TOKENS[kind]}. There is nothing to prune."
        )
    try:
        return twin_of(config)
    except VispcoError:
        raise
    except Exception as error:
        raise UnsupportedModelError(
            f"No tiny twin of {kind!r} could be made: {' '.join(str(error).split())} Check the real weights with --weights."
        ) from error


def _table(data: dict[str, Any]) -> Any:
    from rich.table import Table  # noqa: PLC0415

    what = "real weights" if data["weights"] else "a tiny random twin"
    table = Table(title=f"{data['model_class']}, {what}: {data['verdict']}", caption=data["why"] or None)
    table.add_column("law")
    table.add_column("state")
    table.add_column("why")
    for finding in data["findings"]:
        table.add_row(finding["law"].replace("_", " "), SIGNS[finding["state"]], finding["why"])
    return table
