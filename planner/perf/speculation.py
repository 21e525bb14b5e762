"""Speculative decoding as a stated multiplier: a draft proposes K tokens, one step of the model verifies them.

A proposed token is accepted with chance A, independently, until the first that is not; the step adds one token of its own. So a step
brings (1 - A^(K+1)) / (1 - A) tokens, works on K + 1 tokens of each request while reading weights and cache once, and costs K draft
steps besides. At many requests in flight the step is bound by arithmetic, and K + 1 tokens cost K + 1 times as much: it stops paying.
Reference: Leviathan, Kalman, Matias 2023 (arXiv:2211.17192).
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.perf import llm
from planner.perf.model import InferenceWork

DRAFT_SHARE = 0.05
"""Assumed time of proposing one token over that of a step of the model: heads or a draft of a twentieth of its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """What speculation does to a decode step; nothing with `proposed` 0."""

    proposed: int  # K
    acceptance: float  # A

    @property
    def tokens_each(self) -> float:
        """Tokens of a request that one step works on."""
        return self.proposed + 1.0

    @property
    def tokens_per_step(self) -> float:
        """Expected tokens that one step brings a request: 1 + A + ... + A^K."""
        return sum(self.acceptance**i for i in range(self.proposed + 1))

    @property
    def factor(self) -> float:
        """Time of a token over that of a verifying step: (1 + K·c) / expected tokens."""
        return (1.0 + self.proposed * DRAFT_SHARE) / self.tokens_per_step

    def applied(self, step: llm.Step) -> llm.Step:
        """Return the time of one token, and its parts, from that of a verifying step."""
        if not self.proposed:
            return step
        return llm.Step(**{name: getattr(step, name) * self.factor for name in llm.Step.__slots__})


def speculation_of(work: InferenceWork) -> Speculation:
    """Return the speculation that is asked for; none where it is not."""
    return Speculation(proposed=work.speculative_tokens or 0, acceptance=work.acceptance_rate or 0.0)
