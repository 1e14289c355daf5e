//===- JsonTextTest.cpp - JSON that people read ---------------------------===//
#include "codegen/plan/text/JsonText.h"

#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

using namespace cleave::plan;
namespace json = llvm::json;

TEST(JsonText, HasNoDigitsThatAreNotNeeded) {
  for (auto [number, text] : {std::pair(0.9, "0.9"),
                              {0.7, "0.7"},
                              {-9e-7, "-9e-07"},
                              {1e300, "1e+300"},
                              {1e9, "1000000000"},
                              {0.1 + 0.2, "0.30000000000000004"},
                              {1.0 / 3, "0.3333333333333333"},
                              {0, "0"}})
    EXPECT_EQ(numberText(number), text);
}

TEST(JsonText, IsReadAsTheSameNumber) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 10000; ++i) {
    const uint64_t bits = random();
    double number;
    std::memcpy(&number, &bits, sizeof(number));
    if (!std::isfinite(number))
      continue;
    EXPECT_EQ(std::strtod(numberText(number).c_str(), nullptr), number);
  }
}

TEST(JsonText, IsLlvmsButForNumbers) {
  const json::Value value =
      json::Object{{"b", json::Array{1, true, nullptr, "a\n", json::Array{}, json::Object{}}},
                   {"a", json::Object{{"d", std::numeric_limits<int64_t>::max()}, {"c", 2.5}}},
                   {"c", std::numeric_limits<uint64_t>::max()}};
  EXPECT_EQ(jsonText(value, 0), llvm::formatv("{0}", value).str());
  EXPECT_EQ(jsonText(value, 2), llvm::formatv("{0:2}", value).str());
  EXPECT_EQ(jsonText(json::Array{0.9, json::Object{{"x", 0.7}}}, 0), "[0.9,{\"x\":0.7}]");
}

TEST(JsonText, ShowsWhatATerminalWouldObey) {
  // A control sequence of one character, text that runs backwards, a line separator, and what is shown.
  const json::Value value =
      json::Object{{"a\xc2\x9b", "\xe2\x80\xae\xe2\x80\x8f\xe2\x81\xa6"},
                   {"b", json::Array{"\xe2\x80\xa8\x7f", "größer\n", "\xf0\x9f\x99\x82"}}};
  const std::string text = jsonText(value, 0);
  EXPECT_EQ(text, "{\"a\\u009b\":\"\\u202e\\u200f\\u2066\",\"b\":[\"\\u2028\\u007f\",\"größer\\n\","
                  "\"\xf0\x9f\x99\x82\"]}");
  EXPECT_EQ(llvm::cantFail(json::parse(text)), value);
  EXPECT_EQ(llvm::cantFail(json::parse(jsonText(value, 2))), value);
}
