"""Add how many plates each person looks up on a day, for the limits of the console."""

from peewee import (
    BigIntegerField,
    CharField,
    CompositeKey,
    Model,
    PostgresqlDatabase,
    TextField,
)


def up(migrator, db):
    # Names sort by code point on both engines.
    by_code_point = {"collation": '"C"'} if isinstance(db, PostgresqlDatabase) else {}

    class Table(Model):
        class Meta:
            database = db
            schema = migrator.schema
            legacy_table_names = False

    class PersonDay(Table):
        day = CharField(10, **by_code_point)
        person = TextField(**by_code_point)
        role = CharField(10)
        plates = BigIntegerField()
        refused_at = BigIntegerField(null=True)

        class Meta:
            primary_key = CompositeKey("day", "person")

    db.create_tables([PersonDay], safe=False)
    db.execute_sql("UPDATE installation SET schema_version = 20, oldest_program = 1")
