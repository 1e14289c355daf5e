// What text says of a plan may be anything; pipelines of passes that one writes by hand leave it as it is.
#include "RandomValues.h"
#include "codegen/EmitPlan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace mlir;

namespace cleave {
namespace {

/// Two stages, with the attribute in place of what is right.
std::string textWith(StringRef name, StringRef value) {
  const std::pair<StringRef, StringRef> attributes[] = {{"symbols", "{batch = 6}"},
                                                        {"batch", "\"batch\""},
                                                        {"ranks", "2"},
                                                        {"microbatches", "2"},
                                                        {"stage_seconds", "[0.0, 0.0]"},
                                                        {"stage_recv_bytes", "[0, 8]"},
                                                        {"microbatch_seconds", "[0.0, 0.0]"},
                                                        {"link", "[1.0, 1.0]"},
                                                        {"link_overrides", "[[0, 1, 1.0, 1.0]]"},
                                                        {"devices", "[\"a\", \"b\"]"},
                                                        {"threads", "[1, 1]"},
                                                        {"memory_limits", "[1, 0]"},
                                                        {"machine", "\"0\""},
                                                        {"input_tree", "[\"dict\", \"x\", 0]"},
                                                        {"output_tree", "0"}};
  std::string all;
  for (auto [known, sound] : attributes)
    all +=
        (all.empty() ? "cleave." : ", cleave.") + known.str() + " = " + (known == name ? value : sound).str();
  if (name == "dimensions")
    all += ", cleave.dimensions = " + value.str();
  return R"(!x = tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
func.func @forward(%x: !x {cleave.name = "x"}) -> (!x {cleave.name = "y"}) attributes {)" +
         all + R"(} {
  %0 = cleave.stage 0(%x) : (!x) -> !x {
  ^bb0(%a: !x):
    %b = aten.relu(%a) : (!x) -> !x
    cleave.yield %b : !x
  }
  %1 = cleave.stage 1(%0) : (!x) -> !x {
  ^bb0(%a: !x):
    %b = aten.relu(%a) : (!x) -> !x
    cleave.yield %b : !x
  }
  return %1 : !x
})";
}

/// Empty where there is a plan.
std::string errorOf(const std::string &text) {
  MLIRContext &context = testContext();
  std::string message;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    message += diagnostic.str();
    return success();
  });
  auto module = parseSourceString<ModuleOp>(text, &context);
  if (module && succeeded(emitPlan(*module, {"test", {}, ""})))
    return "";
  return message;
}

TEST(CheckAttributesTest, EmitsWhatPassesLeave) { EXPECT_EQ(errorOf(textWith("", "")), ""); }

TEST(CheckAttributesTest, NamesWhatIsNoneOfTheForm) {
  const std::pair<StringRef, StringRef> wrong[] = {{"symbols", "{batch = \"six\"}"},
                                                   {"symbols", "{}"},
                                                   {"batch", "7"},
                                                   {"ranks", "0"},
                                                   {"ranks", "\"two\""},
                                                   {"microbatches", "-1"},
                                                   {"stage_seconds", "[0.0]"},
                                                   {"stage_seconds", "[0, 0]"},
                                                   {"stage_recv_bytes", "[0, -1]"},
                                                   {"microbatch_seconds", "[0.0, 0.0, 0.0]"},
                                                   {"link", "[1.0]"},
                                                   {"link", "[1, 1]"},
                                                   {"link_overrides", "[[0]]"},
                                                   {"link_overrides", "[0]"},
                                                   {"link_overrides", "[[0, 1, 1, 1.0]]"},
                                                   {"devices", "[0]"},
                                                   {"threads", "[1.0]"},
                                                   {"memory_limits", "[1.0]"},
                                                   {"machine", "1"},
                                                   {"input_tree", "[]"},
                                                   {"input_tree", "[\"dict\", 0, 0]"},
                                                   {"output_tree", "1.0"},
                                                   {"dimensions", "[0]"},
                                                   {"dimensions", "[{path = \"a\"}]"}};
  for (auto [name, value] : wrong)
    EXPECT_THAT(errorOf(textWith(name, value)),
                testing::HasSubstr("cleave." + (value == "{}" ? "batch" : name).str() + ": found "))
        << name.str() << " = " << value.str();
}

} // namespace
} // namespace cleave
