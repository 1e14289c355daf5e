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
  const std::pair<StringRef, StringRef> attributes[] = {
      {"symbols", "{batch = 6}"},
      {"cut", "#cleave.cut<seconds = [0.0, 0.0], recv_bytes = [0, 8]>"},
      {"schedule", "#cleave.schedule<pipeline_ranks = 2, microbatches = 2, batch = \"batch\", "
                   "microbatch_seconds = [0.0, 0.0]>"},
      {"target",
       "#cleave.target<machine = \"0\", link = [1.0, 1.0], link_overrides = [#cleave.link_override<0 -> 1, "
       "[1.0, 1.0]>], devices = [\"a\", \"b\"], threads = [1, 1], memory_limits = [1, 0]>"},
      {"input_tree", "[\"dict\", \"x\", 0]"},
      {"output_tree", "0"}};
  std::string all;
  for (auto [known, sound] : attributes)
    all +=
        (all.empty() ? "cleave." : ", cleave.") + known.str() + " = " + (known == name ? value : sound).str();
  if (name == "sharding_decision" || name == "size_limits")
    all += ", cleave." + name.str() + " = " + value.str();
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
  const std::pair<StringRef, StringRef> wrong[] = {
      {"symbols", "{batch = \"six\"}"},
      {"cut", "7"},
      {"cut", "#cleave.cut<seconds = [0.0], recv_bytes = [0]>"},
      {"schedule", "\"gpipe\""},
      {"schedule", "#cleave.schedule<pipeline_ranks = 2, batch = \"other\">"},
      {"schedule", "#cleave.schedule<pipeline_ranks = 2, microbatch_seconds = [0.0]>"},
      {"target", "[]"},
      {"sharding_decision", "#cleave.cut<seconds = [0.0], recv_bytes = [0]>"},
      {"size_limits", "{batch = 7}"},
      {"input_tree", "[]"},
      {"input_tree", "[\"dict\", 0, 0]"},
      {"output_tree", "1.0"}};
  for (auto [name, value] : wrong)
    EXPECT_THAT(errorOf(textWith(name, value)), testing::HasSubstr("cleave." + name.str() + ": found "))
        << name.str() << " = " << value.str();
}

TEST(CheckAttributesTest, VerifiesWhatPassesDecide) {
  const std::tuple<StringRef, StringRef, StringRef> wrong[] = {
      {"cut", "#cleave.cut<seconds = [0.0, 0.0], recv_bytes = [0, -1]>", "expected no number below 0"},
      {"cut", "#cleave.cut<seconds = [0.0, 0.0], recv_bytes = [0]>", "expected one of each a stage"},
      {"cut", "#cleave.cut<seconds = [0.0, 0.0], recv_bytes = [0, 8], weight_limit_range = [3, 2]>",
       "expected two limits that ascend"},
      {"schedule", "#cleave.schedule<pipeline_ranks = 0>", "found pipeline_ranks = 0, expected 1 to 65536"},
      {"schedule", "#cleave.schedule<pipeline_ranks = 2, microbatches = -1>",
       "found microbatches = -1, expected 1 to 65536"},
      {"schedule", "#cleave.schedule<pipeline_ranks = 2, batch = \"batch\", batch_obstacle = \"a wall\">",
       "expected one of them"},
      {"target", "#cleave.target<link = [1.0]>", "expected [latency in seconds, bytes a second]"},
      {"target", "#cleave.target<link_overrides = [0]>", "expected a list of #cleave.link_override"},
      {"target", "#cleave.target<devices = [0]>", "expected a list of names"},
      {"target", "#cleave.target<threads = [-1]>", "found threads = "},
      {"target", "#cleave.target<memory_limits = [-1]>", "found memory_limits = "},
      {"sharding_decision", "#cleave.sharding_decision<groups = [0], seconds = [0.0, 0.0]>",
       "expected a list of #cleave.sharding_group"},
      {"sharding_decision", "#cleave.sharding_decision<groups = [], seconds = [0.0]>", "and a lower bound"},
      {"size_limits", "{batch = #cleave.size_limit<min = 3, max = 2>}",
       "expected numbers above 0 that ascend"}};
  for (auto [name, value, message] : wrong)
    EXPECT_THAT(errorOf(textWith(name, value)), testing::HasSubstr(message.str())) << value.str();
}

} // namespace
} // namespace cleave
