//===- PlanMutator.cpp - Plans that are changed as tables -----------------===//
#include "tests/fuzz/PlanMutator.h"
#include "codegen/plan/UnpackCheck.h"
#include "codegen/plan/plan_generated.h"
#include <cstring>
#include <flatbuffers/minireflect.h>

namespace cleave::fuzz {

using flatbuffers::ElementaryType;
using flatbuffers::TypeTable;
using flatbuffers::uoffset_t;

namespace {
struct Number {
  uint8_t *at;
  size_t width;
};
/// The length is at `at`, followed by the elements.
struct List {
  uint8_t *at;
  size_t width;
  bool holdsOffsets;
};

/// Finds the numbers and lists of a verified payload.
struct Places {
  std::vector<Number> numbers;
  std::vector<List> lists;

  void visitTable(uint8_t *table, const TypeTable *type);
  void visitList(uint8_t *list, ElementaryType kind, const TypeTable *type);
};
} // namespace

static uoffset_t read(const uint8_t *at) { return flatbuffers::ReadScalar<uoffset_t>(at); }

static bool isTable(ElementaryType kind, const TypeTable *type) {
  return kind == flatbuffers::ET_SEQUENCE && type->st == flatbuffers::ST_TABLE;
}

void Places::visitList(uint8_t *list, ElementaryType kind, const TypeTable *type) {
  const size_t width = flatbuffers::InlineSize(kind, type);
  const bool isText = kind == flatbuffers::ET_STRING;
  lists.push_back({list, width, isText || isTable(kind, type)});
  for (uoffset_t i = 0; i < read(list); ++i) {
    uint8_t *item = list + sizeof(uoffset_t) + i * width;
    if (isTable(kind, type))
      visitTable(item + read(item), type);
    else if (!isText)
      numbers.push_back({item, width});
  }
}

void Places::visitTable(uint8_t *table, const TypeTable *type) {
  for (size_t i = 0; i < type->num_elems; ++i) {
    flatbuffers::TypeCode code = type->type_codes[i];
    auto kind = static_cast<ElementaryType>(code.base_type);
    const TypeTable *element = code.sequence_ref >= 0 ? type->type_refs[code.sequence_ref]() : nullptr;
    auto *field = const_cast<uint8_t *>(reinterpret_cast<const flatbuffers::Table *>(table)->GetAddressOf(
        flatbuffers::FieldIndexToOffset(static_cast<flatbuffers::voffset_t>(i))));
    if (!field)
      continue;
    if (code.is_repeating)
      visitList(field + read(field), kind, element);
    else if (isTable(kind, element))
      visitTable(field + read(field), element);
    else if (kind != flatbuffers::ET_STRING)
      numbers.push_back({field, flatbuffers::InlineSize(kind, element)});
  }
}

static void changeNumber(const Number &number, const Places &places, Dice &dice) {
  static constexpr int64_t kLimits[] = {-1, INT64_MIN, INT64_MAX, INT32_MAX, UINT32_MAX, 127, 255, 1 << 16};
  int64_t value = 0;
  std::memcpy(&value, number.at, std::min<size_t>(number.width, sizeof(value)));
  switch (dice.below(4)) {
  case 0:
    value = int64_t(dice.below(9));
    break;
  case 1:
    // Around where it would overflow.
    value = int64_t(uint64_t(value) + (dice.below(2) ? 1 : -1));
    break;
  case 2:
    value = kLimits[dice.below(std::size(kLimits))];
    break;
  default:
    // A number of the same width, perhaps of the same meaning.
    if (const Number &other = places.numbers[dice.below(places.numbers.size())]; other.width == number.width)
      return void(std::memmove(number.at, other.at, number.width));
  }
  std::memcpy(number.at, &value, std::min<size_t>(number.width, sizeof(value)));
}

/// Swaps two items, or drops the last one.
static void changeList(const List &list, Dice &dice) {
  const uoffset_t count = read(list.at);
  if (count == 0)
    return;
  if (count == 1 || dice.below(3) == 0)
    return flatbuffers::WriteScalar(list.at, count - 1);
  uint8_t *items = list.at + sizeof(uoffset_t);
  uint8_t *a = items + dice.below(count) * list.width, *b = items + dice.below(count) * list.width;
  if (!list.holdsOffsets) {
    std::swap_ranges(a, a + list.width, b);
    return;
  }
  // Offsets are relative to their own position.
  uint8_t *atA = a + read(a), *atB = b + read(b);
  flatbuffers::WriteScalar(a, uoffset_t(atB - a));
  flatbuffers::WriteScalar(b, uoffset_t(atA - b));
}

bool mutateTables(llvm::MutableArrayRef<uint8_t> payload, Dice &dice) {
  std::vector<uint64_t> aligned((payload.size() + 7) / 8);
  std::memcpy(aligned.data(), payload.data(), payload.size());
  auto *buffer = reinterpret_cast<uint8_t *>(aligned.data());
  if (llvm::Error error = plan::checkUnpacking(buffer, payload.size())) {
    llvm::consumeError(std::move(error));
    return false;
  }
  flatbuffers::Verifier verifier(buffer, payload.size(), /*max_depth=*/128);
  if (!plan::wire::VerifyPlanBuffer(verifier))
    return false;
  Places places;
  places.visitTable(buffer + read(buffer), plan::wire::PlanTypeTable());
  for (size_t changes = 1 + dice.below(3); changes > 0; --changes) {
    if (dice.below(3) == 0 && !places.lists.empty())
      changeList(places.lists[dice.below(places.lists.size())], dice);
    else if (!places.numbers.empty())
      changeNumber(places.numbers[dice.below(places.numbers.size())], places, dice);
  }
  std::memcpy(payload.data(), buffer, payload.size());
  return true;
}

} // namespace cleave::fuzz
