"""Losses of a training on the page of its plan."""

import json
import re

import pytest

from conftest import cleave
from training_modules import Classifier, compiled, traced

pytestmark = pytest.mark.usefixtures("one_thread")


def test_losses_on_the_page(tmp_path):
    traced(Classifier, tmp_path)
    compiled(tmp_path)
    report = cleave("train", "model.plan", "--data", "data.safetensors", "--steps", 12, "--lr", 1e-2, "--json", cwd=tmp_path)
    (tmp_path / "report.json").write_text(report.out)
    losses = json.loads(report.out)["losses"]
    page = cleave("inspect", "model.plan", "--format", "html", "--training", "report.json", cwd=tmp_path).out
    assert f"12 steps, from {losses[0]:.4f} to {losses[-1]:.4f}." in page
    section = page[page.index("<h2>Loss</h2>"):].split("</section>")[0]
    # The curve: its first point, and a line to each of the others; the highest loss is at the top.
    heights = [float(y) for y in re.findall(r'(?:cy|y2)="([^"]*)"', section)]
    assert len(heights) == 12 and heights[losses.index(max(losses))] == 0
    assert sorted(range(12), key=lambda step: -heights[step]) == sorted(range(12), key=lambda step: losses[step])
    assert "<h2>Loss</h2>" not in cleave("inspect", "model.plan", "--format", "html", cwd=tmp_path).out


def test_losses_that_are_not_finite_or_huge(tmp_path):
    traced(Classifier, tmp_path)
    compiled(tmp_path)
    (tmp_path / "report.json").write_text('{"losses": [2.5, null, 1e308, -1e308, 1.5e9, 1.25]}')
    page = cleave("inspect", "model.plan", "--format", "html", "--training", "report.json", cwd=tmp_path).out
    section = page[page.index("<h2>Loss</h2>"):].split("</section>")[0]
    assert "6 steps, from 2.5000 to 1.2500; 3 of them not finite, and not drawn." in section
    assert not re.search("[-+]?(nan|inf)[^i]", section, re.IGNORECASE)


@pytest.mark.parametrize("content, found", [("{", "Expected object key"), ("[" * 200_000, "levels of arrays"), ("[]", "no losses"), ('{"losses": []}', "no losses"),
                                            ('{"losses": ["1"]}', "a loss that is no number"), (None, "No such file")])
def test_a_report_without_losses_is_refused(content, found, tmp_path):
    traced(Classifier, tmp_path)
    compiled(tmp_path)
    if content is not None:
        (tmp_path / "report.json").write_text(content)
    said = cleave("inspect", "model.plan", "--format", "html", "--training", "report.json", cwd=tmp_path, status=1)
    assert said.err.startswith("error: report.json: ") and found in said.err and not said.out
    assert "expected --format html" in cleave("inspect", "model.plan", "--training", "report.json", cwd=tmp_path, status=2).err
