"""What a run knows of itself: its costs, its error, what more will bring. Runs and their readers answer alike."""

import abc
import math
from typing import overload

from mrafno.analysis.estimate import Estimate
from mrafno.analysis.forecast import CostForecast, ErrorForecast
from mrafno.errors import RunError
from mrafno.run.forecasting import forecast_cost, forecast_error
from mrafno.run.prices import prices
from mrafno.run.settings import RunSettings
from mrafno.run.spending import Spent
from mrafno.run.state import RunState


class Known(abc.ABC):
    """Answers questions from a run's state."""

    @property
    @abc.abstractmethod
    def state(self) -> RunState:
        """What was recorded so far."""

    @property
    def spent(self) -> Spent:
        """What was spent so far: initial, chosen, test and failed simulations, and their total."""
        return self.state.spent

    @property
    def prices(self) -> tuple[float, ...]:
        """Price of one simulation on each level, as declared or as learnt; see :mod:`mrafno.run.prices`."""
        return prices(self.state)

    @property
    def settings(self) -> RunSettings:
        """Settings that the run was created with."""
        return self.state.settings

    def estimate(self) -> Estimate | None:
        """The error of the surrogate on the finest mesh, over inputs like the candidates, without test examples.

        None while too little is known: with fewer than three examples on the finest mesh, or a single network.
        """
        return self.state.error_estimate

    @overload
    def forecast(self, *, error: float, workers: int = 1) -> CostForecast | None: ...
    @overload
    def forecast(self, *, cost: float) -> ErrorForecast | None: ...

    def forecast(
        self, *, error: float | None = None, cost: float | None = None, workers: int = 1
    ) -> CostForecast | ErrorForecast | None:
        """What it will cost to reach an error, or what error a total cost will bring.

        None while fewer than four errors are known.

        Args:
            error: relative L2 error on the finest mesh.
            cost: in all, what was spent already included.
            workers: simulations that run at a time, for how long it will take.
        """
        if (error is None) == (cost is None):
            raise RunError("forecast: give the error to reach, error=, or the cost in all, cost=, and not both.")
        for name, value in (("error", error), ("cost", cost), ("workers", workers)):
            if value is not None and not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
                raise RunError(f"forecast: {name} must be a positive number, got {value!r}.")
        if error is not None:
            return forecast_cost(self.state, error, workers)
        assert cost is not None, "one of both is given"
        if cost < self.spent.total:
            raise RunError(f"forecast: {self.spent.total:g} were spent already. Give a larger cost than {cost:g}.")
        return forecast_error(self.state, cost)
