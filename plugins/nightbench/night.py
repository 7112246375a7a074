"""Which cases a night has room for, and in which order. Pure."""

from __future__ import annotations

PRIORITY = 5
"""Of a case whose block says nothing."""
