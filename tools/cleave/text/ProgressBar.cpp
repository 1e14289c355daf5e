//===- ProgressBar.cpp - Progress on a terminal ---------------------------===//
#include "tools/cleave/text/ProgressBar.h"
#include "codegen/plan/text/Printable.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Locale.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"
#include <sys/ioctl.h>
#include <unistd.h>

namespace cleave {

using llvm::formatv;

/// Time until a step is shown, and between two drawings.
static constexpr std::chrono::milliseconds kUntilShown{200}, kBetweenDrawings{100};
static constexpr int kMaxBarColumns = 30, kMinBarColumns = 8;
static constexpr char kEmptyLine[] = "\r\x1b[K";

bool ProgressBar::canDraw() {
  std::optional<std::string> terminal = llvm::sys::Process::GetEnv("TERM");
  return llvm::sys::Process::StandardErrIsDisplayed() && terminal && !terminal->empty() &&
         *terminal != "dumb";
}

void ProgressBar::erase() {
  if (canDraw())
    llvm::errs() << kEmptyLine;
}

static int columnsOfTerminal() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/// The part of the text, which is untrusted, that fits the columns; without control characters.
static std::string fit(llvm::StringRef text, int columns) {
  std::string shown = plan::printable(text);
  while (!shown.empty() && llvm::sys::locale::columnWidth(shown) > columns)
    shown.pop_back();
  // Not within a character.
  return llvm::sys::locale::columnWidth(shown) < 0 ? fit(shown.substr(0, shown.size() - 1), columns) : shown;
}

ProgressBar::ProgressBar() : thread([this] { work(); }) {}

ProgressBar::~ProgressBar() {
  {
    std::lock_guard lock(mutex);
    isEnding = true;
  }
  ended.notify_one();
  thread.join();
}

void ProgressBar::show(const std::string &name, std::optional<double> share) {
  std::lock_guard lock(mutex);
  auto isOf = [](llvm::StringRef text) { return text.split(": ").first; };
  if (isOf(name) != isOf(step))
    begun = Clock::now();
  step = name;
  done = share;
}

/// `writing 652 MB of weights  [=======>      ]  61 %  4 s`, no longer than the terminal is wide.
std::string ProgressBar::line(Clock::time_point now) const {
  int columns = columnsOfTerminal() - 1;
  std::string end = formatv("  {0} s", std::chrono::duration_cast<std::chrono::seconds>(now - begun).count());
  if (done)
    end = formatv("  {0,3} %{1}", int(*done * 100), end);
  std::string text = fit(step, columns - int(end.size()));
  int room = columns - llvm::sys::locale::columnWidth(text) - int(end.size()) - 4;
  if (int length = std::min(room, kMaxBarColumns); done && length >= kMinBarColumns) {
    int filled = int(*done * length);
    std::string bar(filled, '=');
    bar += filled < length ? ">" : "";
    bar.resize(length, ' ');
    text += "  [" + bar + "]";
  }
  return text + end;
}

void ProgressBar::work() {
  bool isShown = false;
  std::unique_lock lock(mutex);
  while (!ended.wait_for(lock, kBetweenDrawings, [&] { return isEnding; })) {
    auto now = Clock::now();
    bool isLong = !step.empty() && now - begun >= kUntilShown;
    if (isLong)
      llvm::errs() << kEmptyLine << line(now);
    else if (isShown)
      llvm::errs() << kEmptyLine;
    isShown = isLong;
  }
  if (isShown)
    llvm::errs() << kEmptyLine;
}

Progress showOn(std::optional<ProgressBar> &bar) {
  if (!ProgressBar::canDraw())
    return {};
  bar.emplace();
  return [&bar](const std::string &step, std::optional<double> done) { bar->show(step, done); };
}

} // namespace cleave
