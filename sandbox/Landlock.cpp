//===- Landlock.cpp - Files that this process may open --------------------===//
#include "sandbox/Landlock.h"
#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cleave::sandbox {

/// What <linux/landlock.h> of Linux 6.1 does not have yet.
static constexpr uint64_t kTruncate = 1 << 14, kIoctlDevice = 1 << 15;
static constexpr uint64_t kBindTcp = 1 << 0, kConnectTcp = 1 << 1;
static constexpr uint64_t kScopeAbstractSockets = 1 << 0, kScopeSignals = 1 << 1;
struct RulesetAttributes {
  uint64_t files, network, scopes;
};

static constexpr uint64_t kReadFile = LANDLOCK_ACCESS_FS_READ_FILE,
                          kReadFolder = kReadFile | LANDLOCK_ACCESS_FS_READ_DIR,
                          kWriteFolder = kReadFolder | LANDLOCK_ACCESS_FS_WRITE_FILE |
                                         LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_REMOVE_FILE |
                                         kTruncate;

/// What a kernel of this version can refuse; all of it is, without a rule.
static RulesetAttributes refusedBy(int version) {
  RulesetAttributes refused{(LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1, 0, 0};
  if (version >= 2)
    refused.files |= LANDLOCK_ACCESS_FS_REFER;
  if (version >= 3)
    refused.files |= kTruncate;
  if (version >= 4)
    refused.network = kBindTcp | kConnectTcp;
  if (version >= 5)
    refused.files |= kIoctlDevice;
  if (version >= 6)
    refused.scopes = kScopeAbstractSockets | kScopeSignals;
  return refused;
}

namespace {
/// Of Linux: what a process may open.
struct Ruleset {
  const int handle;
  const uint64_t handled;

  void allowFile(const std::string &path) const { allow(path, kReadFile, /*isFile=*/true); }
  void allowFolder(const std::string &path, uint64_t rights) const { allow(path, rights, /*isFile=*/false); }

private:
  /// A path that is not there or that Landlock knows no rules for, as a pipe's, gets none: what is refused
  /// then is told by whoever opens it.
  void allow(const std::string &path, uint64_t rights, bool isFile) const {
    const int opened = open(path.c_str(), O_PATH | O_CLOEXEC);
    if (opened < 0)
      return;
    struct stat facts;
    if (fstat(opened, &facts) == 0 && (!isFile || S_ISREG(facts.st_mode))) {
      landlock_path_beneath_attr rule{};
      rule.allowed_access = handled & (S_ISDIR(facts.st_mode) ? rights : kReadFile);
      rule.parent_fd = opened;
      syscall(SYS_landlock_add_rule, handle, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
    }
    close(opened);
  }
};
} // namespace

int limitFiles(const FileAccess &allowed) {
  const int version = syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version < 1)
    return version < 0 ? -errno : -EOPNOTSUPP;
  const RulesetAttributes refused = refusedBy(version);
  // Older kernels take a longer structure whose end is 0.
  const int ruleset = syscall(SYS_landlock_create_ruleset, &refused, sizeof(refused), 0);
  if (ruleset < 0)
    return -errno;
  const Ruleset rules{ruleset, refused.files};
  for (const std::string &path : allowed.files)
    rules.allowFile(path);
  for (const std::string &path : allowed.folders)
    rules.allowFolder(path, kReadFolder);
  if (!allowed.writableFolder.empty())
    rules.allowFolder(allowed.writableFolder, kWriteFolder);
  const int error = syscall(SYS_landlock_restrict_self, ruleset, 0) == 0 ? 0 : errno;
  close(ruleset);
  return error ? -error : version;
}

} // namespace cleave::sandbox
