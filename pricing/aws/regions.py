"""AWS region codes and the location names that price lists use for them.

Prices are asked for by `regionCode` where a service has it. Where only a location name exists, every spelling has to be tried:
price lists write "EU (Ireland)" where the SDK and the console write "Europe (Ireland)", and newer regions are "Europe (...)"
there too. Source: location names of the AWS price list and region names of the SDK's endpoint data, read 2026-11.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from pricing.errors import UnknownName

EUROPE = {
    "eu-central-1": "Frankfurt",
    "eu-central-2": "Zurich",
    "eu-north-1": "Stockholm",
    "eu-south-1": "Milan",
    "eu-south-2": "Spain",
    "eu-west-1": "Ireland",
    "eu-west-2": "London",
    "eu-west-3": "Paris",
}
ELSEWHERE = {
    "af-south-1": ("Africa (Cape Town)",),
    "ap-east-1": ("Asia Pacific (Hong Kong)",),
    "ap-east-2": ("Asia Pacific (Taipei)",),
    "ap-northeast-1": ("Asia Pacific (Tokyo)",),
    "ap-northeast-2": ("Asia Pacific (Seoul)",),
    "ap-northeast-3": ("Asia Pacific (Osaka)", "Asia Pacific (Osaka-Local)"),
    "ap-south-1": ("Asia Pacific (Mumbai)",),
    "ap-south-2": ("Asia Pacific (Hyderabad)",),
    "ap-southeast-1": ("Asia Pacific (Singapore)",),
    "ap-southeast-2": ("Asia Pacific (Sydney)",),
    "ap-southeast-3": ("Asia Pacific (Jakarta)",),
    "ap-southeast-4": ("Asia Pacific (Melbourne)",),
    "ap-southeast-5": ("Asia Pacific (Malaysia)",),
    "ap-southeast-6": ("Asia Pacific (New Zealand)",),
    "ap-southeast-7": ("Asia Pacific (Thailand)",),
    "ca-central-1": ("Canada (Central)",),
    "ca-west-1": ("Canada West (Calgary)",),
    "cn-north-1": ("China (Beijing)",),
    "cn-northwest-1": ("China (Ningxia)",),
    "il-central-1": ("Israel (Tel Aviv)",),
    "me-central-1": ("Middle East (UAE)",),
    "me-south-1": ("Middle East (Bahrain)",),
    "mx-central-1": ("Mexico (Central)",),
    "sa-east-1": ("South America (Sao Paulo)", "South America (São Paulo)"),
    "us-east-1": ("US East (N. Virginia)",),
    "us-east-2": ("US East (Ohio)",),
    "us-gov-east-1": ("AWS GovCloud (US-East)",),
    "us-gov-west-1": ("AWS GovCloud (US-West)", "AWS GovCloud (US)"),
    "us-west-1": ("US West (N. California)",),
    "us-west-2": ("US West (Oregon)",),
}
LOCATIONS: Mapping[str, tuple[str, ...]] = ELSEWHERE | {
    code: (f"EU ({city})", f"Europe ({city})") for code, city in EUROPE.items()
}
"""Region code -> every spelling of its location, the price list's usual one first."""

CODES: Mapping[str, str] = {name.casefold(): code for code, names in LOCATIONS.items() for name in names}


def location_names(region: str) -> tuple[str, ...]:
    """Return the spellings to try for a region code; UnknownName for a code that is none (Local Zones and Wavelength too)."""
    try:
        return LOCATIONS[region]
    except KeyError:
        raise UnknownName("AWS region", region, tuple(difflib.get_close_matches(region, LOCATIONS, n=3))) from None


def code_of_location(location: str) -> str:
    """Return the region code of a location name in any spelling, "" for one that is no region (a Local Zone, or unknown)."""
    return CODES.get(" ".join(location.split()).casefold(), "")


def region_code(location: str) -> str:
    """Return the region code of a location name in any spelling; UnknownName for one that is no region."""
    if code := code_of_location(location):
        return code
    names = {name.casefold(): name for spellings in LOCATIONS.values() for name in spellings}
    near = difflib.get_close_matches(location.casefold(), names, n=3)
    raise UnknownName("AWS location", location, tuple(names[n] for n in near))


def misspelt(region: str) -> str:
    """Return what to do about a region of which nothing is listed: nothing where its code is one of AWS's."""
    return "" if region in LOCATIONS else "check the region's name"
