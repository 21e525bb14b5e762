"""Every source of AWS prices and facts, in the order in which a refresh asks them."""

from __future__ import annotations

from pathlib import Path

from pricing.aws.capacity_blocks import capacity_blocks_source
from pricing.aws.instance_types import instance_types_source
from pricing.aws.offerings import offerings_source
from pricing.aws.placement_scores import placement_scores_source
from pricing.aws.price_list_files import price_list_files_source
from pricing.aws.price_list_query import price_list_source
from pricing.aws.quotas import quotas_source
from pricing.aws.savings_plan_files import savings_plan_files_source
from pricing.aws.savings_plans import savings_plans_source
from pricing.aws.service_rates import storage_source
from pricing.aws.session import Aws
from pricing.aws.spot_advisor import spot_advisor_source
from pricing.aws.spot_history import spot_source
from pricing.source import Source


def aws_sources(aws: Aws, *, directory: Path | None = None) -> tuple[Source, ...]:
    """Return the sources, asking through `aws`. Price list files are kept in `directory`/downloads; None: only while they are read."""
    return (
        price_list_source(aws),
        price_list_files_source(aws, directory=directory),
        storage_source(aws),
        instance_types_source(aws),
        offerings_source(aws),
        savings_plans_source(aws),
        savings_plan_files_source(aws, directory=directory),
        quotas_source(aws),
        spot_source(aws),
        spot_advisor_source(aws),
        capacity_blocks_source(aws),
        placement_scores_source(aws),
    )
