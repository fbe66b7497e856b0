"""The DNS names that accounts hold (D14 to D18)."""

import peewee

STATUSES = ("active", "suspended")


class Domain(peewee.Model):
    """One name of one account; unique within the account (D15)."""

    id = peewee.FixedCharField(24, primary_key=True)
    # NOTE: the account's number instead of a foreign key: domains must not import accounts.
    account = peewee.IntegerField(column_name="account_id")
    name = peewee.CharField(253)
    status = peewee.CharField(10)
    created_at = peewee.BigIntegerField()

    class Meta:
        table_name = "domain"
