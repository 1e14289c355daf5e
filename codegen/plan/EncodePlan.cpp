//===- EncodePlan.cpp - The bytes of plan.fb ------------------------------===//
#include "codegen/plan/EncodePlan.h"
#include "codegen/plan/PlanFile.h"
#include "codegen/plan/PlanHeader.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Endian.h"

namespace cleave::plan {

namespace endian = llvm::support::endian;

std::vector<uint8_t> encode(const Plan &plan) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(wire::CreatePlan(builder, &plan));
  llvm::ArrayRef<uint8_t> payload(builder.GetBufferPointer(), builder.GetSize());
  std::vector<uint8_t> bytes(kHeaderBytes, 0);
  llvm::copy(kPlanMagic, bytes.begin());
  endian::write32le(&bytes[kVersionAt], kFormatVersion);
  endian::write64le(&bytes[kPayloadBytesAt], payload.size());
  llvm::copy(checksum(payload), bytes.begin() + kDigestAt);
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

} // namespace cleave::plan
