"""Add the usage of accounts: answers and vehicles per hour and per day (D128)."""

from peewee import (
    BigIntegerField,
    CharField,
    CompositeKey,
    DateField,
    FixedCharField,
    IntegerField,
    Model,
    PostgresqlDatabase,
)


def up(migrator, db):
    # Keys and operations sort by code point on both engines.
    by_code_point = {"collation": '"C"'} if isinstance(db, PostgresqlDatabase) else {}

    class Table(Model):
        class Meta:
            database = db
            schema = migrator.schema
            legacy_table_names = False

    class UsageAccount(Table):
        # No foreign key: usage outlives its account, whose number is never given again (D81).
        id = IntegerField(primary_key=True)
        name = CharField(100, **by_code_point)

    class Usage(Table):
        account_id = IntegerField()
        key_id = FixedCharField(8, **by_code_point)
        operation = CharField(30, **by_code_point)
        status = CharField(3, **by_code_point)
        answers = BigIntegerField()
        vehicles = BigIntegerField()

    class UsageHour(Usage):
        hour = BigIntegerField(index=True)

        class Meta:
            primary_key = CompositeKey("account_id", "hour", "key_id", "operation", "status")

    class UsageDay(Usage):
        day = DateField(index=True)

        class Meta:
            primary_key = CompositeKey("account_id", "day", "key_id", "operation", "status")

    db.create_tables([UsageAccount, UsageHour, UsageDay], safe=False)
    db.execute_sql("UPDATE installation SET schema_version = 8, oldest_program = 1")
