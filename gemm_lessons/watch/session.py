"""One session of ``gemm-lessons watch``: wait for a save or a key, run the kernel, show the outcome.

A run is recorded before it is shown, so ending the session at any moment loses nothing.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gemm_lessons.course import (
    CommandError,
    Course,
    Lesson,
    LessonError,
    Progress,
    keeps_reference,
    load_lesson,
    load_progress,
    next_hint,
    read_source,
    remarks_on,
    save_progress,
    shown,
    start_lesson,
    waits_for_predictions,
)
from gemm_lessons.devices import Device
from gemm_lessons.engine import GpuSpec, KitError, UnsupportedKernel
from gemm_lessons.engine.compiler import content_of
from gemm_lessons.engine.process import END_OF_INPUT, Terminal
from gemm_lessons.report import (
    Part,
    Screen,
    ScreenContext,
    Status,
    Working,
    lines_above,
    make_console,
    scores_in_words,
    show_diff,
    show_error,
    show_hint,
    show_list,
    show_note,
    show_notice,
    show_problems,
    show_screen,
    show_started,
    show_status,
)
from gemm_lessons.running import JSON, SCHEMA, Kept, Row, RunRequest, as_json, gain_of, run_lesson, scored
from gemm_lessons.watch.changes import Changes

LOOK = 1.0  # seconds between checks of the files, with or without events
HEADERS = (".cuh", ".h", ".hpp", ".inl")
FAILURES = (CommandError, KitError, UnsupportedKernel)  # errors that are shown and do not end the session
LONGEST_WAIT = 60.0  # seconds from save to verdict; a larger difference means that two clocks disagree

Stamp = tuple[tuple[Path, bytes], ...]


class Session:
    """Watch the learner's kernel of one lesson at a time. ``where`` holds the device and the GPU of the estimates;
    ``view`` shows a lesson's pictures, if available; ``problems`` prints problems in a compiler's format as well;
    ``events`` prints a line of JSON for each event, and nothing else."""

    def __init__(
        self,
        course: Course,
        where: tuple[Device, GpuSpec],
        view: Callable[[Lesson], None] | None = None,
        polling: bool = False,
        problems: bool = False,
        events: bool = False,
    ) -> None:
        self._course, self._where, self._view, self._problems = course, where, view, problems
        self._events = events
        self._screen = Screen()
        self._kept: Kept = {}
        self._terminal, self._changes = Terminal(has_keys=not events), Changes(polling)
        self._lesson: Lesson
        self._report: tuple[Part, ...] = ()  # report of the last run
        self._row: Row | None = None
        self._after = ""
        self._ran: Stamp = ()  # file contents of the last run
        self._missed = False  # files changed without an event
        self._warming: threading.Thread | None = None

    def run(self, lesson: Lesson) -> None:
        """Run the session until q, Ctrl-C or the end of the terminal."""
        with self._terminal, self._changes:
            self._turn_to(lesson)
            while True:
                heard = self._terminal.wait(self._changes.file, LOOK)
                if heard.redraw and not self._events:
                    self._screen.again()
                if heard.key in ("q", END_OF_INPUT):
                    return
                if heard.key:
                    self._press(heard.key)
                self._look(told=heard.other)

    # What changed

    def _look(self, told: bool) -> None:
        """Run if the files have changed. If no event announced the change, switch to polling."""
        self._changes.taken()
        if self._stamp() == self._ran:
            self._missed = False
        elif told or self._changes.polling or self._missed:
            if not told and not self._changes.polling:
                self._changes.poll()
            self._missed = False
            self._run(saved=True)
        else:
            self._missed = True  # the event may still arrive: check once more

    def _stamp(self) -> Stamp:
        """Return the files that a run depends on, with their contents."""
        folders = {self._lesson.directory, *self._lesson.include_dirs}
        headers = {path for folder in folders for suffix in HEADERS for path in folder.glob(f"*{suffix}")}
        files = [self._lesson.kernel_path, self._lesson.toml_path, *sorted(headers)]
        return tuple((path, content) for path in files if (content := content_of(path)) is not None)

    # What is shown

    def _turn_to(self, lesson: Lesson) -> None:
        """Switch to another lesson: create its kernel from the stub if missing, and run it if it has been edited."""
        self._lesson, self._row, self._after, self._report = lesson, None, "", ()
        started = start_lesson(lesson)
        self._keep(self._progress().at(lesson.name))
        self._changes.of(list({lesson.directory, *lesson.include_dirs}))
        if read_source(lesson.stub_path) == read_source(lesson.kernel_path):
            self._ran = self._stamp()
            asks = waits_for_predictions(lesson, self._progress())
            self._report = (lambda console: show_started(console, started, asks, runs=True),)
            self._tell("waiting", kernel=shown(lesson.kernel_path))
            self._show()
            self._warm_up(lesson)
        else:
            self._run()

    def _warm_up(self, lesson: Lesson) -> None:
        """Compile and load in advance what the first run needs. This does not count as a run."""
        if self._where[0].timer is None:
            request = RunRequest(self._course, lesson, lesson.stub_path, *self._where, kept=self._kept)
            self._warming = threading.Thread(target=_try, args=(request,), daemon=True)
            self._warming.start()

    def _run(self, saved: bool = False) -> None:
        """Run the kernel and show the outcome, or the error. Keys typed meanwhile are dropped."""
        self._row, self._after = None, "not run"
        if self._warming is not None:
            self._warming.join()
            self._warming = None
        self._ran = self._stamp()
        try:
            self._lesson = lesson = load_lesson(self._lesson.directory)
            if not lesson.kernel_path.exists():
                again = f"gemm-lessons reset {lesson.number:02}"
                raise CommandError(f"{shown(lesson.kernel_path)} is gone; save it again, or: {again}")
            request = RunRequest(self._course, lesson, lesson.kernel_path, *self._where, kept=self._kept)
            with Working(make_console(stderr=True), f"lesson {lesson.name}") as working:
                outcome = run_lesson(request, working)
        except FAILURES as error:
            self._fail(error)
        else:
            if keeps_reference(self._course, lesson, self._progress()) and outcome.verdict.kind != "passed":
                outcome = outcome.without_reference()
            self._row = outcome.kernel
            self._tell("run", **as_json(outcome))
            counted, broken = self._progress().after_run(lesson.name, outcome.verdict.kind), ""
            try:
                progress, scores = scored(counted, outcome)
            except LessonError as error:  # an error in its questions; the verdict is still valid
                progress, scores, broken = counted, (), str(error)
            note = save_progress(self._course, progress) or broken
            self._after = _waited(lesson, outcome.seconds, saved)
            remarks, gain = remarks_on(lesson), gain_of(self._course, outcome)
            following = self._course.neighbour(lesson, +1)
            news = (scores_in_words(lesson, scores),) if scores else ()
            context = ScreenContext(following, "", remarks, gain, news=news)
            self._report = (
                lambda console: show_screen(console, outcome, replace(context, lines=lines_above(console))),
            )
            if self._problems:
                self._report = (*self._report, lambda console: show_problems(console, outcome.kernel))
            if note:
                self._report = (*self._report, lambda console: show_note(console, note))
            self._show_run()

    def _fail(self, error: Exception) -> None:
        message = str(error)
        if isinstance(error, UnsupportedKernel):
            where = ":".join(str(part) for part in (shown(self._lesson.kernel_path), error.line) if part)
            message = f"{where}: the simulator cannot run this kernel: {error}"
        self._tell("error", message=message)
        self._report = (lambda console: show_error(console, message),)
        self._show_run()

    def _show_run(self) -> None:
        self._terminal.drop_input()  # before the result is visible, so that no later key is dropped
        self._show()

    def _show(self, *more: Part) -> None:
        """Show the report of the last run, and ``more`` below it."""
        if self._events:
            return
        self._screen.show(*self._report, *more, self._status())

    def _tell(self, event: str, **what: JSON) -> None:
        """Print an event, if events are wanted."""
        if self._events:
            line = {"schema": SCHEMA, "event": event, "lesson": self._lesson.name, **what}
            print(json.dumps(line, allow_nan=False), flush=True)

    def _status(self) -> Part:
        has_keys, polling = self._terminal.has_keys, self._changes.how
        keys = [(key, does) for key, (does, _) in self._keys().items()]
        shown_keys = (*keys, ("q", "quit")) if has_keys else ()
        status = Status(self._lesson, self._row, self._after, polling, shown_keys)
        return lambda console: show_status(console, status)

    # Keys

    def _press(self, key: str) -> None:
        """Perform the current action of a key, if it has one; show errors."""
        keys = self._keys()
        if key in keys:
            try:
                keys[key][1]()
            except FAILURES as error:
                self._fail(error)

    def _keys(self) -> dict[str, tuple[str, Callable[[], None]]]:
        """Return the current keys: key -> (description, action)."""
        so_far = self._progress().of(self._lesson.name)
        solved = self._course.solution(self._lesson) is not None
        return {
            **({"n": ("next lesson", self._next)} if so_far.passed else {}),
            **({"h": ("hint", self._hint)} if self._lesson.todos else {}),
            "r": ("run", self._run),
            **({"d": ("diff", self._diff)} if so_far.may_see_reference and solved else {}),
            **({"v": ("view", self._look_at)} if self._view else {}),
            "l": ("list", self._list),
        }

    def _next(self) -> None:
        name = self._course.neighbour(self._lesson, +1)
        if name is None:
            self._show(lambda console: show_notice(console, "That was the last lesson."))
            return
        self._turn_to(self._course.lesson(name))

    def _hint(self) -> None:
        progress = self._progress()
        hint = next_hint(self._course, self._lesson, progress.of(self._lesson.name))
        if hint is None:
            each = (
                f"Every TODO has its code. Hints for one of them: gemm-lessons hint {self._lesson.number:02} --todo 1"
            )
            self._show(lambda console: show_notice(console, each))
            return
        lesson = self._lesson
        self._keep(progress.after_hint(lesson.name, hint.todo, hint.level))
        self._show(lambda console: show_hint(console, lesson, hint, steps=False))

    def _diff(self) -> None:
        reference = self._course.solution(self._lesson)
        assert reference is not None
        sides = (shown(self._lesson.kernel_path), read_source(self._lesson.kernel_path))
        other = ("the reference", read_source(reference))
        with self._terminal.lent():
            self._screen.once(lambda console: show_diff(console, sides, other))
        self._screen.below(self._status())

    def _look_at(self) -> None:
        assert self._view is not None
        with self._terminal.lent():
            self._view(self._lesson)
        self._screen.below(self._status())

    def _list(self) -> None:
        lessons, progress = self._course.summaries(), self._progress()
        self._screen.show(lambda console: show_list(console, self._course, lessons, progress), self._status())

    # Progress

    def _progress(self) -> Progress:
        return load_progress(self._course)

    def _keep(self, progress: Progress) -> None:
        save_progress(self._course, progress)


def _try(request: RunRequest) -> None:
    with contextlib.suppress(*FAILURES, OSError, MemoryError):  # the next counted run reports it
        run_lesson(request)


def _waited(lesson: Lesson, seconds: float, saved: bool) -> str:
    """Return how long the learner has waited, measured from the save if the clocks agree."""
    since = -1.0
    with contextlib.suppress(OSError):  # the file may be gone
        since = time.time() - lesson.kernel_path.stat().st_mtime
    return f"{since:.2f} s after the save" if saved and 0 <= since < LONGEST_WAIT else f"in {seconds:.2f} s"
