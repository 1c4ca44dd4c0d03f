"""Plot a search: every candidate in the order of its time, measured times beside the estimates."""

from __future__ import annotations

from pathlib import Path

from gemm_lessons.commands.tuning import TuneRequest, Tuning
from gemm_lessons.course.folder import WriteError
from gemm_lessons.report.plot import FAINT, GREEN, HUES, STYLE


def draw_tuning(request: TuneRequest, tuning: Tuning, path: Path) -> None:
    """Draw into a file whose suffix decides the format. Raises ``WriteError``."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    ranked = tuning.ranked
    with rc_context(STYLE):
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        axes = figure.add_subplot()
        places = range(1, len(ranked) + 1)
        estimated = [(it.tuned.estimate_gflops or 0.0) / 1e3 for it in ranked]
        axes.plot(places, estimated, ".", color=HUES[2], label=f"estimated for {request.gpu.name}")
        if measured := tuning.measured:
            times = [(it.tuned.gflops or 0.0) / 1e3 for it in measured]
            axes.plot(range(1, len(measured) + 1), times, "o", color=GREEN, label=f"measured on {request.device.name}")
        if tuning.own in ranked:
            axes.axvline(ranked.index(tuning.own) + 1, color=FAINT, linewidth=1, label="the lesson's own sizes")
        axes.set(xlabel="candidates, the fastest first", ylabel="TFLOP/s", ylim=(0, None))
        axes.set_title(f"{request.lesson.name} at {request.shape}")
        axes.grid(axis="y")
        axes.legend(frameon=False)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, dpi=110, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
        except OSError as error:
            raise WriteError(path, error) from None
