//===- WorkspaceTest.cpp - What operators allocate, against what they do --===//
#include "../ir/OperatorCall.h"
#include "ir/semantics/OpSemantics.h"
#include "runtime/device/MemoryAccount.h"
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace cleave {
namespace {

using Operands = std::vector<std::string>;

/// Predictions are those of AVX-512: vectors of other CPUs make other blocks.
class WorkspaceTest : public testing::Test {
protected:
  void SetUp() override {
    if (at::get_cpu_capability() != "AVX512")
      GTEST_SKIP() << "no AVX-512";
  }
  void TearDown() override { at::set_num_threads(width); }

  /// Most bytes beyond the result while the call runs. \param channelsLast  tensors, from the first on, whose
  /// channels lie last.
  int64_t measured(const OperatorCall &call, int threads, int channelsLast) {
    at::set_num_threads(threads);
    c10::InferenceMode inference;
    std::vector<c10::IValue> operands = call.makeOperands(1);
    for (int i = 0; i < channelsLast; ++i)
      operands[i] = operands[i].toTensor().contiguous(at::MemoryFormat::ChannelsLast);
    call.run(operands);
    runtime::MemoryAccountRef account(new runtime::MemoryAccount("test"));
    runtime::ScopedAccount counted(*account);
    auto results = call.run(operands);
    int64_t bytes = account->peakBytes();
    for (const c10::IValue &result : results)
      if (result.toTensor().defined())
        bytes -= result.toTensor().nbytes();
    return bytes;
  }

  /// On one thread and on several: at most 2 % too little, 5 % too much, of all that is there while it runs.
  void expectClose(const std::string &name, const Operands &operands, int channelsLast = 0) {
    const OperatorCall call(name, operands);
    const ExampleShapes shapes = call.shapes();
    int64_t others = 0;
    for (mlir::Value result : call.op()->getResults())
      others += shapes.bytesOf(result);
    std::string text = name;
    for (const std::string &operand : operands)
      text += " " + operand;
    for (mlir::Value operand : call.op()->getOperands())
      others += shapes.bytesOf(operand);
    for (int threads : {1, 2, 4}) {
      const int64_t found = others + measured(call, threads, channelsLast);
      const int64_t predicted =
          others + semanticsOf(call.op().getName()).workspaceBytes(call.op(), shapes, threads);
      EXPECT_GE(predicted, 0.98 * found) << threads << " threads: " << text;
      EXPECT_LE(predicted, 1.05 * found) << threads << " threads: " << text;
    }
  }

  /// A square convolution of `images` with side `size`.
  void expectConvolution(int64_t images, int64_t channels, int64_t size, int64_t made, int64_t kernel,
                         int64_t stride, int64_t padding, int64_t dilation = 1, int64_t groups = 1) {
    auto twice = [](int64_t number) {
      return "[" + std::to_string(number) + ", " + std::to_string(number) + "]";
    };
    expectClose("aten.conv2d",
                {tensor({images, channels, size, size}), tensor({made, channels / groups, kernel, kernel}),
                 tensor({made}), twice(stride), twice(padding), twice(dilation), std::to_string(groups)});
  }

  /// The gradients of such a convolution's weight and, if it is wanted, of its input.
  void expectGradients(int64_t images, int64_t channels, int64_t size, int64_t made, int64_t kernel,
                       int64_t stride, int64_t padding, bool ofInput, int64_t groups = 1,
                       bool hasChannelsLast = false) {
    auto twice = [](int64_t number) {
      return "[" + std::to_string(number) + ", " + std::to_string(number) + "]";
    };
    const int64_t points = (size + 2 * padding - kernel) / stride + 1;
    expectClose("aten.convolution_backward",
                {tensor({images, made, points, points}, hasChannelsLast),
                 tensor({images, channels, size, size}, hasChannelsLast),
                 tensor({made, channels / groups, kernel, kernel}), "[" + std::to_string(made) + "]",
                 twice(stride), twice(padding), twice(1), "false", twice(0), std::to_string(groups),
                 std::string("[") + (ofInput ? "true" : "false") + ", true, false]"},
                hasChannelsLast ? 2 : 0);
  }

  /// \param hasChannelsLast  of an image: in memory.
  static std::string tensor(const std::vector<int64_t> &shape, bool hasChannelsLast = false) {
    std::string text = "tensor<";
    for (int64_t size : shape)
      text += std::to_string(size) + "x";
    if (!hasChannelsLast)
      return text + "f32>";
    auto stride = [](int64_t number) { return "\"" + std::to_string(number) + "\""; };
    return text + "f32, #cleave.layout<strides = [" + stride(shape[1] * shape[2] * shape[3]) + ", \"1\", " +
           stride(shape[1] * shape[3]) + ", " + stride(shape[1]) + "]>>";
  }

private:
  const int width = at::get_num_threads();
};

TEST_F(WorkspaceTest, GradientsOfConvolutionsCopyIntoBlocks) {
  for (bool ofInput : {false, true}) {
    expectGradients(4, 64, 16, 64, 3, 1, 1, ofInput);
    expectGradients(8, 256, 14, 256, 3, 1, 1, ofInput);
    expectGradients(4, 32, 16, 64, 1, 1, 0, ofInput);
    expectGradients(2, 144, 14, 24, 1, 1, 0, ofInput);
  }
  // Of a first layer: images as they are, few channels.
  expectGradients(2, 3, 64, 64, 7, 2, 3, /*ofInput=*/false);
  expectGradients(4, 3, 64, 64, 8, 8, 0, /*ofInput=*/false);
  // Wider than the kernels' limit.
  expectGradients(4, 3, 64, 32, 16, 16, 0, /*ofInput=*/false);
}

TEST_F(WorkspaceTest, GradientsOfDepthwiseConvolutions) {
  for (bool ofInput : {false, true}) {
    expectGradients(4, 64, 28, 64, 3, 1, 1, ofInput, 64);
    expectGradients(4, 60, 28, 60, 3, 1, 1, ofInput, 60);
    expectGradients(4, 64, 28, 64, 5, 1, 2, ofInput, 64);
    expectGradients(4, 96, 28, 96, 7, 1, 3, ofInput, 96);
  }
}

TEST_F(WorkspaceTest, GradientsOfImagesWithChannelsLast) {
  for (bool ofInput : {false, true}) {
    expectGradients(4, 96, 28, 96, 7, 1, 3, ofInput, 96, /*hasChannelsLast=*/true);
    expectGradients(4, 96, 28, 96, 3, 1, 1, ofInput, 96, /*hasChannelsLast=*/true);
    expectGradients(4, 96, 28, 64, 3, 1, 1, ofInput, 1, /*hasChannelsLast=*/true);
    expectGradients(4, 96, 28, 64, 1, 1, 0, ofInput, 1, /*hasChannelsLast=*/true);
  }
}

TEST_F(WorkspaceTest, PointwiseConvolutionsDependOnThreads) {
  expectConvolution(8, 64, 56, 256, 1, 1, 0);
  expectConvolution(16, 64, 28, 64, 1, 1, 0);
  expectConvolution(1, 256, 56, 64, 1, 1, 0);
  expectConvolution(1, 64, 14, 64, 1, 1, 0);
  expectConvolution(4, 60, 28, 50, 1, 1, 0);
}

TEST_F(WorkspaceTest, StridedPointwiseConvolutionsGatherAnImageAThread) {
  expectConvolution(8, 256, 56, 512, 1, 2, 0);
  expectConvolution(1, 512, 28, 1024, 1, 2, 0);
  expectConvolution(4, 12, 56, 64, 1, 2, 0);
  expectConvolution(1, 64, 14, 64, 1, 2, 0);
}

TEST_F(WorkspaceTest, OtherConvolutionsCopyIntoBlocks) {
  expectConvolution(8, 3, 224, 64, 7, 2, 3);
  expectConvolution(8, 64, 56, 64, 3, 1, 1);
  expectConvolution(2, 512, 14, 512, 3, 2, 1);
  expectConvolution(4, 60, 28, 50, 3, 1, 1);
  expectConvolution(4, 16, 28, 1, 3, 1, 1);
  expectConvolution(4, 64, 28, 64, 3, 1, 2, 2);
}

TEST_F(WorkspaceTest, SmallConvolutionsAreATensOwn) {
  expectConvolution(1, 64, 14, 64, 3, 1, 1);
  expectConvolution(1, 64, 14, 64, 3, 2, 1);
  expectClose("aten.conv1d",
              {"tensor<1x80x100xf32>", "tensor<512x80x3xf32>", "tensor<512xf32>", "[1]", "[1]", "[1]", "1"});
}

TEST_F(WorkspaceTest, GroupsFillBlocksOrDoNot) {
  expectConvolution(4, 64, 28, 64, 3, 1, 1, 1, 64);
  expectConvolution(4, 60, 28, 60, 3, 1, 1, 1, 60);
  expectConvolution(4, 128, 56, 128, 3, 2, 1, 1, 32);
  expectConvolution(4, 64, 28, 64, 3, 1, 1, 1, 4);
  expectConvolution(4, 60, 28, 60, 3, 1, 1, 1, 4);
  expectConvolution(4, 64, 56, 64, 1, 1, 0, 1, 4);
  expectClose("aten.conv1d", {"tensor<4x512x300xf32>", "tensor<512x1x31xf32>", "tensor<512xf32>", "[1]",
                              "[15]", "[1]", "512"});
}

// oneDNN takes as many columns at a time as a core's cache holds; predictions are for 1 MB, whatever machine
// makes them.
TEST_F(WorkspaceTest, WideBordersTakeColumns) {
  if (const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE); bytes != 1 << 20)
    GTEST_SKIP() << "a level-2 cache of " << bytes << " bytes, predictions are for 1048576";
  expectConvolution(2, 256, 33, 64, 3, 1, 18, 18);
  expectConvolution(4, 64, 28, 64, 3, 1, 12, 12);
  expectConvolution(4, 96, 28, 96, 13, 1, 6, 1, 96);
  expectConvolution(4, 96, 28, 96, 31, 1, 15, 1, 96);
  expectConvolution(4, 3, 56, 64, 31, 2, 15);
  expectClose("aten.conv1d", {"tensor<4x768x300xf32>", "tensor<768x48x128xf32>", "tensor<768xf32>", "[1]",
                              "[64]", "[1]", "16"});
}

TEST_F(WorkspaceTest, SequencesAndVolumesAreImages) {
  expectClose("aten.conv1d",
              {"tensor<4x80x300xf32>", "tensor<512x80x3xf32>", "tensor<512xf32>", "[2]", "[1]", "[1]", "1"});
  expectClose("aten.conv3d", {"tensor<2x16x12x12x12xf32>", "tensor<32x16x3x3x3xf32>", "tensor<32xf32>",
                              "[1, 1, 1]", "[1, 1, 1]", "[1, 1, 1]", "1"});
  expectClose("aten.conv3d", {"tensor<2x16x12x12x12xf32>", "tensor<32x16x1x1x1xf32>", "tensor<32xf32>",
                              "[1, 1, 1]", "[0, 0, 0]", "[1, 1, 1]", "1"});
}

TEST_F(WorkspaceTest, TransposedConvolutionsMakeTheirResultTwice) {
  auto transposed = [&](const char *input, const char *weight, const char *stride) {
    expectClose("aten.conv_transpose2d.input",
                {input, weight, "none", stride, "[1, 1]", "[0, 0]", "1", "[1, 1]"});
  };
  transposed("tensor<4x64x28x28xf32>", "tensor<64x32x4x4xf32>", "[2, 2]");
  transposed("tensor<4x64x28x28xf32>", "tensor<64x32x2x2xf32>", "[2, 2]");
  transposed("tensor<1x64x12x12xf32>", "tensor<64x64x3x3xf32>", "[1, 1]");
}

TEST_F(WorkspaceTest, ImagesWithChannelsLastStayWhereTheyAre) {
  auto channelsLast = [&](const char *input, const char *weight, const char *stride, const char *padding,
                          const char *groups) {
    expectClose("aten.conv2d", {input, weight, "none", stride, padding, "[1, 1]", groups},
                /*channelsLast=*/1);
  };
  const char *wide = R"(tensor<4x96x28x28xf32, #cleave.layout<strides = ["75264", "1", "2688", "96"]>>)";
  channelsLast(wide, "tensor<96x1x7x7xf32>", "[1, 1]", "[3, 3]", "96");
  channelsLast(wide, "tensor<192x96x3x3xf32>", "[1, 1]", "[1, 1]", "1");
  channelsLast(wide, "tensor<192x96x1x1xf32>", "[2, 2]", "[0, 0]", "1");
  channelsLast(wide, "tensor<192x96x1x1xf32>", "[1, 1]", "[0, 0]", "1");
}

TEST_F(WorkspaceTest, AttentionHasABlockAThread) {
  for (const char *heads : {"tensor<1x4x64x64xf32>", "tensor<2x8x300x64xf32>"})
    expectClose("aten.scaled_dot_product_attention",
                {heads, heads, heads, "none", "0.0", "false", "none", "false"});
}

/// LSTMs are oneDNN's, others are composed of products.
TEST_F(WorkspaceTest, RecurrentLayers) {
  /// \param kind  lstm, gru or rnn_tanh; layers with a bias.
  auto recurrent = [&](const std::string &kind, int64_t time, int64_t batch, int64_t inputs, int64_t hidden,
                       int64_t layers, int64_t directions, bool isBatchFirst) {
    const int64_t gates = kind == "lstm" ? 4 : kind == "gru" ? 3 : 1;
    std::string weights;
    for (int64_t i = 0; i < layers * directions; ++i) {
      const int64_t width = i < directions ? inputs : directions * hidden;
      weights += (i ? "; " : "(") + tensor({gates * hidden, width}) + "; " + tensor({gates * hidden, hidden}) +
                 "; " + tensor({gates * hidden}) + "; " + tensor({gates * hidden});
    }
    const std::string state = tensor({layers * directions, batch, hidden});
    expectClose("aten." + kind + ".input",
                {isBatchFirst ? tensor({batch, time, inputs}) : tensor({time, batch, inputs}),
                 gates == 4 ? "(" + state + "; " + state + ")" : state, weights + ")", "true",
                 std::to_string(layers), "0.0", "false", directions == 2 ? "true" : "false",
                 isBatchFirst ? "true" : "false"});
  };
  for (bool isBatchFirst : {false, true}) {
    recurrent("lstm", 64, 16, 256, 256, 2, 1, isBatchFirst);
    recurrent("lstm", 50, 8, 64, 128, 2, 2, isBatchFirst);
    recurrent("lstm", 30, 6, 32, 48, 3, 1, isBatchFirst);
    recurrent("gru", 64, 16, 64, 128, 1, 2, isBatchFirst);
    recurrent("gru", 64, 16, 64, 128, 2, 1, isBatchFirst);
    recurrent("rnn_tanh", 64, 16, 64, 128, 2, 1, isBatchFirst);
  }
}

} // namespace
} // namespace cleave
