//===- Unpickle.cpp - Values of a model's pickles -------------------------===//
#include "frontend/archive/Unpickle.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include <ATen/ops/_validate_sparse_coo_tensor_args.h>
#include <ATen/ops/_validate_sparse_csr_tensor_args.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <cstring>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/library.h>

namespace cleave {

using c10::IValue;

/// True if some elements of the tensor are outside its storage.
static bool reachesOutside(const at::Tensor &tensor) {
  if (llvm::any_of(tensor.sizes(), [](int64_t size) { return size < 0; }))
    return true;
  if (tensor.numel() == 0)
    return false;
  // Wide enough, since libtorch checks that 64 bits can count the elements.
  __int128 first = tensor.storage_offset(), last = first;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    __int128 reach = __int128(tensor.size(dim) - 1) * tensor.stride(dim);
    (reach < 0 ? first : last) += reach;
  }
  // A storage without a record has a size that the pickle chose, and no memory.
  const c10::Storage &storage = tensor.storage();
  return first < 0 || !storage.data() || last >= __int128(storage.nbytes() / tensor.itemsize());
}

static void checkTensor(const at::Tensor &tensor) {
  if (!tensor.defined())
    return;
  if (tensor.layout() == at::kSparse)
    return at::_validate_sparse_coo_tensor_args(tensor._indices(), tensor._values(), tensor.sizes());
  if (tensor.layout() == at::kSparseCsr)
    return at::_validate_sparse_csr_tensor_args(tensor.crow_indices(), tensor.col_indices(), tensor.values(),
                                                tensor.sizes());
  // Code of the model may have made tensors for oneDNN.
  TORCH_CHECK(tensor.has_storage() || tensor.is_mkldnn(), "a tensor is ", tensor.layout(),
              ", expected Strided, Sparse or SparseCsr");
  TORCH_CHECK(!tensor.has_storage() || !reachesOutside(tensor),
              "a tensor reaches past the end of its storage");
}

/// Checks every tensor in `value`. Lists may contain themselves, and tuples may be in many others.
static void checkTensors(const IValue &value) {
  llvm::DenseSet<const void *> seen;
  value.visit([&](const IValue &part) {
    if (part.isTensor())
      checkTensor(part.toTensor());
    return part.isPtrType() && !seen.insert(part.internalToPointer()).second;
  });
}

//===- Operators that the unpickler calls ---------------------------------===//

static constexpr c10::DispatchKey kUnpickling = c10::DispatchKey::TESTING_ONLY_GenericMode;

/// Runs before every operator on a thread that unpickles: scales of quantized tensors and parts of sparse
/// tensors are arguments of operators before the whole value exists.
static void checkArguments(const c10::OperatorHandle &op, torch::jit::Stack *stack) {
  for (const IValue &argument : torch::jit::last(*stack, op.schema().arguments().size()))
    checkTensors(argument);
  c10::impl::ExcludeDispatchKeyGuard checked(kUnpickling);
  op.callBoxed(stack);
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&checkArguments>());
}

//===- Objects ------------------------------------------------------------===//

namespace {
/// An object that the model's own code restores.
struct Restored {
  c10::StrongTypePtr type;
  IValue state;
  c10::intrusive_ptr<c10::ivalue::Object> object;
};
} // namespace

/// Runs that code in the order of the objects in the pickle: parts before wholes.
static void restore(llvm::ArrayRef<Restored> objects) {
  for (const Restored &restored : objects) {
    auto whole = torch::jit::ObjLoaderFunc(restored.type, restored.state);
    for (size_t slot = 0; slot < whole->slots().size(); ++slot)
      restored.object->setSlot(slot, whole->getSlot(slot));
  }
}

IValue unpickle(llvm::ArrayRef<uint8_t> pickle, uint64_t version, torch::jit::TypeResolver resolver,
                std::shared_ptr<torch::jit::DeserializationStorageContext> storages) {
  std::vector<Restored> objects;
  auto loadObject = [&](const c10::StrongTypePtr &type, IValue state) {
    auto loaded = type.type_->expect<c10::ClassType>();
    if (!loaded->findMethod("__setstate__"))
      return torch::jit::ObjLoaderFunc(type, std::move(state));
    // Runs later, since an object's code may have kept a list that the pickle goes on to fill.
    auto object = c10::ivalue::Object::create(type, loaded->numAttributes());
    objects.push_back({type, std::move(state), object});
    return object;
  };
  auto readBytes = [&](char *buffer, size_t count) {
    count = std::min(count, pickle.size());
    memcpy(buffer, pickle.data(), count);
    pickle = pickle.drop_front(count);
    return count;
  };
  // libtorch would trust the pickle for the size of a storage that it looks up itself.
  auto readRecord = [](const std::string &name) -> at::DataPtr {
    TORCH_CHECK(false, "no record holds the weight ", name);
  };
  // On the CPU, wherever the weights were when the model was saved.
  torch::jit::Unpickler unpickler(readBytes, std::move(resolver), loadObject, readRecord, at::kCPU, false,
                                  torch::jit::Unpickler::defaultTypeParser, std::move(storages));
  unpickler.set_version(version);
  IValue value = [&] {
    c10::impl::IncludeDispatchKeyGuard checking(kUnpickling);
    return unpickler.parse_ivalue();
  }();
  checkTensors(value);
  for (const Restored &restored : objects)
    checkTensors(restored.state);
  restore(objects);
  checkTensors(value);
  return value;
}

} // namespace cleave
