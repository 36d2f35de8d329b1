"""What becomes of members that diverge: a course of training of their own, while the others keep what they learnt."""

from collections.abc import Callable

import torch
from torch import Tensor

from mrafno.errors import TrainingError
from mrafno.surrogate.operator.fno import MemberFNO
from mrafno.surrogate.training.loop import History, TrainingSettings

#: Further courses that a member gets which diverged in its first.
_ATTEMPTS = 2


def make_up(
    network: MemberFNO,
    history: History,
    settings: TrainingSettings,
    course: Callable[[float], History],
    restart: Callable[[int, int], None],
) -> None:
    """Train once more what was restarted late or ended broken, in place; the history hears of it.

    A member that was restarted on the way has had less training than the others. ``course`` trains the whole network at
    a given rate, and afterwards the other members get back the weights they had.
    """
    lost = _lost(network, history, settings)
    for attempt in range(1, _ATTEMPTS + 1):
        if not lost:
            return
        kept = {name: value.clone() for name, value in detached(network).items()}
        for member in lost:
            restart(member, 1000 + attempt)
        again = course(settings.rate / 2**attempt)
        history.events += [f"member {member} was trained once more" for member in sorted(lost)]
        well = [member for member in range(network.members) if member not in lost]
        for name, value in detached(network).items():
            value[well] = kept[name][well]
        history.losses[-1] = [
            (again if member in lost else history).losses[-1][member] for member in range(network.members)
        ]
        lost &= _lost(network, again, settings)
    if lost:
        raise _diverged(lost, settings)


def refuse_broken(network: MemberFNO, settings: TrainingSettings) -> None:
    """Raise if a weight is not finite."""
    broken = _broken(network)
    if broken:
        raise _diverged(broken, settings)


def detached(network: MemberFNO) -> dict[str, Tensor]:
    """A network's weights, sharing its memory."""
    return {name: value.detach() for name, value in network.state_dict().items()}


def _lost(network: MemberFNO, history: History, settings: TrainingSettings) -> set[int]:
    late = {member for member, step in history.restarted.items() if step > settings.iterations // 20}
    return late | _broken(network)


def _broken(network: MemberFNO) -> set[int]:
    bad: set[int] = set()
    for value in network.state_dict().values():
        finite = torch.isfinite(value.reshape(value.shape[0], -1)).all(dim=1)
        bad.update(torch.nonzero(~finite).flatten().tolist())
    return bad


def _diverged(members: set[int], settings: TrainingSettings) -> TrainingError:
    return TrainingError(
        f"training: members {sorted(members)} diverged again and again. "
        f"Lower the learning rate (now {settings.rate:g}) or check the data for outliers."
    )
