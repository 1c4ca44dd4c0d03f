"""Parses operands: ``%r1``, ``0f3F800000``, ``[%rd1+8]``, ``{%f1, %f2}``, ``%p1|%p2``."""

from __future__ import annotations

import re
import struct
from functools import lru_cache

from gemm_lessons.engine.ptx.records import (
    Address,
    Immediate,
    Operand,
    PredicatePair,
    PtxSyntaxError,
    Register,
    Symbol,
    Vector,
)
from gemm_lessons.engine.records.regex import regex

_ADDRESS = regex(r"\[\s*([%\w$.@]+)\s*(?:([+-])\s*(-?\w+))?\s*\]$")
_SINGLE = regex(r"0[fF][0-9a-fA-F]{8}$")
_DOUBLE = regex(r"0[dD][0-9a-fA-F]{16}$")
_CUT = regex(r"\[[^\]]*,")  # a comma inside brackets
_NUMBER = regex(r"-?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?$")
_DECIMAL = regex(r"-?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?$")
_SYMBOL = regex(r"([A-Za-z_$][\w$]*)\s*(?:([+-])\s*(\w+))?$")


def split(text: str) -> list[str]:
    """Split at commas outside brackets."""
    parts = text.split(",")
    if "{" not in text and "(" not in text and not ("[" in text and _CUT.search(text)):
        return [part.strip() for part in parts]
    whole: list[str] = []
    depth = 0
    for part in parts:
        if depth:
            whole[-1] += f",{part}"
        else:
            whole.append(part)
        depth += sum(map(part.count, "{[(")) - sum(map(part.count, "}])"))
    return [part.strip() for part in whole]


def _number(text: str) -> int:
    digits = text.rstrip("U")
    if not re.match(r"-?0\d", digits):
        return int(digits, 0)
    if re.search("[89]", digits):
        raise PtxSyntaxError(f"number not understood: {text}")
    return int(digits, 8)


@lru_cache(maxsize=20000)
def parse_operand(text: str) -> Operand:
    """Parse one operand. Raise ``PtxSyntaxError`` for an unknown form."""
    if _SINGLE.match(text):
        return Immediate(int(text[2:], 16), is_float=True)
    if _DOUBLE.match(text):
        return Immediate(int(text[2:], 16), is_float=True, is_double=True)
    if _NUMBER.match(text):
        return Immediate(_number(text))
    if text == "WARP_SZ":
        return Immediate(32)
    if _DECIMAL.match(text):
        bits = int.from_bytes(struct.pack("<d", float(text)), "little")
        return Immediate(bits, is_float=True, is_double=True)
    if text.startswith(("{", "(")):
        inner = text[1:-1].strip()
        items = list(split(inner)) if inner else []
        return Vector(tuple(None if item == "_" else parse_operand(item) for item in items))
    if text.startswith("[") and text.endswith("}]"):  # [texture or surface object, {coordinates}]
        parts = [parse_operand(part) for part in split(text[1:-1])]
        if len(parts) != 2 or not isinstance(parts[1], Vector):
            raise PtxSyntaxError(f"coordinates not understood: {text}")
        return Vector((parts[0], *parts[1].elements))
    if text.startswith("["):
        match = _ADDRESS.match(text)
        if match is None:
            raise PtxSyntaxError(f"address not understood: {text}")
        base, sign, offset = match.groups()
        number = signed(sign, offset)
        if _NUMBER.match(base):
            return Address(None, _number(base) + number)
        return Address(Register(base) if _is_register(base) else Symbol(base), number)
    if text.startswith("!"):
        return PredicatePair(Register(text[1:]), negated=True)
    if "|" in text:
        first, second = (None if item.strip() == "_" else Register(item.strip()) for item in text.split("|"))
        return PredicatePair(first, second)
    if _is_register(text):
        return Register(text)
    if match := _SYMBOL.match(text):
        return Symbol(match.group(1), signed(match.group(2), match.group(3)))
    raise PtxSyntaxError(f"operand not understood: {text}")


def signed(sign: str | None, offset: str | None) -> int:
    """Return the offset of an address: ``+8``, ``+-8``, ``-8``, or 0 without one."""
    if not offset:
        return 0
    if not _NUMBER.match(offset):
        raise PtxSyntaxError(f"offset not understood: {offset}")
    return -_number(offset) if sign == "-" else _number(offset)


def _is_register(text: str) -> bool:
    return text.startswith("%") or "@" in text
