"""Sections of a run's page about its work: fits, simulations, the driver."""

from mrafno.plot import of_run as plot
from mrafno.plot.text import counted, duration
from mrafno.plot.work import driver_figure
from mrafno.report.html import Section
from mrafno.run.fit_curves import read_fit_curves
from mrafno.run.reader import RunReader


def learning_section(run: RunReader) -> Section | None:
    """Learning curves of the last fits."""
    heading, fits = "Learning curves", len(run.state.trainings)
    curves = [curve for curve in read_fit_curves(run.folder) if curve.fit <= fits][-plot.FITS :]
    if not curves:
        return None  # runs of earlier versions have none
    shown = f"fits {curves[0].fit} to {curves[-1].fit} of {fits}" if len(curves) > 1 else f"fit {curves[0].fit}"
    text = (
        f"Loss of every member on its minibatches in {shown}; dotted lines separate the fits. The first iterations of "
        "a fit may be above the figure."
    )
    return heading, text, plot.learning_curves(run)


def simulations_section(run: RunReader) -> Section | None:
    """Seconds of all simulations, and those without output."""
    queries = [q for q in run.state.queries.values() if q.status != "running" and not q.imported]
    bad = [q for q in queries if q.status != "told"]
    timed = sorted((q.seconds for q in queries if q.seconds), reverse=True)
    if not timed and not bad:
        return None
    sentences = [f"Seconds of every simulation; {counted(len(bad), 'simulation')} without output (crosses)."]
    if timed:
        sentences.append(
            f"The slowest took {duration(timed[0])}, the median is {duration(timed[len(timed) // 2])}. "
            "Simulations without a recorded time are not shown."
        )
    return "Simulations", " ".join(sentences), plot.simulations(run)


def driver_section(run: RunReader) -> Section | None:
    """CPU and memory of the last driver."""
    status = run.status
    if status is None or len(status.samples) < 2:
        return None
    first = status.samples[0].time
    times = [sample.time - first for sample in status.samples]
    cpu, memory = [sample.cpu for sample in status.samples], [sample.memory for sample in status.samples]
    text = (
        f"CPU and resident memory of the process that advances the run (process {status.pid} on {status.host}), "
        "without its workers. Samples are taken between simulations and during fits."
    )
    return "Driver", text, driver_figure(times, cpu, memory)
