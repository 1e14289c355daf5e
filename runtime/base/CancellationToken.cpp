//===- CancellationToken.cpp - Deadline and failure of a request ----------===//
#include "runtime/base/CancellationToken.h"
#include <algorithm>

namespace cleave::runtime {

std::string CancellationToken::message() const {
  std::lock_guard lock(mutex);
  return failure;
}

void CancellationToken::begin() {
  std::lock_guard lock(mutex);
  if (begun == Clock::time_point())
    begun = Clock::now();
}

CancellationToken::Clock::time_point CancellationToken::deadline() const {
  {
    std::lock_guard lock(mutex);
    if (begun != Clock::time_point())
      return begun + options.timeout;
  }
  return (options.earliestBegin ? std::max(made, options.earliestBegin()) : made) + options.timeout;
}

bool CancellationToken::hasEnded() const {
  std::lock_guard lock(mutex);
  return cancelled || isFinished;
}

bool CancellationToken::cancel(const std::string &message) {
  return !hasEnded() && commit(options.processes ? options.processes->fail(message) : message);
}

bool CancellationToken::cancelLost(uint32_t rank, const std::string &context) {
  return commit(options.processes->reportLost(rank, context));
}

bool CancellationToken::commit(std::string agreed) {
  {
    std::lock_guard lock(mutex);
    if (cancelled || isFinished)
      return false;
    failure = std::move(agreed);
    cancelled = true;
  }
  std::lock_guard lock(wakersMutex);
  for (const std::function<void()> &wake : wakers)
    wake();
  return true;
}

void CancellationToken::checkDeadline() {
  if (!hasEnded() && Clock::now() >= deadline())
    expire();
}

void CancellationToken::expire() {
  std::string ranks = options.describeRanks ? options.describeRanks() : "";
  if (options.processes)
    ranks = options.processes->describeRanks();
  const std::string message = "no result after " + std::to_string(options.timeout / std::chrono::seconds(1)) +
                              " s" + (ranks.empty() ? "" : ": " + ranks) + "; allow more time (--timeout)";
  if (cancel(message) && options.onTimeout)
    options.onTimeout(message);
}

bool CancellationToken::finish() {
  std::lock_guard lock(mutex);
  isFinished = true;
  return !cancelled;
}

CancellationToken::Waker::Waker(CancellationToken &token, std::function<void()> wake) : token(token) {
  std::lock_guard lock(token.wakersMutex);
  place = token.wakers.insert(token.wakers.end(), std::move(wake));
}

CancellationToken::Waker::~Waker() {
  std::lock_guard lock(token.wakersMutex);
  token.wakers.erase(place);
}

} // namespace cleave::runtime
