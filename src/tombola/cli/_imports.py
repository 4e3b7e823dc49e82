"""`--import`: a user's own module, run before a command looks up a name that it registers."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path

from tombola.errors import InputError


def add_import(parser: argparse.ArgumentParser) -> None:
    """Adds the option to the parser of a command."""
    parser.add_argument(
        "--import",
        dest="imports",
        action="append",
        default=[],
        metavar="MODULE",
        help="run this module first, so that what it registers can be named: a path to a .py file, or the name of a "
        "module that is installed or in this folder; may be given several times",
    )


def import_modules(words: Iterable[str]) -> None:
    """Imports each module, given by its name or as a path to a .py file.

    >>> import_modules(["no_such_module"])
    Traceback (most recent call last):
    tombola.errors.InputError: --import no_such_module: there is no module of this name, neither installed nor in ...
    """
    for word in words:
        try:
            if word.endswith(".py"):
                _import_file(word)
            else:
                _import_name(word)
        except InputError as problem:
            raise InputError(f"--import {word}: {problem}") from problem
        except (Exception, SystemExit) as problem:
            # Whatever the user's code raises, even its own exit: it is reported as the failure of this import.
            what = " ".join(f"{type(problem).__name__}: {problem}".split()).removesuffix(":")
            raise InputError(f"--import {word}: {what} ({_where(problem)})") from problem


def _import_file(word: str) -> None:
    path = Path(word).resolve()
    if not path.is_file():
        raise InputError(f"there is no such file in {Path.cwd()}; give a path to a .py file or a module's name")
    # A name that no other module has: a file called json.py must not stand in for the library's.
    name = "imported_" + re.sub(r"\W", "_", str(path.with_suffix("")))
    spec = importlib.util.spec_from_file_location(name, path)
    if name in sys.modules or spec is None or spec.loader is None:
        return
    _search_also(path.parent)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _import_name(word: str) -> None:
    if not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", word):
        raise InputError("this is neither a module's name nor a path to a .py file")
    _search_also(Path.cwd())
    try:
        importlib.import_module(word)
    except ModuleNotFoundError as problem:
        if problem.name is None or not f"{word}.".startswith(f"{problem.name}."):
            raise  # found, but something that it imports is missing
        raise InputError(
            f"there is no module of this name, neither installed nor in {Path.cwd()}; "
            f"check the spelling, or give a path to a .py file"
        ) from None


def _search_also(folder: Path) -> None:
    """At the end, where nothing in the folder can hide what is installed."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _where(problem: BaseException) -> str:
    """The place in the user's code that failed."""
    if isinstance(problem, SyntaxError) and problem.filename:
        return f"{problem.filename}, line {problem.lineno}"
    last = traceback.extract_tb(problem.__traceback__)[-1]
    return f"{last.filename}, line {last.lineno}"
