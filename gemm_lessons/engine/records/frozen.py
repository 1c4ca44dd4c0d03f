"""``dataclass`` as in the standard library, at a quarter of the cost for a frozen one; and some fields as a dict.

The kit's two hundred frozen dataclasses took a tenth of a short run: for each, the standard library writes and compiles
six methods. Here ``__init__``, ``__eq__`` and ``__hash__`` are compiled on first use; the others are functions over the
fields' names. Options other than ``frozen`` and ``eq`` are left to the standard library.
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
    cls = dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
    fields = dataclasses.fields(cls)
    methods: dict[str, Any] = {"__repr__": _repr(fields), **_unchangeable(cls, fields)}
    if eq:
        methods |= _comparing(cls, fields)
    for name, method in methods.items():
        _put(cls, name, method)
    cls.__init__ = _LateInit(cls, fields)  # type: ignore[misc]
    return cls


class _LateInit:
    """``__init__`` of a class until it is first looked up: compiles the real one, which takes its place."""

    def __init__(self, cls: type, fields: tuple[dataclasses.Field[Any], ...]) -> None:
        self._cls, self._fields = cls, fields

    def __get__(self, instance: object, owner: type) -> Any:
        made = _init(self._cls, self._fields)
        _put(self._cls, "__init__", made)
        return made if instance is None else made.__get__(instance, owner)


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


def _repr(fields: tuple[dataclasses.Field[Any], ...]) -> Callable[[Any], str]:
    names = [field.name for field in fields if field.repr]

    def __repr__(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return recursive_repr("...")(__repr__)


def _comparing(cls: type, fields: tuple[dataclasses.Field[Any], ...]) -> dict[str, Callable[..., Any]]:
    def tuple_of(one: str, names: list[str]) -> str:
        return f"({''.join(f'{one}.{name}, ' for name in names)})"

    def __eq__(self: Any, other: Any) -> bool:
        names = [field.name for field in fields if field.compare]
        same = f"{tuple_of('self', names)} == {tuple_of('other', names)}"
        text = f"def __eq__(self, other):\n return {same} if other.__class__ is self.__class__ else NotImplemented"
        made = _compiled(text, "__eq__", {})
        _put(cls, "__eq__", made)
        return bool(made(self, other)) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:
        names = [field.name for field in fields if (field.compare if field.hash is None else field.hash)]
        made = _compiled(f"def __hash__(self):\n return hash({tuple_of('self', names)})", "__hash__", {})
        _put(cls, "__hash__", made)
        return int(made(self))

    return {"__eq__": __eq__, "__hash__": __hash__}


def _unchangeable(cls: type, fields: tuple[dataclasses.Field[Any], ...]) -> dict[str, Callable[..., None]]:
    names = frozenset(field.name for field in fields)

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)  # type: ignore[arg-type]

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)  # type: ignore[arg-type]

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}
