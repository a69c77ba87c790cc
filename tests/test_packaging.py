"""The build's own scripts (cmake/), and what the documents say of the project."""

from __future__ import annotations

import importlib.util
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from qwisp_native import _amalgamate, settings, shader_sha256, shaders

ROOT = Path(__file__).parents[1]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "cmake" / f"{name}.py")
    assert spec
    assert spec.loader
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ---- shaders as one text


def test_the_embedded_text_is_that_of_the_shader_folder() -> None:
    """A stale build, or an amalgamation that differs by machine, would show here."""
    assert shaders.load(ROOT / "shaders")[1] == shader_sha256()


def test_every_shader_file_is_in_the_text_once() -> None:
    text = _amalgamate.amalgamate(ROOT / "shaders")
    for path in (ROOT / "shaders").iterdir():
        assert text.count(f"// {path.name}\n") == 1, path.name


def test_line_ends_do_not_matter(tmp_path: Path) -> None:
    for path in (ROOT / "shaders").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert _amalgamate.amalgamate(tmp_path) == _amalgamate.amalgamate(ROOT / "shaders")


# ---- metal-cpp


def test_rewriting_refuses_headers_of_another_version(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "A.hpp").write_text("using Handler = void (^)(int);\n")
    with pytest.raises(SystemExit, match=r"1 places for the rule .*, expected 17"):
        script("rewrite_metal_cpp").main(tmp_path / "in", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_named_folder_must_hold_headers(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="has no metal-cpp headers"):
        script("fetch_metal_cpp").named(tmp_path)


def test_a_named_folder_may_hold_another_version(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "Metal").mkdir()
    (tmp_path / "Metal" / "Metal.hpp").write_text("// another\n")
    assert script("fetch_metal_cpp").named(tmp_path) == tmp_path
    assert "going on, untested" in capfd.readouterr().err


def test_a_search_that_fails_says_what_was_tried(tmp_path: Path) -> None:
    """Headers of another version count for nothing, wherever they come from."""
    fetch = script("fetch_metal_cpp")
    (tmp_path / "Metal").mkdir()
    (tmp_path / "Metal" / "Metal.hpp").write_text("// another\n")

    def offline(_: Path) -> Path:
        raise fetch.MissingError("no network")

    fetch.SOURCES = {"an earlier configure": fetch.from_cache, "the mlx-metal wheel": offline}
    with pytest.raises(SystemExit) as caught:
        fetch.search(tmp_path)
    told = str(caught.value)
    assert "an earlier configure: another version (SHA-256 " in told
    assert "the mlx-metal wheel: no network" in told
    assert "QWISP_METAL_CPP_DIR" in told


# ---- documents


def test_the_table_of_environment_variables() -> None:
    text = (ROOT / "docs" / "environment.md").read_text()
    rows = re.findall(r"^\| (`QWISP_.*) \| (?:package|build) \|$", text, re.MULTILINE)
    told = [tuple(cell.strip() for cell in re.split(r" \|", row)) for row in rows]
    assert told == [(f"`{v.name}`", v.default, v.values, v.effect) for v in settings.VARIABLES]


def test_every_dependency_is_justified() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        pyproject = tomllib.load(file)
    project = pyproject["project"]
    wanted = pyproject["build-system"]["requires"] + project["dependencies"]
    wanted += [each for extra in project["optional-dependencies"].values() for each in extra]
    rows = re.findall(r"^\|([^|]*)\|", (ROOT / "docs" / "dependencies.md").read_text(), re.MULTILINE)
    listed = {name.strip() for row in rows for name in row.split(",")}
    assert {re.split(r"[^\w-]", each)[0] for each in wanted} <= listed


PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    folders = r"docs|cpp|cmake|tests|shaders|python|bench|\.github|\.ci"
    for name in re.findall(rf"`((?:{folders})/[\w./-]*)`", page.read_text()):
        assert (ROOT / name).exists(), f"{page.name} names {name}"
