#!/bin/sh
# Installs sapwood in a development container. The container's builder runs it as root, with the options
# as variables. A release puts its install.sh beside this file, as install-release.sh, so the key that
# checks the download comes with the feature.
set -eu
cd "$(dirname "$0")"
sh ./install-release.sh --from "${RELEASE:?the option release}" --prefix /usr/local
if [ "${SHIM:-false}" = true ]; then
    # A directory that is first on the PATH of each login shell, and of the container's user.
    mkdir -p /usr/local/lib/sapwood/shim
    ln -sf /usr/local/bin/sapwood /usr/local/lib/sapwood/shim/git
    # shellcheck disable=SC2016 # the shell that reads the file expands PATH
    echo 'export PATH="/usr/local/lib/sapwood/shim:$PATH"' >/etc/profile.d/sapwood.sh
fi
