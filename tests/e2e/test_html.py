"""`inspect --format html` in a browser, and `--format dot` in Graphviz."""

import contextlib
import json
import re
import shutil
import subprocess
import time

import pytest
import torch
from torch import nn

from conftest import cleave

BROWSER = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(not BROWSER, reason="no chromium here, as cmake/packages.txt lists it for Debian")
WIDTHS, SCHEMES = (1000, 1600), ("light", "dark")


class Deep(nn.Module):
    """A layer for each of 48 stages, and what the first one gives again at the end."""

    def __init__(self):
        super().__init__()
        self.a_module_with_a_name_that_is_longer_than_its_column_is_wide = nn.Linear(6, 6)
        self.layers = nn.Sequential(*(nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(47)))

    def forward(self, x):
        first = self.a_module_with_a_name_that_is_longer_than_its_column_is_wide(x)
        return self.layers(first) + first


class Shown:
    """A plan, its JSON, that of its forecast, and its page."""

    def __init__(self, plan):
        self.plan = plan
        self.json = cleave("inspect", plan, "--json").json()
        self.forecast = cleave("simulate", plan, "--json").json()
        self.html = plan.with_suffix(".html")
        self.html.write_text(cleave("inspect", plan, "--format", "html").out)


@pytest.fixture(scope="module")
def gpt2(tiny_model, tmp_path_factory):
    # A name that would be markup.
    plan = tmp_path_factory.mktemp("html") / "<img src=x onerror=alert(1)>.plan"
    model = tiny_model("gpt2")
    cleave("compile", model.path, "--inputs", model.inputs, "--devices", 4, "--microbatches", 2, "-o", plan)
    return Shown(plan)


@pytest.fixture(scope="module")
def deep(tmp_path_factory):
    folder = tmp_path_factory.mktemp("deep")
    torch.jit.save(torch.jit.script(Deep().eval()), folder / "deep.pt")
    cleave("compile", folder / "deep.pt", "--input", "x:f32[4,6]", "--devices", 48, "-o", folder / "deep.plan")
    return Shown(folder / "deep.plan")


@pytest.fixture(scope="module")
def evaluated(tiny_model, tmp_path_factory):
    """Of tensor-parallel ranks with a limit, which was chosen among others."""
    folder = tmp_path_factory.mktemp("evaluated")
    device = {"flops_per_second": 2e9, "memory_bytes_per_second": 1e10, "operator_seconds": 1e-6, "memory_bytes": 2_000_000}
    machine = {"devices": [{"name": f"d{index}", **device} for index in range(4)],
               "link": {"latency_seconds": 4e-5, "bytes_per_second": 1e10}}
    (folder / "machine.json").write_text(json.dumps(machine))
    model = tiny_model("gpt2")
    cleave("compile", model.path, "--inputs", model.inputs, "--machine", folder / "machine.json", "--mesh", "auto",
           "-o", folder / "evaluated.plan")
    return Shown(folder / "evaluated.plan")


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """64 micro-batches on 2 devices of 2 stages."""
    folder = tmp_path_factory.mktemp("parts")
    torch.jit.save(torch.jit.script(Deep().eval()), folder / "deep.pt")
    cleave("compile", folder / "deep.pt", "--input", "x:f32[64,6]", "--devices", 2, "--microbatches", 64, "--schedule", "interleaved",
           "-o", folder / "parts.plan")
    return Shown(folder / "parts.plan")


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright in .venv: run make setup")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER)
        yield browser
        browser.close()


@contextlib.contextmanager
def opened(browser, shown, width=1600, scheme="light"):
    """The page, which jumps where it would scroll; nothing was asked of a network, and nothing went wrong."""
    page = browser.new_page(viewport={"width": width, "height": 1000}, color_scheme=scheme, reduced_motion="reduce")
    asked, said = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.goto(shown.html.as_uri())
    yield page
    assert asked == [shown.html.as_uri()] and said == []
    page.close()


def values(scope):
    """{key: [(value, shown text)]} of the numbers in an element."""
    found = {}
    for key, value, text in scope.locator("data").evaluate_all("all => all.map(e => [e.className, e.value, e.textContent])"):
        found.setdefault(key, []).append((json.loads(value), text))
    return found


OVERFLOWING = """() => {
  // Text that leaves the box it is in, or the page.
  const wrong = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, range = document.createRange();
    if (!node.textContent.trim()) continue;
    range.selectNodeContents(node);
    const text = range.getBoundingClientRect();
    const box = node.parentElement.closest('article, .arrow, .lane, .bars a, svg, td, th, dd, dt, li, p, h1, body').getBoundingClientRect();
    if (text.width && (text.right > box.right + 1 || text.left < box.left - 1)) wrong.push(node.textContent);
  }
  if (document.documentElement.scrollWidth > innerWidth) wrong.push('the page');
  return wrong;
}"""


@needs_browser
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ("gpt2", "deep", "evaluated", "parts"))
def test_stages_stand_side_by_side(name, width, scheme, browser, request):
    shown = request.getfixturevalue(name)
    with opened(browser, shown, width, scheme) as page:
        page.locator("details").evaluate_all("all => all.forEach(e => e.open = true)")
        boxes = [stage.bounding_box() for stage in page.locator("article.stage").all()]
        assert len(boxes) == len(shown.json["stages"])
        assert all(box["width"] >= 200 and box["y"] == boxes[0]["y"] for box in boxes)
        assert all(a["x"] + a["width"] < b["x"] for a, b in zip(boxes, boxes[1:]))
        assert page.evaluate(OVERFLOWING) == []
        assert page.locator("h1").inner_text() == shown.plan.name
        assert page.locator("script, img, link").count() == 0


@needs_browser
@pytest.mark.parametrize("name", ("gpt2", "deep"))
def test_numbers_are_those_of_the_json(name, browser, request):
    shown = request.getfixturevalue(name)
    plan = shown.json
    with opened(browser, shown) as page:
        for stage in plan["stages"]:
            article = page.locator(f"[data-stage='{stage['index']}']")
            found = values(article)
            for key in ("predicted_seconds", "predicted_peak_bytes", "predicted_activation_bytes", "weight_bytes", "ops"):
                assert [value for value, _ in found[key]] == [stage[key]], key
            assert found["predicted_seconds"][0][1] == f"{stage['predicted_seconds'] * 1e3:.2f} ms"
            assert found["predicted_peak_bytes"][0][1] == f"{stage['predicted_peak_bytes'] / 1e6:.2f} MB"
            assert article.locator(".device").inner_text() == ", ".join(stage["devices"])
            # Each module once: in the rows of the first level, that of others is contained.
            rows = [row.split("\n") for row in article.locator(".modules > li > .row, .modules > li > details > .row").all_inner_texts()]
            assert sum(int(row[-2].replace("–", "0")) for row in rows) == stage["ops"]
            assert sum(module["ops"] for module in stage["modules"]) == stage["ops"]
            assert sum(module["weight_bytes"] for module in stage["modules"]) == stage["weight_bytes"]
        assert len(plan["transfers"]) >= len(plan["stages"]) - 1
        for transfer in plan["transfers"]:
            edge = f"[data-transfer='{transfer['from']}-{transfer['to']}']"
            drawn = values(page.locator(f".pipeline {edge}"))["bytes_per_microbatch"]
            assert drawn == [(transfer["bytes_per_microbatch"], f"{transfer['bytes_per_microbatch'] / 1e6:.2f} MB")]
            row = values(page.locator(f"tr{edge}"))
            assert row["bytes"][0][0] == transfer["bytes"] and row["values"][0][0] == transfer["values"]
        for key in ("microbatches", "slices", "bubble_by_formula"):
            assert values(page)[key][0][0] == plan[key]
        assert values(page)["slowest_seconds"][0][0] == plan["balance"]["slowest_seconds"]
        assert page.locator("tr[data-weight]").evaluate_all("all => all.map(e => e.dataset.weight)") == \
            [weight["name"] for weight in plan["weights"]]


# One step -------------------------------------------------------------------------------------------------------------


@needs_browser
@pytest.mark.parametrize("name", ("gpt2", "deep", "evaluated", "parts"))
def test_the_step_is_the_one_that_is_forecast(name, browser, request):
    shown = request.getfixturevalue(name)
    with opened(browser, shown) as page:
        step = page.locator("#step")
        caption = values(step.locator(".caption"))
        assert [caption[key][0][0] for key in ("seconds", "bubble")] == [shown.forecast["seconds"], shown.forecast["bubble"]]
        assert caption["seconds"][0][1] == f"{shown.forecast['seconds'] * 1e3:.2f} ms"
        for rank, device in enumerate(shown.forecast["devices"]):
            row = values(step.locator(f"tr[data-rank='{rank}']"))
            for key in ("busy_seconds", "idle_seconds", "bubble", "weight_bytes", "peak_bytes", "memory_bytes"):
                assert [value for value, _ in row[key]] == [device[key]], key
            assert row["peak_bytes"][0][1] == f"{device['peak_bytes'] / 1e6:.2f}"
            # In front of and beside bars and lines, where those that are alike share one.
            for number in step.locator(f".name[data-rank='{rank}'], .numbers [data-rank='{rank}']").all():
                for key, found in values(number).items():
                    assert [value for value, _ in found] == [device[key]], key
        assert step.locator(".numbers [data-rank]").count() > 0


@needs_browser
@pytest.mark.parametrize("name", ("gpt2", "deep", "parts"))
def test_passes_stand_where_they_are_made(name, browser, request, tmp_path):
    shown = request.getfixturevalue(name)
    cleave("simulate", shown.plan, "--trace", tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    passes = [event for event in events if event["ph"] == "X" and event["cat"] == "compute"]
    with opened(browser, shown) as page:
        whole = page.locator("svg.timeline").bounding_box()
        drawn = page.locator("svg.timeline > rect.forward").evaluate_all(
            "all => all.map(e => [e.textContent.split(':')[0], e.getBoundingClientRect().toJSON()])")
        assert sorted(title for title, _ in drawn) == sorted(event["name"] for event in passes)
        by_name = {event["name"]: event for event in passes}
        for title, box in drawn:
            event = by_name[title]
            scale = whole["width"] / (shown.forecast["seconds"] * 1e6)
            assert box["x"] - whole["x"] == pytest.approx(event["ts"] * scale, abs=0.5)
            assert box["width"] == pytest.approx(event["dur"] * scale, abs=0.5)
        # One line of what it holds for each row of memory.
        assert page.locator("svg.timeline path.step").count() == page.locator("#step .chart .names .name data.peak_bytes").count()


OVERLAPPING = """() => {
  // Texts of a picture that touch, or leave it.
  const wrong = [];
  for (const picture of document.querySelectorAll('.chart svg')) {
    const frame = picture.getBoundingClientRect();
    const texts = [...picture.querySelectorAll('text')].map(e => [e.textContent, e.getBoundingClientRect()]);
    texts.sort((a, b) => a[1].left - b[1].left);
    texts.forEach(([text, box], index) => {
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1) wrong.push(text + ' leaves');
      for (const [other, its] of texts.slice(index + 1)) {
        if (its.left >= box.right) break;
        if (its.top < box.bottom - 2 && box.top < its.bottom - 2) wrong.push(text + ' on ' + other);
      }
    });
  }
  // Passes hold what they are called.
  for (const text of document.querySelectorAll('.timeline > text')) {
    const box = text.getBoundingClientRect(), behind = text.previousElementSibling.getBoundingClientRect();
    if (box.left < behind.left - 1 || box.right > behind.right + 1) wrong.push(text.textContent + ' is wider than its pass');
  }
  return wrong;
}"""


@needs_browser
@pytest.mark.parametrize("width", (390, *WIDTHS))
@pytest.mark.parametrize("name", ("gpt2", "deep", "evaluated", "parts"))
def test_words_of_pictures_do_not_touch(name, width, browser, request):
    shown = request.getfixturevalue(name)
    with opened(browser, shown, width) as page:
        assert page.locator(".chart svg text").count() > 3
        assert page.evaluate(OVERLAPPING) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # Rows stand beside their names.
        rows = page.locator("svg.timeline > rect.idle").evaluate_all("all => all.map(e => e.getBoundingClientRect().top)")
        names = page.locator("#step .names").first.locator(".name").evaluate_all("all => all.map(e => e.getBoundingClientRect().top)")
        assert rows == pytest.approx(names[: len(rows)], abs=1)


# What was evaluated ---------------------------------------------------------------------------------------------------


@needs_browser
def test_what_was_evaluated(evaluated, browser):
    candidates = evaluated.json["candidates"]
    points = [one for one in candidates if one["seconds"] > 0 and one["peak_bytes"] > 0]
    front = [one for one in points if not any(
        other["seconds"] <= one["seconds"] and other["peak_bytes"] <= one["peak_bytes"] and other != one for other in points)]
    assert len(candidates) > len(points) > 1
    with opened(browser, evaluated) as page:
        picture = page.locator("svg.pareto")
        assert picture.locator("circle").count() == len(points)
        assert picture.locator("circle.chosen").count() == 1
        titles = picture.locator("circle.on-front, circle.chosen").evaluate_all("all => all.map(e => e.textContent)")
        assert {f"{one['mesh']}, {one['schedule']}, {one['microbatches']} micro-batch{'es' if one['microbatches'] > 1 else ''}"
                for one in front} <= {title.split(":")[0] for title in titles}
        rows = page.locator("#evaluated tbody tr")
        assert rows.count() == len(candidates)
        for index, one in enumerate(candidates[:5]):
            found = values(rows.nth(index))
            assert [found[key][0][0] for key in ("microbatches", "seconds", "peak_bytes")] == \
                [one["microbatches"], one["seconds"], one["peak_bytes"]]
            assert rows.nth(index).locator("td").first.inner_text() == one["mesh"]
            assert rows.nth(index).locator("td").last.inner_text() == (one["reason"] or "chosen")


@needs_browser
def test_nothing_was_evaluated(gpt2, browser):
    with opened(browser, gpt2) as page:
        assert page.locator("svg.pareto").count() == 0
        assert "None." in page.locator("#evaluated").inner_text()


@needs_browser
def test_limits_of_memory(evaluated, gpt2, browser):
    with opened(browser, evaluated) as page:
        assert page.locator(".bars-of-memory line.limit").count() > 0
        assert values(page.locator(".numbers"))["memory_bytes"][0] == (2_000_000, "2.00")
    with opened(browser, gpt2) as page:
        assert page.locator(".bars-of-memory line.limit").count() == 0
        assert "memory_bytes" not in values(page.locator(".numbers"))


def test_traffic_of_a_microbatch_is_its_share(gpt2):
    for transfer in gpt2.json["transfers"]:
        assert 0 < transfer["bytes_per_microbatch"] < transfer["bytes"]


CONTRAST = """() => {
  const canvas = text => text.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
      .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = c => 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2];
  const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const page = light(canvas(getComputedStyle(document.body).backgroundColor));
  return ['body', '.caption', '.flag', '.device', '.facts dt'].map(e => document.querySelector(e)).filter(e => e)
      .map(e => ratio(light(canvas(getComputedStyle(e).color)), page));
}"""


@needs_browser
def test_is_light_and_dark(gpt2, browser):
    backgrounds = set()
    for scheme in SCHEMES:
        with opened(browser, gpt2, scheme=scheme) as page:
            backgrounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            # WCAG AA.
            assert min(page.evaluate(CONTRAST)) >= 4.5
    assert len(backgrounds) == 2


def becomes_true(page, expression):
    """`wait_for_function` is no help: it needs `eval`, which the page forbids."""
    begin = time.monotonic()
    while not page.evaluate(expression):
        assert time.monotonic() - begin < 60, expression
        page.wait_for_timeout(50)


@needs_browser
def test_keys_reach_everything(deep, browser):
    with opened(browser, deep, 1000) as page:
        pipeline = page.locator(".pipeline")
        pipeline.focus()
        page.keyboard.press("End")
        page.keyboard.press("ArrowRight")
        becomes_true(page, "document.querySelector('.pipeline').scrollLeft > 0")
        # A scroll that is under way would go on after the next.
        becomes_true(page, """() => { const at = [scrollY, document.querySelector('.pipeline').scrollLeft].join();
                                      const rests = window.before === at; window.before = at; return rests }""")
        # The overview leads to a stage.
        page.locator(".bars a").nth(40).focus()
        page.keyboard.press("Enter")
        becomes_true(page, """() => { const box = document.querySelector('#stage-40').getBoundingClientRect();
                                      return box.left >= 0 && box.right <= innerWidth }""")
        fold = page.locator("details").first
        assert fold.get_attribute("open") is None
        fold.locator("summary").focus()
        page.keyboard.press("Enter")
        assert fold.get_attribute("open") is not None


@pytest.mark.skipif(not shutil.which("dot"), reason="no graphviz here, as cmake/packages.txt lists it")
@pytest.mark.parametrize("name", ("gpt2", "deep"))
def test_graphviz_draws_it(name, request):
    shown = request.getfixturevalue(name)
    text = cleave("inspect", shown.plan, "--format", "dot").out
    done = subprocess.run(["dot", "-Tsvg"], input=text, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    titles = re.findall(r"<title>(.*?)</title>", done.stdout)
    assert {f"s{stage['index']}" for stage in shown.json["stages"]} <= set(titles)
    assert {f"s{transfer['from']}&#45;&gt;s{transfer['to']}" for transfer in shown.json["transfers"]} <= set(titles)
    for transfer in shown.json["transfers"]:
        assert f"{transfer['bytes_per_microbatch'] / 1e6:.2f} MB" in done.stdout
