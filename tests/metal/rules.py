"""Rules of the Metal Shading Language that a C++ compiler does not enforce, over clang's syntax tree.

`python tests/metal/rules.py FILE...` prints what is wrong with kernel files. clang itself refuses wrong
address spaces, threadgroup memory outside a kernel's own scope, conversions of vectors, function pointers,
virtual functions and exceptions. A rule is a function in RULES; each has a shader in planted/ that breaks it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from syntax import Shader, all_types, function_of, is_written, load, type_of, where

MAX_THREADGROUP_BYTES = 32 * 1024  # Apple, Metal feature set tables, since Apple4
MAX_BUFFER_INDEX = 30
BYTES = {
    "bool": 1,
    "char": 1,
    "uchar": 1,
    "short": 2,
    "ushort": 2,
    "half": 2,
    "int": 4,
    "uint": 4,
    "float": 4,
}
# What a kernel may be given beside buffers: attribute -> type.
BUILT_INS = {
    "threadgroup_position_in_grid": "uint3",
    "threadgroups_per_grid": "uint3",
    "thread_index_in_threadgroup": "uint",
    "thread_index_in_simdgroup": "uint",
    "simdgroup_index_in_threadgroup": "uint",
    "simdgroups_per_threadgroup": "uint",
}
# Words of the language that are none in C++ or OpenCL: no name may be one.
KEYWORDS = frozenset(
    [
        "device",
        "threadgroup",
        "thread",
        "threadgroup_imageblock",
        "vertex",
        "fragment",
        "visible",
        "ray_data",
        "object_data",
        "mesh",
        "object",
        "coherent",
        "imageblock",
        "bfloat",
        "sampler",
        "texture1d",
        "texture2d",
        "texture3d",
        "depth2d",
        "patch_control_point",
        "metal",
    ]
)
NOT_METAL = {
    "GotoStmt": "goto",
    "IndirectGotoStmt": "goto",
    "GCCAsmStmt": "asm",
    "CXXNewExpr": "new",
    "CXXDeleteExpr": "delete",
    "CXXThrowExpr": "throw",
    "CXXTryStmt": "try",
    "CXXDynamicCastExpr": "dynamic_cast",
    "CXXTypeidExpr": "typeid",
    "LambdaExpr": "a lambda",
}


# Each rule yields what is wrong.


def no_wide_types(shader: Shader) -> Iterator[str]:
    """No double, not even as a literal without a suffix; no 64-bit integers, which older GPUs have not."""
    for node, parents in shader.nodes:
        words = (
            ("double", "long") if is_written(node, parents) else ("double",)
        )  # `sizeof` is a long by itself
        for word in words:
            if re.search(rf"\b{word}\b", all_types(node)):
                yield f"{word}: {where(node, parents)}"


def no_recursion(shader: Shader) -> Iterator[str]:
    """No function reaches itself."""
    calls: dict[str, set[str]] = {}
    names = {}
    for node, parents in shader.nodes:
        if node["kind"] == "FunctionDecl":
            names[node["id"]] = node["name"]
            if "previousDecl" in node:
                calls.setdefault(node["previousDecl"], set()).add(node["id"])
        target, holder = node.get("referencedDecl", {}), function_of(parents)
        if holder is not None and target.get("kind") == "FunctionDecl":
            calls.setdefault(holder["id"], set()).add(target["id"])
    for start, first in calls.items():
        reached, todo = set[str](), list(first)
        while todo:
            each = todo.pop()
            if each not in reached:
                reached.add(each)
                todo += calls.get(each, ())
        if start in reached:
            yield f"recursion: {names.get(start, start)} reaches itself"


def kernel_arguments(shader: Shader) -> Iterator[str]:
    """Buffers of plain values with a slot of their own, and built-ins of the right type; nothing else."""
    slots = {
        node["name"]: value
        for node, _ in shader.nodes
        if node["kind"] == "EnumConstantDecl" and (value := str(node["counted"]))
    }
    pointers = {
        parents[-1]["name"]
        for node, parents in shader.nodes
        if node["kind"] == "FieldDecl" and re.search(r"[*&]", type_of(node)) and "name" in parents[-1]
    }
    for kernel in shader.kernels():
        told = f"kernel {kernel['name']}: argument"
        written = re.search(rf"\b{kernel['name']}\s*\((.*?)\)\s*\{{", shader.text, re.DOTALL)
        texts = re.split(r",(?![^\[]*\]\])", written[1]) if written else []
        arguments = [each for each in kernel["inner"] if each["kind"] == "ParmVarDecl"]
        taken = dict[str, str]()
        for argument, text in zip(arguments, texts, strict=True):
            name, kind = argument.get("name", "?"), argument["type"]["qualType"].removeprefix("__private ")
            attributes = re.findall(
                r"(\w+)(?:\((\w+)\))?", " ".join(re.findall(r"\[\[(.*?)\]\]", text, re.DOTALL))
            )
            buffer = dict(attributes).get("buffer")
            if kind.count("*") + kind.count("&") > 1:
                yield f"{told} {name}: {kind}, a pointer to a pointer"
            elif "*" in kind or "&" in kind:
                number = slots.get(buffer or "", buffer or "")
                if not number.isdigit() or int(number) > MAX_BUFFER_INDEX:
                    yield f"{told} {name}: buffer({buffer}), a slot from 0 to {MAX_BUFFER_INDEX} is expected"
                elif number in taken:
                    yield f"{told} {name}: buffer({buffer}), which is the slot of {taken[number]}"
                taken[number] = name
                if not re.search(r"__(global|constant)\b", kind):
                    yield f"{told} {name}: {kind}, neither device nor constant"
                if any(re.search(rf"\b{each}\b", kind) for each in pointers):
                    yield f"{told} {name}: {kind} holds a pointer"
            elif kind != BUILT_INS.get(attributes[0][0] if attributes else ""):
                yield f"{told} {name}: {kind} {text.strip()!r} is no built-in of this type"


def threadgroup_memory(shader: Shader) -> Iterator[str]:
    """A kernel declares at most 32 KB of it. Where it may be declared is a rule of OpenCL's too."""
    used: dict[str, int] = {}
    for node, parents in shader.nodes:
        if node["kind"] != "VarDecl" or not type_of(node).startswith("__local "):
            continue
        kernel = function_of(parents)
        assert kernel is not None  # clang says
        found = re.fullmatch(r"__local (?:const )?(\w+)((?:\[\d+\])*)", node["type"]["qualType"])
        if found is None or found[1] not in BYTES:
            yield f"{node['name']}: no size is known of {node['type']['qualType']}"
            continue
        size = BYTES[found[1]]
        for extent in re.findall(r"\d+", found[2]):
            size *= int(extent)
        used[kernel["name"]] = used.get(kernel["name"], 0) + -(-size // 16) * 16
    for name, size in used.items():
        if size > MAX_THREADGROUP_BYTES:
            yield f"kernel {name}: {size} bytes of threadgroup memory, {MAX_THREADGROUP_BYTES} at most"


def conversions(shader: Shader) -> Iterator[str]:
    """No generic address space and no change of one; an atomic is only touched by atomic functions."""
    for node, parents in shader.nodes:
        if is_written(node, parents) and "__generic" in all_types(node):
            yield f"generic address space: {where(node, parents)}"
        if is_written(node, parents) and node.get("castKind") == "AddressSpaceConversion":
            yield f"change of address space: {where(node, parents)}"
        if node.get("castKind") in {"AtomicToNonAtomic", "NonAtomicToAtomic"}:
            yield f"an atomic read or written as a plain value: {where(node, parents)}"


def only_relaxed(shader: Shader) -> Iterator[str]:
    """Below Metal 3.2 device atomics take memory_order_relaxed only."""
    for node, parents in shader.nodes:
        name = node.get("referencedDecl", {}).get("name", "")
        if name.startswith("memory_order_") and name != "memory_order_relaxed":
            yield f"{name}: {where(node, parents)}"


def program_scope(shader: Shader) -> Iterator[str]:
    """Variables outside functions are constant, and none in a function is static."""
    for node, parents in shader.nodes:
        if node["kind"] == "VarDecl":
            if function_of(parents) is None and "__constant" not in type_of(node):
                yield f"{node['name']}: a program-scope variable that is not constant"
            if function_of(parents) is not None and node.get("storageClass") == "static":
                yield f"{node['name']}: a static variable in a function"


def known_functions(shader: Shader) -> Iterator[str]:
    """Only functions of the shaders and of metal_stdlib are called; none of OpenCL's."""
    for node, parents in shader.nodes:
        target = node.get("referencedDecl", {})
        if target.get("kind") == "FunctionDecl" and target["id"] not in shader.known:
            yield f"{target.get('name')}: no function of a shader or of metal_stdlib ({where(node, parents)})"


def words(shader: Shader) -> Iterator[str]:
    """No statement that Metal has not; no name that is a keyword there."""
    for node, parents in shader.nodes:
        if node["kind"] in NOT_METAL:
            yield f"{NOT_METAL[node['kind']]}: {where(node, parents)}"
        if node.get("name") in KEYWORDS and node["kind"].endswith("Decl"):
            yield f"{node['name']}: a keyword of Metal as a name"


RULES: tuple[Callable[[Shader], Iterator[str]], ...] = (
    no_wide_types,
    no_recursion,
    kernel_arguments,
    threadgroup_memory,
    conversions,
    only_relaxed,
    program_scope,
    known_functions,
    words,
)


def check(path: Path) -> list[str]:
    """Everything that is wrong with a kernel file."""
    try:
        shader = load(path)
    except ValueError as error:
        return [f"clang: {error}"]
    return list(dict.fromkeys(f"{rule.__name__}: {told}" for rule in RULES for told in rule(shader)))


if __name__ == "__main__":
    wrong = {name: check(Path(name).resolve()) for name in sys.argv[1:]}
    for name, found in wrong.items():
        print(f"{name}: {len(found)} findings", *found, sep="\n  ")
    sys.exit(any(wrong.values()))
