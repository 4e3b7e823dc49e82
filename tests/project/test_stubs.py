"""The types of the extension module are generated from it; the committed file must be what comes out."""

from __future__ import annotations

import importlib

from nanobind.stubgen import StubGen

from tests.project._sources import PACKAGE


def test_core_stub_is_current() -> None:
    stubs = StubGen(importlib.import_module("tombola._core"))
    stubs.put(importlib.import_module("tombola._core"))
    assert (PACKAGE / "_core.pyi").read_text() == stubs.get(), "run: make stubs"
