"""What an account may start: rows beyond its vCPU quota are told so, or left out.

Only what the snapshot knows is said: without the account's quota of the region and family nothing is. Capacity Blocks and owned machines
do not fall under these quotas, and what runs already is not known here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from planner.perf.model import Evaluation, Outcome, RejectionReason
from planner.recommend.model import Offer, Rejection, Run, Serving, Sized
from planner.recommend.request import QUOTA_MODES
from planner.recommend.sizing import TrainingLoad, reject, run_or_rejection
from planner.tco.assumptions import Assumptions
from pricing.market import Quota
from pricing.quotas import quota_for, shortage

NOTE, ENFORCE, IGNORE = QUOTA_MODES


def quota_of(offer: Offer, quotas: Sequence[Quota]) -> Quota | None:
    """Return the quota that an offer falls under; None where none is known or none applies."""
    quote = offer.quote
    return quota_for(quotas, offer.instance, region=quote.region, purchase_option=quote.purchase_option)


def quota_note(offer: Offer, instances: int, quotas: Sequence[Quota]) -> str | None:
    """Return why the account may not start so many instances, with the figures; None when it may, or when it is not known."""
    quota, vcpus = quota_of(offer, quotas), offer.instance.vcpus
    return None if quota is None or not vcpus else shortage(quota, vcpus, instances)


def no_quota(offer: Offer, instances: int, quotas: Sequence[Quota]) -> Rejection | None:
    """Return the rejection of an offer of which the account may not start so many; the nearest miss lacks the fewest vCPUs."""
    why = quota_note(offer, instances, quotas)
    if why is None:
        return None
    quota = quota_of(offer, quotas)
    lacking = (offer.instance.vcpus or 0) * instances - (0.0 if quota is None else quota.vcpus)
    rejection = reject(offer, RejectionReason.NO_QUOTA, why, shortfall=lacking)
    return dataclasses.replace(rejection, subject="" if quota is None else quota.code)


def within_quota(sized: Serving | Rejection, quotas: Sequence[Quota]) -> Sized | Rejection:
    """Return a sized row, or its rejection where the account may not start all of its instances."""
    if not isinstance(sized, Serving):
        return sized
    return no_quota(sized.offer, sized.instance_count, quotas) or sized


def run_within_quota(
    offer: Offer, outcomes: Sequence[Outcome], load: TrainingLoad, assumptions: Assumptions, quotas: Sequence[Quota]
) -> Run | Rejection:
    """Return the cheapest run on as many instances as the account may start that meets deadline and budget, or why none does.

    No quota is the reason where a larger number of instances would do.
    """
    allowed = [o for o in outcomes if not isinstance(o, Evaluation) or quota_note(offer, o.instances, quotas) is None]
    if len(allowed) == len(outcomes):
        return run_or_rejection(offer, outcomes, load, assumptions)
    found = run_or_rejection(offer, allowed, load, assumptions) if allowed else None
    if isinstance(found, Run):
        return found
    unbound = run_or_rejection(offer, outcomes, load, assumptions)
    if isinstance(unbound, Run):
        return no_quota(offer, unbound.instance_count, quotas) or unbound
    return unbound
