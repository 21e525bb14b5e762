"""An address that never answers: a few attempts, not eight of them; one that is slow or throttles has them all."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from pricing.aws import session
from pricing.aws.session import Access, Aws, failure
from pricing.aws.silence import SILENT_ATTEMPTS
from pricing.errors import SourceFailed, Unreachable

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"
REGIONS = b"<DescribeRegionsResponse><regionInfo><item><regionName>us-east-1</regionName></item></regionInfo></DescribeRegionsResponse>"
WHOLE = ANSWER % (len(REGIONS), REGIONS)
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

Reply = tuple[float, bytes]  # after so many seconds; without bytes it is silent
SILENT: Reply = (0.0, b"")


class Listener:
    """A socket that answers each connection as the next of `replies` says, and is silent when they are used up."""

    def __init__(self, *replies: Reply) -> None:
        self.replies, self.asked = list(replies), 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._held: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self.asked += 1
                after_s, answer = self.replies.pop(0) if self.replies else SILENT
                if not answer:
                    self._held.append(connection)
                    continue
                with connection:
                    connection.recv(65536)
                    time.sleep(after_s)
                    connection.sendall(answer)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(timeout=5)
        for connection in self._held:
            connection.close()


@pytest.fixture
def listening(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[Listener, Callable[[], object]]]]:
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "y")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setattr(session, "READ_TIMEOUT_S", 0.3)
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0.0)
    with contextlib.ExitStack() as stack:

        def started(*replies: Reply) -> tuple[Listener, Callable[[], object]]:
            listener = Listener(*replies)
            stack.callback(listener.close)
            aws = Aws(Access(endpoint_url=listener.url))
            stack.callback(aws.close)
            client = aws.client("ec2", "us-east-1")

            def ask() -> object:
                import botocore.exceptions

                try:
                    return client.describe_regions()["Regions"][0]["RegionName"]
                except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as e:
                    raise failure(e, source="AWS ec2", permission="ec2:DescribeRegions") from e

            return listener, ask

        yield started


def test_silence_is_borne_three_times_and_the_next_call_once(listening):
    listener, ask = listening()
    with pytest.raises(Unreachable, match="AWS ec2"):
        ask()
    assert listener.asked == SILENT_ATTEMPTS == 3
    with pytest.raises(Unreachable):
        ask()
    assert listener.asked == SILENT_ATTEMPTS + 1


def test_who_answers_again_is_borne_with_again(listening):
    listener, ask = listening(SILENT, SILENT, SILENT, (0, WHOLE), SILENT, SILENT, (0, WHOLE))
    with pytest.raises(Unreachable):
        ask()
    assert [ask(), ask()] == ["us-east-1", "us-east-1"]
    assert listener.asked == 7


def test_who_is_slow_is_waited_for_and_who_is_busy_is_asked_eight_times(listening):
    _, ask = listening((0.2, WHOLE))
    assert ask() == "us-east-1"
    listener, ask = listening(*[(0.0, BUSY)] * 20)
    with pytest.raises(SourceFailed, match="HTTP 503"):
        ask()
    assert listener.asked == session.ATTEMPTS == 8


def test_silences_between_answers_do_not_add_up(listening):
    listener, ask = listening(SILENT, SILENT, (0, BUSY), SILENT, SILENT, (0, WHOLE))
    assert ask() == "us-east-1"
    assert listener.asked == 6


def test_a_minute_of_silence_at_most_and_a_slow_page_fits(monkeypatch):
    monkeypatch.undo()
    assert SILENT_ATTEMPTS * session.READ_TIMEOUT_S <= 60
    assert session.READ_TIMEOUT_S > 15
