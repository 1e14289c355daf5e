//===- ErrorLines.cpp - Whole lines on the standard error -----------------===//
#include "codegen/plan/text/ErrorLines.h"
#include "codegen/plan/text/Printable.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <iostream>
#include <mutex>
#include <streambuf>
#include <string>
#include <utility>

namespace cleave::plan {

/// Guards everything below.
static std::mutex printing;
static bool isOver = false;
static std::atomic<bool> ownNote = false;
static std::atomic<bool> *isWithinLine = &ownNote;

static void print(const std::string &lines, bool isLast) {
  std::lock_guard lock(printing);
  if (std::exchange(isOver, isOver || isLast))
    return;
  isWithinLine->store(true);
  llvm::errs() << lines;
  isWithinLine->store(false);
  // Otherwise the program would fail at exit because of an error that is ignored.
  llvm::errs().clear_error();
}

void printLine(llvm::StringRef line) { print((line + "\n").str(), /*isLast=*/false); }

void printLastLine(llvm::StringRef line) { print((line + "\n").str(), /*isLast=*/true); }

void printLines(llvm::StringRef prefix, llvm::StringRef text) {
  std::string lines;
  for (llvm::StringRef line : llvm::split(text, '\n'))
    lines += (prefix + printable(line) + "\n").str();
  print(lines, /*isLast=*/false);
}

/// True for what Gloo prints of each failed try to connect. When no try succeeds, an exception says so.
static bool isConnectTry(llvm::StringRef line) {
  return line.contains("gloo") && line.contains(" failed to connect, willRetry=");
}

namespace {
/// Buffers text up to its newline.
class LineBuffer : public std::streambuf {
  int_type overflow(int_type character) override {
    const char byte = traits_type::to_char_type(character);
    if (!traits_type::eq_int_type(character, traits_type::eof()))
      xsputn(&byte, 1);
    return traits_type::not_eof(character);
  }
  std::streamsize xsputn(const char *text, std::streamsize size) override {
    std::lock_guard lock(mutex);
    begun.append(text, size);
    // Limit of the text that is buffered without a newline.
    constexpr size_t kLongest = 64 << 10;
    if (begun.size() > kLongest)
      begun += '\n';
    if (const size_t end = begun.rfind('\n'); end != std::string::npos) {
      for (llvm::StringRef line : llvm::split(llvm::StringRef(begun).take_front(end), '\n'))
        if (!isConnectTry(line))
          printLines("libtorch: ", line);
      begun.erase(0, end + 1);
    }
    return size;
  }

  std::mutex mutex;
  std::string begun;
};
} // namespace

void redirectStdStreams() {
  // Never freed, since the streams are flushed at the very end.
  static auto *buffer = new LineBuffer;
  std::cout.rdbuf(buffer);
  std::cerr.rdbuf(buffer);
}

void shareLineState(std::atomic<bool> &isWithin) { isWithinLine = &isWithin; }

} // namespace cleave::plan
