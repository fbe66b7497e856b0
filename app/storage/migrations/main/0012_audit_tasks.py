"""Add the searches, exports, reports and verifications that the console asks for (D138)."""

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

    class AuditTask(Model):
        id = AutoField()
        kind = CharField(10, **by_code_point)
        seen = CharField(16)
        asked_by = CharField(100, **by_code_point)
        asked_at = BigIntegerField()
        host = CharField(255, **by_code_point)
        status = CharField(12)
        reason = TextField(null=True)
        finished_at = BigIntegerField(null=True)

        class Meta:
            database = db
            schema = migrator.schema
            table_name = "audit_task"

    db.create_tables([AuditTask], safe=False)
    for statement in (
        # However often somebody clicks: each person has one task of a kind at a time, on each host.
        "CREATE UNIQUE INDEX audit_task_running ON audit_task (host, kind, asked_by) "
        "WHERE status = 'running'",
        "UPDATE installation SET schema_version = 12, oldest_program = 1",
    ):
        db.execute_sql(statement)
