//===- PluginLoader.h - Finding the CUDA plugin -----------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_DEVICE_PLUGINLOADER_H
#define CLEAVE_RUNTIME_DEVICE_PLUGINLOADER_H

#include "runtime/device/DevicePlugin.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace cleave::runtime {

/// Folders to search for `cleave_cuda.so`: the folder of the program or library that contains the runtime,
/// and the `lib` folder beside it.
std::vector<std::string> pluginFolders();

/// Loads the CUDA plugin from the first of `folders` that has it, else from the program's run path. Loading
/// takes a second and 240 MB, so it is done only when a device needs it.
llvm::Expected<DevicePlugin *> loadCudaPlugin(llvm::ArrayRef<std::string> folders);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_PLUGINLOADER_H
