"""A model that nobody here has written: the scripted silero-vad, which keeps state, branches on data and raises."""

import importlib.util
import pathlib

import pytest
import torch
from safetensors.torch import load_file, save_file

from conftest import cleave


@pytest.fixture(scope="module")
def silero():
    package = importlib.util.find_spec("silero_vad").submodule_search_locations[0]
    return pathlib.Path(package) / "data/silero_vad.jit"


def speech(seconds):
    """Vowels that begin and end, in noise, at 16 kHz: as chunks of 512 samples."""
    generator = torch.Generator().manual_seed(0)
    time = torch.arange(16000 * seconds) / 16000
    tone = sum(torch.sin(2 * torch.pi * 120 * k * time) / k for k in range(1, 30))
    open_mouth = (torch.sin(2 * torch.pi * 0.7 * time) > 0).float()
    signal = 0.1 * tone * open_mouth + 0.01 * torch.randn(time.shape, generator=generator)
    return signal[:len(signal) // 512 * 512].reshape(-1, 1, 512)


@pytest.mark.parametrize("devices", [1, 2])
def test_silero_vad_streams(silero, tmp_path, devices):
    cleave("compile", silero, "--input", "x:f32[1,512]", "--input", "sr=16000", "--devices", str(devices), "--verify",
           "-o", "vad.plan", cwd=tmp_path)
    chunks = speech(3)
    save_file({"x": chunks}, tmp_path / "speech.safetensors")
    cleave("run", "vad.plan", "--inputs", "speech.safetensors", "--outputs", "found.safetensors", "--stream",
           "--check-types", cwd=tmp_path)
    found = load_file(tmp_path / "found.safetensors")["output"]
    original = torch.jit.load(silero)
    with torch.no_grad():
        expected = torch.stack([original(chunk, 16000) for chunk in chunks])
    assert found.shape == expected.shape == (len(chunks), 1, 1)
    assert expected.max() - expected.min() > 0.01
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("samples, rate, words", [
    (500, 16000, "Input audio chunk is too short"),
    (600, 16000, "Provided number of samples is 600 (Supported values: 256 for 8000 sample rate, 512 for 16000)"),
    (512, 11025, "Supported sampling rates: [8000, 16000] (or multiply of 16000)"),
])
def test_silero_vad_says_what_it_does_not_take(silero, tmp_path, samples, rate, words):
    error = cleave("compile", silero, "--input", f"x:f32[1,{samples}]", "--input", f"sr={rate}", "-o", "vad.plan",
                   status=1, cwd=tmp_path).err
    assert error.count("\n") == 1 and words in error, error
