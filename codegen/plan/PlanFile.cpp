//===- PlanFile.cpp - plan.fb: bytes, checks, and back --------------------===//
#include "codegen/plan/PlanFile.h"
#include "codegen/plan/PlanHeader.h"
#include "codegen/plan/Safetensors.h"
#include "codegen/plan/UnpackCheck.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/Path.h"
#include <cstring>
#include <limits>

namespace cleave::plan {

using llvm::ArrayRef;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;
using llvm::Twine;
namespace endian = llvm::support::endian;

/// Limit of FlatBuffers' verifier.
static constexpr uint64_t kMaxPayloadBytes = FLATBUFFERS_MAX_BUFFER_SIZE - 1;
static constexpr StringRef kRemedy = "; compile the model again";

wire::Hash toHash(const Digest &digest) {
  return wire::Hash(flatbuffers::span<const uint8_t, 32>(digest.data(), digest.size()));
}

Digest toDigest(const wire::Hash &hash) {
  Digest digest;
  std::memcpy(digest.data(), hash.bytes()->data(), digest.size());
  return digest;
}

//===- plan.fb ------------------------------------------------------------===//

/// The payload, after a check of header, length and checksum.
static Expected<ArrayRef<uint8_t>> checkHeader(ArrayRef<uint8_t> bytes) {
  auto refuse = [](const Twine &what) { return llvm::createStringError(what); };
  if (bytes.size() < sizeof(kPlanMagic) ||
      !std::equal(std::begin(kPlanMagic), std::end(kPlanMagic), bytes.begin()))
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

/// Unpacks a payload with a correct checksum, which may still be hostile.
static Expected<std::unique_ptr<Plan>> unpack(ArrayRef<uint8_t> payload) {
  if (payload.empty() || payload.size() > kMaxPayloadBytes)
    return llvm::createStringError("it is empty, or larger than " + Twine(kMaxPayloadBytes) + " bytes" +
                                   kRemedy);
  // Fields are read in place and must be aligned.
  std::vector<uint64_t> aligned((payload.size() + 7) / 8);
  std::memcpy(aligned.data(), payload.data(), payload.size());
  auto *buffer = reinterpret_cast<const uint8_t *>(aligned.data());
  if (Error error = checkUnpacking(buffer, payload.size()))
    return llvm::createStringError(toString(std::move(error)) + kRemedy);
  flatbuffers::Verifier::Options options;
  // Both were checked above.
  options.max_depth = options.max_tables = std::numeric_limits<flatbuffers::uoffset_t>::max();
  flatbuffers::Verifier verifier(buffer, payload.size(), options);
  if (!wire::VerifyPlanBuffer(verifier))
    return llvm::createStringError("it is malformed: offsets leave the file" + kRemedy);
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
  auto file = InputFile::open(path);
  if (!file)
    return refuse(
        (file.getError() == std::errc::no_such_file_or_directory ? "there is no such file"
                                                                 : describeInputError(file.getError())) +
        (file.getError() == std::errc::permission_denied ? "; give one that you may read"
                                                         : "; give the folder that `cleave compile` wrote"));
  if (file->bytes() > kHeaderBytes + kMaxPayloadBytes)
    return refuse("it is larger than any plan" + kRemedy);
  // Read, not mapped, since verified bytes must not change.
  auto contents = file->read();
  if (!contents)
    return refuse(describeInputError(contents.getError()));
  ArrayRef<uint8_t> bytes = llvm::arrayRefFromStringRef((*contents)->getBuffer());
  Expected<std::unique_ptr<Plan>> plan = decode(bytes, path);
  if (!plan)
    return plan.takeError();
  LoadedPlan loaded{std::move(*plan), {}};
  llvm::copy(bytes.slice(kDigestAt, sizeof(Digest)), loaded.rootChecksum.begin());
  return loaded;
}

//===- Shards -------------------------------------------------------------===//

/// Fails unless the file has the contents that were written with the plan.
static Error checkContents(const ShardFile &expected, const InputFile &file) {
  const std::string &path = file.name();
  auto refuse = [&](const Twine &what) { return llvm::createStringError(path + ": " + what + kRemedy); };
  if (file.bytes() != expected.bytes)
    return refuse("the shard of rank " + Twine(expected.rank) + " has " + Twine(file.bytes()) +
                  " bytes, the plan tells of " + Twine(expected.bytes));
  auto digest = file.digest();
  if (!digest)
    return refuse("the shard of rank " + Twine(expected.rank) +
                  " cannot be read: " + describeInputError(digest.getError()));
  if (*digest != toDigest(*expected.hash))
    return refuse("the shard of rank " + Twine(expected.rank) +
                  " is damaged or of another plan: its checksum differs");
  return Error::success();
}

/// Fails unless every weight of the plan on this rank is in the file, with its dtype and shape.
static Error checkTensors(const Plan &plan, uint32_t rank, const SafetensorsFile &file, StringRef path) {
  for (const auto &weight : plan.weights)
    for (const auto &shard : weight->shards) {
      if (shard->rank != rank)
        continue;
      const TensorEntry *entry = file.find(shard->key);
      if (!entry || entry->dtype != weight->dtype || entry->shape != shard->shape)
        return llvm::createStringError(path + ": weight '" + weight->name +
                                       "' is missing, or of another dtype or shape" + kRemedy);
    }
  return Error::success();
}

static Expected<std::shared_ptr<SafetensorsFile>> openShard(const Plan &plan, const ShardFile &expected,
                                                            StringRef path) {
  auto file = InputFile::open(path);
  if (!file) {
    const bool isMissing = file.getError() == std::errc::no_such_file_or_directory;
    return llvm::createStringError(
        path + ": the shard of rank " + Twine(expected.rank) + " " +
        (isMissing ? "is missing" : "cannot be read: " + describeInputError(file.getError())) + kRemedy);
  }
  if (Error error = checkContents(expected, *file))
    return error;
  auto tensors = SafetensorsFile::open(*file);
  if (!tensors)
    return tensors.takeError();
  if (Error error = checkTensors(plan, expected.rank, **tensors, path))
    return error;
  return tensors;
}

Expected<OpenShards> openShards(const Plan &plan, StringRef directory, ArrayRef<uint32_t> ranks) {
  OpenShards files;
  for (const auto &file : plan.shard_files) {
    if (!ranks.empty() && !llvm::is_contained(ranks, file->rank))
      continue;
    llvm::SmallString<256> path(directory);
    llvm::sys::path::append(path, file->name);
    if (Error error = openShard(plan, *file, path).moveInto(files[file->rank]))
      return error;
  }
  return files;
}

} // namespace cleave::plan
