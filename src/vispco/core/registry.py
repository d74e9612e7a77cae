"""`Registry`: items of one kind by name; other packages add some by entry points."""

import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar, overload

from vispco.core.errors import InvalidInputError, UnknownNameError

T = TypeVar("T")


_REGISTRIES: "weakref.WeakSet[Registry[Any]]" = weakref.WeakSet()


class RegistryWarning(UserWarning):
    """An entry point of another package could not be used and was skipped."""


class Registry(Generic[T]):
    """Items of one kind by name, in the order of registration.

    Another package adds items without being imported by the user: it declares entry points in its pyproject.toml, which
    are loaded on first use.

        [project.entry-points."vispco.kernels"]
        cosine = "my_package.cosine:Cosine"

    An item's name is its attribute `name`, else the name of the entry point. Names that are already taken stay as they are.

    Items of this package may be declared by name and module, which is imported when one of them is asked for.

    kind: what the items are, for messages ("kernel"). group: the entry-point group ("vispco.kernels").
    """

    def __init__(self, kind: str, group: str) -> None:
        self.kind = kind
        self.group = group
        self._items: dict[str, T] = {}
        self._modules: dict[str, str] = {}
        self._loaded = False
        _REGISTRIES.add(self)

    def declare(self, modules: Mapping[str, str]) -> None:
        """Name items that a module registers when it is imported: {"fastv": "vispco.scorers.fastv"}."""
        self._modules.update(modules)

    @overload
    def register(self, item: T, *, name: str | None = None) -> T: ...
    @overload
    def register(self, item: None = None, *, name: str | None = None) -> Callable[[T], T]: ...
    def register(self, item: T | None = None, *, name: str | None = None) -> T | Callable[[T], T]:
        """Add an item; as a decorator with or without `name`, which defaults to the item's attribute `name`."""
        if item is None:
            return lambda given: self.register(given, name=name)
        key = name if name is not None else getattr(item, "name", None)
        if not isinstance(key, str) or not key:
            raise InvalidInputError(f"{item!r} has no name. Set its attribute `name`, or register it with name=.")
        declared = self._modules.get(key, getattr(item, "__module__", None))
        if key in self._items or declared != getattr(item, "__module__", None):
            raise InvalidInputError(f"A {self.kind} named {key!r} is registered already. Choose another name.")
        self._items[key] = item
        return item

    def get(self, name: str) -> T:
        """The item registered under `name`."""
        if name not in self._items and name in self._modules:
            import_module(self._modules[name])
        if name not in self._items:
            self._load()
        if name not in self._items:
            raise UnknownNameError(self.kind, name, self.names())
        return self._items[name]

    def names(self) -> list[str]:
        """All names, those that were declared first, then in the order of registration."""
        self._load()
        return list(dict.fromkeys((*self._modules, *self._items)))

    def __contains__(self, name: object) -> bool:
        return name in self._modules or name in self._items or name in self.names()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def _load(self) -> None:
        """Load the entry points once. One that cannot be loaded is skipped with a warning."""
        if self._loaded:
            return
        self._loaded = True  # first: an entry point's module may use this registry while it is imported
        for point in entry_points(group=self.group):
            try:
                item = point.load()
                name = getattr(item, "name", None)
                key = name if isinstance(name, str) and name else point.name
                if self._items.get(key) is not item:  # its module may have registered it by the decorator
                    self.register(item, name=key)
            except Exception as error:  # noqa: BLE001 - whatever another package raises, the rest must work
                warnings.warn(
                    f"The {self.kind} {point.name!r} ({point.value}, an entry point of {self.group}) was skipped: "
                    f"{type(error).__name__}: {error} Update or remove the package that declares it.",
                    RegistryWarning,
                    stacklevel=4,
                )


@contextmanager
def preserved() -> Iterator[None]:
    """Undo all registrations of the block when it ends, in every registry; for tests and examples."""
    before = [(registry, dict(registry._items)) for registry in _REGISTRIES]  # noqa: SLF001
    try:
        yield
    finally:
        for registry, items in before:
            declared = {key: item for key, item in registry._items.items() if key in registry._modules}  # noqa: SLF001
            registry._items = {**items, **declared}  # noqa: SLF001
