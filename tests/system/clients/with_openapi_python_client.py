"""Call every operation with a client that openapi-python-client generated.

Print what arrived as one JSON object. Every value is read from a typed object.
"""

import json
import os
from datetime import date
from typing import TypeVar

from verifyd_client import AuthenticatedClient
from verifyd_client.api.account import get_account, get_usage
from verifyd_client.api.domains import (
    create_domain,
    delete_domain,
    get_domain,
    list_domains,
)
from verifyd_client.api.operations import (
    get_documentation_page,
    get_errors_page,
    get_health,
    get_metrics,
    get_open_api_document,
    get_readiness,
    get_start_page,
    get_try_page,
)
from verifyd_client.api.vehicles import (
    check_compliance,
    check_vehicle_insurance,
    check_vehicles,
    check_vehicles_compliance,
)
from verifyd_client.api.watches import (
    change_watches,
    delete_watch,
    get_watch,
    list_events,
    list_watches,
    put_watch,
)
from verifyd_client.models import (
    Account,
    AddedWatch,
    BulkRequest,
    BulkResponse,
    BulkWatchRequest,
    BulkWatchResponse,
    ComplianceBulkRequest,
    ComplianceBulkResponse,
    ComplianceChecks,
    ComplianceReasons,
    ComplianceRecord,
    Domain,
    DomainList,
    DomainRequest,
    DomainStatus,
    EventList,
    Health,
    InsuranceRecord,
    OpenApiDocument,
    Policy,
    Problem,
    Readiness,
    StartLinks,
    UsageReport,
    Vehicle,
    Watch,
    WatchChecks,
    WatchList,
    WatchRequest,
)
from verifyd_client.types import Response

T = TypeVar("T")

URL = os.environ["SERVICE_URL"]
DAY = date(2026, 12, 31)
UNUSED_DAY = date(2020, 12, 31)
UNTIL = date(2099, 12, 31)
PLATES = ["AB12CDE", "lp63 sed", "ZZ99ZZZ", "?"]


def key_of(name: str) -> AuthenticatedClient:
    url, key = URL, os.environ[name]
    return AuthenticatedClient(base_url=url, token=key)


def typed(value: object, kind: type[T]) -> T:
    assert isinstance(value, kind), value
    return value


def refused(response: Response[T]) -> list[object]:
    problem = typed(response.parsed, Problem)
    assert problem.status == response.status_code
    return [problem.status, problem.code]


def call_domains(client: AuthenticatedClient, name: str) -> dict[str, object]:
    new = DomainRequest(name=name)
    created = typed(create_domain.sync(client=client, body=new), Domain)
    page = typed(list_domains.sync(client=client, limit=1, status=DomainStatus.ACTIVE), DomainList)
    rest = typed(list_domains.sync(client=client, after=typed(page.next_, str)), DomainList)
    found = typed(get_domain.sync(name, client=client), Domain)
    assert found.created_at == created.created_at
    return {
        "created": [created.name, created.status, created.created_at.year],
        "domains": [domain.name for domain in [*page.domains, *rest.domains]],
        "domain": found.id == created.id,
        "duplicate": refused(create_domain.sync_detailed(client=client, body=new)),
        "deleted": delete_domain.sync_detailed(name, client=client).status_code,
        "gone": refused(delete_domain.sync_detailed(name, client=client)),
        "missing": refused(get_domain.sync_detailed("missing.example.com", client=client)),
    }


def call_vehicles(client: AuthenticatedClient) -> dict[str, object]:
    insured = typed(check_vehicle_insurance.sync("AB12CDE", client=client), InsuranceRecord)
    policy = typed(insured.policy, Policy)
    off_road = check_compliance.sync("SO15RNN", client=client, explain=True)
    explained = typed(off_road, ComplianceRecord)
    bulk = typed(check_vehicles.sync(client=client, body=BulkRequest(PLATES)), BulkResponse)
    later = check_vehicle_insurance.sync("AB12CDE", client=client, as_of=DAY)
    on_day = typed(later, InsuranceRecord)
    unknown = check_vehicle_insurance.sync_detailed("ZZ99ZZZ", client=client)
    malformed = check_compliance.sync_detailed("ABCDEFGHIJKLMN", client=client, as_of=DAY)
    return {
        "insured": [insured.insured, policy.number, policy.valid_from.isoformat()],
        "day": typed(on_day.as_of, date).isoformat(),
        "unknown": refused(unknown),
        "malformed": refused(malformed),
        "compliance": [
            explained.compliant,
            explained.checks.road_tax_paid,
            typed(explained.reasons, ComplianceReasons).road_tax_paid,
        ],
        "bulk": [
            [item.registration, item.insured, item.policy.number]
            if isinstance(item.policy, Policy)
            else [item.registration, item.insured, typed(item.code, str)]
            for item in bulk.results
        ],
        "counts": [bulk.processed, bulk.successful, bulk.failed],
    }


def call_new_ones(client: AuthenticatedClient) -> dict[str, object]:
    bulk = BulkRequest(PLATES[:1], as_of=DAY, details=True)
    (detailed,) = typed(check_vehicles.sync(client=client, body=bulk), BulkResponse).results
    many = ComplianceBulkRequest(PLATES, explain=True)
    checked = check_vehicles_compliance.sync(client=client, body=many)
    account = typed(get_account.sync(client=client), Account)
    usage = typed(get_usage.sync(client=client, from_=UNUSED_DAY, to=UNUSED_DAY), UsageReport)
    return {
        "detailed": typed(detailed.vehicle, Vehicle).make,
        "bulk_compliance": [
            [item.registration, item.compliant, item.checks.mot_valid]
            if isinstance(item.checks, ComplianceChecks)
            else [item.registration, item.compliant, typed(item.code, str)]
            for item in typed(checked, ComplianceBulkResponse).results
        ],
        "account": [account.name, account.plan.bulk_max, account.key.label, account.key.expires_at],
        "usage": [usage.first_day.isoformat(), [each.operation for each in usage.usage]],
    }


def call_watches(client: AuthenticatedClient) -> dict[str, object]:
    wanted = WatchRequest(lead_days=[14, 28], reference="FLEET", until=UNTIL)
    watch = typed(put_watch.sync("AB12CDE", client=client, body=wanted), Watch)
    edit = BulkWatchRequest(add=[AddedWatch("so15 rnn"), AddedWatch("?")], remove=["LP63SED"])
    changed = typed(change_watches.sync(client=client, body=edit), BulkWatchResponse)
    page = typed(list_watches.sync(client=client, limit=1), WatchList)
    rest = typed(list_watches.sync(client=client, after=typed(page.next_, str)), WatchList)
    events = typed(list_events.sync(client=client, limit=1), EventList)
    return {
        "watch": [
            watch.registration,
            watch.lead_days,
            typed(watch.until, date).isoformat(),
            watch.known,
            typed(watch.checks, WatchChecks).mot.valid,
        ],
        "reference": typed(get_watch.sync("ab12 cde", client=client), Watch).reference,
        "changed": [
            [item.registration, item.code if isinstance(item.code, str) else item.status]
            for item in changed.results
        ],
        "watches": [each.registration for each in [*page.watches, *rest.watches]],
        "events": [events.has_more, events.next_ is not None],
        "old_events": refused(list_events.sync_detailed(client=client, after="00000000-1")),
        "unwatched": [
            delete_watch.sync_detailed(plate, client=client).status_code
            for plate in ("AB12CDE", "SO15RNN")
        ],
        "no_watch": refused(get_watch.sync_detailed("AB12CDE", client=client)),
    }


def call_operations(client: AuthenticatedClient) -> dict[str, object]:
    document = typed(get_open_api_document.sync(client=client), OpenApiDocument)
    return {
        "health": typed(get_health.sync(client=client), Health).status,
        "ready": typed(get_readiness.sync(client=client), Readiness).status,
        "document": document.openapi,
        "metrics": "verifyd_" in typed(get_metrics.sync(client=client), str),
        "start": typed(get_start_page.sync(client=client), StartLinks).name,
        "pages": [
            "<!DOCTYPE html>" in typed(page.sync(client=client), str)
            for page in (get_documentation_page, get_errors_page, get_try_page)
        ],
    }


def call_with_other_keys() -> dict[str, object]:
    stranger = AuthenticatedClient(base_url=URL, token="nobody")
    list_domains.sync(client=key_of("HURRIED_KEY"))
    limited = list_domains.sync_detailed(client=key_of("HURRIED_KEY"))
    return {
        "stranger": refused(list_domains.sync_detailed(client=stranger)),
        "limited": refused(limited),
        "waits": int(limited.headers["Retry-After"]) > 0,
    }


if __name__ == "__main__":
    client = key_of("KEY")
    print(
        json.dumps(
            call_domains(client, os.environ["DOMAIN"])
            | call_vehicles(client)
            | call_new_ones(client)
            | call_watches(client)
            | call_operations(client)
            | call_with_other_keys()
        )
    )
