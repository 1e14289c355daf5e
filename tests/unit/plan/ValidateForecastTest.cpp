//===- ValidateForecastTest.cpp - Refused predictions and candidates ------===//
#include "tests/unit/plan/Mutation.h"
#include <limits>

namespace cleave::plan {

static void addLinkOverride(Plan &plan, uint32_t from, uint32_t to, double bytesPerSecond) {
  auto link = std::make_unique<LinkOverride>();
  link->from = from;
  link->to = to;
  link->speed = std::make_unique<LinkSpeed>();
  link->speed->bytes_per_second = bytesPerSecond;
  plan.link_overrides.push_back(std::move(link));
}

static const Mutation kForecasts[] = {
    MUTATION("NegativePrediction", "predictions: stage 0 has a negative or infinite amount",
             plan.predictions[0]->peak_bytes = -1),
    MUTATION("InfinitePrediction", "predictions: stage 0 has a negative or infinite amount",
             plan.predictions[0]->seconds = std::numeric_limits<double>::infinity()),
    MUTATION("NegativeMicrobatch", "predictions: stage 1 has a negative or infinite amount",
             plan.predictions[1]->microbatch_seconds = -1),
    MUTATION("LinkWithoutBandwidth",
             "link: a negative or infinite latency, or a bandwidth that is not above 0",
             plan.link = std::make_unique<LinkSpeed>()),
    MUTATION("LinkOverrideWithoutSpeed", "link overrides, entry 0: it is missing, or has no speed",
             addLinkOverride(plan, 0, 1, 1);
             plan.link_overrides[0]->speed.reset()),
    MUTATION("LinkOverrideOfNoRank", "link overrides, entry 0: it goes from rank 0 to rank 2, the mesh has 2",
             addLinkOverride(plan, 0, 2, 1)),
    MUTATION("LinkOverrideToItself",
             "link overrides, entry 0: it goes from rank 1 to rank 1, expected two ranks",
             addLinkOverride(plan, 1, 1, 1)),
    MUTATION("LinkOverrideTwice",
             "link overrides, entry 1: it goes from rank 0 to rank 1, as one before does",
             addLinkOverride(plan, 0, 1, 1);
             addLinkOverride(plan, 0, 1, 1)),
    MUTATION("LinkOverrideWithoutBandwidth",
             "link overrides, entry 0: a negative or infinite latency, or a bandwidth that is not above 0",
             addLinkOverride(plan, 0, 1, 0)),
    MUTATION("PredictionTwice", "the second of its stage", plan.predictions[1]->stage = 0),
    MUTATION("PredictionOfNoRank",
             "predictions: an entry is missing, of a stage or tp rank that is not there",
             plan.predictions[1]->tp_rank = 1),
    MUTATION("DevicesOfOtherRanks", "devices: names for 3 ranks, the mesh has 2",
             plan.devices = {"a", "b", "c"}),
    MUTATION("DeviceWithoutName", "devices: it has no name", plan.devices = {"a", ""}),
    MUTATION("MachineThatIsNoText", "machine: its text holds control characters", plan.machine = "\033"),
    MUTATION("LimitsOfOtherRanks", "memory limits: of 3 ranks, the mesh has 2",
             plan.memory_limits = {1, 2, 3}),
    MUTATION("NegativeLimit", "memory limits: a negative number of bytes", plan.memory_limits = {0, -1}),
    MUTATION("NullCandidate", "candidates: an entry is missing", plan.candidates[1].reset()),
    MUTATION("InfiniteCandidate",
             "candidates: an entry is missing, has no micro-batches, or a negative or infinite amount",
             plan.candidates[0]->seconds = std::numeric_limits<double>::quiet_NaN()),
    MUTATION("NegativeCandidate", "or a negative or infinite amount", plan.candidates[1]->peak_bytes = -1),
    MUTATION("CandidateOfNothing", "candidates: an entry is missing, has no micro-batches",
             plan.candidates[1]->microbatches = 0),
    MUTATION("CandidateWithoutMesh", "candidates: it has no name", plan.candidates[1]->mesh.clear()),
    MUTATION("ScheduleThatIsNoText", "candidates: its text holds control characters",
             plan.candidates[1]->schedule = "\n"),
    MUTATION("ReasonThatIsNoText", "candidates: its text is no UTF-8", plan.candidates[1]->reason = "\xff"),
    MUTATION("NoneChosen", "candidates: the first one has a reason against it, or another one has none",
             plan.candidates[0]->reason = "is slow"),
    MUTATION("TwoChosen", "candidates: the first one has a reason against it, or another one has none",
             plan.candidates[1]->reason.clear()),
    MUTATION("TooManyCandidates", "candidates: there are 4097, expected at most 4096",
             plan.candidates.resize(4097)),
};

INSTANTIATE_TEST_SUITE_P(Forecasts, Validate, testing::ValuesIn(kForecasts), nameOf);

} // namespace cleave::plan
