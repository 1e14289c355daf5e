//===- BytesReader.h - Bytes in memory as an archive ------------*- C++ -*-===//
//
// Private to frontend/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_FRONTEND_ARCHIVE_BYTESREADER_H
#define CLEAVE_FRONTEND_ARCHIVE_BYTESREADER_H

#include "llvm/ADT/ArrayRef.h"
#include <algorithm>
#include <caffe2/serialize/read_adapter_interface.h>
#include <cstring>
#include <memory>

namespace cleave {

/// Input of libtorch's archive reader: bytes in memory, which live as long as `owner`.
class BytesReader : public caffe2::serialize::ReadAdapterInterface {
public:
  explicit BytesReader(llvm::ArrayRef<uint8_t> bytes, std::shared_ptr<const void> owner = nullptr)
      : bytes(bytes), owner(std::move(owner)) {}

  size_t size() const override { return bytes.size(); }
  size_t read(uint64_t offset, void *buffer, size_t count, const char *) const override {
    if (offset >= bytes.size())
      return 0;
    count = std::min<size_t>(count, bytes.size() - offset);
    memcpy(buffer, bytes.data() + offset, count);
    return count;
  }

private:
  llvm::ArrayRef<uint8_t> bytes;
  std::shared_ptr<const void> owner;
};

} // namespace cleave

#endif // CLEAVE_FRONTEND_ARCHIVE_BYTESREADER_H
