//===- PostTest.cpp - Values between the stages of two processes ----------===//
#include "runtime/Post.h"
#include "tests/unit/runtime/MemoryWire.h"
#include <ATen/ATen.h>
#include <gmock/gmock.h>

namespace cleave::runtime {

using Values = std::vector<c10::IValue>;

class PostTest : public testing::Test {
protected:
  MemoryWires wires;
  std::unique_ptr<Wire> out = wires.wire(0), in = wires.wire(1);
  MemoryAccountRef account{new MemoryAccount("receiver")};
};

TEST_F(PostTest, BringsValuesOfAnySize) {
  Outbox outbox(*out, 1, Topic::Values);
  Inbox inbox(*in, 0, Topic::Values, *account);
  for (int64_t size : {0, 1, 1000, 16000, 16384, 100000}) {
    const at::Tensor tensor = at::arange(size, at::kFloat);
    const std::string text(size, 'x'); // in the header
    Values values = {tensor, int64_t(3), text, tensor.slice(0, 0, size, 2)}, arrived;
    outbox.send(values);
    EXPECT_TRUE(values.empty());
    inbox.take(arrived);
    EXPECT_EQ(arrived.size(), 4u);
    if (arrived.size() != 4)
      break; // the wire is to be cut
    EXPECT_TRUE(at::equal(arrived[0].toTensor(), tensor));
    EXPECT_EQ(arrived[1].toInt(), 3);
    EXPECT_EQ(arrived[2].toStringRef(), text);
    EXPECT_TRUE(at::equal(arrived[3].toTensor(), tensor.slice(0, 0, size, 2)));
  }
  wires.cut();
}

TEST_F(PostTest, SmallValuesAreOneMessage) {
  Outbox outbox(*out, 1, Topic::Values);
  Inbox inbox(*in, 0, Topic::Values, *account);
  Values values = {at::ones({100}), at::ones({100})};
  outbox.send(values);
  inbox.take(values);
  EXPECT_EQ(wires.messages, 1);
  wires.cut();
}

TEST_F(PostTest, ReceivesBeforeItIsAskedAndCountsThat) {
  Outbox outbox(*out, 1, Topic::Values);
  Inbox inbox(*in, 0, Topic::Values, *account);
  Values values = {at::ones({100000})};
  outbox.send(values);
  // Nobody has taken anything yet.
  outbox.flush();
  EXPECT_GE(account->heldBytes(), 400000);
  inbox.take(values);
  values.clear();
  EXPECT_EQ(account->heldBytes(), 0);
  wires.cut();
}

TEST_F(PostTest, EndsWhenTheWireIsCut) {
  Inbox inbox(*in, 0, Topic::Values, *account);
  wires.cut();
  Values values;
  EXPECT_THROW(inbox.take(values), WireCut);
}

} // namespace cleave::runtime
