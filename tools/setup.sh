#!/bin/sh
# Gets what a build needs: the system packages of cmake/packages.txt and a .venv with the packages of requirements.txt.
# Does nothing, and needs no network, where both are there already.
set -eu
cd "$(dirname "$0")/.."

fail() {
  echo "error: $*" >&2
  exit 1
}

# Of the packages on standard input, those that are not installed.
missing() {
  while read -r package; do
    # Debian writes "install ok installed"; a removed package is known but not installed.
    dpkg-query --show --showformat='${Status}' "$package" 2>/dev/null | grep -q ' installed$' || echo "$package"
  done | tr '\n' ' '
}

# Of the packages on standard input, those that apt has here.
available() {
  while read -r package; do
    if apt-cache show "$package" >/dev/null 2>&1; then echo "$package"; fi
  done
}

install_packages() {
  if [ "$(id -u)" -eq 0 ]; then
    sudo=
  elif command -v sudo >/dev/null; then
    sudo=sudo
  else
    echo "system packages: not root and no sudo" >&2
    return 1
  fi
  echo "installing $1"
  $sudo env DEBIAN_FRONTEND=noninteractive sh -c "apt-get update && apt-get install -y --no-install-recommends $1"
}

get_packages() {
  command -v dpkg-query >/dev/null || fail "system packages: no dpkg here, expected Debian 12 or Ubuntu 24.04;" \
    "install what cmake/packages.txt lists by your own means, then run cmake --preset release"
  listed=$(sed -e '/^#/d' -e 's/ .*//' cmake/packages.txt)
  needed=$(echo "$listed" | grep -v '^?' | missing)
  [ -z "$needed" ] || install_packages "$needed" || fail "system packages: have these installed: $needed"
  wanted=$(echo "$listed" | sed -n 's/^?//p' | available | missing)
  [ -z "$wanted" ] || install_packages "$wanted" || echo "note: tests that want these are skipped: $wanted" >&2
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

get_packages
make_environment
