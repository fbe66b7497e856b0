"""A typed client of verifyd for Python 3.11 or newer. It needs only verifyd.py.

    from verifyd import verdict
    from verifyd_typed import TypedClient

    client = TypedClient()  # with the key in the environment variable KEY
    answer = client.check_vehicle_insurance("AB12CDE", asOf="2026-12-31")
    print(verdict(answer, "insured"))  # None if no register knows it

It is a `Client` with a method for each operation. Arguments and members have the names of the
documentation; `from_` stands for `from`, a keyword. Arguments that are None are not sent. This file
is generated: do not change it, a newer one replaces it.
"""

from collections.abc import Mapping
from typing import Literal, NotRequired, TypedDict
from urllib.parse import quote, urlencode

from verifyd import Client


class Domain(TypedDict):
    """A domain of the account."""

    id: str
    """Identifier of the domain. It never changes."""
    name: str
    """Canonical name: lower case, without a final dot, international labels in ASCII (`xn--`)."""
    status: str
    """A new domain is `active`. Only the operator of the service suspends a domain and activates
    it again. New values may come.
    """
    created_at: str
    """UTC in whole seconds, `YYYY-MM-DDTHH:MM:SSZ`."""


class DomainList(TypedDict):
    """Domains of the account, by name."""

    domains: list[Domain]
    next: NotRequired[str | None]
    """The `after` of the next page; null on the last page. Absent if the request has no `limit`."""


class Policy(TypedDict):
    """An insurance policy. It is in force on its first and on its last day."""

    number: str
    """Policy number."""
    insurer: str | None
    """Name of the insurer; null if unknown."""
    validFrom: str
    """First day of cover."""
    validTo: str
    """Last day of cover, unless the policy is cancelled before."""
    type: str | None
    """Type of the policy in the words of the register; null if unknown."""
    cancelledOn: NotRequired[str | None]
    """First day without cover, if the policy is cancelled; null if no cancellation is known.
    Only with `details` or `policies=all`.
    """


class Vehicle(TypedDict):
    """What the registers know about the vehicle. A member is null if none of them knows it."""

    make: str | None
    model: str | None
    year: int | None
    color: str | None


class InsuranceLoaded(TypedDict):
    """With `details`: when the register that decided was last loaded."""

    insuranceValid: str | None
    """Of several registers the oldest time; null if none decided."""


class InsuranceReasons(TypedDict):
    """Why the vehicle is not insured on the first failing day, or why that is not known. Absent
    if every day passes.
    """

    insuranceValid: str
    """As the reason of the compliance check."""


class InsurancePeriod(TypedDict):
    """Insurance on every day of the period that the request names."""

    firstDay: str
    """A date, `YYYY-MM-DD`."""
    lastDay: str
    """A date, `YYYY-MM-DD`."""
    validThroughout: NotRequired[bool]
    """Whether the vehicle is insured on every day. False and no answer if `unknown` names it.
    Absent with `tooManyPolicies`.
    """
    unknown: NotRequired[list[str]]
    """Names `validThroughout` if no day fails for certain and one is not known. Otherwise
    absent. New values may come.
    """
    firstFailingDay: NotRequired[str]
    """The first day that fails for certain; if there is none, the first that is not known.
    Absent if every day passes.
    """
    reasons: NotRequired[InsuranceReasons]
    tooManyPolicies: NotRequired[bool]
    """True if more than 100 policies of the vehicle end on or after the day: then later days are
    not judged. Otherwise absent.
    """


class InsuranceRecord(TypedDict):
    """Insurance of one vehicle."""

    registration: str
    """Canonical registration number: upper case letters and digits, no spaces or hyphens."""
    insured: bool
    """Whether a policy is in force on the day. If no policy is known, what a register says.
    False and no answer if `unknown` names it.
    """
    unknown: NotRequired[list[str]]
    """Names `insured` if no register knows whether the vehicle is insured on the day. Otherwise
    absent. New values may come.
    """
    policy: Policy | None
    """The policy that is in force; of several, the one that ends last. If none is in force, the
    known policy that ends last, be it past, future or cancelled. A cancelled policy ends on
    the day of its cancellation, but keeps its `validTo`: decide by `insured`; compliance with
    `explain` tells the reason, and `details` the day. Null if no policy is known.
    """
    vehicle: Vehicle
    lastUpdated: str
    """Newest change of the data used, never the time of the request. With a period, that is also
    every policy that ends on or after its first day.
    """
    asOf: NotRequired[str]
    """The day of the request. Absent if the request names none."""
    policies: NotRequired[list[Policy]]
    """With `policies=all`: all policies in force on the day, at most 20: `policy` first, then
    those that end last. If more than 100 are in force, others may end later than those after
    the first. The same insurer, number and first day in two registers are one policy. Several
    policies are a double insurance.
    """
    policiesTruncated: NotRequired[bool]
    """True if more than 20 are in force. Otherwise absent."""
    loaded: NotRequired[InsuranceLoaded]
    period: NotRequired[InsurancePeriod]
    insuredUntil: NotRequired[str | None]
    """With `details`: the last day of the gapless cover that includes the day. Null if no end is
    known. Absent if the vehicle is not insured on the day, or if that is not known. What is
    known without a date counts for later days here.
    """
    tooManyPolicies: NotRequired[bool]
    """True if more than 100 policies of the vehicle end on or after the day: then later days are
    not judged. Otherwise absent.
    """


class BulkItem(TypedDict):
    """Insurance of one of many vehicles: `policy`, or `error` and `code`. With `details` also
    `vehicle`, `lastUpdated`, `loaded` and the dates; with a period also `period`.
    """

    registration: str
    """In canonical form. As it was sent if `code` is `invalid_registration`."""
    insured: bool
    """As in the insurance record. False if the item failed."""
    unknown: NotRequired[list[str]]
    """As in the insurance record. Absent if the item failed."""
    policy: NotRequired[Policy | None]
    """As in the insurance record. Absent if the item failed."""
    error: NotRequired[str]
    """Why the item failed, for people. Absent if it did not."""
    code: NotRequired[str]
    """Why the item failed, for programs. Absent if it did not. New values may come."""
    vehicle: NotRequired[Vehicle]
    lastUpdated: NotRequired[str]
    """UTC in whole seconds, `YYYY-MM-DDTHH:MM:SSZ`."""
    loaded: NotRequired[InsuranceLoaded]
    period: NotRequired[InsurancePeriod]
    insuredUntil: NotRequired[str | None]
    """With `details`: the last day of the gapless cover that includes the day. Null if no end is
    known. Absent if the vehicle is not insured on the day, or if that is not known. What is
    known without a date counts for later days here.
    """
    tooManyPolicies: NotRequired[bool]
    """True if more than 100 policies of the vehicle end on or after the day: then later days are
    not judged. Otherwise absent.
    """


class BulkResponse(TypedDict):
    """One item per registration number."""

    results: list[BulkItem]
    """In the order sent. A number sent twice has two items. The objects in an item have the
    members that they have for one vehicle.
    """
    processed: int
    """`successful` plus `failed`."""
    successful: int
    """Items without `error`."""
    failed: int
    """Items with `error`."""
    asOf: NotRequired[str]
    """The day of the request. Absent if the request names none."""


class ComplianceChecks(TypedDict):
    """The four checks. One that `unknown` names is not known: it is false, or true for fines."""

    insuranceValid: bool
    """As `insured` of the insurance record."""
    motValid: bool
    """Exempt, not expired, or not yet due."""
    roadTaxPaid: bool
    """Taxed or exempt, and not past the last day that is paid."""
    noOutstandingFines: bool
    """No fine is owed now. True if no fine is on record, also if no register has fines."""


class ComplianceReasons(TypedDict):
    """Why each check came out as it did. Only with `explain`."""

    insuranceValid: str
    """`valid`, `expired`, `future` or `cancelled`: the state of the policy. Without a policy,
    `flag`: a register says insured; `none`: a register says not insured; `no_policy`: a
    register that holds every policy has none; `unknown`: no register says anything;
    `not_known_then`: something is known, but not for that day. New values may come.
    """
    motValid: str
    """`valid`, `expired`, `exempt`, `not_due` (the vehicle is too new for an MOT), `unknown`, or
    `not_known_then` (something is known, but not for that day). New values may come.
    """
    roadTaxPaid: str
    """`valid`, `expired`, `exempt`, `sorn` (declared off the road), `untaxed`, `unknown`, or
    `not_known_then` (something is known, but not for that day). New values may come.
    """
    noOutstandingFines: str
    """`none`: nothing is owed; `outstanding`: a fine is owed now; `unknown`: no register has
    fines. New values may come.
    """


class ComplianceLoaded(TypedDict):
    """With `details`: when the registers that decided each check were last loaded. Of several it
    is the oldest time; null if none decided.
    """

    insuranceValid: str | None
    motValid: str | None
    roadTaxPaid: str | None
    noOutstandingFines: str | None


class CompliancePeriod(TypedDict):
    """Compliance on every day of the period that the request names."""

    firstDay: str
    """A date, `YYYY-MM-DD`."""
    lastDay: str
    """A date, `YYYY-MM-DD`."""
    validThroughout: NotRequired[bool]
    """Whether the vehicle is road-legal on every day. False and no answer if `unknown` names it.
    Absent with `tooManyPolicies`.
    """
    unknown: NotRequired[list[str]]
    """Names `validThroughout` if no day fails for certain and one is not known. Otherwise
    absent. New values may come.
    """
    firstFailingDay: NotRequired[str]
    """The first day that fails for certain; if there is none, the first that is not known.
    Absent if every day passes.
    """
    reasons: NotRequired[ComplianceReasons]
    """Why each check came out as it did on that day. Absent if every day passes."""
    tooManyPolicies: NotRequired[bool]
    """True if more than 100 policies of the vehicle end on or after the day: then later days are
    not judged. Otherwise absent.
    """


class ComplianceRecord(TypedDict):
    """Compliance of one vehicle."""

    registration: str
    """Canonical registration number: upper case letters and digits, no spaces or hyphens."""
    compliant: bool
    """Whether all four checks are true. False and no answer if `unknown` names it."""
    unknown: NotRequired[list[str]]
    """The checks that no register knows on the day, and `compliant` if none fails for certain
    and one besides the fines is not known. They are false, except `noOutstandingFines`, which
    stays true if no register has fines. Absent if all is known. New values may come.
    """
    checks: ComplianceChecks
    lastChecked: str
    """Time of the request."""
    reasons: NotRequired[ComplianceReasons]
    asOf: NotRequired[str]
    """The day of the request. Absent if the request names none."""
    loaded: NotRequired[ComplianceLoaded]
    period: NotRequired[CompliancePeriod]
    insuredUntil: NotRequired[str | None]
    """With `details`: the last day of the gapless cover that includes the day. Null if no end is
    known. Absent if the vehicle is not insured on the day, or if that is not known. What is
    known without a date counts for later days here.
    """
    compliantUntil: NotRequired[str | None]
    """With `details`: the last of the days from the day on, without a gap, on which the vehicle
    is road-legal. Null if no end is known. Absent if it is not road-legal on the day, or if
    that is not known.
    """
    motExpiry: NotRequired[str | None]
    """Last day of the MOT; null if unknown."""
    motExempt: NotRequired[bool | None]
    """Whether the vehicle needs no MOT; null if unknown."""
    firstRegistered: NotRequired[str | None]
    """Day of the first registration; null if unknown."""
    taxStatus: NotRequired[str | None]
    """Status of the road tax; null if unknown. New values may come."""
    taxDue: NotRequired[str | None]
    """Last day for which the tax is paid; null if unknown."""
    finesOutstanding: NotRequired[int]
    """How many fines are owed now. At most 100 are counted, and a fine in two registers counts
    once.
    """
    tooManyPolicies: NotRequired[bool]
    """True if more than 100 policies of the vehicle end on or after the day: then later days are
    not judged. Otherwise absent.
    """


class ComplianceBulkItem(TypedDict):
    """Compliance of one of many vehicles: `checks`, or `error` and `code`. With `explain` also
    `reasons`, with `details` also what these add, with a period also `period`.
    """

    registration: str
    """In canonical form. As it was sent if `code` is `invalid_registration`."""
    compliant: bool
    """As in the compliance record. False if the item failed."""
    unknown: NotRequired[list[str]]
    """As in the compliance record. Absent if the item failed."""
    checks: NotRequired[ComplianceChecks]
    reasons: NotRequired[ComplianceReasons]
    error: NotRequired[str]
    """Why the item failed, for people. Absent if it did not."""
    code: NotRequired[str]
    """Why the item failed, for programs. Absent if it did not. New values may come."""
    vehicle: NotRequired[Vehicle]
    lastUpdated: NotRequired[str]
    """UTC in whole seconds, `YYYY-MM-DDTHH:MM:SSZ`."""
    loaded: NotRequired[ComplianceLoaded]
    period: NotRequired[CompliancePeriod]
    insuredUntil: NotRequired[str | None]
    """With `details`: the last day of the gapless cover that includes the day. Null if no end is
    known. Absent if the vehicle is not insured on the day, or if that is not known. What is
    known without a date counts for later days here.
    """
    compliantUntil: NotRequired[str | None]
    """With `details`: the last of the days from the day on, without a gap, on which the vehicle
    is road-legal. Null if no end is known. Absent if it is not road-legal on the day, or if
    that is not known.
    """
    motExpiry: NotRequired[str | None]
    """Last day of the MOT; null if unknown."""
    motExempt: NotRequired[bool | None]
    """Whether the vehicle needs no MOT; null if unknown."""
    firstRegistered: NotRequired[str | None]
    """Day of the first registration; null if unknown."""
    taxStatus: NotRequired[str | None]
    """Status of the road tax; null if unknown. New values may come."""
    taxDue: NotRequired[str | None]
    """Last day for which the tax is paid; null if unknown."""
    finesOutstanding: NotRequired[int]
    """How many fines are owed now. At most 100 are counted, and a fine in two registers counts
    once.
    """
    tooManyPolicies: NotRequired[bool]
    """True if more than 100 policies of the vehicle end on or after the day: then later days are
    not judged. Otherwise absent.
    """


class ComplianceBulkResponse(TypedDict):
    """One item per registration number."""

    results: list[ComplianceBulkItem]
    """In the order sent. A number sent twice has two items. The objects in an item have the
    members that they have for one vehicle.
    """
    processed: int
    """`successful` plus `failed`."""
    successful: int
    """Items without `error`."""
    failed: int
    """Items with `error`."""
    asOf: NotRequired[str]
    """The day of the request. Absent if the request names none."""


class WatchCheck(TypedDict):
    """One check of a watched vehicle."""

    valid: bool
    """Whether the vehicle passes the check."""
    reason: str
    """Why, as `reasons` of a compliance check with `explain`. New values may come."""
    lastDay: str | None
    """The last of the days on which it passes without a gap. Null if it fails, or if no end is
    known.
    """


class WatchChecks(TypedDict):
    """The four checks of a watched vehicle."""

    insurance: WatchCheck
    mot: WatchCheck
    tax: WatchCheck
    fines: WatchCheck
    """Valid if no fine is owed. It has no last day."""


class Watch(TypedDict):
    """A vehicle that is watched, and the state that the account was told last."""

    registration: str
    """Canonical registration number: upper case letters and digits, no spaces or hyphens."""
    leadDays: list[int]
    """How many days before a check fails an event comes, the greatest first."""
    reference: str | None
    """Your name for the watch; null if it has none."""
    until: str | None
    """The last day of the watch; null if it has no end."""
    created: str
    """When the watch was created, or created again after it was deleted."""
    asOf: str
    """The day that the state was judged on. It stays while a change of it is held back."""
    known: bool
    """Whether a register mentions the vehicle."""
    checks: WatchChecks | None
    """The state that the account was told last. Null if the vehicle is not known."""


class WatchList(TypedDict):
    """Watches of the account, by registration number."""

    watches: list[Watch]
    next: str | None
    """The `after` of the next page; null on the last page."""


class AddedWatch(TypedDict):
    """One of many watches. Unknown members are refused."""

    registration: str
    """Registration number, as in a path."""
    leadDays: NotRequired[list[int]]
    """How many days before a check fails you want an event: at most 10 different numbers. If
    several have passed at once, only the smallest is reported. By default none.
    """
    reference: NotRequired[str | None]
    """Your name for the watch. Its events have it, too."""
    until: NotRequired[str | None]
    """The last day of the watch. By default it has no end. If the plan needs a reason, it is
    needed, at most 400 days after today.
    """


class BulkWatchItem(TypedDict):
    """What was done: a watch that was created or replaced has the members of `Watch`; one that
    failed has `error` and `code`.
    """

    registration: str
    """In canonical form. As it was sent if `code` is `invalid_registration`."""
    status: str
    """What was done with the watch. New values may come."""
    leadDays: NotRequired[list[int]]
    """How many days before a check fails an event comes, the greatest first."""
    reference: NotRequired[str | None]
    """Your name for the watch; null if it has none."""
    until: NotRequired[str | None]
    """The last day of the watch; null if it has no end."""
    created: NotRequired[str]
    """When the watch was created, or created again after it was deleted."""
    asOf: NotRequired[str]
    """The day that the state was judged on. It stays while a change of it is held back."""
    known: NotRequired[bool]
    """Whether a register mentions the vehicle."""
    checks: NotRequired[WatchChecks | None]
    """The state that the account was told last. Null if the vehicle is not known."""
    error: NotRequired[str]
    """Why it failed, for people. Absent if it did not."""
    code: NotRequired[str]
    """Why it failed, for programs. Absent if it did not. New values may come."""


class BulkWatchResponse(TypedDict):
    """One item per registration number."""

    results: list[BulkWatchItem]
    """In the order sent: first those to add, then those to remove."""
    processed: int
    """`successful` plus `failed`."""
    successful: int
    """Items without `error`."""
    failed: int
    """Items with `error`."""


class EventState(TypedDict):
    """The check that the event is about: `valid`, `reason` and `lastDay`. Events about the
    vehicle or the watch have all four checks instead: `insurance`, `mot`, `tax` and `fines`.
    """

    valid: NotRequired[bool]
    """Whether the vehicle passes the check."""
    reason: NotRequired[str]
    """Why, as `reasons` of a compliance check with `explain`. New values may come."""
    lastDay: NotRequired[str | None]
    """The last of the days on which it passes without a gap. Null if it fails, or if no end is
    known.
    """
    insurance: NotRequired[WatchCheck]
    mot: NotRequired[WatchCheck]
    tax: NotRequired[WatchCheck]
    fines: NotRequired[WatchCheck]


class Event(TypedDict):
    """Something that happened to a watched vehicle."""

    id: str
    """The id of an event, which is also the place after it. Its form may change."""
    type: str
    """A check, and whether its verdict has changed (`.changed`) or it soon fails (`.ending`); or
    `vehicle.known`, `vehicle.unknown`, `watch.ended`. New values may come.
    """
    time: str
    """When the service found it out."""
    registration: str
    """Canonical registration number: upper case letters and digits, no spaces or hyphens."""
    reference: str | None
    """That of the watch."""
    before: EventState | None
    """What the account was told before; null if the vehicle was not known."""
    after: EventState | None
    """Its state now; null if the vehicle is not known, or no longer watched."""


class EventList(TypedDict):
    """Events of the account, the oldest first."""

    events: list[Event]
    next: str | None
    """What to send as `after` next time, also if there are no events. Null if the account never
    had a watch.
    """
    hasMore: bool
    """Whether there are more events already."""
    nextSweep: str
    """When the service compares all watches next. It also does so after each load."""


class Plan(TypedDict):
    """What the account may use."""

    name: str
    requests: int
    """Requests allowed in the window."""
    windowSeconds: int
    """Length of the window."""
    bulkMax: int
    """Registration numbers allowed in one bulk request."""
    domainsMax: int
    """Domains allowed."""
    watchesMax: int
    """Watches allowed."""
    enquiry: str
    """Whether look-ups need the header `Enquiry-Reason`. `off`: the enquiry headers are ignored.
    `optional`: they are checked and may be recorded. `required`: a look-up or a new watch
    without a reason is refused.
    """
    enquiryReasons: list[str]
    """The reasons that the plan accepts. If empty, it accepts any."""
    suggest: bool
    """Whether the 404 of a look-up of one vehicle has `suggestions`."""
    sandbox: bool
    """Whether the account is a sandbox, which gets invented answers. Its keys begin with
    `vfd_test_`.
    """


class AccountKey(TypedDict):
    """The key that the request was sent with."""

    id: str
    """The public part of the key; the operator and the log name the key by it."""
    label: str | None
    """What the operator noted; null if nothing."""
    expiresAt: str | None
    """When the key stops working; null if never."""
    only: str | None
    """The operations that the key is restricted to: `domains` or `vehicles`; null if it may use
    all. New values may come.
    """
    networks: list[str]
    """The networks that the key may be used from; empty if from everywhere."""


class Account(TypedDict):
    """The account of the key."""

    name: str
    plan: Plan
    requestsRemaining: int
    """How many more requests would be admitted now, as in `X-RateLimit-Remaining`."""
    domainsUsed: int
    """Domains of the account, suspended ones too."""
    watchesUsed: int
    """Watches of the account."""
    key: AccountKey


class OperationUsage(TypedDict):
    """The answers of one operation on one day."""

    day: str
    """A date, `YYYY-MM-DD`."""
    operation: str
    """The operation; `events` stands for no request, but for what the account's watches
    reported, `other` for OPTIONS, and for paths and methods that do not exist. New values may
    come.
    """
    answers: int
    """All answers, the sum of the next four."""
    status2xx: int
    """Answers with a status from 200 to 299."""
    status4xx: int
    """Answers with a status from 400 to 499, except 429. Unknown vehicles (404) are among them."""
    status429: int
    """Requests refused by the rate limit."""
    status5xx: int
    """Answers with a status from 500 on."""
    vehicles: int
    """Vehicles that were looked up, unknown ones too. A bulk request counts each item of its
    answer, a 404 also each of its suggestions. Watches count when they are new.
    """
    events: int
    """Events of the account's watches, only with the operation `events`."""


class UsageReport(TypedDict):
    """What the account has used."""

    firstDay: str
    """A date, `YYYY-MM-DD`."""
    lastDay: str
    """A date, `YYYY-MM-DD`."""
    usage: list[OperationUsage]
    """An item for each day and operation. Those without answers are left out."""


class TypedClient(Client):
    """Sends requests with one key. Threads can share it."""

    def list_domains(
        self,
        *,
        limit: int | None = None,
        after: str | None = None,
        status: Literal["active", "suspended"] | None = None,
    ) -> DomainList:
        """List domains.

        Lists the domains of the account by name: all of them, or page by page with `limit`
        and `after`.

        Args:
            limit: At most this many domains, 1 to 1,000. Without it the answer has all of
                them.
            after: A domain name. Only domains whose names come after it are listed: send the
                `next` of the previous page.
            status: Only domains with this status.
        """
        path = "/api/domains"
        query = {
            "limit": limit,
            "after": after,
            "status": status,
        }
        answer: DomainList = self.ask("GET", path + _query(query))
        return answer

    def create_domain(self, name: str) -> Domain:
        """Create a domain.

        Creates a domain in the account. Names are unique within an account. `Location` is the
        path of the new domain. After 500, 502, 503 or 504 send the request again, and take
        409 as success.

        Args:
            name: A domain name in any case, with or without a final dot. It has two labels or
                more, and at most 253 characters. Labels have 1 to 63 letters, digits and
                inner hyphens; the last one is not a number. International names can be sent
                in Unicode (UTS 46), with the characters that IDNA 2008 allows.
        """
        path = "/api/domains"
        body = {
            "name": name,
        }
        answer: Domain = self.ask("POST", path, _given(body))
        return answer

    def get_domain(self, domain: str) -> Domain:
        """Get a domain.

        Returns one domain of the account. A domain of another account is not found.

        Args:
            domain: Name of the domain, in any case. International names in Unicode or in
                ASCII (`xn--`).
        """
        path = f"/api/domains/{_escaped(domain)}"
        answer: Domain = self.ask("GET", path)
        return answer

    def delete_domain(self, domain: str) -> None:
        """Delete a domain.

        Deletes a domain of the account. A suspended domain cannot be deleted. After 500, 502,
        503 or 504 send the request again, and take 404 as success.

        Args:
            domain: Name of the domain, in any case. International names in Unicode or in
                ASCII (`xn--`).
        """
        path = f"/api/domains/{_escaped(domain)}"
        self.ask("DELETE", path)

    def check_vehicle_insurance(
        self,
        registration: str,
        *,
        asOf: str | None = None,
        from_: str | None = None,
        to: str | None = None,
        details: bool | None = None,
        policies: Literal["all"] | None = None,
    ) -> InsuranceRecord:
        """Check the insurance of a vehicle.

        Tells whether a vehicle is insured today, on the day `asOf`, or on every day of a
        period (`from` and `to`). A vehicle that is known but not insured gets 200 with
        `insured: false`; so does one whose insurance is not known, which `unknown` says. On
        plans with suggestions, the 404 of a vehicle that is not found has `suggestions`:
        known ones with a registration number that looks alike.

        Args:
            registration: Registration number: 1 to 12 letters and digits. Case does not
                matter; spaces, hyphens and the point of Swiss plates (U+00B7) are ignored.
            asOf: The day to judge by. By default today, in the service's time zone.
            from_: The first day of a period; needs `to`, and excludes `asOf`. All members but
                `period` are about this day.
            to: The last day of the period, which is included. A period has at most 400 days.
            details: Adds when the registers that decided were loaded and the dates until
                which the answer stays as it is, to insurance also the policy's `cancelledOn`,
                and to compliance also `motExempt`, `firstRegistered`, `taxStatus` and
                `finesOutstanding`. `True`, `TRUE` and `1` are accepted as well.
            policies: `all` adds `policies`: all policies that are in force on the day.
        """
        path = f"/v1/vehicle/{_escaped(registration)}/insurance"
        query = {
            "asOf": asOf,
            "from": from_,
            "to": to,
            "details": details,
            "policies": policies,
        }
        answer: InsuranceRecord = self.ask("GET", path + _query(query))
        return answer

    def check_vehicles(
        self,
        registrations: list[str],
        *,
        asOf: str | None = None,
        from_: str | None = None,
        to: str | None = None,
        details: bool | None = None,
    ) -> BulkResponse:
        """Check the insurance of many vehicles.

        Checks up to `bulkMax` vehicles of the account's plan in one request, which takes one
        token. A registration number that is not found or malformed gets an item with `error`;
        the status is still 200. `unknown` of an item names what no register knows.

        Args:
            registrations: Registration numbers, each as in a path. The plan sets how many: by
                default 100 with `free`, 1,000 with `standard`, 10,000 with `enterprise`.
            asOf: The day to judge by. By default today, in the service's time zone.
            from_: The first day of a period, in place of `asOf`; needs `to`.
            to: The last day of the period. A period has at most 400 days.
            details: Adds `vehicle`, `lastUpdated`, `loaded` and dates to each item without
                `error`, and `cancelledOn` to its policy.
        """
        path = "/v1/vehicle/bulk-insurance"
        body = {
            "registrations": registrations,
            "asOf": asOf,
            "from": from_,
            "to": to,
            "details": details,
        }
        answer: BulkResponse = self.ask("POST", path, _given(body))
        return answer

    def check_compliance(
        self,
        registration: str,
        *,
        asOf: str | None = None,
        from_: str | None = None,
        to: str | None = None,
        details: bool | None = None,
        explain: bool | None = None,
    ) -> ComplianceRecord:
        """Check the compliance of a vehicle.

        Tells whether a vehicle is road-legal today, on the day `asOf`, or on every day of a
        period (`from` and `to`): insurance, MOT, road tax and fines. Fines are always those
        of now. `unknown` names what no register knows. On plans with suggestions, the 404 of
        a vehicle that is not found has `suggestions`: known ones with a registration number
        that looks alike.

        Args:
            registration: Registration number: 1 to 12 letters and digits. Case does not
                matter; spaces, hyphens and the point of Swiss plates (U+00B7) are ignored.
            asOf: The day to judge by. By default today, in the service's time zone.
            from_: The first day of a period; needs `to`, and excludes `asOf`. All members but
                `period` are about this day.
            to: The last day of the period, which is included. A period has at most 400 days.
            details: Adds when the registers that decided were loaded and the dates until
                which the answer stays as it is, to insurance also the policy's `cancelledOn`,
                and to compliance also `motExempt`, `firstRegistered`, `taxStatus` and
                `finesOutstanding`. `True`, `TRUE` and `1` are accepted as well.
            explain: Adds `reasons` to the answer. `True`, `TRUE` and `1` are accepted as
                well.
        """
        path = f"/v1/compliance/{_escaped(registration)}"
        query = {
            "asOf": asOf,
            "from": from_,
            "to": to,
            "details": details,
            "explain": explain,
        }
        answer: ComplianceRecord = self.ask("GET", path + _query(query))
        return answer

    def check_vehicles_compliance(
        self,
        registrations: list[str],
        *,
        asOf: str | None = None,
        from_: str | None = None,
        to: str | None = None,
        explain: bool | None = None,
        details: bool | None = None,
    ) -> ComplianceBulkResponse:
        """Check the compliance of many vehicles.

        Checks up to `bulkMax` vehicles of the account's plan in one request, which takes one
        token. A registration number that is not found or malformed gets an item with `error`;
        the status is still 200. `unknown` of an item names what no register knows.

        Args:
            registrations: Registration numbers, each as in a path. The plan sets how many: by
                default 100 with `free`, 1,000 with `standard`, 10,000 with `enterprise`.
            asOf: The day to judge by. By default today, in the service's time zone.
            from_: The first day of a period, in place of `asOf`; needs `to`.
            to: The last day of the period. A period has at most 400 days.
            explain: Adds `reasons` to each item without `error`.
            details: Adds to each item without `error` what it adds to the check of one
                vehicle, `vehicle` and `lastUpdated`.
        """
        path = "/v1/compliance/bulk"
        body = {
            "registrations": registrations,
            "asOf": asOf,
            "from": from_,
            "to": to,
            "explain": explain,
            "details": details,
        }
        answer: ComplianceBulkResponse = self.ask("POST", path, _given(body))
        return answer

    def list_watches(self, *, limit: int | None = None, after: str | None = None) -> WatchList:
        """List watches.

        Lists the watches of the account by registration number, page by page. Each has the
        state that the account was told last; no register is read.

        Args:
            limit: At most this many watches, 1 to 1,000. By default 100.
            after: A registration number. Only watches after it are listed: send the `next` of
                the previous page.
        """
        path = "/v1/watches"
        query = {
            "limit": limit,
            "after": after,
        }
        answer: WatchList = self.ask("GET", path + _query(query))
        return answer

    def get_watch(self, registration: str) -> Watch:
        """Get a watch.

        Returns one watch of the account, with the state that the account was told last; no
        register is read. A watch of another account is not found.

        Args:
            registration: Registration number: 1 to 12 letters and digits. Case does not
                matter; spaces, hyphens and the point of Swiss plates (U+00B7) are ignored.
        """
        path = f"/v1/watches/{_escaped(registration)}"
        answer: Watch = self.ask("GET", path)
        return answer

    def put_watch(
        self,
        registration: str,
        *,
        leadDays: list[int] | None = None,
        reference: str | None = None,
        until: str | None = None,
    ) -> Watch:
        """Watch a vehicle.

        Watches a vehicle, which need not be known. A new watch looks it up; the answer is its
        state now. An existing watch is replaced, and keeps the state that the account was
        told last: you can send all your watches every night. Changes come as events. If the
        plan needs a reason, so does the watch; it counts for all states and events until the
        watch ends.

        Args:
            registration: Registration number: 1 to 12 letters and digits. Case does not
                matter; spaces, hyphens and the point of Swiss plates (U+00B7) are ignored.
            leadDays: How many days before a check fails you want an event: at most 10
                different numbers. If several have passed at once, only the smallest is
                reported. By default none.
            reference: Your name for the watch. Its events have it, too.
            until: The last day of the watch. By default it has no end. If the plan needs a
                reason, it is needed, at most 400 days after today.
        """
        path = f"/v1/watches/{_escaped(registration)}"
        body = {
            "leadDays": leadDays,
            "reference": reference,
            "until": until,
        }
        answer: Watch = self.ask("PUT", path, _given(body))
        return answer

    def delete_watch(self, registration: str) -> None:
        """Delete a watch.

        Ends a watch of the account without an event. Its events stay. After 500, 502, 503 or
        504 send the request again, and take 404 as success.

        Args:
            registration: Registration number: 1 to 12 letters and digits. Case does not
                matter; spaces, hyphens and the point of Swiss plates (U+00B7) are ignored.
        """
        path = f"/v1/watches/{_escaped(registration)}"
        self.ask("DELETE", path)

    def change_watches(
        self,
        *,
        add: list[AddedWatch] | None = None,
        remove: list[str] | None = None,
    ) -> BulkWatchResponse:
        """Add and remove many watches.

        Adds or replaces watches, and removes others: up to `bulkMax` of the account's plan
        together, in one request, which takes one token. What can be done is done together, or
        none of it. A registration number that fails gets an item with `error`; the status is
        still 200.

        Args:
            add: The watches to create or replace.
            remove: Registration numbers whose watches to delete.
        """
        path = "/v1/watches/bulk"
        body = {
            "add": add,
            "remove": remove,
        }
        answer: BulkWatchResponse = self.ask("POST", path, _given(body))
        return answer

    def list_events(self, *, after: str | None = None, limit: int | None = None) -> EventList:
        """List events.

        Lists the events of the account's watches, the oldest first, after the one that
        `after` names. Events are kept for 90 days. Keep `next`, and send it as `after` next
        time: at once if `hasMore`, otherwise when `nextSweep` has passed. `410 events_gone`
        means that events may have been missed: list the watches, which have their states, and
        then read events without `after`.

        Args:
            after: The `next` of an earlier answer, or the `id` of an event. Only later events
                are listed. Without it the list begins with the oldest event that is kept, or
                after the last one that is missing.
            limit: At most this many events, 1 to 1,000. By default 100.
        """
        path = "/v1/events"
        query = {
            "after": after,
            "limit": limit,
        }
        answer: EventList = self.ask("GET", path + _query(query))
        return answer

    def get_account(self) -> Account:
        """Get the account of the key.

        Returns the account, its plan, what is left of its limits, and the key that you sent.
        """
        path = "/v1/account"
        answer: Account = self.ask("GET", path)
        return answer

    def get_usage(self, *, from_: str | None = None, to: str | None = None) -> UsageReport:
        """Get the usage of the account.

        Returns how many answers the account got, and for how many vehicles, by day and
        operation. Days are those of the service's time zone, and are kept for 400 days. The
        usage of the last ten seconds may be missing.

        Args:
            from_: The first day. A period has at most 400 days. By default the first day of
                the month of `to`.
            to: The last day, which is included. By default today, in the service's time zone.
        """
        path = "/v1/usage"
        query = {
            "from": from_,
            "to": to,
        }
        answer: UsageReport = self.ask("GET", path + _query(query))
        return answer


def _escaped(value: str) -> str:
    return quote(value, safe="")


def _query(parameters: Mapping[str, object]) -> str:
    given = _given(parameters)
    return f"?{urlencode(given)}" if given else ""


def _given(members: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in members.items() if value is not None}
