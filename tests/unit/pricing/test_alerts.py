"""Watched prices: which moved by more than was asked, against the price at the last alert."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise

import pytest

from pricing.alerts import Baseline, FileSink, Watch, WebhookSink, alerts_of, blind, moved, parse_watches, price_key
from pricing.errors import SheetError
from pricing.model import PurchaseOption, Quote

AT = datetime(2025, 6, 23, tzinfo=UTC)
WATCH = Watch(name="all", share=Decimal("0.05"))


def quote(price: str = "100", **changes) -> Quote:
    whole = Quote(
        provider="aws",
        instance_type="p5.48xlarge",
        region="us-east-1",
        purchase_option=PurchaseOption.ON_DEMAND,
        list_unit_price=Decimal(price),
        effective_unit_price=Decimal(price),
        source="a list",
        retrieved_at=AT - timedelta(days=56),
    )
    return replace(whole, **changes)


def spot(price: str, zone: str = "use1-az1") -> Quote:
    return quote(price, purchase_option=PurchaseOption.SPOT, availability_zone_id=zone)


def test_the_cut_of_june_2025_is_told_with_its_share():
    """98.32 to 55.04 is -44.02 %."""
    assert round(moved(Decimal("98.32"), Decimal("55.04")), 4) == Decimal("-0.4402")
    (alert,), baselines = alerts_of([WATCH], {}, [quote("98.32")], [quote("55.04")], at=AT)
    assert alert.baseline == Baseline(
        unit_price=Decimal("98.32"), currency="USD", unit="Hrs", at=AT - timedelta(days=56)
    )
    assert round(alert.change_fraction, 4) == Decimal("-0.4402")
    assert baselines["all", price_key(quote())].unit_price == Decimal("55.04")
    assert alerts_of([WATCH], baselines, [quote("55.04")], [quote("55.04")], at=AT)[0] == []


def test_a_price_that_creeps_is_told_once_it_has_moved_enough():
    """2 % a day against the day before is never 5 %; against the last alert it is on the third day (1.02 ** 3 = 1.0612)."""
    prices = [Decimal(100) * Decimal("1.02") ** day for day in range(7)]
    baselines: dict = {}
    told = []
    for day, (before, after) in enumerate(pairwise(prices), 1):
        found, baselines = alerts_of([WATCH], baselines, [quote(str(before))], [quote(str(after))], at=AT)
        told += [day] * len(found)
    assert told == [3, 6]


def test_exactly_so_much_is_not_more():
    assert alerts_of([WATCH], {}, [quote("100")], [quote("105")], at=AT)[0] == []
    assert len(alerts_of([WATCH], {}, [quote("100")], [quote("105.01")], at=AT)[0]) == 1
    assert len(alerts_of([WATCH], {}, [quote("100")], [quote("94.99")], at=AT)[0]) == 1


@pytest.mark.parametrize(("direction", "told"), [("any", ["90", "110"]), ("up", ["110"]), ("down", ["90"])])
def test_one_direction_or_any(direction, told):
    watch = replace(WATCH, direction=direction)
    found = [p for p in ("90", "110") if alerts_of([watch], {}, [quote("100")], [quote(p)], at=AT)[0]]
    assert found == told


@pytest.mark.parametrize(
    ("selector", "sees"),
    [
        ({}, [True, True, True]),
        ({"instance_type": ("p5.48xlarge",)}, [True, True, False]),
        ({"family": ("g5",)}, [False, False, True]),
        ({"region": ("us-east-2",)}, [False, False, False]),
        ({"zone": ("use1-az1",)}, [False, True, False]),
        ({"purchase_option": ("spot",)}, [False, True, False]),
        ({"provider": ("gcp",)}, [False, False, False]),
        ({"family": ("p5", "g5"), "purchase_option": ("on_demand",)}, [True, False, True]),
    ],
)
def test_what_a_watch_sees(selector, sees):
    quotes = [quote(), spot("20"), quote(instance_type="g5.xlarge")]
    assert [replace(WATCH, **selector).sees(q) for q in quotes] == sees


def test_zones_are_watched_apart_and_watches_have_baselines_of_their_own():
    watches = [WATCH, Watch(name="big", share=Decimal("0.5"))]
    before, after = [spot("20"), spot("20", "use1-az2")], [spot("40"), spot("21", "use1-az2")]
    found, baselines = alerts_of(watches, {}, before, after, at=AT)
    assert [(a.watch, a.quote.availability_zone_id) for a in found] == [("all", "use1-az1"), ("big", "use1-az1")]
    assert len(baselines) == 4


def test_a_price_that_is_new_or_gone_or_in_another_currency_is_no_move():
    found, baselines = alerts_of([WATCH], {}, [], [quote("100")], at=AT)
    assert found == []
    found, baselines = alerts_of([WATCH], baselines, [quote("100")], [], at=AT)
    assert (found, len(baselines)) == ([], 1)
    found, baselines = alerts_of([WATCH], baselines, [], [quote("700", currency="CNY")], at=AT)
    assert found == []
    assert [b.currency for b in baselines.values()] == ["CNY"]


def test_a_price_that_was_gone_is_compared_with_what_it_was():
    _, baselines = alerts_of([WATCH], {}, [], [quote("100")], at=AT)
    _, baselines = alerts_of([WATCH], baselines, [quote("100")], [], at=AT)
    assert len(alerts_of([WATCH], baselines, [], [quote("60")], at=AT)[0]) == 1


def test_a_file_of_watches():
    text = """
[[watch]]
name = "H100"
more_than = 2.5
direction = "down"
family = ["p5", "p5en"]
region = "us-east-1"
purchase_option = ["on_demand", "spot"]
[[file]]
path = "alerts.jsonl"
[[webhook]]
url = "https://chat.example/hook/s3cret"
secret_env = "TOKEN"
"""
    found = parse_watches(text, name="alerts.toml")
    assert found.watches == (
        Watch(
            name="H100",
            share=Decimal("0.025"),
            direction="down",
            family=("p5", "p5en"),
            region=("us-east-1",),
            purchase_option=("on_demand", "spot"),
        ),
    )
    file, hook = found.sinks
    assert file == FileSink(path="alerts.jsonl")
    assert isinstance(hook, WebhookSink)
    assert (hook.secret_env, hook.header, hook.timeout_s) == ("TOKEN", "Authorization", 10.0)
    assert "s3cret" not in hook.name


GOOD = '[[watch]]\nname = "a"\nmore_than = 5\n'


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[[", "is not TOML"),
        ("", "holds no [[watch]]"),
        (GOOD + GOOD, "two watches are called 'a'"),
        ('[[watch]]\nname = "a"', "watch 1: more_than must be a number of percent above 0, not None"),
        (GOOD.replace("5", "0"), "more_than must be a number of percent above 0, not 0"),
        (GOOD.replace("5", "nan"), "more_than must be a number of percent above 0, not NaN"),
        (GOOD.replace("5", "1e999"), "more_than must be from 0.0001 to 1,000,000, not 1.000e+999"),
        (GOOD.replace("5", "1e99999999999999999999"), "is not TOML: a number beyond all"),
        (GOOD + '[[webhook]]\nurl = "https://a.example"\ntimeout_s = nan', "timeout_s must be above 0 and at most 60, not NaN"),
        (GOOD.replace("5", "true"), "more_than must be a number of percent above 0, not True"),
        (GOOD.replace('"a"', '""'), "watch 1: name must be a text on one line, not ''"),
        ("[[watch]]\nmore_than = 5", "watch 1: name must be a text on one line, and is missing"),
        (GOOD + 'direction = "sideways"', "direction must be one of any, up, down, not 'sideways'"),
        (GOOD + 'purchase_option = "spots"', "purchase_option must be one of on_demand"),
        (GOOD + "region = 5", "region must be a text or a list of texts, not 5"),
        (GOOD + 'familly = "p5"', "unknown key 'familly'; did you mean family?"),
        (GOOD + "[[file]]\n", "file 1: path must be a text on one line, and is missing"),
        (GOOD + '[[webhook]]\nurl = "http://example.com"', "must be https: plain http is for this machine alone"),
        (GOOD + '[[webhook]]\nurl = "http://127.0.0.1.example.com"', "must be https"),
        (GOOD + '[[webhook]]\nurl = "ftp://example.com"', "must be an https address, not ftp"),
        (GOOD + '[[webhook]]\nurl = "https://u:p@example.com"', "must not hold a user or password: use secret_env"),
        (GOOD + '[[webhook]]\nurl = "https://a.example"\nsecret_header = "X-Key"', "secret_header needs secret_env"),
        (GOOD + '[[webhook]]\nurl = "https://a.example"\ntimeout_s = 600', "timeout_s must be above 0 and at most 60"),
        (GOOD + '[[webhook]]\nurl = "https://a.example"\nsecret_env = "T"\nsecret_header = "a: b"', "the name of an HTTP header"),
        (GOOD + '[[file]]\npath = "a"\n[[file]]\npath = "a"', "file a is given 2 times"),
        ("watch = 5", "watch must be tables, each begun by [[watch]]"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_right_names_the_fault(text, fault):
    with pytest.raises(SheetError) as caught:
        parse_watches(text, name="alerts.toml")
    assert fault in str(caught.value)


@pytest.mark.parametrize(
    "hook",
    [
        'url = "https://hooks.example/T0/s3cret\\u0007"',
        'url = "https://hooks.example:s3cret/T0"',
        'url = "https://[s3cret/T0"',
        'url = "https://u:s3cret@hooks.example/"',
        'url = "http://hooks.example/s3cret"',
        'url = "https://hooks.example/T0"\nsecret_env = "Bearer s3cret"',
        'url = "https://hooks.example/s3cret"\n[[webhook]]\nurl = "https://hooks.example/s3cret"',
    ],
)
def test_no_fault_repeats_what_may_be_a_secret(hook):
    with pytest.raises(SheetError) as caught:
        parse_watches(f"{GOOD}[[webhook]]\n{hook}", name="alerts.toml")
    assert "s3cret" not in str(caught.value)


def test_plain_http_is_for_this_machine_alone():
    for host in ("127.0.0.1:8080", "localhost", "[::1]:9"):
        (sink,) = parse_watches(GOOD + f'[[webhook]]\nurl = "http://{host}/hook"', name="a").sinks
        assert isinstance(sink, WebhookSink)


@pytest.mark.parametrize(
    ("selectors", "why"),
    [
        ({"family": ("p9",)}, "no price has the family 'p9'"),
        ({"region": ("us-eest-1",)}, "no price has the region 'us-eest-1'; did you mean us-east-1?"),
        ({"zone": ("euc1-az9",)}, "no price has the zone 'euc1-az9'"),
        ({"purchase_option": ("reserved_1yr",)}, "no price has the purchase_option 'reserved_1yr'"),
        ({"purchase_option": ("spot",), "zone": ("use1-az1",), "instance_type": ("g6.xlarge",)}, "no price fits all of its selectors at once"),
    ],
)  # fmt: skip
def test_a_watch_that_selects_nothing_says_which_selector_no_price_has(selectors, why):
    quotes = [quote(), spot("17"), quote(instance_type="g6.xlarge")]
    watch = replace(WATCH, **selectors)
    assert blind([WATCH, watch], quotes) == [f"watch 'all' selects no price of this snapshot: {why}"]


def test_a_watch_that_selects_a_price_is_not_blind():
    assert blind([WATCH, replace(WATCH, zone=("use1-az1",)), replace(WATCH, family=("p9", "p5"))], [quote(), spot("17")]) == []  # fmt: skip
