"""The first section of a run's page: what was learnt, for how much, how sure that is, and what to do next.

It ends with a paragraph for a paper, which holds the same numbers, and what to cite.
"""

import re
import shlex
from html import escape

from mrafno._version import __version__
from mrafno.plot.text import counted, duration, listed
from mrafno.report.html import Html, Parts, Section, facts
from mrafno.run.progress import outlook
from mrafno.run.reader import RunReader
from mrafno.run.records import Evaluation

#: The method that mrafno builds on.
REFERENCE = (
    "Li, S., Yu, X., Xing, W., Kirby, R., Narayan, A., Zhe, S.: Multi-Resolution Active Learning of Fourier Neural "
    "Operators. AISTATS 2024, arXiv:2309.16971"
)
_BIBTEX = f"""@software{{mrafno,
  title = {{mrafno: multi-fidelity active learning of neural operators}},
  author = {{{{The mrafno authors}}}},
  version = {{{__version__}}}
}}
@inproceedings{{li2024mrafno,
  title = {{Multi-Resolution Active Learning of Fourier Neural Operators}},
  author = {{Li, Shibo and Yu, Xin and Xing, Wei and Kirby, Robert and Narayan, Akil and Zhe, Shandian}},
  booktitle = {{International Conference on Artificial Intelligence and Statistics}},
  year = {{2024}},
  eprint = {{2309.16971}}
}}"""
#: Coverage of 90 % intervals that is called right, and share of the error that the last quarter of the steps took away
#: above which more simulations are called worth it.
_RIGHT, _WORTH = (0.85, 0.95), 0.1


def summary_section(run: RunReader) -> Section:
    """The summary and the paragraph."""
    answers = "".join(
        f"<dt>{escape(question)}</dt><dd>{_with_code(' '.join(sentences))}</dd>"
        for question, sentences in (
            ("What was learnt", learnt(run)),
            ("For how much", paid(run)),
            ("How sure", sure(run)),
            ("What next", following(run)),
        )
    )
    paper = (
        '<h3>For a paper</h3><blockquote id="for-a-paper">'
        f"{escape(paragraph(run))}</blockquote>"
        '<p><button type="button" data-copy="for-a-paper">Copy the paragraph</button></p>'
        f'<pre id="bibtex" tabindex="0" role="region" aria-label="BibTeX">{escape(_BIBTEX)}</pre>'
        '<p><button type="button" data-copy="bibtex">Copy BibTeX</button></p>'
    )
    warnings = "".join(
        f'<p class="warning"><strong>Warning:</strong> {escape(text)}</p>' for text in run.state.warnings.values()
    )
    parts = [Html(warnings), facts(_figures(run)), Html(f'<dl class="answers">{answers}</dl>'), Html(paper)]
    return "Summary", "", Parts(parts)


def _figures(run: RunReader) -> list[tuple[str, str, str]]:
    state, last = run.state, _last(run)
    tests = len(state.of_kind("test", "told"))
    error = ("none", "no test examples were measured") if last is None else (
        f"{last.metrics['relative_l2']:.4g}", f"relative L2 on {counted(tests, 'test example')}, step {last.step}"
    )  # fmt: skip
    own = state.error_estimate
    between = "too little is known" if own is None else f"{own.low:.3g} to {own.high:.3g} with 90 % probability"
    estimate = "none" if own is None else f"{own.error:.3g}"
    covered = None if last is None else last.metrics.get("coverage", {}).get("0.9")
    told = state.of_kind("pool", "told")
    meshes = [f"{sum(q.level == level for q in told)} on {mesh}" for level, mesh in enumerate(run.meshes)]
    spent = state.spent
    found = [
        ("Error", *error),
        ("Own estimate", estimate, between),
        ("Cost", f"{run.cost:.6g}", f"{spent.initial:g} initial, {spent.chosen:g} chosen, {spent.test:g} test"),
        ("Chosen simulations", str(state.step), ", ".join(meshes)),
        ("Time", duration(sum(run.seconds.values())), "simulating, training, choosing, evaluating"),
    ]
    if covered is not None:
        found.insert(2, ("Inside 90 % intervals", f"{100 * covered:.0f} %", "of the test outputs' values"))
    return found


def learnt(run: RunReader) -> list[str]:
    """What the surrogate is of, and its error."""
    state, last = run.state, _last(run)
    found = [
        f"A surrogate of {state.task['name']} on {run.meshes[-1]}, from simulations on {listed(run.meshes)}: "
        f"{_inference(run)}."
    ]
    if last is not None:
        first = state.measurements[0]
        error, before = last.metrics["relative_l2"], first.metrics["relative_l2"]
        fell = f", {before:.3g} before the first choice" if first.step == 0 and last.step else ""
        found.append(f"Its mean relative L2 error on test examples is {error:.3g}{fell}.")
    elif state.error_estimate is not None:
        found.append(f"By its own estimate its relative L2 error is {state.error_estimate.interval}; no test was made.")
    else:
        found.append("No error is known yet.")
    return found


def paid(run: RunReader) -> list[str]:
    """Costs, simulations and time."""
    state, seconds = run.state, run.seconds
    told = state.of_kind("pool", "told")
    dear = ", ".join(
        f"{sum(q.level == level for q in told)} on {mesh} at {run.costs[level]:g}"
        for level, mesh in enumerate(run.meshes)
    )
    failed = sum(q.status in ("failed", "expired", "abandoned") for q in state.queries.values())
    return [
        f"Cost {state.spent}, in units of the task.",
        f"{counted(len(told), 'simulation')} chosen: {dear}.",
        f"{counted(failed, 'simulation')} gave no output." if failed else "Every simulation gave an output.",
        f"{duration(sum(seconds.values()))} of work, of which training took {duration(seconds['training'])}.",
    ]


def sure(run: RunReader) -> list[str]:
    """What supports the error, and whether the spread can be believed."""
    state, last = run.state, _last(run)
    tests = len(state.of_kind("test", "told"))
    found = []
    if last is not None:
        found.append(f"The error is a mean over {counted(tests, 'test example')} that nothing was trained on.")
        if tests < 30:
            found.append("That is few: the mean itself is uncertain by tens of per cent.")
    if state.error_estimate is not None:
        found.append(f"The run's own estimate is {state.error_estimate}.")
    covered = None if last is None else last.metrics.get("coverage", {}).get("0.9")
    if covered is not None:
        low, high = _RIGHT
        word = "overconfident" if covered < low else "too wide" if covered > high else "about right"
        found.append(f"The 90 % intervals hold {100 * covered:.0f} % of the test values: they are {word}.")
    return found or ["Nothing was measured and nothing estimated yet."]


def following(run: RunReader) -> list[str]:
    """What to do next."""
    state, where = run.state, run.standing
    folder = shlex.quote(str(run.folder))
    found = []
    if where in ("running", "paused"):
        found.append("The run advances at present.")
    elif where == "failed":
        found.append(f"The run was stopped by an error: correct its cause, then `mrafno resume {folder}`.")
    elif where == "interrupted":
        found.append(f"The run was interrupted: `mrafno resume {folder}` continues it.")
    elif state.running:
        found.append(
            f"{counted(len(state.running), 'query waits', 'queries wait')} for an answer: `mrafno tell {folder} ...`."
        )
    gain = _recent_gain(run)
    if gain is not None and where not in ("running", "paused"):
        more = f"`mrafno resume {folder} --steps {state.step + max(10, state.step // 2)}`"
        if gain > _WORTH:
            found.append(
                f"The last quarter of the measured cost lowered the error by {100 * gain:.0f} %: more simulations "
                f"still pay, for example {more}."
            )
        else:
            found.append(
                f"The last quarter of the measured cost lowered the error by {max(100 * gain, 0):.0f} % only: before "
                "more simulations, try more members, a larger network, or finer meshes."
            )
    if (ahead := outlook(state, None)) is not None:
        found.append(f"Forecast of the cost: {ahead}.")
    if state.trainings:
        found.append(f"`mrafno predict {folder}` and `mrafno export {folder}` use the surrogate.")
    return found or ["Advance the run: nothing has been trained yet."]


def paragraph(run: RunReader) -> str:
    """A paragraph for a paper, with the numbers of the run."""
    state, last, s = run.state, _last(run), run.state.settings
    told = state.of_kind("pool", "told")
    counts = [sum(q.level == level for q in told) for level in range(len(run.grids))]
    initial = [
        len([q for q in state.of_kind("initial", "told") if q.level == level]) for level in range(len(run.grids))
    ]
    prices = " : ".join(f"{cost / run.costs[0]:.4g}" for cost in run.costs)
    chosen = listed([f"{n} on {mesh}" for n, mesh in zip(counts, run.meshes, strict=True)])
    first = listed([f"{n} on {mesh}" for n, mesh in zip(initial, run.meshes, strict=True)])
    together = f"{s.batch} at a time" if s.batch > 1 else "one at a time"
    text = (
        f"We trained {_inference(run)} on simulations of {state.task['name']} on {listed(run.meshes)} (costs {prices})"
        f" by multi-fidelity active learning with mrafno {__version__} (method {state.method}, seed {state.seed}),"
        f" which builds on Li et al. (2024). Starting from {first}, {counted(len(told), 'further simulation')}"
        f" ({chosen}) were chosen from {counted(run.pool, 'candidate input')}, {together}, at a total cost of"
        f" {state.spent.total:.6g} in units of {_unit(run)}, {state.spent.chosen:.6g} of it for chosen and"
        f" {state.spent.test:.6g} for test simulations."
    )
    if last is not None:
        start = state.measurements[0]
        tests = counted(len(state.of_kind("test", "told")), "held-out test example")
        error, before = last.metrics["relative_l2"], start.metrics["relative_l2"]
        change = f"fell from {before:.3g} to {error:.3g}" if start.step == 0 and error < before else f"is {error:.3g}"
        text += f" The mean relative L2 error on {tests} on the finest mesh {change}"
        covered = last.metrics.get("coverage", {}).get("0.9")
        text += "." if covered is None else f"; {100 * covered:.0f} % of their values are inside the 90 % intervals."
    return f"{text} [{REFERENCE}]"


def _with_code(text: str) -> str:
    """Markup of a text in which commands stand between backticks."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def _inference(run: RunReader) -> str:
    s = run.state.settings
    kinds = {
        "point": "a Fourier neural operator", "dropout": "a Fourier neural operator with dropout",
        "sgld": "a Fourier neural operator with Langevin sampling", "svi": "a variational Fourier neural operator",
    }  # fmt: skip
    return kinds.get(s.inference or "", f"an ensemble of {s.members} Fourier neural operators")


def _unit(run: RunReader) -> str:
    return "one coarsest solve" if run.costs[0] == 1 else "the task"


def _last(run: RunReader) -> Evaluation | None:
    return run.state.measurements[-1] if run.state.measurements else None


def _recent_gain(run: RunReader) -> float | None:
    """By which share the error fell over the last quarter of the measured cost; None if too little was measured."""
    curve = run.curve
    if curve is None or len(curve.costs) < 4:
        return None
    from mrafno.analysis.curves import at_costs

    start = curve.costs[-1] - (curve.costs[-1] - curve.costs[0]) / 4
    before = float(at_costs([curve], [start])[0, 0])
    return 1 - curve.errors[-1] / before if before > 0 else None
