"""Steps of training recorded once and replayed: the same operations on the same memory, with nothing between them.

For small networks half of a step's time is not arithmetic: modules are called, a graph of derivatives is built and
walked, views and results are made and forgotten. All of that is the same in every step. A :class:`Recording` listens to
a function once, lays out memory for all its results, and from then on only calls the operations that compute, in their
order, each writing where it wrote before. The numbers are the same to the last bit.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

#: Operations whose results only name what exists, though their schemas do not say so, or are memory and no numbers.
_NOTHING_TO_COMPUTE = frozenset(
    {torch.ops.aten._unsafe_view.default, torch.ops.aten.new_empty.default, torch.ops.aten.empty.memory_format}
)


class Recording:
    """A function of tensors, recorded for tensors like these.

    Its results are the recording's own memory: the next call overwrites them. It may have None among them.
    """

    def __init__(self, function: Callable[..., Sequence[Tensor | None]], examples: Sequence[Tensor]) -> None:
        self.inputs = [example.detach().clone() for example in examples]
        function(*self.inputs)  # what is made once and then kept is no part of a recording
        with _Tape() as tape:
            results = function(*self.inputs)
        layout = _Layout(tape.operations, results)
        self._calls = [call for operation in tape.operations for call in layout.call(operation)]
        self.results = [None if result is None else layout.moved(result) for result in results]

    def __call__(self, *tensors: Tensor) -> list[Tensor | None]:
        """The results for other numbers."""
        with torch.no_grad():
            torch._foreach_copy_(self.inputs, list(tensors))
            for call in self._calls:
                call()
        return self.results


@dataclass(frozen=True)
class _Operation:
    """One call: the operation, what it was given and what it gave."""

    name: Any
    args: Any
    kwargs: Any
    result: Any

    @property
    def computes(self) -> bool:
        """Whether its result is new: no view, and nothing that it was given to change."""
        returned = self.name._schema.returns
        return self.name not in _NOTHING_TO_COMPUTE and all(r.alias_info is None for r in returned)

    @property
    def changes(self) -> bool:
        """Whether it changes what it is given."""
        return bool(self.name._schema.is_mutable)

    def tensors(self) -> Iterator[Tensor]:
        """All that it has to do with."""
        return _tensors((self.args, self.kwargs, self.result))


class _Tape(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Hears every operation, those of derivatives included."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[_Operation] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch would load its compiler in order to skip it

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if not any(isinstance(leaf, Tensor) for leaf in tree_leaves(result)):
            raise RuntimeError(f"{func} gives a number, which may be another one in the next step")
        self.operations.append(_Operation(func, args, kwargs, result))
        return result


class _Layout:
    """Memory for results, given again to a later one of the same size when nothing will look at the first any more."""

    def __init__(self, operations: Sequence[_Operation], results: Sequence[Tensor | None]) -> None:
        self._last: dict[int, float] = {
            _memory(t): i for i, operation in enumerate(operations) for t in operation.tensors()
        }
        self._last |= {_memory(result): math.inf for result in results if result is not None}
        self._places: dict[int, torch.UntypedStorage] = {}
        self._free: dict[int, list[torch.UntypedStorage]] = {}
        self._step = 0

    def call(self, operation: _Operation) -> list[Callable[[], object]]:
        """How to compute an operation's result again, if there is anything to compute; to be asked in their order."""
        given = {_memory(t) for t in _tensors((operation.args, operation.kwargs))}
        for result in _tensors(operation.result):
            if _memory(result) not in given:
                self._place(result)
        calls: list[Callable[[], object]] = []
        if operation.computes or operation.changes:
            args, kwargs, result = tree_map(self._moved, (operation.args, operation.kwargs, operation.result))
            variant = None if operation.changes else _out_variant(operation.name)
            if operation.changes:
                calls.append(partial(operation.name, *args, **kwargs))
            elif variant is not None:
                calls.append(partial(variant[0], *args, **kwargs, **{variant[1]: result}))
            else:
                calls.append(partial(_copied, result, operation.name, args, kwargs))
        for memory in {_memory(t) for t in operation.tensors()} & self._places.keys():
            if self._last[memory] == self._step:
                place = self._places.pop(memory)
                self._free.setdefault(place.nbytes(), []).append(place)
        self._step += 1
        return calls

    def _place(self, result: Tensor) -> None:
        size = result.untyped_storage().nbytes()
        free = self._free.get(size)
        self._places[_memory(result)] = free.pop() if free else torch.UntypedStorage(size)  # type: ignore[no-untyped-call]

    def moved(self, tensor: Tensor) -> Tensor:
        """A tensor in its place; one that was there before stays where it is."""
        if tensor.is_conj():
            return self.moved(tensor.conj()).conj()
        if tensor.is_neg():
            return torch._neg_view(self.moved(torch._neg_view(tensor)))
        place = self._places.get(_memory(tensor))
        if place is None:
            return tensor.detach()
        empty = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        return empty.set_(place, tensor.storage_offset(), tensor.size(), tensor.stride())

    def _moved(self, value: Any) -> Any:
        return self.moved(value) if isinstance(value, Tensor) else value


def _tensors(values: Any) -> Iterator[Tensor]:
    return (leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor))


def _memory(tensor: Tensor) -> int:
    """What two tensors share of which one is a view of the other."""
    return int(tensor.untyped_storage()._cdata)


def _copied(result: Any, operation: Any, args: Any, kwargs: Any) -> None:
    """Compute a result, or several, and put it in its place."""
    again = operation(*args, **kwargs)
    for place, value in [(result, again)] if isinstance(result, Tensor) else zip(result, again, strict=True):
        place.copy_(value)


@cache
def _out_variant(operation: Any) -> tuple[Any, str] | None:
    """The variant of an operation that writes its one result where it is told, and what it calls that place."""
    wanted = [(a.name, str(a.type)) for a in operation._schema.arguments]
    packet = operation.overloadpacket
    for name in packet.overloads():
        variant = getattr(packet, name)
        places = [a.name for a in variant._schema.arguments if a.is_out]
        rest = [(a.name, str(a.type)) for a in variant._schema.arguments if not a.is_out]
        if len(places) == 1 and rest == wanted:
            return variant, places[0]
    return None
