"""A kernel file as clang's syntax tree: what tests/metal/rules.py goes through.

clang reads what Apple's compiler reads (`__METAL_VERSION__` is defined) as C++ for OpenCL, with this folder's
metal_stdlib.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SHADERS = HERE.parents[1] / "shaders"
CLANG = shutil.which("clang++-14") or shutil.which("clang++")
PREPROCESS = ["-x", "c++", "-E", "-D__METAL_VERSION__=310", "-I", str(HERE), "-I", str(SHADERS)]
FLAGS = [
    *("-x", "cl", "-cl-std=clc++2021", "-fsyntax-only", "-Xclang", "-ast-dump=json"),
    *("-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-Wno-unknown-pragmas", "-Wno-unused-function"),
    *("-Wno-unknown-attributes", "-Wno-ignored-attributes"),
]

Node = dict[str, Any]

MAX_THREADS = 1024


@dataclass
class Shader:
    """One kernel file: its preprocessed text, and its declarations that stand in a shader or planted file."""

    path: Path
    text: str
    nodes: list[tuple[Node, list[Node]]] = field(default_factory=list)  # (node, its parents), in source order
    known: set[str] = field(default_factory=set)  # functions of shaders and of metal_stdlib, by id

    def kernels(self) -> Iterator[Node]:
        for node, _ in self.nodes:
            if node["kind"] == "FunctionDecl" and is_kernel(node):
                yield node


def is_kernel(node: Node) -> bool:
    return any(each.get("kind") == "OpenCLKernelAttr" for each in node.get("inner", ()))


def type_of(node: Node) -> str:
    """The type without sugar; "" for what has none."""
    kind = node.get("type", {})
    return str(kind.get("desugaredQualType", kind.get("qualType", "")))


def all_types(node: Node) -> str:
    kind = node.get("type", {})
    return f"{kind.get('qualType', '')} {kind.get('desugaredQualType', '')}"


def inside(node: Node) -> Iterator[Node]:
    for each in node.get("inner", ()):
        yield each
        yield from inside(each)


def function_of(parents: list[Node]) -> Node | None:
    return next((each for each in reversed(parents) if each["kind"] == "FunctionDecl"), None)


def is_written(node: Node, parents: list[Node]) -> bool:
    """A declaration, cast or literal of the text; not what the compiler adds, as copies of structs."""
    if any(each.get("isImplicit") for each in (*parents, node)):
        return False
    kind = node["kind"]
    return kind.endswith(("Decl", "Literal")) or (kind.endswith("CastExpr") and kind != "ImplicitCastExpr")


def where(node: Node, parents: list[Node]) -> str:
    holder = function_of([*parents, node])
    name = node.get("name") or node.get("referencedDecl", {}).get("name") or node["kind"]
    return f"{name} in {holder['name']}" if holder is not None and holder is not node else str(name)


def clang(arguments: list[str], text: str | None = None) -> subprocess.CompletedProcess[str]:
    if CLANG is None:
        raise FileNotFoundError("clang++-14 or clang++ is needed")
    return subprocess.run([CLANG, *arguments], input=text, capture_output=True, text=True, check=False)


def preprocessed(path: Path) -> str:
    """The text after macros, in the words of OpenCL where the two languages differ in more than words."""
    run = clang([*PREPROCESS, str(path)])
    if run.returncode:
        raise ValueError(run.stderr)
    attribute = r"\[\[kernel, max_total_threads_per_threadgroup\((.+?)\)\]\]"
    limit = (
        rf'static_assert(\1 <= {MAX_THREADS}, "Metal: at most {MAX_THREADS} threads a threadgroup"); kernel'
    )
    text = re.sub(attribute, limit, run.stdout)
    # A function constant has no value before a pipeline is made; OpenCL wants one.
    return re.sub(r"(\[\[function_constant\(\w+\)\]\])\s*;", r"\1 = 1;", text)


def load(path: Path) -> Shader:
    """Reads a kernel file.

    Raises:
        ValueError: clang refuses it; the message is clang's.
    """
    text = preprocessed(path)
    run = clang([*FLAGS, "-"], text)
    if run.returncode:
        raise ValueError(run.stderr)
    shader = Shader(path, text)
    ours = {str(each) for each in (*SHADERS.iterdir(), path)}
    library = str(HERE / "metal_stdlib")
    file = {"file": "", "presumedFile": ""}  # clang names them only where they change

    def place(value: Any) -> None:
        for key, each in value.items() if isinstance(value, dict) else ():
            if key in file:
                file[key] = each
            elif isinstance(each, dict) and key != "includedFrom":
                place(each)

    def walk(node: Node, parents: list[Node]) -> None:
        place(node.get("loc"))
        at = file["presumedFile" if file["file"] == "<stdin>" else "file"]
        place(node.get("range"))
        if at in ours and "kind" in node:
            shader.nodes.append((node, parents))
        if node.get("kind") == "FunctionDecl" and (at in ours or at == library):
            shader.known.add(node["id"])
        counted = 0
        for each in node.get("inner", ()):
            if each.get("kind") == "EnumConstantDecl":
                given = next((n["value"] for n in inside(each) if n.get("kind") == "ConstantExpr"), None)
                each["counted"] = counted = int(given) if given is not None else counted
                counted += 1
            walk(each, [*parents, node])

    walk(json.loads(run.stdout), [])
    return shader
