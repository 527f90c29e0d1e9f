"""Reports put into the syntax tree of a function: after each binding, and wherever an object may have changed."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from insitu.capture.variables.follow.nodes import (
    ANY_ERROR,
    NAME_ERROR,
    catching,
    in_sequence,
    is_docstring,
    put_at,
    unplaced,
)
from insitu.capture.variables.follow.report_plan import SUITES, Moment, ReportPlan
from insitu.capture.variables.follow.scopes import (
    LAMBDA,
    TYPE_ALIAS,
    UNSEEN,
    Block,
    Function,
    captured,
    changed_names,
    children,
    evaluated,
    first_line,
    names_in,
    parameters,
    scope_of,
    targets_of,
)

# A name for `global` that declares nothing: it replaces declarations that were moved to the top of their function.
NOTHING = "insitu: moved"
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)


def insert(function: Function | ast.Module, plan: ReportPlan) -> None:
    """Put the reports into a function or a module, in place; the first one says that it was entered."""
    outer, plan.is_reported = plan.is_reported, False
    plan.depth += 1
    if isinstance(function, ast.Lambda):
        into_lambda(function, plan)
    else:
        ReportInserter(function, plan).insert()
    plan.is_reported = outer
    plan.depth -= 1


class ReportInserter:
    """Puts the reports into one function or module, statement by statement, in order."""

    def __init__(self, function: Block, plan: ReportPlan) -> None:
        self.function = function
        self.plan = plan
        self.scope = scope = scope_of(function)
        self.own = scope.bound.union(scope.parameters)
        others = sorted((self.own | scope.read).difference(scope.parameters))
        self.followed = [name for name in (*scope.parameters, *others) if self._is_followed(name)]
        # Names that may be bound, and names that are bound for certain, where the next report is put in.
        self.possible = (scope.read - scope.bound).union(scope.parameters, scope.shared)
        self.unsure = scope.lost | scope.shared
        self.sure = set(scope.parameters) - self.unsure
        self.declarations: list[ast.stmt] = []

    def _is_followed(self, name: str) -> bool:
        return self.plan.wanted(name) and (name in self.own or not self.plan.is_builtin(name))

    def insert(self) -> None:
        """Put the reports in, in place."""
        body = self.function.body
        start = beginning(body)
        if isinstance(self.function, ast.Module) and start == len(body):
            return
        node, first = self._entrance(start)
        entry = self.reports("given", self.plan.select(self.scope.parameters), node, first)
        last = self._end(node)
        rest = self.block(body[start:])
        if self.plan.is_reported:
            entry = [*self.reports("entered", [""], node, first), *entry]
        if last and rest:
            rest = [unplaced(ast.Try(body=rest, handlers=[], orelse=[], finalbody=last))]
        self.function.body = [*body[:start], *self.declarations, *entry, *rest]

    def _entrance(self, start: int) -> tuple[Any, Any]:
        """The node whose line the first reports have, and the node in whose place they are."""
        node = self.function
        if isinstance(node, ast.Module):
            return node.body[start], node.body[start]
        return node, self.plan.first_places.get((node.name, first_line(node)))

    def _end(self, node: ast.stmt) -> list[ast.stmt]:
        """The report that the function has ended, if it is wanted."""
        if self.plan.extras.ends and self.plan.depth == 1:
            return self.reports("left", [""], node)
        return []

    def block(self, nodes: list[ast.stmt], sure: Iterable[str] = ()) -> list[ast.stmt]:
        """The statements of a suite with their reports; `sure` are the names that are bound whenever the suite runs."""
        before = self.sure
        self.sure = before | (set(sure) - self.unsure)
        done = [new for node in nodes for new in self.statement(node)]
        self.sure = before
        return done

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        """A statement with the reports that belong to it."""
        done = self._reported(node)
        if self.plan.extras.definitions and isinstance(node, DEFINITIONS):
            done += self.reports("defined", [""], node)
        return done

    def _reported(self, node: ast.stmt) -> list[ast.stmt]:
        """A statement with the reports of its variables."""
        match node:
            case ast.Global() | ast.Nonlocal():
                return [self.move_to_top(node)]
            case ast.If() | ast.While():
                return self.test(node)
            case ast.For() | ast.AsyncFor():
                return self.loop(node)
            case ast.With() | ast.AsyncWith():
                return self.context(node)
            case ast.Match():
                return self.match(node)
            case ast.Try() | ast.TryStar():
                return self.attempt(node)
        return self.simple(node)

    def simple(self, node: ast.stmt) -> list[ast.stmt]:
        """A statement without a suite of the same function."""
        names = self.plan.select(bound_by(node))
        others = self.followed_except(names)
        fresh = set(names) - self.possible
        changing = self.plan.may_change(node)
        self.header(node)
        self.inside(node)
        if not changing:
            return [node, *self.changed_names(node, names)]
        if isinstance(node, ast.Return):
            return self.reporting_end(node, others, need=1)
        body = self.reporting_errors(node, self.followed_except(fresh), need=1)
        body += self.changed_names(node, names)
        return [*body, *self.maybes(node, others)]

    def followed_except(self, names: Collection[str]) -> list[str]:
        """The names that are followed, without some."""
        return [name for name in self.followed if name not in names]

    def changed_names(self, node: ast.stmt, names: list[str]) -> list[ast.stmt]:
        """The reports of the names that a statement binds or deletes; from now on they are bound."""
        self.sure |= set(names) - self.unsure
        if isinstance(node, ast.Delete):
            return self.reports("deleted", names, node)
        return self.bindings(names, node)

    def inside(self, node: ast.stmt) -> None:
        """Put the reports into the functions that a statement defines."""
        if self.plan.is_deep:
            for function in functions_of(node):
                insert(function, self.plan)

    def test(self, node: ast.If | ast.While) -> list[ast.stmt]:
        """`if` and `while`: what the test may have changed is reported on both ways that lead on from it."""
        changing, first = self.plan.may_change(node), self.passes(node)
        self.header(node)
        if isinstance(node, ast.While):
            self.possible |= names_in([node]).bound
        node.body = [*first, *self.start(node, changing), *self.block(node.body)]
        node.orelse = [*self.start(node, changing), *self.block(node.orelse)]
        return self.reporting_errors(node, self.followed if changing else [], need=2)

    def loop(self, node: ast.For | ast.AsyncFor) -> list[ast.stmt]:
        """`for`: what it binds is reported first in its body."""
        changing, names, first = self.plan.may_change(node), bound_by(node), self.passes(node)
        self.header(node)
        self.possible |= names_in([node]).bound
        others = self.followed_except(names) if changing else []
        bindings = self.bindings(self.plan.select(names), node)
        node.body = [*first, *bindings, *self.maybes(node, others), *self.block(node.body, names)]
        node.orelse = [*self.start(node, changing), *self.block(node.orelse)]
        return self.reporting_errors(node, self.followed if changing else [], need=2)

    def passes(self, node: ast.AST) -> list[ast.stmt]:
        """The report that a pass begins, of a loop that changes a wanted variable."""
        is_loop = isinstance(node, ast.For | ast.AsyncFor | ast.While)
        if self.plan.extras.passes and is_loop and self.plan.select(changed_names([node])):
            return self.reports("pass", [""], node)
        return []

    def context(self, node: ast.With | ast.AsyncWith) -> list[ast.stmt]:
        """`with`: entering and leaving run code of the context manager."""
        names = bound_by(node)
        self.header(node)
        node.body = [*self.start(node, True, names), *self.block(node.body, names)]
        return self.reporting_end(node, self.followed, need=2)

    def match(self, node: ast.Match) -> list[ast.stmt]:
        """`match`: captures are reported before the guard, for they stay bound when it fails."""
        changing = self.plan.may_change(node.subject)
        self.header(node)
        if not is_irrefutable(node.cases[-1]):
            node.cases = [*node.cases, empty_case(node.cases[-1])]
        guarded: ast.pattern | None = None  # that of the last case whose guard may change something
        for case in node.cases:
            if self.plan.may_change(case.guard):
                guarded = case.pattern
            self.case(case, node if changing else None, guarded)
        node.cases = [case for case in node.cases if case.body]
        names = self.followed if changing or guarded else []
        return self.reporting_errors(node, names, need=2)

    def case(self, case: ast.match_case, changing: ast.Match | None, guarded: ast.pattern | None) -> None:
        """One case: what it captures, and what the subject and the guards up to here may have changed."""
        names = sorted(names_in([case.pattern]).bound)
        self.header(case, case.pattern.lineno)
        self.possible.update(names)
        first = self.start(case.pattern, False, names)
        if case.guard is not None and first:
            case.guard, first = in_sequence([one.value for one in first], case.guard, []), []
        if changing is not None:
            first += self.maybes(changing, self.followed_except(names), case.pattern)
        if guarded is not None:
            first += self.maybes(guarded, self.followed, case.pattern)
        case.body = [*first, *self.block(case.body, names)]

    def attempt(self, node: ast.Try | ast.TryStar) -> list[ast.stmt]:
        """`try`: the parts are blocks of their own."""
        node.body = self.block(node.body)
        for handler in node.handlers:
            changing = self.plan.may_change(handler.type)
            self.header(handler, handler.lineno)
            names = [handler.name] if handler.name else []
            self.possible.update(names)
            handler.body = [*self.start(handler, changing, names), *self.block(handler.body)]
        node.orelse = self.block(node.orelse)
        node.finalbody = self.block(node.finalbody)
        return [node]

    def header(self, node: Any, line: int | None = None) -> None:
        """Report what the expressions of a statement bind themselves, and learn the names that are bound from now."""
        own = [child for child in evaluated(node) if not isinstance(child, SUITES)]
        self.possible |= names_in(own).bound.union(captured(node))
        in_expressions(node, self.plan, line or node.lineno)

    def move_to_top(self, node: ast.Global | ast.Nonlocal) -> ast.stmt:
        """Move a declaration to the top, since no report may read the name before it; returns what replaces it."""
        self.declarations.append(unplaced(type(node)(names=node.names)))
        return ast.copy_location(ast.Global(names=[NOTHING]), node)

    def start(self, node: Any, changing: bool, names: Collection[str] = ()) -> list[Any]:
        """The reports at the start of a suite: the names that were just bound, and what the header may have changed."""
        others = self.followed_except(names) if changing else []
        return [*self.reports("bound", self.plan.select(names), node), *self.maybes(node, others)]

    def reporting_errors(self, node: ast.stmt, names: list[str], *, need: int) -> list[ast.stmt]:
        """The statement, and reports of the names when it raises."""
        last = self.maybes(node, names)
        if self.plan.guards < need or not last:
            return [node]
        caught = catching(ANY_ERROR, [*last, unplaced(ast.Raise(exc=None, cause=None))])
        put_at(node, caught)
        return [unplaced(ast.Try(body=[node], handlers=[caught], orelse=[], finalbody=[]))]

    def reporting_end(self, node: ast.stmt, names: list[str], *, need: int) -> list[ast.stmt]:
        """The statement, and reports however it ends: it may return, and run other code while it does."""
        last = self.maybes(node, names)
        if self.plan.guards < need or not last:
            return [node, *last]
        return [unplaced(ast.Try(body=[node], handlers=[], orelse=[], finalbody=last))]

    def reports(self, moment: Moment, names: Iterable[str], node: Any, place: Any = None) -> list[ast.stmt]:
        """Statements that report names which are bound for certain, on the line of a node."""
        done = [unplaced(ast.Expr(value=self.plan.report(moment, name, node.lineno))) for name in names]
        put_at(place or node, *done)
        return list(done)

    def bindings(self, names: Iterable[str], node: Any) -> list[ast.stmt]:
        """Statements that report what a statement has bound."""
        done = [self.plan.binding(name, node.lineno) for name in names]
        put_at(node, *done)
        return done

    def maybes(self, node: Any, names: Iterable[str], place: Any = None) -> list[ast.stmt]:
        """Statements that report names whose object may have changed; a name that is not bound is not reported."""
        done: list[ast.stmt] = []
        for name in names:
            if name in self.sure:
                done += self.reports("maybe", [name], node, place)
            elif name in self.possible and self.plan.guards:
                done.append(self.report_if_bound(name, node, place))
        return done

    def report_if_bound(self, name: str, node: Any, place: Any) -> ast.stmt:
        """A statement that reports a name, unless the name is not bound."""
        passing = catching(NAME_ERROR, [unplaced(ast.Pass())])
        put_at(place or node, passing)
        body = self.reports("maybe", [name], node, place)
        return unplaced(ast.Try(body=body, handlers=[passing], orelse=[], finalbody=[]))


def beginning(body: list[ast.stmt]) -> int:
    """The index of the first statement that is neither a docstring nor an import from `__future__`."""
    start = int(bool(body) and is_docstring(body[0]))
    while start < len(body) and is_future_import(body[start]):
        start += 1
    return start


def is_future_import(node: ast.stmt) -> bool:
    """Whether a statement imports from `__future__`: no other statement may come before."""
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def empty_case(last: ast.match_case) -> ast.match_case:
    """A case for what no case before matches: Python does nothing there, and the reports go there."""
    wildcard = unplaced(ast.MatchAs(pattern=None, name=None))
    put_at(last.pattern, wildcard)
    return ast.match_case(pattern=wildcard, guard=None, body=[])


def is_irrefutable(case: ast.match_case) -> bool:
    """Whether a case matches everything: then it is the last one."""
    pattern: ast.pattern | None = case.pattern
    while isinstance(pattern, ast.MatchAs | ast.MatchOr):
        pattern = pattern.patterns[-1] if isinstance(pattern, ast.MatchOr) else pattern.pattern
    return case.guard is None and pattern is None


def bound_by(node: ast.AST) -> list[str]:
    """The names that a statement binds or deletes itself, in order; those in its expressions and suites left out."""
    match node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            return targets_of(*targets)
        case ast.AnnAssign(value=None):
            return []
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            return targets_of(target)
        case ast.For(target=target) | ast.AsyncFor(target=target):
            return targets_of(target)
        case ast.With(items=items) | ast.AsyncWith(items=items):
            return targets_of(*(item.optional_vars for item in items))
    if isinstance(node, TYPE_ALIAS):
        return targets_of(node.name)  # type: ignore[attr-defined]
    return captured(node)


def in_expressions(root: ast.AST, plan: ReportPlan, line: int) -> None:
    """Report the names bound by `:=`, and the arguments of lambdas, in the expressions of a node."""
    waiting: list[ast.AST] = [] if isinstance(root, TYPE_ALIAS) else [root]
    while waiting:
        node = waiting.pop()
        for name in node._fields:
            value = getattr(node, name, None)
            if name in UNSEEN or isinstance(value, SUITES):
                continue
            parts = value if isinstance(value, list) else [value]
            reported = [with_report(part, plan, line) for part in parts]
            if any(isinstance(part, ast.AST) for part in parts):
                setattr(node, name, reported if isinstance(value, list) else reported[0])
                waiting += filter(is_expression_part, map(outside_of_lambda, parts))


def outside_of_lambda(part: Any) -> Any:
    """The part of an expression that is evaluated at once: of a lambda, its arguments with their defaults."""
    if isinstance(part, ast.Lambda):
        return part.args
    return part


def is_expression_part(part: Any) -> bool:
    """Whether an item of a field is a node that is not a statement."""
    return isinstance(part, ast.AST) and not isinstance(part, SUITES)


def with_report(node: Any, plan: ReportPlan, line: int) -> Any:
    """The expression, or one that also reports what it binds."""
    if isinstance(node, ast.Lambda):
        if plan.is_deep:
            insert(node, plan)
    elif isinstance(node, ast.NamedExpr) and plan.wanted(node.target.id):
        return in_sequence([], node, [plan.report("bound", node.target.id, line)])
    return node


def into_lambda(node: ast.Lambda, plan: ReportPlan) -> None:
    """Report the arguments of a lambda, and again after its body has run."""
    names = plan.select(parameters(node.args))
    after = names if plan.may_change(node.body) else []
    body = ast.Expr(value=node.body)  # not the defaults: they are evaluated outside
    in_expressions(body, plan, node.lineno)
    before = [plan.report("given", name, node.lineno) for name in names]
    if plan.is_reported:
        before.insert(0, plan.report("entered", "", node.lineno))
        maybes = [plan.report("maybe", name, node.lineno) for name in after]
        node.body = in_sequence(before, body.value, maybes, plan.first_places.get((LAMBDA, node.lineno)))


def functions_of(node: ast.stmt) -> Iterable[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions that a statement defines, without those whose decorator may compile or keep the original."""
    if isinstance(node, ast.ClassDef):
        return methods_in(node)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.decorator_list:
        return [node]
    return []


def methods_in(node: ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions defined in the body of a class, inside of any statement, and in nested classes."""
    waiting: list[ast.AST] = list(node.body)
    while waiting:
        part = waiting.pop()
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
            yield part
        else:
            waiting += (child for child in children(part) if isinstance(child, SUITES))
