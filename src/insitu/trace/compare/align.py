"""Two sequences, put side by side: which items of the one are which of the other, in order.

Made for runs, where nearly all is the same: equal ends are taken off, items that occur once on either side are tied
to each other (as in a patience diff), and what lies between goes through Myers' greedy search. That search gives up
after some differences, keeps the best beginning it has found, and goes on from there: so no input takes quadratic time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence

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
        start_a, end_a, start_b, end_b = _without_ends(a, b, waiting.pop(), pairs)
        if start_a == end_a or start_b == end_b:
            continue
        ties = _ties(a, b, (start_a, end_a, start_b, end_b))
        if not ties:
            pairs += _searched(a, b, (start_a, end_a, start_b, end_b))
            continue
        pairs += ties
        before = (start_a, start_b)
        for here_a, here_b in [*ties, (end_a, end_b)]:
            waiting.append((before[0], here_a, before[1], here_b))
            before = (here_a + 1, here_b + 1)
    pairs.sort()
    return pairs


def _without_ends(a: Tokens, b: Tokens, within: _Range, pairs: list[Match]) -> _Range:
    """The range without what is the same at its beginning and its end, which is added to the pairs."""
    start_a, end_a, start_b, end_b = within
    while start_a < end_a and start_b < end_b and a[start_a] == b[start_b]:
        pairs.append((start_a, start_b))
        start_a, start_b = start_a + 1, start_b + 1
    while start_a < end_a and start_b < end_b and a[end_a - 1] == b[end_b - 1]:
        end_a, end_b = end_a - 1, end_b - 1
        pairs.append((end_a, end_b))
    return start_a, end_a, start_b, end_b


def _ties(a: Tokens, b: Tokens, within: _Range) -> list[Match]:
    """The longest ascending row of items that occur once on each side."""
    start_a, end_a, start_b, end_b = within
    counts_a, counts_b = Counter(a[start_a:end_a]), Counter(b[start_b:end_b])
    once = {token for token, count in counts_a.items() if count == 1 and counts_b.get(token) == 1}
    if not once:
        return []
    places = {b[index]: index for index in range(start_b, end_b) if b[index] in once}
    return _ascending([(index, places[a[index]]) for index in range(start_a, end_a) if a[index] in once])


def _ascending(pairs: list[Match]) -> list[Match]:
    """The longest part of the pairs, which ascend on the left, that ascends on the right too."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        before.append(last[length - 1] if length else -1)
        if length == len(ends):
            ends.append(place)
            last.append(number)
        else:
            ends[length], last[length] = place, number
    chosen: list[Match] = []
    number = last[-1]
    while number >= 0:
        chosen.append(pairs[number])
        number = before[number]
    chosen.reverse()
    return chosen


def _searched(a: Tokens, b: Tokens, within: _Range) -> list[Match]:
    """Myers' search, of items that the other side has at all; one piece after the other where there is much to find."""
    start_a, end_a, start_b, end_b = within
    known_a, known_b = set(a[start_a:end_a]), set(b[start_b:end_b])
    here_a = [index for index in range(start_a, end_a) if a[index] in known_b]
    here_b = [index for index in range(start_b, end_b) if b[index] in known_a]
    tokens_a, tokens_b = [a[index] for index in here_a], [b[index] for index in here_b]
    pairs: list[Match] = []
    x = y = 0
    while x < len(tokens_a) and y < len(tokens_b):
        found, x, y = _piece(tokens_a, tokens_b, x, y)
        pairs += [(here_a[i], here_b[j]) for i, j in found]
    return pairs


def _piece(a: Tokens, b: Tokens, start_a: int, start_b: int) -> tuple[list[Match], int, int]:
    """The pairs from a place on, up to the end or to the best place that a bounded search reaches."""
    length_a, length_b = len(a), len(b)
    reached = {1: start_a}
    trail: list[dict[int, int]] = []
    shift = start_a - start_b
    best = (start_a + start_b, 0, 0)
    for differences in range(MOST_DIFFERENCES + 1):
        trail.append(dict(reached))
        for k in range(-differences, differences + 1, 2):
            down = k == -differences or (k != differences and reached.get(k - 1, -1) < reached.get(k + 1, -1))
            x = reached[k + 1] if down else reached[k - 1] + 1
            y = x - k - shift
            while x < length_a and y < length_b and a[x] == b[y]:
                x, y = x + 1, y + 1
            reached[k] = x
            if x >= length_a and y >= length_b:
                return _traced(trail, k, x, shift), length_a, length_b
            if x <= length_a and y <= length_b and x + y > best[0]:
                best = (x + y, k, differences)
    total, k, depth = best
    x = (total + k + shift) // 2
    return _traced(trail[: depth + 1], k, x, shift), x, total - x


def _traced(trail: list[dict[int, int]], k: int, x: int, shift: int) -> list[Match]:
    """The pairs on the way to a place, found from its end; the trail is what was reached before each difference."""
    pairs: list[Match] = []
    for differences in range(len(trail) - 1, -1, -1):
        reached = trail[differences]
        down = k == -differences or (k != differences and reached.get(k - 1, -1) < reached.get(k + 1, -1))
        before_k = k + 1 if down else k - 1
        before_x = reached[before_k]
        corner = before_x if down else before_x + 1
        pairs += [(place, place - k - shift) for place in range(x - 1, corner - 1, -1)]
        x, k = before_x, before_k
    pairs.reverse()
    return pairs
