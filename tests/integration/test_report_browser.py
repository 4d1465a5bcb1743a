"""The demo's report in a real browser: it fits a phone, runs nothing and asks for nothing else."""

from __future__ import annotations

import http.server
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from proact_train.demo.report import write_report
from tests.demo_folder import build_demo_folder

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine"),
]
# Measures the page inside a frame and writes what it finds into the dumped document.
MEASURE = """<!doctype html><body><pre id="out"></pre>
<iframe src="report.html" style="width:{width}px;height:800px;border:0"></iframe>
<script>
document.querySelector("iframe").onload = event => {{
  const page = event.target.contentDocument, root = page.documentElement;
  const broken = [...page.images].filter(image => !image.naturalWidth).length;
  const styled = getComputedStyle(page.body).maxWidth;
  document.getElementById("out").textContent =
    `width=${{root.scrollWidth}} images=${{page.images.length}} broken=${{broken}} ` +
    `scripts=${{page.scripts.length}} styled=${{styled}} title=${{page.title}}`;
}};
</script>"""


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Iterator[tuple[Path, str, list[str]]]:
    """A folder with the report, its address on loopback, and the paths that were asked for."""
    root = tmp_path_factory.mktemp("site")
    folder = build_demo_folder(root / "demo")
    shutil.copy(write_report(folder, {"SFT": 60.0}, "a test"), root / "report.html")
    asked: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, directory=str(root), **kwargs)

        def log_request(self, code="-", size="-") -> None:
            asked.append(self.path)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield root, f"http://127.0.0.1:{server.server_address[1]}", asked
        server.shutdown()


def measure(site: tuple[Path, str, list[str]], width: int, profile: Path) -> dict[str, str]:
    root, address, _ = site
    (root / "measure.html").write_text(MEASURE.format(width=width), encoding="utf-8")
    assert BROWSER is not None
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    command += ["--virtual-time-budget=10000", f"--user-data-dir={profile}", "--dump-dom"]
    done = subprocess.run(
        [*command, f"{address}/measure.html"], capture_output=True, text=True, timeout=120
    )
    found = re.search(r'<pre id="out">(.+?)</pre>', done.stdout)
    assert found, done.stderr[-2000:]
    return dict(re.findall(r"(\w+)=(\S+)", found.group(1)))


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_its_window(site, tmp_path, width):
    found = measure(site, width, tmp_path / "profile")
    assert int(found["width"]) <= width
    assert (found["images"], found["broken"], found["scripts"]) == ("18", "0", "0")
    assert found["styled"] == "1240px", "the policy lets the page's own stylesheet through"
    assert found["title"].startswith("ProAct-Stream")


def test_the_page_asks_for_nothing_else(site, tmp_path):
    site[2].clear()
    measure(site, 800, tmp_path / "profile")
    assert [path for path in site[2] if path != "/favicon.ico"] == ["/measure.html", "/report.html"]
