//===- InspectHtml.cpp - A plan as a page ---------------------------------===//
#include "codegen/plan/Batch.h"
#include "codegen/plan/PlanQueries.h"
#include "codegen/plan/SafetensorsHeader.h"
#include "codegen/plan/ValidateParts.h"
#include "tools/cleave/inspect/HtmlLosses.h"
#include "tools/cleave/inspect/HtmlMemory.h"
#include "tools/cleave/inspect/HtmlPareto.h"
#include "tools/cleave/inspect/HtmlPipeline.h"
#include "tools/cleave/inspect/HtmlTimeline.h"
#include "tools/cleave/inspect/Inspect.h"
#include "tools/cleave/inspect/InspectCss.h"
#include "tools/cleave/text/Wording.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <numeric>

namespace cleave {

using namespace plan;
using llvm::formatv;

namespace {
class PageWriter {
public:
  PageWriter(llvm::raw_ostream &stream, const LoadedPlan &loaded, llvm::StringRef name,
             llvm::Expected<PlanForecast> forecast, llvm::ArrayRef<double> losses)
      : stream(stream), html(stream), plan(*loaded.plan), loaded(loaded), name(name),
        forecast(std::move(forecast)), losses(losses) {}
  void write();

private:
  void writeHead();
  void writeTitle();
  void writeFigures();
  void writePipelineSection();
  void writeForecast();
  void writeCandidates();
  void writeNotes();
  void writeTraffic();
  void writeSchedule();
  void writeSignature(const Signature &signature);
  void writeWeights();
  void writeOrigin();

  template <typename Function>
  void figure(llvm::StringRef label, const llvm::Twine &remark, Function writeValue);
  template <typename Function> void factOf(llvm::StringRef label, Function writeValue);
  void fact(llvm::StringRef label, const llvm::Twine &value) {
    factOf(label, [&] { html.text(value); });
  }
  void nameCell(llvm::StringRef dotted, llvm::ArrayRef<std::string> aliases = {});

  llvm::raw_ostream &stream;
  HtmlWriter html;
  const Plan &plan;
  const LoadedPlan &loaded;
  llvm::StringRef name;
  llvm::Expected<PlanForecast> forecast;
  llvm::ArrayRef<double> losses;
};
} // namespace

//===- Pieces -------------------------------------------------------------===//

template <typename Function>
void PageWriter::figure(llvm::StringRef label, const llvm::Twine &remark, Function writeValue) {
  auto group = html.element("div");
  html.leaf("dt", label);
  auto value = html.element("dd");
  writeValue();
  html.leaf("small", remark);
}

template <typename Function> void PageWriter::factOf(llvm::StringRef label, Function writeValue) {
  auto group = html.element("div");
  html.leaf("dt", label);
  auto value = html.element("dd");
  writeValue();
}

void PageWriter::nameCell(llvm::StringRef dotted, llvm::ArrayRef<std::string> aliases) {
  auto cell = html.element("td", {{"class", "path"}});
  html.name(dotted);
  for (const std::string &alias : aliases) {
    auto also = html.element("small");
    html.text(" = ");
    html.name(alias);
  }
}

//===- At a glance --------------------------------------------------------===//

void PageWriter::writeHead() {
  auto head = html.element("head");
  stream << R"(<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
)";
  html.leaf("title", name);
  stream << "\n<style>\n" << kInspectCss << "</style>\n";
}

void PageWriter::writeTitle() {
  const Schedule &schedule = scheduleOf(plan, 0);
  uint64_t devices = uint64_t(plan.mesh->pp) * plan.mesh->dp * plan.mesh->tp;
  html.leaf("h1", name);
  auto summary = html.element("p", {{"class", "summary"}});
  html.text(formatv("{0} on {1}", count(plan.stages.size(), "pipeline stage"), count(devices, "device")));
  if (const uint64_t parts = microbatchesOfAll(plan, schedule); parts > 1)
    html.text(formatv(", each batch in {0} parts", parts));
}

void PageWriter::writeFigures() {
  auto figures = html.element("dl", {{"class", "figures"}});
  if (std::optional<Balance> balance = balanceOf(plan))
    figure("Slowest stage", formatv("{0:f2} × the mean", balance->ratio()),
           [&] { html.amount("slowest_seconds", balance->slowest, milliseconds(balance->slowest) + " ms"); });
  auto largest = llvm::max_element(
      plan.predictions, [](const auto &a, const auto &b) { return a->peak_bytes < b->peak_bytes; });
  if (largest != plan.predictions.end())
    figure("Most memory", formatv("in stage {0}", (*largest)->stage), [&] {
      html.amount("largest_peak_bytes", (*largest)->peak_bytes, megabytes((*largest)->peak_bytes) + " MB");
    });
  std::vector<int64_t> weights = weightBytesOfStages(plan);
  int64_t bytes = std::accumulate(weights.begin(), weights.end(), int64_t{0});
  figure("Weights", count(plan.weights.size(), "tensor"),
         [&] { html.amount("all_weight_bytes", bytes, megabytes(bytes) + " MB"); });
  if (plan.stages.size() > 1) {
    int64_t sent = 0;
    for (const Transfer &transfer : transfers(plan, 0))
      sent += bytesOf(plan, 0, transfer, microbatchSizes(plan, 0));
    figure("Between stages", "a micro-batch",
           [&] { html.amount("all_bytes_per_microbatch", sent, megabytes(sent) + " MB"); });
    double bubble = bubbleByFormula(plan, scheduleOf(plan, 0).microbatches);
    figure("Bubble", "of one step alone, by formula",
           [&] { html.amount("bubble_by_formula", bubble, formatv("{0:f1} %", bubble * 100)); });
  }
}

//===- Sections -----------------------------------------------------------===//

void PageWriter::writePipelineSection() {
  auto section = html.element("section");
  html.leaf("h2", "Pipeline");
  {
    auto caption = html.element("p", {{"class", "caption"}});
    std::string whole = sizesText(*plan.signatures[0], tracedSizes(*plan.signatures[0]));
    std::string part = sizesText(*plan.signatures[0], microbatchSizes(plan, 0));
    html.text("Predicted at the traced sizes: time for a whole batch");
    if (!whole.empty())
      html.text(" (" + whole + ")");
    html.text("; memory and, at the arrows, traffic for one micro-batch");
    if (part != whole)
      html.text(" (" + part + ")");
    html.text(". Modules show operations and megabytes of weights.");
  }
  writePipeline(html, plan);
}

void PageWriter::writeForecast() {
  auto section = html.element("section", {{"id", "step"}});
  html.leaf("h2", "One step");
  if (!forecast) {
    html.leaf("p", "Not predicted: " + toString(forecast.takeError()), {{"class", "caption"}});
    return;
  }
  writeTimeline(html, plan, *forecast);
  writeMemory(html, plan, *forecast);
}

void PageWriter::writeCandidates() {
  auto section = html.element("section", {{"id", "evaluated"}});
  html.leaf("h2", "Configurations evaluated");
  if (plan.candidates.empty())
    html.leaf("p", "None. With --mesh auto, compile evaluates the ways to use the devices.",
              {{"class", "caption"}});
  else
    writePareto(html, plan.candidates);
}

void PageWriter::writeNotes() {
  if (plan.notes.empty())
    return;
  auto section = html.element("section");
  html.leaf("h2", "Notes");
  auto list = html.element("ul", {{"class", "notes"}});
  for (const auto &note : plan.notes) {
    auto item = html.element("li");
    html.leaf("b", note->kind);
    html.leaf("bdi", note->text);
  }
}

void PageWriter::writeTraffic() {
  std::vector<llvm::StringRef> columns{"From", "To", "Values", "MB a micro-batch", "MB at the traced sizes"};
  for (auto [index, signature] : llvm::enumerate(plan.signatures)) {
    std::vector<Transfer> all = transfers(plan, index);
    if (all.empty())
      continue;
    auto section = html.element("section");
    html.leaf("h2", plan.signatures.size() == 1 ? "Traffic" : "Traffic of " + signature->name);
    html.table(columns, [&, index = index] {
      for (const Transfer &transfer : all) {
        auto row =
            html.element("tr", {{"data-transfer", formatv("{0}-{1}", transfer.from, transfer.to).str()}});
        int64_t part = bytesOf(plan, index, transfer, microbatchSizes(plan, index));
        int64_t whole = bytesOf(plan, index, transfer, tracedSizes(*plan.signatures[index]));
        html.leaf("td", formatv("stage {0}", transfer.from));
        html.leaf("td", formatv("stage {0}", transfer.to));
        html.cell("values", transfer.inputs.size(), std::to_string(transfer.inputs.size()));
        html.cell("bytes_per_microbatch", part, megabytes(part));
        html.cell("bytes", whole, megabytes(whole));
      }
    });
  }
}

void PageWriter::writeSchedule() {
  auto section = html.element("section");
  html.leaf("h2", "Schedule");
  auto facts = html.element("dl", {{"class", "facts"}});
  const Schedule &schedule = scheduleOf(plan, 0);
  const Signature &signature = *plan.signatures[0];
  fact("Order", schedule.name);
  fact("Mesh", meshText(*plan.mesh));
  factOf("Micro-batches", [&] {
    html.amount("microbatches", schedule.microbatches, std::to_string(schedule.microbatches));
    if (signature.batch >= 0)
      html.text(" parts of " + signature.symbols[signature.batch]->name +
                (plan.mesh->dp > 1 ? ", of each data-parallel rank" : ""));
  });
  factOf("Slices", [&] { html.amount("slices", schedule.slices, std::to_string(schedule.slices)); });
  if (plan.precision != DType::Unknown)
    fact("Products in", nameOf(plan.precision));
  if (!plan.capture_points.empty())
    fact("To capture", count(plan.capture_points.size(), "module output"));
}

void PageWriter::writeSignature(const Signature &signature) {
  auto section = html.element("section");
  html.leaf("h2", "Inputs and outputs of " + signature.name);
  html.table({"", "Name", "Type", ""}, [&] {
    for (const auto &input : signature.inputs) {
      auto row = html.element("tr");
      html.leaf("td", "takes");
      nameCell(input->name);
      html.leaf("td", typeText(signature, *input->type), {{"class", "path"}});
      html.leaf("td", input->role);
    }
    for (const auto &output : signature.outputs) {
      auto row = html.element("tr");
      html.leaf("td", "gives");
      nameCell(output->name);
      html.leaf("td", typeText(signature, *output->type), {{"class", "path"}});
      html.leaf("td", formatv("stage {0}", output->stage));
    }
  });
  if (!signature.symbols.empty())
    html.leaf("p", "Traced with " + sizesText(signature, tracedSizes(signature)), {{"class", "caption"}});
  if (const std::string sizes = witnessedText(signature); !sizes.empty())
    html.leaf("p", "Compared with the module at " + sizes, {{"class", "caption"}});
}

void PageWriter::writeWeights() {
  static constexpr llvm::StringRef kRoles[] = {"parameter", "buffer", "constant"};
  auto section = html.element("section");
  html.leaf("h2", count(plan.weights.size(), "weight"));
  html.table({"Name", "Type", "MB", "Where", "Role"}, [&] {
    for (auto [weight, stages] : llvm::zip(plan.weights, stagesOfWeights(plan))) {
      auto row = html.element("tr", {{"data-weight", weight->name}});
      nameCell(weight->name, weight->aliases);
      auto sizes = llvm::map_range(weight->shape, [](int64_t size) { return std::to_string(size); });
      html.leaf("td", nameOf(weight->dtype) + "[" + llvm::join(sizes, ", ") + "]", {{"class", "path"}});
      html.leaf("td", megabytes(bytesOf(weight->dtype, weight->shape).value_or(0)), {{"class", "number"}});
      html.leaf("td", stages.empty() ? "nowhere" : stagesText(stages));
      html.leaf("td", kRoles[static_cast<size_t>(weight->role)]);
    }
  });
}

void PageWriter::writeOrigin() {
  auto footer = html.element("footer");
  auto facts = html.element("dl", {{"class", "facts"}});
  fact("Made by", plan.producer);
  fact("Passes", plan.pass_pipeline);
  fact("Plan", toHex(loaded.rootChecksum));
  fact("Model file", toHex(toDigest(*plan.fingerprint)));
}

void PageWriter::write() {
  stream << "<!doctype html>\n";
  auto page = html.element("html", {{"lang", "en"}});
  writeHead();
  auto body = html.element("body");
  {
    auto header = html.element("header");
    writeTitle();
    writeFigures();
  }
  {
    auto main = html.element("main");
    writePipelineSection();
    writeForecast();
    if (!losses.empty())
      writeLosses(html, losses);
    writeCandidates();
    {
      auto below = html.element("div", {{"class", "below"}});
      writeNotes();
      writeSchedule();
      for (const auto &signature : plan.signatures)
        writeSignature(*signature);
      writeTraffic();
    }
    writeWeights();
  }
  writeOrigin();
}

void printHtml(llvm::raw_ostream &stream, const LoadedPlan &loaded, llvm::StringRef name,
               llvm::Expected<PlanForecast> forecast, llvm::ArrayRef<double> losses) {
  PageWriter(stream, loaded, name, std::move(forecast), losses).write();
}

} // namespace cleave
