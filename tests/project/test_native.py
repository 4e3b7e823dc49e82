"""The C++ tests: the core without Python, on the same golden vectors, plain and with sanitizers."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project._sources import ROOT

VECTORS = ROOT / "tests" / "vectors"
BIN = Path(sys.prefix) / "bin"

needs_headers = pytest.mark.system("doctest-dev", "nlohmann-json3-dev")


def tool(name: str) -> str:
    """A build tool: the environment's own before the system's."""
    found = shutil.which(name, path=str(BIN)) or shutil.which(name)
    assert found, f"{name} is in the test extra, but it is not installed"
    return found


def build(folder: Path, *options: str) -> Path:
    """Builds the C++ tests in a folder; what is up to date is not built again."""
    setup = [tool("cmake"), "-S", str(ROOT), "-B", str(folder), "-G", "Ninja"]
    setup += [f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}", "-DTOMBOLA_PYTHON=OFF", "-DTOMBOLA_TESTS=ON", *options]
    for command in (setup, [tool("cmake"), "--build", str(folder)]):
        run = subprocess.run(command, capture_output=True, text=True, timeout=280)
        assert run.returncode == 0, run.stdout + run.stderr
    return folder / "tombola_tests"


def build_folder(name: str, tmp_path: Path) -> Path:
    """Inside the virtual environment, with which it comes and goes: a build remembers where its tools were."""
    return Path(sys.prefix) / name if sys.prefix != sys.base_prefix else tmp_path / name


def run_tests(
    program: Path, folder: Path = VECTORS, *options: str, wrapper: list[str] | None = None
) -> subprocess.CompletedProcess[str]:
    command = [*(wrapper or []), str(program), str(folder), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=200)


@needs_headers
def test_cpp(tmp_path: Path) -> None:
    program = build(build_folder("build-native-tests", tmp_path))
    run = run_tests(program)
    assert run.returncode == 0, run.stdout + run.stderr
    cases = sum(path.read_text().count("\nTEST_CASE(") for path in (ROOT / "native" / "tests").glob("*.cpp"))
    assert cases > 20
    assert f"{cases} passed | 0 failed" in run.stdout

    # The same program must fail on a vector with one number changed: it does read them.
    changed = tmp_path / "vectors"
    shutil.copytree(VECTORS, changed)
    text = (changed / "lanes.json").read_text()
    case = text.splitlines()[1]
    records = case[case.index('"records":[') :]
    first, second = records[len('"records":[') :].split(",")[:2]
    swapped = records.replace(f"[{first},{second},", f"[{second},{first},", 1)
    assert swapped != records
    (changed / "lanes.json").write_text(text.replace(records, swapped, 1))
    assert run_tests(program, changed).returncode == 1


@needs_headers
def test_cpp_with_sanitizers(tmp_path: Path) -> None:
    flags = "-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"
    program = build(
        build_folder("build-native-sanitized", tmp_path),
        "-DCMAKE_BUILD_TYPE=Debug",
        f"-DCMAKE_CXX_FLAGS={flags}",
        f"-DCMAKE_EXE_LINKER_FLAGS={flags}",
    )
    run = run_tests(program)
    assert run.returncode == 0, run.stdout + run.stderr


@needs_headers
def test_cpp_with_the_thread_sanitizer(tmp_path: Path) -> None:
    flags = "-fsanitize=thread -fno-omit-frame-pointer"
    program = build(
        build_folder("build-native-threads", tmp_path),
        "-DCMAKE_BUILD_TYPE=Debug",
        f"-DCMAKE_CXX_FLAGS={flags}",
        f"-DCMAKE_EXE_LINKER_FLAGS={flags}",
    )
    # Address randomisation off: the sanitizer of GCC 12 does not know the memory layout of the newest kernels.
    run = run_tests(program, VECTORS, "--source-file=*/native/tests/arrays.cpp", wrapper=["setarch", "-R"])
    assert run.returncode == 0, run.stdout + run.stderr
    assert "| 10 passed | 0 failed" in " ".join(run.stdout.split())
