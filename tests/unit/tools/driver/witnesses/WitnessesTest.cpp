//===- WitnessesTest.cpp - Reading witnesses ------------------------------===//
#include "tests/unit/plan/PlanBuilder.h"
#include "tools/driver/base/FilesBeside.h"
#include "tools/driver/witnesses/Projection.h"
#include "tools/driver/witnesses/WitnessFile.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include <ATen/ATen.h>
#include <gmock/gmock.h>

namespace cleave {

using plan::messageOf;
using plan::TestFolder;
using runtime::NamedTensor;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

static constexpr const char *kDims =
    R"({"dims": [["x", 0]], "traced": 4, "min": 1, "max": 9223372036854775807,
    "divisible_by": 1, "below": "", "above": "", "between": "", "where": "", "diverges": false})";
static constexpr const char *kWitness =
    R"({"name": "traced", "inputs": {"x": "w0.in.0"}, "outputs": {"y": "w0.out.0", "z": "w0.out.1"}})";

static std::string describe(const std::string &dimensions = kDims, const std::string &witnesses = kWitness) {
  return R"({"version": 1, "model": "42", "warnings": ["net.py:3: fixed"], "dimensions": [)" + dimensions +
         "], \"witnesses\": [" + witnesses + "]}";
}

static NamedTensor description(const std::string &text) {
  at::Tensor bytes = at::empty({int64_t(text.size())}, at::kByte);
  std::copy(text.begin(), text.end(), bytes.mutable_data_ptr<uint8_t>());
  return {"description", bytes};
}

/// What the description names: x of [4, 3], y whole, and z of [2, 5000] as a projection.
static std::vector<NamedTensor> tensors() {
  return {{"w0.in.0", at::ones({4, 3})},
          {"w0.out.0", at::ones({4})},
          {"w0.out.1.shape", at::tensor({2, 5000}, at::kLong)},
          {"w0.out.1.projection", at::ones({2}, at::kDouble)},
          {"w0.out.1.nonfinite", at::tensor({0, 3}, at::kLong)},
          {"w0.out.1.samples", at::ones({64}, at::kDouble)},
          {"w0.out.1.largest", at::full({}, 2.5, at::kDouble)}};
}

static llvm::Expected<WitnessFile> read(const std::string &text, std::vector<NamedTensor> all = tensors()) {
  TestFolder folder;
  all.push_back(description(text));
  const std::string path = folder.at("model.witnesses.safetensors");
  llvm::cantFail(runtime::writeTensors(path, all));
  return WitnessFile::read(path);
}

/// The tensors with another one of this name.
static std::vector<NamedTensor> with(const std::string &name, const at::Tensor &tensor) {
  std::vector<NamedTensor> all = tensors();
  for (NamedTensor &one : all)
    if (one.name == name)
      one.tensor = tensor;
  return all;
}

static std::vector<NamedTensor> without(const std::string &name) {
  std::vector<NamedTensor> all = tensors();
  llvm::erase_if(all, [&](const NamedTensor &one) { return one.name == name; });
  return all;
}

TEST(Witnesses, AreRead) {
  auto file = read(describe());
  ASSERT_TRUE(bool(file)) << messageOf(file.takeError());
  EXPECT_EQ(file->model, "42");
  EXPECT_THAT(file->warnings, testing::ElementsAre("net.py:3: fixed"));
  ASSERT_EQ(file->dimensions.size(), 1u);
  EXPECT_TRUE(file->dimensions[0].range.isAnySize());
  EXPECT_EQ(file->find({"x", 0}), &file->dimensions[0]);
  EXPECT_EQ(file->find({"x", 1}), nullptr);
  EXPECT_TRUE(file->hasInput("x"));
  ASSERT_EQ(file->witnesses.size(), 1u);
  const Witness &witness = file->witnesses[0];
  EXPECT_EQ(witness.name, "traced");
  EXPECT_TRUE(at::equal(witness.inputs.at(0).tensor, at::ones({4, 3})));
  EXPECT_TRUE(at::equal(witness.outputs.at(0).whole, at::ones({4})));
  const WitnessedOutput &projected = witness.outputs.at(1);
  EXPECT_EQ(projected.name, "z");
  EXPECT_FALSE(projected.whole.defined());
  EXPECT_THAT(projected.shape, testing::ElementsAre(2, 5000));
  EXPECT_THAT(projected.sums, testing::ElementsAre(1, 1));
  EXPECT_THAT(projected.nonfinite, testing::ElementsAre(0, 3));
  EXPECT_EQ(projected.samples.size(), kProjectionSamples);
  EXPECT_EQ(projected.largest, 2.5);
}

TEST(Witnesses, MayHaveNeitherDimensionsNorWitnesses) {
  EXPECT_EQ(messageOf(read(R"({"version": 1, "model": ""})")), "");
}

struct Hostile {
  const char *name;
  std::string text;
  const char *message;
};
class HostileDescription : public testing::TestWithParam<Hostile> {};

TEST_P(HostileDescription, IsRefused) {
  EXPECT_THAT(messageOf(read(GetParam().text)),
              AllOf(HasSubstr("model.witnesses.safetensors: "), HasSubstr(GetParam().message),
                    EndsWith("; trace the model again, or remove the file")));
}

static std::string changed(std::string text, llvm::StringRef from, llvm::StringRef to) {
  const size_t at = text.find(from);
  return text.replace(at, from.size(), to);
}

static std::string dimension(llvm::StringRef from, llvm::StringRef to) {
  return describe(changed(kDims, from, to));
}

static std::string witness(llvm::StringRef from, llvm::StringRef to) {
  return describe(kDims, changed(kWitness, from, to));
}

INSTANTIATE_TEST_SUITE_P(
    All, HostileDescription,
    testing::Values(
        Hostile{"Empty", "", "expected a JSON object"},
        Hostile{"NoObject", "[]", "found an array, expected an object"},
        Hostile{"Deep", std::string(100000, '['), "levels of arrays and objects"},
        Hostile{"NotUtf8", describe("\"\xff\""), "UTF-8"},
        Hostile{"OtherVersion", R"({"version": 2, "model": "42"})", "found version 2, expected 1"},
        Hostile{"NoVersion", R"({"model": "42"})", "found version nothing, expected 1"},
        Hostile{"NoModel", R"({"version": 1, "model": 42})", "found model 42, expected an id as text"},
        Hostile{"Warning", R"({"version": 1, "model": "", "warnings": [3]})", "found warning 3"},
        Hostile{"Warnings", R"({"version": 1, "model": "", "warnings": {}})",
                "found warnings that are no array"},
        Hostile{"Dimensions", R"({"version": 1, "model": "", "dimensions": 4})",
                "found dimensions that are no array"},
        Hostile{"NoDims", dimension(R"([["x", 0]])", "[]"),
                "dimensions[0]: found dims an array, expected at least one"},
        Hostile{"NegativeDim", dimension("0]]", "-1]]"), "no pairs of an input and the index of a dimension"},
        Hostile{"DimBeyondRank", dimension("0]]", "2]]"),
                "found dimension 2 of input x, expected less than 2"},
        Hostile{"HugeDim", dimension("0]]", "9223372036854775807]]"), "no pairs of an input and the index"},
        Hostile{"DimTwice", dimension("0]]", "0], [\"x\", 0]]"), "found dimension 0 of input x twice"},
        Hostile{"TracedOutside", dimension("\"min\": 1", "\"min\": 5"), "expected 4 among them"},
        Hostile{"MaxBelowTraced", dimension("9223372036854775807", "3"), "expected 4 among them"},
        Hostile{"MaxTooLarge", dimension("9223372036854775807", "9223372036854775808"),
                "found max 9223372036854775808"},
        Hostile{"DivisibleByZero", dimension("\"divisible_by\": 1", "\"divisible_by\": 0"),
                "found divisible_by 0"},
        Hostile{"NoMultiple", dimension("\"divisible_by\": 1", "\"divisible_by\": 3"),
                "expected 4 among them"},
        Hostile{"NegativeMin", dimension("\"min\": 1", "\"min\": -1"), "found min -1, expected a size"},
        Hostile{"Fraction", dimension("\"traced\": 4", "\"traced\": 4.5"),
                "found traced 4.5, expected a size"},
        Hostile{"Reason", dimension("\"above\": \"\"", "\"above\": []"),
                "found above an array, expected text"},
        Hostile{"NoName", witness("\"name\"", "\"title\""), "witnesses[0]: found an object without name"},
        Hostile{"NoTensor", witness("\"w0.in.0\"", "\"w1.in.0\""), "found no tensor w1.in.0"},
        Hostile{"NoOutput", witness("\"w0.out.0\"", "\"w1\""), "found no tensor w1 or w1.shape"},
        Hostile{"NumberAsTensor", witness("\"w0.in.0\"", "0"), "found an input that names no tensor"},
        Hostile{"NumberAsOutput", witness("\"w0.out.0\"", "null"), "found an output that names no tensor"},
        Hostile{"ManyWitnesses", describe(kDims, llvm::join(std::vector<std::string>(257, kWitness), ",")),
                "expected an array of at most 256"}),
    [](const testing::TestParamInfo<Hostile> &info) { return info.param.name; });

TEST(Witnesses, AreRefusedWithOtherTensors) {
  auto failure = [](std::vector<NamedTensor> all) { return messageOf(read(describe(), std::move(all))); };
  EXPECT_EQ(failure(tensors()), "");
  EXPECT_EQ(failure(without("w0.out.1.nonfinite")), "");
  for (const char *name : {"w0.in.0", "w0.out.0", "w0.out.1.shape", "w0.out.1.projection", "w0.out.1.samples",
                           "w0.out.1.largest"})
    EXPECT_THAT(failure(without(name)), HasSubstr("found no tensor w0.")) << name;
  EXPECT_THAT(failure(with("w0.out.1.projection", at::ones({3}, at::kDouble))),
              HasSubstr("tensor w0.out.1.projection: found float64[3], expected float64[2]"));
  EXPECT_THAT(failure(with("w0.out.1.projection", at::ones({2}))),
              HasSubstr("found float32[2], expected float64[2]"));
  EXPECT_THAT(failure(with("w0.out.1.samples", at::ones({63}, at::kDouble))),
              HasSubstr("expected float64[64]"));
  EXPECT_THAT(failure(with("w0.out.1.nonfinite", at::zeros({2}))), HasSubstr("expected int64[2]"));
  EXPECT_THAT(failure(with("w0.out.1.largest", at::full({}, -1, at::kDouble))), HasSubstr("not finite"));
  EXPECT_THAT(failure(with("w0.out.1.projection", at::full({2}, INFINITY, at::kDouble))),
              HasSubstr("not finite"));
  for (std::vector<int64_t> shape :
       {std::vector<int64_t>{2, 0}, {2, -5000}, {-2, -5000}, {2, 3}, {1 << 30, 1 << 30, 1 << 30}, {}})
    EXPECT_THAT(failure(with("w0.out.1.shape", at::tensor(shape, at::kLong))),
                HasSubstr("found sizes of no tensor with more than 4096 elements"));
  EXPECT_THAT(failure(with("w0.out.1.shape", at::ones({100}, at::kLong))), HasSubstr("expected int64[rank]"));
  EXPECT_THAT(failure(with("w0.out.1.shape", at::ones({2, 2}, at::kLong))),
              HasSubstr("expected int64[rank]"));
}

TEST(Witnesses, AreRefusedWithoutADescription) {
  TestFolder folder;
  const std::string path = folder.at("model.witnesses.safetensors");
  auto failure = [&](std::vector<NamedTensor> all) {
    llvm::cantFail(runtime::writeTensors(path, all));
    return messageOf(WitnessFile::read(path));
  };
  EXPECT_THAT(failure(tensors()), HasSubstr("found no tensor description"));
  EXPECT_THAT(failure({{"description", at::ones({4})}}), HasSubstr("found float32[4], expected uint8[n]"));
  EXPECT_THAT(failure({description(std::string(3 << 20, ' '))}), HasSubstr("expected uint8[n] with n up to"));
  plan::writeFile(path, "");
  EXPECT_THAT(messageOf(WitnessFile::read(path)), EndsWith("; trace the model again, or remove the file"));
  std::error_code ignored = llvm::sys::fs::remove(path);
  (void)ignored;
  plan::writeFile(path, std::string(17 << 20, '\0'));
  EXPECT_THAT(messageOf(WitnessFile::read(path)),
              HasSubstr("found 17825792 bytes, expected at most 16777216"));
}

TEST(Witnesses, AreFoundBesideTheirModel) {
  TestFolder folder;
  const std::string model = folder.at("net.pt"), path = folder.at("net.witnesses.safetensors");
  auto missing = llvm::cantFail(findWitnesses(model, "42"));
  EXPECT_FALSE(missing.file);
  EXPECT_EQ(missing.missingReason,
            "verified against the trace alone: found no file net.witnesses.safetensors beside the model; "
            "cleave-trace writes it");
  std::vector<NamedTensor> all = tensors();
  all.push_back(description(describe()));
  llvm::cantFail(runtime::writeTensors(path, all));
  EXPECT_TRUE(llvm::cantFail(findWitnesses(model, "42")).file);
  for (const char *other : {"", "43"}) {
    auto foreign = llvm::cantFail(findWitnesses(model, other));
    EXPECT_FALSE(foreign.file);
    EXPECT_EQ(foreign.unusedReason,
              "net.witnesses.safetensors belongs to another trace than net.pt, and is not used; "
              "trace the model again to have both");
  }
  // Who made a link may read a file through us.
  ASSERT_FALSE(llvm::sys::fs::rename(path, folder.at("elsewhere")));
  ASSERT_FALSE(llvm::sys::fs::create_link(folder.at("elsewhere"), path));
  EXPECT_FALSE(llvm::cantFail(findWitnesses(model, "42")).file);
}

} // namespace cleave
