"""Generate the reference page of the engine: its public names, signatures and docstrings."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gemm_lessons import engine
from gemm_lessons.engine.records import COUNTED

# Every public name of the engine, in reading order.
SECTIONS: Mapping[str, Sequence[str]] = {
    "Compile, launch, estimate": ("compile", "CompiledKernel", "simulate"),
    "What a launch returns": ("Launched", "Counters", "LineCount", "Conflict", "Finding", "Printed"),
    "Arguments": (
        "Texture", "Surface", "TensorMap", "StructWithBuffers", "Buffer", "Pointer", "Scalar", "HostVariable",
    ),
    "Settings": ("Setting", "Simulator"),
    "What a compilation returns": ("Resources", "Diagnostic"),
    "Estimates": ("LaunchEstimate", "GPUS", "find_gpu", "GpuSpec"),
    "Errors": (
        "CompileError", "UnsupportedKernel", "UnknownArchitecture", "NotCounted", "NotEstimated", "SheetError",
        "KitError", "Disagreement",
    ),
}  # fmt: skip
OPENED = ("CompiledKernel", "Launched", "Counters", "Finding")  # classes whose methods and properties are listed
CONSTANTS = {"GPUS": "Data sheets of the GPUs that estimates know, as `GpuSpec`, by these names: {names}."}
LONGEST = 100  # maximum characters of a signature on one line


def engine_reference() -> str:
    """Return the page as Markdown."""
    parts = ["# The engine: any CUDA kernel from Python", _introduction()]
    for title, names in SECTIONS.items():
        parts.append(f"## {title}")
        for name in names:
            parts += _entry(name, getattr(engine, name))
    return "\n\n".join(parts) + "\n"


def _introduction() -> str:
    """Return the part of the package's docstring before the list of its subpackages."""
    text = inspect.getdoc(engine) or ""
    told = text.partition("\n\n``__all__``")[0]
    return told.replace("\n\n    ", "\n\n```python\n", 1).replace("\n    ", "\n") + "\n```"


def _entry(name: str, value: Any) -> Iterator[str]:
    yield f"### {name}"
    if name in CONSTANTS:
        yield CONSTANTS[name].format(names=", ".join(f"`{key}`" for key in value))
        return
    yield f"```python\n{_signature(name, value)}\n```"
    yield inspect.getdoc(value) or ""
    if name in OPENED:
        yield from _members(name, value)
    if value is engine.Counters:
        yield "All counters, by their short and long names; Nsight Compute has none that begins with ``simulator__``:"
        yield "| counter | name |\n|---|---|\n" + "\n".join(f"| `{it}` | `{long}` |" for it, long in COUNTED.items())


def _members(name: str, of: type) -> Iterator[str]:
    """Yield the methods and properties that the class itself defines, each with its docstring."""
    for member, value in vars(of).items():
        told = inspect.getdoc(value)
        if member.startswith("_") or told is None or isinstance(value, (str, int)):
            continue
        if isinstance(value, property):
            yield f"**`{name}.{member}`**: `{_type(value.fget.__annotations__['return'])}`"
        elif inspect.isfunction(value):
            yield f"```python\n{_signature(f'{name}.{member}', value)}\n```"
        else:
            continue
        yield told


def _signature(name: str, value: Any) -> str:
    """Return how to call it; for a record its fields, for an exception only its name."""
    result = ""
    if dataclasses.is_dataclass(value):
        fields = [field for field in dataclasses.fields(value) if field.init]
        parameters = [_parameter(field.name, field.type, _default(field)) for field in fields]
    elif inspect.isclass(value) and (issubclass(value, Exception) or value is engine.CompiledKernel):
        return f"class {name}"
    else:
        found = inspect.signature(value)
        parameters = list(_parameters(found))
        if found.return_annotation is not inspect.Signature.empty:
            result = f" -> {_type(found.return_annotation)}"
    line = f"{name}({', '.join(parameters)}){result}"
    if len(line) <= LONGEST:
        return line
    return "\n".join((f"{name}(", *(f"    {it}," for it in parameters), f"){result}"))


def _parameters(signature: inspect.Signature) -> Iterator[str]:
    named = False
    for parameter in signature.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not named:
            named = True
            yield "*"
        default = "" if parameter.default is parameter.empty else repr(parameter.default)
        yield _parameter(parameter.name, parameter.annotation, default)


def _parameter(name: str, annotation: Any, default: str) -> str:
    return f"{name}: {_type(annotation)}{f' = {default}' if default else ''}"


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return repr(field.default)
    return "..." if field.default_factory is not dataclasses.MISSING else ""


def _type(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
