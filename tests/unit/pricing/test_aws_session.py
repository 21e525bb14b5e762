"""The door to AWS: whose credentials, which address, and what an error means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import botocore.exceptions as sdk
import pytest
from aws_doors import alone, asking, door_to, loopback
from moto import mock_aws

from pricing.aws.enabled_regions import enabled_regions
from pricing.aws.pace import TokenBucket, pace
from pricing.aws.price_list_query import price_list_source
from pricing.aws.session import Access, Aws, failure, permission_of
from pricing.errors import AccessDenied, CredentialsMissing, SourceFailed, Unreachable

KEYS = {"AWS_ACCESS_KEY_ID": "AKIDTEST", "AWS_SECRET_ACCESS_KEY": "secret"}


def test_without_credentials_the_missing_keys_are_named_and_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    alone(monkeypatch)
    aws = Aws()
    with pytest.raises(CredentialsMissing, match="AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"):
        aws.client("ec2", "us-east-1")
    for name, value in KEYS.items():  # found by now, but believed missing for a while: looking takes seconds each time
        monkeypatch.setenv(name, value)
    with pytest.raises(CredentialsMissing):
        aws.pricing("us-east-1")
    monkeypatch.setattr("pricing.aws.session.time.monotonic", lambda: aws._none_until)
    assert aws.pricing("us-east-1") is not None
    aws.close()


def test_half_a_key_is_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    alone(monkeypatch, AWS_ACCESS_KEY_ID="AKIDTEST")
    with pytest.raises(CredentialsMissing, match="AWS_SECRET_ACCESS_KEY"):
        Aws().client("ec2", "us-east-1")


def test_a_profile_is_used_by_name_and_a_wrong_name_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    alone(monkeypatch, AWS_CONFIG_FILE=str(tmp_path / "config"))
    (tmp_path / "config").write_text("[profile finance]\naws_access_key_id = AKIDFINANCE\naws_secret_access_key = x\n")
    aws = Aws(Access(profile="finance"))
    assert aws.client("ec2", "us-east-1")._request_signer._credentials.access_key == "AKIDFINANCE"
    aws.close()
    with pytest.raises(CredentialsMissing, match=r"finanze.*list-profiles"):
        Aws(Access(profile="finanze")).client("ec2", "us-east-1")


@pytest.mark.parametrize("external_id", [None, "planner-1"])
def test_a_role_is_assumed_with_the_callers_keys(monkeypatch: pytest.MonkeyPatch, external_id: str | None) -> None:
    alone(monkeypatch, **KEYS)
    role = "arn:aws:iam::123456789012:role/price-reader"
    sent: list[dict[str, Any]] = []
    with mock_aws():
        aws = Aws(Access(role_arn=role, external_id=external_id))
        client = aws.client("ec2", "us-east-1")
        client.meta.events.register("request-created.ec2", lambda request, **_: sent.append(dict(request.headers)))
        assert "us-east-1" in enabled_regions(aws)
        borrowed = client._request_signer._credentials.access_key
        aws.close()
    assert borrowed.startswith("ASIA")  # temporary, and not the caller's AKID
    assert borrowed in str(sent[0]["Authorization"])


@pytest.mark.parametrize(("partition", "home"), [("aws", "us-east-1"), ("aws-cn", "cn-northwest-1")])
def test_a_profile_with_a_role_needs_no_region(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, partition: str, home: str
) -> None:
    """The SDK takes the role of a profile on at an endpoint of the session's region, and fails with NoRegionError without one."""
    alone(monkeypatch, AWS_CONFIG_FILE=str(tmp_path / "config"))
    (tmp_path / "config").write_text(
        f"[profile prices]\nrole_arn = arn:{partition}:iam::123456789012:role/price-reader\nsource_profile = keys\n"
        "[profile keys]\naws_access_key_id = AKIDTEST\naws_secret_access_key = secret\n"
    )
    with mock_aws():
        aws = Aws(Access(profile="prices"))
        client = aws.client("ec2", "eu-west-1")
        assert client._request_signer._credentials.get_frozen_credentials().access_key.startswith("ASIA")
        assert (client.meta.region_name, aws._session.region_name) == ("eu-west-1", home)
        aws.close()


def test_a_region_that_is_stated_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    alone(monkeypatch, **KEYS, AWS_DEFAULT_REGION="eu-central-1")
    aws = Aws()
    aws.client("ec2", "us-east-1")
    assert aws._session.region_name == "eu-central-1"
    aws.close()


def test_a_role_that_may_not_be_assumed_names_that_permission_and_not_the_calls(monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    with loopback() as fake:
        alone(monkeypatch, **KEYS)
        fake.fail("access_denied", action="AssumeRole")
        aws = Aws(Access(role_arn="arn:aws:iam::123456789012:role/other", endpoint_url=fake.url))
        with pytest.raises(AccessDenied, match="AWS sts: access denied to sts:AssumeRole") as caught:
            price_list_source(aws).read(asking())
        aws.close()
    assert caught.value.permission == "sts:AssumeRole"


@pytest.mark.parametrize("how", ["endpoint_url", "AWS_ENDPOINT_URL"])
def test_every_address_follows_the_endpoint(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    with loopback() as fake:
        alone(monkeypatch, **KEYS)
        if how == "AWS_ENDPOINT_URL":
            monkeypatch.setenv(how, fake.url + "/")
        aws = Aws(Access(endpoint_url=fake.url if how == "endpoint_url" else None))
        assert enabled_regions(aws)
        assert aws.price_list_files == aws.price_list_files_of("cn-north-1") == fake.url
        assert aws.spot_advisor == f"{fake.url}/spot-advisor-data.json"
        aws.close()
        assert [call.action for call in fake.calls] == ["DescribeRegions"]
    monkeypatch.setenv("PLANNER_AWS_PRICE_LIST_URL", "https://mirror.example/")
    monkeypatch.setenv("PLANNER_AWS_SPOT_ADVISOR_URL", "https://mirror.example/advisor.json")
    assert (aws.price_list_files, aws.spot_advisor) == ("https://mirror.example", "https://mirror.example/advisor.json")


def test_an_address_that_is_none_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    alone(monkeypatch, **KEYS)
    with pytest.raises(SourceFailed, match=r"Invalid endpoint.*AWS_ENDPOINT_URL"):
        Aws(Access(endpoint_url="localhost without a scheme")).client("ec2", "us-east-1")


@pytest.mark.parametrize(
    ("region", "address", "files"),
    [
        ("us-east-1", "https://api.pricing.us-east-1.amazonaws.com", "https://pricing.us-east-1.amazonaws.com"),
        ("eu-west-3", "https://api.pricing.us-east-1.amazonaws.com", "https://pricing.us-east-1.amazonaws.com"),
        ("us-gov-west-1", "https://api.pricing.us-east-1.amazonaws.com", "https://pricing.us-east-1.amazonaws.com"),
        ("cn-north-1", "https://api.pricing.cn-northwest-1.amazonaws.com.cn", "https://pricing.cn-north-1.amazonaws.com.cn"),
    ],
)  # fmt: skip
def test_prices_of_a_region_are_asked_where_their_list_is(monkeypatch: pytest.MonkeyPatch, region: str, address: str, files: str) -> None:  # fmt: skip
    alone(monkeypatch, **KEYS)
    aws = Aws()
    assert aws.pricing(region).meta.endpoint_url == address
    assert aws.price_list_files_of(region) == files
    aws.close()


def test_clients_are_made_once_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    alone(monkeypatch, **KEYS)
    aws = Aws()
    assert aws.client("ec2", "us-east-1") is aws.client("ec2", "us-east-1")
    assert aws.pricing("us-east-1") is aws.pricing("eu-west-1")
    assert aws.client("ec2", "us-east-1") is not aws.client("ec2", "us-west-2")
    assert aws.client("ec2", "us-east-1").meta.config.retries == {"mode": "adaptive", "total_max_attempts": 2}
    aws.close()
    assert not aws._clients


def test_permissions_are_named_as_policies_write_them(monkeypatch: pytest.MonkeyPatch) -> None:
    alone(monkeypatch, **KEYS)
    aws = Aws()
    assert permission_of(aws.pricing("us-east-1"), "get_products") == "pricing:GetProducts"
    assert permission_of(aws.client("ec2", "us-east-1"), "describe_spot_price_history") == "ec2:DescribeSpotPriceHistory"  # fmt: skip
    quotas = aws.client("service-quotas", "us-east-1")
    assert permission_of(quotas, "get_aws_default_service_quota") == "servicequotas:GetAWSDefaultServiceQuota"
    aws.close()


def refused(code: str, status: int = 400, message: str = "a\n  message") -> SourceFailed:
    response = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    error = sdk.ClientError(response, "GetProducts")
    return failure(error, source="AWS price list", permission="pricing:GetProducts")


@pytest.mark.parametrize(
    "body",
    [
        "GET / HTTP/1.1\nAuthorization: AWS4-HMAC-SHA256 Credential=AKIAABCDEFGHIJKLMNOP, Signature=SECRETQ\nHost: x",
        '{"headers": {"Authorization": "SECRETQ"}}',
        "<html>SECRETQ</html>",
        "SECRETQ" * 1000,
    ],
)
def test_a_body_that_is_none_of_awss_is_not_repeated(body: str) -> None:
    said = str(refused("403", 403, body))
    assert "SECRETQ" not in said
    assert "AKIA" not in said
    assert "403" in said
    assert "SECRETQ" not in str(refused("SECRETQ: a header", 403, ""))


@pytest.mark.parametrize(
    ("code", "status", "kind", "said"),
    [
        ("AccessDeniedException", 400, AccessDenied, "access denied to pricing:GetProducts; grant it; deploy/iam"),
        ("UnauthorizedOperation", 403, AccessDenied, "access denied to pricing:GetProducts"),
        ("Client.UnauthorizedOperation", 403, AccessDenied, "access denied to pricing:GetProducts"),
        ("AccessDenied", 403, AccessDenied, "access denied to pricing:GetProducts"),
        ("ExpiredTokenException", 400, CredentialsMissing, "token has expired (ExpiredTokenException); sign in again"),
        ("ExpiredToken", 403, CredentialsMissing, "token has expired (ExpiredToken)"),
        ("RequestExpired", 400, CredentialsMissing, "or check the clock"),  # EC2 says it of a wrong clock too
        ("UnrecognizedClientException", 400, CredentialsMissing, "AWS does not know this key here"),
        ("AuthFailure", 401, CredentialsMissing, "a region that the account has not enabled answers so too"),
        ("OptInRequired", 401, CredentialsMissing, "a region that the account has not enabled"),
        ("InvalidSignatureException", 400, CredentialsMissing, "check this machine's clock and the secret key"),
        ("ThrottlingException", 400, Unreachable, "throttled through 8 attempts (ThrottlingException); try again later"),
        ("RequestLimitExceeded", 503, Unreachable, "throttled through 8 attempts"),
        ("com.amazonaws.pricing#ThrottlingException", 400, Unreachable, "throttled"),
        ("InternalErrorException", 500, Unreachable, "HTTP 500 InternalErrorException through 8 attempts"),
        ("502", 502, Unreachable, "HTTP 502"),
        ("InvalidParameterException", 400, SourceFailed, "InvalidParameterException: a message"),
        ("", 418, SourceFailed, "HTTP 418"),
    ],
)  # fmt: skip
def test_each_refusal_is_one_line_with_a_remedy(code: str, status: int, kind: type[SourceFailed], said: str) -> None:
    found = refused(code, status, "" if not code else "a\n  message")
    assert type(found) is kind
    assert said in str(found)
    assert "\n" not in str(found)
    assert str(found).startswith("AWS price list: ")


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (sdk.NoCredentialsError(), CredentialsMissing, "AWS_ACCESS_KEY_ID"),
        (sdk.PartialCredentialsError(provider="env", cred_var="AWS_SECRET_ACCESS_KEY"), CredentialsMissing, "AWS_SECRET_ACCESS_KEY"),
        (sdk.ProfileNotFound(profile="x"), CredentialsMissing, "list-profiles"),
        (sdk.UnauthorizedSSOTokenError(), CredentialsMissing, "aws sso login"),
        (sdk.TokenRetrievalError(provider="sso", error_msg="expired"), CredentialsMissing, "aws sso login"),
        (sdk.CredentialRetrievalError(provider="process", error_msg="it failed"), CredentialsMissing, "it failed"),
        (sdk.EndpointConnectionError(endpoint_url="https://api.pricing.eu-west-3.amazonaws.com"), Unreachable, "the region's name"),
        (sdk.ConnectTimeoutError(endpoint_url="https://x"), Unreachable, "check the network"),
        (sdk.ReadTimeoutError(endpoint_url="https://x"), Unreachable, "check the network"),
        (sdk.SSLError(endpoint_url="https://x", error="certificate"), Unreachable, "certificate"),
        (sdk.InvalidRegionError(region_name="us_east_1"), SourceFailed, "us_east_1"),
        (sdk.ParamValidationError(report="MaxResults"), SourceFailed, "ParamValidationError: Parameter validation failed: MaxResults"),
    ],
)  # fmt: skip
def test_each_error_of_the_client_is_one_line_with_a_remedy(error: Exception, kind: type[SourceFailed], said: str) -> None:  # fmt: skip
    found = failure(error, source="AWS price list", permission="pricing:GetProducts")
    assert type(found) is kind
    assert said in str(found)
    assert "\n" not in str(found)
    assert failure(found, source="another", permission="") is found  # already said


def test_the_bucket_lets_ten_through_and_then_five_a_second() -> None:
    now, slept = [100.0], []

    def sleep(seconds: float) -> None:
        slept.append(round(seconds, 6))
        now[0] += seconds

    bucket = TokenBucket(5.0, 10, clock=lambda: now[0], sleep=sleep)
    for _ in range(13):
        bucket.take()
    assert slept == [0.2, 0.2, 0.2]
    now[0] += 60  # an hour of rest fills no more than the bucket
    for _ in range(11):
        bucket.take()
    assert slept == [0.2, 0.2, 0.2, 0.2]


def test_every_request_takes_a_token_retries_too_and_none_is_taken_after_the_last_page(monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    taken: list[int] = []

    class Counting(TokenBucket):
        def take(self) -> None:
            taken.append(1)

    with loopback(page_size=40) as fake, door_to(fake, monkeypatch) as aws:
        monkeypatch.setattr("pricing.aws.session.PRICING_BUCKET", Counting(5.0, 10))
        client = aws.pricing("us-east-1")
        fake.fail("http503", times=1)
        pages = list(client.get_paginator("get_products").paginate(ServiceCode="AmazonEC2", PaginationConfig={"PageSize": 100}))  # fmt: skip
        assert len(pages) > 2
        assert len(taken) == len(fake.calls) == len(pages) + 1  # one was sent twice
        client.describe_services()
        assert len(taken) == len(pages) + 1  # the quota is of each operation
        pace(client, "pricing.DescribeServices", Counting(5.0, 10))
        client.describe_services()
        assert len(taken) == len(pages) + 2
