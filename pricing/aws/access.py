"""Whether an identity can be, before anything is asked: the profile exists, the role is written as one."""

from __future__ import annotations

import re
from typing import Final

from pricing.errors import UnknownName

ROLE_ARN: Final = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+", re.ASCII)
"""A role's ARN, in any partition, with or without a path. Source: IAM user guide, "IAM ARNs", read 2026-11."""


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
