"""`describe` says which models are first class: those that every law of the engine is tested on."""

import pytest

import tiny
from vispco.estimates import DescribeSettings, describe
from vispco.families import FAMILIES


@pytest.mark.parametrize("name", tiny.BUILDERS)
def test_generic_families_are_not_called_first_class(name):
    config = tiny.build(name).config
    path = describe(config, name, DescribeSettings(visual=16))["supported"]["path"]
    assert path == ("first class" if name in tiny.FIRST_CLASS else "generic, tested")


def test_first_class_models_are_those_that_the_laws_are_tested_on():
    declared = {model_type for family in FAMILIES.values() for model_type in family.first_class}
    assert declared == set(tiny.FIRST_CLASS)
