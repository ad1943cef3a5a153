"""Read the data of a report page. Tests of several folders use this."""

import base64
import json
import re
import zlib


def data_of(page: str) -> dict:
    """The data inside a page, with its studies unpacked."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    data = json.loads(found[1])
    data["studies"] = [
        json.loads(zlib.decompress(base64.b64decode(study["packed"]))) | {"name": study["name"]}
        for study in data["studies"]
    ]
    data["cells"] = {key: cell for study in data["studies"] for key, cell in study["cells"].items()}
    return data
