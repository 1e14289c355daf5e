//===- SourceCheckTest.cpp - Source code at which libtorch crashes --------===//
#include "frontend/archive/SourceCheck.h"
#include <gtest/gtest.h>

using namespace cleave;

static std::string errorOf(const std::string &code) { return llvm::toString(checkEmptySubscripts(code)); }

TEST(SourceCheck, RefusesEmptySubscripts) {
  EXPECT_EQ(errorOf("def forward(self, x):\n  y = x []\n  return y\n"), "line 2 has an empty subscript");
  for (const char *before : {"x", "(x)", "x[0]", "{1: 2}", "\"text\"", "1.5", "None", "True", "self.sizes"})
    EXPECT_NE(errorOf(std::string("def f(x):\n  return ") + before + "[\n]\n"), "") << before;
}

TEST(SourceCheck, AcceptsListsWithoutElements) {
  for (const char *value : {"[]", "annotate(List[int], [])", "[[], []]", "x[0:1]", "x[...]", "\"x[]\"",
                            "not []", "[] if True else []", "{1: []}", "x == []", "f(x, y=[])"})
    EXPECT_EQ(errorOf(std::string("def f(x):\n  for i in []:\n    pass\n  return ") + value + "\n"), "")
        << value;
  EXPECT_EQ(errorOf("def f(x: List[int]=[]) -> List[int]:\n  return x # x[]\n"), "");
}

TEST(SourceCheck, LeavesTheRestToLibtorch) {
  EXPECT_EQ(errorOf(""), "");
  EXPECT_EQ(errorOf("def $ \"\n\\ \t x["), "");
}
