"""Leaves keys out of texts that others read: messages, and the record of actions."""

import re

KEY_PREFIX = "vfd_"
_LIKE_A_KEY = re.compile(f"{KEY_PREFIX}[0-9A-Za-z_]+")


def without_keys(text: str) -> str:
    """Return a text for messages: what looks like a key, whole or not, is left out."""
    return _LIKE_A_KEY.sub(f"{KEY_PREFIX}...", text)
