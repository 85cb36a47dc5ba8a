"""Frozen dataclasses without `dataclasses`, which takes longer to load than the encoder does, and
named tuples without a look at their annotations, which `typing` compiles one by one.

Type checkers see those of the standard library. When a program runs, `dataclass` turns a class into
the same as `dataclasses.dataclass(frozen=True)` does, for fields without options and classes
without a base. The functions of `dataclasses` take its objects too: the attributes that they look
for in a class are created when they do.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import replace as replace
    from functools import cached_property as cached_property
    from typing import NamedTuple as NamedTuple
else:

    class _NamedTupleMaker(type):
        def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = body["__annotations__"]
            defaults = [body.pop(field) for field in fields if field in body]
            kind = namedtuple(name, fields, defaults=defaults)
            for attribute, value in body.items():
                setattr(kind, attribute, value)
            return kind

    class NamedTuple(metaclass=_NamedTupleMaker):
        """Turns a class with annotated fields into a named tuple."""

    def dataclass(*, frozen: bool) -> Callable[[type], type]:
        """Turns a class with annotated fields into a frozen dataclass."""
        assert frozen
        return _frozen_class

    def replace(value: Any, **changes: Any) -> Any:
        """The same value, with other fields."""
        return type(value)(**{**fields_of(value), **changes})

    class cached_property:
        """A value that is computed once. It is set as fields are, for the same reason."""

        def __init__(self, compute: Callable[[Any], Any]) -> None:
            self._compute = compute

        def __get__(self, value: Any, owner: type) -> Any:
            if value is None:
                return self
            computed = self._compute(value)
            object.__setattr__(value, self._compute.__name__, computed)
            return computed


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of a value, by name."""
    return {name: getattr(value, name) for name in value.__match_args__}


def _frozen_class(cls: type) -> type:
    names = tuple(cls.__annotations__)
    methods: dict[str, Any] = {
        "__match_args__": names,
        "__init__": _initialise,
        "__repr__": lambda self: f"{type(self).__qualname__}({_listed(fields_of(self))})",
        "__replace__": replace,
        "__hash__": lambda self: hash(tuple(fields_of(self).values())),
        "__reduce__": lambda self: (type(self), tuple(fields_of(self).values())),
        **{"__eq__": _equals, "__setattr__": _refuse, "__delattr__": _refuse},
        **{name: _OnDemand(name) for name in ("__dataclass_fields__", "__dataclass_params__")},
    }
    for name, method in methods.items():
        if name not in vars(cls):
            setattr(cls, name, method)
    return cls


def _initialise(self: Any, *values: Any, **named: Any) -> None:
    """Sets the fields, given in order or by name, and takes missing ones from the class."""
    cls = type(self)
    names = cls.__match_args__
    arguments = dict(zip(names, values, strict=False))
    wrong = [*values[len(names) :], *(arguments.keys() & named.keys()), *(named.keys() - {*names})]
    arguments |= named
    missing = [name for name in names if name not in arguments and not hasattr(cls, name)]
    if wrong or missing:
        raise TypeError(f"{cls.__qualname__}(): not expected: {wrong}, missing: {missing}")
    # One by one, with the defaults: a value that only the class has, or a dict of its own, takes
    # several times as long to read, and dialects are read with every request.
    for name in names:
        object.__setattr__(self, name, arguments[name] if name in arguments else getattr(cls, name))
    getattr(self, "__post_init__", bool)()


def _listed(fields: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in fields.items())


def _equals(self: Any, other: object) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    return fields_of(self) == fields_of(other)


def _refuse(self: Any, name: str, *_: object) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot change field {name!r}")


class _OnDemand:
    """An attribute that `dataclasses` gives to its classes: taken from one with the same fields."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, value: object, owner: Any) -> Any:
        import dataclasses

        names = owner.__match_args__
        defaults = {name: getattr(owner, name) for name in names if hasattr(owner, name)}
        body = {"__annotations__": owner.__annotations__, **defaults}
        twin: Any = dataclasses.dataclass(frozen=True)(type(owner.__name__, (), body))
        written = getattr(twin, self._name)
        setattr(owner, self._name, written)
        return written
