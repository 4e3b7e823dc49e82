"""Files: the rows of the array in them, shuffled in bounded memory, and never half done."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tombola
from tests.arrays._checks import SMALL
from tombola import _core
from tombola.arrays import _files, _slow, shuffle_file
from tombola.cli import main
from tombola.errors import ArrayError


def saved(path: Path, x: np.ndarray) -> Path:
    np.save(path, x)
    return path


@pytest.mark.parametrize(
    ("shape", "dtype", "memory", "way"),
    [
        ((1000,), "i4", 1 << 20, "in memory"),
        ((10, 100_000), "f4", 1 << 21, "follow"),
        ((50_000, 40), "u1", 3 << 19, "follow"),
        ((90_000, 64), "u1", 1 << 22, "scatter"),
        ((90_000, 200), "u1", 1 << 22, "follow"),
        ((90_000, 600), "u1", 1 << 22, "follow"),
        ((1_300_000,), "i4", 7 << 20, "in memory"),
        ((3_000_000,), "i4", 8 << 20, "scatter"),
        ((3_000_000, 3), "u1", 8 << 20, "scatter"),
        ((1_500_000,), "f8", 8 << 20, "scatter"),
        ((0, 3), "f8", 1 << 20, None),
        ((1, 3), "f8", 1 << 20, None),
        ((5, 0), "f8", 1 << 20, None),
    ],
)
def test_the_rows_come_as_in_memory(
    tmp_path: Path, shape: tuple[int, ...], dtype: str, memory: int, way: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(1).integers(0, 200, shape).astype(dtype)
    path = saved(tmp_path / "x.npy", x)
    ways = []
    choose = _files._way
    monkeypatch.setattr(_files, "_way", lambda *a: ways.append(choose(*a)) or ways[-1])
    mode = path.stat().st_mode
    shuffle_file(path, seed=3, memory_bytes_max=memory, threads=2)
    assert ways == ([way] if way else [])
    assert np.array_equal(np.load(path), tombola.shuffled(x, seed=3))
    assert path.stat().st_mode == mode
    assert os.listdir(tmp_path) == ["x.npy"]


@given(
    st.sampled_from(["exact_file", "exact_file_follow"]),
    st.integers(2, 700),
    st.integers(1, 20) | st.integers(500, 600),
    st.sampled_from([name for name in SMALL if name != "leaf only"]),
    st.integers(1, 3),
    st.integers(1, 5000) | st.just(1 << 22),
    st.integers(0, 9),
)
def test_both_ways_of_files_are_those_of_memory(
    way: str, n: int, row_bytes: int, name: str, threads: int, memory: int, skip: int
) -> None:
    limits = SMALL[name]
    if way == "exact_file" and (n <= limits.leaf_max or row_bytes > _core.DIRECT_MAX):
        way = "exact_file_follow"
    x = np.random.default_rng(n).integers(0, 256, (n, row_bytes), dtype=np.uint8)
    wanted = x[_slow.permutation(n, 5, limits)]
    source, target = os.memfd_create("source"), os.memfd_create("target")
    try:
        os.write(source, bytes(skip) + x.tobytes())
        os.ftruncate(target, skip + x.size)
        getattr(_core, way)(source, target, skip, n, row_bytes, memory, 5, threads, limits.native())
        assert os.pread(target, skip + x.size, 0)[skip:] == wanted.tobytes()
        assert os.pread(source, skip + x.size, 0)[skip:] == x.tobytes()
    finally:
        os.close(source)
        os.close(target)


def test_plain_rows(tmp_path: Path) -> None:
    path = tmp_path / "rows.bin"
    path.write_bytes(bytes(range(200)))
    shuffle_file(path, seed=3, row_bytes=2)
    assert list(path.read_bytes()[::2]) == (tombola.permutation(100, seed=3) * 2).tolist()


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.npy", np.arange(9))
    link = tmp_path / "link.npy"
    link.symlink_to(path)
    shuffle_file(link, seed=1)
    assert link.is_symlink()
    assert np.array_equal(np.load(path), tombola.permutation(9, seed=1))


PEAK = """
import pathlib, re, sys, tombola.arrays, numpy
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) * 1024
before = peak()
tombola.arrays.shuffle_file(sys.argv[1], seed=1, memory_bytes_max=int(sys.argv[2]), threads=int(sys.argv[3]))
print(peak() - before)
"""


@pytest.mark.parametrize("threads", [2, 8, 24])
@pytest.mark.parametrize("shape", [(12_000_000,), (400_000, 120), (50_000, 1000)])
def test_memory_stays_within_the_budget(tmp_path: Path, shape: tuple[int, ...], threads: int) -> None:
    memory = 12 << 20
    path = saved(tmp_path / "x.npy", np.zeros(shape, np.int32 if len(shape) == 1 else np.uint8))
    assert path.stat().st_size > 3.5 * memory
    command = [sys.executable, "-c", PEAK, str(path), str(memory), str(threads)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) < memory * 1.1 + (2 << 20)


def test_memory_stays_within_the_budget_of_a_shuffle_in_memory(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.npy", np.zeros((4000, 16_000), np.uint8))
    memory = _files._in_memory_bytes(_files.Rows(128, 4000, 16_000))
    run = subprocess.run(
        [sys.executable, "-c", PEAK, str(path), str(memory), "2"], capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) < memory * 1.05 + (2 << 20)


# The signal comes after so much processor time of the core's, which does its work again and again until then: so never
# too early nor too late, however busy or fast the machine is. A handler raises Ctrl-C's own signal; without one the
# kernel ends the process on the spot.
STOPPED = """
import signal, sys
from tombola import _core
from tombola.arrays import shuffle_file

class Core:
    def __getattr__(self, name):
        found = getattr(_core, name)
        return again_and_again(found) if name in ("exact_file", "exact_file_follow") else found

def again_and_again(run):
    def runs(*arguments):
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.02)
        while True:  # from the old file to the new one, so once more does no harm
            run(*arguments)
    return runs

# A process that a shell starts in the background ignores Ctrl-C, and so do its children unless they say otherwise.
signal.signal(signal.SIGINT, signal.default_int_handler)
if sys.argv[2] == "Ctrl-C":
    signal.signal(signal.SIGVTALRM, lambda number, frame: signal.raise_signal(signal.SIGINT))
sys.modules["tombola.arrays._files"]._core = Core()
shuffle_file(sys.argv[1], seed=1, memory_bytes_max=1 << 24)
"""


@pytest.mark.parametrize("row", [1, 150])
@pytest.mark.parametrize("how", ["Ctrl-C", "killed"])
def test_a_stopped_run_leaves_the_file_as_it_was(tmp_path: Path, how: str, row: int) -> None:
    x = np.arange(8_000_000 // row * row, dtype=np.int32).reshape(-1, row)
    path = saved(tmp_path / "x.npy", x)
    command = [sys.executable, "-c", STOPPED, str(path), how]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert np.array_equal(np.load(path), x)
    if how == "Ctrl-C":
        assert run.stderr.endswith("KeyboardInterrupt\n")
        assert run.returncode == -signal.SIGINT
        assert os.listdir(tmp_path) == ["x.npy"]
    else:
        assert run.returncode == -signal.SIGVTALRM
        assert len(os.listdir(tmp_path)) == 2, "nothing had been written, so nothing was interrupted"


@pytest.mark.parametrize("step", ["open", "chown", "copystat", "utime", "replace", "fsync"])
def test_ctrl_c_between_any_two_steps_leaves_one_whole_file(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.arange(100)
    path = saved(tmp_path / "x.npy", x)
    module = shutil if step == "copystat" else os
    real = getattr(module, step)

    def interrupted(*arguments: Any, **options: Any) -> Any:
        real(*arguments, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module, step, interrupted)
        with pytest.raises(KeyboardInterrupt):
            shuffle_file(path, seed=1)
    assert np.array_equal(np.load(path), tombola.permutation(100, seed=1) if step == "replace" else x)
    assert os.listdir(tmp_path) == ["x.npy"]


def test_the_new_file_belongs_to_whom_the_old_one_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path / "x.npy", np.arange(9))
    path.chmod(0o640)
    before = path.stat()
    given = []

    def forbidden(name: Path, *owner: int) -> None:
        given.append(owner)
        raise PermissionError(1, "Operation not permitted")  # as for everyone but root, when it is another's

    with monkeypatch.context() as patched:
        patched.setattr(os, "chown", forbidden)
        shuffle_file(path, seed=1)
    assert given == [(before.st_uid, before.st_gid)]
    assert path.stat().st_mode == before.st_mode
    assert path.stat().st_ino != before.st_ino


def test_a_failed_write_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n, memory in ((3_000_000, 8 << 20), (70_000, 1 << 21), (10_000, 1 << 20)):
        x = np.arange(n, dtype=np.int32)
        path = saved(tmp_path / "x.npy", x)

        def full(*arguments: Any) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            with pytest.raises(OSError, match=r"No space left on device; the file stays as it was: .*x\.npy"):
                shuffle_file(path, seed=1, memory_bytes_max=memory)
        assert np.array_equal(np.load(path), x)
        assert os.listdir(tmp_path) == ["x.npy"]


@pytest.mark.parametrize("way", ["exact_file", "exact_file_follow"])
def test_errors_of_the_core_are_os_errors(way: str) -> None:
    run = getattr(_core, way)
    source = os.memfd_create("short")
    target = os.memfd_create("target")
    try:
        os.ftruncate(source, 4)
        with pytest.raises(OSError, match=r"the file ended after [0-9]+ bytes: Input/output error"):
            run(source, target, 0, 100_000, 4, 1 << 20, 1, 2)
        os.ftruncate(source, 400_000)
        read_only = os.open(f"/proc/self/fd/{target}", os.O_RDONLY)
        with pytest.raises(OSError, match="writing the rows: Bad file descriptor"):
            run(source, read_only, 0, 100_000, 4, 1 << 20, 1, 2)
        os.close(read_only)
    finally:
        os.close(source)
        os.close(target)


def test_refused(tmp_path: Path) -> None:
    def refused(path: Path, message: str, **arguments: Any) -> None:
        before = path.read_bytes() if path.is_file() else None
        with pytest.raises(ArrayError, match=message):
            shuffle_file(path, **arguments)
        assert before is None or path.read_bytes() == before

    numbers = saved(tmp_path / "x.npy", np.arange(3_000_000, dtype=np.int32))
    refused(tmp_path / "none.npy", "cannot be read: No such file")
    refused(tmp_path, "cannot be read: Is a directory")
    refused(numbers, "memory_bytes_max is 5", memory_bytes_max=5)
    refused(
        numbers,
        "3000000 rows of 4 bytes, which cannot be shuffled in 1048576 bytes .*; allow",
        memory_bytes_max=1 << 20,
    )
    refused(numbers, "threads is 0", threads=0)
    refused(numbers, "no multiple of row_bytes 1000", row_bytes=1000)
    refused(saved(tmp_path / "o.npy", np.array([{}], object)), "pickled objects")
    refused(saved(tmp_path / "zero.npy", np.array(3)), "0-d")
    refused(saved(tmp_path / "f.npy", np.asfortranarray(np.ones((4, 3)))), "Fortran")
    frozen = saved(tmp_path / "frozen.npy", np.arange(9))
    frozen.chmod(0o444)
    refused(frozen, "frozen.npy is read-only")
    (tmp_path / "text").write_text("hello")
    refused(tmp_path / "text", "no .npy file")
    short = tmp_path / "short.npy"
    short.write_bytes(numbers.read_bytes()[:1000])
    refused(short, "ends after 1000 bytes")


def header(path: Path, shape: str, rows: bytes = b"", version: bytes = b"\1\0") -> Path:
    words = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".encode()
    words += b" " * (-(10 + len(words) + 1) % 64) + b"\n"
    path.write_bytes(b"\x93NUMPY" + version + len(words).to_bytes(2, "little") + words + rows)
    return path


@pytest.mark.parametrize(
    ("shape", "rows", "message"),
    [
        ("(5, 4294967296, 4294967296)", b"12345", "ends after .* but its header promises"),
        ("(10, 3, 6148914691236517208)", bytes(80), "ends after .* but its header promises"),
        ("(5, 18446744073709551616)", b"12345", "ends after .* but its header promises"),
        ("(4, -3)", b"", "has the shape .* which no array has"),
        ("(-4, -2)", bytes(8), "has the shape .* which no array has"),
        ("(3,)", b"12345", "goes on for 2 bytes after its array, which would be lost"),
    ],
)
def test_headers_that_do_not_fit_are_refused(tmp_path: Path, shape: str, rows: bytes, message: str) -> None:
    path = header(tmp_path / "x.npy", shape, rows)
    before = path.read_bytes()
    with pytest.raises(ArrayError, match=message):
        shuffle_file(path, seed=1)
    assert path.read_bytes() == before


def test_a_version_not_known_is_refused(tmp_path: Path) -> None:
    path = header(tmp_path / "x.npy", "(3,)", b"123", b"\x09\x09")
    with pytest.raises(ArrayError, match=r"no \.npy file \(.*9\.9|version"):
        shuffle_file(path, seed=1)


def test_a_file_of_many_fields_and_of_a_long_name(tmp_path: Path) -> None:
    x = np.zeros(50, np.dtype([(f"a_field_of_a_table_{i}", "u1") for i in range(700)]))
    x["a_field_of_a_table_0"] = np.arange(50)
    path = saved(tmp_path / ("é" * 120 + ".npy"), x)
    shuffle_file(path, seed=1)
    assert np.array_equal(np.load(path, max_header_size=1 << 20), tombola.shuffled(x, seed=1))
    assert len(os.listdir(tmp_path)) == 1


def test_a_file_changed_meanwhile_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path / "x.npy", np.arange(100))
    real = os.fsync

    def changed(number: int) -> None:
        real(number)
        path.write_bytes(b"new")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", changed)
        with pytest.raises(ArrayError, match="was changed while it was shuffled"):
            shuffle_file(path, seed=1)
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["x.npy"]


def test_a_refused_call_draws_from_no_generator(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.npy", np.zeros((2, 3 << 20), np.uint8))
    generator = np.random.default_rng(1)
    before = generator.bit_generator.state
    with pytest.raises(ArrayError, match="cannot be shuffled in"):
        shuffle_file(path, seed=generator, memory_bytes_max=1 << 20)
    assert generator.bit_generator.state == before


def test_paths_that_cannot_be(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path in (loop, tmp_path / "nul\0"):
        with pytest.raises(ArrayError, match="cannot be read"):
            shuffle_file(path, seed=1)


def test_the_amount_that_a_refusal_names_is_enough(tmp_path: Path) -> None:
    x = np.arange(3_000_000, dtype=np.int32)
    path = saved(tmp_path / "x.npy", x)
    with pytest.raises(ArrayError) as caught:
        shuffle_file(path, seed=1, memory_bytes_max=1 << 20)
    shuffle_file(path, seed=1, memory_bytes_max=int(str(caught.value).split("allow ")[1]))
    assert np.array_equal(np.load(path), tombola.permutation(len(x), seed=1))


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(tmp_path / "x.npy", np.arange(50))
    assert main(["shuffle", str(path), "--seed", "7", "--memory", "64MB"]) == 0
    assert capsys.readouterr().out == f"shuffled {path} (528 bytes)\n"
    assert np.array_equal(np.load(path), tombola.permutation(50, seed=7))
    assert main(["shuffle", str(path), "--json"]) == 0
    assert '"bytes": 528' in capsys.readouterr().out
    assert main(["shuffle", str(path), "--memory", "much"]) == 2
    assert "the size 'much' is not understood" in capsys.readouterr().err
    assert main(["shuffle", str(path), "--memory", "9" * 400]) == 2
    assert "more than any machine has" in capsys.readouterr().err
    assert main(["shuffle", str(tmp_path / "gone")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_command_on_a_full_disk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path / "x.npy", np.arange(50))

    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    assert main(["shuffle", str(path)]) == 2
    assert capsys.readouterr().err == (
        f"tombola: error: {path} could not be shuffled: No space left on device; the file stays as it was\n"
    )
    assert np.array_equal(np.load(path), np.arange(50))
    assert os.listdir(tmp_path) == ["x.npy"]
