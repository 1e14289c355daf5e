//===- TensorFile.cpp -----------------------------------------------------===//
#include "runtime/base/TensorFile.h"
#include "runtime/base/DTypes.h"
#include "runtime/base/Exceptions.h"
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <algorithm>

namespace cleave::runtime {

llvm::Expected<at::Tensor> mappedTensor(std::shared_ptr<plan::SafetensorsFile> file,
                                        const plan::TensorEntry &entry) {
  std::optional<c10::ScalarType> type = scalarTypeOf(entry.dtype);
  if (!type)
    return llvm::createStringError("tensor " + entry.name + ": its element type is unknown");
  return catching([&]() -> llvm::Expected<at::Tensor> {
    uint8_t *data = file->data(entry);
    if (entry.offset % plan::bytesOf(entry.dtype) == 0)
      return at::from_blob(data, entry.shape, [file](void *) {}, at::TensorOptions(*type));
    at::Tensor copy = at::empty(entry.shape, at::TensorOptions(*type));
    // An empty tensor has no memory, which memcpy must not be given.
    std::copy_n(data, entry.bytes, static_cast<uint8_t *>(copy.mutable_data_ptr()));
    return copy;
  });
}

llvm::Expected<std::vector<NamedTensor>> readTensors(llvm::StringRef path) {
  auto file = plan::SafetensorsFile::open(path);
  if (!file)
    return file.takeError();
  std::vector<NamedTensor> tensors;
  for (const plan::TensorEntry &entry : (*file)->entries()) {
    llvm::Expected<at::Tensor> tensor = mappedTensor(*file, entry);
    if (!tensor)
      return llvm::createStringError(path + ": " + llvm::toString(tensor.takeError()));
    tensors.push_back({entry.name, std::move(*tensor)});
  }
  return tensors;
}

/// The entries of `tensors`, and the tensors as they are written: contiguous, with lazy conjugates
/// materialized.
static llvm::Expected<std::vector<plan::TensorEntry>> entriesOf(std::vector<NamedTensor> &tensors) {
  std::vector<plan::TensorEntry> entries;
  for (auto &[name, tensor] : tensors) {
    plan::DType dtype = dtypeOf(tensor.scalar_type());
    if (dtype == plan::DType::Unknown)
      return llvm::createStringError("tensor " + name + ": " + c10::toString(tensor.scalar_type()) +
                                     " has no place in a safetensors file");
    tensor = tensor.resolve_conj().resolve_neg().contiguous();
    entries.push_back({name, dtype, tensor.sizes().vec()});
  }
  return entries;
}

llvm::Error writeTensors(plan::AtomicFile &file, llvm::ArrayRef<NamedTensor> named) {
  return catching([&]() -> llvm::Error {
    std::vector<NamedTensor> tensors(named);
    auto entries = entriesOf(tensors);
    if (!entries)
      return entries.takeError();
    auto write = [&](size_t index, plan::ByteSink sink) {
      const at::Tensor &tensor = tensors[index].tensor;
      return sink({static_cast<const uint8_t *>(tensor.const_data_ptr()), tensor.nbytes()});
    };
    return plan::writeSafetensors(file, std::move(*entries), write).takeError();
  });
}

llvm::Error writeTensors(llvm::StringRef path, llvm::ArrayRef<NamedTensor> tensors) {
  auto file = plan::AtomicFile::create(path);
  if (!file)
    return file.takeError();
  if (llvm::Error error = writeTensors(*file, tensors))
    return error;
  return file->commit();
}

} // namespace cleave::runtime
