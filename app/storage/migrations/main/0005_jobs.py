"""Add the runs of nightly jobs, and an index to find the last loads of each register."""

from peewee import AutoField, BigIntegerField, BooleanField, CharField, Model, TextField


def up(migrator, db):
    class JobRun(Model):
        id = AutoField()
        job = CharField(10)
        host = CharField(255)
        is_scheduled = BooleanField()
        is_done = BooleanField()
        faults = TextField()
        size_bytes = BigIntegerField(null=True)
        started_at = BigIntegerField()
        finished_at = BigIntegerField()

        class Meta:
            database = db
            schema = migrator.schema
            table_name = "job_run"

    db.create_tables([JobRun], safe=False)
    db.execute_sql("CREATE INDEX register_load_last ON register_load (register, status, id)")
    db.execute_sql("UPDATE installation SET schema_version = 5, oldest_program = 1")
