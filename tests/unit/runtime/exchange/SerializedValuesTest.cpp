//===- SerializedValuesTest.cpp - Values as bytes, and back ---------------===//
#include "runtime/exchange/SerializedValues.h"
#include <ATen/ATen.h>
#include <ATen/core/Dict.h>
#include <cstring>
#include <gmock/gmock.h>

namespace cleave::runtime {

using at::Tensor;
using c10::IValue;
using testing::HasSubstr;

/// Limits that all values of these tests meet.
static constexpr SerializedLimits kPlenty{100, 1 << 20};

/// The values as another process receives them.
static std::vector<IValue> sent(const std::vector<IValue> &values) {
  const SerializedValues outgoing = serialize(values);
  Deserializer incoming(outgoing.header, kPlenty);
  EXPECT_EQ(incoming.blocks().size(), outgoing.blocks.size());
  for (size_t i = 0; i < outgoing.blocks.size(); ++i) {
    EXPECT_EQ(incoming.blocks()[i].bytes, outgoing.blocks[i].bytes);
    std::memcpy(incoming.blocks()[i].data, outgoing.blocks[i].data, outgoing.blocks[i].bytes);
  }
  std::vector<IValue> arrived;
  incoming.finish(arrived);
  return arrived;
}

static Tensor sentTensor(const Tensor &tensor) { return sent({tensor}).at(0).toTensor(); }

static size_t bytesSent(const Tensor &tensor) {
  size_t bytes = 0;
  for (const TensorMemory &block : serialize({IValue(tensor)}).blocks)
    bytes += block.bytes;
  return bytes;
}

TEST(SerializedValuesTest, KeepsStridesAndSendsWhatIsThere) {
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

TEST(SerializedValuesTest, KeepsWrappedNumbers) {
  Tensor number = at::scalar_tensor(2.5, at::kDouble);
  number.unsafeGetTensorImpl()->set_wrapped_number(true);
  EXPECT_TRUE(sentTensor(number).unsafeGetTensorImpl()->is_wrapped_number());
}

TEST(SerializedValuesTest, KeepsQuantizedNumbersAndTheirScale) {
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

TEST(SerializedValuesTest, ResolvesLazyConjugates) {
  const Tensor tensor = at::complex(at::rand({3}), at::rand({3})).conj();
  EXPECT_TRUE(at::equal(sentTensor(tensor), tensor.resolve_conj()));
}

TEST(SerializedValuesTest, KeepsWhatIsNoTensor) {
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

TEST(SerializedValuesTest, RefusesWhatHasNoBytes) {
  EXPECT_THAT([] { serialize({IValue(at::ones({2}).to_sparse())}); },
              testing::ThrowsMessage<c10::Error>(HasSubstr("expected one that processes can exchange")));
}

TEST(SerializedValuesTest, RefusesHeadersThatAreNone) {
  // One value: a header may end after any.
  const IValue both = c10::ivalue::Tuple::create({IValue(at::ones({2, 3})), IValue(std::string("text"))});
  const std::string header = serialize({both}).header;
  for (size_t length = 1; length < header.size(); ++length)
    EXPECT_THROW(Deserializer(llvm::StringRef(header).take_front(length), kPlenty), c10::Error) << length;
  std::string large = header;
  // A size beyond what can be counted.
  large[20 + 7] = 0x7f;
  EXPECT_THROW(Deserializer(large, kPlenty), c10::Error);
}

//===- What a hostile process sends ---------------------------------------===//

namespace {
/// A header, byte by byte.
class Header {
public:
  template <typename T> Header &operator<<(T number) {
    text.append(reinterpret_cast<const char *>(&number), sizeof number);
    return *this;
  }
  Header &operator<<(const char *word) {
    *this << uint64_t(std::strlen(word));
    text += word;
    return *this;
  }
  /// A tensor of float32 with these sizes and strides.
  Header &tensor(at::IntArrayRef sizes, at::IntArrayRef strides, uint8_t dtype = uint8_t(at::kFloat)) {
    *this << uint8_t(1) << dtype << uint8_t(0) << uint8_t(0) << uint64_t(sizes.size());
    for (int64_t size : sizes)
      *this << size;
    for (int64_t stride : strides)
      *this << stride;
    return *this;
  }
  std::string text;
};
constexpr uint8_t kNone = 0, kInt = 3, kString = 7, kTuple = 9, kList = 10, kDict = 11, kQuantized = 12;
} // namespace

static void expectRefused(const Header &header, const std::string &why) {
  EXPECT_THAT([&] { Deserializer(header.text, kPlenty); },
              testing::ThrowsMessage<c10::Error>(HasSubstr(why)));
}

TEST(SerializedValuesTest, RefusesMoreValuesThanAreExpected) {
  Header header;
  for (int i = 0; i < 101; ++i)
    header << kNone;
  expectRefused(header, "found more values than the 100 that are expected");
}

TEST(SerializedValuesTest, RefusesTensorsThatAreLargerThanExpected) {
  const std::string why = "found tensors of more than the ";
  expectRefused(Header().tensor({1 << 19}, {1}), why);
  expectRefused(Header().tensor({int64_t(1) << 40, 1024}, {1024, 1}), why);
  // Without elements to send: one that is repeated, and two that are far apart.
  expectRefused(Header().tensor({int64_t(1) << 40}, {0}), why);
  expectRefused(Header().tensor({2}, {int64_t(1) << 50}), why);
  expectRefused(Header() << kQuantized << uint8_t(at::kQInt8) << 0.5 << int64_t(0) << uint64_t(1)
                         << (int64_t(1) << 40),
                why);
  // Together.
  Header many;
  for (int i = 0; i < 5; ++i)
    many.tensor({1 << 16}, {1});
  expectRefused(many, why);
}

TEST(SerializedValuesTest, RefusesTensorsThatCannotBe) {
  expectRefused(Header().tensor({3}, {1}, 200), "found a tensor of an unknown element type");
  expectRefused(Header().tensor({-3}, {1}), "found a tensor of impossible size");
  expectRefused(Header().tensor({3}, {-1}), "found a tensor of impossible size");
  expectRefused(Header().tensor(std::vector<int64_t>(65, 1), std::vector<int64_t>(65, 1)),
                "found a tensor of 65 dimensions, expected at most 64");
  expectRefused(Header() << kQuantized << uint8_t(at::kFloat),
                "found a quantized tensor of an unknown element type");
}

TEST(SerializedValuesTest, RefusesContainersThatHoldAnythingElse) {
  expectRefused(Header() << kList << "int" << uint64_t(1) << kString << "text",
                "found a String among values of type int");
  expectRefused(Header() << kList << "Tensor" << uint64_t(1) << kInt << int64_t(7),
                "found a Int among values of type Tensor");
  expectRefused(Header() << kDict << "str,int" << uint64_t(1) << kString << "a",
                "found a key of a dict without its value");
  expectRefused(Header() << kDict << "str,int" << uint64_t(2) << kInt << int64_t(1) << kInt << int64_t(1),
                "found a Int among values of type str");
  expectRefused(Header() << kTuple << (uint64_t(1) << 60), "cut off");
  expectRefused(Header() << kString << (uint64_t(1) << 60), "cut off");
  expectRefused(Header() << uint8_t(200), "found a value of an unknown kind");
  Header similar;
  similar << kDict << "int,int" << uint64_t(48);
  // All in the same slot of libtorch's hash table, which doubles until they are not.
  for (uint64_t i = 1; i <= 24; ++i)
    similar << kInt << int64_t(i * 17428512612931826493u) << kInt << int64_t(0);
  expectRefused(similar, "found a dict of 24 keys with similar hashes");
  Header deep;
  for (int i = 0; i < 200; ++i)
    deep << kTuple << uint64_t(1);
  expectRefused(deep, "found values nested 100 deep");
}

TEST(SerializedValuesTest, RefusesHeadersThatAreLong) {
  Header header;
  header.text.resize(kMaxHeader + 1);
  expectRefused(header, "found a header of 4194305 bytes, expected at most 4194304");
  EXPECT_THAT([] { serialize({IValue(std::string(kMaxHeader, 'x'))}); },
              testing::ThrowsMessage<c10::Error>(HasSubstr("expected at most 4194304")));
}

} // namespace cleave::runtime
