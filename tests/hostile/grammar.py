"""The grammar of the generated programs, as text: what may stand where a word in braces stands.

Each function, whatever its kind, has `x` and `y`, floats of the shape 3 × 4; a statement leaves them so.
"""

from __future__ import annotations


def choices(text: str) -> list[str]:
    """One choice for each line."""
    return [line for line in text.strip().splitlines() if line]


def blocks(text: str) -> list[str]:
    """Choices of several lines, with an empty line between."""
    return [block.strip("\n") for block in text.strip("\n").split("\n\n")]


HEAD = """
import asyncio, contextlib, contextvars, copy, gc, io, pickle, sys, warnings
import insitu, torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from tests.hostile.cast import *
shared = nn.Linear(4, 4)
"""

SIMPLE = choices("""
{v} = {e}
{v} = {e}
{v} = {v} + {e}
{v} = fit({module}({v}))
{v} = fit({module}({v}))
{v} = fit({net}({v}, {w}))
{v} = fit({net}({v}, y={w}, z={v}, flag=True))
{v} = fit({net}({v}, pack({kind!r}, {v}, {w})))
{v} = fit({net}({v}, rest=pack({kind!r}, {v}, {w})))
{v} = fit({function}({v}, pack({kind!r}, {v}, {w})))
{v} = fit(first_tensor([item for item in {generator}({v}, {w})]))
{v} = fit(next({generator}({v}, {w}), None))
{v} = fit(asyncio.run({coroutine}({v}, {w})))
{v} = fit(pack({kind!r}, {v}, {w}))
world.log({v}, {e})
world.log(float({e}.sum()))
world.watch({v}, {w})
world.held.append({generator}({v}, {w}))
world.held and world.log(fit(next(world.held[-1], None)))
world.held and world.held.pop().close()
world.held.clear()
world.enter({session})
world.enter({session})
world.leave({n})
world.step()
print("seen", tuple({v}.shape))
warnings.warn("careful")
raise {error}
raise {error} from Boom("the cause", {n})
assert {v}.sum() > {n}, "too small"
del unknown
return
{v}.backward()
{e}.sum().backward()
world.log(*torch.autograd.grad({e}.sum(), [{v}], allow_unused=True))
{v} = {v}.detach().requires_grad_()
{v}.requires_grad and world.hook({v})
{v} = {v}.clone(); {v}.add_({n})
{v} = {v}.clone(); {v}[0] += {w}[1]
{v} = {v}.clone(); {v}.t()[1].mul_(2)
{v}.mul_(1.5)
{v}[:, 0] = {n}
{v}.data.sub_(0.5)
{v}, {w} = {w}, {v}
torch.add({v}, {w}, out={v})
torch.manual_seed({n})
world.later(lambda v={v}: {module}(v.detach()))
{v} = fit(copy.deepcopy({module})({v}))
{v} = fit(pickle.loads(pickle.dumps({v}.detach())))
{v} = fit(world.again(world.model, {v}))
world.log(repr({v}.detach()))
world.log(str({net})[:40])
world.log([name for name, _ in {module}.named_modules()])
world.log({v}.requires_grad, {v}.is_leaf, {v}._version, {v}.grad_fn is None)
world.log(torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"))
{module}.train({flag})
{module}.zero_grad()
world.forward_hook({module}, {hook})
world.unhook()
gc.collect()
sys.exc_info()
""")

YIELDING = choices("""
yield {v}
{v} = fit((yield {e}))
yield from {generator}({v}, {w})
yield pack({kind!r}, {v}, {w})
""")

AWAITING = choices("""
await asyncio.sleep(0)
{v} = fit(await {coroutine}({v}, {w}))
{v} = fit(await asyncio.gather({coroutine}({v}, {w}), {coroutine}({w}, {v})))
{v} = fit(await asyncio.to_thread({module}, {v}))
""")

NESTING = blocks("""
if {v}.sum() > {n}:
    {body}
else:
    {body}

for _ in range(2):
    {body}

for {v} in ({w}, {e}):
    {body}
    break
else:
    {body}

for item in {generator}({v}, {w}):
    {v} = fit(item)
    {body}

while world.few():
    {body}

try:
    {body}
except {caught} as error:
    world.caught(error)
    {body}

try:
    {body}
except {caught} as error:
    world.caught(error)
    raise

try:
    {body}
except {caught} as error:
    raise Boom("another", str(type(error))) from error

try:
    {body}
finally:
    {body}

try:
    {body}
except {caught}:
    {v} = {v} * 0.5
else:
    {body}

with {context}:
    {body}

with {context}:
    {body}

with {session} as found:
    world.traces.append(found)
    {body}

with {session} as found:
    world.traces.append(found)
    {body}

@world.thread
def work({v}={v}, {w}={w}):
    {plain}
    return {v}
{v} = fit(work)

def recomputed({v}):
    {plain}
    return {v}
{v} = fit(checkpoint(recomputed, {v}, use_reentrant={flag}))

def work({v}={v}, {w}={w}):
    {plain}
    return {v}
{v} = fit(contextvars.copy_context().run(work))

@insitu.watch("{v}", file=world.quiet)
def inner({v}, {w}):
    {plain}
    return {v}
{v} = fit(inner({v}, {w}))

@insitu.guard(action="record")
def inner({v}, {w}):
    {plain}
    return {v}
{v} = fit(inner({v}, {w}))

def inside({v}):
    {plain}
    return {v}
{v} = fit(torch.func.vmap(lambda v: inside(fit(v)).sum() + v)({v}))
""")

FILLS = {
    "e": choices("""
{v}
{w}
{v}.sin()
({v} * {w})
({v} + 1)
(-{v})
{v}.clamp(-1, 1)
{v}.clone()
{v}.t().contiguous().t()
{v}.detach()
({v} @ {w})
({v} @ {w}.t() @ {v} / 10)
{v}[[0, 1, 2]]
{v}[torch.tensor([2, 0, 1])]
torch.cat([{v}[:1], {w}[1:]])
torch.stack([{v}, {w}]).mean(0)
torch.where({v} > 0, {v}, {w})
F.dropout({v}, 0.5)
F.softmax({v}, dim={n})
(torch.randn(3, 4) + {v})
torch.rand_like({v})
torch.empty(3, 4).normal_()
(torch.zeros(3, 4, requires_grad=True) + {v})
{v}.view(4, 3).reshape(3, 4)
{v}.sum().expand(3, 4)
{v}.max(dim=0, keepdim=True)[0].expand(3, 4)
sum({v}.unbind(0)).expand(3, 4)
Double.apply({v})
checkpoint(twice, {v}, use_reentrant=False)
checkpoint(twice, {v}, use_reentrant=True)
fit({v}.as_subclass(Sub).exp())
fit(Noting.of({v}).cos() + {w})
fit({v}.double().log())
fit(torch.from_numpy({v}.detach().numpy() * 2))
fit({v}.to_sparse().coalesce().values())
fit({v}.to(torch.complex64).abs())
fit(torch.func.vmap(torch.sum)({v}))
fit(torch.func.grad(lambda v: v.sin().sum())({v}))
fit(torch.linalg.inv({v} @ {v}.t()))
fit(torch.ones(0, 4).sum() + {v})
fit({v}.tolist() and {v})
"""),
    "module": choices("""
{net}
{child}
{child}
{child}
"""),
    "caught": choices("""
Exception
Boom
BaseException
(RuntimeError, Boom)
(KeyError, HostileError)
"""),
    "error": choices("""
Boom("boom")
Boom("with a tensor", {v})
Boom
HostileError("hostile")
KeyError(("a", 1))
KeyboardInterrupt
SystemExit(3)
StopIteration({n})
GeneratorExit
RecursionError("made up")
MemoryError()
ExceptionGroup("several", [Boom(1), ValueError(2)])
AssertionError
asyncio.CancelledError()
torch.OutOfMemoryError("no")
"""),
    "context": choices("""
torch.no_grad()
torch.enable_grad()
torch.inference_mode()
torch.autocast("cpu", dtype=torch.bfloat16)
torch.autograd.set_detect_anomaly(True)
torch.autograd.graph.save_on_cpu()
contextlib.suppress(Exception)
contextlib.suppress(BaseException)
Seen(world)
SeenBelow(world)
world.traced()
world.profiled()
torch._C.DisableTorchFunction()
torch._C.DisableTorchFunctionSubclass()
torch.random.fork_rng()
torch.device("meta")
warnings.catch_warnings()
contextlib.redirect_stdout(io.StringIO())
"""),
    "session": choices("""
insitu.record()
insitu.record(level="aten")
insitu.record(level="aten", keep="stats")
insitu.record(world.model)
insitu.record(world.model, level="modules")
insitu.record(world.model, level="aten")
insitu.record_run(world.model, keep="values")
insitu.record(level="python")
insitu.record(keep=torch.clone)
insitu.watch(file=world.quiet)
insitu.watch(world.model, file=world.quiet)
insitu.watch(view="code", file=world.quiet)
insitu.watch("x", "y", file=world.quiet)
insitu.guard(action="record")
insitu.guard(world.model, action="record")
world.again_session
"""),
    "hook": choices("""
"forward"
"pre"
"backward"
"replacing"
"raising"
"raising late"
"always"
"removing"
"""),
    "flag": ["True", "False"],
    "n": ["0", "1", "-1", "2", "-2"],
}

CHILDREN = choices("""
nn.Linear(4, 4)
nn.Linear(4, 4)
nn.Linear(4, 3)
nn.LayerNorm(4)
nn.BatchNorm1d(4)
nn.Dropout(0.5)
nn.Identity()
nn.ReLU(inplace=True)
nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Identity())
nn.ModuleList([nn.Linear(4, 4)])
nn.GRU(4, 4, batch_first=True)
nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
nn.LazyLinear(4)
nn.Conv1d(3, 3, 1)
nn.DataParallel(nn.Linear(4, 4))
Unfriendly(4, 4)
Caller(4, 4)
Reaching()
Watched()
shared
""")

# Bases and methods that make a module awkward.
MANNERS = blocks("""
pass

def __getattr__(self, name):
    return super().__getattr__(name)

def __call__(self, *args, **kwargs):
    world.log("called")
    return super().__call__(*args, **kwargs)

def __setattr__(self, name, value):
    super().__setattr__(name, value)

def __eq__(self, other):
    raise RuntimeError("not equal to anything")
__hash__ = nn.Module.__hash__

def __repr__(self):
    raise RuntimeError("no repr")

def extra_repr(self):
    return 1 / 0

def __len__(self):
    return 0

def __bool__(self):
    raise RuntimeError("neither")

def __getstate__(self):
    raise Boom("not copied")

@property
def training(self):
    return self.__dict__.get("mode", True)
@training.setter
def training(self, mode):
    self.__dict__["mode"] = mode

def named_children(self):
    raise Boom("no children")
""")
