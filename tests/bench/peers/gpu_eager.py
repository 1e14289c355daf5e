"""The module itself, on the first GPU."""

import peer


def prepare(options):
    return peer.on_gpu(*peer.load(options))


if __name__ == "__main__":
    peer.run_alone(prepare)
