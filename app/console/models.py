"""The rows of links and sessions (D132). Times are Unix seconds."""

import peewee

from app.accounts.models import NAME_CHARACTERS_MAX


class ConsoleLink(peewee.Model):
    """A link that opens one session."""

    token_hash = peewee.FixedCharField(64, primary_key=True)
    name = peewee.CharField(NAME_CHARACTERS_MAX)
    role = peewee.CharField(10)
    expires_at = peewee.BigIntegerField()
    used_at = peewee.BigIntegerField(null=True)

    class Meta:
        table_name = "console_link"


class ConsoleSession(peewee.Model):
    """A session of a person in the console."""

    id = peewee.FixedCharField(8, primary_key=True)
    """Random, so that no later session gets the id of one that a page still shows."""
    token_hash = peewee.FixedCharField(64)
    name = peewee.CharField(NAME_CHARACTERS_MAX)
    role = peewee.CharField(10)
    started_at = peewee.BigIntegerField()
    expires_at = peewee.BigIntegerField()
    """Moves on while the session is used; eight hours after its start at the latest."""

    class Meta:
        table_name = "console_session"
