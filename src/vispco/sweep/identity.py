"""What a study is a study of; another sweep under the same name is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import optuna

from vispco.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vispco.sweep.storage import Store

KEY = "vispco"
DIRECTIONS = ("minimize", "maximize")  # cost, accuracy: the dashboard then draws the frontier by itself


def open_study(store: Store, name: str, identity: Mapping[str, Any]) -> optuna.Study:
    """The study `name`: a new one, or the one that is there, if it is of the same model, space, tasks and so on."""
    wanted = json.loads(json.dumps(identity))
    with store.transition():
        study = optuna.create_study(storage=store.optuna, study_name=name, directions=DIRECTIONS, load_if_exists=True)
        found = study.user_attrs.get(KEY)
        if found is None and not study.get_trials(deepcopy=False):
            study.set_user_attr(KEY, wanted)
            return study
    if found is None:
        raise InvalidInputError(f"The study {name!r} in {store.name} was not made by vispco. Give another name.")
    theirs, ours = _flat(found), _flat(wanted)
    differing = sorted(key for key in {*theirs, *ours} if theirs.get(key) != ours.get(key))
    if differing:
        raise InvalidInputError(
            f"The study {name!r} in {store.name} is another sweep: it has {_named(theirs, differing)}; "
            f"this one has {_named(ours, differing)}. Give another name, or the same settings to go on with it."
        )
    return study


def _flat(identity: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in identity.items() if k != "fingerprint"} | dict(identity.get("fingerprint", {}))


def _named(identity: Mapping[str, Any], keys: list[str]) -> str:
    return ", ".join(f"{key}={identity.get(key)!r}" for key in keys)
