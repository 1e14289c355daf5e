//===- UnpickleTest.cpp - Values out of a model's pickles -----------------===//
#include "frontend/archive/Unpickle.h"
#include "llvm/ADT/StringRef.h"
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <numeric>

using namespace cleave;

// As torch's pickler writes them, without what it puts into its table
// -----------------------------------------

static std::string numberOf(int64_t value) {
  std::string bytes(8, 0);
  memcpy(bytes.data(), &value, 8);
  return "\x8a\x08" + bytes;
}

static std::string textOf(llvm::StringRef text) {
  return "X" + std::string({char(text.size()), 0, 0, 0}) + text.str();
}

static std::string tupleOf(std::initializer_list<std::string> parts) {
  return "(" + std::accumulate(parts.begin(), parts.end(), std::string()) + "t";
}

static std::string sizesOf(const std::vector<int64_t> &sizes) {
  std::string bytes = "(";
  for (int64_t size : sizes)
    bytes += numberOf(size);
  return bytes + "t";
}

namespace {
struct Tensor {
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
  std::string key = "0", kind = "Float";
  /// Of the storage, which the pickle says as well.
  int64_t elements = 8;
};
} // namespace

/// Its rebuilding, but for the arguments that follow sizes and strides.
static std::string beginOf(const Tensor &tensor) {
  std::string storage = tupleOf({textOf("storage"), "ctorch\n" + tensor.kind + "Storage\n",
                                 textOf(tensor.key), textOf("cpu"), numberOf(tensor.elements)}) +
                        "Q";
  return "(" + storage + numberOf(tensor.offset) + sizesOf(tensor.sizes) + sizesOf(tensor.strides);
}

static const std::string kNoGradient = "\x89"
                                       "ccollections\nOrderedDict\n)Rt";

static std::string pickleOf(const Tensor &tensor) {
  return "ctorch._utils\n_rebuild_tensor_v2\n" + beginOf(tensor) + kNoGradient + "R";
}

/// Reads it with one record, `0`, of the numbers 0 to 7.
static c10::IValue read(const std::string &content) {
  static std::vector<float> numbers = {0, 1, 2, 3, 4, 5, 6, 7};
  auto storages = std::make_shared<torch::jit::DeserializationStorageContext>();
  storages->addStorage("0", at::from_blob(numbers.data(), {8}).storage());
  const std::string pickle = "\x80\x02" + content + ".";
  auto resolve = [](const c10::QualifiedName &name) -> c10::StrongTypePtr {
    throw std::runtime_error("no type " + name.qualifiedName());
  };
  return unpickle({reinterpret_cast<const uint8_t *>(pickle.data()), pickle.size()}, 3, resolve, storages);
}

/// The first line of what is said; empty: nothing.
static std::string errorOf(const std::string &content) {
  try {
    read(content);
    return "";
  } catch (const std::exception &error) {
    return llvm::StringRef(error.what()).split('\n').first.str();
  }
}

static const std::string kOutside = "a tensor reaches past the end of its storage";

TEST(Unpickle, ReadsTensorsInTheirStorage) {
  EXPECT_TRUE(at::equal(read(pickleOf({{3}, {2}, 3})).toTensor(), at::tensor({3.f, 5.f, 7.f})));
  EXPECT_TRUE(at::equal(read(pickleOf({{3, 2}, {0, 1}})).toTensor(), at::arange(2.f).expand({3, 2})));
  EXPECT_EQ(read(pickleOf({{1000000000, 0}, {1, 1}})).toTensor().numel(), 0);
  EXPECT_EQ(read(pickleOf({.sizes = {0}, .strides = {1}, .key = "1", .elements = 0})).toTensor().numel(), 0);
}

TEST(Unpickle, RefusesTensorsOutside) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max(), half = int64_t(1) << 32;
  for (const Tensor &tensor : std::initializer_list<Tensor>{{{9}, {1}},
                                                            {{8}, {1}, 1},
                                                            {{1}, {1}, -1},
                                                            {{2}, {most}, most},
                                                            {{2, 2, 2, 2, 2}, {most, most, most, most, 4}},
                                                            {{1}, {1}, 7, "0", "Double"}})
    EXPECT_EQ(errorOf(pickleOf(tensor)), kOutside) << pickleOf(tensor);
  // Products that are 0, as far as 64 bits hold them, and sizes below that.
  for (const Tensor &tensor : std::initializer_list<Tensor>{{{half, half}, {half, 1}},
                                                            {{half, half}, {0, 0}},
                                                            {{-1}, {1}},
                                                            {{-2, -3}, {0, 0}},
                                                            {{-1, 0}, {1, 1}}})
    EXPECT_NE(errorOf(pickleOf(tensor)), "") << pickleOf(tensor);
}

TEST(Unpickle, LooksInEveryContainer) {
  const std::string outside = pickleOf({{9}, {1}});
  for (const std::string &content :
       {tupleOf({tupleOf({outside})}), "](" + outside + "e", "}(" + textOf("a") + outside + "u",
        // A list that is in itself.
        "]q\x01(h\x01" + outside + "e"})
    EXPECT_EQ(errorOf(content), kOutside) << content;
  // Each tuple has the one before it twice.
  std::string many = pickleOf({{8}, {1}}) + "q\x01";
  for (int depth = 0; depth < 64; ++depth)
    many += "h\x01\x86q\x01";
  EXPECT_EQ(errorOf(many), "");
}

TEST(Unpickle, StoragesAreRecords) {
  // Of a name that ends where one of a record's does, for C, and of fewer elements than none.
  for (const Tensor &tensor : std::initializer_list<Tensor>{
           {{1}, {1}, 0, "1"}, {{1}, {1}, 0, std::string("0\0", 2)}, {{1}, {1}, 1 << 20, "1", "Byte", -1}})
    EXPECT_NE(errorOf(pickleOf(tensor)), "");
}

/// A tensor of quantized numbers by channel, with these scales.
static std::string quantizedOf(const Tensor &scales) {
  const std::string parameters =
      tupleOf({"ctorch\nper_channel_affine\n", pickleOf(scales),
               pickleOf({scales.sizes, scales.strides, scales.offset}), numberOf(0)});
  return "ctorch._utils\n_rebuild_qtensor\n" + beginOf({.sizes = {4}, .strides = {1}, .kind = "QInt8"}) +
         parameters + kNoGradient + "R";
}

// The quantizer keeps a copy: afterwards nothing tells where they were.
TEST(Unpickle, ScalesAreInTheirStorage) {
  EXPECT_TRUE(at::equal(read(quantizedOf({{4}, {2}, 1})).toTensor().q_per_channel_scales(),
                        at::tensor({1., 3., 5., 7.})));
  EXPECT_EQ(errorOf(quantizedOf({{4}, {2}, 2})), kOutside);
}

/// A sparse matrix of 2 rows and 2 columns with one number, whose indices are these of record `0`.
static std::string sparseOf(int64_t row) {
  std::string indices = "ctorch._utils\n_rebuild_tensor_v2\n" +
                        beginOf({.sizes = {2, 1}, .strides = {0, 1}, .offset = row, .kind = "Long"}) +
                        kNoGradient + "R";
  return "ctorch._utils\n_rebuild_sparse_tensor\n" +
         tupleOf({numberOf(int64_t(at::kSparse)), sizesOf({2, 2}), "\x89", indices, pickleOf({{1}, {1}})}) +
         "R";
}

TEST(Unpickle, IndicesAreInTheirTensor) {
  // The numbers are floats, of which two make a large integer.
  EXPECT_NE(errorOf(sparseOf(0)), "");
  EXPECT_EQ(errorOf(sparseOf(4)), kOutside);
}
