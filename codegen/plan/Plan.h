//===- Plan.h - The plan in memory ------------------------------*- C++ -*-===//
//
// The plan is the output of codegen and the input of the runtime. plan.fbs is its only definition; the
// structs here are generated from it by flatc, under shorter names.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_CODEGEN_PLAN_PLAN_H
#define CLEAVE_CODEGEN_PLAN_PLAN_H

#include "codegen/plan/plan_generated.h"

namespace cleave::plan {

using wire::ActionKind;
using wire::CapturePort;
using wire::ConstantKind;
using wire::DType;
using wire::GroupKind;
using wire::InstructionKind;
using wire::Optimizer;
using wire::OutputMerge;
using wire::Phase;
using wire::Source;
using wire::StateScope;
using wire::SymbolSource;
using wire::TreeKind;
using wire::WeightRole;

using Action = wire::ActionT;
using MeshCandidate = wire::MeshCandidateT;
using Block = wire::BlockT;
using Bucket = wire::BucketT;
using BucketPart = wire::BucketPartT;
using CapturePoint = wire::CapturePointT;
using CaptureSlot = wire::CaptureSlotT;
using Constant = wire::ConstantT;
using DimExpr = wire::DimExprT;
using DimRanges = wire::DimRangesT;
using Group = wire::GroupT;
using ShardingGroup = wire::ShardingGroupT;
using Input = wire::InputT;
using Instruction = wire::InstructionT;
using LinkSpeed = wire::LinkSpeedT;
using Mesh = wire::MeshT;
using Note = wire::NoteT;
using OptimizerConfig = wire::OptimizerConfigT;
using Output = wire::OutputT;
using Plan = wire::PlanT;
using Prediction = wire::PredictionT;
using Program = wire::ProgramT;
using ProgramInput = wire::ProgramInputT;
using RankActions = wire::RankActionsT;
using Schedule = wire::ScheduleT;
using ShardFile = wire::ShardFileT;
using Signature = wire::SignatureT;
using SlotConstant = wire::SlotConstantT;
using SlotSize = wire::SlotSizeT;
using SlotType = wire::SlotTypeT;
using SlotWeight = wire::SlotWeightT;
using Stage = wire::StageT;
using State = wire::StateT;
using StateShard = wire::StateShardT;
using Symbol = wire::SymbolT;
using TensorType = wire::TensorTypeT;
using Term = wire::TermT;
using Tree = wire::TreeT;
using Weight = wire::WeightT;
using LinkOverride = wire::LinkOverrideT;
using WeightShard = wire::WeightShardT;

/// The configurations that a search compared, as a plan stores them.
using MeshCandidates = std::vector<std::unique_ptr<MeshCandidate>>;
/// Most candidates that a plan may hold. Of a larger search, the fastest are stored.
inline constexpr size_t kMaxCandidates = 4096;

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_PLAN_H
