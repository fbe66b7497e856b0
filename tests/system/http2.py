"""An HTTP/2 client that reads and writes only when a test calls it."""

from typing import Self

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    DataReceived,
    Event,
    PingAckReceived,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
)
from h2.settings import SettingCodes, Settings

from tests.system.processes import connected

_READ_BYTES = 65_536


class Http2:
    """One connection; `with` closes it.

    Args:
        window: how many bytes of each answer the peer may send before a further request.
        source: the address the connection comes from.
    """

    def __init__(self, bind: str, *, window: int | None = None, source: str = "") -> None:
        self._socket = connected(bind, source=source, protocol="h2")
        self._state = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        if window is not None:
            sizes = {SettingCodes.INITIAL_WINDOW_SIZE: window}
            self._state.local_settings = Settings(client=True, initial_values=sizes)
        self._state.initiate_connection()
        self._flush()
        while not any(isinstance(event, RemoteSettingsChanged) for event in self.read()):
            pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._socket.close()

    @property
    def streams_max(self) -> int:
        """How many requests the peer lets be open at once."""
        streams: int = self._state.remote_settings.max_concurrent_streams
        return streams

    def request(self, method: str, path: str, *, body: bytes | None = None, length: int = 0) -> int:
        """Begin a request, and return its stream.

        Args:
            body: the part of the body to send now.
            length: the declared length of the body.
        """
        stream = self._state.get_next_available_stream_id()
        head = {":method": method, ":path": path, ":scheme": "https", ":authority": "localhost"}
        if body is not None:
            head["content-length"] = str(length)
        self._state.send_headers(stream, list(head.items()), end_stream=body is None)
        if body is not None:
            self._state.send_data(stream, body)
        self._flush()
        return stream

    def wait_until_read(self) -> None:
        """Wait until the peer has read what was sent: it answers a ping after that."""
        self._state.ping(bytes(8))
        self._flush()
        while not any(isinstance(event, PingAckReceived) for event in self.read()):
            pass

    def read(self) -> list[Event]:
        """Read what the peer sends next; raise ConnectionResetError if it has closed."""
        data = self._socket.recv(_READ_BYTES)
        if not data:
            raise ConnectionResetError
        events = self._state.receive_data(data)
        for event in events:
            if isinstance(event, DataReceived):
                self._state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        self._flush()
        return events

    def answer(self, stream: int) -> tuple[dict[str, str], bytes]:
        """Return the answer to a request, headers and body.

        Raises ConnectionResetError if the stream is reset, or the connection closed.
        """
        headers: dict[str, str] = {}
        body = b""
        while True:
            for event in self.read():
                if getattr(event, "stream_id", None) != stream:
                    continue
                if isinstance(event, ResponseReceived):
                    headers = {str(name): str(value) for name, value in event.headers}
                elif isinstance(event, DataReceived):
                    body += event.data
                elif isinstance(event, StreamEnded):
                    return headers, body
                elif isinstance(event, StreamReset):
                    raise ConnectionResetError

    def _flush(self) -> None:
        self._socket.sendall(self._state.data_to_send())
