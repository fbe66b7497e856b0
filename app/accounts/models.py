"""Accounts, their plans and their keys, as they are stored (D3, D4, D12)."""

import peewee

BULK_MAX = 10_000
"""No plan may allow more registrations in one bulk request (D12)."""
ACCOUNTS_MAX = 1_048_576
"""An account's number is its slot in the limiter's file (D11), and is never given again (D81)."""
NAME_CHARACTERS_MAX = 100


class Plan(peewee.Model):
    """The limits of an account: `requests` per `window_seconds`, and two sizes."""

    name = peewee.CharField(30, primary_key=True)
    requests = peewee.IntegerField()
    window_seconds = peewee.IntegerField()
    bulk_max = peewee.IntegerField()
    domains_max = peewee.IntegerField()

    class Meta:
        table_name = "plan"


class Account(peewee.Model):
    """A customer of the installation; `tag` is the public part of its keys (D3)."""

    id = peewee.AutoField()
    tag = peewee.FixedCharField(6)
    name = peewee.CharField(NAME_CHARACTERS_MAX)
    plan = peewee.ForeignKeyField(Plan)
    plan_id: str
    created_at = peewee.BigIntegerField()
    suspended_at = peewee.BigIntegerField(null=True)
    """When its keys stopped working; None for an active account."""

    class Meta:
        table_name = "account"


class ApiKey(peewee.Model):
    """A key as it is stored: the hash of its secret, never the secret; times in Unix seconds."""

    id = peewee.FixedCharField(8, primary_key=True)
    account = peewee.ForeignKeyField(Account)
    secret_hash = peewee.FixedCharField(64)
    label = peewee.CharField(NAME_CHARACTERS_MAX)
    created_at = peewee.BigIntegerField()
    expires_at = peewee.BigIntegerField(null=True)
    revoked_at = peewee.BigIntegerField(null=True)
    replaced_by = peewee.FixedCharField(8, null=True)
    """The key that a rotation made in its place."""

    class Meta:
        table_name = "api_key"
