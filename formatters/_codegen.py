"""Jinja's compiler for chat templates: it writes the meter into what a template does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame


class MeteredCodeGenerator(CodeGenerator):
    """Jinja's compiler, with the meter written into loops, joins, literals, slices and comparisons."""

    @staticmethod
    def _tick(text: int) -> nodes.Call:
        return nodes.Call(nodes.EnvironmentAttribute("tick"), [nodes.Const(text)], [], None, None)

    def _meter_body(self, node: Any) -> None:
        # The text that one pass through the body can write at most, nested loops counted by themselves.
        text = sum(len(n.data) for n in node.find_all(nodes.TemplateData))
        text += sum(len(n.value) for n in node.find_all(nodes.Const) if isinstance(n.value, str))
        node.body.insert(0, nodes.ExprStmt(self._tick(text)).set_lineno(node.lineno))

    def visit_For(self, node: nodes.For, frame: Frame) -> None:  # noqa: N802 - Jinja's name
        self._meter_body(node)
        if node.test is not None:
            node.test = nodes.And(self._tick(0), node.test)
        nodes.Node.set_environment(node, self.environment)
        super().visit_For(node, frame)

    def visit_Macro(self, node: nodes.Macro, frame: Frame) -> None:  # noqa: N802 - Jinja's name
        self._meter_body(node)
        node.set_environment(self.environment)
        super().visit_Macro(node, frame)

    def visit_CallBlock(self, node: nodes.CallBlock, frame: Frame) -> None:  # noqa: N802 - Jinja's name
        self._meter_body(node)
        node.set_environment(self.environment)
        super().visit_CallBlock(node, frame)

    def visit_Call(self, node: nodes.Call, frame: Frame, forward_caller: bool = False) -> None:  # noqa: N802 - Jinja's name
        # No template can name what belongs to the environment, so this is our own step, which needs no guard.
        if isinstance(node.node, nodes.EnvironmentAttribute) and node.node.name == "tick":
            self.write(f"environment.tick({node.args[0].as_const()})")
        else:
            super().visit_Call(node, frame, forward_caller=forward_caller)

    def _wrapped(self, method: str, visit: Callable[[Any, Frame], None], node: Any, frame: Frame) -> None:
        self.write(f"environment.{method}(")
        visit(node, frame)
        self.write(")")

    def visit_Compare(self, node: nodes.Compare, frame: Frame) -> None:  # noqa: N802 - Jinja's name
        self._wrapped("passed", super().visit_Compare, node, frame)

    def visit_List(self, node: nodes.List, frame: Frame) -> None:  # noqa: N802 - Jinja's name
        self._wrapped("made", super().visit_List, node, frame)

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:  # noqa: N802 - Jinja's name
        self._wrapped("made", super().visit_Dict, node, frame)

    def visit_Tuple(self, node: nodes.Tuple, frame: Frame) -> None:  # noqa: N802 - Jinja's name
        if node.ctx == "load":
            self._wrapped("made", super().visit_Tuple, node, frame)
        else:
            super().visit_Tuple(node, frame)

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:  # noqa: N802 - Jinja's name
        if isinstance(node.arg, nodes.Slice):
            self._wrapped("made", super().visit_Getitem, node, frame)
        else:
            super().visit_Getitem(node, frame)

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802 - Jinja's name
        join = "markup_join" if frame.eval_ctx.autoescape else "str_join"
        if frame.eval_ctx.volatile:
            join = "(markup_join if context.eval_ctx.volatile else str_join)"
        self.write(f"environment.joined({join}, (")
        for item in node.nodes:
            self.visit(item, frame)
            self.write(", ")
        self.write("))")
