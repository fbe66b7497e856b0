"""The tables of usage (D128).

Every answer is counted in an hour and in a day. So nothing has to be moved from one table to the
other, and both can be emptied from their old end at any time, by any process.
"""

import peewee

CLASSES = ("2xx", "4xx", "429", "5xx")
"""The classes of answers. Those of 4xx are without 429."""


class UsageAccount(peewee.Model):
    """The name of an account that has usage. It stays when the account is deleted."""

    id = peewee.IntegerField(primary_key=True)
    """The account's number, which is never given again (D81)."""
    name = peewee.CharField(100)

    class Meta:
        table_name = "usage_account"


class Usage(peewee.Model):
    """How many answers of one class the requests with one key got, and for how many vehicles."""

    account_id = peewee.IntegerField()
    key_id = peewee.FixedCharField(8)
    operation = peewee.CharField(30)
    status = peewee.CharField(3)
    """One of CLASSES."""
    answers = peewee.BigIntegerField()
    vehicles = peewee.BigIntegerField()


class UsageHour(Usage):
    """Usage in one hour."""

    hour = peewee.BigIntegerField()
    """When the hour began, in Unix seconds."""

    class Meta:
        table_name = "usage_hour"
        primary_key = False


class UsageDay(Usage):
    """Usage on one day in the time zone of the service (D20)."""

    day = peewee.DateField()

    class Meta:
        table_name = "usage_day"
        primary_key = False
