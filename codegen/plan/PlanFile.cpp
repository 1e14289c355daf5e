//===- PlanFile.cpp - plan.fb: bytes, checks, and back --------------------===//
#include "codegen/plan/PlanFile.h"
#include "codegen/plan/Safetensors.h"
#include "codegen/plan/UnpackCheck.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <cstring>

namespace cleave::plan {

using llvm::ArrayRef;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;
using llvm::Twine;
namespace endian = llvm::support::endian;

static constexpr uint8_t kMagic[8] = {'C', 'L', 'E', 'A', 'V', 'E', '\r', '\n'};
static constexpr size_t kVersionAt = 8, kPayloadBytesAt = 16, kDigestAt = 32, kHeaderBytes = 64;
/// The most that FlatBuffers' verifier takes.
static constexpr uint64_t kMaxPayloadBytes = FLATBUFFERS_MAX_BUFFER_SIZE - 1;
/// Values and trees nest at most this deep in the file, counted in tables; `validate` allows less.
static constexpr uint32_t kMaxTableDepth = 128;
static constexpr StringRef kRemedy = "; compile the model again";

std::string shardFileName(uint32_t rank) {
  std::string name;
  llvm::raw_string_ostream(name) << llvm::format("rank-%03u.safetensors", rank);
  return name;
}

wire::Hash toHash(const Digest &digest) {
  return wire::Hash(flatbuffers::span<const uint8_t, 32>(digest.data(), digest.size()));
}

Digest toDigest(const wire::Hash &hash) {
  Digest digest;
  std::memcpy(digest.data(), hash.bytes()->data(), digest.size());
  return digest;
}

//===- plan.fb ------------------------------------------------------------===//

std::vector<uint8_t> encode(const Plan &plan) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(wire::CreatePlan(builder, &plan));
  ArrayRef<uint8_t> payload(builder.GetBufferPointer(), builder.GetSize());
  std::vector<uint8_t> bytes(kHeaderBytes, 0);
  llvm::copy(kMagic, bytes.begin());
  endian::write32le(&bytes[kVersionAt], kFormatVersion);
  endian::write64le(&bytes[kPayloadBytesAt], payload.size());
  llvm::copy(checksum(payload), bytes.begin() + kDigestAt);
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

/// The payload, once header, length and checksum have been found in order.
static Expected<ArrayRef<uint8_t>> checkHeader(ArrayRef<uint8_t> bytes) {
  auto refuse = [](const Twine &what) { return llvm::createStringError(what); };
  if (bytes.size() < sizeof(kMagic) || !std::equal(std::begin(kMagic), std::end(kMagic), bytes.begin()))
    return refuse("it is no plan; give the folder that `cleave compile` wrote");
  if (bytes.size() < kHeaderBytes)
    return refuse("it is truncated: " + Twine(bytes.size()) + " bytes, the header alone has " +
                  Twine(kHeaderBytes) + kRemedy);
  uint32_t version = endian::read32le(&bytes[kVersionAt]);
  if (version > kFormatVersion)
    return refuse("its format version is " + Twine(version) + ", this cleave reads " + Twine(kFormatVersion) +
                  "; use a newer cleave, or compile the model again with this one");
  if (version < kFormatVersion)
    return refuse("its format version is " + Twine(version) + ", this cleave reads " + Twine(kFormatVersion) +
                  kRemedy);
  uint64_t stored = endian::read64le(&bytes[kPayloadBytesAt]), present = bytes.size() - kHeaderBytes;
  if (stored != present)
    return refuse("it is truncated or damaged: its header tells of " + Twine(stored) + " bytes, " +
                  Twine(present) + " follow" + kRemedy);
  ArrayRef<uint8_t> payload = bytes.drop_front(kHeaderBytes);
  bool hasZeros =
      endian::read32le(&bytes[kVersionAt + 4]) == 0 && endian::read64le(&bytes[kPayloadBytesAt + 8]) == 0;
  if (!hasZeros || ArrayRef<uint8_t>(checksum(payload)) != bytes.slice(kDigestAt, sizeof(Digest)))
    return refuse("it is damaged: its checksum does not fit its contents" + kRemedy);
  return payload;
}

/// Unpacks a payload whose checksum fits, which still may come from anyone.
static Expected<std::unique_ptr<Plan>> unpack(ArrayRef<uint8_t> payload) {
  if (payload.empty() || payload.size() > kMaxPayloadBytes)
    return llvm::createStringError("it is empty, or larger than " + Twine(kMaxPayloadBytes) + " bytes" +
                                   kRemedy);
  // Fields are read in place, at their alignment.
  std::vector<uint64_t> aligned((payload.size() + 7) / 8);
  std::memcpy(aligned.data(), payload.data(), payload.size());
  auto *buffer = reinterpret_cast<const uint8_t *>(aligned.data());
  flatbuffers::Verifier::Options options;
  options.max_depth = kMaxTableDepth;
  options.max_tables = payload.size() / 4; // None is smaller than four bytes.
  flatbuffers::Verifier verifier(buffer, payload.size(), options);
  if (!wire::VerifyPlanBuffer(verifier))
    return llvm::createStringError("it is malformed: offsets leave the file" + kRemedy);
  if (!canUnpack(buffer, payload.size()))
    return llvm::createStringError("it is malformed: its parts overlap or are misaligned" + kRemedy);
  std::unique_ptr<Plan> plan = wire::UnPackPlan(buffer);
  if (Error error = validate(*plan))
    return llvm::createStringError(toString(std::move(error)) + kRemedy);
  return plan;
}

Expected<std::unique_ptr<Plan>> decode(ArrayRef<uint8_t> bytes, StringRef origin) {
  Expected<ArrayRef<uint8_t>> payload = checkHeader(bytes);
  if (!payload)
    return llvm::createStringError(origin + ": " + toString(payload.takeError()));
  Expected<std::unique_ptr<Plan>> plan = unpack(*payload);
  if (!plan)
    return llvm::createStringError(origin + ": " + toString(plan.takeError()));
  return plan;
}

Expected<LoadedPlan> readPlan(StringRef directory) {
  llvm::SmallString<256> path(directory);
  llvm::sys::path::append(path, kPlanFileName);
  auto refuse = [&](const Twine &why) {
    return llvm::createStringError("cannot read '" + path + "': " + why);
  };
  uint64_t length = 0;
  if (!llvm::sys::fs::is_regular_file(path))
    return refuse(Twine(llvm::sys::fs::exists(path) ? "it is no regular file" : "there is no such file") +
                  "; give the folder that `cleave compile` wrote");
  if (std::error_code error = llvm::sys::fs::file_size(path, length))
    return refuse(error.message());
  if (length > kHeaderBytes + kMaxPayloadBytes)
    return refuse("it is larger than any plan" + kRemedy);
  // Read, not mapped: what has been verified must not change.
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false,
                                          /*IsVolatile=*/true);
  if (!file)
    return refuse(file.getError().message());
  ArrayRef<uint8_t> bytes = llvm::arrayRefFromStringRef((*file)->getBuffer());
  Expected<std::unique_ptr<Plan>> plan = decode(bytes, path);
  if (!plan)
    return plan.takeError();
  LoadedPlan loaded{std::move(*plan), {}};
  llvm::copy(bytes.slice(kDigestAt, sizeof(Digest)), loaded.rootChecksum.begin());
  return loaded;
}

//===- Shards -------------------------------------------------------------===//

/// The contents of the file are those that were written beside the plan.
static Error checkContents(const ShardFile &file, StringRef path) {
  auto refuse = [&](const Twine &what) { return llvm::createStringError(path + ": " + what + kRemedy); };
  uint64_t length = 0;
  if (!llvm::sys::fs::is_regular_file(path) || llvm::sys::fs::file_size(path, length))
    return refuse("the shard of rank " + Twine(file.rank) +
                  (llvm::sys::fs::exists(path) ? " is no regular file" : " is missing"));
  if (length != file.bytes)
    return refuse("the shard of rank " + Twine(file.rank) + " has " + Twine(length) +
                  " bytes, the plan tells of " + Twine(file.bytes));
  Expected<Digest> digest = checksumOfFile(path);
  if (!digest)
    return digest.takeError();
  if (*digest != toDigest(*file.hash))
    return refuse("the shard of rank " + Twine(file.rank) +
                  " is damaged or of another plan: its checksum differs");
  return Error::success();
}

/// Every weight that the plan has on this rank is in the file, with its dtype and shape.
static Error checkTensors(const Plan &plan, uint32_t rank, StringRef path) {
  Expected<std::shared_ptr<SafetensorsFile>> shards = SafetensorsFile::open(path);
  if (!shards)
    return shards.takeError();
  for (const auto &weight : plan.weights)
    for (const auto &shard : weight->shards) {
      if (shard->rank != rank)
        continue;
      const TensorEntry *entry = (*shards)->find(shard->key);
      if (!entry || entry->dtype != weight->dtype || entry->shape != shard->shape)
        return llvm::createStringError(path + ": weight '" + weight->name +
                                       "' is missing, or of another dtype or shape" + kRemedy);
    }
  return Error::success();
}

Error checkShards(const Plan &plan, StringRef directory, ArrayRef<uint32_t> ranks) {
  for (const auto &file : plan.shard_files) {
    if (!ranks.empty() && !llvm::is_contained(ranks, file->rank))
      continue;
    llvm::SmallString<256> path(directory);
    llvm::sys::path::append(path, file->name);
    if (Error error = checkContents(*file, path))
      return error;
    if (Error error = checkTensors(plan, file->rank, path))
      return error;
  }
  return Error::success();
}

} // namespace cleave::plan
