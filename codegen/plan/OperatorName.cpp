//===- OperatorName.cpp - Which operators a plan may call -----------------===//
#include "codegen/plan/OperatorName.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace cleave::plan {

using llvm::StringRef;

/// Pure operators of TorchScript's own namespace. Its others print, call Python, fork, or are syntax.
static constexpr StringRef kAllowedPrims[] = {"NumToTensor",
                                              "RaiseException",
                                              "StringIndex",
                                              "TupleIndex",
                                              "TupleUnpack",
                                              "abs",
                                              "data",
                                              "device",
                                              "dtype",
                                              "is_cpu",
                                              "is_cuda",
                                              "is_meta",
                                              "is_mkldnn",
                                              "is_nested",
                                              "is_quantized",
                                              "is_sparse",
                                              "itemsize",
                                              "layout",
                                              "max",
                                              "min",
                                              "rangelist",
                                              "requires_grad",
                                              "shape",
                                              "type",
                                              "unchecked_cast",
                                              "unchecked_unwrap_optional"};

/// `aten::` operators with effects outside their tensors: files, the terminal, process-wide state, remote
/// references, distributed autograd.
static constexpr StringRef kRefusedAten[] = {"_cuda_sync",
                                             "_print",
                                             "_share_memory_",
                                             "backward",
                                             "confirmed_by_owner",
                                             "from_file",
                                             "get_gradients",
                                             "is_owner",
                                             "local_value",
                                             "manual_seed",
                                             "owner",
                                             "owner_name",
                                             "print",
                                             "save",
                                             "seed",
                                             "set_",
                                             "set_data",
                                             "set_grad_enabled",
                                             "to_here",
                                             "wait",
                                             "warn"};

/// Namespaces made of file access, processes and raw memory.
static constexpr StringRef kRefusedNamespaces[] = {"_c10d_functional",
                                                   "aoti_torch",
                                                   "c10d",
                                                   "c10d_functional",
                                                   "cuda",
                                                   "debugprims",
                                                   "dist",
                                                   "image",
                                                   "inductor",
                                                   "io",
                                                   "ipc",
                                                   "onnx",
                                                   "profiler",
                                                   "rpc",
                                                   "streams",
                                                   "symm_mem",
                                                   "torchaudio_sox",
                                                   "video_reader"};

static bool isWord(StringRef text) {
  return !text.empty() && llvm::all_of(text, [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

bool isOperatorName(StringRef name) {
  auto [space, rest] = name.split("::");
  auto [base, overload] = rest.split('.');
  bool hasOverload = rest.contains('.');
  return isWord(space) && isWord(base) && (!hasOverload || isWord(overload));
}

/// Those that torch offers for callers who promise that their indices are right.
static bool skipsChecks(StringRef atenName) {
  return atenName.contains("unsafe") &&
         !llvm::is_contained({"_unsafe_view", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes"},
                             atenName);
}

bool isOperatorAllowed(StringRef name) {
  if (!isOperatorName(name))
    return false;
  auto [space, rest] = name.split("::");
  StringRef base = rest.split('.').first;
  if (space == "prim")
    return llvm::is_contained(kAllowedPrims, base);
  if (space == "aten")
    return !llvm::is_contained(kRefusedAten, base) && !skipsChecks(base);
  return !llvm::is_contained(kRefusedNamespaces, space);
}

bool isExchange(StringRef name) { return name.starts_with("spmd::") && name != "spmd::shard"; }

} // namespace cleave::plan
