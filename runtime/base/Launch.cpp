//===- Launch.cpp - Rank and rendezvous of this process -------------------===//
#include "runtime/base/Launch.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"
#include <cstdlib>

namespace cleave::runtime {

using llvm::Error;
using llvm::Expected;
using llvm::StringRef;
using llvm::Twine;

namespace {
/// Environment variables by which a launcher tells a process its rank.
struct Launcher {
  const char *name, *rank, *size, *localSize, *localRank;
  /// The same in all processes of a job, and different between jobs.
  std::initializer_list<const char *> job;
  /// How to set a variable for all ranks.
  const char *remedy;
};

class Reader {
public:
  explicit Reader(llvm::function_ref<std::optional<std::string>(StringRef)> variable) : variable(variable) {}
  Expected<std::optional<Launch>> read() const;

private:
  bool has(StringRef name) const { return variable(name).has_value(); }
  /// Fails where `name` is missing or no number up to `most`.
  Error number(const Launcher &launcher, const char *name, uint32_t most, uint32_t &value) const;
  Expected<Launch> place(const Launcher &launcher) const;
  Error meetingPoint(const Launcher &launcher, Launch &launch) const;
  Expected<std::string> addressFor(const Launcher &launcher, const Launch &launch) const;

  const llvm::function_ref<std::optional<std::string>(StringRef)> variable;
};
} // namespace

static constexpr uint32_t kMaxRanks = 1 << 20;

static const Launcher kTorchrun{"torchrun",   "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
                                "LOCAL_RANK", {},     "set"};
static const Launcher kOpenMpi{"Open MPI",
                               "OMPI_COMM_WORLD_RANK",
                               "OMPI_COMM_WORLD_SIZE",
                               "OMPI_COMM_WORLD_LOCAL_SIZE",
                               "OMPI_COMM_WORLD_LOCAL_RANK",
                               {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri"},
                               "pass mpirun -x"};
// Only a job step has these: in a batch script, which is one process, SLURM_NTASKS is the number of tasks
// that it may start.
static const Launcher kSlurm{"Slurm",
                             "SLURM_PROCID",
                             "SLURM_STEP_NUM_TASKS",
                             "SLURM_STEP_TASKS_PER_NODE",
                             "SLURM_LOCALID",
                             {"SLURM_JOB_ID", "SLURM_STEP_ID"},
                             "export"};
static const Launcher kPmi{"PMI", "PMI_RANK",          "PMI_SIZE", "MPI_LOCALNRANKS", "MPI_LOCALRANKID",
                           {},    "pass mpiexec -genv"};

static Error missing(const Launcher &launcher, const char *found, const Twine &name, const Twine &remedy) {
  return llvm::createStringError(Twine(found) + " is set, as by " + launcher.name + ", but " + name +
                                 " is not; " + remedy + ", or unset " + found + " to run in one process");
}

Error Reader::number(const Launcher &launcher, const char *name, uint32_t most, uint32_t &value) const {
  std::optional<std::string> text = variable(name);
  if (!text)
    return missing(launcher, has(launcher.rank) ? launcher.rank : launcher.size, name,
                   Twine("start the processes with ") + launcher.name);
  if (StringRef(*text).getAsInteger(10, value) || value > most)
    return llvm::createStringError(Twine(name) + ": found '" + *text + "', expected a number up to " +
                                   Twine(most));
  return Error::success();
}

std::string firstHost(StringRef list) {
  const size_t bracket = list.find('['), comma = list.find(',');
  if (bracket > comma || bracket == StringRef::npos)
    return list.take_front(comma).str();
  const size_t end = list.find(']', bracket);
  if (end == StringRef::npos)
    return "";
  StringRef numbers = list.slice(bracket + 1, end), rest = list.drop_front(end + 1);
  return (list.take_front(bracket) + numbers.take_front(numbers.find_first_of("-,")) +
          rest.take_front(rest.find(',')))
      .str();
}

Expected<std::string> Reader::addressFor(const Launcher &launcher, const Launch &launch) const {
  if (auto address = variable("MASTER_ADDR"))
    return *address;
  if (auto nodes = variable("SLURM_STEP_NODELIST"); nodes && launcher.rank == kSlurm.rank)
    return firstHost(*nodes);
  if (has(launcher.localSize) && launch.localSize == launch.size)
    return "127.0.0.1";
  return missing(launcher, launcher.rank, "MASTER_ADDR",
                 Twine(launcher.remedy) + " MASTER_ADDR, the host of rank 0");
}

Error Reader::meetingPoint(const Launcher &launcher, Launch &launch) const {
  if (Error error = addressFor(launcher, launch).moveInto(launch.address))
    return error;
  std::string job;
  for (const char *name : launcher.job)
    if (auto value = variable(name))
      job += *value + "/";
  if (has("MASTER_PORT")) {
    uint32_t port = 0;
    if (Error error = number(launcher, "MASTER_PORT", 65535, port))
      return error;
    launch.port = uint16_t(port);
  } else if (!job.empty()) {
    // Below the system's range of ephemeral ports.
    launch.port = uint16_t(20000 + llvm::xxh3_64bits(StringRef(job)) % 10000);
  } else {
    return missing(launcher, launcher.rank, "MASTER_PORT",
                   Twine(launcher.remedy) + " MASTER_PORT, a free port");
  }
  launch.prefix = "cleave/" + job;
  return Error::success();
}

Expected<Launch> Reader::place(const Launcher &launcher) const {
  Launch launch;
  if (Error error = number(launcher, launcher.rank, kMaxRanks, launch.rank))
    return error;
  if (Error error = number(launcher, launcher.size, kMaxRanks, launch.size))
    return error;
  if (launch.rank >= launch.size)
    return llvm::createStringError(Twine(launcher.rank) + ": found " + Twine(launch.rank) +
                                   ", expected less than " + launcher.size + ", which is " +
                                   Twine(launch.size));
  // Slurm writes `2(x3),1`: processes per node, with repetitions.
  std::string local = variable(launcher.localSize).value_or("");
  if (StringRef(local).take_while(llvm::isDigit).getAsInteger(10, launch.localSize) || launch.localSize == 0)
    launch.localSize = launch.size;
  // Code that needs it reports that it is missing.
  uint32_t place = 0;
  if (!StringRef(variable(launcher.localRank).value_or("")).getAsInteger(10, place))
    launch.localRank = place;
  return launch;
}

Expected<std::optional<Launch>> Reader::read() const {
  for (const Launcher *launcher : {&kTorchrun, &kOpenMpi, &kSlurm, &kPmi}) {
    // A batch script of Slurm has SLURM_PROCID, too, and is no step.
    if (launcher == &kSlurm || launcher == &kPmi ? !has(launcher->size)
                                                 : !has(launcher->rank) && !has(launcher->size))
      continue;
    Expected<Launch> launch = place(*launcher);
    if (!launch)
      return launch.takeError();
    if (launch->size == 1)
      return std::nullopt;
    if (Error error = meetingPoint(*launcher, *launch))
      return error;
    launch->agentHoldsStore = launcher == &kTorchrun && variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
    launch->prefix += variable("TORCHELASTIC_RUN_ID").value_or("") + "/" +
                      variable("TORCHELASTIC_RESTART_COUNT").value_or("0");
    return std::move(*launch);
  }
  return std::nullopt;
}

Expected<std::optional<Launch>>
readLaunch(llvm::function_ref<std::optional<std::string>(StringRef)> variable) {
  return Reader(variable).read();
}

Expected<std::optional<Launch>> launchFromEnvironment() {
  return readLaunch([](StringRef name) -> std::optional<std::string> {
    const char *value = std::getenv(name.str().c_str());
    return value && *value ? std::optional<std::string>(value) : std::nullopt;
  });
}

} // namespace cleave::runtime
