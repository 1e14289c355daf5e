//===- UnpackCheck.cpp - Whether a payload can be unpacked ----------------===//
#include "codegen/plan/UnpackCheck.h"
#include "codegen/plan/plan_generated.h"
#include "llvm/ADT/Twine.h"
#include <flatbuffers/minireflect.h>
#include <memory>

namespace cleave::plan {

using flatbuffers::ElementaryType;
using flatbuffers::TypeTable;

/// Lengths precede vectors and strings, vtable offsets precede tables.
static constexpr uint64_t kPrefixBytes = 4;
/// Limit of nested tables in the file; `validate` allows fewer levels of values and trees.
static constexpr uint32_t kMaxTableDepth = 128;
/// Overhead of the allocator per block.
static constexpr uint64_t kBlockBytes = 16;
static constexpr uint64_t kSpareMemory = 1 << 20;

namespace {
/// Walks everything that unpacking would copy, and stops if that exceeds the payload or would take too much
/// memory.
class Walk {
public:
  Walk(const uint8_t *payload, uint64_t bytes)
      : payload(payload), verifier(payload, bytes, limits(bytes)), left(bytes),
        memoryLeft(kMaxUnpackRatio * bytes + kSpareMemory) {}
  bool visitRoot();
  llvm::Error refusal() const { return llvm::createStringError("it is malformed: " + llvm::Twine(why)); }

private:
  static flatbuffers::Verifier::Options limits(uint64_t bytes);
  bool refuse(const char *reason);
  bool spend(uint64_t bytes);
  bool allocate(uint64_t bytes);
  /// The target of the offset at `place`; null if that is outside the payload.
  const uint8_t *follow(const uint8_t *place);
  bool visitTable(const uint8_t *table, const TypeTable *type);
  bool visitField(const uint8_t *field, flatbuffers::TypeCode code, const TypeTable *type);
  /// Visits a string or table whose offset is stored at `place`; other values have no targets.
  bool visitTarget(ElementaryType kind, const uint8_t *place, const TypeTable *type);
  bool visitVector(ElementaryType kind, const uint8_t *vector, const TypeTable *type);

  const uint8_t *const payload;
  flatbuffers::Verifier verifier;
  uint64_t left, memoryLeft;
  const char *why = "offsets leave the file";
};
} // namespace

flatbuffers::Verifier::Options Walk::limits(uint64_t bytes) {
  flatbuffers::Verifier::Options options;
  options.max_depth = kMaxTableDepth;
  options.max_tables = bytes / kPrefixBytes;
  return options;
}

bool Walk::refuse(const char *reason) {
  why = reason;
  return false;
}

bool Walk::spend(uint64_t bytes) {
  if (bytes > left)
    return refuse("its parts overlap or are misaligned");
  left -= bytes;
  return true;
}

bool Walk::allocate(uint64_t bytes) {
  if (bytes > memoryLeft)
    return refuse("it is many tables with nothing in them");
  memoryLeft -= bytes;
  return true;
}

static bool isTable(ElementaryType kind, const TypeTable *type) {
  return kind == flatbuffers::ET_SEQUENCE && type->st == flatbuffers::ST_TABLE;
}

/// Stored bytes of a field or element.
static uint64_t storedBytes(ElementaryType kind, const TypeTable *type) {
  return kind == flatbuffers::ET_STRING || isTable(kind, type) ? sizeof(flatbuffers::uoffset_t)
                                                               : flatbuffers::InlineSize(kind, type);
}

/// Bytes of a field or element in an object in memory.
static uint64_t memberBytes(ElementaryType kind, const TypeTable *type) {
  if (kind == flatbuffers::ET_STRING)
    return sizeof(std::string);
  return kind == flatbuffers::ET_SEQUENCE ? sizeof(std::unique_ptr<int>)
                                          : flatbuffers::InlineSize(kind, type);
}

const uint8_t *Walk::follow(const uint8_t *place) {
  const flatbuffers::uoffset_t offset = verifier.VerifyOffset(place - payload);
  return offset ? place + offset : nullptr;
}

bool Walk::visitTarget(ElementaryType kind, const uint8_t *place, const TypeTable *type) {
  if (kind != flatbuffers::ET_STRING && !isTable(kind, type))
    return true;
  const uint8_t *target = follow(place);
  if (!target)
    return false;
  if (kind != flatbuffers::ET_STRING)
    return visitTable(target, type);
  auto *text = reinterpret_cast<const flatbuffers::String *>(target);
  return verifier.VerifyString(text) && spend(kPrefixBytes + text->size()) &&
         allocate(kBlockBytes + text->size());
}

bool Walk::visitVector(ElementaryType kind, const uint8_t *vector, const TypeTable *type) {
  const uint64_t width = storedBytes(kind, type);
  if (!verifier.VerifyVectorOrString(vector, width))
    return false;
  const uint64_t count = flatbuffers::ReadScalar<flatbuffers::uoffset_t>(vector);
  const uint8_t *begin = vector + kPrefixBytes;
  // Structs are bytes.
  if (kind != flatbuffers::ET_SEQUENCE && (begin - payload) % width != 0)
    return refuse("its parts overlap or are misaligned");
  if (!spend(kPrefixBytes + count * width) || !allocate(kBlockBytes + count * memberBytes(kind, type)))
    return false;
  if (kind != flatbuffers::ET_STRING && !isTable(kind, type))
    return true;
  for (uint64_t i = 0; i < count; ++i)
    if (!visitTarget(kind, begin + i * width, type))
      return false;
  return true;
}

bool Walk::visitField(const uint8_t *field, flatbuffers::TypeCode code, const TypeTable *type) {
  const auto kind = static_cast<ElementaryType>(code.base_type);
  if (code.is_repeating) {
    const uint8_t *vector = follow(field);
    return vector && visitVector(kind, vector, type);
  }
  const uint64_t width = storedBytes(kind, type);
  const bool isStruct = kind == flatbuffers::ET_SEQUENCE && !isTable(kind, type);
  if (!verifier.VerifyFieldStruct(field, 0, width, isStruct ? 1 : width))
    return false;
  return (!isStruct || allocate(kBlockBytes + width)) && visitTarget(kind, field, type);
}

bool Walk::visitTable(const uint8_t *table, const TypeTable *type) {
  if (!spend(kPrefixBytes) || !allocate(kBlockBytes) || !verifier.VerifyTableStart(table))
    return false;
  for (size_t i = 0; i < type->num_elems; ++i) {
    const flatbuffers::TypeCode code = type->type_codes[i];
    const auto kind = static_cast<ElementaryType>(code.base_type);
    const TypeTable *element = code.sequence_ref >= 0 ? type->type_refs[code.sequence_ref]() : nullptr;
    if (!allocate(code.is_repeating ? sizeof(std::vector<int>) : memberBytes(kind, element)))
      return false;
    const uint8_t *field = reinterpret_cast<const flatbuffers::Table *>(table)->GetAddressOf(
        flatbuffers::FieldIndexToOffset(static_cast<flatbuffers::voffset_t>(i)));
    if (field && !visitField(field, code, element))
      return false;
  }
  return verifier.EndTable();
}

bool Walk::visitRoot() {
  const uint8_t *root = follow(payload);
  return root && visitTable(root, wire::PlanTypeTable());
}

llvm::Error checkUnpacking(const uint8_t *payload, uint64_t payloadBytes) {
  Walk walk(payload, payloadBytes);
  return walk.visitRoot() ? llvm::Error::success() : walk.refusal();
}

} // namespace cleave::plan
