"""Cases for the functions that a function can call."""

from __future__ import annotations

import collections
import contextlib
import functools
import json
import os.path
import time
from typing import Any

from insitu.capture.variables.follow.callees import callees
from insitu.capture.variables.follow.references import Reference, references


def names(function: Any, receiver: Any = None, **options: Any) -> list[str]:
    return [found.__qualname__ for found in callees(function, receiver, **options)]


def leaf() -> int:
    return 1


def other() -> int:
    return leaf()


def branch(flag: bool) -> Any:
    return other() if flag else leaf()


def looping(n: int) -> Any:
    return looping(n - 1) or branch(True)


def case_transitively_and_each_once() -> None:
    assert names(branch) == ["other", "leaf"]
    assert names(looping) == ["branch", "other", "leaf"]


def case_a_limit() -> None:
    assert names(looping, limit=2) == ["branch", "other"]


def case_the_standard_library_and_builtins_are_left_out() -> None:
    def function() -> Any:
        return json.dumps(os.path.join("a", "b")), len([]), collections.OrderedDict(), leaf()

    assert names(function) == ["leaf"]
    assert names(len) == [] and callees(None) == []


def case_references_in_nested_code() -> None:
    def function() -> Any:
        def inner() -> Any:
            return [other() for _ in range(3)]

        return inner, lambda: branch

    assert set(names(function)) == {"branch", "other", "leaf"}


def case_variables_of_enclosing_functions() -> None:
    def local() -> int:
        return leaf()

    def function() -> Any:
        return (lambda: local)()

    empty = (lambda: missing) if local is None else (lambda: local)
    assert names(function)[-1] == "leaf" and len(names(function)) == 2
    assert names(empty)[-1] == "leaf"
    missing = 1


class Base:
    def start(self) -> Any:
        return self.step()

    def step(self) -> Any:
        return leaf()

    @property
    def size(self) -> Any:
        raise AssertionError("a property ran")

    @staticmethod
    def static() -> Any:
        return other()

    @classmethod
    def made(cls) -> Any:
        return cls()

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"__getattr__ ran for {name}")


class Derived(Base):
    def __init__(self) -> None:
        self.helper = branch

    def step(self) -> Any:
        return super().step()

    def everything(self) -> Any:
        return self.size, self.static(), self.made(), self.missing, self.start.__name__

    def stored(self) -> Any:
        return self.helper(True)


def case_methods_through_the_receiver() -> None:
    assert names(Base.start) == []
    assert names(Base.start, Base.__new__(Base)) == ["Base.step", "leaf"]
    assert names(Derived.start, Derived()) == ["Derived.step", "Base.step", "leaf"]
    assert names(Derived().start) == ["Derived.step", "Base.step", "leaf"]
    assert names(Derived.start, Derived) == ["Derived.step", "Base.step", "leaf"]


def case_properties_static_and_class_methods() -> None:
    found = set(names(Derived.everything, Derived()))
    assert {"Base.size", "Base.static", "other", "Base.made", "Base.start"} <= found


def case_attributes_of_the_receiver() -> None:
    assert names(Derived.stored, Derived()) == ["branch", "other", "leaf"]


class Callable_:
    def __init__(self) -> None:
        leaf()

    def __call__(self) -> Any:
        return other()


CALLABLE = Callable_()


def case_classes_and_callable_objects() -> None:
    def make() -> Any:
        return Callable_()

    def call() -> Any:
        return CALLABLE()

    assert set(names(make)) == {"Callable_.__init__", "Callable_.__call__", "leaf", "other"}
    assert names(call) == ["Callable_.__call__", "other", "leaf"]


def wrapping(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*arguments: Any) -> Any:
        return function(*arguments)

    return wrapper


@wrapping
def wrapped() -> Any:
    return leaf()


@functools.lru_cache
def cached() -> Any:
    return other()


@contextlib.contextmanager
def managed() -> Any:
    yield branch


PARTIAL = functools.partial(branch, True)


def case_wrappers_and_partials() -> None:
    def function() -> Any:
        return wrapped(), cached(), PARTIAL()

    assert names(lambda: managed())[0] == "managed"  # what the standard library wraps
    found = callees(function)
    assert wrapped in found and wrapped.__wrapped__ in found and cached.__wrapped__ in found
    assert {branch, other, leaf} <= set(found)


class Module:
    """Like those of torch: called by machinery that finds `forward`, with its children in `_modules`."""

    def __init__(self, **children: Any) -> None:
        self.__dict__["_modules"] = children

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"__getattr__ ran for {name}")

    def forward(self) -> Any:
        return None


class Attention(Module):
    def forward(self) -> Any:
        return leaf()


class Block(Module):
    def forward(self) -> Any:
        return self.attention()


class Model(Module):
    def forward(self) -> Any:
        return self.block(), self.block.attention.forward


def decorated(function: Any) -> Any:
    """A decorator that says nothing of what it decorates."""

    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


def decorated_twice(function: Any) -> Any:
    inner = decorated(function)

    def wrapper(self: Any, *args: Any) -> Any:
        return other() and inner(self, *args)

    return wrapper


class Decorated:
    def __init__(self, part: Any) -> None:
        self.part = part

    @decorated_twice
    def forward(self) -> Any:
        return self.part()


def case_decorators_that_keep_the_function_in_a_closure() -> None:
    found = names(decorated(branch))
    assert found == ["branch", "other", "leaf"]
    found = names(Decorated.forward, Decorated(branch))
    assert found[-1] == "branch" and "Decorated.forward" in found
    assert "branch" in names(contextlib.contextmanager(branch)) and "branch" in names(by_library(branch))
    by_name, method = by_library(branch), by_library(Decorated.forward)
    assert names(lambda: by_name()) == ["branch", "other", "leaf"]
    assert "branch" in names(decorated(method), Decorated(branch))


def by_library(function: Any) -> Any:
    """What a decorator of a library makes, which says nothing of what it decorates."""
    made = contextlib.contextmanager(function)
    del made.__wrapped__  # type: ignore[attr-defined]
    return made


def case_modules() -> None:
    model = Model(block=Block(attention=Attention()))
    assert names(Model.forward, model) == ["Block.forward", "Attention.forward", "leaf"]


def sequential() -> Any:
    """A container of modules, as if a library had it."""
    source = "class Sequential(Module):\n    def forward(self):\n        return [child() for child in self]\n"
    built: dict[str, Any] = {"Module": Module}
    exec(compile(source, json.__file__, "exec"), built)
    return built["Sequential"]


def case_modules_of_a_library_call_what_is_in_them() -> None:
    model = Model(block=sequential()(a=Attention(), b=sequential()(c=Block())))
    assert names(Model.forward, model) == ["Attention.forward", "Block.forward", "leaf"]


def case_modules_and_packages() -> None:
    import tests.capture.variables.follow.reaching as here

    built: dict[str, Any] = {"tests": __import__("tests.capture.variables.follow.reaching"), "here": here}
    source = "def function():\n    return tests.capture.variables.follow.reaching.other(), here.branch"
    exec(source, built)
    assert [found.__name__ for found in callees(built["function"])] == ["other", "branch", "leaf"]


def case_nothing_of_the_program_runs() -> None:
    class Meta(type):
        def __getattribute__(cls, name: str) -> Any:
            raise AssertionError(f"the metaclass was asked for {name}")

        def __eq__(cls, other: object) -> bool:
            raise AssertionError("classes were compared")

        def __instancecheck__(cls, instance: object) -> bool:
            raise AssertionError("isinstance was asked")

        __hash__ = type.__hash__

    class Strange(metaclass=Meta):
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(f"the object was asked for {name}")

        def __call__(self) -> Any:
            return leaf()

        def __hash__(self) -> int:
            raise AssertionError("the object was hashed")

    class Stranger(Strange):
        def method(self) -> Any:
            return super().__call__()

    class Strangest(Stranger):
        pass

    strange, members = object.__new__(Strange), type.__dict__["__dict__"].__get__
    assert "leaf" in names(members(Stranger)["method"], object.__new__(Strangest))

    def function() -> Any:
        return strange(), strange.attribute.more, Strange, Strange.member

    assert "leaf" in names(function)


def case_objects_that_wrap_themselves() -> None:
    class Loop:
        pass

    loop: Any = Loop()
    loop.__dict__["__wrapped__"] = loop
    assert names(lambda: loop()) == []


def case_two_objects_of_one_class() -> None:
    one: Any = Block(attention=Attention())
    two: Any = Block(attention=Model(block=CALLABLE))

    def function() -> Any:
        return one(), two()

    # What another object of a class has comes last: it is nearly always more of the same.
    first = ["Block.forward", "Attention.forward", "leaf"]
    assert names(function) == [*first, "Model.forward", "Callable_.__call__", "other"]


def case_what_is_deep_is_found_behind_many_objects() -> None:
    part = sequential()(**{str(index): Block(attention=Attention()) for index in range(40)})
    assert names(Model.forward, Model(block=part), limit=3) == ["Block.forward", "Attention.forward", "leaf"]


def case_references() -> None:
    def function(self: Any, x: Any) -> Any:
        x.append(self.layer.weight)
        self.layer(x, self.other.deep.er)
        return os.path.join(x)

    assert set(references(function.__code__)) >= {
        Reference("local", "x", ("append",)),
        Reference("local", "self", ("layer", "weight")),
        Reference("local", "self", ("layer",)),
        Reference("local", "self", ("other", "deep", "er")),
        Reference("global", "os", ("path", "join")),
    }


def case_many_names() -> None:
    """More names than fit into one byte."""
    built: dict[str, Any] = {"last": leaf}
    body = "".join(f"    name{number}.attribute{number}\n" for number in range(400))
    exec(f"def function():\n{body}    last()\n    end.deep.er", built)
    assert callees(built["function"]) == [leaf]
    assert references(built["function"].__code__)[-1] == Reference("global", "end", ("deep", "er"))


def quickest(function: Any, receiver: Any) -> float:
    times = []
    for _ in range(10):
        start = time.perf_counter()
        names(function, receiver)
        times.append(time.perf_counter() - start)
    return min(times)


def case_quickly() -> None:
    model = Model(block=Block(attention=Attention()))
    assert quickest(Model.forward, model) < 0.005


def case_quickly_with_many_modules() -> None:
    part = sequential()(**{str(index): Block(attention=Attention()) for index in range(500)})
    assert quickest(Model.forward, Model(block=part)) < 0.05
