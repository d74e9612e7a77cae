"""Registries: names, decorators, entry points of other packages, and what a wrong name is told."""

from importlib.metadata import EntryPoint

import pytest

from vispco.core import registry
from vispco.core.errors import InvalidInputError, UnknownNameError
from vispco.core.registry import Registry, RegistryWarning


class Cosine:
    """What another package would bring."""

    name = "cosine"


class Nameless:
    pass


@pytest.fixture
def shapes():
    return Registry("shape", "vispco.shapes")


@pytest.fixture
def declare(monkeypatch):
    """Declare entry points, as installed packages would."""

    def entry_points(*pairs):
        points = [EntryPoint(name, value, "vispco.shapes") for name, value in pairs]
        monkeypatch.setattr(registry, "entry_points", lambda *, group: points if group == "vispco.shapes" else [])

    return entry_points


def test_items_are_found_by_their_names_in_order(shapes):
    @shapes.register
    class Round:
        name = "round"

    @shapes.register(name="angular")
    class Square:
        name = "square"

    assert shapes.names() == list(shapes) == ["round", "angular"]
    assert (shapes.get("round"), shapes.get("angular")) == (Round, Square)
    assert "round" in shapes
    assert "square" not in shapes
    assert len(shapes) == 2


def test_a_name_is_registered_once(shapes):
    shapes.register(Cosine)
    with pytest.raises(InvalidInputError, match="A shape named 'cosine' is registered already"):
        shapes.register(Cosine)


def test_an_item_without_a_name_is_refused(shapes):
    with pytest.raises(InvalidInputError, match="has no name"):
        shapes.register(Nameless)


def test_an_unknown_name_lists_the_known_and_suggests_the_nearest(shapes):
    shapes.register(Cosine)
    shapes.register(Nameless, name="stairs")
    with pytest.raises(UnknownNameError, match=r"Known shapes: cosine, stairs\. Did you mean 'cosine'\?"):
        shapes.get("Cosin")
    with pytest.raises(UnknownNameError, match=r"Known shapes: cosine, stairs\.$"):
        shapes.get("zzz")


def test_entry_points_are_loaded_on_first_use(shapes, declare):
    declare(("other", f"{__name__}:Cosine"), ("nameless", f"{__name__}:Nameless"))
    assert shapes.get("cosine") is Cosine
    assert shapes.names() == ["cosine", "nameless"]


def test_an_entry_point_that_registered_itself_is_not_a_duplicate(shapes, declare, recwarn):
    declare(("cosine", f"{__name__}:Cosine"))
    shapes.register(Cosine)
    assert shapes.names() == ["cosine"]
    assert not recwarn


@pytest.mark.parametrize("value", ["a_package_that_is_not_there:Shape", "test_registry:gone"])
def test_a_broken_entry_point_is_named_and_skipped(shapes, declare, value):
    declare(("bad", value), ("cosine", f"{__name__}:Cosine"))
    with pytest.warns(RegistryWarning, match=f"The shape 'bad' .{value}.* was skipped"):
        assert shapes.names() == ["cosine"]


def test_an_entry_point_does_not_replace_what_is_there(shapes, declare):
    declare(("other", f"{__name__}:Cosine"))
    shapes.register(Nameless, name="cosine")
    with pytest.warns(RegistryWarning, match="'other'.*registered already"):
        assert shapes.names() == ["cosine"]
    assert shapes.get("cosine") is Nameless


def test_registrations_inside_preserved_are_undone(shapes):
    shapes.register(Cosine)
    with registry.preserved():
        shapes.register(Nameless, name="square")
        assert "square" in shapes
    assert shapes.names() == ["cosine"]
