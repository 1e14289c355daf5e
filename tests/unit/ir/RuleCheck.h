//===- RuleCheck.h - An operator in parts, as its rule says -----*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_IR_RULECHECK_H
#define CLEAVE_TESTS_UNIT_IR_RULECHECK_H

#include "OperatorCall.h"
#include "ir/IValueConversion.h"
#include "ir/semantics/OpSemantics.h"
#include "ir/semantics/Shapes.h"
#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace cleave {

/// An operator call, computed part by part as its sharding rule says, and compared with the unsharded result.
class RuleCheck {
public:
  /// As OperatorCall takes them.
  RuleCheck(const std::string &name, const std::vector<std::string> &texts)
      : call(name, texts), shapes(call.shapes()), operands(call.makeOperands(7)), whole(call.run(operands)),
        semantics(semanticsOf(name)), reduction(reductionOf(call.op())),
        rule(opShardingRuleOf(call.op(), shapes)) {}

  bool hasRule() const { return rule.has_value(); }

  /// Every operand's and result's dimensions are there, each with the size of its factors.
  void checkForm() {
    std::vector<c10::IValue> flat = flatten(operands);
    ASSERT_EQ(rule->operands.size(), flat.size());
    ASSERT_GE(rule->results.size(), 1u);
    ASSERT_LE(rule->results.size(), whole.size());
    for (size_t i = 0; i < flat.size(); ++i)
      if (!rule->operands[i].empty())
        checkSizes(rule->operands[i], flat[i].toTensor());
    for (size_t i = 0; i < rule->results.size(); ++i)
      if (whole[i].isTensor())
        checkSizes(rule->results[i], whole[i].toTensor());
  }

  void checkFactors() {
    for (unsigned factor = 0; factor < rule->factors.size(); ++factor) {
      auto [kind, size] = rule->factors[factor];
      if (size < 2)
        continue;
      SCOPED_TRACE("factor " + std::to_string(factor) + " of size " + std::to_string(size));
      if (kind == FactorKind::PassThrough || (kind == FactorKind::Broadcast && sizesArgument()))
        checkPass(factor);
      else if (kind == FactorKind::Reduce && (semantics.isSumOverReduceFactors ||
                                              reduction == Reduction::Sum || reduction == Reduction::Mean))
        checkSum(factor);
    }
  }

  unsigned count(FactorKind kind) const {
    auto counts = [&](auto &factor) { return factor.kind == kind && factor.size > 1; };
    return llvm::count_if(rule->factors, counts);
  }

private:
  /// The items of a list of tensors stand for it.
  static std::vector<c10::IValue> flatten(const std::vector<c10::IValue> &values) {
    std::vector<c10::IValue> flat;
    for (const c10::IValue &value : values)
      if (isTensors(value))
        for (const c10::IValue &item : value.toListRef())
          flat.push_back(item);
      else
        flat.push_back(value);
    return flat;
  }

  static bool isTensors(const c10::IValue &value) {
    return value.isList() && llvm::any_of(value.toListRef(), std::mem_fn(&c10::IValue::isTensor));
  }

  int64_t sizeOf(const OpShardingRule::Dim &dim) const {
    int64_t size = 1;
    for (unsigned factor : dim)
      size *= rule->factors[factor].size;
    return size;
  }

  void checkSizes(llvm::ArrayRef<OpShardingRule::Dim> dims, const at::Tensor &tensor) {
    ASSERT_EQ(int64_t(dims.size()), tensor.dim());
    for (size_t d = 0; d < dims.size(); ++d)
      EXPECT_EQ(sizeOf(dims[d]), tensor.size(d)) << "dimension " << d;
  }

  /// The argument that names the result's sizes, as view's, or how often it repeats, as repeat's.
  std::optional<size_t> sizesArgument() {
    llvm::StringRef sizes = semanticsOf(call.op().getName()).sizes;
    for (auto [i, argument] : llvm::enumerate(call.op().getSchema().arguments))
      if (argument.name == sizes && operands[i].isIntList())
        return i;
    return std::nullopt;
  }

  /// Whether the argument of sizes names the factor: it is a size of the result, or how often a dimension is
  /// repeated.
  bool isNamed(unsigned factor, int64_t value, const OpShardingRule::Dim &dim) const {
    return rule->factors[factor].kind == FactorKind::Broadcast || value == sizeOf(dim);
  }

  /// Positions [begin, end) of a factor, wherever it stands in the dimensions.
  at::Tensor part(at::Tensor tensor, llvm::ArrayRef<OpShardingRule::Dim> dims, unsigned factor, int64_t begin,
                  int64_t end) const {
    for (size_t d = 0; d < dims.size(); ++d) {
      auto found = llvm::find(dims[d], factor);
      if (found == dims[d].end())
        continue;
      std::vector<int64_t> sizes;
      for (unsigned each : dims[d])
        sizes.push_back(rule->factors[each].size);
      int64_t at = d + (found - dims[d].begin());
      tensor = tensor.unflatten(d, sizes).narrow(at, begin, end - begin);
      tensor = tensor.flatten(d, d + sizes.size() - 1).contiguous();
    }
    return tensor;
  }

  c10::IValue part(const c10::IValue &value, llvm::ArrayRef<OpShardingRule::Dim> dims, unsigned factor,
                   int64_t begin, int64_t end) const {
    if (value.isTensor() && value.toTensor().defined())
      return part(value.toTensor(), dims, factor, begin, end);
    return value;
  }

  /// Runs the positions [begin, end) of a factor; with zeros for the addend (a bias) unless `addsOnce`.
  std::vector<c10::IValue> runPart(unsigned factor, int64_t begin, int64_t end, bool addsOnce = true) {
    std::vector<c10::IValue> local;
    size_t flat = 0;
    for (const c10::IValue &operand : operands) {
      if (!isTensors(operand)) {
        local.push_back(part(operand, rule->operands[flat++], factor, begin, end));
        continue;
      }
      auto items = operand.toList().copy();
      for (size_t i = 0; i < items.size(); ++i)
        items.set(i, part(items.get(i), rule->operands[flat++], factor, begin, end));
      local.push_back(items);
    }
    if (auto sizes = sizesArgument()) {
      std::vector<int64_t> values = local[*sizes].toIntVector();
      const OpShardingRule::Dims &named = rule->results[semantics.sizesResult];
      for (size_t d = 0; d < values.size(); ++d)
        if (llvm::is_contained(named[d], factor) && isNamed(factor, values[d], named[d]))
          values[d] = values[d] / rule->factors[factor].size * (end - begin);
      local[*sizes] = values;
    }
    for (auto [argument, value] : llvm::zip(call.op().getSchema().arguments, local))
      if (rule->channelGroups == factor && argument.name == semantics.groups)
        value = end - begin;
      else if (!addsOnce && argument.name == semantics.addend && value.isTensor())
        value = at::zeros_like(value.toTensor());
    return call.run(local);
  }

  void checkPass(unsigned factor) {
    int64_t size = rule->factors[factor].size;
    auto isPartial = [&](size_t result) {
      return llvm::is_contained(rule->partialResults,
                                OpShardingRule::PartialResult{unsigned(result), factor});
    };
    std::vector<at::Tensor> sums(whole.size());
    // Uneven parts where the size is odd.
    for (auto [begin, end] : {std::pair<int64_t, int64_t>{0, size / 2}, {size / 2, size}}) {
      std::vector<c10::IValue> results;
      ASSERT_NO_THROW(results = runPart(factor, begin, end));
      for (size_t i = 0; i < rule->results.size(); ++i)
        if (isPartial(i))
          sums[i] = sums[i].defined() ? sums[i] + results[i].toTensor() : results[i].toTensor();
        else
          expectParts(whole[i], results[i], rule->results[i], factor, begin, end);
    }
    for (size_t i = 0; i < sums.size(); ++i)
      if (sums[i].defined())
        expectSame(whole[i].toTensor(), sums[i]);
  }

  void expectParts(const c10::IValue &wanted, const c10::IValue &found,
                   llvm::ArrayRef<OpShardingRule::Dim> dims, unsigned factor, int64_t begin,
                   int64_t end) const {
    if (wanted.isTensor())
      return expectSame(part(wanted.toTensor(), dims, factor, begin, end), found.toTensor());
    ASSERT_EQ(wanted.toListRef().size(), found.toListRef().size());
    for (size_t i = 0; i < wanted.toListRef().size(); ++i)
      expectSame(part(wanted.toListRef()[i].toTensor(), dims, factor, begin, end),
                 found.toListRef()[i].toTensor());
  }

  void checkSum(unsigned factor) {
    int64_t size = rule->factors[factor].size;
    at::Tensor first = runPart(factor, 0, size / 2)[0].toTensor();
    at::Tensor second = runPart(factor, size / 2, size, /*addsOnce=*/false)[0].toTensor();
    if (double share = double(size / 2) / size; reduction == Reduction::Mean)
      first = first * share, second = second * (1 - share);
    expectSame(whole[0].toTensor(), first + second);
  }

  static void expectSame(const at::Tensor &wanted, const at::Tensor &found) {
    ASSERT_EQ(wanted.sizes(), found.sizes());
    if (wanted.is_complex())
      return expectSame(at::view_as_real(wanted.resolve_conj()), at::view_as_real(found.resolve_conj()));
    EXPECT_TRUE(at::allclose(wanted.to(at::kDouble), found.to(at::kDouble), 1e-4, 1e-5, /*equal_nan=*/true));
  }

  OperatorCall call;
  ExampleShapes shapes;
  std::vector<c10::IValue> operands, whole;
  const OpSemantics &semantics;
  const Reduction reduction;
  std::optional<OpShardingRule> rule;
};

} // namespace cleave

#endif // CLEAVE_TESTS_UNIT_IR_RULECHECK_H
