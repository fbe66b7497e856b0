"""`verifyd keys` (D3)."""

import argparse
from datetime import date
from functools import partial
from typing import TypedDict

from app import clock
from app.accounts import administration
from app.accounts.administration import status_of_key
from app.accounts.authentication import KEY_ID_CHARACTERS, Token, parse_token
from app.accounts.models import ApiKey
from app.cli.output import counted, print_item, print_items
from app.cli.parser import Commands, add_command, add_group, day_argument, whole_number
from app.storage import reserve
from app.storage.session import opened_database

_COLUMNS = ("id", "account", "label", "status", "created_at", "expires_at", "revoked_at")


class KeyItem(TypedDict):
    """A key as commands print it, without its secret."""

    id: str
    account: str
    label: str
    status: str
    """`active`, `revoked`, `expired`, or `suspended` with its account."""
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    replaced_by: str | None
    """The id of the key that replaces it after a rotation."""


class NewKeyItem(KeyItem):
    """What `keys create` prints."""

    key: str
    """SEC: the whole key, shown only here."""


class RotatedKeyItem(NewKeyItem):
    """What `keys rotate` prints."""

    replaces: str
    replaced_until: str | None
    """When the old key ends."""


def add_commands(commands: Commands) -> None:
    """Add the command group."""
    keys = add_group(commands, "keys", "create, list, revoke and rotate API keys")
    _add_create(keys)
    _add_list_and_revoke(keys)
    _add_rotate(keys)


def _add_create(keys: Commands) -> None:
    create = add_command(
        keys,
        "create",
        _create,
        "create a key and show it once",
        examples=["keys create acme", "keys create acme --label billing --expires 2030-12-31"],
    )
    create.add_argument("account", metavar="ACCOUNT", help="name of the account")
    create.add_argument(
        "--label", metavar="TEXT", default="", help="text that tells keys apart in lists [none]"
    )
    create.add_argument(
        "--expires",
        type=_last_day,
        metavar="DATE",
        help="last day on which the key works, YYYY-MM-DD in UTC [none]",
    )


def _add_list_and_revoke(keys: Commands) -> None:
    listed = add_command(
        keys,
        "list",
        _list,
        "list keys, without their secrets",
        examples=["keys list", "keys list acme"],
    )
    listed.add_argument(
        "account", metavar="ACCOUNT", nargs="?", help="name of an account [all accounts]"
    )
    revoke = add_command(
        keys,
        "revoke",
        _revoke,
        "refuse a key from the next request on",
        examples=["keys revoke 3NnTYh3d"],
    )
    revoke.add_argument(
        "id", type=_key_id, metavar="ID", help="id of the key in the list, or the whole key"
    )


def _add_rotate(keys: Commands) -> None:
    rotate = add_command(
        keys,
        "rotate",
        _rotate,
        "create a key that replaces another",
        examples=["keys rotate 3NnTYh3d", "keys rotate 3NnTYh3d --grace 3600"],
    )
    rotate.add_argument(
        "id", type=_key_id, metavar="ID", help="id of the old key in the list, or the whole key"
    )
    rotate.add_argument(
        "--grace",
        type=whole_number,
        metavar="SECONDS",
        default=administration.ROTATION_GRACE_SECONDS,
        help="how long the old key still works [%(default)s, one day]",
    )


def _create(args: argparse.Namespace) -> None:
    expires_at = administration.end_of_day(args.expires) if args.expires else None
    with opened_database() as engine:
        key, token = administration.create_key(engine, args.account, args.label, expires_at)
        print_item(
            args, _new_item(key, token), f"key {key.id} created; save it, it is not shown again"
        )


def _list(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        keys = [key_item(key) for key in administration.list_keys(engine, args.account)]
    print_items(args, keys, _COLUMNS, counted(len(keys), "key"))


def _revoke(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        revoke = partial(administration.revoke_key, engine, args.id)
        revoked = key_item(reserve.with_reserve(engine, revoke))
    print_item(args, revoked, f"key {args.id} is revoked since {revoked['revoked_at']}")


def _rotate(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        key, token = administration.rotate_key(engine, args.id, args.grace)
        old = administration.require_key(engine, args.id)
    item: RotatedKeyItem = {
        **_new_item(key, token),
        "replaces": old.id,
        "replaced_until": _time(old.expires_at),
    }
    print_item(
        args,
        item,
        f"key {key.id} replaces {old.id}, which works until {item['replaced_until']}; "
        "save the new key, it is not shown again",
    )


def key_item(key: ApiKey) -> KeyItem:
    """Return a key as commands print it; it was read with its account."""
    return {
        "id": key.id,
        "account": key.account.name,
        "label": key.label,
        "status": status_of_key(key),
        "created_at": clock.iso_utc(key.created_at),
        "expires_at": _time(key.expires_at),
        "revoked_at": _time(key.revoked_at),
        "replaced_by": key.replaced_by,
    }


def _new_item(key: ApiKey, token: Token) -> NewKeyItem:
    item = key_item(key)
    # The key comes second, where nobody overlooks it.
    return {"id": item["id"], "key": token.text, **item}


def _time(epoch_seconds: int | None) -> str | None:
    return None if epoch_seconds is None else clock.iso_utc(epoch_seconds)


def _last_day(text: str) -> date:
    """Return the day on which a key expires. The last one of the calendar has no end."""
    day = day_argument(text)
    if day == date.max:
        raise argparse.ArgumentTypeError(f"must be before {date.max}")
    return day


def _key_id(text: str) -> str:
    """Return the id of a key, also if the whole key is given."""
    text = text.strip()
    token = parse_token(text)
    if token is not None:
        return token.key_id
    if len(text) != KEY_ID_CHARACTERS or not (text.isascii() and text.isalnum()):
        # SEC: the text is not repeated; it can be a part of a key.
        raise argparse.ArgumentTypeError(
            f"must be an id of {KEY_ID_CHARACTERS} letters and digits, or a whole key; "
            'see "verifyd keys list"'
        )
    return text
