"""Call every operation with a client that openapi-generator generated.

Print what arrived as one JSON object. Every value is read from a typed object. The address of the
service is the one in the document.
"""

import json
import os
from collections.abc import Callable
from datetime import date
from typing import TypeVar

from verifyd_client import (
    AccountApi,
    AddedWatch,
    ApiClient,
    ApiException,
    BulkRequest,
    BulkWatchRequest,
    ComplianceBulkRequest,
    Configuration,
    DomainRequest,
    DomainsApi,
    DomainStatus,
    OperationsApi,
    Policy,
    Problem,
    VehiclesApi,
    WatchesApi,
    WatchRequest,
)

T = TypeVar("T")

DAY = date(2026, 12, 31)
UNUSED_DAY = date(2020, 12, 31)
UNTIL = date(2099, 12, 31)
PLATES = ["AB12CDE", "lp63 sed", "ZZ99ZZZ", "?"]


def key_of(name: str) -> ApiClient:
    key = os.environ[name]
    return ApiClient(Configuration(access_token=key))


def known(value: T | None) -> T:
    assert value is not None
    return value


def refused(call: Callable[[], object]) -> list[object]:
    problem: object = None
    try:
        call()
    except ApiException as error:
        problem = error.data
    assert isinstance(problem, Problem), problem
    return [problem.status, problem.code]


def call_domains(client: ApiClient, name: str) -> dict[str, object]:
    domains = DomainsApi(client)
    new = DomainRequest(name=name)
    created = domains.create_domain(new)
    page = domains.list_domains(limit=1, status=DomainStatus.ACTIVE)
    rest = domains.list_domains(after=known(page.next))
    found = domains.get_domain(name)
    assert found.created_at == created.created_at
    return {
        "created": [created.name, created.status, created.created_at.year],
        "domains": [domain.name for domain in [*page.domains, *rest.domains]],
        "domain": found.id == created.id,
        "duplicate": refused(lambda: domains.create_domain(new)),
        "deleted": domains.delete_domain_with_http_info(name).status_code,
        "gone": refused(lambda: domains.delete_domain(name)),
        "missing": refused(lambda: domains.get_domain("missing.example.com")),
    }


def call_vehicles(client: ApiClient) -> dict[str, object]:
    vehicles = VehiclesApi(client)
    insured = vehicles.check_vehicle_insurance("AB12CDE")
    policy = known(insured.policy)
    explained = vehicles.check_compliance("SO15RNN", explain=True)
    bulk = vehicles.check_vehicles(BulkRequest(registrations=PLATES))
    return {
        "insured": [insured.insured, policy.number, policy.valid_from.isoformat()],
        "day": known(vehicles.check_vehicle_insurance("AB12CDE", as_of=DAY).as_of).isoformat(),
        "unknown": refused(lambda: vehicles.check_vehicle_insurance("ZZ99ZZZ")),
        "malformed": refused(lambda: vehicles.check_compliance("ABCDEFGHIJKLM", as_of=DAY)),
        "compliance": [
            explained.compliant,
            explained.checks.road_tax_paid,
            known(explained.reasons).road_tax_paid,
        ],
        "bulk": [
            [item.registration, item.insured, item.policy.number]
            if isinstance(item.policy, Policy)
            else [item.registration, item.insured, known(item.code)]
            for item in bulk.results
        ],
        "counts": [bulk.processed, bulk.successful, bulk.failed],
    }


def call_new_ones(client: ApiClient) -> dict[str, object]:
    vehicles = VehiclesApi(client)
    bulk = BulkRequest(registrations=PLATES[:1], asOf=DAY, details=True)
    (detailed,) = vehicles.check_vehicles(bulk).results
    many = ComplianceBulkRequest(registrations=PLATES, explain=True)
    account = AccountApi(client).get_account()
    usage = AccountApi(client).get_usage(var_from=UNUSED_DAY, to=UNUSED_DAY)
    return {
        "detailed": known(detailed.vehicle).make,
        "bulk_compliance": [
            [item.registration, item.compliant, item.checks.mot_valid]
            if item.checks is not None
            else [item.registration, item.compliant, known(item.code)]
            for item in vehicles.check_vehicles_compliance(many).results
        ],
        "account": [account.name, account.plan.bulk_max, account.key.label, account.key.expires_at],
        "usage": [usage.first_day.isoformat(), [each.operation for each in usage.usage]],
    }


def call_watches(client: ApiClient) -> dict[str, object]:
    watches = WatchesApi(client)
    wanted = WatchRequest(leadDays=[14, 28], reference="FLEET", until=UNTIL)
    watch = watches.put_watch("AB12CDE", wanted)
    added = [AddedWatch(registration=plate) for plate in ("so15 rnn", "?")]
    changed = watches.change_watches(BulkWatchRequest(add=added, remove=["LP63SED"]))
    page = watches.list_watches(limit=1)
    rest = watches.list_watches(after=known(page.next))
    events = watches.list_events(limit=1)
    return {
        "watch": [
            watch.registration,
            watch.lead_days,
            known(watch.until).isoformat(),
            watch.known,
            known(watch.checks).mot.valid,
        ],
        "reference": watches.get_watch("ab12 cde").reference,
        "changed": [[item.registration, item.code or item.status] for item in changed.results],
        "watches": [each.registration for each in [*page.watches, *rest.watches]],
        "events": [events.has_more, events.next is not None],
        "old_events": refused(lambda: watches.list_events(after="00000000-1")),
        "unwatched": [
            watches.delete_watch_with_http_info(plate).status_code
            for plate in ("AB12CDE", "SO15RNN")
        ],
        "no_watch": refused(lambda: watches.get_watch("AB12CDE")),
    }


def call_operations(client: ApiClient) -> dict[str, object]:
    operations = OperationsApi(client)
    return {
        "health": operations.get_health().status,
        "ready": operations.get_readiness().status,
        "document": operations.get_open_api_document().openapi,
        "metrics": "verifyd_" in operations.get_metrics(),
        "start": operations.get_start_page().name,
        "pages": [
            "<!DOCTYPE html>" in page
            for page in (
                operations.get_documentation_page(),
                operations.get_errors_page(),
                operations.get_try_page(),
            )
        ],
    }


def call_with_other_keys() -> dict[str, object]:
    stranger = DomainsApi(ApiClient(Configuration(access_token="nobody")))
    # By default urllib3 waits for Retry-After itself, and sends the request again.
    at_once = Configuration(access_token=os.environ["HURRIED_KEY"], retries=0)
    hurried = DomainsApi(ApiClient(at_once))
    hurried.list_domains()
    waits = False
    try:
        hurried.list_domains()
    except ApiException as error:
        waits = int(known(error.headers)["Retry-After"]) > 0
    return {
        "stranger": refused(stranger.list_domains),
        "limited": refused(hurried.list_domains),
        "waits": waits,
    }


if __name__ == "__main__":
    client = key_of("KEY")
    print(
        json.dumps(
            call_domains(client, os.environ["DOMAIN"])
            | call_vehicles(client)
            | call_new_ones(client)
            | call_watches(client)
            | call_operations(ApiClient(Configuration()))
            | call_with_other_keys()
        )
    )
