//===- Candidates.cpp - Table of evaluated meshes -------------------------===//
#include "tools/cleave/text/Candidates.h"
#include "tools/cleave/text/TextTable.h"
#include "tools/cleave/text/Wording.h"
#include "llvm/ADT/StringSet.h"

namespace cleave {

llvm::json::Array toJson(const plan::MeshCandidates &candidates) {
  llvm::json::Array result;
  for (const auto &one : candidates)
    result.push_back(llvm::json::Object{{"mesh", one->mesh},
                                        {"schedule", one->schedule},
                                        {"microbatches", one->microbatches},
                                        {"seconds", one->seconds},
                                        {"peak_bytes", one->peak_bytes},
                                        {"reason", one->reason}});
  return result;
}

void printCandidates(llvm::raw_ostream &out, const plan::MeshCandidates &candidates) {
  constexpr size_t kMaxRows = 12;
  if (candidates.empty())
    return;
  out << "\n";
  TextTable table({Align::Left, Align::Left, Align::Right, Align::Right, Align::Right, Align::Left});
  table.add({"mesh", "schedule", "micro-batches", "ms a step", "peak MB", ""});
  llvm::StringSet<> seen;
  size_t rows = 0;
  for (const auto &one : candidates) {
    // They are sorted: the first of its kind is the best.
    if (!seen.insert(one->mesh + " " + one->schedule).second || rows++ >= kMaxRows)
      continue;
    table.add({one->mesh, one->schedule, std::to_string(one->microbatches),
               one->seconds > 0 ? milliseconds(one->seconds) : "-",
               one->peak_bytes > 0 ? megabytes(one->peak_bytes) : "-",
               one->reason.empty() ? "chosen" : one->reason});
  }
  table.print(out);
  if (rows > kMaxRows)
    out << "and " << count(rows - kMaxRows, "other") << "\n";
}

} // namespace cleave
