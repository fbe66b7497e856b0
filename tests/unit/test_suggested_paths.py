"""A path that does not exist leads to the one that was meant (D90, D103)."""

from collections.abc import Iterator

from app.routes import IMAGINED_PATHS, SUGGESTED_PATHS
from app.serve.http.paths import closest_path, correction
from tests.rows import each_row

FILLED = {"{registration}": "AB12CDE", "{domain}": "a.example"}
BULK = "/v1/vehicle/bulk-insurance"
INSURANCE = "/v1/vehicle/{registration}/insurance"


def near_misses(template: str) -> Iterator[str]:
    """Yield paths with one mistake in a segment, without the base, or with another one."""
    segments = [FILLED.get(each, each) for each in template.strip("/").split("/")]
    for place, segment in enumerate(segments):
        if segment in (*FILLED.values(), "v1", "api"):
            continue
        middle = len(segment) // 2
        before, letter, after = segment[:middle], segment[middle], segment[middle + 1 :]
        for misspelt in (
            segment.upper(),
            f"{segment}s",
            segment.removesuffix("s"),
            before + after,
            before + letter + letter + after,
            # Swapping two of three letters leaves too little of a word.
            before + after[:1] + letter + after[1:] if len(segment) > 3 else f"{segment}x",
            segment.replace("-", "_"),
        ):
            yield "/" + "/".join([*segments[:place], misspelt, *segments[place + 1 :]])
    if segments[0] in ("v1", "api"):
        yield "/" + "/".join(segments[1:])
        yield "/" + "/".join(["v2", *segments[1:]])
        yield "/" + "/".join(["api", "v1", *segments[1:]])
        yield "/" + "/".join(["v1", "api", *segments[1:]])


def exists(path: str) -> bool:
    """Tell whether a path is one of the service."""
    for template in SUGGESTED_PATHS:
        pairs = list(zip(path.split("/"), template.split("/"), strict=False))
        is_as_long = path.count("/") == template.count("/")
        if is_as_long and all(given == known or known in FILLED for given, known in pairs):
            return True
    return False


MISSES = [
    (method, path, template)
    for template, methods in SUGGESTED_PATHS.items()
    if template != "/"
    for path in dict.fromkeys(near_misses(template))
    if not exists(path)
    for method in methods
    if method not in ("HEAD", "OPTIONS")
]


def test_a_path_with_one_mistake():
    """Of each path and method, the one that was meant is suggested, without another correction."""
    assert len(MISSES) > 100
    for method, path, template in MISSES:
        meant = closest_path(path, method, SUGGESTED_PATHS, IMAGINED_PATHS)
        assert (method, path, meant) == (method, path, template)
        assert correction(path, method, template, SUGGESTED_PATHS[template]) == ""


@each_row(
    ("line", "suggested"),
    {
        "GET /v1/bulk-insurance": f"{BULK}, which takes POST",
        "GET /bulk-insurance": f"{BULK}, which takes POST",
        "GET /v1/vehicles/bulk-insurance": f"{BULK}, which takes POST",
        "GET /v1/vehicle/bulk": f"{BULK}, which takes POST",
        "GET /v1/bulk": f"{BULK}, which takes POST",
        "POST /v1/bulk": BULK,
        "GET /v1/insurance/bulk": f"{BULK}, which takes POST",
        "GET /v1/vehicle/bulk-insurance/today": f"{BULK}, which takes POST",
        "GET /v1/bulk-compliance": "/v1/compliance/bulk, which takes POST",
        "POST /v1/bulk-compliance": "/v1/compliance/bulk",
        "POST /v1/compliance": "/v1/compliance/bulk",
        "GET /v1/compliance": "/v1/compliance/{registration}",
        "GET /v1/vehicle": INSURANCE,
        "POST /v1/vehicle": BULK,
        "GET /v1/insurance": INSURANCE,
        "POST /v1/vehicle/AB12CDE": f"{INSURANCE}, which takes GET",
        "POST /v1/accounts": "/v1/account, which takes GET",
        "PUT /api/domain": "/api/domains, which takes GET and POST",
        "DELETE /api/domain/a.example": "/api/domains/{domain}",
    }.items(),
)
def test_a_path_for_another_method(line, suggested):
    """A path for one vehicle is not suggested for many; another method is named."""
    method, path = line.split(" ")
    meant = closest_path(path, method, SUGGESTED_PATHS, IMAGINED_PATHS)
    assert meant is not None
    assert meant + correction(path, method, meant, SUGGESTED_PATHS[meant]) == suggested


@each_row("path", ["/", "/nothing", "/v1", "/api", "/v1/x/y/z", "/a/b/c/d/e/f/g"])
def test_a_path_like_no_other(path):
    """Nothing is suggested."""
    assert closest_path(path, "GET", SUGGESTED_PATHS, IMAGINED_PATHS) is None
