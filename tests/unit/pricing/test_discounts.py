"""Private agreements. Expected prices are worked out by hand from list prices: p5.48xlarge 55.04, g5.xlarge 1.006 USD/h (July 2026)."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing.discounts import apply_agreement, as_listed, contracted, contracted_upfront, parse_agreement
from pricing.errors import SheetError
from pricing.market import Discount
from pricing.model import PurchaseOption, Quote

ON = date(2026, 7, 20)
MOMENT = datetime(2026, 7, 20, tzinfo=UTC)


def quote(price: str = "55.04", instance_type: str = "p5.48xlarge", **over: Any) -> Quote:
    known: dict[str, Any] = {
        "provider": "aws",
        "region": "us-east-1",
        "purchase_option": PurchaseOption.ON_DEMAND,
        "list_unit_price": Decimal(price),
        "effective_unit_price": Decimal(price),
        "source": "price list",
        "sku": "NGBF",
        "retrieved_at": MOMENT,
    }
    return Quote(instance_type=instance_type, **(known | over))


def reservation(hourly: str, upfront: str, years: int = 1, **over: Any) -> Quote:
    effective = Decimal(hourly) + Decimal(upfront) / (8760 * years)
    option = PurchaseOption.RESERVED_1YR if years == 1 else PurchaseOption.RESERVED_3YR
    return quote(hourly, purchase_option=option, upfront=Decimal(upfront), term_years=years, effective_unit_price=effective, **over)  # fmt: skip


def agreement(text: str) -> tuple[Discount, ...]:
    return parse_agreement(text, "edp.toml")


def line(**what: Any) -> Discount:
    return Discount(**({"provider": "aws", "agreement": "EDP", "source": f"line of {what}"} | what))


def paid(quotes: Quote | list[Quote], text: str, on: date = ON) -> list[Decimal]:
    listed = [quotes] if isinstance(quotes, Quote) else quotes
    return [q.effective_unit_price for q in contracted(listed, agreement(text), on)]


def test_a_share_off_is_contracted_beside_the_list_price() -> None:
    (got,) = contracted([quote()], agreement("[[discount]]\npercent_off = 9"), ON)
    assert got.list_unit_price == Decimal("55.04")
    assert got.contracted_unit_price == got.effective_unit_price == Decimal("50.0864")  # 55.04 x 0.91
    assert got.notes == "contracted under edp.toml (edp.toml, discount 1): 9 % off"


def test_shares_are_exact_decimals() -> None:
    assert paid(quote("1.006", "g5.xlarge"), "[[discount]]\npercent_off = 12.5") == [Decimal("0.88025")]
    assert paid(quote("1.006", "g5.xlarge"), '[[discount]]\npercent_off = "0.1"') == [Decimal("1.004994")]


def test_a_reservation_is_discounted_in_both_of_its_payments() -> None:
    (got,) = contracted([reservation("20", "87600")], agreement("[[discount]]\npercent_off = 10"), ON)
    assert (got.list_unit_price, got.upfront) == (Decimal(20), Decimal(87600))
    assert got.contracted_unit_price == 18
    assert contracted_upfront(got) == 78840
    assert got.effective_unit_price == 27  # 18 + 78,840 / 8,760


def test_an_all_upfront_reservation_has_no_hourly_price_and_is_discounted_all_the_same() -> None:
    (got,) = contracted([reservation("0", "525600", years=3)], agreement("[[discount]]\npercent_off = 50"), ON)
    assert (got.contracted_unit_price, got.effective_unit_price) == (Decimal(0), Decimal(10))  # 262,800 / 26,280
    assert contracted_upfront(got) == 262800


@pytest.mark.parametrize("option", [PurchaseOption.OWNED, PurchaseOption.SAVINGS_PLAN_3YR])
def test_the_upfront_of_an_own_server_or_a_sheets_plan_is_paid_under_an_agreement_too(option: PurchaseOption) -> None:
    """A server of 262,800 over three years is 10 an hour; with 3 an hour for power 13, and 10 % off both is 11.70."""
    row = quote("3", purchase_option=option, upfront=Decimal(262_800), term_years=3, effective_unit_price=Decimal(13))
    lines = agreement("[[discount]]\npercent_off = 10\n")
    (got,) = contracted([row], lines, ON)
    assert (got.contracted_unit_price, got.effective_unit_price) == (Decimal("2.7"), Decimal("11.7"))
    assert contracted_upfront(got) == 236_520
    assert as_listed(got) == row
    assert contracted([got], lines, ON) == (got,)


def test_a_negotiated_price_of_a_reservation_has_no_upfront() -> None:
    text = '[[discount]]\ninstance_type = "p5.48xlarge"\npurchase_option = "reserved_1yr"\nunit_price = "25"'
    (got,) = contracted([reservation("20", "87600")], agreement(text), ON)
    assert (got.contracted_unit_price, got.effective_unit_price, contracted_upfront(got)) == (25, 25, 0)


def test_a_savings_plan_rate_is_discounted_once() -> None:
    plan = quote("39.6288", purchase_option=PurchaseOption.SAVINGS_PLAN_1YR, term_years=1, payment_option="all_upfront")
    (got,) = contracted([plan], agreement("[[discount]]\npercent_off = 5"), ON)
    assert got.effective_unit_price == Decimal("37.647360")
    assert contracted_upfront(got) is None


EXACT = """
[[discount]]
percent_off = 1
[[discount]]
purchase_option = "on_demand"
percent_off = 2
[[discount]]
region = "us-east-1"
percent_off = 3
[[discount]]
region = "us-east-1"
purchase_option = "on_demand"
percent_off = 4
[[discount]]
family = "p5"
percent_off = 5
[[discount]]
instance_type = "p5.48xlarge"
percent_off = 6
[[discount]]
sku = "NGBF"
percent_off = 7
"""


@pytest.mark.parametrize(
    ("over", "percent"),
    [
        ({}, 7),
        ({"sku": "other"}, 6),
        ({"sku": None, "instance_type": "p5.4xlarge"}, 5),
        ({"sku": None, "instance_type": "p5en.48xlarge"}, 4),  # a family of its own
        ({"sku": None, "instance_type": "g5.xlarge", "purchase_option": PurchaseOption.SPOT}, 3),
        ({"sku": None, "instance_type": "g5.xlarge", "region": "eu-west-1"}, 2),
        ({"sku": None, "instance_type": "g5.xlarge", "region": "eu-west-1", "purchase_option": PurchaseOption.SPOT}, 1),
    ],
)
def test_the_most_exact_line_holds_alone(over: dict[str, Any], percent: int) -> None:
    lines = agreement(EXACT)
    for order in (lines, lines[::-1]):
        assert [q.effective_unit_price for q in contracted([quote("100", **over)], order, ON)] == [100 - percent]


def test_a_type_goes_before_family_region_and_option_together() -> None:
    text = """
    [[discount]]
    instance_type = "p5.48xlarge"
    percent_off = 6
    [[discount]]
    family = "p5"
    region = "us-east-1"
    purchase_option = "on_demand"
    percent_off = 50
    """
    assert paid(quote("100"), text) == [94]


def test_two_equally_exact_lines_are_a_fault_of_the_agreement() -> None:
    text = '[[discount]]\nfamily = "p5"\npercent_off = 5\n[[discount]]\nfamily = ["g5", "p5"]\npercent_off = 6\n'
    with pytest.raises(SheetError, match=r"edp.toml, discount 1 and edp.toml, discount 2 are equally exact \(p5\)"):
        agreement(text)
    two_files = (line(family="p5", percent_off=Decimal(5)), line(family="p5", percent_off=Decimal(6)))
    with pytest.raises(SheetError, match="equally exact"):
        contracted([quote()], two_files, ON)


def test_the_same_selection_may_follow_in_time() -> None:
    text = """
    [[discount]]
    percent_off = 5
    ends_on = 2026-06-30
    [[discount]]
    percent_off = 8
    starts_on = 2026-07-01
    """
    assert [paid(quote("100"), text, on) for on in (date(2026, 6, 30), date(2026, 7, 1))] == [[95], [92]]
    with pytest.raises(SheetError, match="equally exact"):
        agreement(text.replace("2026-07-01", "2026-06-30"))  # both hold on that one day


@pytest.mark.parametrize("on", [date(2025, 12, 31), date(2027, 1, 1)])
def test_a_line_does_nothing_before_its_first_and_after_its_last_day(on: date) -> None:
    text = "starts_on = 2026-01-01\nends_on = 2026-12-31\n[[discount]]\npercent_off = 9"
    assert contracted([quote()], agreement(text), on) == (quote(),)
    assert paid(quote("100"), text, date(2026, 1, 1)) == paid(quote("100"), text, date(2026, 12, 31)) == [91]


def test_an_agreement_that_has_ended_leaves_no_trace_and_is_told() -> None:
    lines = agreement("ends_on = 2026-12-31\n[[discount]]\npercent_off = 9")
    before = [quote(), reservation("20", "87600"), quote("9.1", notes="as told by phone")]
    during = contracted(before, lines, ON)
    after = apply_agreement(during, lines, date(2027, 1, 1))
    assert list(after.quotes) == before
    assert [n.detail for n in after.notices] == ["ended on 2026-12-31: list prices hold (edp.toml, discount 1)"]
    assert contracted(during, (), ON) == tuple(before)


@given(st.integers(1, 9999), st.decimals("0.0001", "300", places=4), st.integers(0, 10**6))
def test_applying_twice_is_applying_once(hundredths: int, hourly: Decimal, upfront: int) -> None:
    lines = (line(percent_off=Decimal(hundredths) / 100),)
    once = contracted([quote(str(hourly)), reservation(str(hourly), str(upfront), 3)], lines, ON)
    assert contracted(once, lines, ON) == once
    assert [as_listed(q) for q in once] == [quote(str(hourly)), reservation(str(hourly), str(upfront), 3)]
    assert all(q.effective_unit_price < as_listed(q).effective_unit_price for q in once)


def test_a_price_that_a_seller_contracted_in_a_sheet_stays() -> None:
    sheet = quote("55.04", contracted_unit_price=Decimal(41), effective_unit_price=Decimal(41), source="sheet.csv")
    assert contracted([sheet], agreement("[[discount]]\npercent_off = 9"), ON) == (sheet,)


def test_a_quote_without_a_list_price_is_discounted_from_what_it_costs() -> None:
    (got,) = contracted([quote(list_unit_price=None)], agreement("[[discount]]\npercent_off = 50"), ON)
    assert (got.list_unit_price, got.effective_unit_price) == (Decimal("55.04"), Decimal("27.52"))


def test_another_provider_is_not_discounted() -> None:
    assert paid(quote("100", provider="gcp"), "[[discount]]\npercent_off = 9") == [100]
    assert paid(quote("100", provider="gcp"), 'provider = "gcp"\n[[discount]]\npercent_off = 9') == [91]


NEGOTIATED = '[[discount]]\ninstance_type = "p5.48xlarge"\npurchase_option = "on_demand"\nunit_price = "{}"\n'


def test_a_negotiated_price_above_list_holds_and_is_told() -> None:
    applied = apply_agreement([quote()], agreement(NEGOTIATED.format("60")), ON)
    assert applied.quotes[0].effective_unit_price == 60
    (notice,) = applied.notices
    assert notice.subject == "p5.48xlarge us-east-1 on_demand"
    assert notice.detail == "negotiated 60 USD per hour is above the list price of 55.04 (edp.toml, discount 1)"


def test_a_negotiated_price_in_another_currency_is_not_applied_and_is_told() -> None:
    lines = agreement(NEGOTIATED.format("300") + 'currency = "CNY"')
    applied = apply_agreement([quote()], lines, ON)
    assert applied.quotes == (quote(),)
    assert [n.detail.partition(":")[0] for n in applied.notices] == ["is in CNY, the price in USD", "holds for no price of the snapshot (edp.toml, discount 1)"]  # fmt: skip


def test_a_line_in_another_currency_does_not_hide_a_wider_one() -> None:
    text = NEGOTIATED.format("300") + 'currency = "CNY"\n[[discount]]\npercent_off = 10'
    assert paid(quote("100"), text) == [90]


def test_a_line_that_holds_for_nothing_is_told() -> None:
    applied = apply_agreement([quote()], agreement('[[discount]]\nregion = "us-esat-1"\npercent_off = 9'), ON)
    assert [(n.subject, n.detail) for n in applied.notices] == [
        ("us-esat-1", "holds for no price of the snapshot (edp.toml, discount 1)")
    ]


def test_lists_stand_for_every_combination() -> None:
    text = 'agreement = "EDP 2026"\n[[discount]]\nregion = ["us-east-1", "us-west-2"]\npurchase_option = ["on_demand", "spot"]\npercent_off = 9'
    lines = agreement(text)
    assert {(d.region, str(d.purchase_option)) for d in lines} == {
        (region, option) for region in ("us-east-1", "us-west-2") for option in ("on_demand", "spot")
    }
    assert {d.agreement for d in lines} == {"EDP 2026"}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("percent_off = 9", "unknown key 'percent_off'"),
        ("", "holds no [[discount]]"),
        ("discount = 9", "discount must be a list of tables"),
        ("[[discount]]\npercent_of = 9", "discount 1 (line 1): unknown key 'percent_of'; did you mean percent_off?"),
        ("\n\n[[discount]]\nregion = 'x'", "discount 1 (line 3): give exactly one of percent_off"),
        ("[[discount]]\npercent_off = 9\nunit_price = 3", "give exactly one of percent_off"),
        ("[[discount]]\npercent_off = 100", "percent_off must be above 0 and below 100, not 100"),
        ("[[discount]]\npercent_off = 0", "above 0 and below 100, not 0"),
        ("[[discount]]\npercent_off = -5", "above 0 and below 100, not -5"),
        ("[[discount]]\npercent_off = nan", "percent_off must be a number"),
        ("[[discount]]\npercent_off = true", "percent_off must be a number"),
        ("[[discount]]\npercent_off = '9 %'", "percent_off must be a number"),
        ("[[discount]]\npercent_off = 1e999", "percent_off must be above 0 and below 100, not 1.000e+999"),
        ("[[discount]]\npercent_off = 1e-300", "percent_off must be from 0.0001 to 99.9999, not 1.000e-300"),
        ("[[discount]]\npercent_off = 1e99999999999999999999", "is not TOML: a number beyond all"),
        (f"[[discount]]\npercent_off = 0x{'f' * 9000}", "percent_off must be above 0 and below 100, not "),
        ("[[discount]]\npercent_off = '2_4'", "percent_off must be a number like 9 or \"44.00\", not '2_4'"),
        ("[[discount]]\npercent_off = '\uff19'", "percent_off must be a number"),
        (NEGOTIATED.format("1e999"), "must be a number like 9"),
        (NEGOTIATED.format("10000001"), "unit_price must be from 0.000001 to 10,000,000 an hour, not 10000001"),
        (NEGOTIATED.format("0.0000001"), "unit_price must be from 0.000001 to 10,000,000 an hour, not 0.0000001"),
        ("starts_on = 2026-02-01\nends_on = 2026-01-31\n[[discount]]\npercent_off = 3", "edp.toml: nothing was imported: the agreement ends on 2026-01-31, before it starts on 2026-02-01"),
        (NEGOTIATED.format("0"), "unit_price must be above 0"),
        ("[[discount]]\nunit_price = 3\npurchase_option = 'spot'", "unit_price needs instance_type or sku"),
        ("[[discount]]\nunit_price = 3\nsku = 'X'", "unit_price needs purchase_option"),
        ("[[discount]]\npercent_off = 3\npurchase_option = 'ondemand'", "purchase_option 'ondemand' is not one of on_demand, spot"),
        ("[[discount]]\npercent_off = 3\nregion = []", "region must be a text or a list of texts"),
        ("[[discount]]\npercent_off = 3\nregion = 5", "region must be a text or a list of texts"),
        ("provider = 'gcp'\n[[discount]]\npercent_off = 3\nfamily = 'a3'", "family selects types of aws only"),
        ("[[discount]]\npercent_off = 3\nstarts_on = 2026-02-01\nends_on = 2026-01-31", "ends on 2026-01-31, before it starts"),
        ("starts_on = '1 May'\n[[discount]]\npercent_off = 3", "starts_on must be a day like 2026-01-01"),
        ("starts_on = 2026-01-01T00:00:00Z\n[[discount]]\npercent_off = 3", "starts_on must be a day"),
        ("[[discount]]\npercent_off = 3\ncurrency = 'dollars'", "currency must be a code like USD"),
        ("agreement = 'a; b'\n[[discount]]\npercent_off = 3", "agreement must be a text on one line"),
        ("[[discount]\n", "is not TOML"),
    ],
)  # fmt: skip
def test_an_agreement_is_refused_with_the_place_and_the_reason(text: str, fault: str) -> None:
    with pytest.raises(SheetError) as refused:
        agreement(text)
    assert fault in str(refused.value)
    assert str(refused.value).startswith("edp.toml: nothing was imported: ")
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 400


def test_every_fault_is_named_at_once() -> None:
    with pytest.raises(SheetError) as refused:
        agreement("provder = 'aws'\n[[discount]]\npercent_off = 100\n[[discount]]\npercent_off = 5\nregion = 7")
    assert len(refused.value.faults) == 3
    assert [fault.partition(":")[0] for fault in refused.value.faults[1:]] == [
        "discount 1 (line 2)",
        "discount 2 (line 4)",
    ]
