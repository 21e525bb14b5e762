"""The policies of deploy/iam: every action that a source asks, and nothing more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import botocore.session
import pytest

from pricing.aws.enabled_regions import PERMISSION
from pricing.aws.session import SAME_AS_OPERATION, Aws
from pricing.aws.sources import aws_sources

FOLDER = Path(__file__).resolve().parents[3] / "deploy" / "iam"
POLICIES = ("assume-role.json", "bills.json", "prices.json", "trust.json")
READING = ("Describe", "Get", "List")


def statements(name: str) -> list[dict[str, Any]]:
    policy = json.loads((FOLDER / name).read_text())
    assert policy["Version"] == "2012-10-17"
    return list(policy["Statement"])


def actions(name: str) -> list[str]:
    return [action for statement in statements(name) for action in statement["Action"]]


def test_the_policy_is_what_the_sources_ask_and_nothing_more() -> None:
    asked = {action for source in aws_sources(Aws()) for action in source.permissions} | {PERMISSION}
    assert set(actions("prices.json")) == asked
    assert len(actions("prices.json")) == len(asked)


def test_sources_that_need_no_identity_ask_no_permission_and_others_name_theirs() -> None:
    for source in aws_sources(Aws()):
        assert bool(source.permissions) is source.needs_credentials, source.name


@pytest.mark.parametrize("name", POLICIES)
def test_no_policy_allows_to_start_change_or_buy(name: str) -> None:
    for action in actions(name):
        service, _, operation = action.partition(":")
        assert "*" not in action
        assert operation.startswith(READING) or action == "sts:AssumeRole"
        assert not any(word in action for word in ("Purchase", "Run", "Create", "Delete", "Modify")), action
        assert (service == "sts") is (name in ("assume-role.json", "trust.json"))


@pytest.mark.parametrize("name", POLICIES)
def test_every_action_is_an_operation_of_its_service(name: str) -> None:
    session = botocore.session.Session()
    sdk_name = {prefix: service for service, prefix in SAME_AS_OPERATION.items()}
    for action in actions(name):
        prefix, _, operation = action.partition(":")
        assert operation in session.get_service_model(sdk_name.get(prefix, prefix)).operation_names, action


def test_a_role_is_taken_on_by_name_and_with_an_external_id() -> None:
    (may,) = statements("assume-role.json")
    (trust,) = statements("trust.json")
    assert may["Resource"] == "arn:aws:iam::ACCOUNT:role/gpu-cost-planner"
    assert "sts:ExternalId" in trust["Condition"]["StringEquals"]
    assert "Resource" not in trust


def test_every_policy_is_told_of() -> None:
    assert sorted(path.name for path in FOLDER.glob("*.json")) == sorted(POLICIES)
    told = (FOLDER / "README.md").read_text()
    assert all(f"`{name}`" in told for name in POLICIES)
