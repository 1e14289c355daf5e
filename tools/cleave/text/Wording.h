//===- Wording.h - Facts of a plan as text ----------------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_TEXT_WORDING_H
#define CLEAVE_TOOLS_CLEAVE_TEXT_WORDING_H

#include "codegen/plan/Plan.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <string>

namespace cleave {

/// Megabytes (10^6), `1.57`.
std::string megabytes(int64_t bytes);
/// `80 GB`: in the largest unit that gives a whole number.
std::string sizeText(int64_t bytes);
/// `166.35`.
std::string milliseconds(double seconds);
/// `1 device`, `4 devices`, `2 batches`.
std::string count(uint64_t number, llvm::StringRef noun);

/// `pp=4 dp=1 tp=1, 4 devices`.
std::string meshText(const plan::Mesh &mesh);
/// `4 micro-batches`, or `4 micro-batches a data-parallel rank` if there are several data-parallel ranks.
std::string microbatchesText(const plan::Plan &plan, uint64_t microbatches);
/// `cpu:0`, or `cpu:0..cpu:3` for several devices.
std::string devicesText(const plan::Plan &plan, const plan::Stage &stage);
/// `stage 1`, `stages 0, 3`.
std::string stagesText(llvm::ArrayRef<uint32_t> stages);
/// `float32[batch, 768]`.
std::string typeText(const plan::Signature &signature, const plan::TensorType &type);
/// `batch=4, seq=128`: the symbols of the signature with these sizes.
std::string sizesText(const plan::Signature &signature, llvm::ArrayRef<int64_t> sizes);
/// `batch any size, seq 4 to 16 in multiples of 4`: the sizes at which the trace was compared with the
/// module; empty if it was not.
std::string witnessedText(const plan::Signature &signature);
/// `5 sizes and values`: sets of inputs that the module answered to.
std::string witnessesText(uint64_t number);
/// The module and operator of a note, `layer0 aten::linear`; empty if it names neither.
std::string placeText(const plan::Note &note);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_TEXT_WORDING_H
