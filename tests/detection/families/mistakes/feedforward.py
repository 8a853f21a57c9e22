"""Mistakes of feed-forward networks, routers and experts."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from detection.families.mistakes.seed import Seed, calling, last, mistake
from detection.families.patch import changed, exchanged, filled, forward_of, functions_in
from detection.families.subject import Subject

_OTHER: dict[str, Any] = {
    "silu": lambda _silu, x, *_, **__: functional.gelu(x),
    "gelu": lambda _gelu, x, *_, **__: functional.silu(x),
    "relu": lambda _relu, x, *_, **__: functional.silu(x),
}


@mistake
def another_activation(subject: Subject) -> Seed | None:
    """GELU for SiLU, or SiLU for any other."""
    module = last(calling(subject, *_OTHER))
    if module is None:
        return None
    return Seed((module[0], module[0].rpartition(".")[0]), lambda: functions_in(module[1], _OTHER))


@mistake
def gate_and_up_exchanged(subject: Subject) -> Seed | None:
    """Each of the two in the other's place, whether they are two modules or the halves of one."""
    for path, module in reversed(list(subject.modules())):
        for first, second in (("gate_proj", "up_proj"), ("w1", "w3")):
            if isinstance(getattr(module, first, None), nn.Linear) and isinstance(
                getattr(module, second, None), nn.Linear
            ):
                blame = (path, f"{path}.{first}", f"{path}.{second}")
                return Seed(blame, lambda m=module, f=first, s=second: exchanged(m, f, s))  # type: ignore[misc]
        fused = getattr(module, "gate_up_proj", None)
        if isinstance(fused, nn.Linear):
            weight = fused.weight
            return Seed((f"{path}.gate_up_proj",), lambda w=weight: filled(w, w.roll(len(w) // 2, 0)))  # type: ignore[misc]
        if isinstance(fused, nn.Parameter):
            flipped = fused.view(*fused.shape[:-1], -1, 2).flip(-1).flatten(-2) if hasattr(module, "alpha") else None
            halves = fused.roll(fused.shape[1] // 2, 1) if flipped is None else flipped
            return Seed((path,), lambda p=fused, v=halves: filled(p, v))  # type: ignore[misc]
    return None


@mistake
def top_k_without_the_first(subject: Subject) -> Seed | None:
    """The second to the k + 1st for the first to the kth."""
    router = last(calling(subject, "topk"))
    if router is None:
        return None

    def around(topk: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        count = kwargs.pop("k", None) or args[0]
        rest = (-1,) if len(args) < 2 else args[1:]
        if count >= x.shape[-1] or kwargs.get("dim", rest[0]) not in (-1, x.ndim - 1):
            return topk(x, count, *args[1:], **kwargs)
        top = topk(x, count + 1, *args[1:], **kwargs)
        return torch.return_types.topk((top[0][..., 1:], top[1][..., 1:]))

    return Seed((router[0],), lambda: functions_in(router[1], {"topk": around}))


@mistake
def top_k_not_normalised(subject: Subject) -> Seed | None:
    """The weights of the chosen experts as they are, or made to add up to 1 where they must not."""
    router = last(calling(subject, "topk"))
    if router is None:
        return None
    if isinstance(getattr(router[1], "norm_topk_prob", None), bool):
        return Seed((router[0],), lambda: changed(router[1], "norm_topk_prob", not router[1].norm_topk_prob))
    divisions = {
        name: lambda _divide, x, *_: x for name in ("div", "div_", "__truediv__") if subject.calls[router[0]][name]
    }
    return Seed((router[0],), lambda: functions_in(router[1], divisions)) if divisions else None


def _narrow(linear: Any, x: torch.Tensor, weight: torch.Tensor, bias: Any = None) -> torch.Tensor:
    product: torch.Tensor = linear(x.bfloat16(), weight.bfloat16(), None if bias is None else bias.bfloat16())
    return product.to(x.dtype)


@mistake
def router_in_bfloat16(subject: Subject) -> Seed | None:
    """Router logits in half precision."""
    router = last(calling(subject, "topk"))
    if router is None:
        return None
    inside = [module for module in router[1].children() if isinstance(module, nn.Linear)]
    if subject.calls[router[0]]["linear"] or not inside:
        by = router[1]
        return Seed((router[0],), lambda: functions_in(by, {"linear": _narrow})) if not inside else None
    names = tuple(f"{router[0]}.{name}" for name, module in router[1].named_children() if module is inside[0])
    return Seed(names, lambda: functions_in(inside[0], {"linear": _narrow}))


@mistake
def sigmoid_for_softmax(subject: Subject) -> Seed | None:
    """Another function of the router's logits, either for the other."""
    router = last(calling(subject, "topk"))
    by: dict[str, Any] = {
        "softmax": lambda _softmax, x, *_, **__: torch.sigmoid(x.float()),
        "sigmoid": lambda _sigmoid, x, *_, **__: torch.softmax(x, -1),
    }
    name = next((name for name in by if router and subject.calls[router[0]][name]), None)
    if router is None or name is None:
        return None
    return Seed((router[0],), lambda: functions_in(router[1], {name: by[name]}))


@mistake
def experts_one_place_on(subject: Subject) -> Seed | None:
    """Experts in another order than the router has them: "1", "10", "2"."""
    every = [(path, module) for path, module in subject.modules() if type(module).__name__.endswith("Experts")]
    experts = last(every)
    name = next((n for n, p in (experts[1].named_parameters(recurse=False) if experts else ()) if p.ndim == 3), None)
    if experts is None or name is None:
        return None
    weight = experts[1].get_parameter(name)
    return Seed((experts[0],), lambda: filled(weight, weight.roll(1, 0)))


@mistake
def shared_expert_left_out(subject: Subject) -> Seed | None:
    """Only the chosen ones."""
    names = ("shared_expert", "shared_experts", "shared_mlp")
    shared = last((path, module) for path, module in subject.modules() if path.rpartition(".")[2] in names)
    if shared is None:
        return None

    def around(inner: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        return torch.zeros_like(inner(*args, **kwargs))

    return Seed((shared[0],), lambda: forward_of(shared[1], around))
