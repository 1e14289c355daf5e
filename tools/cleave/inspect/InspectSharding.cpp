//===- InspectSharding.cpp - How tensors are split, as people read it -----===//
#include "codegen/plan/PlanQueries.h"
#include "tools/cleave/inspect/Inspect.h"
#include "tools/cleave/text/TextTable.h"
#include "tools/cleave/text/Wording.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace cleave {

using namespace plan;
using llvm::formatv;

/// `transformer.h.*.mlp`: equal layers are one row.
static std::string withoutNumbers(llvm::StringRef path) {
  llvm::SmallVector<llvm::StringRef> parts;
  path.split(parts, '.');
  for (llvm::StringRef &part : parts)
    if (!part.empty() && llvm::all_of(part, llvm::isDigit))
      part = "*";
  return path.empty() ? "the model" : llvm::join(parts, ".");
}

static std::string shapeText(llvm::ArrayRef<int64_t> shape) {
  return "[" + llvm::join(llvm::map_range(shape, [](int64_t size) { return std::to_string(size); }), ", ") +
         "]";
}

/// Rows with their counts, in order of first occurrence.
using Rows = std::vector<std::pair<std::vector<std::string>, unsigned>>;

static void count(Rows &rows, std::vector<std::string> cells) {
  auto known = llvm::find_if(rows, [&](auto &row) { return row.first == cells; });
  if (known == rows.end())
    rows.push_back({std::move(cells), 1});
  else
    ++known->second;
}

static void print(llvm::raw_ostream &stream, llvm::StringRef title, const Rows &rows,
                  std::vector<Align> columns) {
  TextTable table(std::move(columns));
  for (auto &[row, times] : rows) {
    std::vector<std::string> cells = row;
    cells.insert(cells.begin(), formatv("{0} x", times));
    table.add(std::move(cells));
  }
  stream << "\n" << title << "\n";
  table.print(stream, "  ");
}

static std::string shardsText(const Weight &weight) {
  std::vector<std::string> shapes;
  for (const auto &shard : weight.shards)
    if (std::string text = shapeText(shard->shape); !llvm::is_contained(shapes, text))
      shapes.push_back(text);
  return llvm::join(shapes, " ");
}

void printSharding(llvm::raw_ostream &stream, const Plan &plan) {
  Rows weights, collectives;
  for (const auto &weight : plan.weights)
    if (weight->role == WeightRole::Parameter && weight->shape.size() > 1)
      count(weights,
            {withoutNumbers(weight->name), weight->style, shapeText(weight->shape), shardsText(*weight)});
  for (const CollectiveInfo &collective : collectivesOf(plan))
    count(collectives, {withoutNumbers(collective.path), collective.kind,
                        collective.bytes ? megabytes(*collective.bytes) + " MB" : "?"});
  print(stream, "weights by tensor-parallel rank", weights,
        {Align::Right, Align::Left, Align::Left, Align::Left, Align::Left});
  print(stream, "between tensor-parallel ranks, a micro-batch", collectives,
        {Align::Right, Align::Left, Align::Left, Align::Right});
}

void printShardingGroups(llvm::raw_ostream &stream, const Plan &plan) {
  Rows rows;
  for (const auto &group : plan.sharding_groups)
    count(rows,
          {withoutNumbers(group->path), cleave::count(group->parts, "part"),
           cleave::count(group->weights.size(), "weight"), cleave::count(group->all_reduces, "all-reduce"),
           cleave::count(group->all_gathers, "all-gather")});
  print(stream, "dimensions split over tensor-parallel ranks", rows,
        {Align::Right, Align::Left, Align::Right, Align::Right, Align::Right, Align::Right});
}

} // namespace cleave
