"""The walk: every class of transformers' image-text-to-text mapping, and released variants, each as a tiny random twin."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from transformers import logging
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

from vispco.check.prompts import prompter_for
from vispco.check.report import Report, check_model
from vispco.check.twin import twin_of
from vispco.check.variants import VARIANTS
from vispco.families.unserved import NO_VISUAL_TOKENS


def classes() -> dict[str, str]:
    """{model_type: name of the class} of the installed transformers."""
    return {kind: str(name) for kind, name in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.items()}


def check_class(model_type: str) -> Report:
    """All laws on the twin of one class."""
    name = classes().get(model_type, model_type)
    if model_type in NO_VISUAL_TOKENS:
        return Report(name, "no visual tokens", NO_VISUAL_TOKENS[model_type])
    with quiet():
        try:
            return check_model(twin_of(model_type))
        except Exception as error:  # noqa: BLE001 - one class must not end the walk
            return _no_twin(name, error)


def check_variant(name: str) -> Report:
    """All laws on the twin of a released variant."""
    variant = VARIANTS[name]
    with quiet():
        try:
            kind = CONFIG_MAPPING[variant.model_type]
            config = kind() if variant.text is None else kind(text_config={"model_type": variant.text})
            model = twin_of(config, variant.changes)
            prompter = prompter_for(model)
            report = check_model(model, prompter=replace(prompter, token_types=variant.token_types))
        except Exception as error:  # noqa: BLE001 - one variant must not end the walk
            return _no_twin(name, error)
    return replace(report, model_class=name)


def walk(kinds: Iterable[str] | None = None) -> Iterator[tuple[str, Report]]:
    """(model_type, what was found) for class after class."""
    for kind in classes() if kinds is None else kinds:
        yield kind, check_class(kind)


@contextmanager
def quiet() -> Iterator[None]:
    """Without transformers' remarks about tiny configs."""
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            logging.set_verbosity(before)


def _no_twin(name: str, error: Exception) -> Report:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    sentence = " ".join(str(error).split())[:300]
    return Report(
        name, "no twin", f"{type(error).__name__}: {sentence} ({frame.filename.rsplit('/', 1)[-1]}:{frame.lineno})"
    )
