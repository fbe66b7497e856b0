"""Add the record of operators' actions, and whose loads are in the history (D130)."""

from peewee import AutoField, BigIntegerField, CharField, Model, TextField


def up(migrator, db):
    class Action(Model):
        id = AutoField()
        at = BigIntegerField()
        actor = CharField(100)
        sudo_user = CharField(100, null=True)
        via = CharField(10)
        action = CharField(30)
        subject_kind = CharField(10)
        subject = CharField(255)
        account = CharField(100, null=True)
        before = TextField(null=True)
        after = TextField(null=True)

        class Meta:
            database = db
            schema = migrator.schema
            table_name = "action"

    db.create_tables([Action], safe=False)
    db.execute_sql("ALTER TABLE register_load ADD COLUMN actor TEXT")
    db.execute_sql("UPDATE installation SET schema_version = 7, oldest_program = 1")
