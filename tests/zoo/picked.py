"""The models of docs/coverage.md: how each is traced, and what came of it over 2 and 4 devices.

`make zoo` traces and compiles all of them, holds each plan to its original and writes the table; tests/e2e/test_zoo.py does
a part of it and holds the table to it.
"""

import argparse
import contextlib
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
SOURCE = FOLDER.parents[1]
PAGE = SOURCE / "docs/coverage.md"
BEGIN, END = "<!-- make zoo: begin -->", "<!-- make zoo: end -->"
DEVICES = (2, 4)


@dataclasses.dataclass(frozen=True)
class Entry:
    source: str  # as cleave-trace takes it
    what: str  # what is special about it
    config: str = ""
    dynamic: tuple[str, ...] = ()  # as `cleave compile` takes them
    is_tested: bool = False  # in `make test`
    options: tuple[str, ...] = ()

    @property
    def trace(self):
        """The arguments of cleave-trace."""
        if ":" in self.source:
            return (self.source, "--config", self.config, "--batch", "2", "--seq", "16", *self.options)
        return (f"{FOLDER / 'models.py'}:{self.source}",)


def fields(*more, **names):
    """Sizes of a tiny model by the names that its configuration has for them."""
    return ",".join([*(f"{name}={value}" for name, value in names.items()), *more])


DECODER = fields(vocab_size=128, hidden_size=32, num_hidden_layers=4, num_attention_heads=4, intermediate_size=64,
                 max_position_embeddings=64)
GROUPED = f"{DECODER},num_key_value_heads=2"
GPT = fields(vocab_size=128, n_embd=32, n_layer=4, n_head=4)
SPEECH = fields(vocab_size=128, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64)
VISION = fields(hidden_size=32, num_hidden_layers=4, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8)
TEXT, MASKED = ("input_ids=batch,seq",), ("input_ids=batch,seq", "attention_mask=batch,seq")
TRANSLATED = ("input_ids=batch,seq", "decoder_input_ids=batch,target")
IMAGES = ("pixel_values=batch,_,_,_",)

ZOO = {
    # Decoders.
    "gpt2": Entry("hf:gpt2", "learned positions, tied embeddings", f"{GPT},n_positions=64", TEXT),
    "gpt_neo": Entry("hf:gpt_neo", "local attention by turns", fields(
        'attention_types=[[["global","local"],2]]', vocab_size=128, hidden_size=32, num_layers=4, num_heads=4,
        max_position_embeddings=64, window_size=8), TEXT),
    "gptj": Entry("hf:gptj", "rotary positions of part of a head", f"{GPT},n_positions=64,rotary_dim=4", TEXT),
    "gpt_neox": Entry("hf:gpt_neox", "fused QKV by heads", DECODER, TEXT),
    "opt": Entry("hf:opt", "positions from a mask's sum", fields(
        vocab_size=128, hidden_size=32, num_hidden_layers=4, num_attention_heads=4, ffn_dim=64, max_position_embeddings=64,
        word_embed_proj_dim=32), TEXT),
    "bloom": Entry("hf:bloom", "ALiBi, an autograd function", fields(vocab_size=128, hidden_size=32, n_layer=4, n_head=4),
                   TEXT),
    "falcon": Entry("hf:falcon", "one key for all heads", fields(
        vocab_size=128, hidden_size=32, num_hidden_layers=4, num_attention_heads=4), TEXT),
    "llama": Entry("hf:llama", "rotary positions, grouped keys, RMS norm", GROUPED, TEXT, True),
    "mistral": Entry("hf:mistral", "sliding window", f"{GROUPED},sliding_window=8", TEXT, True),
    "qwen2": Entry("hf:qwen2", "biases in QKV", GROUPED, TEXT),
    "qwen3": Entry("hf:qwen3", "norms of queries and keys", f"{GROUPED},head_dim=8", TEXT),
    "gemma2": Entry("hf:gemma2", "soft caps, windows by turns", f"{GROUPED},head_dim=8,sliding_window=8", TEXT),
    "phi3": Entry("hf:phi3", "fused gate and up", f"{GROUPED},pad_token_id=0", TEXT),
    "mixtral": Entry("hf:mixtral", "experts chosen by token", f"{GROUPED},num_local_experts=4", TEXT, True),
    "qwen2_moe": Entry("hf:qwen2_moe", "experts, and one shared by all", ",".join([GROUPED, fields(
        num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=32)]), TEXT),
    "mamba": Entry("hf:mamba", "a scan, unrolled by the trace", fields(
        vocab_size=128, hidden_size=32, num_hidden_layers=4, state_size=8), ("input_ids=batch,_",), True),
    # Encoders, and both.
    "bert": Entry("hf:bert", "padding masks", DECODER, MASKED),
    "roberta": Entry("hf:roberta", "positions from a cumulative sum", DECODER, MASKED),
    "distilbert": Entry("hf:distilbert", "", fields(
        vocab_size=128, dim=32, n_layers=4, n_heads=4, hidden_dim=64, max_position_embeddings=64), MASKED),
    "deberta_v2": Entry("hf:deberta-v2", "relative attention both ways, scripted functions", ",".join([DECODER, fields(
        'pos_att_type=["p2c","c2p"]', relative_attention="true")]), MASKED),
    "electra": Entry("hf:electra", "", f"{DECODER},embedding_size=32", MASKED),
    "albert": Entry("hf:albert", "one layer used again and again", f"{DECODER},embedding_size=32", MASKED),
    "t5": Entry("hf:t5", "encoder and decoder, position buckets", fields(
        vocab_size=128, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4), TRANSLATED),
    "bart": Entry("hf:bart", "encoder and decoder, shifted labels", f"{SPEECH},max_position_embeddings=64", TRANSLATED),
    "whisper": Entry("hf:whisper", "sound in, text out", ",".join([SPEECH, fields(
        max_source_positions=40, max_target_positions=32, num_mel_bins=16, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=1)]), ("input_features=batch,_,_", "decoder_input_ids=batch,target"), True),
    "wav2vec2": Entry("hf:wav2vec2", "convolutions over samples, weight norm", fields(
        "conv_dim=[16,16]", "conv_stride=[4,2]", "conv_kernel=[8,3]", vocab_size=128, hidden_size=32, num_hidden_layers=4,
        num_attention_heads=4, intermediate_size=64, num_feat_extract_layers=2, num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=2), ("input_values=batch,_",)),
    # Images.
    "vit": Entry("hf:vit", "", VISION, IMAGES),
    "swin": Entry("hf:swin", "shifted windows", fields(
        "depths=[2,2]", "num_heads=[2,4]", image_size=32, patch_size=4, embed_dim=16, window_size=4), IMAGES, True),
    "convnext": Entry("hf:convnext", "depthwise convolutions", fields(
        "hidden_sizes=[16,32]", "depths=[1,2]", num_stages=2, image_size=64), IMAGES),
    "resnet": Entry("hf:resnet", "batch norm", fields(
        "hidden_sizes=[16,32]", "depths=[2,2]", embedding_size=16, layer_type="basic"), IMAGES),
    "detr": Entry("hf:detr", "a set of boxes by queries", ",".join([fields(
        'backbone_config={"model_type":"resnet","embedding_size":16,"hidden_sizes":[16,32],"depths":[1,2],'
        '"layer_type":"basic","out_features":["stage2"]}', d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, num_queries=5)])),
    "clip": Entry("hf:clip", "two towers, several outputs", ",".join([
        *(f"text_config.{field}" for field in fields(
            vocab_size=128, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
            max_position_embeddings=64, bos_token_id=1, eos_token_id=2).split(",")),
        *(f"vision_config.{field}" for field in VISION.split(",")), "projection_dim=16"]), is_tested=True),
    # Plain PyTorch.
    "unet": Entry("unet", "skips; sides are multiples of 8", dynamic=("x=batch,_,height,width",), is_tested=True),
    "lstm": Entry("lstm", "torch.nn.LSTM, two layers, both ways", dynamic=("ids=batch,seq",)),
    "gru": Entry("gru", "torch.nn.GRU", dynamic=("ids=batch,seq",)),
    "encoder": Entry("encoder", "torch.nn.TransformerEncoder with padding", dynamic=("x=batch,seq,_", "padding=batch,seq"),
                     is_tested=True),
    "translator": Entry("translator", "torch.nn.Transformer", dynamic=("source=batch,seq,_", "target=batch,target,_")),
    "heads": Entry("heads", "nested dictionaries of outputs", dynamic=("x=batch,_",), is_tested=True),
    "in_place": Entry("in_place", "updates in place", dynamic=("x=batch,_", "keep=batch"), is_tested=True),
    "scripted": Entry("scripted", "scripted if, for and while", dynamic=("x=batch,_",), is_tested=True),
    "depthwise": Entry("depthwise", "separable convolutions over time, attentive pooling", dynamic=("x=batch,_,time",)),
}


@dataclasses.dataclass
class Found:
    """What compiling a model over some devices gave."""
    calls: int
    known: int
    sizes: list[str]
    seconds: list[float]
    error: float = 0
    allowed: float = 1

    def row(self, name):
        entry = ZOO[name]
        what = [entry.what] if entry.what else []
        seconds = ", ".join(f"{value:.1f}" for value in self.seconds)
        return (f"| {name} | {'; '.join(what)} | {', '.join(self.sizes) or '–'} | {self.known} of {self.calls} | {seconds} | "
                f"{self.error:.0e} / {self.allowed:.0e} |")


HEADER = """| model | | sizes that may change | calls with semantics | compile, s | largest error / allowed |
|---|---|---|---|---|---|"""


def compiled(name, model, cleave, folder):
    """Compiles a traced model for each number of devices, held to the original; `cleave` runs it and returns its JSON."""
    found = None
    for devices in DEVICES:
        plan = folder / f"{name}.{devices}.plan"
        dynamic = [word for option in ZOO[name].dynamic for word in ("--dynamic", option)]
        report = cleave("compile", model, "--inputs", model.with_suffix(".inputs.safetensors"), "--devices", devices, *dynamic,
                        "--verify", "--json", "-o", plan)
        facts = cleave("inspect", plan, "--json")
        assert report["stages"] == devices, f"{name}: {report['stages']} stages over {devices} devices"
        if found is None:
            found = Found(facts["calls"], facts["calls"] - sum(op["calls"] for op in facts["replicated_ops"]),
                          [symbol["name"] for symbol in facts["signatures"][0]["symbols"]], [])
        found.seconds.append(sum(report[f"{step}_seconds"] for step in ("read", "pass", "write")))
        if report["error"] * found.allowed >= found.error * report["allowed"]:
            found.error, found.allowed = report["error"], report["allowed"]
    return found


def rows():
    """The table's rows by model, as docs/coverage.md has them."""
    table = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    lines = [line for line in table.splitlines() if line.startswith("| ")][1:]
    return {line.split("|")[1].strip(): line for line in lines}


def write(lines):
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text("\n".join([before + BEGIN, HEADER, *lines, END]) + rest.partition(END)[2])


def run(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description="Traces, compiles and verifies the models of docs/coverage.md.")
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build/bin", help="where the executables are")
    parser.add_argument("--only", nargs="*", metavar="MODEL", help="these, and leave the table alone")
    options = parser.parse_args()
    sys.path.insert(0, str(SOURCE / "tools/cleave-trace"))
    from cleave_trace import cli

    lines, failed = [], 0
    for name in options.only or ZOO:
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder) / f"{name}.pt"
            try:
                with contextlib.redirect_stdout(sys.stderr):
                    assert cli.main([*ZOO[name].trace, "-o", str(model)]) == 0, "cannot be traced"
                found = compiled(name, model, lambda *arguments: run(options.bin / "cleave", *arguments), model.parent)
                lines.append(found.row(name))
                print(lines[-1], flush=True)
            except (AssertionError, RuntimeError) as error:
                failed += 1
                print(f"{name}: {error}", file=sys.stderr, flush=True)
    if not failed and not options.only:
        write(lines)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
