"""Values of records as JSON and as short text."""

from __future__ import annotations

import base64
import math
from decimal import Decimal
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """A value as JSON has it: bytes become base64 text, arrays lists, what JSON has no form for its description.

    >>> plain({"a": b"hi", "b": np.arange(2)})
    {'a': 'aGk=', 'b': [0, 1]}
    """
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, Decimal) or (isinstance(value, float) and not math.isfinite(value)):
        return str(value)
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return repr(value)


def short(value: Any, width: int = 48) -> str:
    """A value in a cell of a table.

    >>> short(b"0123456789", 20), short("a long text", 8)
    ("b'0123456789'", 'a long …')
    """
    if isinstance(value, np.ndarray):
        text = f"{value.dtype}{list(value.shape)} {' '.join(map(str, value.reshape(-1)[:4].tolist()))}"
        text += " …" if value.size > 4 else ""
    elif isinstance(value, (bytes, bytearray)):
        text = repr(bytes(value[:width]))
        text += "" if len(value) <= width else f"… {len(value)} bytes"
    else:
        text = value if isinstance(value, str) else str(value)
    text = " ".join(text.split())
    return text if len(text) <= width else f"{text[: width - 1].rstrip()}{'' if width < 8 else ' '}…"[:width]
