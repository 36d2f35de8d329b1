"""When a surrogate is fitted, from what start, and for how long: the one place that decides.

=======  =========================================  ==============  ===================================  =============
fit      when                                       starts from     iterations                           rate
=======  =========================================  ==============  ===================================  =============
scratch  the first fit; whenever the examples have  random weights  ``iterations``, fewer below          ``rate``
         grown by ``refit_growth``, while there                     ``full_size`` examples
         are fewer than ``scratch_below``
refit    the same from ``scratch_below`` on; the    the last        ``refit_share`` of ``iterations``,   ``refit_rate``
         last fit of a run                          weights         at most half of a fit from scratch
update   in between, after each                     the last        ``update_iterations``                ``update_rate``
         ``examples_per_update``-th part of what    weights
         the surrogate was trained on is new
=======  =========================================  ==============  ===================================  =============

What each rule buys is measured in the documentation, on the page about the training policy.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from mrafno.errors import SurrogateError
from mrafno.surrogate.training.settings import TrainingSettings

#: From scratch on all examples; from the last weights on all examples; from the last weights, briefly.
FitKind = Literal["scratch", "refit", "update"]

#: Examples from which on a level is predicted by itself, and from which on some of them are out of fold.
LEAST_OWN, LEAST_FOLD = 2, 3
#: Share of the iterations that a fit on next to no examples has, and examples per step.
_LEAST_SHARE, _LEAST_BATCH = 0.1, 20
#: A refit on few examples has at most this share of the iterations of a fit from scratch.
_REFIT_OF_SCRATCH = 0.5


@dataclass(frozen=True, kw_only=True)
class TrainingPolicy:
    """When a fit happens, from what start, for how long.

    Attributes:
        refit_growth: growth of the number of examples, as a share, after which all of them are fitted again; 0 for
            after every new example.
        scratch_below: number of examples below which such a fit starts from scratch. Weights that were fitted to few
            examples are a bad start: training from there stays behind training from scratch.
        examples_per_update: trained examples per new one that may wait for an update. An observed function determines
            most of what a few members disagree about, so choices made before it is trained on are nearly arbitrary.
        full_size: number of examples from which on a fit from scratch has all its iterations, and level embeddings of
            full scale. While a level is rare, all levels start close together, so that a fine solution is predicted
            like a coarse one until examples show the difference. 0 for always.
        scale_iterations: whether fits from scratch on fewer examples have fewer iterations. Off by default where the
            number of iterations is set by hand.
        refit_share: iterations of a refit, as a share of ``iterations``.
        refit_batch: examples per step of a refit.
        refit_rate: largest learning rate of a refit. It goes through the whole schedule, so that it ends at zero.
        update_iterations: iterations of an update.
        update_batch: examples per step of an update.
        update_rate: largest learning rate of an update.
    """

    refit_growth: float = 0.5
    scratch_below: int = 200
    examples_per_update: int = 75
    full_size: int = 400
    scale_iterations: bool = True
    refit_share: float = 0.3
    refit_batch: int = 40
    refit_rate: float = 2e-3
    update_iterations: int = 40
    update_batch: int = 20
    update_rate: float = 1e-3

    def __post_init__(self) -> None:
        for name, value in self.as_json().items():
            if isinstance(value, bool):
                continue
            least = 0 if name in ("refit_growth", "scratch_below", "full_size") else None
            if value < 0 or (least is None and value == 0):
                raise SurrogateError(
                    f"training policy: {name} must be {'0 or more' if least == 0 else 'positive'}, got {value}."
                )

    def due(self, *, trained: int, new: int, at_refit: int, members: int, first: bool) -> FitKind | None:
        """The fit that is due; None if new observations may wait.

        Args:
            trained: examples that the surrogate was trained on.
            new: observations that it was not trained on yet.
            at_refit: examples at the last fit that was no update.
            members: networks of the ensemble.
            first: whether nothing was fitted yet.
        """
        if not new:
            return None
        if first:
            return "scratch"
        if trained + new - at_refit > self.refit_growth * at_refit:
            return self.whole(trained + new)
        # More than members - 1 observations span more directions than the members do.
        wait = max(1, min(trained // self.examples_per_update, members - 1))
        return "update" if new >= wait else None

    def whole(self, examples: int) -> FitKind:
        """The kind of a fit on all of so many examples."""
        return "scratch" if examples < self.scratch_below else "refit"

    def settings(self, kind: FitKind, training: TrainingSettings, sizes: Sequence[int]) -> TrainingSettings:
        """The settings of one fit.

        Args:
            training: settings of a fit from scratch on ``full_size`` examples or more.
            sizes: examples of each level.
        """
        if kind == "update":
            return training.changed(iterations=self.update_iterations, batch=self.update_batch, rate=self.update_rate)
        share = 1.0
        if self.scale_iterations and self.full_size:
            share = min(1.0, _LEAST_SHARE + (1 + _LEAST_SHARE) * sum(sizes) / self.full_size)
        if kind == "refit":
            # With few examples the last weights are trained further for less time than they were trained for.
            share = min(self.refit_share, _REFIT_OF_SCRATCH * share) if share < 1 else self.refit_share
            iterations = max(1, round(share * training.iterations))
            return training.changed(
                iterations=iterations, batch=self.refit_batch, rate=self.refit_rate, early_share=0.0
            )
        known = [n for n in sizes if n]
        # The difference between levels is known only as well as the rarest level.
        rarest = min(1.0, min(known) * len(known) / self.full_size) if self.full_size and known else 1.0
        return training.changed(
            iterations=max(1, round(share * training.iterations)),
            batch=min(training.batch, max(_LEAST_BATCH, sum(sizes) // 10)),
            level_embedding_scale=rarest * training.level_embedding_scale,
        )

    def changed(self, **changes: Any) -> "TrainingPolicy":
        """A copy with some settings changed."""
        return replace(self, **changes)

    def as_json(self) -> dict[str, Any]:
        """The settings as JSON values."""
        return asdict(self)
