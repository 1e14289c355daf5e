//===- PrintableTest.cpp - Text of others on a terminal -------------------===//
#include "codegen/plan/text/Printable.h"
#include <gtest/gtest.h>

namespace cleave::plan {

TEST(PrintableTest, KeepsText) {
  for (const char *text : {"", "rank 1: aten::add", "größer als 3 µs", "\xf0\x9f\x99\x82"}) {
    EXPECT_TRUE(isPrintable(text));
    EXPECT_EQ(printable(text), text);
  }
}

TEST(PrintableTest, ShowsWhatATerminalWouldObey) {
  EXPECT_EQ(printable("a\033[2Jb\r\n\x7f"), "a\\x1b[2Jb\\x0d\\x0a\\x7f");
  // Control sequences of one character, lines, and text that runs backwards.
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");
  EXPECT_EQ(printable("\xe2\x80\xa8\xe2\x80\xae\xe2\x81\xa6"),
            "\\xe2\\x80\\xa8\\xe2\\x80\\xae\\xe2\\x81\\xa6");
  for (const char *text : {"\033", "\xc2\x9b", "\xe2\x80\xae"})
    EXPECT_FALSE(isPrintable(text));
}

TEST(PrintableTest, ShowsWhatIsNotSeen) {
  // A soft hyphen, a mark of direction, spaces of no width, a joiner, an annotation, and tags.
  for (const char *text : {"\u00ad", "\u061c", "\u180e", "\u200b", "\u200d", "\u2060", "\u206a", "\ufeff",
                           "\ufff9", "\U0001d173", "\U000e0000", "\U000e0041", "\U000e0fff"}) {
    EXPECT_FALSE(isPrintable(text)) << printable(text);
    EXPECT_TRUE(isPrintable(printable(text))) << printable(text);
  }
  EXPECT_EQ(printable("a\u061c"), "a\\xd8\\x9c");
  EXPECT_EQ(printableJson("\"a\u061c\U000e0041\""), "\"a\\u061c\\udb40\\udc41\"");
}

TEST(PrintableTest, ShowsWhatIsNoText) {
  EXPECT_EQ(printable("\xff"
                      "a\xc3"),
            "\\xff"
            "a\\xc3");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");
  EXPECT_EQ(printable(llvm::StringRef("a\0b", 3)), "a\\x00b");
}

TEST(PrintableTest, CutsBetweenCharacters) {
  EXPECT_EQ(printable("abc", 3), "abc");
  EXPECT_EQ(printable("abcd", 3), "abc…");
  EXPECT_EQ(printable("aµµ", 4), "aµ…");
}

TEST(PrintableTest, KeepsLines) { EXPECT_EQ(printableLines("a\033\nb\n"), "a\\x1b\nb\n"); }

} // namespace cleave::plan
