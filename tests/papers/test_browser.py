"""The report in a real browser, as wide as a desk and as a phone: no error, nothing sticks out."""

import json
import re
import shutil
import subprocess

import pytest

from papers.site.pages import REPORT

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTHS = (1280, 390)
PROBE = """<script>
const errors = [];
addEventListener("error", event => errors.push(event.message));
addEventListener("load", () => {
  const whole = document.documentElement;
  const broken = [...document.images].filter(one => !one.naturalWidth).length;
  const out = [...document.querySelectorAll("body *")]
    .filter(one => !one.closest(".scroll, figure, pre"))
    .filter(one => one.getBoundingClientRect().right > whole.clientWidth + 1)
    .map(one => one.outerHTML.slice(0, 90));
  const sizes = {inner: innerWidth, wide: whole.scrollWidth, out: out.slice(0, 3)};
  parent.postMessage({name: NAME, ...sizes, errors, broken}, "*");
});
</script>"""
FRAMES = """<pre id="found"></pre><script>
const found = [];
addEventListener("message", event => {
  found.push(event.data);
  document.getElementById("found").textContent = JSON.stringify(found);
});
</script>"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """What a browser finds at each width."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip("no Chromium here (apt-get install chromium)")
    folder = tmp_path_factory.mktemp("browser")
    frames = FRAMES
    for width in WIDTHS:
        name = f"report-{width}"
        probe = PROBE.replace("NAME", json.dumps(name))
        text = REPORT.read_text().replace("<style>", f"{probe}<style>", 1)
        (folder / f"{name}.html").write_text(text)
        frames += f'<iframe width="{width}" height="800" src="{name}.html"></iframe>'
    (folder / "frames.html").write_text(frames)
    ran = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
         f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=20000", "--dump-dom",
         str(folder / "frames.html")],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    found = json.loads(re.search(r'<pre id="found">(.*?)</pre>', ran.stdout)[1])
    console = [line for line in ran.stderr.splitlines() if ":CONSOLE" in line]
    return {each["name"]: each for each in found}, console


def test_the_page_fits_a_desk_and_a_phone(seen):
    found, console = seen
    assert len(found) == 2 and console == []
    for name, each in found.items():
        assert each["inner"] == int(name.rpartition("-")[2])
        assert each["wide"] <= each["inner"], f"{name} is {each['wide']} wide: {each['out']}"
        assert each["errors"] == [] and each["broken"] == 0
