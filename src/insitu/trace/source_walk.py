"""Follows calls through the source: which loops they are in, where a pass begins, and which function calls which.

Calls that follow each other come with their positions. A pass of a loop begins where the position in the body of the
loop goes back: to an earlier statement, to another arm of a condition, or to an expression that was evaluated already.
Where a position goes back outside of any loop, the function was called again: in the next pass of a loop around the
call, if the source calls the function by its name, else by code that is not shown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from insitu.trace.bundle import Bundle, Entry, EvaluatedExpression
from insitu.trace.event import Call, Event, Loop, TensorFacts
from insitu.trace.operation import own_name
from insitu.trace.place import Place, Position


class Way(Enum):
    """How a position follows the one before, in the outermost function where they differ."""

    SAME = auto()
    OUTWARD = auto()  # at a place that called the position before
    INWARD = auto()  # in a function that is called from the position before
    ELSEWHERE = auto()  # in another function, which the same place calls
    FORWARD = auto()
    WITHIN = auto()  # in the same statement
    BACK = auto()  # at an earlier statement, or in another arm of a condition


@dataclass(slots=True, frozen=True)
class Move:
    """The way from one position to another. `depth` is that of the outermost function where they differ.

    `loops` is how many loops of that function both positions are in.
    """

    way: Way
    depth: int
    loops: int = 0


@dataclass(slots=True, eq=False)
class CallFrame:
    """A function that runs: where it is, the loops that it runs, and the expressions of the statement so far.

    What was collected is in `bodies`: that of the function and, for each loop, that of the pass. Each loop has a
    bundle in `bundles`. The statement that is not over has its expressions in `expressions`.
    """

    place: Place
    is_library: bool = False
    loops: list[Loop] = field(default_factory=list)
    evaluated: set[tuple[int, str | None]] = field(default_factory=set)
    bodies: list[list[Entry]] = field(default_factory=list)
    bundles: list[Bundle] = field(default_factory=list)
    expressions: list[EvaluatedExpression] = field(default_factory=list)


class SourceWalk:
    """Goes from position to position. Subclasses learn what the source does between the calls."""

    def __init__(self) -> None:
        self.frames: list[CallFrame] = []
        self._position = Position((), -1)
        # The event that brought the walk to the position; None once the same expression has made another call there.
        self._event: Event | None = None
        self._moves: dict[tuple[Position, Position], Move] = {}

    def open_function(self, frame: CallFrame) -> None:
        """The last of `frames` calls a function."""

    def close_function(self, frame: CallFrame) -> None:
        """The function returns; its loops are over."""

    def leave_statement(self, frame: CallFrame) -> None:
        """The function leaves the statement that it is at, at least for this pass."""

    def open_loop(self, frame: CallFrame, loop: Loop) -> None:
        """The first pass of a loop begins."""

    def begin_pass(self, frame: CallFrame) -> None:
        """Another pass of the innermost loop begins."""

    def close_loop(self, frame: CallFrame) -> None:
        """The innermost loop is over."""

    def go(self, position: Position, event: Event) -> None:
        """Go to the position of the next event."""
        if position is self._position:
            if _runs_again(self._event, event, position.places[-1]):
                self._repeat(position, len(position.places) - 1, len(position.places[-1].loops))
            else:
                self._event = None
            return
        move = self._moves.get((self._position, position))
        if move is None:
            move = self._moves[self._position, position] = _move(self._position.places, position.places)
        if move.way is Way.OUTWARD:  # what it called is not over: a generator goes on
            return
        self._follow(move, position, event)
        self._position, self._event = position, event

    def finish(self) -> None:
        """Close everything."""
        self._close(0)

    def _follow(self, move: Move, position: Position, event: Event) -> None:
        """Make a move: on in the source, or back, which is another pass or another call."""
        depth = move.depth
        goes_back = move.way is Way.BACK
        if move.way is Way.WITHIN and _is_distinct(event, position.places[depth]):
            goes_back = _expression(position, depth, event) in self.frames[depth].evaluated
        if goes_back:
            self._repeat(position, depth, move.loops)
        else:
            self._forward(position, move)
        for level in range(depth, len(position.places)):
            self.frames[level].evaluated.add(_expression(position, level, event))

    def _forward(self, position: Position, move: Move) -> None:
        """Go on in the outermost function where the positions differ, or into another function at that depth."""
        depth = move.depth
        if move.way in (Way.INWARD, Way.ELSEWHERE):
            self._close(depth)
        else:
            self._close(depth + 1)
            self._arrive(self.frames[depth], position.places[depth], move.loops)
            depth += 1
        self._open(position.places[depth:])

    def _repeat(self, position: Position, depth: int, loops: int) -> None:
        """A function comes to a place again: in the next pass of so many loops that run, or in another call of it."""
        places = position.places
        level = depth
        while not loops:
            if level == 0:  # nothing says what repeats it
                level = depth
                break
            if not places[level - 1].calls(places[level].function_name):
                break
            level -= 1
            loops = len(places[level].loops)
        if loops:
            self._next_pass(position, level, loops)
        else:
            self._close(level)
            self._open(places[level:])

    def _next_pass(self, position: Position, depth: int, loops: int) -> None:
        """Begin another pass of the innermost of so many loops of a function."""
        self._close(depth + 1)
        frame = self.frames[depth]
        self.leave_statement(frame)
        self._close_loops(frame, loops)
        self.begin_pass(frame)
        frame.evaluated.clear()
        self._arrive(frame, position.places[depth], loops)
        self._open(position.places[depth + 1 :])

    def _arrive(self, frame: CallFrame, place: Place, loops: int) -> None:
        """Go on at a place of a function, in so many of its loops."""
        before = frame.place
        is_new = place.statement != before.statement or place.loops != before.loops
        if is_new:
            self.leave_statement(frame)
            frame.evaluated.clear()
        self._close_loops(frame, loops)
        frame.place = place
        for loop in place.loops[len(frame.loops) :]:
            self.open_loop(frame, loop)
            frame.loops.append(loop)

    def _open(self, places: tuple[Place, ...]) -> None:
        """Call functions, each from the one before."""
        for place in places:
            frame = CallFrame(place)
            self.open_function(frame)
            self.frames.append(frame)
            self._arrive(frame, place, 0)

    def _close(self, depth: int) -> None:
        """Return from all functions from this depth on, the innermost first."""
        while len(self.frames) > depth:
            frame = self.frames[-1]
            self.leave_statement(frame)
            self._close_loops(frame, 0)
            self.close_function(frame)
            self.frames.pop()

    def _close_loops(self, frame: CallFrame, left: int) -> None:
        """End loops of a function, the innermost first, until so many are left."""
        while len(frame.loops) > left:
            self.close_loop(frame)
            frame.loops.pop()


def _expression(position: Position, level: int, event: Event) -> tuple[int, str | None]:
    """The expression that a function evaluates. The operator tells apart the two that `x[0] += y` evaluates there."""
    number = position.places[level].number
    if level == len(position.places) - 1:
        return number, getattr(event, "operator", None)
    return number, None


def _is_distinct(event: Event, place: Place) -> bool:
    """Whether a statement makes a call at a place only once, as far as known.

    Where an expression spans lines, its columns are not known: `a + b + 1` has two operators at the same place.
    """
    is_operator = getattr(event, "operator", None) is not None
    if is_operator and not place.has_columns:
        return False
    return not _is_conversion(event)


def _is_conversion(event: Event) -> bool:
    """Whether Python itself made a call, as of `__bool__`: a statement may do so several times at the same place."""
    return type(event) is Call and event.operator is None and own_name(event.kind, event.name).startswith("__")


def _move(before: tuple[Place, ...], after: tuple[Place, ...]) -> Move:
    """The move between the places of two positions, which are the same up to some depth."""
    depth = _common_length(before, after)
    if depth == len(after):
        return Move(Way.OUTWARD, depth)
    if depth == len(before):
        return Move(Way.INWARD, depth)
    one, other = before[depth], after[depth]
    if one.function != other.function:
        return Move(Way.ELSEWHERE, depth)
    return Move(_way(one, other), depth, _common_length(one.loops, other.loops))


def _way(one: Place, other: Place) -> Way:
    """How one place of a function follows another one."""
    if one.site.nesting is None or other.site.nesting is None:
        return Way.FORWARD
    if one.excludes(other):
        return Way.BACK
    if other.statement == one.statement:
        return Way.WITHIN
    if other.statement > one.statement:
        return Way.FORWARD
    return Way.BACK


def _common_length(one: tuple[object, ...], other: tuple[object, ...]) -> int:
    """The number of leading items that two tuples share."""
    for index, (item, counterpart) in enumerate(zip(one, other, strict=False)):
        if item != counterpart:
            return index
    return min(len(one), len(other))


def _runs_again(before: Event | None, event: Event, place: Place) -> bool:
    """Whether the expression at a place was evaluated again: it made the same call, and makes only one each time."""
    if type(event) is not Call or type(before) is not Call:
        return False
    if event.name != before.name or event.kind != before.kind:
        return False
    if event.kind == "module":
        return event.module is before.module
    if event.operator is not None and not place.has_columns:
        return False
    if event.operator is not None:
        return not event.operator.startswith("[]") or _first_tensor(event) == _first_tensor(before)
    return place.calls(own_name(event.kind, event.name))


def _first_tensor(call: Call) -> int | None:
    """The tensor that is indexed. A dataset indexes several of them for one item."""
    if call.args and type(call.args[0]) is TensorFacts:
        return call.args[0].id
    return None
