"""Cases for the rewriting of functions, besides the table of programs."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import linecache
import pickle
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from tests.capture.variables.follow.programs import (
    Program,
    codes_in,
    events_of,
    lines_covered,
    made,
    outcome,
    reports_of,
    silent,
    stops,
    writing,
)

from insitu.capture.variables.follow.rewrite import (
    COMPREHENSIONS,
    NoSource,
    ReportPoint,
    Shortcut,
    bound_names,
    rewrite,
)

KEPT = (
    *("co_name", "co_qualname", "co_filename", "co_firstlineno", "co_flags", "co_freevars", "co_argcount"),
    *("co_posonlyargcount", "co_kwonlyargcount"),
)


def reports_are_as_expected(program: Program) -> None:
    assert reports_of(program) == [line.strip() for line in program.expected.strip().splitlines()]


def behaviour_is_unchanged(program: Program) -> None:
    before, after = outcome(program, made(program.source)), outcome(program, program.rewritten(silent))
    assert before == after


def debuggers_see_the_same_lines(program: Program) -> None:
    before, after = events_of(program, made(program.source)), events_of(program, program.rewritten(silent))
    assert stops(before) == stops(after)
    assert [event for event in after if event[2] is None] == []


def coverage_sees_the_same_lines(program: Program) -> None:
    assert lines_covered(program, made(program.source)) == lines_covered(program, program.rewritten(silent))


def code_stays_compatible(program: Program) -> None:
    function, other = program.function(made(program.source)), program.function(program.rewritten(silent))
    old, new = function.__code__, other.__code__
    for name in set(KEPT) - {"co_filename"}:
        assert getattr(old, name) == getattr(new, name), name
    count = old.co_argcount + old.co_kwonlyargcount
    assert old.co_varnames[:count] == new.co_varnames[:count]
    assert set(old.co_varnames) == set(new.co_varnames) and set(old.co_cellvars) == set(new.co_cellvars)
    assert inspect.getdoc(function) == inspect.getdoc(other)
    assert inspect.getsource(function) == inspect.getsource(other)
    lines = [{line for *_, line in each.co_lines()} - {None} for each in (old, new)]
    assert lines[0] == lines[1]


def nothing_wanted_is_the_same_code(program: Program) -> None:
    code = program.function(made(program.source)).__code__
    assert rewrite(code, {"nobody has this name"}.__contains__, silent) is code


def every_frame_is_entered_first(program: Program) -> None:
    seen: list[tuple[FrameType, ReportPoint, Any]] = []

    def reporter(point: ReportPoint) -> Any:
        return lambda value: seen.append((sys._getframe(1), point, value))

    outcome(program, program.rewritten(reporter))
    known: set[FrameType] = set()
    for frame, point, value in seen:
        if frame.f_code.co_name in COMPREHENSIONS:
            continue
        assert (point.moment == "entered") is (frame not in known), point
        if point.moment == "entered":
            assert (value, point.name, point.function) == (None, "", frame.f_code.co_qualname)
            assert frame.f_code.co_firstlineno <= point.line
        known.add(frame)


def shortcuts_tell_the_same(program: Program) -> None:
    """Whatever a report would have said is found in the list, in its place, or was reported as before."""
    plain, seen = [], []
    before = outcome(program, program.rewritten(writing(plain)))
    kinds = (int, float, bool, type(None))
    listed: list[Any] = []
    after = outcome(program, program.rewritten(writing(seen), Shortcut(lambda name: True, kinds, listed.extend, id)))
    assert before == after and len(seen) + len(listed) // 2 == len(plain)
    flat: list[Any] = []

    def reporter(point: ReportPoint) -> Any:
        return lambda value: flat.extend((point, value))

    outcome(program, program.rewritten(reporter, Shortcut(lambda name: True, kinds, flat.extend, lambda point: point)))
    pairs = [(flat[index], flat[index + 1]) for index in range(0, len(flat), 2)]
    told: list[str] = []
    for point, value in pairs:
        writing(told)(point)(value)
    assert [text for text in told if is_of_a_number(text)] == [text for text in plain if is_of_a_number(text)]


def is_of_a_number(text: str) -> bool:
    """Numbers are written down as they were; what a later change shows in other values does not matter here."""
    return text.rpartition(" ")[2].lstrip("-").isdigit()


def debuggers_see_the_same_lines_with_shortcuts(program: Program) -> None:
    shortcut = Shortcut(lambda name: True, (int, float), id, id)
    before, after = events_of(program, made(program.source)), events_of(program, program.rewritten(silent, shortcut))
    assert stops(before) == stops(after)


PROGRAM_CHECKS = [
    shortcuts_tell_the_same,
    debuggers_see_the_same_lines_with_shortcuts,
    every_frame_is_entered_first,
    reports_are_as_expected,
    behaviour_is_unchanged,
    debuggers_see_the_same_lines,
    coverage_sees_the_same_lines,
    code_stays_compatible,
    nothing_wanted_is_the_same_code,
]


def points_of(code: CodeType, *wanted: str) -> list[ReportPoint]:
    """The points at which variables are reported in a function, in the order in which they were made."""
    points: list[ReportPoint] = []

    def reporter(point: ReportPoint) -> Any:
        if point.moment != "entered":
            points.append(point)
        return id

    rewrite(code, set(wanted).__contains__, reporter)
    return points


def case_a_point_says_where_it_is() -> None:
    names = made("""
        class C:
            def f(self):
                def inner():
                    x = [y for y in range(2) if (z := y)]
                    return x
                return inner()
    """)
    code = names["C"].f.__code__
    found = points_of(code, "x", "y", "z")
    function = "C.f.<locals>.inner"
    assert set(found) == {
        ReportPoint("bound", "x", 4, function, code.co_filename),
        ReportPoint("bound", "z", 4, function, code.co_filename),
    }


def case_each_point_has_one_reporter() -> None:
    code = made("""
        def f(x):
            for i in range(3):
                try:
                    if i:
                        return x.append(1)
                finally:
                    x.append(2)
    """)["f"].__code__
    found = points_of(code, "x")
    assert len(found) == len(set(found)) == 3


def case_reporters_are_constants_and_nothing_else_is_added() -> None:
    names = made("""
        def f(x):
            y = x
            return locals(), globals()
    """)
    before = {**names}
    function = names["f"]
    seen: list[Any] = []
    function.__code__ = rewrite(function.__code__, {"y"}.__contains__, lambda point: seen.append)
    inner, outer = function(1)
    assert inner == {"x": 1, "y": 1} and outer == before
    assert seen == [None, 1, 1]  # entered, bound, and once more after the call of locals()
    assert seen.append in function.__code__.co_consts


def case_a_new_function_of_the_new_code() -> None:
    names = made("""
        def outer(n):
            def f(x, *, y=2):
                nonlocal n
                n = n + x + y
                return n
            return f
    """)
    f = names["outer"](10)
    seen: list[str] = []
    code = rewrite(f.__code__, {"x", "n"}.__contains__, writing(seen))
    other = FunctionType(code, f.__globals__, f.__name__, f.__defaults__, f.__closure__)
    other.__kwdefaults__ = f.__kwdefaults__
    assert (f(1), other(1), f(1)) == (13, 16, 19)
    assert seen == ["given x 2 1", "bound n 4 16"]
    assert inspect.signature(other) == inspect.signature(f)


def case_the_exception_is_the_same_object_and_notes_stay() -> None:
    names = made("""
        def f(x, error):
            x.append(1)
            raise error(x)
    """)
    f = names["f"]
    f.__code__ = rewrite(f.__code__, {"x"}.__contains__, silent)
    error = KeyError("given")
    error.add_note("a note")
    try:
        f([], lambda x: error)
    except KeyError as caught:
        assert caught is error and caught.__notes__ == ["a note"] and caught.__context__ is None
    else:
        raise AssertionError("nothing was raised")


def case_deep_expressions() -> None:
    deep = "(" * 150 + "x" + " + 1)" * 150
    chain = " + ".join(["x"] * 200)
    program = Program(
        "deep", f"def f(x):\n    y = [{deep}]\n    y.append({chain})\n    return y\n", run="f(1)", wanted="y"
    )
    assert reports_of(program) == ["bound y 2 [151]", "maybe y 3 [151, 200]"]
    behaviour_is_unchanged(program)


def case_expressions_too_deep_for_the_compiler_are_refused() -> None:
    refusals = []
    for terms in (400, 800, 1600, 2400):
        chain = " + ".join(["x"] * terms)
        try:
            f = made(f"def f(x):\n    y = {chain}\n    return y\n")["f"]
        except RecursionError:  # too deep for Python itself
            break
        try:
            f.__code__ = rewrite(f.__code__, {"y"}.__contains__, silent)
        except NoSource as error:
            refusals.append(str(error))
        assert f(1) == terms
    assert all("recursion" in reason for reason in refusals)


def case_deep_in_the_stack_of_the_program() -> None:
    chain = " + ".join(["(y := x)"] * 200)
    program = Program("deep", f"def f(x):\n    return {chain}\n", run="f(1)", wanted="y")

    def deeper(depth: int) -> list[str]:
        return deeper(depth - 1) if depth else reports_of(program)

    room = sys.getrecursionlimit() - len(inspect.stack(0)) - 300
    assert deeper(room) == ["bound y 2 1"] * 200


def case_what_the_rest_of_a_file_changes_in_the_code() -> None:
    """The compiler looks at imports, and at other uses of `super`, before it chooses instructions."""
    names = made("""
        import os.path
        if True:
            from json import decoder
        safe = super
        class C(dict):
            def f(self, x):
                y = decoder.JSONDecoder(), os.path.join("a")
                super().update(x)
                return y
    """)
    assert {point.line for point in points_of(names["C"].f.__code__, "y")} == {7, 8}


def case_a_generator_made_a_coroutine() -> None:
    names = made("""
        import types
        @types.coroutine
        def f(x):
            y = yield x
            return y
        async def run():
            return await f(1)
    """)
    f = names["f"]
    seen: list[str] = []
    f.__code__ = rewrite(f.__code__, {"y"}.__contains__, writing(seen))
    running = names["run"]()
    assert running.send(None) == 1
    try:
        running.send(2)
    except StopIteration as stop:
        assert stop.value == 2 and seen == ["bound y 4 2"]


def case_statements_whose_first_line_has_no_instructions() -> None:
    program = Program(
        "layout",
        """
        def f(x):
            if not (
                x.pop() == 0
                and x.pop() == 9
            ):
                (
                    x.append(1)
                )
            while (
                x.pop() == 1
            ):
                pass
            if (
                x.copy() == [1]
            ):
                pass
            for _ in (
                x.copy()
            ):
                del (
                    x[0]
                )
            return (
                x.append(2)
            )
        """,
        run="f([0, 5, 0, 3, 0])",
    )
    behaviour_is_unchanged(program)
    code_stays_compatible(program)
    coverage_sees_the_same_lines(program)
    before, after = events_of(program, made(program.source)), events_of(program, program.rewritten(silent))
    assert set(before) == set(after)
    assert reports_of(program)[1:4] == ["maybe x 2 [0, 5, 0]", "maybe x 6 [0, 5, 0, 1]", "maybe x 9 [0, 5, 0]"]


def case_long_functions() -> None:
    lines = "".join(f"    x = x + {number}\n    y.append(x)\n" for number in range(2000))
    program = Program("long", f"def f(x, y):\n{lines}    return x\n", run="f(0, [])", wanted="x y")
    found = reports_of(program)
    assert len(found) == 2 + 2000 * 3 and found[-2].startswith("maybe x 4001 1999000")
    behaviour_is_unchanged(program)


def case_more_blocks_than_python_can_nest() -> None:
    for depth in (6, 9, 12, 18, 19, 20):
        loops = "".join("    " * (level + 1) + f"for i{level} in iter([x]):\n" for level in range(depth))
        body = "    " * (depth + 1) + "x.append(1)\n"
        program = Program("blocks", f"def f(x):\n{loops}{body}    return x\n", run="f([0])")
        found = reports_of(program)
        assert found[0] == "given x 1 [0]" and f"maybe x {depth + 2} [0, 1]" in found, depth
        behaviour_is_unchanged(program)


def case_future_annotations_stay() -> None:
    names = made("""
        from __future__ import annotations
        def f(x: missing) -> missing:
            y: missing = x
            def g(z: also_missing): return z
            return g.__annotations__, g(y)
    """)
    f = names["f"]
    flags = f.__code__.co_flags
    f.__code__ = rewrite(f.__code__, {"y", "z"}.__contains__, silent)
    assert f.__code__.co_flags == flags and f(1) == ({"z": "also_missing"}, 1)


def case_flags_given_from_outside_stay() -> None:
    source = "def f(x: missing):\n    y = x\n    return y\n"
    names = made("def f(): pass")
    filename = names["f"].__code__.co_filename
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    import __future__

    exec(compile(source, filename, "exec", __future__.annotations.compiler_flag, dont_inherit=True), names)
    assert points_of(names["f"].__code__, "y") == [ReportPoint("bound", "y", 2, "f", filename)]


def case_warnings_of_the_compiler_are_not_given_again() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = made("""
            def f(x):
                assert (x, 'always true')
                y = x is 5
                return y
        """)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        filters = list(warnings.filters)
        assert len(points_of(names["f"].__code__, "y")) == 1
        assert warnings.filters == filters


def case_functions_that_ran_often_are_found() -> None:
    f = made("""
        def f(x):
            for i in range(50):
                x = x + i
            return x
    """)["f"]
    assert {f(0) for _ in range(200)} == {1225}
    assert len(points_of(f.__code__, "x")) == 2


def case_the_code_of_several_lambdas() -> None:
    names = made("fs = [(lambda x: x + 1), (lambda x: x * 2), (lambda y=(lambda x: x - 1): y)]")
    codes = [*(f.__code__ for f in names["fs"]), names["fs"][2].__defaults__[0].__code__]
    for code, argument, result in zip(codes, (1, 3, 5, 7), (2, 6, 5, 6), strict=True):
        seen: list[str] = []
        new = rewrite(code, {"x", "y"}.__contains__, writing(seen))
        assert FunctionType(new, {})(argument) == result
        assert seen == [f"given {code.co_varnames[0]} 1 {argument}"]


@contextmanager
def module_of(source: str) -> Iterator[tuple[ModuleType, Path]]:
    """A module in a file of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "followed_module.py"
        path.write_text(source, "utf-8")
        sys.path.insert(0, folder)
        importlib.invalidate_caches()
        before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        try:
            yield importlib.import_module("followed_module"), path
        finally:
            sys.dont_write_bytecode = before
            sys.path.remove(folder)
            sys.modules.pop("followed_module", None)


SOURCE = "def f(x):\n    y = x + 1\n    return y\n"


def refused(code: CodeType, *wanted: str) -> str:
    """The reason why a function is not rewritten."""
    try:
        rewrite(code, set(wanted).__contains__, silent)
    except NoSource as error:
        return str(error)
    raise AssertionError("it was rewritten")


def case_pickle_and_source_of_a_rewritten_function() -> None:
    with module_of(SOURCE) as (module, _):
        module.f.__code__ = rewrite(module.f.__code__, {"y"}.__contains__, silent)
        assert pickle.loads(pickle.dumps(module.f)) is module.f
        assert inspect.getsource(module.f) == SOURCE and module.f(1) == 2


def case_a_changed_file_is_refused() -> None:
    with module_of(SOURCE) as (module, path):
        path.write_text(SOURCE.replace("+ 1", "+ 2"), "utf-8")
        linecache.checkcache(str(path))
        reason = refused(module.f.__code__, "y")
        assert "f (" in reason and f"{path}:1" in reason and "the file was changed" in reason


def case_moved_lines_are_refused() -> None:
    with module_of(SOURCE) as (module, path):
        path.write_text(SOURCE.replace("    y", "\n    y"), "utf-8")
        assert "the file was changed" in refused(module.f.__code__, "y")


def case_a_file_that_was_read_before_it_changed_and_was_imported_again() -> None:
    with module_of(SOURCE) as (module, path):
        assert linecache.getline(str(path), 2) == "    y = x + 1\n"
        path.write_text("# moved\n" + SOURCE, "utf-8")
        module = importlib.reload(module)
        assert points_of(module.f.__code__, "y")[0].line == 3


def case_functions_without_source_are_refused() -> None:
    names: dict[str, Any] = {}
    exec("def f():\n    x = 1\nclass C:\n    x = 2\ng = (x for x in ())", names)
    assert "exec or eval made it from text" in refused(names["f"].__code__, "x")
    assert "<genexpr> is not a function" in refused(names["g"].gi_code, "x")
    code = names["f"].__code__.replace(co_filename="/nowhere/gone.py")
    assert "its file cannot be read" in refused(code, "x")


def case_rewritten_code_is_refused() -> None:
    f = made("def f(x):\n    y = x\n    return y")["f"]
    assert "a tool rewrote the function" in refused(rewrite(f.__code__, {"y"}.__contains__, silent), "y")


def case_a_file_that_does_not_parse_is_refused() -> None:
    with module_of(SOURCE) as (module, path):
        path.write_text("def f(:\n", "utf-8")
        linecache.checkcache(str(path))
        assert "its file cannot be parsed" in refused(module.f.__code__, "y")


def case_names_that_are_bound() -> None:
    f = made("""
        def f(a, *b, c=1, **d):
            import os.path as e, sys
            with a as g, b as (h, [i]):
                for j in [k for k in a if (m := k)]:
                    def n(o):
                        nonlocal m
                        p = lambda q: q
            try:
                pass
            except E as r:
                global s
                s = t
            match a:
                case {'x': u, **v}: pass
            class W:
                y = 1
            return z
    """)["f"]
    assert bound_names(f.__code__) == set("abcdeghijmnopqrsuvW") | {"sys"}


def case_names_that_are_bound_without_source() -> None:
    names: dict[str, Any] = {}
    exec("def f(a):\n    b = a\n    def g(c): return c\n    return b", names)
    assert bound_names(names["f"].__code__) == {"a", "b", "c", "g"}


def case_many_threads_rewrite_at_once() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = made("\n".join(f"def f{number}(x):\n    y = x is {number}\n    return y" for number in range(40)))
    found: list[int] = []

    def work(number: int) -> None:
        found.append(len(points_of(names[f"f{number}"].__code__, "y")))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        threads = [threading.Thread(target=work, args=(number,)) for number in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [1] * 40


def case_a_generator_runs_in_two_places() -> None:
    f = made("""
        def f(x):
            while True:
                x = yield x
    """)["f"]
    seen: list[str] = []
    f.__code__ = rewrite(f.__code__, {"x"}.__contains__, writing(seen))
    one, two = f(1), f(2)
    assert (next(one), next(two), one.send(3), two.send(4)) == (1, 2, 3, 4)
    one.close(), two.close()
    assert seen[:4] == ["given x 1 1", "given x 1 2", "bound x 3 3", "bound x 3 4"]


def case_tasks_that_run_together() -> None:
    names = made("""
        async def f(x):
            for i in range(2):
                x = x + 10
                await asyncio.sleep(0)
            return x
        async def both():
            return await asyncio.gather(f(1), f(2))
    """)
    seen: list[str] = []
    names["f"].__code__ = rewrite(names["f"].__code__, {"x"}.__contains__, writing(seen))
    assert asyncio.run(names["both"]()) == [21, 22]
    assert [line for line in seen if "bound" in line] == [f"bound x 3 {value}" for value in (11, 12, 21, 22)]


def case_line_numbers_of_all_code_inside_stay() -> None:
    code = made("""
        def f(x):
            class C:
                def g(self, x):
                    return [lambda y: y for _ in x.pop()]
            x = C()
            return x
    """)["f"].__code__
    new = rewrite(code, {"x", "y"}.__contains__, silent)
    names = [[(each.co_qualname, each.co_firstlineno) for each in codes_in(some)] for some in (code, new)]
    assert names[0] == names[1] and new is not code
