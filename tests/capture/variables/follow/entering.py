"""Cases for what is reported when a function is entered, and for the names that it knows."""

from __future__ import annotations

from typing import Any

from tests.capture.variables.follow.programs import Program, made
from tests.capture.variables.follow.rewriting import code_stays_compatible, debuggers_see_the_same_lines

from insitu.capture.variables.follow.rewrite import ReportPoint, known_names, rewrite


def case_where_a_function_is_entered() -> None:
    names = made("""
        def decorate(function): return function
        @decorate
        def f(x):
            "A docstring."
            def silent():
                return [g, h]
            def g():
                y = 1
                yield y
            h = lambda y: y
            k = lambda: (y := 2)
            return list(g()), h(3), k(), silent
    """)
    f = names["f"]
    seen: list[tuple[str, str, int]] = []

    def reporter(point: ReportPoint) -> Any:
        return lambda value: seen.append((point.moment, point.function.rpartition(".")[2], point.line))

    f.__code__ = rewrite(f.__code__, {"x", "y"}.__contains__, reporter)
    f(0)
    assert [report for report in seen if report[0] != "maybe"] == [
        *(("entered", "f", 3), ("given", "f", 3)),
        *(("entered", "g", 7), ("bound", "g", 8)),
        *(("entered", "<lambda>", 10), ("given", "<lambda>", 10)),
        *(("entered", "<lambda>", 11), ("bound", "<lambda>", 11)),
    ]


def case_a_generator_is_entered_at_its_first_step() -> None:
    f = made("""
        def f(x):
            x = yield x
            return x
    """)["f"]
    seen: list[str] = []
    f.__code__ = rewrite(f.__code__, {"x"}.__contains__, lambda point: lambda value: seen.append(point.moment))
    running = f(1)
    assert seen == []
    assert next(running) == 1 and seen[:2] == ["entered", "given"]
    running.close()
    assert seen.count("entered") == 1


def case_the_first_line_stays_the_first() -> None:
    program = Program(
        "places",
        """
        def f(a):
            x = {
                a: 1,
                **{a:
                   2},
            }
            g = lambda y: {
                y: [
                    x],
            }
            def h():
                return [
                    n
                    for n in g(a)
                ]
            return h()
        """,
        run="f(1)",
        wanted="x y n a",
    )
    debuggers_see_the_same_lines(program)
    code_stays_compatible(program)


def case_names_that_are_known() -> None:
    names = made("""
        import os
        from operator import add as max
        def outer(free, unused):
            def f(self, a, *rest, key=None, **more):
                x = os.path.join(GLOBAL, free)
                class C(Parent):
                    member = reading
                    def method(self, inner): return inner.attribute, __name__
                y = [i + j for i in rest if (walrus := i) for j in len(i)]
                lambda z: (yield_ for yield_ in z)
                max(x)
                global declared
                del declared
                try: self.__private = None
                except ValueError as error: pass
                return y, C
            return f
    """)
    assert known_names(names["outer"](1, 2).__code__) == {
        *("self", "a", "rest", "key", "more", "x", "os", "GLOBAL", "free", "C", "Parent", "reading", "inner", "y"),
        *("walrus", "z", "max", "declared", "error"),
    }


def case_names_that_are_known_without_source() -> None:
    code = compile("import os\nx = [i for i in y]\ndef f(a): return b, len(a), os.z\n", "<nowhere>", "exec")
    assert known_names(code) == {"os", "x", "y", "f", "a", "b"}
    names: dict[str, Any] = {"y": []}
    exec(code, names)
    assert known_names(names["f"].__code__) == {"a", "b", "os"}
