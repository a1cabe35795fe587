"""The page in headless Chromium: nothing is wider than the window."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gnn_encoder.pipeline.params import load_params
from gnn_encoder.presenting.page import render

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (Debian: apt-get install chromium)")

# Run in the page when it has loaded; the elements that stick out are read back from the document.
PROBE = """
<script>
window.addEventListener("load", () => {
  document.querySelectorAll("details").forEach((part) => (part.open = true));
  const limit = document.documentElement.clientWidth;
  const out = [...document.querySelectorAll("main *, nav *, header *")]
    .filter((one) => !one.closest(".scroll, pre") && one.getBoundingClientRect().right > limit + 1)
    .map((one) => one.tagName);
  const told = document.createElement("pre");
  told.id = "probe";
  told.textContent = JSON.stringify({ out, wide: document.documentElement.scrollWidth > limit });
  document.body.append(told);
});
</script>
</head>"""


@pytest.mark.parametrize("width", [500, 1280])  # Chromium's window is no narrower than 500
def test_nothing_sticks_out_of_the_window(one_branch: Path, width: int) -> None:
    page = one_branch / "index.html"
    page.write_text(render(load_params()).replace("</head>", PROBE, 1), encoding="utf-8")
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom"]
    command += [f"--user-data-dir={one_branch / 'profile'}", f"--window-size={width},900", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.S)
    assert found and json.loads(found[1]) == {"out": [], "wide": False}
