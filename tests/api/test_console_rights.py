"""Every role at every page and method of the console."""

import pytest

from app.accounts.administration import list_keys, require_account
from app.console.entrance import Entrance
from app.console.pages import PAGES
from app.console.rendering import ROOT
from app.domains.repository import Domains
from app.jobs.audit_tasks import DIFF, SEARCH, WATCHES, AuditTask, AuditTaskRequest, AuditTasks
from app.jobs.register_tasks import RegisterTask
from app.jobs.results import TrailQuestion
from app.people.sessions import create_link, list_sessions
from app.settings.roles import RIGHTS, Right, Role
from app.watches.repository import ensure_feed
from tests.api.console import DIRECTORY, PROXY, Browser, let_in, signed_in, stated, stored
from tests.conftest import ON_SQLITE, STORAGE
from tests.rows import each_row
from tests.unit.held import loaded, vehicles

METHODS = ("GET", "HEAD", "POST")
ROLES_AND_WAYS = [
    *((role, signed_in) for role in Role),
    (Role.CLERK, let_in),
    *(
        pytest.param(role, let_in, marks=pytest.mark.system_long)
        for role in Role
        if role != Role.CLERK
    ),
]
"""Each role, and how a person with it signs in: by a link, or by a directory (D189)."""
GUARDED = [
    pytest.param(page, method, id=f"{method} {page.path}")
    for page in PAGES
    for method in METHODS
    if page.rights.get("GET" if method == "HEAD" else method)
]


@pytest.fixture
def application(world):
    """The service with its console, a directory, and the trail, without which no clerk looks up."""
    trail = world.directory / "audit"
    return world.client(None, **DIRECTORY, audit=True, audit_dir=trail).application


@pytest.fixture
def operator(world, application):
    """The browser of an operator, who comes through a proxy."""
    return let_in(world, application, Role.OPERATOR)


def path_of(page, world):
    """Return the path of a page, about something that exists."""
    account, domains = require_account(world.engine, "alice"), Domains(world.engine)
    with world.engine.atomic():
        ensure_feed(world.engine, account.id)
    name = "example.com"
    domain = domains.find_domain(account.id, name) or domains.create_domain(account.id, name, 10)
    values = {
        "tag": account.tag,
        "key_id": list_keys(world.engine, "alice")[0].id,
        "plan": "free",
        "domain_id": domain.id,
        "token": create_link(world.engine, "ben", Role.VIEWER),
        "asset": "nothing.css",
        "name": "native",
        "load_id": 1,
        "task_id": _task_of(world),
        "audit_task": _audit_task_of(world, _kind_of(page)),
        "file": "csv",
    }
    sessions = list_sessions(world.engine)
    values["session_id"] = sessions[-1].id if sessions else "none"
    return page.path.format(**values)


def _task_of(world):
    """Return a task of a register that was loaded twice and can be rolled back."""
    if not RegisterTask.select().count(world.engine):
        for make in ("FORD", "SEAT"):
            loaded(world, vehicles(make))
        asked = {"register": "other", "action": "drop", "seen": "x", "asked_by": "ann"}
        row = {**asked, "asked_at": 1, "host": "x", "status": "done"}
        RegisterTask.insert(**row).execute(world.engine)
    return RegisterTask.select(RegisterTask.id).scalar(world.engine)


def _kind_of(page):
    """Return the kind of the tasks that a page shows."""
    of_place = {"loads": DIFF, "watches": WATCHES}
    return next((of_place[each] for each in page.path.split("/") if each in of_place), SEARCH)


def _audit_task_of(world, kind):
    """Return a task that ann asked for, with its file."""
    found = AuditTask.select(AuditTask.id).where(AuditTask.kind == kind)
    if not found.count(world.engine):
        tasks = AuditTasks(world.engine, world.config)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("app.processes.start", lambda *_, kept: None)
            task = tasks.begin(AuditTaskRequest(kind, "x", "ann"), TrailQuestion())
        AuditTask.update(status="done").execute(world.engine)
        tasks.results.path(task, "csv").write_text("time\n")
    return found.scalar(world.engine)


@ON_SQLITE  # No database decides about rights.
@pytest.mark.parametrize(("role", "sign_in"), ROLES_AND_WAYS)
@each_row(("page", "method"), GUARDED)
def test_each_role_can_do_what_it_has_the_right_to(world, application, page, method, role, sign_in):
    """Each pair of a role and a method works, or is 403 and changes nothing, whatever way in."""
    browser = sign_in(world, application, role)
    path = path_of(page, world)
    before = stored(world)
    response = browser.post(path) if method == "POST" else browser.request(method, path)
    right = page.rights["GET" if method == "HEAD" else method]
    if right in RIGHTS[role]:
        # A form without its fields is refused for what is missing.
        assert response.status_int in (200, 303, 409, 422)
    elif page.path == ROOT:
        assert response.status_int == 303
    else:
        assert response.status_int == 403
        assert method == "HEAD" or "You may not do that" in response.text
        assert stored(world) == before


@ON_SQLITE  # No database decides about rights.
@each_row(("page", "method"), GUARDED)
def test_nothing_works_without_a_session(world, application, page, method):
    """Without a cookie each guarded method is 401, with a page that says how to sign in."""
    browser = Browser(application)
    path = path_of(page, world)
    response = browser.post(path) if method == "POST" else browser.request(method, path)
    assert response.status_int == 401
    assert response.headers["WWW-Authenticate"] == 'Cookie realm="console"'
    assert method == "HEAD" or "verifyd console link" in response.text


@ON_SQLITE  # No database decides about rights.
def test_a_right_needs_a_session_whatever_let_the_request_in(world, monkeypatch):
    """If no middleware had looked for a session, every guarded method would still be 401."""
    monkeypatch.setattr(Entrance, "process_request", lambda *_: None)
    browser = Browser(world.client(None, console=True).application)
    for page in PAGES:
        for method, right in page.rights.items():
            if right is not None:
                path = path_of(page, world)
                assert browser.request(method, path).status_int == 401, (method, path)


@ON_SQLITE  # No database decides about rights.
@each_row("page", PAGES, ids=lambda page: page.path)
@each_row("method", ["PUT", "PATCH", "DELETE"])
def test_other_methods_are_refused(world, operator, page, method):
    """A method that no page has is 405."""
    headers = {"Sec-Fetch-Site": "none", **(stated() if page.path == PROXY else {})}
    response = operator.request(method, path_of(page, world), headers=headers)
    assert response.status_int == 405
    assert "That does not work here" in response.text


@each_row("page", PAGES, ids=lambda page: page.path)
def test_a_page_has_a_right_for_each_of_its_methods(page):
    """The table names exactly the methods that the resource has, and only reading needs none."""
    own = {name for name in ("GET", "POST") if hasattr(page.resource, f"on_{name.lower()}")}
    assert set(page.rights) == own
    assert getattr(page.resource, "on_head", None) is getattr(page.resource, "on_get", None)
    is_open = page.path.startswith((f"{ROOT}/sign-in/", f"{ROOT}/assets/"))
    assert all(right is None for right in page.rights.values()) == is_open


def test_only_an_auditor_reads_the_audit_trail():
    """The trail holds operators to account, so they do not read it; no auditor changes anything."""
    assert [role for role in Role if Right.AUDIT in RIGHTS[role]] == [Role.AUDITOR]
    assert [role for role in Role if Right.CHANGE in RIGHTS[role]] == [Role.OPERATOR]


@STORAGE
@pytest.mark.parametrize("role", Role)
def test_the_navigation_leads_only_where_the_role_may_go(world, application, role):
    """Each link of the navigation answers 200, and the current page is marked."""
    browser = signed_in(world, application, role)
    links = browser.get(f"{ROOT}/look-up").html.select("header nav a")
    assert [link.text for link in links if link.get("aria-current")] == ["Look up"]
    for link in links:
        assert browser.get(f"/{link['href'].removeprefix('../')}").status_int == 200


@STORAGE
@pytest.mark.parametrize("role", [Role.VIEWER, Role.AUDITOR])
def test_those_who_only_read_are_shown_no_buttons(world, application, role):
    """Actions that the role has no right to are not offered."""
    changing = {page.path.rpartition("/")[2] for page in PAGES if "POST" in page.rights} - {
        "find",
        "everywhere",
    }
    browser = signed_in(world, application, role)
    for page in PAGES:
        if page.rights.get("GET") == Right.READ:
            shown = browser.get(path_of(page, world))
            links = {link["href"].rpartition("/")[2] for link in shown.html.select("main a[href]")}
            assert links.isdisjoint(changing), page.path


@each_row("page", PAGES, ids=lambda page: page.path)
def test_a_responders_docstring_begins_with_its_route(page):
    """The docstring shows which requests a responder answers.

    A resource whose shape has the responders, such as a form, names its methods and path itself.
    """
    own = [method for method in page.rights if f"on_{method.lower()}" in vars(page.resource)]
    for method in own:
        responder = getattr(page.resource, f"on_{method.lower()}")
        assert responder.__doc__.startswith(f"{method} {page.path}.")
    if not own:
        methods = ", ".join(page.rights)
        assert page.resource.__doc__.startswith(f"{methods} {page.path}.")
    assert own in ([], list(page.rights))
