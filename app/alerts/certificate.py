"""When the TLS certificate expires, and for which host it is."""

import os
import re
import ssl
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from app import clock
from app.alerts.message import Condition
from app.errors import OperatorError

UNREADABLE = "certificate:unreadable"
"""The key of the condition that the certificate, and so its expiry, cannot be read."""
LATE_SECONDS = 14 * 86_400
_END = "-----END CERTIFICATE-----"
_BYTES_MAX = 1 << 20
SHIPPED = Path("/etc/verifyd/tls/fullchain.pem")
"""The certificate of an installation. It does not exist if TLS ends elsewhere."""
_HOOK = Path("/opt/verifyd/current/certificate.sh")


class Validity(NamedTuple):
    """When a certificate expires, and from when on its renewal is late, in Unix seconds."""

    late_at: int
    expires_at: int


def validity_of(path: Path) -> Validity | None:
    """Return the validity of the first certificate in a PEM file.

    Its renewal is late when 14 days are left, or a sixth of its lifetime if that is less. With 14
    days alone, a certificate of 6 days would always be late, and one of 45 days in a third of its
    time. ACME clients renew with a third left, so they have tried for some days by then.

    Returns None if the file does not exist: TLS may end elsewhere, and nginx itself reports a
    missing file. Raises OperatorError if the file cannot be read or is not a certificate.
    """
    try:
        found = path.stat()
        return _read(path, found.st_mtime_ns, found.st_ino)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise OperatorError(f"{path} cannot be read: {error.strerror}") from error


def host_of(path: Path | None) -> str | None:
    """Return the first name in a certificate that people can use: no wildcard and no address.

    Returns None if there is none, or if the file cannot be read.
    """
    if path is None:
        return None
    try:
        return next(filter(_is_host, _names(_decoded(path))), None)
    except (OSError, OperatorError):
        return None


def _is_host(name: str) -> bool:
    """Tell whether a name can stand in a link for other hosts than this one."""
    return re.fullmatch(r"[A-Za-z0-9.-]*[A-Za-z-][A-Za-z0-9.-]*", name) is not None and (
        name.lower() != "localhost"
    )


def _names(certificate: Any) -> Iterator[str]:
    """Yield the DNS names of a decoded certificate (RFC 5280, 4.2.1.6). Raises OperatorError."""
    from pyasn1.codec.der.decoder import decode  # noqa: PLC0415
    from pyasn1.error import PyAsn1Error  # noqa: PLC0415
    from pyasn1.type.char import IA5String  # noqa: PLC0415
    from pyasn1.type.tag import Tag, tagClassContext, tagFormatSimple  # noqa: PLC0415
    from pyasn1.type.univ import Any as AnyValue  # noqa: PLC0415
    from pyasn1.type.univ import SequenceOf  # noqa: PLC0415

    is_name = Tag(tagClassContext, tagFormatSimple, 2)
    try:
        extensions = certificate[len(certificate) - 1]
        for each in (extensions[number] for number in range(len(extensions))):
            if str(each[0]) != "2.5.29.17":
                continue
            names, _ = decode(bytes(each[len(each) - 1]), SequenceOf(componentType=AnyValue()))
            for name in map(bytes, names):
                if name.startswith(b"\x82"):
                    yield str(decode(name, IA5String().subtype(implicitTag=is_name))[0])
    except (ValueError, TypeError, IndexError, PyAsn1Error) as error:
        raise OperatorError("its names cannot be read") from error


# PERF: importing the decoder takes 15 ms, reading a certificate 1 ms; /readyz is asked often.
@lru_cache(maxsize=4)
def _read(path: Path, _changed_at_ns: int, _inode: int) -> Validity:
    from pyasn1.error import PyAsn1Error  # noqa: PLC0415
    from pyasn1.type.useful import GeneralizedTime, UTCTime  # noqa: PLC0415

    certificate = _decoded(path)
    with suppress(ValueError, TypeError, IndexError, PyAsn1Error):
        # The validity is the first member that consists of two times (RFC 5280, 4.1).
        for part in (certificate[number] for number in range(len(certificate))):
            if hasattr(part, "__len__") and len(part) == 2:
                # NOTE: if both have different types, iterating would yield their names.
                times = part[0], part[1]
                if all(isinstance(each, UTCTime | GeneralizedTime) for each in times):
                    begins_at, end = (int(each.asDateTime.timestamp()) for each in times)
                    return Validity(end - min(LATE_SECONDS, max(0, end - begins_at) // 6), end)
    raise _unreadable(path)


def _decoded(path: Path) -> Any:
    """Return the signed part of the first certificate in a PEM file. Raises OperatorError."""
    # The standard library has no public function for this; `cryptography` is fifty times as large.
    from pyasn1.codec.der.decoder import decode  # noqa: PLC0415
    from pyasn1.error import PyAsn1Error  # noqa: PLC0415

    with path.open("rb") as file:
        text = file.read(_BYTES_MAX).decode("ascii", errors="replace")
    try:
        first = text[: text.index(_END)] + _END
        first = first[first.index("-----BEGIN CERTIFICATE-----") :]
        return decode(ssl.PEM_cert_to_DER_cert(first))[0][0]
    except (ValueError, TypeError, IndexError, PyAsn1Error) as error:
        raise _unreadable(path) from error


def _unreadable(path: Path) -> OperatorError:
    return OperatorError(f"{path} is not a certificate in PEM")


def certificate_conditions(path: Path | None) -> Iterator[Condition]:
    """Yield a condition if the renewal of the certificate is late, or it cannot be read.

    The file at the shipped path may be missing. Any other missing file was probably mistyped.
    """
    if path is None:
        return
    now = clock.now()
    try:
        validity = validity_of(path)
        if validity is None and path != SHIPPED:
            raise OperatorError(f"{path} does not exist")
    except OperatorError as error:
        yield Condition(
            key=UNREADABLE,
            title="the TLS certificate cannot be read",
            warning=f"VERIFYD_CERTIFICATE: {error}, so nobody notices when it expires.",
            since=now,
            remedy=_remedy(path, error),
        )
        return
    if validity is None or now < validity.late_at:
        return
    expiry = validity.expires_at
    is_over = expiry <= now
    distance = clock.duration_text(abs(expiry - now))
    when = f"expired {distance} ago" if is_over else f"expires in {distance}"
    yield Condition(
        key="certificate:expiry",
        title="the TLS certificate has expired" if is_over else "the TLS certificate expires soon",
        warning=f"The certificate {path} {when}, at {clock.iso_utc(expiry)}.",
        since=expiry if is_over else validity.late_at,
        remedy=_renewal(path),
        occurrence=f"{expiry}{' expired' if is_over else ''}",
    )


def _remedy(path: Path, error: OperatorError) -> str:
    """Return how the service can read a certificate that others still can read, too."""
    if not isinstance(error.__cause__, PermissionError):
        return (
            "set VERIFYD_CERTIFICATE to a certificate in PEM; this shows its dates: "
            f"sudo openssl x509 -in {path} -noout -dates"
        )
    if path.parent == SHIPPED.parent and not os.path.islink(path):
        return (
            f"sudo chgrp verifyd {path.parent} {path} && sudo chmod 750 {path.parent} && "
            f"sudo chmod 640 {path}"
        )
    # NOTE: never chmod: others may need the file and the directories as they are.
    return (
        f"the user verifyd must be able to read {path}: sudo setfacl -m u:verifyd:r {path}, "
        "and u:verifyd:x for each directory above it that the user cannot enter"
    )


def _renewal(path: Path) -> str:
    """Return how nginx gets a renewed certificate."""
    if path == SHIPPED and _HOOK.exists():
        return (
            f"renew it, then run: sudo {_HOOK} DIRECTORY, where DIRECTORY has the new "
            "fullchain.pem and privkey.pem, such as /etc/letsencrypt/live/HOST"
        )
    return f"renew {path}, then run: sudo nginx -t && sudo systemctl reload nginx"
