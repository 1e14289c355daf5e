//===- UnpackCheck.cpp - What FlatBuffers' verifier leaves open -------------===//
#include "codegen/plan/UnpackCheck.h"
#include "codegen/plan/plan_generated.h"
#include <flatbuffers/minireflect.h>

namespace cleave::plan {

using flatbuffers::ElementaryType;
using flatbuffers::TypeTable;

/// Lengths stand in front of vectors and strings, vtable offsets in front of tables.
static constexpr uint64_t kPrefixBytes = 4;

namespace {
/// Walks everything that unpacking would copy, and stops once that is more than the payload has, or
/// misaligned.
class Walk {
public:
  explicit Walk(uint64_t budget) : left(budget) {}
  /// False when the budget is spent or a number is not at its alignment.
  bool visitTable(const uint8_t *table, const TypeTable *type);

private:
  bool spend(uint64_t bytes);
  /// A string or table, given where its offset is stored; other values hold nothing more.
  bool visitTarget(ElementaryType kind, const uint8_t *offset, const TypeTable *type);
  bool visitVector(ElementaryType kind, const uint8_t *vector, const TypeTable *type);

  uint64_t left;
};
} // namespace

static const uint8_t *follow(const uint8_t *offset) {
  return offset + flatbuffers::ReadScalar<flatbuffers::uoffset_t>(offset);
}

bool Walk::spend(uint64_t bytes) {
  if (bytes > left)
    return false;
  left -= bytes;
  return true;
}

bool Walk::visitTarget(ElementaryType kind, const uint8_t *offset, const TypeTable *type) {
  if (kind == flatbuffers::ET_STRING)
    return spend(kPrefixBytes + reinterpret_cast<const flatbuffers::String *>(follow(offset))->size());
  if (kind == flatbuffers::ET_SEQUENCE && type->st == flatbuffers::ST_TABLE)
    return visitTable(follow(offset), type);
  return true;
}

bool Walk::visitVector(ElementaryType kind, const uint8_t *vector, const TypeTable *type) {
  uint64_t count = flatbuffers::ReadScalar<flatbuffers::uoffset_t>(vector);
  uint64_t width = flatbuffers::InlineSize(kind, type);
  bool isNumber = kind != flatbuffers::ET_SEQUENCE && kind != flatbuffers::ET_STRING;
  if (isNumber && reinterpret_cast<uintptr_t>(vector + kPrefixBytes) % width != 0)
    return false;
  if (!spend(kPrefixBytes + count * width))
    return false;
  for (uint64_t i = 0; i < count; ++i)
    if (!visitTarget(kind, vector + kPrefixBytes + i * width, type))
      return false;
  return true;
}

bool Walk::visitTable(const uint8_t *table, const TypeTable *type) {
  if (!spend(kPrefixBytes))
    return false;
  for (size_t i = 0; i < type->num_elems; ++i) {
    flatbuffers::TypeCode code = type->type_codes[i];
    auto kind = static_cast<ElementaryType>(code.base_type);
    const TypeTable *element = code.sequence_ref >= 0 ? type->type_refs[code.sequence_ref]() : nullptr;
    const uint8_t *field = reinterpret_cast<const flatbuffers::Table *>(table)->GetAddressOf(
        flatbuffers::FieldIndexToOffset(static_cast<flatbuffers::voffset_t>(i)));
    if (!field)
      continue;
    bool fits =
        code.is_repeating ? visitVector(kind, follow(field), element) : visitTarget(kind, field, element);
    if (!fits)
      return false;
  }
  return true;
}

bool canUnpack(const uint8_t *payload, uint64_t payloadBytes) {
  return Walk(payloadBytes).visitTable(follow(payload), wire::PlanTypeTable());
}

} // namespace cleave::plan
