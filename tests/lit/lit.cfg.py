# lit's configuration of the pass tests; lit.site.cfg.py, made by CMake, sets the config.cleave_* paths and loads this.
import os

import lit.formats

config.name = "cleave"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = config.cleave_lit_dir
config.environment["PATH"] = os.pathsep.join([config.cleave_bin_dir, config.llvm_tools_dir, config.environment["PATH"]])
# FileCheck shows the whole input around a failed match.
config.environment["FILECHECK_OPTS"] = "--dump-input=fail"
