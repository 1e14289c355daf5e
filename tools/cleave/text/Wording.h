//===- Wording.h - How facts of a plan are worded ---------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_TEXT_WORDING_H
#define CLEAVE_TOOLS_CLEAVE_TEXT_WORDING_H

#include "codegen/plan/Plan.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <string>

namespace cleave {

/// `1.57`, in units of 10^6 bytes.
std::string megabytes(int64_t bytes);
/// `80 GB`: in the largest unit of which it is a whole number.
std::string sizeText(int64_t bytes);
/// `166.35`.
std::string milliseconds(double seconds);
/// `1 device`, `4 devices`, `2 batches`.
std::string count(uint64_t number, llvm::StringRef noun);

/// `pp=4 dp=1 tp=1, 4 devices`.
std::string meshText(const plan::Mesh &mesh);
/// `4 micro-batches`, `4 micro-batches a data rank` where there are several of these.
std::string microbatchesText(const plan::Plan &plan, uint64_t microbatches);
/// `cpu:0`, or `cpu:0..cpu:3` of several.
std::string devicesText(const plan::Plan &plan, const plan::Stage &stage);
/// `stage 1`, `stages 0, 3`.
std::string stagesText(llvm::ArrayRef<uint32_t> stages);
/// `float32[batch, 768]`.
std::string typeText(const plan::Signature &signature, const plan::TensorType &type);
/// `batch=4, seq=128`: the symbols of the signature at these sizes.
std::string sizesText(const plan::Signature &signature, llvm::ArrayRef<int64_t> sizes);
/// What a note is about: `layer0 aten::linear`; empty where it names neither.
std::string placeText(const plan::Note &note);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_TEXT_WORDING_H
