"""How long simulations took, level by level. They are kept sorted, as their medians are asked for at every step."""

from bisect import bisect_left, insort


class Durations:
    """Seconds of the simulations of each level that gave an output."""

    def __init__(self) -> None:
        self._noted: dict[str, tuple[int, float, float]] = {}
        #: Of every level: when each was answered and its id; and all seconds.
        self._answers: dict[int, list[tuple[float, str]]] = {}
        self._seconds: dict[int, list[float]] = {}

    def add(self, id: str, level: int, answered: float, seconds: float) -> None:
        """Note the seconds of a simulation."""
        self._noted[id] = level, answered, seconds
        insort(self._answers.setdefault(level, []), (answered, id))
        insort(self._seconds.setdefault(level, []), seconds)

    def remove(self, id: str) -> None:
        """Forget those of a simulation, if they were noted: its output was lost."""
        if id in self._noted:
            level, answered, seconds = self._noted.pop(id)
            answers, times = self._answers[level], self._seconds[level]
            del answers[bisect_left(answers, (answered, id))]
            del times[bisect_left(times, seconds)]

    def number(self, level: int) -> int:
        """How many simulations of a level the typical time rests on."""
        total = len(self._seconds.get(level, ()))
        return total - (total > 1)

    def typical(self, level: int) -> float | None:
        """Median of a level's seconds; None without any.

        The first one is left out where there are others: it may have compiled code or filled caches.
        """
        times = self._seconds.get(level)
        if not times:
            return None
        left = self.number(level)
        first = len(times) if left == len(times) else bisect_left(times, self._noted[self._answers[level][0][1]][2])
        middle = ((left - 1) // 2, left // 2)
        low, high = (times[place + (place >= first)] for place in middle)
        return (low + high) / 2
