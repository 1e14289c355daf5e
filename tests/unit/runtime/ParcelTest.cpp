//===- ParcelTest.cpp - Values as bytes, and back -------------------------===//
#include "runtime/Parcel.h"
#include <ATen/ATen.h>
#include <ATen/core/Dict.h>
#include <cstring>
#include <gmock/gmock.h>

namespace cleave::runtime {

using at::Tensor;
using c10::IValue;
using testing::HasSubstr;

/// The values as another process gets them.
static std::vector<IValue> sent(const std::vector<IValue> &values) {
  const Parcel parcel = pack(values);
  Unpacking unpacking(parcel.header);
  EXPECT_EQ(unpacking.blocks().size(), parcel.blocks.size());
  for (size_t i = 0; i < parcel.blocks.size(); ++i) {
    EXPECT_EQ(unpacking.blocks()[i].bytes, parcel.blocks[i].bytes);
    std::memcpy(unpacking.blocks()[i].data, parcel.blocks[i].data, parcel.blocks[i].bytes);
  }
  std::vector<IValue> arrived;
  unpacking.finish(arrived);
  return arrived;
}

static Tensor sentTensor(const Tensor &tensor) { return sent({tensor}).at(0).toTensor(); }

static size_t bytesSent(const Tensor &tensor) {
  size_t bytes = 0;
  for (const Block &block : pack({IValue(tensor)}).blocks)
    bytes += block.bytes;
  return bytes;
}

TEST(ParcelTest, KeepsStridesAndSendsWhatIsThere) {
  const Tensor whole = at::arange(24, at::kFloat).reshape({4, 6});
  for (const Tensor &tensor :
       {whole, whole.t(), whole.slice(1, 0, 6, 2), whole.slice(0, 1, 3), whole[0].expand({5, 6}),
        whole.select(1, 3), at::empty({0, 3}), at::scalar_tensor(7), whole.to(at::kBFloat16)}) {
    const Tensor arrived = sentTensor(tensor);
    EXPECT_TRUE(at::equal(arrived, tensor));
    EXPECT_EQ(arrived.strides(), tensor.strides());
    EXPECT_EQ(arrived.dtype(), tensor.dtype());
    EXPECT_LE(bytesSent(tensor), tensor.nbytes());
  }
  EXPECT_EQ(bytesSent(whole[0].expand({5, 6})), 6 * sizeof(float));
}

TEST(ParcelTest, KeepsWrappedNumbers) {
  Tensor number = at::scalar_tensor(2.5, at::kDouble);
  number.unsafeGetTensorImpl()->set_wrapped_number(true);
  EXPECT_TRUE(sentTensor(number).unsafeGetTensorImpl()->is_wrapped_number());
}

TEST(ParcelTest, KeepsQuantizedNumbersAndTheirScale) {
  const Tensor tensor =
      at::quantize_per_tensor(at::arange(6, at::kFloat).reshape({2, 3}), 0.5, 3, at::kQUInt8);
  for (const Tensor &each : {tensor, tensor.t(), tensor.slice(0, 0, 0)}) {
    const Tensor arrived = sentTensor(each);
    EXPECT_EQ(arrived.scalar_type(), at::kQUInt8);
    EXPECT_EQ(arrived.q_scale(), 0.5);
    EXPECT_EQ(arrived.q_zero_point(), 3);
    EXPECT_TRUE(at::equal(arrived.int_repr(), each.int_repr()));
  }
}

TEST(ParcelTest, ResolvesLazyConjugates) {
  const Tensor tensor = at::complex(at::rand({3}), at::rand({3})).conj();
  EXPECT_TRUE(at::equal(sentTensor(tensor), tensor.resolve_conj()));
}

TEST(ParcelTest, KeepsWhatIsNoTensor) {
  c10::List<std::optional<Tensor>> list({at::ones({2}), std::nullopt});
  c10::Dict<std::string, Tensor> dict;
  dict.insert("a", at::ones({3}));
  const std::vector<IValue> values = {IValue(),
                                      Tensor(),
                                      int64_t(-3),
                                      2.5,
                                      c10::complex<double>(1, 2),
                                      true,
                                      std::string("text"),
                                      c10::Device("cpu"),
                                      c10::ivalue::Tuple::create({IValue(1), IValue(at::ones({1}))}),
                                      list,
                                      dict,
                                      c10::List<int64_t>({1, 2})};
  const std::vector<IValue> arrived = sent(values);
  ASSERT_EQ(arrived.size(), values.size());
  EXPECT_TRUE(arrived[0].isNone());
  EXPECT_FALSE(arrived[1].toTensor().defined());
  for (size_t i = 2; i < 8; ++i)
    EXPECT_EQ(arrived[i], values[i]);
  EXPECT_EQ(arrived[8].toTupleRef().elements()[0].toInt(), 1);
  EXPECT_EQ(*arrived[9].type(), *values[9].type());
  EXPECT_TRUE(arrived[9].toListRef()[1].isNone());
  EXPECT_EQ(*arrived[10].type(), *values[10].type());
  EXPECT_EQ(arrived[11].toIntVector(), (std::vector<int64_t>{1, 2}));
}

TEST(ParcelTest, RefusesWhatHasNoBytes) {
  EXPECT_THAT([] { pack({IValue(at::ones({2}).to_sparse())}); },
              testing::ThrowsMessage<c10::Error>(HasSubstr("expected one that processes can exchange")));
}

TEST(ParcelTest, RefusesHeadersThatAreNone) {
  // One value: a header may end after any.
  const IValue both = c10::ivalue::Tuple::create({IValue(at::ones({2, 3})), IValue(std::string("text"))});
  const std::string header = pack({both}).header;
  for (size_t length = 1; length < header.size(); ++length)
    EXPECT_THROW(Unpacking(llvm::StringRef(header).take_front(length)), c10::Error) << length;
  std::string large = header;
  // A size beyond what can be counted.
  large[20 + 7] = 0x7f;
  EXPECT_THROW(Unpacking{large}, c10::Error);
}

} // namespace cleave::runtime
