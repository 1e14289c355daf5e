"""IR as text, which `cleave simulate` takes in place of a model: what of it cannot be."""

import pytest
from conftest import cleave, execute, refused

LINEAR = """func.func @forward(%x: tensor<2x4xf32>) -> !cleave.tensor {
  %w = cleave.param "fc.weight" {role = "parameter"} : tensor<3x4xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %w, %none) : (tensor<2x4xf32>, tensor<3x4xf32>, none) -> tensor<2x3xf32>
  %1 = aten.relu(%0) : (tensor<2x3xf32>) -> !cleave.tensor
  return %1 : !cleave.tensor
}
"""
NAMED = """!x = tensor<?x4xf32, #cleave.layout<dims = ["batch", "4"]>>
func.func @forward(%x: !x) -> !x attributes {cleave.symbols = {batch = 8 : i64}} {
  %0 = aten.relu(%x) : (!x) -> !x
  return %0 : !x
}
"""
HUGE = 2**62


def simulate(folder, text, *options):
    (folder / "model.mlir").write_text(text)
    return cleave("simulate", "model.mlir", *options, "--json", cwd=folder).json()


def refuse(folder, text, *options, **how):
    (folder / "model.mlir").write_text(text)
    return refused(folder, "simulate", "model.mlir", *options, **how)


@pytest.mark.parametrize("wrong", ["tensor<2x3xi64>", "tensor<3x2xf32>", "tensor<2x3x1xf32>", "tensor<2x3xbf16>"])
@pytest.mark.parametrize("options", [(), ("--train",), ("--mesh", "tp=2")], ids=["stages", "train", "tp"])
def test_types_are_those_that_operators_give(tmp_path, wrong, options):
    assert (f"model.mlir: line 4: aten.linear: found a result of '{wrong}', expected 'tensor<2x3xf32>', which is what it "
            "gives; correct the type, or leave it out as !cleave.tensor") in refuse(
                tmp_path, LINEAR.replace("tensor<2x3xf32>", wrong), *options)


def test_types_may_be_left_out(tmp_path):
    assert simulate(tmp_path, LINEAR) == simulate(tmp_path, LINEAR.replace("tensor<2x3xf32>", "!cleave.tensor"))


def test_sizes_are_those_that_operators_give(tmp_path):
    for other in ("2*batch", "8"):
        result = '!x = tensor<?x4xf32, #cleave.layout<dims = ["batch", "4"]>>\n!y = ' + (
            "tensor<8x4xf32>" if other == "8" else f'tensor<?x4xf32, #cleave.layout<dims = ["{other}", "4"]>>')
        text = NAMED.split("\n", 1)[1].replace("-> !x", "-> !y").replace("return %0 : !x", "return %0 : !y")
        assert "aten.relu: found a result of" in refuse(tmp_path, result + "\n" + text)


def test_strides_may_be_left_out(tmp_path):
    """A transposed tensor that is said to be row-major is no other tensor."""
    text = """func.func @forward(%x: tensor<2x4xf32>) -> tensor<8xf32> {
  %zero = cleave.constant(0 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %all = cleave.constant([-1]) : !cleave.list<i64>
  %0 = aten.transpose.int(%x, %zero, %one) : (tensor<2x4xf32>, i64, i64) -> tensor<4x2xf32>
  %1 = aten.reshape(%0, %all) : (tensor<4x2xf32>, !cleave.list<i64>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}
"""
    # What `reshape` copies is memory of the step.
    assert simulate(tmp_path, text) == simulate(tmp_path, text.replace("-> tensor<4x2xf32>", "-> !cleave.tensor").replace(
        "(tensor<4x2xf32>,", "(!cleave.tensor,"))


@pytest.mark.parametrize("options", [(), ("--train",), ("--mesh", "auto", "--devices", 2)], ids=["stages", "train", "auto"])
@pytest.mark.parametrize("size", [f"{HUGE}x4", f"{2**40}x{2**40}", f"4x{2**61}", f"{2**31}x{2**31}x{2**31}"])
def test_absurd_weights(tmp_path, size, options):
    text = LINEAR.replace("tensor<3x4xf32>", f"tensor<{size}xf32>").replace("-> tensor<2x3xf32>", "-> !cleave.tensor").replace(
        "(tensor<2x3xf32>)", "(!cleave.tensor)")
    assert (f"model.mlir: line 2: found a 'tensor<{size}xf32>', expected at most {2**50} bytes a tensor; give smaller sizes"
            in refuse(tmp_path, text, *options))


def test_absurd_sizes(tmp_path):
    assert "found a 'tensor<?x4xf32" in refuse(tmp_path, NAMED.replace('"batch", "4"', '"batch*batch*batch*batch", "4"').replace(
        "batch = 8", f"batch = {2**20}"))
    for size in (2**31, HUGE, -1):
        assert (f"found another size of batch than expected, an i64 from 1 to {2**31 - 1}"
                in refuse(tmp_path, NAMED.replace("batch = 8", f"batch = {size}")))
    # A result, which no type states.
    text = """func.func @forward(%x: tensor<1x1xf32>) -> !cleave.tensor {
  %sizes = cleave.constant([SIZE, SIZE]) : !cleave.list<i64>
  %false = cleave.constant(false) : i1
  %0 = aten.expand(%x, %sizes, %false) : (tensor<1x1xf32>, !cleave.list<i64>, i1) -> !cleave.tensor
  %1 = aten.relu(%0) : (!cleave.tensor) -> !cleave.tensor
  return %1 : !cleave.tensor
}
"""
    for size in (2**26, 2**30, 2**40):
        why = refuse(tmp_path, text.replace("SIZE", str(size)))
        assert "model.mlir: line 4: " in why and (f"expected at most {2**50} bytes a tensor" in why or "fails" in why), why


def test_a_large_batch_is_searched_at_once(tmp_path):
    assert simulate(tmp_path, NAMED.replace("batch = 8", f"batch = {2**31 - 1}"), "--devices", 1, "--microbatches", "auto")["microbatches"] == 1


def test_names_stand_for_one_thing(tmp_path):
    twice = LINEAR.replace("  %none", '  %v = cleave.param "fc.weight" {role = "parameter"} : tensor<5x4xf32>\n  %none')
    assert ('model.mlir: line 3: found weight "fc.weight" of \'tensor<5x4xf32>\', expected \'tensor<3x4xf32>\' as where it is '
            "named first; give each weight a name of its own") in refuse(tmp_path, twice)
    inputs = NAMED.replace("(%x: !x)", '(%x: !x {cleave.name = "x"}, %y: !x {cleave.name = "x"})')
    assert 'arguments 0 and 1 are both called "x"; give each input a name of its own' in refuse(tmp_path, inputs)


def test_cycles(tmp_path):
    text = LINEAR.replace("aten.linear(%x,", "aten.linear(%1,").replace("(tensor<2x4xf32>, tensor<3x4xf32>", "(!cleave.tensor, tensor<3x4xf32>")
    assert "model.mlir: line 4: operand #0 does not dominate this use" in refuse(tmp_path, text)


@pytest.mark.parametrize("said", [
    "target = #cleave.target<link_overrides = [#cleave.link_override<0 -> 1, [1.0, 1.0]>]>",
    'target = #cleave.target<devices = ["x"], threads = [99], memory_limits = [1]>', 'schedule = #cleave.schedule<pipeline_ranks = 7, batch = "x">',
    'schedule = #cleave.schedule<pipeline_ranks = 1, batch_obstacle = "a wall">',
])
def test_what_a_pass_decides_is_not_taken_from_the_text(tmp_path, said):
    plain = simulate(tmp_path, LINEAR, "--devices", 2)
    text = LINEAR.replace("!cleave.tensor {", f"!cleave.tensor attributes {{cleave.{said}}} {{", 1)
    assert text != LINEAR and simulate(tmp_path, text, "--devices", 2) == plain


@pytest.mark.parametrize("where, said", [
    ("!cleave.tensor {", "sharding_decision = #cleave.sharding_decision<groups = [], seconds = [1.0, 1.0]>"),
    ("!cleave.tensor {", "cut = #cleave.cut<seconds = [1.0], recv_bytes = [0]>"),
    ('{role = "parameter"', "weight_sharding = #cleave.weight_sharding<seed = <dim = 1>>"),
    ('{role = "parameter"', "stage_index = 5 : i64"),
], ids=lambda said: said.split(" ")[0])
def test_what_is_split_already(tmp_path, where, said):
    text = LINEAR.replace(where, f"{where}, cleave.{said}" if "role" in where else
                          f"!cleave.tensor attributes {{cleave.{said}}} {{", 1)
    for options in ((), ("--devices", 2), ("--mesh", "tp=2")):
        assert "model.mlir: found one that is split already, expected a function" in refuse(tmp_path, text, *options)


@pytest.mark.parametrize("said, expected", [
    ("schedule = 7", "cleave.schedule: found 7 : i64, expected #cleave.schedule<...>"),
    ("schedule = #cleave.schedule<pipeline_ranks = 0>", "found pipeline_ranks = 0, expected 1 to 65536"),
    ("size_limits = {batch = 4}", "expected a #cleave.size_limit<...> for each named dimension"),
])
def test_decisions_of_another_form(tmp_path, said, expected):
    text = LINEAR.replace("!cleave.tensor {", f"!cleave.tensor attributes {{cleave.{said}}} {{", 1)
    assert expected in refuse(tmp_path, text)


@pytest.mark.parametrize("tree", ["5.0", "[]", '["dict", 0, 0]', '["fixed"]', '["tuple", "x"]', "-1"])
def test_trees_that_are_none(tmp_path, tree):
    text = LINEAR.replace("!cleave.tensor {", f"!cleave.tensor attributes {{cleave.input_tree = {tree}}} {{", 1)
    assert "cleave.input_tree: found " in refuse(tmp_path, text)


def test_parts_that_do_not_meet(tmp_path):
    """Inputs that nobody reads, weights that nobody uses, results that come from nowhere."""
    text = """func.func @forward(%x: tensor<2x4xf32>, %unused: tensor<9xf32>) -> (tensor<2x4xf32>, tensor<3xf32>) {
  %lost = cleave.param "lost" {role = "parameter"} : tensor<1000xf32>
  %w = cleave.param "w" {role = "parameter"} : tensor<3xf32>
  %0 = aten.relu(%x) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = aten.relu(%w) : (tensor<3xf32>) -> tensor<3xf32>
  return %0, %1 : tensor<2x4xf32>, tensor<3xf32>
}
"""
    for options in ((), ("--devices", 2), ("--mesh", "auto", "--devices", 2), ("--mesh", "tp=2")):
        assert simulate(tmp_path, text, *options)["devices"]


def test_text_that_ends_the_parser(tmp_path):
    """Names that one function uses are defined in another, which does not parse: cleaning up, MLIR 19 writes to freed memory."""
    names = ", ".join(f"%{i}" for i in range(8))
    constants = "".join(f"  %{i} = cleave.constant({i} : i64) : i64\n" for i in range(8))
    text = f"func.func @uses() {{\n  return {names} : {', '.join(['i64'] * 8)}\n}}\nfunc.func @defines() {{\n{constants}  nonsense\n}}\n"
    assert refuse(tmp_path, text) == "error: model.mlir: line 13: custom op 'nonsense' is unknown (tried 'func.nonsense' as well)"


NESTED = {"modules": "module {" * 4000 + "}" * 4000, "types": "func.func private @f(" + "tuple<" * 4000 + "i32" + ">" * 4000 + ")",
          "arrays": "module attributes {a = " + "[" * 4000 + "]" * 4000 + "} {}",
          # The comparison closes no bracket.
          "comparisons": ("module attributes {a = affine_set<(d0) : (d0 >= 0)>} {" * 4000) + "}" * 4000}


@pytest.mark.parametrize("name", NESTED)
def test_text_nested_deeper_than_a_stack_is(tmp_path, name):
    text = "// (((\n" + NESTED[name]
    said = "model.mlir: line 2: found brackets nested more than 500 deep"
    assert refuse(tmp_path, text).endswith(said)
    assert execute("cleave-opt", "model.mlir", status=1, cwd=tmp_path).err == f"error: {said}\n"


@pytest.mark.parametrize("expression", ["d0" + " + d0" * 20000, "-" * 20000 + "d0", "d0" + " mod 7" * 20000,
                                        ("(" + "d0 + " * 490) * 300 + "d0" + ")" * 300], ids=["sum", "minus", "mod", "nested"])
def test_expressions_longer_than_a_stack_is(tmp_path, expression):
    said = "model.mlir: line 1: found an expression of more than 500 operators"
    assert refuse(tmp_path, f"module attributes {{a = affine_map<(d0) -> ({expression})>}} {{}}").endswith(said)
    assert execute("cleave-opt", "model.mlir", status=1, cwd=tmp_path).err == f"error: {said}\n"


def test_control_characters(tmp_path):
    """Messages repeat the line."""
    text = 'func.func @forward() {\n  "a.\x1b[31mred"() : () -> ()\n  return\n}\n'
    said = "model.mlir: line 2: found the control character 0x1b, expected text"
    assert refuse(tmp_path, text).endswith(said)
    assert execute("cleave-opt", "model.mlir", status=1, cwd=tmp_path).err == f"error: {said}\n"


def test_brackets_that_do_not_nest(tmp_path):
    """In names and comments, and what arrows have."""
    text = LINEAR.replace('"fc.weight"', '"' + "(" * 600 + '"').replace("func.func", "// " + "(" * 600 + "\n" + "func.func", 1)
    assert simulate(tmp_path, text)["devices"] == simulate(tmp_path, LINEAR)["devices"]
    arrows = "".join(f"func.func private @f{i}() -> i32\n" for i in range(600))
    assert execute("cleave-opt", "-", cwd=tmp_path, input=arrows).out.count("private") == 600
    sets = "".join(f"func.func private @f{i}() attributes {{a = affine_set<(d0) : (d0 <= {i})>}}\n" for i in range(600))
    assert execute("cleave-opt", "-", cwd=tmp_path, input=sets).out.count("affine_set") == 600
