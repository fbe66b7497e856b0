"""Add the generations that are kept for rollbacks, and the checksums of loads (D28)."""

from peewee import BigIntegerField, CharField, IntegerField, Model, PostgresqlDatabase


def up(migrator, db):
    # Names sort by code point on both engines.
    by_code_point = {"collation": '"C"'} if isinstance(db, PostgresqlDatabase) else {}

    class RegisterKept(Model):
        name = CharField(30, primary_key=True, **by_code_point)
        generation = IntegerField()
        kinds = CharField(3)
        vehicles = BigIntegerField(default=0)
        policies = BigIntegerField(default=0)
        fines = BigIntegerField(default=0)
        loaded_at = BigIntegerField(null=True)

        class Meta:
            database = db
            schema = migrator.schema
            table_name = "register_kept"

    db.create_tables([RegisterKept], safe=False)
    db.execute_sql('ALTER TABLE "register_load" ADD COLUMN "checksum" TEXT')
    db.execute_sql("UPDATE installation SET schema_version = 2, oldest_program = 1")
