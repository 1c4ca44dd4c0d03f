"""``dataclass`` as in the standard library, at a quarter of the cost for a frozen one; and some fields as a dict.

The kit's three hundred frozen dataclasses took a tenth of a short run: for each, the standard library collects the
fields, and writes and compiles six methods. Here the fields are collected, and ``__init__``, ``__eq__`` and
``__hash__`` are compiled, on first use; the others are functions over the fields' names. Options other than ``frozen``
and ``eq`` are left to the standard library.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """Like ``dataclasses.dataclass``; the type checker sees that one."""
        if cls is None:
            return lambda cls: dataclass(cls, **options)
        own = {"__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__"} & cls.__dict__.keys()
        if own or not options.get("frozen") or options.keys() - {"frozen", "eq"}:
            return dataclasses.dataclass(cls, **options)
        return _frozen(cls, options.get("eq", True))


def picked(record: object, names: str) -> dict[str, Any]:
    """Return fields or properties of a record by name, for JSON. ``names``: separated by blanks."""
    return {name: getattr(record, name) for name in names.split()}


def _frozen(cls: type, eq: bool) -> type:
    if not cls.__doc__:
        cls.__doc__ = cls.__name__  # the standard library would parse the signature of ``object`` for it
    methods: dict[str, Any] = {"__repr__": _repr(cls), **_unchangeable(cls)}
    if eq:
        methods |= _comparing(cls)
    for name, method in methods.items():
        _put(cls, name, method)
    for name, find in _LATE.items():
        setattr(cls, name, _Late(cls, name, find))
    cls.__init__ = _Late(cls, "__init__", _put_init)  # type: ignore[misc]
    if any(isinstance(value, dataclasses.Field) for value in cls.__dict__.values()):
        _find_fields(cls)  # which replaces each of these class attributes by the default value
    return cls


class _Late:
    """An attribute of a class until it is first looked up: ``make`` then puts the real one in its place."""

    def __init__(self, cls: type, name: str, make: Callable[[type], None]) -> None:
        self._cls, self._name, self._make = cls, name, make

    def __get__(self, instance: object, owner: type) -> Any:
        if self._cls.__dict__[self._name] is self:
            self._make(self._cls)
        made = self._cls.__dict__[self._name]
        return made.__get__(instance, owner) if hasattr(made, "__get__") else made


def _find_fields(cls: type) -> None:
    dataclasses.dataclass(init=False, repr=False, eq=False, match_args=False)(cls)


def _put_match_args(cls: type) -> None:
    names = tuple(field.name for field in dataclasses.fields(cls) if field.init and not field.kw_only)
    type.__setattr__(cls, "__match_args__", names)


def _put_init(cls: type) -> None:
    _put(cls, "__init__", _init(cls, dataclasses.fields(cls)))


# What the standard library finds out about a class, and what finds it out here.
_LATE = {
    "__dataclass_fields__": _find_fields,
    "__dataclass_params__": _find_fields,
    "__match_args__": _put_match_args,
}


def _put(cls: type, name: str, method: Any) -> None:
    method.__qualname__ = f"{cls.__qualname__}.{name}"
    setattr(cls, name, method)


def _compiled(text: str, name: str, names: dict[str, Any]) -> Callable[..., Any]:
    exec(text, names)
    made: Callable[..., Any] = names[name]
    return made


def _init(cls: type, fields: tuple[dataclasses.Field[Any], ...]) -> Callable[..., None]:
    """Set each field: from its argument, else its default, else its factory."""
    names: dict[str, Any] = {"_object": object, "_none": dataclasses.MISSING}
    arguments, keywords, body = ["self"], list[str](), list[str]()
    for number, field in enumerate(fields):
        name, value = field.name, field.name
        has_factory = field.default_factory is not dataclasses.MISSING
        names |= {f"_default{number}": field.default, f"_make{number}": field.default_factory}
        if not field.init:
            if not has_factory:
                continue  # the class holds the default, if there is one
            value = f"_make{number}()"
        else:
            has_default = field.default is not dataclasses.MISSING
            default = f"=_default{number}" if has_default else "=_none" if has_factory else ""
            (keywords if field.kw_only else arguments).append(name + default)
            if has_factory:
                value = f"_make{number}() if {name} is _none else {name}"
        body.append(f" _object.__setattr__(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append(" self.__post_init__()")
    if keywords:
        arguments += ["*", *keywords]
    made = _compiled(f"def __init__({', '.join(arguments)}):\n" + ("\n".join(body) or " pass"), "__init__", names)
    made.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
    return made


def _repr(cls: type) -> Callable[[Any], str]:
    def __repr__(self: Any) -> str:
        names = [field.name for field in dataclasses.fields(cls) if field.repr]
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return recursive_repr("...")(__repr__)


def _comparing(cls: type) -> dict[str, Callable[..., Any]]:
    def tuple_of(one: str, names: list[str]) -> str:
        return f"({''.join(f'{one}.{name}, ' for name in names)})"

    def __eq__(self: Any, other: Any) -> bool:
        names = [field.name for field in dataclasses.fields(cls) if field.compare]
        same = f"{tuple_of('self', names)} == {tuple_of('other', names)}"
        text = f"def __eq__(self, other):\n return {same} if other.__class__ is self.__class__ else NotImplemented"
        made = _compiled(text, "__eq__", {})
        _put(cls, "__eq__", made)
        return bool(made(self, other)) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:
        names = [
            field.name for field in dataclasses.fields(cls) if (field.compare if field.hash is None else field.hash)
        ]
        made = _compiled(f"def __hash__(self):\n return hash({tuple_of('self', names)})", "__hash__", {})
        _put(cls, "__hash__", made)
        return int(made(self))

    return {"__eq__": __eq__, "__hash__": __hash__}


def _unchangeable(cls: type) -> dict[str, Callable[..., None]]:
    def refuses(self: Any, name: str) -> bool:
        return type(self) is cls or any(field.name == name for field in dataclasses.fields(cls))

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if refuses(self, name):
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)  # type: ignore[arg-type]

    def __delattr__(self: Any, name: str) -> None:
        if refuses(self, name):
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)  # type: ignore[arg-type]

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}
