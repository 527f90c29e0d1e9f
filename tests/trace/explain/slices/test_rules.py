"""Each rule: which expression of the source explains a dtype, a size, a range, a number of dimensions, None."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.trace.explain.slices.sources import explained

from insitu.trace.explain.slices.rules.dtype_rule import dtype_rule
from insitu.trace.explain.slices.rules.none_rule import none_rule
from insitu.trace.explain.slices.rules.range_rule import range_rule
from insitu.trace.explain.slices.rules.rank_rule import rank_rule
from insitu.trace.explain.slices.rules.size_rule import ANY_SIZE, SizeRules
from insitu.trace.explain.slices.slice_walk import Rule

RULES: dict[str, tuple[Rule, str, str]] = {
    "f64 of log1p of whole numbers, not of the float32 beside it": (
        dtype_rule("f64"),
        """
        age = (rng.integers(18, 80, n).astype(np.float32) - 50.0) / np.float32(20.0)
        visits = np.log1p(np.arange(9))
        def run():
            use(np.stack([age, visits]))  # HERE
        """,
        "np.log1p(np.arange(9))",
    ),
    "f64 of a maker without a dtype": (
        dtype_rule("f64"),
        """
        def run(n):
            states = np.zeros(n, dtype=np.float32)
            actions = np.zeros(n)
            use(torch.from_numpy(np.stack([states, actions])))  # HERE
        """,
        "np.zeros(n)",
    ),
    "f64 of the maker that names no dtype": (
        dtype_rule("f64"),
        "def run():\n    a = np.ones(3, np.float32)\n    b = np.ones(3)\n    use(np.stack([a, b]))  # HERE\n",
        "np.ones(3)",
    ),
    "f64 of a division of whole numbers": (
        dtype_rule("f64"),
        "def run():\n    rate = np.arange(9) / 3\n    use(rate.reshape(3, 3))  # HERE\n",
        "np.arange(9) / 3",
    ),
    "f64 of astype(float)": (
        dtype_rule("f64"),
        "def run(x):\n    y = x.astype(float)\n    use(torch.as_tensor(y))  # HERE\n",
        "x.astype(float)",
    ),
    "f64 of an array of plain numbers": (
        dtype_rule("f64"),
        "def run(v):\n    y = np.array([float(v), 0.5])\n    use(torch.from_numpy(y))  # HERE\n",
        "np.array([float(v), 0.5])",
    ),
    "i64 of long()": (
        dtype_rule("i64"),
        "def run(x):\n    y = (x > 0).long()\n    use(y)  # HERE\n",
        "(x > 0).long()",
    ),
    "a size of an odd power": (
        ANY_SIZE.number,
        """
        def amounts(side, depth):
            unit = 2 ** (depth - 1)
            return (0, side + unit)
        def run(x):
            use(amounts(x, 3))  # HERE
        """,
        "2 ** (depth - 1)",
    ),
    "a size of a choice": (
        ANY_SIZE.number,
        "def run():\n    stride = 1 if first else 2\n    use(stride)  # HERE\n",
        "1 if first else 2",
    ),
    "a size of a count": (
        ANY_SIZE.number,
        "def count(y):\n    return len(np.unique(y[y > 0]))\ndef run(y):\n    use(count(y))  # HERE\n",
        "len(np.unique(y[y > 0]))",
    ),
    "a size that is chosen by its place": (
        SizeRules(16).number,
        "def run():\n    widths = [16, 32]\n    width = widths[0]\n    use(width)  # HERE\n",
        "widths[0]",
    ),
    "only the number that is the size": (
        SizeRules(32).number,
        "WIDTHS = [16,\n 32]\ndef run():\n    for width in WIDTHS:\n        use(width)  # HERE\n",
        "32",
    ),
    "a length of a slice, not of the values": (
        ANY_SIZE.length,
        """
        def encode(text, most):
            ids = [number(c) + 2 for c in text]
            ids = ids[:most]
            ids.append(1)
            return ids
        def run():
            use(torch.tensor(encode("abc", 2)))  # HERE
        """,
        "ids[:most]",
    ),
    "a length of a set": (
        ANY_SIZE.number,
        "def run(words):\n    kept = set(words) - {'a'}\n    use(len(kept))  # HERE\n",
        "set(words) - {'a'}",
    ),
    "a range past a count": (
        range_rule(0, 9),
        """
        class Vocab:
            def __init__(self):
                self.index = {}
            def add(self, token):
                self.index[token] = len(self.index) + 1
            def encode(self, text):
                return [self.index[word] for word in text.split()]
        def run():
            vocab = Vocab()
            use(torch.tensor(vocab.encode("a b")))  # HERE
        """,
        "len(self.index) + 1",
    ),
    "a range of bins": (
        range_rule(0, 7),
        "def run(x, edges):\n    y = np.digitize(x, edges + 1)\n    use(torch.from_numpy(y))  # HERE\n",
        "np.digitize(x, edges + 1)",
    ),
    "a range that begins with one": (
        range_rule(0, 3),
        "NAMES = {n: i for i, n in enumerate(names, start=1)}\ndef run(n):\n    use(NAMES[n])  # HERE\n",
        "enumerate(names, start=1)",
    ),
    "a number that is out of range itself": (
        range_rule(0, 3),
        "LABELS = {'a': 0,\n 'b': 7}\ndef run(n):\n    use(LABELS[n])  # HERE\n",
        "7",
    ),
    "dimensions that are squeezed": (
        rank_rule,
        "def scale(a):\n    return a.squeeze().astype(np.float32) / 255\ndef run(x):\n    use(scale(x))  # HERE\n",
        "a.squeeze()",
    ),
    "dimensions of an index": (
        rank_rule,
        "def run(x):\n    row = x[None]\n    use(row * 2)  # HERE\n",
        "x[None]",
    ),
    "a size of linspace": (
        ANY_SIZE.length,
        "def run(wave, rate):\n    n = int(len(wave) * rate)\n    use(np.linspace(0, len(wave) - 1, n))  # HERE\n",
        "int(len(wave) * rate)",
    ),
    "a size of arithmetic on an array": (
        ANY_SIZE.length,
        "def run(n):\n    t = np.arange(n + 1)\n    x = 2 * np.pi * t\n    use(np.interp(x, t, t))  # HERE\n",
        "n + 1",
    ),
    "a size of arrays that are joined": (
        ANY_SIZE.length,
        "def run(x, n):\n    a = np.repeat(x, n // 2)\n    use(np.concatenate([a, x]))  # HERE\n",
        "np.repeat(x, n // 2)",
    ),
    "None of a choice": (
        none_rule,
        "def run(mask):\n    b = {'mask': mask if mask.any() else None}\n    use(b['mask'])  # HERE\n",
        "mask if mask.any() else None",
    ),
    "None of a function that ends without a value": (
        none_rule,
        """
        def make(kind):
            if kind == "a":
                return A()
        def run():
            x = make("b")
            use(x)  # HERE
        """,
        'make("b")',
    ),
    "None of a look-up": (
        none_rule,
        "def run(table):\n    x = table.get('a')\n    use(x)  # HERE\n",
        "table.get('a')",
    ),
    "None of a method that changes its object": (
        none_rule,
        "def run(rows):\n    x = rows.sort()\n    use(x)  # HERE\n",
        "rows.sort()",
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_best_expression_explains_the_fact(tmp_path: Path, name: str) -> None:
    rule, source, wanted = RULES[name]
    assert explained(tmp_path, source, rule)[:1] == [wanted]


def test_float32_is_not_explained_by_what_makes_float64(tmp_path: Path) -> None:
    source = "def run(n):\n    a = np.zeros(n)\n    use(a.astype(np.float32))  # HERE\n"
    assert explained(tmp_path, source, dtype_rule("f64")) == []


def test_function_that_always_returns_is_not_a_source_of_none(tmp_path: Path) -> None:
    source = """
        def make(kind):
            if kind:
                return 1
            else:
                raise ValueError
        def run():
            use(make(1))  # HERE
    """
    assert explained(tmp_path, source, none_rule) == []
