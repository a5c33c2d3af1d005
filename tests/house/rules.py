"""The rules of the house, each a function from source text to complaints."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

LONGEST_FUNCTION = 60
LONGEST_MODULE = 600

# What would let a world into a core: clocks, waiting, sockets, disks, threads, chance, logs.
WORLDLY = [
    "_thread",
    "asyncio",
    "concurrent",
    "fcntl",
    "glob",
    "http",
    "logging",
    "mmap",
    "multiprocessing",
    "os",
    "pathlib",
    "queue",
    "random",
    "sched",
    "secrets",
    "select",
    "selectors",
    "shutil",
    "signal",
    "socket",
    "socketserver",
    "ssl",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "urllib",
    "uuid",
    "uvloop",
]
_WORLDLY_CALLS = {"open", "input", "print", "id"}
_CLOCK_METHODS = {"now", "utcnow", "today"}

_SET_TYPES = {"set", "frozenset", "Set", "AbstractSet", "MutableSet", "FrozenSet"}
_SET_MAKERS = {"set", "frozenset"}
_SET_METHODS = {"union", "intersection", "difference", "symmetric_difference"}
_ORDER_FREE = {"sorted", "set", "frozenset", "min", "max", "any", "all", "len"}
_ORDER_TAKING = {"list", "tuple", "iter", "enumerate", "map", "filter", "zip", "reversed", "dict", "deque", "array"}
_ORDER_TAKING_METHODS = {"join", "extend", "fromiter", "fromkeys"}

Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Module


def sizes(source: str) -> Iterator[str]:
    """Functions fit a screen, modules an hour."""
    lines = source.count("\n") + 1
    if lines > LONGEST_MODULE:
        yield f"1: the module has {lines} lines, {LONGEST_MODULE} are the most"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > LONGEST_FUNCTION:
                yield f"{node.lineno}: {node.name} has {length} lines, {LONGEST_FUNCTION} are the most"


def worldliness(source: str) -> Iterator[str]:
    """A core has no clock, socket, disk, thread, chance or log, and nothing that differs between processes."""
    tree = ast.parse(source)
    own_hash = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "__hash__"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        for module in _imported(node):
            if module.split(".")[0] in WORLDLY or module.startswith("numpy.random"):
                yield f"{node.lineno}: a core imports {module}"
        if isinstance(node, ast.Attribute) and node.attr == "random" and _name(node.value) in ("np", "numpy"):
            yield f"{node.lineno}: a core draws random numbers"
        if isinstance(node, ast.Call):
            called = _name(node.func)
            if isinstance(node.func, ast.Name) and called in _WORLDLY_CALLS:
                yield f"{node.lineno}: a core calls {called}()"
            elif isinstance(node.func, ast.Name) and called == "hash" and id(node) not in own_hash:
                yield f"{node.lineno}: a core calls hash(), which differs between processes"
            elif isinstance(node.func, ast.Attribute) and called in _CLOCK_METHODS and not node.args:
                yield f"{node.lineno}: a core reads a clock with .{called}()"


def unordered_iteration(source: str) -> Iterator[str]:
    """Nothing depends on the order of a set: cores iterate `sorted(a_set)`, or keep a dict."""
    tree = ast.parse(source)
    attributes = _set_attributes(tree)
    for scope in ast.walk(tree):
        if isinstance(scope, Scope):
            yield from _SetUse(_set_names(scope) | _set_names(tree), attributes).complaints(scope)


class _SetUse:
    """Finds where the order of a set would show, given which names and attributes are sets."""

    def __init__(self, names: set[str], attributes: set[str]) -> None:
        self.names = names
        self.attributes = attributes

    def complaints(self, scope: Scope) -> Iterator[str]:
        nodes = list(_own_nodes(scope))
        forgiven = {
            id(argument)
            for node in nodes
            if isinstance(node, ast.Call) and _name(node.func) in _ORDER_FREE
            for argument in node.args
        }
        for node in nodes:
            for taken in self._taken_in_order(node, id(node) in forgiven):
                if self.is_set(taken):
                    yield f"{taken.lineno}: iterates the set {ast.unparse(taken)}; use sorted() or keep a dict"

    def _taken_in_order(self, node: ast.AST, forgiven: bool) -> Iterator[ast.expr]:
        if isinstance(node, ast.For):
            yield node.iter
        elif isinstance(node, ast.ListComp | ast.GeneratorExp | ast.DictComp) and not forgiven:
            yield from (generator.iter for generator in node.generators)
        elif isinstance(node, ast.Starred | ast.YieldFrom):
            yield node.value
        elif isinstance(node, ast.Call):
            called = _name(node.func)
            method = isinstance(node.func, ast.Attribute)
            if called in (_ORDER_TAKING_METHODS if method else _ORDER_TAKING) and not forgiven:
                yield from node.args
            elif isinstance(node.func, ast.Attribute) and called == "pop" and not node.args:
                yield node.func.value

    def is_set(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Set | ast.SetComp):
            return True
        if isinstance(node, ast.Name):
            return node.id in self.names
        if isinstance(node, ast.Attribute):
            return node.attr in self.attributes
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                return node.func.attr in _SET_METHODS
            return _name(node.func) in _SET_MAKERS
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.BitAnd | ast.Sub | ast.BitXor):
            keys = any(isinstance(s, ast.Call) and _name(s.func) in ("keys", "items") for s in (node.left, node.right))
            return keys or self.is_set(node.left) or self.is_set(node.right)
        if isinstance(node, ast.IfExp):
            return self.is_set(node.body) or self.is_set(node.orelse)
        return False


def suppressions(source: str) -> Iterator[str]:
    """What silences a tool names what it silences, for one line, and why."""
    for line, comment in _comments(source):
        if re.search(r"(ruff|flake8):\s*noqa|mypy:|fmt:\s*off", comment):
            yield f"{line}: silences a tool for more than one line"
        elif "type:" in comment and "ignore" in comment:
            if not re.search(r"type: ignore\[[a-z, -]+\]\s+#\s+\S+ \S+", comment):
                yield f"{line}: write `# type: ignore[code]  # the reason`"
        elif re.search(r"\bnoqa\b", comment, re.IGNORECASE) and not re.search(
            r"noqa: [A-Z]+[0-9]+(, [A-Z]+[0-9]+)*\s+#\s+\S+ \S+", comment
        ):
            yield f"{line}: write `# noqa: CODE  # the reason`"


def test_sentences(source: str) -> Iterator[str]:
    """Every test's docstring is a sentence that says what is true."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            said = (ast.get_docstring(node) or "").strip()
            if not said.endswith(".") or len(said.split()) < 4:
                yield f"{node.lineno}: {node.name} has no sentence saying what is true"


def module_docstring(source: str) -> Iterator[str]:
    """Every module says in a line what it is for."""
    if not (ast.get_docstring(ast.parse(source)) or "").strip():
        yield "1: the module has no docstring"


def front_door(source: str) -> Iterator[str]:
    """Rooms take names from where they live; only what is above the client may use the front door."""
    for node in ast.walk(ast.parse(source)):
        if (isinstance(node, ast.Import) and any(alias.name == "gapless" for alias in node.names)) or (
            isinstance(node, ast.ImportFrom)
            and node.module == "gapless"
            and any(alias.name != "__version__" for alias in node.names)
        ):
            yield f"{node.lineno}: imports through `gapless` itself, which imports this room"


def unfinished(source: str) -> Iterator[str]:
    """Nothing is left for later in the code."""
    for line, comment in _comments(source):
        if re.search(r"\b([T]ODO|[F]IXME|[X]XX|[H]ACK)\b", comment):
            yield f"{line}: leaves something for later: {comment.strip()}"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise) and node.exc is not None:
            raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            if _name(raised) == "NotImplementedError":
                yield f"{node.lineno}: raises NotImplementedError"


# A letter in brackets keeps this list from finding itself.
_BANNED = (
    (r"(?<![\w.])/([w]ork|[t]mp|[r]oot|[o]pt|[h]ome/\w+)/", "a path of one machine"),
    (r"\.\./[s]hared\b", "a place outside the project"),
    (
        r"\b([p]ypi\.org|[p]ythonhosted|[a]naconda\.(org|com))|/[p]ypi/|\b[m]vnrepository|\b[r]epo1?\.maven",
        "a registry",
    ),
)


def banned_words(text: str) -> Iterator[str]:
    """The project speaks of itself alone: of no machine and no registry."""
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, what in _BANNED:
            found = re.search(pattern, line, re.IGNORECASE)
            if found:
                yield f"{number}: names {what}: {found.group()}"


def lock_addresses(text: str) -> Iterator[str]:
    """The lock pins every package by hash and names no place to get it from."""
    for number, line in enumerate(text.splitlines(), 1):
        if re.search(r"://|--(extra-)?index|--find-links|--trusted| @ ", line):
            yield f"{number}: names a place: {line.strip()}"
        if re.match(r"[A-Za-z0-9]", line) and ("==" not in line or not line.rstrip().endswith("\\")):
            yield f"{number}: is not pinned with hashes: {line.strip()}"


def dead_modules(sources: dict[str, str], entrances: tuple[str, ...]) -> Iterator[str]:
    """Every module is reached from an entrance: imported, or named in a string as late imports do."""
    reached: list[str] = []
    waiting = [name for name in entrances if name in sources]
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.append(name)
        packages = [name.rsplit(".", cut)[0] for cut in range(1, name.count(".") + 1)]
        waiting += [other for other in [*packages, *_mentioned(sources[name])] if other in sources]
    for name in sources:
        if name not in reached:
            yield f"{name} is imported by nothing that runs"


def _mentioned(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        yield from _imported(node)
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"(?<![\w.])(?:pyspark_)?gapless(?:\.\w+)*", node.value.split("\n")[0])


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module else []


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _own_nodes(scope: Scope) -> Iterator[ast.AST]:
    """The nodes of a scope without those of the functions within it."""
    waiting: list[ast.AST] = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting.extend(ast.iter_child_nodes(node))


def _says_set(annotation: ast.expr | None) -> bool:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    if isinstance(annotation, ast.BinOp):
        return _says_set(annotation.left) or _says_set(annotation.right)
    if isinstance(annotation, ast.Subscript):
        annotation = annotation.value
    return annotation is not None and _name(annotation) in _SET_TYPES


def _makes_set(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Call):
        named = [_name(k.value) for k in value.keywords if k.arg in ("default_factory", "factory")]
        return _name(value.func) in _SET_MAKERS or any(name in _SET_MAKERS for name in named)
    return isinstance(value, ast.Set | ast.SetComp)


def _set_names(scope: Scope) -> set[str]:
    names = set()
    if not isinstance(scope, ast.Module):
        arguments = [*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs]
        names |= {argument.arg for argument in arguments if _says_set(argument.annotation)}
    for node in _own_nodes(scope):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and _says_set(node.annotation):
            names.add(node.target.id)
        elif isinstance(node, ast.Assign) and _makes_set(node.value):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


def _set_attributes(tree: ast.Module) -> set[str]:
    """Attributes that are sets somewhere in the module: `self.x: set[...]`, `self.x = set()`, fields of a class."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    found |= {field.target.id} if _says_set(field.annotation) or _makes_set(field.value) else set()
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute):
            found |= {node.target.attr} if _says_set(node.annotation) else set()
        elif isinstance(node, ast.Assign) and _makes_set(node.value):
            found |= {target.attr for target in node.targets if isinstance(target, ast.Attribute)}
    return found


def _comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def module_name(path: Path, src: Path) -> str:
    """The dotted name of a source file."""
    parts = path.relative_to(src).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
