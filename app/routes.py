"""The table of endpoints in the order of the documentation, and the paths that clients guess."""

from collections.abc import Collection
from typing import NamedTuple

from app.accounts.restrictions import AREAS, Area
from app.documentation.resources import (
    DocumentationAsset,
    DocumentationMarkdown,
    DocumentationPage,
    ErrorsPage,
    OpenApiDocument,
    OperationPage,
    StartPage,
    TryPage,
)
from app.domains.resources import DomainCollection, DomainItem
from app.monitoring.health import Health, Readiness
from app.monitoring.metrics import MetricsPage
from app.serve.account import OwnAccount, OwnUsage
from app.serve.http.paths import allowed_methods
from app.vehicles.resources import BulkCompliance, BulkInsurance, Compliance, Insurance
from app.watches.resources import BulkWatches, EventList, WatchCollection, WatchItem


class Endpoint(NamedTuple):
    """A path template, the resource that answers it, and the decisions about both."""

    path: str
    resource: type[object]
    decisions: str
    areas: Collection[Area] = ()
    """The keys of these areas may use it, besides all keys that may use every operation (D178)."""


_DOMAINS: tuple[Area, ...] = ("domains",)
_VEHICLES: tuple[Area, ...] = ("vehicles",)

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("/api/domains", DomainCollection, "D4", _DOMAINS),
    Endpoint("/api/domains/{domain}", DomainItem, "D4", _DOMAINS),
    Endpoint("/v1/vehicle/{registration}/insurance", Insurance, "D19 to D21", _VEHICLES),
    Endpoint("/v1/vehicle/bulk-insurance", BulkInsurance, "D26", _VEHICLES),
    Endpoint("/v1/compliance/{registration}", Compliance, "D22", _VEHICLES),
    Endpoint("/v1/compliance/bulk", BulkCompliance, "D92", _VEHICLES),
    Endpoint("/v1/watches", WatchCollection, "D183", _VEHICLES),
    Endpoint("/v1/watches/{registration}", WatchItem, "D183", _VEHICLES),
    Endpoint("/v1/watches/bulk", BulkWatches, "D183", _VEHICLES),
    Endpoint("/v1/events", EventList, "D186", _VEHICLES),
    Endpoint("/v1/account", OwnAccount, "D12", AREAS),
    Endpoint("/v1/usage", OwnUsage, "D128"),
    Endpoint("/healthz", Health, "D2"),
    Endpoint("/readyz", Readiness, "D2, D29"),
    Endpoint("/openapi.json", OpenApiDocument, "D2, D95"),
    Endpoint("/", StartPage, "D2"),
    Endpoint("/docs", DocumentationPage, "D2"),
    Endpoint("/docs/operations/{operation}", OperationPage, "D2"),
    Endpoint("/docs.md", DocumentationMarkdown, "D2"),
    Endpoint("/docs/errors", ErrorsPage, "D2, D90"),
    Endpoint("/docs/try", TryPage, "D2"),
    Endpoint("/docs/{asset}", DocumentationAsset, "D2, D177"),
    Endpoint("/metrics", MetricsPage, "D2, D80"),
)

OPERATIONS = {
    ("/api/domains", "GET"): "list_domains",
    ("/api/domains", "POST"): "create_domain",
    ("/api/domains/{domain}", "GET"): "get_domain",
    ("/api/domains/{domain}", "DELETE"): "delete_domain",
    ("/v1/vehicle/{registration}/insurance", "GET"): "insurance",
    ("/v1/vehicle/bulk-insurance", "POST"): "bulk_insurance",
    ("/v1/compliance/{registration}", "GET"): "compliance",
    ("/v1/compliance/bulk", "GET"): "compliance",
    ("/v1/compliance/bulk", "POST"): "bulk_compliance",
    ("/v1/watches", "GET"): "list_watches",
    ("/v1/watches/{registration}", "GET"): "get_watch",
    ("/v1/watches/{registration}", "PUT"): "put_watch",
    ("/v1/watches/{registration}", "DELETE"): "delete_watch",
    ("/v1/watches/bulk", "GET"): "get_watch",
    ("/v1/watches/bulk", "PUT"): "put_watch",
    ("/v1/watches/bulk", "DELETE"): "delete_watch",
    ("/v1/watches/bulk", "POST"): "bulk_watch",
    ("/v1/events", "GET"): "list_events",
    ("/v1/account", "GET"): "account",
    ("/v1/usage", "GET"): "usage",
    ("/metrics", "GET"): "metrics",
}
"""The names of operations in reports of usage; HEAD counts as GET."""

# Only pages lead to these two, so a mistyped path is never meant for one.
SUGGESTED_PATHS = {
    endpoint.path: allowed_methods(endpoint.resource)
    for endpoint in ENDPOINTS
    if endpoint.resource not in (OperationPage, DocumentationAsset)
} | {
    # NOTE: other methods ask for the plate BULK.
    "/v1/compliance/bulk": ("POST",),
    "/v1/watches/bulk": ("POST",),
}

# Paths that clients guess if they know one operation, and the paths that they mean.
IMAGINED_PATHS = {
    "/v1/vehicle/{registration}/compliance": "/v1/compliance/{registration}",
    "/v1/insurance/{registration}": "/v1/vehicle/{registration}/insurance",
    "/v1/vehicle/insurance/{registration}": "/v1/vehicle/{registration}/insurance",
    "/v1/vehicle": "/v1/vehicle/{registration}/insurance",
    "/v1/vehicle/bulk": "/v1/vehicle/bulk-insurance",
    "/v1/bulk": "/v1/vehicle/bulk-insurance",
    "/v1/bulk-compliance": "/v1/compliance/bulk",
    "/v1/insurance/bulk": "/v1/vehicle/bulk-insurance",
    "/v1/vehicle/bulk-compliance": "/v1/compliance/bulk",
    "/v1/vehicle/bulk-insurance/{rest}": "/v1/vehicle/bulk-insurance",
    "/v1/compliance/bulk-compliance": "/v1/compliance/bulk",
    "/v1/compliance/bulk-insurance": "/v1/vehicle/bulk-insurance",
    "/v1/compliance/bulk/{rest}": "/v1/compliance/bulk",
    "/v1/watch": "/v1/watches",
    "/v1/watch/{registration}": "/v1/watches/{registration}",
    "/v1/vehicle/{registration}/watch": "/v1/watches/{registration}",
    "/v1/bulk-watches": "/v1/watches/bulk",
    "/v1/watches/events": "/v1/events",
    "/swagger.json": "/openapi.json",
    "/openapi.yaml": "/openapi.json",
}
