"""The table of small programs: what is to be reported of each. `moment name line value`, a line for each report."""

from __future__ import annotations

from tests.capture.variables.follow.programs import Program

PROGRAMS = [
    Program(
        "assignment",
        """
        def f():
            x = 1
            y = 2
            x = x + y
            return x
        """,
        expected="""
        bound x 2 1
        bound x 4 3
        """,
    ),
    Program(
        "two targets",
        """
        def f():
            x = y = [0]
            return x
        """,
        wanted="x y",
        expected="""
        bound x 2 [0]
        bound y 2 [0]
        """,
    ),
    Program(
        "unpacking",
        """
        def f(pair):
            x, [y, *z] = pair
            (w,) = z
            return w
        """,
        run="f((1, [2, 3]))",
        wanted="x y z w",
        expected="""
        bound x 2 1
        bound y 2 2
        bound z 2 [3]
        bound w 3 3
        """,
    ),
    Program(
        "unpacking fails halfway",
        """
        def f(pair):
            x = 0
            try:
                x, y = pair
            except ValueError:
                y = 9
            return x, y
        """,
        run="f((1, 2, 3))",
        wanted="x y",
        expected="""
        bound x 2 0
        bound y 6 9
        """,
    ),
    Program(
        "augmented",
        """
        def f(n):
            x = [n]
            alias = x
            x += [2]
            n -= 1
            return alias
        """,
        run="f(1)",
        wanted="x alias n",
        expected="""
        given n 1 1
        bound x 2 [1]
        bound alias 3 [1]
        bound x 4 [1, 2]
        maybe n 4 1
        maybe alias 4 [1, 2]
        bound n 5 0
        maybe alias 5 [1, 2]
        maybe x 5 [1, 2]
        """,
    ),
    Program(
        "augmented item and attribute",
        """
        class Box: pass
        def f():
            x = Box()
            x.n = 1
            x.n += 1
            y = [x.n]
            y[0] *= 5
            return y
        """,
        wanted="y",
        expected="""
        bound y 6 [2]
        maybe y 7 [10]
        """,
    ),
    Program(
        "annotated",
        """
        def f():
            x: int = 1
            y: str
            z: list[int] = [x]
            z[0]: int = 2
            return z
        """,
        wanted="x y z",
        expected="""
        bound x 2 1
        bound z 4 [1]
        maybe x 5 1
        maybe z 5 [2]
        """,
    ),
    Program(
        "walrus",
        """
        def f(n):
            if (x := n + 1) > 1 and (y := x):
                return x
        """,
        run="f(1)",
        wanted="x y",
        expected="""
        bound x 2 2
        bound y 2 2
        """,
    ),
    Program(
        "walrus in while",
        """
        def f():
            n = 3
            while (x := n - 1):
                n = x
            return x
        """,
        expected="""
        bound x 3 2
        bound x 3 1
        bound x 3 0
        """,
    ),
    Program(
        "walrus in a comprehension",
        """
        def f(values):
            return [x for v in values if (x := v * 2) > 2]
        """,
        run="f([1, 2, 3])",
        expected="""
        bound x 2 2
        bound x 2 4
        bound x 2 6
        """,
    ),
    Program(
        "walrus in a nested comprehension",
        """
        def f(rows):
            found = {k: [(x := v) for v in row] for k, row in enumerate(rows)}
            return found, x
        """,
        run="f([[1], [2, 3]])",
        expected="""
        bound x 2 1
        bound x 2 2
        bound x 2 3
        """,
    ),
    Program(
        "comprehension targets are not variables of the function",
        """
        def f(values):
            total = [x for x in values]
            more = {x for x in values for y in (1, 2)}
            x = (lambda: total)()
            return x, more
        """,
        run="f([1])",
        wanted="x y",
        expected="""
        bound x 4 [1]
        """,
    ),
    Program(
        "for",
        """
        def f():
            for x in range(3):
                y = x
            return y
        """,
        wanted="x y",
        expected="""
        bound x 2 0
        bound y 3 0
        bound x 2 1
        bound y 3 1
        bound x 2 2
        bound y 3 2
        """,
    ),
    Program(
        "for with unpacking, else",
        """
        def f(pairs):
            for i, (x, *y) in pairs:
                pass
            else:
                x = 'end'
            return x
        """,
        run="f([(0, (1, 2))])",
        wanted="x y",
        expected="""
        bound x 2 1
        bound y 2 [2]
        bound x 5 'end'
        """,
    ),
    Program(
        "for over a call",
        """
        def f(x):
            def items():
                x.append(1)
                yield 1
                x.append(2)
            for i in items():
                pass
            return x
        """,
        run="f([])",
        expected="""
        given x 1 []
        maybe x 3 [1]
        maybe x 6 [1]
        maybe x 4 [1]
        maybe x 5 [1, 2]
        maybe x 6 [1, 2]
        """,
    ),
    Program(
        "for with break",
        """
        def f():
            for x in (1, 2, 3):
                if x == 2:
                    break
            else:
                x = None
            return x
        """,
        expected="""
        bound x 2 1
        bound x 2 2
        """,
    ),
    Program(
        "for into an item",
        """
        def f():
            x = [0]
            for x[0] in (1, 2):
                pass
            return x
        """,
        expected="""
        bound x 2 [0]
        maybe x 3 [1]
        maybe x 3 [2]
        maybe x 3 [2]
        """,
    ),
    Program(
        "for over nothing",
        """
        def f():
            for x in ():
                pass
            g = len
            return g(())
        """,
    ),
    Program(
        "while true with break and else",
        """
        def f(x):
            while True:
                x.pop()
                if not x:
                    break
            else:
                x = 5
            return x
        """,
        run="f([1, 2])",
        expected="""
        given x 1 [1, 2]
        maybe x 3 [1]
        maybe x 3 []
        """,
    ),
    Program(
        "while with a call in its test",
        """
        def f(x):
            while x.pop():
                pass
            else:
                x.append('else')
            return x
        """,
        run="f([0, 1])",
        expected="""
        given x 1 [0, 1]
        maybe x 2 [0]
        maybe x 2 []
        maybe x 5 ['else']
        """,
    ),
    Program(
        "continue",
        """
        def f():
            x = []
            for i in range(3):
                if i == 1:
                    x.append('skip')
                    continue
                x.append(i)
            return x
        """,
        expected="""
        bound x 2 []
        maybe x 7 [0]
        maybe x 5 [0, 'skip']
        maybe x 7 [0, 'skip', 2]
        """,
    ),
    Program(
        "if with a call",
        """
        def f(x):
            if x.pop():
                y = 1
            elif x.pop():
                y = 2
            else:
                y = 3
            return y
        """,
        run="f([1, 0])",
        wanted="x y",
        expected="""
        given x 1 [1, 0]
        maybe x 2 [1]
        maybe x 4 []
        bound y 5 2
        """,
    ),
    Program(
        "one-liners",
        """
        def f(n):
            if n: x = 1; y = 2
            for z in (1,): x = z; x = x + 1
            while n: n = 0; x = 'while'
            return x
        """,
        run="f(1)",
        wanted="x y z",
        expected="""
        bound x 2 1
        bound y 2 2
        bound z 3 1
        bound x 3 1
        bound x 3 2
        bound x 4 'while'
        """,
    ),
    Program(
        "semicolons",
        """
        def f(): x = 1; x = 2; return x
        """,
        expected="""
        bound x 1 1
        bound x 1 2
        """,
    ),
    Program(
        "continued lines",
        r"""
        def f():
            x = \
                1
            x = [
                x,
                2,
            ]
            y = len(
                x
            )
            return (
                x,
                y,
            )
        """,
        wanted="x y",
        expected="""
        bound x 2 1
        bound x 4 [1, 2]
        bound y 8 2
        """,
    ),
    Program(
        "with",
        """
        @contextlib.contextmanager
        def opened(x):
            x.append('in')
            yield x
            x.append('out')
        def f(y):
            with opened(y) as x:
                x.append(1)
            return y
        """,
        run="f([])",
        wanted="x y",
        expected="""
        given y 6 []
        bound x 7 ['in']
        maybe y 7 ['in']
        maybe y 8 ['in', 1]
        maybe x 8 ['in', 1]
        maybe y 7 ['in', 1, 'out']
        maybe x 7 ['in', 1, 'out']
        """,
    ),
    Program(
        "with several items",
        """
        def f():
            with contextlib.nullcontext(1) as x, contextlib.nullcontext((2, 3)) as (y, z):
                w = x
            return w
        """,
        wanted="x y z w",
        expected="""
        bound x 2 1
        bound y 2 2
        bound z 2 3
        bound w 3 1
        maybe w 2 1
        maybe x 2 1
        maybe y 2 2
        maybe z 2 3
        """,
    ),
    Program(
        "with that swallows",
        """
        def f():
            x = []
            with contextlib.suppress(ValueError):
                x.append(1)
                raise ValueError(x)
            return x
        """,
        expected="""
        bound x 2 []
        maybe x 3 []
        maybe x 4 [1]
        maybe x 5 [1]
        maybe x 3 [1]
        """,
    ),
    Program(
        "except as",
        """
        def f():
            try:
                1 / 0
            except ZeroDivisionError as x:
                y = str(x)
            return y
        """,
        wanted="x y",
        expected="""
        bound x 4 ZeroDivisionError('division by zero')
        bound y 5 'division by zero'
        maybe x 5 ZeroDivisionError('division by zero')
        """,
    ),
    Program(
        "try, else, finally",
        """
        def f(x):
            try:
                x.append(1)
            except Exception:
                x.append('never')
            else:
                x.append(2)
            finally:
                x.append(3)
            return x
        """,
        run="f([])",
        expected="""
        given x 1 []
        maybe x 3 [1]
        maybe x 7 [1, 2]
        maybe x 9 [1, 2, 3]
        """,
    ),
    Program(
        "nested finally with returns",
        """
        def f(x):
            try:
                try:
                    x.append(1)
                    return x.pop()
                finally:
                    x.append(2)
                    return x.append(3)
            finally:
                x.append(4)
        """,
        run="f([])",
        expected="""
        given x 1 []
        maybe x 4 [1]
        maybe x 5 []
        maybe x 7 [2]
        maybe x 8 [2, 3]
        maybe x 10 [2, 3, 4]
        """,
    ),
    Program(
        "return in finally swallows",
        """
        def f(x):
            while True:
                try:
                    raise ValueError
                finally:
                    x.append(1)
                    break
            return x
        """,
        run="f([])",
        expected="""
        given x 1 []
        maybe x 6 [1]
        """,
    ),
    Program(
        "bare raise",
        """
        def f(x):
            try:
                int('a')
            except ValueError:
                x.append(1)
                raise
        """,
        run="f([])",
        expected="""
        given x 1 []
        maybe x 5 [1]
        """,
    ),
    Program(
        "raise from",
        """
        def f(x):
            try:
                {}[x]
            except KeyError as error:
                raise ValueError(x) from error
        """,
        run="f(1)",
        wanted="x error",
        expected="""
        given x 1 1
        bound error 4 KeyError(1)
        maybe x 5 1
        maybe error 5 KeyError(1)
        """,
    ),
    Program(
        "except star",
        """
        def f():
            try:
                raise ExceptionGroup('g', [ValueError(1), TypeError(2)])
            except* ValueError as x:
                y = len(x.exceptions)
            except* TypeError as x:
                z = [len(x.exceptions)]
                z.append(1)
            return y, z
        """,
        wanted="y z",
        expected="""
        bound y 5 1
        bound z 7 [1]
        maybe y 8 1
        maybe z 8 [1, 1]
        """,
    ),
    Program(
        "the statement raises after it changed something",
        """
        def spoil(x):
            x.append('spoiled')
            raise ValueError('spoiled')
        def f(x):
            y = x
            y = spoil(x)
            return y
        """,
        run="f([])",
        wanted="x y",
        expected="""
        given x 4 []
        bound y 5 []
        maybe x 6 ['spoiled']
        maybe y 6 ['spoiled']
        """,
    ),
    Program(
        "the return changes something",
        """
        def f(x):
            return x.append(1)
        """,
        run="f([])",
        expected="""
        given x 1 []
        maybe x 2 [1]
        """,
    ),
    Program(
        "a header raises",
        """
        def spoil(x):
            x.append('spoiled')
            raise ValueError('spoiled')
        def f(x):
            if spoil(x):
                return 1
        """,
        run="f([])",
        expected="""
        given x 4 []
        maybe x 5 ['spoiled']
        """,
    ),
    Program(
        "import",
        """
        def f():
            import os.path
            import os.path as x
            from os import path as y, sep
            return os.__name__, x is y
        """,
        wanted="os x y sep",
        expected="""
        bound os 2 module os
        bound x 3 module posixpath
        maybe os 3 module os
        bound y 4 module posixpath
        bound sep 4 '/'
        maybe os 4 module os
        maybe x 4 module posixpath
        """,
    ),
    Program(
        "def and class",
        """
        def f():
            def x(y):
                y = y + 1
                return y
            class z:
                x = 1
                def method(self):
                    y = 'm'
                    return y
            return x(1), z().method()
        """,
        wanted="y",
        expected="""
        given y 2 1
        bound y 3 2
        bound y 8 'm'
        """,
    ),
    Program(
        "a definition is a binding",
        """
        def f():
            def x(): pass
            x = x.__name__
            class y: pass
            y = y.__name__
            return x, y
        """,
        wanted="x y",
        expected="""
        bound x 2 function f.<locals>.x
        bound x 3 'x'
        bound y 4 type f.<locals>.y
        maybe x 4 'x'
        bound y 5 'y'
        """,
    ),
    Program(
        "class body",
        """
        def f(x):
            class C:
                y = [x]
                y.append(2)
                z = 'class'
                for z in (1, 2):
                    pass
            x = C.y, C.z
            return x
        """,
        run="f(1)",
        wanted="x y",
        expected="""
        given x 1 1
        maybe x 2 1
        bound x 8 ([1, 2], 2)
        """,
    ),
    Program(
        "class with private names",
        """
        class C:
            def f(self):
                __x = 1
                self.__y = __x
                return self.__y
        """,
        run="C().f()",
        wanted="__x",
        target="C.f",
        expected="""
        bound __x 3 1
        maybe __x 4 1
        """,
    ),
    Program(
        "super and __class__",
        """
        class A:
            def f(self, x):
                return [x]
        class B(A):
            def f(self, x):
                y = super().f(x)
                return __class__.__name__, y
        """,
        run="B().f(1)",
        wanted="x y",
        target="B.f",
        expected="""
        given x 5 1
        bound y 6 [1]
        maybe x 6 1
        """,
    ),
    Program(
        "static method",
        """
        class C:
            @staticmethod
            def f(x):
                x = x + 1
                return x
        """,
        run="C.f(1)",
        target="C.__dict__['f']",
        expected="""
        given x 3 1
        bound x 4 2
        """,
    ),
    Program(
        "class method",
        """
        class C:
            @classmethod
            def f(cls, x):
                x = cls.__name__ + x
                return x
        """,
        run="C.f('x')",
        target="C.f",
        expected="""
        given x 3 'x'
        bound x 4 'Cx'
        """,
    ),
    Program(
        "decorators",
        """
        def twice(g):
            def inner(*a): return g(g(*a))
            inner.g = g
            return inner
        @twice
        @twice
        def f(x):
            x = x + 1
            return x
        """,
        run="f(0)",
        target="f.g.g",
        expected="""
        given x 7 0
        bound x 8 1
        given x 7 1
        bound x 8 2
        given x 7 2
        bound x 8 3
        given x 7 3
        bound x 8 4
        """,
    ),
    Program(
        "match",
        """
        def f(v):
            match v:
                case [x, *y] if len(y) > 5:
                    return 'long'
                case {'k': x, **y}:
                    z = 1
                case str(x) | int(x):
                    z = 2
                case [1 | 2 as x, (_, y)]:
                    z = 3
                case _:
                    z = 4
            return z
        """,
        run="[f([1]), f({'k': 1, 'l': 2}), f('s'), f([2, (0, 9)]), f(None)]",
        wanted="x y z",
        expected="""
        bound x 3 1
        bound y 3 []
        bound z 12 4
        bound x 5 1
        bound y 5 {'l': 2}
        bound z 6 1
        bound x 7 's'
        bound z 8 2
        bound x 3 2
        bound y 3 [(0, 9)]
        bound x 9 2
        bound y 9 9
        bound z 10 3
        bound z 12 4
        """,
    ),
    Program(
        "match on a call",
        """
        def f(x):
            match x.pop():
                case 1:
                    return 'one'
                case n if x.append(n):
                    return 'never'
            return x
        """,
        run="[f([1]), f([2])]",
        expected="""
        given x 1 [1]
        maybe x 2 []
        given x 1 [2]
        maybe x 2 [2]
        maybe x 5 [2]
        """,
    ),
    Program(
        "del",
        """
        def f():
            x = 1
            y = [1]
            del x, y[0]
            return y
        """,
        wanted="x y",
        expected="""
        bound x 2 1
        bound y 3 [1]
        deleted x 4 None
        maybe y 4 []
        """,
    ),
    Program(
        "conditional del",
        """
        def f(n, x):
            if n:
                del x
            n = str(n)
            try:
                return x
            except NameError:
                return n
        """,
        run="[f(0, 'x'), f(1, 'x')]",
        expected="""
        given x 1 'x'
        maybe x 4 'x'
        given x 1 'x'
        deleted x 3 None
        """,
    ),
    Program(
        "global",
        """
        x = 0
        def f():
            print_ = list
            print_()
            global x
            x = 1
            x += 1
            del x
            print_()
            return 'x' in globals()
        """,
        expected="""
        maybe x 4 0
        bound x 6 1
        bound x 7 2
        deleted x 8 None
        """,
    ),
    Program(
        "global that is only read",
        """
        state = []
        def f():
            state.append(1)
            return len(state)
        """,
        wanted="state len",
        expected="""
        maybe state 3 [1]
        """,
    ),
    Program(
        "global not defined yet",
        """
        def f(n):
            str(n)
            if n:
                return missing
            return n
        """,
        run="f(0)",
        wanted="missing",
    ),
    Program(
        "nonlocal",
        """
        def f():
            def g():
                nonlocal x
                x = 1
                def h():
                    nonlocal x
                    x = x + 1
                h()
            g()
            x = x + 10
            return x
        """,
        expected="""
        bound x 4 1
        bound x 7 2
        maybe x 8 2
        maybe x 9 2
        bound x 10 12
        """,
    ),
    Program(
        "free variable",
        """
        def outer():
            x = []
            def f():
                x.append(1)
                return x
            return f
        f = outer()
        """,
        expected="""
        maybe x 4 [1]
        """,
    ),
    Program(
        "free variable not bound yet",
        """
        def outer():
            def f():
                str(1)
                if 0:
                    return x
            f()
            x = 1
            return f
        f = outer()
        """,
        expected="""
        maybe x 3 1
        """,
    ),
    Program(
        "parameters",
        """
        def f(a, b, /, c, *d, e, g=6, **h):
            return a, b, c, d, e, g, h
        """,
        run="f(1, 2, 3, 4, e=5, i=7)",
        wanted="*",
        expected="""
        given a 1 1
        given b 1 2
        given c 1 3
        given d 1 (4,)
        given e 1 5
        given g 1 6
        given h 1 {'i': 7}
        """,
    ),
    Program(
        "a parameter changed by a call",
        """
        def f(x, y):
            y = y + 1
            x.append(y)
            y = y + 1
        """,
        run="f([], 1)",
        wanted="x y",
        expected="""
        given x 1 []
        given y 1 1
        bound y 2 2
        maybe x 3 [2]
        maybe y 3 2
        bound y 4 3
        """,
    ),
    Program(
        "docstring",
        '''
        def f(x):
            """Said about f."""
            return f.__doc__
        ''',
        run="f(1)",
        expected="""
        given x 1 1
        """,
    ),
    Program(
        "docstring only",
        '''
        def f(x):
            """Said about f."""
        ''',
        run="f(1)",
        expected="""
        given x 1 1
        """,
    ),
    Program(
        "generator",
        """
        def f(x):
            got = yield x
            x.append(got)
            try:
                yield x
            finally:
                x.append('closed')
        def run():
            x = []
            g = f(x)
            return next(g) is x, repr(g.send(1)), g.close(), x
        """,
        run="run()",
        wanted="x got",
        expected="""
        given x 1 []
        bound got 2 1
        maybe x 2 []
        maybe x 3 [1]
        maybe got 3 1
        maybe x 5 [1]
        maybe got 5 1
        maybe x 7 [1, 'closed']
        maybe got 7 1
        """,
    ),
    Program(
        "generator, throw",
        """
        def f(x):
            while True:
                try:
                    x = yield x
                except ValueError as error:
                    x = str(error)
        def run():
            g = f(0)
            return next(g), g.send(1), g.throw(ValueError('v')), g.send(2), g.close()
        """,
        run="run()",
        expected="""
        given x 1 0
        bound x 4 1
        maybe x 4 1
        bound x 6 'v'
        bound x 4 2
        maybe x 4 2
        """,
    ),
    Program(
        "yield from",
        """
        def f(x):
            x = yield from iter(x)
            return x
        """,
        run="list(f([1, 2]))",
        expected="""
        given x 1 [1, 2]
        bound x 2 None
        """,
    ),
    Program(
        "a generator that returns",
        """
        def f(n):
            for i in range(n):
                x = i
                yield x
            return 'done'
        def run():
            got = yield from f(2)
            yield got
        """,
        run="list(run())",
        expected="""
        bound x 3 0
        maybe x 4 0
        bound x 3 1
        maybe x 4 1
        """,
    ),
    Program(
        "coroutine",
        """
        async def g(x):
            x.append(1)
            await asyncio.sleep(0)
            return x
        async def f(x):
            y = await g(x)
            return y
        """,
        run="asyncio.run(f([]))",
        wanted="x y",
        expected="""
        given x 5 []
        bound y 6 [1]
        maybe x 6 [1]
        """,
    ),
    Program(
        "async for and async with",
        """
        class C:
            async def __aenter__(self): return 1
            async def __aexit__(self, *error): return None
        async def g():
            yield 1
            yield 2
        async def f():
            async with C() as x:
                async for y in g():
                    x = x + y
            z = [i async for i in g()]
            return x, z
        """,
        run="asyncio.run(f())",
        wanted="x y z",
        expected="""
        bound x 8 1
        bound y 9 1
        maybe x 9 1
        bound x 10 2
        bound y 9 2
        maybe x 9 2
        bound x 10 4
        maybe x 9 4
        maybe y 9 2
        maybe x 8 4
        maybe y 8 2
        bound z 11 [1, 2]
        maybe x 11 4
        maybe y 11 2
        """,
    ),
    Program(
        "async generator",
        """
        async def f(x):
            x = x + 1
            yield x
        async def run():
            return [i async for i in f(0)]
        """,
        run="asyncio.run(run())",
        expected="""
        given x 1 0
        bound x 2 1
        maybe x 3 1
        """,
    ),
    Program(
        "lambda",
        """
        f = lambda x, y=2: x.append(y)
        """,
        run="f([])",
        wanted="x y",
        expected="""
        given x 1 []
        given y 1 2
        maybe x 1 [2]
        maybe y 1 2
        """,
    ),
    Program(
        "lambdas on one line",
        """
        fs = [lambda x: x + 1, lambda x: x + 2, lambda x: (lambda x: x + 3)(x)]
        """,
        run="[f(0) for f in fs]",
        target="fs[1]",
        expected="""
        given x 1 0
        """,
    ),
    Program(
        "a lambda in a lambda on one line",
        """
        fs = [lambda x: x + 1, lambda x: (lambda x: x + 3)(x)]
        """,
        run="[f(0) for f in fs]",
        target="fs[1]",
        expected="""
        given x 1 0
        given x 1 0
        maybe x 1 0
        """,
    ),
    Program(
        "the same lambda twice on one line",
        """
        fs = [lambda x: x, lambda x: x]
        """,
        run="fs[1](3)",
        target="fs[1]",
        expected="""
        given x 1 3
        """,
    ),
    Program(
        "lambda default",
        """
        def f(n):
            g = lambda y=(x := n): y
            return g()
        """,
        run="f(1)",
        wanted="x y",
        expected="""
        bound x 2 1
        given y 2 1
        maybe x 3 1
        """,
    ),
    Program(
        "lambda in a comprehension",
        """
        def f():
            return [(lambda x: x + i)(1) for i in range(2)]
        """,
        expected="""
        given x 2 1
        given x 2 1
        """,
    ),
    Program(
        "nested functions with the same names",
        """
        def f(x):
            def g(x):
                x = x + 1
                return x
            x = g(x)
            return x
        """,
        run="f(1)",
        expected="""
        given x 1 1
        given x 2 1
        bound x 3 2
        bound x 5 2
        """,
    ),
    Program(
        "recursion",
        """
        def f(x):
            if x:
                y = f(x - 1)
                return y
            return 'end'
        """,
        run="f(2)",
        wanted="x y",
        expected="""
        given x 1 2
        given x 1 1
        given x 1 0
        bound y 3 'end'
        maybe x 3 1
        bound y 3 'end'
        maybe x 3 2
        """,
    ),
    Program(
        "exec and eval",
        """
        def f():
            x = 1
            exec('x = 2')
            y = eval('x + 1')
            return x, y
        """,
        wanted="x y",
        expected="""
        bound x 2 1
        maybe x 3 1
        bound y 4 2
        maybe x 4 1
        """,
    ),
    Program(
        "locals",
        """
        def f(a):
            x = 1
            for i in range(2):
                y = len(locals())
            return sorted(locals())
        """,
        run="f(1)",
        wanted="*",
        expected="""
        given a 1 1
        bound x 2 1
        bound i 3 0
        bound y 4 3
        maybe a 4 1
        maybe i 4 0
        maybe x 4 1
        bound i 3 1
        bound y 4 4
        maybe a 4 1
        maybe i 4 1
        maybe x 4 1
        maybe a 5 1
        maybe i 5 1
        maybe x 5 1
        maybe y 5 4
        """,
    ),
    Program(
        "unicode names",
        """
        def f(größe):
            名 = größe * 2
            名 += 1
            return 名, 'ü'
        """,
        run="f(2)",
        wanted="名 größe",
        expected="""
        given größe 1 2
        bound 名 2 4
        bound 名 3 5
        maybe größe 3 2
        """,
    ),
    Program(
        "arithmetic changes nothing",
        """
        def f(x):
            total = 0.0
            for i in range(3):
                total = total + i * 0.5
                if total > 1 and len(x) != int(i):
                    total = total - abs(i)
            return total
        """,
        run="f([])",
        wanted="x total",
        expected="""
        given x 1 []
        bound total 2 0.0
        bound total 4 0.0
        bound total 4 0.5
        bound total 4 1.5
        bound total 6 -0.5
        """,
    ),
    Program(
        "a builtin defined anew changes",
        """
        def len(x):
            x.append(1)
            return 1
        def f(x):
            y = len(x)
            return y
        """,
        run="f([])",
        expected="""
        given x 4 []
        maybe x 5 [1]
        """,
    ),
    Program(
        "assert",
        """
        def f(x):
            assert x.append(1) is None, x.append('no')
            assert x
        """,
        run="f([])",
        expected="""
        given x 1 []
        maybe x 2 [1]
        """,
    ),
    Program(
        "assert fails",
        """
        def f(x):
            assert not x.append(1)
            assert x.append(2), x.append(3)
        """,
        run="f([])",
        expected="""
        given x 1 []
        maybe x 2 [1]
        maybe x 3 [1, 2, 3]
        """,
    ),
    Program(
        "names bound later in a loop",
        """
        def f():
            for i in range(2):
                str(i)
                x = [i]
            return x
        """,
        expected="""
        bound x 4 [0]
        maybe x 3 [0]
        bound x 4 [1]
        """,
    ),
    Program(
        "change through an alias in a container",
        """
        def f(x):
            y = {'x': x}
            y['x'][0] = 5
            y['x'].sort()
            return x
        """,
        run="f([3, 1])",
        expected="""
        given x 1 [3, 1]
        maybe x 3 [5, 1]
        maybe x 4 [1, 5]
        """,
    ),
    Program(
        "slices",
        """
        def f(x):
            x[1:] = [7]
            del x[:1]
            return x
        """,
        run="f([1, 2])",
        expected="""
        given x 1 [1, 2]
        maybe x 2 [1, 7]
        maybe x 3 [7]
        """,
    ),
    Program(
        "starred calls and f-strings",
        """
        def f(*x, **y):
            z = '{}'.format(*x, **y)
            return f'{z!r:>5}' + f'{(w := z)}'
        """,
        run="f(1)",
        wanted="x z w",
        expected="""
        given x 1 (1,)
        bound z 2 '1'
        maybe x 2 (1,)
        bound w 3 '1'
        """,
    ),
    Program(
        "deleted and bound again",
        """
        def f():
            x = [1]
            del x
            str()
            x = [2]
            x.append(3)
            return x
        """,
        expected="""
        bound x 2 [1]
        deleted x 3 None
        bound x 5 [2]
        maybe x 6 [2, 3]
        """,
    ),
    Program(
        "recursive definition in a default",
        """
        def f(n, g=lambda x: x * 2):
            x = g(n)
            return x
        """,
        run="f(2)",
        expected="""
        bound x 2 4
        """,
    ),
    Program(
        "ternary and short circuits",
        """
        def f(x):
            y = x.append(1) if not x else x.append(2)
            return x and x.pop() or y
        """,
        run="f([])",
        expected="""
        given x 1 []
        maybe x 2 [1]
        maybe x 3 []
        """,
    ),
    Program(
        "loop in loop in try",
        """
        def f(x):
            for i in range(2):
                for j in range(2):
                    try:
                        if i == j:
                            continue
                        x.append((i, j))
                    finally:
                        y = i + j
            return x
        """,
        run="f([])",
        wanted="x y",
        expected="""
        given x 1 []
        bound y 9 0
        maybe x 7 [(0, 1)]
        maybe y 7 0
        bound y 9 1
        maybe x 7 [(0, 1), (1, 0)]
        maybe y 7 1
        bound y 9 1
        bound y 9 2
        """,
    ),
    Program(
        "decorated inside",
        """
        def f(x):
            def mark(g):
                x.append(g.__name__)
                return g
            @mark
            def g(y): return y
            return g(x)
        """,
        run="f([])",
        expected="""
        given x 1 []
        maybe x 3 ['g']
        maybe x 6 ['g']
        maybe x 7 ['g']
        """,
    ),
    Program(
        "pass, constants, nothing",
        """
        def f(x):
            pass
            ...
            'text'
            x
            return
        """,
        run="f(1)",
        expected="""
        given x 1 1
        """,
    ),
    Program(
        "async comprehension and await in a return",
        """
        async def g(v):
            return v
        async def f(x):
            return [await g(v) for v in x], await g(x)
        """,
        run="asyncio.run(f([1]))",
        expected="""
        given x 3 [1]
        maybe x 4 [1]
        """,
    ),
    Program(
        "type alias",
        """
        def f():
            type x = int
            y = x.__value__
            return y.__name__
        """,
        wanted="x y",
        since=(3, 12),
        expected="""
        bound x 2 x
        bound y 3 type int
        """,
    ),
    Program(
        "type parameters",
        """
        def f[T](x: T) -> T:
            y: T = x
            class C[U](list[U]):
                def g[V](self, x: V) -> V:
                    x = (T.__name__, x)
                    return x
            return C().g(y)
        """,
        run="f(1)",
        wanted="x y",
        since=(3, 12),
        expected="""
        given x 1 1
        bound y 2 1
        maybe x 3 1
        maybe y 3 1
        given x 4 1
        bound x 5 ('T', 1)
        maybe x 7 1
        maybe y 7 1
        """,
    ),
    Program(
        "method of a generic class",
        """
        class C[T]:
            def f(self, x):
                x = (self.__class__.__name__, x)
                return x
        """,
        run="C().f(1)",
        target="C.f",
        since=(3, 12),
        expected="""
        given x 2 1
        bound x 3 ('C', 1)
        """,
    ),
    Program(
        "the name is bound although the assignment fails",
        """
        def f(pair):
            x = [0]
            x, x[5] = pair
        """,
        run="f(([1], 2))",
        expected="""
        bound x 2 [0]
        maybe x 3 [1]
        """,
    ),
    Program(
        "a generator left open",
        """
        def f(x):
            with contextlib.nullcontext(x) as y:
                yield y
                x.append(1)
        """,
        run="next(f([]))",
        wanted="x y",
        expected="""
        given x 1 []
        bound y 2 []
        maybe x 2 []
        maybe x 3 []
        maybe y 3 []
        maybe x 2 []
        maybe y 2 []
        """,
    ),
    Program(
        "class in a class in a function",
        """
        def f():
            class A:
                if True:
                    class B:
                        def g(self, x):
                            return x
            return A.B().g(1)
        """,
        expected="""
        given x 5 1
        """,
    ),
    Program(
        "a decorated class",
        """
        def f(x):
            def mark(c):
                x.append(c.__name__)
                return c
            @mark
            class C:
                pass
            return C.__name__
        """,
        run="f([])",
        expected="""
        given x 1 []
        maybe x 3 ['C']
        maybe x 6 ['C']
        """,
    ),
    Program(
        "global bound in a nested function",
        """
        total = 0
        def f():
            def add(n):
                global total
                total += n
            add(2)
            return total
        """,
        wanted="total",
        expected="""
        bound total 5 2
        maybe total 6 2
        """,
    ),
    Program(
        "keyword-only lambda with walrus",
        """
        def f():
            g = lambda *, x: (y := x * 2) + y
            return g(x=3)
        """,
        wanted="x y",
        expected="""
        given x 2 3
        bound y 2 6
        """,
    ),
    Program(
        "while, continue and else",
        """
        def f(x):
            while x:
                if x.pop() % 2:
                    continue
                y = list(x)
            else:
                y = 'done'
            return y
        """,
        run="f([2, 3])",
        wanted="x y",
        expected="""
        given x 1 [2, 3]
        maybe x 3 [2]
        maybe x 3 []
        bound y 5 []
        maybe x 5 []
        bound y 7 'done'
        """,
    ),
    Program(
        "an unbound variable is still an error",
        """
        def f(n):
            if n:
                x = 1
            str(n)
            return x
        """,
        run="f(0)",
    ),
    Program(
        "the same exception, with its context",
        """
        def f(x):
            try:
                x.index(5)
            except ValueError:
                x.append(1)
                x.remove(9)
        """,
        run="f([])",
        expected="""
        given x 1 []
        maybe x 3 []
        maybe x 5 [1]
        maybe x 6 [1]
        """,
    ),
    Program(
        "a global deleted by somebody else",
        """
        x = 0
        def forget():
            global x
            del x
        def f():
            global x
            x = 1
            forget()
            return 'done'
        """,
        expected="""
        bound x 7 1
        """,
    ),
    Program(
        "names bound later in a while loop",
        """
        def f():
            n = 2
            while n:
                n = n - 1
                str(n)
                x = [n]
            return x
        """,
        expected="""
        bound x 6 [1]
        maybe x 5 [1]
        bound x 6 [0]
        """,
    ),
    Program(
        "return inside with",
        """
        @contextlib.contextmanager
        def opened(x):
            yield
            x.append('out')
        def f(x):
            with opened(x):
                return x.append('in')
        """,
        run="f([])",
        expected="""
        given x 5 []
        maybe x 6 []
        maybe x 7 ['in']
        maybe x 6 ['in', 'out']
        """,
    ),
    Program(
        "walrus in a guard",
        """
        def f(v):
            match v:
                case n if (x := n * 2) > 5:
                    return x
                case _ if (y := [v]).append(1):
                    pass
            return x, y
        """,
        run="[f(1), f(3)]",
        wanted="x y",
        expected="""
        bound x 3 2
        bound y 5 [1]
        maybe x 5 2
        maybe y 5 [1, 1]
        bound x 3 6
        """,
    ),
    Program(
        "variables of nested comprehensions",
        """
        x = y = 'global'
        def f():
            rows = [[(x, y) for y in (1,)] for x in (2,)]
            str(rows)
            return rows
        """,
        wanted="x y",
    ),
    Program(
        "a parameter lost by except as",
        """
        def f(x):
            try:
                1 / 0
            except ZeroDivisionError as x:
                pass
            str()
            return 'done'
        """,
        run="f(1)",
        expected="""
        given x 1 1
        bound x 4 ZeroDivisionError('division by zero')
        """,
    ),
]
