//===- PluginLoader.cpp ---------------------------------------------------===//
#include "runtime/device/PluginLoader.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <dlfcn.h>
#include <link.h>

namespace cleave::runtime {

namespace path = llvm::sys::path;

static constexpr llvm::StringLiteral kFileName = "cleave_cuda.so";
/// The function that returns the plugin. Its number changes with DevicePlugin.
static constexpr char kEntry[] = "cleaveDevicePlugin3";

/// Path of the program, or of the library that the runtime was linked into.
static std::string ownFile() {
  Dl_info info;
  link_map *map = nullptr;
  void *here = reinterpret_cast<void *>(&ownFile);
  // The main program has no name in the link map.
  if (dladdr1(here, &info, reinterpret_cast<void **>(&map), RTLD_DL_LINKMAP) && map && *map->l_name)
    return map->l_name;
  return llvm::sys::fs::getMainExecutable(nullptr, here);
}

std::vector<std::string> pluginFolders() {
  std::string folder = path::parent_path(ownFile()).str();
  llvm::SmallString<256> lib(path::parent_path(folder));
  path::append(lib, "lib");
  return {folder, lib.str().str()};
}

/// Null if there is no such file. A name without a folder is searched for by the dynamic linker.
static llvm::Expected<DevicePlugin *> loadPlugin(const std::string &file) {
  void *library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    llvm::StringRef reason = dlerror();
    if (reason.starts_with(file + ": cannot open shared object file: No such file"))
      return nullptr;
    return llvm::createStringError("cannot load the CUDA plugin: " + reason);
  }
  auto *entry = reinterpret_cast<DevicePlugin *(*)()>(dlsym(library, kEntry));
  if (!entry)
    return llvm::createStringError(file + ": is of another version of Cleave, expected one that has " +
                                   kEntry + "; build both together");
  return entry();
}

llvm::Expected<DevicePlugin *> loadCudaPlugin(llvm::ArrayRef<std::string> folders) {
  std::vector<std::string> files;
  for (const std::string &folder : folders) {
    llvm::SmallString<256> file(folder);
    path::append(file, kFileName);
    files.push_back(file.str().str());
  }
  // A program that links an installed Cleave is elsewhere, and has the plugin's folder in its run path.
  files.push_back(kFileName.str());
  for (const std::string &file : files)
    if (auto plugin = loadPlugin(file); !plugin || *plugin)
      return plugin;
  return llvm::createStringError("found no CUDA plugin, expected " + kFileName + " in " +
                                 llvm::join(folders, " or ") +
                                 ", as a build makes it where CUDA's headers are");
}

} // namespace cleave::runtime
