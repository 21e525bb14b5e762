"""GetSpotPlacementScores read into how likely a spot request is to be met in each zone, 1 to 10.

A score belongs to the question: these types together, this many instances. With fewer than three types it is always low, so types
are asked in fixed groups and the score is the group's. AWS lets an account ask few different questions in 24 hours, whereas one that was
asked within them may be repeated: the groups are few and never change with what happens to be in a catalog's list, and this source is asked only by name.

A score is no promise of capacity and no rate of interruption.

Reference: AWS EC2 API, GetSpotPlacementScores; Spot placement score in the EC2 user guide; read 2026-11.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pricing.aws import replies
from pricing.aws.paging import pages
from pricing.aws.session import Aws
from pricing.errors import ReplyError, SourceFailed
from pricing.market import PlacementScore
from pricing.source import Ask, Scope, Source, SourceReading

NAME = "placement_scores"
SOURCE = "AWS GetSpotPlacementScores"
OPERATION = "get_spot_placement_scores"
LIMIT = "MaxConfigLimitExceeded"
"""Beginning of the code with which AWS says that the day's different questions are used up."""
FEWEST_TYPES = 3
GROUPS: tuple[tuple[str, ...], ...] = (
    ("g4dn.xlarge", "g5.xlarge", "g6.xlarge", "g6e.xlarge"),  # one small GPU, whichever
    ("g5.12xlarge", "g6.12xlarge", "g6e.12xlarge"),  # four
    ("g5.48xlarge", "g6.48xlarge", "g6e.48xlarge"),  # eight
    ("p4d.24xlarge", "p4de.24xlarge", "p5.48xlarge"),  # eight A100 or H100
    ("p5.48xlarge", "p5e.48xlarge", "p5en.48xlarge"),  # eight H100 or H200
)
"""Types that are asked together: a job that runs on one of a group could take any. Five different questions a region."""
TARGET_CAPACITY, TARGET_UNIT = 1, "units"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementScoresReading:
    """Scores by zone; rows left out, by reason."""

    scores: tuple[PlacementScore, ...]
    excluded: Mapping[str, int]


def placement_scores_source(aws: Aws) -> Source:
    """Return the source of spot placement scores."""
    return Source(
        name=NAME,
        regional=True,
        needs_credentials=True,
        default=False,
        what="spot placement scores by zone, five questions a region; AWS limits different questions a day",
        permissions=("ec2:GetSpotPlacementScores",),
        read=lambda ask: read_placement_scores(aws, ask),
    )


def read_placement_scores(aws: Aws, ask: Ask) -> SourceReading:
    """Return the scores of every group in a region; SourceFailed when one is refused."""
    if ask.region is None:
        raise ValueError("placement scores are asked region by region")
    client = aws.client("ec2", ask.region)
    scores: list[PlacementScore] = []
    excluded: Counter[str] = Counter()
    for group in GROUPS:
        try:
            answer = pages(
                client,
                OPERATION,
                "SpotPlacementScores",
                source=SOURCE,
                on_answer=ask.on_answer,
                InstanceTypes=list(group),
                TargetCapacity=TARGET_CAPACITY,
                TargetCapacityUnitType=TARGET_UNIT,
                SingleAvailabilityZone=True,
                RegionNames=[ask.region],
            )
            reading = parse_placement_scores(answer, instance_types=group, region=ask.region, retrieved_at=ask.at)
        except SourceFailed as e:
            raise limit_reached(e) or e from e.__cause__
        except ReplyError as e:
            raise SourceFailed(source=SOURCE, why=f"{ask.region}: {e.where}: {e.why}") from e
        scores += reading.scores
        excluded.update(reading.excluded)
    return SourceReading(
        source=NAME,
        scope=Scope(provider="aws", region=ask.region, tables=frozenset({"placement_scores"})),
        retrieved_at=ask.at,
        placement_scores=tuple(scores),
        excluded=dict(excluded),
    )


def limit_reached(error: SourceFailed) -> SourceFailed | None:
    """Return the error in our words when AWS said that the day's different questions are used up, else None."""
    response = getattr(error.__cause__, "response", None)
    code = str(response.get("Error", {}).get("Code", "")) if isinstance(response, Mapping) else ""
    if not code.startswith(LIMIT):
        return None
    return SourceFailed(
        source=SOURCE,
        why=f"AWS answers no further different question within 24 hours ({code})",
        remedy="regions asked within the last 24 hours can be asked again; for others wait",
    )


def parse_placement_scores(
    answer: Iterable[Any], *, instance_types: Iterable[str], region: str, retrieved_at: datetime
) -> PlacementScoresReading:
    """Return the score of each zone of `region` for a request that any of `instance_types` would do."""
    asked = ",".join(instance_types)
    found: dict[str, PlacementScore] = {}
    excluded: Counter[str] = Counter()
    for page in answer:
        for index, given in enumerate(replies.rows_of(page, "SpotPlacementScores", source=SOURCE)):
            row, where = replies.mapping(given, source=SOURCE, where=f"row {index}"), f"row {index}"
            if row.get("Region") != region:
                excluded[f"region {row.get('Region') or 'missing'}"] += 1
                continue
            zone_id = row.get("AvailabilityZoneId")
            if not zone_id:
                excluded["of a whole region, not of a zone"] += 1
                continue
            score = replies.whole(row, "Score", source=SOURCE, where=where)
            if not 1 <= score <= 10:
                raise ReplyError(source=SOURCE, where=where, why=f"a score is 1 to 10, not {score}")
            if zone_id in found:
                excluded["repeated"] += 1
            found[zone_id] = PlacementScore(
                provider="aws",
                instance_types=asked,
                region=region,
                availability_zone_id=zone_id,
                target_capacity=TARGET_CAPACITY,
                target_unit=TARGET_UNIT,
                score=score,
                source=SOURCE,
                retrieved_at=retrieved_at,
            )
    return PlacementScoresReading(scores=tuple(score for _, score in sorted(found.items())), excluded=dict(excluded))
