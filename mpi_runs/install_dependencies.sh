#!/usr/bin/env bash
# Installs what nestplan needs on Debian or Ubuntu; the only list of packages there is.
#   install_dependencies.sh          to build
#   install_dependencies.sh --tests  to build and test
# Does nothing when all is there. Needs root or sudo otherwise.
set -euo pipefail

packages=(g++ make cmake openmpi-bin libopenmpi-dev libhdf5-openmpi-dev libboost-serialization-dev
          nlohmann-json3-dev libfmt-dev libcli11-dev libceres-dev libtomlplusplus-dev libonnx-dev
          libprotobuf-dev protobuf-compiler coinor-libcbc-dev)
extras=()  # tests are skipped without them
case "${1:-}" in
  "") ;;
  --tests)
    packages+=(libgtest-dev clang-format ccache git hdf5-tools libxml2-utils python3)
    extras=(slurm-wlm munge chromium python3-torch) ;;
  *) echo "usage: $(basename "$0") [--tests]" >&2; exit 2 ;;
esac

# missing PACKAGE…: those that are not installed, a line each.
missing() {
  local package status
  for package; do
    status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || echo "$package"
  done
}
mapfile -t needed < <(missing "${packages[@]}")
mapfile -t optional < <(missing "${extras[@]}")
[ $((${#needed[@]} + ${#optional[@]})) -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null ||
    { echo "needs root or sudo to install: ${needed[*]} ${optional[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300)
echo "installing: ${needed[*]} ${optional[*]}" >&2
"${apt[@]}" update -q >&2
if [ ${#needed[@]} -gt 0 ]; then
  "${apt[@]}" install -y --no-install-recommends "${needed[@]}" >&2
fi
for package in "${optional[@]}"; do
  "${apt[@]}" install -y --no-install-recommends "$package" >&2 ||
    echo "$package cannot be installed here: the tests that need it will be skipped" >&2
done
