"""Placement scores: which questions are asked, what is read, and the limit of different questions a day."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from pricing.aws.placement_scores import GROUPS, parse_placement_scores, placement_scores_source
from pricing.errors import ReplyError, SourceFailed
from pricing.source import Ask, Scope

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ASK = Ask(region="us-east-2", at=NOW, chips=(), instance_types=frozenset())
TYPES = ("g5.48xlarge", "g6.48xlarge", "g6e.48xlarge")


def row(zone_id: str | None, score: Any, region: str = "us-east-2") -> dict[str, Any]:
    base = {"Region": region, "AvailabilityZoneId": zone_id, "Score": score}
    return {k: v for k, v in base.items() if v is not None}


def parse(*rows: Any) -> Any:
    answer = [{"SpotPlacementScores": list(rows[:1])}, {"SpotPlacementScores": list(rows[1:])}]
    return parse_placement_scores(answer, instance_types=TYPES, region="us-east-2", retrieved_at=NOW)


def test_a_score_is_that_of_the_types_that_were_asked_together() -> None:
    reading = parse(row("use2-az3", 8), row("use2-az1", 1), row("use2-az1", 1), row("usw2-az1", 9, "us-west-2"), row(None, 5))  # fmt: skip
    assert [(s.availability_zone_id, s.score) for s in reading.scores] == [("use2-az1", 1), ("use2-az3", 8)]
    assert {s.instance_types for s in reading.scores} == {"g5.48xlarge,g6.48xlarge,g6e.48xlarge"}
    assert {(s.target_capacity, s.target_unit) for s in reading.scores} == {(1, "units")}
    assert reading.excluded == {"repeated": 1, "region us-west-2": 1, "of a whole region, not of a zone": 1}


@pytest.mark.parametrize("score", [0, 11, None, "8"])
def test_what_is_no_score_is_an_error(score: Any) -> None:
    with pytest.raises(ReplyError, match=r"Score|score"):
        parse(row("use2-az1", score))


def test_each_question_has_at_least_three_types_and_there_are_few() -> None:
    assert all(len(set(group)) == len(group) >= 3 for group in GROUPS)
    assert len(GROUPS) <= 5


class Client:
    """The SDK's own EC2 client with answers laid ready."""

    def __init__(self) -> None:
        import boto3
        from botocore.stub import Stubber

        self.ec2 = boto3.client("ec2", region_name="us-east-2", aws_access_key_id="x", aws_secret_access_key="y")
        self.stub = Stubber(self.ec2)

    def __enter__(self) -> Client:
        self.stub.activate()
        return self

    def __exit__(self, *error: object) -> None:
        self.stub.deactivate()
        self.ec2.close()

    def client(self, service: str, region: str) -> Any:
        assert (service, region) == ("ec2", "us-east-2")
        return self.ec2


def test_every_group_is_asked_by_zone() -> None:
    with Client() as aws:
        for n, group in enumerate(GROUPS):
            asked = {"InstanceTypes": list(group), "TargetCapacity": 1, "TargetCapacityUnitType": "units", "SingleAvailabilityZone": True, "RegionNames": ["us-east-2"]}  # fmt: skip
            aws.stub.add_response("get_spot_placement_scores", {"SpotPlacementScores": [row("use2-az1", n + 1)]}, asked)
        source = placement_scores_source(aws)  # type: ignore[arg-type]
        reading = source.read(ASK)
        aws.stub.assert_no_pending_responses()
    assert [(s.instance_types, s.score) for s in reading.placement_scores] == [(",".join(g), n + 1) for n, g in enumerate(GROUPS)]  # fmt: skip
    assert reading.scope == Scope(provider="aws", region="us-east-2", tables=frozenset({"placement_scores"}))
    assert source.default is False


def test_the_limit_of_different_questions_is_one_clear_line_and_no_half_answer() -> None:
    with Client() as aws:
        aws.stub.add_response("get_spot_placement_scores", {"SpotPlacementScores": [row("use2-az1", 3)]})
        aws.stub.add_client_error("get_spot_placement_scores", "MaxConfigLimitExceededException", "retry configurations used within the last 24 hours, or wait", 400)  # fmt: skip
        with pytest.raises(SourceFailed, match="no further different question within 24 hours") as failed:
            placement_scores_source(aws).read(ASK)  # type: ignore[arg-type]
    assert "\n" not in str(failed.value)
    assert "asked within the last 24 hours can be asked again" in failed.value.remedy


def test_another_refusal_says_what_it_is() -> None:
    with Client() as aws:
        aws.stub.add_client_error("get_spot_placement_scores", "UnauthorizedOperation", "no", 403)
        with pytest.raises(SourceFailed, match="ec2:GetSpotPlacementScores"):
            placement_scores_source(aws).read(ASK)  # type: ignore[arg-type]
        aws.stub.add_response("get_spot_placement_scores", {"SpotPlacementScores": [row("use2-az1", 30)]})
        with pytest.raises(SourceFailed, match="us-east-2: row 0: a score is 1 to 10, not 30"):
            placement_scores_source(aws).read(ASK)  # type: ignore[arg-type]
