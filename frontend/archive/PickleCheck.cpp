//===- PickleCheck.cpp - Allocation check of a pickle ---------------------===//
#include "frontend/archive/PickleCheck.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include <optional>
#include <torch/csrc/jit/serialization/pickler_helper.h>

namespace cleave {

using torch::jit::PickleOpCode;

namespace {
/// The argument of an opcode.
struct Argument {
  /// Bytes of one little-endian number.
  unsigned bytes = 0;
  enum { Number, LengthOfString, PlaceInTable } meaning = Number;
  /// Number of text lines instead.
  unsigned lines = 0;
};
} // namespace

/// The arguments of the opcodes that libtorch reads; nothing for others.
static std::optional<Argument> argumentOf(PickleOpCode code) {
  switch (code) {
  case PickleOpCode::MARK:
  case PickleOpCode::NONE:
  case PickleOpCode::NEWTRUE:
  case PickleOpCode::NEWFALSE:
  case PickleOpCode::EMPTY_LIST:
  case PickleOpCode::EMPTY_TUPLE:
  case PickleOpCode::EMPTY_DICT:
  case PickleOpCode::LIST:
  case PickleOpCode::TUPLE:
  case PickleOpCode::TUPLE1:
  case PickleOpCode::TUPLE2:
  case PickleOpCode::TUPLE3:
  case PickleOpCode::DICT:
  case PickleOpCode::APPEND:
  case PickleOpCode::APPENDS:
  case PickleOpCode::SETITEM:
  case PickleOpCode::SETITEMS:
  case PickleOpCode::NEWOBJ:
  case PickleOpCode::BUILD:
  case PickleOpCode::REDUCE:
  case PickleOpCode::BINPERSID:
    return Argument{};
  case PickleOpCode::PROTO:
  case PickleOpCode::BININT1:
  case PickleOpCode::BINGET:
  case PickleOpCode::BINPUT:
    return Argument{.bytes = 1};
  case PickleOpCode::BININT2:
    return Argument{.bytes = 2};
  case PickleOpCode::BININT:
  case PickleOpCode::LONG_BINGET:
    return Argument{.bytes = 4};
  case PickleOpCode::BINFLOAT:
    return Argument{.bytes = 8};
  case PickleOpCode::LONG_BINPUT:
    return Argument{.bytes = 4, .meaning = Argument::PlaceInTable};
  case PickleOpCode::LONG1:
    return Argument{.bytes = 1, .meaning = Argument::LengthOfString};
  case PickleOpCode::BINUNICODE:
    return Argument{.bytes = 4, .meaning = Argument::LengthOfString};
  case PickleOpCode::GLOBAL:
    return Argument{.lines = 2};
  default:
    return std::nullopt;
  }
}

llvm::Error checkPickle(llvm::ArrayRef<uint8_t> pickle) {
  auto fail = [&](const uint8_t *code, const llvm::Twine &found) {
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   "opcode at byte " + llvm::Twine(code - pickle.begin()) + " of " +
                                       llvm::Twine(pickle.size()) + " " + found);
  };
  for (llvm::ArrayRef<uint8_t> rest = pickle; !rest.empty();) {
    const uint8_t *code = rest.begin();
    auto argument = argumentOf(PickleOpCode(*code));
    rest = rest.drop_front();
    if (!argument)
      return llvm::Error::success();
    for (unsigned i = 0; i < argument->lines; ++i)
      rest = rest.drop_front(std::min<size_t>(rest.size(), llvm::find(rest, '\n') - rest.begin() + 1));
    if (rest.size() < argument->bytes)
      return fail(code, "is cut off");
    uint64_t number = 0;
    for (uint8_t byte : llvm::reverse(rest.take_front(argument->bytes)))
      number = number << 8 | byte;
    rest = rest.drop_front(argument->bytes);
    if (argument->meaning == Argument::PlaceInTable && number > pickle.size())
      return fail(code, "writes place " + llvm::Twine(number) + " of a table, more than there are bytes");
    if (argument->meaning == Argument::LengthOfString) {
      if (number > rest.size())
        return fail(code, "begins a string of " + llvm::Twine(number) + " bytes, of which " +
                              llvm::Twine(rest.size()) + " are there");
      rest = rest.drop_front(number);
    }
  }
  return llvm::Error::success();
}

} // namespace cleave
