"""Quotas of an account. Codes, families and vCPUs as in AWS's documentation: a p5.48xlarge has 192 vCPUs, a g5.xlarge 4."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from scripted_aws import scripted_aws
from small_contents import shape

from pricing.aws.quotas import GROUPS, parse_quota, quotas_source
from pricing.errors import AccessDenied
from pricing.market import NoticeKind, Quota
from pricing.model import PurchaseOption
from pricing.quotas import instances_possible, quota_for, shortage, verdict
from pricing.source import Ask

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
OPTIONS = PurchaseOption
MISSING = (400, {"__type": "NoSuchResourceException", "message": "The request failed because the quota was not found."})


def answer(code: str, value: Any, **over: Any) -> tuple[int, dict[str, Any]]:
    return 200, {
        "Quota": {"ServiceCode": "ec2", "QuotaCode": code, "QuotaName": f"name of {code}", "Value": value} | over
    }


def read(monkeypatch: pytest.MonkeyPatch, script: Any) -> tuple[Any, list[tuple[str, dict[str, Any]]]]:
    with scripted_aws(monkeypatch, script) as (aws, calls):
        ask = Ask(region="us-east-1", at=NOW, chips=(), instance_types=frozenset())
        return quotas_source(aws).read(ask), calls


EVERY = tuple(
    parse_quota(answer(g.code, 0.0)[1], group=g, region="us-east-1", applied=True, retrieved_at=NOW) for g in GROUPS
)


@pytest.mark.parametrize(
    ("instance_type", "option", "code"),
    [
        ("p5.48xlarge", OPTIONS.ON_DEMAND, "L-417A185B"),
        ("p2.xlarge", OPTIONS.ON_DEMAND, "L-417A185B"),
        ("p6-b200.48xlarge", OPTIONS.SAVINGS_PLAN_3YR, "L-417A185B"),
        ("p4de.24xlarge", OPTIONS.RESERVED_1YR, "L-417A185B"),
        ("p4de.24xlarge", OPTIONS.SPOT, "L-7212CCBC"),
        ("p3.2xlarge", OPTIONS.SPOT, "L-7212CCBC"),
        ("p5.48xlarge", OPTIONS.SPOT, "L-C4BD4855"),  # not the P4, P3 and P2 quota
        ("p5en.48xlarge", OPTIONS.SPOT, "L-C4BD4855"),
        ("p6-b300.48xlarge", OPTIONS.SPOT, "L-C4BD4855"),
        ("g5.xlarge", OPTIONS.ON_DEMAND, "L-DB2E81BA"),
        ("gr6f.4xlarge", OPTIONS.ON_DEMAND, "L-DB2E81BA"),
        ("vt1.3xlarge", OPTIONS.SPOT, "L-3819A6DF"),
        ("trn2.48xlarge", OPTIONS.ON_DEMAND, "L-2C3B7624"),  # not Standard, though that counts T
        ("trn1.2xlarge", OPTIONS.SPOT, "L-6B0D517C"),
        ("inf2.xlarge", OPTIONS.ON_DEMAND, "L-1945791B"),  # not Standard, though that counts I
        ("inf1.xlarge", OPTIONS.SPOT, "L-B5D1601B"),
        ("dl1.24xlarge", OPTIONS.ON_DEMAND, "L-6E869C2A"),  # not Standard, though that counts D
        ("dl2q.24xlarge", OPTIONS.SPOT, "L-85EED4F7"),
        ("m7i.large", OPTIONS.ON_DEMAND, "L-1216C47A"),
        ("c7g.large", OPTIONS.SPOT, "L-34B43A08"),
        ("t3.micro", OPTIONS.ON_DEMAND, "L-1216C47A"),
        ("im4gn.large", OPTIONS.ON_DEMAND, "L-1216C47A"),
        ("p5.48xlarge", OPTIONS.CAPACITY_BLOCK, None),  # has quotas of its own
        ("p5.48xlarge", OPTIONS.OWNED, None),
        ("x2idn.16xlarge", OPTIONS.ON_DEMAND, None),
    ],
)
def test_each_family_falls_under_its_quota(instance_type: str, option: OPTIONS, code: str | None) -> None:  # fmt: skip
    found = quota_for(EVERY, shape("aws", instance_type, "L4"), region="us-east-1", purchase_option=option)
    assert (found and found.code) == code


def test_another_region_and_another_cloud_have_no_such_quota() -> None:
    p5 = shape("aws", "p5.48xlarge", "H100 SXM5 80GB")
    assert quota_for(EVERY, p5, region="us-west-2", purchase_option=OPTIONS.ON_DEMAND) is None
    elsewhere = shape("gcp", "g2-standard-4", "L4", family="g2")
    assert quota_for(EVERY, elsewhere, region="us-east-1", purchase_option=OPTIONS.ON_DEMAND) is None


def quota(vcpus: float) -> Quota:
    return Quota(provider="aws", region="us-east-1", code="L-417A185B", name="Running On-Demand P instances", purchase_option=OPTIONS.ON_DEMAND, families="p", vcpus=vcpus, applied=True, source="test", retrieved_at=NOW)  # fmt: skip


@pytest.mark.parametrize(("vcpus", "possible"), [(0, 0), (191, 0), (192, 1), (383, 1), (384, 2), (2000, 10)])
def test_how_many_p5_an_account_may_run(vcpus: float, possible: int) -> None:
    assert instances_possible(quota(vcpus), 192) == possible


def test_the_account_of_the_default_cannot_start_eight_h100_at_all() -> None:
    assert verdict(quota(0), 192) == "needs 192 vCPU of L-417A185B, the account may run 0: ask for an increase"
    assert (
        shortage(quota(384), 192, 8) == "needs 1,536 vCPU of L-417A185B, the account may run 384: ask for an increase"
    )
    assert shortage(quota(384), 192, 2) is None
    assert verdict(quota(384), 192, 2).startswith("may start: needs 384 of 384 vCPU of L-417A185B")


def test_an_instance_without_vcpus_is_no_question() -> None:
    with pytest.raises(ValueError, match="at least one vCPU"):
        instances_possible(quota(8), 0)


def test_values_are_the_accounts_own(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, calls = read(monkeypatch, lambda _, a: answer(a["QuotaCode"], 768.0))
    assert [operation for operation, _ in calls] == ["GetServiceQuota"] * len(GROUPS)
    assert {a["ServiceCode"] for _, a in calls} == {"ec2"}
    assert {(q.vcpus, q.applied, q.region) for q in reading.quotas} == {(768.0, True, "us-east-1")}
    assert reading.scope.tables == {"quotas"}


def test_without_a_value_of_its_own_an_account_has_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    def script(operation: str, arguments: dict[str, Any]) -> tuple[int, Any]:
        if operation == "GetServiceQuota" and arguments["QuotaCode"] == "L-C4BD4855":
            return MISSING
        return answer(arguments["QuotaCode"], 5.0 if operation == "GetAWSDefaultServiceQuota" else 64.0)

    reading, calls = read(monkeypatch, script)
    values = {q.code: (q.vcpus, q.applied) for q in reading.quotas}
    assert values.pop("L-C4BD4855") == (5.0, False)
    assert set(values.values()) == {(64.0, True)}
    assert [a["QuotaCode"] for op, a in calls if op == "GetAWSDefaultServiceQuota"] == ["L-C4BD4855"]


def test_a_quota_that_the_region_does_not_have_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, _ = read(
        monkeypatch, lambda _, a: MISSING if a["QuotaCode"] == "L-2C3B7624" else answer(a["QuotaCode"], 8.0)
    )
    assert reading.excluded == {"quota that the region does not have": 1}
    assert len(reading.quotas) == len(GROUPS) - 1


@pytest.mark.parametrize(
    ("over", "why"),
    [
        ({"Value": None, "ErrorReason": {"ErrorCode": "DEPENDENCY_THROTTLING_ERROR"}}, "has no value: DEPENDENCY_THROTTLING_ERROR"),
        ({"Value": None}, "Value must be a number of vCPUs, not missing"),
        ({"Value": -1.0}, "must be a number of vCPUs"),
        ({"QuotaCode": "L-OTHER"}, "the reply is about L-OTHER"),
    ],
)  # fmt: skip
def test_a_value_that_is_not_told_is_unknown_and_not_zero(monkeypatch: pytest.MonkeyPatch, over: dict[str, Any], why: str) -> None:  # fmt: skip
    reading, _ = read(monkeypatch, lambda _, a: answer(a["QuotaCode"], 8.0, **(over if a["QuotaCode"] == "L-417A185B" else {})))  # fmt: skip
    assert "L-417A185B" not in {q.code for q in reading.quotas}
    (notice,) = reading.notices
    assert notice.kind is NoticeKind.UNRESOLVED
    assert notice.subject == "L-417A185B us-east-1"
    assert why in notice.detail


def test_a_cut_body_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = [(200, b'{"Quota": {"Quo')]
    reading, calls = read(monkeypatch, lambda _, a: bodies.pop() if bodies else answer(a["QuotaCode"], 8.0))
    assert len(reading.quotas) == len(GROUPS) == len(calls) - 1


def test_the_permission_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    denied = (400, {"__type": "AccessDeniedException", "Message": "User is not authorized"})
    with pytest.raises(AccessDenied) as refused:
        read(monkeypatch, lambda *_: denied)
    assert refused.value.permission == "servicequotas:GetServiceQuota"
