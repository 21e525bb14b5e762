"""The door to AWS: clients of the SDK with our retries and time-outs, and what its errors mean in our own words.

Credentials come from the SDK's default chain (environment, profile, SSO, container, instance role), optionally through an assumed
role. The price list files and the spot advisor are public files and need none.

Reference: boto3 configuration and retry guides, read 2026-11; error codes as in the services' API references.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pricing.errors import AccessDenied, CredentialsMissing, SourceFailed, Unreachable

ATTEMPTS = 8
"""Attempts of one call, the first included. `adaptive` also slows the client down once a service has throttled it."""

CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 30
SAME_AS_OPERATION = {"service-quotas": "servicequotas"}
"""Services whose IAM prefix is not the SDK's name."""

PRICE_LIST_FILES = "https://pricing.us-east-1.amazonaws.com"
PRICE_LIST_FILES_CHINA = "https://pricing.cn-north-1.amazonaws.com.cn"
SPOT_ADVISOR = "https://spot-bid-advisor.s3.amazonaws.com/spot-advisor-data.json"
ENDPOINT_VARIABLE = "AWS_ENDPOINT_URL"
PRICE_LIST_VARIABLE = "PLANNER_AWS_PRICE_LIST_URL"
SPOT_ADVISOR_VARIABLE = "PLANNER_AWS_SPOT_ADVISOR_URL"
WITHOUT_CREDENTIALS = "set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run where a role is attached"

EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})
UNKNOWN_KEY = frozenset(
    {"UnrecognizedClientException", "InvalidClientTokenId", "AuthFailure", "InvalidAccessKeyId", "MissingAuthenticationToken"}
)  # fmt: skip
CLOCK = frozenset({"InvalidSignatureException", "SignatureDoesNotMatch", "RequestTimeTooSkewed", "IncompleteSignature"})
DENIED = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "Client.UnauthorizedOperation"})
THROTTLED = frozenset(
    {"Throttling", "ThrottlingException", "ThrottledException", "RequestLimitExceeded", "TooManyRequestsException", "RequestThrottled", "EC2ThrottledException", "SlowDown"}
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Where AWS is asked and as whom; every None means the SDK's own default."""

    profile: str | None = None
    role_arn: str | None = None
    external_id: str | None = None
    endpoint_url: str | None = None  # for every service; tests and proxies


@dataclass(slots=True)
class Aws:
    """Clients, made once for each service and region. Safe to share between threads."""

    access: Access = field(default_factory=Access)
    _clients: dict[tuple[str, str], Any] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _session: Any = None

    def client(self, service: str, region: str) -> Any:
        """Return the client of a service for a region; CredentialsMissing where none are found."""
        with self._lock:
            key = (service, region)
            if key not in self._clients:
                self._clients[key] = self._made(service, region)
            return self._clients[key]

    def _made(self, service: str, region: str) -> Any:
        import botocore.exceptions  # noqa: PLC0415 - takes a while, and only a refresh needs it
        from botocore.config import Config  # noqa: PLC0415

        config = Config(
            retries={"mode": "adaptive", "total_max_attempts": ATTEMPTS},
            connect_timeout=CONNECT_TIMEOUT_S,
            read_timeout=READ_TIMEOUT_S,
            user_agent_extra="gpu-cost-planner",
        )
        try:
            if self._session is None:
                self._session = self._opened()
            if self._session.get_credentials() is None:
                raise CredentialsMissing(
                    source=f"AWS {service}", why="no credentials were found", remedy=WITHOUT_CREDENTIALS
                )
            return self._session.client(
                service, region_name=region, endpoint_url=self.access.endpoint_url, config=config
            )
        except botocore.exceptions.BotoCoreError as e:
            raise failure(e, source=f"AWS {service}", permission=service) from e

    def _opened(self) -> Any:
        import boto3  # noqa: PLC0415 - takes a while, and only a refresh needs it

        session = boto3.Session(profile_name=self.access.profile)
        if self.access.role_arn is None:
            return session
        import botocore.session  # noqa: PLC0415
        from botocore.credentials import (  # noqa: PLC0415
            AssumeRoleCredentialFetcher,
            DeferredRefreshableCredentials,
        )

        base = session.get_credentials()
        if base is None:
            raise CredentialsMissing(source="AWS sts", why="no credentials were found", remedy=WITHOUT_CREDENTIALS)
        extra = {"RoleSessionName": "gpu-cost-planner"}
        if self.access.external_id is not None:
            extra["ExternalId"] = self.access.external_id

        def creator(service: str, **more: Any) -> Any:
            return session.client(service, endpoint_url=self.access.endpoint_url, **more)

        fetcher = AssumeRoleCredentialFetcher(
            client_creator=creator, source_credentials=base, role_arn=self.access.role_arn, extra_args=extra
        )
        inner = botocore.session.get_session()
        inner._credentials = DeferredRefreshableCredentials(
            method="assume-role", refresh_using=fetcher.fetch_credentials
        )
        return boto3.Session(botocore_session=inner)

    @property
    def price_list_files(self) -> str:
        """Return the base address of the public price list files."""
        return self._address(PRICE_LIST_VARIABLE) or PRICE_LIST_FILES

    @property
    def spot_advisor(self) -> str:
        """Return the address of the public spot advisor file."""
        stated = os.environ.get(SPOT_ADVISOR_VARIABLE)
        base = self._address(SPOT_ADVISOR_VARIABLE)
        return stated or (f"{base}/spot-advisor-data.json" if base else SPOT_ADVISOR)

    def _address(self, variable: str) -> str | None:
        stated = os.environ.get(variable) or self.access.endpoint_url or os.environ.get(ENDPOINT_VARIABLE)
        return stated.rstrip("/") if stated else None


def failure(error: Exception, *, source: str, permission: str) -> SourceFailed:
    """Return what an error of the SDK means. `permission` is the IAM action that the call needs."""
    import botocore.exceptions as sdk  # noqa: PLC0415

    if isinstance(error, SourceFailed):
        return error
    if isinstance(error, sdk.ClientError):
        return _refused(error.response, source=source, permission=permission)
    if isinstance(error, (sdk.NoCredentialsError, sdk.PartialCredentialsError)):
        return CredentialsMissing(source=source, why=_line(error), remedy=WITHOUT_CREDENTIALS)
    if isinstance(error, sdk.ProfileNotFound):
        return CredentialsMissing(source=source, why=_line(error), remedy="`aws configure list-profiles` lists them")
    if isinstance(error, (sdk.CredentialRetrievalError, sdk.TokenRetrievalError, sdk.UnauthorizedSSOTokenError, sdk.SSOError)):  # fmt: skip
        return CredentialsMissing(source=source, why=_line(error), remedy="sign in again, for example `aws sso login`")
    if isinstance(error, sdk.HTTPClientError):
        return Unreachable(source=source, why=_line(error), remedy="check the network, a proxy and the region's name")
    return SourceFailed(source=source, why=f"{type(error).__name__}: {_line(error)}")


def _refused(response: Mapping[str, Any], *, source: str, permission: str) -> SourceFailed:
    said = response.get("Error", {})
    code, message = str(said.get("Code", "")), " ".join(str(said.get("Message", "")).split())[:300]
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    short = code.rpartition("#")[2]
    if short in DENIED:
        return AccessDenied(
            source=source,
            permission=permission,
            why=f"access denied to {permission}",
            remedy="grant it; deploy/iam holds the whole policy",
        )
    if short in EXPIRED:
        return CredentialsMissing(
            source=source, why=f"the session's token has expired ({short})", remedy="sign in again"
        )
    if short in UNKNOWN_KEY:
        return CredentialsMissing(
            source=source, why=f"AWS does not know this key ({short})", remedy=WITHOUT_CREDENTIALS
        )
    if short in CLOCK:
        return CredentialsMissing(
            source=source,
            why=f"the signature was refused ({short})",
            remedy="check this machine's clock and the secret key",
        )
    if short in THROTTLED:
        return Unreachable(
            source=source, why=f"throttled through {ATTEMPTS} attempts ({short})", remedy="try again later"
        )
    if isinstance(status, int) and status >= 500:
        return Unreachable(
            source=source, why=f"HTTP {status} {short} through {ATTEMPTS} attempts", remedy="try again later"
        )
    return SourceFailed(source=source, why=f"{short}: {message}" if message else short or f"HTTP {status}")


def permission_of(client: Any, operation: str) -> str:
    """Return the IAM action of a client's operation: `describe_spot_price_history` of ec2 is ec2:DescribeSpotPriceHistory."""
    name = client.meta.service_model.service_name
    return f"{SAME_AS_OPERATION.get(name, name)}:{client.meta.method_to_api_mapping[operation]}"


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
