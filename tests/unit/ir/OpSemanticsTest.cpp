// Fields of the table, against the registry and against what operators give.
#include "ir/semantics/OpSemantics.h"
#include "OperatorCall.h"
#include <gtest/gtest.h>
#include <map>

namespace cleave {
namespace {

bool hasArgument(const OperatorSchema &schema, llvm::StringRef name) {
  return llvm::any_of(schema.arguments, [&](auto &argument) { return argument.name == name; });
}

TEST(OpSemanticsTest, NamesArgumentsThatThereAre) {
  std::map<const OpSemantics *, std::vector<const OperatorSchema *>> overloads;
  for (const OperatorSchema *schema : allSchemas())
    overloads[&semanticsOf(schema->irName)].push_back(schema);
  for (const auto &[entry, schemas] : overloads)
    for (llvm::StringLiteral name :
         {entry->widerArgument, entry->addend, entry->addendScale, entry->addScale, entry->sizes,
          entry->rangeStart, entry->rangeLength, entry->ranges, entry->groups, entry->dropProbability,
          entry->item, entry->statisticsFlag}) {
      auto hasIt = [&](const OperatorSchema *schema) { return hasArgument(*schema, name); };
      EXPECT_TRUE(name.empty() || llvm::any_of(schemas, hasIt)) << schemas[0]->irName << " " << name.str();
    }
}

/// Schemas do not say that these write statistics.
TEST(OpSemanticsTest, KnowsWhoWritesStatistics) {
  for (const OperatorSchema *schema : allSchemas())
    for (const char *training : {"training", "use_input_stats"})
      if (hasArgument(*schema, "running_mean") && hasArgument(*schema, training) &&
          !schema->writesAnyArgument() && !llvm::StringRef(schema->irName).ends_with("_functional")) {
        EXPECT_EQ(semanticsOf(schema->irName).statisticsFlag, training) << schema->irName;
      }
}

TEST(OpSemanticsTest, KnowsWhoGivesTruthValues) {
  int count = 0;
  for (const OperatorSchema *schema : allSchemas()) {
    const bool isOfTwo = schema->arguments.size() == 2 && schema->arguments[1].type == "Tensor";
    if (semanticsOf(schema->irName).resultDType != ResultDType::Bool || !isOfTwo ||
        schema->arguments[0].type != "Tensor" || schema->writesAnyArgument())
      continue;
    const OperatorCall call(schema->irName, {"tensor<4xf32>", "tensor<4xf32>"});
    EXPECT_EQ(call.run(call.makeOperands(0))[0].toTensor().scalar_type(), at::kBool) << schema->irName;
    ++count;
  }
  EXPECT_GE(count, 10);
}

TEST(OpSemanticsTest, KnowsConstantItems) {
  auto itemOf = [](const std::string &index) {
    const OperatorCall call("aten.__getitem__.t", {"[2, 3]", index});
    EXPECT_TRUE(isItemAccess(call.op()));
    return constantItem(call.op());
  };
  EXPECT_EQ(itemOf("1"), 1u);
  EXPECT_EQ(itemOf("-1"), std::nullopt);
}

TEST(OpSemanticsTest, CountsWholeNumbersInBinsOfTheirOwn) {
  auto numbersOf = [](const std::string &first, const std::string &last) {
    const OperatorCall call("aten.histc", {"tensor<8xf32>", "4", first, last});
    return semanticsOf("aten.histc").integerBins(call.op());
  };
  EXPECT_EQ(numbersOf("0", "3"), 4);
  EXPECT_EQ(numbersOf("0", "4"), std::nullopt);
  EXPECT_EQ(numbersOf("1", "3"), std::nullopt);
}

} // namespace
} // namespace cleave
