"""Turns a report of the trail into one HTML page that needs nothing else."""

import jinja2

from app.audit.report import Report
from app.version import VERSION


def render(report: Report) -> bytes:
    """Return the page in UTF-8."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("app.audit"),
        # SEC: clients choose reasons, references and users.
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["number"] = "{:,}".format
    template = environment.get_template("report.html")
    return template.render(report=report, version=VERSION).encode()
