"""``frozen.dataclass`` answers every question about an object as the standard library's does."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import field
from functools import cached_property
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from gemm_lessons.engine.records.frozen import dataclass

Make = Callable[..., Any]


def classes(dataclass: Make) -> SimpleNamespace:
    @dataclass(frozen=True)
    class Empty:
        """Nothing."""

    @dataclass(frozen=True)
    class One:
        """One field."""

        a: int

    @dataclass(frozen=True)
    class Many:
        """All kinds of fields."""

        kind: ClassVar[str] = "many"
        a: int
        b: str = "b"
        c: list[int] = field(default_factory=list, compare=False)
        d: Any = field(default=None, repr=False, hash=False)
        e: float = field(default=2.0, init=False)
        f: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)
        g: int = field(default=7, kw_only=True)

        @cached_property
        def twice(self) -> int:
            return 2 * self.a

        def __post_init__(self) -> None:
            self.f["seen"] = self.a

    @dataclass(frozen=True)
    class More(Many):
        """With those of another."""

        h: int = 3

    @dataclass(frozen=True, eq=False)
    class Itself:
        """Equal to itself alone."""

        a: int

    @dataclass(frozen=True, order=True)
    class Ordered:
        """Left to the standard library."""

        a: int

    @dataclass(frozen=True)
    class OwnHash:
        """With methods of its own."""

        a: int

        def __hash__(self) -> int:
            return 42

        def __repr__(self) -> str:
            return "own"

    class Heir(One):
        """No dataclass itself."""

    return SimpleNamespace(**{name: value for name, value in locals().items() if name != "dataclass"})


OURS, THEIRS = classes(dataclass), classes(dataclasses.dataclass)

QUESTIONS: dict[str, Callable[[SimpleNamespace], Any]] = {
    "repr": lambda m: [repr(m.Empty()), repr(m.One([1])), repr(m.Many(1)), repr(m.More(1, g=2)), repr(m.OwnHash(1))],
    "arguments": lambda m: [str(inspect.signature(m.One)), [*inspect.signature(m.More).parameters]],
    "equal": lambda m: [
        m.Empty() == m.Empty(), m.One(1) == m.One(1), m.One(1) == m.One(2), m.One(1) == m.Many(1), m.One(1) == 1,
        m.Many(1, c=[1]) == m.Many(1, c=[2]), m.Many(1, d=1) == m.Many(1, d=2), m.More(1) == m.More(1, h=3),
        m.More(1) == m.Many(1), m.Heir(1) == m.Heir(1), m.Heir(1) == m.One(1), m.Itself(1) == m.Itself(1),
    ],
    "hash": lambda m: [
        hash(m.Empty()), hash(m.One("x")), hash(m.Many(1, d=[])), hash(m.More(1, h=9)), hash(m.Heir(1)),
        hash(m.OwnHash(1)), hash(m.Ordered(1)), hash(m.Itself(1)) == hash(m.Itself(2)),
    ],
    "fields": lambda m: [[(f.name, f.type, f.init, f.repr) for f in dataclasses.fields(x)] for x in (m.Many, m.More)],
    "replace": lambda m: repr(dataclasses.replace(m.More(1), a=5, g=6)),
    "as a dict": lambda m: dataclasses.asdict(m.More(1, c=[m.One(2)])),
    "copy": lambda m: [repr(copy.copy(m.Many(1))), repr(copy.deepcopy(m.More(1, c=[2]))), copy.copy(m.One(1)).a],
    "cached": lambda m: (m.Many(4).twice, m.Many(4).f),
    "own lists": lambda m: m.Many(1).c is m.Many(1).c,
    "order": lambda m: m.Ordered(1) < m.Ordered(2),
    "match": lambda m: [m.Many.__match_args__, m.More.__match_args__],
    "names": lambda m: [m.One.__doc__, m.One.__name__, m.Many.kind, m.One.__init__.__qualname__.split(".")[-2:]],
}  # fmt: skip


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_same_answer(question: str) -> None:
    ask = QUESTIONS[question]
    assert ask(OURS) == ask(THEIRS)
    assert ask(OURS) == ask(THEIRS), "also when methods have been compiled"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda m: setattr(m.One(1), "a", 2), lambda m: setattr(m.One(1), "z", 2), lambda m: delattr(m.One(1), "a"),
        lambda m: setattr(m.Heir(1), "a", 2), lambda m: delattr(m.More(1), "h"), lambda m: m.One(),
        lambda m: m.One(1, 2), lambda m: m.Many(1, e=3.0), lambda m: hash(m.One([])), lambda m: m.One(1) < m.One(2),
    ],
)  # fmt: skip
def test_the_same_refusal(wrong: Callable[[SimpleNamespace], object]) -> None:
    said = []
    for made in (OURS, THEIRS):
        with pytest.raises((AttributeError, TypeError)) as caught:
            wrong(made)
        said.append((type(caught.value), str(caught.value)))
    assert said[0] == said[1]


def test_an_heir_may_have_attributes_of_its_own() -> None:
    heir = OURS.Heir(1)
    heir.z = 3
    del heir.z
    assert not hasattr(heir, "z")


@dataclass(frozen=True)
class Travelling:
    """To another process and back."""

    a: int
    b: list[int] = field(default_factory=list)


def test_it_travels() -> None:
    assert pickle.loads(pickle.dumps(Travelling(1, [2]))) == Travelling(1, [2])


def test_what_holds_itself_can_be_shown() -> None:
    whole = Travelling(1)
    whole.b.append(whole)  # type: ignore[arg-type]
    assert repr(whole) == "Travelling(a=1, b=[...])"
