"""What every test has: Hypothesis without deadlines, and the rule for what the system must provide.

A test marked ``@pytest.mark.system("doctest-dev", …)`` needs those Debian packages. `make test`
installs them when it can. Where one is missing the test is skipped, the skips are counted by name at the end
of the run, and with CI=true they fail it: otherwise a test could be skipped for ever without anyone knowing.

A test marked ``@pytest.mark.peer("mosaic")`` runs another project's own code, in the environment that
`make peers` makes of some hundred megabytes. Without it the test is skipped, and counted, in CI too.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Time is never asserted: a busy machine must not fail a test.
settings.register_profile("tombola", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tombola")

_LIST = Path(__file__).with_name("system-packages.txt")
_INCLUDE = ("/usr/include", "/usr/local/include", "/opt/homebrew/include")
_skipped = pytest.StashKey[Counter[str]]()
_BENCH = Path(__file__).parents[1] / "bench"
_no_peer = pytest.StashKey[Counter[str]]()


def _packages() -> dict[str, str]:
    """Debian package → the program or <header> by which it is recognised on any system."""
    lines = (line.split("#")[0].split() for line in _LIST.read_text().splitlines())
    return {words[0]: words[1] for words in lines if words}


def _is_there(sign: str) -> bool:
    if sign.startswith("<"):
        return any(Path(folder, sign.strip("<>")).exists() for folder in _INCLUDE)
    return shutil.which(sign) is not None


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_skipped] = Counter()
    config.stash[_no_peer] = Counter()


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("peer"):
        for name in mark.args:
            if not (_BENCH / f".venv-{name}" / "recipe.json").exists():
                item.config.stash[_no_peer][name] += 1
                pytest.skip(f"peer: {name} is not installed; try make peers")
    for mark in item.iter_markers("system"):
        known = _packages()
        for package in mark.args:
            if package not in known:
                pytest.fail(
                    f"{package} is not in {_LIST.name}: add it there with its program or <header>",
                    pytrace=False,
                )
            if not _is_there(known[package]):
                item.config.stash[_skipped][package] += 1
                found = f"{known[package]} not found"
                pytest.skip(f"system: {package} is missing ({found}); try apt-get install {package}")


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    if _in_ci() and session.config.stash[_skipped] and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for package, count in sorted(config.stash[_skipped].items()):
        end = "; in CI that is a failure" if _in_ci() else ""
        terminalreporter.write_line(f"{count} skipped, system: {package} is missing{end}")

    for name, count in sorted(config.stash[_no_peer].items()):
        terminalreporter.write_line(f"{count} skipped, peer: {name} is not installed; try make peers")


def _in_ci() -> bool:
    return os.environ.get("CI") == "true"
