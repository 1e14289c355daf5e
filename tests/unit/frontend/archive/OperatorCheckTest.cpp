//===- OperatorCheckTest.cpp ----------------------------------------------===//
#include "frontend/archive/OperatorCheck.h"
#include <gtest/gtest.h>

namespace cleave {

/// What is said of a method with this body; empty: nothing.
static std::string messageFor(const std::string &body) {
  const std::string text =
      "class Model(Module):\n  __parameters__ = []\n  def forward(self: __torch__.Model,\n"
      "    x: Tensor) -> Tensor:\n    " +
      body + "\n";
  return llvm::toString(checkSourceOperators(text, "code/__torch__.py"));
}

TEST(OperatorCheck, AcceptsWhatModelsUse) {
  for (const char *body :
       {"return torch.relu(x)", "y = torch.add_(x, x)\n    return y", "return (self.linear).forward(x, )",
        "s = ops.prim.NumToTensor(torch.size(x, 0))\n    return x", "print(\"torch.save(x)\")\n    return x",
        "return torch.linear(x, CONSTANTS.c0)", "return getattr(self, \"0\")",
        "y = annotate(List[int], [])\n    return x",
        "p = __torch__.torch.classes.quantized.LinearPackedParamsBase\n    return x"})
    EXPECT_EQ(messageFor(body), "") << body;
}

TEST(OperatorCheck, RefusesWhatNoPlanMayCall) {
  for (const char *body :
       {"return torch.from_file(\"/etc/passwd\", False, 8)", "torch.save(x, \"f\")\n    return x",
        "return ops.aten.from_file(\"f\")", "t = torch\n    return t.from_file(\"f\")",
        "return ops.image.read_file(\"f\")", "o = ops\n    return o.image.read_file(\"f\")",
        "o = ops.image\n    return o.read_file(\"f\")", "return getattr(torch, \"from_file\")(\"f\")",
        "return getattr(torch, 'from' \"_\\146ile\")(\"f\")",
        "return getattr(getattr(__torch__.torch, 'classes'), 'x')", "return torch . from_file (\"f\")",
        "return torch.\\\n      from_file(\"f\")",
        "s = __torch__.torch.classes.dist_c10d.FileStore(\"f\", 1)\n    return x", "return torch.set_(x, x)"})
    EXPECT_NE(messageFor(body).find("which no plan may call"), std::string::npos) << body;
}

TEST(OperatorCheck, CommentsAndTextAreNoCode) {
  EXPECT_EQ(messageFor("return x  # torch.save(x, 'f')"), "");
  EXPECT_NE(messageFor("y = '#'\n    z = torch.save(x, 'f')\n    return x"), "");
}

} // namespace cleave
