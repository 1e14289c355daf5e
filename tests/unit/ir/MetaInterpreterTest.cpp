//===- MetaInterpreterTest.cpp - Functions that are run without data ------===//
#include "ir/inference/MetaInterpreter.h"
#include "ir/inference/ShapeInference.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

namespace cleave {

static mlir::OwningOpRef<mlir::ModuleOp> parse(const char *text) {
  static mlir::MLIRContext context = [] {
    mlir::DialectRegistry registry;
    registerDialects(registry);
    return mlir::MLIRContext(registry, mlir::MLIRContext::Threading::DISABLED);
  }();
  return mlir::parseSourceString<mlir::ModuleOp>(text, &context);
}

/// By result of the body's operators, what a run knows of it.
static std::vector<at::Tensor> tensorsOf(mlir::func::FuncOp function, bool tracksStorages) {
  registerMetaKernels();
  c10::InferenceMode inference;
  MetaInterpreter interpreter(llvm::StringMap<int64_t>(), tracksStorages);
  interpreter.run(function);
  std::vector<at::Tensor> tensors;
  for (auto call : function.getBody().front().getOps<OperatorOp>())
    tensors.push_back(interpreter.values.lookup(call->getResult(0)).toTensor());
  return tensors;
}

TEST(MetaInterpreterTest, MakesCallsThatAreAlikeOnce) {
  auto module = parse(R"(
func.func @f(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %zero = cleave.constant(0 : i64) : i64
  %one = cleave.constant(1 : i64) : i64
  %two = cleave.constant(2 : i64) : i64
  %0 = aten.mm(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = aten.relu(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = aten.mm(%1, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %3 = aten.transpose.int(%w, %zero, %one) : (tensor<8x8xf32>, i64, i64) -> !cleave.tensor
  %4 = aten.mm(%1, %3) : (tensor<4x8xf32>, !cleave.tensor) -> tensor<4x8xf32>
  %5 = aten.slice.Tensor(%4, %one, %zero, %one, %one) : (tensor<4x8xf32>, i64, i64, i64, i64) -> !cleave.tensor
  %6 = aten.slice.Tensor(%4, %one, %zero, %two, %one) : (tensor<4x8xf32>, i64, i64, i64, i64) -> !cleave.tensor
  return %4 : tensor<4x8xf32>
})");
  ASSERT_TRUE(module);
  auto function = *module->getOps<mlir::func::FuncOp>().begin();
  const std::vector<at::Tensor> own = tensorsOf(function, /*tracksStorages=*/true),
                                once = tensorsOf(function, /*tracksStorages=*/false);
  ASSERT_EQ(own.size(), 7u);
  for (size_t i = 0; i < own.size(); ++i) {
    EXPECT_EQ(own[i].sizes(), once[i].sizes()) << i;
    EXPECT_EQ(own[i].strides(), once[i].strides()) << i;
    EXPECT_EQ(own[i].scalar_type(), once[i].scalar_type()) << i;
  }
  // The second product is alike, the third's operand is laid out in another way.
  EXPECT_TRUE(once[0].is_same(once[2]));
  EXPECT_FALSE(once[0].is_same(once[4]));
  // Where memory counts, each has its own, and a view that of its base.
  EXPECT_FALSE(own[0].storage().is_alias_of(own[2].storage()));
  EXPECT_TRUE(own[5].storage().is_alias_of(own[4].storage()));
  EXPECT_EQ(once[5].size(1) + 1, once[6].size(1));
}

} // namespace cleave
