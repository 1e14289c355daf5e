#!/bin/sh
# Gets what a build needs: the system packages of cmake/packages.txt and a .venv with the packages of requirements.txt.
# Does nothing, and needs no network, where both are there already.
set -eu
cd "$(dirname "$0")/.."

fail() {
  echo "error: $*" >&2
  exit 1
}

missing_packages() {
  sed -e '/^#/d' -e 's/ .*//' cmake/packages.txt | while read -r package; do
    # Debian writes "install ok installed"; a removed package is known but not installed.
    dpkg-query --show --showformat='${Status}' "$package" 2>/dev/null | grep -q ' installed$' || echo "$package"
  done
}

install_packages() {
  command -v dpkg-query >/dev/null || fail "system packages: no dpkg here, expected Debian 12 or Ubuntu 24.04;" \
    "install what cmake/packages.txt lists by your own means, then run cmake --preset release"
  missing=$(missing_packages | tr '\n' ' ')
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" -eq 0 ]; then
    sudo=
  elif command -v sudo >/dev/null; then
    sudo=sudo
  else
    fail "system packages: not root and no sudo; have these installed: $missing"
  fi
  echo "installing $missing"
  $sudo env DEBIAN_FRONTEND=noninteractive sh -c "apt-get update && apt-get install -y --no-install-recommends $missing" ||
    fail "system packages: apt failed; have these installed: $missing"
}

make_environment() {
  # The stamp is the list that the environment was made from, written last: a broken-off set-up starts again.
  if cmp -s requirements.txt .venv/requirements.stamp; then
    return 0
  fi
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "python3: $(python3 --version), expected 3.11 or newer; put one first in PATH"
  echo "installing the packages of requirements.txt into .venv"
  rm -rf .venv
  python3 -m venv .venv || fail "python3: cannot make .venv; install python3-venv"
  .venv/bin/pip install --no-deps --requirement requirements.txt
  .venv/bin/pip check
  cp requirements.txt .venv/requirements.stamp
}

install_packages
make_environment
