//===- ErrorLinesTest.cpp - Tests of what goes to the standard error ------===//
#include "codegen/plan/text/ErrorLines.h"
#include <cstdlib>
#include <gtest/gtest.h>
#include <iostream>

using namespace cleave::plan;

static void printAsLibrariesDo() {
  redirectStdStreams();
  std::cerr << "[/pytorch/third_party/gloo/gloo/transport/tcp/debug_logger.cc:9] ERROR failed to connect, "
               "willRetry=1, retry=1, retryLimit=3, rank=0\n"
            << "a warning\nin two lines" << std::endl;
  std::cout << "failed to connect\n";
  printLastLine("error: rank 0 stops: rank 1 has died");
  std::cerr << "too late\n";
  std::exit(1);
}

TEST(ErrorLines, LibrariesPrintWholeLinesWithoutTriesToConnect) {
  EXPECT_EXIT(printAsLibrariesDo(), testing::ExitedWithCode(1),
              "^libtorch: a warning\nlibtorch: in two lines\nlibtorch: failed to connect\n"
              "error: rank 0 stops: rank 1 has died\n$");
}
