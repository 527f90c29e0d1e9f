"""The situation that a remedy gets: the failure, the misfit, the origins; and how a remedy is registered."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from insitu.trace.advice import Advice, Fix, certain
from insitu.trace.explain.bindings import nodes_around, nodes_of, scope_of
from insitu.trace.explain.case import Case, NamedOperand
from insitu.trace.explain.checks.registry import Find
from insitu.trace.explain.edits import expression_of
from insitu.trace.explain.explanation import ExpressionSite, Misfit, Origin, OriginKind, ShapeRow
from insitu.trace.explain.expressions import Expression, tree_of
from insitu.trace.explain.failed_line import FailedLine
from insitu.trace.explain.failure import Failure
from insitu.trace.explain.remedies.call_parts import call_in, direct_arguments
from insitu.trace.explain.remedies.source_part import NoAdvice, SourcePart, needed, only, part_at, require

# The kinds of origins at which the value itself was made.
PRODUCING = (OriginKind.RANGE, OriginKind.PRODUCED, OriginKind.ASSIGNED)


@dataclass(slots=True, frozen=True)
class Situation:
    """What a remedy knows: the failure, its line and its case, the misfit, and where the values come from.

    The methods raise NoAdvice for what is not there.
    """

    failure: Failure
    line: FailedLine
    case: Case
    misfit: Misfit
    origins: tuple[Origin, ...]

    @property
    def part(self) -> SourcePart:
        """The expression that failed."""
        expression = self.line.statement.expression
        return SourcePart(expression, expression.node)

    @property
    def site(self) -> ExpressionSite:
        """The site that failed."""
        return needed(self.line.site)

    def operand(self, name: str) -> NamedOperand:
        """The operand with this name."""
        return needed(next((operand for operand in self.case.operands if name and operand.name == name), None))

    def row(self, role: str) -> ShapeRow:
        """The row of the misfit with this role."""
        return needed(next((row for row in self.misfit.rows if row.role == role), None))

    def on_line(self, name: str) -> SourcePart:
        """The expression of an operand on the line that failed; no advice if the line has it more than once."""
        require(name)
        arguments = [part for part in direct_arguments(self.part.node) if self.part.text_of(part) == name]
        found = arguments or self._reads(self.part.node, name) or self._reads(self.part.expression.statement, name)
        return self.part.inner(only(found))

    def _reads(self, node: ast.AST, name: str) -> list[ast.expr]:
        """The parts of an expression that read a name."""
        parts = [part for part in ast.walk(node) if isinstance(part, ast.expr)]
        reads = [part for part in parts if not isinstance(getattr(part, "ctx", None), ast.Store)]
        return [part for part in reads if self.part.text_of(part) == name]

    def certain(self, part: SourcePart, text: str, fix: Fix) -> Advice:
        """The certain advice of another text for a part of the failed expression, wherever the line has the expression.

        `fix` is the line if it has the expression once.
        """
        nodes = [node for node in ast.walk(self.part.expression.statement) if isinstance(node, ast.expr)]
        alike = [node for node in nodes if self.part.text_of(node) == self.part.text]
        if len(alike) < 2:
            return certain(fix)
        require(self.part.text.count(part.text) == 1)
        return certain(self.part.with_texts(dict.fromkeys(alike, self.part.text.replace(part.text, text))))

    def producer(self, name: str) -> SourcePart:
        """The expression that made the value of an operand, where the walk found it."""
        origin = self.find_origin(OriginKind.RANGE, name=name) or self.find_origin(*PRODUCING, name=name)
        if origin is None:
            origin = self._passed(name)
        return part_at(origin.site)

    def _passed(self, name: str) -> Origin:
        """The origin of a value that was passed as an argument of another name: the one the furthest back."""
        passed = part_at(self.origin(OriginKind.PASSED, name=name).site)
        names = {node.id for node in nodes_of(passed.node, ast.Name)}
        values = [origin for origin in self.origins if origin.kind in (OriginKind.VALUE, OriginKind.ASSIGNED)]
        return needed(next((origin for origin in values if origin.name in names), None))

    def source_of(self, name: str) -> SourcePart:
        """Where the value of an operand was made; if that is not known, the operand on the line that failed."""
        try:
            return self.producer(name)
        except NoAdvice:
            return self.on_line(name)

    def constructor(self, name: str) -> SourcePart:
        """The expression that made the layer of a parameter: as it was recorded, else as the source has it."""
        for find in (self.producer, self._recorded_constructor):
            try:
                return find(name)
            except NoAdvice:
                continue
        return self._written_constructor()

    def _recorded_constructor(self, name: str) -> SourcePart:
        """The expression whose call made a parameter or a buffer."""
        tensor = self.operand(name).tensor
        return part_at(self.failure.history.site(self.failure.live.initializer(tensor)))

    def _written_constructor(self) -> SourcePart:
        """For `nn.Linear(2, 3)(x)` the inner call; for `self.layer(x)` the only assignment to it in its class."""
        node = call_in(self.part)
        if isinstance(node.func, ast.Call):
            return self.part.inner(node.func)
        name, tree = self.part.text_of(node.func), needed(tree_of(self.part.file))
        require(name.startswith("self."))
        classes = nodes_around(tree, node.lineno, ast.ClassDef)
        require(classes)
        assignment = only(each for each in nodes_of(classes[-1], ast.Assign) if name in map(ast.unparse, each.targets))
        return SourcePart(Expression(self.part.file, assignment.value, assignment), assignment.value)

    def is_in_function(self, origin: Origin) -> bool:
        """Whether an origin is in the function that failed."""
        here, there = self.site, needed(origin.site)
        return (here.file, _function_line(here)) == (there.file, _function_line(there))

    def origin(self, *kinds: OriginKind, name: str | None = None) -> Origin:
        """The last origin of some kinds."""
        return needed(self.find_origin(*kinds, name=name))

    def find_origin(self, *kinds: OriginKind, name: str | None = None) -> Origin | None:
        """The same; None if there is none."""
        found = [each for each in self.origins if each.kind in kinds and name in (None, each.name)]
        return next(reversed(found), None)

    def parts(self) -> list[SourcePart]:
        """The expressions of all origins that are in the source, each once."""
        sites = dict.fromkeys(origin.site for origin in self.origins)
        expressions = filter(None, map(expression_of, sites))
        return [SourcePart(expression, expression.node) for expression in expressions]

    def origin_part(self, *kinds: OriginKind, name: str | None = None) -> SourcePart:
        """The expression of the last origin of some kinds."""
        return part_at(self.origin(*kinds, name=name).site)


def _function_line(site: ExpressionSite) -> int:
    """The line of the function around a site; 0 outside of functions."""
    return getattr(scope_of(needed(tree_of(site.file)), site.line), "lineno", 0)


Remedy = Callable[[Situation], Advice]


class Remedies(dict[str, Remedy]):
    """The remedies of one theme, by the name of the check whose misfits they are for."""

    def add(self, *checks: Find) -> Callable[[Remedy], Remedy]:
        """Register the function that follows for the misfits of some checks."""

        def register(remedy: Remedy) -> Remedy:
            self.update({check.__name__: remedy for check in checks})
            return remedy

        return register
