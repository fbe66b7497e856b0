"""Add the tasks of the console, and how far a running load has got (D135)."""

from peewee import (
    AutoField,
    BigIntegerField,
    CharField,
    Model,
    PostgresqlDatabase,
    TextField,
)


def up(migrator, db):
    by_code_point = {"collation": '"C"'} if isinstance(db, PostgresqlDatabase) else {}

    class RegisterTask(Model):
        id = AutoField()
        register = CharField(30, **by_code_point)
        action = CharField(10)
        to_load = BigIntegerField(null=True)
        seen = CharField(16)
        asked_by = CharField(100)
        asked_at = BigIntegerField()
        host = CharField(255)
        status = CharField(12)
        load_id = BigIntegerField(null=True)
        reason = TextField(null=True)
        finished_at = BigIntegerField(null=True)

        class Meta:
            database = db
            schema = migrator.schema
            table_name = "register_task"

    db.create_tables([RegisterTask], safe=False)
    for statement in (
        # However often somebody clicks: a register has one task at a time.
        "CREATE UNIQUE INDEX register_task_running ON register_task (register) "
        "WHERE status = 'running'",
        "ALTER TABLE register_load ADD COLUMN progress TEXT",
        "UPDATE installation SET schema_version = 10, oldest_program = 1",
    ):
        db.execute_sql(statement)
