"""Create the main database: accounts, plans, keys, domains, register index and history (D25)."""

import secrets

from peewee import (
    AutoField,
    BigIntegerField,
    CharField,
    Check,
    FixedCharField,
    ForeignKeyField,
    IntegerField,
    Model,
    PostgresqlDatabase,
    TextField,
)


def up(migrator, db):
    # Names and keys sort by code point on both engines.
    by_code_point = {"collation": '"C"'} if isinstance(db, PostgresqlDatabase) else {}

    class Table(Model):
        class Meta:
            database = db
            schema = migrator.schema
            legacy_table_names = False

    class Installation(Table):
        id = IntegerField(primary_key=True, constraints=[Check("id = 1")])
        database_id = FixedCharField(32)
        schema_version = IntegerField()
        oldest_program = IntegerField()

    class Plan(Table):
        name = CharField(30, primary_key=True, **by_code_point)
        requests = IntegerField(constraints=[Check("requests >= 1")])
        window_seconds = IntegerField(constraints=[Check("window_seconds >= 1")])
        bulk_max = IntegerField(constraints=[Check("bulk_max BETWEEN 1 AND 10000")])
        domains_max = IntegerField(constraints=[Check("domains_max >= 0")])

    class Account(Table):
        # The number is the account's slot in the limiter's file (D11).
        id = AutoField()
        tag = FixedCharField(6, unique=True, **by_code_point)
        name = CharField(100, unique=True, **by_code_point)
        plan = ForeignKeyField(Plan, on_delete="RESTRICT")
        created_at = BigIntegerField()

    class ApiKey(Table):
        id = FixedCharField(8, primary_key=True, **by_code_point)
        account = ForeignKeyField(Account, on_delete="CASCADE")
        secret_hash = FixedCharField(64)
        label = CharField(100)
        created_at = BigIntegerField()
        expires_at = BigIntegerField(null=True)
        revoked_at = BigIntegerField(null=True)
        replaced_by = FixedCharField(8, null=True)

    class Domain(Table):
        id = FixedCharField(24, primary_key=True, **by_code_point)
        account = ForeignKeyField(Account, on_delete="CASCADE", index=False)
        name = CharField(253, **by_code_point)
        status = CharField(
            10, constraints=[Check("status IN ('active', 'suspended')")], default="active"
        )
        created_at = BigIntegerField()

        class Meta:
            indexes = ((("account", "name"), True),)

    class Register(Table):
        name = CharField(30, primary_key=True, **by_code_point)
        generation = IntegerField()
        kinds = CharField(3)
        vehicles = BigIntegerField(default=0)
        policies = BigIntegerField(default=0)
        fines = BigIntegerField(default=0)
        loaded_at = BigIntegerField(null=True)

    class RegisterLoad(Table):
        id = AutoField()
        register = CharField(30, index=True, **by_code_point)
        kind = CharField(10)
        mode = CharField(10)
        format = CharField(30)
        files = TextField()
        status = CharField(10, constraints=[Check("status IN ('running', 'done', 'failed')")])
        reason = TextField(null=True)
        rows = BigIntegerField(default=0)
        loaded = BigIntegerField(default=0)
        changed = BigIntegerField(default=0)
        rejected = BigIntegerField(default=0)
        skipped = BigIntegerField(default=0)
        loaded_by = CharField(100)
        started_at = BigIntegerField()
        finished_at = BigIntegerField(null=True)

    db.create_tables(
        [Installation, Plan, Account, ApiKey, Domain, Register, RegisterLoad], safe=False
    )
    standard_plans = [  # D12
        ("free", 60, 60, 100, 100),
        ("standard", 600, 60, 1_000, 1_000),
        ("enterprise", 6_000, 60, 10_000, 10_000),
    ]
    Plan.insert_many(standard_plans, fields=list(Plan._meta.sorted_fields)).execute()
    Installation.insert(
        id=1, database_id=secrets.token_hex(16), schema_version=1, oldest_program=1
    ).execute()
