//===- SameTypes.cpp - Kernels for the meta device and the CPU's ----------===//
#include "SameTypes.h"
#include "ir/IValueConversion.h"
#include "ir/inference/MetaCall.h"
#include "ir/inference/ShapeInference.h"
#include <c10/core/InferenceMode.h>

namespace cleave {

using at::Tensor;

std::vector<Tensor> layoutsOf(at::IntArrayRef shape, at::ScalarType dtype) {
  int64_t rank = shape.size();
  std::vector<Tensor> layouts{at::zeros(shape, dtype)};
  std::vector<int64_t> swapped = shape.vec();
  if (rank >= 2) {
    std::swap(swapped[rank - 1], swapped[rank - 2]);
    layouts.push_back(at::zeros(swapped, dtype).transpose(-1, -2));
    std::vector<int64_t> single = shape.vec();
    single[0] = 1;
    layouts.push_back(at::zeros(single, dtype).expand(shape));
  }
  std::vector<int64_t> larger = shape.vec();
  larger.back() *= 2;
  layouts.push_back(at::zeros(larger, dtype).narrow(-1, 1, shape.back()));
  if (rank == 4) {
    layouts.push_back(layouts[0].contiguous(at::MemoryFormat::ChannelsLast));
    layouts.push_back(at::zeros({shape[0], shape[2], shape[1], shape[3]}, dtype).transpose(1, 2));
  }
  return layouts;
}

void expectSameTypes(const char *name, const std::vector<c10::IValue> &operands) {
  registerMetaKernels();
  c10::InferenceMode inference;
  torch::jit::Stack onCpu, onMeta;
  std::string layouts;
  for (const c10::IValue &operand : operands) {
    onCpu.push_back(operand);
    onMeta.push_back(operand);
    if (operand.isTensorList()) {
      c10::List<Tensor> list;
      for (const Tensor &tensor : operand.toTensorVector())
        list.push_back(withoutData(tensor));
      onMeta.back() = std::move(list);
    } else if (operand.isTensor()) {
      const Tensor &tensor = operand.toTensor();
      layouts += (testing::Message() << " " << tensor.sizes() << "/" << tensor.strides()).GetString();
      onMeta.back() = withoutData(tensor);
    }
  }
  SCOPED_TRACE(name + layouts);
  findOperator(name)->getOperation()(onCpu);
  ASSERT_NO_THROW(callOnMeta(*findSchema(name), *findOperator(name), onMeta));
  ASSERT_EQ(onCpu.size(), onMeta.size());
  for (size_t i = 0; i < onCpu.size(); ++i) {
    const Tensor &wanted = onCpu[i].toTensor(), &found = onMeta[i].toTensor();
    EXPECT_EQ(wanted.scalar_type(), found.scalar_type()) << "result " << i;
    ASSERT_EQ(wanted.sizes(), found.sizes()) << "result " << i;
    // libtorch leaves the strides of tensors without elements, and of dimensions of size 1, to the kernel.
    for (int64_t d = 0; d < wanted.dim() && wanted.numel() > 0; ++d) {
      if (wanted.size(d) != 1) {
        EXPECT_EQ(wanted.stride(d), found.stride(d)) << "result " << i << " dimension " << d;
      }
    }
  }
}

} // namespace cleave
