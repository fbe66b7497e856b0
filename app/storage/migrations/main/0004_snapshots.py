"""Allow several kept generations per register, and add dropped registers (D72)."""

from peewee import (
    BigIntegerField,
    CharField,
    CompositeKey,
    IntegerField,
    Model,
    PostgresqlDatabase,
)


def up(migrator, db):
    postgres = isinstance(db, PostgresqlDatabase)
    # Names sort by code point on both engines.
    by_code_point = {"collation": '"C"'} if postgres else {}

    class Table(Model):
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

    class RegisterKept(Table):
        name = CharField(30, **by_code_point)

        class Meta:
            table_name = "register_kept"
            primary_key = CompositeKey("name", "generation")

    class RegisterDropped(Table):
        class Meta:
            table_name = "register_dropped"

    db.execute_sql("ALTER TABLE register_kept RENAME TO register_kept_former")
    db.create_tables([RegisterKept, RegisterDropped], safe=False)
    columns = "name, generation, kinds, vehicles, policies, fines, loaded_at"
    copied = f"SELECT {columns} FROM register_kept_former"  # noqa: S608 - our own names
    db.execute_sql(f"INSERT INTO register_kept ({columns}) {copied}")
    db.execute_sql("DROP TABLE register_kept_former")
    if postgres:
        _number_kept_schemas(db)
    db.execute_sql("UPDATE installation SET schema_version = 4, oldest_program = 1")


def _number_kept_schemas(db):
    """Add its number to the name of each kept schema, so that a register can have several."""
    kept = db.execute_sql(
        "SELECT nspname, name, generation FROM register_kept "
        "JOIN pg_namespace ON nspname = 'kept_register_' || name"
    ).fetchall()
    for schema, name, generation in kept:
        db.execute_sql(f'ALTER SCHEMA "{schema}" RENAME TO "kept_register_{name}-{generation}"')
