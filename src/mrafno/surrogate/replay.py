"""Steps of training recorded once and replayed: the same operations on the same memory, with nothing between them.

For small networks half of a step's time is not arithmetic: modules are called, a graph of derivatives is built and
walked, views and results are made and forgotten. All of that is the same in every step. A :class:`Recording` traces a
function once into its single operations, makes all views and all memory for results, and from then on only calls the
operations that compute, in their order, each writing where it wrote before. The numbers are the same to the last bit.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx

#: Results that only name what exists, though their schemas do not say so.
_VIEWS = frozenset({torch.ops.aten._unsafe_view.default})
#: Results that are memory and no numbers.
_EMPTY = frozenset({torch.ops.aten.new_empty.default, torch.ops.aten.empty.memory_format})


class Recording:
    """A function of tensors, recorded for tensors like these.

    Its results are the recording's own memory: the next call overwrites them. It may have None among them.
    """

    def __init__(self, function: Callable[..., Sequence[Tensor | None]], examples: Sequence[Tensor]) -> None:
        self.inputs = [example.detach().clone() for example in examples]
        traced = make_fx(lambda *tensors: list(function(*tensors)))(*self.inputs)
        traced.graph.eliminate_dead_code()
        self._calls: list[Callable[[], object]] = []
        with torch.no_grad():
            self.results = self._placed(traced)

    def __call__(self, *tensors: Tensor) -> list[Tensor | None]:
        """The results for other numbers."""
        with torch.no_grad():
            torch._foreach_copy_(self.inputs, list(tensors))
            for call in self._calls:
                call()
        return self.results

    def _placed(self, traced: fx.GraphModule) -> list[Tensor | None]:
        """Run every operation once, and note how to compute its result in its place again."""
        found: dict[fx.Node, Any] = dict(zip(traced.graph.find_nodes(op="placeholder"), self.inputs, strict=True))
        places = _Places(traced.graph)
        for node in traced.graph.nodes:
            if node.op == "placeholder":
                continue
            if node.op == "get_attr":
                found[node] = getattr(traced, str(node.target))
                continue
            args, kwargs = fx.map_arg((node.args, node.kwargs), found.__getitem__)
            if node.op == "output":
                return list(args[0])
            variant = None if _names(node) else _out_variant(node.target)
            if variant is None:
                found[node] = result = node.target(*args, **kwargs)
                if not _names(node):
                    self._calls.append(partial(_copied, result, node.target, args, kwargs))
                elif _changes(node):
                    self._calls.append(partial(node.target, *args, **kwargs))
            else:
                operation, name = variant
                found[node] = places.of(node)
                self._calls.append(partial(operation, *args, **kwargs, **{name: found[node]}))
                self._calls[-1]()
            places.leave(node)
        raise AssertionError("a graph ends with its output")


class _Places:
    """Memory for results, given again to a later one of the same size when nothing will look at the first any more."""

    def __init__(self, graph: fx.Graph) -> None:
        nodes = list(graph.nodes)
        order = {node: i for i, node in enumerate(nodes)}
        last: dict[fx.Node, int] = {}
        for node in reversed(nodes):
            # Whoever looks at a view looks at what it is a view of.
            last[node] = max([order[node], *(last[user] if _names(user) else order[user] for user in node.users)])
        self._leaving: dict[int, list[fx.Node]] = {}
        for node, when in last.items():
            self._leaving.setdefault(when, []).append(node)
        self._order = order
        self._taken: dict[fx.Node, Tensor] = {}
        self._free: dict[tuple[torch.dtype, int], list[Tensor]] = {}

    def of(self, node: fx.Node) -> Tensor:
        """Where the result of an operation goes."""
        like = node.meta["tensor_meta"]
        size = 1 + sum((n - 1) * stride for n, stride in zip(like.shape, like.stride, strict=True))
        free = self._free.get((like.dtype, size))
        self._taken[node] = memory = free.pop() if free else torch.empty(size, dtype=like.dtype)
        return memory.as_strided(like.shape, like.stride)

    def leave(self, node: fx.Node) -> None:
        """After an operation: what nobody looks at from now on is free."""
        for past in self._leaving.get(self._order[node], ()):
            if past in self._taken:
                memory = self._taken.pop(past)
                self._free.setdefault((memory.dtype, memory.numel()), []).append(memory)


def _changes(node: fx.Node) -> bool:
    """Whether an operation changes what it is given."""
    return bool(node.target._schema.is_mutable) if isinstance(node.target, torch._ops.OpOverload) else False


def _names(node: fx.Node) -> bool:
    """Whether an operation's result is memory that exists: a view, what it changed, or one of several results."""
    if node.op != "call_function":
        return False
    if not isinstance(node.target, torch._ops.OpOverload) or node.target in _VIEWS or node.target in _EMPTY:
        return True
    return any(argument.alias_info is not None for argument in node.target._schema.returns)


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
