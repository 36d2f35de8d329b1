"""A page about one run: error, choices, utilities, calibration, time, failures and settings."""

import time
from collections.abc import Callable

import numpy as np

from mrafno.acquisition.cost import annealed_cost, cost_shares
from mrafno.errors import sentence
from mrafno.plot import of_run as plot
from mrafno.plot.choices import schedule_figure, utility_figure
from mrafno.plot.of_run import unit_of
from mrafno.plot.text import counted, duration, listed
from mrafno.report.examples import choices, queries_section, test_sections
from mrafno.report.html import MarkupCells, Section, prose
from mrafno.report.map_details import map_section
from mrafno.report.summary import summary_section
from mrafno.report.work import driver_section, learning_section, simulations_section
from mrafno.run.methods import METHODS
from mrafno.run.reader import RunReader
from mrafno.run.spending import COUNTED

#: Rows of the table of failures; the fewest steps and the most points of the schedule that are shown.
_FAILURES, _STEPS, _POINTS = 20, 20, 200
_BEST = "The best candidate of each mesh at every step; the largest was chosen, where the marker is filled."
#: Axis title and explanation of each utility.
_UTILITIES = {
    "u": ("u (nats)", f"u: information on the same input's output on the finest mesh. {_BEST}"),
    "u-hat": ("û (nats)", f"û: mean information on other inputs' outputs on the finest mesh. {_BEST}"),
    "predictive-variance": (
        "variance",
        f"Mean predictive variance of an output's values, in normalised units. {_BEST}",
    ),
    "coreset": ("distance", f"Distance from the nearest input already used, in the surrogate's last layer. {_BEST}"),
    "lcmd": (
        "distance",
        "Distance from the nearest input already used, in the surrogate's last layer, of the farthest candidate in the "
        "region where distances sum to most.",
    ),
    "auto": (
        "score",
        "The method first chooses a mesh, by the error reduction per cost. Shown is the score of the input "
        "there. On the coarsest mesh it is the distance from the nearest input already used, relative to the "
        "predicted output; on finer ones it is by how much the input lowers the sum of such distances over "
        "candidates. Scores of runs that version 0.2 began are û, the mean information on other inputs' "
        "outputs.",
    ),
}


def run_page(run: RunReader) -> tuple[str, str, list[Section]]:
    """Title, first paragraph and sections."""
    state = run.state
    sections = [section for part in _PARTS if (section := part(run))]
    title = f"{state.task['name']}: {state.method}, seed {state.seed}"
    first = [summary_section(run), *([found] if (found := map_section(run)) else [])]
    return title, summary(run), [*first, *sections, *test_sections(run), _settings(run)]


def figure_sections(run: RunReader) -> list[Section]:
    """The sections with figures that need the ledger alone."""
    return [section for part in _FIGURES if (section := part(run))]


def summary(run: RunReader) -> str:
    """The run in a few sentences."""
    state = run.state
    last = state.measurements[-1] if state.measurements else None
    failed = sum(q.status in ("failed", "expired", "abandoned") for q in state.queries.values())
    unanswered = counted(len(state.running), "query", "queries")
    waiting = f"{unanswered} running." if run.lock == "held" else f"{unanswered} asked, not answered."
    sentences = [
        f"Task {state.task['name']} on {listed(run.meshes)}, method {state.method}, seed {state.seed}.",
        f"{counted(state.step, 'step')}, cost {state.spent} ({unit_of(run)}).",
        f"Relative L2 error {last.metrics['relative_l2']:.4g}, measured after step {last.step}."
        if last
        else "No error has been measured.",
        f"State: {sentence(run.activity)}",
        waiting if state.running else "",
        f"{counted(failed, 'simulation')} without output." if failed else "",
        f"Last event: {_when(state.last)}.",
        *run.ledger.damage,
    ]
    return " ".join(one for one in sentences if one)


# One function per section.


def _error(run: RunReader) -> Section:
    heading, found = "Error against cost", run.curve
    if found is None:
        return heading, _unmeasured(run), None
    tests = len(run.state.of_kind("test", "told"))
    text = (
        f"Mean relative L2 error over {counted(tests, 'test example')} on the finest mesh. The cost is that of "
        f"{COUNTED[run.count]}."
    )
    return heading, text, plot.error_against_cost(run, count=run.count)


def _timeline(run: RunReader) -> Section:
    if not run.state.step:
        return "Meshes", "No example has been chosen yet.", None
    text = (
        "Which mesh was chosen at which step, and the number of chosen simulations on each mesh so far, without the "
        "initial ones."
    )
    return "Meshes", text, plot.meshes(run)


def _schedule(run: RunReader) -> Section | None:
    method, s = METHODS.get(run.state.method), run.state.settings
    if method is None or not method.divide_by_cost:
        return None
    last = max(max((q.step or 0 for q in choices(run)), default=0), _STEPS)
    steps = np.unique(np.linspace(1, last, min(last, _POINTS)).round().astype(int)).tolist()
    weights = [
        annealed_cost(run.costs, step - 1, schedule=s.schedule, rate=s.alpha, renormalise=s.renormalise)
        for step in steps
    ]
    text = (
        f"Cost weight of a solve on each mesh at each step: schedule {s.schedule}"
        + (f" with rate {s.alpha:g}" if s.schedule != "constant" else "")
        + ". Dotted: the true shares of the costs."
    )
    return "Cost schedule", text, schedule_figure(steps, weights, cost_shares(run.costs), run.meshes)


def _utilities(run: RunReader) -> Section:
    heading, method = "Utilities", METHODS.get(run.state.method)
    key = "" if method is None else "auto" if method.mesh_rule else method.acquisition.name
    if key not in _UTILITIES:
        return heading, f"{run.state.method} chooses at random: there are no utilities.", None
    asked = [q for q in choices(run) if q.choice.get("best")]
    if not asked:
        return heading, "No example has been chosen yet.", None
    axis, text = _UTILITIES[key]
    costs = [q.choice["costs"] for q in asked] if all(q.choice.get("costs") for q in asked) else None
    best, chosen = [q.choice["best"] for q in asked], [q.level for q in asked]
    figure = utility_figure([q.step or 0 for q in asked], best, chosen, run.meshes, axis, costs)
    return heading, text.replace("the largest was", "the largest per scheduled cost was") if costs else text, figure


def _calibration(run: RunReader) -> Section:
    if not run.state.evaluations:
        return "Calibration", _unmeasured(run), None
    last = run.state.evaluations[-1]
    text = f"Share of the test outputs' values inside the surrogate's central intervals, after step {last.step}."
    return "Calibration", text, plot.calibration(run)


def _coverage(run: RunReader) -> Section:
    heading = "Coverage of 90 % intervals"
    if not any("0.9" in e.metrics["coverage"] for e in run.state.evaluations):
        return heading, _unmeasured(run), None
    text = "At every measurement; 90 % (dotted) is perfect calibration, less is overconfident, more is underconfident."
    return heading, text, plot.coverage(run)


def _time(run: RunReader) -> Section:
    spent = run.seconds
    untimed = sum(q.seconds is None for q in run.state.queries.values() if q.status == "told")
    text = f"{duration(sum(spent.values()))} in all."
    if untimed:
        text += f" {counted(untimed, 'simulation')} without a recorded time."
    return "Where the time went", text, plot.time_spent(run)


def _failures(run: RunReader) -> Section:
    bad = [q for q in run.state.queries.values() if q.status in ("failed", "abandoned", "expired")]
    if not bad:
        return "Failures", "Every finished simulation has an output.", None
    rows: MarkupCells = [
        ("query", "for", "mesh", "what happened", "reason"),
        *((q.id, q.kind, run.meshes[q.level], q.status, prose(q.reason or "")) for q in bad[-_FAILURES:]),
    ]
    text = f"{counted(len(bad), 'simulation')} without output."
    if len(bad) > _FAILURES:
        text += f" The last {_FAILURES}:"
    return "Failures", text, rows


def _settings(run: RunReader) -> Section:
    state = run.state
    meshes = ", ".join(f"{mesh} (cost {cost:g})" for mesh, cost in zip(run.meshes, run.costs, strict=True))
    facts = {"folder": str(run.folder), "meshes": meshes, "created": _when(state.created), **state.settings.as_json()}
    if state.settings.pool is None:
        facts["pool"] = f"{run.pool}"
    elif run.pool < state.settings.pool:
        facts["pool"] = f"{run.pool}, all that the task has (of at most {state.settings.pool})"
    rows = [("setting", "value"), *((name, "none" if v is None else str(v)) for name, v in facts.items())]
    return "Settings", "Settings of the run.", rows


_FIGURES: tuple[Callable[[RunReader], Section | None], ...] = (
    _error, _timeline, learning_section, _utilities, _schedule, _calibration, _coverage, simulations_section, _time,
    driver_section,
)  # fmt: skip
_PARTS = (*_FIGURES, queries_section, _failures)


def _unmeasured(run: RunReader) -> str:
    return "Nothing has been measured yet." if run.state.settings.test else "The run has no test examples."


def _when(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))
