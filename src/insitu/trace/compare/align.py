"""Align two sequences: which items of one belong to which items of the other, in order.

The method suits runs, where nearly all is the same. Equal ends are taken off first. Items that occur once on each side
are tied to each other, as in a patience diff, and what is between them goes through Myers' greedy search. That search
gives up after some differences, keeps the best beginning it has found, and goes on from there, so that no input takes
quadratic time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

MOST_DIFFERENCES = 64  # of one search

Tokens = Sequence[Hashable]
Match = tuple[int, int]
_Range = tuple[int, int, int, int]


def align(a: Tokens, b: Tokens) -> list[Match]:
    """The places of the items that are the same on both sides, in ascending order.

    >>> align("abcabd", "abxabd")
    [(0, 0), (1, 1), (3, 3), (4, 4), (5, 5)]
    """
    pairs: list[Match] = []
    waiting: list[_Range] = [(0, len(a), 0, len(b))]
    while waiting:
        middle = _without_ends(a, b, waiting.pop(), pairs)
        if middle is None:
            continue
        ties = _ties(a, b, middle)
        pairs += ties or _search(a, b, middle)
        if ties:
            waiting += _between(ties, middle)
    pairs.sort()
    return pairs


def _without_ends(a: Tokens, b: Tokens, within: _Range, pairs: list[Match]) -> _Range | None:
    """The range without what is the same at its beginning and its end, which is added to the pairs."""
    start_a, end_a, start_b, end_b = within
    length = min(end_a - start_a, end_b - start_b)
    head = 0
    while head < length and a[start_a + head] == b[start_b + head]:
        head += 1
    pairs += zip(range(start_a, start_a + head), range(start_b, start_b + head), strict=True)
    length -= head
    tail = 0
    while tail < length and a[end_a - tail - 1] == b[end_b - tail - 1]:
        tail += 1
    pairs += zip(range(end_a - tail, end_a), range(end_b - tail, end_b), strict=True)
    if tail == length:  # one side has nothing left
        return None
    return start_a + head, end_a - tail, start_b + head, end_b - tail


def _between(ties: list[Match], within: _Range) -> Iterator[_Range]:
    """The ranges before, between and after items that are tied to each other."""
    start_a, end_a, start_b, end_b = within
    for here_a, here_b in [*ties, (end_a, end_b)]:
        yield start_a, here_a, start_b, here_b
        start_a, start_b = here_a + 1, here_b + 1


def _ties(a: Tokens, b: Tokens, within: _Range) -> list[Match]:
    """The longest ascending row of items that occur once on each side."""
    start_a, end_a, start_b, end_b = within
    once_b = _unique(b, start_b, end_b)
    pairs: list[Match] = []
    for token, place in _unique(a, start_a, end_a).items():
        if token in once_b:
            pairs.append((place, once_b[token]))
    return _ascending(pairs)


def _unique(tokens: Tokens, start: int, end: int) -> dict[Hashable, int]:
    """The items that occur once in a range, and their places, in ascending order."""
    part = tokens[start:end]
    counts = Counter(part)
    return {token: place for place, token in enumerate(part, start) if counts[token] == 1}


def _ascending(pairs: list[Match]) -> list[Match]:
    """The longest part of the pairs, which ascend on the left, that ascends on the right too."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [place]
        last[length : length + 1] = [number]
    longest: list[Match] = []
    number = last[-1] if last else -1
    while number >= 0:
        longest.append(pairs[number])
        number = before[number]
    longest.reverse()
    return longest


def _search(a: Tokens, b: Tokens, within: _Range) -> list[Match]:
    """Myers' search, of items that the other side has at all; one piece after the other where there is much to find."""
    start_a, end_a, start_b, end_b = within
    known_a, known_b = set(a[start_a:end_a]), set(b[start_b:end_b])
    here_a = [index for index in range(start_a, end_a) if a[index] in known_b]
    here_b = [index for index in range(start_b, end_b) if b[index] in known_a]
    tokens_a, tokens_b = list(map(a.__getitem__, here_a)), list(map(b.__getitem__, here_b))
    pairs: list[Match] = []
    x = y = 0
    while x < len(here_a) and y < len(here_b):
        found, x, y = _Piece(tokens_a, tokens_b, x, y).search()
        pairs += [(here_a[i], here_b[j]) for i, j in found]
    return pairs


class _Piece:
    """A bounded search from a place on; `_trail` is what was reached before each difference.

    A diagonal is the difference of the two places in the piece; `_shift` is that of its start.
    """

    def __init__(self, a: Tokens, b: Tokens, start_a: int, start_b: int) -> None:
        self._a, self._b = a, b
        self._start = start_a + start_b
        self._shift = start_a - start_b
        self._reached = {1: start_a}
        self._trail: list[dict[int, int]] = []

    def search(self) -> tuple[list[Match], int, int]:
        """The pairs up to the end or to the best place that the search reaches, and that place."""
        length_a, length_b = len(self._a), len(self._b)
        best, best_diagonal, depth = self._start, 0, 0
        for differences in range(MOST_DIFFERENCES + 1):
            self._trail.append(dict(self._reached))
            for diagonal in range(-differences, differences + 1, 2):
                x, y = self._go_on(diagonal, differences)
                if x >= length_a and y >= length_b:
                    return self._pairs(diagonal, x), length_a, length_b
                is_inside = x <= length_a and y <= length_b
                if is_inside and x + y > best:
                    best, best_diagonal, depth = x + y, diagonal, differences
        del self._trail[depth + 1 :]
        x = (best + best_diagonal + self._shift) // 2
        return self._pairs(best_diagonal, x), x, best - x

    def _go_on(self, diagonal: int, differences: int) -> tuple[int, int]:
        """Make one more difference, and go on along a diagonal as long as both sides are the same."""
        a, b, reached = self._a, self._b, self._reached
        is_from_above = _comes_from_above(diagonal, differences, reached)
        x = reached[diagonal + 1] if is_from_above else reached[diagonal - 1] + 1
        y = x - diagonal - self._shift
        most = min(len(a) - x, len(b) - y)
        same = 0
        while same < most and a[x + same] == b[y + same]:
            same += 1
        reached[diagonal] = x + same
        return x + same, y + same

    def _pairs(self, diagonal: int, x: int) -> list[Match]:
        """The pairs on the way to a place, found from its end."""
        pairs: list[Match] = []
        for differences, reached in reversed(list(enumerate(self._trail))):
            if _comes_from_above(diagonal, differences, reached):
                before = diagonal + 1
                corner = reached[before]
            else:
                before = diagonal - 1
                corner = reached[before] + 1
            offset = diagonal + self._shift
            pairs += [(place, place - offset) for place in range(x - 1, corner - 1, -1)]
            x, diagonal = reached[before], before
        pairs.reverse()
        return pairs


def _comes_from_above(diagonal: int, differences: int, reached: dict[int, int]) -> bool:
    """Whether the best way to a diagonal skips an item of b, rather than one of a."""
    if diagonal == -differences:
        return True
    if diagonal == differences:
        return False
    return reached.get(diagonal - 1, -1) < reached.get(diagonal + 1, -1)
