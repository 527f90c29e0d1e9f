"""Small trainings by one process and by several ranks: `python -m tests.verbs.rank_programs FOLDER RANK RANKS NAME …`.

All programs of a number of ranks run in the same processes, one after the other: starting processes takes longer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import insitu

Change = Callable[[nn.Module], None]
EVERYTHING = ("**", "**.weight", "**.bias", "**.grad", "loss")


class Block(nn.Module):
    """A block of a transformer without its attention."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm, self.up, self.act = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU()
        self.down, self.drop = nn.Linear(2 * width, width), nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """A residual block."""
        return x + self.drop(self.down(self.act(self.up(self.norm(x)))))


class Model(nn.Module):
    """Two blocks and a head."""

    def __init__(self, width: int = 8, dropout: float = 0.0) -> None:
        super().__init__()
        self.blocks = nn.Sequential(Block(width, dropout), Block(width, dropout))
        self.head = nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:
        """The logits."""
        return self.head(self.blocks(x))


class ManualColumns(nn.Module):
    """A linear layer of which each rank computes some of the outputs, which all ranks then gather."""

    def __init__(self, whole: nn.Linear, dim: int) -> None:
        super().__init__()
        self.linear, self.dim = nn.Linear(whole.in_features, whole.out_features // dist.get_world_size()), dim
        self.linear.weight, self.linear.bias = (nn.Parameter(part) for part in shard(whole.weight, whole.bias))

    def forward(self, x: Tensor) -> Tensor:
        """Torch gathers along the first dimension: the parts belong along the last one."""
        part = self.linear(x)
        found = [torch.empty_like(part) for _ in range(dist.get_world_size())]
        dist.all_gather(found, part.detach())
        return torch.cat(found, self.dim).view(*x.shape[:-1], -1)


class ManualRows(nn.Module):
    """A linear layer of which each rank adds up some of the inputs; `is_reduced` says whether the ranks add theirs."""

    def __init__(self, whole: nn.Linear, is_reduced: bool) -> None:
        super().__init__()
        size, rank = dist.get_world_size(), dist.get_rank()
        self.weight, self.is_reduced = nn.Parameter(whole.weight.detach().chunk(size, 1)[rank].clone()), is_reduced
        self.bias = nn.Parameter(whole.bias.detach() / size)

    def forward(self, x: Tensor) -> Tensor:
        """The sum over all inputs."""
        own = nn.functional.linear(x.chunk(dist.get_world_size(), -1)[dist.get_rank()], self.weight, self.bias)
        if self.is_reduced:
            dist.all_reduce(own.data)
        return own


def parts(**options: Any) -> tuple[Model, Tensor, Tensor]:
    """The model and the whole batch: the same in each process."""
    torch.manual_seed(0)
    model = Model(**options)
    return model, torch.randn(4, 2, options.get("width", 8)), torch.randn(4, 2, 3)


def shard(*tensors: Tensor) -> list[Tensor]:
    """The part of each tensor that belongs to this rank."""
    return [tensor.detach().chunk(dist.get_world_size())[dist.get_rank()].clone() for tensor in tensors]


def mesh(*names: str) -> Any:
    """A mesh of all ranks; of two dimensions, the first has the size 2."""
    from torch.distributed.device_mesh import init_device_mesh

    size = dist.get_world_size()
    return init_device_mesh("cpu", (size,) if len(names) == 1 else (2, size // 2), mesh_dim_names=names)


def nothing(model: nn.Module) -> None:
    """Change nothing."""


def own_loss(loss: Tensor) -> Tensor:
    """The loss of this rank."""
    return loss


def train(
    to: Path,
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    *,
    only: tuple[str, ...] = EVERYTHING,
    keep: str = "values",
    before_step: Change = nothing,
    shown: Callable[[Tensor], Tensor] = own_loss,
) -> None:
    """Train for two steps."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with insitu.record_run(model, only=only, keep=keep, to=to):
        for _ in range(2):
            error = (model(x) - y).square().mean()
            error.backward()
            loss = shown(error.detach())
            before_step(model)
            optimizer.step()
            optimizer.zero_grad()
    assert loss.ndim == 0


def single(to: Path, keep: str = "values", only: tuple[str, ...] = EVERYTHING, **options: Any) -> None:
    """Train in one process."""
    model, x, y = parts(**options)
    torch.manual_seed(1)
    train(to, model, x, y, keep=keep, only=only)


def parallelize(model: Model, tp: Any, **styles: Any) -> Model:
    """Shard the linear layers of each block over the ranks of a mesh."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    for block in model.blocks:
        parallelize_module(block, tp, {"up": ColwiseParallel(), "down": RowwiseParallel(), **styles})
    return model


def fully_shard(model: Model, over: Any) -> Model:
    """Shard all parameters with FSDP2."""
    from torch.distributed.fsdp import fully_shard as shard_module

    for block in model.blocks:
        shard_module(block, mesh=over)
    shard_module(model, mesh=over)
    return model


def tensor_parallel(to: Path) -> None:
    """Agrees."""
    model, x, y = parts()
    train(to, parallelize(model, mesh("tp")), x, y)


def sequence_parallel(to: Path) -> None:
    """Agrees: activations between the linear layers are sharded along the sequence."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        PrepareModuleInput,
        PrepareModuleOutput,
        RowwiseParallel,
        SequenceParallel,
        parallelize_module,
    )

    model, x, y = parts()
    tp, along = mesh("tp"), Shard(1)
    styles = {"norm": SequenceParallel(), "drop": SequenceParallel(use_local_output=True)}
    styles |= {"up": ColwiseParallel(input_layouts=along), "down": RowwiseParallel(output_layouts=along)}
    for block in model.blocks:
        parallelize_module(block, tp, styles)
    ends = {
        "blocks.0": PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=along, use_local_output=True),
        "blocks": PrepareModuleOutput(output_layouts=along, desired_output_layouts=Replicate(), use_local_output=True),
    }
    parallelize_module(model, tp, ends)
    train(to, model, x, y, only=("**", "loss", "blocks.*.up.weight.grad", "**.down.weight"))


def data_parallel(to: Path) -> None:
    """Agrees."""
    model, x, y = parts()
    train(to, DistributedDataParallel(model), *shard(x, y))


def statistics(to: Path) -> None:
    """Agrees; only statistics are recorded."""
    model, x, y = parts()
    train(to, DistributedDataParallel(model), *shard(x, y), keep="stats", only=("**", "**.weight.grad"))


def fsdp(to: Path) -> None:
    """Agrees; seven is not a multiple of the number of ranks."""
    model, x, y = parts(width=7)
    train(to, fully_shard(model, mesh("dp")), *shard(x, y))


def evaluation(to: Path) -> None:
    """Agrees; without gradients, `to_local()` leaves no trace of the placements."""
    model, x, _ = parts()
    parallelize(model, mesh("tp"))
    with torch.no_grad(), insitu.record_run(model, only="**", to=to):
        model(x)


def single_evaluation(to: Path) -> None:
    """Run a model once in one process."""
    model, x, _ = parts()
    with torch.no_grad(), insitu.record_run(model, only="**", to=to):
        model(x)


def wrong_dimension(to: Path) -> None:
    """FAULT: the output of a layer has the placement of another dimension."""
    from torch.distributed.tensor import DTensor, Shard

    model, x, y = parts()
    tp = mesh("tp")
    parallelize(model, tp)
    up, act = model.blocks[1].up, model.blocks[1].act
    up.register_forward_hook(lambda module, args, output: DTensor.from_local(output, tp, [Shard(0)]))
    act.register_forward_pre_hook(lambda module, args: args[0].to_local())
    train(to, model, x, y, only=("**", "loss"))


def wrong_gather(to: Path) -> None:
    """FAULT: parts of the last dimension are gathered along the first one."""
    model, x, y = parts()
    model.blocks[1].up = ManualColumns(model.blocks[1].up, 0)  # type: ignore[assignment]
    train(to, model, x, y, only=("**", "loss"))


def missing_all_reduce(to: Path) -> None:
    """FAULT: each rank goes on with its part of a sum."""
    model, x, y = parts()
    model.blocks[0].down = ManualRows(model.blocks[0].down, True)  # type: ignore[assignment]
    model.blocks[1].down = ManualRows(model.blocks[1].down, False)  # type: ignore[assignment]
    train(to, model, x, y, only=("**", "loss"))


def partial_output(to: Path) -> None:
    """FAULT: the output of a row-parallel layer stays Partial."""
    from torch.distributed.tensor import Partial
    from torch.distributed.tensor.parallel import RowwiseParallel

    model, x, y = parts()
    parallelize(model, mesh("tp"), down=RowwiseParallel(output_layouts=Partial()))
    train(to, model, x, y, only=("**", "loss"))


def other_weight(to: Path) -> None:
    """FAULT: the part of a weight that rank 1 holds is another one."""
    model, x, y = parts()
    parallelize(model, mesh("tp"))
    if dist.get_rank() == 1:
        model.blocks[1].up.weight.to_local().data.mul_(1.5)  # type: ignore[operator]
    train(to, model, x, y)


def other_copy(to: Path) -> None:
    """FAULT: rank 1 has another copy of a weight, and only its part of the batch differs."""
    model, x, y = parts()
    wrapped = DistributedDataParallel(model)
    if dist.get_rank() == 1:
        model.blocks[0].norm.weight.data.mul_(1.5)
    train(to, wrapped, *shard(x, y))


def equal_seeds(to: Path) -> None:
    """FAULT: all ranks drop the same elements."""
    model, x, y = parts(dropout=0.5)
    torch.manual_seed(1)
    train(to, DistributedDataParallel(model), *shard(x, y))


def equal_batches(to: Path) -> None:
    """FAULT: all ranks train on the same part of the batch."""
    model, x, y = parts()
    train(to, DistributedDataParallel(model), x[:2], y[:2])


def summed_loss(to: Path) -> None:
    """FAULT: the loss that is shown is a sum over the ranks."""

    def shown(loss: Tensor) -> Tensor:
        dist.all_reduce(loss)
        return loss

    model, x, y = parts()
    train(to, DistributedDataParallel(model), *shard(x, y), shown=shown)


def averaged_loss(to: Path) -> None:
    """Agrees: the loss that is shown is the mean over the ranks."""

    def shown(loss: Tensor) -> Tensor:
        dist.all_reduce(loss)
        return loss / dist.get_world_size()

    model, x, y = parts()
    train(to, DistributedDataParallel(model), *shard(x, y), shown=shown)


def summed_gradients(to: Path) -> None:
    """FAULT: gradients are added over the ranks, and not averaged."""

    def add(model: nn.Module) -> None:
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)

    model, x, y = parts()
    train(to, model, *shard(x, y), before_step=add)


def lonely_gradients(to: Path) -> None:
    """FAULT: each rank uses its own gradients."""
    model, x, y = parts()
    train(to, model, *shard(x, y))


def two_dimensions(to: Path) -> None:
    """Agrees: data parallel by tensor parallel."""
    model, x, y = parts()
    both = mesh("dp", "tp")
    fully_shard(parallelize(model, both["tp"]), both["dp"])
    group = both["dp"].get_local_rank()
    only = ("**", "loss", "**.down.weight", "**.norm.weight.grad")
    train(to, model, x.chunk(2)[group], y.chunk(2)[group], only=only)


def strided_shards(to: Path) -> None:
    """Cannot be joined: both dimensions of the mesh shard the same dimension of a weight."""
    model, x, y = parts()
    both = mesh("dp", "tp")
    fully_shard(parallelize(model, both["tp"]), both["dp"])
    group = both["dp"].get_local_rank()
    train(to, model, x.chunk(2)[group], y.chunk(2)[group], only=("**", "**.up.weight"))


def traces(to: Path) -> None:
    """Agrees: calls are recorded, into a file for each rank."""
    model, x, _ = parts()
    parallelize(model, mesh("tp"))
    with insitu.record(model, keep="values") as trace:
        model(x)
    insitu.save(trace, to.with_name(f"{to.stem}.rank{dist.get_rank()}.h5"))


def communication(to: Path) -> None:
    """Send, receive, and redistribute a DTensor."""
    from torch.distributed.tensor import DTensor, Replicate, Shard

    tp, x = mesh("tp"), torch.ones(3)
    with insitu.record(level="aten") as trace:
        if dist.get_rank() == 0:
            dist.send(x, 1)
        else:
            dist.recv(x, 0)
        DTensor.from_local(x, tp, [Shard(0)]).redistribute(placements=[Replicate()]).to_local().sum()
    insitu.save(trace, to.with_name(f"{to.stem}.rank{dist.get_rank()}.h5"))


def run(folder: Path, rank: int, ranks: int, names: list[str]) -> None:
    """Run programs on this rank."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
    for name in names:
        dist.barrier()
        globals()[name](folder / f"{name}.h5")
    dist.destroy_process_group()


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
