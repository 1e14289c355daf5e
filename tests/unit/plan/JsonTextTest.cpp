//===- JsonTextTest.cpp - JSON that people read ---------------------------===//
#include "codegen/plan/JsonText.h"

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
