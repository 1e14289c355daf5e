//===- HtmlMemory.cpp - Memory of devices ---------------------------------===//
#include "tools/cleave/inspect/HtmlMemory.h"
#include "codegen/plan/PlanQueries.h"
#include "tools/cleave/inspect/HtmlChart.h"
#include "tools/cleave/text/Wording.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>

namespace cleave {

using llvm::formatv;

/// Share of a row that the bar may fill.
static constexpr double kBarShare = 0.55;

static bool holdAlike(const DeviceForecast &a, const DeviceForecast &b) {
  return std::tie(a.weightBytes, a.peakBytes, a.memoryBytes) ==
         std::tie(b.weightBytes, b.peakBytes, b.memoryBytes);
}

/// The scale of bars: the devices' memory, unless almost none of it is used.
static double scaleOf(llvm::ArrayRef<DeviceForecast> devices) {
  int64_t most = 1, limit = 0;
  for (const DeviceForecast &device : devices) {
    most = std::max(most, device.peakBytes);
    limit = std::max(limit, device.memoryBytes.value_or(0));
  }
  return limit <= 20 * double(most) ? std::max(most, limit) : most;
}

static void writeBar(HtmlWriter &html, const DeviceForecast &device, double scale, double top,
                     double height) {
  auto bar = [&](llvm::StringRef kind, double begin, double bytes) {
    html.leaf("rect", "",
              {{"class", kind.str()},
               {"x", percentText(begin / scale)},
               {"y", tickText(top)},
               {"width", percentText(bytes / scale)},
               {"height", tickText(height)}});
  };
  bar("idle", 0, scale);
  bar("weights", 0, device.weightBytes);
  bar("live", device.weightBytes, device.peakBytes - device.weightBytes);
  if (device.memoryBytes && *device.memoryBytes <= scale) {
    // At the end it would be clipped.
    const std::string x = percentText(std::min(*device.memoryBytes / scale, 0.998));
    html.leaf("line", "",
              {{"class", "limit"},
               {"x1", x},
               {"x2", x},
               {"y1", tickText(top - 2)},
               {"y2", tickText(top + height + 2)}});
  }
}

static void writeBars(HtmlWriter &html, const plan::Plan &plan, llvm::ArrayRef<DeviceForecast> devices) {
  std::vector<RankGroup> rows =
      groupRanks(plan, [&](uint32_t a, uint32_t b) { return holdAlike(devices[a], devices[b]); });
  limitRows(html, rows);
  const double scale = scaleOf(devices), rowPixels = rowHeight(rows.size(), 26);
  auto chart = html.element("div", {{"class", "chart bars-of-memory"}});
  {
    auto names = html.element("div", {{"class", "names"}});
    for (const RankGroup &row : rows)
      writeRowName(html, plan, row, rowPixels, [] {});
  }
  {
    auto picture =
        html.element("svg", {{"class", "plot"},
                             {"width", "100%"},
                             {"height", tickText(rows.size() * rowPixels)},
                             {"role", "img"},
                             {"aria-label", "Memory at the peak; the table below has the numbers"}});
    for (auto [index, row] : llvm::enumerate(rows))
      writeBar(html, devices[row.first], scale, (index + (1 - kBarShare) / 2) * rowPixels,
               kBarShare * rowPixels);
  }
  auto numbers = html.element("div", {{"class", "numbers"}});
  for (const RankGroup &row : rows) {
    const DeviceForecast &device = devices[row.first];
    auto line = html.element(
        "div", {{"style", "height:" + tickText(rowPixels) + "px"}, {"data-rank", std::to_string(row.first)}});
    html.amount("peak_bytes", device.peakBytes, megabytes(device.peakBytes));
    if (device.memoryBytes) {
      html.text(" of ");
      html.amount("memory_bytes", *device.memoryBytes, megabytes(*device.memoryBytes));
    }
    html.text(" MB");
  }
}

/// Writes all numbers of the forecast, one row per device.
static void writeTable(HtmlWriter &html, const plan::Plan &plan, llvm::ArrayRef<DeviceForecast> devices) {
  auto fold = html.element("details", {{"class", "devices"}});
  html.leaf("summary", "Numbers of each device");
  html.table({"Device", "Stages", "Busy ms", "Idle ms", "Idle %", "Weights MB", "Peak MB", "Has MB"}, [&] {
    for (auto [rank, device] : llvm::enumerate(devices)) {
      auto row = html.element("tr", {{"data-rank", std::to_string(rank)}});
      auto stages = llvm::map_range(device.stages, [](uint32_t stage) { return std::to_string(stage); });
      html.leaf("td", deviceOf(plan, rank), {{"class", "path"}});
      html.leaf("td", llvm::join(stages, ", "));
      html.cell("busy_seconds", device.busySeconds, milliseconds(device.busySeconds));
      html.cell("idle_seconds", device.idleSeconds, milliseconds(device.idleSeconds));
      html.cell("bubble", device.bubble(), formatv("{0:f1}", device.bubble() * 100));
      html.cell("weight_bytes", device.weightBytes, megabytes(device.weightBytes));
      html.cell("peak_bytes", device.peakBytes, megabytes(device.peakBytes));
      html.cell("memory_bytes", device.memoryBytes,
                device.memoryBytes ? megabytes(*device.memoryBytes) : "–");
    }
  });
}

void writeMemory(HtmlWriter &html, const plan::Plan &plan, const PlanForecast &forecast) {
  html.leaf("h3", "Memory at the peak");
  std::vector<std::pair<llvm::StringRef, llvm::StringRef>> legend{{"weights", "weights"},
                                                                  {"live", "values beside them at the peak"}};
  if (llvm::any_of(forecast.devices,
                   [](const DeviceForecast &device) { return device.memoryBytes.has_value(); }))
    legend.emplace_back("limit", "what the device has");
  writeLegend(html, legend);
  writeBars(html, plan, forecast.devices);
  writeTable(html, plan, forecast.devices);
}

} // namespace cleave
