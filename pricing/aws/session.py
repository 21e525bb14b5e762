"""The door to AWS: clients of the SDK with our retries and time-outs, and what its errors mean in our own words.

Credentials come from the SDK's default chain (environment, profile, SSO, container, instance role), optionally through an assumed
role. The price list files and the spot advisor are public files and need none.

Reference: boto3 configuration and retry guides, read 2026-11; error codes as in the services' API references.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pricing.addresses import told
from pricing.aws.pace import PRICING_BUCKET, pace
from pricing.aws.silence import give_up_on_silence
from pricing.errors import AccessDenied, CredentialsMissing, SourceFailed, Unreachable

ATTEMPTS = 8
"""Attempts of one call, the first included. `adaptive` also slows the client down once a service has throttled it."""

CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 20
"""Without a byte. A page takes a second or two, and up to 15 s where a service is in trouble; `silence` says how often silence is borne."""
CONNECTIONS = 32
"""Of one client: every region's prices are asked through the same one, from several threads."""
SAME_AS_OPERATION = {"service-quotas": "servicequotas"}
"""Services whose IAM prefix is not the SDK's name."""

PRICING_REGION, PRICING_REGION_CHINA = "us-east-1", "cn-northwest-1"
"""Where the Price List Query API answers. It has a few endpoints only, and which one is asked has nothing to do with the region of the prices;
China's partition has its own, with its own credentials and prices in CNY."""

PRICE_LIST_FILES = "https://pricing.us-east-1.amazonaws.com"
PRICE_LIST_FILES_CHINA = "https://pricing.cn-north-1.amazonaws.com.cn"
SPOT_ADVISOR = "https://spot-bid-advisor.s3.amazonaws.com/spot-advisor-data.json"
ENDPOINT_VARIABLE = "AWS_ENDPOINT_URL"
PRICE_LIST_VARIABLE = "PLANNER_AWS_PRICE_LIST_URL"
SPOT_ADVISOR_VARIABLE = "PLANNER_AWS_SPOT_ADVISOR_URL"
CODE = re.compile(r"[A-Za-z0-9_.:-]{1,100}")
"""An error code of AWS; anything else is a body or a header of somebody else."""
LONGEST_MESSAGE = 1000
LOOK_AGAIN_S = 30.0
"""For how long "no credentials" is believed: looking for an instance's role takes seconds, and every source would look."""

WITHOUT_CREDENTIALS = "set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run where a role is attached"

EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})
UNKNOWN_KEY = frozenset(
    {"UnrecognizedClientException", "InvalidClientTokenId", "AuthFailure", "InvalidAccessKeyId", "MissingAuthenticationToken", "OptInRequired"}
)  # fmt: skip
CLOCK = frozenset({"InvalidSignatureException", "SignatureDoesNotMatch", "RequestTimeTooSkewed", "IncompleteSignature"})
DENIED = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"})
THROTTLED = frozenset(
    {"Throttling", "ThrottlingException", "ThrottledException", "RequestLimitExceeded", "TooManyRequestsException", "RequestThrottled", "EC2ThrottledException", "SlowDown"}
)  # fmt: skip
CREDENTIAL_CALLS = {
    "AssumeRole": ("AWS sts", "sts:AssumeRole"),
    "AssumeRoleWithWebIdentity": ("AWS sts", "sts:AssumeRoleWithWebIdentity"),
    "GetRoleCredentials": ("AWS sso", "sso:GetRoleCredentials"),
}
"""Calls that the SDK makes to get credentials: their errors come out of whichever call of ours was first."""


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
    _none_until: float = 0.0

    def client(self, service: str, region: str) -> Any:
        """Return the client of a service for a region; CredentialsMissing where none are found."""
        with self._lock:
            key = (service, region)
            if key not in self._clients:
                self._clients[key] = self._made(service, region)
            return self._clients[key]

    def pricing(self, region: str) -> Any:
        """Return the client of the Price List Query API that has the prices of a region."""
        return self.client("pricing", PRICING_REGION_CHINA if in_china(region) else PRICING_REGION)

    def close(self) -> None:
        """Close the connections of every client."""
        with self._lock:
            for client in self._clients.values():
                client.close()
            self._clients.clear()

    def _made(self, service: str, region: str) -> Any:
        import botocore.exceptions  # noqa: PLC0415 - takes a while, and only a refresh needs it

        source = f"AWS {service}"
        try:
            if self._session is None:
                self._session = self._opened()
            if time.monotonic() >= self._none_until and self._session.get_credentials() is None:
                self._none_until = time.monotonic() + LOOK_AGAIN_S
            if time.monotonic() < self._none_until:
                raise CredentialsMissing(source=source, why="no credentials were found", remedy=WITHOUT_CREDENTIALS)
            client = self._session.client(
                service, region_name=region, endpoint_url=self.access.endpoint_url, config=_config()
            )
        except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError, ValueError) as e:
            raise failure(e, source=source, permission=service) from e  # ValueError: an address or region that is none
        give_up_on_silence(client)
        if service == "pricing":
            pace(client, "pricing.GetProducts", PRICING_BUCKET)
        return client

    def _opened(self) -> Any:
        import boto3  # noqa: PLC0415 - takes a while, and only a refresh needs it

        session = boto3.Session(profile_name=self.access.profile)
        if session.region_name is None:  # roles of a profile are taken on at an endpoint of the session's region
            stated = os.environ.get("AWS_ROLE_ARN") or session._session.get_scoped_config().get("role_arn")
            role = self.access.role_arn or stated or ""
            session = boto3.Session(profile_name=self.access.profile, region_name=_home_of(role))
        return session if self.access.role_arn is None else self._in_role(session, self.access.role_arn)

    def _in_role(self, session: Any, role_arn: str) -> Any:
        """Return a session in a role. Its credentials are fetched by the first call and again before they expire."""
        import boto3  # noqa: PLC0415
        import botocore.session  # noqa: PLC0415
        from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials  # noqa: PLC0415

        base = session.get_credentials()
        if base is None:
            raise CredentialsMissing(source="AWS sts", why="no credentials were found", remedy=WITHOUT_CREDENTIALS)
        extra = {"RoleSessionName": "gpu-cost-planner"}
        if self.access.external_id is not None:
            extra["ExternalId"] = self.access.external_id
        at = session.region_name

        def creator(service: str, **more: Any) -> Any:
            more = {"region_name": at, "config": _config()} | more
            client = session.client(service, endpoint_url=self.access.endpoint_url, **more)
            give_up_on_silence(client)
            return client

        fetcher = AssumeRoleCredentialFetcher(
            client_creator=creator, source_credentials=base, role_arn=role_arn, extra_args=extra
        )
        inner = botocore.session.Session(profile=self.access.profile)
        inner._credentials = DeferredRefreshableCredentials(
            method="assume-role", refresh_using=fetcher.fetch_credentials
        )
        return boto3.Session(botocore_session=inner, region_name=at)

    @property
    def price_list_files(self) -> str:
        """Return the base address of the public price list files."""
        return self._address(PRICE_LIST_VARIABLE) or PRICE_LIST_FILES

    def price_list_files_of(self, region: str) -> str:
        """Return the base address of the public price list files that have the prices of a region."""
        return self._address(PRICE_LIST_VARIABLE) or (PRICE_LIST_FILES_CHINA if in_china(region) else PRICE_LIST_FILES)

    @property
    def spot_advisor(self) -> str:
        """Return the address of the public spot advisor file."""
        stated = os.environ.get(SPOT_ADVISOR_VARIABLE)
        base = self._address(SPOT_ADVISOR_VARIABLE)
        return stated or (f"{base}/spot-advisor-data.json" if base else SPOT_ADVISOR)

    def _address(self, variable: str) -> str | None:
        stated = os.environ.get(variable) or self.access.endpoint_url or os.environ.get(ENDPOINT_VARIABLE)
        return stated.rstrip("/") if stated else None


def _home_of(role_arn: str) -> str:
    """Return the region in which a role's partition is asked where none is stated."""
    return PRICING_REGION_CHINA if role_arn.startswith("arn:aws-cn:") else PRICING_REGION


def in_china(region: str) -> bool:
    """Whether a region is of China's partition."""
    return region.startswith("cn-")


def _config() -> Any:
    from botocore.config import Config  # noqa: PLC0415 - takes a while, and only a refresh needs it

    return Config(
        retries={"mode": "adaptive", "total_max_attempts": ATTEMPTS},
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=READ_TIMEOUT_S,
        max_pool_connections=CONNECTIONS,
        user_agent_extra="gpu-cost-planner",
    )


def failure(error: Exception, *, source: str, permission: str) -> SourceFailed:
    """Return what an error of the SDK means. `permission` is the IAM action that the call needs."""
    import botocore.exceptions as sdk  # noqa: PLC0415

    if isinstance(error, SourceFailed):
        return error
    if isinstance(error, sdk.ClientError):
        if error.operation_name in CREDENTIAL_CALLS:  # made by the SDK on the way to ours
            source, permission = CREDENTIAL_CALLS[error.operation_name]
        return _refused(error.response, source=source, permission=permission)
    line = _line(error)
    if isinstance(error, (sdk.NoCredentialsError, sdk.PartialCredentialsError)):
        return CredentialsMissing(source=source, why=line, remedy=WITHOUT_CREDENTIALS)
    if isinstance(error, (sdk.ProfileNotFound, sdk.InvalidConfigError, sdk.ConfigParseError, sdk.ConfigNotFound)):
        return CredentialsMissing(source=source, why=line, remedy="`aws configure list-profiles` lists the profiles")
    if isinstance(
        error,
        (
            sdk.CredentialRetrievalError,
            sdk.TokenRetrievalError,
            sdk.SSOError,
            sdk.RefreshWithMFAUnsupportedError,
            sdk.MetadataRetrievalError,
        ),
    ):
        return CredentialsMissing(source=source, why=line, remedy="sign in again, for example `aws sso login`")
    if isinstance(error, (sdk.HTTPClientError, sdk.ConnectionError)):
        return Unreachable(source=source, why=line, remedy="check the network, a proxy and the region's name")
    if isinstance(error, (sdk.InvalidRegionError, ValueError)):
        return SourceFailed(source=source, why=line, remedy=f"check {ENDPOINT_VARIABLE} and the region's name")
    return SourceFailed(source=source, why=f"{type(error).__name__}: {line}")


def _refused(response: Mapping[str, Any], *, source: str, permission: str) -> SourceFailed:
    """Return what an error reply means: the code of any of AWS's protocols, with or without its namespace."""
    said = response.get("Error", {})
    message = _message(str(said.get("Message") or ""))
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    code = str(said.get("Code", "")).rpartition("#")[2].removeprefix("Client.")
    code = code if CODE.fullmatch(code) else ""
    if code in DENIED:
        return AccessDenied(
            source=source,
            permission=permission,
            why=f"access denied to {permission}",
            remedy="grant it; deploy/iam holds the whole policy",
        )
    if code in EXPIRED:
        return CredentialsMissing(
            source=source, why=f"the session's token has expired ({code})", remedy="sign in again, or check the clock"
        )
    if code in UNKNOWN_KEY:
        return CredentialsMissing(
            source=source,
            why=f"AWS does not know this key here ({code})",
            remedy=f"{WITHOUT_CREDENTIALS}; a region that the account has not enabled answers so too",
        )
    if code in CLOCK:
        return CredentialsMissing(
            source=source,
            why=f"the signature was refused ({code})",
            remedy="check this machine's clock and the secret key",
        )
    if code in THROTTLED:
        return Unreachable(
            source=source, why=f"throttled through {ATTEMPTS} attempts ({code})", remedy="try again later"
        )
    if isinstance(status, int) and status >= 500:
        return Unreachable(
            source=source, why=f"HTTP {status} {code} through {ATTEMPTS} attempts", remedy="try again later"
        )
    if (
        not code or code.isdecimal()
    ):  # the reply states none, so its body is somebody else's, and may hold our own request
        return SourceFailed(source=source, why=f"HTTP {status or code}, with a reply that is none of AWS's")
    return SourceFailed(source=source, why=f"{code}: {message}" if message else code)


def permission_of(client: Any, operation: str) -> str:
    """Return the IAM action of a client's operation: `describe_spot_price_history` of ec2 is ec2:DescribeSpotPriceHistory."""
    name = client.meta.service_model.service_name
    return f"{SAME_AS_OPERATION.get(name, name)}:{client.meta.method_to_api_mapping[operation]}"


def _message(body: str) -> str:
    """Return the sentence of an error reply. Where a reply is none of AWS's, the SDK gives its whole body, which is not repeated."""
    foreign = len(body) > LONGEST_MESSAGE or body.lstrip()[:1] in {"<", "{", "["}
    return "" if foreign else told(body)


def _line(error: Exception) -> str:
    return told(str(error))
