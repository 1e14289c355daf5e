"""What TransformerLens itself says of a model: usage: answers.py FILE.py:FUNCTION FOLDER.

Into FOLDER it writes
- cache.safetensors: what each hook point returns in one request, by the path of its module; the second call is PATH#2;
- first.safetensors: the same for the first half of the batch;
- edits.safetensors: the logits when a hook at NAME edits what it gets, by NAME;
- prompts.safetensors: a clean and a corrupted prompt, and two answers;
- patching.safetensors: the difference of their logits with the corrupted prompt when one position of a hook point has the value
  that it has with the clean prompt, for each layer and position, as transformer_lens.patching computes it;
- points.json: `called`, the path of the module of each hook point that is called, by name; `converted`, those whose cache has
  another layout than what the module returns; `not_called`.
"""

import contextlib
import importlib.util
import io
import json
import keyword
import pathlib
import sys

import torch
from safetensors.torch import save_file

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from edit import CORRUPTED, PATCHED, edit, is_edited


def main(source, folder):
    torch.set_num_threads(1)
    path, _, function = source.rpartition(":")
    spec = importlib.util.spec_from_file_location("models", path)
    models = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(models)
    torch.manual_seed(0)
    model, (tokens,) = getattr(models, function)()
    folder = pathlib.Path(folder)
    with torch.no_grad():
        paths = {id(point): path_of(point) for point in model.hook_dict.values()}
        found, called, converted = values(model, tokens, paths)
        save(found, folder / "cache.safetensors")
        save(values(model, tokens[:len(tokens) // 2], paths)[0], folder / "first.safetensors")
        edits = {name: model.run_with_hooks(tokens, fwd_hooks=[(name, lambda value, hook: edit(value))])
                 for name in called if is_edited(name)}
        save(edits, folder / "edits.safetensors")
        prompts, patching = patched(model, tokens)
        save(prompts, folder / "prompts.safetensors")
        save(patching, folder / "patching.safetensors")
    not_called = [name for name, point in model.hook_dict.items() if paths[id(point)] not in called.values()]
    points = {"called": called, "converted": converted, "not_called": not_called}
    (folder / "points.json").write_text(json.dumps(points))


def path_of(point):
    """The capture point's name, in which cleave-trace gives a `_` to words of Python."""
    return ".".join(f"{part}_" if keyword.iskeyword(part) else part for part in point.name.split("."))


def save(tensors, path):
    save_file({name: value.clone().contiguous() for name, value in tensors.items()}, path)


def values(model, tokens, paths):
    """What each call of each hook point returns, the paths of hook points by name, and the names of those that convert it.

    The cache of TransformerLens has the last call of each, in the layout that hooks see.
    """
    found, calls = {}, {}

    def keep(point, _arguments, value):
        path = paths[id(point)]
        calls[path] = calls.get(path, 0) + 1
        found[path if calls[path] == 1 else f"{path}#{calls[path]}"] = value.clone()

    handles = [point.register_forward_hook(keep) for point in {id(point): point for point in model.hook_dict.values()}.values()]
    model(tokens)
    for handle in handles:
        handle.remove()
    _, cache = model.run_with_cache(tokens)
    called = {name: paths[id(model.hook_dict[name])] for name in cache.keys()}
    assert set(called.values()) == set(calls), set(called.values()) ^ set(calls)
    converted = []
    for name, path in called.items():
        last, cached = (value.nan_to_num() for value in (found[path if calls[path] == 1 else f"{path}#{calls[path]}"], cache[name]))
        if last.shape != cached.shape:
            converted.append(name)
            last, cached = (value.flatten().sort().values for value in (last, cached))
        assert torch.equal(last, cached), name
    return found, called, converted


def patched(model, tokens):
    from transformer_lens import patching

    clean = tokens[:1].clone()
    corrupted = clean.clone()
    corrupted[0, CORRUPTED] = (clean[0, CORRUPTED] + 1) % model.cfg.d_vocab
    # The answers are the tokens whose logits the corruption moves farthest up and down.
    change = (model(clean) - model(corrupted))[0, -1]
    answers = torch.stack([change.argmax(), change.argmin()])
    clean_logits, cache = model.run_with_cache(clean)

    def difference(logits):
        return logits[0, -1, answers[0]] - logits[0, -1, answers[1]]

    found = {"clean": difference(clean_logits), "corrupted": difference(model(corrupted))}
    for point in PATCHED:
        if f"blocks.0.{point}" not in cache:
            continue
        function = getattr(patching, "get_act_patch_" + point.removeprefix("hook_"))
        with contextlib.redirect_stderr(io.StringIO()):  # a bar of progress
            found[point] = function(model, corrupted, cache, difference)
    return {"clean": clean, "corrupted": corrupted, "answers": answers}, found


if __name__ == "__main__":
    main(*sys.argv[1:])
