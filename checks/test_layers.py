"""The one-way flow: nothing imports what comes after it, no cycles, heavy libraries stay where they belong, and nothing
is left that nobody uses."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from checks.rooms import ENGINE, PACKAGE, Package
from gemm_lessons import engine

# Every room of the package, from its foundations to its doors. None imports one that comes after it, also not for its
# types. The rooms of the engine have an order of their own, and import nothing outside of it.
ORDER = (
    "engine gemm devices course editor judging running commands authoring view grading export report watch cli "
    "notebook __main__"
).split()
INSIDE = (
    "report records process hardware compiler semantics ptx events machine checkers costs sass counters second_opinion "
    "simulator arguments estimate pictures api inspection"
).split()
MOST_ROOMS, MOST_ARROWS = 17, 79
# Names that other rooms import from a room. These numbers only fall: pass a value on, or move work into the room.
PUBLIC = {
    "authoring": 6, "cli": 4, "commands": 33, "course": 100, "devices": 21, "editor": 2, "engine": 28,
    "engine.arguments": 4, "engine.compiler": 34, "engine.costs": 6, "engine.estimate": 19, "engine.hardware": 15,
    "engine.inspection": 9, "engine.pictures": 28, "engine.process": 32, "engine.records": 48,
    "engine.sass": 7, "engine.simulator": 6, "export": 2, "gemm": 54, "grading": 34, "judging": 37, "report": 75,
    "running": 38, "view": 6, "watch": 1,
}  # fmt: skip
ROOMS = {"": ORDER, ENGINE: INSIDE}
OWNERS = {
    "rich": ("report",),
    "typer": ("cli",),
    "cupy": ("devices.gpu", "engine.compiler"),
    "cuda": ("engine.compiler", "devices.gpu"),
    "nvtx": ("devices.gpu.ranges",),
    "matplotlib": ("report",),
    "IPython": ("notebook",),
    "jinja2": ("export", "report"),
    "markdown_it": ("report",),
    "pygments": ("report",),
    "watchfiles": ("watch",),
}
# By IPython, by pytest, by the parser of HTML that a class is made of, by Python as it ends, by str.format's parser.
CALLED_FROM_OUTSIDE = (
    "load_ipython_extension _repr_html_ test_submission _close_all get_value handle_starttag handle_endtag handle_data"
).split()


# What Windows does not have, or has in another form: one room uses it. Names of libraries (libcuda.so.1) are not meant.
LINUX_ROOM = "engine.process"
LINUX = {
    "": "fcntl grp pty pwd resource select termios tty",  # modules
    "os": "O_PATH O_NOFOLLOW chroot fork forkpty geteuid getpgid getppid getuid killpg nice register_at_fork "
    "sched_getaffinity sched_setaffinity setpgid setsid sysconf wait wait3 wait4 waitid waitpid waitstatus_to_exitcode",
    "signal": "ITIMER_PROF ITIMER_REAL ITIMER_VIRTUAL SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGTSTP SIGWINCH SIGXCPU "
    "alarm pthread_kill pthread_sigmask set_wakeup_fd setitimer",
    "keyword": "close_fds pass_fds preexec_fn process_group start_new_session",
}


KIT = Package(PACKAGE)
MODULES = KIT.modules


@pytest.mark.parametrize("inside", ROOMS)
def test_every_room_has_a_place(inside: str) -> None:
    assert set(KIT.rooms(inside)) == set(ROOMS[inside])


@pytest.mark.parametrize("inside", ROOMS)
def test_the_flow_goes_one_way(inside: str) -> None:
    order = ROOMS[inside]
    wrong = {
        arrow: where for arrow, where in KIT.arrows(inside).items() if order.index(arrow[1]) > order.index(arrow[0])
    }
    assert not wrong


def test_the_engine_stands_alone() -> None:
    assert not [where for (room, _), where in KIT.arrows().items() if room == ENGINE]


def test_the_house_stays_small() -> None:
    """What was reached when its rooms were last drawn anew: more than that wants a better plan, not a larger number."""
    assert len(KIT.rooms()) <= MOST_ROOMS
    assert len(KIT.arrows()) <= MOST_ARROWS


def test_a_room_has_one_door() -> None:
    """Other rooms import a room, not its modules: ``from gemm_lessons.course import Lesson``. The engine's rooms have a
    door each, beside the engine's own."""
    doors = {*KIT.rooms(), *(f"{ENGINE}.{room}" for room in KIT.rooms(ENGINE))}
    assert not {module: names for module, names in KIT.taken().items() if module not in doors}


def test_few_names_are_public() -> None:
    taken = KIT.taken()
    assert {room: len(names) for room, names in taken.items()} == PUBLIC
    unused = {room: KIT.given(room) - names for room, names in taken.items()}
    assert not {room: names for room, names in unused.items() if names and room != ENGINE}
    assert unused[ENGINE] <= set(engine.__all__)


def test_no_cycles() -> None:
    assert not KIT.circles()


@pytest.mark.parametrize("library", OWNERS)
def test_libraries_stay_where_they_belong(library: str) -> None:
    used = {
        module: f"{MODULES[module].relative_to(PACKAGE)}:{one.line}"
        for module, imports in KIT.imports.items()
        for one in imports
        if one.name.split(".")[0] == library
    }
    assert used
    owners = tuple(f"{room}." for room in OWNERS[library])
    assert not {module: where for module, where in used.items() if not f"{module}.".startswith(owners)}


def test_a_name_means_one_class() -> None:
    names = Counter(
        node.name
        for path in MODULES.values()
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert not [name for name, times in names.items() if times > 1]


def defined(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Names that a piece of code defines, for others to use, with its line."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        yield node.name, node.lineno
    elif isinstance(node, (ast.Assign, ast.AnnAssign)):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            for part in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(part, ast.Name):
                    yield part.id, node.lineno
                elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "self":
                    yield part.attr, node.lineno


def test_nothing_is_dead() -> None:
    """What stands once in the package is its own definition: no code asks for it, no template and no comment."""
    texts = {path: path.read_text() for path in MODULES.values()}
    templates = (path.read_text() for path in (*PACKAGE.rglob("*.jinja"), *PACKAGE.rglob("templates.toml")))
    times = Counter(word for text in (*texts.values(), *templates) for word in re.findall(r"\w+", text))
    dead = [
        f"{path.relative_to(PACKAGE)}:{line}: {name}"
        for path, text in texts.items()
        for node in ast.walk(ast.parse(text))
        for name, line in defined(node)
        if times[name] == 1 and name not in CALLED_FROM_OUTSIDE and not name.startswith(("pytest_", "__"))
    ]
    assert not dead, "\n".join(dead)


def of_linux(code: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield what only Linux has, and its line."""
    names = {kind: frozenset(listed.split()) for kind, listed in LINUX.items()}
    for node in ast.walk(code):
        match node:
            case ast.Import(names=modules):
                yield from ((it.name, node.lineno) for it in modules if it.name in names[""])
            case ast.ImportFrom(module=str(module), names=taken):
                known = {it.name for it in taken} if module in names[""] else names.get(module, frozenset())
                yield from ((f"{module}.{it.name}", node.lineno) for it in taken if it.name in known)
            case ast.Attribute(value=ast.Name(id=("os" | "signal") as module), attr=name) if name in names[module]:
                yield f"{module}.{name}", node.lineno
            case ast.Call(func=ast.Attribute(attr="CDLL"), args=[ast.Constant(value=None), *_]):
                yield "the C library", node.lineno
            case ast.keyword(arg=str(name)) if name in names["keyword"]:
                yield name, node.value.lineno
            case ast.Constant(value=str(text)) if re.match(r"/(proc|sys)(/|$)", text):
                yield text, node.lineno


def test_what_is_of_linux_alone_is_in_one_room() -> None:
    used = {
        module: [f"{path.relative_to(PACKAGE)}:{line}: {name}" for name, line in of_linux(ast.parse(path.read_text()))]
        for module, path in MODULES.items()
    }
    inside = {module for module in used if module.startswith(f"{LINUX_ROOM}.")}
    assert sum(len(used[module]) for module in inside) > 50
    assert not [where for module in sorted(used.keys() - inside) for where in used[module]]


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("import fcntl", "fcntl"),
        ("def f():\n    from resource import RLIMIT_AS", "resource.RLIMIT_AS"),
        ("from os import fork", "os.fork"),
        ("os.fork()", "os.fork"),
        ("signal.signal(signal.SIGALRM, f)", "signal.SIGALRM"),
        ("ctypes.CDLL(None).prctl(1)", "the C library"),
        ("open('/proc/self/status')", "/proc/self/status"),
        ("open(f'/proc/{pid}/stat')", "/proc/"),
        ("Popen([], start_new_session=True)", "start_new_session"),
        ("signal.SIGTERM, os.kill(1, 9), ctypes.CDLL('libcuda.so.1'), open('/process')", ""),
        ("'Reads /proc.'\nfrom os import path", ""),
    ],
)
def test_what_is_of_linux_alone_is_seen(code: str, name: str) -> None:
    assert [found for found, _ in of_linux(ast.parse(code))] == [name] * bool(name)


def test_the_map_of_the_package_is_the_tree() -> None:
    guide = (PACKAGE.parent / "CONTRIBUTING.md").read_text()
    drawn = guide.split("\ngemm_lessons/\n")[1].split("```")[0]
    named = set(re.findall(r"^  (\w+)(?:\.py|/) ", drawn, re.MULTILINE))
    assert named == set(ORDER) - {"__main__"} | {"docs"}  # docs has no code
    rooms = set(re.findall(r"^    (\w+)(?:\.py|/) ", drawn, re.MULTILINE))
    assert rooms == set(INSIDE)


def test_the_map_of_a_room_names_its_modules() -> None:
    """Where the docstring of a room is a list."""
    missing, rooms = [], 0
    for room, path in MODULES.items():
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        if path.name == "__init__.py" and "\n- ``" in text:
            inside = {module.rpartition(".")[2] for module in MODULES if module.rpartition(".")[0] == room}
            missing += [f"{room}: {name}" for name in inside - set(re.findall(r"``(\w+)``", text))]
            rooms += 1
    assert not missing
    assert rooms >= 5


def test_files_that_are_named_are_there() -> None:
    """In docstrings and comments."""
    known = {path.name for folder in (PACKAGE, PACKAGE.parent / "checks") for path in folder.rglob("*.py")}
    known.add("numpy.py")  # what a learner may call a file
    gone = [
        f"{path.relative_to(PACKAGE)}: {name}"
        for path in MODULES.values()
        for name in re.findall(r"\b\w+\.py\b", path.read_text())
        if name not in known
    ]
    assert not gone


def test_this_test_sees_the_imports() -> None:
    assert "running.plan" in KIT.graph["running.pipeline"]
    assert "course" in KIT.graph["running.pipeline"]
    assert "engine.compiler" in KIT.graph["devices.device"], "also those for types"
