//===- OpShardingRule.cpp - Sharding rules of operators -------------------===//
#include "ir/semantics/OpShardingRule.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <map>

namespace cleave {

using Shape = std::optional<llvm::SmallVector<int64_t>>;

namespace {
/// Assigns factors to letters while a rule's text is parsed. Leading dimensions of `...` are letters, too:
/// their distance from the right, so that they align as in broadcasting.
class EinsumReader {
public:
  OpShardingRule rule;

  bool read(llvm::StringRef subscript, const Shape &shape, bool isResult) {
    auto &side = isResult ? rule.results : rule.operands;
    auto &dims = side.emplace_back();
    if (!shape)
      return true;
    llvm::StringRef letters = subscript.trim();
    bool hasLeading = letters.consume_front("...");
    if (hasLeading ? shape->size() < letters.size() : shape->size() != letters.size())
      return false;
    size_t leading = shape->size() - letters.size();
    for (size_t i = 0; i < shape->size(); ++i) {
      std::string key =
          i < leading ? "." + std::to_string(leading - i) : std::string(1, letters[i - leading]);
      if (auto own = factor(key, (*shape)[i], isResult))
        dims.push_back({*own});
      else
        return false;
    }
    return true;
  }

private:
  /// Nothing if the letter has another size already and neither broadcasts.
  std::optional<unsigned> factor(const std::string &key, int64_t size, bool isResult) {
    auto [entry, isNew] = byKey.try_emplace(key, 0u);
    if (!isNew && rule.factors[entry->second].size == size) {
      if (isResult)
        rule.factors[entry->second].kind = FactorKind::PassThrough;
      return entry->second;
    }
    if (!isNew && size != 1 && rule.factors[entry->second].size != 1)
      return std::nullopt;
    // A size 1 that broadcasts is a factor of its own; the letter stands for the larger size.
    unsigned added = rule.addFactor(isResult ? FactorKind::Broadcast : FactorKind::Reduce, size);
    if (isNew || size != 1)
      entry->second = added;
    return added;
  }

public:
  std::map<std::string, unsigned> byKey;
};
} // namespace

static FactorKind kindOf(llvm::StringRef word) {
  if (word == "lookup")
    return FactorKind::Lookup;
  if (word == "scan")
    return FactorKind::Scan;
  if (word == "composed")
    return FactorKind::Composed;
  if (word == "halo")
    return FactorKind::Halo;
  if (word == "reduce")
    return FactorKind::Reduce;
  assert(word == "replicated" && "a factor's kind in a rule's text");
  return FactorKind::NeedsReplication;
}

std::optional<OpShardingRule> einsumRule(llvm::StringRef text, llvm::StringRef kinds,
                                         llvm::ArrayRef<Shape> operandShapes,
                                         llvm::ArrayRef<Shape> resultShapes) {
  auto [operandText, resultText] = text.split("->");
  llvm::SmallVector<llvm::StringRef> operands, results, overrides;
  operandText.split(operands, ',');
  resultText.split(results, ',');
  EinsumReader reader;
  for (size_t i = 0; i < operandShapes.size(); ++i)
    if (!reader.read(i < operands.size() ? operands[i] : "", i < operands.size() ? operandShapes[i] : Shape(),
                     false))
      return std::nullopt;
  for (size_t i = 0; i < resultShapes.size() && i < results.size(); ++i)
    if (!resultShapes[i] || !reader.read(results[i], resultShapes[i], true))
      return std::nullopt;
  kinds.split(overrides, ' ', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef entry : overrides) {
    auto [letter, kind] = entry.split(':');
    if (auto found = reader.byKey.find(letter.str()); found != reader.byKey.end())
      reader.rule.factors[found->second].kind = kindOf(kind);
  }
  return std::move(reader.rule);
}

std::optional<OpShardingRule> elementwiseRule(llvm::ArrayRef<Shape> operandShapes,
                                              llvm::ArrayRef<int64_t> resultShape) {
  OpShardingRule rule;
  size_t rank = resultShape.size();
  auto &result = rule.results.emplace_back();
  for (int64_t size : resultShape)
    result.push_back(rule.addDim(FactorKind::Broadcast, size));
  for (const Shape &shape : operandShapes) {
    auto &dims = rule.operands.emplace_back();
    if (!shape)
      continue;
    if (shape->size() > rank)
      return std::nullopt;
    for (size_t i = 0; i < shape->size(); ++i) {
      size_t aligned = rank - shape->size() + i;
      if ((*shape)[i] == resultShape[aligned]) {
        rule.factors[aligned].kind = FactorKind::PassThrough;
        dims.push_back(result[aligned]);
      } else if ((*shape)[i] == 1) {
        dims.push_back(rule.addDim(FactorKind::Reduce, 1));
      } else {
        return std::nullopt;
      }
    }
  }
  return rule;
}

/// Factors of dimensions with equal products, refined as far as possible.
static void refine(OpShardingRule &rule, llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to,
                   OpShardingRule::Dims &source, OpShardingRule::Dims &result) {
  OpShardingRule refined = rule;
  OpShardingRule::Dims left(from.size()), right(to.size());
  int64_t a = 1, b = 1;
  for (size_t i = 0, j = 0; i < from.size() || j < to.size();) {
    a = a == 1 && i < from.size() ? from[i] : a;
    b = b == 1 && j < to.size() ? to[j] : b;
    int64_t part = std::min(a, b);
    // Neither boundary is on the other side's grid.
    if (part == 0 || a % part || b % part) {
      for (int64_t size : from)
        source.push_back(rule.addDim(FactorKind::NeedsReplication, size));
      for (int64_t size : to)
        result.push_back(rule.addDim(FactorKind::NeedsReplication, size));
      return;
    }
    if (part > 1) {
      unsigned factor = refined.addFactor(FactorKind::PassThrough, part);
      left[i].push_back(factor);
      right[j].push_back(factor);
    }
    a /= part;
    b /= part;
    // Sizes 1 are skipped on both sides.
    i += i < from.size() && a == 1;
    j += j < to.size() && b == 1;
  }
  rule = std::move(refined);
  source.append(left);
  result.append(right);
}

std::optional<OpShardingRule> viewRule(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to) {
  OpShardingRule rule;
  rule.operands.emplace_back();
  rule.results.emplace_back();
  if (llvm::is_contained(from, 0) || llvm::is_contained(to, 0))
    return std::nullopt;
  // Groups end where the products of both sides are equal.
  while (!from.empty() || !to.empty()) {
    size_t i = 0, j = 0;
    int64_t left = 1, right = 1;
    do {
      if (i < from.size() && (left <= right || j == to.size()))
        left *= from[i++];
      else if (j < to.size())
        right *= to[j++];
      else
        return std::nullopt;
    } while (left != right);
    refine(rule, from.take_front(i), to.take_front(j), rule.operands[0], rule.results[0]);
    from = from.drop_front(i);
    to = to.drop_front(j);
  }
  return rule;
}

std::optional<OpShardingRule> ruleWithKind(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> dims,
                                           FactorKind kind, size_t operands, bool keepsDims) {
  OpShardingRule rule;
  int64_t rank = shape.size();
  auto isAlong = [&](int64_t i) {
    return llvm::any_of(dims, [&](int64_t dim) { return (dim < 0 ? dim + rank : dim) == i; });
  };
  auto &first = rule.operands.emplace_back();
  auto &result = rule.results.emplace_back();
  for (int64_t i = 0; i < rank; ++i) {
    OpShardingRule::Dim factor = rule.addDim(isAlong(i) ? kind : FactorKind::PassThrough, shape[i]);
    first.push_back(factor);
    if (!isAlong(i) || kind != FactorKind::Reduce)
      result.push_back(factor);
    else if (keepsDims)
      result.push_back(rule.addDim(FactorKind::Broadcast, 1));
  }
  rule.operands.resize(operands);
  return rule;
}

} // namespace cleave
