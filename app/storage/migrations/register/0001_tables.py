"""Create the tables of a register, with rows stored in the order of their keys (D25)."""

from peewee import (
    BigIntegerField,
    BooleanField,
    CharField,
    CompositeKey,
    DateField,
    Model,
    PostgresqlDatabase,
    SmallIntegerField,
)


def up(migrator, db):
    postgres = isinstance(db, PostgresqlDatabase)
    # Registrations sort by code point on both engines.
    by_code_point = {"collation": '"C"'} if postgres else {}
    # PERF: SQLite keeps rows in the tree of the key. A look-up searches one tree, not two.
    clustered = not postgres

    class Table(Model):
        class Meta:
            database = db
            schema = migrator.schema

    class Vehicle(Table):
        registration = CharField(12, primary_key=True, **by_code_point)
        make = CharField(100, null=True)
        model = CharField(100, null=True)
        year = SmallIntegerField(null=True)
        color = CharField(100, null=True)
        insured = BooleanField(null=True)
        mot_expiry = DateField(null=True)
        mot_exempt = BooleanField(null=True)
        first_registered = DateField(null=True)
        tax_status = CharField(10, null=True)
        tax_due = DateField(null=True)
        updated = BigIntegerField()

        class Meta:
            without_rowid = clustered

    class Policy(Table):
        registration = CharField(12, **by_code_point)
        insurer = CharField(100, **by_code_point)
        number = CharField(100, **by_code_point)
        valid_from = DateField()
        valid_to = DateField()
        type = CharField(100, null=True)
        cancelled_on = DateField(null=True)
        updated = BigIntegerField()

        class Meta:
            without_rowid = clustered
            primary_key = CompositeKey("registration", "insurer", "number", "valid_from")

    class Fine(Table):
        registration = CharField(12, **by_code_point)
        reference = CharField(100, **by_code_point)
        issued_on = DateField(null=True)
        amount_cents = BigIntegerField()
        currency = CharField(3, null=True)
        settled = BooleanField()
        updated = BigIntegerField()

        class Meta:
            without_rowid = clustered
            primary_key = CompositeKey("registration", "reference")

    class AppliedLoad(Table):
        # The loads whose rows are in this register, written in the transaction of each load. If a
        # load is killed between its two commits, the next one finds here what it did (D28).
        load_id = BigIntegerField(primary_key=True)
        loaded = BigIntegerField()
        changed = BigIntegerField()
        held = BigIntegerField()

        class Meta:
            table_name = "applied_load"

    db.create_tables([Vehicle, Policy, Fine, AppliedLoad], safe=False)
