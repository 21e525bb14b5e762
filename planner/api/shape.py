"""What the shapes of all answers have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Shape(BaseModel):
    """A part of an answer: every field is always there, and no other."""

    model_config = ConfigDict(extra="forbid", strict=True)


Money = str
"""USD as a decimal string."""


class Open(BaseModel):
    """A part of an answer that may gain fields."""

    model_config = ConfigDict(extra="allow", strict=True)
