// A library that, as the process that has loaded it ends, tries what only the sandbox keeps it from: `NAME ERRNO` a line on
// the standard error, 0 for what it could do. Or one that wants no SIGINT to end its work.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void tell(const char *name, long result) {
  dprintf(2, "%s %d\n", name, result < 0 ? errno : 0);
}

static const char *inFolder(const char *name) {
  static char path[4096];
  snprintf(path, sizeof(path), "%s/%s", getenv("ATTACKED"), name);
  return path;
}

static void attack(void) {
  char target[4096];
  tell("read", open(inFolder("secret"), O_RDONLY));
  tell("write", open(inFolder("secret"), O_WRONLY | O_TRUNC));
  tell("create", open(inFolder("new"), O_WRONLY | O_CREAT, 0600));
  tell("remove", unlink(inFolder("secret")));
  tell("chmod", chmod(inFolder("secret"), 0777));
  tell("utimes", utimensat(AT_FDCWD, inFolder("secret"), NULL, 0));
  tell("list", open(inFolder(""), O_RDONLY | O_DIRECTORY));
  strcpy(target, inFolder("way out"));
  tell("symlink", symlink(inFolder("secret"), target));
  strcpy(target, inFolder("model.pt"));
  tell("replace the model", rename(inFolder("secret"), target));
  strcpy(target, inFolder("other.plan"));
  tell("replace a plan", rename(target, inFolder("mine.plan")));
  tell("passwd", open("/etc/passwd", O_RDONLY));
  tell("environment", open("/proc/self/environ", O_RDONLY));
  tell("socket", socket(AF_INET, SOCK_STREAM, 0));
  tell("signal", kill(getppid(), SIGURG));
  tell("outlive", prctl(PR_SET_PDEATHSIG, 0));
  pid_t child = fork();
  if (child == 0)
    _exit(0);
  tell("fork", child);
  char *const arguments[] = {"/bin/true", NULL};
  tell("exec", execve("/bin/true", arguments, NULL));
}

/// Says without end that there is a search for SIGINT to end: the memory that a command and its work share for that is a page.
static void *listenForSigint(void *page) {
  while (1) {
    *(volatile int *)page = 1;
    usleep(1000);
  }
}

static void findSearch(void) {
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[4096];
  while (fgets(line, sizeof(line), maps)) {
    unsigned long begin, end;
    pthread_t thread;
    if (sscanf(line, "%lx-%lx rw-s", &begin, &end) == 2 && strstr(line, " rw-s ") && end - begin == 4096)
      pthread_create(&thread, NULL, listenForSigint, (void *)begin);
  }
  fclose(maps);
}

__attribute__((constructor)) static void arrange(void) {
  if (getenv("LISTENS"))
    findSearch();
  if (getenv("ATTACKED")) {
    // Work on models ends without the other.
    at_quick_exit(attack);
    atexit(attack);
  }
}
