"""Makes text that others have chosen safe for terminals, logs and the history."""


def printable(text: str) -> str:
    """Return a text with all unprintable characters escaped, so that it is one line.

    SEC: others choose the names of files, and the texts in them.
    """
    # PERF: nearly all texts are; without this a row of records takes twice as long.
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def printable_lines(text: str) -> str:
    """Return a text of several lines without characters that control a terminal."""
    return "\n".join(map(printable, text.split("\n")))
