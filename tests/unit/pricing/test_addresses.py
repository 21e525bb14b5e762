"""What of an address, and of a foreign text, may be shown."""

from __future__ import annotations

import pytest

from pricing.addresses import holds_user, host_of, marked, masked, told
from pricing.aws.access import is_endpoint, misstated_variable
from pricing.errors import ReplyError, SourceFailed, Unreachable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no address here", "no address here"),
        ("see https://a.example/x.json, then https://b:443.", "see https://a.example/x.json, then https://b:443."),
        ('"http://u:PASSW0RD@127.0.0.1:1/?k=SECRETQ"', '"http://…@127.0.0.1:1/?…"'),
        ("http://u@h/x#SECRETQ", "http://…@h/x?…"),
        ("http://[::1]:80/x?k=SECRETQ", "http://[::1]:80/x?…"),
        ("http://u:PASSW0RD/more@h/x", "http://…"),  # a sign that ends the host stands in the password
        ("http://u:PASSW0RD?more@h/x", "http://…"),
        ("http://u:PASSW0RD#more@h/x", "http://…"),
        ("http://u:p@PASSW0RD@h/x", "http://…"),
        ("http://u:PASSW0RD", "http://u:…"),  # no port, so it may be the beginning of a password
        ("at http://u:pa SECRETQ@h:1/x?t=SECRETQ", "at http://…"),
        ("http://u:pa'SECRETQ@h:1", "http://…"),
        ("http://u:pa SEC'RET\"Q@h:1: refused", "http://…"),
        ("http://u:pa SECRETQ", "http://u:…"),
        ('"http://h/x?k=a SECRETQ" failed', '"http://h/x?…'),
        ("http://h/x?k='SECRETQ'", "http://h/x?…"),
        ("http://u:p@h/x and http://v:q@g", "http://…"),
        ("http://…@h/x and http://…@g", "http://…@h/x and http://…@g"),
        ("Port could not be cast to integer value as 'SECRETQ'", "Port could not be cast to integer value as …"),
    ],
)
def test_addresses_are_masked_wherever_they_stand(text: str, shown: str) -> None:
    assert masked(text) == shown
    assert masked(masked(text)) == shown


@pytest.mark.parametrize(
    "body",
    [
        "403 Forbidden\nHost: x\nAuthorization: AWS4-HMAC-SHA256 Credential=AKIAABCDEFGHIJKLMNOP/20261130, Signature=SECRETQ",
        "you sent Authorization: AWS4-HMAC-SHA256 Credential=AKIAABCDEFGHIJKLMNOP/20261130/us-east-1/ec2, SignedHeaders=host;x-amz-date, Signature=SECRETQ",
        'you sent {"Authorization": "Bearer SECRETQ", "X-Amz-Security-Token": "SECRETQ"}',
        "key AKIAABCDEFGHIJKLMNOP, X-Amz-Security-Token=SECRETQ",
        "Basic SECRETQ=",
        "went to https://u:SECRETQ@proxy:3128/ and failed",
        "x-api-key: 'SECRETQ'",
        'Failed to connect to proxy URL: "http://u:SEC SECRETQ@h:1"',
        'http://u:SEC"SECRETQ@h/',
        "Max retries exceeded with url: /path?k=SECRETQ (Caused by X)",
    ],
)
def test_a_foreign_text_is_told_without_what_it_reflects(body: str) -> None:
    said = told(body)
    assert "SECRETQ" not in said
    assert "AKIA" not in said
    assert "\n" not in said


@pytest.mark.parametrize(
    "text",
    [
        "User: arn:aws:iam::123456789012:user/x is not authorized to perform: pricing:GetProducts",
        "The security token included in the request is expired",
        "Value (p9) for parameter InstanceType is invalid.",
    ],
)
def test_a_sentence_stays(text: str) -> None:
    assert told(text) == text


def test_a_long_text_is_cut() -> None:
    assert len(told("x" * 100_000)) == 300


def test_an_address_whose_path_is_a_secret_is_its_host_alone() -> None:
    assert host_of("https://hooks.example:8443/services/T0/SECRETQ?k=1") == "https://hooks.example:8443"
    assert host_of("https://u:PASSW0RD@hooks.example/x") == "https://…@hooks.example"
    assert host_of("nonsense SECRETQ") == "…"


def test_an_address_is_stored_as_it_is_unless_it_holds_a_secret() -> None:
    assert marked("https://a.example/x.json") == "https://a.example/x.json"
    one, other = marked("https://a.example/x?k=SECRETQ"), marked("https://a.example/x?k=OTHER")
    assert one != other
    assert "SECRETQ" not in one
    assert one.startswith("https://a.example/x?… ")


@pytest.mark.parametrize(
    ("address", "so"),
    [
        ("http://127.0.0.1:1", False),
        ("http://u@h", True),
        ("u:p@h", True),
        ("http://u:p q@h", True),
        ("http://h/?k=1", False),
    ],
)
def test_a_user_in_an_address_is_noticed(address: str, so: bool) -> None:
    assert holds_user(address) is so


def test_no_error_of_a_source_shows_what_its_address_holds() -> None:
    address = "http://u:PASSW0RD@h/x?k=SECRETQ"
    for error in (
        SourceFailed(source="a", why=f"no file {address}"),
        Unreachable(source="a", why=f"no file {address}"),
        ReplyError(source="a", where=address, why=f"not from {address}"),
    ):
        said = f"{error} {error.why}"
        assert "PASSW0RD" not in said
        assert "SECRETQ" not in said


@pytest.mark.parametrize(
    ("address", "so"),
    [
        *((good, True) for good in ("http://127.0.0.1:1", "https://a.example/", "HTTPS://a-b.example:8443/x/y.json", "http://[::1]:80", "http://my_proxy")),
        *((bad, False) for bad in ("", "a.example", "ftp://a", "http://", "http://u@h", "http://u:p@h", "http://h/?k=1", "http://h/x#y", "http://h/a b", "http://h/a'b", 'http://h/"', "http://h\n", "http://h:0", "http://h:65536", "http://h:pa/ss", "http://h/x@y", "http://h/\x00")),
    ],
)  # fmt: skip
def test_an_address_that_may_be_asked(address: str, so: bool) -> None:
    assert is_endpoint(address) is so
    assert misstated_variable({"AWS_ENDPOINT_URL_EC2": address}) == (None if so or not address else "AWS_ENDPOINT_URL_EC2")  # fmt: skip
    assert misstated_variable({"HTTPS_PROXY": address}) is None
