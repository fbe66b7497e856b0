"""Let the data of a register say whose it is (D153)."""

from peewee import CharField, FixedCharField, IntegerField, Model


def up(migrator, db):
    class Identity(Model):
        installation = FixedCharField(32)
        register = CharField(30)
        generation = IntegerField()
        stamp = FixedCharField(16)

        class Meta:
            database = db
            schema = migrator.schema
            table_name = "identity"
            primary_key = False

    db.create_tables([Identity], safe=False)
