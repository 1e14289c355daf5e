//===- PlanWriter.h - Little plans by hand ----------------------*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_RUNTIME_PLANWRITER_H
#define CLEAVE_TESTS_UNIT_RUNTIME_PLANWRITER_H

#include "codegen/plan/DimExpr.h"
#include "codegen/plan/Plan.h"
#include "runtime/base/TensorFile.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <functional>
#include <string>
#include <vector>

namespace cleave::runtime {

using Slots = std::vector<uint32_t>;

plan::Constant integer(int64_t value);
plan::Constant real(double value);
plan::Constant none();
plan::Constant text(std::string value);
plan::Constant integers(llvm::ArrayRef<int64_t> values);
/// Each entry of `dims` is a size, or -1 - i for symbol i.
plan::TensorType tensorType(plan::DType dtype, llvm::ArrayRef<int64_t> dims);

class PlanWriter;

/// Writes one stage, instruction after instruction. Releases are worked out when the plan is written.
class StageWriter {
public:
  uint32_t input(uint32_t leaf);
  uint32_t receive(uint32_t stage, uint32_t result);
  uint32_t weight(const std::string &name, const at::Tensor &value);
  /// The ranges (offset, size, offset, size, …) of `whole` along `dim`.
  uint32_t shard(const std::string &name, const at::Tensor &whole, int64_t dim,
                 llvm::ArrayRef<int64_t> ranges);
  uint32_t constant(const plan::Constant &value);
  uint32_t size(const plan::DimExpr &value);
  /// One operator of the module `path`; gives its first result.
  uint32_t call(const std::string &op, Slots operands, const std::string &path = "", size_t results = 1);
  uint32_t list(const std::string &element, Slots items);
  /// What state `name` of this stage, which the first mention enters in the plan, holds.
  uint32_t readState(const std::string &name, uint32_t initial);
  /// The same with a row of `width` numbers for each sample of the batch.
  uint32_t readRows(const std::string &name, uint32_t initial, int64_t width);
  void writeState(const std::string &name, uint32_t value);
  /// Any instruction; gives its results.
  Slots emit(plan::InstructionKind kind, Slots operands, size_t results, Slots blocks = {},
             const std::string &element = "");
  /// A nested block: `body` takes the slots of the parameters and returns those of the results. Returns the
  /// block's index.
  uint32_t block(size_t params, llvm::function_ref<Slots(Slots)> body);
  void predict(uint32_t slot, const plan::TensorType &type);
  /// Gives the index of the result.
  uint32_t output(uint32_t slot);

private:
  friend class PlanWriter;
  StageWriter(PlanWriter &plan, uint32_t stage, uint32_t rank, uint32_t tpRank);
  plan::WeightShard &addWeight(const std::string &name, const at::Tensor &whole, const at::Tensor &part);
  Slots newSlots(size_t count);
  uint32_t stateIndex(const std::string &name);
  void writeReleases();

  PlanWriter &writer;
  const uint32_t rank;
  std::unique_ptr<plan::Program> program;
  uint32_t currentBlock = 0;
  std::vector<NamedTensor> weights;
};

/// Writes a plan with one signature and one stage for each element of `pipelineRanks`. Stage i runs on
/// pipeline rank `pipelineRanks[i]`. Every pipeline rank has `tp` tensor-parallel ranks.
class PlanWriter {
public:
  explicit PlanWriter(Slots pipelineRanks, uint32_t tp = 1);

  uint32_t symbol(const std::string &name, int64_t traced);
  uint32_t input(const std::string &name, const plan::TensorType &type);
  void output(const std::string &name, uint32_t stage, uint32_t result);
  /// Splits symbol 0, the batch. Outputs are taken to be `batch` rows of 4 where the test says nothing else.
  void splitBatch(uint32_t microbatches);
  /// Replicates the pipeline `count` times (data parallelism). The last call before `write`.
  void addDataRanks(uint32_t count);
  /// The program of tensor-parallel rank `rank`.
  StageWriter &stage(uint32_t index, uint32_t rank = 0) { return stages[index * plan->mesh->tp + rank]; }
  /// Writes the plan to `directory`, a new folder, with a schedule that runs the stages one after the other.
  void write(const std::string &directory);

  /// For tests that want something unusual in it.
  std::unique_ptr<plan::Plan> plan;

private:
  friend class StageWriter;
  void writeSchedule();
  uint32_t microbatches = 1;
  void writeShards(const std::string &directory);
  uint32_t operatorIndex(const std::string &name);
  uint32_t pathIndex(const std::string &path);

  std::vector<StageWriter> stages;
};

} // namespace cleave::runtime

#endif // CLEAVE_TESTS_UNIT_RUNTIME_PLANWRITER_H
