"""A loopback AWS for tests: answers the SDK's real clients over HTTP, from the small world of `aws_world`, with faults on demand.

    with FakeAws() as aws:
        client = boto3.client("pricing", region_name="us-east-1", endpoint_url=aws.url, aws_access_key_id="a", aws_secret_access_key="b")
        aws.fail("throttle", action="GetProducts", times=2)
        aws.world.set_price("p5.48xlarge", "31.464")
        aws.calls_of("GetProducts")

or `python -m tests.fakes.aws_server`, which prints its address and serves until it is stopped (`--help`). `aws.environment()` is what a
process of its own needs to find it. Protocols as on the wire: pricing, service-quotas and ce speak JSON 1.1, ec2 and sts form
fields and XML, savingsplans REST with JSON; price list files and the spot advisor are plain files with ETag, If-None-Match, Range and
If-Range. The region is the one that a request is signed for; signatures are not checked.

While it runs, over HTTP too: `POST /_control/fail {"kind": …}`, `POST /_control/heal`, `POST /_control/price {"instance_type", "price",
"region"}`, `POST /_control/remove {"name", "region"}`, `GET /_control/calls`.
"""

from __future__ import annotations

import argparse
import base64
import fnmatch
import hashlib
import json
import os
import re
import sys
import threading
import time
import urllib.parse
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

if not __package__:  # run by its path
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    __package__ = "fakes"

from . import aws_ec2, aws_files, aws_plans, aws_products
from .aws_world import World, wire_time

FAULTS = {
    "throttle": "the service says that it is asked too often",
    "http500": "status 500", "http502": "status 502", "http503": "status 503", "http504": "status 504",
    "slow": "the answer begins after `seconds`",
    "drip": "the body comes in eight parts, `seconds` apart",
    "cut": "the connection is closed in the middle of the body",
    "truncated": "a whole HTTP answer with half a document in it",
    "html": "status 200 with a web page",
    "malformed_item": "one text of PriceList is no JSON, or one row of another list has no sense",
    "repeated_token": "every page names the token that asked for it, or the same one",
    "empty_page": "a page without rows, with a token, comes first",
    "expired_next_token": "a token is no longer taken",
    "duplicate_page": "every page after the first begins with the last row of the one before",
    "no_terms": "products without terms",
    "expired_token": "the session's token has expired",
    "access_denied": "no policy allows it",
    "unrecognised_client": "the key is unknown",
    "clock_skew": "the signature is too old",
    "error": "`code` and `status` of one's own",
    "missing": "a plain file is not there (403, as S3 says it)",
}  # fmt: skip
ANSWERED_WITH_ERROR = frozenset(
    {"throttle", "http500", "http502", "http503", "http504", "expired_token", "access_denied", "unrecognised_client", "clock_skew", "error", "missing", "expired_next_token"}
)  # fmt: skip

OF_PAGES = frozenset({"repeated_token", "empty_page", "expired_next_token", "duplicate_page"})
OF_KEYS = frozenset({"expired_token", "unrecognised_client", "clock_skew"})
"""Plain files are public: nobody signs in."""
WITHOUT_PAGES = frozenset({"DescribeRegions", "DescribeAvailabilityZones"})
"""Operations of which the answer is always whole: faults of pages do not strike them."""

JSON_SERVICES = {
    "AWSPriceListService": "pricing",
    "ServiceQuotasV20190624": "service-quotas",
    "AWSInsightsIndexService": "ce",
}
ACCOUNT = "123456789012"
LIST_OF = {
    "GetProducts": "PriceList", "GetAttributeValues": "AttributeValues", "DescribeServices": "Services", "ListPriceLists": "PriceLists",
    "ListServiceQuotas": "Quotas", "ListAWSDefaultServiceQuotas": "Quotas", "GetCostAndUsage": "ResultsByTime",
    "DescribeSavingsPlansOfferings": "searchResults", "DescribeSavingsPlansOfferingRates": "searchResults", "DescribeSavingsPlans": "savingsPlans",
    "DescribeInstanceTypes": "InstanceTypes", "DescribeInstanceTypeOfferings": "InstanceTypeOfferings", "DescribeSpotPriceHistory": "SpotPriceHistory",
    "GetSpotPlacementScores": "SpotPlacementScores", "DescribeCapacityBlockOfferings": "CapacityBlockOfferings", "DescribeRegions": "Regions",
    "DescribeAvailabilityZones": "AvailabilityZones",
}  # fmt: skip
LARGEST = {
    "GetProducts": 100,
    "GetAttributeValues": 100,
    "DescribeServices": 100,
    "ListPriceLists": 100,
    "DescribeInstanceTypes": 100,
}
"""Largest page that may be asked for; 1,000 elsewhere."""


class RefusedError(Exception):
    """An answer that is an error."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code, self.status = code, status


@dataclass(slots=True)
class Fault:
    """One fault, and how often it struck. `action` is a pattern of operations, or of paths for plain files."""

    kind: str
    action: str = "*"
    times: int | None = None  # None: for ever
    after: int = 0  # calls let through first
    page: int | None = None  # this page alone, counted from 1
    region: str | None = None
    seconds: float = 1.0
    code: str = "InternalFailure"
    status: int = 500
    seen: int = 0
    struck: int = 0

    def __post_init__(self) -> None:
        if self.kind not in FAULTS:
            raise ValueError(f"no fault {self.kind!r}; there are {', '.join(FAULTS)}")

    def strikes(self, action: str, page: int, region: str) -> bool:
        """Say whether this call is hit, and count it."""
        if self.kind in OF_PAGES and action in WITHOUT_PAGES:
            return False
        if self.kind in OF_KEYS and action.startswith("/"):
            return False
        if (
            not fnmatch.fnmatchcase(action, self.action)
            or self.page not in (None, page)
            or self.region not in (None, region)
        ):
            return False
        self.seen += 1
        if self.seen <= self.after or (self.times is not None and self.struck >= self.times):
            return False
        self.struck += 1
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request that came in."""

    service: str
    action: str  # the operation, or the path of a plain file
    region: str  # that it was signed for
    page: int
    given: dict[str, Any]
    status: int
    faults: tuple[str, ...]
    rows: int | None


@dataclass(slots=True)
class Answer:
    """What goes out."""

    body: bytes
    kind: str
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    drip_s: float | None = None
    rows: int | None = None


@dataclass(slots=True)
class FakeAws:
    """The server; a context manager. `page_size` caps every page, so that small lists have several. `bucket` is (burst, calls a second)."""

    world: World = field(default_factory=World)
    page_size: int = 25
    bucket: tuple[int, float] | None = None
    placement_configurations: int = 10
    """Distinct placement-score questions taken in a day."""
    url: str = ""
    faults: list[Fault] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    _buckets: dict[str, tuple[float, float]] = field(default_factory=dict)
    _configurations: set[str] = field(default_factory=set)
    _cache: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _server: ThreadingHTTPServer | None = None
    _thread: threading.Thread | None = None

    def __enter__(self) -> FakeAws:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, port: int = 0) -> None:
        """Serve on 127.0.0.1; port 0 is any free one."""
        self._server = _Server(("127.0.0.1", port), _handler_for(self))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop serving and close what is open."""
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
            self._server = self._thread = None

    def fail(self, kind: str, **how: Any) -> Fault:
        """Switch a fault on; returns it, and its `struck` counts."""
        fault = Fault(kind, **how)
        with self._lock:
            self.faults = [*self.faults, fault]
        return fault

    def heal(self) -> None:
        """Switch every fault off."""
        with self._lock:
            self.faults = []

    def reset(self, world: World) -> None:
        """Begin anew with another world: no faults, no log, pages of 25, no limit."""
        with self._lock:
            self.world, self.page_size, self.bucket = world, 25, None
            self.faults, self.calls = [], []
            for kept in (self._buckets, self._configurations, self._cache):
                kept.clear()

    def forget(self) -> None:
        """Empty the log of calls."""
        with self._lock:
            self.calls = []

    def calls_of(self, action: str) -> list[Call]:
        """Return the calls of an operation or path (a pattern), in order."""
        return [c for c in self.calls if fnmatch.fnmatchcase(c.action, action)]

    def environment(self) -> dict[str, str]:
        """Return the variables by which a process finds this server and nothing else."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }

    # answering

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        """Return the answer to one request, after the faults that strike it."""
        parts = urllib.parse.urlsplit(path)
        if parts.path.startswith("/_control/"):
            return self._controlled(parts.path, body)
        service, action, region, given = _asked(method, parts.path, headers, body)
        token = given.get(_token_name(service, action, given))
        place = _placed(token)
        page = place[1] + 1 if place else 1
        with self._lock:
            struck = [f for f in self.faults if f.strikes(action, page, region)]
        kinds = {f.kind for f in struck}
        for fault in struck:
            if fault.kind == "slow":
                time.sleep(fault.seconds)
        try:
            wrong = next((f for f in struck if f.kind in ANSWERED_WITH_ERROR), None)
            if wrong is not None:
                raise _as_refused(wrong, service, action)
            if service == "file":
                answer = self._file(parts.path, headers)
            else:
                self._take(action, region, service)
                answer = self._served(service, action, region, given, token, kinds)
        except aws_ec2.BadRequestError as e:
            answer = _error(service, action, RefusedError(e.code, str(e)))
        except RefusedError as e:
            answer = _error(service, action, e)
        if "html" in kinds:
            answer = Answer(b"<!DOCTYPE html>\n<html><body><h1>Sign in to the network</h1></body></html>\n", "text/html; charset=utf-8")  # fmt: skip
        if "truncated" in kinds:
            answer.body = answer.body[: len(answer.body) // 2]
            answer.headers.pop("ETag", None)
        answer.cut = "cut" in kinds
        drip = next((f for f in struck if f.kind == "drip"), None)
        answer.drip_s = drip.seconds if drip else None
        call = Call(service=service, action=action, region=region, page=page, given=given, status=answer.status, faults=tuple(sorted(kinds)), rows=answer.rows)  # fmt: skip
        with self._lock:
            self.calls = [*self.calls, call]
        return answer

    def _take(self, action: str, region: str, service: str) -> None:
        if self.bucket is None:
            return
        burst, per_s = self.bucket
        key = f"{service} {action} {region}"
        with self._lock:
            tokens, at = self._buckets.get(key, (float(burst), time.monotonic()))
            tokens = min(float(burst), tokens + (time.monotonic() - at) * per_s)
            self._buckets[key] = (tokens - 1 if tokens >= 1 else tokens, time.monotonic())
        if tokens < 1:
            raise _as_refused(Fault("throttle"), service, action)

    def _served(self, service: str, action: str, region: str, given: dict[str, Any], token: str | None, kinds: set[str]) -> Answer:  # fmt: skip  # noqa: PLR0917 - the parts of one request
        known = ACTIONS.get((service, action))
        if known is None:
            raise RefusedError("UnknownOperationException", f"{action} is not served here", 404)
        found = known(self, region, given)
        more: dict[str, Any] = {}
        rows: int | None = None
        key = LIST_OF.get(action)
        if key is not None:
            name = _token_name(service, action, given)
            found = dict(found)
            listed = list(found[key])
            size, offset, number = self._size(action, given), 0, 0
            if token:
                place = _placed(token)
                if place is None or place[0] != _request_hash(action, given):
                    raise RefusedError("InvalidNextTokenException", "The pagination token is invalid.")
                offset, number = place[2], place[1]
            if "empty_page" in kinds and number == 0:
                part, following = [], 0
            else:
                part, following = listed[offset : offset + size], offset + size
            if "duplicate_page" in kinds and offset:
                part = [listed[offset - 1], *part]
            if "no_terms" in kinds and key == "PriceList":
                part = [json.dumps(json.loads(text) | {"terms": {}}) for text in part]
            if "malformed_item" in kinds and part:
                part = [_malformed(part[0]), *part[1:]]
            found[key], rows = part, len(part)
            if following < len(listed):
                more[name] = _token(action, given, number + 1, following)
            elif service == "ec2" and action not in WITHOUT_PAGES:
                more[name] = ""  # the last page names an empty token
            if "repeated_token" in kinds:
                more[name] = token or _token(action, given, 1, min(size, max(0, len(listed) - 1)))
        if service in ("ec2", "sts"):
            if service == "ec2":
                body = aws_ec2.response(action, {**found, **more}, str(uuid.uuid4()))
            else:
                inner = _plain_xml(found)
                body = f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result>{inner}</{action}Result></{action}Response>'.encode()
            return Answer(body, "text/xml;charset=UTF-8", rows=rows)
        kind = "application/json" if service == "savingsplans" else "application/x-amz-json-1.1"
        return Answer(json.dumps({**found, **more}).encode(), kind, rows=rows)

    def _size(self, action: str, given: dict[str, Any]) -> int:
        asked = given.get("MaxResults", given.get("maxResults"))
        if asked is None:
            return self.page_size
        largest, least = LARGEST.get(action, 1000), 5 if action == "DescribeInstanceTypes" else 1
        if not least <= int(asked) <= largest:
            raise RefusedError("InvalidParameterException", f"Input Parameters are invalid. maxResults must be between {least} and {largest}")  # fmt: skip
        return min(int(asked), self.page_size)

    def _file(self, path: str, headers: dict[str, str]) -> Answer:
        found = self._cached(("file", path), lambda: aws_files.file_at(self.world, path))
        if found is None:
            raise RefusedError("AccessDenied", "Access Denied", 403)  # what is not there is forbidden
        body, kind = found
        etag = f'"{hashlib.md5(body).hexdigest()}"'
        own = {"ETag": etag, "Accept-Ranges": "bytes", "Last-Modified": self.world.edition.published_at.strftime("%a, %d %b %Y %H:%M:%S GMT")}  # fmt: skip
        if headers.get("if-none-match") == etag:
            return Answer(b"", kind, 304, own)
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", headers.get("range", ""))
        if wanted and headers.get("if-range", etag) == etag:
            first, last = int(wanted[1]), int(wanted[2] or len(body) - 1)
            if first >= len(body):
                return Answer(b"", kind, 416, own | {"Content-Range": f"bytes */{len(body)}"})
            last = min(last, len(body) - 1)
            return Answer(body[first : last + 1], kind, 206, own | {"Content-Range": f"bytes {first}-{last}/{len(body)}"})  # fmt: skip
        return Answer(body, kind, 200, own)

    def _cached(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """Return what a price list edition makes, made once."""
        whole = (*key, len(self.world.editions), self.world.now)
        with self._lock:
            if whole in self._cache:
                return self._cache[whole]
        made = make()
        with self._lock:
            self._cache[whole] = made
        return made

    def _controlled(self, path: str, body: bytes) -> Answer:
        given = json.loads(body or b"{}")
        said: Any = {}
        if path == "/_control/fail":
            self.fail(**given)
        elif path == "/_control/heal":
            self.heal()
        elif path == "/_control/price":
            self.world.set_price(given["instance_type"], given["price"], region=given.get("region", "us-east-1"))
        elif path == "/_control/remove":
            self.world.remove(given["name"], region=given.get("region", "us-east-1"))
        elif path == "/_control/calls":
            said = [asdict(c) for c in self.calls]
        else:
            return Answer(b"{}", "application/json", 404)
        return Answer(json.dumps(said).encode(), "application/json")


def _asked(method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[str, str, str, dict[str, Any]]:
    """Return service, operation, region and arguments of a request."""
    scope = re.search(r"Credential=[^/]+/\d{8}/([^/]+)/([^/]+)/", headers.get("authorization", ""))
    region = scope[1] if scope else ""
    target = headers.get("x-amz-target", "")
    if target:
        prefix, _, action = target.partition(".")
        return JSON_SERVICES.get(prefix, prefix), action, region, json.loads(body or b"{}")
    if method == "POST" and path.startswith("/DescribeSavingsPlans"):
        return "savingsplans", path[1:], region, json.loads(body or b"{}")
    if method == "POST":
        fields = dict(urllib.parse.parse_qsl(body.decode(), keep_blank_values=True))
        action = fields.pop("Action", "")
        return ("sts" if fields.pop("Version", "") == "2011-06-15" else "ec2"), action, region, _lists(fields)
    return "file", path, region, {}


def _lists(fields: dict[str, str]) -> dict[str, Any]:
    """Return form fields with numbered ones as lists; filters stay numbered fields."""
    found: dict[str, Any] = {}
    for name, value in fields.items():
        listed = re.fullmatch(r"([A-Za-z]+)\.(\d+)", name)
        if listed:
            found.setdefault(listed[1], []).append(value)
        else:
            found[name[0].upper() + name[1:]] = value
    return found


def _filters(given: dict[str, Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in given.items():
        if numbered := re.fullmatch(r"Filter\.(\d+)\.Name", name):
            found[value] = [v for k, v in given.items() if re.fullmatch(rf"Filter\.{numbered[1]}\.Value\.\d+", k)]
    return found


def _token_name(service: str, action: str, given: dict[str, Any]) -> str:
    if service == "savingsplans":
        return "nextToken"
    return "NextPageToken" if action == "GetCostAndUsage" else "NextToken"


def _request_hash(action: str, given: dict[str, Any]) -> str:
    kept = {k: v for k, v in given.items() if k.casefold() not in ("nexttoken", "nextpagetoken", "maxresults")}
    return hashlib.sha256(json.dumps([action, kept], sort_keys=True).encode()).hexdigest()[:16]


def _token(action: str, given: dict[str, Any], number: int, offset: int) -> str:
    """Return an opaque token: it belongs to this request."""
    return base64.urlsafe_b64encode(json.dumps([_request_hash(action, given), number, offset]).encode()).decode()


def _placed(token: str | None) -> tuple[str, int, int] | None:
    """Return request, number of pages before, and rows before; None for what is no token."""
    try:
        request, number, offset = json.loads(base64.urlsafe_b64decode(token or ""))
    except ValueError:
        return None
    return request, number, offset


def _plain_xml(members: Any) -> str:
    """Return members as elements of their own names."""
    if not isinstance(members, dict):
        return aws_ec2.escape(str(members))
    return "".join(f"<{name}>{_plain_xml(value)}</{name}>" for name, value in members.items())


def _malformed(row: Any) -> Any:
    if isinstance(row, str):
        return row[: len(row) // 2]
    return {key: ("?" if isinstance(value, str) else value) for key, value in row.items() if not key.endswith(("Type", "Code"))}  # fmt: skip


def _as_refused(fault: Fault, service: str, action: str) -> RefusedError:
    """Return the error that a service answers with."""
    ec2, rest = service in ("ec2", "sts"), service == "savingsplans"
    if fault.kind == "throttle":
        code = {"ec2": "RequestLimitExceeded", "file": "SlowDown"}.get(service, "ThrottlingException")
        return RefusedError(code, "Rate exceeded", 503 if ec2 or service == "file" else 429 if rest else 400)
    if fault.kind.startswith("http"):
        return RefusedError("InternalError" if ec2 else "InternalErrorException", "An internal error has occurred", int(fault.kind[4:]))  # fmt: skip
    if fault.kind == "expired_token":
        return RefusedError("RequestExpired" if service == "ec2" else "ExpiredTokenException", "The security token included in the request is expired", 403 if rest else 400)  # fmt: skip
    if fault.kind == "access_denied":
        why = f"User: arn:aws:iam::{ACCOUNT}:user/reader is not authorized to perform: {service}:{action} because no identity-based policy allows the {service}:{action} action"  # fmt: skip
        return RefusedError("UnauthorizedOperation" if service == "ec2" else "AccessDenied" if service in ("sts", "file") else "AccessDeniedException", why, 403 if ec2 or rest or service == "file" else 400)  # fmt: skip
    if fault.kind == "unrecognised_client":
        return RefusedError("AuthFailure" if service == "ec2" else "InvalidClientTokenId" if service == "sts" else "UnrecognizedClientException", "The security token included in the request is invalid.", 401 if service == "ec2" else 403 if rest else 400)  # fmt: skip
    if fault.kind == "clock_skew":
        return RefusedError("RequestExpired" if service == "ec2" else "InvalidSignatureException", "Signature expired: it is now earlier than 15 min. ago", 403 if rest else 400)  # fmt: skip
    if fault.kind == "expired_next_token":
        return RefusedError(
            "ExpiredNextTokenException", "The pagination token expired. Try again without a pagination token."
        )
    if fault.kind == "missing":
        return RefusedError("AccessDenied", "Access Denied", 403)
    return RefusedError(fault.code, f"{fault.code} as asked for", fault.status)


def _error(service: str, action: str, error: RefusedError) -> Answer:
    """Return an error as the service's protocol writes it."""
    message, code = aws_ec2.escape(str(error)), error.code
    if service == "file":
        return Answer(f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>{message}</Message></Error>'.encode(), "application/xml", error.status)  # fmt: skip
    if service == "ec2":
        return Answer(f'<?xml version="1.0" encoding="UTF-8"?>\n<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors><RequestID>{uuid.uuid4()}</RequestID></Response>'.encode(), "text/xml;charset=UTF-8", error.status)  # fmt: skip
    if service == "sts":
        return Answer(f'<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>'.encode(), "text/xml", error.status)  # fmt: skip
    if service == "savingsplans":
        return Answer(json.dumps({"message": str(error)}).encode(), "application/json", error.status, {"x-amzn-ErrorType": code})  # fmt: skip
    return Answer(json.dumps({"__type": code, "message": str(error)}).encode(), "application/x-amz-json-1.1", error.status)  # fmt: skip


# operations: (server, region of the signature, arguments) -> members of the answer

Members = dict[str, Any]


def _list_of_service(aws: FakeAws, region: str, service: str) -> list[aws_products.Product]:
    if service not in aws_products.SERVICES:
        raise RefusedError("InvalidParameterException", f"Input Parameters are invalid. Invalid serviceCode: {service}")
    china = region.startswith("cn-")
    found: list[aws_products.Product] = aws._cached(("list", service, china), lambda: aws_products.products(aws.world, service, china=china))  # fmt: skip
    return found


def _get_products(aws: FakeAws, region: str, given: Members) -> Members:
    if not given.get("ServiceCode"):
        raise RefusedError(
            "InvalidParameterException", "Input Parameters are invalid. serviceCode cannot be null or empty"
        )
    found = _list_of_service(aws, region, given["ServiceCode"])
    for wanted in given.get("Filters", []):
        found = [p for p in found if _passes(wanted, aws_products.attribute(p, wanted["Field"]))]
    return {"FormatVersion": "aws_v1", "PriceList": aws_products.texts(found)}


def _passes(wanted: dict[str, str], value: str | None) -> bool:
    """Say whether a product passes one filter; an attribute that it lacks never matches, and a misspelt value matches nothing."""
    if value is None:
        return False
    listed = [v.strip().casefold() for v in wanted["Value"].split(",")]
    match wanted["Type"]:
        case "TERM_MATCH" | "EQUALS":
            return value.casefold() == wanted["Value"].casefold()
        case "CONTAINS":
            return wanted["Value"].casefold() in value.casefold()
        case "ANY_OF":
            return value.casefold() in listed
        case "NONE_OF":
            return value.casefold() not in listed
    raise RefusedError(
        "InvalidParameterException", f"Input Parameters are invalid. Invalid filter type: {wanted['Type']}"
    )


def _attribute_values(aws: FakeAws, region: str, given: Members) -> Members:
    found = {
        aws_products.attribute(p, given["AttributeName"]) for p in _list_of_service(aws, region, given["ServiceCode"])
    }
    return {"AttributeValues": [{"Value": value} for value in sorted(v for v in found if v is not None)]}


def _services(aws: FakeAws, region: str, given: Members) -> Members:
    def described(service: str) -> Members:
        names = {name for p in _list_of_service(aws, region, service) for name in p["product"]["attributes"]}
        return {"ServiceCode": service, "AttributeNames": sorted(names | {"productFamily", "termType"})}

    wanted = given.get("ServiceCode")
    return {"FormatVersion": "aws_v1", "Services": [described(s) for s in aws_products.SERVICES if wanted in (None, s)]}


def _price_lists(aws: FakeAws, region: str, given: Members) -> Members:
    when = given.get("EffectiveDate")
    day = wire_time(aws.world.now) if when is None else time.strftime("%Y-%m-%d", time.gmtime(float(when))) if isinstance(when, (int, float)) else str(when)  # fmt: skip
    edition = aws_files.edition_on(aws.world, day)
    service, currency = given.get("ServiceCode"), given.get("CurrencyCode", "USD")
    if service not in (*aws_products.SERVICES, "AWSComputeSavingsPlan") or currency != "USD":
        raise RefusedError("ResourceNotFoundException", f"No price list of {service} in {currency}")
    return {
        "PriceLists": [
            {
                "PriceListArn": f"arn:aws:pricing:::price-list/aws/{service}/USD/{edition.version}/{place}",
                "RegionCode": place,
                "CurrencyCode": "USD",
                "FileFormats": ["csv", "json"],
            }
            for place in aws_products.PLACES
            if given.get("RegionCode") in (None, place)
        ]
    }


def _price_list_url(aws: FakeAws, region: str, given: Members) -> Members:
    found = re.fullmatch(
        r"arn:aws:pricing:::price-list/aws/(\w+)/USD/(\d{14})/([a-z0-9-]+)", given.get("PriceListArn", "")
    )
    if found is None:
        raise RefusedError("NotFoundException", "The requested resource can't be found.")
    folder = "savingsPlan" if found[1] == "AWSComputeSavingsPlan" else "offers"
    return {"Url": f"{aws.url}/{folder}/v1.0/aws/{found[1]}/{found[2]}/{found[3]}/index.{given['FileFormat']}"}


def _scores(aws: FakeAws, region: str, given: Members) -> Members:
    question = json.dumps([sorted(given.get("InstanceType", [])), given.get("TargetCapacity"), given.get("SingleAvailabilityZone"), given.get("RegionName")])  # fmt: skip
    aws._configurations.add(question)
    if len(aws._configurations) > aws.placement_configurations:
        aws._configurations.remove(question)
        raise RefusedError("MaxConfigLimitExceeded", "You have exceeded your maximum allowed Spot placement configurations. You can retry configurations that you used within the last 24 hours, or wait for 24 hours before specifying a new configuration.")  # fmt: skip
    return {"SpotPlacementScores": aws_ec2.placement_scores(aws.world, given)}


def _service_quota(aws: FakeAws, region: str, given: Members) -> Members:
    if given.get("QuotaCode") not in aws.world.quotas:
        raise RefusedError(
            "NoSuchResourceException", "The request failed because the specified service quota does not exist."
        )
    return {"Quota": aws_plans.quota(region, given["QuotaCode"], aws.world.quotas[given["QuotaCode"]])}


def _default_quota(aws: FakeAws, region: str, given: Members) -> Members:
    if given.get("QuotaCode") not in aws_plans.QUOTAS:
        raise RefusedError(
            "NoSuchResourceException", "The request failed because the specified service quota does not exist."
        )
    return {"Quota": aws_plans.quota(region, given["QuotaCode"], aws_plans.DEFAULTS.get(given["QuotaCode"], 0.0))}


def _owned_plans(aws: FakeAws, region: str, given: Members) -> Members:
    return {
        "savingsPlans": [
            {
                "offeringId": aws_plans.offering_id("Compute", 1, "Partial Upfront"),
                "savingsPlanId": "5b1c1f0e-0000-4000-8000-000000000001",
                "savingsPlanArn": f"arn:aws:savingsplans::{ACCOUNT}:savingsplan/5b1c1f0e-0000-4000-8000-000000000001",
                "description": "1 year Partial Upfront Compute Savings Plan",
                "start": wire_time(aws.world.now),
                "state": "active",
                "savingsPlanType": "Compute",
                "paymentOption": "Partial Upfront",
                "productTypes": ["EC2", "Fargate", "Lambda"],
                "currency": "USD",
                "commitment": "10.00000000",
                "upfrontPaymentAmount": "43800.00000000",
                "recurringPaymentAmount": "5.00000000",
                "termDurationInSeconds": aws_plans.YEAR_S,
            }
        ]
    }


def _assumed(aws: FakeAws, region: str, given: Members) -> Members:
    name = given.get("RoleArn", "").rpartition("/")[2]
    return {
        "Credentials": {"AccessKeyId": "ASIAEXAMPLE", "SecretAccessKey": "secret", "SessionToken": "session", "Expiration": "2099-01-01T00:00:00Z"},
        "AssumedRoleUser": {"AssumedRoleId": "AROAEXAMPLE:session", "Arn": f"arn:aws:sts::{ACCOUNT}:assumed-role/{name}/session"},
    }  # fmt: skip


ACTIONS: dict[tuple[str, str], Callable[[FakeAws, str, Members], Members]] = {
    ("pricing", "GetProducts"): _get_products,
    ("pricing", "GetAttributeValues"): _attribute_values,
    ("pricing", "DescribeServices"): _services,
    ("pricing", "ListPriceLists"): _price_lists,
    ("pricing", "GetPriceListFileUrl"): _price_list_url,
    ("ec2", "DescribeRegions"): lambda aws, region, given: {"Regions": aws_ec2.regions()},
    ("ec2", "DescribeAvailabilityZones"): lambda aws, region, given: {"AvailabilityZones": aws_ec2.zones(region)},
    ("ec2", "DescribeInstanceTypes"): lambda aws, region, given: {"InstanceTypes": aws_ec2.instance_types(aws.world, region, given, _filters(given))},
    ("ec2", "DescribeInstanceTypeOfferings"): lambda aws, region, given: {"InstanceTypeOfferings": aws_ec2.offerings(aws.world, region, given, _filters(given))},
    ("ec2", "DescribeSpotPriceHistory"): lambda aws, region, given: {"SpotPriceHistory": aws_ec2.spot_history(aws.world, region, given, _filters(given))},
    ("ec2", "GetSpotPlacementScores"): _scores,
    ("ec2", "DescribeCapacityBlockOfferings"): lambda aws, region, given: {"CapacityBlockOfferings": aws_ec2.capacity_blocks(aws.world, region, given)},
    ("savingsplans", "DescribeSavingsPlansOfferings"): lambda aws, region, given: {"searchResults": aws_plans.chosen_offerings(aws.world, given)},
    ("savingsplans", "DescribeSavingsPlansOfferingRates"): lambda aws, region, given: {"searchResults": aws_plans.chosen_rates(aws._cached(("rates",), lambda: aws_plans.rates(aws.world)), given)},
    ("savingsplans", "DescribeSavingsPlans"): _owned_plans,
    ("service-quotas", "ListServiceQuotas"): lambda aws, region, given: {"Quotas": aws_plans.applied_quotas(aws.world, region)},
    ("service-quotas", "ListAWSDefaultServiceQuotas"): lambda aws, region, given: {"Quotas": aws_plans.default_quotas(region)},
    ("service-quotas", "GetServiceQuota"): _service_quota,
    ("service-quotas", "GetAWSDefaultServiceQuota"): _default_quota,
    ("ce", "GetCostAndUsage"): lambda aws, region, given: {"ResultsByTime": aws_plans.cost_and_usage(aws.world, given)},
    ("sts", "GetCallerIdentity"): lambda aws, region, given: {"Arn": f"arn:aws:iam::{ACCOUNT}:user/reader", "UserId": "AIDAEXAMPLE", "Account": ACCOUNT},
    ("sts", "AssumeRole"): _assumed,
}  # fmt: skip


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if isinstance(sys.exc_info()[1], ConnectionError):  # the other side went away: not ours to report
            return
        super().handle_error(request, client_address)


def _handler_for(aws: FakeAws) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self._answer()

        def do_HEAD(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def log_message(self, *args: Any) -> None:
            """Say nothing: the log of calls tells more."""

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            given = {name.casefold(): value for name, value in self.headers.items()}
            answer = aws.answer(self.command, self.path, given, body)
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.kind)
            self.send_header("x-amzn-RequestId", str(uuid.uuid4()))
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            if answer.cut:
                self.send_header("Connection", "close")
            self.end_headers()
            if self.command == "HEAD":
                return
            if answer.cut:
                self.wfile.write(answer.body[: len(answer.body) // 2])
                self.close_connection = True
            elif answer.drip_s is not None:
                step = max(1, len(answer.body) // 8)
                for start in range(0, len(answer.body), step):
                    self.wfile.write(answer.body[start : start + step])
                    time.sleep(answer.drip_s)
            else:
                self.wfile.write(answer.body)

    return Handler


def main() -> None:
    """Serve until the process is stopped or, when asked, its standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--page-size", type=int, default=25)
    parser.add_argument(
        "--bucket", metavar="BURST,PER_S", help="limit each operation: 10,5 is the quota of GetProducts"
    )
    parser.add_argument("--fault", action="append", default=[], metavar="JSON", help='{"kind": "throttle", "action": "GetProducts", "times": 2}')  # fmt: skip
    parser.add_argument("--until-stdin-ends", action="store_true", help="end with the process that started this one")
    given = parser.parse_args()
    burst, _, per_s = (given.bucket or "").partition(",")
    aws = FakeAws(page_size=given.page_size, bucket=(int(burst), float(per_s)) if given.bucket else None)
    aws.start(given.port)
    for fault in given.fault:
        aws.fail(**json.loads(fault))
    print(aws.url, flush=True)  # noqa: T201
    try:
        if given.until_stdin_ends:
            sys.stdin.read()
        else:
            threading.Event().wait()
    except KeyboardInterrupt:
        pass
    finally:
        aws.stop()


if __name__ == "__main__":
    main()
