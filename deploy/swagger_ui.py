"""Put another version of Swagger UI into app/documentation/swagger-ui.

    python3 deploy/swagger_ui.py VERSION

It needs npm, which fetches the package and checks its integrity. Nothing else needs npm: the
files are part of the repository, and manifest.json beside them pins each by its SHA-256.
Afterwards run `make test`, open /docs/try in a browser, and read the difference of manifest.json.
"""

import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

TARGET = Path(__file__).parents[1] / "app" / "documentation" / "swagger-ui"
FILES = (
    "LICENSE",
    "NOTICE",
    "swagger-ui-bundle.js",
    "swagger-ui-bundle.js.LICENSE.txt",
    "swagger-ui.css",
)


def main(version: str) -> None:
    """Take the files unchanged out of the npm package, and write the manifest."""
    with tempfile.TemporaryDirectory() as directory:
        words = ["npm", "pack", "--json", "--ignore-scripts", f"swagger-ui-dist@{version}"]
        packed = subprocess.run(  # noqa: S603 - whoever updates it chooses the version
            words, cwd=directory, stdout=subprocess.PIPE, check=True
        )
        (package,) = json.loads(packed.stdout)
        with tarfile.open(Path(directory) / package["filename"]) as archive:
            contents = {name: read(archive, name) for name in FILES}
    bundle = contents["swagger-ui-bundle.js"].decode()
    manifest = {
        "name": package["name"],
        "version": package["version"],
        "integrity": package["integrity"],
        "dompurify": re.findall(r'DOMPurify\.version="([\d.]+)"', bundle)[0],
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()},
    }
    TARGET.mkdir(exist_ok=True)
    for name, content in contents.items():
        (TARGET / name).write_bytes(content)
    (TARGET / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


def read(archive: tarfile.TarFile, name: str) -> bytes:
    """Return the content of one file of the package; KeyError if it is not there."""
    file = archive.extractfile(f"package/{name}")
    if file is None:
        raise KeyError(f"{name} is not a file")
    return file.read()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: swagger_ui.py VERSION")
    main(sys.argv[1])
