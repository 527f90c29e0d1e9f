"""Each kind of step back through the source, from the expression at `# HERE` to those that compute its value."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.trace.explain.slices.sources import ends, start

from insitu.trace.explain.slices.resolver import Resolver

STEPS = {
    "assignments in all branches": (
        """
        def run(flag):
            x = first()
            if flag:
                x = second()
            elif other:
                y = 1
            use(x)  # HERE
        """,
        {"first()", "second()"},
    ),
    "an assignment replaces those before it": (
        """
        def run():
            x = first()
            x = second()
            use(x)  # HERE
            x = third()
        """,
        {"second()"},
    ),
    "the end of a loop reaches its beginning": (
        """
        def run(items):
            x = first()
            for item in items:
                use(x)  # HERE
                x = second(item)
        """,
        {"first()", "second(item)"},
    ),
    "a tuple is unpacked by position": (
        """
        def run():
            a, (b, c) = first(), (second(), third())
            use(c)  # HERE
        """,
        {"third()"},
    ),
    "an augmented assignment is the sum": (
        """
        def run():
            n = 1
            n += step()
            use(n)  # HERE
        """,
        {"n + step()"},
    ),
    "with and walrus": (
        """
        def run():
            with opened() as x:
                if (y := read(x)):
                    pass
            use((x, y)[1])  # HERE
        """,
        {"read(x)"},
    ),
    "a handler and the block before it": (
        """
        def run():
            try:
                x = first()
            except ValueError:
                x = second()
            use(x)  # HERE
        """,
        {"first()", "second()"},
    ),
    "a parameter is the argument of the caller, or its default": (
        """
        def inner(a, b=default()):
            use((a, b))
            return use(b)  # HERE
        inner(1, b=other())
        inner(2)
        """,
        {"default()", "other()"},
    ),
    "a function of the user returns": (
        """
        def load(name):
            if name:
                return named(name)
            return unnamed()
        def run():
            use(load("a"))  # HERE
        """,
        {"named(name)", "unnamed()"},
    ),
    "the argument of this call, not of another": (
        """
        def same(x):
            return x
        def run():
            same(other())
            use(same(wanted()))  # HERE
        """,
        {"wanted()"},
    ),
    "an attribute is assigned by the constructor": (
        """
        class Data:
            def __init__(self, rows):
                self.rows = rows
        def run():
            data = Data(read())
            use(data.rows)  # HERE
        """,
        {"read()"},
    ),
    "a constructor of a base class": (
        """
        class Base:
            def __init__(self, rows):
                self.rows = rows
        class Data(Base):
            def __init__(self, name):
                super().__init__(read(name))
        def run():
            use(Data("a").rows)  # HERE
        """,
        {"read(name)"},
    ),
    "a field of a dataclass": (
        """
        @dataclass
        class Config:
            width: int = 3
            depth: int = 4
        def run():
            config = Config(width())
            use(config.width)  # HERE
        """,
        {"width()"},
    ),
    "the default of a field": (
        """
        @dataclass
        class Config:
            width: int = usual()
        def run():
            use(Config().width)  # HERE
        """,
        {"usual()"},
    ),
    "a property": (
        """
        class Config:
            @property
            def side(self):
                return half(self)
        def run():
            use(Config().side)  # HERE
        """,
        {"half(self)"},
    ),
    "a registered buffer": (
        """
        class Model:
            def __init__(self):
                self.register_buffer("table", make())
            def forward(self):
                use(self.table)  # HERE
        """,
        {"make()"},
    ),
    "an entry of a dict": (
        """
        def batch():
            return {"x": first(), "y": second()}
        def run():
            b = batch()
            use(b["y"])  # HERE
        """,
        {"second()"},
    ),
    "an entry that is stored later": (
        """
        def run():
            d = {}
            d["x"] = first()
            d["y"] = second()
            use(d["x"])  # HERE
        """,
        {"{}", "first()"},
    ),
    "items that are appended": (
        """
        def run(n):
            rows = []
            for i in range(n):
                rows.append(make(i))
            use(rows[-1])  # HERE
        """,
        {"[]", "make(i)"},
    ),
    "the item of a comprehension": (
        """
        def run():
            rows = [convert(field) for field in (first(), second())]
            a, b = rows
            use(b)  # HERE
        """,
        {"convert(field)"},
    ),
    "the name of a comprehension": (
        """
        def run():
            parts = (first(), second())
            a, b = [part for part in parts]
            use(b)  # HERE
        """,
        {"second()"},
    ),
    "zip and enumerate": (
        """
        def run(names):
            values = [first()]
            for i, (name, value) in enumerate(zip(names, values)):
                use(value)  # HERE
        """,
        {"first()"},
    ),
    "zip turns rows into columns": (
        """
        def run():
            rows = [(first(), second())]
            a, b = zip(*rows)
            use(b[0])  # HERE
        """,
        {"second()"},
    ),
    "a generator yields": (
        """
        def batches():
            yield first(), second()
        def run():
            for a, b in batches():
                use(b)  # HERE
        """,
        {"second()"},
    ),
    "a loader gives the samples of its dataset": (
        """
        class Rows(Dataset):
            def __init__(self, table):
                self.table = table
            def __getitem__(self, i):
                return {"x": self.table, "y": label(i)}
        def run():
            for batch in DataLoader(Rows(read()), batch_size=3):
                use(batch["x"])  # HERE
        """,
        {"read()"},
    ),
    "a collate function gets the samples": (
        """
        class Rows(Dataset):
            def __getitem__(self, i):
                return row(i), label(i)
        def collate(samples):
            return [label for _, label in samples], None
        def run():
            loader = DataLoader(Rows(), collate_fn=collate)
            for labels, nothing in loader:
                use(labels[0])  # HERE
        """,
        {"label(i)"},
    ),
    "a collate function that is a partial": (
        """
        def collate(samples, pad):
            return stack(samples, pad)
        def run():
            for batch in DataLoader(rows, collate_fn=partial(collate, pad=0)):
                use(batch)  # HERE
        """,
        {"stack(samples, pad)"},
    ),
    "an object that is called": (
        """
        class Encoder:
            def __call__(self, name):
                return number(name)
        class Data:
            def __init__(self, encoder):
                self.encoder = encoder
            def get(self):
                return self.encoder("a")
        def run():
            use(Data(Encoder()).get())  # HERE
        """,
        {"number(name)"},
    ),
    "lambda, closure and constant of the module": (
        """
        SIZE = count()
        def run():
            width = SIZE
            f = lambda n: n
            def inner():
                use(f(width))  # HERE
        """,
        {"count()"},
    ),
    "map": (
        """
        def convert(x):
            return double(x)
        def run(xs):
            a, b = map(convert, xs)
            use(b)  # HERE
        """,
        {"double(x)"},
    ),
    "the parameter of a function that map calls": (
        """
        def convert(batch):
            use(batch["x"])  # HERE
        def batches():
            yield {"x": first()}
        def run():
            return map(convert, batches())
        """,
        {"first()"},
    ),
    "the samples that a loader passes": (
        """
        class Rows:
            def __getitem__(self, i):
                return row(i)
        def collate(samples):
            use(samples[0])  # HERE
        def run():
            return DataLoader(Rows(), collate_fn=collate)
        """,
        {"row(i)"},
    ),
    "get with a default": (
        """
        def run():
            d = {"a": first()}
            use(d.get("a", second()))  # HERE
        """,
        {"first()", "second()"},
    ),
    "a conditional expression": (
        """
        def run(flag):
            use(first() if flag else second())  # HERE
        """,
        {"first()", "second()"},
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_step_leads_to_the_expressions_that_compute_the_value(tmp_path: Path, name: str) -> None:
    source, wanted = STEPS[name]
    assert ends(tmp_path, source) == wanted


def test_name_comes_from_another_file_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "helpers.py").write_text("def load():\n    return read()\n", "utf-8")
    source = "from helpers import load\ndef run():\n    use(load())  # HERE\n"
    assert ends(tmp_path, source) == {"read()"}


def test_function_that_calls_itself_ends(tmp_path: Path) -> None:
    source = "def f(n):\n    return f(n - 1)\ndef run():\n    use(f(3))  # HERE\n"
    assert ends(tmp_path, source) <= {"f(n - 1)", "f(3)"}


def test_attribute_that_is_assigned_from_itself_ends(tmp_path: Path) -> None:
    source = """
        class Chain:
            def __init__(self):
                self.next = self.next
            def run(self):
                use(self.next.next)  # HERE
    """
    assert Resolver().ends(start(tmp_path, source)) is not None


def test_function_with_many_callers_has_no_argument(tmp_path: Path) -> None:
    calls = "".join(f"inner(a{i}())\n" for i in range(9))
    assert ends(tmp_path, "def inner(a):\n    use(a)  # HERE\n" + calls) == {"a"}
