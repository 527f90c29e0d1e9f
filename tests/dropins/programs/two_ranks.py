"""One rank of several, for the tests of tensortrace: `two_ranks.py RANK WORLD INIT SCENARIO...`.

Each scenario gives what this rank has in the end; all of it is printed as JSON in the last line.
"""

import json
import os
import re
import signal
import sys
import time
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from tensortrace import ModelTracer, TracedModel
from tensortrace.mail import Mail

SEED = Path(__file__).parents[1] / "seeds" / "003.txt"
rank, world = int(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(1)


class Model(nn.Module):
    """The model of the examples."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(20, 8), nn.ReLU(), nn.Linear(8, 2))

    def forward(self, x):
        if x.sum() > 1e6:
            large = x.sum()
            x = x / large
        return self.layers(x)


def described(tracer):
    """What a tracer has, as JSON can hold it."""
    return {
        name: {
            "iterations": entry.iterations,
            "ranks": entry.ranks,
            "values": [value.tolist() if isinstance(value, torch.Tensor) else value for value in entry.values],
        }
        for name, entry in tracer.results.items()
        if entry.iterations
    }


def run_seed(index):
    """An example of the README, to the letter, in a program as it describes one."""
    torch.manual_seed(rank)
    model = Model()
    dataset = TensorDataset(torch.randn(8 * world, 20), torch.zeros(8 * world))
    sampler = DistributedSampler(dataset, num_replicas=world, rank=rank)
    ddp_model = DistributedDataParallel(model)
    names = {
        "rank": rank,
        "device_id": "cpu",
        "model": model,
        "ddp_model": ddp_model,
        "sampler": sampler,
        "dataloader": DataLoader(dataset, batch_size=4, sampler=sampler),
        "optimizer": optim.SGD(ddp_model.parameters(), lr=0.01),
        "loss_fn": nn.CrossEntropyLoss(),
    }
    code = re.findall(r"```python\n(.*?)```", SEED.read_text("utf-8"), re.DOTALL)[index]
    if rank:  # rank 0 alone has results
        code = code.replace("x = tracer.results['forward.x'].values[0] # (N//G,C)", "")
    exec("from tensortrace import *\n" + code, names)
    found = {}
    if rank == 0:
        found = {name: [list(value.shape) for value in entry.values] for name, entry in names["tracer"].results.items()}
    if saver := names.get("saver_callback"):
        found = {name: list(dataset.shape) for name, dataset in saver.datasets.items()}
        saver.close()
    return found


def seed_0():
    return run_seed(0)


def seed_1():
    return run_seed(1)


def seed_2():
    return run_seed(2)


def ones(number):
    return torch.full((1, 20), float(number))


def uneven():
    """Rank 1 has three iterations more."""
    model = nn.Identity()
    with ModelTracer(model, ["forward"], gathering_interval=2, pre_save_callbacks=[small]) as tracer:
        for number in range(5 + 3 * rank):
            model(ones(number + 100 * rank))
    return described(tracer)


def small(name, value, iteration):
    return int(value.sum() / 20)


def one_sided():
    """A variable is there on rank 1 only."""
    model = Model()
    with ModelTracer(model, ["forward.large"], gathering_interval=2) as tracer:
        for _ in range(4):
            model(ones(1e6 if rank == 1 else 1) + torch.rand(()))
    found = described(tracer)
    return {name: entry["ranks"] for name, entry in found.items()}


def raising():
    """Rank 1 raises in its fourth iteration."""
    model = nn.Identity()
    tracer = ModelTracer(model, ["forward"], gathering_interval=2, pre_save_callbacks=[small])
    try:
        with tracer:
            for number in range(6):
                model(ones(number))
                if rank == 1 and number == 3:
                    raise RuntimeError("trouble")
    except RuntimeError as error:
        return {"raised": str(error), **described(tracer)}
    return described(tracer)


def raising_callback():
    """A callback raises on rank 1, where nobody should notice but by a warning."""

    def fail(name, values, iterations):
        values.clear()
        if rank == 1:
            raise ValueError("mine")

    model = nn.Identity()
    with ModelTracer(model, ["forward"], pre_gather_callbacks=[fail], pre_save_callbacks=[small]) as tracer:
        for number in range(2):
            model(ones(number))
    return described(tracer)


def first_rank_raises():
    """Rank 0 raises at once: rank 1 keeps what nobody takes."""
    model = nn.Identity()
    tracer = ModelTracer(model, ["forward"], gathering_interval=2, pre_save_callbacks=[small])
    try:
        with tracer:
            for number in range(4):
                model(ones(number))
                if rank == 0 and number == 1:
                    raise RuntimeError("trouble")
                time.sleep(0.2 * rank)
    except RuntimeError:
        pass
    dist.barrier()
    return described(tracer)


def one_rank_only():
    """Only rank 0 traces, and only rank 0 calls the model."""
    start = time.monotonic()
    tracer = None
    if rank == 0:
        model = nn.Identity()
        with ModelTracer(model, ["forward"], pre_save_callbacks=[small]) as tracer:
            for number in range(3):
                model(ones(number))
    found = {"seconds": time.monotonic() - start, **(described(tracer) if tracer else {})}
    dist.barrier()
    return found


def not_in_rank_0():
    """Only rank 1 traces: it has its values itself."""
    start = time.monotonic()
    tracer = None
    if rank == 1:
        model = nn.Identity()
        with ModelTracer(model, ["forward"], gathering_interval=3, pre_save_callbacks=[small]) as tracer:
            for number in range(4):
                model(ones(number))
    found = {"seconds": time.monotonic() - start, **(described(tracer) if tracer else {})}
    dist.barrier()
    return found


def rest_after(method):
    """A method after which this rank rests, long enough for rank 0 to end its process."""

    def slow(*args):
        method(*args)
        time.sleep(0.5)

    return slow


def wrapped_and_gone():
    """The tracer gets the DDP model, and the process group ends inside the block: rank 1 does not become rank 0."""
    calls = []
    if rank == 1:
        Mail.say = rest_after(Mail.say)
    model = DistributedDataParallel(nn.Linear(20, 2))
    group = dist.group.WORLD
    with ModelTracer(
        model, ["forward.input"], 1, 2, [small], post_gather_callbacks=[lambda name, *lists: calls.append(name)]
    ) as tracer:
        for number in range(4):
            model(ones(number)).sum().backward()
        dist.barrier(group)
        dist.destroy_process_group()
    return {"calls": len(calls), "results": {name: entry.ranks for name, entry in tracer.results.items()}}


def large_and_odd():
    """Values of more than the store takes at once, and of dtypes that NumPy has not."""

    class Odd(nn.Module):
        def forward(self, x):
            large = x.expand(3 << 20).clone() * (rank + 1)
            small = x.to(torch.bfloat16) + rank
            whole = torch.tensor([2**40 + 1 + rank])
            none = torch.zeros(0, 3)
            text = f"rank {rank}"
            return large, small, whole, none, text

    model = Odd()
    names = ["large", "small", "whole", "none", "text"]
    with ModelTracer(model, [f"forward.{name}" for name in names]) as tracer:
        model(torch.ones(1))
    results = {name: entry.values for name, entry in tracer.results.items()}
    if rank:
        return list(results)
    large = [[list(value.shape), value.unique().tolist()] for value in results.pop("forward.large")]
    return {"large": large, **{name: [str(value) for value in values] for name, values in results.items()}}


def traced_model():
    """TracedModel does not wait for others in its calls."""
    model = TracedModel(nn.Identity(), ["forward"], gathering_interval=2, pre_save_callbacks=[small])
    start = time.monotonic()
    for number in range(3 + rank):
        model(ones(number + 10 * rank))
    seconds = time.monotonic() - start
    model.close()
    return {"seconds": seconds, **described(model.tracer)}


def again():
    """One tracer, entered twice: the iterations go on."""
    model = nn.Identity()
    tracer = ModelTracer(model, ["forward"], gathering_interval=2, pre_save_callbacks=[small])
    for start in (0, 3):
        with tracer:
            for number in range(start, start + 3):
                model(ones(number + 10 * rank))
    return described(tracer)


def killed():
    """The last rank is killed in its fourth iteration, the others go on."""
    ModelTracer.patience = 1.0
    model = nn.Identity()
    with ModelTracer(model, ["forward"], gathering_interval=2, pre_save_callbacks=[small]) as tracer:
        for number in range(6):
            if rank == world - 1 and number == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            model(ones(number))
        start = time.monotonic()
    return {"seconds": time.monotonic() - start, **described(tracer)}


def first_killed():
    """Rank 0 is killed, and the store with it."""
    model = nn.Identity()
    with ModelTracer(model, ["forward"], gathering_interval=2, pre_save_callbacks=[small]) as tracer:
        for number in range(6):
            if number == 3:
                if rank == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(1)
            model(ones(number))
        start = time.monotonic()
    return {"seconds": time.monotonic() - start, **described(tracer)}


def main():
    dist.init_process_group("gloo", init_method=sys.argv[3], rank=rank, world_size=world)
    found = {}
    for name in sys.argv[4:]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            start = time.monotonic()
            result = globals()[name]()
            took = time.monotonic() - start
        texts = [str(each.message) for each in caught if each.category.__name__ == "InsituWarning"]
        found[name] = {"result": result, "warnings": texts, "seconds": took}
    print(json.dumps(found), flush=True)
    if dist.is_initialized() and not any("killed" in name for name in sys.argv[4:]):
        dist.barrier()
        dist.destroy_process_group()
    os._exit(0)  # gloo does not go quietly when others were killed


main()
