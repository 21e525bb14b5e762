"""The public price list files: offer index, region index, a region's file. The same prices as by the Query API, without credentials.

A region's file of EC2 has hundreds of megabytes. It is fetched to disk (see `pricing.aws.downloads`) and streamed. CSV is asked for
first: it is complete in one pass in any order of lines, and where a cut body looks whole a line's cells tell. JSON takes less time to
read per megabyte, but it has more bytes for the same prices and so takes longer to fetch; it is read where there is no CSV, or one
that has changed its columns.

Reference: AWS Price List bulk API, getting price list files manually; of China's partition, the same page there; read 2026-11.
"""

from __future__ import annotations

import contextlib
import difflib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pricing.aws import replies
from pricing.aws.downloads import NoSuchFile, fetch_document, fetch_file, http_client, opened
from pricing.aws.offer import MOST_ERRORS, SOURCE, OfferReading
from pricing.aws.offer_csv import parse_offer_csv
from pricing.aws.offer_json import parse_offer_json
from pricing.aws.session import Aws, in_china
from pricing.errors import ReplyError, SourceFailed
from pricing.market import Notice, NoticeKind
from pricing.model import PurchaseOption
from pricing.source import ANY_TYPE, Ask, Scope, Source, SourceReading

if TYPE_CHECKING:
    import httpx

NAME = "price_list_files"
SERVICE = "AmazonEC2"
FOLDER = "downloads"
"""Folder of fetched files in a data directory."""
FORMATS: Mapping[str, Callable[..., OfferReading]] = {"csv": parse_offer_csv, "json": parse_offer_json}
"""In the order in which they are tried."""


def price_list_files_source(aws: Aws, *, directory: Path | None = None) -> Source:
    """Return the source of on-demand prices and reservations by public files, kept in `directory`/downloads (None: only while read)."""
    return Source(
        name=NAME,
        regional=True,
        needs_credentials=False,
        default=False,
        what="on-demand prices and reservations (public price list files; hundreds of MB a region, kept on disk)",
        read=lambda ask: read_price_list_files(aws, ask, directory=directory),
    )


def read_price_list_files(
    aws: Aws, ask: Ask, *, directory: Path | None = None, sleep: Callable[[float], None] | None = None
) -> SourceReading:
    """Return every certain price of a region's machines. SourceFailed where neither format of the file can be had and read whole."""
    if ask.region is None:
        raise ValueError("price list files are asked region by region")
    waits: dict[str, Any] = {} if sleep is None else {"sleep": sleep}
    with downloads(directory) as folder, http_client(SOURCE) as client:
        url = offer_file_url(client, aws, ask.region, **waits)
        found = _first_readable(client, url, folder, ask, waits)
    if not found.prices.quotes:
        gone = ", ".join(f"{count} x {reason}" for reason, count in sorted(found.prices.excluded.items()))
        raise SourceFailed(source=SOURCE, why=f"no price of a type we plan with in {ask.region} (left out: {gone})")
    faults = (*found.prices.unresolved, *found.prices.unreadable)
    options = {PurchaseOption.ON_DEMAND, PurchaseOption.RESERVED_1YR, PurchaseOption.RESERVED_3YR}
    return SourceReading(
        source=NAME,
        scope=Scope(
            provider="aws", region=ask.region, tables=frozenset({"quotes"}), purchase_options=frozenset(options)
        ),
        retrieved_at=ask.at,
        published=found.published or found.version,
        quotes=found.prices.quotes,
        excluded={reason: count for reason, count in sorted(found.prices.excluded.items()) if count},
        untold=replies.untold(faults) | ({ANY_TYPE} if len(found.prices.unreadable) >= MOST_ERRORS else set()),
        notices=tuple(Notice(kind=NoticeKind.UNRESOLVED, source=NAME, subject=e.where, detail=e.why) for e in faults),
    )


def offer_file_url(client: httpx.Client, aws: Aws, region: str, **waits: Any) -> str:
    """Return the address of a region's file as JSON, by way of the offer index and the region index."""
    entry = offer_entry(client, aws, region, **waits)
    try:
        index, _ = fetch_document(
            client, address(aws, region, replies.text(entry, "currentRegionIndexUrl", source=SOURCE, where=SERVICE)), source=SOURCE, **waits
        )  # fmt: skip
        whole = replies.mapping(index, source=SOURCE, where="region index")
        regions = replies.mapping(whole.get("regions"), source=SOURCE, where="region index")
        if region not in regions:
            raise no_such_region(region, regions)
        row = replies.mapping(regions[region], source=SOURCE, where=region)
        return address(aws, region, replies.text(row, "currentVersionUrl", source=SOURCE, where=region))
    except ReplyError as e:
        raise SourceFailed(source=SOURCE, why=f"{e.where}: {e.why}") from e


def offer_entry(client: httpx.Client, aws: Aws, region: str, **waits: Any) -> Mapping[str, Any]:
    """Return what the offer index of a region's partition says of EC2."""
    index, _ = fetch_document(
        client, address(aws, region, f"/offers/v1.0/{partition(region)}/index.json"), source=SOURCE, **waits
    )
    try:
        offers = replies.mapping(
            replies.mapping(index, source=SOURCE, where="offer index").get("offers"), source=SOURCE, where="offer index"
        )
        return replies.mapping(offers.get(SERVICE), source=SOURCE, where=f"offer index, {SERVICE}")
    except ReplyError as e:
        raise SourceFailed(source=SOURCE, why=f"{e.where}: {e.why}") from e


def partition(region: str) -> str:
    """Return how addresses call the partition of a region: China has a list of its own; GovCloud is in the common one."""
    return "cn" if in_china(region) else "aws"


def address(aws: Aws, region: str, path: str) -> str:
    """Return a whole address; indexes state them without the host."""
    return path if path.startswith(("https://", "http://")) else f"{aws.price_list_files_of(region)}/{path.lstrip('/')}"


def no_such_region(region: str, regions: Any) -> SourceFailed:
    """Return the error of a region that an index does not list."""
    near = difflib.get_close_matches(region, list(regions), n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else "check the region's name"
    return SourceFailed(source=SOURCE, why=f"the region index does not list {region}", remedy=hint)


@contextlib.contextmanager
def downloads(directory: Path | None) -> Iterator[Path]:
    """Give the folder for fetched files: one that stays, or one that is deleted at the end."""
    if directory is not None:
        yield directory / FOLDER
        return
    with tempfile.TemporaryDirectory(prefix="planner-price-list-") as folder:
        yield Path(folder)


def _first_readable(client: httpx.Client, url: str, folder: Path, ask: Ask, waits: Mapping[str, Any]) -> OfferReading:
    """Return what the first format says that is there and can be read. A file that cannot be read is not kept."""
    failed: SourceFailed | None = None
    for name, parse in FORMATS.items():
        of_format = f"{url.removesuffix('.json')}.{name}"
        try:
            file = fetch_file(
                client, of_format, folder / f"{SERVICE}-{ask.region}.{name}", source=SOURCE, on_part=ask.on_answer, **waits
            )  # fmt: skip
            try:
                with opened(file.path, source=SOURCE) as content:
                    return parse(
                        content, region=ask.region, instance_types=ask.instance_types, at=ask.at, retrieved_at=ask.at
                    )
            except ReplyError as e:
                file.discard()
                raise SourceFailed(source=SOURCE, why=f"{of_format} cannot be read: {e.where}: {e.why}") from e
        except NoSuchFile as e:
            failed = failed or e
        except SourceFailed as e:
            if e.__cause__ is None or not isinstance(e.__cause__, ReplyError):
                raise
            failed = e
    assert failed is not None  # noqa: S101 - every format failed
    raise failed
