"""What the shapes of all answers have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Shape(BaseModel):
    """A part of an answer: every field is always there, and no other."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Paged(Shape):
    """An answer whose lists may come in pages."""

    next: str | None = Field(default=None, description="where the next page is; not there on the last one")


Money = str
"""USD as a decimal string."""


class Open(BaseModel):
    """A part of an answer that may gain fields."""

    model_config = ConfigDict(extra="allow", strict=True)
