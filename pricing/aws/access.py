"""Whether an access can be, before anything is asked: the profile exists, the role and the addresses are written as such."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pricing.errors import UnknownName

ROLE_ARN: Final = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+", re.ASCII)
"""A role's ARN, in any partition, with or without a path. Source: IAM user guide, "IAM ARNs", read 2026-11."""

ENDPOINT: Final = re.compile(
    r"https?://(?:[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_.])?|\[[0-9a-f:.]+\])(?::(?P<port>\d{1,5}))?(?:/[a-z0-9._~%!$&()*+,;=:/-]*)?",
    re.ASCII | re.IGNORECASE,
)
"""An address without user, query, fragment, blank, quote or control character: nothing in it can be a secret that a message would repeat."""
ENDPOINT_FORM: Final = "must be http(s)://HOST[:PORT][/PATH], without user, password, query, blanks or quotes"
ENDPOINT_VARIABLE_NAMES: Final = re.compile(
    r"AWS_ENDPOINT_URL(?:_\w+)?|PLANNER_AWS_PRICE_LIST_URL|PLANNER_AWS_SPOT_ADVISOR_URL", re.ASCII
)


def is_endpoint(address: str) -> bool:
    """Return whether an address may be asked instead of AWS's own."""
    found = ENDPOINT.fullmatch(address)
    return found is not None and (found["port"] is None or 1 <= int(found["port"]) <= 65535)


def misstated_variable(environment: Mapping[str, str]) -> str | None:
    """Return the first variable whose address is none that may be asked; an empty one counts as absent."""
    for name, value in sorted(environment.items()):
        if value and ENDPOINT_VARIABLE_NAMES.fullmatch(name) and not is_endpoint(value):
            return name
    return None


def check_profile(name: str) -> None:
    """Raise UnknownName unless the SDK's configuration files have the profile; files that cannot be read are left to the first call."""
    import botocore.exceptions  # noqa: PLC0415 - takes a while, and only a refresh needs it
    import botocore.session  # noqa: PLC0415

    from pricing.catalog import near_misses  # noqa: PLC0415 - on the way to an error

    try:
        known = botocore.session.Session().available_profiles
    except botocore.exceptions.BotoCoreError:
        return
    if name not in known:
        raise UnknownName("profile", name, near_misses(name, known))
