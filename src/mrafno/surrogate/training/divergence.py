"""Training of all members, and of those that diverge once more, while the others keep their weights."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from mrafno.errors import TrainingError
from mrafno.surrogate.operator.fno import MemberFNO
from mrafno.surrogate.training.batches import Batches
from mrafno.surrogate.training.loop import History, adam, train
from mrafno.surrogate.training.low_precision import bfloat16_steps
from mrafno.surrogate.training.objective import Objective, network_objective
from mrafno.surrogate.training.optimiser import Optimiser
from mrafno.surrogate.training.settings import TrainingSettings

#: How often a member that diverged is trained again, each time at half the learning rate.
_ATTEMPTS = 2


def train_members(
    network: MemberFNO,
    batches: Batches,
    settings: TrainingSettings,
    *,
    watch: Callable[[int, list[float]], None] | None = None,
    restart: Callable[[int, int], None] | None = None,
    objective: Objective | None = None,
    optimiser: Optimiser | None = None,
    after_step: Callable[[int], None] | None = None,
    masks: Callable[[int], Sequence[Tensor]] | None = None,
) -> History:
    """Train all members in place, and those that diverged once more.

    Args:
        watch, after_step: see :func:`mrafno.surrogate.training.loop.train`.
        restart: ``restart(member, times)`` initialises a member that diverged; None makes divergence an error.
        objective, optimiser: instead of the network's average loss and Adam.
        masks: dropout masks for a batch of a given size.
    """

    def schedule(rate: float, optimiser: Optimiser | None) -> History:
        chosen = settings.changed(rate=rate)
        return train(
            objective
            or network_objective(
                network,
                batches,
                settings.loss,
                masks,
                bfloat16_steps=bfloat16_steps(network, settings),
                early_steps=round(settings.early_share * settings.iterations),
            ),
            optimiser or adam(network, chosen, batches.sizes),
            chosen,
            watch=watch,
            restart=restart,
            after_step=after_step,
        )

    history = schedule(settings.rate, optimiser)
    if restart is not None:
        retrain_diverged(network, history, settings, lambda rate: schedule(rate, None), restart)
    _check_finite(network, settings)
    return history


def retrain_diverged(
    network: MemberFNO,
    history: History,
    settings: TrainingSettings,
    schedule: Callable[[float], History],
    restart: Callable[[int, int], None],
) -> None:
    """Train members again, in place, that were restarted late or have weights that are not finite.

    A member that was restarted during training has had fewer iterations than the others. ``schedule`` trains the whole
    network at a given rate; afterwards the other members get their weights back. The history records each attempt.
    """
    lost = _lost(network, history, settings)
    for attempt in range(1, _ATTEMPTS + 1):
        if not lost:
            return
        kept = {name: value.clone() for name, value in detached(network).items()}
        for member in lost:
            restart(member, 1000 + attempt)
        again = schedule(settings.rate / 2**attempt)
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


def _check_finite(network: MemberFNO, settings: TrainingSettings) -> None:
    """Raise if a weight is not finite."""
    broken = _broken(network)
    if broken:
        raise _diverged(broken, settings)


def detached(network: MemberFNO) -> dict[str, Tensor]:
    """The weights of a network, without gradients, sharing its memory."""
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
        f"training: members {sorted(members)} diverged repeatedly. "
        f"Lower the learning rate (now {settings.rate:g}) or check the data for outliers."
    )
