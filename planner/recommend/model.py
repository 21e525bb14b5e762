"""The nouns of `recommend`: an offer to buy, a candidate, a sized and priced row, and a rejection."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from planner.perf.model import Evaluation, RejectionReason
from planner.perf.training_checkpoints import WriteTime
from planner.tco.inference import ServingCost
from planner.tco.training import RunHours, TrainingCost
from pricing.market import CapacityBlock
from pricing.model import InstanceType, Quote
from pricing.money import UsdPerHour


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptionRisk:
    """Share of instances interrupted within a month: low, expected, high; and where it comes from."""

    low_fraction: float
    fraction: float
    high_fraction: float
    source: str
    assumed: bool = False  # no source has a band


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One way to buy one instance type: the quote that was picked for a region and a purchase option."""

    instance: InstanceType
    quote: Quote
    price: UsdPerHour
    notes: tuple[str, ...] = ()
    interruption: InterruptionRisk | None = None  # spot only
    block: CapacityBlock | None = None  # a capacity block that was offered; None for a published rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """Why one type, in one region, for one purchase option, is not in the ranking. `shortfall` orders: least first is the nearest miss."""

    provider: str
    instance_type: str
    reason: RejectionReason
    region: str | None
    purchase_option: str | None
    detail: str
    shortfall: float = 0.0
    subject: str = ""  # what it is short of, where one reason has several: a quota's code. Told apart in groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A cost at the p10 and the p90 of what is uncertain, in USD. None where it does not apply."""

    usd_per_hour: Decimal | None = None
    usd_per_million_inferences: Decimal | None = None
    usd_per_million_total_tokens: Decimal | None = None
    usd_per_million_input_tokens: Decimal | None = None
    usd_per_million_output_tokens: Decimal | None = None
    usd_per_epoch: Decimal | None = None
    usd_total: Decimal | None = None
    usd_per_month: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """A sized way to serve: `groups` copies of the evaluated layout."""

    offer: Offer
    evaluation: Evaluation
    groups: int
    capacity_per_s: float  # requests (or samples) per second of all groups at full load
    peak_per_s: float | None  # the load that must be carried; None when none was stated
    served_per_s: float  # really served
    cost: ServingCost

    @property
    def instance_count(self) -> int:
        """Instances that are paid for."""
        return self.groups * self.evaluation.instances


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A sized training run."""

    offer: Offer
    evaluation: Evaluation
    hours: RunHours
    epochs: float
    written: WriteTime
    interruptions_per_hour: float
    cost: TrainingCost

    @property
    def instance_count(self) -> int:
        """Instances that are paid for."""
        return self.evaluation.instances


Sized = Serving | Run
