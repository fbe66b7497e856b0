"""Add the hosts whose audit trail is on, or was switched off by an operator (D166)."""

from peewee import BigIntegerField, CharField, FixedCharField, Model, PostgresqlDatabase


def up(migrator, db):
    by_code_point = {"collation": '"C"'} if isinstance(db, PostgresqlDatabase) else {}

    class AuditHost(Model):
        machine = FixedCharField(32, primary_key=True, **by_code_point)
        name = CharField(255, **by_code_point)
        since = BigIntegerField()
        off_at = BigIntegerField(null=True)
        on_at = BigIntegerField(null=True)
        off_by = CharField(100, null=True)
        off_sudo_user = CharField(100, null=True)
        off_reason = CharField(200, null=True)

        class Meta:
            database = db
            schema = migrator.schema
            table_name = "audit_host"

    # A restore may have carried the table over into an older backup.
    db.create_tables([AuditHost], safe=True)
    db.execute_sql("UPDATE installation SET schema_version = 15, oldest_program = 1")
