"""Look-ups in a snapshot: names in any spelling, near misses, filters, order, threads."""

from __future__ import annotations

import gc
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_contents import LATER, small_contents

from pricing.catalog import Catalog, near_misses
from pricing.errors import AmbiguousName, UnknownName
from pricing.model import PurchaseOption, Quote
from pricing.publish import publish_shipped
from pricing.snapshot import open_snapshot, write_snapshot


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    path = tmp_path_factory.mktemp("catalog") / "s.sqlite"
    write_snapshot(path, small_contents(), published_at=LATER, origin="import")
    with open_snapshot(path) as opened:
        yield opened


@pytest.mark.parametrize("spelling", ["H100 SXM5 80GB", "h100 sxm5 80gb", "H100", " h100 "])
def test_a_chip_is_found_by_name_or_alias_whatever_the_case(catalog: Catalog, spelling: str) -> None:
    assert catalog.accelerator(spelling).name == "H100 SXM5 80GB"


def test_an_unknown_chip_suggests_canonical_names(catalog: Catalog) -> None:
    with pytest.raises(UnknownName, match=r"unknown accelerator 'H10'; did you mean H100 SXM5 80GB\?"):
        catalog.accelerator("H10")
    with pytest.raises(UnknownName) as caught:
        catalog.accelerator("zzzz")
    assert caught.value.suggestions == ()
    assert str(caught.value) == "unknown accelerator 'zzzz'"


def test_instance_types_by_name(catalog: Catalog) -> None:
    assert catalog.instance_type("P5.48XLARGE").accelerators_per_instance == 8
    assert catalog.instance_type("g6f.xlarge").accelerators_per_instance == 0.125  # an eighth of an L4, not none
    with pytest.raises(UnknownName) as caught:
        catalog.instance_type("g6.xlrage")
    assert caught.value.suggestions[0] == "g6.xlarge"


def test_a_type_that_two_clouds_have_needs_its_provider(catalog: Catalog) -> None:
    with pytest.raises(AmbiguousName, match=r"instance type '1x H100' exists at lambda, nebius: name the provider"):
        catalog.instance_type("1x H100")
    assert catalog.instance_type("1x h100", "nebius").provider == "nebius"
    assert [t.provider for t in catalog.instance_types_named("1x H100")] == ["lambda", "nebius"]
    with pytest.raises(UnknownName, match="unknown instance type"):
        catalog.instance_type("1x H100", "aws")


def test_instance_types_by_provider(catalog: Catalog) -> None:
    assert [t.instance_type for t in catalog.instance_types("aws")] == ["g6.xlarge", "g6f.xlarge", "p5.48xlarge"]
    assert len(catalog.instance_types()) == 5
    assert catalog.instance_types("azure") == ()


def test_regions_and_providers(catalog: Catalog) -> None:
    assert catalog.regions() == ("us-central1", "us-east-1", "us-south-1", "us-west-2")
    assert catalog.providers() == ("aws", "lambda", "nebius")
    assert catalog.region("US-East-1") == "us-east-1"
    assert catalog.regions_of(catalog.instance_type("p5.48xlarge")) == ("us-east-1", "us-west-2")
    assert catalog.regions_of(catalog.instance_type("g6f.xlarge")) == ()  # no price: nowhere, not free
    with pytest.raises(UnknownName) as caught:
        catalog.region("us-east1")
    assert caught.value.suggestions[0] == "us-east-1"
    with pytest.raises(UnknownName, match="did you mean aws"):
        catalog.provider("awz")


def prices(quotes: list[Quote]) -> list[str]:
    return [str(q.effective_unit_price) for q in quotes]


def test_quotes_by_every_filter(catalog: Catalog) -> None:
    assert prices(catalog.quotes(regions=["us-east-1"], purchase_options=[PurchaseOption.ON_DEMAND])) == [
        "0.8048",
        "55.04",
    ]
    assert prices(catalog.quotes(instance_types=["p5.48xlarge"], purchase_options=["spot"])) == [
        "55.04",
        "16.95",
    ]  # zones az2, az6
    assert prices(catalog.quotes(providers=["lambda", "nebius"])) == ["3.29", "2.95"]
    assert len(catalog.quotes()) == 7
    assert catalog.quotes(regions=["nowhere"]) == []
    assert catalog.quotes(regions=[]) == []  # no region at all is not every region


def test_the_order_of_filters_does_not_change_the_order_of_quotes(catalog: Catalog) -> None:
    assert catalog.quotes(regions=["us-west-2", "us-east-1"]) == catalog.quotes(regions=("us-east-1", "us-west-2"))


def test_what_a_caller_does_to_a_list_stays_with_the_caller(catalog: Catalog) -> None:
    catalog.quotes().clear()
    assert len(catalog.quotes()) == 7
    with pytest.raises(TypeError):
        catalog.accelerators["mine"] = catalog.accelerator("L4")  # type: ignore[index]


regions_ = st.sampled_from(["us-east-1", "us-west-2", "us-south-1", "us-central1", "x'); DROP TABLE quotes; --"])


@given(
    st.none() | st.sets(regions_),
    st.none() | st.sets(st.sampled_from(PurchaseOption)),
    st.none() | st.sets(st.sampled_from(["aws", "lambda"])),
)
def test_filters_agree_with_filtering_by_hand(
    catalog: Catalog, regions: set[str] | None, options: set[PurchaseOption] | None, providers: set[str] | None
) -> None:
    by_hand = [
        q
        for q in catalog.quotes()
        if (regions is None or q.region in regions)
        and (options is None or q.purchase_option in options)
        and (providers is None or q.provider in providers)
    ]
    assert catalog.quotes(regions=regions, purchase_options=options, providers=providers) == by_hand


def test_rates_and_interruptions(catalog: Catalog) -> None:
    (rate,) = catalog.rates("EBS", "us-east-1")
    assert (rate.unit_price, rate.unit) == (Decimal("0.08"), "GB-month")
    assert catalog.rates("EBS", "eu-west-1") == ()
    assert catalog.rates() == (rate,)
    band = catalog.interruption("g6.xlarge", "us-east-1")
    assert band is not None
    assert (band.monthly_low_fraction, band.monthly_high_fraction) == (0.05, 0.10)
    assert catalog.interruption("p5.48xlarge", "us-east-1") is None  # not found is not zero


def test_threads_share_a_catalog(tmp_path: Path) -> None:
    write_snapshot(tmp_path / "s", small_contents(), published_at=LATER, origin="import")
    shared = open_snapshot(tmp_path / "s")
    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(lambda i: len(shared.quotes(regions=[("us-east-1", "us-west-2")[i % 2]])), range(200)))
    assert counts == [4, 1] * 100


def test_near_misses_hold_what_was_typed() -> None:
    assert near_misses("l40", ["L40S", "L4", "A100", "RTX 4090"])[0] in {"L40S", "L4"}
    assert near_misses("a100", ["A100 SXM4 80GB", "H100", "V100"])[0] in {"H100", "V100", "A100 SXM4 80GB"}
    assert "A100 SXM4 80GB" in near_misses("a100", ["A100 SXM4 80GB", "H100", "V100"])
    assert near_misses("", ["a"]) == ()


def test_swapped_letters_come_first() -> None:
    assert near_misses("us-esat-1", ["us-west-1", "us-east-1", "us-west1"])[0] == "us-east-1"


def test_a_catalog_that_is_let_go_closes_its_file(tmp_path: Path) -> None:
    catalog = open_snapshot(publish_shipped(tmp_path / "s.sqlite"))
    connection = catalog._connection
    del catalog
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


def test_which_options_are_quoted_in_some_regions_and_anywhere(tmp_path: Path) -> None:
    """The look-ups of some regions, of all, and of one type say the same."""
    path = tmp_path / "options.sqlite"
    write_snapshot(path, small_contents(), published_at=LATER, origin="import")
    both = frozenset({PurchaseOption.ON_DEMAND, PurchaseOption.SPOT})
    only = frozenset({PurchaseOption.ON_DEMAND})
    with open_snapshot(path) as catalog:
        p5, h100 = catalog.instance_type("p5.48xlarge"), catalog.instance_type("1x H100", "nebius")
        fraction = catalog.instance_type("g6f.xlarge")
        assert catalog.options_quoted_in(("us-east-1",)) == {
            ("aws", "g6.xlarge", "us-east-1"): only,
            ("aws", "p5.48xlarge", "us-east-1"): both,
        }
        assert catalog.options_quoted_in(("us-west-2", "mars-1")) == {("aws", "p5.48xlarge", "us-west-2"): only}
        assert [catalog.options_of(t) for t in (p5, h100, fraction)] == [both, only, frozenset()]  # one query each
        everywhere = catalog.options_quoted_in(None)
        assert everywhere == catalog.options_quoted_in(catalog.regions())
        assert len(everywhere) == 5
        assert [catalog.options_of(t) for t in (p5, h100, fraction)] == [
            both,
            only,
            frozenset(),
        ]  # from what is read already
