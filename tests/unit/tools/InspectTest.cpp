//===- InspectTest.cpp - What `cleave inspect` shows ----------------------===//
#include "tools/cleave/inspect/Inspect.h"
#include "tests/unit/plan/PlanBuilder.h"
#include <gtest/gtest.h>

namespace cleave {

using namespace plan;
namespace json = llvm::json;

static LoadedPlan load() { return {makeTwoStagePlan(), Digest{}}; }

static std::string textOf(const LoadedPlan &loaded) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  printText(stream, loaded, "two.plan");
  return stream.str();
}

/// The JSON object without spaces, keys sorted.
static std::string compact(const json::Value *value) {
  return value ? llvm::formatv("{0}", *value).str() : "absent";
}

TEST(InspectJson, HasThePromisedKeys) {
  json::Object object = toJson(load());
  EXPECT_EQ(compact(object.get("mesh")), R"({"dp":1,"pp":2,"tp":1})");
  EXPECT_EQ(object.getInteger("microbatches"), 2);
  EXPECT_EQ(object.getInteger("slices"), 1);
  EXPECT_EQ(object.getString("schedule"), "gpipe");
  EXPECT_EQ(compact(object.get("collectives")), "[]");
  EXPECT_EQ(compact(object.get("replicated_ops")), "[]");
  const json::Object *stage = (*object.getArray("stages"))[1].getAsObject();
  EXPECT_EQ(compact(stage->get("devices")), R"(["cpu:1"])");
  EXPECT_EQ(compact(stage->get("module_paths")), R"(["layer1"])");
  EXPECT_EQ(stage->getInteger("index"), 1);
  EXPECT_EQ(stage->getInteger("ops"), 1);
  EXPECT_EQ(stage->getInteger("weight_bytes"), 256);
  EXPECT_EQ(stage->getNumber("predicted_seconds"), 0.001);
  EXPECT_EQ(stage->getInteger("predicted_peak_bytes"), 1024);
}

TEST(InspectJson, DescribesWeightsWithTheirShards) {
  json::Object object = toJson(load());
  EXPECT_EQ(
      compact(&(*object.getArray("weights"))[2]),
      R"({"aliases":["head.weight"],"devices":["cpu:1"],"dtype":"float32","name":"layer1.weight",)"
      R"("role":"parameter","shape":[4,16],"shard_shapes":[[4,16]],"stage":1,"stages":[1],"style":"","trainable":false})");
}

TEST(InspectJson, TellsWhatRanksOfAGroupExchange) {
  LoadedPlan loaded = load();
  loaded.plan->operators[1] = "spmd::all_reduce";
  loaded.plan->programs[0]->blocks[0]->instructions[1]->kind = InstructionKind::Collective;
  loaded.plan->programs[0]->types[0]->slot = 4;
  EXPECT_EQ(compact(toJson(loaded).get("collectives")),
            R"([{"bytes":192,"kind":"all_reduce","module_path":"layer1","per_microbatch":true,"stage":0}])");
}

TEST(InspectJson, TheBubbleIsThePipelines) {
  LoadedPlan loaded = load();
  const std::optional<double> alone = toJson(loaded).getNumber("bubble_by_formula");
  loaded.plan->mesh->tp = 2;
  EXPECT_EQ(toJson(loaded).getNumber("bubble_by_formula"), alone);
}

TEST(InspectJson, DescribesInputsInTheUsersWords) {
  json::Object object = toJson(load());
  const json::Object *signature = (*object.getArray("signatures"))[0].getAsObject();
  EXPECT_EQ(compact(signature->get("inputs")),
            R"([{"dtype":"float32","name":"x","role":"tokens","shape":["batch",8]}])");
  EXPECT_EQ(compact(signature->get("outputs")),
            R"([{"dtype":"float32","name":"y","shape":["batch",4],"stage":1}])");
}

TEST(InspectJson, CountsWhatStagesSend) {
  LoadedPlan loaded = load();
  auto type = std::make_unique<SlotType>(*loaded.plan->programs[0]->types[0]);
  type->slot = 0;
  loaded.plan->programs[1]->types.push_back(std::move(type));
  // float32[3, 16] at the traced batch of 3; of its two micro-batches one has two samples.
  EXPECT_EQ(compact(toJson(loaded).get("transfers")),
            R"([{"bytes":192,"bytes_per_microbatch":128,"from":0,"signature":"forward","to":1,"values":1}])");
}

TEST(InspectJson, ListsOperatorsWithoutSemanticsAsReplicated) {
  LoadedPlan loaded = load();
  loaded.plan->notes[0]->kind = "no-semantics";
  loaded.plan->notes[0]->op = "aten.linear";
  EXPECT_EQ(
      compact(toJson(loaded).get("replicated_ops")),
      R"([{"calls":3,"module_path":"layer0","op":"aten.linear","reason":"one operation takes most of the time"}])");
}

TEST(InspectJson, TellsWhatWasWeighed) {
  EXPECT_EQ(
      compact(toJson(load()).get("candidates")),
      R"([{"mesh":"pp=2,tp=1","microbatches":2,"peak_bytes":1024,"reason":"","schedule":"gpipe","seconds":0.00390625},)"
      R"({"mesh":"pp=1,tp=2","microbatches":2,"peak_bytes":1024,"reason":"takes 25.0 % longer","schedule":"gpipe",)"
      R"("seconds":0.0048828125}])");
}

TEST(InspectJson, TellsWhatDevicesHave) {
  LoadedPlan loaded = load();
  EXPECT_EQ(compact(toJson(loaded).get("devices")),
            R"([{"memory_bytes":null,"name":"cpu:0"},{"memory_bytes":null,"name":"cpu:1"}])");
  loaded.plan->devices = {"a", "b"};
  loaded.plan->memory_limits = {0, 1 << 20};
  EXPECT_EQ(compact(toJson(loaded).get("devices")),
            R"([{"memory_bytes":null,"name":"a"},{"memory_bytes":1048576,"name":"b"}])");
}

TEST(InspectJson, LeavesOutWhatIsNotPredicted) {
  LoadedPlan loaded = load();
  loaded.plan->predictions.clear();
  json::Object object = toJson(loaded);
  EXPECT_EQ(compact(object.get("balance")), "null");
  EXPECT_EQ(compact((*object.getArray("stages"))[0].getAsObject()->get("predicted_seconds")), "null");
}

TEST(InspectJson, CountsWhatModulesDoAndHold) {
  LoadedPlan loaded = load();
  // A second call of a module, and a module that only holds weights.
  loaded.plan->paths[2] = "layer0#1";
  loaded.plan->weights[1]->name = "tables.bias";
  json::Object object = toJson(loaded);
  EXPECT_EQ(compact((*object.getArray("stages"))[0].getAsObject()->get("modules")),
            R"([{"ops":2,"path":"layer0","weight_bytes":512},{"ops":0,"path":"tables","weight_bytes":64}])");
}

static constexpr char kHostile[] = "a<script>alert(\"1\")</script>&lt;'\\N\xE2\x80\xAE.b";

/// With that as a name wherever a plan has one.
static LoadedPlan loadHostile() {
  LoadedPlan loaded = load();
  Plan &plan = *loaded.plan;
  for (std::string *name :
       {&plan.paths[1], &plan.stages[0]->module_paths[0], &plan.weights[0]->name,
        &plan.weights[2]->aliases[0], &plan.signatures[0]->name, &plan.signatures[0]->inputs[0]->name,
        &plan.signatures[0]->inputs[0]->role, &plan.signatures[0]->outputs[0]->name,
        &plan.signatures[0]->symbols[0]->name, &plan.notes[0]->kind, &plan.notes[0]->text, &plan.producer,
        &plan.pass_pipeline, &plan.schedules[0]->name, &plan.candidates[0]->mesh,
        &plan.candidates[0]->schedule, &plan.candidates[1]->reason})
    *name = kHostile;
  plan.devices = {kHostile, kHostile};
  return loaded;
}

TEST(InspectHtml, TakesNamesAsText) {
  std::string page;
  llvm::raw_string_ostream stream(page);
  const LoadedPlan loaded = loadHostile();
  printHtml(stream, loaded, kHostile, forecastOf(*loaded.plan, kHostile));
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_EQ(page.find("alert(\""), std::string::npos);
  EXPECT_EQ(page.find("&lt;&"), std::string::npos) << "an entity of a name is text too";
  EXPECT_NE(page.find("a&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;lt;&apos;\\N"),
            std::string::npos)
      << page;
}

TEST(InspectHtml, ShowsPlansWithoutPredictions) {
  LoadedPlan loaded = load();
  loaded.plan->predictions.clear();
  std::string page;
  llvm::raw_string_ostream stream(page);
  printHtml(stream, loaded, "two.plan", forecastOf(*loaded.plan, "two.plan"));
  EXPECT_NE(page.find("Not predicted"), std::string::npos);
  EXPECT_NE(page.find("Not predicted: two.plan: does not say what its micro-batches take"),
            std::string::npos);
  EXPECT_EQ(page.find("class=\"timeline\""), std::string::npos);
}

static std::string pageOf(const LoadedPlan &loaded) {
  std::string page;
  llvm::raw_string_ostream stream(page);
  printHtml(stream, loaded, "two.plan", forecastOf(*loaded.plan, "two.plan"));
  return page;
}

static size_t countOf(llvm::StringRef page, llvm::StringRef part) { return page.count(part); }

TEST(InspectHtml, DrawsEachPassAndMessage) {
  const std::string page = pageOf(load());
  EXPECT_EQ(countOf(page, ": forward pass, "), 4u) << page;
  EXPECT_EQ(countOf(page, ": sends, or waits to, "), 2u);
  EXPECT_EQ(countOf(page, ": receives, or waits to, "), 2u);
  EXPECT_EQ(countOf(page, "class=\"step\""), 2u);
}

TEST(InspectHtml, DrawsShortPassesTogether) {
  LoadedPlan loaded = load();
  Schedule &schedule = *loaded.plan->schedules[0];
  schedule.microbatches = 40000;
  loaded.plan->signatures[0]->symbols[0]->traced = 40000;
  for (uint32_t rank : {0, 1})
    schedule.ranks[rank]->actions.clear();
  for (uint32_t microbatch = 0; microbatch < schedule.microbatches; ++microbatch) {
    schedule.ranks[0]->actions.push_back(makeAction(ActionKind::Forward, 0, microbatch));
    schedule.ranks[0]->actions.push_back(makeAction(ActionKind::Send, 0, microbatch, 1));
    schedule.ranks[1]->actions.push_back(makeAction(ActionKind::Recv, 1, microbatch, 0));
    schedule.ranks[1]->actions.push_back(makeAction(ActionKind::Forward, 1, microbatch));
  }
  const std::string page = pageOf(loaded);
  EXPECT_LT(page.size(), 2'000'000u);
  EXPECT_NE(page.find("F0.0 to F0.39999, 40000 of them: forward pass"), std::string::npos);
}

TEST(InspectHtml, AggregatesDevicesThatActAlike) {
  LoadedPlan loaded = load();
  Plan &plan = *loaded.plan;
  plan.mesh->dp = 3;
  // Two micro-batches each.
  plan.signatures[0]->symbols[0]->traced = 6;
  for (auto &stage : plan.stages)
    stage->ranks = {3 * stage->index, 3 * stage->index + 1, 3 * stage->index + 2};
  std::vector<std::unique_ptr<RankActions>> ranks;
  for (uint32_t rank = 0; rank < 6; ++rank) {
    ranks.push_back(std::make_unique<RankActions>(*plan.schedules[0]->ranks[rank / 3]));
    ranks.back()->rank = rank;
  }
  plan.schedules[0]->ranks = std::move(ranks);
  const std::string page = pageOf(loaded);
  EXPECT_EQ(countOf(page, ": forward pass, "), 4u) << page;
  EXPECT_NE(page.find("cpu:0…cpu:2"), std::string::npos);
}

TEST(InspectHtml, SaysWhereNothingWasWeighed) {
  LoadedPlan loaded = load();
  EXPECT_NE(pageOf(loaded).find("class=\"pareto\""), std::string::npos);
  loaded.plan->candidates.clear();
  const std::string page = pageOf(loaded);
  EXPECT_EQ(page.find("class=\"pareto\""), std::string::npos);
  EXPECT_NE(page.find("With --mesh auto, compile evaluates"), std::string::npos);
}

/// Times and bytes of any size, up to what a plan may hold.
TEST(InspectHtml, DrawsAnyAmount) {
  for (double seconds : {0.0, 1e-300, 1e-3, 1e9, 1e308})
    for (int64_t bytes : {int64_t(0), int64_t(1), INT64_MAX}) {
      LoadedPlan loaded = load();
      loaded.plan->candidates[0]->seconds = seconds;
      loaded.plan->candidates[1]->peak_bytes = bytes;
      const std::string page = pageOf(loaded);
      EXPECT_LT(page.size(), 100'000u);
      EXPECT_EQ(page.find("nan"), std::string::npos) << seconds << " " << bytes;
    }
}

TEST(InspectHtml, NestsPathsOfAnyDepth) {
  LoadedPlan loaded = load();
  loaded.plan->paths[1] = std::string(200'000, '.');
  std::string page;
  llvm::raw_string_ostream stream(page);
  printHtml(stream, loaded, "two.plan", forecastOf(*loaded.plan, "two.plan"));
  EXPECT_NE(page.find("layer1"), std::string::npos);
}

TEST(InspectDot, ShowsStagesAndTraffic) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  printDot(stream, load());
  EXPECT_EQ(text, R"(// Stages, and what one micro-batch sends between them.
digraph plan {
  rankdir=LR;
  node [shape=box, fontname="sans-serif", fontsize=11];
  edge [fontname="sans-serif", fontsize=10];
  s0 [label="stage 0, cpu:0\l3.00 ms, peak 0.00 MB\l2 ops, 0.00 MB of weights\llayer0\l"];
  s1 [label="stage 1, cpu:1\l1.00 ms, peak 0.00 MB\l1 op, 0.00 MB of weights\llayer1\l"];
  s0 -> s1 [label="0.00 MB"];
}
)");
}

TEST(InspectDot, TakesNamesAsText) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  printDot(stream, loadHostile());
  EXPECT_NE(text.find(R"(a<script>alert(\"1\")</script>&amp;lt;'\\N)"), std::string::npos) << text;
}

TEST(InspectText, ShowsSizesThatWereCompared) {
  LoadedPlan loaded = load();
  EXPECT_EQ(textOf(loaded).find("compared with the module"), std::string::npos);
  EXPECT_EQ(pageOf(loaded).find("Compared with the module"), std::string::npos);
  Symbol &symbol = *loaded.plan->signatures[0]->symbols[0];
  symbol.witnessed_min = 2;
  symbol.witnessed_max = 8;
  EXPECT_NE(textOf(loaded).find("  traced with batch=3\n  compared with the module at batch 2 to 8\n"),
            std::string::npos);
  EXPECT_NE(pageOf(loaded).find("Compared with the module at batch 2 to 8"), std::string::npos);
}

TEST(InspectText, ShowsStagesSignaturesAndNotes) {
  EXPECT_EQ(textOf(load()), R"(two.plan
  mesh      pp=2 dp=1 tp=1, 2 devices
  schedule  gpipe, 2 micro-batches, 1 slice
  weights   3 tensors, 0.00 MB over the stages
  balance   1.50 (slowest stage / mean)
  made by   cleave test
  checksum  0000000000000000000000000000000000000000000000000000000000000000

stage  device  ops  weights MB  predicted ms  peak MB  receives        modules
    0  cpu:0     2        0.00          3.00     0.00  -               layer0
    1  cpu:1     1        0.00          1.00     0.00  0.00 MB from 0  layer1

mesh       schedule  micro-batches  ms a step  peak MB
pp=2,tp=1  gpipe                 2       3.91     0.00  chosen
pp=1,tp=2  gpipe                 2       4.88     0.00  takes 25.0 % longer

forward
  takes  x  float32[batch, 8]  tokens
  gives  y  float32[batch, 4]  stage 1
  traced with batch=3

tied weights
  layer1.weight = head.weight  stage 1

notes
  balance: one operation takes most of the time (layer0 aten::linear)
)");
}

} // namespace cleave
