"""Add watches, their events, and until when each account's watches were swept (D183)."""

from peewee import (
    AutoField,
    BigIntegerField,
    CharField,
    CompositeKey,
    FixedCharField,
    ForeignKeyField,
    IntegerField,
    Model,
    PostgresqlDatabase,
    TextField,
)


def up(migrator, db):
    # Plates sort by code point on both engines.
    by_code_point = {"collation": '"C"'} if isinstance(db, PostgresqlDatabase) else {}

    class Table(Model):
        class Meta:
            database = db
            schema = migrator.schema
            legacy_table_names = False

    class Account(Table):
        id = AutoField()

    class Watch(Table):
        id = AutoField()
        account = ForeignKeyField(Account, on_delete="CASCADE", index=False)
        registration = CharField(12, **by_code_point)
        lead_days = CharField(60)
        reference = CharField(64, null=True)
        reason = CharField(64, null=True)
        until = CharField(10, null=True)
        created_at = BigIntegerField()
        day = CharField(10)
        told = TextField()

        class Meta:
            indexes = ((("account", "registration"), True),)

    class WatchEvent(Table):
        account = ForeignKeyField(Account, on_delete="CASCADE", index=False)
        number = BigIntegerField()
        at = BigIntegerField(index=True)
        type = CharField(20)
        registration = CharField(12, **by_code_point)
        reference = CharField(64, null=True)
        before = TextField()
        after = TextField()

        class Meta:
            primary_key = CompositeKey("account", "number")
            indexes = ((("registration",), False),)

    class WatchFeed(Table):
        account = ForeignKeyField(Account, on_delete="CASCADE", primary_key=True)
        feed = FixedCharField(8)
        last_event = BigIntegerField(default=0)
        swept = TextField(null=True)
        swept_at = BigIntegerField(null=True)
        held_at = BigIntegerField(null=True)
        held = IntegerField(default=0)

    db.create_tables([Watch, WatchEvent, WatchFeed], safe=False)
    for statement in (
        # A program of the former version creates plans without this column.
        "ALTER TABLE plan ADD COLUMN watches_max INTEGER NOT NULL DEFAULT 0",
        # PERF: sweeps make 9,600 runs in 400 days. To find the last ones takes 1 ms, not 4.
        "CREATE INDEX job_run_last ON job_run (job, host, is_scheduled, is_done)",
        "UPDATE installation SET schema_version = 19, oldest_program = 1",
    ):
        db.execute_sql(statement)
