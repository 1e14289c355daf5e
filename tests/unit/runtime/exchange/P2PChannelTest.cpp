//===- P2PChannelTest.cpp - Values between the stages of two processes ----===//
#include "runtime/exchange/P2PChannel.h"
#include "tests/unit/runtime/MemoryTransport.h"
#include <ATen/ATen.h>
#include <cstring>
#include <gmock/gmock.h>

namespace cleave::runtime {

using Values = std::vector<c10::IValue>;

/// Limits that all values of these tests meet.
static constexpr SerializedLimits kPlenty{100, 16 << 20};

class P2PChannelTest : public testing::Test {
protected:
  MemoryTransports transports;
  std::unique_ptr<Transport> out = transports.transport(0), in = transports.transport(1);
  MemoryAccountRef account{new MemoryAccount("receiver")};
};

TEST_F(P2PChannelTest, BringsValuesOfAnySize) {
  Sender sender(*out, 1, Tag::Values);
  Receiver receiver(*in, 0, Tag::Values, *account, kPlenty);
  for (int64_t size : {0, 1, 1000, 16000, 16384, 100000}) {
    const at::Tensor tensor = at::arange(size, at::kFloat);
    const std::string text(size, 'x'); // in the header
    Values values = {tensor, int64_t(3), text, tensor.slice(0, 0, size, 2)}, arrived;
    sender.send(values);
    EXPECT_TRUE(values.empty());
    receiver.take(arrived);
    EXPECT_EQ(arrived.size(), 4u);
    if (arrived.size() != 4)
      break; // the transport is closed below
    EXPECT_TRUE(at::equal(arrived[0].toTensor(), tensor));
    EXPECT_EQ(arrived[1].toInt(), 3);
    EXPECT_EQ(arrived[2].toStringRef(), text);
    EXPECT_TRUE(at::equal(arrived[3].toTensor(), tensor.slice(0, 0, size, 2)));
  }
  transports.close();
}

TEST_F(P2PChannelTest, SmallValuesAreOneMessage) {
  Sender sender(*out, 1, Tag::Values);
  Receiver receiver(*in, 0, Tag::Values, *account, kPlenty);
  Values values = {at::ones({100}), at::ones({100})};
  sender.send(values);
  receiver.take(values);
  EXPECT_EQ(transports.messages, 1);
  transports.close();
}

TEST_F(P2PChannelTest, ReceivesBeforeItIsAskedAndCountsThat) {
  Sender sender(*out, 1, Tag::Values);
  Receiver receiver(*in, 0, Tag::Values, *account, kPlenty);
  Values values = {at::ones({100000})};
  sender.send(values);
  // Nothing has been received yet.
  sender.flush();
  EXPECT_GE(account->heldBytes(), 400000);
  receiver.take(values);
  values.clear();
  EXPECT_EQ(account->heldBytes(), 0);
  transports.close();
}

namespace {
/// A link of the CPU, so that all tensors go through it.
class TransportLink final : public TensorLink {
public:
  TransportLink(Transport &transport, uint32_t peer)
      : TensorLink(c10::kCPU), transport(transport), peer(peer) {}
  std::unique_ptr<PendingMessage> send(const at::Tensor &bytes) override {
    rows.push_back(bytes.numel());
    return transport.send(peer, Tag::Commands, bytes.const_data_ptr(), bytes.nbytes());
  }
  std::unique_ptr<PendingMessage> receive(const at::Tensor &bytes) override {
    return transport.receive(peer, Tag::Commands, bytes.mutable_data_ptr(), bytes.nbytes());
  }
  std::vector<int64_t> rows;

private:
  Transport &transport;
  const uint32_t peer;
};
} // namespace

TEST_F(P2PChannelTest, TensorsOfALinkedDeviceGoApart) {
  TransportLink there(*out, 1), back(*in, 0);
  Sender sender(*out, 1, Tag::Values, &there);
  Receiver receiver(*in, 0, Tag::Values, *account, kPlenty, &back);
  const at::Tensor whole = at::arange(60, at::kInt).view({3, 20});
  const Values given = {whole.t(),
                        whole.slice(1, 0, 20, 5),
                        whole.select(0, 1).expand({4, 20}),
                        at::empty({0}),
                        at::scalar_tensor(true),
                        int64_t(3),
                        c10::List<at::Tensor>({whole.slice(1, 4, 8)})};
  for (int round = 0; round < 3; ++round) {
    Values values = given, arrived;
    sender.send(values);
    receiver.take(arrived);
    EXPECT_EQ(arrived.size(), given.size());
    if (arrived.size() != given.size())
      break; // the transport is closed below
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_TRUE(at::equal(arrived[i].toTensor(), given[i].toTensor())) << i;
      EXPECT_EQ(arrived[i].toTensor().strides(), given[i].toTensor().strides()) << i;
    }
    EXPECT_EQ(arrived[5].toInt(), 3);
    EXPECT_TRUE(at::equal(arrived[6].toTensorVector()[0], whole.slice(1, 4, 8)));
  }
  sender.flush();
  // Tensors with repeated elements or gaps are sent as compact rows.
  EXPECT_THAT(there.rows, testing::SizeIs(3 * 5));
  EXPECT_EQ(std::vector(there.rows.begin(), there.rows.begin() + 5),
            (std::vector<int64_t>{240, 48, 80, 4, 48}));
  transports.close();
}

TEST_F(P2PChannelTest, RefusesMessagesThatAreNone) {
  // Sizes of header and tensors, the bytes that follow, and the expected error.
  struct Case {
    uint64_t header, blocks;
    std::string rest;
    const char *why;
  };
  const std::string tensor = [] {
    std::vector<c10::IValue> values = {at::ones({4})};
    return serialize(values).header;
  }();
  for (const Case &each : {Case{uint64_t(1) << 60, 0, "", "found a header of 1152921504606846976 bytes"},
                           Case{8, 0, std::string(8, '\0'), "found more values than the 2"},
                           Case{1, 0, "\x63", "found a value of an unknown kind"},
                           Case{tensor.size(), 17, tensor, "found 17 bytes of tensors, expected 16"},
                           Case{tensor.size(), uint64_t(1) << 60, tensor,
                                "found 1152921504606846976 bytes of tensors, expected 16"}}) {
    Receiver receiver(*in, 0, Tag::Values, *account, {2, 16});
    std::string message(16, '\0');
    std::memcpy(message.data(), &each, 16);
    message += each.rest;
    out->send(1, Tag::Values, message.data(), message.size())->wait();
    Values values;
    EXPECT_THAT([&] { receiver.take(values); },
                testing::ThrowsMessage<std::runtime_error>(testing::AllOf(
                    testing::StartsWith("a message of rank 0: "), testing::HasSubstr(each.why))));
    EXPECT_EQ(account->heldBytes(), 0);
  }
  // An empty message is not a value.
  Receiver receiver(*in, 0, Tag::Values, *account, {2, 16});
  out->send(1, Tag::Values, "", 0)->wait();
  Values values(3);
  receiver.take(values);
  EXPECT_TRUE(values.empty());
  transports.close();
}

TEST_F(P2PChannelTest, EndsWhenTheWireIsCut) {
  Receiver receiver(*in, 0, Tag::Values, *account, kPlenty);
  transports.close();
  Values values;
  EXPECT_THROW(receiver.take(values), TransportClosed);
}

} // namespace cleave::runtime
