//===- PluginLoader.h - Finding the CUDA plugin -----------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_DEVICE_PLUGINLOADER_H
#define CLEAVE_RUNTIME_DEVICE_PLUGINLOADER_H

#include "runtime/device/DevicePlugin.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace cleave::runtime {

/// Where `cleave_cuda.so` may be: beside the program or library that holds the runtime, or in `lib` beside
/// its folder.
std::vector<std::string> pluginFolders();

/// The CUDA plugin, loaded from the first of `folders` that has it, else from the program's run path. Loading
/// takes a second and 240 MB, so it waits for a device that wants it.
llvm::Expected<DevicePlugin *> loadCudaPlugin(llvm::ArrayRef<std::string> folders);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_PLUGINLOADER_H
