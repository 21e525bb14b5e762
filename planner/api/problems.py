"""Every error as an RFC 9457 problem document, from one table.

Domain errors know no HTTP: `DOMAIN_PROBLEMS` says what each becomes. 400 is for a body that is no JSON at all; 422 for JSON that
asks for something that cannot be; 404, 405, 413 and 415 as HTTP has them; 503 for what may work later. "Nothing fits" is no
problem but an answer: 200 with an empty ranking.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fastapi import Request, Response
from starlette.exceptions import HTTPException

from planner.models.errors import ConfigError, ModelError, UnknownModel
from planner.recommend.errors import BadRequest
from planner.store.errors import ForeignDatabase, SchemaNotCurrent, StoreBusy, StoreError
from pricing.errors import PricingError, UnknownName

MEDIA_TYPE = "application/problem+json"
MOST_ERRORS = 50
"""How many wrong fields a problem lists; `detail` counts all of them."""
SHOWN_VALUE_CHARACTERS = 200
"""How much of a refused value an error repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemKind:
    """One sort of problem: the `type` that programs compare, and what to do about it."""

    slug: str
    status: int
    title: str
    meaning: str

    @property
    def uri(self) -> str:
        """The `type` member, resolvable on this server."""
        return f"/docs/problems#{self.slug}"


def _kinds(*kinds: ProblemKind) -> Mapping[str, ProblemKind]:
    return {kind.slug: kind for kind in kinds}


KINDS = _kinds(
    ProblemKind(slug="malformed-json", status=400, title="The body is not JSON", meaning="The body must be one JSON object in UTF-8, without duplicate names, NaN or Infinity."),
    ProblemKind(slug="invalid-request", status=422, title="The request cannot be answered as it is asked", meaning="`errors` lists each field with its value, why it cannot be, and what would be right."),
    ProblemKind(slug="unknown-model", status=422, title="No such model", meaning="Give a name or alias of GET /v1/models, the number of parameters in `params`, or the model's config in `config`."),
    ProblemKind(slug="invalid-config", status=422, title="The model config cannot be used", meaning="`errors` names the field of the Hugging Face config that is missing, impossible or of an architecture that is not supported."),
    ProblemKind(slug="not-found", status=404, title="Nothing is here", meaning="The path, the model or the recommendation does not exist. Recommendations are kept in this server's database only."),
    ProblemKind(slug="method-not-allowed", status=405, title="The path has no such method", meaning="The `Allow` header lists the methods it has."),
    ProblemKind(slug="body-too-large", status=413, title="The body is too large", meaning="Bodies are limited in size; a model config of more than that holds more than an architecture."),
    ProblemKind(slug="unsupported-media-type", status=415, title="The body is not declared as JSON", meaning="Send `Content-Type: application/json` and no `Content-Encoding`."),
    ProblemKind(slug="internal-error", status=500, title="The server failed", meaning="A bug. It was logged with its traceback under the `incident` given."),
    ProblemKind(slug="busy", status=503, title="Too many requests are waiting", meaning="Try again after the seconds in `Retry-After`."),
    ProblemKind(slug="timeout", status=503, title="The answer took too long", meaning="Ask for less (fewer regions, purchase options or instances), or try again when the server has less to do."),
    ProblemKind(slug="prices-unavailable", status=503, title="The prices cannot be read", meaning="The snapshot file is missing or damaged; `planner prices list` on the server says the same."),
    ProblemKind(slug="database-unavailable", status=503, title="The database does not answer", meaning="Answers are stored before they are sent, so none is given meanwhile."),
    ProblemKind(slug="database-not-current", status=503, title="The database has another schema", meaning="It is empty, older, newer, or another program's; `detail` says which. Empty or older: run `planner db upgrade`, or restart `planner serve`, which does so itself."),
    ProblemKind(slug="not-ready", status=503, title="The server is not ready", meaning="`checks` says which part is not, and why."),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldError:
    """What is wrong with one field."""

    field: str
    value: Any
    why: str
    expected: str = ""

    def to_document(self) -> dict[str, Any]:
        """Return it as JSON values; a long value is cut."""
        return {
            "field": self.field,
            "value": shown_value(self.value),
            "why": self.why,
            "expected": self.expected or None,
        }


class Problem(Exception):  # noqa: N818 - as the RFC calls it
    """A problem on its way to the client."""

    def __init__(
        self,
        *,
        slug: str,
        detail: str,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{slug}: {detail}")
        self.slug, self.detail, self.errors = slug, detail, errors
        self.headers: Mapping[str, str] = headers or {}
        self.more: Mapping[str, Any] = more or {}

    @property
    def kind(self) -> ProblemKind:
        """The sort of problem."""
        return KINDS[self.slug]

    def to_document(self, instance: str) -> dict[str, Any]:
        """Return the problem document; `instance` is the path that was asked for."""
        document: dict[str, Any] = {
            "type": self.kind.uri,
            "title": self.kind.title,
            "status": self.kind.status,
            "detail": self.detail,
            "instance": instance,
        }
        if self.errors:
            document["errors"] = [error.to_document() for error in self.errors[:MOST_ERRORS]]
        return document | dict(self.more)

    def to_bytes(self, instance: str) -> bytes:
        """Return the problem document as JSON; ASCII alone, so that no text a client sends can break it."""
        return (json.dumps(self.to_document(instance), indent=2, allow_nan=False) + "\n").encode()

    def response(self, request: Request) -> Response:
        """Return the problem as a response."""
        return Response(
            self.to_bytes(request.url.path),
            status_code=self.kind.status,
            headers=dict(self.headers),
            media_type=MEDIA_TYPE,
        )


def shown_value(value: Any) -> Any:
    """Return a refused value as JSON can hold it, cut when it is long."""
    if value is None or isinstance(value, bool) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, int):
        return value if abs(value) < 10**18 else "a number of more than 18 digits"
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    if len(text) > SHOWN_VALUE_CHARACTERS:
        return text[:SHOWN_VALUE_CHARACTERS] + "…"
    return text if isinstance(value, str) or not isinstance(value, (list, dict)) else value


def invalid(errors: Sequence[FieldError]) -> Problem:
    """Return the problem of a request whose fields are wrong; the detail repeats the first."""
    first = errors[0]
    rest = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return Problem(
        slug="invalid-request",
        detail=f"{first.field} {first.why}{f'; {first.expected}' if first.expected else ''}{rest}",
        errors=errors,
    )


def _did_you_mean(names: Sequence[str]) -> str:
    return f"did you mean {' or '.join(names)}?" if names else ""


def _bad_request(error: BadRequest) -> Problem:
    return invalid(
        [
            FieldError(
                field=error.field, value=error.value, why=with_fields(error.why), expected=with_fields(error.expected)
            )
        ]
    )


def with_fields(text: str) -> str:
    """Return a message about flags as one about fields: "--max-e2e-ms 5" reads "max_e2e_ms 5"."""
    return re.sub(r"(?<!\S)--([a-z][a-z0-9-]*)", lambda m: m[1].replace("-", "_"), text)


def _unknown_model(error: UnknownModel) -> Problem:
    hint = _did_you_mean(error.suggestions) or "GET /v1/models lists the known ones; or give params, or config"
    why = "is not a model this server knows"
    return Problem(
        slug="unknown-model",
        detail=f"model {shown_value(error.name)!r} {why}; {hint}",
        errors=[FieldError(field="model", value=error.name, why=why, expected=hint)],
    )


def _config_error(error: ConfigError) -> Problem:
    name = f"config.{error.field}" if error.field else "config"
    return Problem(
        slug="invalid-config", detail=f"{name}: {error.why}", errors=[FieldError(field=name, value=None, why=error.why)]
    )


NAMED_FIELDS = {"instance type": "instance", "purchase option": "purchase"}
"""Request field of a kind of name, where the two differ."""


def unknown_name(error: UnknownName, *, field: str | None = None) -> Problem:
    """Return the problem of a name that the prices do not have; `field` is where it was given (default: the field of a request body)."""
    return invalid(
        [
            FieldError(
                field=field or NAMED_FIELDS.get(error.kind, error.kind),
                value=error.name,
                why=f"is not a known {error.kind}",
                expected=_did_you_mean(error.suggestions),
            )
        ]
    )


def _ambiguous_name(error: PricingError) -> Problem:
    return invalid(
        [
            FieldError(
                field=NAMED_FIELDS.get(getattr(error, "kind", ""), "instance"),
                value=getattr(error, "name", None),
                why=str(error),
            )
        ]
    )


def _prices(error: PricingError) -> Problem:
    del error  # the message names files of this machine: it is logged, not sent
    return Problem(
        slug="prices-unavailable",
        detail="the price snapshot cannot be read; the server's log says why",
        headers={"Retry-After": "60"},
    )


def _store(error: StoreError) -> Problem:
    """Return what may be told: the reason where it is our own, never where the database is nor what its driver says."""
    slug, detail, retry_after = "database-unavailable", "", "10"
    if isinstance(error, (SchemaNotCurrent, ForeignDatabase)):
        slug, detail = "database-not-current", f"the database {error.why}"
    elif isinstance(error, StoreBusy):
        detail, retry_after = (
            "the database is locked: another program has been writing to it for longer than we wait",
            "2",
        )
    return Problem(slug=slug, detail=detail or KINDS[slug].meaning, headers={"Retry-After": retry_after})


DOMAIN_PROBLEMS: Mapping[type[Exception], Callable[[Any], Problem]] = {
    BadRequest: _bad_request,
    UnknownModel: _unknown_model,
    ConfigError: _config_error,
    ModelError: lambda error: Problem(slug="invalid-request", detail=str(error)),
    UnknownName: unknown_name,
    PricingError: _prices,
    StoreError: _store,
}
"""What each domain error becomes; of several that fit, the nearest base class."""


def problem_of(error: Exception) -> Problem | None:
    """Return the problem that an error becomes, None for a bug."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, HTTPException):
        return _http_problem(error)
    for base in type(error).__mro__:
        if (translate := DOMAIN_PROBLEMS.get(base)) is not None:
            return translate(error)
    return None


def _http_problem(error: HTTPException) -> Problem:
    slug = {404: "not-found", 405: "method-not-allowed", 413: "body-too-large", 415: "unsupported-media-type"}.get(
        error.status_code, "invalid-request"
    )
    phrase = HTTPStatus(error.status_code).phrase
    detail = {
        "not-found": "there is nothing at this path; /docs lists what there is",
        "method-not-allowed": "this path has other methods",
    }.get(slug, str(error.detail or phrase))
    headers = dict(error.headers or {})
    if headers.get("Allow") == "GET":
        headers["Allow"] = "GET, HEAD"
    return Problem(slug=slug, detail=detail, headers=headers)
