"""Replaces what differs from run to run by its kind."""

import re

_KINDS = (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00)", "{time}"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?", "{time}"),
    (r"\b\d{8}T\d{6}Z", "{time}"),
    (r"\b\d{1,2} \w{3} \d{4}, \d\d:\d\d", "{time}"),
    (r"-\d{8}T\d\d\b", "-{hour}"),
    (r"\w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT", "{time}"),
    (r"\b(vfd|dom|msg|whsec)_[A-Za-z0-9_{}-]+", r"{\1}"),
    (r"(sign-in|verifyd-console=?)([/=])[A-Za-z0-9_-]{20,}", r"\1\2{token}"),
    (r"\b[0-9a-f]{16,}\b", "{hex}"),
    (r"\b\d+(\.\d+)? ?(ms|µs|s|min|MB|KB|GB|kB|MiB|GiB|bytes)\b", r"{number} \2"),
    (r"(\"[a-z_A-Z]*(ms|seconds|bytes|Bytes|pid|Seconds)\": ?)[\d.]+", r"\1{number}"),
    (r"(?i)(x-ratelimit-\w+|retry-after|content-length|age|pid)(:? )\d+", r"\1\2{number}"),
    (r"127\.0\.0\.1:\d{2,}", "{bind}"),
    (r"\b1[789]\d{8}(\.\d+)?\b", "{epoch}"),
)

_RANDOM = re.compile(
    r"(?:\"(?:tag|id|replaced_by)\": \"|\b(?:tag|id|replaced_by)  +)"
    r"([A-Za-z0-9]{6}|[A-Za-z0-9]{8})\b"
)
"""Random tags of accounts and ids of keys, where they are first shown."""


class Same:
    """Texts without what differs from run to run.

    Args:
        known: values, and what stands for them.
    """

    def __init__(self, known: dict[str, str]) -> None:
        self.known = known

    def text(self, text: str) -> str:
        """Return a text with the kind of each value that differs."""
        for value in _RANDOM.findall(text):
            if not value.isdigit():
                self.known.setdefault(value, "{random}")
        for value, name in self.known.items():
            text = text.replace(value, name)
        for pattern, kind in _KINDS:
            text = re.sub(pattern, kind, text)
        return text
