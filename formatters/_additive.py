"""Proves of a Jinja template that what it writes of a message stays as it is, whatever turns follow.

Proven is what can be read off the program: one loop over the messages, which sees the message at hand, the
first one, and whether its number is even; nothing in it is remembered from message to message, and nothing
else of the template looks at any message but the first. A template with macros, namespaces, `loop.last` or
`messages[-1]` is not proven, and is run on whole conversations.
"""

from __future__ import annotations

from functools import lru_cache

from jinja2 import nodes

from . import _sandbox

_MESSAGES = "messages"
# What a program of these, and of nothing else, cannot do is to keep something from one pass to the next.
_KNOWN = (
    *(nodes.Output, nodes.TemplateData, nodes.Const, nodes.Name, nodes.If, nodes.For, nodes.Assign),
    *(nodes.Getattr, nodes.Getitem, nodes.Slice, nodes.Call, nodes.Filter, nodes.Test, nodes.Keyword),
    *(nodes.Compare, nodes.Operand, nodes.BinExpr, nodes.UnaryExpr, nodes.Concat, nodes.CondExpr),
    *(nodes.List, nodes.Tuple, nodes.Dict, nodes.Pair, nodes.ExprStmt, nodes.Continue),
)
_CALLED = ("raise_exception",)  # by their names; methods of values change none
_NAMES = frozenset({"namespace", "cycler", "joiner", "strftime_now", "self", "caller", "varargs", "kwargs"})
_FILTERS = frozenset({"random", "shuffle"})


@lru_cache(maxsize=32)
def is_additive(source: str) -> bool:
    """Say whether it is proven that a template writes a message the same whatever follows it."""
    try:
        tree = _sandbox.environment.parse(source)
    except Exception:  # a stranger's program; to compile it says what is wrong
        return False
    return _Proof(tree).holds


class _Proof:
    """One look at a template: `holds` says whether all that was asked was found."""

    def __init__(self, tree: nodes.Template) -> None:
        self._aliases = {_MESSAGES}  # names of the messages, or of those after the first
        self._loops = 0
        self.holds = all(self._outside(node) for node in tree.body) and self._loops == 1

    def _outside(self, node: nodes.Node) -> bool:
        """Look at what stands outside of the loop over the messages."""
        if isinstance(node, nodes.For) and self._is_all(node.iter):
            self._loops += 1
            plain = node.test is None and not node.else_ and not node.recursive
            shadows = self._aliases | {"loop"}
            target = node.target
            named = isinstance(target, nodes.Name) and target.name not in shadows
            return plain and named and all(self._inside(child) for child in node.body)
        if isinstance(node, nodes.Assign) and isinstance(node.target, nodes.Name) and self._is_all(node.node):
            # Only a new name, and before the loop, which is the first that may look at it.
            if node.target.name == _MESSAGES or self._loops:
                return False
            self._aliases.add(node.target.name)
            return True
        return self._known(node) and all(self._outside(child) for child in self._children(node))

    def _inside(self, node: nodes.Node, inner: bool = False) -> bool:
        """Look at what is done with one message; `inner`: in a loop of its own, whose `loop` is another."""
        if not inner and self._is_allowed_place(node):
            return True
        if isinstance(node, nodes.Name) and node.name == "loop" and not inner:
            return False
        if isinstance(node, nodes.For):
            head = [node.iter, node.target, *([] if node.test is None else [node.test])]
            rest = [*node.body, *node.else_]
            return (
                not node.recursive
                and all(self._inside(child, inner) for child in head)
                and all(self._inside(child, True) for child in rest)
            )
        return self._known(node) and all(self._inside(child, inner) for child in self._children(node))

    def _known(self, node: nodes.Node) -> bool:
        if not isinstance(node, _KNOWN):
            return False
        if isinstance(node, nodes.Name):
            return node.name not in self._aliases | _NAMES
        if isinstance(node, nodes.Call):
            return isinstance(node.node, nodes.Getattr) or (
                isinstance(node.node, nodes.Name) and node.node.name in _CALLED
            )
        return not isinstance(node, nodes.Filter) or node.name not in _FILTERS

    def _children(self, node: nodes.Node) -> list[nodes.Node]:
        """Return what a node is made of, but for the first message where it is asked for."""
        return [child for child in node.iter_child_nodes() if not self._is_first(child)]

    @staticmethod
    def _is_first(node: nodes.Node) -> bool:
        """Say whether it is `messages[0]`."""
        return (
            isinstance(node, nodes.Getitem)
            and isinstance(node.node, nodes.Name)
            and node.node.name == _MESSAGES
            and isinstance(node.arg, nodes.Const)
            and node.arg.value == 0
            and type(node.arg.value) is int
        )

    def _is_all(self, node: nodes.Node | None) -> bool:
        """Say whether it is the list of messages, or all of it after the first."""
        if isinstance(node, nodes.Name):
            return node.name in self._aliases
        if not isinstance(node, nodes.Getitem) or not isinstance(node.arg, nodes.Slice):
            return False
        cut = node.arg
        start = cut.start
        return (
            isinstance(node.node, nodes.Name)
            and node.node.name == _MESSAGES
            and isinstance(start, nodes.Const)
            and start.value == 1
            and cut.stop is None
            and cut.step is None
        )

    @staticmethod
    def _is_allowed_place(node: nodes.Node) -> bool:
        """Say whether it asks of the loop only if this is the first message, or has an even number."""

        def of_loop(node: nodes.Node, *names: str) -> bool:
            named = isinstance(node, nodes.Getattr) and isinstance(node.node, nodes.Name)
            return named and node.node.name == "loop" and node.attr in names  # type: ignore[attr-defined]

        def is_number(node: nodes.Node, value: int) -> bool:
            return isinstance(node, nodes.Const) and type(node.value) is int and node.value == value

        if isinstance(node, nodes.Mod):
            return of_loop(node.left, "index", "index0") and is_number(node.right, 2)
        if isinstance(node, nodes.Compare) and len(node.ops) == 1 and node.ops[0].op in ("eq", "ne"):
            first = {"index": 1, "index0": 0}
            left, right = node.expr, node.ops[0].expr
            return any(of_loop(left, name) and is_number(right, number) for name, number in first.items())
        return of_loop(node, "first")
