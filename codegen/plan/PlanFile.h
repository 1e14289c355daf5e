//===- PlanFile.h - plan.fb: bytes, checks, and back ------------*- C++ -*-===//
//
// plan.fb = a header of 64 bytes, then the FlatBuffer:
//
//   0        8         12        16              24           32            64
//   | CLEAVE | version | zero(4) | payload bytes | zero (8)   | BLAKE3 (32) | FlatBuffer …
//   | \r\n   |  u32 LE |         |  u64 LE       |            | of payload  |
//
// A change of any bit is noticed: in the header, since every field has one valid value for the payload; in
// the payload, by the checksum. That is the plan's *root checksum*: it covers the checksums of the shards.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_CODEGEN_PLAN_PLANFILE_H
#define CLEAVE_CODEGEN_PLAN_PLANFILE_H

#include "codegen/plan/Plan.h"
#include "codegen/plan/files/Checksum.h"
#include "codegen/plan/files/PlanName.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <map>
#include <memory>
#include <vector>

namespace cleave::plan {

class SafetensorsFile;

/// Raised whenever a reader of the previous version would misread the file.
inline constexpr uint32_t kFormatVersion = 3;

/// Convert a digest to the form that the plan stores, and back.
wire::Hash toHash(const Digest &digest);
Digest toDigest(const wire::Hash &hash);

/// Decodes the bytes of a plan.fb and checks them down to every index (see validate). Messages call it
/// `origin`.
llvm::Expected<std::unique_ptr<Plan>> decode(llvm::ArrayRef<uint8_t> bytes, llvm::StringRef origin);

/// The plan of a plan directory, and its root checksum; shards are not opened.
struct LoadedPlan {
  std::unique_ptr<Plan> plan;
  Digest rootChecksum;
};
llvm::Expected<LoadedPlan> readPlan(llvm::StringRef directory);

/// By rank.
using OpenShards = std::map<uint32_t, std::shared_ptr<SafetensorsFile>>;
/// Opens every shard of `directory` once, or those of `ranks` unless that is empty, and compares length,
/// checksum and tensors with the plan. The mapped file is the one that was compared, even if another file
/// replaces it afterwards.
llvm::Expected<OpenShards> openShards(const Plan &plan, llvm::StringRef directory,
                                      llvm::ArrayRef<uint32_t> ranks = {});

/// Checks everything that an executor relies on; the error is the first violation. Tables are present,
/// indices in range, slots are written once and before they are read, released slots are not read again, byte
/// counts of shapes do not overflow, sources and outputs exist, stages and ranks fit the mesh, shard names
/// have no folders, and schedules run each stage once per micro-batch and cannot deadlock.
llvm::Error validate(const Plan &plan);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_PLANFILE_H
