"""`@frozen` and `@mutable`: dataclasses with fields by name that cost nothing to declare.

The standard decorator imports `inspect`, builds a class with slots twice, and writes six methods of it as text and
compiles them: 0.7 ms a class with CPython 3.11, and a check imports 140 of them. Here a class keeps what its statement
made; the methods are ordinary functions that go through the annotations. `dataclasses.fields`, `replace`, `asdict`,
copies and pickles work as with any dataclass: the standard decorator's description is made when it is asked for.
"""

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar, dataclass_transform

T = TypeVar("T")
_DESCRIPTION, _DECLARED = "__dataclass_fields__", "_declared_fields"
_MISSING = object()


class Field:
    """What `field` says of one field."""

    def __init__(self, default: Any, made: Callable[[], Any] | None, *, shown: bool, compared: bool) -> None:
        """Keep it; `made` makes the default of each object."""
        self.default, self.made, self.shown, self.compared = default, made, shown, compared


def field(
    *,
    default: Any = _MISSING,
    default_factory: Callable[[], Any] | None = None,
    repr: bool = True,  # noqa: A002 - the standard function's name
    compare: bool = True,
) -> Any:
    """Return the default of a field in a class statement, as `dataclasses.field` does."""
    return Field(default, default_factory, shown=repr, compared=compare)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Make a class an immutable dataclass, whose fields are given by name."""
    made: Any = mutable(cls)
    made.__hash__ = _hash
    made.__setattr__, made.__delattr__ = _refuse_to_assign, _refuse_to_delete
    return cls


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def mutable(cls: type[T]) -> type[T]:
    """Make a class a dataclass whose fields are given by name and may be assigned to."""
    made: Any = cls
    made.__init__ = _initializer(made)
    made.__repr__, made.__eq__, made.__hash__ = _represent, _equal, None
    setattr(made, _DESCRIPTION, _Description(made))
    setattr(made, _DECLARED, None)
    return cls


def replace(item: T, /, **changes: Any) -> T:
    """Return a copy of an object of such a class with some fields changed; raise TypeError for what is not a field."""
    return type(item)(**({name: getattr(item, name) for name in _declared(type(item))} | changes))


def is_declared(kind: object) -> bool:
    """Tell a class that `frozen` or `mutable` made, and an object of one, from any other."""
    return hasattr(kind, _DECLARED)


def field_names(kind: type) -> tuple[str, ...]:
    """Return the fields of such a class, in the order of their declaration."""
    return tuple(_declared(kind))


def has_default(kind: type, name: str) -> bool:
    """Tell whether a field of such a class may be left out."""
    default = _declared(kind)[name]
    return default is not _MISSING if not isinstance(default, Field) else _has_default(default)


def _has_default(field: Field) -> bool:
    return field.made is not None or field.default is not _MISSING


def _made(field: Field) -> Any:
    return field.made() if field.made else field.default


def _declared(kind: type) -> dict[str, Any]:
    """Return field -> its default, a `Field`, or _MISSING. Made when first needed: many classes have no object."""
    found: dict[str, Any] | None = kind.__dict__.get(_DECLARED)
    if found is None:
        found = {}
        for base in reversed(kind.__mro__):
            own = getattr(base, "__annotations__", {})
            found |= base.__dict__.get(_DECLARED) or {name: base.__dict__.get(name, _MISSING) for name in own}
        wrong = [name for name, default in found.items() if type(default).__module__ == "dataclasses"]
        if wrong:
            raise TypeError(f"{kind.__name__}.{wrong[0]} needs the `field` of {__name__}")
        setattr(kind, _DECLARED, found)
    return found


class _Description:
    """Stands for `__dataclass_fields__` until the standard library asks for it, and then has it made."""

    def __init__(self, kind: type) -> None:
        self._kind = kind

    def __get__(self, item: object, owner: type) -> Mapping[str, Any]:
        import dataclasses  # noqa: PLC0415 - brings `inspect` along

        for name, default in _declared(self._kind).items():
            if isinstance(default, Field):
                given: dict[str, Any] = {"repr": default.shown, "compare": default.compared}
                if _has_default(default):
                    given |= {"default_factory": default.made} if default.made else {"default": default.default}
                setattr(self._kind, name, dataclasses.field(**given))
        dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=True)(self._kind)
        return self._kind.__dict__[_DESCRIPTION]  # type: ignore[no-any-return]


def _initializer(cls: type) -> Callable[..., None]:
    declared: dict[str, Any] = {}
    every = declared.keys()

    def init(self: object, /, **values: Any) -> None:
        if not declared:
            declared.update(_declared(cls))
        if values.keys() != every:
            values = _completed(cls, declared, values)
        self.__dict__.update(values)

    after = getattr(cls, "__post_init__", None)
    if after is None:
        return init

    def init_and_more(self: object, /, **values: Any) -> None:
        init(self, **values)
        after(self)

    return init_and_more


def _completed(cls: type, declared: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given values and the defaults of the others; raise the TypeError of a wrong call."""
    if unknown := next((name for name in given if name not in declared), None):
        raise TypeError(f"{cls.__name__}.__init__() got an unexpected keyword argument {unknown!r}")
    values = dict(given)
    missing: list[str] = []
    for name, default in declared.items():
        if name in given:
            continue
        value = _made(default) if isinstance(default, Field) else default
        if value is _MISSING:
            missing.append(repr(name))
        values[name] = value
    if missing:
        raise TypeError(f"{cls.__name__}.__init__() was not given {', '.join(missing)}")
    return values


def _represent(self: Any) -> str:
    declared = _declared(type(self)).items()
    shown = (name for name, default in declared if not isinstance(default, Field) or default.shown)
    return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


def _compared(self: Any) -> tuple[Any, ...]:
    declared = _declared(type(self)).items()
    return tuple(
        getattr(self, name) for name, default in declared if not isinstance(default, Field) or default.compared
    )


def _equal(self: object, other: object) -> bool:
    return _compared(self) == _compared(other) if other.__class__ is self.__class__ else NotImplemented


def _hash(self: object) -> int:
    return hash(_compared(self))


def _refuse_to_assign(self: object, name: str, value: object) -> NoReturn:
    del self, value
    raise _immutable(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> NoReturn:
    del self
    raise _immutable(f"cannot delete field {name!r}")


def _immutable(message: str) -> AttributeError:
    from dataclasses import FrozenInstanceError  # noqa: PLC0415 - as above

    return FrozenInstanceError(message)
