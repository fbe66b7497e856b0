"""The tables of watches and of their events (D183)."""

import peewee

from app.settings.enquiries import ENQUIRY_CHARACTERS_MAX
from app.vehicles.registration import REGISTRATION_CHARACTERS_MAX


class Watch(peewee.Model):
    """A plate that an account watches, and what the account was told about it."""

    id = peewee.AutoField()
    # NOTE: the account's number instead of a foreign key, as domains have it.
    account = peewee.IntegerField(column_name="account_id")
    registration = peewee.CharField(REGISTRATION_CHARACTERS_MAX)
    """Its canonical form; unique within the account."""
    lead_days = peewee.CharField(60)
    """Whole numbers, separated by commas, the greatest first; empty for none."""
    reference = peewee.CharField(ENQUIRY_CHARACTERS_MAX, null=True)
    reason = peewee.CharField(ENQUIRY_CHARACTERS_MAX, null=True)
    until = peewee.CharField(10, null=True)
    """The last day of the watch; None for no end."""
    created_at = peewee.BigIntegerField()
    """Unix seconds."""
    day = peewee.CharField(10)
    """The day that `told` was judged on; a check that is held back has its own."""
    told = peewee.TextField()
    """JSON of app.watches.told.ToldChecks."""
    recorded = peewee.CharField(16, null=True)
    """The digest of the state that the audit trail has (`digest_of`); None if it has none."""

    class Meta:
        table_name = "watch"


class WatchEvent(peewee.Model):
    """Something that an account was told about a plate. Each account numbers its events from 1."""

    account = peewee.IntegerField(column_name="account_id")
    number = peewee.BigIntegerField()
    at = peewee.BigIntegerField()
    """Unix seconds."""
    type = peewee.CharField(20)
    registration = peewee.CharField(REGISTRATION_CHARACTERS_MAX)
    reference = peewee.CharField(ENQUIRY_CHARACTERS_MAX, null=True)
    before = peewee.TextField()
    """JSON of one check, or of all; `null` for an unknown vehicle."""
    after = peewee.TextField()

    class Meta:
        table_name = "watch_event"
        primary_key = peewee.CompositeKey("account", "number")


class WatchFeed(peewee.Model):
    """The events of one account: how many there were, and until when its watches were swept."""

    account = peewee.IntegerField(primary_key=True, column_name="account_id")
    feed = peewee.FixedCharField(8)
    """What its cursors begin with; a restore changes it, because numbers are given again then."""
    last_event = peewee.BigIntegerField(default=0)
    """The number of its newest event."""
    swept = peewee.TextField(null=True)
    """The day and the registers of the last sweep that ended; None before the first. `accepted`
    before them has the next sweep report what is held back."""
    swept_at = peewee.BigIntegerField(null=True)
    """When the last sweep ended, in Unix seconds."""
    held_at = peewee.BigIntegerField(null=True)
    """Since when changes by loads are held back; None if none are."""
    held = peewee.IntegerField(default=0)
    """How many watches have changes that are held back."""

    class Meta:
        table_name = "watch_feed"
