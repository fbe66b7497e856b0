"""How texts write a number and what it counts."""


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number and a noun, such as `1 policy` or `2,000 policies`.

    Args:
        many: the plural; the singular and an s by default.
    """
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
